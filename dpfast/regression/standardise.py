"""``standardize``: columns on a common scale, by private centres and spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import flag
from dpfast.curator.scaling.columns import Columns
from dpfast.data.records import Records, as_records
from dpfast.data.scaling.units import ReleasedScales, released_coding
from dpfast.errors import InvalidBudget, InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.locations import COUNTS, ColumnScale, ScaleSearch
from dpfast.regression.scaling_budget import MAX_COUNT_NOISE
from dpfast.solvers.pcn.precondition import DETECTED_SDS

if TYPE_CHECKING:
    from dpfast.inference.rows import Coded

CODED = (
    "these records are coded by a schema, which declares the units of their columns: "
    "there is nothing to standardise. Leave standardize out."
)

#: Part of complete records below which a fit warns; with more, few are lost.
MAX_MISSING = 0.9

#: Standard deviations of its noise by which a count must exceed zero for a warning.
WARNING_SDS = 4.0

#: For losses of counts and of positive responses: the key below which a response is outside their
#: range, and the warning about such responses.
OUT_OF_RANGE = {
    "counts": (
        0,
        "about {:.1%} of the records have a response below 0, which is treated as 0: this is a "
        "model of counts. Check what such values stand for (a code for missing?), or use another "
        "loss.",
    ),
    "positive": (
        1 << 16,
        "about {:.1%} of the records have a response of 0 or below, treated as 0: this is a "
        "model of positive responses. For a mean with zeros use loss='poisson', or fit two parts: "
        "whether it is positive, and how large where it is.",
    ),
}

#: Scale of a column that keeps its unit.
UNCHANGED = ColumnScale(0.0, 1.0, -math.inf, math.inf)

#: Columns of new rows are clipped at this many spreads from the centre, or where entries were
#: detected if that is farther.  Beyond, the fit may have missed records, and extrapolates.
CLIP_SPREADS = 5.0


class Standardized:
    """Released centres and spreads of the columns of a table; holds no records.

    Attributes
    ----------
    names : tuple of str
        Names of the covariates.
    centres, spreads : ndarray of shape (q,)
        About the mean and the standard deviation of each.  For a heavy-tailed column they ignore
        entries too rare to be detected at this budget.  They are in the units of the coding.
    unseen : tuple of str
        Names of the covariates that look constant at this budget: nearly all records seem to have
        the same value there.  Their spread is given as 1, and should not be used as a unit.
    response : tuple of two floats
        Centre and spread of the response; (0, 1) if they were not estimated.
    privacy : Guarantee

    Privacy
    -------
    Everything in it was released, so all further use is free.

    Examples
    --------
    >>> X, y = np.linspace(1e6, 2e6, 4000)[:, None], np.linspace(-1.0, 1.0, 4000)
    >>> units = dpfast.standardize(X, y, privacy=2.0)
    >>> units.unseen, bool(1.4e6 < units.centres[0] < 1.6e6)
    ((), True)
    """

    #: Whether complete records are as few as noise explains; whether many responses are equal.
    _uncounted = False
    _tied = False

    def __init__(
        self,
        names: tuple[str, ...],
        unseen: tuple[str, ...],
        units: ReleasedScales,
        coding: Any,
        privacy: Guarantee,
        remarks: tuple[str, ...],
        of_response: bool,
    ) -> None:
        self.names = names
        self.unseen = unseen
        self.centres, self.spreads, self.response = units
        self.privacy = privacy
        self._coding = coding
        #: Settings of a fit: root mean square of a response with a link; mean and deviation of
        #: offsets.
        self._settings: dict[str, Any] = {}
        self._locations: Sequence[ColumnScale] = ()
        #: Whether the response is scaled, also if its unit is 1.
        self._of_response = of_response
        self._remarks = remarks

    @property
    def coding(self) -> Coded:
        """Coding that turns a table or array of these columns into a design."""
        coding: Coded = self._coding
        return coding

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about these units, from released numbers only."""
        return self._remarks

    def encode(self, X: Any, y: Any, *, names: Sequence[str] | None = None) -> Records:
        """Return the records in these units, for ``dpfast.fit(encoded, None, ...)``.

        Parameters
        ----------
        X : array-like of shape (n, q), data frame or Records
            The covariates that were standardised, or others with the same columns in this order.
        y : array-like of shape (n,)
            None with records that hold their response.
        names : sequence of str, optional
            Names of the columns of an array.

        Privacy
        -------
        None is spent; the records are as private as before (claim D5).

        Examples
        --------
        >>> X, y = np.linspace(1e6, 2e6, 4000)[:, None], np.linspace(-1.0, 1.0, 4000)
        >>> dpfast.standardize(X, y, privacy=2.0).encode(X, y)
        CodedRecords(n=4000, n_covariates=1)

        Notes
        -----
        Nothing is clipped.  Arrays in memory are copied; other records stay where they are and are
        coded block by block.
        """
        records = as_records(X, y, names)
        self._check_columns(records)
        return records._in_units(self._units, self._coding)

    @property
    def _units(self) -> ReleasedScales:
        return ReleasedScales(self.centres, self.spreads, self.response)

    def _check_columns(self, records: Records) -> None:
        if records.coding is not None:
            raise InvalidInput(CODED_ALREADY)
        same_number = records.n_covariates == len(self.names)
        if not same_number or (records.names and records.names != self.names):
            raise InvalidInput(
                f"the columns must be those that were standardised, {list(self.names)}, in this "
                "order."
            )

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{name}: {centre:.4g} +- " + ("unseen" if name in self.unseen else f"{spread:.4g}")
            for name, centre, spread in zip(self.names, self.centres, self.spreads, strict=True)
        )
        return f"<Standardized {columns}; {self.privacy.headline}>"


