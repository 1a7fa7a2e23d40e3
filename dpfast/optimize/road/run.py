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
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    LeverageWeights,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)
from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.models.losses import MASSES, NODES
from dpfast.optimize.road.allocation import (
    EVEN_PEAK,
    GRAM_NOISE,
    BudgetAllocation,
    Budgets,
    Setting,
)
from dpfast.optimize.road.histogram import (
    ASYMMETRY,
    NormHistogram,
    bin_edges,
    choose_clipping_norm,
    choose_weight_exponent,
    clipped_in_rare_direction,
)
from dpfast.optimize.road.steps import (
    MAX_CURVATURE,
    MAX_STEPS,
    SIGNAL_SDS,
    TINY,
    TRUST_REGION,
    CurvatureModel,
    NoisyScore,
    StoppingRule,
    bounded_curvature,
    cutting_plane_step,
    gaussian_design_curvature,
    gaussian_design_hessian,
    median_of_sorted,
    newton_steps,
    trust_region_factor,
    typical_curvature,
)

Array = NDArray[np.float64]


#: Radius of the first Gram's weights in sqrt(p), for standardised columns; and at least, as a part
#: of the longest: rows of a rare level are long, and counted in part would be made longer still.
FIRST_RADIUS, FIRST_PART = 1.5, 0.5

#: Standard deviations of its noise from which on a count, or the size of a matrix, is of records.
DETECTED_SDS = 3.0

#: Slopes of logarithms that covariances with means say are too steep for columns with a long right
#: tail, and a step from a start that is too flat is shorter than one from too steep a one.
OVERSTATED = 0.5

#: Bound on the response in the pilot estimate, in its standard deviations.
PILOT_CAP = 3.0


#: Part of the records up to which a sample tells the curvature of all.
SUBSAMPLE_PART = 0.25

#: Mean square of the lengths of rows beyond those that a sample shows, as a part of all, up to
#: which a sample tells of rows what is to be known.
MAX_UNDETECTED_SQUARE = 0.05

#: Of the second Gram's eigenvalues, which are about 1 where rows longer than its radius do not
#: matter; below, hardly any others tell a direction, and steps that do not discount them would be
#: lost, for all coefficients, by one column of hardly anything but zeros.
MIN_EIGENVALUE = 0.35

#: Cells to a factor 2 in the histograms of rows and of scores: larger cells see tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Cells of the finer histogram.
N_FINE_BINS = len(bin_edges(FINE))

#: Median of the absolute value of a standard normal number.
MEDIAN = 0.6745


#: Few rows, and as many as are asked for scores.
Both = tuple[PreconditionedQueries, PreconditionedQueries]


class Scores(NamedTuple):
    """Mean scores where they were asked for, and second moments of the rows, both of the design.

    Scores have noise of covariance ``noise^2 rows'rows``.
    """

    moments: Array
    rows: Array
    asked: tuple[NoisyScore, ...]

    def among(self, kept: Array) -> Scores:
        """Of all columns, where some were left out."""
        asked = [one._replace(theta=kept.dot(one.theta), score=kept.dot(one.score))
                 for one in self.asked]  # fmt: skip
        return Scores(kept.dot(self.moments).dot(kept.T), self.rows.dot(kept.T), tuple(asked))


class SolverResult(NamedTuple):
    """The result of a run; matrices are of whitened coefficients, which ``mapping`` maps back."""

    theta: Array
    mapping: Array
    unmapping: Array
    meat: Array
    meat_scale: float
    noise: float
    residual_bias_var: Array
    n_hidden: int
    bound: float
    clipped_share: float
    clipping_bias: float
    weight_exponent: float
    downweighted_share: float
    max_undetected: float
    scale: float
    nonconvergence: Array | None = None
    steps: int = MAX_STEPS
    row_clipping: RowClipping = NO_CLIPPING
    #: Curvature of long rows beyond what was seen, as a whole.
    excess_curvature: float = 0.0
    #: Whether the rows' second moments are told from noise.
    records_detected: bool = True
    scores: Scores | None = None
    #: Records per width in a narrow window about the fitted line, over those in a wide one.
    denser: float = 1.0

    def with_columns(self, kept: Array) -> SolverResult:
        """Of all columns, where some were left out: ``kept`` has the others as its columns."""
        return self._replace(
            theta=kept.dot(self.theta),
            mapping=kept.dot(self.mapping),
            unmapping=self.unmapping.dot(kept.T),
            nonconvergence=None if self.nonconvergence is None else kept.dot(self.nonconvergence),
            scores=None if self.scores is None else self.scores.among(kept),
        )


