"""Plan of a fit by a method, decided from public arguments before a record is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

from dpfast.errors import InvalidInput
from dpfast.fit_requests.request import described_model
from dpfast.models import FreeScale, Loss, Objective, Weighting, resolve_loss
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.newton import Newton
from dpfast.optimize.planning import choose_method
from dpfast.optimize.protocol import Method, planned, public_copy


class Recipe(NamedTuple):
    """Plan of a fit: objective, optimiser, budgets and their description."""

    objective: Objective
    optimiser: Method
    budgets: Budgets
    model: str
    method: str


P = ParamSpec("P")
R = TypeVar("R")

#: Types whose values nobody can change later.
UNCHANGEABLE = frozenset({str, float, int, bool, type(None)})


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """Remember results for numbers and text: the many fits of a simulation share them."""
    cached: Callable[..., R] = lru_cache(maxsize=64, typed=True)(function)

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        known = UNCHANGEABLE.issuperset(map(type, (*arguments, *options.values())))
        return (cached if known else function)(*arguments, **options)

    return call


@remembered
def recipe_of(
    n: int,
    n_covariates: int,
    mu: float,
    fit_intercept: bool,
    loss: str | Loss,
    scale: float | FreeScale | None,
    weights: Weighting | None,
    ridge: float,
    method: str | Method,
    inference: bool,
    means: bool = False,
) -> Recipe:
    """Check the arguments of :func:`dpfast.fit` against each other and plan the fit."""
    p = n_covariates + int(fit_intercept)
    declared = resolve_loss(loss)
    loss = declared._for_records(n, p, mu)

    def objective_with(loss: Loss) -> Objective:
        objective = Objective(
            loss, weights, n_covariates, fit_intercept=fit_intercept, scale=scale, ridge=ridge
        )
        objective.means = means
        return objective

    objective = objective_with(loss)
    if p > n and not ridge:
        raise InvalidInput(
            f"p = {p} coefficients cannot be identified from n = {n} records. Use fewer "
            "covariates or pass a public penalty, dpfast.Objective(loss, ridge=...)."
        )
    if inference and not objective.has_curvature:
        remedy = "" if not objective.loss.has_curvature else ", or weights=dpfast.Mallows(radius)"
        raise InvalidInput(
            f"{objective.curvature_refusal()}, so no sandwich covariance exists. Pass "
            f"inference=False{remedy}."
        )
    public_objective = public_copy(objective)  # an optimiser of a caller's own may write on it
    optimiser, reason = choose_method(method, public_objective, n, mu)
    solves = isinstance(optimiser, Newton) and optimiser.newton_steps is None
    if solves and (narrow := declared._adapted_to_sample(loss, n)) is not loss:
        objective = objective_with(narrow)
        public_objective = public_copy(objective)
    budgets = planned(optimiser, public_objective, n, mu, inference)
    return Recipe(
        objective=objective,
        optimiser=optimiser,
        budgets=budgets,
        model=described_model(objective),
        method=f"{budgets.description}; {reason}",
    )
