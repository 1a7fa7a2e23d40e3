"""``plan``: forecast of interval widths by budget and number of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import (
    LARGEST_WHOLE,
    Array,
    number_in,
    positive,
    real_array,
    real_number,
    whole_number,
)
from dpfast.curator.noisy_release import Release, observed
from dpfast.data.records import Covariates, Records
from dpfast.errors import InferenceUnavailable, InvalidBudget, InvalidInput, described, understood
from dpfast.fit_requests.planned_run import quietly
from dpfast.fit_requests.request import Account
from dpfast.inference.base import Planned
from dpfast.inference.degrees import coverage
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import render_table
from dpfast.models import FreeScale, Loss, Mallows, Objective, resolve_loss
from dpfast.models.objective import Terms, terms_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.fit import fit
from dpfast.regression.nonprivate import nonprivate_fit

#: Records of the synthetic pilot.
PILOT_RECORDS = 4096

#: Coefficients of a synthetic pilot at most: it is fitted exactly, in half a minute.
LARGEST_P = 1000

#: Where the search for n and mu gives up.
LARGEST_N, LARGEST_MU, SMALLEST_MU = 10**9, 100.0, 1e-4

#: n mu beyond which privacy noise is negligible: a forecast uses at most this.
MAX_STRENGTH = 1e8

#: Records per row of the pilot up to which a bandwidth follows n; beyond, the pilot is too coarse.
MAX_RECORDS_PER_ROW = 4

#: n mu over p^1.5 below which widths scatter: they are then medians of simulated noisy fits.
NOISY_STRENGTH = 300.0

#: Number of coefficients above which these simulations take too long.
MAX_SIMULATED_P = 60

#: Numbers of simulations, until the interquartile range over the root of their number is at most
#: this part of the median; and the number where many widths are needed, as for a curve.
REHEARSALS, MEDIAN_TOLERANCE, FEW_REHEARSALS = (25, 50, 100, 200), 0.05, (7,)

#: Step of the search where widths are simulated, in logarithms of n or mu.
SEARCH_STEP = 0.5

GOLDEN = 0.5 + 0.5 * math.sqrt(5.0)

#: Records of a fit that is refused for its options alone.
EASY = 10**6

#: Radius of weights that leave every row as it is.
FAR = 1e6


class NoForecast(InvalidInput):
    """No intervals at this budget and number of records, so that nothing can be forecast."""


class Plan(Planned):
    """Expected interval widths of a private fit, from public numbers only.

    Attributes
    ----------
    n : int
        Number of records.
    mu : float
        Total Gaussian-DP budget, inference included.
    width : float
        Expected width of the widest slope's interval, or of the intercept's if it is alone.  With
        several slopes it is at least the largest of :attr:`widths`: standard errors scatter.
    widths : ndarray of shape (p,)
        Widths of all coefficients, the intercept first; they allow for noisy standard errors.
    sampling_widths : ndarray of shape (p,)
        The same without privacy: sampling error alone.  From the public pilot, so it is public.
    level : float
        Nominal coverage.
    method : str
        What ``fit`` would do at this n and mu, and why.
    remarks : tuple of str
        Reasons why the forecast is optimistic.

    Privacy
    -------
    It uses public numbers only, of a public or a synthetic pilot.

    Examples
    --------
    >>> plan = dpfast.plan(n=10_000, p=3, privacy=1.0)
    >>> plan.curve(mu=[0.5, 1.0, 2.0]).shape
    (3,)
    """

    _headed = ("Records", "Budget", "Forecast")

    def __init__(self, forecast: _Forecast, n: int, mu: float) -> None:
        self._forecast = forecast
        self.n, self.mu, self.level = n, mu, forecast.level
        expected = forecast.expected(n, mu)
        self.widths, self.width = expected.widths, expected.widest
        self.method, self.remarks = expected.method, expected.remarks
        self.sampling_widths = forecast.sampling_widths(n, mu, expected.scale)

    def curve(
        self, *, n: Sequence[int] | None = None, mu: Sequence[float] | None = None
    ) -> NDArray[np.float64]:
        """Return the expected width of the widest slope over a range of n or of mu.

        Parameters
        ----------
        n : sequence of int, or
        mu : sequence of float
            Exactly one of them; the other is the plan's.

        Returns
        -------
        ndarray of shape (k,)
            As long as the sequence, in the units of the slope.

        Examples
        --------
        >>> widths = dpfast.plan(n=10_000, p=3, privacy=1.0).curve(n=[10_000, 40_000])
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
        current = (self.n, self.mu)
        return np.array(
            [self.width if pair == current else self._forecast.width(*pair) for pair in pairs]
        )

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        """The same as :attr:`remarks`, under the name that results have."""
        return tuple(self.remarks)

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
            f"  {cost:.3g} times as wide as without privacy",
            f"  forecast from {self._forecast.source}",
        ]
        return "\n".join(lines + [f"  beware: {remark}" for remark in self.remarks])

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the expected widths, as text with other forms."""
        pairs = zip(self.widths.tolist(), self.sampling_widths.tolist(), strict=True)
        cells = tuple([(f"{w:.4g}", f"{s:.4g}", f"{w / s:.3g}") for w, s in pairs])
        columns = (f"{100 * self.level:g}% interval", "without privacy", "times as wide")
        facts = (
            ("Records", f"{self.n:,}"),
            ("Budget", self._budget()),
            ("Forecast", f"from {self._forecast.source}"),
        )
        title = "dpfast: expected widths of intervals"
        how = (("Method", self.method),)
        rows = zip(self._names(), cells, strict=True)
        return render_table(title, facts, columns, rows, None, self.remarks, details=how)

    def _names(self) -> list[str]:
        first = ["intercept"] if self._forecast.fit_intercept else []
        return [*first, *(f"x{j + 1}" for j in range(len(self.widths) - len(first)))]

    def _columns(self, level: float) -> dict[str, Any]:
        widths, without = self.widths.tolist(), self.sampling_widths.tolist()
        return {"term": self._names(), "width": widths, "width_without_privacy": without}


@understood
def plan(
    n: int | None = None,
    p: int | None = None,
    loss: str | Loss | Objective = "least-squares",
    *,
    privacy: Budget | float | tuple[float, float] | None = None,
    width: float | None = None,
    level: float = 0.95,
    rate: float = 0.5,
    pilot: tuple[Any, Any] | None = None,
) -> Plan:
    """Forecast interval widths, or find the budget or the number of records for a width.

    Give two of ``n``, ``privacy`` and ``width``; the third is computed.

    Parameters
    ----------
    n : int
        Number of records.
    p : int
        Number of coefficients, the intercept included; taken from the pilot if there is one.
    loss : str, Loss or Objective
        As in :func:`dpfast.fit`, without a ridge.  The forecast covers the private estimation of
        scales where nothing is declared.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The total to spend, as in :func:`dpfast.fit`; :attr:`Plan.mu` has it in Gaussian DP.
    width : float
        Width (not half of it) of the widest slope's interval, in the units of a coefficient.
    level : float
        Nominal coverage.
    rate : float
        Share of ones in the response of a synthetic pilot for the logistic loss.  For counts, their
        mean over the largest mean (over 2, if that is not declared).
    pilot : (X, y), optional
        **Public** data like the private ones: of an earlier year, another country, or simulated.
        By default covariates are independent standard normal, and coefficients are zero.  Residuals
        are normal with standard deviation ``scale`` of the objective, 1 if that is not declared:
        the widths of least squares are then in standard deviations of a residual.

    Privacy
    -------
    Nothing is spent.  Never pass the private records as a pilot: it must be public.

    Examples
    --------
    >>> found = dpfast.plan(n=2000, p=4, privacy=1.0)
    >>> bool(0.05 < found.width < 0.2)
    True
    """
    if sum(value is not None for value in (n, privacy, width)) != 2:
        raise InvalidInput(
            "give two of n, privacy and width, and the third is computed; received "
            f"n={described(n)}, privacy={described(privacy)}, width={described(width)}."
        )
    terms = terms_of(loss)
    if n is not None:
        n = whole_number(n, "n", 1)
    account = None if privacy is None else Account(privacy)
    total = None if account is None else account.total.mu
    if account is not None and n is not None:
        account.warn_if_weak(n)
    forecast = _Forecast(p, level, terms, rate, pilot)
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
    ends = math.log(SMALLEST_MU), math.log(LARGEST_MU)
    return math.exp(_smallest(forecast, lambda x: (n, math.exp(x)), width, *ends))


def _records_for(forecast: _Forecast, mu: float, width: float) -> int:
    if forecast.width(LARGEST_N, mu) > width:
        raise InvalidInput(
            f"width = {width:g} is out of reach at mu = {mu:g} with up to {LARGEST_N:g} records."
        )
    ends = math.log(2.0), math.log(float(LARGEST_N))
    return math.ceil(
        math.exp(_smallest(forecast, lambda x: (math.ceil(math.exp(x)), mu), width, *ends))
    )


def _smallest(
    forecast: _Forecast,
    at: Callable[[float], tuple[int, float]],
    width: float,
    low: float,
    high: float,
) -> float:
    """Find the smallest x in [low, high] whose intervals are narrow enough."""

    def enough(x: float, rehearse: bool) -> bool:
        return forecast.width(*at(x), rehearse) <= width

    smallest = _bisect(lambda x: enough(x, False), low, high, 1e-6)
    if enough(smallest, True) and not forecast._is_noisy(*at(smallest)):
        return smallest
    low, top = max(low, smallest - SEARCH_STEP), min(high, smallest + SEARCH_STEP)
    while top < high and not enough(top, True):
        low, top = top, min(high, top + SEARCH_STEP)
    return _bisect(lambda x: enough(x, True), low, top, 1e-3)


def _bisect(condition: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Find the smallest x in [low, high] that is enough, by bisection of a monotone condition."""
    if condition(low):
        return low
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high


