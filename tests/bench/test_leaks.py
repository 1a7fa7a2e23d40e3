"""What rivals hand out is what they paid for: their calls are recorded and replayed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from bench.rivals import literature
from dpfast import GDP, ApproxDP
from dpfast.audit import neighbours, replay
from dpfast.models import Objective
from dpfast.optimize import GradientDescent

RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 2))
PAIRS = neighbours(X, X @ [1.0, -0.5] + RNG.normal(size=12))
BOUNDS = {"x_bound": 1.5, "y_bound": 2.0, "privacy": GDP(1.0)}
SCALED = {"loss": Objective("log-cosh", scale=0.8)}
RIDGE = {"loss": Objective("log-cosh", scale=0.8, ridge=0.5)}
PAIR = {"privacy": ApproxDP(1.0, 1e-6)}

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "statistics": (literature.sufficient_statistics, BOUNDS),
    "adassp": (literature.adassp, BOUNDS),
    "output": (literature.output_perturbation, RIDGE | {"privacy": GDP(1.0)}),
    "clipping": (
        literature.clipped_gradient_descent,
        SCALED | {"clip": 0.8, "method": GradientDescent(steps=3), "privacy": GDP(1.0)},
    ),
    "perturbation": (
        literature.objective_perturbation, RIDGE | PAIR | {"radius": 1.5}
    ),
}  # fmt: skip
if find_spec("dp_accounting"):
    CALLS["sgd"] = (
        literature.dp_sgd,
        SCALED
        | PAIR
        | {"clip": 0.8, "sampling_rate": 0.3, "method": GradientDescent(steps=3, average=0.5)},
    )


@pytest.mark.parametrize("name", CALLS)
def test_no_rival_leaks(name):
    function, options = CALLS[name]
    for kind in ("antipodal", "orthogonal", "huge", "nan"):
        replay(lambda data: function(*data, **options), *PAIRS[kind]).raise_on_leak()
