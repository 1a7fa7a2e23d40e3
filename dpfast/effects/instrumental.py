"""``two_stage``: two-stage least squares with instruments, and intervals for weak instruments."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.effects import planned_rows
from dpfast.curator.instruments.stages import Stages
from dpfast.data.columns import number_columns
from dpfast.data.formula import columns_of_formula, parts_at
from dpfast.data.source import records
from dpfast.effects.iv import TwoStage
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.degrees import MIN_DEGREES, Covariance
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.scaling.budget import refuse_too_few_records
from dpfast.scaling.private import plan_scaling
from dpfast.solvers.pcn.clipping import ASYMMETRY, choose_clipping_norm
from dpfast.solvers.pcn.histogram import NormHistogram, bin_edges

Array = NDArray[np.float64]

#: Shares of mu^2 left by the column scales: of the first Gram matrix and the norms it whitens, of
#: the second one, of the pilot's moments and of the norms of scores.  The steps have the rest.
SHARES = {"gram": 0.06, "lengths": 0.01, "second": 0.18, "pilot": 0.10, "scores": 0.03}

#: Shares of the Newton steps; the last two are averaged.
STEPS = (0.1, 0.3, 0.6)

#: Clipping norm of the first Gram matrix, in units of the root of the number of columns, and the
#: clipping bound on responses.
FIRST_RADIUS, RESPONSE_CLIP = 1.5, 3.0

#: Bins for each factor of 2 in the histograms of norms.
PER_OCTAVE = 2

#: Noise of a Gram matrix, relative to eigenvalues of 1, up to which rows are not clipped further.
MAX_UNCLIPPED_NOISE = 0.3

#: First-stage F below which instruments are called weak (Staiger and Stock 1997).
WEAK = 10.0

WEAK_ALONE = (
    "instruments are weak (first-stage F = {:.1f}): estimates are biased towards least squares, "
    "and their intervals may not cover. Use anderson_rubin(), which allows for both weakness and "
    "noise of the first stage."
)

WEAK_TOGETHER = (
    "instruments are weak: they barely move one endogenous regressor apart from the others "
    "(conditional first-stage F = {:.1f}). Estimates are biased towards least squares, "
    "and their intervals may not cover. Use instruments that move them apart, or one endogenous "
    "regressor."
)

#: Bias by clipping, in standard errors, above which the result warns.
MAX_CLIPPING_BIAS = 1.0

#: Copies of the records in memory at the same time, at most.
COPIES = 6


class _Columns(NamedTuple):
    """Positions of the columns: 1, exogenous, instruments, endogenous."""

    names: tuple[str, ...]
    exogenous: int
    instruments: int
    endogenous: int

    @property
    def z(self) -> list[int]:
        return list(range(1 + self.exogenous + self.instruments))

    @property
    def excluded(self) -> list[int]:
        return list(range(1 + self.exogenous, 1 + self.exogenous + self.instruments))

    @property
    def own(self) -> list[int]:
        """Positions of the exogenous regressors, the constant included."""
        return list(range(1 + self.exogenous))

    @property
    def ends(self) -> list[int]:
        first = 1 + self.exogenous + self.instruments
        return list(range(first, first + self.endogenous))

    @property
    def x(self) -> list[int]:
        return [*self.own, *self.ends]

    @property
    def size(self) -> int:
        return 1 + self.exogenous + self.instruments + self.endogenous


def two_stage(
    formula: str,
    table: Any,
    *,
    privacy: Budget | float | tuple[float, float],
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> TwoStage:
    """Fit two-stage least squares: effects of endogenous regressors, by instruments.

    The moments of both stages come from one noisy Gram matrix.  Three Newton steps then solve the
    moment conditions of whitened instruments and residuals, clipped at an estimated norm.  A noisy
    first stage costs precision, not validity.

    Parameters
    ----------
    formula : str
        ``"y ~ x + w | z + w"``: regressors, and after the bar the instruments, which include the
        exogenous regressors (as in ivreg and AER).  Each term is a numeric column.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        A record with an entry that is not finite contributes zero and counts in n.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total**; scales, first stage and intervals included.

    Returns
    -------
    TwoStage
        With the first stage's F, an Anderson-Rubin interval that is valid for weak instruments, and
        a test of over-identifying restrictions.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T7).  Column scales are
    claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 8000))
    >>> x = z + u + rng.normal(size=8000)
    >>> table = {"z": z, "x": x, "y": 2.0 * x + 3.0 * u + rng.normal(size=8000)}
    >>> fit = dpfast.effects.two_stage("y ~ x | z", table, privacy=1.0)
    >>> bool(abs(fit.params[1] - 2.0) < 0.5), bool(fit.first_stage_f > 100.0), fit.instruments
    (True, True, ('z',))
    """
    account = Account(privacy, ledger)
    columns, response = _parsed(formula)
    values = number_columns(table, columns_of(formula))
    source = records(values[:, :-1], values[:, -1], names=columns.names)
    request = FitRequest(source, None, account, fit_intercept=True, noise=noise)
    analysis = _Analysis(request, columns)
    with KeepReleased(privacy=request.guarantee, scales=lambda: analysis.units):
        label = request.label("two_stage", f"instruments={columns.instruments}")
        account.charge(label, request.memory_bytes(COPIES, include_arrays=True))
        return analysis.run(response)


def _parsed(formula: Any) -> tuple[_Columns, str]:
    parts = parts_at("|", formula) if type(formula) is str else []
    if len(parts) != 2:
        raise InvalidInput(
            "formula must be text with one bar, 'y ~ x + w | z + w': regressors, and after the bar "
            f"the instruments with the exogenous regressors; received {described(formula)}."
        )
    response, regressors, intercept = columns_of_formula(parts[0])
    _, instrument_terms, has_intercept = columns_of_formula(f"`{response}` ~ {parts[1]}")
    if not (intercept and has_intercept):
        raise InvalidInput("two_stage has an intercept, which is its own instrument.")
    exogenous = [name for name in regressors if name in instrument_terms]
    endogenous = [name for name in regressors if name not in instrument_terms]
    excluded = [name for name in instrument_terms if name not in regressors]
    names = (*exogenous, *excluded, *endogenous)
    if response in names or len(set(names)) < len(names):
        raise InvalidInput("the columns of the formula must differ from one another.")
    if not endogenous:
        raise InvalidInput(
            "every regressor is among the instruments: that is least squares. Use dpfast.fit."
        )
    if len(excluded) < len(endogenous):
        raise InvalidInput(
            f"{len(endogenous)} endogenous regressors {endogenous} need as many instruments at "
            f"least; received {excluded}."
        )
    return _Columns(names, len(exogenous), len(excluded), len(endogenous)), response


def columns_of(formula: Any) -> list[str]:
    """Return the columns that a formula needs, the response last."""
    columns, response = _parsed(formula)
    return [*columns.names, response]


class _Analysis:
    """Public decisions before the charge, and the run after it."""

    def __init__(self, request: FitRequest, columns: _Columns) -> None:
        self._request, self._columns = request, columns
        n, p, mu = request.n, columns.size, request.account.total.mu * (1.0 - ROUNDING_SUM)
        self._purchase, rest = plan_scaling(request, mu)
        refuse_too_few_records(n, p, mu, f" for p = {p} columns: estimates", "columns")
        self._mu = {name: rest * math.sqrt(part) for name, part in SHARES.items()}
        steps_share = 1.0 - sum(SHARES.values())
        self._steps = [rest * math.sqrt(steps_share * part) for part in STEPS]
        mu_histograms, mu_steps = (self._mu["lengths"], self._mu["scores"]), tuple(self._steps)
        planned_rows(n, p, request.noise).refuse(
            (self._mu["gram"], self._mu["second"]), (self._mu["pilot"],), mu_histograms, mu_steps,
            cells=len(bin_edges(PER_OCTAVE)),
        )  # fmt: skip

    @property
    def units(self) -> Any:
        """Released scales of the columns, if any yet."""
        return self._purchase.released

    def run(self, response: str) -> TwoStage:
        """Release column scales and moments, and estimate."""
        self._purchase.in_place()
        request, columns, mu = self._request, self._columns, self._mu
        stages = Stages(request.records, request.ledger, request.noise, request.threads)
        moments = _first_stage(stages, columns, mu)
        solved = _steps(stages, columns, moments, mu, self._steps)
        return _natural(solved, moments, columns, request, response)


class _Moments(NamedTuple):
    """Noisy second moments of the columns, and their products with the response."""

    gram: Array
    noise: float
    response: Array
    back: Array


def _first_stage(stages: Stages, columns: _Columns, mu: dict[str, float]) -> _Moments:
    noisy_gram = whitening_and_gram(stages, mu)
    moment = stages.moment(noisy_gram.whitening, noisy_gram.radius, RESPONSE_CLIP, mu["pilot"])
    back = np.asarray(np.linalg.inv(noisy_gram.whitening), dtype=np.float64)
    return _Moments(noisy_gram.gram, noisy_gram.noise, back.T @ moment.value, back)


class NoisyGram(NamedTuple):
    """Noisy Gram matrix of unwhitened rows, with the whitening and clipping norm of its release."""

    whitening: Array
    radius: float
    gram: Array
    noise: float
    hidden: int


def whitening_and_gram(stages: Stages, mu: dict[str, float]) -> NoisyGram:
    """Release a rough Gram matrix to whiten rows, then a precise one of whitened rows."""
    p, n = stages.dimension, stages.n
    first = stages.gram(np.eye(p), FIRST_RADIUS * math.sqrt(p), mu["gram"])
    whitening = inverse_root(first.value, math.sqrt(2.0 * p) * first.noise_scale)
    edges = bin_edges(PER_OCTAVE)
    answer = stages.norm_histogram(whitening, edges[:-1], mu["lengths"])
    norms = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
    # the noise of an eigenvalue has sqrt(2 p) times the standard deviation of an entry's
    quiet_radius = math.sqrt(MAX_UNCLIPPED_NOISE * n * mu["second"] / (2.0 * math.sqrt(p)))
    radius = min(norms.longest, max(quiet_radius, FIRST_RADIUS * math.sqrt(p)))
    second = stages.gram(whitening, radius, mu["second"])
    floored, _, hidden = floor_eigenvalues(second.value, math.sqrt(2.0 * p) * second.noise_scale)
    back = np.linalg.inv(whitening)
    return NoisyGram(whitening, radius, back.T @ floored @ back, second.noise_scale, hidden)


def inverse_root(gram: Array, floor: float) -> Array:
    """Return the inverse square root of a matrix, its eigenvalues floored."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)) @ vectors.T)


