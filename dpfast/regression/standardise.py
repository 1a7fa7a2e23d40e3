"""``standardize``: columns on a common scale, with centres and spreads that are paid for."""

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
from dpfast.optimize.road.run import DETECTED_SDS
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.locations import COUNTS, ColumnScale, ScaleSearch
from dpfast.regression.scaling_budget import MAX_COUNT_NOISE

if TYPE_CHECKING:
    from dpfast.inference.rows import Coded

CODED = (
    "these records are coded by a schema, which declares the units of their columns: "
    "there is nothing to standardise. Leave standardize out."
)

#: Part of the records below which the number of those that count is said.
MAX_MISSING = 0.9

#: Standard deviations of its noise by which a number is clear of zero.
CLEAR = 4.0

#: Of responses that a loss is not of: the key below which they are, and what is said of them.
BELOW = {
    "counts": (
        0,
        "about {:.1%} of the records have a response below 0, which counts as 0: this is a model "
        "of counts. See what such values stand for (a code for missing?), or use another loss.",
    ),
    "positive": (
        1 << 16,
        "about {:.1%} of the records have a response of 0 or below, which counts as 0: this is a "
        "model of positive responses. For a mean with zeros use loss='poisson', or fit two parts: "
        "whether it is positive, and how large where it is.",
    ),
}

#: Of a column whose unit is right.
AS_IT_IS = ColumnScale(0.0, 1.0, -math.inf, math.inf)

#: Range to which columns of new rows are held, in spreads on either side of the centre, and at
#: least where entries were seen: a mass of entries farther away may be one that nobody saw.
REACH = 5.0


class Standardized:
    """Released centres and spreads of the columns of a table; holds no records.

    Attributes
    ----------
    names : tuple of str
        Of the covariates.
    centres, spreads : ndarray of shape (q,)
        About the mean and the standard deviation of each; of a heavy-tailed column, those of what
        is not beyond the farthest entries that the budget could see.  However a column is coded,
        they are those of this coding.
    unseen : tuple of str
        Names of the covariates of which no spread was seen: nearly all records have the same
        value there, as far as the budget can see.  Their spread is given as 1, a unit to which
        nothing should be scaled.
    response : tuple of two floats
        Centre and spread of the response; (0, 1) if they were not bought.
    privacy : Guarantee

    Privacy
    -------
    Everything in it was released; whatever is done with it is free.

    Examples
    --------
    >>> X, y = np.linspace(1e6, 2e6, 4000)[:, None], np.linspace(-1.0, 1.0, 4000)
    >>> bought = dpfast.standardize(X, y, privacy=2.0)
    >>> bought.unseen, bool(1.4e6 < bought.centres[0] < 1.6e6)
    ((), True)
    """

    #: Whether no more records count than noise explains; whether many have the same response.
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
        #: Root mean square of a response that stays as it is; mean and deviation of offsets.
        self._told: dict[str, Any] = {}
        self._found: Sequence[ColumnScale] = ()
        #: Whether the response is in units, whatever these came out as.
        self._of_response = of_response
        self._remarks = remarks

    @property
    def coding(self) -> Coded:
        """How a table or array of these columns becomes a design."""
        coding: Coded = self._coding
        return coding

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not to be relied on, from released numbers only."""
        return self._remarks

    def encode(self, X: Any, y: Any, *, names: Sequence[str] | None = None) -> Records:
        """The records in these units, for ``dpfast.fit(encoded, None, ...)``.

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
        Nothing is clipped.  Arrays in memory are copied; what is kept elsewhere stays there and is
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
        found = records.names or self.names
        same = records.n_covariates == len(self.names)
        if not same or (records.names and found != self.names):
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


def _remarks(unseen: Sequence[str], response_seen: bool) -> tuple[str, ...]:
    """What is not to be relied on."""
    remarks = []
    if unseen:
        remarks.append(
            f"no spread was seen in {list(unseen)}: nearly all records have the same value there, "
            "as far as this budget can see. A fit that is told neither weights nor a method leaves "
            "these columns out: their coefficients are not estimable, and the others are those of "
            "a model without them. Use a larger budget."
        )
    if not response_seen:
        remarks.append(
            "no spread was seen in the response: nearly all records have the same one, as far as "
            "this budget can see, and nothing tells its unit. Use a larger budget, or declare its "
            "range in a schema."
        )
    return tuple(remarks)


