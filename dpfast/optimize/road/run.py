"""The road: one engine for every default fit.

Rows are whitened with a released Gram; a clipped moment says about where coefficients lie; a round
or two of clipped scores go nearer where the loss bends; a released curvature there whitens rows
again, so that full steps converge and a step's noise is the same multiple of the standard error in
every direction; and a histogram of the scores' lengths says to which norm they are held.  A loss is
its score and curvature in the predictor (:meth:`dpfast.models.Loss._score_at`), and nothing here
asks which it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.curator.whitened import FREE, At, Discount, Held, Whitened
from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.models.losses import MASSES, NODES
from dpfast.optimize.road.histogram import (
    CANCELS,
    Lengths,
    best_bound,
    clipped_of_few,
    least_exponent,
    tops_of_cells,
)
from dpfast.optimize.road.steps import (
    FARTHEST,
    HEARD,
    LEAST,
    STEEP,
    STEPS,
    Asked,
    Bends,
    Rough,
    bent_along,
    inside,
    middle_of,
    normal_rows,
    not_farther,
    typical_curvature,
    walk,
    within,
)
from dpfast.privacy.rounding import MARGIN_SHARES

Array = NDArray[np.float64]

#: Shares of ``mu^2`` of a matrix, a vector and a histogram where records are many; where they are
#: few each is larger by so many times itself.  The steps have the rest.
SHARES = {"matrix": 0.05, "vector": 0.02, "histogram": 0.02}
MORE = 1.0

#: Of these, what a round spends on one of each: its curvature, its score and the scores' lengths;
#: the score of the last is the first step's, and has its share.
ROUND = 0.25

#: Rounds at most; the last is one whose score is hardly told from noise.
MOST_ROUNDS = 6

#: Peaks of a curvature over its mean beyond which that of a larger scale is asked for: a rare level
#: would have hardly any record in the window.
EVEN_PEAK = 3.0

#: Few: n mu below this for eight coefficients, growing with their square root.
FEW = 3000.0

#: Share of what the steps have that the first one gets.
FIRST = 0.05

#: Radius of the first Gram's weights in sqrt(p), for standardised columns; and at least, as a part
#: of the longest: rows of a rare level are long, and counted in part would be made longer still.
FIRST_RADIUS, FIRST_PART = 1.5, 0.5

#: Standard deviations of its noise from which on a count, or the size of a matrix, is of records.
TOLD = 3.0

#: Slopes of logarithms that covariances with means say are too steep for columns with a long right
#: tail, and a step from a start that is too flat is shorter than one from too steep a one.
OVERSTATED = 0.5

#: Bound on the response in the pilot estimate, in its standard deviations.
PILOT_CAP = 3.0

#: Largest noise of the second Gram, as ``sqrt(2 p)`` times its scale; its radius is the longest
#: that keeps it.
GRAM_NOISE = 0.3

#: Part of the records up to which a sample tells the curvature of all.
QUARTER = 0.25

#: Mean square of the lengths of rows beyond those that a sample shows, as a part of all, up to
#: which a sample tells of rows what is to be known.
LIGHT = 0.05

#: Of the second Gram's eigenvalues, which are about 1 where rows longer than its radius do not
#: matter; below, hardly any others tell a direction, and steps that do not discount them would be
#: lost, for all coefficients, by one column of hardly anything but zeros.
THIN = 0.35

#: Cells to a factor 2 in the histograms of rows and of scores: larger cells see tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Cells of the finer histogram.
MOST_CELLS = len(tops_of_cells(FINE))

#: Median of the absolute value of a standard normal number.
MEDIAN = 0.6745

#: Sizes of responses are held to this and its inverse.
LARGEST = 1e60


#: Few rows, and as many as are asked for scores.
Both = tuple[Whitened, Whitened]

#: What a run asks for; see :attr:`Setting.asks`.
Asks = tuple[bool, int, bool]


class Scores(NamedTuple):
    """Mean scores where they were asked for, and second moments of the rows, both of the design.

    Scores have noise of covariance ``noise^2 rows'rows``.
    """

    moments: Array
    rows: Array
    asked: tuple[Asked, ...]

    def among(self, kept: Array) -> Scores:
        """Of all columns, where some were left out."""
        asked = [one._replace(theta=kept.dot(one.theta), score=kept.dot(one.score))
                 for one in self.asked]  # fmt: skip
        return Scores(kept.dot(self.moments).dot(kept.T), self.rows.dot(kept.T), tuple(asked))


class Found(NamedTuple):
    """The result of a run; matrices are of whitened coefficients, which ``mapping`` maps back."""

    theta: Array
    mapping: Array
    unmapping: Array
    meat: Array
    meat_scale: float
    noise: float
    undone: Array
    n_hidden: int
    bound: float
    beyond: float
    cut: float
    power: float
    leaning: float
    unseen: float
    scale: float
    pointing: Array | None = None
    steps: int = STEPS
    held: Held = FREE
    #: Curvature of long rows beyond what was seen, as a whole.
    steeper: float = 0.0
    #: Whether the rows' second moments are told from noise.
    told: bool = True
    scores: Scores | None = None
    #: Records per width in a narrow window about the fitted line, over those in a wide one.
    denser: float = 1.0

    def among(self, kept: Array) -> Found:
        """Of all columns, where some were left out: ``kept`` has the others as its columns."""
        return self._replace(
            theta=kept.dot(self.theta),
            mapping=kept.dot(self.mapping),
            unmapping=self.unmapping.dot(kept.T),
            pointing=None if self.pointing is None else kept.dot(self.pointing),
            scores=None if self.scores is None else self.scores.among(kept),
        )


class Setting(NamedTuple):
    """What a run is told; all of it public or released."""

    loss: Any
    scale: float | None
    intercept: bool
    size: float = 1.0
    persons: bool = False
    alone: bool = True
    offset: tuple[float, float] = (0.0, 0.0)

    @property
    def varies(self) -> float:
        """Least of what scores vary by over what the loss curves; infinite without a factor."""
        if not self.alone or self.loss.link == "identity":
            return math.inf
        return 0.0 if self.loss.largest_response is None else 1.0

    @property
    def unit(self) -> float:
        """About the length of a score."""
        return float(self.loss._unit_of_scores(self.held_size))

    @property
    def held_size(self) -> float:
        """The size, within what a radius may be."""
        return min(max(self.size, 1.0 / LARGEST), LARGEST)

    @property
    def discounts(self) -> bool:
        """Whether what is foreseen of a score says which rows are discounted: not of a mean."""
        return self.loss.over_foreseen is not None and not self.persons

    @property
    def over(self) -> float:
        """Bound on a score over what is foreseen of it, times the scale."""
        return (self.loss.over_foreseen or math.inf) if self.discounts else math.inf

    def short_enough(self, bound: float, scale: float) -> Held:
        """Rows of which no score is longer, so that it is not their responses that decide."""
        return Held(reach=bound / (scale * self.over)) if self.over < math.inf else FREE

    @property
    def asks(self) -> Asks:
        """Whether in rounds, for how many lengths besides, and for the residuals' scale."""
        more = self.discounts + (self.loss.peakedness > EVEN_PEAK)
        return bool(self.loss.bends), more, bool(self.loss.needs_scale)


