"""Attacks on every sensitivity: claims C12 to C14 and C17 to C21 of PROOFS.md.

For each claim, differential evolution over pairs of records (started from structured extremes:
antipodal, orthogonal, equal, zero, huge) looks for two records whose contributions differ by more
than the constant.  It must fail to exceed the constant, and must reach 99% of it, so that neither
the constant nor the attack is vacuous; where 99% cannot be reached the case says why.

Records are evaluated by plain formulas here; the same claims are attacked through the compiled
kernels in tests/kernels and tests/integration.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from dpfast.curator import Curator
from dpfast.curator.noisy_release import observed
from dpfast.data import as_records
from dpfast.models import Huber, Mallows, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise
from dpfast.privacy.sensitivity import (
    COUPLINGS,
    extreme_eigenvalue,
    joint_mu,
    loss_difference,
    mean_rank_one,
    mean_score,
)
from tests.loops import each

TIGHT = 0.99
ROUNDING = 1 + 1e-9  # constants carry slack for rounding that exact formulas do not use
C = 1.345
R = 1.7
SIGMA = 0.8


# ---- one record, vectorised over the trailing axis ----------------------------------------------


def psi_and_curvature(loss, r):
    with np.errstate(over="ignore", invalid="ignore"):
        if loss == "huber":
            return np.clip(r, -C, C), (np.abs(r) <= C) * 1.0
        if loss == "log-cosh":
            tanh = np.tanh(r / C)
            return C * tanh, 1 - tanh**2
        if loss == "pseudo-huber":
            u = r / C
            return C * u / np.hypot(1, u), np.hypot(1, u) ** -3.0
        raise AssertionError(loss)


def record(loss, weighting, x, intercept, y, theta):
    """Score, xi, weight * psi'/sigma of records x (q, ...), y (...)."""
    a = np.concatenate([np.ones((1, *x.shape[1:])), x]) if intercept else x
    norm = np.sqrt(np.sum(a**2, axis=0))
    weight = np.ones_like(norm)
    if weighting == "bounded":
        room = math.sqrt(R**2 - 1) if intercept else R
        length = np.sqrt(np.sum(x**2, axis=0))
        x = x * np.minimum(1, room / np.maximum(length, 1e-300))
        a = np.concatenate([np.ones((1, *x.shape[1:])), x]) if intercept else x
    elif weighting == "mallows":
        weight = np.minimum(1, R**2 / np.maximum(norm**2, 1e-300))
    t = np.tensordot(theta, a, axes=1)
    if loss == "logistic":
        p = 1 / (1 + np.exp(-np.clip(t, -700, 700)))
        psi, curvature = (y > 0) - p, p * (1 - p)
    else:
        psi, curvature = psi_and_curvature(loss, (y - t) / SIGMA)
        curvature = curvature / SIGMA
    if weighting == "clip":
        weight = np.minimum(1, R / np.maximum(np.abs(psi) * norm, 1e-300))
    return -psi * weight * a, a, curvature * weight


def decode(z, q):
    """Variables in [0, 1] to a record: direction, log-norm in [-3, 3], response."""
    direction = 2 * z[:q] - 1
    length = np.maximum(np.sqrt(np.sum(direction**2, axis=0)), 1e-12)
    x = direction / length * 10 ** (6 * z[q] - 3)
    y = np.sinh(30 * (z[q + 1] - 0.5))  # up to 1.6e6, dense near zero
    return x, y


def search(objective, n_variables, starts=(), seed=0, generations=80, population=60):
    """Largest value found; every start is part of the first population."""
    rng = np.random.default_rng(seed)
    first = rng.random((population, n_variables))
    for i, start in enumerate(starts):
        first[i] = start
    result = differential_evolution(
        lambda z: -objective(z),
        [(0.0, 1.0)] * n_variables,
        init=first,
        vectorized=True,
        updating="deferred",
        maxiter=generations,
        tol=1e-10,
        polish=False,
        seed=seed,
    )
    return -float(result.fun)


def structured_pairs(q):
    """Equal, antipodal and orthogonal records, long and short, with responses far out or at 0."""
    e, f = np.full(q, 0.5), np.full(q, 0.5)
    e[0] = 1.0
    f[-1] = 1.0
    opposite = 1 - e
    pairs = []
    for other in (e, opposite, f):
        for length in (0.5, 0.55, 1.0):
            for y1, y2 in ((1, 1), (1, 0), (0.5, 0.5), (0.5, 1)):
                pairs.append([*e, length, y1, *other, length, y2])
    return pairs


