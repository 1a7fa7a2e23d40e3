"""A ledger in a file, shared by processes and kept through crashes: claim C10 of PROOFS.md.

Append-only JSON lines: a header with the total, then one line per charge, and one for what a run
returned of its reservation (claim C95).  A last line that is cut short belongs to a charge that
never returned, or to a return that is lost, and is removed; anything else not as written is damage.
Each line ends with a check, a digest of it and of the check before it: a changed digit is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from itertools import chain, islice, repeat
from typing import Any, NamedTuple, TypeVar

from dpfast.errors import (
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    LedgerCorrupted,
    LedgerUnavailable,
)
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, amount, as_budget
from dpfast.privacy.ledger.book import (
    Ledger,
    Reserved,
    Returned,
    _Charge,
    _Line,
    _refuse_again,
    may_return,
)
from dpfast.privacy.ledger.process import this_process
from dpfast.privacy.noise import random_name

_T = TypeVar("_T")

#: Beginning of every ledger; other files are not read any further.
_BEGINNING = b'{"dpfast ledger": 4, "total": ["'

#: Beginning of older ledgers, to which nothing is returned: their versions could not read it.
_WITHOUT_RETURNS = b'{"dpfast ledger": 3, "total": ["'

#: Beginning of still older ledgers, whose lines have no checks; new lines have none, either.
_WITHOUT_CHECKS = b'{"dpfast ledger": 2, "total": ["'

#: Text before the check of a line; its hexadecimal digits, a quote and a brace end the line.
_CHECK = b', "check": "'

#: Beginnings of every line of a charge, and of a return.
_BEGINNINGS_OF_LINES = b'{"label": "', b'{"returned": ["GDP", "'

#: Exceptions while a line is parsed that is not a header or a charge.
_UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip

_KINDS: dict[str, type[Budget]] = {kind.__name__: kind for kind in (GDP, ZCDP, PureDP, ApproxDP)}

#: Locked while a ledger's file is open, and during every fork.  A child therefore inherits no open
#: file of another thread, and no lock of a charge that it would never release.
_while_open = threading.RLock()


#: Seconds between two attempts to lock a file that another process has locked: as long as most
#: charges take, then less and less often.
_PAUSES = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01)

#: Seconds to wait for a lock.  A ledger locks for milliseconds, so a longer lock is not its work.
_PATIENCE = 60.0


class _Here(threading.local):
    """The file that this thread has open, and descriptors of folders."""

    file: FileIO | None = None

    def __init__(self) -> None:
        self.folders: list[int] = []


_here = _Here()


def _in_child() -> None:
    """Drop locks and close the parent's open file in a child."""
    _while_open._at_fork_reinit()  # type: ignore[attr-defined]
    if _here.file is not None:
        _here.file.close()


os.register_at_fork(
    before=_while_open.acquire,
    after_in_parent=_while_open.release,
    after_in_child=_in_child,
)

#: New files are their owner's alone.  In C, so that no interrupt can lose a descriptor in it.
_private = partial(os.open, mode=0o600)


class _Busy(Exception):
    """Another process has the lock of the file, or another file is at its path by now."""


