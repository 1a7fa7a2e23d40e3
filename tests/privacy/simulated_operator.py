"""Histories of a ledger, a search and saved results on a disk that fails, tears, and is killed.

Below the ledger, the writer of documents and the state of a search stands one shim.  By a seed,
each system call works, fails, is cut short, or kills the process before or after it.  Then the
power may fail, too, which loses what was not synchronised.  Memory may be short at any line of what
writes.  A model, the list of granted charges, says what must be true.

    python -m tests.privacy.simulated_operator 5000 --seed 7     histories from this seed on
"""

from __future__ import annotations

import argparse
import builtins
import errno
import fcntl
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import dpfast
from dpfast import documents
from dpfast.bayesopt import Tuner, state
from dpfast.errors import (
    BudgetExceeded,
    DpfastError,
    LedgerClosed,
    LedgerCorrupted,
    LedgerUnavailable,
)
from dpfast.privacy.ledger import file as ledger_file
from tests.twins.searches import settled

__all__ = ["History", "Outcome", "run"]

VALUES = np.linspace(0.0, 1.0, 40)

#: Where memory can be short: what writes ledgers, documents and the state of a search.
WRITERS = (str(Path(ledger_file.__file__).parent), documents.__file__, state.__file__)
#: Lines of these that one charge, save or step of a search runs, about.
LINES = 500


class Killed(BaseException):
    """The simulated process ends here."""


class Outcome(NamedTuple):
    """What a history showed, for tests that look whether faults of every kind occurred."""

    seed: int
    granted: int
    refused: int
    unclear: int
    kills: int
    power_cuts: int
    faults: int
    saved: int
    arrived: int
    short: int = 0
    steps: int = 0


class Disk:
    """A folder, what of each file is certainly on the disk, and the faults that a seed chooses."""

    def __init__(self, folder: Path, chance: random.Random, rate: float) -> None:
        self.folder, self.chance, self.rate = folder, chance, rate
        self.durable: dict[str, bytes] = {}
        #: Names that are on the disk, as their folder was synchronised.
        self.named: set[str] = set()
        self.kills = self.power_cuts = self.faults = 0
        self.armed = False

    def call(self, work: Callable[[], Any]) -> Any:
        """Make a system call, or fail, or be killed before or after it."""
        if not self.armed or self.chance.random() > self.rate:
            return work()
        kind = self.chance.choice(("fail", "kill before", "kill after"))
        if kind == "fail":
            self.faults += 1
            code = self.chance.choice((errno.EIO, errno.ENOSPC))
            raise OSError(code, os.strerror(code))
        if kind == "kill after":
            work()
        self.kills += 1
        raise Killed

    def write(self, write: Callable[[bytes], int], content: bytes) -> int:
        """Write all of it, or a part and then no more, or a part and then nothing ever."""
        content = bytes(content)
        if not self.armed or self.chance.random() > self.rate:
            return write(content)
        part = content[: self.chance.randrange(len(content) + 1)]
        kind = self.chance.choice(("short", "full", "kill"))
        if part:
            write(part)
        if kind == "short":
            self.faults += 1
            return len(part)
        if kind == "full":
            self.faults += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.kills += 1
        raise Killed

    def sync(self, descriptor: int) -> None:
        """Synchronise: what the file holds now is on the disk."""

        def work() -> None:
            os.fsync(descriptor)
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.isfile(name):
                self.durable[name] = Path(name).read_bytes()
            else:
                self.named = {str(path) for path in self.folder.iterdir()}

        self.call(work)

    def cut_the_power(self) -> None:
        """Lose what was not synchronised: all of it, a part, or with zeros in its place."""
        self.power_cuts += 1
        for path in self.folder.iterdir():
            now, kept = path.read_bytes(), self.durable.get(str(path), b"")
            if str(path) not in self.named and path.suffix == ".ledger":
                path.unlink()  # its name was never on the disk
                self.durable.pop(str(path), None)
                continue
            if now == kept:
                continue
            if now.startswith(kept):
                rest = now[len(kept) :]
                cut = self.chance.randrange(len(rest) + 1)
                zeros = b"\0" * (len(rest) - cut) if self.chance.random() < 0.3 else b""
                now = kept + rest[:cut] + zeros
            elif self.chance.random() < 0.5:
                now = kept  # cut short and written again, none of which was synchronised
            path.write_bytes(now)


