"""The one door: whatever is handed out was seen by the observer, choices included."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import dpfast
from dpfast.curator import noisy_release
from dpfast.curator.answers import NOTHING, TAPE, Receipt, Tape
from dpfast.curator.noisy_release import Choice, Release, observed
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.models import Bounded, LogCosh, Objective
from tests.loops import each

N = 40
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -1.0]
CANDIDATES = [np.zeros(2), np.array([0.9, -0.9]), np.array([5.0, 5.0])]


class Watcher:
    """Keeps what it sees, and hands out what it is told to, or what is drawn."""

    def __init__(self, instead: Any = None) -> None:
        self.seen: list[Release] = []
        self.asked: list[Any] = []
        self.instead = instead

    def release(self, question: Any, release: Release, draw: Any) -> Any:
        self.seen.append(release)
        self.asked.append(question)
        return draw() if self.instead is None else self.instead


def chosen(noise: int = 0) -> tuple[int, Any]:
    objective = Objective(LogCosh(), Bounded(1.5), 2, fit_intercept=False, scale=1.0)
    ledger = dpfast.Ledger(dpfast.ZCDP(1.0))
    desk = GradientCurator(as_records(X, Y), objective, ledger, dpfast.SeededNoise(noise))
    return desk.select_stationary(CANDIDATES, 0.5), ledger


def test_a_choice_is_seen_with_its_scores_and_can_be_replaced():
    watcher = Watcher()
    with observed(watcher):
        index, ledger = chosen()
    assert index == chosen()[0]
    (seen,) = watcher.seen
    assert isinstance(seen, Choice)
    assert (seen.query, seen.claim, seen.value.shape) == ("selection", "K5", (3,))
    assert seen.value.argmin() == 1
    assert seen.l2_sensitivity <= seen.mu * seen.noise_scale * (1.0 + 1e-13)
    ((paid, label),) = [(entry.spend, entry.label) for entry in ledger.entries]
    assert watcher.asked[0][:2] == (label, seen.mu)
    assert seen.mu == dpfast.GDP.within(paid).mu
    with observed(Watcher(instead=2)):
        assert chosen()[0] == 2


def test_counts_and_scaled_noise_are_the_same_with_and_without_an_observer():
    receipt = Receipt("q", "c", 1.0, 1.0, 1.0)

    def count() -> Any:
        return noisy_release.release_count_with_noise(
            dpfast.SeededNoise(1), ("q", 1.0), receipt, 7, (1, 3)
        )

    def scaled() -> Any:
        return noisy_release.release_scaled_with_noise(
            dpfast.SeededNoise(1), ("q", 1.0), receipt, [Fraction(1, 3), Fraction(2)], [0.5, 1.0],
            [1.0, 1.0],
        )  # fmt: skip

    for call in (count, scaled):
        watcher = Watcher()
        with observed(watcher):
            seen = call()
        assert np.array_equal(seen, call())
        assert type(watcher.seen[0]) is Release
    assert watcher.seen[0].value.tolist() == [1.0 / 3.0, 2.0]


def handed_out(way: str, noise: dpfast.SeededNoise) -> Any:
    receipt, question = Receipt("q", "c", 1.0, 1.0, 3.0), ("q", 1.0, np.zeros(2))
    if way == "one":
        return [noisy_release.release_with_noise(noise, question, receipt, np.ones(4)).value]
    if way == "together":
        values = [np.ones(2), None, np.ones((3, 3))]
        scales = (3.0, None, 3.0)
        grids = noisy_release.joint_grids(((2,), None, (3, 3)), scales)
        found = noisy_release.release_jointly_with_noise(
            noise, question, [receipt] * 3, grids, values
        )
        return [answer.value for answer in found if answer is not NOTHING]
    if way == "count":
        return [noisy_release.release_count_with_noise(noise, question, receipt, 70, (1, 30))]
    if way == "scaled":
        return [noisy_release.release_scaled_with_noise(
            noise, question, receipt, [Fraction(1, 3)], [0.5], [1.0])]  # fmt: skip
    if way == "choice":
        return [
            noisy_release.release_choice_with_noise(noise, question, receipt, [5, 9, 3], (1, 3))
        ]
    raise AssertionError(way)


@each("watched", [False, True])
@each("way", ["one", "together", "count", "scaled", "choice"])
def test_what_is_kept_for_an_exception_is_what_was_handed_out(way, watched):
    """Each answer once, as it left, with its noise; nothing where nobody keeps anything."""
    for seed in range(5):
        tape = Tape()
        token = TAPE.set(tape)
        try:
            if watched:
                with observed(Watcher()):
                    found = handed_out(way, dpfast.SeededNoise(seed))
            else:
                found = handed_out(way, dpfast.SeededNoise(seed))
        finally:
            TAPE.reset(token)
        assert len(tape.answers) == len(found)
        for kept, value in zip(tape.answers, found, strict=True):
            assert np.array_equal(kept.value, value)
            assert (kept.query, kept.mu, kept.noise_scale) == ("q", 1.0, 3.0)
        handed_out(way, dpfast.SeededNoise(seed))
        assert len(tape.answers) == len(found)
