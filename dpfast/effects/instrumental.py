"""``two_stage``: two-stage least squares with instruments, and intervals for weak ones."""

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
from dpfast.inference.degrees import LEAST, Covariance
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.optimize.road.histogram import ASYMMETRY, NormHistogram, bin_edges, choose_clipping_norm
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.shared import plan_scaling, refuse_too_few_records

Array = NDArray[np.float64]

#: Shares of mu^2, of what units leave: of the first Gram and the lengths it whitens, of the second,
#: of the pilot's moments and of the lengths of scores.  The steps have the rest.
SHARES = {"gram": 0.06, "lengths": 0.01, "second": 0.18, "pilot": 0.10, "scores": 0.03}

#: Of the steps.
STEPS = (0.1, 0.3, 0.6)

#: Radius of the first Gram, in the root of the number of columns, and the bound on responses.
FIRST_RADIUS, CAP = 1.5, 3.0

#: Cells to a factor 2 in the histograms.
PER_OCTAVE = 2

#: Noise of a Gram, in its eigenvalues of one, up to which rows are not discounted.
QUIET = 0.3

#: First-stage F below which instruments are called weak (Staiger and Stock 1997).
WEAK = 10.0

WEAK_ALONE = (
    "instruments are weak (first-stage F = {:.1f}): estimates lean towards least squares and their "
    "intervals may not cover. Use anderson_rubin(), whose variance has the first stage's noise."
)

WEAK_TOGETHER = (
    "instruments are weak: they hardly move one endogenous regressor apart from the others "
    "(conditional first-stage F = {:.1f}). Estimates lean towards least squares and their "
    "intervals may not cover. Use instruments that move them apart, or one endogenous regressor."
)

#: What is cut off the scores, in standard errors, from which on it is told.
CUT = 1.0

COPIES = 6


class _Columns(NamedTuple):
    """Positions among (1, exogenous, instruments, endogenous)."""

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
        """Of the exogenous regressors, the constant among them."""
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
    """Two-stage least squares: effects of regressors that are not exogenous, by instruments.

    Both stages' moments come from one released Gram, and three Newton steps on moments of whitened
    instruments and residuals, held to a bought norm, find the estimate.  A noisy first stage
    costs precision, not validity.

    Parameters
    ----------
    formula : str
        ``"y ~ x + w | z + w"``: regressors, and after the bar the instruments, among them the
        exogenous regressors (as in ivreg and AER).  Each term is a numeric column.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        A record with an entry that is not finite contributes zero and counts in n.
    privacy, ledger, noise
        As of :func:`dpfast.fit`: the **total**, units, first stage and intervals included.

    Returns
    -------
    TwoStage
        With the first stage's F, an Anderson-Rubin interval that holds for weak instruments, and a
        test of over-identifying restrictions.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T7); units are claims D1
    to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 8000))
    >>> x = z + u + rng.normal(size=8000)
    >>> table = {"z": z, "x": x, "y": 2.0 * x + 3.0 * u + rng.normal(size=8000)}
    >>> found = dpfast.effects.two_stage("y ~ x | z", table, privacy=1.0)
    >>> bool(abs(found.params[1] - 2.0) < 0.5), bool(found.first_stage_f > 100.0), found.instruments
    (True, True, ('z',))
    """
    account = Account(privacy, ledger)
    columns, response = _parsed(formula)
    found = number_columns(table, columns_of(formula))
    source = records(found[:, :-1], found[:, -1], names=columns.names)
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
    _, after, also = columns_of_formula(f"`{response}` ~ {parts[1]}")
    if not (intercept and also):
        raise InvalidInput("two_stage has an intercept, which is its own instrument.")
    exogenous = [name for name in regressors if name in after]
    endogenous = [name for name in regressors if name not in after]
    excluded = [name for name in after if name not in regressors]
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
    """What a table needs for a formula, the response last."""
    columns, response = _parsed(formula)
    return [*columns.names, response]