class _Expected(NamedTuple):
    """Forecast for one number of records and one budget."""

    widths: Array
    widest: float
    method: str
    remarks: tuple[str, ...]
    scale: float | None


class _Forecast:
    """Widths as a function of n and mu, from one public pilot."""

    def __init__(
        self,
        p: int | None,
        level: float,
        terms: Terms,
        rate: float,
        pilot: tuple[Any, Any] | None,
    ) -> None:
        loss, scale, _, ridge, fit_intercept, columns = terms
        if ridge:
            raise InvalidInput(
                "forecasts are for fits without a penalty. Leave the ridge of the objective out."
            )
        if isinstance(scale, FreeScale):
            raise InvalidInput(
                "forecasts need a scale that is public or estimated by the fit: pass a number, or "
                f"leave scale out; received {described(scale)}."
            )
        self.level = coverage(level)
        if pilot is None:
            hint = ", the number of coefficients with the intercept, unless a public pilot is given"
            p = whole_number(p, "p", 1, LARGEST_P, otherwise=hint)
        kind = resolve_loss(loss, unbounded=True)
        if pilot is None:
            assert p is not None
            self.source = "a synthetic pilot: independent standard normal covariates"
            X, y = _synthetic(p - int(fit_intercept), kind, scale, rate)
        else:
            X, y = public_pilot(pilot)
            self.source = f"a public pilot of {len(y)} records"
        if columns is not None and columns != X.shape[1]:
            raise InvalidInput(
                f"the objective is for {columns} covariates and there are {X.shape[1]}."
            )
        self._rows, self._loss, self._kind = (X, y), loss, kind
        self._terms = terms._replace(n_covariates=None)
        self.fit_intercept = fit_intercept
        self.expected(EASY, 1.0)  # refuses whatever any fit would

    def slopes(self, values: Array) -> Array:
        """Return the values of slopes, or the intercept's if it is alone."""
        return values[1:] if self.fit_intercept and len(values) > 1 else values

    def width(self, n: int, mu: float, rehearse: bool = True) -> float:
        """Return the width of the widest slope; infinity if the fit is refused."""
        try:
            return self.expected(n, mu, FEW_REHEARSALS if rehearse else ()).widest
        except (InvalidBudget, InvalidInput):
            return math.inf

    def _loss_at(self, n: int, mu: float) -> Loss:
        """Return the loss for n records, smoothed no finer than the pilot allows."""
        X, y = self._rows
        return self._kind._for_records(min(n, MAX_RECORDS_PER_ROW * len(y)), X.shape[1] + 1, mu)

    def sampling_widths(self, n: int, mu: float, scale: float | None) -> Array:
        """Return the widths of the same fit without privacy, at the given scale."""
        X, y = self._rows
        loss, terms = self._loss_at(n, mu), self._terms
        if loss.has_bound:
            loss = loss if loss.declared else loss._bounded
            weights = (
                Mallows(FAR)
                if terms.weights is None and loss.supports_default_fit
                else terms.weights
            )
            terms = terms._replace(scale=terms.scale or scale, weights=weights)
        exact_fit = nonprivate_fit(X, y, Objective(**terms._replace(loss=loss)._asdict()))
        widths: Array = np.ptp(exact_fit.conf_int(self.level), axis=1)
        return widths * math.sqrt(len(y) / n)

    def expected(self, n: int, mu: float, rehearse: tuple[int, ...] = REHEARSALS) -> _Expected:
        """Return expected widths, the method, and remarks on what makes them optimistic."""
        mu, records = min(mu, MAX_STRENGTH / n), _Standing(*self._rows, n)
        objective = Objective(**self._terms._replace(loss=self._loss_at(n, mu))._asdict())
        with observed(_Noiseless()), quietly():
            noiseless_fit = fit(records, None, objective, privacy=mu)
        widths = self._widths(noiseless_fit)
        widest = self._widest(widths, noiseless_fit)
        if rehearse and self._is_noisy(n, mu):
            rehearsals: list[Array] = []
            for count in rehearse:
                rehearsals += [
                    self._rehearsed(objective, n, mu, k) for k in range(len(rehearsals), count)
                ]
                largest = np.array([self.slopes(simulated).max() for simulated in rehearsals])
                low, widest, high = np.quantile(largest, [0.25, 0.5, 0.75], method="nearest")
                tolerance = MEDIAN_TOLERANCE * math.sqrt(count) * widest
                if low == high or high - low <= tolerance:  # both may be infinite
                    break
            widths, widest = np.median(rehearsals, axis=0), float(np.median(largest))
        scale = noiseless_fit._scale if self._kind.needs_scale else None
        return _Expected(widths, widest, noiseless_fit.method, noiseless_fit.warnings, scale)

    def _is_noisy(self, n: float, mu: float) -> bool:
        p = self._rows[0].shape[1] + int(self.fit_intercept)
        return n * mu < NOISY_STRENGTH * p**1.5 and p <= MAX_SIMULATED_P

    def _rehearsed(self, objective: Objective, n: int, mu: float, k: int) -> Array:
        """Return the widths of a noisy fit of n public rows, or of every one if there are fewer."""
        X, y = self._rows
        if n < len(y):  # from anywhere in the table, in whatever order it is
            stride = round(len(y) / GOLDEN)
            while math.gcd(stride, len(y)) > 1:
                stride += 1
            chosen = (k * n + np.arange(n)) * stride % len(y)
            X, y = X[chosen], y[chosen]
        rows, noise = _Standing(X, y, n), SeededNoise(k)
        with quietly():
            return self._widths(fit(rows, None, objective, privacy=mu, noise=noise))

    def _widths(self, fitted: Fit) -> Array:
        """Return the widths of a fit's intervals; infinity for columns that were dropped."""
        try:
            widths: Array = np.ptp(fitted.conf_int(self.level), axis=1)
        except InferenceUnavailable as error:
            raise NoForecast(f"there are no intervals to forecast: {error}") from None
        return np.where(np.isnan(widths), np.inf, widths)

    def _widest(self, widths: Array, fitted: Fit) -> float:
        """Return the median of the slopes' largest width, which scatters with the variances."""
        from scipy.special import ndtri

        slopes, known = self.slopes(widths), self.slopes(fitted.degrees_of_freedom)
        normal_quantile = max(0.0, float(ndtri(0.5 ** (1.0 / len(slopes)))))
        return float(np.max(slopes * np.sqrt(1.0 + normal_quantile * np.sqrt(2.0 / known))))


