"""``plan``: how wide will the intervals be, at which budget, with how many records?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import (
    LARGEST_WHOLE,
    number_in,
    positive,
    real_array,
    real_number,
    whole_number,
)
from dpfast.curator.noisy_release import Release, observed
from dpfast.data.records import Covariates, Records
from dpfast.errors import InferenceUnavailable, InvalidBudget, InvalidInput, described, understood
from dpfast.fit_requests.request import Account
from dpfast.inference.degrees import coverage
from dpfast.inference.rendering.renderings import html
from dpfast.inference.rendering.table import Table
from dpfast.inference.results import Fit
from dpfast.models import FreeScale, Loss, Mallows, Objective, resolve_loss
from dpfast.models.objective import Terms, terms_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.fit import fit
from dpfast.regression.nonprivate import nonprivate_fit

Array = NDArray[np.float64]

#: Records of the synthetic pilot.
PILOT_RECORDS = 4096

#: Coefficients of a synthetic pilot at most: it is fitted exactly, in half a minute.
LARGEST_P = 1000

#: Where the search for n and mu gives up.
LARGEST_N, LARGEST_MU, SMALLEST_MU = 10**9, 100.0, 1e-4

#: n mu beyond which noise is nothing; records that a row of a pilot stands for where it matters
#: how dense they are.
MOST_TOLD, FINEST = 1e8, 4

#: n mu over p^1.5 below which noise moves what widths are made of, so that they are medians of fits
#: of the public rows with noise; coefficients of which that would take too long.
NOISY, TOO_MANY = 300.0, 60

#: How many, until the error of their median is small; and where many widths are asked for.
REHEARSALS, SURE, FEW = (25, 50, 100, 200), 0.05, (7,)

#: How far apart budgets and numbers of records are sought that rehearsals move, in logarithms.
NEARBY = 0.5

GOLDEN = 0.5 + 0.5 * math.sqrt(5.0)

#: Records of a fit that is refused for its options alone.
EASY = 10**6

#: Radius of weights that leave every row as it is.
FAR = 1e6


class NoForecast(InvalidInput):
    """So few records at so small a price have no intervals."""


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
    >>> plan = dpfast.plan(n=10_000, p=3, privacy=1.0)
    >>> plan.curve(mu=[0.5, 1.0, 2.0]).shape
    (3,)
    """

    def __init__(self, forecast: _Forecast, n: int, mu: float) -> None:
        self._forecast = forecast
        self.n, self.mu, self.level = n, mu, forecast.level
        found = forecast.expected(n, mu)
        self.widths, self.width = found.widths, found.widest
        self.method, self.remarks = found.method, found.remarks
        self.sampling_widths = forecast.sampling_widths(n, mu, found.scale)

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
        own = (self.n, self.mu)
        return np.array(
            [self.width if pair == own else self._forecast.width(*pair) for pair in pairs]
        )

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

    def _repr_html_(self) -> str:
        first = ["intercept"] if self._forecast.fit_intercept else []
        labels = [*first, *(f"x{j + 1}" for j in range(len(self.widths) - len(first)))]
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
        return html(Table(title, facts, columns, tuple(labels), cells, "", (), self.remarks, how))

    def __repr__(self) -> str:
        return f"<Plan n={self.n}, mu={self.mu:.4g}, width={self.width:.4g}>"


