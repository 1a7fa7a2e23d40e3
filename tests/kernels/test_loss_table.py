"""The table of losses in C and their classes in Python say the same."""

from __future__ import annotations

import numpy as np
import pytest

from dpfast.kernels import records
from dpfast.models.free_scale import RATIOS
from dpfast.models.losses import LOSSES
from tests.twins.losses import USER, loss_of

BOUNDED, MALLOWS = 0, 1
RADIUS = 1.5


def kernel(name, **options):
    return records.RecordKernel(LOSSES[name].code, 1.3, 1.0, MALLOWS, RADIUS, False, **options)


def test_every_row_has_a_class_and_every_class_a_row():
    assert {kind.name: kind.code for kind in LOSSES.values()} == records.LOSS_CODES
    assert {name: kind.name for name, kind in LOSSES.items()} == {name: name for name in LOSSES}
    assert USER not in records.LOSS_CODES.values()
    assert len(set(records.LOSS_CODES.values())) == len(records.LOSS_CODES)


@pytest.mark.parametrize("name", LOSSES)
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
    if name in RATIOS:
        kernel(name, **free)
    else:
        with pytest.raises(ValueError, match="free scale"):
            kernel(name, **free)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("c", "h"), [(1.345, 0.5), (0.2, 3.0)])
def test_the_steepest_slope_is_the_bound_of_the_class(name, c, h):
    """Found in the kernel: a difference of losses is held to it.  Redescending losses: to c."""
    loss = loss_of(LOSSES[name].code, c, h)
    model = records.RecordKernel(loss.code, c, 1.0, BOUNDED, 2.0, False, 0.0, 0.0, h)
    X, y = np.array([[1.0]]), np.array([0.0 if loss.binary_response else -1e6])
    reach = 1e5 if loss.binary_response else 1.0
    new, old = np.array([reach + 1.0]), np.array([reach])
    difference = model.loss_difference(X, y, new, old, 1.0)
    if loss.has_asymptote:
        assert difference == pytest.approx(loss.psi_bound, rel=1e-5)
    assert difference <= loss.psi_bound * (1 + 1e-12)
