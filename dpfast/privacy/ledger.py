"""One budget, charged before noise is drawn, never refunded.

Claims C9 (adaptive composition) and C10 (exact arithmetic) of PROOFS.md.  All sums are exact:
amounts are Python integers counting quanta of ``2^-2150`` of the currency, fine enough that the
square of every double is a whole number of them, so nothing is ever rounded.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from dpfast.errors import (
    BudgetExceeded,
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    LedgerCorrupted,
    UnsupportedConversion,
)
from dpfast.privacy.budget import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    amount,
    as_budget,
    ratio_to_float,
)

__all__ = ["Entry", "Ledger"]

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
    """

    label: str
    spend: Any
    charged: Any


#: From a tuple, without the frame of the generated constructor.
_entry_of = partial(tuple.__new__, Entry)


def _quanta(x: float, power: int = 1) -> int:
    """``x**power`` in quanta, exactly."""
    numerator, denominator = x.as_integer_ratio()
    if power == 2:
        return numerator * numerator << QUANTUM_BITS - 2 * (denominator.bit_length() - 1)
    return numerator << QUANTUM_BITS + 1 - denominator.bit_length()


@lru_cache(maxsize=4096)
def _cost(power: int, *values: float) -> tuple[int, ...]:
    """Additive cost of a charge of these values, which add up as this power of theirs."""
    if min(values) < 0.0:  # impossible for a Budget that was constructed normally
        raise InvalidBudget(f"a charge cannot be negative; received {values!r}.")
    return tuple([_quanta(value, power) for value in values])


