"""Scores of all rows without weights, which a logistic regression of raw columns asks for last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator, JointAnswer, StepBudget
from dpfast.front.request import Request
from dpfast.models import Clip, Loss, Objective
from dpfast.optimize.least_squares.run import few
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.unweighted.combined import ROUNDS

__all__ = ["HeldScores", "held_share"]

#: Share of mu^2 of a fit where records are many; less where they are few, and none below the least.
SHARE, LEAST_SHARE = 0.5, 0.16

Array = NDArray[np.float64]


class HeldScores:
    """Scores of all rows at released parameters, each held to a norm.

    Parameters
    ----------
    request : Request
    loss : Loss
    mu : float
        What all rounds may spend.
    ledger : Ledger
        That pays.

    Privacy
    -------
    Claim C13 for a set of diameter twice the norm; their meat is free beside them (claim C60).
    """

    def __init__(self, request: Request, loss: Loss, mu: float, ledger: Ledger) -> None:
        self._request, self._loss, self._ledger = request, loss, ledger
        each = mu * ((1.0 - MARGIN_8000) / ROUNDS) ** 0.5
        self._budget = StepBudget(each, 0.0, 0.5 * each)
        self._curator(1.0).plan(self._budget)  # refuses an impossible budget

    def answer(self, theta: Array, radius: float) -> JointAnswer:
        """Pay, and answer about the request's records as they are now."""
        return self._curator(radius).joint(theta, self._budget)

    def _curator(self, radius: float) -> Curator:
        request = self._request
        intercept = request.fit_intercept
        shape = request.n_covariates
        objective = Objective(self._loss, Clip(radius), shape, fit_intercept=intercept)
        return request.curator(objective, self._ledger)


def held_share(n: int, p: int, mu: float) -> float:
    """Part of mu^2 of a fit that scores without weights are worth.

    Parameters
    ----------
    n, p : int
    mu : float
        Public.
    """
    share = SHARE * (1.0 - few(n, p, mu))
    return share if share >= LEAST_SHARE else 0.0
