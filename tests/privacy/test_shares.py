"""C46: shares below a threshold, and quantiles from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.curator.shares import Shares
from dpfast.errors import InvalidInput
from dpfast.privacy.sensitivity import centred_share
from dpfast.quantiles import private_quantiles
from tests.loops import each

HOSTILE = [-np.inf, -1e308, -1.0, -5e-324, 0.0, 5e-324, 0.5, 1.0, 1e308, np.inf, np.nan]


@each("n", [1, 7, 1000])
@each("p", [1e-6, 0.25, 0.5, 1 / 3, 1 - 1e-9])
def test_the_worst_pair_attains_the_sensitivity(n, p):
    """Every pair of hostile values for one record, in every position relative to the threshold."""
    rest = np.linspace(-2.0, 2.0, n - 1)
    largest = 0.0
    for a, b, t in itertools.product(HOSTILE, HOSTILE, (-1.0, 0.0, 0.5)):
        sides = []
        for value in (a, b):
            shares = Shares(np.append(rest, value), dpfast.Ledger(2.0), dpfast.SeededNoise(0))
            below = np.count_nonzero(shares._values <= t)
            counted = n - np.count_nonzero(np.isnan(shares._values))
            sides.append((below - p * counted) / n)
        largest = max(largest, abs(sides[0] - sides[1]))
    assert 0.99 * centred_share(n) <= largest <= centred_share(n)


def test_an_answer_is_the_share_with_noise():
    """Seeded; the noise has standard deviation 1e-6, so 1e-5 is ten of them."""
    x = np.array([1.0, 2.0, 3.0, np.nan, np.inf, -np.inf] * 1000)
    shares = Shares(x, dpfast.Ledger(1000.0), dpfast.SeededNoise(0))
    answer = shares.excess(2.0, 0.25, 166.0)
    assert answer.value[0] == pytest.approx(3 / 6 - 0.25 * 5 / 6, abs=1e-5)
    assert shares.ledger.spent.mu == pytest.approx(166.0)


@pytest.mark.parametrize("shape", ["normal", "lumpy", "cauchy"])
def test_quantiles_are_close_in_probability(shape):
    """At n = 20,000 and mu = 1 a share has noise of standard deviation sqrt(48)/20,000 = 3.5e-4;
    the bisection goes wrong only where the share is within a few of these of its target: 3e-3."""
    rng = np.random.default_rng(2)
    n = 20_000
    x = {
        "normal": rng.normal(size=n),
        "lumpy": rng.choice([0.0, 1.0, 5.0], n, p=[0.3, 0.4, 0.3]),
        "cauchy": rng.standard_cauchy(n),
    }[shape]
    wanted = (0.25, 0.5, 0.75)
    found = private_quantiles(
        x, wanted, low=-50.0, high=50.0, privacy=1.0, noise=dpfast.SeededNoise(4)
    )
    width = 100 * 2.0**-16
    for p, q in zip(wanted, found, strict=True):
        assert np.mean(x <= q + width) >= p - 3e-3 and np.mean(x < q - width) <= p + 3e-3


def test_a_range_that_misses_the_quantile_gives_its_end():
    x = np.full(1000, 7.0)
    found = private_quantiles(
        x, [0.9, 0.1], low=0.0, high=1.0, privacy=1.0, noise=dpfast.SeededNoise(0)
    )
    assert found == pytest.approx([1.0, 1.0], abs=1e-4)


@each(
    "pair",
    [([-1.0], [1.0]), ([np.nan], [0.3]), ([1e308], [-1e308]), ([np.inf], [-np.inf])],
    ids=str,
)
def test_quantiles_pass_record_and_replay(pair):
    rest = np.linspace(-1.0, 1.0, 30).tolist()
    a, b = (np.array(rest + side) for side in pair)

    def call(x):
        return private_quantiles(x, [0.3, 0.5], low=-2.0, high=2.0, privacy=1.0, steps=6)

    report = replay(call, a, b, budget=1.0).raise_on_leak()
    assert report.n_answers == 12 and report.worst["share below"].ratio <= 1.0


@each(
    ("options", "named"),
    [
        ({"probabilities": []}, "empty"),
        ({"probabilities": [0.0]}, "strictly between"),
        ({"low": 2.0}, "low first"),
        ({"high": np.inf}, "finite"),
        ({"steps": 0}, "steps"),
        ({"x": []}, "x is empty"),
        ({"x": np.array(["a"])}, "numeric"),
    ],
)
def test_refusals(options, named):
    arguments = {"x": [1.0], "probabilities": [0.5], "low": 0.0, "high": 1.0} | options
    with pytest.raises(InvalidInput, match=named):
        private_quantiles(
            arguments.pop("x"), arguments.pop("probabilities"), privacy=1.0, **arguments
        )
