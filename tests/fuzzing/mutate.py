"""Mutations of bytes, and a search that keeps the inputs that reach new lines: seeds repeat it."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

#: Numbers at which readers of text and of bytes turn.
NUMBERS = [b"-1", b"0", b"", b"1e400", b"NaN", b"-0.0", b"9" * 40, b"2147483648", b"1e-400"]
INTEGERS = [0, 1, -1, 127, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
LARGEST = 1 << 16
#: Inputs that are kept; older ones go first.
KEPT = 200


def damaged(content: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Change a content in one to four places; the other content lends pieces."""
    broken = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at, size = int(rng.integers(len(broken) + 1)), int(rng.integers(1, 33))
        match int(rng.integers(9)):
            case 0 if at < len(broken):
                broken[at] ^= 1 << int(rng.integers(8))
            case 1:
                broken[at : at + size] = rng.bytes(size)
            case 2:
                del broken[at : at + size]
            case 3:
                broken[at:at] = broken[at : at + size]
            case 4 if other:
                begin = int(rng.integers(len(other)))
                broken[at : at + size] = other[begin : begin + size]
            case 5:
                width = int(rng.choice([1, 2, 4, 8]))
                number = int(INTEGERS[int(rng.integers(len(INTEGERS)))]) % (1 << 8 * width)
                broken[at : at + width] = number.to_bytes(width, "little")
            case 6:
                broken = _with_number(broken, rng)
            case 7:
                del broken[at:]
            case 8:
                broken = broken[:at] + broken
    return bytes(broken[:LARGEST])


def _with_number(broken: bytearray, rng: np.random.Generator) -> bytearray:
    """Put an extreme number in the place of one in the text."""
    found = list(re.finditer(rb"-?\d+\.?\d*", bytes(broken)))
    if not found:
        return broken
    place = found[int(rng.integers(len(found)))]
    new = NUMBERS[int(rng.integers(len(NUMBERS)))]
    return broken[: place.start()] + bytearray(new) + broken[place.end() :]


class Hangs(Exception):
    """An example that takes too long."""


class Finding(NamedTuple):
    """An example that was read in a way that it must not be."""

    number: int
    content: bytes
    what: str


@contextmanager
def followed(folder: Path, lines: set[tuple[str, int]]) -> Iterator[None]:
    """Collect the lines under a folder that run."""
    prefix = str(folder)

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return inside

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(prefix) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Hangs(f"an example took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def search(
    read: Callable[[bytes], object], seeds: Sequence[bytes], seed: int, examples: int, *,
    allowed: tuple[type[BaseException], ...], folder: Path,
    begun: Callable[[int], object] = lambda number: None, seconds: float = 20.0,
) -> tuple[list[Finding], int]:  # fmt: skip
    """Read damaged contents; return what was found, and how many lines were reached.

    Example k depends on the seed, on k and on which examples before it reached new lines.
    """
    lines: set[tuple[str, int]] = set()
    corpus, findings = list(seeds), []
    for number in range(-len(seeds), examples):
        rng = np.random.default_rng([seed, number + len(seeds)])
        pick = corpus[int(rng.integers(len(corpus)))], corpus[int(rng.integers(len(corpus)))]
        content = seeds[number] if number < 0 else damaged(*pick, rng)
        begun(number)
        reached: set[tuple[str, int]] = set()
        try:
            with limited(seconds), followed(folder, reached):
                read(content)
        except allowed as error:
            if number < 0:
                findings.append(Finding(number, content, f"a whole file is refused: {error}"))
        except Exception as error:
            findings.append(Finding(number, content, f"{type(error).__name__}: {error}"))
        if reached - lines:
            lines |= reached
            corpus = [*corpus[-KEPT:], content]
    return findings, len(lines)
