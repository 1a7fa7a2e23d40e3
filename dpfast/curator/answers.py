"""What a Curator answers with: public or released numbers, nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale


class Receipt(NamedTuple):
    """How one released quantity was privatised."""

    query: str
    claim: str
    mu: float
    l2_sensitivity: float
    noise_scale: float


def gaussian_receipt(
    query: str, claim: str, mu: float, sensitivity: float, bound: float, dimension: int
) -> Receipt:
    """Of values up to ``bound`` with noise for this mu; refused where the grid cannot hold them."""
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


#: In place of what was not asked for.
NOTHING = Answer(np.empty(0), 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))

#: From a tuple, without the frame of the generated constructor: a fit makes many of them.
answer_of = partial(tuple.__new__, Answer)
joint_answer_of = partial(tuple.__new__, JointAnswer)


class StepBudget(NamedTuple):
    """Gaussian-DP parameters of the quantities of one step; 0 means: not released."""

    gradient: float
    hessian: float = 0.0
    meat: float = 0.0
    majorize: bool = False


class Released(NamedTuple):
    """One answer that was handed out, as it is kept for a run that may end early.

    Attributes
    ----------
    query : str
        What was asked.
    at : tuple
        The public or released parameters it was asked at, as copies.
    value : ndarray, int or tuple
        The answer.
    noise_scale : float
        Standard deviation of its noise per coordinate; that of a choice is its sensitivity over mu.
    mu : float
        What the question cost, with whatever was answered together with this.

    Privacy
    -------
    Released and public numbers: costs nothing.
    """

    query: str
    at: tuple[Any, ...]
    value: Any
    noise_scale: float
    mu: float


released_of = partial(tuple.__new__, Released)

#: Numbers that a tape keeps; beyond them its oldest answers are forgotten.
MOST_KEPT = 1 << 21


class Tape:
    """The answers of one run, in order: what its caller paid for, should the run end early."""

    def __init__(self) -> None:
        self._kept: deque[tuple[Released, int]] = deque()  # with how many numbers each holds
        self._size = 0
        #: Of who listens: what a call within had released that ended, by the name of an exception.
        self.ended: Callable[[str], Any] | None = None

    @property
    def answers(self) -> tuple[Released, ...]:
        """In the order in which they were given; some of the first ones may be forgotten."""
        return tuple([answer for answer, _ in self._kept])

    def keep(self, question: tuple[Any, ...], answers: Sequence[Answer]) -> None:
        """Take down copies of answers to one question that are handed out now."""
        at, size = question[2:], 3
        for i, part in enumerate(at):
            kind = type(part)
            if kind in PLAIN:
                size += 1
            elif kind is np.ndarray and part.base is None and not part.flags.writeable:
                size += part.size  # nobody can change it
            else:
                copy, own = _copied(part)
                size += own
                at = (*at[:i], copy, *at[i + 1 :])
        for answer in answers:
            if answer is not NOTHING:
                value, scale, receipt = answer
                plain = type(value) is np.ndarray
                value, own = (value.copy(), value.size) if plain else _copied(value)
                kept = released_of((receipt[0], at, value, scale, question[1]))
                self._kept.append((kept, size + own))
                self._size += size + own
        while self._size > MOST_KEPT and len(self._kept) > 1:
            self._size -= self._kept.popleft()[1]


def _copied(thing: Any) -> tuple[Any, int]:
    """A copy, or the thing itself where nobody can change it; and how many numbers it holds."""
    if not isinstance(thing, tuple):
        return (thing.copy(), thing.size) if isinstance(thing, np.ndarray) else (thing, 1)
    kinds = {*map(type, thing)}
    if kinds <= PLAIN:
        return thing, len(thing)
    if kinds == {tuple} and PLAIN.issuperset(map(type, chain.from_iterable(thing))):
        return thing, sum(map(len, thing))
    parts = [_copied(part) for part in thing]
    copies = tuple([copy for copy, _ in parts]) if type(thing) is tuple else thing
    return copies, sum([own for _, own in parts])


#: What is one number, or a name, of which there are many.
PLAIN = frozenset({int, float, str, bool, type(None)})

#: Of the call that is running, if it keeps what it paid for.
TAPE: ContextVar[Tape | None] = ContextVar("dpfast_tape", default=None)
