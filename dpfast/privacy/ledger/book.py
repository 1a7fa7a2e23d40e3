"""One budget, charged before noise is drawn, never refunded.

Claims C9 (adaptive composition) and C10 (exact arithmetic) of PROOFS.md.  All sums are exact:
amounts are Python integers counting quanta of ``2^-2150`` of the currency, fine enough that the
square of every double is a whole number of them, so nothing is ever rounded.

:mod:`dpfast.privacy.ledger.file` keeps a ledger in a file.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from dpfast.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerClosed,
    UnsupportedConversion,
    described,
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
from dpfast.privacy.conversions import ratio_to_float
from dpfast.privacy.ledger.process import HERE, this_process

__all__ = ["Entry", "Ledger", "Part"]

#: ``2^-1074`` is the smallest double, so its square is ``2^-2148``.
QUANTUM_BITS = 2150
_ONE = 1 << QUANTUM_BITS


class Entry(NamedTuple):
    """One charge.

    Attributes
    ----------
    label : str
        What it was for (public).
    spend : Budget
        What the mechanism is proved to cost.
    charged : Budget
        The same in the ledger's currency.

    Privacy
    -------
    Public, as is all a ledger says.
    """

    label: str
    spend: Any
    charged: Any


class Part(NamedTuple):
    """What one charge pays for: a ledger of its own, or one for each of some disjoint records."""

    label: str
    spend: Any
    ledgers: list[Ledger]
    disjoint: bool


#: What an :class:`Entry` is made of, the first time somebody looks.
_Line = tuple[str, Any, Any]


def _quanta(x: float, power: int = 1) -> int:
    """``x**power`` in quanta, exactly."""
    numerator, denominator = x.as_integer_ratio()
    if power == 2:
        return numerator * numerator << QUANTUM_BITS - 2 * (denominator.bit_length() - 1)
    return numerator << QUANTUM_BITS + 1 - denominator.bit_length()


@lru_cache(maxsize=4096, typed=True)  # what equals a float and is none is not looked up as one
def _cost(power: int, *values: float) -> tuple[int, ...]:
    """Additive cost of a charge of these values, which add up as this power of theirs."""
    return tuple([_quanta(value, power) for value in checked_numbers(values)])


def _in_currency(spend: Budget, currency: type[Budget]) -> Budget:
    """What a spend costs in a ledger's currency, rounded up; refused unless it is provable."""
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
            "Composing (epsilon, delta) guarantees wastes most of what Gaussian noise offers: open "
            "the ledger in GDP with Ledger(GDP.within(ApproxDP(epsilon, delta)))."
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
    ApproxDP: (ApproxDP, PureDP),
}


