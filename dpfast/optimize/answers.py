"""What an optimiser may ask of the records: answers only, each of which is paid for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.models import Objective

Array = NDArray[np.float64]


class Answers(Protocol):
    """What an optimiser or a step rule may ask; each answer is charged before it is drawn.

    As :class:`~dpfast.curator.Curator`, without what is not private.  CONTRIBUTING.md has an
    optimiser that asks.

    Other Parameters
    ----------------
    theta, new, old : ndarray of shape (p,)
        Of methods: public, or made of earlier answers.
    budget : StepBudget
        The mu of each quantity.
    mu : float
        What to spend.

    Privacy
    -------
    Everything that has a budget or a ``mu`` among its arguments spends it, of the fit's total;
    ``BudgetExceeded`` where it is not there.  The rest is public and costs nothing.
    """

    @property
    def objective(self) -> Objective:
        """Loss, weighting and their public constants; a copy."""

    @property
    def n(self) -> int:
        """Number of records (public)."""

    def depth(self, want: int) -> int:
        """Most sequential roundings of a mean; public.

        Parameters
        ----------
        want : int
            Which quantities the mean is of, as the kernels number them.
        """

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Gradient and, where their budgets are not 0, Hessian (or majoriser) and meat.

        Means over the records, of shapes (p,), (p, p) and (p, p); the ridge is not in them.
        """

    def plan(self, budget: StepBudget) -> Any:
        """What :meth:`joint` would charge and release, or its refusal; costs nothing.

        Returns
        -------
        Plan
            With ``receipts``, one for each quantity: its label, price and noise scale.
        """

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Mean loss at ``new`` minus that at ``old``, shape (1,)."""

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Smallest or largest eigenvalue of the mean Hessian, shape (1,).

        Parameters
        ----------
        largest : bool
            Which of the two.
        """

    def largest_curvature(self, mu: float) -> Answer:
        """Largest eigenvalue the mean Hessian has at any parameter, shape (1,)."""
