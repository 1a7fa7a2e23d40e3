"""``standardize``: columns on a common scale, with centres and spreads that are paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpfast.arguments import flag
from dpfast.curator.bought.columns import Columns
from dpfast.data.bought.units import Units, in_units, released_coding
from dpfast.data.coding import Coding
from dpfast.data.records import Records, as_records
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.front.request import Request, charge_shared
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rows import Coded
from dpfast.privacy.bought.sensitivity import query_mu
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.locations import COUNT_SHARE, COUNTS, NUMBER, SPIKE, Location, Search

__all__ = ["Purchase", "Standardized", "spike_remarks", "standardize", "units_are_hidden"]

#: Largest noise of a count, as a part of n, at which quantiles still mean something.
MOST_NOISE = 0.12

#: Range to which columns of new rows are held, in spreads on either side of the centre, and at
#: least that of the moments: a mass of entries farther away may be one that nobody saw.
REACH = 5.0


class Standardized:
    """Released centres and spreads of the columns of a table; holds no records.

    Attributes
    ----------
    names : tuple of str
        Of the covariates.
    centres, spreads : ndarray of shape (q,)
        About the mean and the standard deviation of each; of a heavy-tailed column, those of its
        bulk.
    kinds : tuple of str
        "binary" (hardly anything but 0 and 1), "number" or "spike" (nearly all the same), as far
        as the budget could see.
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
    >>> bought.kinds, bool(1.4e6 < bought.centres[0] < 1.6e6)
    (('number',), True)
    """

    def __init__(
        self,
        names: tuple[str, ...],
        kinds: tuple[str, ...],
        units: Units,
        coding: Any,
        privacy: Guarantee,
    ) -> None:
        self.names = names
        self.kinds = kinds
        self.centres, self.spreads, self.response = units
        self.privacy = privacy
        self._coding = coding

    @property
    def coding(self) -> Coded:
        """How a table or array of these columns becomes a design.

        Examples
        --------
        >>> X, y = np.linspace(1e6, 2e6, 4000)[:, None], np.linspace(-1.0, 1.0, 4000)
        >>> dpfast.standardize(X, y, privacy=2.0).coding.covariate_columns
        ['x1']
        """
        coding: Coded = self._coding
        return coding

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not to be relied on, from released numbers only.

        Examples
        --------
        >>> X, y = np.full((4000, 1), 3.5), np.linspace(-1.0, 1.0, 4000)
        >>> len(dpfast.standardize(X, y, privacy=2.0).warnings)
        1
        """
        return spike_remarks(self.names, self.kinds)

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

        Returns
        -------
        Records

        Raises
        ------
        InvalidInput
            On a wrong shape or dtype, and for columns of other names.  Never because of a value.

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
        _refuse_coded(records)
        found = records.names or self.names
        if len(found) != len(self.names) or (records.names and found != self.names):
            raise InvalidInput(
                f"the columns must be those that were standardised, {list(self.names)}, in this "
                "order."
            )
        units = Units(self.centres, self.spreads, self.response)
        return in_units(records, units, self._coding)

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{name}: {kind} {centre:.4g} +- {spread:.4g}"
            for name, kind, centre, spread in zip(
                self.names, self.kinds, self.centres, self.spreads, strict=True
            )
        )
        return f"<Standardized {columns}; {self.privacy.headline}>"


def spike_remarks(names: Sequence[str], kinds: Sequence[str]) -> tuple[str, ...]:
    """What is not to be relied on in columns of these kinds."""
    spikes = [name for name, kind in zip(names, kinds, strict=True) if kind == SPIKE]
    if not spikes:
        return ()
    return (
        f"nearly all records have the same value in {spikes}, as far as this budget can see: "
        "the spreads are guesses. Leave these columns out, or use a larger budget.",
    )


def standardize(
    X: Any,
    y: Any,
    *,
    privacy: Budget | float,
    response: bool = True,
    fit_intercept: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    group: Any = None,
    group_size: int | None = None,
) -> Standardized:
    """Buy centres and spreads of columns whose units nobody declared.

    Noisy bisection over floating-point numbers finds two quantiles of each column, whatever its
    magnitude; then one release of clipped means and mean squares of all columns.  A private fit
    needs columns of about unit size: this is for tables whose ranges are not public.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame or Records
        As for :func:`dpfast.fit`; text has to be declared in a schema.  A record with a non-finite
        entry, in whichever column, counts in nothing.
    y : array-like of shape (n,)
        Response; None with records that hold theirs.
    privacy : GDP, ZCDP, ApproxDP or float
        The **total** to spend; a float is mu of Gaussian DP.  A tenth to a quarter of mu of an
        analysis is enough where n mu is in the thousands.
    response : bool
        Buy the centre and spread of the response, too; not for one of 0 and 1.
    fit_intercept : bool
        Without an intercept columns are scaled by their root mean squares and not centred.
    ledger : Ledger, optional
        A budget shared by several analyses.
    noise : NoiseSource, optional
    threads : int, optional
    names : sequence of str, optional
        Names of the columns of an array.
    group : array-like of shape (n,), optional
        The person each row belongs to, as for :func:`dpfast.fit`.
    group_size : int, optional

    Returns
    -------
    Standardized

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong shape, dtype, option or budget, and if n and the budget are too small for so
        many columns, before anything is spent.
    BudgetExceeded
        If the shared ledger cannot pay, before the data are touched.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims D1 to D4 of
    ``dpfast/privacy/bought/PROOFS-bought.md``); a fit of the standardised columns composes with it
    as any two analyses do (claim D5).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(18, 90, 20_000), 2000 + rng.integers(0, 9, 20_000)])
    >>> y = 1e4 + 300.0 * X[:, 0] + 2e3 * rng.normal(size=20_000)
    >>> ledger = dpfast.Ledger(1.0)
    >>> units = dpfast.standardize(X, y, privacy=0.3, ledger=ledger)
    >>> fit = dpfast.fit(
    ...     units.encode(X, y), None, "log-cosh", scale=2e3, privacy=0.9, ledger=ledger
    ... )
    >>> bool(abs(fit.natural.params[1] - 300.0) < 30.0)
    True
    """
    total = GDP.within(privacy)
    response = flag(response, "response")
    request = Request(
        X,
        y,
        fit_intercept=fit_intercept,
        noise=noise,
        threads=threads,
        names=names,
        group=group,
        group_size=group_size,
    )
    unit = request.per_record(total)
    purchase = Purchase(request, unit.mu, Ledger(unit), response=response)
    charge_shared(ledger, privacy, total, request.label("standardize"))
    found, units, coding = purchase.run()
    return Standardized(
        purchase.names,
        tuple([location.kind for location in found]),
        units,
        coding,
        request.guarantee(total, purchase.ledger),
    )