class IVEstimate(NamedTuple):
    """Estimate in coded units, the moments it solves, and their errors."""

    params: Array
    covariance: Array
    degrees: Array
    moment: Array
    variance: Array
    jacobian: Array
    bound: float
    cut: float
    spread: float
    mixed: Array
    root: Array
    noise: float
    place: Array
    unsure: float


def _steps(
    stages: Stages, columns: _Columns, moments: _Moments, mu: dict[str, float], steps: list[float]
) -> IVEstimate:
    """Solve the moment conditions by Newton steps, from a pilot estimate; average the last two."""
    z, x, n = columns.z, columns.x, stages.n
    k, gram = len(z), moments.gram
    root = inverse_root(gram[np.ix_(z, z)], 1e-12)
    matrix = np.zeros((columns.size, k))
    matrix[z] = root
    jacobian = root @ gram[np.ix_(z, x)]
    step = np.linalg.pinv(jacobian)
    params = np.zeros(columns.size)
    params[x] = step @ (root @ moments.response[z])
    edges = bin_edges(PER_OCTAVE)
    answer = stages.score_norm_histogram(matrix, params, edges[:-1], mu["scores"])
    norms = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
    effective = math.sqrt(steps[-2] ** 2 + steps[-1] ** 2)
    bound, cut = choose_clipping_norm(norms, 2.0 / (n * effective), k)
    points, places, scores, noises = [], [], [], []
    for i, part in enumerate(steps):
        last = i == len(steps) - 1
        released = stages.scores(matrix, params, bound, part, 0.5 * part if last else 0.0)
        point = params.copy()
        point[x] += step @ released.gradient.value
        points.append(point)
        places.append(params)
        scores.append(released.gradient.value)
        noises.append(released.gradient.noise_scale)
        params = point
    precise = np.array(noises[1:]) ** -2.0
    weights = precise / precise.sum()
    params = weights[0] * points[1] + weights[1] * points[2]
    noise = float(precise.sum()) ** -0.5
    variance = released.meat.value / n + noise**2 * np.eye(k)
    variance = floor_eigenvalues(variance, noise**2)[0]
    covariance = step @ variance @ step.T
    unsure = released.meat.noise_scale * (step**2).sum(axis=1) / n
    degrees = np.maximum(MIN_DEGREES, 2.0 / (unsure / covariance.diagonal()) ** 2)
    # moments at the estimate, where those of the regressors are zero
    moment = sum(
        weight * (score - jacobian @ (params - place)[x])
        for weight, score, place in zip(weights, scores[1:], places[1:], strict=True)
    )
    place = sum(
        weight * point_before for weight, point_before in zip(weights, places[1:], strict=True)
    )
    residual_moments = moments.response - gram @ params
    spread = math.sqrt(max(float(np.trace(released.meat.value)) / k, noise**2))
    return IVEstimate(
        params, covariance, degrees, moment, variance, jacobian, bound, ASYMMETRY * cut,
        spread, residual_moments, root, noise, np.asarray(place),
        released.meat.noise_scale / n,
    )  # fmt: skip