class _Analysis:
    """Everything that is decided before the charge, and the run after it."""

    def __init__(self, request: FitRequest, columns: _Columns) -> None:
        self._request, self._columns = request, columns
        n, p, mu = request.n, columns.size, request.account.total.mu * (1.0 - ROUNDING_SUM)
        self._purchase, rest = plan_scaling(request, mu)
        refuse_too_few_records(n, p, mu, f" for p = {p} columns: estimates", "columns")
        self._mu = {name: rest * math.sqrt(part) for name, part in SHARES.items()}
        left = 1.0 - sum(SHARES.values())
        self._steps = [rest * math.sqrt(left * part) for part in STEPS]
        of_lengths, of_steps = (self._mu["lengths"], self._mu["scores"]), tuple(self._steps)
        planned_rows(n, p, request.noise).refuse(
            (self._mu["gram"], self._mu["second"]), (self._mu["pilot"],), of_lengths, of_steps,
            cells=len(bin_edges(PER_OCTAVE)),
        )  # fmt: skip

    @property
    def units(self) -> Any:
        """Units of the columns, once they were bought."""
        return self._purchase.released

    def run(self, response: str) -> TwoStage:
        """Pay and estimate."""
        self._purchase.in_place()
        request, columns, mu = self._request, self._columns, self._mu
        stages = Stages(request.records, request.ledger, request.noise, request.threads)
        moments = _first_stage(stages, columns, mu)
        found = _steps(stages, columns, moments, mu, self._steps)
        return _natural(found, moments, columns, request, response)


class _Moments(NamedTuple):
    """Second moments of all columns, and their pilot, in released units."""

    gram: Array
    noise: float
    response: Array
    back: Array


def _first_stage(stages: Stages, columns: _Columns, mu: dict[str, float]) -> _Moments:
    seen = whitening_and_gram(stages, mu)
    moment = stages.moment(seen.whitening, seen.radius, CAP, mu["pilot"])
    back = np.asarray(np.linalg.inv(seen.whitening), dtype=np.float64)
    return _Moments(seen.gram, seen.noise, back.T @ moment.value, back)


class NoisyGram(NamedTuple):
    """A Gram of rows as they are, and how it was asked for."""

    whitening: Array
    radius: float
    gram: Array
    noise: float
    hidden: int


def whitening_and_gram(stages: Stages, mu: dict[str, float]) -> NoisyGram:
    """A first Gram, which whitens rows, and one of whitened rows."""
    p, n = stages.dimension, stages.n
    first = stages.gram(np.eye(p), FIRST_RADIUS * math.sqrt(p), mu["gram"])
    whitening = inverse_root(first.value, math.sqrt(2.0 * p) * first.noise_scale)
    edges = bin_edges(PER_OCTAVE)
    answer = stages.norm_histogram(whitening, edges[:-1], mu["lengths"])
    lengths = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
    # sd of the noise in each eigenvalue is the root of 2 p times that of the Gram
    quiet = math.sqrt(QUIET * n * mu["second"] / (2.0 * math.sqrt(p)))
    radius = min(lengths.longest, max(quiet, FIRST_RADIUS * math.sqrt(p)))
    second = stages.gram(whitening, radius, mu["second"])
    held, _, hidden = floor_eigenvalues(second.value, math.sqrt(2.0 * p) * second.noise_scale)
    back = np.linalg.inv(whitening)
    return NoisyGram(whitening, radius, back.T @ held @ back, second.noise_scale, hidden)


def inverse_root(gram: Array, floor: float) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)) @ vectors.T)


class IVEstimate(NamedTuple):
    """The estimate in released units, the moments it comes from, and how they are known."""

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
    lengths = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
    effective = math.sqrt(steps[-2] ** 2 + steps[-1] ** 2)
    bound, cut = choose_clipping_norm(lengths, 2.0 / (n * effective), k)
    points, places, scores, noises = [], [], [], []
    for i, part in enumerate(steps):
        last = i == len(steps) - 1
        asked = stages.scores(matrix, params, bound, part, 0.5 * part if last else 0.0)
        point = params.copy()
        point[x] += step @ asked.gradient.value
        points.append(point)
        places.append(params)
        scores.append(asked.gradient.value)
        noises.append(asked.gradient.noise_scale)
        params = point
    precise = np.array(noises[1:]) ** -2.0
    weights = precise / precise.sum()
    params = weights[0] * points[1] + weights[1] * points[2]
    noise = float(precise.sum()) ** -0.5
    variance = asked.meat.value / n + noise**2 * np.eye(k)
    variance = floor_eigenvalues(variance, noise**2)[0]
    covariance = step @ variance @ step.T
    unsure = asked.meat.noise_scale * (step**2).sum(axis=1) / n
    degrees = np.maximum(LEAST, 2.0 / (unsure / covariance.diagonal()) ** 2)
    # at the estimate, where the regressors' moments are zero
    moment = sum(
        weight * (score - jacobian @ (params - place)[x])
        for weight, score, place in zip(weights, scores[1:], places[1:], strict=True)
    )
    place = sum(weight * one for weight, one in zip(weights, places[1:], strict=True))
    left = moments.response - gram @ params
    spread = math.sqrt(max(float(np.trace(asked.meat.value)) / k, noise**2))
    return IVEstimate(
        params, covariance, degrees, moment, variance, jacobian, bound, ASYMMETRY * cut,
        spread, left, root, noise, np.asarray(place),
        asked.meat.noise_scale / n,
    )  # fmt: skip


