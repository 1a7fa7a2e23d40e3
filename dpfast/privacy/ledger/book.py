"""A privacy budget, charged before noise is drawn, all sums exact.

Claims C9 (adaptive composition), C10 (exact arithmetic), C86 (decimals), C87 (pairs) and C95
(returned budget) of PROOFS.md: amounts are integers counting quanta of which every double's square
is a whole number.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

from dpfast.errors import (
    BudgetExceeded,
    Hinted,
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    UnsupportedConversion,
    described,
    understood,
)
from dpfast.privacy.budget import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    amount,
    as_budget,
    checked_numbers,
)
from dpfast.privacy.decimals import ratio_to_float, written
from dpfast.privacy.ledger.process import HERE, this_process
from dpfast.privacy.noise import random_name

#: ``2^-1074`` is the smallest double, so its square is ``2^-2148``; as they are written, doubles
#: are whole numbers of ``10^-324``, their squares of ``10^-648``.
_ROOT = 5**324 << 1075
ONE = _ROOT * _ROOT


class Entry(NamedTuple):
    """A charge.

    Attributes
    ----------
    label : str
        What it was for (public).
    spend : Budget
        What the mechanism is proved to cost.
    charged : Budget
        The same in the ledger's currency.
    returned : GDP or None
        Part of a run's reservation that it did not use, given back at its end (claim C95).

    Privacy
    -------
    Public, as is all a ledger says.
    """

    label: str
    spend: Any
    charged: Any
    returned: Any = None

    @property
    def paid(self) -> Any:
        """What was charged, less what was returned, rounded up."""
        if self.returned is None:
            return self.charged
        return _as_mu(quanta_of(self.charged) - quanta_of(self.returned), up=True)


class Reserved(NamedTuple):
    """Line of a charge of which a part may be returned; the mark names it."""

    label: str
    spend: Any
    charged: Any
    mark: str


class Returned(NamedTuple):
    """Line that returns a part of the reservation with this mark."""

    mark: str
    amount: Any


class Part(NamedTuple):
    """Ledgers that one charge pays for: one ledger, or one for each of some disjoint records."""

    label: str
    spend: Any
    ledgers: list[Ledger]
    disjoint: bool


#: A line of the book, of which an :class:`Entry` is made when somebody looks.
_Line = tuple[str, Any, Any] | Reserved | Returned

#: Mark of the charge that reserves the total of a run, while it is made.
MARK: ContextVar[str] = ContextVar("dpfast_reservation", default="")

#: A charge: its cost in quanta, and its line in the book.
_Charge = tuple[tuple[int, ...], _Line]


@lru_cache(maxsize=4096, typed=True)  # what equals a float and is none is not looked up as one
def cost_in_quanta(power: int, *values: float) -> tuple[int, ...]:
    """Return the additive cost of a charge, whose values add up as this power of theirs."""
    ratios = map(written, checked_numbers(values))
    return tuple([a**power * (ONE // b**power) for a, b in ratios])


def _in_currency(spend: Budget, currency: type[Budget]) -> Budget:
    """Convert a spend to a ledger's currency, rounded up; refuse it where that is not proved."""
    if type(spend) is currency:
        return spend
    if currency is GDP:
        return spend.as_gdp()
    if currency is ZCDP:
        return spend.as_zcdp()
    if currency is ApproxDP and type(spend) is PureDP:
        return amount(ApproxDP, spend.epsilon, 0.0)
    raise UnsupportedConversion(
        f"a ledger in {currency.__name__} cannot pay for {spend!r}. "
        + (
            "It pays in (epsilon, delta) and in GDP(mu)."
            if currency is ApproxDP
            else "It pays for PureDP only; open a ledger in ZCDP, GDP or ApproxDP."
        )
    )


#: Currencies a child may have in a parent of another currency.  The sum of the child's charges,
#: each converted on its own, is then at most the conversion of the child's total (claim C9).
_CHILD_CURRENCIES: dict[type[Budget], tuple[type[Budget], ...]] = {
    GDP: (GDP,),
    ZCDP: (ZCDP, GDP, PureDP),
    PureDP: (PureDP,),
    ApproxDP: (ApproxDP, PureDP),  # and GDP, where it is kept apart (claim C87)
}


