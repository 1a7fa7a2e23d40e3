"""``plan_release``: which method a release takes, and how far its answer will be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, real_number, whole_number
from dpfast.errors import InvalidInput, NotConverged, described
from dpfast.fit_requests.planned_run import quietly
from dpfast.inference.base import Planned
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import render_table
from dpfast.models import Bounded, Domain, Loss, Objective, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.forecast import LARGEST_P, evenly, public_pilot
from dpfast.regression.nonprivate import nonprivate_fit
from dpfast.release.functional import release_functional
from dpfast.release.request import ReleaseRequest, approximate
from dpfast.release.routes import route

#: Most rows of a simulation; beyond them errors are scaled by 1/n, as privacy noise is.
MOST_ROWS = 2**17

#: Most cells of those rows: a few copies of 256 MB fit in memory.
MOST_CELLS = 2**25

#: Half-width of a 90% interval, in standard errors.
NORMAL_95 = 1.645

#: Fewest varying rows per coefficient: with fewer the fit without privacy is near singular.
FEWEST = 10.0

#: Standard deviation of synthetic columns, relative to rows in the corners of the domain.
WIDTH = 0.3

#: The same at both ends of the range of the error: balanced binary columns, and narrow ones.
WIDTHS = (1.0, 0.1)


@dataclass(frozen=True, eq=False, repr=False)
class ReleasePlan(Planned):
    """Expected error of a release of one coefficient.

    Attributes
    ----------
    n : int
        Number of records.
    method : str
        What ``method="auto"`` chooses, by public numbers alone.
    error : float
        Root mean square distance of released values from the coefficient in the same data.
    error_range : tuple of float
        Range of the error.  With a pilot it is a 90% interval for the error of the simulation.
        Otherwise it goes from columns at either end of the domain, such as balanced binary ones,
        to columns with a tenth of that standard deviation.
    announced : float
        Median of the standard deviations that the releases report.
    fit_error : float
        As ``error``, of ``method="fit"``.
    sampling_error : float
        Standard error of the coefficient without privacy.
    source : str
        Where the rows come from.

    Privacy
    -------
    Made from public or synthetic rows only.
    """

    _headed = ("Records", "Method", "From")

    n: int
    method: str
    error: float
    error_range: tuple[float, float]
    announced: float
    fit_error: float
    sampling_error: float
    source: str

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the expected errors, as text with other forms."""
        low, high = self.error_range
        rows = [
            ("release, relative to these data", (f"{self.error:.3g} ({low:.3g} to {high:.3g})",)),
            ("standard deviation it reports", (f"{self.announced:.3g}",)),
            ("a fit, relative to these data", (f"{self.fit_error:.3g}",)),
            ("sampling error", (f"{self.sampling_error:.3g}",)),
        ]
        facts = (("Records", f"{self.n:,}"), ("Method", repr(self.method)), ("From", self.source))
        return render_table("dpfast: expected errors of a release", facts, ("error",), rows, None)

    def _columns(self, level: float) -> dict[str, Any]:
        names = ("error", "announced", "fit_error", "sampling_error")
        return {"term": names, "estimate": [getattr(self, name) for name in names]}