class Budgets(NamedTuple):
    """Gaussian-DP parameters of whatever is asked of one kind, and of each step's scores."""

    matrix: float
    vector: float
    histogram: float
    steps: tuple[float, ...] = ()

    @property
    def round(self) -> Budgets:
        """Of what a round asks."""
        return Budgets(*[mu * ROUND**0.5 for mu in self[:3]])

    def longest_radius(self, n: int, p: int) -> float:
        """At which the noise of a Gram is as large as it may be."""
        return (0.5 * GRAM_NOISE * n * self.matrix) ** 0.5 * p**-0.25

    def beginning(self, asks: Asks) -> float:
        """Of all that :func:`begin` asks."""
        return math.hypot(self.matrix, self.vector, asks[2] * self.histogram)


class Purse(NamedTuple):
    """What may be spent on p coefficients of n records: public."""

    n: int
    p: int
    mu: float

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def few(self) -> float:
        """How few the records are, from 0 to 1."""
        return min(1.0, FEW * math.sqrt(self.p / 8.0) / max(self.n * self.mu, LEAST))

    def most_rounds(self, bends: bool) -> int:
        """How many rounds there may be."""
        if not bends:
            return 0
        return max(1, min(MOST_ROUNDS, int(1.0 + (MOST_ROUNDS - 1) * 1.2 * (1.0 - self.few()))))

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def budgets(
        self, asks: Asks, rounds: int, begun: bool = False, sampled: bool | None = None
    ) -> Budgets:
        """How it is divided if there are so many rounds.

        ``sampled``: whether a sample tells the curvature, or not; None where none is asked.
        """
        mu, (bends, besides, sees_scale) = self.mu, asks
        times, first = 1.0 + MORE * self.few(), not begun
        part = [share * times for share in SHARES.values()]
        in_rounds, last = ROUND * rounds, ROUND * bends
        asked = (
            1 + first + in_rounds + (0.0 if sampled else last),
            first + in_rounds,
            2 + besides + first * sees_scale + in_rounds + (ROUND if sampled else last),
        )
        left = 1.0 - 32.0 * MARGIN_SHARES - sum(map(operator.mul, asked, part))
        left -= part[2] * (sampled is False)
        shares = [FIRST * left] + [(1.0 - FIRST) * left / (STEPS - 1)] * (STEPS - 1)
        steps = tuple([mu * math.sqrt(share) for share in shares])
        return Budgets(mu * part[0] ** 0.5, mu * part[1] ** 0.5, mu * part[2] ** 0.5, steps)


