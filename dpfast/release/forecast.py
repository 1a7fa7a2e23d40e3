"""``plan_release``: which method a release takes, and how far its answer will be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, whole_number
from dpfast.errors import InvalidInput, NotConverged, described
from dpfast.fit_requests.planned_run import quietly
from dpfast.inference.base import Planned
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import render_table
from dpfast.models import Bounded, Domain, Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.forecast import evenly, public_pilot
from dpfast.regression.nonprivate import nonprivate_fit
from dpfast.release.functional import release_functional
from dpfast.release.request import RawRequest, ReleaseRequest, approximate
from dpfast.release.routes import route

#: Most rows of a simulation; beyond them errors are scaled by 1/n, as privacy noise is.
MOST_ROWS = 2**17

#: Most cells of those rows: a few copies of 256 MB fit in memory.
MOST_CELLS = 2**25

#: Half-width of a 90% interval, in standard errors.
NORMAL_95 = 1.645


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
        Interval at 90% for the error of the simulation: it shrinks with more runs.
    announced : float
        Median of the standard deviations that the releases report.
    sampling_error : float
        Standard error of the coefficient without privacy.
    source : str
        Where the rows come from.

    Privacy
    -------
    Made from public rows only.
    """

    _headed = ("Records", "Method", "From")

    n: int
    method: str
    error: float
    error_range: tuple[float, float]
    announced: float
    sampling_error: float
    source: str

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the expected errors, as text with other forms."""
        low, high = self.error_range
        rows = [
            ("release, relative to these data", (f"{self.error:.3g} ({low:.3g} to {high:.3g})",)),
            ("standard deviation it reports", (f"{self.announced:.3g}",)),
            ("sampling error", (f"{self.sampling_error:.3g}",)),
        ]
        facts = (("Records", f"{self.n:,}"), ("Method", repr(self.method)), ("From", self.source))
        return render_table("dpfast: expected errors of a release", facts, ("error",), rows, None)

    def _columns(self, level: float) -> dict[str, Any]:
        names = ("error", "announced", "sampling_error")
        return {"term": names, "estimate": [getattr(self, name) for name in names]}


def plan_release(
    n: int,
    pilot: tuple[Any, Any],
    loss: str | Loss | Objective = "log-cosh",
    *,
    privacy: Budget,
    domain: Domain | None = None,
    runs: int = 25,
) -> ReleasePlan:
    """Forecast the method and error of :func:`dpfast.release_functional` for one coefficient.

    The error depends on the spread and the correlation of the columns, so the forecast needs rows.
    Without a domain the error contains the bias of clipping, and the forecast is less exact.

    Parameters
    ----------
    n : int
        Number of records.
    pilot : (X, y)
        **Public** data like the private ones, repeated up to n rows: of an earlier year, another
        country, or simulated.  The coefficient is that of the first covariate.
    loss, privacy, domain
        As in :func:`dpfast.release_functional`.
    runs : int
        Simulated calls.  The relative standard error of an error is about ``1/sqrt(2 runs)``.

    Privacy
    -------
    Spends nothing, and must see public data only: never pass the private records as a pilot.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> public = np.random.default_rng(0).uniform(-0.7, 0.7, size=(100, 3))
    >>> plan = dpfast.release.plan_release(
    ...     100,
    ...     (public[:, :2], public[:, 2] > 0.0),
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
    if not (domain is None or isinstance(domain, Domain)):
        raise InvalidInput(
            "domain must be dpfast.models.Ball, LpBall, Box or Product, or None; received "
            f"{described(domain)}."
        )
    X, y = _pilot_rows(min(n, MOST_ROWS), pilot)
    if domain is not None:
        X = domain.bind(X.shape[1]).project(X)
    simulation = _Simulation(n, X, y, loss, total, domain)
    method = simulation.method()
    released = simulation.released(method, runs)
    error = float(np.sqrt(np.mean(np.square(released.errors))))
    factor = math.exp(NORMAL_95 * _relative_error(released.errors))
    return ReleasePlan(
        n=n,
        method=method,
        error=error,
        error_range=(error / factor, error * factor),
        announced=released.announced,
        sampling_error=released.sampling,
        source=f"a public pilot of {len(pilot[1])} records",
    )


def _pilot_rows(n_rows: int, pilot: tuple[Any, Any]) -> tuple[Array, Array]:
    """Repeat the rows of a public pilot in random order."""
    X, y = public_pilot(pilot)
    if n_rows * X.shape[1] > MOST_CELLS:
        raise InvalidInput(
            f"{n_rows} rows of {X.shape[1]} covariates are too many to simulate: at most "
            f"{MOST_CELLS // n_rows} covariates for so many records. Forecast for fewer."
        )
    shuffled = np.argsort(evenly(len(y), 1)[:, 0], kind="stable")
    picked = shuffled[np.arange(n_rows) % len(y)]
    return X[picked], y[picked]


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
    X: Array
    y: Array
    loss: str | Loss | Objective
    total: ApproxDP
    domain: Domain | None

    @property
    def intercept(self) -> bool:
        """Whether the model has an intercept: always without a domain."""
        return self.domain is None or self.domain.intercept

    def method(self) -> str:
        """Return what ``method="auto"`` chooses for n records."""
        X, y = np.broadcast_to(0.0, (self.n, self.X.shape[1])), np.broadcast_to(0.0, self.n)
        request: RawRequest | ReleaseRequest
        if self.domain is None:
            request = RawRequest(X, y, self.loss, noise=None)
        else:
            request = ReleaseRequest(X, y, self.loss, domain=self.domain, noise=None)
        return route("auto", request, self.total, 1).method

    def released(self, method: str, runs: int) -> _Released:
        """Simulate releases, and compare them with the fit without privacy."""
        per_row = len(self.X) / self.n
        direction = np.eye(self.X.shape[1] + self.intercept)[int(self.intercept)]
        exact = self._exact_fit(terms_of(self.loss).ridge)
        target = direction @ exact.params
        errors, announced = [], []
        for seed in range(runs):
            with quietly():
                result: Any = release_functional(
                    self.X,
                    self.y,
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

    def _exact_fit(self, ridge: float) -> Fit:
        """Fit without privacy; raise the ridge where few rows separate the classes."""
        objective = terms_of(self.loss)
        options: dict[str, Any] = {"scale": objective.scale, "ridge": ridge}
        options["fit_intercept"] = self.intercept
        if self.domain is not None:
            radius = self.domain.bind(self.X.shape[1]).radius
            options["weights"] = Bounded(radius * (1.0 + 1e-9))
        try:
            return nonprivate_fit(self.X, self.y, Objective(objective.loss, **options))
        except NotConverged:
            if ridge >= 1.0:
                raise
            return self._exact_fit(max(2.0 * ridge, 1.0 / len(self.X)))


def _relative_error(errors: Array) -> float:
    """Return the standard error of the logarithm of the root mean square."""
    squares = np.square(errors)
    return 0.5 * float(squares.std() / max(squares.mean(), 1e-300)) / math.sqrt(len(errors))