def _remarks(constant: Sequence[str], response_detected: bool) -> tuple[str, ...]:
    """Return warnings about columns that look constant."""
    remarks = []
    if constant:
        remarks.append(
            f"{', '.join(constant)} {'look' if len(constant) > 1 else 'looks'} constant at this "
            "budget; dropped from fits without weights or a method. Nearly all records seem to "
            "have one value there. Dropped coefficients are not estimable, and the others are "
            "those of a model without them. Use a larger budget."
        )
    if not response_detected:
        remarks.append(
            "the response looks constant at this budget: nearly all records seem to have one "
            "value, so its scale is unknown. Use a larger budget, or declare its range in a schema."
        )
    return tuple(remarks)


def complete_remarks(counted: tuple[float, float], n: int, *about: Any) -> tuple[str, ...]:
    """Warn that few records are complete, if the released number of them says so."""
    if not many_missing(counted, n):
        return ()
    from dpfast.regression.incomplete import incomplete

    return (incomplete(counted, n, *about),)


def cell_remarks(counts: Any, noise: float, n: int, names: Sequence[str]) -> tuple[str, ...]:
    """Warn that few records are in declared cells, if their released counts say so."""
    counted = float(np.sum(counts)), noise * math.sqrt(np.size(counts))
    if not many_missing(counted, n):
        return ()
    from dpfast.regression.incomplete import unmatched

    return (unmatched(counted, n, names),)


def many_missing(counted: tuple[float, float], n: int) -> bool:
    """Say whether many records are incomplete, by a released number and its noise."""
    return counted[0] + 3.0 * counted[1] < MAX_MISSING * n


