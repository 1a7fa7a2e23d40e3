"""The curator: charges before it touches records, answers with receipts, never off the grid."""

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.curator.joint import Layout, make_plan
from dpfast.curator.noisy_release import observed
from dpfast.data import Records
from dpfast.models import Huber, LogCosh, Logistic, Mallows, Objective, PseudoHuber
from dpfast.privacy.sensitivity import joint_mu
from tests.loops import each
from tests.twins import records as reference

THETA = np.array([0.1, -0.2, 0.3])


class Untouchable(Records):
    """Records that must not be read."""

    def blocks(self):
        raise AssertionError("the records were touched")


class Blocks(Records):
    """The same records in several blocks of different sizes."""

    def __init__(self, X, y, names):
        super().__init__(X, y, names)
        self.block_sizes = (7, 1, len(y) - 8)

    def blocks(self):
        for a, b in ((0, 7), (7, 8), (8, self.n)):
            yield self.X[a:b], self.y[a:b]


def data(n=200, kind=Records):
    rng = np.random.default_rng(0)
    return kind(rng.normal(size=(n, 2)), rng.normal(size=n), None)


def curator(records=None, loss=None, total=1e3, seed=0):
    loss = loss or LogCosh()
    objective = Objective(loss, Mallows(2.0), 2, scale=1.0 if loss.needs_scale else None)
    records = records or data()
    return Curator(records, objective, dpfast.Ledger(total), dpfast.SeededNoise(seed))


def test_overspending_is_refused_before_the_records_are_touched():
    keeper = curator(data(kind=Untouchable), total=0.5)
    with pytest.raises(dpfast.BudgetExceeded):
        keeper.joint(THETA, StepBudget(0.6))
    assert not keeper.ledger.entries


def test_the_charge_stays_when_the_query_fails():
    keeper = curator(data(kind=Untouchable))
    with pytest.raises(AssertionError, match="touched"):
        keeper.joint(THETA, StepBudget(0.6))
    assert len(keeper.ledger.entries) == 1


def test_a_plan_is_shared_by_those_who_agree_on_every_public_number_and_by_nobody_else():
    def objective(loss=None, radius=2.0, scale=1.0, q=2, **options):
        return Objective(loss or LogCosh(), Mallows(radius), q, scale=scale, **options)

    def plan(model, n=200, kind=Records):
        records = kind(np.zeros((n, model.n_covariates)), np.zeros(n), None)
        keeper = Curator(records, model, dpfast.Ledger(1e3), dpfast.SeededNoise(0))
        budget = StepBudget(0.8, 0.5, 0.3)
        layout = Layout(*records._summed(model.n_coefficients))
        assert keeper.plan(budget) == make_plan(model, layout, budget)  # nobody else's
        return keeper.plan(budget)

    first = plan(objective())
    assert plan(objective()) is first
    assert plan(objective(), kind=Blocks) is not first
    assert plan(objective(q=3)) is not first
    others = [
        plan(objective(), n=201),
        plan(objective(radius=2.5)),
        plan(objective(scale=2.0)),
        plan(objective(LogCosh(1.5))),
        plan(objective(Huber())),
        plan(Objective(Logistic(), Mallows(2.0), 2)),
    ]
    assert all(plan != first for plan in others)


@each("loss", [Huber(), LogCosh(), PseudoHuber(), Logistic()], ids=repr)
@each("majorize", [False, True])
@each("budget", [StepBudget(1.0), StepBudget(1.0, 0.7), StepBudget(0.8, 0.5, 0.3)])
def test_joint_release_is_charged_its_joint_cost(loss, majorize, budget):
    keeper = curator(loss=loss)
    answer = keeper.joint(THETA, budget._replace(majorize=majorize))
    coupling = keeper.objective.majorizer_coupling if majorize else keeper.objective.coupling
    assert answer.mu == joint_mu(coupling, *budget[:3])
    (entry,) = keeper.ledger.entries
    assert entry.spend.mu == answer.mu
    for name, mu in zip(("gradient", "hessian", "meat"), budget[:3], strict=True):
        part = getattr(answer, name)
        assert part.receipt.mu == mu
        if mu:
            # the noise is never below what the sensitivity needs
            assert part.noise_scale >= part.receipt.l2_sensitivity / mu
            assert part.noise_scale <= part.receipt.l2_sensitivity / mu * (1 + 1e-4)
        else:
            assert part.value.size == 0


