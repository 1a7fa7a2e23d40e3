"""The adaptive Newton method: where it arrives, what it spends, what it says of itself."""

import math

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit

import dpfast
from dpfast.audit import neighbours, replay
from dpfast.curator import Curator
from dpfast.data import as_records
from dpfast.inference.degrees import VarianceNoise
from dpfast.kernels.linalg import sandwich
from dpfast.models import Objective, resolve_loss
from dpfast.optimize import AdaptiveNewton
from dpfast.optimize.adaptive.joint import JointRun
from dpfast.optimize.adaptive.run import MOST_STEPS, Run, arrive
from dpfast.optimize.propagation import Curvature
from dpfast.optimize.protocol import answers_only
from tests.flat import flat

LOSSES = pytest.mark.parametrize("loss", ["log-cosh", "huber", "logistic"])
BLOCKS = pytest.mark.parametrize("blocks", [False, True])
FREE = dpfast.FreeScale(0.1, 10.0)


def draw(n=2000, p=4, loss="log-cosh", seed=0, intercept=0.5, slopes=0.5):
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p - 1))
    beta = slopes * np.where(np.arange(p - 1) % 2, -1.0, 1.0)
    t = intercept + X @ beta
    y = (rng.random(n) < expit(t)).astype(float) if loss == "logistic" else t + rng.normal(size=n)
    return X, y, np.append(intercept, beta)


def fit(X, y, loss, mu=1.0, seed=0, method=None, **options):
    if loss != "logistic":
        options.setdefault("scale", 1.0)
    options.setdefault("standardize", False)
    return flat(dpfast.fit)(
        X, y, loss, privacy=mu, noise=dpfast.SeededNoise(seed), method=method or AdaptiveNewton(),
        threads=1, **options,
    )  # fmt: skip


@LOSSES
@BLOCKS
@pytest.mark.parametrize("start", [None, [9.0] * 4])
@pytest.mark.parametrize("options", [{}, {"inference": False}, {"ridge": 0.1},
                                     {"weights": dpfast.Bounded(2)}, {"scale": FREE}])  # fmt: skip
@pytest.mark.parametrize(("n", "intercept"), [(2000, 0.5), (300, 60.0)])
def test_all_of_the_budget_is_spent_and_no_more(loss, blocks, options, start, n, intercept):
    if "scale" in options and loss == "logistic":
        pytest.skip("no scale")
    X, y, _ = draw(n, loss=loss, intercept=intercept)
    found = fit(X, y, loss, method=AdaptiveNewton(blocks=blocks, start=start), **options)
    spent = math.fsum(mu**2 for _, mu in found.privacy.entries)
    assert 1.0 - 1e-6 < spent <= 1.0
    assert len(found.iterates) <= MOST_STEPS + 2
    assert len(found.privacy.entries) <= MOST_STEPS + 9
    labels = [label for label, _ in found.privacy.entries]
    assert labels.count("random blocks") == int(blocks)
    assert np.isfinite(found.params).all()


@LOSSES
@BLOCKS
def test_a_generous_budget_recovers_the_exact_fit_and_its_errors(loss, blocks):
    """With blocks, errors are those of a part of the records."""
    X, y, _ = draw(20_000, loss=loss)
    exact = dpfast.nonprivate_fit(
        X, y, dpfast.Objective(loss, scale=None if loss == "logistic" else 1.0)
    )
    found = fit(X, y, loss, mu=1e4, method=AdaptiveNewton(blocks=blocks))
    assert (np.abs(found.params - exact.params) < 0.05 * exact.bse).all()
    np.testing.assert_allclose(found.bse, exact.bse, rtol=0.1 if blocks else 1e-3)
    assert not found.warnings


