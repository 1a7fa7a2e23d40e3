"""Readers under damaged contents: a short search of each, and a search that is not blind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzzing import readers
from tests.fuzzing.mutate import damaged, search

HERE = Path(__file__).parent


def run(read, seeds, examples, seed=3, **options):
    return search(read, seeds, seed, examples, allowed=(ValueError,), folder=HERE, **options)


def nested(content: bytes) -> None:
    """Refuse most contents; the fault is behind three conditions, each on a line of its own."""
    if len(content) < 4:
        raise ValueError("short")
    if content[0] > 200:
        if content[1] > 200:
            if content[2] > 200:
                raise KeyError("found")
            raise ValueError("third")
        raise ValueError("second")


def test_a_search_that_keeps_what_reaches_new_lines_finds_a_nested_fault():
    found, lines = run(nested, [b"abcdefgh"], 3000)
    assert found and found[0].what.startswith("KeyError")
    assert lines >= 7
    again, _ = run(nested, [b"abcdefgh"], 3000)
    assert [finding.number for finding in again] == [finding.number for finding in found]


def test_a_whole_content_that_is_refused_is_a_finding():
    found, _ = run(nested, [b"ab"], 0)
    assert "a whole file is refused" in found[0].what


def test_an_example_that_takes_too_long_is_a_finding():
    def endless(content: bytes) -> None:
        while content.startswith(b"abc"):
            pass

    found, _ = run(endless, [b"abcdef"], 0, seconds=0.2)
    assert found[0].what.startswith("Hangs")


def test_damages_follow_their_generator():
    whole = bytes(range(64)) + b" 12.5, 7"
    one = [damaged(whole, whole, np.random.default_rng(k)) for k in range(40)]
    two = [damaged(whole, whole, np.random.default_rng(k)) for k in range(40)]
    assert one == two
    assert len(set(one)) > 30


@pytest.mark.parametrize("names", [list(readers.READERS)[0::2], list(readers.READERS)[1::2]])
def test_no_reader_raises_a_foreign_error(names):
    pytest.importorskip("pyarrow")
    assert readers.run(names, seed=1, examples=25) == []


def test_a_process_that_ends_names_its_example(monkeypatch):
    monkeypatch.setattr(
        readers.subprocess, "run",
        lambda *a, **k: readers.subprocess.CompletedProcess(a, -11, "", "example 7 of csv, seed 1"),
    )  # fmt: skip
    assert readers.run(["csv"], seed=1, examples=5) == [
        "csv ended with -11: example 7 of csv, seed 1"
    ]
