"""Plans of requests that share one total: widths at a price, prices at a width, and n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dpfast.arguments import whole_number
from dpfast.data.schema import Schema
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.inference.composition import amounts
from dpfast.inference.rendering.digits import short_number
from dpfast.privacy.budget import GDP, Budget, amount
from dpfast.privacy.decimals import ratio_to_float, root_to_float
from dpfast.regression.forecast import NoForecast
from dpfast.studies.quotes import expected_widths, forecast_of, share_of
from dpfast.studies.requests import StudyRequest, read_request

#: Requests of a plan at most.
MOST = 1000

#: Where the search for mu and for n begins and gives up, and how near it comes.
MUS, SIZES, WITHIN = (1e-3, 100.0), (10.0, 1e9), 1e-3


class Planned(NamedTuple):
    """One request of a plan.

    Attributes
    ----------
    request, spend : dict, GDP or ZCDP
        As it was read, with every default, and what it costs.
    width, told : float, str
        Expected width of its interval, of several the widest, NaN where it is not known; what it
        was expected from, or what is missing.

    Privacy
    -------
    Public numbers only.
    """

    request: dict[str, Any]
    spend: Any
    width: float
    told: str


class StudyPlan(NamedTuple):
    """What requests that share a total cost and tell.

    Attributes
    ----------
    rows : tuple of Planned
        In the order of the requests.
    n : int
        Number of records, given or found.
    needed, total : GDP, ZCDP or None
        What all cost together, rounded up, and what there is.

    Privacy
    -------
    Public numbers only, those of a public table included.
    """

    rows: tuple[Planned, ...]
    n: int
    needed: Any
    total: Any

    @property
    def payable(self) -> bool:
        """Whether the total pays for all; true where there is none."""
        if self.total is None:
            return True
        spent = sum((share_of(self.total, row.spend) for row in self.rows), Fraction(0))
        return spent <= 1

    def __str__(self) -> str:
        lines = [f"{len(self.rows)} requests of {self.n:,} records need {self.needed!r} together"]
        if self.total is not None:
            lines[0] += f"; there is {self.total!r}" + " (NOT ENOUGH)" * (not self.payable)
        for row in self.rows:
            width = "unknown" if math.isnan(row.width) else short_number(row.width)
            lines.append(f"  {row.request['analysis']}: {row.spend!r}, widest interval {width}")
        return "\n".join(lines)


def plan_of(
    requests: Any,
    schema: Schema | None,
    total: Budget | None,
    n: int | None,
    like: Callable[[StudyRequest], Any],
) -> StudyPlan:
    """Plan a list of requests."""
    if isinstance(requests, str | bytes) or not isinstance(requests, Sequence):
        raise InvalidInput(f"requests must be a list of them; received {described(requests)}.")
    if not 0 < len(requests) <= MOST:
        raise InvalidInput(f"a plan is of 1 to {MOST} requests; received {len(requests)}.")
    for i, one in enumerate(requests):  # not shown: a list of cells may stand in its place
        if not isinstance(one, str | bytes | Mapping):
            raise InvalidInput(f"requests[{i}] is neither a mapping nor text of JSON.")
    read = [read_request(one, schema, total, width=True) for one in requests]
    asked = [_PlannedRequest(one, schema, like) for one in read]
    if n is None:
        for one in read:
            if one.spend is None or "width" not in one.arguments:
                raise InvalidInput(
                    "without n the number of records is found: give every request a price (share "
                    "or mu) and a width."
                )
        n = max(one.records() for one in asked)
    n = whole_number(n, "n", 1)
    rows = tuple([one.planned(n) for one in asked])
    kind = GDP if total is None else type(total)
    spent = sum((amounts(row.spend, kind)[0] for row in rows), Fraction(0))
    nearest = root_to_float if kind is GDP else ratio_to_float
    needed = amount(kind, nearest(spent.numerator, spent.denominator, up=True))
    return StudyPlan(rows, n, needed, total)


class _PlannedRequest:
    """One request, whose width is a function of its price and of n."""

    def __init__(
        self, request: StudyRequest, schema: Schema | None, like: Callable[..., Any]
    ) -> None:
        self._request, self._schema = request, schema
        self._like = like(request)
        self._wanted = request.arguments.get("width", math.nan)

    def _expected(self, spend: Budget, n: int) -> tuple[float, str]:
        """Width of the widest interval; infinite where the analysis would be refused."""
        try:
            if self._request.analysis == "fit":  # of the widest one, which scatter makes wider
                found = forecast_of(self._request, n, self._like, self._schema, privacy=spend)
                return found.width, found._forecast.source
            widths, told = expected_widths(self._request, spend, n, self._like, self._schema)
        except (InvalidBudget, NoForecast) as error:
            return math.inf, str(error)
        if widths is None:
            return math.nan, told
        return max(v for k, v in widths.items() if k != "intercept"), told

    def planned(self, n: int) -> Planned:
        """Its price, where only a width was given, and its width."""
        spend = self._request.spend
        if spend is None:
            if self._request.analysis == "fit":
                found = forecast_of(self._request, n, self._like, self._schema, width=self._wanted)
                spend = GDP(found.mu)
            else:
                spend = GDP(self._least(MUS, lambda mu: self._expected(GDP(mu), n)))
        return Planned(self._request.to_dict(), spend, *self._expected(spend, n))

    def records(self) -> int:
        """The least number of records with which its interval is as narrow as was wanted."""
        spend, request = self._request.spend, self._request
        assert spend is not None
        if request.analysis == "fit":
            mu, width = GDP.within(spend), self._wanted
            return forecast_of(request, None, self._like, self._schema, privacy=mu, width=width).n
        return math.ceil(self._least(SIZES, lambda n: self._expected(spend, math.ceil(n))))

    def _least(
        self, ends: tuple[float, float], width: Callable[[float], tuple[float, str]]
    ) -> float:
        """The least x whose width is as wanted: doubled until it is, and then by bisection."""
        low, high = ends[0], ends[0]
        while not (found := width(high))[0] <= self._wanted:
            low, high = high, 2.0 * high
            if high > ends[1] or math.isnan(found[0]):
                raise InvalidInput(
                    f"width = {self._wanted:g} of {self._request.analysis!r} is out of reach: "
                    f"{found[1]}."
                )
        while high > low * (1.0 + WITHIN):
            middle = math.sqrt(low * high)
            near = width(middle)[0] <= self._wanted
            low, high = (low, middle) if near else (middle, high)
        return high
