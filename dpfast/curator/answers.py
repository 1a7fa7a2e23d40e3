"""Answers of a curator: public or released numbers, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels import session
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale


class Receipt(NamedTuple):
    """Query, claim, cost, sensitivity and noise scale of one released quantity."""

    query: str
    claim: str
    mu: float
    l2_sensitivity: float
    noise_scale: float


def gaussian_receipt(
    query: str, claim: str, mu: float, sensitivity: float, bound: float, dimension: int
) -> Receipt:
    """Make the receipt of values up to ``bound`` with Gaussian noise for this mu.

    Refuses a noise scale at which the grid of the noise cannot represent such values.
    """
    scale = gaussian_scale(sensitivity, mu, dimension)
    check_grid_range(bound, scale, dimension)
    return Receipt(query, claim, mu, sensitivity, scale)


class Answer(NamedTuple):
    """A released array and its receipt."""

    value: NDArray[np.float64]
    noise_scale: float
    receipt: Receipt


class JointAnswer(NamedTuple):
    """Quantities released together at one parameter."""

    gradient: Answer
    hessian: Answer
    meat: Answer
    mu: float


#: Answer in place of a quantity that was not requested.
NOTHING = Answer(np.empty(0), 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))


class StepBudget(NamedTuple):
    """Gaussian-DP parameters of the quantities of one step; 0 means: not released."""

    gradient: float
    hessian: float = 0.0
    meat: float = 0.0
    majorize: bool = False


class Released(NamedTuple):
    """Released answer of a run that may end early.

    Attributes
    ----------
    query : str
        Name of the query.
    at : tuple
        Copies of the public or released parameters of the query.
    value : ndarray, int or tuple
        The answer.
    noise_scale : float
        Standard deviation of its noise per coordinate; for a choice, its sensitivity over mu.
    mu : float
        Cost of the query, together with whatever was released jointly.

    Privacy
    -------
    Released and public numbers: costs nothing.
    """

    query: str
    at: tuple[Any, ...]
    value: Any
    noise_scale: float
    mu: float


#: Numbers that a tape keeps, 16 MB; beyond them its oldest answers are forgotten.
MAX_TAPE_NUMBERS = 1 << 21


class Tape(session.Tape):
    """Answers of one run, in order, for its caller if the run ends early."""

    def __init__(self) -> None:
        super().__init__(MAX_TAPE_NUMBERS, NOTHING)
        #: Set by a caller: what an inner call had released when this exception ended it.
        self.ended: Callable[[str], Any] | None = None

    @property
    def answers(self) -> tuple[Released, ...]:
        """The recorded answers, oldest first; the oldest of a long run are forgotten."""
        return tuple([Released(*answer) for answer in self.recorded])


#: Tape of the running call, if it keeps its answers.
TAPE: ContextVar[Tape | None] = ContextVar("dpfast_tape", default=None)