def _natural(
    solved: IVEstimate,
    moments: _Moments,
    columns: _Columns,
    request: FitRequest,
    response: str,
) -> TwoStage:
    """Report the estimate and its tests in original units."""
    assert request.coding is not None
    x, ends = columns.x, columns.ends
    centres, spreads = _units(request)
    place, spread = request.coding.response_units()
    scale = np.array([1.0, *[spreads[j - 1] for j in x[1:]]])
    back = np.diag(spread / scale)
    back[0, 1:] = -spread * np.array([centres[j - 1] for j in x[1:]]) / scale[1:]
    params = back @ solved.params[x]
    params[0] += place
    covariance = back @ solved.covariance @ back.T
    names = ("intercept", *[columns.names[j - 1] for j in x[1:]])
    degrees = solved.degrees.copy()
    weights = np.abs(back[0]) * np.sqrt(solved.covariance.diagonal())
    degrees[0] = degrees[int(np.argmax(weights))]
    f = _first_stage_f(moments, columns, request.n)
    statistic, freedom = _overidentification(solved, columns)
    rubin = None
    if len(ends) == 1:
        j = len(x) - 1
        ranges = _anderson_rubin(solved, columns, moments)
        unit = spread / scale[j]
        if request.few_complete:  # no coefficient is released
            ranges = (ranges[0], np.full_like(ranges[1], np.nan), ranges[2])
        rubin = (solved.params[x][j] * unit, unit, ranges)
    remarks = list(request.remarks)
    if f < WEAK:
        remarks.append((WEAK_ALONE if len(ends) == 1 else WEAK_TOGETHER).format(f))
    largest = float(np.linalg.norm(np.linalg.pinv(solved.jacobian), 2)) * solved.cut
    if largest > MAX_CLIPPING_BIAS * math.sqrt(
        float(np.max(np.linalg.eigvalsh(solved.covariance)))
    ):
        remarks.append(
            f"scores were clipped at a norm of {solved.bound:.3g}, which may bias the estimate "
            "by more than a standard error. Use the logarithm of a response that spans "
            "orders of magnitude, or a larger budget."
        )
    known = Covariance(covariance, 0, np.zeros(len(params)), tuple(remarks))
    known = request.released_covariance(known, names).representable(params, names)
    return TwoStage(
        params=params,
        bse=np.sqrt(known.matrix.diagonal()),
        degrees_of_freedom=degrees,
        names=names,
        response=response,
        endogenous=tuple([columns.names[j - 1] for j in ends]),
        instruments=tuple([columns.names[j - 1] for j in columns.excluded]),
        covariance=known.matrix,
        first_stage_f=f,
        overidentification=(statistic, freedom),
        n_records=request.n,
        privacy=request.guarantee(),
        warnings=known.remarks,
        curve=rubin,
    )