class _Seen(NamedTuple):
    """Identity and times of a file: every write to it changes them."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class _Known(NamedTuple):
    """State of a handle: how much of its file it has read; replaced in one atomic step."""

    length: int
    count: int  # type: ignore[assignment]
    spent: tuple[int, ...]
    check: bytes | None  # of the last line; None in a ledger without checks
    seen: _Seen | None = None  # as this handle's last charge left it


class _Head(NamedTuple):
    """Length of the file when a copy was made, and a digest of its content."""

    length: int
    digest: str


class FileLedger(Ledger):
    """A ledger kept in a file, made by :meth:`Ledger.open`."""

    def __init__(
        self, path: str, total: Budget | None, apart: Any = None, head: _Head | None = None
    ) -> None:
        self._path = os.path.abspath(path)
        self._refusal: str | None = None
        if head is None:
            self._create_if_new(total, apart)
        content = self._at_file("rb", fcntl.LOCK_SH, self._content)
        if head is not None and _head(content[: head.length]) != head:
            raise self._refuse("it is another file, or became shorter, or was changed")
        header = content[: content.find(b"\n") + 1]
        try:
            check = None if header.startswith(_WITHOUT_CHECKS) else _check_of(header[:-1], b"")
            fields = json.loads(header.decode())
            if check is None and "check" in fields:
                raise ValueError
            file_total, file_apart = _positive(fields["total"]), fields.get("apart")
            file_apart = None if file_apart is None else _positive(file_apart)
            super().__init__(file_total, file_apart)
        except _UNREADABLE:
            raise self._refuse("its first line is not a whole header of a ledger") from None
        if total is not None and total != file_total:
            raise InvalidBudget(
                f"the ledger {self._path!r} has the total {file_total!r}, not {total!r}. Pass that "
                "total, or none to accept the file's."
            )
        if apart is not None and as_budget(apart) != file_apart:
            raise InvalidBudget(
                f"the ledger {self._path!r} keeps {file_apart!r} apart, not {apart!r}. Pass that, "
                "or none to accept the file's."
            )
        self._bytes = bytearray(header)
        self._has_returns = header.startswith(_BEGINNING)
        self._lines: list[_Line] = []
        self._known = _Known(len(header), 0, self._spent, check)
        self._take(content)

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        if self._refusal is not None:
            raise LedgerCorrupted(self._refusal)
        return FileLedger, (self._path, None, None, _head(self._bytes[: self._known.length]))

    # -- what differs from a ledger in memory

    @property
    def identity(self) -> str:
        header, _, _ = self._bytes.partition(b"\n")
        return hashlib.sha256(header).hexdigest()[:32]

    @property
    def _takes_returns(self) -> bool:
        return self._has_returns and super()._takes_returns

    def _current(self) -> tuple[tuple[int, ...], Iterable[_Line]]:
        if _inside() and self._refusal is None:  # a signal handler's look: as it was last seen
            known = self._known
        else:
            known = self._at_file("rb", fcntl.LOCK_SH, self._read)
        return known.spent, islice(self._lines, known.count)

    def _refuse_copies(self) -> None:
        """Do nothing: copies open the file again."""

    def _settle(self, charges: Sequence[_Charge], once: str = "") -> None:
        self._at_file("r+b", fcntl.LOCK_EX, partial(self._append, charges, once))

    # -- with the file open and locked

    def _append(self, charges: Sequence[_Charge], once: str, file: FileIO) -> None:
        known = self._read(file)
        if once or type(charges[0][1]) is Returned:
            _refuse_again(once, charges[0][1], self._lines[: known.count])
        after, granted = self._after(known.spent, charges)
        line, check = _line(_fields(granted), known.check)
        end = known.length
        if known.seen is None:  # the last line may lack its newline, or have a zero in its place
            file.seek(end - 1)
            end -= file.read(1) != b"\n"
        if file.seek(0, os.SEEK_END) > end:  # what an interrupted charge left of its line
            file.truncate(end)
            file.seek(end)
        _write(file, b"\n" * (end < known.length) + line)
        if known.seen is None:  # who created the file may have ended before its name was on disk
            _sync_directory(os.path.dirname(self._path))
        if _is_elsewhere(self._path, file):
            raise self._refuse("another file replaced it during a charge, which was not granted")
        self._learn(line, [granted], after, check, _stamped(file))

    def _read(self, file: FileIO) -> _Known:
        """Return the file's content; skip reading while this handle alone writes to it."""
        known = self._known
        if known.seen is not None and known.seen == _seen(file):
            return known
        return self._take(self._content(file))

    def _learn(
        self,
        content: bytes,
        entries: list[_Line],
        spent: tuple[int, ...],
        check: bytes | None,
        state: _Seen | None,
    ) -> None:
        """Record how the file goes on.  An interrupt before the last line changes nothing."""
        known = self._known
        self._bytes[known.length :] = content
        self._lines[known.count :] = entries
        length, count = known.length + len(content), known.count + len(entries)
        self._known = _Known(length, count, spent, check, state)

    def _content(self, file: FileIO) -> bytes:
        """Read the whole file, and add the newline that a whole last line may lack."""
        begins = file.read(len(_BEGINNING))
        if begins not in (_BEGINNING, _WITHOUT_RETURNS, _WITHOUT_CHECKS):
            raise self._refuse("it does not begin with the header of a ledger")
        file.seek(0)
        content = file.readall()
        line_start = content.rfind(b"\n") + 1
        if line_start in (0, len(content)) or _is_torn(content[line_start:]):
            return content
        return _without_zeros(content) + b"\n"

    def _take(self, content: bytes) -> _Known:
        """Accept the current content of the file, all of it or nothing."""
        known = self._known
        del self._bytes[known.length :]
        if not content.startswith(self._bytes):
            raise self._refuse(_difference(bytes(self._bytes), content))
        end = content.rfind(b"\n") + 1
        spent, check, entries = known.spent, known.check, list[_Line]()
        for line in content[known.length : end].split(b"\n")[:-1]:
            try:
                check = None if check is None else _check_of(line, check)
                entry = _entry(line)
                cost = self._cost_of_line(entry, entries)
            except _UNREADABLE:
                number = known.count + len(entries) + 2
                raise self._refuse(f"line {number} is not a charge as it was written") from None
            after = self._added(spent, cost)
            if after is None:
                raise self._refuse("more was charged than its total")
            spent = after
            entries.append(entry)
        self._learn(content[known.length : end], entries, spent, check, None)
        return self._known

    def _cost_of_line(self, line: _Line, new: list[_Line]) -> tuple[int, ...]:
        """Return what a line adds to the sums; ValueError if nobody here wrote such a line."""
        if isinstance(line, Returned):
            before = self._lines[: self._known.count] + new
            if not (self._takes_returns and may_return(line, before[::-1])):
                raise ValueError
            return tuple([-part for part in self._cost_of(line.amount)])
        charged = line[2]
        if type(charged) not in (self._currency, GDP)[: 1 + self.keeps_apart]:
            raise ValueError
        if type(line) is Reserved and not (self._takes_returns and type(charged) is GDP):
            raise ValueError
        return self._cost_of(charged)

    # -- opening it

    def _at_file(self, mode: str, lock: int, work: Callable[[FileIO], _T]) -> _T:
        """Call ``work`` with the open file, locked against all other processes."""
        if self._refusal is not None:
            raise LedgerCorrupted(self._refusal)
        if not os.path.isfile(self._path):  # to open anything else might block, or do something
            raise self._refuse("it is gone (or its directory is)")
        process = this_process()
        with _as_ours(self._path):
            try:
                result = _locked(self._path, mode, lock, work)
            except FileNotFoundError:  # by now
                raise self._refuse("it is gone (or its directory is)") from None
            except (OSError, ValueError):  # in a child, the file is closed
                if process is this_process():
                    raise
        if process is not this_process():
            raise LedgerClosed(
                "this process was forked while the ledger's file was open: what was asked for is "
                "answered, and a charge granted, in the parent only. Ask again."
            )
        return result

    def _create_if_new(self, total: Budget | None, apart: Any) -> None:
        """Write a header if the file is missing or empty."""
        if os.path.exists(self._path):
            if not os.path.isfile(self._path):
                raise InvalidInput(
                    f"a ledger is kept in a regular file; {self._path!r} is none (a directory, a "
                    "pipe or a device). Give the path of a file, or of one that is to be created."
                )
            if os.path.getsize(self._path) > 0:
                return
        elif os.path.islink(self._path):
            raise InvalidInput(
                f"{self._path!r} is a link that leads nowhere, and a ledger is not created where "
                "it may lead. Give the path of a file, or of one that is to be created."
            )
        elif not os.path.isdir(os.path.dirname(self._path)):
            raise InvalidInput(
                f"there is no directory for the ledger {self._path!r}. Create it first."
            )
        if total is None:
            raise InvalidBudget(
                f"the ledger {self._path!r} is new and needs a total. Pass one, for example "
                "Ledger.open(path, GDP(1.0))."
            )
        total = _positive(_code(total))
        Ledger(total, apart)  # refuses what is no part of it
        header = {
            "dpfast ledger": 4,
            "total": _code(total),
            **({} if apart is None else {"apart": _code(as_budget(apart))}),
            "created": time.time_ns(),
            "id": random_name(),  # tells this ledger from a later one at its path
        }
        with _as_ours(self._path):
            _locked(self._path, "ab", fcntl.LOCK_EX, partial(_begin, _line(header, b"")[0]))

    def _refuse(self, reason: str) -> LedgerCorrupted:
        """Make the exception to raise, now and from now on."""
        self._refusal = (
            f"the ledger file {self._path!r} cannot be trusted: {reason}. What was spent from it "
            "cannot be known, so nothing more may be spent, and the file is left as it is. Restore "
            "it from a backup that is not older than the last release, and open it again."
        )
        return LedgerCorrupted(self._refusal)