class _Noiseless:
    """Noise source that adds none, for public rows."""

    def release(self, question: tuple[Any, ...], release: Release, draw: Any) -> Any:
        return np.asarray(release.value, dtype=np.float64)


class _Standing(Records):
    """Public rows that represent n records: their sums are scaled to n."""

    __slots__ = ("_part", "_rows")

    can_be_partitioned, is_remote = False, True  # no memory is asked for by their number

    def __init__(self, X: Array, y: Array, n: int) -> None:
        self.n, self.n_covariates, self.names = n, X.shape[1], None
        self.block_sizes = (n,)
        self._rows, self._part = (X, y), n / len(y)

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        return iter([self._rows])

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return _times(self._part, function(*self._rows, *arguments))


def _times(part: float, sums: Any) -> Any:
    if sums is None:
        return None
    if isinstance(sums, tuple):
        return tuple([_times(part, item) for item in sums])
    return np.asarray(sums) * part


def _synthetic(q: int, loss: Loss, scale: float | None, rate: float) -> tuple[Array, Array]:
    """Return normal covariates and residuals without random numbers."""
    from scipy.special import ndtri

    rate = number_in(rate, "rate", "(0, 1)")
    uniform = evenly(PILOT_RECORDS, q + 1)
    X, last = ndtri(uniform[:, :q]), uniform[:, q]
    size = 1.0 if scale is None else real_number(scale, "scale")
    return X, np.asarray(loss._synthetic(last, rate, size))


def public_pilot(pilot: tuple[Any, Any]) -> tuple[Array, Array]:
    """Check a public pilot; return its covariates and responses."""
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
    """Return points that fill a cube evenly, without random numbers, shape (n, columns)."""
    ratio = 1.5
    for _ in range(64):  # ratio^(columns + 1) = ratio + 1
        ratio = (1.0 + ratio) ** (1.0 / (columns + 1.0))
    steps = ratio ** -np.arange(1.0, columns + 1.0)
    points = (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1.0
    return np.asarray(np.clip(points, 1e-9, 1.0 - 1e-9))