def _units(request: FitRequest) -> tuple[list[float], list[float]]:
    """Return the centres and scales of the columns."""
    assert request.coding is not None
    coded = [request.coding.columns[name] for name in request.column_names]
    return [scaling.location for scaling in coded], [scaling.spread for scaling in coded]


def _first_stage_f(moments: _Moments, columns: _Columns, n: int) -> float:
    """Compute the least F statistic of the excluded instruments over the endogenous regressors.

    With several endogenous regressors it is conditional: each is taken net of what the instruments
    predict of the others (Sanderson and Windmeijer 2016).  Their correction of the residual degrees
    of freedom is left out.
    """
    included, excluded, gram = columns.own, columns.excluded, moments.gram
    ends, k = columns.ends, len(columns.excluded)

    def partialled(rows: list[int], others: list[int]) -> Array:
        """Return products of columns after regression on the exogenous ones."""
        predicted = np.linalg.solve(
            gram[np.ix_(included, included)], gram[np.ix_(included, others)]
        )
        return np.asarray(gram[np.ix_(rows, others)] - gram[np.ix_(rows, included)] @ predicted)

    half = inverse_root(partialled(excluded, excluded), 1e-12)
    first = half @ partialled(excluded, ends)
    total = partialled(ends, ends)
    statistics = []
    for j in range(len(ends)):
        contrast = np.zeros(len(ends))
        others = [i for i in range(len(ends)) if i != j]
        contrast[j] = 1.0
        contrast[others] = -np.linalg.lstsq(first[:, others], first[:, j], rcond=None)[0]
        explained = float(np.sum((first @ contrast) ** 2))
        unexplained = max(float(contrast @ total @ contrast) - explained, 1e-12)
        # the noise is that of whitened rows; back in units of the unwhitened regressor
        noise = moments.noise**2 * float(contrast @ gram[np.ix_(ends, ends)] @ contrast)
        statistics.append(explained / ((k - len(others)) * (unexplained / n + noise)))
    return min(statistics)


