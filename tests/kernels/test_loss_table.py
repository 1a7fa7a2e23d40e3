"""The table of losses in C and their classes in Python say the same."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.kernels import records
from dpfast.models import FreeScale, LeastSquares, Mallows
from dpfast.models.joint_scale import joint_scale
from dpfast.models.losses import ClippedResponse, Loss
from dpfast.models.names import DECLARED, LOSSES, all_losses
from dpfast.models.quantile import NarrowQuantile
from dpfast.models.weighting import Weighting
from dpfast.optimize.budgets import CURVATURE_RATIO
from dpfast.privacy.sensitivity import COUPLINGS
from tests.loops import each
from tests.sources import tree
from tests.twins import losses as twins, scale as scale_twins
from tests.twins.losses import USER, loss_of

BOUNDED, MALLOWS = 0, 1
RADIUS = 1.5


def kernel(name, **options):
    return records.RecordKernel(LOSSES[name].code, 1.3, 1.0, MALLOWS, RADIUS, False, **options)


def test_every_row_has_a_class_and_every_class_a_row():
    kinds = all_losses()
    made = {kind.name: kind for kind in (NarrowQuantile, ClippedResponse)}  # by dpfast.fit alone
    ours = {kind.name: kind.code for kind in (kinds | made).values() if kind is not LeastSquares}
    assert ours == records.LOSS_CODES  # least squares is Huber's loss to them
    assert {name: kind.name for name, kind in kinds.items()} == {name: name for name in kinds}
    assert USER not in records.LOSS_CODES.values()
    assert len(set(records.LOSS_CODES.values())) == len(records.LOSS_CODES)


def test_a_clipped_response_has_the_curvature_of_least_squares():
    """The kernel and the class, on either side of the corner and far out."""
    loss, y = ClippedResponse(1.3), np.array([-np.inf, -1e300, -2.0, -1.3, 0.4, 1.4, 1e300, np.nan])
    model = records.RecordKernel(loss.code, loss.c, 1.0, MALLOWS, RADIUS, False)
    X, theta, want = np.array([[1.0]]), np.zeros(1), records.GRADIENT | records.HESSIAN
    for response, usable in zip(y, np.isfinite(y), strict=True):
        gradient, hessian, _ = model.sums(X, np.array([response]), theta, want, 1.0)
        assert hessian == usable
        assert -gradient == (loss.psi(response) if usable else 0.0)
    assert (loss.psi_prime(y) == 1.0).all()
    assert (loss.majorizer(y[:-1]) >= loss.psi(y[:-1]) / y[:-1]).all()
    assert loss.coupling == loss.majorizer_coupling == "independent"


@each("name", LOSSES)
def test_traits_are_those_of_the_class(name):
    loss = loss_of(LOSSES[name].code, 1.3, 0.7)
    X, theta = np.array([[1.0]]), np.array([0.5])
    for label, counts in ((0.0, True), (1.4, not loss.binary_response)):
        gradient = kernel(name).sums(X, np.array([label]), theta, records.GRADIENT, 1.0)[0]
        assert (gradient[0] != 0.0) == counts
    if loss.has_curvature:
        assert kernel(name).sums(X, np.zeros(1), theta, records.HESSIAN, 1.0)[1] is not None
    else:
        with pytest.raises(ValueError, match="redescending"):
            kernel(name).sums(X, np.zeros(1), theta, records.HESSIAN, 1.0)
    free = {"scale_factor": 1.0, "kappa": 0.5}
    if loss.scale_part is not None:
        kernel(name, **free)
        joint_scale(loss, Mallows(RADIUS), FreeScale(0.1, 10.0))
    else:
        with pytest.raises(InvalidInput, match="free scale"):
            joint_scale(loss, Mallows(RADIUS), FreeScale(0.1, 10.0))
        with pytest.raises(ValueError, match="free scale"):
            kernel(name, **free)


@each("name", LOSSES)
@each("c", [1.345, 0.2])
def test_the_steepest_slopes_are_those_of_the_class(name, c):
    """Found in the kernel: differences of losses are held to the bound, and far out on either
    side they are the step times the slope there.  Redescending losses: at most c."""
    constants = twins.typical(LOSSES[name].code, c)
    loss = loss_of(LOSSES[name].code, **constants)
    model = records.RecordKernel(
        loss.code, constants["c"], 1.0, BOUNDED, 2.0, False, h=constants["h"]
    )
    X = np.array([[1.0]])
    reach = 1e5 if loss.binary_response else 1.0
    new, old = np.array([reach + 1.0]), np.array([reach])
    found = [
        abs(model.loss_difference(X, np.array([y]), new, old, 1.0))
        for y in ((0.0,) if loss.binary_response else (-1e6, 1e6))
    ]
    assert max(found) <= loss.psi_bound * (1 + 1e-12)
    if twins.has_asymptote(loss.code):
        slopes = twins.asymptote_slopes(loss.code, **constants)[: len(found)]
        assert found == pytest.approx(list(slopes), rel=1e-5)
        assert max(found) == pytest.approx(loss.psi_bound, rel=1e-5)


def test_every_coupling_is_proved_and_has_a_share():
    for kind in LOSSES.values():
        loss = kind()
        for coupling in (loss.coupling, loss.majorizer_coupling):
            assert coupling in COUPLINGS
            assert coupling in CURVATURE_RATIO


def test_losses_that_need_a_constant_ask_for_it_by_name():
    for name, asked in {"poisson": "largest_mean"}.items():
        assert name in DECLARED
        with pytest.raises(InvalidInput, match=f"{asked} must be given"):
            dpfast.models.resolve_loss(name)
    assert not set(DECLARED) & set(LOSSES)


def test_a_scale_part_is_not_inherited():
    class Mine(dpfast.Huber):
        pass

    with pytest.raises(InvalidInput, match="free scale"):
        joint_scale(Mine(), Mallows(RADIUS), FreeScale(0.1, 10.0))


def of_every_class():
    """An object of each class that the kernels know by a number."""
    losses = [kind() for kind in LOSSES.values()]
    custom = dpfast.CustomLoss(abs, abs, abs, psi_bound=1.0, psi_prime_bound=1.0)
    weightings = [kind(1.5) for kind in Weighting.__subclasses__()]
    return [*losses, dpfast.Poisson(2.0), custom, *weightings]


@each("thing", of_every_class(), ids=lambda thing: type(thing).__name__)
def test_a_class_of_ones_own_is_refused_before_its_bounds_set_the_noise(thing):
    """The kernels would use the functions, and hold records to the bounds, of the class above."""
    kind = type(thing)
    bounds = {"psi_bound": 0.01, "radius": 0.01}
    mine = object.__new__(type("Mine", (kind,), bounds if issubclass(kind, Loss) else {}))
    mine.__dict__.update(vars(thing))
    given = {"loss": mine} if isinstance(mine, Loss) else {"loss": "huber", "weights": mine}
    needs = isinstance(mine, Weighting) or mine.needs_scale
    X, ledger = np.ones((30, 1)), dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput, match="Mine is derived from a class of dpfast"):
        dpfast.Objective(**given, scale=1.0 if needs else None)
    if isinstance(mine, Loss):
        with pytest.raises(InvalidInput, match="Mine is derived"):
            dpfast.fit(X, X[:, 0], mine, privacy=1.0, ledger=ledger)
    assert ledger.spent.mu == 0.0


def test_the_twins_know_every_loss():
    assert set(twins.BEYOND_ASYMPTOTE) == {
        code for code in twins.CLASSES if twins.has_asymptote(code)
    }
    assert set(scale_twins.CHI) == set(scale_twins.CURVATURE_TIMES)
    assert set(scale_twins.CHI) == {
        kind.code for kind in LOSSES.values() if kind.scale_part is not None
    }


def tables_of_losses(source: ast.AST) -> list[str]:
    """Dictionaries keyed by losses' names, and comparisons with such a name."""
    found = []
    for node in ast.walk(source):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(keys & set(LOSSES)) >= 2 and not keys <= set(COUPLINGS):
                found.append(f"line {node.lineno}: a table")
        if isinstance(node, ast.Compare):
            names = {
                part.value
                for side in (node.left, *node.comparators)
                for part in ast.walk(side)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
            if names & set(LOSSES) and "coupling" not in ast.unparse(node):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_no_module_keeps_a_table_of_losses_of_its_own():
    """What is known of a loss stands in its class; a table elsewhere could miss the next one."""
    assert tables_of_losses(ast.parse('X = {"huber": 1.0, "log-cosh": 2.0}'))
    assert tables_of_losses(ast.parse('y = 1.0 if loss.name == "huber" else 2.0'))
    root = Path(dpfast.__file__).parent
    modules = sorted(root.rglob("*.py"))
    found = {str(path.relative_to(root)): tables_of_losses(tree(path)) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}
