"""Clipped Newton: one solver for every default fit.

Rows are whitened by a released Gram matrix, and a clipped moment gives a pilot estimate.  Where the
curvature varies, a few rounds of clipped scores improve it.  A curvature released there whitens the
rows again.  Full steps then converge, and a step's noise is the same multiple of the standard error
in every direction.  A histogram of the scores' norms chooses their clipping norm.  A loss is given
by its score and curvature in the predictor (:meth:`dpfast.models.Loss._score_at`); the solver has
no branch for a named loss.
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


#: Radius of the first Gram's weights in sqrt(p), for standardised columns.
FIRST_RADIUS = 1.5

#: The same at least, as a part of the longest: rows of a rare level are long, and whitening by
#: weights below 1 would make them longer still.
FIRST_PART = 0.5

#: Standard deviations of noise above which a count, or the size of a matrix, shows records.
DETECTED_SDS = 3.0

#: Factor on the pilot's slopes of log means: covariances with counts are too steep for columns with
#: a long right tail, and a start that is too flat needs shorter steps than one too steep.
OVERSTATED = 0.5

#: Bound on the response in the pilot estimate, in its standard deviations.  Smaller, slopes are
#: biased to zero; larger, they are noisier.
PILOT_CAP = 3.0

#: Largest part of the records for which a subsample estimates the curvature of all.
SUBSAMPLE_PART = 0.25

#: Largest mean square of the norms beyond those that a subsample shows, as a part of all.  With
#: more, the curvature is estimated from all records.
MAX_UNDETECTED_SQUARE = 0.05

#: Smallest eigenvalue of the second Gram without weights.  Eigenvalues are about 1 where rows
#: longer than the radius do not matter.  Below, almost only long rows determine a direction, and
#: unweighted steps would diverge for all coefficients because of one column of mostly zeros.
MIN_EIGENVALUE = 0.35

#: Bins to a factor 2 in the histograms of rows and of scores: wider bins detect tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Number of bins of the finer histogram.
N_FINE_BINS = len(bin_edges(FINE))

#: Median of the absolute value of a standard normal number.
MEDIAN = 0.6745


#: Rows of a subsample for curvatures, and rows for scores.
Both = tuple[PreconditionedQueries, PreconditionedQueries]


class Scores(NamedTuple):
    """Released mean scores, their points and second moments of rows, in the design's columns.

    Scores have noise of covariance ``noise^2 rows'rows``.
    """

    moments: Array
    rows: Array
    asked: tuple[NoisyScore, ...]

    def in_columns(self, basis: Array, inverse: Array) -> Scores:
        """Return the scores of all columns, of rows that were mapped by a basis."""
        asked = [
            answer._replace(theta=basis @ answer.theta, score=inverse.T @ answer.score)
            for answer in self.asked
        ]
        return Scores(inverse.T @ self.moments @ inverse, self.rows @ inverse, tuple(asked))


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
    #: Curvature of long rows beyond the detected ones, relative to the typical curvature.
    excess_curvature: float = 0.0
    #: Whether the rows' second moments are larger than their noise.
    records_detected: bool = True
    scores: Scores | None = None
    #: Records per width in a narrow window about the fitted line, over those in a wide one.
    denser: float = 1.0

    def in_columns(self, basis: Array) -> SolverResult:
        """Return the result for all columns, of rows that were mapped by a basis.

        ``basis`` maps coefficients of these rows to those of the columns, of which some may be
        left out.
        """
        inverse = left_inverse(basis)
        return self._replace(
            theta=basis @ self.theta,
            mapping=basis @ self.mapping,
            unmapping=self.unmapping @ inverse,
            nonconvergence=None if self.nonconvergence is None else basis @ self.nonconvergence,
            scores=None if self.scores is None else self.scores.in_columns(basis, inverse),
        )


def left_inverse(basis: Array) -> Array:
    """Return the inverse of a basis, zero for columns that it leaves out."""
    inverse = np.zeros(basis.shape[::-1])
    kept = basis.any(axis=1)
    inverse[:, kept] = np.linalg.inv(basis[kept])
    return inverse


class InitialEstimate(NamedTuple):
    """Whitened rows and a pilot estimate, shared by several fits of one table."""

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
    elif not setting.loss.curvature_varies:
        # no round corrects a moment without the long rows; these have larger responses
        cap = PILOT_CAP * (long / radius) ** 0.5
        radius = long
    moment = few_rows.moment(radius, cap, budget.vector, at, shift=shift)
    theta, variance = _pilot(moment, mapping, unmapping, setting, 2.0 * shift, few_rows.n)
    rows, scale = rows.mapped(mapping), 1.0
    if setting.loss.needs_scale:  # at the pilot, residuals are larger than the declared scale
        at = Linearization(theta, setting.loss)
        histogram = rows.subsample().norm_histogram(
            bin_edges(COARSE)[:-1], budget.histogram, at, "residual"
        )
        scale = NormHistogram.from_noisy_shares(*histogram[:2], COARSE).median() / MEDIAN
    well_determined = bool(values[0] > SIGNAL_SDS * floor)
    return InitialEstimate(rows, mapping, unmapping, theta, variance, scale, well_determined)


def clipped_newton(
    rows: PreconditionedQueries,
    setting: Setting,
    allocation: BudgetAllocation,
    inference: bool,
    iterates: list[Array],
    progress: Callable[[int, int], None] | None = None,
    initial: InitialEstimate | None = None,
) -> SolverResult:
    """Estimate the coefficients within a budget."""
    n, p, _ = allocation
    max_rounds, has_start = (
        allocation.max_rounds(setting.loss.curvature_varies),
        initial is not None,
    )
    budget = allocation.budgets(setting.query_counts, max_rounds, has_start)
    if initial is None:
        initial = initial_estimate(rows, setting, budget)
    rows, mapping, unmapping, theta, pilot_variance, scale, well_determined = initial
    moments = unmapping.T @ unmapping
    loss, intercept = setting.loss, unmapping[:, 0] if setting.intercept else None
    if intercept is not None and loss.link == "identity":
        theta = theta + loss.level_shift * scale * intercept
    given_scale = setting.scale or scale
    scale = max(given_scale, scale)  # with a smaller one most records would have no curvature
    iterates.append(mapping @ theta)
    rounds: list[NoisyScore] = []
    last_score: NoisyScore | None = None
    # in a direction of very few records, a subsample has too few of them
    done, converged, few_rows = 0, False, rows.subsample() if well_determined else rows
    while done < max_rounds and not converged:
        at = Linearization(theta, loss, scale)
        theta, last_score = _round(
            (few_rows, few_rows), at, intercept, setting, budget.round, rounds
        )
        iterates.append(mapping @ theta)
        done += 1
        squared_norm, error = last_score.debiased_squared_norm
        settled = squared_norm <= (SIGNAL_SDS**2 - 1.0) * error
        converged = settled and scale <= given_scale
        if settled:  # go on with a smaller scale, whose scores point elsewhere
            scale, rounds = max(given_scale, 0.5 * scale), []
    broadening, fine = broadened(Linearization(theta, loss))[1], bin_edges(FINE)[:-1]
    # a subsample has too few records for a sharp curvature; a large one saves no time
    tries_sample = few_rows is not rows and broadening == 1.0 and few_rows.n <= SUBSAMPLE_PART * n
    constant_and_offsets, scale, last_score = (intercept, *setting.offset), given_scale, None

    def report(theta: Array, done: int) -> None:
        iterates.append(mapping @ theta)
        if progress is not None:
            progress(done, MAX_STEPS)

    for sampled in (True, False) if tries_sample else (None,):
        budget = allocation.budgets(setting.query_counts, done, has_start, sampled)
        curvature_rows = few_rows if sampled else rows
        if max_rounds and not sampled:
            # the first step starts with the curvature of a subsample
            samples, last = (few_rows, rows), budget.round._replace(vector=budget.steps[0])
            theta, last_score = _round(
                samples, Linearization(theta, loss, scale), intercept, setting, last, rounds
            )
            report(theta, 1)
        at = Linearization(theta, loss, scale)
        expected, broad_at = gaussian_design_curvature(at, *constant_and_offsets), broadened(at)[0]
        typical_level = typical_curvature(*expected)
        curvature_unit = (broadening * typical_level) ** 0.5
        counts = curvature_rows.norm_histogram(fine, budget.histogram, broad_at, "curvature")
        lengths = NormHistogram.from_noisy_shares(*counts[:2], FINE)
        max_norm = budget.longest_radius(curvature_rows.n, p) * curvature_unit
        light_tail = (
            few_rows is not rows
            and sampled is not False
            and lengths.longest <= max_norm
            and lengths.undetected_square() <= MAX_UNDETECTED_SQUARE * p * curvature_unit**2
        )
        if light_tail:
            break
    # the largest eigenvalue of the noise is twice its effect on a direction
    radius = min(
        max_norm, lengths.choose_weight_radius(p, curvature_unit**2, 0.5 * GRAM_NOISE / max_norm**2)
    )
    density_factor = broadening
    if broadening > 1.0:  # the density of the narrow window, in every direction of the wide one
        narrow_counts = few_rows.norm_histogram(fine, budget.histogram, at, "curvature")
        density_factor /= lengths.density_ratio(*narrow_counts[:2], FINE, broadening)
    gram = _over(curvature_rows.gram(radius, budget.matrix, broad_at), density_factor)
    whiten, back, values, floor = _inverse_root(gram, gaussian_design_hessian(*expected))
    values, floor = values / typical_level, floor / typical_level
    mapping, unmapping, start = mapping @ whiten, back @ unmapping, back @ theta
    steep_rows, at = rows.mapped(whiten), Linearization(start, loss, scale)
    row_clipping, power, score_bounds = NO_CLIPPING, 0.0, None
    noise_per_bound = 2.0 / (n * math.hypot(*budget.steps[1:]))
    if setting.downweights_by_score_bound:
        shown_rows = steep_rows.subsample() if light_tail else steep_rows
        counts = shown_rows.norm_histogram(fine, budget.histogram, at, "score size")
        foreseen = NormHistogram.from_noisy_shares(*counts[:2], FINE)
        # by a bound of the score and not by the response, so that the estimand is the same
        row_clipping = RowClipping(
            max_leverage=choose_clipping_norm(foreseen, noise_per_bound, p, n=n)[0]
        )
        score_bounds = (
            foreseen.rescaled(1.0 / (scale * setting.score_bound_ratio))
            if setting.score_bound_ratio < math.inf
            else None
        )
    else:
        # The curvature beyond the Gram's is at most as large again: full steps converge below
        # twice.  A direction with a small eigenvalue may have undetected long rows, which whitening
        # would make longer.
        power = (
            1.0
            if values[0] < MIN_EIGENVALUE
            else choose_weight_exponent(lengths, radius, typical_level)
        )
        if power:
            row_clipping = RowClipping(
                LeverageWeights(at, radius, power, np.asarray(np.linalg.inv(whiten), np.float64))
            )
    max_norm, first = row_clipping.max_leverage * scale * setting.score_bound_ratio, None
    edges, histogram_mu = setting.score_unit * bin_edges(COARSE)[:-1], budget.histogram
    if sampled:  # the histogram of norms comes with the first scores
        counts = steep_rows.subsample().norm_histogram(
            edges, budget.round.histogram, at, "score", row_clipping
        )
        scores = NormHistogram.from_noisy_shares(*counts[:2], COARSE, setting.score_unit)
        noise = 2.0 / (n * budget.steps[0])
        bound, _ = choose_clipping_norm(scores, noise, p, max_norm, foreseen=score_bounds, n=n)
        query = bound, budget.steps[0], edges, histogram_mu, row_clipping
        answer, counts = steep_rows.clipped_and_counted(at, *query)
        first = NoisyScore(start, *answer[:2])
    else:
        counts = steep_rows.norm_histogram(edges, histogram_mu, at, "score", row_clipping)
    scores = NormHistogram.from_noisy_shares(*counts[:2], COARSE, setting.score_unit)
    bound, clipping_bias = choose_clipping_norm(
        scores, noise_per_bound, p, max_norm, foreseen=score_bounds, n=n
    )

    excess_curvature = lengths.mean_excess(radius, power) / curvature_unit**2
    stopping_rule = StoppingRule(
        math.sqrt(p / curvature_rows.n)
        + 0.5 * floor / max(float(values[0]), TINY)
        + excess_curvature
        + allocation.small_sample_factor(),  # in small samples long rows are not detected
        0.5
        * lengths.mean_of_squares()
        / (curvature_unit * (p * typical_level) ** 0.5 * at.scale)
        * loss.curvature_varies,
        scores.mean_square(bound),
    )

    undetermined = (
        None
        if values[0] > floor
        else np.where(values <= floor, 1.0 - allocation.small_sample_factor(), 0.0)
    )
    curvature_model = (
        CurvatureModel(
            whiten,
            back,
            broad_at,
            constant_and_offsets,
            setting.min_score_variation,
            expected,
            undetermined,
        )
        if max_rounds
        else None
    )
    (
        theta,
        root,
        min_meat,
        n_hidden,
        noise,
        pooled_meat,
        noises,
        done,
        nonconvergence,
        released_scores,
    ) = newton_steps(
        steep_rows,
        at,
        bound,
        row_clipping,
        budget.steps,
        last_score,
        inference,
        stopping_rule,
        curvature_model,
        report,
        first,
    )
    scores_at: Scores | None = None
    if loss.may_separate:
        mapped_scores = [
            NoisyScore(mapping @ score.theta, unmapping.T @ score.score, score.noise)
            for score in released_scores
        ]
        scores_at = Scores(moments, unmapping, tuple(mapped_scores))
    meat, meat_scale = np.zeros((p, p)), 0.0
    if pooled_meat:
        mean, meat_scale = pooled_meat
        score_variances, vectors = eigh(mean)
        score_variances = np.maximum(score_variances, 0.0)
        spread = float(np.add.reduce(score_variances) / p) ** 0.5
        if loss.curvature_varies:
            clipped = scores.mean_excess(bound, 0.0)
        else:  # rows are not clipped, and fewer than a histogram shows may matter
            clipped = lengths.rescaled(curvature_unit).clipped_off(
                spread, radius / curvature_unit, power, bound
            )
        # clipping removes variance almost only along directions of few long rows, where the
        # variance could not be known to be smaller
        if setting.min_score_variation == math.inf:
            size = values[0] if values[0] > floor else floor
            rare_clipped = clipped_in_rare_direction(
                lengths.longest / (curvature_unit * size**0.5), spread, bound
            )
            missing = np.add.reduce(
                np.maximum(median_of_sorted(score_variances) - score_variances, 0.0)
            )
            clipped = max(clipped, min(clipped + rare_clipped, missing))
        score_variances = np.maximum(score_variances, water_level(score_variances, clipped))
        meat = np.asarray((vectors * score_variances) @ vectors.T)
        if min_meat is not None and min_meat.any():
            meat = meat + floor_eigenvalues(min_meat - meat, 0.0)[0]
    mapping = np.asfortranarray(mapping)  # as solve returns it: memory order changes roundings
    if root is not None:
        mapping = np.asarray(np.linalg.solve(root, mapping.T).T, np.float64)
        unmapping = root @ unmapping
        theta, back = root @ theta, root @ back
        row_clipping = row_clipping.mapped(root)
    known = np.maximum(values - gram.noise_scale / typical_level, 0.0) / np.maximum(values, floor)
    signal = float(theta @ theta)
    if intercept is not None:
        whitened_intercept = back @ intercept
        along = float(theta @ whitened_intercept) ** 2
        signal = max(0.0, signal - along / float(whitened_intercept @ whitened_intercept))
    unknown = np.minimum(signal / p, pilot_variance + (1.0 - known) ** 2 * signal / p)
    return SolverResult(
        theta=mapping @ theta,
        mapping=mapping,
        unmapping=unmapping,
        meat=meat,
        meat_scale=meat_scale,
        noise=noise,
        residual_bias_var=_left_over(known, noises) ** 2 * unknown
        + (ASYMMETRY * clipping_bias) ** 2 / p,
        n_hidden=max(n_hidden, int(np.count_nonzero(known <= 0.0))),
        bound=bound,
        clipped_share=float(scores.shares[scores.midpoints > bound].sum()),
        clipping_bias=clipping_bias,
        weight_exponent=power,
        downweighted_share=lengths.downweighted_share(radius, power),
        max_undetected=n * scores.max_undetected,
        nonconvergence=None if nonconvergence is None else mapping @ nonconvergence,
        scale=scale,
        steps=done,
        row_clipping=row_clipping,
        excess_curvature=excess_curvature,
        records_detected=not no_records(gram),
        scores=scores_at,
        denser=broadening / density_factor,
    )


def _pilot(
    moment: Answer, mapping: Array, unmapping: Array, setting: Setting, cap: float, n: int
) -> tuple[Array, Array]:
    """Estimate the whitened coefficients from a moment, with their variances.

    ``cap`` is the largest response, where there is a link.
    """
    loss, noise = setting.loss, np.add.reduce(mapping * mapping) * moment.noise_scale**2
    if loss.link == "identity":
        # whitened coefficients of a standardised response have mean square below 1/p
        shrunk = 1.0 / (1.0 + len(mapping) * noise)
        return shrunk * (mapping.T @ moment.value), noise * shrunk
    moments = mapping.T @ moment.value
    level, theta = 0.0, np.zeros(len(moments))
    centre, spread = setting.offset[0], setting.offset[1] * NODES
    if setting.intercept:
        intercept = unmapping[:, 0]
        size = math.sqrt(intercept @ intercept)
        direction = intercept / size
        # no nearer to the ends than the noise
        at_one = mapping @ direction
        error = moment.noise_scale * (math.sqrt(at_one @ at_one) / size)
        lowest = min(max(2.0 * error, cap / n), 0.5 * cap)
        highest = math.inf if loss.largest_response is None else cap - lowest
        mean = 0.5 * cap + float(direction @ moments) / size
        level = loss._predictor(min(max(mean, lowest), highest))
        if any(setting.offset):  # the mean response is an average over the offsets
            means = loss._means(level + spread, loss.largest_mean)[0]
            level = 2.0 * level - loss._link(float(MASSES @ means)) - centre
        theta, moments = level * intercept, moments - direction @ moments * direction
    flat = bounded_curvature(
        float(MASSES @ loss._means(level + centre + spread, loss.largest_mean)[1])
    )
    size = float(moments @ moments)
    shrinkage = max(size - float(noise.sum()), 0.0) / max(size, TINY) / flat
    shrinkage *= OVERSTATED if loss.link == "log" else 1.0
    length = shrinkage * math.sqrt(size)
    return theta + min(1.0, TRUST_REGION / max(length, TINY)) * shrinkage * moments, noise / flat**2


def _round(
    samples: Both,
    at: Linearization,
    intercept: Array | None,
    setting: Setting,
    budget: Budgets,
    earlier: list[NoisyScore],
) -> tuple[Array, NoisyScore]:
    """Take a step of clipped scores with the curvature of a subsample.

    Returns
    -------
    theta : ndarray of shape (p,)
    score : NoisyScore
        In the round's whitened coordinates.
    """
    few_rows, rows = samples
    expected, theta = gaussian_design_curvature(at, intercept, *setting.offset), at.theta
    typical = typical_curvature(*expected)
    broad, times = broadened(at)
    radius = budget.longest_radius(few_rows.n, theta.size) * (times * typical) ** 0.5
    gram = _over(few_rows.gram(radius, budget.matrix, broad), times)
    # where the shrunken curvature makes a step too short, the next one corrects it
    whiten, back, values, floor = _inverse_root(
        shrink_to_target(gram, gaussian_design_hessian(*expected))
    )
    whitened_rows, at = few_rows.mapped(whiten), at._replace(theta=back @ theta)
    edges = setting.score_unit * bin_edges(COARSE)[:-1]
    counts = whitened_rows.norm_histogram(edges, budget.histogram, at, "score")
    scores = NormHistogram.from_noisy_shares(*counts[:2], COARSE, setting.score_unit)
    bound, _ = choose_clipping_norm(scores, 2.0 / (rows.n * budget.vector), theta.size)
    row_clipping = setting.short_enough(bound, at.scale)
    answer = (
        rows.mapped(whiten).clipped(at, bound, budget.vector, row_clipping=row_clipping).gradient
    )
    scored = NoisyScore(at.theta, *answer[:2])
    square, error = scored.debiased_squared_norm
    noise = answer.noise_scale * max(float(values[-1]), floor) ** 0.5
    earlier.append(NoisyScore(theta, back.T @ answer.value, noise))
    step = square / (square + error) * (whiten @ answer.value)
    step *= trust_region_factor(step, expected[1])
    return theta + cutting_plane_step(step, earlier) * step, scored


def broadened(at: Linearization) -> tuple[Linearization, float]:
    """Widen the scale until a sharp curvature is an average over enough records.

    Returns
    -------
    at : Linearization
    broadening : float
        Factor on the scale.
    """
    times = min(max(1.0, at.loss.peakedness / EVEN_PEAK), MAX_CURVATURE)
    return at if times == 1.0 else at._replace(scale=times * at.scale), times


def _over(answer: Answer, times: float) -> Answer:
    """Divide an answer and its noise by a number."""
    return answer._replace(value=answer.value / times, noise_scale=answer.noise_scale / times)


def shrink_to_target(gram: Answer, target: Array) -> Answer:
    """Shrink a released matrix to a target, by the noise's part in their squared distance.

    James and Stein (1961); for covariance matrices Ledoit and Wolf (2004).
    """
    difference, p = gram.value - target, len(target)
    noise = gram.noise_scale**2 * p * (p + 1) / 2.0
    weight = max(0.0, 1.0 - noise / max(float(np.vdot(difference, difference)), TINY))
    return gram._replace(value=target + weight * difference)


def no_records(gram: Answer) -> bool:
    """Return True if the mean squared norm of rows is within its noise of zero."""
    return bool(
        gram.value.trace() < DETECTED_SDS * gram.noise_scale * math.sqrt(2.0 * len(gram.value))
    )


def noise_floor(gram: Answer) -> float:
    """Return the eigenvalue below which noise explains it."""
    return math.sqrt(2.0 * len(gram.value)) * gram.noise_scale


def _inverse_root(gram: Answer, expected: Array | None = None) -> tuple[Array, Array, Array, float]:
    """Compute ``U (max(L, floor))^-1/2`` of a released Gram, its inverse, L and the floor.

    An eigenvalue within noise is as expected, if that is smaller.
    """
    (values, vectors), floor = eigh(gram.value), noise_floor(gram)
    floors = floor if expected is None else np.minimum(floor, (expected @ vectors * vectors).sum(0))
    roots = np.sqrt(np.maximum(values, floors))
    return vectors / roots, (vectors * roots).T, values, floor


def _left_over(curvatures: Array, noises: list[float]) -> Array:
    """Compute the part of the pilot's error that remains after the steps, per direction."""
    remaining, precise = (1.0 - curvatures).tolist(), [noise**-2 for noise in noises]
    for k, initial in enumerate(remaining):
        current, weighted, total_precision = initial, 0.0, 0.0
        for precision in precise:
            total_precision += precision
            weighted += precision * initial * current
            current = weighted / total_precision
        remaining[k] = current
    return np.array(remaining)


def water_level(values: Array, amount: float) -> float:
    """Return the level of increasing values after water-filling with an amount.

    Cover and Thomas (2006), section 9.4: the smallest values rise to one level.
    """
    return float(((amount + values.cumsum()) / np.arange(1.0, len(values) + 1.0)).min())
