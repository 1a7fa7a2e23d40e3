"""A row's number matters to nothing: sorted, shuffled and repeated records give the same answers.

A file sorted by a private value is the worst of them: one record that changes moves the ranks of
all between its old place and its new one.  Answers are sums on a grid that hides the order of
rounding, so with the same noise they are the same bits, and a replay on a neighbour that is sorted
anew finds what it finds on the neighbour as it is.
"""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from dpfast.audit import neighbours, replay
from dpfast.audit.transcript import Charged, _charges_observed, _Observer
from dpfast.curator.effects import Trial
from dpfast.curator.noisy_release import observed
from dpfast.kernels.sampler import ExactSampler
from dpfast.privacy.noise import EntropyNoise, SeededNoise
from tests.audit import calls

N, FEW = 60, 12
RNG = np.random.default_rng(8)
X = np.round(RNG.normal(size=(N, 2)), 3)
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
BINARY = (RNG.random(N) < 0.5).astype(float)
for _column in (X, Y, BINARY):
    _column[6:11] = _column[:5]  # repeated, among the first few as well

EXAMPLES = calls.examples()

#: Searches are over the first few records.
SEARCHES = ("bayesopt", "blackbox", "search")

#: These calls name rows by their numbers: the rows of a person, or those of a public resample.
#: In another order these are other records.  For persons: test_persons_of_sources.py.
BY_NUMBER = (", persons, ", "folds")

#: Charges that pay for secret randomness which falls on rows: the law does not depend on their
#: order because it is the same for every row (claims C53 and C55), the bits do.
ON_ROWS = ("random blocks", "random folds")


class Numbers:
    """Everything an observer of a call sees with the noise of one seed."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch

    def of(self, example, data):
        source = SeededNoise(20261122)
        for name in ("normals", "discrete_laplace", "words"):
            drawn = getattr(source, name)
            self.patch.setattr(EntropyNoise, name, lambda _, *call, drawn=drawn: drawn(*call))
        observer = _Observer(None)
        with observed(observer), _charges_observed(observer.charge):
            try:
                example.call(tuple(part.copy() for part in data))
            except Exception as error:
                return [type(error).__name__], observer.events
        answers = [np.asarray(e.handed_out) for e in observer.events if hasattr(e, "handed_out")]
        return answers, observer.events


def by_number(example):
    return any(word in example.label for word in BY_NUMBER)


def on_rows(events):
    return any(
        kind in event.label for event in events if isinstance(event, Charged) for kind in ON_ROWS
    )


def same(first, second):
    """Bit for bit: repr of a float is its own."""
    return [repr(np.asarray(a).tolist()) for a in first] == [
        repr(np.asarray(b).tolist()) for b in second
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "turn", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 8)]]
)
def test_sorted_shuffled_and_repeated_records_give_the_same_bits(monkeypatch, turn):
    """One call in eight, sorted or shuffled in turn; the slow turns have the other ones."""
    numbers, answers = Numbers(monkeypatch), 0
    for k, example in enumerate(EXAMPLES[turn::8]):
        if by_number(example):
            continue
        n = FEW if any(word in example.name for word in SEARCHES) else N
        covariates, response = X[:n], (BINARY if example.binary else Y)[:n]
        expected, events = numbers.of(example, (covariates, response))
        if on_rows(events):
            continue
        answers += len(expected)
        order = RNG.permutation(n) if k % 2 else np.argsort(response, kind="stable")
        found, _ = numbers.of(example, (covariates[order], response[order]))
        assert same(found, expected), (example.name, example.label)
    assert answers > 350


def by_response(call, data):
    """A call on the file as it would lie there: sorted by a private value."""
    order = np.argsort(data[1], kind="stable")
    return call((data[0][order], data[1][order]))


PAIRS = {
    binary: neighbours(X[:FEW], (BINARY if binary else Y)[:FEW], index=3)
    for binary in (False, True)
}

#: For each public function its first call, its last and one in fifteen between them.
CHOSEN = [
    example
    for name in dict.fromkeys(example.name for example in EXAMPLES)
    for of_name in [[example for example in EXAMPLES if example.name == name]]
    for example in {id(e): e for e in [*of_name[::15], of_name[-1]]}.values()
    if not any(word in example.name for word in ("perturbation", "treatment_effect"))
    and not by_number(example)
]


KINDS = ("flipped", "huge", "nan label")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "turn", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 6)]]
)
def test_one_record_that_moves_the_ranks_of_others_moves_answers_no_further(turn):
    """Every other call, kinds go round among them; with the slow turns each call meets each."""
    assert len(CHOSEN) > 60
    for k, example in enumerate(CHOSEN[turn % 2 :: 2]):
        kind = KINDS[(k + turn // 2) % 3]
        report = replay(
            partial(by_response, example.call), *PAIRS[example.binary][kind], budget=example.budget
        )
        assert report.passed, (example.name, example.label, report.leaks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [*KINDS[:1], *[pytest.param(k, marks=pytest.mark.slow) for k in KINDS[1:]]]
)
def test_folds_that_follow_the_records_of_a_sorted_file(kind, monkeypatch):
    """All orders of coins are alike, so neighbours are compared with those that go with records.

    Coins that stayed with positions would compare two draws, as two runs on one table do.
    """
    folds = np.arange(FEW) % 2
    # noise decides how many counts are asked: with bytes of its own a trial has 9 answers at times
    same = random.Random(0).randbytes
    monkeypatch.setattr("os.urandom", same)
    monkeypatch.setattr("dpfast.privacy.noise.ExactSampler", partial(ExactSampler, same))

    def follow(call, data):
        order = np.argsort(data[1], kind="stable")
        monkeypatch.setattr(Trial, "folds", staticmethod(lambda n, noise: folds[order]))
        return by_response(call, data)

    for example in EXAMPLES:
        if "treatment_effect" in example.name:
            pair = PAIRS[example.binary][kind]
            report = replay(partial(follow, example.call), *pair, budget=example.budget)
            # where propensities are known there are fewer nuisances to be asked about, or none
            least = {"a trial": 10, "a trial, on the treated": 6}.get(example.label, 11)
            assert report.passed and report.n_answers >= least, (example.label, report.leaks)


def test_the_sweeps_see_an_order(monkeypatch):
    """Signs that follow the rows: the record that goes to the front changes those of all."""
    from dpfast.curator import Curator, StepBudget
    from dpfast.data import Records
    from dpfast.models import Huber, Mallows, Objective
    from dpfast.privacy.budget import GDP
    from dpfast.privacy.ledger import Ledger
    from tests.audit.calls.example import Example

    def ranks(data):
        covariates, response = data
        weighted = covariates * (-1.0) ** np.arange(len(response))[:, None]
        records = Records(weighted, response, None)
        objective = Objective(Huber(1.345), Mallows(1.5), 2, scale=1.0)
        room = Curator(records, objective, Ledger(2.0), EntropyNoise())
        return room.joint(np.zeros(3), StepBudget(1.0, 0.0, 0.0)).gradient.value

    alternating = np.column_stack([(-1.0) ** np.arange(FEW), np.zeros(FEW)])
    first = np.arange(1.0, FEW + 1.0)
    moved = np.append(100.0, first[1:])  # from the front of the file to its end
    report = replay(partial(by_response, ranks), (alternating, first), (alternating, moved))
    assert not report.passed and "sensitivity" in " ".join(report.leaks)
    numbers, example = Numbers(monkeypatch), Example("ranks", "", ranks, False, GDP(1.0))
    expected, _ = numbers.of(example, (alternating, first))
    assert not same(expected, numbers.of(example, (alternating[::-1], first[::-1]))[0])