def _natural(
    found: IVEstimate,
    moments: _Moments,
    columns: _Columns,
    request: FitRequest,
    response: str,
) -> TwoStage:
    """The result in the columns' own units."""
    assert request.coding is not None
    x, ends = columns.x, columns.ends
    centres, spreads = _units(request)
    place, spread = request.coding.response_units()
    scale = np.array([1.0, *[spreads[j - 1] for j in x[1:]]])
    back = np.diag(spread / scale)
    back[0, 1:] = -spread * np.array([centres[j - 1] for j in x[1:]]) / scale[1:]
    params = back @ found.params[x]
    params[0] += place
    covariance = back @ found.covariance @ back.T
    names = ("intercept", *[columns.names[j - 1] for j in x[1:]])
    degrees = found.degrees.copy()
    weights = np.abs(back[0]) * np.sqrt(found.covariance.diagonal())
    degrees[0] = degrees[int(np.argmax(weights))]
    f = _first_stage_f(moments, columns, request.n)
    statistic, freedom = _overidentification(found, columns)
    rubin = None
    if len(ends) == 1:
        j = len(x) - 1
        ranges = _anderson_rubin(found, columns, moments)
        unit = spread / scale[j]
        if request.few_complete:  # no coefficient is told
            ranges = (ranges[0], np.full_like(ranges[1], np.nan), ranges[2])
        rubin = (found.params[x][j] * unit, unit, ranges)
    told = list(request.remarks)
    if f < WEAK:
        told.append((WEAK_ALONE if len(ends) == 1 else WEAK_TOGETHER).format(f))
    largest = float(np.linalg.norm(np.linalg.pinv(found.jacobian), 2)) * found.cut
    if largest > CUT * math.sqrt(float(np.max(np.linalg.eigvalsh(found.covariance)))):
        told.append(
            f"scores were held to a norm of {found.bound:.3g}, and what is cut off may move the "
            "estimate by more than a standard error. Use the logarithm of a response that spans "
            "orders of magnitude, or a larger budget."
        )
    known = Covariance(covariance, 0, np.zeros(len(params)), tuple(told))
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
    assert request.coding is not None
    coded = [request.coding.columns[name] for name in request.column_names]
    return [one.location for one in coded], [one.spread for one in coded]


def _first_stage_f(moments: _Moments, columns: _Columns, n: int) -> float:
    """Least of the endogenous regressors' F, of the instruments beside the exogenous ones.

    Of several regressors, conditional ones: of what instruments tell of one beside what they tell
    of the others (Sanderson and Windmeijer 2016, without their correction of degrees of freedom in
    the residual).
    """
    own, excluded, gram = columns.own, columns.excluded, moments.gram
    ends, k = columns.ends, len(columns.excluded)

    def beside(rows: list[int], others: list[int]) -> Array:
        """Products of these columns less what the exogenous ones tell of them."""
        told = np.linalg.solve(gram[np.ix_(own, own)], gram[np.ix_(own, others)])
        return np.asarray(gram[np.ix_(rows, others)] - gram[np.ix_(rows, own)] @ told)

    half = inverse_root(beside(excluded, excluded), 1e-12)
    first = half @ beside(excluded, ends)
    whole = beside(ends, ends)
    found = []
    for j in range(len(ends)):
        way = np.zeros(len(ends))
        others = [i for i in range(len(ends)) if i != j]
        way[j] = 1.0
        way[others] = -np.linalg.lstsq(first[:, others], first[:, j], rcond=None)[0]
        explained = float(np.sum((first @ way) ** 2))
        left = max(float(way @ whole @ way) - explained, 1e-12)
        # of whitened rows; in units of the regressor as it is
        noise = moments.noise**2 * float(way @ gram[np.ix_(ends, ends)] @ way)
        found.append(explained / ((k - len(others)) * (left / n + noise)))
    return min(found)


