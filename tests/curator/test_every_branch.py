"""Branches of the curator that no other test takes: refusals, and searches that do not arrive."""

import math

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator
from dpfast.curator.nonconvex import recordwise
from dpfast.curator.nonconvex.gradients import GradientCurator, remaining_rho
from dpfast.curator.preconditioned import nonprivate_residuals
from dpfast.curator.release import certified, perturbation, smooth, terms
from dpfast.curator.release.one_step import step_terms
from dpfast.curator.release.projection import projected
from dpfast.curator.steps import curvature_receipt, difference_receipt
from dpfast.data import Records, as_records
from dpfast.errors import InvalidInput
from dpfast.kernels.records import HESSIAN
from dpfast.models import (
    Ball,
    LeastSquares,
    LogCosh,
    Logistic,
    Mallows,
    Objective,
    SmoothedHuber,
    TukeyBiweight,
)
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.privacy.release.calibration import smallest
from tests.loops import each
from tests.release.hostile import curator_of

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (400, 2))
Y = X @ [1.0, -0.5] + 0.1 * RNG.normal(size=400)


def gradients(objective, rows=20):
    given = dpfast.Ledger(1.0), dpfast.SeededNoise(0)
    return GradientCurator(as_records(X[:rows], Y[:rows]), objective, *given)


def per_record(function, **options):
    return PerRecordObjective(function, dimension=2, lipschitz=1.0, smoothness=1.0, **options)


def toward(theta, X, y):
    return theta - X


# ---- gradients of a caller's function ------------------------------------------------------------


def test_what_has_no_constant_is_refused_before_the_charge():
    held = gradients(Objective(TukeyBiweight(), Mallows(1.0), 2, scale=1.0))
    held.smoothness = math.inf
    with pytest.raises(InvalidInput, match="no smoothness constant"):
        held.gradient_change(np.ones(2), np.zeros(2), 0.1)
    assert not held.ledger.entries
    with pytest.raises(InvalidInput, match="ZCDP or GDP"):
        remaining_rho(dpfast.Ledger(dpfast.PureDP(1.0)))
    with pytest.raises(TypeError, match="no losses"):
        gradients(per_record(toward)).nonprivate_loss(np.zeros(2))


def test_a_function_of_many_records_is_compiled_once(monkeypatch):
    monkeypatch.setattr(recordwise, "MIN_COMPILED_RECORDS", 10)
    asked = []

    def compiled(self, n_covariates):
        asked.append(n_covariates)
        return lambda theta, X, y, rows, usable: rows.fill(0.5)

    monkeypatch.setattr(PerRecordObjective, "compiled", compiled)
    held = gradients(per_record(toward, vectorized=False))
    found = held.nonprivate_gradient(np.zeros(2))
    assert asked == [2] and np.allclose(found, 0.5)