@lru_cache(maxsize=256)
def prices(
    n: int,
    p: int,
    totals: tuple[float, ...],
    part: float,
    kinds: tuple[Asks, ...],
    sampled: bool,
) -> tuple[tuple[float, ...], ...]:
    """Whatever may be paid for a Gram, a moment, a histogram and a step: public, and remembered.

    By fits of these kinds together, each with a part of what the beginning leaves of a total,
    however many rounds there are; a sample may be given up before it is asked.
    """
    grams: set[float] = set()
    moments, histograms, steps = set(grams), set(grams), set(grams)
    begun = len(kinds) > 1
    for mu, asks in product(totals, kinds):
        shared = 0.0
        if begun:
            first = Purse(n, p, mu).budgets(kinds[0], 1)
            grams.add(first.matrix)
            moments.add(first.vector)
            histograms.add(first.histogram)
            shared = first.beginning(kinds[0])
        each = Purse(n, p, math.sqrt(mu**2 - shared**2) * part)
        most = each.most_rounds(asks[0])
        for rounds, told in product({min(1, most), most}, (None, True, False)[: 1 + 2 * sampled]):
            asked = each.budgets(asks, rounds, begun, told)
            last = math.hypot(*asked.steps[1:])  # if the one before it has arrived
            moments.add(asked.vector)
            steps.update(asked.steps, (last,), (asked.round.vector,) * (most > 0))
            for one in (asked, asked.round) if most or told else (asked,):
                grams.add(one.matrix)
                histograms.add(one.histogram)
    return tuple(grams), tuple(moments), tuple(histograms), tuple(steps)


class Begun(NamedTuple):
    """Whitened rows and about where the coefficients lie: what several fits of one table share."""

    rows: Whitened
    mapping: Array
    unmapping: Array
    theta: Array
    variance: Array
    scale: float
    clear: bool


