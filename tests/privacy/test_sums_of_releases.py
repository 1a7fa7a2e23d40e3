"""What a release really drew, added up piece by piece: at most the total, and nearly all of it.

Test and release divides one (epsilon, delta) among certificates, the release, a fallback and
standard errors.  Here nothing of that division is taken from the code that makes it: the rates of
the integers, the multipliers and scales of the noise and the tails are recorded where they are
used, each piece is converted on its own, and the pieces are added up (claims R5, R8, R10, R22 to
R24, R28, R30, R35 and R36 of PROOFS-release.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpfast
from bench.rivals.literature import objective_perturbation
from dpfast.curator import door
from dpfast.curator.door import observed
from dpfast.curator.release import kinds, perturbation, terms
from dpfast.models import Ball, release_constants, resolve_loss
from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.mechanisms import GRID_COST
from dpfast.privacy.release.calibration import COUNT, objective_perturbation_delta
from dpfast.privacy.release.profiles import (
    composed_profile,
    gaussian_profile,
    laplace_profile,
    with_discrete_laplace,
    worst_profile,
)
from dpfast.privacy.release.profiles_student import student_profile, student_worst_profile
from dpfast.privacy.release.scaled import TOTAL_VARIATION
from dpfast.release import certify, release_functional, release_parameter, session
from dpfast.release.pilot import divided
from dpfast.release.session import make_terms
from tests.flat import flat

MANY, FEW = 20_000, 60  # certified, and not
RNG = np.random.default_rng(8)
X = RNG.uniform(-1.0, 1.0, size=(MANY, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=MANY)
DOMAIN = Ball(1.5)
PROFILES = {"laplace": laplace_profile, "gaussian": gaussian_profile, "student": student_profile}

TOTALS = (dpfast.ApproxDP(6.0, 1e-3), dpfast.ApproxDP(3.0, 1e-5))

#: Rounding upwards in the pieces; and what the calibrations leave unused, integer tails included.
MOST, LEAST = 1.0 + 1e-9, 1.0 - 2e-3


class Record:
    """Everything drawn in one release, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rates: list[tuple[int, int]] = []
        self.caps: list[int | None] = []
        self.tails: list[int] = []
        self.answers: list[tuple[tuple[Any, ...], Any]] = []
        self.tilts: list[float] = []
        self._spy(monkeypatch, door, "release_integer", lambda *_: self.rates, 1)
        self._spy(monkeypatch, door, "release_integer", lambda *_: self.caps, 3)
        self._spy(monkeypatch, kinds, "lower_bound_from_release", lambda *_, **__: self.tails, 1)
        self._spy(monkeypatch, session, "largest_bound", lambda *_: self.tails, 1)
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
        """Probability that a bound fails, or that a capped integer is out of a neighbour's reach.

        The first where the discrete Laplace noise exceeds its tail, the second where it is within
        COUNT of its cap.
        """
        total = 0.0
        for (top, bottom), tail, cap in zip(self.rates, self.tails, self.caps, strict=True):
            a = top / bottom

            def above(k: int, a: float = a) -> float:
                return math.exp(-a * (k + 1)) / (1.0 + math.exp(-a))

            if cap is None:
                total += above(tail)
            else:
                assert tail >= cap >= COUNT
                total += (above(cap - COUNT) - above(cap)) / (1.0 - above(cap))
        return total

    def of(self, query: str) -> Any:
        (found,) = [(q, r) for q, r in self.answers if r.query == query]
        return found

    def functionals(self, law: str, epsilon: float) -> float:
        """Delta at epsilon of functionals, the noise's finite bits included."""
        (_, _, _, choices), _ = self.of("functional")
        ((chosen, tau, multiplier),) = {(c.law, c.tau, c.multiplier) for c in choices}
        assert law in ("auto", chosen)
        count = len(choices)
        bits = count * (1.0 + math.exp(epsilon)) * TOTAL_VARIATION
        return (
            float(self.profile(chosen, tau, multiplier, count, epsilon)(np.array([epsilon]))[0])
            + bits
        )

    @staticmethod
    def profile(law: str, tau: float, multiplier: float, count: int, epsilon: float) -> Any:
        shape = 1.0 / multiplier, 1.0 - tau, 1.0 + tau
        profile = worst_profile(PROFILES[law], *shape)
        if count == 1:
            return profile
        one = student_worst_profile(*shape) if law == "student" else profile
        return composed_profile(one, count, epsilon)

    def parameter(self, epsilon: float) -> float:
        _, release = self.of("parameter")
        mu = release.l2_sensitivity / release.noise_scale + GRID_COST
        profile = worst_profile(gaussian_profile, mu, 1.0, 1.0)
        return with_discrete_laplace(profile, self.certificates, COUNT, epsilon)

    def sandwich(self, epsilon: float) -> float:
        """Delta at epsilon of the Gaussian answers that buy standard errors."""
        asked = {question[2].tobytes(): question[1] for question, release in self.answers
                 if release.query in ("gradient", "hessian", "majorizer", "meat")}  # fmt: skip
        return gdp_delta(math.sqrt(math.fsum(mu * mu for mu in asked.values())), epsilon)

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
        return flat(function)(
            X[:n], Y[:n], "log-cosh", *arguments, scale=3.0, domain=DOMAIN,
            noise=dpfast.SeededNoise(1), **options,
        )  # fmt: skip


OTHER = "objective-perturbation"
LOOSE, TIGHT = TOTALS

#: So small that the finite bits of scaled noise take a visible part of it.
TINY = dpfast.ApproxDP(3.0, 1e-9)

