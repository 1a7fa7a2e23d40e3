"""What an objective given in place of a loss says: the settings that a function also takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.errors import InvalidInput, described
from dpfast.models import (
    FreeScale,
    Loss,
    Objective,
    Weighting,
    resolve_loss,
)

if TYPE_CHECKING:
    from dpfast.models.nonconvex import PerRecordObjective

__all__ = ["Parts", "offset_joins_predictor", "parts_of", "refuse_beside"]


class Parts(NamedTuple):
    """Loss, scale, weights and ridge; whether there is an intercept, and for how many columns.

    ``n_covariates`` is None unless the objective is bound to a number of columns.
    """

    loss: str | Loss
    scale: Any
    weights: Weighting | None
    ridge: float
    fit_intercept: bool
    n_covariates: int | None


def parts_of(
    loss: str | Loss | Objective,
    scale: float | FreeScale | None,
    weights: Weighting | None = None,
    ridge: float = 0.0,
    fit_intercept: bool = True,
) -> Parts:
    """The arguments as they are, or those of an objective; never some of each."""
    if not isinstance(loss, Objective):
        return Parts(loss, scale, weights, ridge, fit_intercept, None)
    refuse_beside(loss, scale, weights, ridge)
    own, columns = loss.terms(), None
    if loss.bound:
        if fit_intercept is False and loss.fit_intercept:
            raise InvalidInput(
                "the objective has an intercept; received fit_intercept=False beside it."
            )
        fit_intercept, columns = loss.fit_intercept, loss.n_covariates
    return Parts(own.loss, own.scale, own.weights, own.ridge, fit_intercept, columns)


def offset_joins_predictor(loss: str | Loss) -> bool:
    """Whether an offset is added to the predictor, instead of being taken from the response."""
    return resolve_loss(loss, unbounded=True).link != "identity"


def refuse_beside(
    objective: Objective | PerRecordObjective,
    scale: float | FreeScale | None,
    weights: Weighting | None,
    ridge: float,
) -> None:
    """Settings beside an objective, which has its own."""
    without = isinstance(ridge, (int, float)) and not isinstance(ridge, bool) and ridge == 0
    given = {"scale": scale, "weights": weights, "ridge": None if without else ridge}
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{name} is a part of the objective, {described(objective)}; received {name}="
                f"{described(value)} beside it. Leave it out, or pass a loss in place of the "
                "objective."
            )