def begin(rows: Whitened, setting: Setting, budget: Budgets) -> Begun:
    """Buy the rows' Gram, a pilot estimate and the residuals' scale."""
    p, few_rows = rows.dimension, rows.few()
    radius = FIRST_RADIUS * p**0.5
    long = max(radius, FIRST_PART * budget.longest_radius(few_rows.n, p))
    gram = few_rows.gram(long, budget.matrix)
    mapping, unmapping, values, floor = _inverse_root(gram)
    cap, shift, at = PILOT_CAP, 0.0, None
    if setting.loss.link != "identity":
        cap = shift = 0.5 * (setting.loss.largest_response or PILOT_CAP * setting.held_size)
        radius, at = long, At(np.zeros(p), setting.loss)
    elif not setting.loss.bends:  # no round goes on from where long rows count in the Gram alone
        radius, cap = long, PILOT_CAP * (long / radius) ** 0.5  # longer ones have larger responses
    moment = few_rows.moment(radius, cap, budget.vector, at, shift=shift)
    theta, variance = _pilot(moment, mapping, unmapping, setting, 2.0 * shift, few_rows.n)
    rows, scale = rows.mapped(mapping), 1.0
    if setting.loss.needs_scale:  # far from the end it is not the one that was declared
        at = At(theta, setting.loss)
        found = rows.few().lengths(tops_of_cells(COARSE)[:-1], budget.histogram, at, "residual")
        scale = Lengths.visible(*found[:2], COARSE).median() / MEDIAN
    clear = bool(values[0] > HEARD * floor)
    return Begun(rows, mapping, unmapping, theta, variance, scale, clear)


