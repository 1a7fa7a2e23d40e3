"""What is paid for arrives, whatever the noise of its answers."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.curator.noisy_release import Choice, observed
from dpfast.curator.preconditioned import Linearization
from dpfast.effects import cox, treatment_effect, two_stage
from dpfast.solvers.pcn.curvature import gaussian_design_curvature

#: Answers in place of those drawn, from these, their noise scale and standard normal numbers.
ANSWERS = {
    "zeros": lambda drawn, scale, normal: np.zeros_like(drawn),
    "negative": lambda drawn, scale, normal: -np.abs(drawn) - 3.0 * scale,
    "large": lambda drawn, scale, normal: np.abs(drawn) + 30.0 * scale,
    "noisy": lambda drawn, scale, normal: drawn + 1e6 * scale * normal,
}

RECORDS = 2000


class Replaced:
    """Observer that hands out other answers."""

    def __init__(self, kind):
        self.answer, self.rng = ANSWERS[kind], np.random.default_rng(0)

    def release(self, question, release, draw):
        drawn = draw()
        if isinstance(release, Choice) or np.asarray(drawn).dtype.kind != "f":
            return drawn
        normal = self.rng.normal(size=np.shape(drawn))
        if normal.ndim == 2 and normal.shape[0] == normal.shape[1]:
            normal = (normal + normal.T) / 2.0
        return np.asarray(self.answer(np.asarray(drawn), release.noise_scale, normal))


def table():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, RECORDS))
    ends = rng.exponential(size=RECORDS)
    return {
        "x": x, "z": z, "y": x + rng.normal(size=RECORDS), "b": 1.0 * (x > z), "ends": ends,
        "died": 1.0 * (ends < 1.0), "g": rng.choice(["a", "b", "c"], RECORDS),
        "weight": rng.exponential(size=RECORDS), "offset": rng.normal(size=RECORDS),
    }  # fmt: skip


LEVELS = "C(g, levels=['a', 'b', 'c'])"
WEIGHTED = {"sample_weight": "weight", "offset": "offset"}


def paid():
    """The same noise in every call: a shared source would go on from test to test."""
    return {"privacy": 20.0, "noise": dpfast.SeededNoise(0)}


CALLS = {
    "powers and levels": lambda data: dpfast.fit(f"y ~ x + I(x ** 2) + {LEVELS}", data, **paid()),
    "weights and offsets": lambda data: dpfast.fit(
        f"b ~ x + {LEVELS}", dpfast.records(data, **WEIGHTED), "logistic", **paid()
    ),
    "quantiles": lambda data: dpfast.fit_quantiles(
        data["x"][:, None], data["y"], [0.25, 0.5], **paid()
    ),
    "instruments": lambda data: two_stage(
        "y ~ x | z", dpfast.records(data, **WEIGHTED), **paid()
    ),
    "hazards": lambda data: cox(
        "ends ~ x + z", data, event="died", cuts=[0.5, 1.0, 2.0], **paid()
    ),
    "effects": lambda data: treatment_effect(data["x"][:, None], data["b"], data["y"], **paid()),
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("call", CALLS)
def test_any_answers_give_a_result(call, kind):
    with observed(Replaced(kind)):
        found = CALLS[call](table())
    assert str(found.summary())


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_offsets_of_any_released_centre_give_a_result(loss):
    """Zeros in place of all counts give the largest centre, and small histograms the least."""
    offsets = dpfast.records(table(), offset="offset")
    for kind, mu in (("zeros", 1.0), ("zeros", 30.0), ("large", 30.0)):
        with observed(Replaced(kind)):
            assert dpfast.fit(
                f"b ~ x + {LEVELS}", offsets, loss, **paid() | {"privacy": mu}
            ).summary()


@pytest.mark.parametrize("spread", [0.0, 1e-200, 1.0, 1e60])
def test_curvature_of_offsets_and_no_slope_is_finite(spread):
    at = Linearization(np.zeros(2), dpfast.Logistic())
    found = gaussian_design_curvature(at, np.array([1.0, 0.0]), 1e60, spread)
    assert all(np.isfinite(part).all() for part in found)