class _Os:
    """The module ``os`` with the calls that can fail."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        self._disk.sync(descriptor)

    def stat(self, *arguments: Any, **options: Any) -> Any:
        return self._disk.call(lambda: os.stat(*arguments, **options))

    def utime(self, *arguments: Any, **options: Any) -> None:
        self._disk.call(lambda: os.utime(*arguments, **options))

    def replace(self, old: str, new: str, **options: Any) -> None:
        """Move a name, which takes along what of the file is on the disk."""

        def work() -> None:
            os.replace(old, new, **options)
            folder, durable = str(self._disk.folder), self._disk.durable
            durable[os.path.join(folder, new)] = durable.pop(os.path.join(folder, old), b"")

        self._disk.call(work)


class _Fcntl:
    """The module ``fcntl``, whose lock can fail."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(fcntl, name)

    def flock(self, *arguments: Any) -> None:
        self._disk.call(lambda: fcntl.flock(*arguments))


@contextmanager
def below(disk: Disk) -> Iterator[None]:
    """Put the disk below the ledger and the writer of documents."""

    class File(FileIO):
        def write(self, content: Any) -> int:
            return disk.write(super().write, content)

        def truncate(self, size: int | None = None) -> int:
            return int(disk.call(lambda: FileIO.truncate(self, size)))

        def readall(self) -> bytes:
            return bytes(disk.call(lambda: FileIO.readall(self)))

    class Draft:
        """A new document, whose writes can be cut short; a buffered file then raises."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Draft:
            return self

        def __exit__(self, *error: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, content: bytes) -> int:
            count = disk.write(self._file.write, content)
            if count != len(content):  # a buffered file writes the rest, or raises
                self._file.write(bytes(content)[count:])
            return len(content)

    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        found = builtins.open(file, mode, *arguments, **options)  # noqa: SIM115
        return Draft(found) if mode == "wb" else found

    shim, before = _Os(disk), (ledger_file.FileIO, ledger_file.os, ledger_file.fcntl, documents.os)
    vars(ledger_file).update(FileIO=File, os=shim, fcntl=_Fcntl(disk))
    vars(documents).update(os=shim, open=opened)
    vars(state).update(os=shim)
    try:
        yield
    finally:
        ledger_file.FileIO, ledger_file.os, ledger_file.fcntl, documents.os = before
        vars(state).update(os=os)
        del documents.open  # type: ignore[attr-defined]


@contextmanager
def short_of_memory(line: int) -> Iterator[list[int]]:
    """Fail an allocation at this line, counted over all that the writers run; 0 for none."""
    left, failed = [line], list[int]()

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        left[0] -= event == "line"
        if not left[0] and not failed:
            failed.append(frame.f_lineno)
            raise MemoryError
        return inside

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if not failed and frame.f_code.co_filename.startswith(WRITERS) else None

    before = sys.gettrace()
    if line:
        sys.settrace(called)
    try:
        yield failed
    finally:
        sys.settrace(before)


class History:
    """Some processes of an office that charge one ledger and save results, by a seed."""

    def __init__(
        self, folder: Path, seed: int, *, rate: float = 0.06, steps: int = 14,
        memory: float = 0.0, search: float = 0.0,
    ) -> None:  # fmt: skip
        self.seed, self.steps = seed, steps
        self.chance = random.Random(seed)
        self.disk = Disk(folder, self.chance, rate)
        self.path, self.result = folder / "office.ledger", folder / "result.json"
        #: What was granted to somebody, in order, and what a failure left unclear.
        self.granted: list[str] = []
        self.unclear: set[str] = set()
        self.refused = self.saved = 0
        #: Quantiles that arrived, and charges of others that a failure left unclear.
        self.arrived = self.may_be_paid = 0
        self.handles: list[dpfast.Ledger] = []
        #: The last document that was certainly saved, and those that may have been since.
        self.document, self.maybe = b"", list[bytes]()
        #: Shares of acts in which memory is short, and that are steps of a search.
        self.memory, self.share, self.more = memory, search, random.Random(~seed)
        self.search: Tuner | None = None
        self.search_path = folder / "search"
        self.short = self.steps_told = self.steps_maybe = 0

    def run(self) -> Outcome:
        """Play the history; raise AssertionError where it breaks a promise."""
        with below(self.disk):
            for step in range(self.steps):
                self.disk.armed = True
                scarce = self.more.random() < self.memory
                try:
                    with short_of_memory(self.more.randrange(1, LINES) if scarce else 0) as failed:
                        self._act(step)
                except (MemoryError, DpfastError):
                    if not failed:  # else the act is unclear, and the process goes on
                        raise
                except Killed:
                    self.handles.clear()  # what the process knew is gone
                    self.search = None
                    if self.chance.random() < 0.5:
                        self.disk.cut_the_power()
                finally:
                    self.disk.armed = False
                    self.short += len(failed)
                self._look()
        disk = self.disk
        return Outcome(
            self.seed, len(self.granted), self.refused, len(self.unclear), disk.kills,
            disk.power_cuts, disk.faults, self.saved, self.arrived, self.short, self.steps_told,
        )  # fmt: skip

    def _act(self, step: int) -> None:
        if self.more.random() < self.share:
            self._step_of_a_search()
            return
        if self.chance.random() < 0.25:
            self._save(step)
            return
        if not self.handles or self.chance.random() < 0.3:
            try:
                self.handles.append(dpfast.Ledger.open(self.path, dpfast.GDP(1.0)))
            except LedgerUnavailable:
                return  # named, and nothing was asked
            except LedgerCorrupted:  # a header that was cut short: nothing was ever granted
                assert not self.granted
                self.path.unlink()
                return
        ledger = self.chance.choice(self.handles)
        if self.chance.random() < 0.15:
            self._analyse(ledger)
        else:
            self._charge(ledger, f"charge {step} of {self.seed}")

    def _analyse(self, ledger: dpfast.Ledger) -> None:
        """Ask for a quantile: what was paid for arrives, or the exception names it."""
        self.may_be_paid += 1
        try:
            found = dpfast.private_quantiles(
                VALUES, [0.5], low=0.0, high=1.0, privacy=0.2, steps=2, ledger=ledger,
                noise=dpfast.SeededNoise(self.seed),
            )  # fmt: skip
        except LedgerUnavailable as error:
            self._has_to_name(error)
        except (BudgetExceeded, LedgerClosed, LedgerCorrupted):
            self.may_be_paid -= 1
        else:
            assert 0.0 <= found[0] <= 1.0
            self.may_be_paid -= 1
            self.arrived += 1

    def _step_of_a_search(self) -> None:
        """Create or resume a search, and tell it one step: paid once, and known after it."""
        try:
            if self.search is None:
                self.search = Tuner(**settled({
                    "bounds": [(-1.0, 1.0)], "privacy": 1.0, "n_records": len(VALUES), "clip": 8.0,
                    "steps": 3, "path": str(self.search_path), "noise": dpfast.SeededNoise(3),
                }))  # fmt: skip
            if self.search.done:
                self.search = None
                return
            losses = [(VALUES - theta.sum()) ** 2 for theta in self.search.ask()]
            self.steps_maybe += 1
            self.search.tell(losses)
        except (OSError, DpfastError):
            self.search = None  # named: the next one resumes from the files
        except MemoryError:
            self.search = None
        else:
            self.steps_maybe -= 1
            self.steps_told += 1

    def _charge(self, ledger: dpfast.Ledger, label: str) -> None:
        self.unclear.add(label)
        try:
            ledger.charge(dpfast.GDP(self.chance.choice((0.2, 0.3, 0.4))), label)
        except BudgetExceeded:
            self.unclear.discard(label)
            self.refused += 1
        except LedgerUnavailable as error:
            self._has_to_name(error)
        except (LedgerClosed, LedgerCorrupted):
            # a handle that knew of a line which the power took with it refuses from then on
            self.unclear.discard(label)
            self.handles.remove(ledger)
        else:
            self.unclear.discard(label)
            self.granted.append(label)

    def _has_to_name(self, error: LedgerUnavailable) -> None:
        assert "counts as spent" in str(error) or "Nothing was spent" in str(error)

    def _save(self, step: int) -> None:
        content = f"result {step} of {self.seed} ".encode() * self.chance.randrange(1, 400)
        self.maybe.append(content)
        try:
            documents.write_document(self.result, content)
        except OSError:
            return  # named; the old document stands
        self.document, self.maybe, self.saved = content, [], self.saved + 1

    def _look(self) -> None:
        """Compare the disk with the model."""
        self._look_at_the_search()
        found = self.result.read_bytes() if self.result.exists() else b""
        assert found in (self.document, *self.maybe), f"seed {self.seed}: a torn document"
        if not self.path.exists() or not self.path.stat().st_size:
            assert not self.granted and not self.arrived, f"seed {self.seed}: the ledger is gone"
            return
        try:
            ledger = dpfast.Ledger.open(self.path)
        except LedgerCorrupted:
            lost = self.granted or self.arrived
            assert not lost, f"seed {self.seed}: what was granted cannot be read"
            return
        labels = [entry.label for entry in ledger.entries]
        paid = sum(label.startswith("private_quantiles") for label in labels)
        assert self.arrived <= paid <= self.arrived + self.may_be_paid, f"seed {self.seed}: paid"
        labels = [label for label in labels if not label.startswith("private_quantiles")]
        assert len(labels) == len(set(labels)), f"seed {self.seed}: a charge counts twice"
        known = [label for label in labels if label in set(self.granted)]
        assert known == self.granted, f"seed {self.seed}: published and not in the file"
        assert set(labels) <= {*self.granted, *self.unclear}, f"seed {self.seed}: who charged that?"
        spent = sum(round(entry.spend.mu * 10) ** 2 for entry in ledger.entries)
        assert spent <= 100, f"seed {self.seed}: more than the total"

    def _look_at_the_search(self) -> None:
        """Every step that was told is one charge, and charges are within the total."""
        path = Path(state.ledger_path(self.search_path))
        if not path.exists() or not path.stat().st_size:
            assert not self.steps_told, f"seed {self.seed}: the ledger of a search is gone"
            return
        try:
            entries = dpfast.Ledger.open(path).entries
        except LedgerCorrupted:
            assert not self.steps_told, f"seed {self.seed}: steps cannot be read"
            return
        told, maybe = self.steps_told, self.steps_maybe
        labels = [entry.label for entry in entries]
        paid = sum(label.startswith("step ") for label in labels)  # beside that of failed losses
        assert told <= paid <= told + maybe, f"seed {self.seed}: a step is lost or doubled"
        assert len(labels) == len(set(labels)), f"seed {self.seed}: a step is paid twice"
        spent = sum(entry.spend.mu**2 for entry in entries)
        assert spent <= 1.0 + 1e-9, f"seed {self.seed}: a search spends more than its total"


def run(seeds: range, **options: Any) -> list[Outcome]:
    """Play a history for each seed."""
    outcomes = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(History(Path(folder), seed, **options).run())
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=0.0, help="share of acts short of memory")
    parser.add_argument("--search", type=float, default=0.0, help="share of steps of a search")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.histories)
    outcomes = run(seeds, memory=asked.memory, search=asked.search)
    sums = [sum(column) for column in zip(*outcomes, strict=True)][1:]
    print(", ".join(f"{n} {name}" for name, n in zip(Outcome._fields[1:], sums, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