def road(
    rows: Whitened,
    setting: Setting,
    purse: Purse,
    inference: bool,
    iterates: list[Array],
    progress: Callable[[int, int], None] | None = None,
    begun: Begun | None = None,
) -> Found:
    """Spend a purse on the coefficients."""
    n, p, _ = purse
    most, paid = purse.most_rounds(setting.loss.bends), begun is not None
    budget = purse.budgets(setting.asks, most, paid)
    if begun is None:
        begun = begin(rows, setting, budget)
    rows, mapping, unmapping, theta, pilot_variance, scale, clear = begun
    moments = unmapping.T.dot(unmapping)
    loss, one = setting.loss, unmapping[:, 0] if setting.intercept else None
    if one is not None and loss.link == "identity":
        theta = theta + loss.level_shift * scale * one
    told = setting.scale or scale
    scale = max(told, scale)  # most records beyond a smaller one have no curvature
    iterates.append(mapping.dot(theta))
    rounds: list[Asked] = []
    came: Asked | None = None
    # a direction that hardly any records tell is that of too few
    done, arrived, few_rows = 0, False, rows.few() if clear else rows
    while done < most and not arrived:
        at = At(theta, loss, scale)
        theta, came = _round((few_rows, few_rows), at, one, setting, budget.round, rounds)
        iterates.append(mapping.dot(theta))
        done += 1
        square, error = came.heard
        settled = square <= (HEARD**2 - 1.0) * error
        arrived = settled and scale <= told
        if settled:  # on to a smaller one, whose scores point elsewhere
            scale, rounds = max(told, 0.5 * scale), []
    times, fine = broadened(At(theta, loss))[1], tops_of_cells(FINE)[:-1]
    # a sharp curvature is that of too few of them, and a sample of many takes as long
    tried = few_rows is not rows and times == 1.0 and few_rows.n <= QUARTER * n
    among, scale, came = (one, *setting.offset), told, None

    def report(theta: Array, done: int) -> None:
        iterates.append(mapping.dot(theta))
        if progress is not None:
            progress(done, STEPS)

    for sampled in (True, False) if tried else (None,):
        budget = purse.budgets(setting.asks, done, paid, sampled)
        told_by = few_rows if sampled else rows
        if most and not sampled:  # the first step leads on from a curvature that few rows tell
            both, last = (few_rows, rows), budget.round._replace(vector=budget.steps[0])
            theta, came = _round(both, At(theta, loss, scale), one, setting, last, rounds)
            report(theta, 1)
        at = At(theta, loss, scale)
        normal, broad = normal_rows(at, *among), broadened(at)[0]
        typical = typical_curvature(*normal)
        unit = (times * typical) ** 0.5
        found = told_by.lengths(fine, budget.histogram, broad, "curvature")
        lengths = Lengths.visible(*found[:2], FINE)
        longest = budget.longest_radius(told_by.n, p) * unit
        light = (
            few_rows is not rows
            and sampled is not False
            and lengths.longest <= longest
            and lengths.unseen_square() <= LIGHT * p * unit**2
        )
        if light:
            break
    # the largest eigenvalue of noise is twice what it does to a direction
    radius = min(longest, lengths.best_radius(p, unit**2, 0.5 * GRAM_NOISE / longest**2))
    over = times
    if times > 1.0:  # as dense in all as in the window, and in every direction as around it
        cells = few_rows.lengths(fine, budget.histogram, at, "curvature")
        over /= lengths.as_much(*cells[:2], FINE, times)
    gram = _over(told_by.gram(radius, budget.matrix, broad), over)
    whiten, back, values, floor = _inverse_root(gram, bent_along(*normal))
    values, floor = values / typical, floor / typical
    mapping, unmapping, start = mapping.dot(whiten), back.dot(unmapping), back.dot(theta)
    steep, at = rows.mapped(whiten), At(start, loss, scale)
    held, power, likely = FREE, 0.0, None
    per_bound = 2.0 / (n * math.hypot(*budget.steps[1:]))
    if setting.discounts:
        shows = steep.few() if light else steep
        found = shows.lengths(fine, budget.histogram, at, "foreseen")
        foreseen = Lengths.visible(*found[:2], FINE)
        # by what is foreseen and not by responses, which leaves a model's target where it is
        held = Held(reach=best_bound(foreseen, per_bound, p, n=n)[0])
        likely = foreseen.over(1.0 / (scale * setting.over)) if setting.over < math.inf else None
    else:
        # curvature beyond the Gram's is at most as much again: full steps converge below twice; and
        # of a thin direction long rows that no cell shows, which the map would make longer, tell
        power = 1.0 if values[0] < THIN else least_exponent(lengths, radius, typical)
        if power:
            held = Held(Discount(at, radius, power, np.asarray(np.linalg.inv(whiten), np.float64)))
    longest, first = held.reach * scale * setting.over, None
    edges, counting = setting.unit * tops_of_cells(COARSE)[:-1], budget.histogram
    if sampled:  # lengths of scores are counted where these are asked for first
        found = steep.few().lengths(edges, budget.round.histogram, at, "score", held)
        scores = Lengths.visible(*found[:2], COARSE, setting.unit)
        noise = 2.0 / (n * budget.steps[0])
        bound, _ = best_bound(scores, noise, p, longest, foreseen=likely, n=n)
        asked = bound, budget.steps[0], edges, counting, held
        answer, found = steep.clipped_and_counted(at, *asked)
        first = Asked(start, *answer[:2])
    else:
        found = steep.lengths(edges, counting, at, "score", held)
    scores = Lengths.visible(*found[:2], COARSE, setting.unit)
    bound, cut = best_bound(scores, per_bound, p, longest, foreseen=likely, n=n)

    beyond = lengths.beyond(radius, power) / unit**2
    rough = Rough(
        math.sqrt(p / told_by.n)
        + 0.5 * floor / max(float(values[0]), LEAST)
        + beyond
        + purse.few(),  # of few records long rows are not seen
        0.5 * lengths.mean_of_squares() / (unit * (p * typical) ** 0.5 * at.scale) * loss.bends,
        scores.mean_square(bound),
    )

    blank = None if values[0] > floor else np.where(values <= floor, 1.0 - purse.few(), 0.0)
    bends = Bends(whiten, back, broad, among, setting.varies, normal, blank) if most else None
    theta, steep_along, least, hidden, noise, varied, noises, done, pointing, steps = walk(
        steep, at, bound, held, budget.steps, came, inference, rough, bends, report, first
    )
    scores_at: Scores | None = None
    if loss.may_separate:
        asked_at = [
            Asked(mapping.dot(one.theta), unmapping.T.dot(one.score), one.noise) for one in steps
        ]
        scores_at = Scores(moments, unmapping, tuple(asked_at))
    meat, meat_scale = np.zeros((p, p)), 0.0
    if varied:
        mean, meat_scale = varied
        vary, vectors = eigh(mean)
        vary = np.maximum(vary, 0.0)
        spread = float(np.add.reduce(vary) / p) ** 0.5
        if loss.bends:
            clipped = scores.beyond(bound, 0.0)
        else:  # rows are not shortened, and fewer than a histogram shows may tell
            clipped = lengths.over(unit).clipped_off(spread, radius / unit, power, bound)
        # it takes hardly anything from directions that not only few long rows tell
        if setting.varies == math.inf:  # nor is one known to vary less that few rows might tell
            size = values[0] if values[0] > floor else floor
            more = clipped_of_few(lengths.longest / (unit * size**0.5), spread, bound)
            short = np.add.reduce(np.maximum(middle_of(vary) - vary, 0.0))
            clipped = max(clipped, min(clipped + more, short))
        vary = np.maximum(vary, water_level(vary, clipped))
        meat = np.asarray((vectors * vary).dot(vectors.T))
        if least is not None and least.any():
            meat = meat + floor_eigenvalues(least - meat, 0.0)[0]
    mapping = np.asfortranarray(mapping)  # as solve has it: how numbers lie is a rounding
    if steep_along is not None:
        mapping = np.asarray(np.linalg.solve(steep_along, mapping.T).T, np.float64)
        unmapping = steep_along.dot(unmapping)
        theta, back = steep_along.dot(theta), steep_along.dot(back)
        held = held.mapped(steep_along)
    known = np.maximum(values - gram.noise_scale / typical, 0.0) / np.maximum(values, floor)
    signal = float(theta.dot(theta))
    if one is not None:
        turned = back.dot(one)
        signal = max(0.0, signal - float(theta.dot(turned)) ** 2 / float(turned.dot(turned)))
    unknown = np.minimum(signal / p, pilot_variance + (1.0 - known) ** 2 * signal / p)
    return Found(
        theta=mapping.dot(theta),
        mapping=mapping,
        unmapping=unmapping,
        meat=meat,
        meat_scale=meat_scale,
        noise=noise,
        undone=_left_over(known, noises) ** 2 * unknown + (CANCELS * cut) ** 2 / p,
        n_hidden=max(hidden, int(np.count_nonzero(known <= 0.0))),
        bound=bound,
        beyond=float(scores.shares[scores.middles > bound].sum()),
        cut=cut,
        power=power,
        leaning=lengths.taken(radius, power),
        unseen=n * scores.invisible,
        pointing=None if pointing is None else mapping.dot(pointing),
        scale=scale,
        steps=done,
        held=held,
        steeper=beyond,
        told=not no_records(gram),
        scores=scores_at,
        denser=times / over,
    )