@LOSSES
@BLOCKS
@pytest.mark.one_in(2)
def test_errors_are_those_announced(loss, blocks):
    """Distances from the exact fit in units of the announced privacy noise: 60 fits of 4.

    The mean square is 1 with a standard deviation of .09; outside [.5, 1.7] with probability
    below 1e-6 (heavier tails where variances are noisy included).
    """
    X, y, _ = draw(4_000, loss=loss)
    exact = dpfast.nonprivate_fit(
        X, y, dpfast.Objective(loss, scale=None if loss == "logistic" else 1.0)
    )
    squares = []
    for seed in range(60):
        found = fit(X, y, loss, mu=0.15, seed=seed, method=AdaptiveNewton(blocks=blocks))
        noise = found.bse**2 - exact.bse**2
        squares.append((found.params - exact.params) ** 2 / np.maximum(noise, 0.2 * found.bse**2))
    assert 0.5 < np.mean(squares) < 1.7


def test_a_rare_dummy_that_changes_much_is_found_or_said_to_be_missing():
    """200 of 100,000 records are 20 scales away: 39 of 40 fits cover or warn, 14 did before.

    The linear predictor hardly changes with it, root mean square.  Fewer than 30 with probability
    below 1e-6; 30 or more of those 14 likewise.
    """
    honest = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        X = np.column_stack([rng.random(100_000) < 0.002, rng.normal(size=100_000)])
        y = 1.0 + X @ [20.0, 1.0] + rng.normal(size=100_000)
        found = fit(X, y, "log-cosh", seed=seed)
        low, high = found.conf_int()[1]
        honest += bool(found.warnings) or low <= 20.0 <= high
    assert honest >= 30


@pytest.mark.parametrize("scale", [1e99, 3e97, 1e-60])
def test_extreme_scales_are_refused_before_the_charge_or_give_a_result(scale):
    X, y, _ = draw(1_000, p=3)
    shared = dpfast.Ledger(1.0)
    try:
        fit(X, y, "log-cosh", scale=scale, ledger=shared)
    except dpfast.InvalidInput:
        assert not shared.entries


@pytest.mark.parametrize(("loss", "far"), [("log-cosh", 200.0), ("huber", -3000.0)])
def test_far_intercepts_are_found(loss, far):
    X, y, truth = draw(5_000, loss=loss, intercept=far)
    found = fit(X, y, loss)
    assert (np.abs(found.params - truth) < 6.0 * found.bse).all()
    assert found.bse.max() < 0.03
    assert not found.warnings


@pytest.mark.parametrize(("loss", "n", "mu"), [("huber", 700, 1.0), ("huber", 1_000, 0.6)])
def test_noise_that_hides_the_first_curvature_says_that_it_is_far(loss, n, mu):
    """The first step of the start is as long as its floor allows, 7 of its scales of 16."""
    X, y, truth = draw(n, loss=loss, intercept=500.0)
    found = fit(X, y, loss, mu)
    assert (np.abs(found.params - truth) < 6.0 * found.bse).all()
    assert found.bse.max() < 0.5


