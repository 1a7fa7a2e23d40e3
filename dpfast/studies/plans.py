"""Plans of several requests under one total: widths at their prices, and n at their widths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpfast.arguments import whole_number
from dpfast.data.schema import Schema
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.inference.base import Planned
from dpfast.inference.composition import amounts
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.privacy.budget import GDP, Budget, amount
from dpfast.privacy.decimals import ratio_to_float, root_to_float
from dpfast.regression.forecast import NoForecast
from dpfast.studies.answers import Persons
from dpfast.studies.quotes import expected_widths, forecast_of, records_alike, share_of
from dpfast.studies.requests import StudyRequest, read_request

#: Requests of a plan at most.
MAX_REQUESTS = 1000

#: Search range of n, and the relative tolerance of the result.
N_RANGE, TOLERANCE = (10.0, 1e9), 1e-3


class PlannedRequest(NamedTuple):
    """Price and expected width of one request of a plan.

    Attributes
    ----------
    request, spend : dict, GDP or ZCDP
        The request with every default, and its cost.
    width, told : float, str
        Expected width of its widest interval, NaN where it is not known; and the basis of this
        forecast, or what is missing for one.

    Privacy
    -------
    Public numbers only.
    """

    request: dict[str, Any]
    spend: Any
    width: float
    told: str


@dataclass(frozen=True, eq=False, repr=False)
class StudyPlan(Planned):
    """Costs and expected widths of requests that share a total.

    Attributes
    ----------
    rows : tuple of PlannedRequest
        In the order of the requests.
    n : int
        Number of records, given or found.
    needed, total : GDP, ZCDP or None
        Joint cost of the requests, rounded up, and the total of the study.

    Privacy
    -------
    Public numbers only, those of a public table included.
    """

    _headed = ("Records", "Needed")

    rows: tuple[PlannedRequest, ...]
    n: int
    needed: Any
    total: Any

    @property
    def payable(self) -> bool:
        """True if the total pays for all requests, or if there is no total."""
        if self.total is None:
            return True
        spent = sum((share_of(self.total, row.spend) for row in self.rows), Fraction(0))
        return spent <= 1

    def summary(self) -> Summary:  # type: ignore[override]
        """Return prices and expected widths, as text with other forms."""
        there = "" if self.total is None else f"; there is {self.total!r}"
        facts = (
            ("Records", f"{self.n:,}"),
            ("Needed", f"{self.needed!r}{there}" + " (NOT ENOUGH)" * (not self.payable)),
        )
        rows = [
            (
                row.request["analysis"],
                (repr(row.spend), "unknown" if math.isnan(row.width) else short_number(row.width)),
            )
            for row in self.rows
        ]
        columns = ("price", "widest interval")
        return render_table("dpfast: plan of a study", facts, columns, rows, None)

    def _columns(self, level: float) -> dict[str, Any]:
        return {
            "term": [row.request["analysis"] for row in self.rows],
            "price": [repr(row.spend) for row in self.rows],
            "width": [row.width for row in self.rows],
            "basis": [row.told for row in self.rows],
        }


def plan_of(
    requests: Any,
    schema: Schema | None,
    total: Budget | None,
    n: int | None,
    like: Callable[[StudyRequest], Any],
    persons: Persons | None = None,
) -> StudyPlan:
    """Plan a list of requests; find n if it is None."""
    if isinstance(requests, str | bytes) or not isinstance(requests, Sequence):
        raise InvalidInput(f"requests must be a list of them; received {described(requests)}.")
    if not 0 < len(requests) <= MAX_REQUESTS:
        raise InvalidInput(f"a plan is of 1 to {MAX_REQUESTS} requests; received {len(requests)}.")
    for i, document in enumerate(requests):  # not shown: it may be a list of cells
        if not isinstance(document, str | bytes | Mapping):
            raise InvalidInput(f"requests[{i}] is neither a mapping nor text of JSON.")
    checked = [read_request(document, schema, total, width=True) for document in requests]
    planners = [_Planner(request, schema, like, persons) for request in checked]
    for request in checked:
        if request.spend is None:
            raise InvalidInput(
                'a share is of the total, and this study has none: give "mu", or pass privacy= to '
                "the study."
            )
        if n is None and "width" not in request.arguments:
            raise InvalidInput(
                "to find the number of records, give every request a width; or pass n."
            )
    if n is None:
        n = max(planner.records() for planner in planners)
    n = whole_number(n, "n", 1)
    rows = tuple([planner.planned(n) for planner in planners])
    kind = GDP if total is None else type(total)
    spent = sum((amounts(row.spend, kind)[0] for row in rows), Fraction(0))
    nearest = root_to_float if kind is GDP else ratio_to_float
    needed = amount(kind, nearest(spent.numerator, spent.denominator, up=True))
    return StudyPlan(rows, n, needed, total)


class _Planner:
    """A request whose width is a function of its price and of n."""

    def __init__(
        self,
        request: StudyRequest,
        schema: Schema | None,
        like: Callable[..., Any],
        persons: Persons | None,
    ) -> None:
        self._request, self._schema, self._persons = request, schema, persons
        #: Whether ``dpfast.plan`` forecasts it, which allows for the scatter of widths.
        self._has_own = request.analysis == "fit" and records_alike(request, persons)
        self._like = like(request)
        self._wanted = request.arguments.get("width", math.nan)

    def _expected(self, spend: Budget, n: int) -> tuple[float, str]:
        """Forecast the width of the widest interval; infinite if the analysis would be refused."""
        try:
            if self._has_own:
                forecast = forecast_of(self._request, n, self._like, self._schema, privacy=spend)
                return forecast.width, forecast._forecast.source
            widths, basis = expected_widths(
                self._request, spend, n, self._like, self._schema, self._persons
            )
        except (InvalidBudget, NoForecast) as error:
            return math.inf, str(error)
        if widths is None:
            return math.nan, basis
        return max(v for k, v in widths.items() if k != "intercept"), basis

    def planned(self, n: int) -> PlannedRequest:
        """Return its price and its width."""
        spend: Any = self._request.spend
        return PlannedRequest(self._request.to_dict(), spend, *self._expected(spend, n))

    def records(self) -> int:
        """Find the least number of records with which its interval is as narrow as ``width``."""
        spend: Any = self._request.spend
        request = self._request
        if self._has_own:
            mu, width = GDP.within(spend), self._wanted
            return forecast_of(request, None, self._like, self._schema, privacy=mu, width=width).n
        # by doubling and then bisection on a log scale
        low = high = N_RANGE[0]
        while not (forecast := self._expected(spend, math.ceil(high)))[0] <= self._wanted:
            low, high = high, 2.0 * high
            if high > N_RANGE[1] or math.isnan(forecast[0]):
                raise InvalidInput(
                    f"width = {self._wanted:g} of {self._request.analysis!r} is out of reach: "
                    f"{forecast[1]}."
                )
        while high > low * (1.0 + TOLERANCE):
            middle = math.sqrt(low * high)
            narrow_enough = self._expected(spend, math.ceil(middle))[0] <= self._wanted
            low, high = (low, middle) if narrow_enough else (middle, high)
        return math.ceil(high)