def test_an_interrupt_of_a_function_is_no_row_of_zeros():
    def interrupted(theta, X, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradients(per_record(interrupted)).nonprivate_gradient(np.zeros(2))


# ---- receipts of what has no bound ---------------------------------------------------------------


def curator(loss, weighting=None, scale=None):
    objective = Objective(loss, weighting or Mallows(2.0), 2, scale=scale)
    return Curator(as_records(X, Y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))


def test_receipts_of_what_has_no_bound_are_refused(monkeypatch):
    with pytest.raises(InvalidInput, match="hence no largest curvature"):
        curvature_receipt(curator(TukeyBiweight(), scale=1.0), 0.1)
    held = curator(LogCosh(), scale=1.0)
    monkeypatch.setattr(Objective, "curvature_peaks_at_zero", False)
    with pytest.raises(InvalidInput, match="largest curvature at zero residuals"):
        curvature_receipt(held, 0.1)
    with pytest.raises(InvalidInput, match="no loss whose difference"):
        difference_receipt(curator(LeastSquares(), dpfast.models.Clip(1.0)), 1.0, 0.1)


def test_residuals_below_edges_are_counted():
    theta, edges = np.array([0.1, 1.0, -0.5]), np.array([0.05, 0.1, 0.3])
    below = nonprivate_residuals(curator(LeastSquares()), theta, edges)
    size = np.abs(Y - theta[0] - X @ theta[1:])
    assert np.array_equal(below[:-1], [np.sum(size < edge) for edge in edges])
    assert below[-1] == len(Y)


# ---- searches ------------------------------------------------------------------------------------


class Stuck(certified._Search):
    """A gradient that no step changes: by claims R21, R37 and R42 there is none."""

    def evaluate(self, theta, want=HESSIAN):
        self.passes += 1
        return np.ones(2), np.eye(2), math.sqrt(2.0)


def test_searches_that_do_not_arrive_end_by_their_number_of_steps(monkeypatch):
    monkeypatch.setattr("dpfast.privacy.release.certified_minimiser.MAX_LEVELS", 2)
    held = curator_of(X, Y, LogCosh(2.0), 1.0, 1.5)
    plan = certified.certified_plan(held, 1.5)
    search = Stuck(held, plan)
    assert not search.eager()[2]
    assert np.isfinite(search.path()[0]).all()
    assert np.isfinite(search.polish(np.zeros(2), 10)).all()
    smoother = curator_of(X, Y, SmoothedHuber(1.0, 1.0), 1.0, 1.5)
    slow = smooth._Search(smoother, smooth.smooth_plan(smoother, 1.5))
    assert not slow.run(np.zeros(2), 0)[2]


def test_a_bisection_whose_products_underflow_ends():
    assert smallest(lambda value: True, 1e-200, 1e-190) == 1e-190


# ---- certificates --------------------------------------------------------------------------------


def test_steps_along_directions_too_short_for_a_grid_are_not_released():
    held = curator_of(X, Y, LogCosh(2.0), 1.0, 1.5)
    assert step_terms(held, Ball(1.5), np.eye(2)[:1], 1.0) is not None
    assert step_terms(held, Ball(1.5), 1e-260 * np.eye(2)[:1], 1.0) is None  # no length is left
    small = curator_of(X, Y, LogCosh(1e-65), 1.0, 1e-65)
    assert step_terms(small, Ball(1e-65), 1e-130 * np.eye(2)[:1], 1.0) is None


@each("epsilon", [0.02, 2.0])
def test_functionals_without_a_multiplier_are_not_released(epsilon):
    """Scales of neighbours may differ so much that no noise is enough for so small an epsilon."""
    held = curator_of(np.tile(X, (10, 1)), np.tile(Y, 10), LogCosh(), 1.0, 1.5)
    plan = certified.certified_plan(held, 1.5)
    asked = terms.Terms("functional", epsilon, 2e-9, epsilon / 2.0, 1e-9)
    given = plan, asked, 900.0 * plan.step, plan.largest, Ball(1.5), [np.array([1.0, 0.0])]
    assert (terms.functional_terms(*given) is None) == (epsilon < 1.0)
    tiny = plan, asked, 1e-13, *given[3:]  # a Cholesky solution would err too much (claim R6)
    assert terms.functional_terms(*tiny) is None


def test_shares_that_leave_nothing_for_the_tilt_are_not_chosen():
    """At this ridge nine tenths of epsilon pay for the curvature of one record."""
    many = np.tile(X, (50, 1))
    labels = (many[:, 0] > 0.0).astype(float)
    ridge = 0.25 / (len(many) * (math.exp(0.9) - 1.0))
    held = curator_of(many, labels, Logistic(), None, 1.0, ridge=ridge)
    budget = dpfast.ApproxDP(1.0, 1e-6)
    plan = certified.certified_plan(held, 1.0)
    depth = certified.public_problem(held, 1.0)["depth"]
    assert perturbation._output_share(budget, plan, depth, 0.25) < 0.1


class Blocks(Records):
    """The same records in two blocks."""

    def __init__(self):
        super().__init__(X, Y, None)
        self.block_sizes = (150, 250)

    def blocks(self):
        yield X[:150], Y[:150]
        yield X[150:], Y[150:]


def test_blocks_are_projected_one_by_one():
    rows = np.concatenate([block for block, _ in projected(Blocks(), Ball(0.5)).blocks()])
    whole = np.concatenate([block for block, _ in projected(as_records(X, Y), Ball(0.5)).blocks()])
    assert np.array_equal(rows, whole)
    assert np.linalg.norm(rows, axis=1).max() <= 0.5 * (1.0 + 1e-12)
