"""What a release really drew, added up piece by piece: at most the total, and nearly all of it.

Test and release divides one (epsilon, delta) between certificates and the release.  Here nothing
of that division is taken from the code that makes it: the rates of the integers, the multipliers
and scales of the noise and the tails are recorded where they are
used, each piece is converted on its own, and the pieces are added up (claims R5, R10, R22, R23, R28
and R35 of PROOFS-release.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpfast
from bench.rivals.literature import objective_perturbation
from dpfast.curator import noisy_release
from dpfast.curator.noisy_release import observed
from dpfast.curator.release import kinds, perturbation, terms
from dpfast.models import Ball, release_constants, resolve_loss
from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.mechanisms import GRID_COST
from dpfast.privacy.release.calibration import (
    COUNT,
    gaussian_profile,
    objective_perturbation_delta,
)
from dpfast.privacy.release.scaled import TOTAL_VARIATION
from dpfast.release import certified, certify, release_functional, release_parameter
from dpfast.release.certified import make_terms
from dpfast.release.pilot import divided

MANY, FEW = 20_000, 60  # certified, and not
RNG = np.random.default_rng(8)
X = RNG.uniform(-1.0, 1.0, size=(MANY, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=MANY)
DOMAIN = Ball(1.5)
LOSS = dpfast.Objective("log-cosh", scale=3.0)

TOTALS = (dpfast.ApproxDP(6.0, 1e-3), dpfast.ApproxDP(3.0, 1e-5))

#: Rounding upwards in the pieces; and what the calibrations leave unused, integer tails included.
MOST, LEAST = 1.0 + 1e-9, 1.0 - 2e-3


class Record:
    """Everything drawn in one release, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rates: list[tuple[int, int]] = []
        self.tails: list[int] = []
        self.answers: list[tuple[tuple[Any, ...], Any]] = []
        self.tilts: list[float] = []
        self._spy(monkeypatch, noisy_release, "release_integer", lambda *_: self.rates, 1)
        self._spy(monkeypatch, kinds, "lower_bound_from_release", lambda *_, **__: self.tails, 1)
        self._spy(monkeypatch, certified, "largest_bound", lambda *_: self.tails, 1)
        self._spy(monkeypatch, perturbation, "normal_vector", lambda *_: self.tilts, 0)

    @staticmethod
    def _spy(patch: Any, module: Any, name: str, into: Any, position: int) -> None:
        original = getattr(module, name)

        def spied(*arguments: Any, **options: Any) -> Any:
            into(*arguments, **options).append(arguments[position])
            return original(*arguments, **options)

        patch.setattr(module, name, spied)

    def release(self, question: tuple[Any, ...], release: Any, draw: Any) -> Any:
        self.answers.append((question, release))
        return draw()

    # -- the pieces ------------------------------------------------------------------------------

    @property
    def certificates(self) -> float:
        """Epsilon of all integers: each has sensitivity COUNT."""
        return math.fsum(COUNT * top / bottom for top, bottom in self.rates)

    @property
    def failure(self) -> float:
        """Probability that a bound fails: the discrete Laplace noise exceeds its tail."""
        total = 0.0
        for (top, bottom), tail in zip(self.rates, self.tails, strict=True):
            a = top / bottom
            total += math.exp(-a * (tail + 1)) / (1.0 + math.exp(-a))
        return total

    def of(self, query: str) -> Any:
        (found,) = [(q, r) for q, r in self.answers if r.query == query]
        return found

    def functionals(self, epsilon: float) -> float:
        """Delta at epsilon of functionals that share it, the noise's finite bits included."""
        (_, _, _, choices), _ = self.of("functional")
        ((tau, b),) = {(c.tau, c.multiplier) for c in choices}
        each = epsilon / len(choices)
        delta = max(gaussian_profile(each, 1.0 / b, ratio) for ratio in (1.0 - tau, 1.0 + tau))
        return len(choices) * (delta + (1.0 + math.exp(each)) * TOTAL_VARIATION)

    def parameter(self, epsilon: float) -> float:
        _, release = self.of("parameter")
        return gdp_delta(release.l2_sensitivity / release.noise_scale + GRID_COST, epsilon)

    def perturbation(self, epsilon: float, loss: Any, scale: float, radius: float) -> float:
        """Delta at epsilon of a tilt and of the noise that covers the search."""
        (tilt,) = self.tilts
        (_, _, plan), release = self.of("perturbed minimiser")
        constants = release_constants(resolve_loss(loss), scale)
        output = plan.share * epsilon
        delta = objective_perturbation_delta(
            epsilon - output,
            tilt,
            constants.curvature * radius**2,
            constants.slope,
            radius,
            FEW,
            plan.plan.ridge,
        )
        return delta + gdp_delta(2.0 * plan.distance / release.noise_scale, output)