def _as_html(text: str) -> str:
    """Escape text between tags; this package imports no library for it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@understood
class Ledger(Hinted):
    """A total privacy budget and the charges made to it.

    Parameters
    ----------
    total : GDP, ZCDP, PureDP, ApproxDP, float or (float, float)
        The budget; its type is the ledger's currency.  A bare number is mu, two are
        (epsilon, delta).
    apart : ApproxDP, optional
        Part of a total in (epsilon, delta) that is kept for charges not in GDP.

    Notes
    -----
    Charges add up as ``mu^2`` (GDP), ``rho`` (zCDP) or ``epsilon`` (pure), in exact arithmetic.
    Numbers are the decimals that they are written as: ten times .1 is 1.  Which query is asked
    next, and for how much, may depend on everything released so far.  Thread-safe.

    A total in (epsilon, delta) pays in GDP wherever noise is Gaussian, as in every fit: ``mu^2``
    adds up, and the sum is converted to (epsilon, delta) once.  Other charges (one-shot releases,
    test and release) are made before the first of these, or out of ``apart``.  They add up in
    (epsilon, delta).  The first charge in GDP takes all that is left beside them, because how the
    total is divided must not depend on answers (claim C87).

    A copy cannot spend: pickling, ``copy`` and ``fork`` give ledgers that remember their entries
    and refuse charges, because two copies would spend the same budget twice.  Use
    :meth:`Ledger.open` for a budget shared by several processes.

    Examples
    --------
    >>> ledger = dpfast.Ledger(dpfast.GDP(1.0))
    >>> ledger.charge(dpfast.GDP(0.5), "gradient")
    >>> ledger.remaining
    GDP(mu=0.8660254037844386)
    >>> ledger = dpfast.Ledger((4.0, 1e-6))  # as ApproxDP(4.0, 1e-6)
    >>> for k in range(15):
    ...     ledger.charge(dpfast.GDP.within((1.0, 1e-7)), "a fit")
    """

    def __init__(
        self,
        total: Budget | float | tuple[float, float],
        apart: Budget | tuple[float, float] | None = None,
    ) -> None:
        if isinstance(total, str | os.PathLike):
            raise InvalidBudget(
                'a ledger in a file is opened by dpfast.Ledger.open("budget.ledger", 1.0), with '
                "its total; dpfast.Ledger(1.0) is one in memory."
            )
        self._total = as_budget(total)
        self._currency = type(self._total)
        self._power = 2 if self._currency is GDP else 1
        self._limit = cost_in_quanta(self._power, *self._total.values())
        #: Sums of what was charged: of an (epsilon, delta) total, followed by that of ``mu^2``, and
        #: by the limits of all three once there is one.
        self._spent: tuple[int, ...] = (0,) * len(self._limit)
        #: Whether an (epsilon, delta) total pays in GDP, too, and keeps that apart.
        self.keeps_apart = self._currency is ApproxDP
        self._apart = (0, 0)
        if self.keeps_apart:
            self._limit, self._spent = (*self._limit, 0), (0, 0, 0)
        if apart is not None:
            self._apart = self._kept(apart)
        self._entries: list[_Line] = []
        self._closed = False
        self._lock = threading.RLock()  # knows its owner
        self._process: object = this_process()
        #: What became of charges that pay for ledgers of their own; says, decides nothing.
        self.parts: list[Part] = []

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        total: Budget | float | tuple[float, float] | None = None,
        apart: Budget | tuple[float, float] | None = None,
    ) -> Ledger:
        """Open a ledger in a file, shared by every process that opens it.

        Each charge is appended under a file lock and forced to disk before :meth:`charge` returns.
        No crash and no second process can therefore spend it again.

        Parameters
        ----------
        path : path
            Local file systems only (locks, durable writes).
        total : budget, optional
            Creates the ledger if there is no file, or an empty one; otherwise it must equal the
            file's total.  Without it nothing is created or written until a charge is made.
        apart : ApproxDP, optional
            As of a ledger in memory.  If the file exists, it must equal the file's.

        Raises
        ------
        LedgerCorrupted
            If the file is not a ledger, or cannot be trusted.  The file is not changed.
        LedgerUnavailable
            If it cannot be opened, read or written, or has been locked for a minute.

        Notes
        -----
        Copies and pickles open the file again and go on spending from the one budget.  They
        remember how long the file was when they were made.  They refuse another file at its path,
        a shorter one and one whose lines were changed, and never create one.

        Examples
        --------
        >>> dpfast.Ledger.open("study.ledger", total=dpfast.GDP(1.0)).charge(0.6, "first look")
        >>> dpfast.Ledger.open("study.ledger").remaining
        GDP(mu=0.8)
        """
        from dpfast.privacy.ledger.file import FileLedger  # json, fcntl: only who needs them

        return FileLedger(_file_name(path), None if total is None else as_budget(total), apart)

    @property
    def total(self) -> Budget:
        """The whole budget; its type is the ledger's currency."""
        return self._total

    @property
    def identity(self) -> str:
        """Public identifier of a ledger in a file; empty for one in memory."""
        return ""

    @property
    def spent(self) -> Any:
        """Sum of the charges so far, in the ledger's currency, rounded up.

        An (epsilon, delta) total that paid in GDP converts its mu at the delta that is left.
        """
        spent = self._current()[0]
        if not any(spent[2:]):
            return self._as_budget(spent[: len(self._currency.fields)], up=True)
        total: Any = self._total
        remaining_delta = self._as_budget((0, self._limit[1] - spent[1]), up=False).delta
        a, b = written(_as_mu(spent[2], up=True).epsilon(remaining_delta))
        epsilon = ratio_to_float(a * ONE + b * spent[0], b * ONE, up=True)
        return amount(ApproxDP, min(epsilon, total.epsilon), total.delta)

    @property
    def remaining(self) -> Any:
        """Rest of the budget, in the ledger's currency, rounded down.

        Of an (epsilon, delta) total that paid in GDP: what is left for further charges in GDP.
        """
        spent = self._current()[0]
        if spent[3:]:
            return _as_mu(spent[5] - spent[2], up=False)
        pairs = list(zip(self._limit, spent, strict=True))[: len(self._currency.fields)]
        return self._as_budget(tuple([limit - used for limit, used in pairs]), up=False)

    @property
    def apart(self) -> Any:
        """Part of an (epsilon, delta) total that is kept for charges not in GDP, or None."""
        return self._as_budget(self._apart, up=False) if any(self._apart) else None

    @property
    def total_in_gdp(self) -> Any:
        """Part of the total that pays for Gaussian noise (claim C87).

        Of (epsilon, delta) it is a mu.  Before the first charge in GDP it is the mu that this
        charge would fix now.  Of other totals it is the total.
        """
        if not self.keeps_apart:
            return self._total
        spent = self._current()[0]
        return _as_mu((spent[3:] or self._divided(spent))[2], up=False)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every charge, in order."""
        entries: list[Entry] = []
        returned: dict[str, GDP] = {}
        for line in reversed(list(self._current()[1])):
            if isinstance(line, Returned):
                returned[line.mark] = line.amount
            else:
                entries.append(Entry(*line[:3], *[returned.pop(mark, None) for mark in line[3:]]))
        return tuple(entries[::-1])

    def _charges(self) -> list[tuple[str, Any]]:
        """List label and cost of each charge of a ledger that has returned nothing."""
        return [(line[0], line[2]) for line in self._current()[1]]  # type: ignore[misc]

    def charge(
        self, spend: Budget | float | tuple[float, float], label: str, *, once: str = ""
    ) -> None:
        """Spend a part of the budget, or refuse.

        Call it before touching records or drawing noise.  There is no way to undo it.  (The
        library's own runs reserve a total, and return what their queries did not use: claim C95.)

        Parameters
        ----------
        spend : budget or float
            What the coming release is proved to cost.  A bare number is mu.
        label : str
            What it is for; public.
        once : str
            A mark at the end of the label, of what must not be paid for twice.

        Raises
        ------
        UnsupportedConversion
            If the spend cannot be paid in the ledger's currency.
        LedgerClosed
            If this ledger is a copy.
        LedgerUnavailable
            If the file of a ledger in one cannot be locked or written.

        Privacy
        -------
        Spends ``spend``; what it pays for has to be proved elsewhere.
        """
        if type(once) is not str and not isinstance(once, str):
            raise InvalidInput(f"once must be a string; received {described(once)}.")
        if once and isinstance(label, str):
            label = label + once
        charges = self._priced(spend, label)
        if (mark := MARK.get()) and self._takes_returns:
            charges = tuple([_marked(charge, mark) for charge in charges])
        self._settle(charges, once)

    def check(self, spend: Budget | float | tuple[float, float], label: str) -> None:
        """Refuse what :meth:`charge` would refuse at this moment; spends nothing.

        For work that has to come before a charge; only the charge itself decides.

        Parameters
        ----------
        spend : budget or float
            A bare number is mu.
        label : str
            What it is for; public.

        Raises
        ------
        UnsupportedConversion
            If the spend cannot be paid in the ledger's currency.
        LedgerClosed
            If this ledger is a copy.
        """
        charges = self._priced(spend, label)
        self._refuse_copies()
        self._after(self._current()[0], charges)

    def child(self, total: Budget | float | tuple[float, float], label: str) -> Ledger:
        """Charge a part of this ledger at once, and return a ledger that spends the part.

        What the child does not spend is not refunded.

        Parameters
        ----------
        total : budget or float
            What the part may spend; charged here at once.
        label : str
            What it is for; public.

        Raises
        ------
        UnsupportedConversion
            If charges in the child's currency would not add up to its total here (claim C9).

        Privacy
        -------
        Spends ``total`` of this ledger; the child's charges are then paid for.

        Examples
        --------
        >>> ledger = dpfast.Ledger(dpfast.GDP(1.0))
        >>> part = ledger.child(0.6, "for the colleagues")
        >>> part.remaining, ledger.remaining
        (GDP(mu=0.6), GDP(mu=0.8))
        """
        total = as_budget(total)
        kinds = _CHILD_CURRENCIES[self._currency] + (GDP,) * self.keeps_apart
        if type(total) not in kinds:
            raise UnsupportedConversion(
                f"a ledger in {self._currency.__name__} cannot have a child with total {total!r}. "
                "Give the child a total in " + " or ".join(kind.__name__ for kind in kinds) + "."
            )
        # a sum of pure charges is not known to be at most their total's mu
        self._settle(self._priced(total, label)[:1])
        child = Ledger(total)
        self.parts.append(Part(label, total, [child], disjoint=False))
        return child

    def __repr__(self) -> str:
        return f"Ledger(total={self.total!r}, spent={self.spent!r})"

    def _repr_html_(self) -> str:
        rows = [("total", self.total), ("spent", self.spent), ("remaining", self.remaining)]
        amounts = "".join(
            f"<dt>{name}</dt><dd>{_as_html(repr(value))}</dd>" for name, value in rows
        )
        charges = "".join(
            f'<tr><th scope="row">{_as_html(entry.label)}</th><td>{_as_html(repr(entry.spend))}'
            + f", returned {_as_html(repr(entry.returned))}" * (entry.returned is not None)
            + "</td></tr>"
            for entry in self.entries
        )
        table = f"<table><caption>Charges, in order</caption><tbody>{charges}</tbody></table>"
        return f'<div class="dpfast"><dl>{amounts}</dl>{table if charges else ""}</div>'

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        return _copy_of, (self._total, self._spent, tuple(self._entries))

    def __sklearn_clone__(self) -> Ledger:
        """Return itself: scikit-learn's clones share a ledger, copies would spend twice."""
        return self

    # -- the parts a file-backed ledger does differently

    def _current(self) -> tuple[tuple[int, ...], Iterable[_Line]]:
        return self._spent, self._entries

    def _refuse_copies(self) -> None:
        if self._process is not HERE.token:
            raise LedgerClosed(
                "this ledger is a copy (pickled, deep-copied or inherited through fork) and "
                "cannot spend: two copies would spend the same budget twice. Charge the original, "
                "or keep the budget in a file with Ledger.open(path, total)."
            )

    def _refuse_inside(self) -> None:
        """Refuse copies, and what would wait for itself or for a lock that a fork left held."""
        self._refuse_copies()
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise LedgerClosed(
                "a ledger was charged by a signal handler (or a finaliser) that interrupted a "
                "charge of it in the same thread. Nothing was spent by the handler. Charge it "
                "after the handler returned."
            )

    def _settle(self, charges: Sequence[_Charge], once: str = "") -> None:
        self._refuse_inside()
        with self._lock:
            if self._closed:
                raise LedgerClosed(
                    "the run that spent this ledger has ended, and what it did not spend was "
                    "returned. Nothing was spent. Start another run."
                )
            if once or type(charges[0][1]) is Returned:
                _refuse_again(once, charges[0][1], self._entries)
            self._spent, line = self._after(self._spent, charges)  # first: an interrupt may follow
            self._entries.append(line)
        if HERE.token is not self._process or os.getpid() != HERE.number:
            this_process()  # forked in the middle: granted to the parent only
            self._refuse_copies()

    # -- reservations (claim C95); :class:`~dpfast.privacy.ledger.reservation.Reservation` alone
    #    asks for these

    @property
    def _takes_returns(self) -> bool:
        """Whether charges in GDP may be returned in part: their squares add up here."""
        return self._currency is GDP or self.keeps_apart

    def _reserve(self, spend: Budget, label: str) -> str:
        """Charge for a run; return the mark of what may be returned of it."""
        mark = random_name()
        token = MARK.set(mark)
        try:
            self.charge(spend, label)
        finally:
            MARK.reset(token)
        return mark

    def _give_back(self, mark: str, quanta: int) -> GDP:
        """Return a part of the reservation with this mark, once; return the amount."""
        unused = _as_mu(quanta, up=False)
        cost = tuple([-part for part in self._cost_of(unused)])
        self._settle(((cost, Returned(mark, unused)),), mark)
        return unused

    def _close(self) -> int:
        """Refuse every charge from now on; return the exact sum of those that were made."""
        self._refuse_inside()
        with self._lock:
            self._closed = True
            return self._spent[0]

    # -- arithmetic

    def _kept(self, apart: Any) -> tuple[int, int]:
        """Check the part of an (epsilon, delta) total that is kept for charges not in GDP."""
        reserved = as_budget(apart)
        if not (self.keeps_apart and type(reserved) is ApproxDP):
            raise InvalidInput(
                "apart is a part (epsilon, delta) of a total (epsilon, delta), for charges not in "
                f"GDP; received {described(apart)} of {self._total!r}. Such a total is a pair, "
                "Ledger((1.0, 1e-6)), or ApproxDP(epsilon, delta)."
            )
        epsilon, delta = cost_in_quanta(1, *reserved.values())
        if epsilon > self._limit[0] or delta > self._limit[1]:
            raise InvalidInput(f"apart = {reserved!r} is more than the total {self._total!r}.")
        return epsilon, delta

    def _priced(self, spend: Any, label: str) -> tuple[_Charge, ...]:
        """List the possible charges for a spend; the first that fits is made."""
        charged: Any = spend
        currency = self._currency
        if type(spend) is not currency:
            spend = as_budget(spend)
            in_mu = self.keeps_apart and type(spend) is GDP
            charged = spend if in_mu else _in_currency(spend, currency)
        if not isinstance(label, str):
            raise InvalidInput(f"label must be a string; received {described(label)}.")
        prices = [charged]
        if self.keeps_apart and type(spend) is PureDP:
            prices.append(spend.as_gdp())
        return tuple([(self._cost_of(price), (label, spend, price)) for price in prices])

    def _cost_of(self, charged: Budget) -> tuple[int, ...]:
        if not self.keeps_apart:
            return cost_in_quanta(self._power, *charged.values())
        if type(charged) is GDP:
            return 0, 0, *cost_in_quanta(2, *charged.values())
        return *cost_in_quanta(1, *charged.values()), 0

    def _added(self, spent: tuple[int, ...], cost: tuple[int, ...]) -> tuple[int, ...] | None:
        """Add a charge to the sums; return None if it does not fit (claims C9 and C87)."""
        if not cost[1:]:  # of most ledgers, and charged in every step
            total = spent[0] + cost[0]
            return (total,) if total <= self._limit[0] else None
        limits = spent[3:]
        if cost[2:] > (0,) and not limits:
            limits = self._divided(spent)
        after = tuple(map(int.__add__, spent, cost))
        fits = all(map(int.__le__, after, limits or self._limit))
        return (*after, *limits) if fits else None

    def _divided(self, spent: tuple[int, ...]) -> tuple[int, ...]:
        """Fix limits of epsilon, delta and ``mu^2`` at the first charge in GDP (claim C87)."""
        from dpfast.privacy.conversions import DELTA_FLOOR, gdp_mu

        reserved = tuple(map(max, spent, self._apart))
        rest = tuple(map(int.__sub__, self._limit, reserved))
        epsilon, delta = self._as_budget(rest, up=False).values()
        mu = gdp_mu(epsilon, delta) if delta >= 4.0 * DELTA_FLOOR else 0.0
        return (*reserved, *cost_in_quanta(2, mu))

    def _after(
        self, spent: tuple[int, ...], charges: Sequence[_Charge]
    ) -> tuple[tuple[int, ...], _Line]:
        """Return the sums after the first charge that fits, and its line; else BudgetExceeded."""
        for cost, line in charges:
            after = self._added(spent, cost)
            if after is not None:
                return after, line
        entry = Entry(*charges[0][1][:3])
        equal = "" if entry.charged == entry.spend else f" (that is, {entry.charged!r})"
        raise BudgetExceeded(
            f"the charge for {entry.label!r} does not fit: total {self._total!r}, spent "
            f"{self.spent!r}, requested {entry.spend!r}{equal}, "
            f"remaining {self.remaining!r}. Nothing was spent and no record was "
            "touched. Ask for at most what remains, or plan the analyses with a larger total "
            "from the start."
            + " The first charge in GDP took all that was left but what is kept by "
            "Ledger(total, apart=(epsilon, delta))."
            * (bool(spent[3:]) and type(entry.charged) is not GDP)
        )

    def _as_budget(self, quanta: tuple[int, ...], *, up: bool) -> Any:
        if self._currency is GDP:
            return _as_mu(quanta[0], up=up)
        values = (ratio_to_float(part, ONE, up=up) for part in quanta)
        return amount(self._currency, *values)


def quanta_of(spend: GDP) -> int:
    """Return the square of a mu in quanta, which add up."""
    return cost_in_quanta(2, spend.mu)[0]


def _as_mu(quanta: int, *, up: bool) -> GDP:
    """Return the mu whose square is so many quanta."""
    root = math.isqrt(quanta)
    root += up and root * root < quanta
    return amount(GDP, ratio_to_float(root, _ROOT, up=up))


def _marked(charge: _Charge, mark: str) -> _Charge:
    """Give the line of a charge in GDP a mark, by which a part of it may be returned."""
    cost, line = charge
    return (cost, Reserved(*line[:3], mark)) if type(line[-1]) is GDP else charge  # type: ignore


def may_return(line: Returned, latest_first: Iterable[_Line]) -> bool:
    """Tell whether a line returns at most what its reservation charged, for the first time."""
    for earlier in latest_first:
        if type(earlier) is Returned and earlier.mark == line.mark:
            return False
        if type(earlier) is Reserved and earlier.mark == line.mark:
            return quanta_of(line.amount) <= quanta_of(earlier.charged)
    return False


def _refuse_again(once: str, line: _Line, lines: Sequence[_Line]) -> None:
    """Refuse a charge, or a return, that was made already."""
    if type(line) is Returned:
        if not may_return(line, reversed(lines)):
            raise BudgetExceeded(
                "what a reservation left was returned before, or is more than was reserved, or the "
                "reservation is not in this ledger. Nothing was returned."
            )
    elif any(earlier[0].endswith(once) for earlier in lines):
        raise BudgetExceeded(
            f"a charge marked {once.strip()!r} was granted before, and such a charge is made once. "
            "Nothing was spent and no record was touched. Ask who made it for the answer, or give "
            "the question another name to pay for it again."
        )


def _file_name(path: Any) -> str:
    """Return the path of a ledger as text; refuse one that no file can have."""
    if isinstance(path, (str, bytes, os.PathLike)):
        with suppress(Exception):
            name = os.fsdecode(path)
            if "\0" not in name and os.fsencode(name):
                return name
    raise InvalidInput(
        f"a ledger's path must be that of a file; received {described(path, text=True)}."
    )


def _copy_of(total: Budget, spent: tuple[int, ...], entries: Sequence[_Line]) -> Ledger:
    ledger = Ledger(total)
    ledger._spent = spent
    ledger._entries = list(entries)
    ledger._process = None  # no process
    return ledger
