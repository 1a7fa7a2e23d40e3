"""Every allocation of a kernel fails once: an error is raised, and what was charged arrives.

    python -m tests.privacy.failing_allocations                   registered calls, all allocations
    python -m tests.privacy.failing_allocations --step 40 --most 2    two of every fortieth call

A shim that is loaded before all else (`failing_allocations.c`) fails the k-th allocation, page or
thread that a kernel asks for.  Then a call is refused before its charge, or what it paid for
arrives with the error, or it ends as if nothing had failed.  The error names public sizes alone,
and the next call gives what it gave before.  Needs Linux with glibc, and gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dpfast
from dpfast.errors import DpfastError
from dpfast.fit_requests import account as accounts
from dpfast.fit_requests.partial import KeepReleased

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_suffix(".c")

#: What an error says; the number is one of columns.
SAYS = re.compile(r"no (memory|room) for [a-z ]*(\d{1,4} float64 numbers of )?[a-zA-Z ]+")

#: Records of a call; a certificate of few records would end before most allocations.
N, N_OF_SEARCHES = 2000, 60


class Watched:
    """Charges of a call, and how its runs ended: with their result, or after so many answers."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.ends: list[tuple[bool, int]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        reserve, leave = accounts.Account.reserve, KeepReleased.__exit__

        def noted(account: Any, label: str, room: int = 0, *session: Any) -> Any:
            reserved = reserve(account, label, room, *session)
            self.labels.append(label)
            return reserved

        def left(keeping: Any, kind: Any, error: Any, traceback: Any) -> None:
            self.ends.append((kind is None, len(keeping._tape.recorded)))
            leave(keeping, kind, error, traceback)

        accounts.Account.reserve, KeepReleased.__exit__ = noted, left  # type: ignore
        try:
            yield
        finally:
            accounts.Account.reserve, KeepReleased.__exit__ = reserve, leave  # type: ignore

    def of(self, error: MemoryError) -> str:
        """Say what became of what was paid for."""
        arrived, answers = self.ends[-1] if self.ends else (False, 0)
        if not self.labels or arrived or answers == 0:
            return "nothing was released" if not arrived else "it had arrived"
        return "it arrives" if hasattr(error, "partial_result") else "IT IS LOST"


def outcome(call: Callable[[], Any], fail: Callable[[int], int], number: int) -> tuple[str, str]:
    """Make a call in which an allocation fails; return what came of it, and what it says."""
    watched = Watched()
    with watched():
        fail(number)
        try:
            with np.errstate(all="ignore"):
                return "answered", repr(call())
        except DpfastError as error:  # of public numbers
            return "answered", f"{type(error).__name__}: {error}"
        except MemoryError as error:
            return watched.of(error), str(error)
        except Exception as error:
            return "ANOTHER ERROR", repr(error)
        finally:
            fail(0)


def table(example: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    few = example.name.startswith(("dpfast.nonconvex", "dpfast.bayesopt"))
    X = rng.normal(size=(N_OF_SEARCHES if few else N, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=len(X))
    return X, (y > 0.0).astype(float) if example.binary else y


def tried(
    example: Any, fail: Callable[[int], int], numbers: Callable[[int], list[int]]
) -> Iterator[str]:
    """Yield for each allocation of a call that failed what is wrong, or nothing."""
    data = table(example)

    def came_of(number: int) -> tuple[str, str]:
        return outcome(lambda: example.call(data), fail, number)

    before, again = came_of(0), came_of(0)
    fail(0)
    example.call(data)
    asked = fail(0)
    for number in numbers(asked):
        kind, said = came_of(number)
        wrong = kind.isupper() or (kind != "answered" and not SAYS.fullmatch(said))
        what = f"{kind}: {said}" if wrong else ""
        after = came_of(0)
        if before == again and after != before:
            what += f" the next call gives {after}, where it gave {before}"
        name = f"{example.name}, {example.label}, allocation {number} of {asked}"
        yield f"{name}: {what}" if what else ""


def begin(fail: Callable[[int], int]) -> int:
    """Fail what a fit of many records asks for at first, its threads too; count what is wrong."""
    X = np.random.default_rng(0).normal(size=(100_000, 3))
    y = X[:, 0] + 1.0

    def fit() -> Any:
        return dpfast.fit(dpfast.records(X, y, threads=3), privacy=1.0, noise=dpfast.SeededNoise(0))

    kinds = [outcome(fit, fail, number)[0] for number in range(1, 9)]
    print(f"many records: {', '.join(kinds)}")
    return sum(kind.isupper() for kind in kinds)


def child(step: int, most: int, seed: int) -> int:
    """Try calls in this process, below which the shim is loaded."""
    from tests.audit import calls

    warnings.simplefilter("ignore")
    found = ctypes.CDLL(None).dpfast_fail
    found.restype, found.argtypes = ctypes.c_long, [ctypes.c_long]
    chance = random.Random(seed)

    def numbers(asked: int) -> list[int]:
        every = list(range(1, asked + 1))
        return sorted(chance.sample(every, most)) if 0 < most < asked else every

    failed, wrong = 0, begin(found)
    examples = [one for one in calls.examples() if not one.name.startswith("dpfast.curator")]
    for example in examples[seed % step :: step]:
        print(f"{example.name}, {example.label}", file=sys.stderr, flush=True)
        for line in tried(example, found, numbers):
            failed, wrong = failed + (not line), wrong + bool(line)
            if line:
                print(line, flush=True)
    print(f"{failed} allocations failed, {wrong} calls went wrong")
    return int(wrong > 0 or failed == 0)


def run(step: int, most: int, seed: int) -> tuple[int, str]:
    """Build the shim, and try calls in a process below which it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "shim.so"
        flags = ["-O1", "-shared", "-fPIC", "-o", str(shim), str(SOURCE), "-ldl"]
        subprocess.run(["gcc", *flags], check=True)
        command = [sys.executable, "-m", "tests.privacy.failing_allocations", "--child"]
        command += ["--step", str(step), "--most", str(most), "--seed", str(seed)]
        environment = os.environ | {"LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    ended = done.stderr[-400:] if done.returncode not in (0, 1) or not done.stdout else ""
    return done.returncode, done.stdout + ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--step", type=int, default=1, help="every so many calls")
    parser.add_argument("--most", type=int, default=0, help="of each call; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        return child(asked.step, asked.most, asked.seed)
    code, said = run(asked.step, asked.most, asked.seed)
    print(said, end="")
    return int(code != 0)


if __name__ == "__main__":
    sys.exit(main())
