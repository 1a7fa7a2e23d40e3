"""The default of ``tune``: its parts, what it pays, and what it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import portfolio
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.privacy.sensitivity import centred_share
from tests.loops import each
from tests.watching import watched

BOX = [(-2.0, 2.0)] * 2


def squares(n=2000, d=2):
    X = np.random.default_rng(3).normal([0.7] * d, 0.4, size=(n, d))
    return lambda theta: ((X - theta) ** 2).sum(axis=1)


@pytest.mark.parametrize("d", [2, 4])  # values alone, and gradients after them
def test_g8_the_parts_add_up_to_the_total(d):
    ledger = dpfast.Ledger(2.0)
    found = dpfast.tune(
        squares(d=d), [(-2.0, 2.0)] * d, privacy=0.5, n_records=2000,
        noise=dpfast.SeededNoise(0), ledger=ledger,
    )  # fmt: skip
    assert [entry.spend for entry in ledger.entries] == [dpfast.GDP(0.5)]
    spent = sum(mu**2 for _, mu in found.privacy.entries)
    assert 0.999 * 0.25 < spent <= 0.25 and found.privacy.total == dpfast.GDP(0.5)


HOSTILE = [0.0, 1.0, -3.0, 1e308, -1e308, np.inf, -np.inf, np.nan]


@each("rank", [0, 1, 2])
def test_g8_no_record_moves_more_than_a_share_of_lengths(rank):
    """All triples of hostile values in the place of one record's."""
    others = np.random.default_rng(0).normal(size=(3, 20))
    answers = []
    for triple in np.array(np.meshgrid(*[HOSTILE] * 3)).reshape(3, -1).T:
        values = RecordValues(20, dpfast.Ledger(9.0), dpfast.SeededNoise(0))
        with np.errstate(all="ignore"):
            values.append(np.column_stack([others, triple])[:, 1:], 3)
        (release,) = watched(lambda v=values: v.smallest(rank).excess(0.9, 0.7, 1.0))
        answers.append(float(release.value[0]))
    moved = max(answers) - min(answers)
    assert 0.99 / 20 <= moved <= centred_share(20)
    finite = {round(answer * 20.0, 6) for answer in answers}
    assert len(finite) == 3  # below, above, and no number at all


def test_g8_regrets_are_functions_of_one_record():
    """All triples of hostile values: other records keep their bits, and scores their steps."""
    others = np.random.default_rng(0).normal(size=(3, 20))
    scores, steps = [], RecordValues(20, dpfast.Ledger(9.0), dpfast.SeededNoise(0)).loss_grid(0, 2)
    for triple in np.array(np.meshgrid(*[HOSTILE] * 3)).reshape(3, -1).T:
        told = portfolio.regrets(np.column_stack([others, triple]))
        assert np.array_equal(told[:, :20], portfolio.regrets(others))
        assert not (told[:, 20] < 0.0)[np.isfinite(told[:, 20])].any()
        values = RecordValues(20, dpfast.Ledger(9.0), dpfast.SeededNoise(0))
        values.append(told[:, 1:], 3)
        (release,) = watched(lambda v=values: v.choice(0, 0.0, 2.0, 1.0))
        scores.append(release.value)
    moved = np.max(scores, axis=0) - np.min(scores, axis=0)
    assert (0.99 * steps[1] <= moved).all() and (moved <= steps[1]).all()