LOSSES = ("huber", "log-cosh", "pseudo-huber", "logistic")
PSI_MAX = {"huber": C, "log-cosh": C, "pseudo-huber": C, "logistic": 1.0}
CURVATURE_MAX = {"huber": 1 / SIGMA, "log-cosh": 1 / SIGMA, "pseudo-huber": 1 / SIGMA,
                 "logistic": 0.25}  # fmt: skip


def theta_for(loss, p):
    """A public parameter at which the worst pair exists: logistic needs a steep one."""
    theta = np.zeros(p)
    theta[-1] = 1e4 if loss == "logistic" else 0.3
    return theta


def pair_distance(loss, weighting, q, intercept, quantity, theta):
    def objective(z):
        with np.errstate(all="ignore"):
            contributions = []
            for part in (z[: q + 2], z[q + 2 :]):
                x, y = decode(part, q)
                score, a, h = record(loss, weighting, x, intercept, y, theta)
                if quantity == "score":
                    contributions.append(score)
                elif quantity == "hessian":
                    contributions.append(h * a[:, None] * a[None, :])
                else:
                    contributions.append(score[:, None] * score[None, :])
            difference = contributions[0] - contributions[1]
            axes = tuple(range(difference.ndim - 1))
            return np.sqrt(np.sum(difference**2, axis=axes))

    return objective