def _in_currency(spend: Budget, currency: type[Budget]) -> Budget:
    """What a spend costs in a ledger's currency, rounded up; refused unless it is provable."""
    if type(spend) is currency:
        return spend
    if currency is GDP:
        return spend.as_gdp()
    if currency is ZCDP:
        return spend.as_zcdp()
    if currency is ApproxDP and isinstance(spend, PureDP):
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
    >>> ledger = Ledger(GDP(1.0))
    >>> ledger.charge(GDP(0.5), "gradient")
    >>> ledger.remaining
    GDP(mu=0.8660254037844386)
    """

    def __init__(self, total: Budget | float) -> None:
        self._total = as_budget(total)
        self._currency = type(self._total)
        self._power = 2 if isinstance(self._total, GDP) else 1
        self._limit = _cost(self._power, *self._total.values())
        self._spent: tuple[int, ...] = (0,) * len(self._limit)
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._copied = False

    @staticmethod
    def open(path: str | os.PathLike[str], total: Budget | float | None = None) -> Ledger:
        """A ledger kept in a file, shared by every process that opens it.

        Each charge is appended under a file lock and forced to disk before :meth:`charge`
        returns, so neither a crash nor a second process can spend it again.

        Parameters
        ----------
        path : path
            Created if it does not exist.  Local file systems only (locks, durable writes).
        total : budget, optional
            Needed when the file is new; otherwise it must equal the file's total.
        """
        return _FileLedger(os.fspath(path), None if total is None else as_budget(total))

    @property
    def total(self) -> Budget:
        """The whole budget."""
        return self._total

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
        return tuple(self._current()[1])

    def charge(self, spend: Budget | float, label: str) -> None:
        """Spend a part of the budget, or refuse.

        Call it before touching records or drawing noise.  There is no way to undo it.

        Parameters
        ----------
        spend : budget or float
            What the coming release is proved to cost.  A bare number is mu.
        label : str
            What it is for; public.

        Raises
        ------
        BudgetExceeded
            If it does not fit; the ledger is then unchanged.
        """
        charged: Any = spend
        if type(spend) is not self._currency:
            spend = as_budget(spend)
            charged = _in_currency(spend, self._currency)
        if not isinstance(label, str):
            raise InvalidInput(f"label must be a string; received {label!r}.")
        cost = _cost(self._power, *charged.values())
        with self._own_lock():
            self._settle(cost, _entry_of((label, spend, charged)))

    def child(self, total: Budget | float, label: str) -> Ledger:
        """A ledger for a part of this one, which pays for the whole part at once.

        What the child does not spend is not refunded.
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
        return Ledger(total)

    def __repr__(self) -> str:
        return f"Ledger(total={self.total!r}, spent={self.spent!r})"

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        return _copy_of, (self._total, self._spent, tuple(self._entries))

    def __sklearn_clone__(self) -> Ledger:
        """scikit-learn's clones of an estimator share its ledger; copies would spend twice."""
        return self

    # -- the parts a file-backed ledger does differently

    def _current(self) -> tuple[tuple[int, ...], list[Entry]]:
        return self._spent, self._entries

    def _own_lock(self) -> threading.Lock:
        if self._copied or self._process != os.getpid():
            raise LedgerClosed(
                "this ledger is a copy (pickled, deep-copied or inherited through fork) and "
                "cannot spend: two copies would spend the same budget twice. Charge the original, "
                "or keep the budget in a file with Ledger.open(path, total)."
            )
        return self._lock

    def _settle(self, cost: tuple[int, ...], entry: Entry) -> None:
        self._spent = self._after(cost, entry)
        self._entries.append(entry)

    # -- arithmetic

    def _after(self, cost: tuple[int, ...], entry: Entry) -> tuple[int, ...]:
        """The spent amount after a charge, or BudgetExceeded."""
        after: tuple[int, ...]
        if len(cost) == 1:  # of most ledgers, and charged in every step
            after = (self._spent[0] + cost[0],)
            fits = after[0] <= self._limit[0]
        else:
            after = tuple(map(int.__add__, self._spent, cost))
            fits = all(map(int.__le__, after, self._limit))
        if fits:
            return after
        left = tuple(limit - used for limit, used in zip(self._limit, self._spent, strict=True))
        equal = "" if entry.charged == entry.spend else f" (that is, {entry.charged!r})"
        raise BudgetExceeded(
            f"the charge for {entry.label!r} does not fit: total {self._total!r}, spent "
            f"{self._as_budget(self._spent, up=True)!r}, requested {entry.spend!r}{equal}, "
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


def _copy_of(total: Budget, spent: tuple[int, ...], entries: tuple[Entry, ...]) -> Ledger:
    ledger = Ledger(total)
    ledger._spent = spent
    ledger._entries = list(entries)
    ledger._copied = True
    return ledger


# ---- a ledger in a file -------------------------------------------------------------------------

_KINDS: dict[str, type[Budget]] = {kind.__name__: kind for kind in (GDP, ZCDP, PureDP, ApproxDP)}


def _encode(budget: Budget) -> list[str]:
    return [type(budget).__name__, *(value.hex() for value in budget.values())]


def _decode(code: list[str]) -> Budget:
    return amount(_KINDS[code[0]], *(float.fromhex(value) for value in code[1:]))


class _FileLedger(Ledger):
    """Append-only JSON lines: a header with the total, then one line per charge.

    A line counts once its newline is there.  A last line without one belongs to a charge that
    was interrupted before it returned, so nothing was released on its account; it is cut off.
    Any other line that cannot be read means the file is not to be trusted: nothing is spent.
    """

    def __init__(self, path: str, total: Budget | None) -> None:
        self._path = os.path.abspath(path)
        descriptor = self._lock_file(create=True)
        try:
            content, end = self._read(descriptor, 0)
            if content:
                found = self._header(content[0])
                if total is not None and total != found:
                    raise InvalidBudget(
                        f"the ledger {self._path!r} has the total {found!r}, not {total!r}. Pass "
                        "that total, or none to accept the file's."
                    )
                total = found
            elif total is None:
                raise InvalidBudget(
                    f"the ledger {self._path!r} is new and needs a total. Pass one, for example "
                    "Ledger.open(path, GDP(1.0))."
                )
            else:
                header = {
                    "dpfast ledger": 1,
                    "total": _encode(total),
                    "created": time.time_ns(),  # tells this ledger from a later one at its path
                }
                end = self._append(descriptor, header)
                content = [os.pread(descriptor, end, 0)]
                _sync_directory(self._path)
            super().__init__(total)
            self._first_line = content[0].rstrip(b"\n") + b"\n"
            self._offset = end
            self._take(content[1:])
        finally:
            os.close(descriptor)

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        return Ledger.open, (self._path, self._total)

    def _current(self) -> tuple[tuple[int, ...], list[Entry]]:
        with self._own_lock():
            descriptor = self._lock_file()
            try:
                self._catch_up(descriptor)
            finally:
                os.close(descriptor)
            return self._spent, list(self._entries)

    def _own_lock(self) -> threading.Lock:
        if self._process != os.getpid():  # a lock held by a thread that fork left behind
            self._lock = threading.Lock()
            self._process = os.getpid()
        return self._lock

    def _settle(self, cost: tuple[int, ...], entry: Entry) -> None:
        descriptor = self._lock_file()
        try:
            self._catch_up(descriptor)
            after = self._after(cost, entry)
            line = {
                "label": entry.label,
                "spend": _encode(entry.spend),
                "charged": _encode(entry.charged),
            }
            self._offset = self._append(descriptor, line)
            self._spent = after
            self._entries.append(entry)
        finally:
            os.close(descriptor)

    def _lock_file(self, create: bool = False) -> int:
        """Open the file and lock it against every other opening of it; closing unlocks."""
        import fcntl

        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            raise LedgerCorrupted(
                f"the ledger file {self._path!r} is gone (or its directory does not exist). What "
                "was spent from it cannot be known, so nothing more may be spent."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _catch_up(self, descriptor: int) -> None:
        if os.pread(descriptor, len(self._first_line), 0) != self._first_line:
            raise self._corrupted("it was replaced by another file")
        lines, self._offset = self._read(descriptor, self._offset)
        self._take(lines)

    def _read(self, descriptor: int, start: int) -> tuple[list[bytes], int]:
        """Complete lines from ``start`` on, and where they end; an incomplete one is cut off."""
        size = os.fstat(descriptor).st_size
        if size < start:
            raise self._corrupted("it became shorter")
        data = b""
        while len(data) < size - start:
            part = os.pread(descriptor, size - start - len(data), start + len(data))
            if not part:
                raise self._corrupted("it became shorter")
            data += part
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            os.ftruncate(descriptor, start + len(complete))
        return complete.splitlines(), start + len(complete)

    def _append(self, descriptor: int, content: Mapping[str, object]) -> int:
        import json

        line = json.dumps(content).encode() + b"\n"
        end = os.lseek(descriptor, 0, os.SEEK_END)
        if os.write(descriptor, line) != len(line):
            raise OSError(f"could not write a whole line to the ledger {self._path!r}")
        os.fsync(descriptor)
        return end + len(line)

    def _header(self, line: bytes) -> Budget:
        import json

        try:
            content = json.loads(line)
            if content["dpfast ledger"] != 1:
                raise ValueError
            return _decode(content["total"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise self._corrupted("its first line is not the header of a ledger") from None

    def _take(self, lines: list[bytes]) -> None:
        import json

        for line in lines:
            try:
                content = json.loads(line)
                charged, spend = _decode(content["charged"]), _decode(content["spend"])
                label = content["label"]
                if type(charged) is not self._currency or not isinstance(label, str):
                    raise ValueError
                cost = _cost(self._power, *charged.values())
            except (ValueError, KeyError, TypeError, IndexError, OverflowError):
                raise self._corrupted(f"line {line[:80]!r} is not a charge") from None
            self._spent = tuple(map(int.__add__, self._spent, cost))
            self._entries.append(Entry(label, spend, charged))

    def _corrupted(self, reason: str) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"the ledger file {self._path!r} cannot be trusted: {reason}. What was spent from it "
            "cannot be known, so nothing more may be spent. Restore the file from a backup that "
            "is not older than the last release."
        )


def _sync_directory(path: str) -> None:
    """Make the creation of a file durable."""
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
