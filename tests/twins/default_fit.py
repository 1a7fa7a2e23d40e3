"""A whole default fit in plain NumPy: least squares or logistic, nothing declared, one table.

It asks the same questions as ``dpfast.fit`` and draws its noise in the same order: one seed gives
the same estimate to rounding.  Nothing is compiled and no receipt is kept.  It is the oracle of
tests and the reference of benchmarks, and it is **not private**.  It is for tables in which every
scale is seen, with fewer records than make a fit take a subsample.

Budgets and constants are those of the library.  Reads, noise, the search for units, the rounds and
the Newton steps are written out; ``tests/twins/decisions.py`` has what is decided on the way.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.curator.preconditioned import Linearization
from dpfast.models import LeastSquares, Logistic
from dpfast.privacy.mechanisms import gaussian_scale, grid_bits
from dpfast.privacy.scaling.sensitivity import complete_weight, query_mu
from dpfast.privacy.sensitivity import joint_mu
from dpfast.scaling.budget import ScalingBudget
from dpfast.scaling.search import COUNT_SHARE, COUNTS, LOOK_SHARE, MIN_MU
from dpfast.scaling.thresholds import BINADE, LABEL_KEYS, OCTAVES_OF_SCALE
from dpfast.solvers.pcn import clipping, curvature as curved
from dpfast.solvers.pcn.histogram import COARSE, FINE, bin_edges
from dpfast.solvers.pcn.initial import (
    FIRST_PART,
    FIRST_RADIUS,
    PILOT_CAP,
)
from dpfast.solvers.pcn.plan import GRAM_NOISE, TINY, BudgetAllocation, Setting
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore
from dpfast.solvers.pcn.stopping import StoppingRule
from dpfast.solvers.pcn.weights import MIN_EIGENVALUE, choose_weight_exponent
from tests.twins import decisions
from tests.twins.decisions import (
    DistanceHistogram,
    NormHistogram,
    cutting_plane,
    precondition,
)
from tests.twins.newton import averaged_newton
from tests.twins.thresholds import ALL_OCTAVES, centre_of, is_tie, next_key, value_of

Array = NDArray[np.float64]


class Noisy(NamedTuple):
    value: Array
    noise_scale: float


class TwinFit(NamedTuple):
    """Coefficients and their covariance in the columns' own units, and what releases cost."""

    params: Array
    cov: Array
    mus: list[float]


