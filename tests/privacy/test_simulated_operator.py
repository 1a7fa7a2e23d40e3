"""An office on a disk that fails: what was published is in the file, what was paid arrives."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

import pytest

from dpfast import documents
from dpfast.privacy.ledger import file as ledger_file
from tests.loops import each
from tests.privacy.simulated_operator import Outcome, run

#: Histories in which each planted fault of the writers has to show.
ENOUGH = 400


def test_hundreds_of_histories_keep_every_promise():
    outcomes = run(range(150))
    sums = dict(zip(Outcome._fields, map(sum, zip(*outcomes, strict=True)), strict=True))
    # faults of every kind occurred, and work was done between them
    for name, least in {"granted": 480, "refused": 6, "kills": 180, "power_cuts": 60,
                        "faults": 120, "saved": 180, "arrived": 30}.items():  # fmt: skip
        assert sums[name] >= least, f"{sums[name]} {name}"


@each("seed", [700_636, 1_002_222])
def test_a_history_that_broke_a_promise_once_keeps_it(seed):
    """A charge that died after its line, before the folder was synchronised, came first; the power
    left a zero in the place of a line's end."""
    assert run(range(seed, seed + 1))[0].granted


def test_a_history_repeats_by_its_seed():
    assert run(range(40, 44)) == run(range(40, 44))


#: Histories in which memory is short and searches go on beside the charges; a gentler disk.
BESIDE = {"memory": 0.25, "search": 0.4, "steps": 16, "rate": 0.03}


# a draft that a shortage left between its opening and its block is closed when it is dropped
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_searches_and_shortages_of_memory_keep_every_promise():
    outcomes = run(range(80), **BESIDE)
    sums = dict(zip(Outcome._fields, map(sum, zip(*outcomes, strict=True)), strict=True))
    for name, least in {"granted": 130, "short": 66, "steps": 40, "kills": 66}.items():
        assert sums[name] >= least, f"{sums[name]} {name}"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_histories_with_searches_repeat_by_their_seeds():
    assert run(range(7, 10), **BESIDE) == run(range(7, 10), **BESIDE)


def test_a_step_of_a_search_that_is_not_synchronised_is_noticed(monkeypatch):
    monkeypatch.setattr(ledger_file, "_write", _written_and_not_synchronised)
    with pytest.raises(AssertionError, match=r"seed.*(step|search)"):
        run(range(ENOUGH), search=1.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_shortage_that_is_swallowed_is_noticed(monkeypatch):
    """A charge whose line was not written because memory was short is not granted."""
    write = ledger_file._write

    def swallowing(file, line):
        with suppress(MemoryError):
            write(file, line)

    monkeypatch.setattr(ledger_file, "_write", swallowing)
    with pytest.raises(AssertionError, match="seed"):
        run(range(3 * ENOUGH), memory=0.9, rate=0.0)


@pytest.mark.slow
def test_thousands_of_histories_keep_every_promise():
    assert len(run(range(10_000, 15_000))) == 5_000


def _written_and_not_synchronised(file, line):
    file.write(line)


def _granted_before_all_is_written(file, line):
    file.write(line[: -5 if b'"label": "charge' in line else None])
    os.fsync(file.fileno())


@contextmanager
def _in_place(folder, name, mode=0o600):
    with documents.open(os.path.join(f"/proc/self/fd/{folder}", name), "wb") as file:
        yield file


#: What a writer could forget: the name of a function, and one that forgets it.
PLANTED = {
    "the line is synchronised": (ledger_file, "_write", _written_and_not_synchronised),
    "the whole line is written": (ledger_file, "_write", _granted_before_all_is_written),
    "the name of the file is synchronised": (ledger_file, "_sync_directory", lambda path: None),
    "a document is replaced as a whole": (documents, "replacing", _in_place),
}


@pytest.mark.parametrize("what", PLANTED)
def test_the_histories_notice_when_it_is_forgotten_that(monkeypatch, what):
    module, name, forgetful = PLANTED[what]
    monkeypatch.setattr(module, name, forgetful)
    with pytest.raises(AssertionError, match="seed"):
        run(range(ENOUGH))
