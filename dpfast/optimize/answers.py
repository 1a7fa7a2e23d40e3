"""Questions that an optimiser may ask about the records; each answer is paid for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.models import Objective

Array = NDArray[np.float64]


class Answers(Protocol):
    """Questions for optimisers and step rules; each answer is charged before it is drawn.

    It has the methods of :class:`~dpfast.curator.Curator` that are private.  The recipes of the
    documentation have an optimiser that uses it.

    Other Parameters
    ----------------
    theta, new, old : ndarray of shape (p,)
        Of methods: public, or made of earlier answers.
    budget : StepBudget
        The mu of each quantity.
    mu : float
        Budget of the answer.

    Privacy
    -------
    Every method with a budget or a ``mu`` among its arguments spends it, from the fit's total.
    It raises ``BudgetExceeded`` where too little is left.  The rest is public and costs nothing.
    """

    @property
    def objective(self) -> Objective:
        """Loss, weighting and their public constants; a copy."""

    @property
    def n(self) -> int:
        """Number of records (public)."""

    def depth(self, want: int) -> int:
        """Return the largest number of sequential roundings of a mean; public.

        Parameters
        ----------
        want : int
            The quantities that are averaged, as the kernels number them.
        """

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Release the gradient and, if paid for, the Hessian (or majoriser) and the meat.

        They are means over the records, of shapes (p,), (p, p) and (p, p), without the ridge.
        """

    def plan(self, budget: StepBudget) -> Any:
        """Return the charges and releases that :meth:`joint` would make, or refuse; costs nothing.

        Returns
        -------
        Plan
            With ``receipts``, one for each quantity: its label, price and noise scale.
        """

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Release the mean loss at ``new`` minus that at ``old``, shape (1,)."""

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Release the smallest or largest eigenvalue of the mean Hessian, shape (1,).

        Parameters
        ----------
        largest : bool
            Whether the largest eigenvalue is released, and not the smallest.
        """

    def largest_curvature(self, mu: float) -> Answer:
        """Release the largest eigenvalue the mean Hessian has at any parameter, shape (1,)."""