def _overidentification(estimate: IVEstimate, columns: _Columns) -> tuple[float, int]:
    """Compute Hansen's J (1982), from moments that no coefficients can set to zero."""
    freedom = columns.instruments - columns.endogenous
    if freedom == 0:
        return math.nan, 0
    half = inverse_root(estimate.variance, 1e-300)
    D, m = half @ estimate.jacobian, half @ estimate.moment
    residual = m - D @ np.linalg.lstsq(D, m, rcond=None)[0]
    return float(residual @ residual), freedom


#: Floor on the variance of residuals at any coefficient, relative to that at the estimate.  The
#: released moments may suggest less, or a negative one.
MIN_INFLATION = 0.05

#: Entries of the matrices in memory at once, which bounds the memory of the grid.
MAX_ENTRIES = 1_000_000

#: Distances from the estimate that the Anderson-Rubin test is inverted at, in standard errors.
GRID = np.concatenate([-np.geomspace(1e4, 1e-3, 4000), [0.0], np.geomspace(1e-3, 1e4, 4000)])


def _anderson_rubin(
    solved: IVEstimate, columns: _Columns, moments: _Moments
) -> tuple[Array, Array, int]:
    """Compute the Anderson-Rubin statistic (1949) along a grid of distances from the estimate.

    Moments at a coefficient are the scores released at ``place``, minus the released first stage
    times the step from there.  Their variance has three parts.  One is sampling, with the residuals
    at that coefficient.  One is the noise in scores.  The third, along the step, is the noise ``E``
    in the first stage.  Its Gram matrix is ``back' (. + E) back``: ``cov(E v) = s^2 (|v|^2 I + v
    v') / 2``.
    """
    n_exogenous, j = len(columns.own), columns.ends[0]
    error = math.sqrt(float(solved.covariance[-1, -1]))
    offsets, gram, x = GRID * error, moments.gram, columns.x
    residual_variance = max(
        float(gram[j, j] - gram[columns.z, j] @ np.linalg.solve(
            gram[np.ix_(columns.z, columns.z)], gram[columns.z, j]
        )),
        0.0,
    )  # fmt: skip
    inflation = (
        1.0
        + (-2.0 * offsets * float(solved.mixed[j]) + offsets**2 * residual_variance)
        / solved.spread**2
    )
    inflation = np.maximum(inflation, MIN_INFLATION)
    # the directions of moments that no exogenous coefficient moves
    free_directions = np.linalg.qr(solved.jacobian[:, :n_exogenous], mode="complete")[0][
        :, n_exogenous:
    ]
    moment = (solved.moment - np.outer(offsets, solved.jacobian[:, -1])) @ free_directions
    # the exogenous coefficients at each distance
    pair = np.stack([solved.moment, -solved.jacobian[:, -1]], axis=1)
    exogenous_slopes = np.linalg.lstsq(solved.jacobian[:, :n_exogenous], pair, rcond=None)[0]
    start, direction = (solved.params - solved.place)[x], np.append(exogenous_slopes[:, 1], 1.0)
    start[:n_exogenous] += exogenous_slopes[:, 0]
    steps = (start + np.outer(offsets, direction)) @ moments.back[:, x].T
    through = free_directions.T @ solved.root @ moments.back[:, columns.z].T
    projected, squared_steps = steps @ through.T, (steps**2).sum(axis=1)
    noise, gram_noise = solved.noise**2 * np.eye(columns.instruments), 0.5 * moments.noise**2
    values, vectors = np.linalg.eigh(free_directions.T @ solved.variance @ free_directions)
    # the mean of a noisy inverse is too large: to second order, by E V^-1 E for noise E in V
    values += 0.5 * solved.unsure**2 * (len(values) + 1) / np.maximum(values, solved.noise**2)
    sampling = (vectors * np.maximum(values - solved.noise**2, 0.0)) @ vectors.T
    statistics = np.empty(len(offsets))
    for part in np.array_split(
        np.arange(len(offsets)), 1 + len(offsets) * len(sampling) ** 2 // MAX_ENTRIES
    ):
        variance = (
            inflation[part, None, None] * sampling
            + noise
            + gram_noise * squared_steps[part, None, None] * (through @ through.T)
            + gram_noise * projected[part, :, None] * projected[part, None, :]
        )
        weighted_moments = np.linalg.solve(variance, moment[part, :, None])[:, :, 0]
        statistics[part] = (moment[part] * weighted_moments).sum(axis=1)
    return offsets, statistics, columns.instruments