def _locked(path: str, mode: str, lock: int, work: Callable[[FileIO], _T]) -> _T:
    """Lock the file and work on it, in repeated attempts: to wait inside would block forks."""
    process, started = this_process(), time.monotonic()
    pauses = chain(_PAUSES, repeat(_PAUSES[-1]))
    while True:
        with suppress(_Busy):
            return _locked_at_once(path, mode, lock, work, process)
        if time.monotonic() - started > _PATIENCE:
            raise LedgerUnavailable(
                f"the ledger {path!r} has been locked by another process for {_PATIENCE:g} "
                "seconds, where a charge takes milliseconds: that process was stopped, or is no "
                "dpfast (one that only reads can hold the lock, too). Nothing was spent. Find it "
                "(lslocks lists who holds which file), let it go on or end it, and ask again."
            )
        time.sleep(next(pauses))


def _locked_at_once(
    path: str, mode: str, lock: int, work: Callable[[FileIO], _T], process: object
) -> _T:
    """Open, lock, work, close: wherever an interrupt falls, nothing stays open or locked."""
    _refuse_inside()
    try:
        try:
            _while_open.acquire()
            with FileIO(path, mode, opener=_private) as file:
                return _locked_file(path, file, lock, work, process)
        finally:
            _release()
    finally:
        _release()