class InitialEstimate(NamedTuple):
    """Whitened rows and about where the coefficients lie: what several fits of one table share."""

    rows: PreconditionedQueries
    mapping: Array
    unmapping: Array
    theta: Array
    variance: Array
    scale: float
    well_determined: bool


def initial_estimate(
    rows: PreconditionedQueries, setting: Setting, budget: Budgets
) -> InitialEstimate:
    """Buy the rows' Gram, a pilot estimate and the residuals' scale."""
    p, few_rows = rows.dimension, rows.subsample()
    radius = FIRST_RADIUS * p**0.5
    long = max(radius, FIRST_PART * budget.longest_radius(few_rows.n, p))
    gram = few_rows.gram(long, budget.matrix)
    mapping, unmapping, values, floor = _inverse_root(gram)
    cap, shift, at = PILOT_CAP, 0.0, None
    if setting.loss.link != "identity":
        cap = shift = 0.5 * (setting.loss.largest_response or PILOT_CAP * setting.bounded_size)
        radius, at = long, Linearization(np.zeros(p), setting.loss)
    elif (
        not setting.loss.curvature_varies
    ):  # no round goes on from where long rows count in the Gram alone
        radius, cap = long, PILOT_CAP * (long / radius) ** 0.5  # longer ones have larger responses
    moment = few_rows.moment(radius, cap, budget.vector, at, shift=shift)
    theta, variance = _pilot(moment, mapping, unmapping, setting, 2.0 * shift, few_rows.n)
    rows, scale = rows.mapped(mapping), 1.0
    if setting.loss.needs_scale:  # far from the end it is not the one that was declared
        at = Linearization(theta, setting.loss)
        found = rows.subsample().norm_histogram(
            bin_edges(COARSE)[:-1], budget.histogram, at, "residual"
        )
        scale = NormHistogram.from_noisy_shares(*found[:2], COARSE).median() / MEDIAN
    clear = bool(values[0] > SIGNAL_SDS * floor)
    return InitialEstimate(rows, mapping, unmapping, theta, variance, scale, clear)