def test_a_public_start_is_where_it_begins():
    X, y, _ = draw()
    found = fit(X, y, "log-cosh", method=AdaptiveNewton(start=[0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_array_equal(found.iterates[0], [0.1, 0.2, 0.3, 0.4])


def test_it_is_what_auto_chooses_and_steps_are_not_its_business():
    X, y, _ = draw()
    for scale in (1.0, FREE):
        assert "AdaptiveNewton" in fit(X, y, "log-cosh", method="auto", scale=scale).method
    for setting in ({"steps": 9}, {"schedule": "uniform"}):
        with pytest.raises(TypeError):
            AdaptiveNewton(**setting)
    shared = dpfast.Ledger(1.0)
    with pytest.raises(dpfast.InvalidInput, match="no Hessian"):
        fit(X, y, "log-cosh", weights=dpfast.models.Clip(1.0), inference=False, ledger=shared)
    for few in (X[:200], scipy.sparse.csr_matrix(X[:200])):
        with pytest.raises(dpfast.InvalidInput, match="at least 256 records"):
            fit(few, y[:200], "log-cosh", method=AdaptiveNewton(blocks=True), ledger=shared)
    with pytest.raises(dpfast.InvalidInput, match="True, False or None"):
        AdaptiveNewton(blocks=1)
    assert not shared.entries


def test_progress_ends_with_all_steps_done():
    X, y, _ = draw()
    seen = []
    fit(X, y, "log-cosh", progress=lambda *step: seen.append(step))
    assert seen[0] == (0, MOST_STEPS) and seen[-1] == (MOST_STEPS, MOST_STEPS)
    assert seen == sorted(seen)


@BLOCKS
@pytest.mark.parametrize(
    ("loss", "scale"), [("log-cosh", 1.0), ("logistic", None), ("huber", FREE), ("log-cosh", FREE)]
)
@pytest.mark.parametrize("kind", ["antipodal", "huge", "nan"])
@pytest.mark.values
def test_nothing_but_the_answers_decides(loss, scale, blocks, kind):
    """Steps, budgets and the number of answers follow from released numbers alone."""
    X, y, _ = draw(400, p=3, loss=loss)

    def call(data):
        found = fit(*data, loss, method=AdaptiveNewton(blocks=blocks), scale=scale)
        return found, found.summary(), found.warnings

    replay(call, *neighbours(X, y)[kind], budget=1.0).raise_on_leak()


def test_a_sorted_table_is_as_good_as_any():
    """Blocks are random, so they are alike however the table is sorted: 12 fits of either.

    The errors of sorted tables are 1 to 3 times those of shuffled ones with probability 1 - 1e-6
    (a ratio of chi-squared means of 48); chunks of a sorted table would never arrive.
    """
    squares = []
    for order in (slice(None), "sorted"):
        found = []
        for seed in range(12):
            X, y, _ = draw(3_000, loss="log-cosh", seed=seed)
            exact = dpfast.nonprivate_fit(X, y, dpfast.Objective("log-cosh", scale=1.0))
            rows = np.argsort(y) if isinstance(order, str) else order
            blocks = AdaptiveNewton(blocks=True)
            private = fit(X[rows], y[rows], "log-cosh", seed=seed, method=blocks)
            found.append(((private.params - exact.params) / exact.bse) ** 2)
        squares.append(np.mean(found))
    assert 1 / 3 < squares[1] / squares[0] < 3


@pytest.mark.parametrize("step_scale", [0.0, 0.03, 0.1])
def test_degrees_of_freedom_are_those_of_the_noise(step_scale):
    """Relative standard deviation of a variance over 4,000 draws of the matrices' noise.

    The noise of the last step, with deviation ``step_scale``, went through the same noisy
    curvature: it is up to five times the sampling variance here. Known to 1.2% (one standard
    deviation), the formula is of first order: within 12%.
    """
    rng = np.random.default_rng(1)
    p, n, s_h, s_q = 3, 500, 0.01, 0.03
    H, Q = np.diag([1.0, 0.8, 0.5]), np.diag([0.9, 0.7, 0.6]) + 0.1

    def noise(scale):
        Z = np.triu(rng.normal(size=(p, p)), 1) / np.sqrt(2)
        return scale * (Z + Z.T + np.diag(rng.normal(size=p)))

    middle = Q + n * step_scale**2 * np.eye(p)
    draws = [sandwich(H + noise(s_h), middle + noise(s_q), 1e-6)[0] / n for _ in range(4_000)]
    rows = np.array([[1.0, 0, 0], [0, 0, 1.0], [1.0, -1.0, 0.5]])
    variances = np.array([np.einsum("ij,jk,ik->i", rows, V, rows) for V in draws])
    relative = variances.std(axis=0) / variances.mean(axis=0)
    whole = sandwich(H, middle, 1e-6)[0]
    spread = VarianceNoise(Curvature(H, 1e-6, 0, 0.0), s_h, whole, s_q, n)
    exact = np.einsum("ij,jk,ik->i", rows, whole / n, rows)
    np.testing.assert_allclose(
        np.sqrt(2.0 / spread.degrees_of_freedom(rows, exact)), relative, rtol=0.12
    )
    # twice the variance, the rest of it known: four times as well known
    np.testing.assert_allclose(
        spread.degrees_of_freedom(rows, 2 * exact), 4 * spread.degrees_of_freedom(rows, exact)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "n", "p", "intercept", "slopes"),
    [
        ("logistic", 1_000, 4, 0.0, 0.5),
        ("logistic", 5_000, 4, -3.7, 0.5),
        ("logistic", 20_000, 4, -5.6, 0.5),
        ("logistic", 60_000, 4, -5.6, 0.5),
        ("logistic", 5_000, 4, 0.0, 4.0),
        ("log-cosh", 1_000, 10, 1.0, 1.0),
        ("huber", 5_000, 4, 200.0, 1.0),
        ("log-cosh", 60_000, 4, 200.0, 1.0),
    ],
)
def test_unwarned_fits_cover(loss, n, p, intercept, slopes):
    """300 fits: below .87 with probability 1e-6 at a coverage of .95; .78 is caught as surely."""
    covered = []
    for seed in range(300):
        X, y, truth = draw(n, p, loss, seed, intercept, slopes)
        found = fit(X, y, loss, seed=seed)
        if not found.warnings:
            interval = found.conf_int()
            covered.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    assert len(covered) > 200
    mean = np.mean(covered, axis=0)
    assert mean[0] > 0.87 and mean[1:].mean() > 0.87


class Recorder:
    """Answers as they were given, in order."""

    def __init__(self, answers, log):
        self.objective, self.n, self.can_deal = answers.objective, answers.n, answers.can_deal
        self._answers, self._log, self.plan = answers, log, answers.plan  # public numbers

    def joint(self, theta, budget):
        self._log.append(self._answers.joint(theta, budget))
        return self._log[-1]

    def constant_term(self, scale):
        return Recorder(self._answers.constant_term(scale), self._log)

    def deal(self, mu):
        return RecordedBlocks(self._answers.deal(mu), self._log)


class RecordedBlocks:
    def __init__(self, dealing, log):
        self._dealing, self._log = dealing, log
        self.n_slots, self.room = dealing.n_slots, dealing.room

    def block(self, width, ahead=0):
        left, block = self.left, self._dealing.block(width, ahead)
        self._log.append((left, block.n))
        return Recorder(block, self._log)

    @property
    def left(self):
        return self._dealing.left


class Player:
    """The same answers, from a list: there are no records behind them."""

    def __init__(self, recorder, log):
        self.objective, self.n, self.can_deal = recorder.objective, recorder.n, True
        self._log, self.plan = log, recorder.plan

    def joint(self, theta, budget):
        return self._log.pop(0)

    def constant_term(self, scale):
        constant = Player(self, self._log)
        kind = "free_scale" if isinstance(scale, dpfast.FreeScale) else "scale"
        loss, weights = self.objective.loss, dpfast.Mallows(1.0)
        constant.objective = Objective(loss, weights, 0, **{kind: scale})
        return constant

    def deal(self, mu):
        return PlayedBlocks(self)


class PlayedBlocks:
    def __init__(self, player):
        self._player, self.left = player, 256
        self.n_slots = self.room = 256

    def block(self, width, ahead=0):
        left, n = self._player._log.pop(0)
        assert left == self.left
        self.left -= width
        block = Player(self._player, self._player._log)
        block.n = n
        return block


@BLOCKS
@pytest.mark.parametrize(
    ("loss", "scale", "kind"),
    [
        ("log-cosh", {"scale": 1.0}, Run),
        ("logistic", {}, Run),
        ("huber", {"free_scale": FREE}, JointRun),
    ],
)
def test_a_run_is_a_function_of_its_answers(loss, scale, kind, blocks):
    """Handed the answers of a run from a list, with nothing behind them, it ends where it ended."""
    X, y, _ = draw(600, loss=loss, intercept=2.5)
    objective = Objective(resolve_loss(loss), dpfast.Mallows(2.0), 3, **scale)
    start = np.zeros(objective.dimension)
    start[4:] = 1.0
    curator = Curator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(5))
    log = []
    recorder = Recorder(answers_only(curator), log)
    first = arrive(recorder, start, 1.0, True, blocks, kind=kind)
    again = arrive(Player(recorder, list(log)), start, 1.0, True, blocks, kind=kind)
    np.testing.assert_array_equal(first.theta, again.theta)
    np.testing.assert_array_equal(first.details.noise, again.details.noise)
