"""``goodness_of_fit``: R squared or deviance share, and mean absolute error, of a released fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer
from dpfast.curator.fit_errors import FitErrors, Line
from dpfast.data.schema import Schema
from dpfast.data.source import source_of
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage, t_intervals
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import by_error
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import end_headings, render_table
from dpfast.models.names import kind_of
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.tables.sensitivity import SQUARE_AT, SQUARE_WEIGHT
from dpfast.regression.formula import read_formula

#: Share of mu^2 for the first moments, which the second are centred at.
FIRST_SHARE = 0.3

#: Clipping norms grow with the records until noise is this part of the sampling error: of errors in
#: residual scales, and of squares in variances; within these ranges.
MAX_NOISE, ERROR_RANGE, SQUARE_RANGE = 0.3, (8.0, 50.0), (16.0, 100.0)

#: The same of deviances of labels: at 6, labels of probability .05 and more count in full.
DEVIANCE_RANGE = (6.0, 20.0)

#: Least mean by which a deviance is scaled, as a part of that at the centre of the columns.
MIN_MEAN = 0.1

#: Least mean deviance that bounds are made for: counts with a mean of .03 have .2.
LEAST_DEVIANCE = 0.2

#: Part of the mean squared error that the second clipping removes, beyond its noise, from which on
#: the result warns.
MAX_CLIPPED = 0.05

#: Squared mean over mean square of absolute errors: .64 of normal ones, .54 of t with 5 degrees of
#: freedom, .3 of lognormal ones.  Below it tails are heavy enough to warn.
MIN_EVENNESS = 0.45

HEAVY = (
    "a few records have most of the squared errors: clipping at {bound:.3g} understates the mean "
    "absolute error, and intervals may not cover. Use the logarithm of the response, or a larger "
    "budget."
)

CLIPPED = (
    "squared errors were clipped at {bound:.3g} times their mean, and {lost:.0%} lies beyond: R "
    "squared may be overstated. Use the logarithm of the response, or a larger budget."
)

INSTEAD = "Numbers of a fit are of records that count alike, without weights, offsets or persons."

COPIES = 6


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(Result):
    """Numbers of a released fit, with standard errors.  Holds no records.

    Attributes
    ----------
    names : tuple of str
        ``"R squared"``, with a link ``"deviance share"``; and ``"mean absolute error"``.
    params, bse : ndarray of shape (2,)
        Estimates, and their standard errors from sampling and privacy noise together.
    n_records : int
    privacy : Guarantee
    remarks, warnings : tuple of str

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 1))
    >>> y = X[:, 0] + np.random.default_rng(1).normal(size=5000)
    >>> fit = dpfast.fit(X, y, privacy=1.0)
    >>> dpfast.regression.goodness_of_fit(fit, X, y, privacy=1.0).names
    ('R squared', 'mean absolute error')
    """

    names: tuple[str, ...]
    params: Array
    bse: Array
    n_records: int
    privacy: Guarantee
    remarks: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warning of clipped errors."""
        return self.remarks

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return confidence intervals, shape (2, 2)."""
        return t_intervals(coverage(level, alpha), self.params, self.bse, np.full(2, np.inf))

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.conf_int(level).T
        numbers = {"estimate": self.params, "std_error": self.bse}
        return {"term": list(self.names)} | numbers | {"conf_low": low, "conf_high": high}

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return a table of the numbers, and the budget spent."""
        level = coverage(level, alpha)
        columns = zip(self.params, self.bse, *self.conf_int(level).T, strict=True)
        rows = [
            (name, tuple(by_error(list(map(float, numbers)), float(numbers[1]))))
            for name, numbers in zip(self.names, columns, strict=True)
        ]
        headings = ("estimate", "std err", *end_headings(level))
        facts = (("Records", str(self.n_records)),)
        return render_table(
            "dpfast: private goodness of fit", facts, headings, rows, self.privacy, self.warnings
        )