def complete_remarks(counted: tuple[float, float], n: int, *about: Any) -> tuple[str, ...]:
    """That few records count, if the released number of them says so."""
    if not many_missing(counted, n):
        return ()
    from dpfast.regression.incomplete import incomplete

    return (incomplete(counted, n, *about),)


def cell_remarks(counts: Any, noise: float, n: int, names: Sequence[str]) -> tuple[str, ...]:
    """That few records are in any declared cell, if the released counts of all cells say so."""
    counted = float(np.sum(counts)), noise * math.sqrt(np.size(counts))
    if not many_missing(counted, n):
        return ()
    from dpfast.regression.incomplete import unmatched

    return (unmatched(counted, n, names),)


def many_missing(counted: tuple[float, float], n: int) -> bool:
    """Whether the released number of records that count, with its noise, tells that many do not."""
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
    """Buy centres and spreads of columns whose units nobody declared.

    Noisy bisection over floating-point numbers finds a quantile near the median of each column,
    whatever its magnitude, and one histogram in octaves how far the entries of all columns are
    from there: that tells their mean and standard deviation.  A quarter of the budget is for
    looking once more at columns in which no spread was seen.  A private fit needs columns of about
    unit size: this is for tables whose ranges are not public.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Records or Source
        As for :func:`dpfast.fit`; text has to be declared in a schema.  A record with a non-finite
        entry, in whichever column, counts in nothing.
    y : array-like of shape (n,), optional
        Response; None with records that hold theirs.
    privacy : GDP, ZCDP, ApproxDP or float
        The **total** to spend; a float is mu of Gaussian DP.  A tenth to a quarter of mu of an
        analysis is enough where n mu is in the thousands.
    response : bool
        Buy the centre and spread of the response, too; not for one of 0 and 1.
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
    """The option of what buys units: whether to, or units that were bought."""
    if value is None or isinstance(value, Standardized):
        return value
    try:
        return flag(value, "standardize")
    except InvalidInput:
        pass
    raise InvalidInput(
        "standardize must be True or False, or units that were bought (dpfast.standardize(...), "
        f"fit.units); received {described(value)}."
    )


CODED_ALREADY = (
    "these records are coded already, by the public facts of a schema or by released ones."
)


class GivenScaling:
    """Units that were released before, in place of a purchase: free (claim D5)."""

    def __init__(self, request: FitRequest, units: Standardized, *, response: bool = True) -> None:
        units._check_columns(request.records)
        if response != units._of_response:
            raise InvalidInput(
                "a response of 0 and 1 or of counts is not in units, and any other is. Buy these "
                f"with dpfast.standardize(..., response={response})."
            )
        if not request.fit_intercept and (units.centres.any() or units.response[0] != 0.0):
            raise InvalidInput(
                "these units centre the columns, and a fit without an intercept cannot. Buy them "
                "with dpfast.standardize(..., fit_intercept=False)."
            )
        self.released, self.inner = units, False
        self._request = request

    def in_place(self, spend: bool = True) -> None:
        """As of a :class:`PrivateScaling`, and nothing is paid."""
        units = self.released
        self._request.rescale(units._units, units._coding)
        self._request.remarks, self._request.few_complete = units.warnings, units._uncounted


class PrivateScaling:
    """Centres and spreads to be bought; what can be refused is refused when it is made."""

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
        single, few = request.single, request.subsample
        if offset:
            from dpfast.data.record_weights.columns import OffsetRecords

            single, few = OffsetRecords(single), few and OffsetRecords(few)
        columns = every = Columns(single, request.ledger, request.noise)
        if few is not None:
            columns = Columns(few, request.ledger, request.noise)
        self._labels, self._columns = labels, columns
        self._search = search = ScaleSearch(
            columns,
            range(q * self._own, q + offset + int(response)),
            mu * (1.0 - ROUNDING_SUM),
            q + offset if labels else None,
            every,
            (q + offset, BELOW[responses][0]) if responses else None,
        )
        self._responses = responses
        n, count, noise = columns.n, len(search.columns), search.noise
        if noise > MAX_COUNT_NOISE * n:  # it would hide where the columns lie
            needed = (mu if whole is None else whole) * noise / (MAX_COUNT_NOISE * n)
            raise InvalidBudget(
                f"n = {n} records at mu = {mu:.3g} are too few to find where {count} columns lie: "
                f"with {COUNTS} counts for each, every count has noise of {noise:.0f} records. "
                f"Needed is mu of at least {needed:.3g}. Declare ranges in a schema, or use fewer "
                "columns."
            )
        for asked in {columns, every}:
            asked.refuse(search.count_extremes(), search.distance_extremes())

    def run(self, spend: bool = True) -> Standardized:
        """Pay, and say in which units the columns are, and how they are coded."""
        self.released = self._told(self._search.run(spend))
        return self.released

    def so_far(self) -> Standardized | None:
        """For an exception: the units, if all columns were measured, though not for the last time.

        What they are told by was released, so that they cost nothing.
        """
        if self.released is None and self._search.found:
            return self._told([self._search.found[column] for column in self._search.columns])
        return self.released

    def _told(self, found: list[ColumnScale]) -> Standardized:
        """Released locations as units, and how columns are coded in them."""
        request, q, size = self._request, len(self.names), None
        found = [AS_IT_IS] * q * self._own + found
        offset = found.pop(q) if self._offset else AS_IT_IS
        if self._linked and len(found) > q:  # a response with a link stays as it is
            size = math.hypot(found[q].centre, found[q].spread) if found[q].detected else None
            found = found[:q]
        of_response = len(found) > q
        if not of_response:
            found.append(AS_IT_IS)
        if not request.fit_intercept:
            found = [_from_zero(location) for location in found]
        *seen, response_seen = [location.detected for location in found]
        unseen = tuple(
            [name for name, was_seen in zip(self.names, seen, strict=True) if not was_seen]
        )
        weighted = request.record_weights is not None and request.record_weights.weight is not None
        told = self._counted(), request.n_units, self.names, self._labels, weighted
        request.undetected, request.few_complete = unseen, told[0][0] < DETECTED_SDS * told[0][1]
        request.remarks = (
            *complete_remarks(*told),
            *self._outside(),
            *_remarks(unseen, response_seen),
        )
        pairs = [(location.centre, location.spread) for location in found]
        centres, spreads = np.array(pairs[:q]).reshape(q, 2).T.copy()
        units = ReleasedScales(centres, spreads, pairs[q])
        coding = released_coding(
            units,
            np.array([_held(location) for location in found[:q]]).reshape(q, 2),
            tuple(map(str, range(q))) if self._alike else self.names,
            by_name=request.new_rows.columns is not None,
            fit_intercept=request.fit_intercept,
        )
        released = Standardized(
            self.names, unseen, units, coding, request.guarantee(), request.remarks, of_response
        )
        released._uncounted = request.few_complete
        released._tied = self._search.tied(q + self._offset) if self._response else False
        released._found = found[q * self._own : q]
        released._told = {"size": size} if size else {}
        if self._offset:
            released._told["offset"] = offset.centre, offset.spread * offset.detected
        return released

    def _outside(self) -> tuple[str, ...]:
        """That responses are below what the loss is of, by the released number of them."""
        found, noise = self._search.outside
        if not self._responses or not found > CLEAR * noise:
            return ()
        share = min(found / self._columns.n, 1.0)
        return (BELOW[self._responses][1].format(share),)

    def _counted(self) -> tuple[float, float]:
        """About how many of all records are complete, and the noise of that."""
        found, noise = self._search.counted
        n, all_n = self._columns.n, self._request.n
        if n == all_n:
            return found, noise
        return found / n * all_n, math.hypot(noise, n**0.5) / n * all_n  # and of the sampling

    def in_place(self, spend: bool = True) -> None:
        """Pay, and put the request's records into these units."""
        found = self.run(spend)
        self._request.rescale(found._units, found._coding, inner=self.inner)


def farthest(found: Sequence[ColumnScale]) -> float:
    """How many spreads off the farthest entries are that were seen, about: ends are powers of 2."""
    reach = [max(one.high - one.centre, one.centre - one.low) / one.spread for one in found]
    return max(reach, default=0.0) / math.sqrt(2.0)


def _held(location: ColumnScale) -> tuple[float, float]:
    """The range to which a column of new rows is held."""
    reach = REACH * location.spread
    low, high = location.centre - reach, location.centre + reach
    return min(location.low, low), max(location.high, high)


def _from_zero(location: ColumnScale) -> ColumnScale:
    """Of a column that is not centred: a root mean square, which a constant has as well."""
    centre, spread, low, high, seen = location
    if not seen and centre:
        return ColumnScale(0.0, abs(centre), low, high)
    return ColumnScale(0.0, math.hypot(centre, spread) if seen else spread, low, high, seen)


def refuse_no_columns(request: FitRequest) -> None:
    """Where units are all that is asked for."""
    if request.n_covariates == 0:
        raise InvalidInput("X must have at least one column.")