def _inside() -> bool:
    """Tell whether this thread is using a ledger in a file already, further up its stack."""
    return bool(_while_open._is_owned())  # type: ignore[attr-defined]


def _refuse_inside() -> None:
    if _inside():  # it would wait for itself
        raise LedgerClosed(
            "a ledger in a file was used by a signal handler (or a finaliser) that interrupted a "
            "use of one in the same thread. Nothing was spent. Use it after the handler returned."
        )


def _locked_file(
    path: str, file: FileIO, lock: int, work: Callable[[FileIO], _T], process: object
) -> _T:
    """Lock and work.  A function of its own: a ``try`` within a ``with`` begins unprotected."""
    try:
        _register(file, process)
        try:
            fcntl.flock(file, lock | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _Busy from None
        if _is_elsewhere(path, file):  # a charge of it would be seen by nobody else
            raise _Busy
        return work(file)
    finally:
        file.close()


def _register(file: FileIO, process: object) -> None:
    """Remember the open file, so that a child closes it."""
    _here.file = file
    if process is not this_process():
        file.close()


def _release() -> None:
    _here.file, folders = None, _here.folders
    list(map(os.close, map(list.pop, [folders] * len(folders))))  # one call in C: never twice
    if _inside():  # not if it is released already, or was interrupted while it waited
        with suppress(RuntimeError):  # a child that a signal handler forked here has a new lock
            _while_open.release()


def _is_elsewhere(path: str, file: FileIO) -> bool:
    """Tell whether the path now leads to another file, or to none."""
    try:
        return not os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True


@contextmanager
def _as_ours(path: str) -> Iterator[None]:
    """Turn an error of the system into one with the ledger's name and its consequence."""
    try:
        yield
    except LedgerUnavailable:
        raise
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger {path!r} could not be opened, read or written "
            f"({error.strerror or error}). What was asked for was not granted; if the whole line "
            "of a charge was written before that, it counts as spent. Make it a file that this "
            "user may read and write, on a disk that has room, and ask again."
        ) from error


def _begin(header: bytes, file: FileIO) -> None:
    """Make an empty file a ledger."""
    if file.seek(0, os.SEEK_END):  # another process was first
        return
    try:
        _write(file, header)
    except BaseException:
        file.truncate(0)
        raise
    _sync_directory(os.path.dirname(os.fsdecode(file.name)))