class Purchase:
    """Centres and spreads to be bought; what can be refused is refused when it is made.

    Parameters
    ----------
    request : Request
        Of columns that are not coded.
    mu : float
        What may be spent.
    ledger : Ledger
        That pays.
    response : bool
        Whether the response's are bought, too.
    whole : float, optional
        mu of the analysis this is a part of, for the message; that of the purchase by default.
    """

    def __init__(
        self,
        request: Request,
        mu: float,
        ledger: Ledger,
        *,
        response: bool = True,
        whole: float | None = None,
    ) -> None:
        _refuse_coded(request.records)
        q = request.n_covariates
        self.names = request.records.names or tuple([f"x{j + 1}" for j in range(q)])
        if q == 0 or len(set(self.names)) < q:
            raise InvalidInput("X must have at least one column, and their names must differ.")
        self.ledger = ledger
        self._request = request
        columns = Columns(request.single, ledger, request.noise)
        self._search = search = Search(columns, range(q + int(response)), mu * (1.0 - MARGIN_8000))
        _refuse_hopeless(search, request.n, mu, mu if whole is None else whole)
        for m in (1, 2 * len(search.columns)):  # refuses an impossible budget
            columns.counts_receipt(m, query_mu(search.counts_mu, search.planned, m))
        for part in (mu, search.moments_mu):
            columns.moments_receipt(len(search.columns), part)

    def run(self) -> tuple[list[Location], Units, Coding]:
        """Pay, and say where the columns lie, in which units that is, and how they are coded.

        The locations are of the covariates.
        """
        request, q = self._request, len(self.names)
        found = self._search.run()
        where = found[:q]
        if len(found) == q:
            found.append(Location(NUMBER, 0.0, 1.0, -math.inf, math.inf))
        units = _units(found, request.fit_intercept)
        coding = released_coding(
            units,
            np.array([_held(location) for location in where]),
            self.names,
            by_name=request.new_rows.columns is not None,
            fit_intercept=request.fit_intercept,
        )
        return where, units, coding

    def in_place(self) -> tuple[str, ...]:
        """Pay, and put the request's records into these units; what is not to be relied on."""
        where, units, coding = self.run()
        self._request.in_units(units, coding)
        return spike_remarks(self.names, [location.kind for location in where])


def _held(location: Location) -> tuple[float, float]:
    """The range to which a column of new rows is held."""
    reach = REACH * location.spread
    low, high = location.centre - reach, location.centre + reach
    return min(location.low, low), max(location.high, high)


def _units(found: Sequence[Location], centred: bool) -> Units:
    """The last location is that of the response."""
    pairs = [
        (location.centre, location.spread)
        if centred
        else (0.0, math.hypot(location.centre, location.spread))
        for location in found
    ]
    centres, spreads = np.array(pairs[:-1]).reshape(-1, 2).T
    return Units(centres, spreads, pairs[-1])


def _refuse_coded(records: Records) -> None:
    if records.coding is not None:
        raise InvalidInput(
            "these records are coded already, by the public facts of a schema or by released "
            "ones. dpfast.with_private_scaling buys scales of declared columns."
        )


def units_are_hidden(n: int, columns: int, mu: float) -> bool:
    """Whether the noise of counts would hide where so many columns lie: public."""
    return math.sqrt(COUNTS * columns / COUNT_SHARE) > MOST_NOISE * n * mu


def _refuse_hopeless(search: Search, n: int, mu: float, whole: float) -> None:
    """From public numbers: the noise of counts would hide where the columns lie."""
    if search.noise > MOST_NOISE * n:
        q = len(search.columns)
        raise InvalidBudget(
            f"n = {n} records at mu = {mu:.3g} are too few to find where {q} columns lie: "
            f"with {COUNTS} counts for each, every count has noise of {search.noise:.0f} records. "
            f"Needed is mu of at least {whole * search.noise / (MOST_NOISE * n):.3g}. Declare "
            "ranges in a schema, or use fewer columns."
        )
