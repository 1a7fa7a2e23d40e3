"""``plan``: how wide will the intervals be, at which budget, with how many records?

Answers come from public quantities: the objective's constants, and the curvature and score
covariance of a *public* pilot, which is synthetic unless one is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import (
    LARGEST_WHOLE,
    flag,
    number_in,
    positive,
    real_array,
    real_number,
    whole_number,
)
from dpfast.curator.answers import StepBudget
from dpfast.errors import InvalidInput, described
from dpfast.front.parts import Parts, parts_of
from dpfast.front.request import Request
from dpfast.inference.degrees import VarianceNoise, t_half_widths
from dpfast.inference.hypotheses import coverage, half_width
from dpfast.inference.shown.renderings import html
from dpfast.inference.shown.table import Table
from dpfast.models import Loss, Objective, Weighting, resolve_loss
from dpfast.models.smooth_losses import for_records
from dpfast.models.special_losses import Poisson
from dpfast.optimize import AdaptiveNewton, GradientDescent, Newton
from dpfast.optimize.planning import choose_method
from dpfast.optimize.propagation import Curvature, gradient_descent_noise, newton_noise
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.sensitivity import mean_rank_one, mean_score
from dpfast.regression.nonprivate import nonprivate_fit

__all__ = ["LARGEST_P", "Plan", "evenly", "plan", "public_pilot"]

Array = NDArray[np.float64]

#: Records of the synthetic pilot.
PILOT_RECORDS = 4096

#: Coefficients of a synthetic pilot at most: it is fitted exactly, in half a minute.
LARGEST_P = 1000

#: Where the search for n and mu gives up.
LARGEST_N, LARGEST_MU, SMALLEST_MU = 10**12, 100.0, 1e-4


class Plan:
    """Expected interval widths of a private fit; nothing in it comes from private data.

    Attributes
    ----------
    n : int
        Number of records.
    mu : float
        Total Gaussian-DP budget, inference included.
    width : float
        Expected width of the widest slope's interval (the intercept's, if it is alone): of several
        slopes at least the largest of their :attr:`widths`, because released standard errors
        scatter.
    widths : ndarray of shape (p,)
        Of every coefficient, the intercept first; how well its standard error is known included.
    sampling_widths : ndarray of shape (p,)
        The same without privacy: sampling error alone.  From the public pilot, so it is public.
    level : float
        Nominal coverage.
    method : str
        What ``fit`` would do at this n and mu, and why.
    remarks : tuple of str
        What makes the forecast optimistic.

    Privacy
    -------
    Public numbers only, those of a public or synthetic pilot included.

    Examples
    --------
    >>> plan = dpfast.plan(n=10_000, p=3, mu=1.0, scale=1.0)
    >>> plan.curve(mu=[0.5, 1.0, 2.0]).shape
    (3,)
    """

    def __init__(self, forecast: _Forecast, n: int, mu: float) -> None:
        self._forecast = forecast
        self.n, self.mu, self.level = n, mu, forecast.level
        found = forecast.expected(n, mu)
        self.widths, self.width = found.widths, found.widest
        self.method, self.remarks = found.method, found.remarks
        self.sampling_widths = forecast.sampling_widths(n)

    def curve(
        self, *, n: Sequence[int] | None = None, mu: Sequence[float] | None = None
    ) -> NDArray[np.float64]:
        """Expected width of the widest slope over a range of n or of mu, the other held fixed.

        Parameters
        ----------
        n : sequence of int, or
        mu : sequence of float
            Exactly one of them.

        Returns
        -------
        ndarray of shape (k,)
            As long as the sequence, in the units of the slope.

        Raises
        ------
        InvalidInput
            If neither or both are given, or one is no sequence of numbers.

        Examples
        --------
        >>> widths = dpfast.plan(n=10_000, p=3, mu=1.0, scale=1.0).curve(n=[10_000, 40_000])
        >>> bool(widths[1] < widths[0])
        True
        """
        if (n is None) == (mu is None):
            raise InvalidInput("pass either n=[...] or mu=[...] to draw a curve over it.")
        if n is not None:
            sizes = [number_in(k, "n", f"[1, {LARGEST_WHOLE}]") for k in real_array(n, "n").ravel()]
            pairs = [(int(size), self.mu) for size in sizes]
        else:
            assert mu is not None
            pairs = [(self.n, GDP(float(m)).mu) for m in real_array(mu, "mu").ravel()]
        return np.array([self._forecast.width(*pair) for pair in pairs])

    def _budget(self) -> str:
        text = f"mu = {self.mu:.4g}"
        if self.mu > 1e3:  # protects nobody, and has no epsilon beyond 1e4
            return text
        return f"{text} (epsilon = {GDP(self.mu).epsilon(1e-6):.3g} at delta = 1e-6)"

    def __str__(self) -> str:
        cost = self.width / float(self._forecast.slopes(self.sampling_widths).max())
        lines = [
            f"n = {self.n:,}, {self._budget()}: the widest slope's {100 * self.level:g}% "
            f"interval is expected to be {self.width:.4g} wide",
            f"  {cost:.3g} times as wide as without privacy; {self.method}",
            f"  forecast from {self._forecast.source}",
        ]
        return "\n".join(lines + [f"  beware: {remark}" for remark in self.remarks])

    def _repr_html_(self) -> str:
        first = ["intercept"] if self._forecast.fit_intercept else []
        labels = [*first, *(f"x{j + 1}" for j in range(len(self.widths) - len(first)))]
        pairs = zip(self.widths.tolist(), self.sampling_widths.tolist(), strict=True)
        cells = tuple([(f"{w:.4g}", f"{s:.4g}", f"{w / s:.3g}") for w, s in pairs])
        columns = (f"{100 * self.level:g}% interval", "without privacy", "times as wide")
        facts = (
            ("Records", f"{self.n:,}"),
            ("Budget", self._budget()),
            ("Method", self.method),
            ("Forecast", f"from {self._forecast.source}"),
        )
        title = "dpfast: expected widths of intervals"
        return html(Table(title, facts, columns, tuple(labels), cells, "", (), self.remarks))

    def __repr__(self) -> str:
        return f"<Plan n={self.n}, mu={self.mu:.4g}, width={self.width:.4g}>"


def plan(
    n: int | None = None,
    p: int | None = None,
    loss: str | Loss | Objective = "log-cosh",
    *,
    mu: Budget | float | None = None,
    width: float | None = None,
    level: float = 0.95,
    scale: float | None = None,
    weights: Weighting | None = None,
    fit_intercept: bool = True,
    rate: float = 0.5,
    pilot: tuple[Any, Any] | None = None,
) -> Plan:
    """Forecast interval widths, or find the budget or the number of records for a width.

    Give two of ``n``, ``mu`` and ``width``; the third is computed.

    Parameters
    ----------
    n : int
        Number of records.
    p : int
        Number of coefficients, the intercept included; taken from the pilot if there is one.
    loss, scale, weights, fit_intercept
        As in :func:`dpfast.fit`; an objective without ridge.
    mu : float or Budget
        Total budget, inference included.
    width : float
        Width (not half of it) of the widest slope's interval, in the units of a coefficient.
    level : float
        Nominal coverage.
    rate : float
        Share of ones in the response of a synthetic pilot for the logistic loss; of counts, their
        mean as a part of the largest mean.
    pilot : (X, y), optional
        **Public** data like the private ones: of an earlier year, another country, or simulated.
        By default covariates are independent standard normal, residuals normal with standard
        deviation ``scale``, and the coefficients zero.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidInput
        If not exactly two of n, mu and width are given, or the width cannot be reached.

    Privacy
    -------
    Spends nothing, and must see public data only: never pass the private records as a pilot.

    Examples
    --------
    >>> found = dpfast.plan(n=2000, p=4, mu=1.0, scale=1.0)
    >>> bool(0.05 < found.width < 0.2)
    True
    """
    given = [value is not None for value in (n, mu, width)]
    if sum(given) != 2:
        raise InvalidInput(
            "give two of n, mu and width, and the third is computed; received "
            f"n={described(n)}, mu={described(mu)}, width={described(width)}."
        )
    asked = parts_of(loss, scale, weights, 0.0, fit_intercept)
    if n is not None:
        n = whole_number(n, "n", 1)
    total = None if mu is None else GDP.within(mu).mu
    forecast = _Forecast(p, level, asked, rate, pilot, n, total)
    if width is not None:
        width = positive(width, "width")
    if width is None:
        assert n is not None and total is not None
        return Plan(forecast, int(n), total)
    if total is None:
        assert n is not None
        return Plan(forecast, int(n), _budget_for(forecast, int(n), width))
    return Plan(forecast, _records_for(forecast, total, width), total)


def _budget_for(forecast: _Forecast, n: int, width: float) -> float:
    floor = forecast.width(n, LARGEST_MU)
    if floor > width:
        raise InvalidInput(
            f"width = {width:g} is out of reach at n = {n} with any budget: sampling error alone "
            f"makes the interval {floor:.4g} wide. Use more records."
        )
    low, high = math.log(SMALLEST_MU), math.log(LARGEST_MU)
    return math.exp(_bisect(lambda x: forecast.width(n, math.exp(x)) <= width, low, high))


def _records_for(forecast: _Forecast, mu: float, width: float) -> int:
    low, high = math.log(2.0), math.log(float(LARGEST_N))
    if forecast.width(LARGEST_N, mu) > width:
        raise InvalidInput(
            f"width = {width:g} is out of reach at mu = {mu:g} with up to {LARGEST_N:g} records."
        )
    return math.ceil(
        math.exp(_bisect(lambda x: forecast.width(math.ceil(math.exp(x)), mu) <= width, low, high))
    )


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest x in [low, high] that is enough (monotone), from above."""
    if enough(low):
        return low
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class _Expected(NamedTuple):
    """Of a number of records and a budget."""

    widths: Array
    widest: float
    method: str
    remarks: tuple[str, ...]