def spent(record: Record, function: Any, *arguments: Any, n: int = MANY, **options: Any) -> Any:
    with observed(record):
        return function(
            X[:n], Y[:n], LOSS, *arguments, domain=DOMAIN,
            noise=dpfast.SeededNoise(1), **options,
        )  # fmt: skip


LOOSE, TIGHT = TOTALS

#: So small that the finite bits of scaled noise take a visible part of it.
TINY = dpfast.ApproxDP(3.0, 1e-9)


@pytest.mark.parametrize("total", [LOOSE, TIGHT, TINY], ids=["loose", "tight", "tiny"])
@pytest.mark.parametrize("names", ["x1", ["x1", "x2"]], ids=["one", "two"])
def test_certificates_and_functionals_add_up(monkeypatch, names, total):
    record = Record(monkeypatch)
    result = spent(
        record,
        release_functional,
        names,
        privacy=total,
        method=dpfast.release.Certified(certificate_share=0.3),
    )
    assert result.certified and record.of("functional")
    assert len(record.rates) == len(record.tails) == 2
    assert 0.3 * total.epsilon * (1.0 - 1e-9) <= record.certificates <= 0.3 * total.epsilon * MOST
    # the certificates' integers, then what they leave: their epsilons and deltas add up (R35)
    delta = record.failure + record.functionals(total.epsilon - record.certificates)
    assert LEAST * total.delta <= delta <= MOST * total.delta
    assert (result.privacy.epsilon, result.privacy.delta) == total.values()


@pytest.mark.parametrize("total", TOTALS, ids=["loose", "tight"])
def test_certificate_and_parameter_add_up(monkeypatch, total):
    record = Record(monkeypatch)
    result = spent(record, release_parameter, privacy=total)
    assert result.certified and result.method == "global certificate"
    delta = record.failure + record.parameter(total.epsilon - record.certificates)
    assert record.certificates <= 0.25 * total.epsilon * MOST
    assert LEAST * total.delta <= delta <= MOST * total.delta


@pytest.mark.parametrize("total", TOTALS, ids=["loose", "tight"])
def test_tilt_and_output_noise_add_up(monkeypatch, total):
    record = Record(monkeypatch)
    with observed(record):
        objective_perturbation(
            X[:FEW], Y[:FEW],
            dpfast.Objective("log-cosh", scale=3.0, ridge=0.01, fit_intercept=False),
            privacy=total, radius=1.5,
        )  # fmt: skip
    delta = record.perturbation(total.epsilon, "log-cosh", 3.0, 1.5)
    assert LEAST * total.delta <= delta <= MOST * total.delta


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_two_certified_eigenvalues_add_up(monkeypatch, delta):
    """Where the first bound fails, the second integer is not private: that is what delta is for."""
    record = Record(monkeypatch)
    total = dpfast.ApproxDP(2.0, delta)
    result = spent(record, certify, privacy=total, which="both", failure=1e-3)
    assert result.largest_bound is not None and len(record.rates) == 2
    assert total.epsilon * (1.0 - 1e-9) <= record.certificates <= total.epsilon * MOST
    assert record.failure <= result.failure * MOST <= 2.0 * delta * MOST
    assert record.failure / 2.0 <= delta  # each fails as often as the other


def test_a_certificate_alone_costs_what_it_says(monkeypatch):
    record = Record(monkeypatch)
    ledger = dpfast.Ledger(dpfast.PureDP(3.0))
    spent(record, certify, privacy=dpfast.PureDP(2.0), ledger=ledger)
    assert 2.0 * (1.0 - 1e-9) <= record.certificates <= 2.0
    assert ledger.spent == dpfast.PureDP(2.0)


@pytest.mark.parametrize("what", ["functional", "parameter"])
def test_a_release_charges_its_certificate_first(what):
    """Opened on a curator: what follows is charged when it is asked for."""
    total = dpfast.ApproxDP(1.5, 1e-5)
    made = terms.Terms(what, *total.values(), 0.4, 2e-6)
    assert made.budget == total
    assert made.opening == dpfast.ApproxDP(0.4, 2e-6)
    assert terms.Terms("nothing", 1.5, 0.0, 1.5, 1e-6).opening == dpfast.PureDP(1.5)


def written(x):
    """What a number of a budget stands for."""
    return Fraction(repr(x))


def test_parts_of_a_total_add_up_to_its_last_bit():
    rng = np.random.default_rng(3)
    for _ in range(300):
        total = dpfast.ApproxDP(10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-9, -3))
        main, aside = divided(total, rng.uniform(0.01, 0.9))
        made = make_terms("functional", main, rng.uniform(0.01, 0.9))
        for whole, *parts in zip(
            *(budget.values() for budget in (total, aside, made.opening, made.rest)), strict=True
        ):
            exactly = Fraction(repr(whole))
            assert exactly * (1 - Fraction(2) ** -50) < sum(map(written, parts)) <= exactly