def test_values_are_the_exact_means_plus_noise_of_the_announced_scale():
    keeper = curator()
    exact = reference.record_sums(
        *next(data().blocks()),
        THETA,
        **dict(
            zip(
                ("loss", "c", "scale", "weighting", "radius", "intercept"),
                keeper.objective.kernel_arguments()[:6],
                strict=True,
            )
        ),
        want=7,
        divisor=200.0,
    )
    scores = []
    for seed in range(300):
        answer = curator(seed=seed).joint(THETA, StepBudget(1.0, 1.0, 1.0))
        for part, value in zip(answer[:3], exact, strict=True):
            noise = (part.value - value) / part.noise_scale
            scores.append(noise if noise.ndim == 1 else noise[np.triu_indices(3)])
    scores = np.concatenate(scores).reshape(300, -1)
    scores[:, [4, 5, 7, 10, 11, 13]] *= 2**0.5  # off-diagonal entries carry half the variance
    # 15 coordinates, 300 draws: chi-square with 4,500 degrees of freedom; false-failure 1e-6
    # is 4.9 standard deviations, 0.103 of the mean.  A scale 10% too small (19% less variance)
    # is caught with probability above 0.999.
    assert abs((scores**2).mean() - 1.0) < 0.103
    assert abs(scores.mean()) < 4.9 / 4500**0.5


def test_blocks_add_up():
    whole = curator().nonprivate_sums(THETA)
    blocks = curator(data(kind=Blocks)).nonprivate_sums(THETA)
    for a, b in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)
    assert curator().nonprivate_loss(THETA) == pytest.approx(
        curator(data(kind=Blocks)).nonprivate_loss(THETA), rel=1e-14
    )


def test_every_answer_passes_the_observer():
    seen = []

    class Watcher:
        def release(self, question, release, draw):
            seen.append((release.query, release.noise_scale))
            return draw()

    watcher = Watcher()
    with observed(watcher):
        answer = curator().joint(THETA, StepBudget(1.0, 1.0, 1.0))
    curator().joint(THETA, StepBudget(1.0))  # outside the block: not observed
    names = ["gradient", "hessian", "meat"]
    assert seen == [(name, getattr(answer, name).noise_scale) for name in names]


def test_objective_and_records_must_agree():
    objective = Objective(LogCosh(), Mallows(2.0), 5, scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match="5 covariates"):
        Curator(data(), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))


def test_steering_queries_are_charged_and_close_to_the_truth():
    keeper = curator(total=1e6)
    zero = np.zeros(3)
    change = keeper.loss_difference(THETA, zero, 1e4)
    exact = keeper.nonprivate_loss(THETA) - keeper.nonprivate_loss(zero)
    assert abs(change.value[0] - exact) <= 6 * change.noise_scale
    bound = 2 * keeper.objective.score_bound * np.linalg.norm(THETA) / 200
    assert change.receipt.l2_sensitivity == pytest.approx(bound, rel=1e-6)

    hessian = keeper.nonprivate_sums(THETA)[1]
    for largest, exact in (
        (False, np.linalg.eigvalsh(hessian)[0]),
        (True, np.linalg.eigvalsh(hessian)[2]),
    ):
        eigenvalue = keeper.extreme_eigenvalue(THETA, 1e4, largest=largest)
        assert abs(eigenvalue.value[0] - exact) <= 6 * eigenvalue.noise_scale

    largest = keeper.largest_curvature(1e4)
    for theta in (zero, THETA, 2.0 * THETA):
        top = np.linalg.eigvalsh(keeper.nonprivate_sums(theta)[1])[2]
        assert top <= largest.value[0] + 6 * largest.noise_scale
    assert [entry.spend.mu for entry in keeper.ledger.entries] == [1e4] * 4


def test_a_step_of_length_zero_is_a_query_like_any_other():
    keeper = curator()
    answer = keeper.loss_difference(THETA, THETA, 0.5)
    assert np.isfinite(answer.value).all() and len(keeper.ledger.entries) == 1