#: So little epsilon that counts are capped (claim R36).
STRICT = dpfast.ApproxDP(1.5, 1e-5)

#: Directions, law, method, fallback, share of inference, total.
CASES = [
    pytest.param("x1", "laplace", "certified", None, None, TINY, id="one"),
    pytest.param("x1", "laplace", "certified", OTHER, None, TIGHT, id="fallback"),
    pytest.param("x1", "auto", "certified", None, None, TIGHT, id="auto"),
    pytest.param("x1", "auto", "certified", None, None, STRICT, id="capped"),
    pytest.param("x1", "auto", "paper", None, None, STRICT, id="two, capped"),
    pytest.param(["x1", "x2"], "auto", "certified", OTHER, 0.3, LOOSE, id="two, auto"),
    pytest.param("x1", "laplace", "certified", None, 0.3, TIGHT, id="inference"),
    pytest.param("x1", "gaussian", "certified", OTHER, 0.3, LOOSE, id="gaussian, all"),
    pytest.param("x1", "student", "certified", OTHER, 0.4, TIGHT, id="student, all"),
    pytest.param(["x1", "x2"], "laplace", "certified", None, 0.3, TINY, id="two"),
    pytest.param("x1", "laplace", "paper", OTHER, 0.3, LOOSE, id="two certificates, all"),
    pytest.param(["x1", "x2"], "gaussian", "paper", None, None, LOOSE, id="two of two"),
]


@pytest.mark.parametrize(("names", "law", "method", "fallback", "inference", "total"), CASES)
def test_certificates_functionals_reserve_and_inference_add_up(
    monkeypatch, names, law, method, fallback, inference, total
):
    record = Record(monkeypatch)
    result = spent(
        record, release_functional, names, privacy=total, noise_law=law,
        method=method, fallback=fallback, inference=inference, certificate_share=0.3,
        max_noise=math.inf,
    )  # fmt: skip
    assert result.certified and record.of("functional")
    assert len(record.rates) == len(record.tails) == 1 + (method == "paper")
    share = inference or 0.0
    main = total.epsilon * (1.0 - share)
    assert 0.3 * main * (1.0 - 1e-9) <= record.certificates <= 0.3 * main * MOST
    # the certificate's integers, then what it leaves: their epsilons and deltas add up (R35)
    delta = record.failure + record.functionals(law, main - record.certificates)
    if inference:
        delta += record.sandwich(total.epsilon * share)
    assert LEAST * total.delta <= delta <= MOST * total.delta
    assert (result.privacy.epsilon, result.privacy.delta) == total.values()


@pytest.mark.parametrize("total", TOTALS, ids=repr)
@pytest.mark.parametrize("fallback", [None, OTHER])
def test_certificate_parameter_and_reserve_add_up(monkeypatch, fallback, total):
    record = Record(monkeypatch)
    result = spent(record, release_parameter, privacy=total, fallback=fallback)
    assert result.certified and result.method == "global certificate"
    delta = record.failure + record.parameter(total.epsilon)
    delta += 0.1 * total.delta * bool(fallback)
    assert record.certificates <= 0.25 * total.epsilon * MOST
    assert LEAST * total.delta <= delta <= MOST * total.delta


@pytest.mark.parametrize("total", TOTALS, ids=repr)
@pytest.mark.parametrize("inference", [None, 0.3])
def test_certificate_and_fallback_add_up(monkeypatch, inference, total):
    """The fallback takes the place of the functional, with all that the certificate left."""
    record = Record(monkeypatch)
    result = spent(
        record, release_functional, "x1", n=FEW, privacy=total, inference=inference,
        fallback=OTHER, method="certified",
    )  # fmt: skip
    assert "objective perturbation" in result.method
    share = 1.0 - (inference or 0.0)
    left = total.epsilon * share - record.certificates
    delta = record.perturbation(left, "log-cosh", 3.0, DOMAIN.radius) + record.failure
    assert LEAST * total.delta * share <= delta <= MOST * total.delta * share


@pytest.mark.parametrize("total", TOTALS, ids=repr)
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
@pytest.mark.parametrize("fallback", [False, True])
def test_a_release_charges_all_of_its_terms(what, fallback):
    """Opened on a curator: a parameter at once, functionals when they are asked for."""
    total = dpfast.ApproxDP(1.5, 1e-5)
    made = terms.Terms(what, *total.values(), 0.4, 2e-6, fallback=fallback)
    assert made.budget == total
    opening = total if what == "parameter" else dpfast.ApproxDP(0.4, 2e-6)
    assert made.opening == opening and made.later == (what == "functional")
    assert terms.Terms("nothing", 1.5, 0.0, 1.5, 1e-6).opening == dpfast.PureDP(1.5)


def written(x):
    """What a number of a budget stands for."""
    return Fraction(repr(x))


def test_parts_of_a_total_add_up_to_its_last_bit():
    rng = np.random.default_rng(3)
    for _ in range(300):
        total = dpfast.ApproxDP(10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-9, -3))
        main, aside = divided(total, rng.uniform(0.01, 0.9))
        made = make_terms(
            "functional", main, rng.uniform(0.01, 0.9), None, noise="auto", count=1, whole=total
        )
        for whole, *parts in zip(
            *(budget.values() for budget in (total, aside, made.opening, made.rest)), strict=True
        ):
            exactly = Fraction(repr(whole))
            assert exactly * (1 - Fraction(2) ** -50) < sum(map(written, parts)) <= exactly
