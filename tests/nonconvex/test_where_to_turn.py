"""What minimize says it cannot do, and what it does at a saddle."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from bench.figures.paper2.examples import phase_retrieval
from dpfast.errors import InferenceUnavailable
from dpfast.models.nonconvex import PerRecordObjective

RNG = np.random.default_rng(8)
X = RNG.normal(size=(1000, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=1000)


def options():
    """The same noise in every call: a shared source would go on from test to test."""
    return {"privacy": dpfast.ZCDP(0.5), "noise": dpfast.SeededNoise(0)}


def own(theta, X, y):
    return (X @ theta - y)[:, None] * X


OWN = PerRecordObjective(own, dimension=2, lipschitz=1.0, smoothness=2.0, vectorized=True)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (dpfast.Objective("tukey", scale=1.0), ("'tukey'", "dpfast.fit", "log-cosh")),
        (dpfast.Objective("huber", scale=1.0), ("convex", "dpfast.fit")),
        (OWN, ("own",)),
    ],
)
@pytest.mark.one_in(2)
def test_missing_standard_errors_say_where_to_turn(objective, words):
    result = dpfast.minimize(X, Y, objective, **options())
    for ask in (result.cov_params, lambda: result.bse, result.conf_int):
        with pytest.raises(InferenceUnavailable) as refused:
            ask()
        assert all(word in str(refused.value) for word in words)
    assert not hasattr(result, "bse")
    assert "No standard errors" in result.summary()
    assert result.warnings == ()


def test_a_random_start_leaves_a_saddle_and_is_public():
    """Phase retrieval: zero is a saddle.  From it 95% of the noise-free excess remains."""
    rows = RNG.normal(size=(1000, 3))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    truth = np.array([0.6, -0.5, 0.3])
    target = phase_retrieval(3, radius=1.0)

    def run(seed, data=rows, **options):
        noise = dpfast.SeededNoise(seed)
        return dpfast.minimize(
            data, np.abs(data @ truth), target, privacy=dpfast.ZCDP(32.0), noise=noise, **options
        )

    found = [run(0, start="random")]
    for result in found:
        error = min(np.abs(result.params - s * truth).max() for s in (1.0, -1.0))
        assert error < 0.05
        assert np.linalg.norm(result.iterates[0]) == pytest.approx(1.0)
    # whatever the data and the noise
    other = run(9, data=rows[:200], start="random")
    np.testing.assert_array_equal(other.iterates[0], found[0].iterates[0])
    with pytest.raises(dpfast.InvalidInput, match="start"):
        run(0, start="somewhere")
