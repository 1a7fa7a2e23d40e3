"""What the compiled kernels compute for one record: claim C12 of PROOFS.md.

With one record and divisor 1 a kernel returns that record's contribution.
"""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest

from dpfast.privacy.sensitivity import RECORD_ERROR
from tests.loops import each

records = pytest.importorskip("dpfast.kernels.records")

HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC = range(4)
OSTROVSKII_BACH = 5
BOUNDED, MALLOWS, CLIP = range(3)
LOSSES = {
    "huber": HUBER, "log-cosh": LOG_COSH, "pseudo-huber": PSEUDO_HUBER, "logistic": LOGISTIC,
    "ostrovskii-bach": OSTROVSKII_BACH,
}  # fmt: skip
WEIGHTS = {"bounded": BOUNDED, "mallows": MALLOWS, "clip": CLIP}
R, C, SIGMA = 1.7, 1.345, 0.8


def extreme_records(q, n, rng):
    """Directions with entries of wildly different size; lengths from subnormal to overflow."""
    x = rng.normal(size=(n, q)) * 10.0 ** rng.choice([0, 0, -8, -200], (n, q))
    x *= 10.0 ** rng.choice([0.0, 0.0, 0.3, -300.0, -160.0, 100.0, 153.0, 155.0, 200.0], (n, 1))
    special = [5e-324, -5e-324, 0.0, -0.0, 1e-310, 1.7e308, -1.7e308, 1.0, R, math.sqrt(R**2 - 1)]
    x[: n // 3] = rng.choice(special, (n // 3, q))
    y = rng.normal(size=n) * 10.0 ** rng.choice([0.0, 1.0, -5.0, 20.0, 300.0], n)
    return x, y


def contributions(loss, weighting, x, y, theta, intercept):
    """Score, Hessian and meat of one record."""
    scale = 1.0 if loss == LOGISTIC else SIGMA
    c = 1.0 if loss == LOGISTIC else C
    kernel = records.RecordKernel(loss, c, scale, weighting, R, intercept)
    want = records.GRADIENT | records.MEAT
    if weighting != CLIP:
        want |= records.HESSIAN
    return kernel.sums(x[None], np.array([y]), theta, want, 1.0, 1)


def unit(v):
    largest = np.max(np.abs(v))
    if largest == 0:
        return v
    v = np.ldexp(v, -int(np.frexp(largest)[1]))
    return v / np.linalg.norm(v)


@pytest.mark.parametrize("intercept", [False, True])
@each("weighting", WEIGHTS)
@each("loss", LOSSES)
def test_contributions_have_the_structure_the_claims_assume(loss, weighting, intercept):
    """Norms, collinearity, rank one, sign, coupling, and the meat as the square of the score."""
    rng = np.random.default_rng(0)
    code, q = LOSSES[loss], 3
    p = q + intercept
    psi_max = 1.0 if loss == "logistic" else C
    bound = R if weighting == "clip" else psi_max * R
    curvature_bound = (0.25 if loss == "logistic" else 1 / SIGMA) * R**2
    slack = RECORD_ERROR
    reached = 0.0
    for x, y in zip(*extreme_records(q, 400, rng), strict=True):
        if loss == "logistic":
            y = float(y > 0)
        theta = rng.normal(size=p) * 10.0 ** rng.choice([0.0, 0.0, 3.0, -3.0, 100.0])
        with np.errstate(all="raise"):
            score, hessian, meat = contributions(code, WEIGHTS[weighting], x, y, theta, intercept)
        assert np.all(np.isfinite(score))
        assert np.all(np.isfinite(meat))
        length = np.linalg.norm(score) / bound
        assert length <= 1 + RECORD_ERROR
        reached = max(reached, length)
        meat_error = np.linalg.norm(meat - np.outer(score, score)) / bound**2
        assert meat_error <= 2 * slack
        if weighting == "clip":
            assert hessian is None
            continue
        assert np.all(np.isfinite(hessian))
        h = np.trace(hessian) / curvature_bound
        assert h >= 0
        assert np.linalg.norm(hessian) <= curvature_bound * (1 + RECORD_ERROR)
        # the direction: the projected record
        a = x
        if intercept:
            scale = np.max(np.abs(x), initial=1.0)
            norm = min(float(scale), 1e300) * float(np.linalg.norm(x / scale))
            room = math.sqrt(R**2 - 1)
            if weighting == "bounded" and norm > room:
                a = unit(x) * room
            if weighting == "bounded" or norm < 1e150:
                a = np.concatenate([[1.0], a])
            else:
                a = np.concatenate([[0.0], unit(x)])
        u = unit(a)
        assert np.linalg.norm(score - (score @ u) * u) <= slack * bound
        assert np.linalg.norm(hessian - np.trace(hessian) * np.outer(u, u)) <= (
            slack * curvature_bound
        )
        # the coupling
        if loss in ("log-cosh", "pseudo-huber", "ostrovskii-bach"):
            assert h <= 1 - min(1.0, length) ** 2 + 2 * slack
        elif loss == "logistic":
            # h = 4 tau (1 - tau) times at most 1, tau at least the relative length
            assert h <= 1 + slack
            if length > 0.5:
                assert h <= 4 * length * (1 - min(1.0, length)) + 4 * slack
    assert reached > 0.9  # the search does reach the bound


@each("weighting", WEIGHTS)
@each("loss", LOSSES)
def test_records_outside_the_domain_contribute_nothing(loss, weighting):
    theta = np.array([0.3, -0.2])
    bad = [
        ([np.nan, 1.0], 1.0), ([1.0, np.inf], 1.0), ([-np.inf, np.nan], 0.0),
        ([1.0, 1.0], np.nan), ([1.0, 1.0], np.inf), ([0.0, 0.0], -np.inf),
    ]  # fmt: skip
    if loss == "logistic":
        bad += [([1.0, 1.0], y) for y in (0.5, 2.0, -1.0, 1 + 1e-16 + 1e-15)]
    for x, y in bad:
        parts = contributions(LOSSES[loss], WEIGHTS[weighting], np.array(x), y, theta, False)
        for part in parts:
            assert part is None or not part.any()


@each("loss", LOSSES)
def test_pairs_through_the_compiled_kernel_stay_within_their_sensitivity(loss):
    """Random neighbours, extreme records included: 2,000 pairs per loss and weight."""
    from dpfast.privacy.sensitivity import mean_rank_one, mean_score

    rng = np.random.default_rng(1)
    code = LOSSES[loss]
    psi_max = 1.0 if loss == "logistic" else C
    for name, weighting in WEIGHTS.items():
        bound = R if name == "clip" else psi_max * R
        x, y = extreme_records(2, 120, rng)
        if loss == "logistic":
            y = (y > 0) * 1.0
        theta = np.array([0.7, -0.4])
        found = [contributions(code, weighting, x[i], y[i], theta, False) for i in range(len(x))]
        scores = np.array([part[0] for part in found])
        distance = np.linalg.norm(scores[:, None] - scores[None], axis=2)
        assert distance.max() <= mean_score(2 * bound, 1)
        meats = np.array([part[2] for part in found])
        distance = np.linalg.norm(meats[:, None] - meats[None], axis=(2, 3))
        assert distance.max() <= mean_rank_one(bound**2, 1, 2)
        if name != "clip":
            curvature = (0.25 if loss == "logistic" else 1 / SIGMA) * R**2
            hessians = np.array([part[1] for part in found])
            distance = np.linalg.norm(hessians[:, None] - hessians[None], axis=(2, 3))
            assert distance.max() <= mean_rank_one(curvature, 1, 2)


ALL = records.GRADIENT | records.HESSIAN | records.MEAT
SLOTS = (0, 1, 3, 7, 8, 31, 64, 127, 128, 255, 288, 293, 296, 297, 298, 299)


@pytest.fixture
def every_isa():
    yield records._available_isas()
    records._set_isa("")


@each("layout", ["rows", "columns", "float32", "with an intercept"])
@each("q", [1, 5, 12, 13, 17, 24, 40, 170])
def test_c47_a_records_contribution_is_the_same_bits_in_every_slot(q, layout, every_isa):
    """Among records that contribute zero, at a parameter where the residual is all rounding.

    The last bit of a predictor is then the whole score: nothing would hide a slot that shows.
    """
    rng = np.random.default_rng(q)
    row, theta = rng.normal(size=q), rng.normal(size=q) * 1e16
    intercept = layout == "with an intercept"
    if layout == "float32":
        row = row.astype(np.float32)
    y = float(np.append(row, 1.0)[: q + intercept] @ np.append(theta, 0.5)[: q + intercept])
    theta = np.append(0.5, theta) if intercept else theta
    kernel = records.RecordKernel(LOG_COSH, 1.0, 1.0, MALLOWS, 2.0, intercept)
    for isa in every_isa:
        records._set_isa(isa)
        for want in (records.GRADIENT, ALL):
            found = set()
            for slot in SLOTS:
                X, responses = np.zeros((300, q), row.dtype), np.full(300, np.nan)
                X[slot], responses[slot] = row, y
                if layout == "columns":
                    X = np.asfortranarray(X)
                parts = kernel.sums(X, responses, theta, want, 1.0, 1)
                found.add(tuple(part.tobytes() for part in parts if part is not None))
            assert len(found) == 1, isa


@pytest.mark.parametrize("weighting", range(5))
def test_c12_a_record_that_is_repaired_moves_others_by_rounding_alone(weighting, every_isa):
    """A record that is no number, or too long for its square, sends its block another way.

    Those beside it, at most 127, have the same predictors and other last bits of psi and weight:
    within 8 roundings each, which claim C13 has room for.
    """
    worst, u = 0.0, 2.0**-53
    rng = np.random.default_rng(weighting)
    for isa in every_isa:
        records._set_isa(isa)
        for loss, q, scale in itertools.product(
            records.LOSS_CODES.values(), (2, 9, 30), (1.0, 1e16)
        ):
            try:
                kernel = records.RecordKernel(loss, 0.7, 1.0, weighting, 2.0, False, h=0.4)
            except ValueError:
                continue  # no residual for Schweppe weights
            row, theta = 3.0 * rng.normal(size=q), scale * rng.normal(size=q)
            y = 1.0 if loss == LOGISTIC else float(row @ theta) + 0.3
            for want in (records.GRADIENT, ALL):
                found = []
                for other in (0.0, np.nan, np.inf):
                    X, responses = np.zeros((100, q)), np.full(100, np.nan)
                    X[3], responses[3], X[5] = row, y, other
                    with contextlib.suppress(ValueError):  # no Hessian
                        found.append(kernel.sums(X, responses, theta, want, 1.0, 1))
                for parts in found[1:]:
                    for first, second in zip(found[0], parts, strict=True):
                        size = 0.0 if first is None else float(np.abs(first).max())
                        if size > 1e-100:
                            worst = max(worst, float(np.abs(first - second).max()) / size / u)
    assert worst <= 8.0
    if weighting == MALLOWS:
        assert worst > 0.0  # the test sees what it is about
