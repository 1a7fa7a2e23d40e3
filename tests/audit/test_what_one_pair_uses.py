"""How much of what is paid some pair of data sets uses, by default path.

A replay on two data sets that differ in one record measures how far every answer moved.  What all
of them moved, over what all of them cost, is a lower bound of what the charge has to be.  Less than
.85 asks for an attack or for the reason why it is so.  Noise is never reduced for such a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import GDP, SeededNoise
from dpfast.audit import replay
from dpfast.effects.hazards import cox
from dpfast.effects.instrumental import two_stage
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.nonconvex.minimize import minimize

RNG = np.random.default_rng(0)
N = 3000
ERROR = RNG.normal(size=N)
TABLE = {name: RNG.normal(size=N) for name in "xzw"}
TABLE["d"] = 0.8 * TABLE["z"] + 0.5 * ERROR + RNG.normal(size=N)
TABLE["y"] = 1.0 + 0.5 * TABLE["x"] + 0.3 * TABLE["w"] + ERROR
TABLE["near"] = 0.5 * TABLE["x"] - 0.3 * TABLE["w"] + 0.3 * ERROR
TABLE["weeks"] = RNG.exponential(1.0, N) * np.exp(-0.3 * TABLE["x"])
TABLE["died"] = (TABLE["weeks"] < 2.0).astype(float)
TABLE["weeks"] = np.minimum(TABLE["weeks"], 2.0)
TABLE["g"] = np.where(RNG.random(N) < 0.5, "a", "b")
SCHEMA = dpfast.Schema(
    {
        "x": dpfast.Numeric(-4.0, 4.0),
        "y": dpfast.Numeric(-6.0, 6.0),
        "g": dpfast.Categorical(["a", "b"]),
    }
)
PAID: dict[str, Any] = {"privacy": GDP(1.0)}


def fit(loss: str) -> Callable[[Any], Any]:
    return lambda t: (
        dpfast.fit(
            np.column_stack([t["x"], t["w"]]), t["y"], loss, noise=SeededNoise(1), **PAID
        ).params
    )


def hazards(t: Any) -> Any:
    asked = {"event": "died", "cuts": [0.5, 1.0, 2.0]}
    return cox("weeks ~ x", t, noise=SeededNoise(1), **asked, **PAID).params


def instruments(t: Any) -> Any:
    return two_stage("y ~ d + x | z + x", t, noise=SeededNoise(1), **PAID).params


def by_cell(t: Any) -> Any:
    return dpfast.tables.fits("y ~ x", t, "g", schema=SCHEMA, noise=SeededNoise(1), **PAID).counts


def opposite(theta: Any, X: Any, y: Any) -> Any:
    """Return gradients of a known length, opposite for records with far responses of both signs."""
    far = (np.abs(y) > 50.0)[:, None]
    near = 0.1 * np.tanh(X @ theta - y)[:, None] * X
    return np.where(far, 0.6 * np.sign(y)[:, None] * np.ones((1, 2)), near)


OWN = PerRecordObjective(opposite, vectorized=True, dimension=2, lipschitz=0.9, smoothness=1.5)


def minimum(objective: Any) -> Callable[[Any], Any]:
    def call(t: Any) -> Any:
        X, y = np.column_stack([t["x"], t["w"]])[:300], t["near"][:300]
        return minimize(X, y, objective, noise=SeededNoise(3), **PAID).theta

    return call


def redescending(loss: str) -> Any:
    return dpfast.Objective(loss, scale=1.0, weights=dpfast.Mallows(1.5))


#: A row of length 1.5 with its intercept, at the residual where the score of the loss is largest.
ROW = {"x": 1.118, "w": 0.0}


def at_peak(residual: float) -> tuple[dict[str, Any], dict[str, Any]]:
    return ROW | {"near": residual}, ROW | {"near": -residual}


FAR = {"x": -8.0, "w": 8.0, "y": 50.0}, {"x": 3.0, "w": -3.0, "y": 9.0}

#: Call, the record in both data sets, and what the pair uses at least.
PATHS: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any], float]] = {
    "least squares": (fit("least-squares"), FAR, 0.93),
    "log-cosh": (fit("log-cosh"), FAR, 0.87),
    "huber": (fit("huber"), FAR, 0.86),
    "instruments": (
        instruments,
        ({"x": 8.0, "d": 8.0, "z": 8.0, "y": 50.0}, {"x": 8.0, "d": -8.0, "z": 8.0, "y": -50.0}),
        0.86,
    ),
    # an event at once, far out, and somebody who is followed to the end: opposite scores, and all
    # of one row of events; two events at right angles would use all of both Grams (T13)
    "cox": (
        hazards,
        ({"x": 10.0, "weeks": 0.01, "died": 1.0}, {"x": 4.1, "weeks": 2.0, "died": 0.0}),
        0.93,
    ),
    "fits by cell": (
        by_cell,
        ({"x": -4.0, "y": -6.0, "g": "b"}, {"x": -2.0, "y": 6.0, "g": "b"}),
        0.92,
    ),
    # no pair uses the lengths and directions of gradients together with the gradients: a tenth
    "minimize, own gradients": (minimum(OWN), at_peak(100.0), 0.94),
    "minimize, tukey": (minimum(redescending("tukey")), at_peak(2.0952), 0.9),
    "minimize, cauchy": (minimum(redescending("cauchy")), at_peak(2.385), 0.92),
}
QUICK = {"minimize, tukey"}
EVERY = [pytest.param(p, marks=[] if p in QUICK else [pytest.mark.slow]) for p in PATHS]


def with_record(record: dict[str, Any]) -> dict[str, Any]:
    table = {name: column.copy() for name, column in TABLE.items()}
    for name, value in record.items():
        table[name][0] = value
    return table


@pytest.mark.filterwarnings("ignore::dpfast.errors.DpfastWarning")
@pytest.mark.parametrize("path", EVERY)
def test_some_pair_uses_what_is_paid(path):
    call, records, least = PATHS[path]
    found = replay(call, *(with_record(record) for record in records))
    assert found.passed, str(found)
    # answers about other cells are in the sum of a replay, and in no record's charge (T6)
    used = found.used * found.mu / PAID["privacy"].mu
    assert least <= used <= 1.0, str(found)