def clipped_newton(
    rows: PreconditionedQueries,
    setting: Setting,
    purse: BudgetAllocation,
    inference: bool,
    iterates: list[Array],
    progress: Callable[[int, int], None] | None = None,
    begun: InitialEstimate | None = None,
) -> SolverResult:
    """Spend a purse on the coefficients."""
    n, p, _ = purse
    most, paid = purse.max_rounds(setting.loss.curvature_varies), begun is not None
    budget = purse.budgets(setting.query_counts, most, paid)
    if begun is None:
        begun = initial_estimate(rows, setting, budget)
    rows, mapping, unmapping, theta, pilot_variance, scale, clear = begun
    moments = unmapping.T.dot(unmapping)
    loss, one = setting.loss, unmapping[:, 0] if setting.intercept else None
    if one is not None and loss.link == "identity":
        theta = theta + loss.level_shift * scale * one
    told = setting.scale or scale
    scale = max(told, scale)  # most records beyond a smaller one have no curvature
    iterates.append(mapping.dot(theta))
    rounds: list[NoisyScore] = []
    came: NoisyScore | None = None
    # a direction that hardly any records tell is that of too few
    done, arrived, few_rows = 0, False, rows.subsample() if clear else rows
    while done < most and not arrived:
        at = Linearization(theta, loss, scale)
        theta, came = _round((few_rows, few_rows), at, one, setting, budget.round, rounds)
        iterates.append(mapping.dot(theta))
        done += 1
        square, error = came.debiased_squared_norm
        settled = square <= (SIGNAL_SDS**2 - 1.0) * error
        arrived = settled and scale <= told
        if settled:  # on to a smaller one, whose scores point elsewhere
            scale, rounds = max(told, 0.5 * scale), []
    times, fine = broadened(Linearization(theta, loss))[1], bin_edges(FINE)[:-1]
    # a sharp curvature is that of too few of them, and a sample of many takes as long
    tried = few_rows is not rows and times == 1.0 and few_rows.n <= SUBSAMPLE_PART * n
    among, scale, came = (one, *setting.offset), told, None

    def report(theta: Array, done: int) -> None:
        iterates.append(mapping.dot(theta))
        if progress is not None:
            progress(done, MAX_STEPS)

    for sampled in (True, False) if tried else (None,):
        budget = purse.budgets(setting.query_counts, done, paid, sampled)
        told_by = few_rows if sampled else rows
        if most and not sampled:  # the first step leads on from a curvature that few rows tell
            both, last = (few_rows, rows), budget.round._replace(vector=budget.steps[0])
            theta, came = _round(
                both, Linearization(theta, loss, scale), one, setting, last, rounds
            )
            report(theta, 1)
        at = Linearization(theta, loss, scale)
        normal, broad = gaussian_design_curvature(at, *among), broadened(at)[0]
        typical = typical_curvature(*normal)
        unit = (times * typical) ** 0.5
        found = told_by.norm_histogram(fine, budget.histogram, broad, "curvature")
        lengths = NormHistogram.from_noisy_shares(*found[:2], FINE)
        longest = budget.longest_radius(told_by.n, p) * unit
        light = (
            few_rows is not rows
            and sampled is not False
            and lengths.longest <= longest
            and lengths.undetected_square() <= MAX_UNDETECTED_SQUARE * p * unit**2
        )
        if light:
            break
    # the largest eigenvalue of noise is twice what it does to a direction
    radius = min(longest, lengths.choose_weight_radius(p, unit**2, 0.5 * GRAM_NOISE / longest**2))
    over = times
    if times > 1.0:  # as dense in all as in the window, and in every direction as around it
        cells = few_rows.norm_histogram(fine, budget.histogram, at, "curvature")
        over /= lengths.density_ratio(*cells[:2], FINE, times)
    gram = _over(told_by.gram(radius, budget.matrix, broad), over)
    whiten, back, values, floor = _inverse_root(gram, gaussian_design_hessian(*normal))
    values, floor = values / typical, floor / typical
    mapping, unmapping, start = mapping.dot(whiten), back.dot(unmapping), back.dot(theta)
    steep, at = rows.mapped(whiten), Linearization(start, loss, scale)
    held, power, likely = NO_CLIPPING, 0.0, None
    per_bound = 2.0 / (n * math.hypot(*budget.steps[1:]))
    if setting.downweights_by_score_bound:
        shows = steep.subsample() if light else steep
        found = shows.norm_histogram(fine, budget.histogram, at, "foreseen")
        foreseen = NormHistogram.from_noisy_shares(*found[:2], FINE)
        # by what is foreseen and not by responses, which leaves a model's target where it is
        held = RowClipping(max_leverage=choose_clipping_norm(foreseen, per_bound, p, n=n)[0])
        likely = (
            foreseen.rescaled(1.0 / (scale * setting.score_bound_ratio))
            if setting.score_bound_ratio < math.inf
            else None
        )
    else:
        # curvature beyond the Gram's is at most as much again: full steps converge below twice; and
        # of a thin direction long rows that no cell shows, which the map would make longer, tell
        power = (
            1.0 if values[0] < MIN_EIGENVALUE else choose_weight_exponent(lengths, radius, typical)
        )
        if power:
            held = RowClipping(
                LeverageWeights(at, radius, power, np.asarray(np.linalg.inv(whiten), np.float64))
            )
    longest, first = held.max_leverage * scale * setting.score_bound_ratio, None
    edges, counting = setting.score_unit * bin_edges(COARSE)[:-1], budget.histogram
    if sampled:  # lengths of scores are counted where these are asked for first
        found = steep.subsample().norm_histogram(edges, budget.round.histogram, at, "score", held)
        scores = NormHistogram.from_noisy_shares(*found[:2], COARSE, setting.score_unit)
        noise = 2.0 / (n * budget.steps[0])
        bound, _ = choose_clipping_norm(scores, noise, p, longest, foreseen=likely, n=n)
        asked = bound, budget.steps[0], edges, counting, held
        answer, found = steep.clipped_and_counted(at, *asked)
        first = NoisyScore(start, *answer[:2])
    else:
        found = steep.norm_histogram(edges, counting, at, "score", held)
    scores = NormHistogram.from_noisy_shares(*found[:2], COARSE, setting.score_unit)
    bound, cut = choose_clipping_norm(scores, per_bound, p, longest, foreseen=likely, n=n)

    beyond = lengths.mean_excess(radius, power) / unit**2
    rough = StoppingRule(
        math.sqrt(p / told_by.n)
        + 0.5 * floor / max(float(values[0]), TINY)
        + beyond
        + purse.small_sample_factor(),  # of few records long rows are not seen
        0.5
        * lengths.mean_of_squares()
        / (unit * (p * typical) ** 0.5 * at.scale)
        * loss.curvature_varies,
        scores.mean_square(bound),
    )

    blank = (
        None
        if values[0] > floor
        else np.where(values <= floor, 1.0 - purse.small_sample_factor(), 0.0)
    )
    bends = (
        CurvatureModel(whiten, back, broad, among, setting.min_score_variation, normal, blank)
        if most
        else None
    )
    theta, steep_along, least, hidden, noise, varied, noises, done, pointing, steps = newton_steps(
        steep, at, bound, held, budget.steps, came, inference, rough, bends, report, first
    )
    scores_at: Scores | None = None
    if loss.may_separate:
        asked_at = [
            NoisyScore(mapping.dot(one.theta), unmapping.T.dot(one.score), one.noise)
            for one in steps
        ]
        scores_at = Scores(moments, unmapping, tuple(asked_at))
    meat, meat_scale = np.zeros((p, p)), 0.0
    if varied:
        mean, meat_scale = varied
        vary, vectors = eigh(mean)
        vary = np.maximum(vary, 0.0)
        spread = float(np.add.reduce(vary) / p) ** 0.5
        if loss.curvature_varies:
            clipped = scores.mean_excess(bound, 0.0)
        else:  # rows are not shortened, and fewer than a histogram shows may tell
            clipped = lengths.rescaled(unit).clipped_off(spread, radius / unit, power, bound)
        # it takes hardly anything from directions that not only few long rows tell
        if (
            setting.min_score_variation == math.inf
        ):  # nor is one known to vary less that few rows might tell
            size = values[0] if values[0] > floor else floor
            more = clipped_in_rare_direction(lengths.longest / (unit * size**0.5), spread, bound)
            short = np.add.reduce(np.maximum(median_of_sorted(vary) - vary, 0.0))
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
    return SolverResult(
        theta=mapping.dot(theta),
        mapping=mapping,
        unmapping=unmapping,
        meat=meat,
        meat_scale=meat_scale,
        noise=noise,
        residual_bias_var=_left_over(known, noises) ** 2 * unknown + (ASYMMETRY * cut) ** 2 / p,
        n_hidden=max(hidden, int(np.count_nonzero(known <= 0.0))),
        bound=bound,
        clipped_share=float(scores.shares[scores.midpoints > bound].sum()),
        clipping_bias=cut,
        weight_exponent=power,
        downweighted_share=lengths.downweighted_share(radius, power),
        max_undetected=n * scores.max_undetected,
        nonconvergence=None if pointing is None else mapping.dot(pointing),
        scale=scale,
        steps=done,
        row_clipping=held,
        excess_curvature=beyond,
        records_detected=not no_records(gram),
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
    flat = bounded_curvature(
        float(MASSES.dot(loss._means(level + centre + apart, loss.largest_mean)[1]))
    )
    size = float(found.dot(found))
    kept = max(size - float(noise.sum()), 0.0) / max(size, TINY) / flat
    kept *= OVERSTATED if loss.link == "log" else 1.0
    far = kept * math.sqrt(size)
    return theta + min(1.0, TRUST_REGION / max(far, TINY)) * kept * found, noise / flat**2


def _round(
    both: Both,
    at: Linearization,
    one: Array | None,
    setting: Setting,
    budget: Budgets,
    asked: list[NoisyScore],
) -> tuple[Array, NoisyScore]:
    """Where a step of clipped scores leads with a curvature of few rows, and the whitened score."""
    few_rows, rows = both
    normal, theta = gaussian_design_curvature(at, one, *setting.offset), at.theta
    typical = typical_curvature(*normal)
    broad, times = broadened(at)
    radius = budget.longest_radius(few_rows.n, theta.size) * (times * typical) ** 0.5
    gram = _over(few_rows.gram(radius, budget.matrix, broad), times)
    # a shorter step is made good by the next
    whiten, back, values, floor = _inverse_root(
        shrink_to_target(gram, gaussian_design_hessian(*normal))
    )
    shows, at = few_rows.mapped(whiten), at._replace(theta=back.dot(theta))
    edges = setting.score_unit * bin_edges(COARSE)[:-1]
    found = shows.norm_histogram(edges, budget.histogram, at, "score")
    scores = NormHistogram.from_noisy_shares(*found[:2], COARSE, setting.score_unit)
    bound, _ = choose_clipping_norm(scores, 2.0 / (rows.n * budget.vector), theta.size)
    held = setting.short_enough(bound, at.scale)
    answer = rows.mapped(whiten).clipped(at, bound, budget.vector, held=held).gradient
    came = NoisyScore(at.theta, *answer[:2])
    square, error = came.debiased_squared_norm
    along = answer.noise_scale * max(float(values[-1]), floor) ** 0.5
    asked.append(NoisyScore(theta, back.T.dot(answer.value), along))
    step = square / (square + error) * whiten.dot(answer.value)
    step *= trust_region_factor(step, normal[1])
    return theta + cutting_plane_step(step, asked) * step, came


def broadened(at: Linearization) -> tuple[Linearization, float]:
    """The same at a scale so many times larger that a sharp curvature is that of enough records."""
    times = min(max(1.0, at.loss.peakedness / EVEN_PEAK), MAX_CURVATURE)
    return at if times == 1.0 else at._replace(scale=times * at.scale), times


def _over(answer: Answer, times: float) -> Answer:
    return answer._replace(value=answer.value / times, noise_scale=answer.noise_scale / times)


def shrink_to_target(gram: Answer, target: Array) -> Answer:
    """A released matrix, leaning to a target by as much as noise explains their distance."""
    away, p = gram.value - target, len(target)
    noise = gram.noise_scale**2 * p * (p + 1) / 2.0
    kept = max(0.0, 1.0 - noise / max(float(np.vdot(away, away)), TINY))
    return gram._replace(value=target + kept * away)


def no_records(gram: Answer) -> bool:
    """Whether the mean length of rows, squared, is within its noise of zero."""
    return bool(
        gram.value.trace() < DETECTED_SDS * gram.noise_scale * math.sqrt(2.0 * len(gram.value))
    )


def noise_floor(gram: Answer) -> float:
    """Below it an eigenvalue is not told from noise."""
    return math.sqrt(2.0 * len(gram.value)) * gram.noise_scale


def _inverse_root(gram: Answer, expected: Array | None = None) -> tuple[Array, Array, Array, float]:
    """``U (max(L, floor))^-1/2`` of a released Gram, its inverse, L and the floor.

    What is not told from noise is as expected, if that is less.
    """
    (values, vectors), floor = eigh(gram.value), noise_floor(gram)
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