def _pilot(
    moment: Answer, mapping: Array, unmapping: Array, setting: Setting, cap: float, n: int
) -> tuple[Array, Array]:
    """A first estimate of the whitened coefficients, and its variances; the largest response is
    the cap, where there is a link.
    """
    loss, noise = setting.loss, np.add.reduce(mapping * mapping) * moment.noise_scale**2
    if loss.link == "identity":
        # whitened, a standardised response has coefficients of mean square below 1/p
        shrunk = 1.0 / (1.0 + len(mapping) * noise)
        return shrunk * mapping.T.dot(moment.value), noise * shrunk
    found = mapping.T.dot(moment.value)
    level, theta = 0.0, np.zeros(len(found))
    centre, apart = setting.offset[0], setting.offset[1] * NODES
    if setting.intercept:
        one = unmapping[:, 0]
        size = math.sqrt(one.dot(one))
        unit = one / size
        # no nearer to the ends than noise can tell
        at_one = mapping.dot(unit)
        error = moment.noise_scale * (math.sqrt(at_one.dot(at_one)) / size)
        least = min(max(2.0 * error, cap / n), 0.5 * cap)
        most = math.inf if loss.largest_response is None else cap - least
        mean = 0.5 * cap + float(unit.dot(found)) / size
        level = loss._predictor(min(max(mean, least), most))
        if any(setting.offset):  # responses are means of what offsets make of a level
            means = loss._means(level + apart, loss.largest_mean)[0]
            level = 2.0 * level - loss._link(float(MASSES.dot(means))) - centre
        theta, found = level * one, found - unit.dot(found) * unit
    flat = within(float(MASSES.dot(loss._means(level + centre + apart, loss.largest_mean)[1])))
    size = float(found.dot(found))
    kept = max(size - float(noise.sum()), 0.0) / max(size, LEAST) / flat
    kept *= OVERSTATED if loss.link == "log" else 1.0
    far = kept * math.sqrt(size)
    return theta + min(1.0, FARTHEST / max(far, LEAST)) * kept * found, noise / flat**2


