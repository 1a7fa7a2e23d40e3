"""Costs and noise of joint releases: public numbers in, public numbers out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import NOTHING, Receipt, StepBudget
from dpfast.curator.bounds import joint_cost, record_bounds
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER, MEAT, VIEW, summation_depth
from dpfast.models import Constants, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import Grids, check_grid_range, gaussian_scale, joint_grids
from dpfast.privacy.sensitivity import mean_rank_one, mean_score


class Plan(NamedTuple):
    """Cost, receipts and noise grids of one joint release."""

    label: str
    cost: GDP
    want: int
    receipts: tuple[Receipt, ...]
    grids: Grids


class Layout(NamedTuple):
    """Number of records and how they are added up; public (claims C55 and C72)."""

    n: int
    row: int
    largest_block: int
    additions: int
    excess: int = 1
    means: bool = False
    mapped: bool = False

    def depth(self, want: int) -> int:
        """Most sequential roundings of a mean of what the kernels call ``want`` (claim C11)."""
        code = want | VIEW if self.mapped else want
        depth = summation_depth(self.largest_block, self.row, code) + self.additions
        if self.means and want & MEAT:
            from dpfast.curator.persons import depth_of_products

            depth += depth_of_products(self.row)
        return depth * self.excess


def make_plan(
    objective: Objective | Constants,
    layout: Layout,
    budget: StepBudget,
    theta: NDArray[np.float64] | None = None,
) -> Plan:
    """Plan a step; it costs ``joint_cost`` at most (claims C17 to C19 of PROOFS.md, C37)."""
    names = "gradient", "majorizer" if budget.majorize else "hessian", "meat"
    budgets = (*zip(names, budget, strict=False),)
    queries = [query for query, mu in budgets if mu] or ["gradient"]
    want = sum([WANTED[query] for query in queries])
    claims = CLAIMS if objective.free_scale is None else SCALE_CLAIMS
    n, p, depth, excess = layout.n, objective.dimension, layout.depth(want), layout.excess
    receipts: list[Receipt] = []
    shapes: list[tuple[int, ...] | None] = []
    for query, mu in budgets:
        if query in queries:
            bound, diameter = record_bounds(objective, query, theta)
            if query == "gradient":
                coordinates, sensitivity = p, mean_score(diameter, n, depth=depth)
            else:
                coordinates = p * (p + 1) // 2
                sensitivity = mean_rank_one(bound, n, p, depth=depth)
            scale = gaussian_scale(sensitivity, mu, coordinates)
            check_grid_range(bound * excess, scale, coordinates)
            receipts.append(Receipt(query, claims[query], mu, sensitivity, scale))
            shapes.append((p,) if query == "gradient" else (p, p))
        else:
            receipts.append(NOTHING.receipt)
            shapes.append(None)
    return Plan(
        label=" + ".join(queries),
        cost=GDP(joint_cost(objective, budget, layout.means)),
        want=want,
        receipts=tuple(receipts),
        grids=joint_grids(tuple(shapes), tuple([receipt.noise_scale for receipt in receipts])),
    )


@lru_cache(maxsize=64)
def shared_planner(constants: Constants, layout: Layout) -> Callable[[StepBudget], Plan]:
    """Make :func:`make_plan` of these constants, with a cache of its plans."""
    return lru_cache(maxsize=512)(partial(make_plan, constants, layout))


#: What the kernels call each query.
WANTED = {"gradient": GRADIENT, "hessian": HESSIAN, "majorizer": MAJORIZER, "meat": MEAT}

#: Claims of PROOFS.md that bound the sensitivity of each mean.
CLAIMS = {"gradient": "C13", "hessian": "C14", "majorizer": "C14", "meat": "C14"}
SCALE_CLAIMS = {"gradient": "C34", "hessian": "C35", "majorizer": "C35", "meat": "C36"}
