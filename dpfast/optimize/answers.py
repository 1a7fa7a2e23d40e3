"""What an optimiser may ask of the records: answers only, each of which is paid for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.models import FreeScale, Objective

Array = NDArray[np.float64]


class Answers(Protocol):
    """What an optimiser or a step rule may ask; each answer is charged before it is drawn.

    As :class:`~dpfast.curator.Curator`, without what is not private.  CONTRIBUTING.md has an
    optimiser that asks.

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

        Returns
        -------
        int
        """

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Gradient and, where their budgets are not 0, Hessian (or majoriser) and meat.

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Public, or made of earlier answers.
        budget : StepBudget
            The mu of each quantity.

        Returns
        -------
        JointAnswer
            Noisy means over the records, of shapes (p,), (p, p) and (p, p), with their noise
            scales; the ridge is not in them.
        """

    def plan(self, budget: StepBudget) -> Any:
        """What :meth:`joint` would charge and release, or its refusal; costs nothing.

        Parameters
        ----------
        budget : StepBudget
            As for :meth:`joint`.

        Returns
        -------
        Plan
            With ``receipts``, one for each quantity: its label, price and noise scale.
        """

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Mean loss at ``new`` minus that at ``old``, shape (1,).

        Parameters
        ----------
        new, old : ndarray of shape (p,)
            Public, or made of earlier answers.
        mu : float
            What to spend.

        Returns
        -------
        Answer
        """

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Smallest or largest eigenvalue of the mean Hessian, shape (1,).

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Public, or made of earlier answers.
        mu : float
            What to spend.
        largest : bool
            Which of the two.

        Returns
        -------
        Answer
        """

    def largest_curvature(self, mu: float) -> Answer:
        """Largest eigenvalue the mean Hessian has at any parameter, shape (1,).

        Parameters
        ----------
        mu : float
            What to spend.

        Returns
        -------
        Answer
        """

    def damped_direction(
        self, theta: Array, gradient: Array, damping: float, mu: float, *, majorize: bool = False
    ) -> Answer:
        """``(H + damping I)^-1 gradient``, shape (p,), for a released gradient.

        Parameters
        ----------
        theta, gradient : ndarray of shape (p,)
            Public, or made of earlier answers.
        damping : float
            Positive, public.
        mu : float
            What to spend.
        majorize : bool
            Use the majorising curvature in place of the Hessian.

        Returns
        -------
        Answer
        """

    @property
    def can_deal(self) -> bool:
        """Whether :meth:`deal` can be asked for; public."""

    def deal(self, mu: float) -> Blocks:
        """Random disjoint blocks of the records, all of which together cost ``mu``.

        Parameters
        ----------
        mu : float
            What to spend on each block, and hence on all of them (claim C55).

        Returns
        -------
        Blocks
        """

    def constant_term(self, scale: float | FreeScale | None) -> Answers:
        """Answers about a model of a constant alone, charged to the same ledger.

        Parameters
        ----------
        scale : float, FreeScale or None
            Public scale of its residuals, or interval of one that is to be estimated; None for a
            loss without one.

        Returns
        -------
        Answers
            For p = 1, or for constant and scale.
        """


class Blocks(Protocol):
    """What a dealing hands out; paid for as a whole (claim C55).

    Privacy
    -------
    Which records are in a block is secret.  What is asked of a block is charged to a ledger of its
    own, within what the dealing cost.
    """

    @property
    def left(self) -> int:
        """Number of slots that are in no block yet."""

    @property
    def n_slots(self) -> int:
        """Number of all slots, 256 or 65,536."""

    @property
    def room(self) -> int:
        """Number of slots whose records can be in memory at a time; public."""

    def block(self, width: int, ahead: int = 0) -> Answers:
        """Joint answers about the records in ``width`` further slots.

        Parameters
        ----------
        width : int
            At most :attr:`left`.
        ahead : int
            How many slots will be asked for after these, to be read along with them.

        Returns
        -------
        Answers
            Of which only :meth:`Answers.joint` and what is public can be asked.
        """