@understood
def goodness_of_fit(
    fit: Fit,
    X: Any,
    y: Any = None,
    *,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> GoodnessOfFit:
    """Estimate R squared (with a link the share of deviance) and the mean absolute error of a fit.

    The numbers are those of the released line in the population of these records.  These may be the
    records of the fit, where R squared is too large by some ``2 p (1 - R squared) / n``, or others.
    The F statistic of a fit costs nothing: ``fit.fvalue``.

    Parameters
    ----------
    fit : Fit
        A default fit of least squares, a robust loss, a quantile, labels, counts or positive
        responses (gamma).
    X, y
        As they were passed to :func:`dpfast.fit`: covariates and response, or the formula and a
        table.
    schema : Schema, optional
        As of the fit.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total** of these numbers, which comes on top of the fit's.

    Raises
    ------
    InvalidInput
        If the columns are not those of the fit, or records have weights, offsets or persons; before
        the charge.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T12).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 1))
    >>> y = X[:, 0] + np.random.default_rng(1).normal(size=5000)
    >>> fit = dpfast.fit(X, y, privacy=1.0)
    >>> found = dpfast.regression.goodness_of_fit(fit, X, y, privacy=1.0)
    >>> bool(abs(found.params[0] - 0.5) < 0.1)
    True
    """
    if not isinstance(fit, Fit):
        raise InvalidInput(f"fit must be a dpfast.Fit; received {described(fit)}.")
    analysis = _Goodness(fit, X, y, schema, Account(privacy, ledger), noise)
    request = analysis.request
    label = request.label("goodness_of_fit")
    return run(analysis, label, request.memory_bytes(COPIES, include_arrays=True))


class _Sizes(NamedTuple):
    """First moments: of the error's size, its square, and of the response."""

    error: float
    error_bse: float
    square: float
    square_noise: float
    mean: float
    variance: float


class _Goodness(Analysis[GoodnessOfFit]):
    """Two queries about a released line; the constructor refuses."""

    def __init__(
        self, fit: Fit, X: Any, y: Any, schema: Any, account: Account, noise: NoiseSource | None
    ) -> None:
        intercept = bool(fit._fit_intercept)
        if isinstance(X, str):
            source = read_formula(X, y, schema, own_units=True).source
        else:
            source = source_of(X, y)
        self.request = request = FitRequest(
            source, None, account, fit_intercept=intercept, noise=noise, instead=INSTEAD
        )
        names = fit.names[int(intercept) :]
        if request.coding is not None:
            raise InvalidInput(
                "a design holds records in coded units. Pass the formula and the table, with "
                "schema=..., as they were passed to dpfast.fit."
            )
        if tuple(request.column_names) != tuple(names):
            raise InvalidInput(
                f"the fit has the columns {list(names)}, and these records "
                f"{list(request.column_names)}. Pass what was passed to dpfast.fit."
            )
        self._response, scales = _kind_and_units(fit)
        params = np.asarray(fit.params, dtype=np.float64)
        line = Line(
            float(params[0]) if intercept else 0.0,
            params[int(intercept) : int(intercept) + len(names)],
            self._response,
            _same if self._response == "number" else fit._response,
        )
        mu = account.total.mu * (1.0 - ROUNDING_SUM)
        self._mu = [mu * math.sqrt(share) for share in (FIRST_SHARE, 1.0 - FIRST_SHARE)]
        n = request.n
        reach = [MAX_NOISE * part * math.sqrt(n) for part in self._mu]
        self._squares = float(np.clip(0.5 * reach[1], *SQUARE_RANGE))
        self._deviances = float(np.clip(0.25 * reach[1], *DEVIANCE_RANGE))
        longest = float(np.clip(0.4 * reach[0], *ERROR_RANGE))
        longest = 1.0 if self._response == "label" else longest
        error, (self._centre, half) = scales
        self._largest, self._half = longest * error, longest * half
        self._errors = FitErrors(request.records, line, request.ledger, request.noise)
        for part in self._mu:
            self._errors.receipt(part)

    def query(self, report: Progress | None) -> tuple[_Sizes, Array, Answer, float, float]:
        """Release moments of errors, and of their losses around these."""
        answer, weight = self._errors.first(self._largest, self._centre, self._half, self._mu[0])
        found = self._sizes(answer, weight)
        ratio = min(found.square / found.variance, 1.0)
        mean = found.mean
        if self._response == "label":
            rare = min(max(found.mean, 0.01), 0.99)
            largest = -2.0 * math.log(min(rare, 1.0 - rare))  # of the null deviance
            bounds = (max(self._deviances, largest), largest)
            mean = rare
        else:  # a deviance is about a squared error over the variance function
            power = {"number": 0, "count": 1, "positive": 2}[self._response]
            mean = max(mean, MIN_MEAN * self._centre) if power else mean
            least = LEAST_DEVIANCE * self._squares
            squares = self._squares / mean**power
            bounds = (squares * found.square, squares * found.variance)
            if power:  # noise may leave little of a variance; mean deviances are rarely below .2
                bounds = (max(bounds[0], least), max(bounds[1], least))
        second, weight = self._errors.second(mean, ratio, bounds, self._mu[1])
        return found, np.array(bounds), second, weight, ratio

    def _sizes(self, answer: Answer, weight: float) -> _Sizes:
        """Return the first moments in natural units; variances have a floor above zero."""
        means, squares, n, noise = moments(answer, weight)
        error = 0.5 * self._largest * (means[0] + 1.0)
        square = (0.5 * self._largest) ** 2 * max(squares[0] + 2.0 * means[0] + 1.0, 1e-9)
        mean = self._centre + self._half * means[1]
        variance = self._half**2 * max(squares[1] - means[1] ** 2, 1e-9)
        sampling = max(square - error**2, 0.05 * square) / n
        bse = math.sqrt(sampling + (0.5 * self._largest * noise * (1.0 + abs(means[0]))) ** 2)
        square_noise = (0.5 * self._largest) ** 2 * noise * math.hypot(1.0 / SQUARE_WEIGHT, 2.0)
        return _Sizes(error, bse, square, square_noise, mean, variance)

    def report(self, answers: tuple[_Sizes, Array, Answer, float, float]) -> GoodnessOfFit:
        """Combine the moments; the standard error of R squared is at least that of its parts."""
        found, bounds, second, weight, ratio = answers
        means, squares, n, noise = moments(second, weight)
        change, null = bounds[0] * means[0], 0.5 * bounds[1] * max(means[1] + 1.0, 1e-6)
        spreads = np.sqrt(np.maximum(squares - means**2, 1e-9)) * [bounds[0], 0.5 * bounds[1]]
        left = change / null
        sampling = (spreads[0] + abs(left) * spreads[1]) / math.sqrt(n)
        privacy = noise * math.hypot(bounds[0], 0.5 * left * bounds[1])
        remarks: tuple[str, ...] = ()
        lost = 1.0 - (ratio * null + change) / found.square
        noise_of_lost = 3.0 * math.hypot(found.square_noise, privacy) / found.square
        numbers = self._response == "number"
        if numbers and lost > MAX_CLIPPED + noise_of_lost:
            remarks = (CLIPPED.format(bound=self._squares, lost=lost),)
        evenness = (found.error**2 + 2.0 * found.error * found.error_bse) / found.square
        # of rare counts with mean m it is about 4 m, without any tail, and of gamma responses of
        # shape 2, whose log means vary by half, .43; of labels it says nothing
        usual = {"label": 0.0, "count": min(4.0 * max(found.mean, 0.0), 1.0), "positive": 0.7}
        if evenness < MIN_EVENNESS * usual.get(self._response, 1.0):
            remarks = (*remarks, HEAVY.format(bound=self._largest))
        return GoodnessOfFit(
            names=("R squared" if numbers else "deviance share", "mean absolute error"),
            params=np.array([1.0 - ratio - left, found.error]),
            bse=np.array([math.hypot(sampling, privacy) / null, found.error_bse]),
            n_records=self.request.n,
            privacy=self.request.guarantee(),
            remarks=(*self.request.remarks, *remarks),
        )


def moments(answer: Answer, weight: float) -> tuple[Array, Array, float, float]:
    """Return means and mean squares of two columns, the number of records, and a mean's noise."""
    value, scale = answer.value[1], answer.noise_scale
    n = max(float(value[4]) / weight, scale / weight, 1.0)
    squares = value[2:4] / SQUARE_WEIGHT / n + SQUARE_AT
    return np.clip(value[:2] / n, -1.0, 1.0), np.clip(squares, 0.0, 1.0), n, scale / n


def _kind_and_units(fit: Fit) -> tuple[str, tuple[float, tuple[float, float]]]:
    """Return the kind of response, and scales of errors and of the response."""
    if missing := [name for name, at in zip(fit.names, fit.params, strict=True) if np.isnan(at)]:
        raise InvalidInput(
            f"the fit has no estimate (NaN) of {missing}, so that it predicts no record. Fit more "
            "records or fewer columns, or with a larger budget."
        )
    if fit._linked:
        kind = kind_of(fit._linked)
        if kind is not None and kind.binary_response:
            return "label", (1.0, (0.5, 0.5))
        response = {"counts": "count", "positive": "positive"}.get(getattr(kind, "responses", ""))
        if response is None or not fit._fit_intercept:
            raise InvalidInput(
                "R squared and deviance shares are of responses with a residual scale, of labels, "
                "and of counts and positive responses with an intercept; this is a fit of "
                f"{fit._linked}{'' if fit._fit_intercept else ' without one'}. Compare predictions "
                "with public rows: fit.predict(rows)."
            )
        (mean,) = fit._response(np.asarray(fit.coded.params, dtype=np.float64)[:1]).tolist()
        if response == "count":
            spread = math.sqrt(mean + mean * mean)
            return response, (spread, (mean, spread))
        return response, (2.0 * mean, (mean, mean))  # errors of gamma responses have longer tails
    coding: Any = fit.coded.coding
    if coding is None:
        raise InvalidInput(
            "the units of the response are not known: fit without a public scale, or with a "
            "schema, so that they were estimated or declared."
        )
    centre, spread = coding.response_units()
    scale = fit._scale if fit._scale is not None else spread
    return "number", (float(scale), (float(centre), float(spread)))


def _same(predictor: Array) -> Array:
    """Return the predictor, which is the mean."""
    return predictor
