"""What a Curator answers with: public or released numbers, nothing else."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NOTHING",
    "Answer",
    "JointAnswer",
    "Receipt",
    "StepBudget",
    "answer_of",
    "joint_answer_of",
]


class Receipt(NamedTuple):
    """How one released quantity was privatised.

    Attributes
    ----------
    query : str
        ``"gradient"``, ``"hessian"``, ``"majorizer"`` or ``"meat"``.
    claim : str
        Number of the claim in ``dpfast/privacy/PROOFS.md`` that bounds its sensitivity.
    mu : float
        Gaussian-DP parameter of this quantity on its own.
    l2_sensitivity : float
        Replacement sensitivity, in the norm the noise is calibrated for.
    noise_scale : float
        Standard deviation of the noise per orthonormal coordinate.
    """

    query: str
    claim: str
    mu: float
    l2_sensitivity: float
    noise_scale: float


class Answer(NamedTuple):
    """A released array and its receipt."""

    value: NDArray[np.float64]
    noise_scale: float
    receipt: Receipt


class JointAnswer(NamedTuple):
    """Quantities released together at one parameter.

    ``mu`` is what the release cost as a whole (formulas page, section 4.3); it is at most the
    composition of the receipts' own ``mu``.
    """

    gradient: Answer
    hessian: Answer
    meat: Answer
    mu: float


#: In place of what was not asked for.
NOTHING = Answer(np.empty(0), 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))

#: From a tuple, without the frame of the generated constructor: a fit makes many of them.
answer_of = partial(tuple.__new__, Answer)
joint_answer_of = partial(tuple.__new__, JointAnswer)


class StepBudget(NamedTuple):
    """Gaussian-DP parameters of the quantities of one step; 0 means: not released.

    With ``majorize``, the curvature released is the majorising ``psi(r)/r`` instead of the
    Hessian's ``psi'(r)``.
    """

    gradient: float
    hessian: float = 0.0
    meat: float = 0.0
    majorize: bool = False
