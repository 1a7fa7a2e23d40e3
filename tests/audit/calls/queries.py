"""Calls of the Curators' queries, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from operator import methodcaller
from typing import Any

import numpy as np

from dpfast.audit.selfcheck import BUDGETS
from dpfast.curator import Curator, StepBudget
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.models import (
    Bounded,
    Clip,
    FreeScale,
    Mallows,
    Objective,
    resolve_loss,
)
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.privacy.budget import GDP, ZCDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise
from tests.audit.calls.example import BINARY, LOSSES, OTHERS, Example

__all__ = ["gradient_queries", "joint_releases", "steering_queries"]


def joint_releases() -> Iterator[Example]:
    budgets = BUDGETS | {"all": StepBudget(0.6, 0.5, 0.4)}
    for (label, budget), loss, weights in product(
        budgets.items(), LOSSES, (Mallows(1.5), Bounded(1.5), Clip(0.8))
    ):
        if isinstance(weights, Clip) and budget.hessian:
            continue
        scale = None if loss in BINARY else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)

        def call(data: Any, objective: Objective = objective, budget: StepBudget = budget) -> Any:
            curator = Curator(as_records(*data), objective, Ledger(5.0), EntropyNoise())
            theta = np.array([0.2, -0.4, 0.3])
            return [curator.joint(theta * length, budget) for length in (0.0, 1.0, 1e3, 1e300)]

        name = "dpfast.curator.curator.Curator.joint"
        yield Example(name, f"{loss}, {weights}, {label}", call, loss in BINARY, GDP(2.0 * 1.5))
        if loss in BINARY or isinstance(weights, Clip):
            continue
        joint = Objective(resolve_loss(loss), weights, 2, scale=FreeScale(1e-3, 1e3))

        def ask(data: Any, objective: Objective = joint, budget: StepBudget = budget) -> Any:
            curator = Curator(as_records(*data), objective, Ledger(5.0), EntropyNoise())
            theta = np.array([0.2, -0.4, 0.3, 0.0])
            answers = []
            for length, scale in ((0.0, 1.0), (1.0, 1e-3), (1e3, 1e3), (1e300, 1.0)):
                at = theta * length
                at[-1] = scale
                answers.append(curator.joint(objective.project(at), budget))
            return answers

        yield Example(name, f"free scale, {loss}, {weights}, {label}", ask, False, GDP(2.0 * 1.5))


def steering_queries() -> Iterator[Example]:
    near, far = np.array([0.2, -0.4, 0.3]), np.array([1e3, -1e6, 1e3])
    queries: dict[str, list[Callable[[Curator], Any]]] = {
        "loss_difference": [
            lambda room: room.loss_difference(near, np.zeros(3), 1.0),
            lambda room: room.loss_difference(near, near, 1.0),
            lambda room: room.loss_difference(far, near, 1.0),
            lambda room: room.loss_difference(near * (1.0 + 1e-12), near, 1.0),
        ],
        "extreme_eigenvalue": [
            lambda room: room.extreme_eigenvalue(near, 1.0, largest=True),
            lambda room: room.extreme_eigenvalue(near, 1.0, largest=False),
            lambda room: room.extreme_eigenvalue(far, 1.0, largest=False),
        ],
        "largest_curvature": [
            lambda room: room.largest_curvature(1.0),
        ],
    }
    for (method, asked), loss, weights in product(
        queries.items(), LOSSES, (Mallows(1.5), Bounded(1.5))
    ):
        scale = None if loss in BINARY else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)
        for number, query in enumerate(asked):
            name = f"dpfast.curator.curator.Curator.{method}"
            call = partial(_ask, objective, query)
            yield Example(name, f"{loss}, {weights}, {number}", call, loss in BINARY, GDP(1.0))


def _ask(objective: Objective, query: Callable[[Curator], Any], data: Any) -> Any:
    return query(Curator(as_records(*data), objective, Ledger(1.0), EntropyNoise()))


def gradient_queries() -> Iterator[Example]:
    near, far = np.array([0.2, -0.4, 0.3]), np.array([1e3, -1e6, 1e3])
    queries: dict[str, list[Callable[[GradientCurator], Any]]] = {
        "gradient": [lambda room: room.gradient(near, 0.5), lambda room: room.gradient(far, 0.5)],
        "gradient_change": [
            lambda room: room.gradient_change(near, np.zeros(3), 0.5),
            lambda room: room.gradient_change(near, near, 0.5),
            lambda room: room.gradient_change(far, near, 0.5),
            lambda room: room.gradient_change(near * (1.0 + 1e-13), near, 0.5),
        ],
        "gradient_norm": [
            lambda room: room.gradient_norm(near, 0.5),
            lambda room: room.gradient_norm(far, 0.5),
        ],
    }
    for (method, asked), loss, weights in product(
        queries.items(), (*LOSSES, *OTHERS), (Mallows(1.5), Bounded(1.5), Clip(0.8))
    ):
        if isinstance(weights, Clip) and method == "gradient_change":
            continue
        scale = None if loss in BINARY else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)
        for number, query in enumerate(asked):
            name = f"dpfast.curator.nonconvex.gradients.GradientCurator.{method}"
            call = partial(_ask_gradients, objective, query)
            yield Example(name, f"{loss}, {weights}, {number}", call, loss in BINARY, GDP(1.0))
    yield from _clipped_queries()


def _clipped_queries() -> Iterator[Example]:
    """Users' gradients, clipped below their declared bound, and their lengths."""

    def per_record(theta: Any, X: Any, y: Any) -> Any:
        return np.tanh(X @ theta - y)[:, None] * X

    edges = np.geomspace(0.01, 0.9, 6)
    objective = PerRecordObjective(per_record, dimension=2, lipschitz=0.9, smoothness=1.5)
    for number, theta in enumerate((np.array([0.2, -0.4]), np.array([1e3, -1e6]))):
        queries: dict[str, tuple[Any, ...]] = {
            "gradient": (theta, 0.5, 0.3),
            "gradient_norm_histogram": (theta, edges, 0.5),
            "gradient_directions": (theta, 0.5),
            "loss_change": (theta, -theta, 0.5, 0.7),
        }
        for method, arguments in queries.items():
            name = f"dpfast.curator.nonconvex.gradients.GradientCurator.{method}"
            query = methodcaller(method, *arguments)
            call = partial(_ask_gradients, objective, query)
            yield Example(name, f"users', clipped, {number}", call, False, GDP(1.0))


def _ask_gradients(
    objective: Objective | PerRecordObjective, query: Callable[[GradientCurator], Any], data: Any
) -> Any:
    ledger = Ledger(ZCDP(0.5))
    return query(GradientCurator(as_records(*data), objective, ledger, EntropyNoise()))
