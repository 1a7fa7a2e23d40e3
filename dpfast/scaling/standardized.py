"""Released scales of columns, and fits that are given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpfast.data import Records, as_records
from dpfast.data.scaling.units import ReleasedScales, from_elsewhere, in_units
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.scaling.distances import ColumnScale

if TYPE_CHECKING:
    from dpfast.data.schema import Numeric
    from dpfast.inference.rows import Coded

CODED_ALREADY = (
    "these records are coded already, by the public facts of a schema or by released ones."
)


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

    def numeric(self, name: str, *, low: float | None = None, high: float | None = None) -> Numeric:
        """Return a column's released range as a declaration, for a schema.

        So tables, which clip values to declared ranges, can be made of a column whose range is not
        public.  It is the range in which entries were detected: estimates are of the values held to
        it, and an end of it is the cap to name beside a Gini coefficient or a top share.

        Parameters
        ----------
        name : str
            One of ``names``.
        low, high : float, optional
            A public end, in place of the released one, such as 0 for amounts.

        Privacy
        -------
        Made of released numbers: costs nothing.  The table composes with them (claim D5).

        Examples
        --------
        >>> pay = np.random.default_rng(0).lognormal(10.0, 1.0, 20_000)
        >>> units = dpfast.standardize(pay[:, None], 0.0 * pay, privacy=0.3, response=False)
        >>> schema = dpfast.Schema({"pay": units.numeric(units.names[0], low=0.0)})
        >>> spread = dpfast.tables.distribution({"pay": pay}, "pay", schema=schema, privacy=0.9)
        >>> spread.gini().estimate.shape, schema["pay"].low
        ((), 0.0)
        """
        from dpfast.data.schema import Numeric

        if not isinstance(name, str) or name not in self.names:
            raise InvalidInput(
                f"name must be one of {list(self.names)}; received {described(name, text=True)}."
            )
        location = self._locations[self.names.index(name)] if self._locations else None
        if location is None or name in self.unseen:
            raise InvalidInput(
                f"the range of {name!r} was not found: it looks constant at this budget. Declare "
                "its range, or use a larger budget."
            )
        low = location.low if low is None else low
        return Numeric(low, location.high if high is None else high)

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
        return in_units(records, self._units, self._coding)

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
        units, coding = self.released, self.released._coding
        if coding.origin is None:
            coding = from_elsewhere(coding, "released before")
        self._request.rescale(units._units, coding, inner=self.inner)
        self._request.remarks, self._request.few_complete = units.warnings, units._uncounted