@understood
def plan(
    n: int | None = None,
    p: int | None = None,
    loss: str | Loss | Objective = "log-cosh",
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
        As in :func:`dpfast.fit`, whose every purchase is forecast: "least-squares", quantiles and
        counts, too, with nothing declared; an objective without ridge.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The total to spend, as in :func:`dpfast.fit`; :attr:`Plan.mu` is what it is in GDP.
    width : float
        Width (not half of it) of the widest slope's interval, in the units of a coefficient.
    level : float
        Nominal coverage.
    rate : float
        Share of ones in the response of a synthetic pilot for the logistic loss; of counts, their
        mean as a part of the largest mean (of 2, where none is declared).
    pilot : (X, y), optional
        **Public** data like the private ones: of an earlier year, another country, or simulated.
        By default covariates are independent standard normal, residuals normal with standard
        deviation ``scale`` of the objective (1, if it is not declared), and the coefficients zero.

    Privacy
    -------
    Spends nothing, and must see public data only: never pass the private records as a pilot.

    Examples
    --------
    >>> found = dpfast.plan(n=2000, p=4, privacy=1.0)
    >>> bool(0.05 < found.width < 0.2)
    True
    """
    given = [value is not None for value in (n, privacy, width)]
    if sum(given) != 2:
        raise InvalidInput(
            "give two of n, privacy and width, and the third is computed; received "
            f"n={described(n)}, privacy={described(privacy)}, width={described(width)}."
        )
    asked = terms_of(loss)
    if n is not None:
        n = whole_number(n, "n", 1)
    account = None if privacy is None else Account(privacy)
    total = None if account is None else account.total.mu
    if account is not None and n is not None:
        account.warn_if_weak(n)
    forecast = _Forecast(p, level, asked, rate, pilot)
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
    """Smallest x in [low, high] whose intervals are narrow enough, from above."""

    def enough(x: float, rehearse: bool) -> bool:
        return forecast.width(*at(x), rehearse) <= width

    found = _bisect(lambda x: enough(x, False), low, high, 1e-6)
    if enough(found, True) and not forecast._is_noisy(*at(found)):
        return found
    low, top = max(low, found - NEARBY), min(high, found + NEARBY)
    while top < high and not enough(top, True):
        low, top = top, min(high, top + NEARBY)
    return _bisect(lambda x: enough(x, True), low, top, 1e-3)


def _bisect(enough: Callable[[float], bool], low: float, high: float, within: float) -> float:
    """Smallest x in [low, high] that is enough (monotone), from above."""
    if enough(low):
        return low
    while high - low > within:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class _Expected(NamedTuple):
    """Of a number of records and a budget."""

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
        asked: Terms,
        rate: float,
        pilot: tuple[Any, Any] | None,
    ) -> None:
        loss, scale, _, ridge, fit_intercept, columns = asked
        if ridge:
            raise InvalidInput(
                "forecasts are of fits without a penalty. Leave the ridge of the objective out."
            )
        if isinstance(scale, FreeScale):
            raise InvalidInput(
                "forecasts are of fits whose scale is known or bought: pass a number, or leave "
                f"scale out; received {described(scale)}."
            )
        self.level = coverage(level)
        if pilot is None:
            told = ", the number of coefficients with the intercept, unless a public pilot is given"
            p = whole_number(p, "p", 1, LARGEST_P, otherwise=told)
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
        self._terms = asked._replace(n_covariates=None)
        self.fit_intercept = fit_intercept
        self.expected(EASY, 1.0)  # refuses whatever any fit would

    def slopes(self, values: Array) -> Array:
        """Those of slopes; of the intercept, if it is alone."""
        return values[1:] if self.fit_intercept and len(values) > 1 else values

    def width(self, n: int, mu: float, rehearse: bool = True) -> float:
        """Of the widest slope; infinite where a fit is refused."""
        try:
            return self.expected(n, mu, FEW if rehearse else ()).widest
        except (InvalidBudget, InvalidInput):
            return math.inf

    def _loss_at(self, n: int, mu: float) -> Loss:
        """The loss of so many records, smoothed no finer than the pilot is."""
        X, y = self._rows
        return self._kind._for_records(min(n, FINEST * len(y)), X.shape[1] + 1, mu)

    def sampling_widths(self, n: int, mu: float, scale: float | None) -> Array:
        """Of the same fit without privacy, at the scale that it has."""
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
        found = nonprivate_fit(X, y, Objective(**terms._replace(loss=loss)._asdict()))
        widths: Array = np.ptp(found.conf_int(self.level), axis=1)
        return widths * math.sqrt(len(y) / n)

    def expected(self, n: int, mu: float, rehearse: tuple[int, ...] = REHEARSALS) -> _Expected:
        """Expected widths, the method, and what makes them optimistic."""
        mu, told = min(mu, MOST_TOLD / n), _Standing(*self._rows, n)
        objective = Objective(**self._terms._replace(loss=self._loss_at(n, mu))._asdict())
        with observed(_Noiseless()):
            found = fit(told, None, objective, privacy=mu)
        widths = self._widths(found)
        widest = self._widest(widths, found)
        if rehearse and self._is_noisy(n, mu):
            each: list[Array] = []
            for count in rehearse:
                each += [self._rehearsed(objective, n, mu, k) for k in range(len(each), count)]
                largest = np.array([self.slopes(own).max() for own in each])
                low, widest, high = np.quantile(largest, [0.25, 0.5, 0.75], method="nearest")
                if not high - low > SURE * math.sqrt(count) * widest:  # also where all are infinite
                    break
            widths, widest = np.median(each, axis=0), float(np.median(largest))
        scale = found._scale if self._kind.needs_scale else None
        return _Expected(widths, widest, found.method, found.warnings, scale)

    def _is_noisy(self, n: float, mu: float) -> bool:
        p = self._rows[0].shape[1] + int(self.fit_intercept)
        return n * mu < NOISY * p**1.5 and p <= TOO_MANY

    def _rehearsed(self, objective: Objective, n: int, mu: float, k: int) -> Array:
        """Widths of a fit with noise of as many of the rows; of all, where there are no more."""
        X, y = self._rows
        if n < len(y):  # from anywhere in the table, in whatever order it is
            stride = round(len(y) / GOLDEN)
            while math.gcd(stride, len(y)) > 1:
                stride += 1
            chosen = (k * n + np.arange(n)) * stride % len(y)
            X, y = X[chosen], y[chosen]
        rows, noise = _Standing(X, y, n), SeededNoise(k)
        return self._widths(fit(rows, None, objective, privacy=mu, noise=noise))

    def _widths(self, found: Fit) -> Array:
        """Of a fit's intervals; infinite of what is left out."""
        try:
            widths: Array = np.ptp(found.conf_int(self.level), axis=1)
        except InferenceUnavailable as error:
            raise NoForecast(f"there are no intervals to forecast: {error}") from None
        return np.where(np.isnan(widths), np.inf, widths)

    def _widest(self, widths: Array, found: Fit) -> float:
        """Median of the largest of the slopes' widths, which scatter with their variances."""
        from scipy.special import ndtri

        slopes, known = self.slopes(widths), self.slopes(found.degrees_of_freedom)
        beyond = max(0.0, float(ndtri(0.5 ** (1.0 / len(slopes)))))
        return float(np.max(slopes * np.sqrt(1.0 + beyond * np.sqrt(2.0 / known))))


class _Noiseless:
    """Hands out what is exact: of public rows there is nothing to hide."""

    def release(self, question: tuple[Any, ...], release: Release, draw: Any) -> Any:
        return np.asarray(release.value, dtype=np.float64)


class _Standing(Records):
    """Public rows that stand for n records: their sums are of so many."""

    __slots__ = ("_part", "_rows")

    can_be_partitioned, elsewhere = False, True  # no memory is asked for by their number

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
        return tuple([_times(part, one) for one in sums])
    return np.asarray(sums) * part


def _synthetic(q: int, loss: Loss, scale: float | None, rate: float) -> tuple[Array, Array]:
    """Normal covariates and residuals without random numbers."""
    from scipy.special import ndtri

    rate = number_in(rate, "rate", "(0, 1)")
    uniform = evenly(PILOT_RECORDS, q + 1)
    X, last = ndtri(uniform[:, :q]), uniform[:, q]
    size = 1.0 if scale is None else real_number(scale, "scale")
    return X, np.asarray(loss._synthetic(last, rate, size))


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
    """Points that fill a cube evenly, without random numbers, shape (n, columns)."""
    ratio = 1.5
    for _ in range(64):  # ratio^(columns + 1) = ratio + 1
        ratio = (1.0 + ratio) ** (1.0 / (columns + 1.0))
    steps = ratio ** -np.arange(1.0, columns + 1.0)
    points = (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1.0
    return np.asarray(np.clip(points, 1e-9, 1.0 - 1e-9))