@pytest.mark.parametrize("weighting", ["bounded", "mallows", "clip"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.pairs
def test_c13_mean_score(loss, weighting, q):
    bound = R if weighting == "clip" else PSI_MAX[loss] * R
    found = search(
        pair_distance(loss, weighting, q, False, "score", theta_for(loss, q)),
        2 * q + 4,
        structured_pairs(q),
    )
    n = 1000
    assert found / n <= mean_score(2 * bound, n) * ROUNDING
    # One covariate and logistic: the two scores cannot have opposite signs at full length, because
    # a steep theta ties the sign of the prediction to that of the only covariate.
    if not (loss == "logistic" and q == 1):
        assert found / n >= TIGHT * mean_score(2 * bound, n)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.one_in(2)
def test_c13_mean_score_with_an_intercept(loss):
    """Bounded domain with a virtual column of ones: the diameter 2 B is still attained."""
    bound = PSI_MAX[loss] * R
    theta = np.array([0.0, 0.0, 1e4 if loss == "logistic" else 0.0])
    found = search(pair_distance(loss, "bounded", 2, True, "score", theta), 8, structured_pairs(2))
    assert TIGHT * mean_score(2 * bound, 1) <= found <= mean_score(2 * bound, 1) * ROUNDING


@pytest.mark.parametrize("weighting", ["bounded", "mallows"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.pairs
def test_c14_mean_hessian(loss, weighting, p):
    bound = CURVATURE_MAX[loss] * R**2
    objective = pair_distance(loss, weighting, p, False, "hessian", np.zeros(p))
    found = search(objective, 2 * p + 4, structured_pairs(p))
    constant = mean_rank_one(bound, 50, p)
    assert found / 50 <= constant * ROUNDING
    # Pseudo-Huber, log-cosh, logistic at theta = 0: psi' is largest at r = 0, which is reachable.
    assert found / 50 >= TIGHT * constant


@pytest.mark.parametrize("weighting", ["bounded", "mallows", "clip"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.values
def test_c14_mean_meat(loss, weighting, p):
    bound = R**2 if weighting == "clip" else (PSI_MAX[loss] * R) ** 2
    theta = np.zeros(p)
    if loss == "logistic":
        theta[:2] = 1e4, 1e4 - 1  # both axes predicted with certainty
    found = search(
        pair_distance(loss, weighting, p, False, "meat", theta), 2 * p + 4, structured_pairs(p)
    )
    constant = mean_rank_one(bound, 50, p)
    assert TIGHT * constant <= found / 50 <= constant * ROUNDING


def test_c14_one_dimension_alone():
    objective = pair_distance("log-cosh", "mallows", 1, False, "hessian", np.zeros(1))
    found = search(objective, 6, structured_pairs(1))
    constant = mean_rank_one(R**2 / SIGMA, 1, 1, alone=True)
    assert TIGHT * constant <= found <= constant * ROUNDING
    assert mean_rank_one(1.0, 1, 1) == pytest.approx(math.sqrt(2), rel=1e-11)


def test_c14_indefinite_curvature_is_outside_the_claim():
    """h >= 0 is needed: +h and -h in one direction differ by 2, more than sqrt(2)."""
    a = np.array([1.0, 0.0])
    assert np.linalg.norm(np.outer(a, a) + np.outer(a, a)) == 2.0 > mean_rank_one(1.0, 1, 2)


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("p", [2, 3])
def test_c20_extreme_eigenvalue(which, p):
    """Against any other records: the rest of the sum is part of the search."""

    def objective(z):
        rest = 50 * z[-p:]
        values = []
        for part in (z[: p + 1], z[p + 1 : 2 * p + 2]):
            direction = 2 * part[:p] - 1
            length = np.maximum(np.sqrt(np.sum(direction**2, axis=0)), 1e-12)
            a = direction / length
            matrix = part[p] * a[:, None] * a[None, :]
            matrix[np.arange(p), np.arange(p)] += rest
            values.append(np.linalg.eigvalsh(np.moveaxis(matrix, -1, 0))[:, which])
        return np.abs(values[0] - values[1])

    e = np.full(p, 0.5)
    e[0] = 1.0
    start = [*e, 1, *e, 0, *([0.0] + [1.0] * (p - 1) if which == 0 else [1.0] + [0.0] * (p - 1))]
    found = search(objective, 3 * p + 2, [start], generations=60, population=40)
    constant = extreme_eigenvalue(1.0, 1, p)
    assert TIGHT * constant <= found <= constant * ROUNDING


@pytest.mark.parametrize("loss", ["huber", "log-cosh", "pseudo-huber", "logistic"])
@pytest.mark.one_in(2)
def test_c21_loss_difference(loss):
    theta0, theta1 = np.array([0.4, -0.2]), np.array([-0.1, 0.5])
    distance = float(np.linalg.norm(theta1 - theta0))

    def value(r):
        r = np.abs(r)
        if loss == "huber":
            m = np.minimum(r, C)
            return m * (r - 0.5 * m)
        if loss == "log-cosh":
            return C**2 * (r / C + np.log1p(np.exp(-2 * r / C)) - math.log(2))
        return C**2 * (np.hypot(1, r / C) - 1)

    def objective(z):
        differences = []
        for part in (z[:4], z[4:]):
            x, y = decode(part, 2)
            if loss == "logistic":
                x = x * 100  # the loss is linear, with slope 1, only far out
            weight = np.minimum(1, R**2 / np.maximum(np.sum(x**2, axis=0), 1e-300))
            if loss == "logistic":
                lost = [np.logaddexp(0, t) - (y > 0) * t for t in (theta0 @ x, theta1 @ x)]
            else:
                lost = [SIGMA * value((y - theta @ x) / SIGMA) for theta in (theta0, theta1)]
            differences.append(weight * (lost[1] - lost[0]))
        return np.abs(differences[0] - differences[1])

    constant = loss_difference(PSI_MAX[loss] * R, distance, 1)
    # fewer decades of y: the difference of two losses of size 1e6 has no digits left
    found = search(objective, 8, generations=250)
    assert found <= constant * ROUNDING
    # Logistic with Mallows weights: slope 1 needs a long record in a good direction, which the
    # weight shrinks to length R^2/||x||; and one of the two labels always has slope below 1.
    if loss != "logistic":
        assert found >= TIGHT * constant


@pytest.mark.parametrize("entries", [1, 7])
def test_c21_squares_of_tiny_steps_are_not_lost(entries):
    """Lengths down to the smallest numbers, as an optimiser of one's own may ask at: attained."""
    observed_values = []

    class Exact:
        def release(self, question, release, draw):
            observed_values.append(release)
            return np.zeros_like(release.value)

    root = math.sqrt(entries)
    objective = Objective(Huber(1.0), Mallows(1.0), entries, fit_intercept=False, scale=1.0)

    def ask(y, size):
        X = np.array([np.full(entries, 1.0 / root), np.zeros(entries)])
        keeper = Curator(as_records(X, np.array(y)), objective, Ledger(1e6), SeededNoise(0))
        keeper.loss_difference(np.full(entries, size), np.zeros(entries), 0.5)

    worst = {"loss difference": 0.0}
    with observed(Exact()):
        for size in (*np.geomspace(1e-166, 1e-130, 300), 1e-320, 1e-190, 1e-100, 1e100):
            for pair in ([(1e3, 0.0), (-1e3, 0.0)], [(0.0, 0.0), (1e3, 0.0)]):
                observed_values.clear()
                for y in pair:
                    ask(y, float(size))
                half = len(observed_values) // 2
                for a, b in zip(observed_values[:half], observed_values[half:], strict=True):
                    unit = max(float(np.abs(a.value - b.value).max()), 1e-300)
                    moved = unit * float(np.linalg.norm((a.value - b.value) / unit))
                    worst[a.query] = max(worst[a.query], moved / a.l2_sensitivity)
    assert all(0.99 <= ratio <= 1.0 for ratio in worst.values()), worst


# ---- joint releases -----------------------------------------------------------------------------


def curve(coupling, s):
    """(tau, h) of a record at position s >= 0 of its loss."""
    with np.errstate(all="ignore"):
        if coupling == "one-minus-square":
            tau = np.tanh(s)
            return tau, 1 - tau**2
        if coupling == "circle":
            return s / np.hypot(1, s), 1 / np.hypot(1, s)
        if coupling == "logistic":
            tau = 1 / (1 + np.exp(-(s - 8)))
            return tau, 4 * tau * (1 - tau)
        if coupling == "log-cosh-majorizer":
            return np.tanh(s), np.where(s > 0, np.tanh(s) / s, 1.0)
        u = s - 8
        return (1 + np.tanh(u)) / 2, np.where(u != 0, np.tanh(u) / u, 1.0)


def joint_distance_squared(coupling, g, h, q):
    """Squared distance of two records' contributions, in units of the noise of each part.

    Vectors and matrices are built explicitly (p = 3), so that the lemma's formula for their
    distances is attacked together with its maximisation.
    """

    def contribution(direction, length, tau, curvature):
        a = direction / np.maximum(np.sqrt(np.sum(direction**2, axis=0)), 1e-12)
        score = tau * length * a / 2
        outer = a[:, None] * a[None, :]
        return score, curvature * length**2 * outer, (tau * length) ** 2 * outer

    def objective(z):
        parts = []
        for part in (z[:6], z[6:]):
            direction, length = 2 * part[:3] - 1, part[3]
            if coupling in ("independent", "none"):
                tau, curvature = part[4], part[5]
            else:
                tau, curvature = curve(coupling, 40 * part[4] ** 2)
                tau = np.where(part[5] > 0.5, tau, -tau)
            parts.append(contribution(direction, length, tau, curvature))
        score, hessian, meat = (first - second for first, second in zip(*parts, strict=True))
        return (
            g * np.sum(score**2, axis=0)
            + 0.5 * h * np.sum(hessian**2, axis=(0, 1))
            + 0.5 * q * np.sum(meat**2, axis=(0, 1))
        )

    return objective


STARTS = [
    [*first, 1, s1, 1, *second, 1, s2, sign]
    for first, second in (((1, 0.5, 0.5), (1, 0.5, 0.5)), ((1, 0.5, 0.5), (0.5, 1, 0.5)))
    for s1, s2 in ((1, 1), (0, 0), (1, 0), (0.45, 0.45), (1, 0.3))
    for sign in (0, 1)
]

#: (coupling, mu_g^2, mu_h^2, mu_q^2, whether the bound is attained)
JOINT = [
    ("independent", 1, 0.0, 0, True),
    ("independent", 1, 0.5, 0, True),
    ("independent", 1, 1.0, 0, True),
    ("independent", 0.3, 1.0, 0, True),
    ("independent", 1, 0.5, 0.1, True),
    ("independent", 1, 1.0, 0.3, True),
    ("independent", 1, 0.0, 1.0, True),
    ("one-minus-square", 1, 1.0, 0, True),
    ("one-minus-square", 1, 2.0, 0, True),
    ("one-minus-square", 1, 1.0, 0.25, True),
    ("one-minus-square", 1, 1.5, 0.2, True),
    ("one-minus-square", 1, 1.0, 0.5, False),
    ("circle", 1, 1.0, 0, True),
    ("circle", 1, 1.0, 0.08, False),
    ("logistic", 1, 0.5, 0, True),
    ("logistic", 1, 0.693, 0, True),
    ("logistic", 1, 1.0, 0, False),
    ("logistic", 1, 0.5, 0.1, False),
    ("log-cosh-majorizer", 1, 0.4, 0, False),
    ("log-cosh-majorizer", 1, 1.0, 0, False),
    ("log-cosh-majorizer", 1, 2.0, 0, True),
    ("logistic-majorizer", 1, 0.2, 0, True),
    ("logistic-majorizer", 1, 1.0, 0, False),
]


@pytest.mark.parametrize(("coupling", "g", "h", "q", "attained"), JOINT)
def test_c17_c18_joint_release(coupling, g, h, q, attained):
    """Where the bound is not attained, the proof gave away the cross terms: PROOFS.md, C18."""
    bound = joint_mu(coupling, math.sqrt(g), math.sqrt(h), math.sqrt(q)) ** 2
    found = search(joint_distance_squared(coupling, g, h, q), 12, STARTS, generations=150)
    assert found <= bound * ROUNDING
    assert math.sqrt(found) >= (TIGHT if attained else 0.85) * math.sqrt(bound)


def test_joint_release_of_records_that_are_not_collinear_is_plain_composition():
    """Scope of claim C17: with a score orthogonal to its own curvature the sum is attained."""
    g = h = 1.0
    distance = g * 1.0**2 + h * 0.5 * 2.0  # opposite scores e1, -e1; curvatures e2e2', e3e3'
    assert distance == pytest.approx(joint_mu("none", 1.0, 1.0) ** 2, rel=1e-12)
    for coupling in COUPLINGS:
        if coupling != "none":
            assert joint_mu(coupling, 1.0, 1.0) ** 2 < distance


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_joint_mu_lies_between_its_parts_and_their_composition(coupling):
    rng = np.random.default_rng(0)
    for _ in range(300):
        parts = 10 ** rng.uniform(-3, 1, 3) * (rng.random(3) < 0.8)
        if parts.max() == 0:
            continue
        mu = joint_mu(coupling, *parts)
        assert max(parts) <= mu <= math.sqrt(sum(parts**2)) * (1 + 1e-13)
        scaled = joint_mu(coupling, *(parts * 2.0**-7))
        assert scaled == pytest.approx(mu * 2.0**-7, rel=1e-14)  # homogeneous
        more = joint_mu(coupling, *(parts * 1.01))
        assert more >= mu


def test_the_couplings_are_those_of_the_losses():
    """The relations between tau and h that the claims assume, over the whole line."""
    s = np.concatenate([np.linspace(0, 40, 200_001), np.geomspace(40, 1e6, 1000)])
    tanh = np.tanh(s)
    root = np.hypot(1, s)
    slack = 1e-15
    assert np.all(1 - tanh**2 <= 1 - tanh**2 + slack)  # log-cosh: equality
    assert np.all(root**-3.0 <= 1 - (s / root) ** 2 + slack)  # pseudo-Huber
    assert np.all(root**-2.0 <= 1 - (s / root) ** 2 + slack)  # its majoriser, squared
    p = 1 / (1 + np.exp(-s))
    assert np.allclose(4 * p * (1 - p), p * (1 - p) / 0.25, atol=slack)  # logistic
    # label 0 and 1 give tau = p and 1 - p; the majoriser tanh(t/2)/(2t) is 1/4 at its largest
    t = s[1:]
    assert np.all(np.abs(np.tanh(t / 2) / (2 * t) / 0.25 - np.tanh(t / 2) / (t / 2)) < slack)
    assert np.all(np.abs(p - (1 + np.tanh(s / 2)) / 2) < 1e-15)


@each(
    "arguments",
    [("nonsense", 1, 1, 0), ("circle", 0, 0, 0), ("circle", -1, 1, 0), ("circle", math.nan, 1, 0),
     ("circle", math.inf, 1, 0), ("circle", 1, -1e-9, 0)],
)  # fmt: skip
def test_joint_mu_refuses(arguments):
    with pytest.raises(ValueError):
        joint_mu(*arguments)


@each("bad", [0.0, -1.0, math.nan, math.inf])
def test_sensitivities_refuse_constants_that_are_none(bad):
    for call in (
        lambda: mean_score(bad, 10),
        lambda: mean_rank_one(bad, 10, 2),
        lambda: extreme_eigenvalue(bad, 10, 2),
        lambda: loss_difference(bad, 1.0, 10),
        lambda: loss_difference(1.0, bad, 10),
    ):
        with pytest.raises(ValueError, match="positive, finite"):
            call()
    for call in (
        lambda: mean_score(1.0, 0),
        lambda: mean_score(1.0, 10, depth=-1),
        lambda: mean_rank_one(1.0, 10, 0),
    ):
        with pytest.raises(ValueError):
            call()
