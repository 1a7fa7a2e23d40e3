"""An office on a disk that fails: what was published is in the file, what was paid arrives."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from dpfast import documents
from dpfast.privacy.ledger import file as ledger_file
from tests.privacy.simulated_operator import Outcome, run

#: Histories in which each planted fault of the writers has to show.
ENOUGH = 400


def test_hundreds_of_histories_keep_every_promise():
    outcomes = run(range(250))
    sums = dict(zip(Outcome._fields, map(sum, zip(*outcomes, strict=True)), strict=True))
    # faults of every kind occurred, and work was done between them
    for name, least in {"granted": 800, "refused": 10, "kills": 300, "power_cuts": 100,
                        "faults": 200, "saved": 300, "arrived": 50}.items():  # fmt: skip
        assert sums[name] >= least, f"{sums[name]} {name}"


def test_a_history_that_broke_a_promise_once_keeps_it():
    """A charge that died after its line, and before the folder was synchronised, came first."""
    assert run(range(700_636, 700_637))[0].granted


def test_a_history_repeats_by_its_seed():
    assert run(range(40, 44)) == run(range(40, 44))


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
