"""``plan_release``: which method a release takes, and how far its answer will be."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, real_number, whole_number
from dpfast.errors import InvalidInput, NotConverged, described
from dpfast.inference.results import Fit
from dpfast.models import Bounded, Domain, Loss, Objective, resolve_loss
from dpfast.models.objective import Terms, terms_of
from dpfast.privacy.budget import Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.forecast import LARGEST_P, evenly, public_pilot
from dpfast.regression.nonprivate import nonprivate_fit
from dpfast.release.functional import release_functional
from dpfast.release.request import ReleaseRequest, approximate
from dpfast.release.routes import route

#: Rows that are simulated at most; with more, noise falls as 1/n.
MOST_ROWS = 2**17

#: Cells of these rows at most: of each there are some copies in memory.
N_FINE_BINS = 2**25

#: Of a 90% interval, in standard errors.
_LEFT_OPEN = 1.645

#: Rows for each coefficient that vary at least.
FEWEST = 10.0

#: Standard deviation of synthetic columns, relative to rows in the corners of the domain: what is
#: forecast, and the two ends of its range.
WIDTH, WIDTHS = 0.3, (1.0, 0.1)


class ReleasePlan(NamedTuple):
    """What a release of one coefficient can be expected to do.

    Attributes
    ----------
    n : int
        Number of records.
    method : str
        What ``method="auto"`` chooses, by public numbers alone.
    error : float
        Root mean square distance of released values from the coefficient in the same data.
    error_range : tuple of float
        With a pilot what so few calls leave open (a 90% interval), else from columns that are at
        either end of the domain, as balanced binary ones, to columns whose standard deviation is a
        tenth of that.
    announced : float
        Median of the standard deviations that are announced.
    fit_error : float
        As ``error``, of ``method="fit"``.
    sampling_error : float
        Standard error of the coefficient without privacy.
    source : str
        Where the rows come from.

    Privacy
    -------
    Of public or synthetic rows only.
    """

    n: int
    method: str
    error: float
    error_range: tuple[float, float]
    announced: float
    fit_error: float
    sampling_error: float
    source: str

    def __str__(self) -> str:
        low, high = self.error_range
        return (
            f"n = {self.n:,}: method {self.method!r}\n"
            f"  its distance from the coefficient in these data: {self.error:.3g} "
            f"({low:.3g} to {high:.3g}); standard deviation announced: {self.announced:.3g}\n"
            f"  that of a fit: {self.fit_error:.3g}; sampling error: {self.sampling_error:.3g}\n"
            f"  forecast from {self.source}"
        )


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
    """Forecast what :func:`dpfast.release_functional` will do with one coefficient, and its error.

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
        **Public** data like the private ones, repeated as often as n calls for.  By default rows
        vary independently with three tenths of the domain's half-width, which is about what columns
        are worth that are coded by their ranges.  Noise is four times as large for half of that, so
        the range of the error is wide; columns that nearly determine each other are beyond it.  The
        first covariate is released.
    runs : int
        Simulated calls, of each of three widths without a pilot; an error is known to about
        ``1/sqrt(2 runs)`` of itself.

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
            f"domain must be dpfast.models.Ball, Box or Product; received {described(domain)}."
        )
    asked = terms_of(loss)
    rows = min(n, MOST_ROWS)
    if pilot is None:
        p = whole_number(domain.n_covariates if p is None else p, "p", 1, LARGEST_P)
        _refuse_enormous(rows, p)
        X, y, order = _synthetic(rows, p, asked, domain, number_in(rate, "rate", "(0, 1)"))
        source = "columns that vary with three tenths of the domain's half-width"
    else:
        (X, y), order = public_pilot(pilot), np.zeros(rows)
        _refuse_enormous(rows, X.shape[1])
        source = f"a public pilot of {len(y)} records"
        mixed = np.argsort(evenly(len(y), 1)[:, 0], kind="stable")
        picked = mixed[np.arange(rows) % len(y)]
        X, y = X[picked], y[picked]
    bound = domain.bind(X.shape[1])
    X = bound.project(X)
    direction = np.eye(X.shape[1] + bound.intercept)[int(bound.intercept)]
    fewer = rows / n

    def narrowed(width: float) -> Array:
        """Rows of the domain that vary so much less: most of them are at one point."""
        some = order < max(width**2, FEWEST * len(direction) / rows)
        middle = bound.project(X.mean(axis=0, keepdims=True))
        return np.where(some[:, None], X, middle)

    def fitted(X: Array, ridge: float) -> Fit:
        try:
            weights = Bounded(bound.radius * (1.0 + 1e-9))
            known: dict[str, Any] = {
                "scale": asked.scale,
                "fit_intercept": bound.intercept,
                "ridge": ridge,
            }
            return nonprivate_fit(X, y, Objective(asked.loss, weights, **known))
        except NotConverged:
            if ridge >= 1.0:
                raise
            return fitted(X, max(2.0 * ridge, 1.0 / rows))  # so few rows separate the classes

    def released(X: Array, method: str) -> tuple[Array, float, float]:
        """Errors of the releases, what they announce, and the sampling error."""
        exact = fitted(X, asked.ridge)
        target, errors, announced = direction @ exact.params, [], []
        for seed in range(runs):
            found: Any = release_functional(
                X, y, loss, direction, privacy=total, domain=domain, method=method,
                noise=SeededNoise(seed),
            )  # fmt: skip
            errors.append(fewer * float(found.value - target))
            announced.append(fewer * float(found.noise_scale_bound[0]))
        sampling = float(np.sqrt(direction @ exact.cov_params() @ direction * fewer))
        return np.array(errors), float(np.median(announced)), sampling

    request = ReleaseRequest(
        np.broadcast_to(0.0, (n, X.shape[1])), np.broadcast_to(0.0, n), loss, domain=domain,
        noise=None,
    )  # fmt: skip
    method = route("auto", request, total, 1).method
    middle = X if pilot is not None else narrowed(WIDTH)
    errors, announced, sampling = released(middle, method)
    factor = math.exp(_LEFT_OPEN * _relative_error(errors))
    low, high = _rms(errors) / factor, _rms(errors) * factor
    if pilot is None:
        ends = [_rms(released(narrowed(width), method)[0]) for width in WIDTHS]
        low, high = min(low, *ends), max(high, *ends)
    return ReleasePlan(
        n=n,
        method=method,
        error=_rms(errors),
        error_range=(low, high),
        announced=announced,
        fit_error=_rms(released(middle, "fit")[0]),
        sampling_error=sampling,
        source=source,
    )


def _refuse_enormous(rows: int, p: int) -> None:
    if rows * p > N_FINE_BINS:
        raise InvalidInput(
            f"{rows} rows of {p} covariates are more than can be simulated: at most "
            f"{N_FINE_BINS // rows} covariates for so many records. Forecast for fewer."
        )


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _relative_error(errors: Array) -> float:
    """Standard error of the logarithm of their root mean square."""
    squares = np.square(errors)
    return 0.5 * float(squares.std() / max(squares.mean(), 1e-300)) / math.sqrt(len(errors))


def _synthetic(
    n: int, p: int, asked: Terms, domain: Domain, rate: float
) -> tuple[Array, Array, Array]:
    """Corners, or points of the surface, with the moments of evenly spread rows; no slopes."""
    points = evenly(n, p + 2)
    centre, covariance = domain.bind(p)._moments(p)
    sizes, axes = np.linalg.eigh(covariance)
    signs = np.where(points[:, :p] > 0.5, 1.0, -1.0)
    X = centre + (signs * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T
    size = 1.0 if asked.scale is None else real_number(asked.scale, "scale")
    y = np.asarray(resolve_loss(asked.loss)._synthetic(points[:, p], rate, size))
    return X, y, points[:, p + 1]