def plan_release(
    n: int,
    p: int | None = None,
    loss: str | Loss | Objective = "log-cosh",
    *,
    privacy: Budget,
    domain: Domain,
    rate: float = 0.5,
    pilot: tuple[Any, Any] | None = None,
    runs: int = 25,
) -> ReleasePlan:
    """Forecast the method and error of :func:`dpfast.release_functional` for one coefficient.

    Parameters
    ----------
    n : int
        Number of records.
    p : int, optional
        Number of covariates; taken from the pilot if there is one.
    loss, privacy, domain
        As in :func:`dpfast.release_functional`.
    rate : float
        Share of ones in a synthetic binary response.
    pilot : (X, y), optional
        **Public** data like the private ones, repeated up to n rows.  By default columns vary
        independently, with three tenths of the domain's half-width.  That is typical of columns
        coded by their ranges.  For half of that, noise is four times as large, so the range of the
        error is wide.  Nearly collinear columns are outside of the range.  The coefficient is that
        of the first covariate.
    runs : int
        Simulated calls for each width: three widths without a pilot.  The relative standard error
        of an error is about ``1/sqrt(2 runs)``.

    Privacy
    -------
    Spends nothing, and must see public data only: never pass the private records as a pilot.

    Examples
    --------
    >>> plan = dpfast.release.plan_release(
    ...     100,
    ...     2,
    ...     "logistic",
    ...     privacy=dpfast.ApproxDP(0.3, 1e-6),
    ...     domain=dpfast.models.Ball(1.0),
    ...     runs=2,
    ... )
    >>> plan.method
    'objective-perturbation'
    """
    total = approximate(privacy)
    n, runs = whole_number(n, "n", 1), whole_number(runs, "runs", 1, 10_000)
    if not isinstance(domain, Domain):
        raise InvalidInput(
            "domain must be dpfast.models.Ball, LpBall, Box or Product; received "
            f"{described(domain)}."
        )
    if pilot is None:
        p = whole_number(domain.n_covariates if p is None else p, "p", 1, LARGEST_P)
        rows = _synthetic_rows(min(n, MOST_ROWS), p, loss, domain, rate)
    else:
        rows = _pilot_rows(min(n, MOST_ROWS), pilot)
    bound = domain.bind(rows.covariates.shape[1])
    rows = rows._replace(covariates=bound.project(rows.covariates))
    simulation = _Simulation(n, rows, loss, total, domain, bound)
    method = simulation.method()
    typical = rows.covariates if pilot is not None else simulation.narrowed(WIDTH)
    released = simulation.released(typical, method, runs)
    error = _rms(released.errors)
    factor = math.exp(NORMAL_95 * _relative_error(released.errors))
    ends = [error / factor, error * factor]
    if pilot is None:
        for width in WIDTHS:
            at_width = simulation.released(simulation.narrowed(width), method, runs)
            ends.append(_rms(at_width.errors))
    return ReleasePlan(
        n=n,
        method=method,
        error=error,
        error_range=(min(ends), max(ends)),
        announced=released.announced,
        fit_error=_rms(simulation.released(typical, "fit", runs).errors),
        sampling_error=released.sampling,
        source=rows.source,
    )


class _PublicRows(NamedTuple):
    """Public or synthetic rows of a forecast."""

    covariates: Array
    y: Array
    #: Random order in (0, 1) by which rows are moved to the centre.
    order: Array
    source: str


def _pilot_rows(n_rows: int, pilot: tuple[Any, Any]) -> _PublicRows:
    """Repeat the rows of a public pilot in random order."""
    X, y = public_pilot(pilot)
    _refuse_enormous(n_rows, X.shape[1])
    shuffled = np.argsort(evenly(len(y), 1)[:, 0], kind="stable")
    picked = shuffled[np.arange(n_rows) % len(y)]
    source = f"a public pilot of {len(y)} records"
    return _PublicRows(X[picked], y[picked], np.zeros(n_rows), source)


class _Released(NamedTuple):
    """Simulated releases of one coefficient."""

    errors: Array
    #: Median of the standard deviations that the releases report.
    announced: float
    #: Standard error of the coefficient without privacy.
    sampling: float


