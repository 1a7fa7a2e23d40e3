"""Calls of non-convex minimisation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from bench.figures.paper2.examples import one_hidden_layer
from dpfast.models import (
    Bounded,
    Mallows,
    Objective,
)
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.nonconvex.minimize import minimize
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.papers.noisy_descent import NoisyDescent
from dpfast.papers.proximal import Proximal
from dpfast.papers.spider import Spider
from dpfast.privacy.budget import GDP, ZCDP
from tests.audit.calls.example import Example

__all__ = ["minimizations"]


def minimizations() -> Iterator[Example]:
    def per_record(theta: Any, X: Any, y: Any) -> Any:
        return np.tanh(X @ theta - y)[:, None] * X

    def moody(theta: Any, X: Any, y: Any) -> Any:
        if not (np.abs(X) < 5.0).all():
            raise ValueError("a record it does not like")
        return per_record(theta, X, y)

    own: dict[str, Any] = {"dimension": 2, "lipschitz": 0.9, "smoothness": 1.5}
    targets: dict[str, tuple[Any, dict[str, Any]]] = {
        loss: (Objective(loss, weights, scale=0.8), {})
        for loss, weights in (("tukey", None), ("cauchy", Bounded(1.5)), ("welsch", Mallows(1.5)))
    }
    targets["users gradients"] = (PerRecordObjective(per_record, **own), {})
    targets["users vectorised gradients"] = (
        PerRecordObjective(per_record, vectorized=True, **own),
        {},
    )
    targets["users errors"] = (PerRecordObjective(moody, **own), {})
    targets["network"] = (
        one_hidden_layer(2, 2, radius=1.5, lipschitz=0.7, smoothness=1.0),
        {"start": [0.1, 0.2, -0.1, 0.3, 0.1, 0.0, 0.5, -0.5]},
    )
    methods: dict[str, dict[str, Any]] = {
        "adaptive": {"method": Adaptive(last_share=0.2)},
        "adaptive, norms": {"method": Adaptive(last_share=0.4, norm_queries=True)},
        "spider": {"method": Spider(max_steps=6), "kl": (1.0, 2.0)},
        "proximal": {"method": Proximal(rounds=2, inner=NoisyDescent(steps=3))},
        "algorithm 4 alone": {"method": NoisyDescent(steps=3)},
        "shortest gradient": {"method": Adaptive(last_share=0.3), "select": "shortest gradient"},
        "exponential": {"method": Adaptive(last_share=0.3), "select": "exponential"},
    }
    for (label, (objective, options)), (name, method) in product(targets.items(), methods.items()):
        if (label, name) == ("network", "spider"):  # it would hand over to 500 adaptive steps
            name, method = "a public clip", {"method": Adaptive(last_share=0.2, clip=0.5)}
        # a choice by the exponential mechanism implies no Gaussian DP
        budgets = (ZCDP(0.5),) if name == "exponential" else (ZCDP(0.5), GDP(1.0))
        for budget in budgets:
            arguments = options | method | {"privacy": budget}
            call = partial(_minimize, objective, arguments)
            label_ = f"{label}, {name}, {budget!r}"
            yield Example("dpfast.nonconvex.minimize.minimize", label_, call, False, budget)


def _minimize(objective: Any, options: dict[str, Any], data: Any) -> Any:
    result = minimize(data[0], data[1], objective, **options)
    return result, result.summary(), repr(result), result.gradient_norms, result.rounds
