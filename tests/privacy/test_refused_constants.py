"""Public constants that no query can have are refused by name, at the functions themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpfast import GDP, ApproxDP, SeededNoise
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.privacy.blackbox import sensitivity as blackbox
from dpfast.privacy.nonconvex import sensitivity as nonconvex
from dpfast.privacy.nonconvex.choice import choose_smallest
from dpfast.privacy.release import calibration, certified_minimiser, scaled, sensitivity
from dpfast.privacy.scaling import sensitivity as scaling
from dpfast.privacy.tradeoff import attack_power

REFUSED = [
    (InvalidInput, "nothing to choose", lambda: choose_smallest([], (1, 1), SeededNoise(0))),
    (InvalidInput, "lowest", lambda: nonconvex.gradient_change(1.0, 9, lowest=1.5)),
    (InvalidInput, "dimension", lambda: nonconvex.gradient_norm(1.0, 9, 0)),
    (InvalidInput, "grid", lambda: nonconvex.norm_steps(1.0, 0.0)),
    (InvalidBudget, "rate and steps", lambda: nonconvex.exponential_cost((0, 1), 3)),
    (InvalidBudget, "rate and steps", lambda: nonconvex.exponential_cost((1, 0), 3)),
    (InvalidBudget, "shift", lambda: calibration.gaussian_profile(1.0, -1.0, 1.0)),
    (
        InvalidBudget, "lreg",
        lambda: calibration.objective_perturbation_delta(1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 0.0),
    ),
    (InvalidInput, "noise scale", lambda: scaled.scale_grid(0.0)),
    (InvalidBudget, "below 25", lambda: scaled.grid_delta(60.0)),
    (InvalidInput, "noise must be one of", lambda: scaled.law_scale("cauchy")),
    (InvalidInput, "tail", lambda: scaled.law_quantile("gaussian", 1.0)),
    (InvalidInput, "lreg", lambda: sensitivity.parameter_shift(1.0, -1.0, 1.0, 1.0, 1.0, 9)),
    (InvalidInput, "delta1", lambda: sensitivity.tail_count(1.0, 1.0)),
    (InvalidInput, "positive integer", lambda: scaling.counts(0)),
    (InvalidInput, "coordinates", lambda: blackbox.clipped_mean(1.0, 9, 0)),
    (InvalidInput, "apart", lambda: blackbox.mean_loss(1.0, 1.0, 9)),
    (InvalidBudget, "false_positive_rate", lambda: attack_power(GDP(1.0), 1.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "call"), REFUSED, ids=[words for _, words, _ in REFUSED]
)
def test_a_constant_is_refused_by_name(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_a_rate_may_be_a_whole_number():
    assert nonconvex.exponential_cost((1, 1), 3) == pytest.approx(4.5)


def test_ends_of_attacks():
    assert attack_power(GDP(1.0), 0.0) == 0.0
    assert attack_power(GDP(1.0), 1.0) == 1.0
    assert attack_power(ApproxDP(1.0, 1e-6), 0.0) == 1e-6


def test_nothing_that_suffices_is_infinite():
    assert calibration.smallest(lambda value: False, 1.0, 2.0, 1e-6) == math.inf


def test_far_parameters_are_shortened_and_come_back():
    far, near = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    short = certified_minimiser.compressed(far, 1.0)
    assert np.linalg.norm(short) == pytest.approx(1.0 + math.log(5.0))
    assert certified_minimiser.expanded(short, 1.0) == pytest.approx(far)
    assert certified_minimiser.compressed(near, 1.0) is near
    assert certified_minimiser.expanded(near, 1.0) is near