def _overidentification(found: IVEstimate, columns: _Columns) -> tuple[float, int]:
    """Hansen's J at the estimate: moments that no choice of the coefficients makes zero."""
    freedom = columns.instruments - columns.endogenous
    if freedom == 0:
        return math.nan, 0
    half = inverse_root(found.variance, 1e-300)
    D, m = half @ found.jacobian, half @ found.moment
    left = m - D @ np.linalg.lstsq(D, m, rcond=None)[0]
    return float(left @ left), freedom


#: Least variance of residuals anywhere, relative to that at the estimate.
LEAST_INFLATION = 0.05

#: Entries of matrices that are made at once.
MOST = 1_000_000

#: Distances from the estimate that the Anderson-Rubin test is inverted at, in standard errors.
GRID = np.concatenate([-np.geomspace(1e4, 1e-3, 4000), [0.0], np.geomspace(1e-3, 1e4, 4000)])


def _anderson_rubin(
    found: IVEstimate, columns: _Columns, moments: _Moments
) -> tuple[Array, Array, int]:
    """Distances from the coded estimate, the statistic there, and its degrees of freedom.

    Moments at a coefficient are those of scores, asked at ``place``, less the released first stage
    times the way from there.  So the variance has three parts: of sampling, as residuals there
    have it; of the noise in scores; and, along that way, of the noise ``E`` in the first stage,
    whose Gram is ``back' (. + E) back``: ``cov(E v) = s^2 (|v|^2 I + v v') / 2``.
    """
    own, j = len(columns.own), columns.ends[0]
    error = math.sqrt(float(found.covariance[-1, -1]))
    away, gram, x = GRID * error, moments.gram, columns.x
    left = max(
        float(gram[j, j] - gram[columns.z, j] @ np.linalg.solve(
            gram[np.ix_(columns.z, columns.z)], gram[columns.z, j]
        )),
        0.0,
    )  # fmt: skip
    inflation = 1.0 + (-2.0 * away * float(found.mixed[j]) + away**2 * left) / found.spread**2
    inflation = np.maximum(inflation, LEAST_INFLATION)
    # what no coefficient of an exogenous regressor moves
    apart = np.linalg.qr(found.jacobian[:, :own], mode="complete")[0][:, own:]
    moment = (found.moment - np.outer(away, found.jacobian[:, -1])) @ apart
    # the exogenous coefficients that go with each
    both = np.stack([found.moment, -found.jacobian[:, -1]], axis=1)
    beside = np.linalg.lstsq(found.jacobian[:, :own], both, rcond=None)[0]
    start, along = (found.params - found.place)[x], np.append(beside[:, 1], 1.0)
    start[:own] += beside[:, 0]
    ways = (start + np.outer(away, along)) @ moments.back[:, x].T
    through = apart.T @ found.root @ moments.back[:, columns.z].T
    turned, lengths = ways @ through.T, (ways**2).sum(axis=1)
    noise, k = found.noise**2 * np.eye(columns.instruments), 0.5 * moments.noise**2
    values, vectors = np.linalg.eigh(apart.T @ found.variance @ apart)
    # the inverse of a matrix with noise E is larger in the mean, by E V^-1 E beside V
    values += 0.5 * found.unsure**2 * (len(values) + 1) / np.maximum(values, found.noise**2)
    sampling = (vectors * np.maximum(values - found.noise**2, 0.0)) @ vectors.T
    statistics = np.empty(len(away))
    for some in np.array_split(np.arange(len(away)), 1 + len(away) * len(sampling) ** 2 // MOST):
        variance = (
            inflation[some, None, None] * sampling
            + noise
            + k * lengths[some, None, None] * (through @ through.T)
            + k * turned[some, :, None] * turned[some, None, :]
        )
        solved = np.linalg.solve(variance, moment[some, :, None])[:, :, 0]
        statistics[some] = (moment[some] * solved).sum(axis=1)
    return away, statistics, columns.instruments