def test_the_range_is_a_released_number():
    """One record with enormous losses does not move the range, as an exact maximum would."""
    losses = squares()

    def with_one(theta):
        values = losses(theta).copy()
        values[0] *= 1e9
        return values

    made = []
    for own in (losses, with_one):
        found = dpfast.tune(own, BOX, privacy=1.0, n_records=2000, noise=dpfast.SeededNoise(0))
        made.append(float(found.method.split("loss_range=(0.0, ")[1].split(")")[0]))
    assert made[1] == pytest.approx(made[0], rel=0.1)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_what_is_found_is_near_the_least_or_the_start(mu):
    """Smooth, steep and flat losses; the start is never left for a clearly worse point."""
    rng = np.random.default_rng(1)
    odds = 2.0 * rng.normal(size=3000)
    signs = np.where(rng.random(3000) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    X = rng.normal(0.5, 0.5, size=(3000, 2))
    problems = {
        "smooth": (lambda t: ((X - t) ** 2).sum(axis=1), BOX),
        "temperature": (lambda t: np.logaddexp(0.0, -signs * odds * np.exp(t[0])), [(-3.0, 3.9)]),
        "wall": (
            lambda t: np.exp(np.minimum(8.0 * (t[0] - X[:, 0]), 50.0)) / 8.0 - t[0] + X[:, 0],
            [(-1.0, 3.0)],
        ),
        "flat": (lambda t: np.abs(np.rint(4.0 * t[0]) - 2.0) / 8.0 + 0.0 * X[:, 0], [(0.0, 2.0)]),
    }
    for name, (losses, bounds) in problems.items():
        box = np.array(bounds)
        points = rng.uniform(*box.T, size=(200, len(box)))
        risks = np.array([losses(point).mean() for point in points])
        start, middle = losses(box.mean(axis=1)).mean(), np.median(risks)
        regrets = []
        for seed in range(5):
            found = dpfast.tune(
                losses, bounds, privacy=mu, n_records=3000, noise=dpfast.SeededNoise(seed)
            )
            risk = losses(found.theta).mean()
            regrets.append((risk - risks.min()) / (middle - risks.min()))
            assert risk <= start + 0.02 * abs(middle), (name, seed)
        assert np.median(regrets) < 0.05, (name, regrets)


def test_a_start_that_is_best_is_returned_or_doubted():
    """With 40 records and a small budget every end is worse than this start: each call says so."""
    X = np.random.default_rng(0).normal(size=(40, 1))
    losses = lambda t: np.abs(X[:, 0] - t[0]) + 5.0 * abs(t[0])  # noqa: E731
    for seed in range(5):
        found = dpfast.tune(
            losses, [(-1.0, 1.0)], privacy=0.1, n_records=40, noise=dpfast.SeededNoise(seed)
        )
        at_start = any("from that at the start" in said for said in found.warnings)
        returned = any("start is returned" in said for said in found.warnings)
        assert at_start != returned and (found.theta[0] == 0.0 or at_start)


def test_a_start_that_is_clearly_better_is_returned(monkeypatch):
    """A range that hides all differences sends the search astray; the comparison takes it back."""
    monkeypatch.setattr(portfolio.RangedValues, "tell", _worst, raising=True)
    found = dpfast.tune(
        squares(), [(0.2, 1.2)] * 2, privacy=2.0, n_records=2000, noise=dpfast.SeededNoise(0)
    )
    assert (found.theta == 0.7).all() and any("start is returned" in s for s in found.warnings)


def _worst(self, told):
    return dpfast.bayesopt.Tuner.tell(self, 10.0 - told)


def test_boolean_losses_and_options_ask_for_one_search():
    wrong = lambda theta: np.arange(500) % 10 < 10 * abs(theta[0])  # noqa: E731
    found = dpfast.tune(
        wrong, [(-1.0, 1.0)], privacy=1.0, n_records=500, noise=dpfast.SeededNoise(0)
    )
    assert "loss_range=(0.0, 1.0)" in found.method and "portfolio" not in found.method
    for options in ({"clip": 1.0}, {"search": dpfast.bayesopt.SearchSettings()}, {"steps": 4}):
        found = dpfast.tune(
            squares(), BOX, privacy=1.0, n_records=2000, noise=dpfast.SeededNoise(0), **options
        )
        assert "portfolio" not in found.method


def test_names_and_types_arrive():
    deep = lambda p: np.full(500, abs(p["depth"] - 3) / 8 + (p["loss"] == "a"))  # noqa: E731
    bounds = {
        "depth": dpfast.bayesopt.Integer(1, 9),
        "loss": dpfast.bayesopt.Categorical(["a", "b"]),
    }
    found = dpfast.tune(deep, bounds, privacy=5.0, n_records=500, noise=dpfast.SeededNoise(0))
    assert found.parameters == {"depth": 3, "loss": "b"}
    assert found.n_evaluations == len(found.points) and found.theta.shape == (3,)


def test_losses_are_called_once_before_the_charge():
    ledger, called = dpfast.Ledger(1.0), []

    def losses(theta):
        called.append(len(ledger.entries))
        return squares()(theta)

    dpfast.tune(
        losses, BOX, privacy=0.5, n_records=2000, ledger=ledger, noise=dpfast.SeededNoise(0)
    )
    assert called.count(0) == 1 and called[0] == 0
    with pytest.raises(dpfast.InvalidInput, match="one value per validation record"):
        dpfast.tune(lambda t: np.zeros(3), BOX, privacy=0.4, n_records=2000, ledger=ledger)
    assert len(ledger.entries) == 1


def test_an_interrupt_has_what_was_paid_for():
    def stop(done, of):
        if done > 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        dpfast.tune(
            squares(), BOX, privacy=1.0, n_records=2000, noise=dpfast.SeededNoise(0), progress=stop
        )
    partial = stopped.value.partial_result
    assert np.isfinite(partial.theta).all() and partial.privacy.total == dpfast.GDP(1.0)
    assert 0.5**2 < sum(mu**2 for _, mu in partial.privacy.entries) < 1.0


def test_parts_leave_nothing():
    common = portfolio.RANGE**2 + portfolio.CHOICE**2
    assert math.isclose(common + portfolio.VALUES_ALONE**2, 1.0, rel_tol=1e-12)
    follows = portfolio.VALUES**2 + portfolio.GRADIENTS**2
    assert math.isclose(common + follows, 1.0, rel_tol=1e-12)


@each("bounds", [[(-1.0, 1.0)], {"a": dpfast.bayesopt.Real(-1.0, 1.0)}, [(-1.0, 1.0)] * 5])
def test_losses_that_write_on_their_argument_do_not_write_on_the_answer(bounds):
    """Otherwise an exact value would be in the released point."""

    def found(first):
        records = np.linspace(-1.0, 1.0, 400)
        records[0] = first

        def losses(point):
            key = "a" if isinstance(point, dict) else 0
            losses = (point[key] - records) ** 2
            point[key] = first
            return losses

        noise = dpfast.SeededNoise(2)
        return dpfast.tune(losses, bounds, privacy=1.0, n_records=400, steps=24, noise=noise)

    for first in (0.123, 7.0):
        answer = found(first)
        chosen = answer.best_params
        values = [*chosen.values()] if isinstance(chosen, dict) else [*np.ravel(chosen)]
        assert first not in [*values, *answer.theta]
        assert np.abs([*values, *answer.theta]).max() <= 1.0
