"""Private centres and spreads of the records of a request: planned, paid for, then applied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import detached
from dpfast.curator.scaling.columns import Columns
from dpfast.data.scaling.units import ReleasedScales, released_coding
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.fit_requests.planned_run import Analysis, Progress
from dpfast.fit_requests.request import FitRequest
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.scaling.budget import MAX_COUNT_NOISE, ScalingBudget
from dpfast.scaling.distances import ColumnScale
from dpfast.scaling.remarks import (
    OUT_OF_RANGE,
    Requirement,
    complete_remarks,
    constant_remarks,
    stopped_remark,
)
from dpfast.scaling.search import COUNTS, ScaleSearch
from dpfast.scaling.standardized import CODED_ALREADY, Standardized
from dpfast.solvers.pcn.plan import LARGEST
from dpfast.solvers.pcn.precondition import DETECTED_SDS

if TYPE_CHECKING:
    from dpfast.data.indicators import DeclaredLevels

#: Standard deviations of its noise by which a count must exceed zero for a warning.
WARNING_SDS = 4.0

#: Scale of a column that keeps its unit.
UNCHANGED = ColumnScale(0.0, 1.0, -math.inf, math.inf)

#: Columns of new rows are clipped at this many spreads from the centre, or where entries were
#: detected if that is farther.  Beyond, the fit may have missed records, and extrapolates.
CLIP_SPREADS = 5.0


class PrivateScaling(Analysis[Standardized]):
    """Planned private centres and spreads; its constructor refuses what can be refused."""

    released: Standardized | None = None

    def __init__(
        self,
        request: FitRequest,
        mu: float,
        *,
        covariates: bool = True,
        response: bool = True,
        linked: bool = False,
        labels: bool = False,
        whole: float | None = None,
        inner: bool = False,
        offset: bool = False,
        responses: str = "",
        least: float = 0.0,
        around_zero: bool = False,
        also: Requirement | None = None,
    ) -> None:
        if not inner and request.records.coding is not None:
            raise InvalidInput(CODED_ALREADY)
        self._own, self._linked, self.inner = not covariates, linked, inner
        self._response = response
        q, self._offset = request.n_covariates, offset
        self.names = request.column_names
        self._names_repeat = len(set(self.names)) < q
        if covariates and self._names_repeat:
            raise InvalidInput("names of the columns of X must differ.")
        #: Scales of columns that are indicators of declared levels: public.
        self._levels = [] if self._own else levels_of(request)
        indicators = [j for levels in self._levels for j in levels.places]
        searched = sorted(set(range(q * covariates)) - set(indicators))
        self._labels, self._also, self._least = labels, also, least
        #: What is searched, for how much: public.
        self._searched: tuple[Any, ...] = (
            [*searched, *range(q, q + offset + int(response))],
            mu * (1.0 - ROUNDING_SUM),
            q + offset if labels else None,
            (q + offset, OUT_OF_RANGE[responses][0]) if responses else None,
            indicators,
            searched if around_zero else (),
        )
        self._responses = responses
        self._attach(request)
        search, columns = self._search, self._columns
        n, count, noise = columns.n, len(search.columns), search.noise
        if count and noise > MAX_COUNT_NOISE * n:  # the locations would be noise
            needed = (mu if whole is None else whole) * noise / (MAX_COUNT_NOISE * n)
            raise InvalidBudget(
                f"n = {n} records at mu = {mu:.3g} are too few to find the scales of {count} "
                f"columns: with {COUNTS} counts for each, the noise of a count is {noise:.0f} "
                f"records. Needed is mu of at least {needed:.3g}. Declare ranges in a "
                "schema, or use fewer columns."
            )
        for queried in {columns, search._every}:
            queried.refuse(search.count_extremes(), search.distance_extremes())

    def of_records(self, request: FitRequest) -> PrivateScaling:
        """Copy the plan for other records of the same columns, public sizes and budget."""
        plan = detached(self)
        plan._attach(request)
        return plan

    def _attach(self, request: FitRequest) -> None:
        """Begin the search in the records of a request; its ledger pays."""
        self.request, self.released = request, None
        single, subsample = request.single, request.subsample
        if self._offset:
            from dpfast.data.record_weights.joined import with_offsets

            single, subsample = with_offsets(single), subsample and with_offsets(subsample)
        columns = all_columns = Columns(single, request.ledger, request.noise)
        if subsample is not None:
            columns = Columns(subsample, request.ledger, request.noise)
        asked, mu, labels, *others = self._searched
        self._columns = columns
        self._search = ScaleSearch(columns, asked, mu, labels, all_columns, *others)
        self._search.least = self._least * columns.n / request.n

    def run(self, spend: bool = True) -> Standardized:
        """Spend the budget; return the units of the columns and their coding."""
        self.released = self._standardized(self._search.run(spend))
        return self.released

    def query(self, report: Progress | None) -> Standardized:
        """Spend the budget of an estimation of units alone."""
        return self.run()

    def too_few(self) -> str:
        """Ask the counts, which come first; say so if too few records are complete to go on."""
        search, request = self._search, self.request
        search.ask_counts()
        if not search.too_few:
            return ""
        labels = self._labels and search.labels_counted
        return stopped_remark(
            request.spent_share(), self.counted(), request.n_units, self.names, labels,
            self._weighted, self._also, least=self._least,
        )  # fmt: skip

    @property
    def units(self) -> Standardized | None:
        """Units for a partial result, if all columns were measured at least once.

        They are made of released numbers, so they cost nothing.
        """
        if self.released is None and self._search.found:
            scales = [self._search.found[column] for column in self._search.columns]
            return self._standardized(scales)
        return self.released

    def _standardized(self, locations: list[ColumnScale]) -> Standardized:
        """Convert released locations to units, and code the columns by them."""
        request, q = self.request, len(self.names)
        settings: dict[str, Any] = {}
        scales = dict(zip(self._search.columns, locations, strict=True)) | self._indicator_scales()
        columns = [scales.get(j, UNCHANGED) for j in range(q)]
        offset = scales[q] if self._offset else None
        response = scales.get(q + self._offset)
        if self._linked and response is not None:  # a response with a link keeps its unit
            size = math.hypot(response.centre, response.spread)
            if response.detected and size:
                settings["size"] = size
            response = None
        if offset is not None:
            scale = offset.centre, offset.spread * offset.detected
            settings["offset"] = tuple([min(max(part, -LARGEST), LARGEST) for part in scale])
        response_column = UNCHANGED if response is None else response
        if not request.fit_intercept:
            columns = [_from_zero(column) for column in columns]
            response_column = _from_zero(response_column)
        constant = tuple([
            name
            for name, column in zip(self.names, columns, strict=True)
            if not column.detected
        ])  # fmt: skip
        self._report(constant, response_column.detected)
        pairs = [(column.centre, column.spread) for column in columns]
        centres, spreads = np.array(pairs).reshape(q, 2).T.copy()
        units = ReleasedScales(centres, spreads, (response_column.centre, response_column.spread))
        coding = released_coding(
            units,
            np.array([_clipping_range(column) for column in columns]).reshape(q, 2),
            tuple(map(str, range(q))) if self._names_repeat else self.names,
            by_name=request.new_rows.columns is not None,
            fit_intercept=request.fit_intercept,
        )
        released = Standardized(
            self.names,
            constant,
            units,
            coding,
            request.guarantee(),
            request.remarks,
            response is not None,
        )
        released._uncounted = request.few_complete
        released._tied = self._search.tied(q + self._offset) if self._response else False
        released._locations = columns[q * self._own :]
        released._settings = settings
        return released

    @property
    def share_of_ones(self) -> tuple[float, float]:
        """Share of ones among the records with a label, once asked, and its noise."""
        labelled, noise = self._search.counted
        labelled = max(labelled, 1.0)
        return self._search.ones / labelled, math.sqrt(0.5) * noise / labelled

    def _indicator_scales(self) -> dict[int, ColumnScale]:
        """Return the scales of columns of declared levels, by their released shares."""
        noise = self._search.share_noise
        shares, scales = iter(self._search.shares.tolist()), {}
        for levels in self._levels:
            ones = levels.assumed(np.array([next(shares) for _ in levels.places]), noise)
            for column, share in zip(levels.places, ones.tolist(), strict=True):
                scales[column] = ColumnScale(share, math.sqrt(share * (1.0 - share)), 0.0, 1.0)
        return scales

    def _report(self, constant: tuple[str, ...], response_detected: bool) -> None:
        """Tell the request which columns look constant, and its warnings."""
        request, weighted = self.request, self._weighted
        count, noise = self.counted()
        request.undetected = constant
        request.few_complete = count < DETECTED_SDS * noise
        request.remarks = (
            *complete_remarks(
                (count, noise), request.n_units, self.names, self._labels, weighted, self._also
            ),
            *self._outside(),
            *constant_remarks(constant, response_detected),
        )

    @property
    def _weighted(self) -> bool:
        weights = self.request.record_weights
        return weights is not None and weights.weight is not None

    def _outside(self) -> tuple[str, ...]:
        """Warn that responses are below the loss's range, by the released number of them."""
        count, noise = self._search.outside
        if not self._responses or not count > WARNING_SDS * noise:
            return ()
        share = min(count / self._columns.n, 1.0)
        return (OUT_OF_RANGE[self._responses][1].format(share),)

    def counted(self) -> tuple[float, float]:
        """Return the estimated number of complete records among all, and its noise."""
        count, noise = self._search.counted
        n, all_n = self._columns.n, self.request.n
        if n == all_n:
            return count, noise
        return count / n * all_n, math.hypot(noise, n**0.5) / n * all_n  # and of the sampling

    def in_place(self, spend: bool = True) -> None:
        """Spend the budget and rescale the request's records."""
        units = self.run(spend)
        self.request.rescale(units._units, units._coding, inner=self.inner)