class _Forecast:
    """Widths as a function of n and mu, from one public pilot."""

    def __init__(
        self,
        p: int | None,
        level: float,
        asked: Parts,
        rate: float,
        pilot: tuple[Any, Any] | None,
        n: int | None,
        mu: float | None,
    ) -> None:
        loss, scale, weights, ridge, fit_intercept, columns = asked
        if ridge:
            raise InvalidInput(
                f"forecasts are of fits without a penalty; received ridge={described(ridge)} of an "
                "objective."
            )
        self.level = coverage(level)
        if pilot is None:
            told = ", the number of coefficients with the intercept, unless a public pilot is given"
            p = whole_number(p, "p", 1, LARGEST_P, otherwise=told)
        resolved = resolve_loss(loss)
        if pilot is None:
            self.source = "a synthetic pilot: independent standard normal covariates"
            X, y = _synthetic(
                int(p) - int(flag(fit_intercept, "fit_intercept")), resolved, scale, rate
            )
        else:
            X, y = public_pilot(pilot)
            self.source = f"a public pilot of {len(y)} records"
        request = Request(
            X,
            y,
            fit_intercept=fit_intercept,
            noise=None,
            threads=None,
            names=None,
            bound_to=columns,
        )
        self.fit_intercept = fit_intercept
        # what depends on n where that is searched for, is that of the pilot
        resolved = for_records(resolved, request.n if n is None else n, request.dimension, mu)
        self.objective = request.objective(resolved, scale=scale, weights=weights, ridge=0.0)
        if not self.objective.has_curvature:
            raise InvalidInput(
                f"{self.objective.curvature_refusal()}, so a fit with it has no intervals to "
                "forecast. Use a convex loss and weights=dpfast.Mallows(radius)."
            )
        found = nonprivate_fit(
            X, y, resolved, scale=scale, weights=weights, fit_intercept=fit_intercept
        )
        self.sandwich = found.cov_params() * len(y)  # of one record
        curator = request.curator(self.objective, Ledger(1.0))
        _, hessian, _ = curator.nonprivate_sums(found.params)
        self.hessian = hessian
        self.values, self.vectors = np.linalg.eigh(hessian)
        at_zero = Request(
            X, np.zeros(len(y)), fit_intercept=fit_intercept, noise=None, threads=None, names=None
        )
        _, ceiling, _ = at_zero.curator(self.objective, Ledger(1.0)).nonprivate_sums(
            np.zeros(len(self.values))
        )
        self.largest_curvature = float(np.linalg.eigvalsh(ceiling)[-1])

    def slopes(self, values: Array) -> Array:
        """Those of slopes; of the intercept, if it is alone."""
        return values[1:] if self.fit_intercept and len(values) > 1 else values

    def width(self, n: int, mu: float) -> float:
        return self.expected(n, mu).widest

    def sampling_widths(self, n: int) -> Array:
        variances = np.diag(self.sandwich) / n
        return np.asarray(2.0 * half_width(self.level) * np.sqrt(variances))

    def expected(self, n: int, mu: float) -> _Expected:
        """Expected widths, the method, and what makes them optimistic."""
        objective = self.objective
        optimiser, reason = choose_method("auto", objective, n, mu)
        inverse = (self.vectors / self.values**2) @ self.vectors.T
        planned = optimiser.plan(objective, n, mu, True)
        budgets = list(planned)
        if isinstance(optimiser, AdaptiveNewton):
            budgets = optimiser.expected(objective, n, mu)
            precision = sum(self._gradient_scale(budget, n) ** -2.0 for budget in budgets)
            noise, text, pooled = inverse / precision, planned.description, budgets
        elif isinstance(optimiser, Newton):
            scales = [self._gradient_scale(budget, n) for budget in budgets]
            noise = newton_noise(scales, optimiser.step.planned(len(budgets)), inverse)
            text, pooled = planned.description, budgets[-2:]
        else:
            assert isinstance(optimiser, GradientDescent)  # all that "auto" chooses from
            scales = [self._gradient_scale(budget, n) for budget in budgets]
            step = optimiser.resolve_step_size(objective, None, self.largest_curvature)
            variances = gradient_descent_noise(self.values, scales, step)
            noise = (self.vectors * variances) @ self.vectors.T
            text, pooled = f"GradientDescent, {len(budgets)} steps", budgets[-1:]
        covariance = self.sandwich + n * noise
        degrees = self._degrees_of_freedom(covariance, pooled, n)
        widths = 2.0 * t_half_widths(self.level, degrees) * np.sqrt(np.diag(covariance) / n)
        remarks = self._remarks(budgets[-1], n)
        widest = self._widest(widths, degrees)
        return _Expected(widths, widest, f"{text} ({reason})", remarks)

    def _degrees_of_freedom(self, covariance: Array, pooled: Sequence[StepBudget], n: int) -> Array:
        """Of released standard errors: those of a fit whose matrices are the pilot's."""
        last = pooled[-1]
        curvatures = [budget.hessian for budget in pooled if not budget.majorize]
        if not last.meat or not all(curvatures):  # of a block as large as it has to be
            return np.full(len(covariance), np.inf)
        scales = [self._curvature_scale(hessian, n) for hessian in curvatures]
        meat = self._matrix_scale(self.objective.meat_bound, last.meat, n)
        noise = VarianceNoise(
            Curvature(self.hessian, 0.0, 0, 0.0),
            sum(scale**-2.0 for scale in scales) ** -0.5,
            covariance,
            meat,
            n,
        )
        return noise.degrees_of_freedom(np.eye(len(covariance)), np.diag(covariance) / n)

    def _widest(self, widths: Array, degrees: Array) -> float:
        """Median of the largest of the slopes' widths, which scatter with their variances.

        As if independent: a variance has relative deviation ``sqrt(2 / degrees)``, and half of the
        time none of k is beyond the normal quantile at ``2^(-1/k)``.
        """
        from scipy.special import ndtri

        found, known = self.slopes(widths), self.slopes(degrees)
        beyond = max(0.0, float(ndtri(0.5 ** (1.0 / len(found)))))
        return float(np.max(found * np.sqrt(1.0 + beyond * np.sqrt(2.0 / known))))

    def _matrix_scale(self, bound: float, mu: float, n: int) -> float:
        p = self.objective.dimension
        return gaussian_scale(mean_rank_one(bound, n, p), mu, p * (p + 1) // 2)

    def _curvature_scale(self, mu: float, n: int) -> float:
        return self._matrix_scale(self.objective.curvature_bound, mu, n)

    def _gradient_scale(self, budget: StepBudget, n: int) -> float:
        objective, p = self.objective, self.objective.dimension
        return gaussian_scale(mean_score(objective.score_diameter, n), budget.gradient, p)

    def _remarks(self, last: StepBudget, n: int) -> tuple[str, ...]:
        if not last.hessian:
            return ()  # of a block as large as it has to be
        noise = 2.0 * self._curvature_scale(last.hessian, n) * self.objective.dimension**0.5
        if noise < 0.5 * self.values[0]:
            return ()
        return (
            "the noise of the Hessian is not small beside its smallest eigenvalue; the intervals "
            "will be wider than this, and the fit may say that they are not reliable",
        )


def _synthetic(q: int, loss: Loss, scale: float | None, rate: float) -> tuple[Array, Array]:
    """Normal covariates and residuals without random numbers."""
    from scipy.special import ndtri, pdtrik

    rate = number_in(rate, "rate", "(0, 1)")
    uniform = evenly(PILOT_RECORDS, q + 1)
    X, last = ndtri(uniform[:, :q]), uniform[:, q]
    if loss.binary_response:
        return X, (last < rate).astype(float)
    if isinstance(loss, Poisson):
        return X, np.ceil(np.nan_to_num(pdtrik(last, rate * loss.largest_mean)))
    return X, (1.0 if scale is None else real_number(scale, "scale")) * ndtri(last)


def public_pilot(pilot: tuple[Any, Any]) -> tuple[Array, Array]:
    """Covariates and responses of public rows."""
    if not isinstance(pilot, (tuple, list)) or len(pilot) != 2:
        raise InvalidInput(f"pilot must be public (X, y); received {described(pilot)}.")
    X, y = (real_array(part, "pilot") for part in pilot)
    if X.ndim != 2 or y.shape != X.shape[:1] or not len(y):
        raise InvalidInput(
            "pilot must be public (X, y) of shapes (m, p) and (m,), with at least a row; received "
            f"{X.shape} and {y.shape}."
        )
    return X, y


def evenly(n: int, columns: int) -> Array:
    """Points that fill a cube evenly, without random numbers, shape (n, columns).

    Multiples of the powers of the generalised golden ratio.
    """
    ratio = 1.5
    for _ in range(64):  # ratio^(columns + 1) = ratio + 1
        ratio = (1.0 + ratio) ** (1.0 / (columns + 1.0))
    steps = ratio ** -np.arange(1.0, columns + 1.0)
    points = (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1.0
    return np.asarray(np.clip(points, 1e-9, 1.0 - 1e-9))
