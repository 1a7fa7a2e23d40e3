"""``plan_release``: will a release be certified, with how much noise, and would ``fit`` do better?

Answers come from the functions themselves, called on *public* rows: a pilot, or rows that fill the
declared domain.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in, real_number, whole_number
from dpfast.errors import InvalidInput, described
from dpfast.front.parts import Parts, parts_of
from dpfast.inference.results import Fit
from dpfast.models import Bounded, Domain, Loss, Objective, resolve_loss
from dpfast.privacy.budget import Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.fit import fit
from dpfast.regression.forecast import LARGEST_P, evenly, public_pilot
from dpfast.regression.nonprivate import nonprivate_fit
from dpfast.release.functional import release_functional
from dpfast.release.request import approximate
from dpfast.release.results import FunctionalRelease

__all__ = ["ReleasePlan", "plan_release"]

Array = NDArray[np.float64]

#: Rows that are simulated at most; with more, noise falls as 1/n.
MOST_ROWS = 2**17

#: Cells of these rows at most: of each there are some copies in memory.
MOST_CELLS = 2**25

#: Of a 90% interval, in standard errors.
_LEFT_OPEN = 1.645

#: Share of calls that have to be certified for a release to be advised.
OFTEN = 0.9


class ReleasePlan(NamedTuple):
    """What a release of one coefficient can be expected to do.

    Attributes
    ----------
    n : int
        Number of records.
    certified : float
        Share of the simulated releases that were certified.
    error : float
        Root mean square distance of those from the coefficient in the same data; NaN if none was.
    error_range : tuple of float
        From what so few calls leave open (the lower end of a 90% interval) to what rows may do:
        with a pilot the upper end of it, else the error for rows half as far from their mean as
        those that fill the domain, infinite where fewer than half of their calls certify.
    announced : float
        Median of the standard deviations that they announce, which are bounds.
    fit_error : float
        Distance of ``fit`` at the same budget, without standard errors.
    sampling_error : float
        Standard error of the coefficient without privacy.
    source : str
        Where the rows come from.

    Privacy
    -------
    Of public or synthetic rows only.

    Examples
    --------
    >>> plan = dpfast.plan_release(
    ...     20_000, 2, "log-cosh", scale=1.0, privacy=dpfast.ApproxDP(1.0, 1e-6),
    ...     domain=dpfast.Box(1.0, intercept=True), runs=3,
    ... )
    >>> plan.advice
    'release_functional'
    """

    n: int
    certified: float
    error: float
    error_range: tuple[float, float]
    announced: float
    fit_error: float
    sampling_error: float
    source: str

    @property
    def advice(self) -> str:
        """The function with the smaller error, ``"release_functional"`` or ``"fit"``."""
        pays = self.certified >= OFTEN and self.error < self.fit_error
        return "release_functional" if pays else "fit"

    def __str__(self) -> str:
        lines = [f"n = {self.n:,}: certified in {100 * self.certified:.0f}% of the calls"]
        if self.certified:
            low, high = self.error_range
            least = f"{low:.3g} to {high:.3g}" if high < np.inf else f"{low:.3g} or more"
            lines.append(
                f"  its distance from the coefficient in these data: {self.error:.3g} "
                f"({least}; announced as at most {self.announced:.3g})"
            )
        lines += [
            f"  the error of fit: {self.fit_error:.3g}; sampling error: {self.sampling_error:.3g}",
            f"  better: {self.advice}; forecast from {self.source}",
        ]
        return "\n".join(lines)


def plan_release(
    n: int,
    p: int | None = None,
    loss: str | Loss | Objective = "log-cosh",
    *,
    privacy: Budget,
    domain: Domain,
    scale: float | None = None,
    certificate: str = "auto",
    noise_law: str = "auto",
    rate: float = 0.5,
    pilot: tuple[Any, Any] | None = None,
    runs: int = 25,
) -> ReleasePlan:
    """Forecast whether :func:`dpfast.release_functional` certifies, its error, and that of ``fit``.

    Parameters
    ----------
    n : int
        Number of records.
    p : int, optional
        Number of covariates; taken from the pilot if there is one.
    loss, privacy, domain, scale, certificate, noise_law
        As in :func:`dpfast.release_functional`.
    rate : float
        Share of ones in a synthetic binary response.
    pilot : (X, y), optional
        **Public** data like the private ones, repeated as often as n calls for.  By default rows
        fill the domain evenly, which certifies earlier than real columns do: rare categories and
        skewed columns need ten times as many records.  The first covariate is released.
    runs : int
        Simulated calls (twice without a pilot); an error is known to about ``1/sqrt(2 runs)`` of
        itself.

    Returns
    -------
    ReleasePlan

    Raises
    ------
    InvalidInput, InvalidBudget
        As :func:`dpfast.release_functional`; without p and pilot.

    Privacy
    -------
    Spends nothing, and must see public data only: never pass the private records as a pilot.

    Examples
    --------
    >>> plan = dpfast.plan_release(
    ...     300, 2, "logistic", privacy=dpfast.ApproxDP(1.0, 1e-6), domain=dpfast.Ball(1.0), runs=2
    ... )
    >>> plan.certified, plan.advice
    (0.0, 'fit')
    """
    total = approximate(privacy)
    n, runs = whole_number(n, "n", 1), whole_number(runs, "runs", 1, 10_000)
    if not isinstance(domain, Domain):
        raise InvalidInput(
            f"domain must be dpfast.Ball, Box, LpBall or Product; received {described(domain)}."
        )
    asked = parts_of(loss, scale, None, 0.0, domain.intercept)
    rows = min(n, MOST_ROWS)
    if pilot is None:
        p = whole_number(domain.n_covariates if p is None else p, "p", 1, LARGEST_P)
        _refuse_enormous(rows, p)
        X, y = _synthetic(rows, p, asked, domain, number_in(rate, "rate", "(0, 1)"))
        source = "rows that fill the domain evenly"
    else:
        X, y = public_pilot(pilot)
        _refuse_enormous(rows, X.shape[1])
        source = f"a public pilot of {len(y)} records"
        mixed = np.argsort(evenly(len(y), 1)[:, 0], kind="stable")
        picked = mixed[np.arange(rows) % len(y)]
        X, y = X[picked], y[picked]
    bound = domain.bind(X.shape[1])
    X = bound.project(X)
    direction = np.eye(X.shape[1] + bound.intercept)[int(bound.intercept)]
    of_fit: dict[str, Any] = {
        "scale": asked.scale, "weights": Bounded(bound.radius * (1.0 + 1e-9)),
        "ridge": asked.ridge, "fit_intercept": bound.intercept,
    }  # fmt: skip
    fewer = rows / n

    def released(X: Array) -> tuple[Array, list[float], Fit]:
        """Errors of the releases that are certified, what they announce, the exact coefficients."""
        exact = nonprivate_fit(X, y, asked.loss, **of_fit)
        errors, announced = [], []
        for seed in range(runs):
            found = release_functional(
                X, y, loss, direction, privacy=total, domain=domain, scale=scale,
                noise=SeededNoise(seed), certificate=certificate, noise_law=noise_law,
            )  # fmt: skip
            if isinstance(found, FunctionalRelease):
                errors.append(fewer * float(found.value - direction @ exact.params))
                announced.append(fewer * float(found.noise_scale_bound[0]))
        return np.array(errors), announced, exact

    errors, announced, exact = released(X)
    low = high = np.nan
    if len(errors):
        factor = math.exp(_LEFT_OPEN * _relative_error(errors))
        low, high = _rms(errors) / factor, _rms(errors) * factor
        if pilot is None:
            narrow, _, _ = released(bound.project(0.5 * (X + X.mean(axis=0))))
            high = max(high, _rms(narrow)) if len(narrow) >= 0.5 * runs else np.inf
    fitted = [
        fit(X, y, asked.loss, privacy=total, noise=SeededNoise(seed), inference=False, **of_fit)
        for seed in range(runs)
    ]
    of_fits = np.array([direction @ (private.params - exact.params) for private in fitted])
    return ReleasePlan(
        n=n,
        certified=len(errors) / runs,
        error=_rms(errors) if len(errors) else np.nan,
        error_range=(float(low), float(high)),
        announced=float(np.median(announced)) if announced else np.nan,
        fit_error=fewer * _rms(of_fits),
        sampling_error=float(np.sqrt(direction @ exact.cov_params() @ direction * fewer)),
        source=source,
    )


def _refuse_enormous(rows: int, p: int) -> None:
    if rows * p > MOST_CELLS:
        raise InvalidInput(
            f"{rows} rows of {p} covariates are more than can be simulated: at most "
            f"{MOST_CELLS // rows} covariates for so many records. Forecast for fewer."
        )


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _relative_error(errors: Array) -> float:
    """Standard error of the logarithm of their root mean square."""
    squares = np.square(errors)
    return 0.5 * float(squares.std() / max(squares.mean(), 1e-300)) / math.sqrt(len(errors))


def _synthetic(n: int, p: int, asked: Parts, domain: Domain, rate: float) -> tuple[Array, Array]:
    """Corners, or points of the surface, with the moments of evenly spread rows; no slopes."""
    points = evenly(n, p + 1)
    centre, covariance = domain.bind(p)._moments(p)
    sizes, axes = np.linalg.eigh(covariance)
    signs = np.where(points[:, :p] > 0.5, 1.0, -1.0)
    X = centre + (signs * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T
    size = 1.0 if asked.scale is None else real_number(asked.scale, "scale")
    return X, np.asarray(resolve_loss(asked.loss)._synthetic(points[:, p], rate, size))