def levels_of(request: FitRequest) -> list[DeclaredLevels]:
    """Return the columns of a request that are indicators of declared levels: public."""
    terms = request.terms
    if terms is None or request.within:  # differences from a person's mean are no indicators
        return []
    from dpfast.data.indicators import declared_levels

    levels, n_columns = declared_levels(terms)
    return levels if n_columns == request.n_covariates else []


def n_searched(request: FitRequest) -> int:
    """Return the number of covariates whose scale is estimated: public."""
    return request.n_covariates - sum(len(levels.places) for levels in levels_of(request))


def farthest(locations: Sequence[ColumnScale]) -> float:
    """Return the distance of the farthest detected entries in spreads, to a power of two."""
    reach = [
        max(location.high - location.centre, location.centre - location.low) / location.spread
        for location in locations
    ]
    return max(reach, default=0.0) / math.sqrt(2.0)


def _clipping_range(location: ColumnScale) -> tuple[float, float]:
    """Return the range at which a column of new rows is clipped."""
    reach = CLIP_SPREADS * location.spread
    low, high = location.centre - reach, location.centre + reach
    return min(location.low, low), max(location.high, high)


def _from_zero(location: ColumnScale) -> ColumnScale:
    """Measure a column that is not centred by its root mean square, also a constant one."""
    centre, spread, low, high, detected = location
    if not detected and centre:
        return ColumnScale(0.0, abs(centre), low, high)
    return ColumnScale(0.0, math.hypot(centre, spread) if detected else spread, low, high, detected)


def refuse_no_columns(request: FitRequest) -> None:
    """Refuse records without covariates, which have no units to estimate."""
    if request.n_covariates == 0:
        raise InvalidInput("X must have at least one column.")


def plan_scaling(
    request: FitRequest, mu: float, *, least: float | None = None, **options: Any
) -> tuple[PrivateScaling, float]:
    """Plan private units out of a mu; return their search and the mu left.

    With a ``least`` number of records, :meth:`PrivateScaling.too_few` ends calls with fewer, or
    with fewer than the search needs.
    """
    columns = n_searched(request) + int(options.get("response", True))
    budget = ScalingBudget(request.n, columns, mu)
    share = budget.share()
    if least is not None:
        options["least"] = max(least, budget.least_records())
    scaling = PrivateScaling(request, mu * math.sqrt(share), whole=mu, **options)
    return scaling, mu * math.sqrt(1.0 - share)