def _write(file: FileIO, line: bytes) -> None:
    """Append a line, durably.  The next charge removes an incomplete one, which does not count."""
    if file.write(line) != len(line):
        raise OSError("there is no room for the whole line")
    os.fsync(file.fileno())


def _seen(file: FileIO) -> _Seen:
    status = os.fstat(file.fileno())
    return _Seen(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _stamped(file: FileIO) -> _Seen | None:
    """Give a file that was just written a time of its own, to know it by; None if that failed."""
    now = time.time_ns()
    try:
        os.utime(file.fileno(), ns=(now, now))
    except OSError:  # only its owner may
        return None
    state = _seen(file)
    return state if state.modified == now else None


def _sync_directory(path: str) -> None:
    """Make the creation of a file durable; :func:`_release` closes the directory."""
    _here.folders.extend(map(os.open, [path], [os.O_RDONLY]))  # one call in C: nothing is lost
    os.fsync(_here.folders[-1])


def _line(content: Mapping[str, object], before: bytes | None) -> tuple[bytes, bytes | None]:
    """Write a line, and its check where the line before it has one."""
    body = json.dumps(content).encode()[:-1]
    if before is None:
        return body + b"}\n", None
    check = _digest(before, body)
    return body + _CHECK + check + b'"}\n', check


def _digest(before: bytes, body: bytes) -> bytes:
    """Digest a line's content and the check of the line before it."""
    return hashlib.sha256(before + body).hexdigest()[:16].encode()


def _check_of(line: bytes, before: bytes) -> bytes:
    """Return the check at the end of a line; refuse one that its content does not have."""
    body, _, end = line.rpartition(_CHECK)
    check = _digest(before, body)
    if end.rstrip() != check + b'"}':
        raise ValueError
    return check


def _without_zeros(content: bytes) -> bytes:
    """Drop what a system that fell may leave for what it did not write."""
    return content.rstrip(b"\0")


def _is_torn(line: bytes) -> bool:
    """Tell whether this is the beginning of a line as they are written, without a whole one."""
    written = _without_zeros(line)
    if not any(
        written.startswith(begin) or begin.startswith(written) for begin in _BEGINNINGS_OF_LINES
    ):
        return False
    try:
        json.JSONDecoder().raw_decode(written.decode(errors="replace"))
    except _UNREADABLE:
        return True
    return False


def _fields(line: _Line) -> dict[str, object]:
    """Return the content of a line."""
    if isinstance(line, Returned):
        return {"returned": _code(line.amount), "reservation": line.mark}
    label, spend, charged = line[:3]
    fields: dict[str, object] = {"label": label, "spend": _code(spend), "charged": _code(charged)}
    return fields | ({"reservation": line.mark} if type(line) is Reserved else {})


def _entry(line: bytes) -> _Line:
    """Read a line as it was written."""
    content = json.loads(line.decode())
    mark = content.get("reservation")
    if "returned" in content:
        return Returned(_text(mark), _decode(content["returned"]))
    charge = _text(content["label"]), _decode(content["spend"]), _decode(content["charged"])
    return charge if mark is None else Reserved(*charge, _text(mark))


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError
    return value


def _code(budget: Budget) -> list[str]:
    return [type(budget).__name__, *(value.hex() for value in budget.values())]


def _decode(code: list[str]) -> Budget:
    kind, *numbers = code
    return as_budget(amount(_KINDS[kind], *map(float.fromhex, numbers)))


def _positive(code: list[str]) -> Budget:
    budget = _decode(code)
    return type(budget)(*budget.values())  # refuses zero, which can only be computed


def _head(content: bytes | bytearray) -> _Head:
    return _Head(len(content), hashlib.sha256(content).hexdigest())


def _difference(before: bytes, now: bytes) -> str:
    """Describe how a file that should begin with ``before`` was changed."""
    if before.startswith(now):
        return "it became shorter"
    header = before[: before.find(b"\n") + 1]
    return "lines were changed" if now.startswith(header) else "it was replaced by another file"