@understood
def standardize(
    X: Any,
    y: Any = None,
    *,
    privacy: Budget | float | tuple[float, float],
    response: bool = True,
    fit_intercept: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Standardized:
    """Estimate private centres and spreads of columns whose ranges are not public.

    Noisy bisection over floating-point numbers finds a quantile near the median of each column, of
    any magnitude.  One histogram in octaves of the distances from there then gives mean and
    standard deviation.  A quarter of the budget is for a second look at columns that seem
    constant.  A private fit needs columns of about unit size, which these provide.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Records or Source
        As for :func:`dpfast.fit`; text has to be declared in a schema.  Records with a non-finite
        entry in any column are ignored.
    y : array-like of shape (n,), optional
        Response; None with records that hold theirs.
    privacy : GDP, ZCDP, ApproxDP or float
        The **total** to spend; a float is mu of Gaussian DP.  A tenth to a quarter of mu of an
        analysis is enough where n mu is in the thousands.
    response : bool
        Estimate the centre and spread of the response, too; not for one of 0 and 1.
    fit_intercept : bool
        Without an intercept columns are scaled by their root mean squares and not centred.
    ledger, noise
        As of :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims D1, D2, D4 and D6 of
    ``dpfast/privacy/scaling/PROOFS-scaling.md``); a fit of the standardised columns composes with
    it as any two analyses do (claim D5).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(18, 90, 20_000), 2000 + rng.integers(0, 9, 20_000)])
    >>> y = 1e4 + 300.0 * X[:, 0] + 2e3 * rng.normal(size=20_000)
    >>> ledger = dpfast.Ledger(1.0)
    >>> units = dpfast.standardize(X, y, privacy=0.3, ledger=ledger)
    >>> known = dpfast.Objective("log-cosh", scale=2e3)
    >>> fit = dpfast.fit(units.encode(X, y), None, known, privacy=0.9, ledger=ledger)
    >>> bool(abs(fit.natural.params[1] - 300.0) < 30.0)
    True
    """
    account, response = Account(privacy, ledger), flag(response, "response")
    request = FitRequest(X, y, account, fit_intercept=fit_intercept, noise=noise, takes=("group",))
    refuse_no_columns(request)
    purchase = PrivateScaling(request, request.mu, response=response)
    with KeepReleased(privacy=request.guarantee, scales=purchase.so_far):
        account.charge(request.label("standardize"), request.memory_bytes())
        return purchase.run()


def checked_standardize(value: Any) -> bool | Standardized | None:
    """Check the option ``standardize``: a flag, given units, or None."""
    if value is None or isinstance(value, Standardized):
        return value
    try:
        return flag(value, "standardize")
    except InvalidInput:
        pass
    raise InvalidInput(
        "standardize must be True or False, or private scales (dpfast.standardize(...), "
        f"fit.units); received {described(value)}."
    )


CODED_ALREADY = (
    "these records are coded already, by the public facts of a schema or by released ones."
)


class GivenScaling:
    """Units that were released before, in place of a search: free (claim D5)."""

    def __init__(self, request: FitRequest, units: Standardized, *, response: bool = True) -> None:
        units._check_columns(request.records)
        if response != units._of_response:
            raise InvalidInput(
                "a response of 0 and 1 or of counts is not scaled, and any other is. Estimate "
                f"scales with dpfast.standardize(..., response={response})."
            )
        if not request.fit_intercept and (units.centres.any() or units.response[0] != 0.0):
            raise InvalidInput(
                "these scales centre the columns, and a fit without an intercept cannot. Estimate "
                "them with dpfast.standardize(..., fit_intercept=False)."
            )
        self.released, self.inner = units, False
        self._request = request

    def in_place(self, spend: bool = True) -> None:
        """Rescale the request's records, without a charge."""
        units = self.released
        self._request.rescale(units._units, units._coding)
        self._request.remarks, self._request.few_complete = units.warnings, units._uncounted


class PrivateScaling:
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
    ) -> None:
        if not inner and request.records.coding is not None:
            raise InvalidInput(CODED_ALREADY)
        self._own, self._linked, self.inner = not covariates, linked, inner
        self._response = response
        q, self._offset = request.n_covariates, offset
        self.names = request.column_names
        self._alike = len(set(self.names)) < q
        if covariates and self._alike:
            raise InvalidInput("names of the columns of X must differ.")
        self._request = request
        single, subsample = request.single, request.subsample
        if offset:
            from dpfast.data.record_weights.columns import OffsetRecords

            single, subsample = OffsetRecords(single), subsample and OffsetRecords(subsample)
        columns = all_columns = Columns(single, request.ledger, request.noise)
        if subsample is not None:
            columns = Columns(subsample, request.ledger, request.noise)
        self._labels, self._columns = labels, columns
        self._search = search = ScaleSearch(
            columns,
            range(q * self._own, q + offset + int(response)),
            mu * (1.0 - ROUNDING_SUM),
            q + offset if labels else None,
            all_columns,
            (q + offset, OUT_OF_RANGE[responses][0]) if responses else None,
        )
        self._responses = responses
        n, count, noise = columns.n, len(search.columns), search.noise
        if noise > MAX_COUNT_NOISE * n:  # the locations would be noise
            needed = (mu if whole is None else whole) * noise / (MAX_COUNT_NOISE * n)
            raise InvalidBudget(
                f"n = {n} records at mu = {mu:.3g} are too few to find the scales of {count} "
                f"columns: with {COUNTS} counts for each, the noise of a count is {noise:.0f} "
                f"records. Needed is mu of at least {needed:.3g}. Declare ranges in a "
                "schema, or use fewer columns."
            )
        for queried in {columns, all_columns}:
            queried.refuse(search.count_extremes(), search.distance_extremes())

    def run(self, spend: bool = True) -> Standardized:
        """Spend the budget; return the units of the columns and their coding."""
        self.released = self._standardized(self._search.run(spend))
        return self.released

    def so_far(self) -> Standardized | None:
        """Return the units for a partial result, if all columns were measured at least once.

        They are made of released numbers, so they cost nothing.
        """
        if self.released is None and self._search.found:
            scales = [self._search.found[column] for column in self._search.columns]
            return self._standardized(scales)
        return self.released

    def _standardized(self, locations: list[ColumnScale]) -> Standardized:
        """Convert released locations to units, and code the columns by them."""
        request, q = self._request, len(self.names)
        settings: dict[str, Any] = {}
        columns = [UNCHANGED] * q * self._own + locations
        offset = columns.pop(q) if self._offset else None
        response = columns[q] if len(columns) > q else None
        columns = columns[:q]
        if self._linked and response is not None:  # a response with a link keeps its unit
            size = math.hypot(response.centre, response.spread)
            if response.detected and size:
                settings["size"] = size
            response = None
        if offset is not None:
            settings["offset"] = offset.centre, offset.spread * offset.detected
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
            tuple(map(str, range(q))) if self._alike else self.names,
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

    def _report(self, constant: tuple[str, ...], response_detected: bool) -> None:
        """Tell the request which columns look constant, and its warnings."""
        request = self._request
        weighted = request.record_weights is not None and request.record_weights.weight is not None
        count, noise = self._counted()
        request.undetected = constant
        request.few_complete = count < DETECTED_SDS * noise
        request.remarks = (
            *complete_remarks((count, noise), request.n_units, self.names, self._labels, weighted),
            *self._outside(),
            *_remarks(constant, response_detected),
        )

    def _outside(self) -> tuple[str, ...]:
        """Warn that responses are below the loss's range, by the released number of them."""
        count, noise = self._search.outside
        if not self._responses or not count > WARNING_SDS * noise:
            return ()
        share = min(count / self._columns.n, 1.0)
        return (OUT_OF_RANGE[self._responses][1].format(share),)

    def _counted(self) -> tuple[float, float]:
        """Return the estimated number of complete records among all, and its noise."""
        count, noise = self._search.counted
        n, all_n = self._columns.n, self._request.n
        if n == all_n:
            return count, noise
        return count / n * all_n, math.hypot(noise, n**0.5) / n * all_n  # and of the sampling

    def in_place(self, spend: bool = True) -> None:
        """Spend the budget and rescale the request's records."""
        units = self.run(spend)
        self._request.rescale(units._units, units._coding, inner=self.inner)


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