def _as_html(text: str) -> str:
    """Text between tags; the room imports no library for it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Ledger:
    """A total privacy budget and what was charged to it.

    Parameters
    ----------
    total : GDP, ZCDP, PureDP, ApproxDP or float
        The budget; its type is the ledger's currency.  A bare number is mu.

    Notes
    -----
    Charges add up as ``mu^2`` (GDP), ``rho`` (zCDP), ``epsilon`` (pure) or ``(epsilon, delta)``
    (basic composition), in exact arithmetic.  Which query is asked next, and for how much, may
    depend on everything released so far.  Thread-safe.

    A copy cannot spend: pickling, ``copy`` and ``fork`` give ledgers that remember their entries
    and refuse charges, because two copies would spend the same budget twice.  Use
    :meth:`Ledger.open` for a budget shared by several processes.

    Examples
    --------
    >>> ledger = dpfast.Ledger(dpfast.GDP(1.0))
    >>> ledger.charge(dpfast.GDP(0.5), "gradient")
    >>> ledger.remaining
    GDP(mu=0.8660254037844386)
    """

    def __init__(self, total: Budget | float) -> None:
        self._total = as_budget(total)
        self._currency = type(self._total)
        self._power = 2 if self._currency is GDP else 1
        self._limit = _cost(self._power, *self._total.values())
        self._spent: tuple[int, ...] = (0,) * len(self._limit)
        self._entries: list[_Line] = []
        self._lock = threading.RLock()  # knows its owner
        self._process: object = this_process()
        #: What became of charges that pay for ledgers of their own; says, decides nothing.
        self.parts: list[Part] = []

    @staticmethod
    def open(path: str | os.PathLike[str], total: Budget | float | None = None) -> Ledger:
        """A ledger kept in a file, shared by every process that opens it.

        Each charge is appended under a file lock and forced to disk before :meth:`charge`
        returns, so neither a crash nor a second process can spend it again.

        Parameters
        ----------
        path : path
            Local file systems only (locks, durable writes).
        total : budget, optional
            Creates the ledger if there is no file, or an empty one; otherwise it must equal the
            file's total.  Without it nothing is ever created or written until a charge is made.

        Returns
        -------
        Ledger

        Raises
        ------
        LedgerCorrupted
            If the file is not a ledger, or cannot be trusted.  It is left as it is.
        LedgerUnavailable
            If it cannot be opened, read or written, or has been locked for a minute.

        Notes
        -----
        Copies and pickles open the file again and go on spending from the one budget.  They
        remember how far it was written when they were made: they refuse another file at its path,
        a shorter one and one whose lines were changed, and never create one.

        Examples
        --------
        >>> dpfast.Ledger.open("study.ledger", total=dpfast.GDP(1.0)).charge(0.6, "first look")
        >>> dpfast.Ledger.open("study.ledger").remaining
        GDP(mu=0.7999999999999999)
        """
        from dpfast.privacy.ledger.file import FileLedger  # json, fcntl: only who needs them

        return FileLedger(_file_name(path), None if total is None else as_budget(total))

    @property
    def total(self) -> Budget:
        """The whole budget; its type is the ledger's currency."""
        return self._total

    @property
    def identity(self) -> str:
        """What tells a ledger in a file from all others; public.  Empty for one in memory."""
        return ""

    @property
    def spent(self) -> Any:
        """What was charged so far, in the ledger's currency, rounded up."""
        return self._as_budget(self._current()[0], up=True)

    @property
    def remaining(self) -> Any:
        """What is left, in the ledger's currency, rounded down."""
        spent = self._current()[0]
        left = tuple(limit - used for limit, used in zip(self._limit, spent, strict=True))
        return self._as_budget(left, up=False)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every charge, in order."""
        return tuple(map(Entry._make, self._current()[1]))

    def charge(self, spend: Budget | float, label: str, *, once: str = "") -> None:
        """Spend a part of the budget, or refuse.

        Call it before touching records or drawing noise.  There is no way to undo it.

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
        BudgetExceeded
            If it does not fit, or a charge with that mark was granted before, to whomever; the
            ledger is then unchanged.
        UnsupportedConversion
            If the spend cannot be paid in the ledger's currency.
        LedgerClosed
            If this ledger is a copy.
        LedgerUnavailable
            If the file of a ledger in one cannot be locked or written.

        Privacy
        -------
        Spends ``spend``; what it pays for has to be proved elsewhere.

        Examples
        --------
        >>> ledger = dpfast.Ledger(dpfast.ZCDP(0.5))
        >>> ledger.charge(dpfast.GDP(0.6), "a mean")
        >>> ledger.spent
        ZCDP(rho=0.18)
        """
        if not isinstance(once, str):
            raise InvalidInput(f"once must be a string; received {described(once)}.")
        cost, line = self._priced(spend, label + once if isinstance(label, str) else label)
        self._settle(cost, line, once)

    def check(self, spend: Budget | float, label: str) -> None:
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
        BudgetExceeded
            If it does not fit.
        UnsupportedConversion
            If the spend cannot be paid in the ledger's currency.
        LedgerClosed
            If this ledger is a copy.

        Examples
        --------
        >>> ledger = dpfast.Ledger(dpfast.GDP(1.0))
        >>> ledger.check(0.9, "a fit")
        >>> ledger.spent
        GDP(mu=0.0)
        """
        cost, line = self._priced(spend, label)
        self._refuse_copies()
        self._after(self._current()[0], cost, line)

    def child(self, total: Budget | float, label: str) -> Ledger:
        """A ledger for a part of this one, which pays for the whole part at once.

        What the child does not spend is not refunded.

        Parameters
        ----------
        total : budget or float
            What the part may spend; charged here at once.
        label : str
            What it is for; public.

        Returns
        -------
        Ledger

        Raises
        ------
        BudgetExceeded
            If it does not fit.
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
        (GDP(mu=0.6), GDP(mu=0.7999999999999999))
        """
        total = as_budget(total)
        if type(total) not in _CHILD_CURRENCIES[self._currency]:
            raise UnsupportedConversion(
                f"a ledger in {self._currency.__name__} cannot have a child with total {total!r}. "
                "Give the child a total in "
                + " or ".join(kind.__name__ for kind in _CHILD_CURRENCIES[self._currency])
                + "."
            )
        self.charge(total, label)
        child = Ledger(total)
        self.parts.append(Part(label, total, [child], disjoint=False))
        return child

    def __repr__(self) -> str:
        return f"Ledger(total={self.total!r}, spent={self.spent!r})"

    def _repr_html_(self) -> str:
        rows = [("total", self.total), ("spent", self.spent), ("remaining", self.remaining)]
        said = "".join(f"<dt>{name}</dt><dd>{_as_html(repr(value))}</dd>" for name, value in rows)
        charges = "".join(
            f'<tr><th scope="row">{_as_html(label)}</th><td>{_as_html(repr(spend))}</td></tr>'
            for label, spend, _ in self.entries
        )
        table = f"<table><caption>Charges, in order</caption><tbody>{charges}</tbody></table>"
        return f'<div class="dpfast"><dl>{said}</dl>{table if charges else ""}</div>'

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        return _copy_of, (self._total, self._spent, tuple(self._entries))

    def __sklearn_clone__(self) -> Ledger:
        """scikit-learn's clones of an estimator share its ledger; copies would spend twice."""
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

    def _settle(self, cost: tuple[int, ...], line: _Line, once: str = "") -> None:
        self._refuse_copies()  # before it waits for a lock that a fork left held
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise LedgerClosed(
                "a ledger was charged by a signal handler (or a finaliser) that interrupted a "
                "charge of it in the same thread. Nothing was spent by the handler. Charge it "
                "after the handler returned."
            )
        with self._lock:
            _refuse_again(once, self._entries)
            self._spent = self._after(self._spent, cost, line)  # first: an interrupt may follow
            self._entries.append(line)
        if self._process is not this_process():  # forked in the middle: granted to the parent only
            self._refuse_copies()

    # -- arithmetic

    def _priced(self, spend: Budget | float, label: str) -> tuple[tuple[int, ...], _Line]:
        """Cost of a charge in quanta, and its line in the book."""
        charged: Any = spend
        if type(spend) is not self._currency:
            spend = as_budget(spend)
            charged = _in_currency(spend, self._currency)
        if not isinstance(label, str):
            raise InvalidInput(f"label must be a string; received {described(label)}.")
        return _cost(self._power, *charged.values()), (label, spend, charged)

    def _after(self, spent: tuple[int, ...], cost: tuple[int, ...], line: _Line) -> tuple[int, ...]:
        """The spent amount after a charge, or BudgetExceeded."""
        after: tuple[int, ...]
        if len(cost) == 1:  # of most ledgers, and charged in every step
            after = (spent[0] + cost[0],)
            fits = after[0] <= self._limit[0]
        else:
            after = tuple(map(int.__add__, spent, cost))
            fits = all(map(int.__le__, after, self._limit))
        if fits:
            return after
        left = tuple(limit - used for limit, used in zip(self._limit, spent, strict=True))
        entry = Entry._make(line)
        equal = "" if entry.charged == entry.spend else f" (that is, {entry.charged!r})"
        raise BudgetExceeded(
            f"the charge for {entry.label!r} does not fit: total {self._total!r}, spent "
            f"{self._as_budget(spent, up=True)!r}, requested {entry.spend!r}{equal}, "
            f"remaining {self._as_budget(left, up=False)!r}. Nothing was spent and no record was "
            "touched. Ask for at most what remains, or plan the analyses with a larger total "
            "from the start."
        )

    def _as_budget(self, quanta: tuple[int, ...], *, up: bool) -> Budget:
        if self._currency is GDP:
            root = math.isqrt(quanta[0])
            if up and root * root < quanta[0]:
                root += 1
            return amount(GDP, ratio_to_float(root, 1 << (QUANTUM_BITS // 2), up=up))
        values = (ratio_to_float(part, _ONE, up=up) for part in quanta)
        return amount(self._currency, *values)


def _refuse_again(once: str, entries: Iterable[_Line]) -> None:
    """Refuse what was paid for already."""
    if once and any(entry[0].endswith(once) for entry in entries):
        raise BudgetExceeded(
            f"a charge marked {once.strip()!r} was granted before, and such a charge is made once. "
            "Nothing was spent and no record was touched. Ask who made it for the answer, or give "
            "the question another name to pay for it again."
        )


def _file_name(path: Any) -> str:
    """The path of a ledger as text, if a file can have it."""
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