class _Simulation(NamedTuple):
    """Releases of one coefficient from public rows."""

    n: int
    rows: _PublicRows
    loss: str | Loss | Objective
    total: ApproxDP
    domain: Domain
    #: The domain, bound to the number of columns.
    bound: Domain

    @property
    def direction(self) -> Array:
        """Direction of the first covariate's coefficient."""
        p = self.rows.covariates.shape[1]
        return np.eye(p + self.bound.intercept)[int(self.bound.intercept)]

    def method(self) -> str:
        """Return what ``method="auto"`` chooses for n records."""
        request = ReleaseRequest(
            np.broadcast_to(0.0, (self.n, self.rows.covariates.shape[1])),
            np.broadcast_to(0.0, self.n),
            self.loss,
            domain=self.domain,
            noise=None,
        )
        return route("auto", request, self.total, 1).method

    def narrowed(self, width: float) -> Array:
        """Scale down the rows' spread: all but a share ``width^2`` move to the centre."""
        X, order = self.rows.covariates, self.rows.order
        spread = order < max(width**2, FEWEST * len(self.direction) / len(order))
        centre = self.bound.project(X.mean(axis=0, keepdims=True))
        return np.where(spread[:, None], X, centre)

    def released(self, X: Array, method: str, runs: int) -> _Released:
        """Simulate releases, and compare them with the fit without privacy."""
        direction, per_row = self.direction, len(X) / self.n
        exact = self._exact_fit(X, terms_of(self.loss).ridge)
        target = direction @ exact.params
        errors, announced = [], []
        for seed in range(runs):
            with quietly():
                result: Any = release_functional(
                    X,
                    self.rows.y,
                    self.loss,
                    direction,
                    privacy=self.total,
                    domain=self.domain,
                    method=method,
                    noise=SeededNoise(seed),
                )
            errors.append(per_row * float(result.value - target))
            announced.append(per_row * float(result.noise_scale_bound[0]))
        sampling = float(np.sqrt(direction @ exact.cov_params() @ direction * per_row))
        return _Released(np.array(errors), float(np.median(announced)), sampling)

    def _exact_fit(self, X: Array, ridge: float) -> Fit:
        """Fit without privacy; raise the ridge where few rows separate the classes."""
        objective = terms_of(self.loss)
        options: dict[str, Any] = {
            "scale": objective.scale,
            "fit_intercept": self.bound.intercept,
            "ridge": ridge,
        }
        try:
            weights = Bounded(self.bound.radius * (1.0 + 1e-9))
            return nonprivate_fit(X, self.rows.y, Objective(objective.loss, weights, **options))
        except NotConverged:
            if ridge >= 1.0:
                raise
            return self._exact_fit(X, max(2.0 * ridge, 1.0 / len(X)))


def _refuse_enormous(rows: int, p: int) -> None:
    if rows * p > MOST_CELLS:
        raise InvalidInput(
            f"{rows} rows of {p} covariates are too many to simulate: at most "
            f"{MOST_CELLS // rows} covariates for so many records. Forecast for fewer."
        )


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _relative_error(errors: Array) -> float:
    """Return the standard error of the logarithm of the root mean square."""
    squares = np.square(errors)
    return 0.5 * float(squares.std() / max(squares.mean(), 1e-300)) / math.sqrt(len(errors))


def _synthetic_rows(
    n_rows: int, p: int, loss: str | Loss | Objective, domain: Domain, rate: float
) -> _PublicRows:
    """Make corners, or surface points, with the moments of uniform rows; no slopes."""
    _refuse_enormous(n_rows, p)
    objective, rate = terms_of(loss), number_in(rate, "rate", "(0, 1)")
    points = evenly(n_rows, p + 2)
    centre, covariance = domain.bind(p)._moments(p)
    variances, axes = np.linalg.eigh(covariance)
    signs = np.where(points[:, :p] > 0.5, 1.0, -1.0)
    X = centre + (signs * np.sqrt(np.maximum(variances, 0.0))) @ axes.T
    scale = 1.0 if objective.scale is None else real_number(objective.scale, "scale")
    y = np.asarray(resolve_loss(objective.loss)._synthetic(points[:, p], rate, scale))
    source = "columns that vary with three tenths of the domain's half-width"
    return _PublicRows(X, y, points[:, p + 1], source)