class Table:
    """The only thing here that sees records: five kinds of questions, each answered with noise."""

    def __init__(self, X: Array, y: Array, noise: Any) -> None:
        Z = np.column_stack([X, y]).astype(np.float64)
        self.raw = Z[np.isfinite(Z).all(axis=1)]
        self.n, self.noise, self.mus = len(Z), noise, []  # n is public, and counts all records

    def code(self, centres: Array, spreads: Array) -> None:
        Z = (self.raw - centres) / spreads
        self.rows, self.y = np.column_stack([np.ones(len(Z)), Z[:, :-1]]), Z[:, -1]

    def released(self, mu: float, *answers: tuple[Array, float, float]) -> list[Noisy]:
        """Round values to grids and add exact normals from one draw; each has its own mu."""
        self.mus.append(mu)
        sizes = [v.size if v.ndim == 1 else len(v) * (len(v) + 1) // 2 for v, _, _ in answers]
        bits = [grid_bits(size) for size in sizes]
        drawn = self.noise.normals(sum(sizes), max(bits))
        noisy = []
        for (value, sensitivity, own), size, k in zip(answers, sizes, bits, strict=True):
            mine, drawn = drawn[:size] >> (max(bits) - k), drawn[size:]
            scale = gaussian_scale(sensitivity, own, size)
            if value.ndim == 1:
                grid: Any = scale * 2.0**-k
                noisy.append(Noisy((np.rint(value / grid) + mine) * grid, scale))
                continue
            i, j = np.triu_indices(len(value))
            grid = scale * 2.0**-k * np.where(i == j, 1.0, math.sqrt(0.5))
            out = np.empty_like(value)
            out[i, j] = out[j, i] = (np.rint(value[i, j] / grid) + mine) * grid
            noisy.append(Noisy(out, scale))
        return noisy

    def below(self, thresholds: list[tuple[int, int]], mu: float) -> Noisy:
        m, complete = len(thresholds), len(self.raw)
        columns, ends = [j for j, _ in thresholds], value_of([key for _, key in thresholds])
        counts = (self.raw[:, columns] < ends).sum(0)
        value = np.append(counts - 0.5 * complete, complete_weight(m) * complete)
        return self.released(mu, (value, math.sqrt(m), mu))[0]

    def distances(
        self, columns: list[int], places: list[tuple[float, float]], sides: list[int], mu: float
    ) -> Noisy:
        """Count distances in octaves; each is shared between two by its square."""
        table = np.zeros((len(columns), 2, 101))
        for k, (j, (centre, nearest), side) in enumerate(zip(columns, places, sides, strict=True)):
            away = self.raw[:, j] - centre
            away = away[np.abs(away) > nearest]
            mantissa, exponent = np.frexp(np.abs(away))
            octave = np.minimum(exponent - math.frexp(nearest)[1], side - 1)
            squared = (np.floor(mantissa * 1024.0) / 512.0) ** 2
            angle = math.atan2(4.0, 1.0) - np.arccos(np.minimum(squared / math.sqrt(17.0), 1.0))
            first = np.where(octave < side - 1, np.rint(np.cos(angle) * 2.0**19), 2.0**19)
            second = np.where(octave < side - 1, np.rint(np.sin(angle) * 2.0**19), 0.0)
            np.add.at(table[k], ((away < 0.0).astype(int), octave), first)
            np.add.at(table[k], ((away < 0.0).astype(int), octave + 1), second)
        used = np.arange(101) < np.repeat(np.array(sides)[:, None, None], 2, axis=1)
        answer = self.released(mu, (table[used] * 2.0**-19, math.sqrt(2.0 * len(columns)), mu))[0]
        table[used] = answer.value
        return Noisy(table[:, :, :100], answer.noise_scale)

    def gram(self, rows: Array, radius: float, mu: float) -> Noisy:
        squares = np.maximum((rows * rows).sum(1), TINY)
        gram = (rows.T * np.minimum(1.0, radius**2 / squares)) @ rows / self.n
        return self.released(mu, (gram, math.sqrt(2.0) * radius**2 / self.n, mu))[0]

    def gram_and_moment(
        self, radius: float, cap: float, shift: float, mu_gram: float, mu_moment: float
    ) -> list[Noisy]:
        squares = np.maximum((self.rows * self.rows).sum(1), TINY)
        weights = np.minimum(1.0, radius**2 / squares)
        moment = -((weights * np.clip(self.y - shift, -cap, cap)) @ self.rows) / self.n
        gram = (self.rows.T * weights) @ self.rows / self.n
        sensitivities = 2.0 * radius * cap / self.n, math.sqrt(2.0) * radius**2 / self.n
        noisy_moment, noisy_gram = self.released(
            joint_mu("independent", mu_moment, mu_gram),
            (moment, sensitivities[0], mu_moment),
            (gram, sensitivities[1], mu_gram),
        )
        return [noisy_gram, Noisy(-noisy_moment.value, noisy_moment.noise_scale)]

    def norms(self, norms: Array, per_octave: int, mu: float) -> NormHistogram:
        edges = bin_edges(per_octave)[:-1]
        shares = np.bincount(np.searchsorted(edges, norms), minlength=len(edges) + 1) / self.n
        noisy = self.released(mu, (shares, math.sqrt(2.0) / self.n, mu))[0]
        return NormHistogram.from_noisy_shares(*noisy, per_octave)

    def scores(self, scores: Array, bound: float, mu: float, mu_meat: float = 0.0) -> list[Noisy]:
        norms = np.maximum(np.sqrt((scores * scores).sum(1)), TINY)
        clipped = scores * np.minimum(1.0, bound / norms)[:, None]
        asked = [(-clipped.sum(0) / self.n, 2.0 * bound / self.n, mu)]
        if mu_meat:
            meat = clipped.T @ clipped / self.n
            asked.append((meat, math.sqrt(2.0) * bound**2 / self.n, mu_meat))
        score, *meats = self.released(mu, *asked)
        return [Noisy(-score.value, score.noise_scale), *meats]


def estimate_units(table: Table, columns: list[int], mu: float, label: int | None) -> Any:
    """Estimate centres and spreads: noisy bisection of the keys, then one histogram."""
    q, spent, complete, precision = len(columns), 0.0, 0.0, 0.0
    square, per_count = COUNT_SHARE * mu**2, max(1.0 / (0.03 * table.n), MIN_MU) ** 2
    planned = int(min(max(square / per_count, COUNTS * q), 2 * COUNTS * q))
    total, remaining = math.sqrt(min(square, planned * per_count)), planned
    #: keys and counts at both ends, and how many answers in a row were that it is lower
    ends = {j: [-2047 * BINADE, 2047 * BINADE, -math.inf, math.inf, 0] for j in columns}

    def ask(thresholds: list[tuple[int, int]]) -> Array:
        nonlocal spent, complete, precision
        price = query_mu(total, planned, len(thresholds))
        spent += price**2
        (*counts, last), scale = table.below(thresholds, price)
        weight = complete_weight(len(counts))
        precision += (weight / scale) ** 2
        complete += (weight / scale) ** 2 / precision * (last / weight - complete)
        return np.array(counts) - 0.1 * complete

    while remaining:
        open_ = [
            (j, *next_key(low, high, patience >= 2))
            for j, (low, high, below, above, patience) in ends.items()
            if not above - below < 0.2 * complete and not is_tie(low, high)
        ]
        coarsest = max((level for *_, level in open_), default=0)
        thresholds = [(j, key) for j, key, level in open_ if level == coarsest][:remaining]
        if not thresholds:
            break
        remaining -= len(thresholds)
        for (j, key), count in zip(thresholds, ask(thresholds), strict=True):
            if count < 0.0:
                ends[j][0], ends[j][2], ends[j][4] = key, count, 0
            else:
                ends[j][1], ends[j][3] = key, count
                ends[j][4] += 1
    if label is not None:
        ask([(label, key) for key in LABEL_KEYS])
    keys = [ends[j][:2] for j in columns]
    places = [centre_of(*pair, *map(float, value_of(pair))) for pair in keys]
    rest = math.sqrt((1.0 - LOOK_SHARE) * mu**2 - spent) * (1.0 - 2.0**-40)
    sides = [ALL_OCTAVES if is_tie(*pair) else OCTAVES_OF_SCALE for pair in keys]
    cells, scale = table.distances(columns, places, sides, rest)
    histograms = [
        DistanceHistogram(*at, side, c, scale)
        for at, side, c in zip(places, sides, cells, strict=True)
    ]
    assert not any(histogram.ends_too_early for histogram in histograms)
    scales = decisions.column_scales(histograms, max(complete, 1.0))
    assert all(scale.detected for scale in scales), "the twin needs columns whose scale is seen"
    return scales


def fit(X: Array, y: Array, loss: str, mu: float, noise: Any) -> TwinFit:
    """Fit ``loss``, "least-squares" or "logistic", within ``mu``."""
    table, kind = Table(X, y, noise), Logistic() if loss == "logistic" else LeastSquares()
    linked, q = loss == "logistic", X.shape[1]
    n, p = table.n, q + 1
    share = ScalingBudget(n, q + (not linked), mu).share()
    columns = list(range(q + (not linked)))
    scales = estimate_units(table, columns, mu * share**0.5, q if linked else None)
    centres, spreads = np.array([(s.centre, s.spread) for s in scales]).T
    if linked:
        centres, spreads = np.append(centres, 0.0), np.append(spreads, 1.0)
    table.code(centres, spreads)
    allocation = BudgetAllocation(n, p, math.sqrt(mu**2 - math.fsum(m * m for m in table.mus)))
    theta, variances = solve(table, Setting(kind, None, True), allocation)
    # in the columns' own units
    back = np.diag(np.append(1.0, 1.0 / spreads[:-1]))
    back[0, 1:] = -centres[:-1] / spreads[:-1]
    params = spreads[-1] * (back @ theta)
    params[0] += centres[-1]
    return TwinFit(params, spreads[-1] ** 2 * back @ variances @ back.T, table.mus)


def solve(table: Table, setting: Setting, allocation: BudgetAllocation) -> tuple[Array, Array]:
    """Run private clipped Newton; return standardised coefficients and their covariance."""
    loss, n, p, counts = setting.loss, table.n, table.rows.shape[1], setting.query_counts
    max_rounds = allocation.max_rounds(loss.curvature_varies)
    first = allocation.budgets(counts, max_rounds)

    def score_of(eta: Array) -> Any:
        return loss._score_at(table.y, eta, 1.0)

    def curvature_of(eta: Array) -> Any:
        return loss._curvature_at(table.y, eta, 1.0)

    # whitened rows, and a pilot estimate
    usual = FIRST_RADIUS * p**0.5
    radius = first_radius = max(usual, FIRST_PART * first.longest_radius(n, p))
    cap, shift = PILOT_CAP * (radius / usual) ** 0.5, 0.0
    if loss.curvature_varies:
        cap = shift = 0.5
    gram, moment = table.gram_and_moment(radius, cap, shift, first.matrix, first.vector)
    whitening = precondition(gram)
    assert whitening.floor >= 0.2 or not whitening.unclear.any(), "the twin whitens once"
    if loss.curvature_varies:
        theta, pilot_variance = decisions.coefficients_through_link(
            moment, whitening, setting, 1.0, n
        )
    else:
        theta, pilot_variance = decisions.shrunken_coefficients(moment, whitening)
    W, first_unwhiten = whitening.whiten, whitening.unwhiten
    intercept = first_unwhiten[:, 0]

    def expected(theta: Array) -> Any:
        # its last bits choose among eigenvectors of one eigenvalue, so it is not computed twice;
        # tests/kernels/test_decisions.py compares it with its twin
        return curved.gaussian_design_curvature(Linearization(theta, loss), intercept)

    # rounds of clipped scores, and the first step, which is one of them
    rounds, settled, planes = 0, False, ()
    while loss.curvature_varies:
        is_step = settled or rounds == max_rounds
        budget = allocation.budgets(counts, max_rounds).round
        if is_step:
            step_budget = allocation.budgets(counts, rounds)
            budget = step_budget.round._replace(vector=step_budget.steps[0])
        rows, shape = table.rows @ W, expected(theta)
        typical = curved.typical_curvature(*shape)
        radius = budget.longest_radius(n, p) * typical**0.5
        weighted = rows * np.sqrt(curvature_of(rows @ theta))[:, None]
        gram = table.gram(weighted, radius, budget.matrix)
        inner = precondition(gram, shape, 1.0, True)  # type: ignore[arg-type]
        rows = rows @ inner.whiten
        score = score_of(table.rows @ (W @ theta))
        sizes = np.sqrt((rows * rows).sum(1))
        norms = table.norms(sizes * np.abs(score), COARSE, budget.histogram)
        per_bound = clipping.noise_per_bound(n, [budget.vector])
        bound = decisions.choose_clipping_norm(norms, per_bound, p)[0]
        largest = sizes * loss._score_bound_at(table.rows @ (W @ theta))
        short = np.minimum(1.0, bound / np.maximum(largest, TINY))
        answer = table.scores(rows * (score * short)[:, None], bound, budget.vector)[0]
        scored = NoisyScore(inner.unwhiten @ theta, *answer)
        square, error = scored.debiased_squared_norm
        noise = answer.noise_scale * max(float(inner.values[-1]), inner.floor) ** 0.5
        step, back = decisions.round_step(scored, inner, shape[1])
        planes = (*planes, NoisyScore(theta, back, noise))
        theta = theta + cutting_plane(step, planes) * step
        if is_step:
            break
        rounds, settled = rounds + 1, square <= (SIGNAL_SDS**2 - 1.0) * error
        planes = () if settled else planes
    stepped = scored if loss.curvature_varies else None

    # whitened again, by the curvature here
    budget, shape, rows = allocation.budgets(counts, rounds), expected(theta), table.rows @ W
    typical = curved.typical_curvature(*shape)
    unit = typical**0.5
    weighted = rows * np.sqrt(curvature_of(rows @ theta))[:, None]
    norms = table.norms(np.sqrt((weighted * weighted).sum(1)), FINE, budget.histogram)
    longest = budget.longest_radius(n, p) * unit
    radius = norms.choose_weight_radius(p, typical, 0.5 * GRAM_NOISE / longest**2)
    radius = min(longest, radius)
    within = first_radius / whitening.values[-1] ** 0.5
    floor = whitening.floor / max(whitening.values[0], TINY)
    if not loss.curvature_varies and floor <= 0.5 and norms.mean_excess(within, 0.0) <= 0.5:
        budget, radius = allocation.budgets(counts, rounds, again=False), within
        local, values = whitening._replace(whiten=np.eye(p), unwhiten=np.eye(p)), np.ones(p)
        noise = whitening.floor / (math.sqrt(2.0 * p) * whitening.values)
    else:
        gram = table.gram(weighted, radius, budget.matrix)
        local = precondition(gram, shape)  # type: ignore[arg-type]
        values, floor, noise = [part / typical for part in (local.values, local.floor, gram[1])]
    known = np.maximum(values - noise, 0.0) / np.maximum(values, floor)
    back, W = local.unwhiten, W @ local.whiten
    model_at, rows, theta = Linearization(theta, loss), rows @ local.whiten, back @ theta
    sizes = np.sqrt((rows * rows).sum(1))

    # limits on rows far from the others, and the clipping norm
    per_bound, foreseen, exponent = clipping.noise_per_bound(n, budget.steps[1:]), None, 0.0
    factor, longest_score = np.ones(len(rows)), math.inf

    def reach(eta: Array) -> Any:
        possible = sizes * loss._score_bound_at(eta)
        return factor * np.minimum(1.0, longest_score / np.maximum(possible, TINY))

    if loss.curvature_varies:
        possible = sizes * loss._score_bound_at(rows @ theta)
        foreseen = table.norms(possible, FINE, budget.histogram)
        longest_score = decisions.choose_clipping_norm(foreseen, per_bound, p, n=n)[0]
    else:
        exponent = 1.0
        if values[0] >= MIN_EIGENVALUE:
            exponent = choose_weight_exponent(norms, radius, typical)
        lengths = np.sqrt(((rows @ np.linalg.inv(local.whiten)) ** 2).sum(1))
        factor = np.minimum(1.0, radius / np.maximum(lengths, TINY)) ** (2.0 * exponent)
    eta = rows @ theta
    score_norms = table.norms(sizes * np.abs(score_of(eta)) * reach(eta), COARSE, budget.histogram)
    bound, bias = decisions.choose_clipping_norm(
        score_norms, per_bound, p, longest_score, clipping.ASYMMETRY, foreseen, n
    )

    # averaged Newton steps
    excess = norms.mean_excess(radius, exponent) / unit**2
    rule = StoppingRule(
        math.sqrt(p / n)
        + 0.5 * floor / max(float(values[0]), TINY)
        + excess
        + allocation.small_sample_factor(),
        0.5 * norms.mean_of_squares() / (unit * (p * typical) ** 0.5) * loss.curvature_varies,
        score_norms.mean_square(bound),
    )
    undetermined = None
    if values[0] <= floor:
        undetermined = np.where(values <= floor, 1.0 - allocation.small_sample_factor(), 0.0)
    model = None
    if loss.curvature_varies:
        model = decisions.CurvatureModel(
            local.whiten, back, model_at, (intercept, 0.0, 0.0), 1.0, shape, undetermined
        )
    problem = Scores(table, rows, score_of, reach)
    found = averaged_newton(
        problem, theta, bound, rule, model, True, budget.steps, last_score=stepped
    )
    theta, hessian, meat, min_meat = found.theta, found.curvature, found.meat[0], found.min_meat

    # variances of sampling, noise and bias
    variances = np.linalg.eigvalsh(meat)
    variances = np.maximum(variances, 0.0)
    spread = float(variances.mean()) ** 0.5
    if loss.curvature_varies:
        removed = score_norms.clipped_square(bound, n)
    else:
        removed = norms.rescaled(unit).clipped_off(spread, radius / unit, exponent, bound)
        length = norms.longest / (unit * max(float(values[0]), floor) ** 0.5)
        rare = clipping.clipped_in_rare_direction(length, spread, bound)
        missing = np.maximum(np.median(variances) - variances, 0.0).sum()
        removed = max(removed, min(removed + rare, missing))
    meat = decisions.with_removed_variance(meat, removed, False)
    if min_meat is not None and min_meat.any():
        w, V = np.linalg.eigh(min_meat - meat)
        meat = meat + (V * np.maximum(w, 0.0)) @ V.T
    if hessian is not None:
        W, theta, back = np.linalg.solve(hessian, W.T).T, hessian @ theta, hessian @ back
    signal = decisions.slope_moments(theta, back @ intercept)[1]
    allowance = clipping.ASYMMETRY * bias
    biases = decisions.bias_variance(known, found.noises, signal, pilot_variance, allowance)
    total = meat / max(1, n - p) + np.diag(found.noise**2 + biases)
    return W @ theta, W @ total @ W.T


class Scores(NamedTuple):
    """The problem of the Newton steps: mean scores of whitened rows."""

    table: Table
    rows: Array
    score_of: Any
    reach: Any

    @property
    def n(self) -> int:
        return self.table.n

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float) -> JointAnswer:
        eta = self.rows @ theta
        scored = self.rows * (self.score_of(eta) * self.reach(eta))[:, None]
        answers = [Answer(*each, None) for each in self.table.scores(scored, bound, mu, mu_meat)]
        return JointAnswer(answers[0], answers[0], answers[-1], mu)

    def trusted_part(self, step: Array) -> float:
        return 1.0