def _round(
    both: Both, at: At, one: Array | None, setting: Setting, budget: Budgets, asked: list[Asked]
) -> tuple[Array, Asked]:
    """Where a step of clipped scores leads with a curvature of few rows, and the whitened score."""
    few_rows, rows = both
    normal, theta = normal_rows(at, one, *setting.offset), at.theta
    typical = typical_curvature(*normal)
    broad, times = broadened(at)
    radius = budget.longest_radius(few_rows.n, theta.size) * (times * typical) ** 0.5
    gram = _over(few_rows.gram(radius, budget.matrix, broad), times)
    # a shorter step is made good by the next
    whiten, back, values, floor = _inverse_root(leaned(gram, bent_along(*normal)))
    shows, at = few_rows.mapped(whiten), at._replace(theta=back.dot(theta))
    edges = setting.unit * tops_of_cells(COARSE)[:-1]
    found = shows.lengths(edges, budget.histogram, at, "score")
    scores = Lengths.visible(*found[:2], COARSE, setting.unit)
    bound, _ = best_bound(scores, 2.0 / (rows.n * budget.vector), theta.size)
    held = setting.short_enough(bound, at.scale)
    answer = rows.mapped(whiten).clipped(at, bound, budget.vector, held=held).gradient
    came = Asked(at.theta, *answer[:2])
    square, error = came.heard
    along = answer.noise_scale * max(float(values[-1]), floor) ** 0.5
    asked.append(Asked(theta, back.T.dot(answer.value), along))
    step = square / (square + error) * whiten.dot(answer.value)
    step *= not_farther(step, normal[1])
    return theta + inside(step, asked) * step, came


def broadened(at: At) -> tuple[At, float]:
    """The same at a scale so many times larger that a sharp curvature is that of enough records."""
    times = min(max(1.0, at.loss.peakedness / EVEN_PEAK), STEEP)
    return at if times == 1.0 else at._replace(scale=times * at.scale), times


def _over(answer: Answer, times: float) -> Answer:
    return answer._replace(value=answer.value / times, noise_scale=answer.noise_scale / times)


def leaned(gram: Answer, target: Array) -> Answer:
    """A released matrix, leaning to a target by as much as noise explains their distance."""
    away, p = gram.value - target, len(target)
    noise = gram.noise_scale**2 * p * (p + 1) / 2.0
    kept = max(0.0, 1.0 - noise / max(float(np.vdot(away, away)), LEAST))
    return gram._replace(value=target + kept * away)


def no_records(gram: Answer) -> bool:
    """Whether the mean length of rows, squared, is within its noise of zero."""
    return bool(gram.value.trace() < TOLD * gram.noise_scale * math.sqrt(2.0 * len(gram.value)))


def floor_of(gram: Answer) -> float:
    """Below it an eigenvalue is not told from noise."""
    return math.sqrt(2.0 * len(gram.value)) * gram.noise_scale


def _inverse_root(gram: Answer, expected: Array | None = None) -> tuple[Array, Array, Array, float]:
    """``U (max(L, floor))^-1/2`` of a released Gram, its inverse, L and the floor.

    What is not told from noise is as expected, if that is less.
    """
    (values, vectors), floor = eigh(gram.value), floor_of(gram)
    least = floor if expected is None else np.minimum(floor, (expected @ vectors * vectors).sum(0))
    roots = np.sqrt(np.maximum(values, least))
    return vectors / roots, (vectors * roots).T, values, floor


def _left_over(curvatures: Array, noises: list[float]) -> Array:
    """Part of an error at the pilot that the steps leave, where curvature is not 1."""
    found, precise = (1.0 - curvatures).tolist(), [noise**-2 for noise in noises]
    for k, away in enumerate(found):
        at, part, whole = away, 0.0, 0.0
        for precision in precise:
            whole += precision
            part += precision * away * at
            at = part / whole
        found[k] = at
    return np.array(found)


def water_level(values: Array, more: float) -> float:
    """To which the lowest of increasing values rise if so much is poured over them."""
    return float(((more + values.cumsum()) / np.arange(1.0, len(values) + 1.0)).min())
