"""The result of a private search: released and public numbers only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array
from dpfast.fit_requests.plain import plain_fields
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table

#: Standard deviations by which a share is told from none.
FAR = 3.0

#: Expected lengths of its noise that a gradient must have to be told from it.
SEEN = 1.5


class Tuning(NamedTuple):
    """What a search found, how it got there and what it cost.  Its size does not depend on n.

    Attributes
    ----------
    theta : ndarray of shape (d,)
        The recommended parameters: average of the last iterates, or the last one.  Where `bounds`
        had types: a column per number (of its logarithm, on a log scale) and a column of zeros and
        a one per choice.
    parameters : ndarray, list or dict
        The same as the losses receive it: theta, or values of the declared types.
    iterates : ndarray of shape (steps + 1, d)
        The start and every iterate after it.
    points, batch_sizes : ndarray of shape (m, d), tuple of int
        Every point at which the losses were evaluated, in order, and how many each step asked for.
    gradients : ndarray of shape (steps, d)
        Noisy surrogate gradients, per unit of the coordinates of the search.  None where values
        are compared.
    noise_scales : tuple of float
        Standard deviation of each step's privacy noise, in the same unit; of a choice by value, by
        how much of a mean loss a point may be worse to be chosen 2.7 times less often.
    traces : tuple of float
        Posterior variance left in the surrogate's gradient at each step, relative to the prior's.
    method : str
        Every setting.
    privacy : Guarantee
        For the validation records.  Training data are not covered.
    lost_steps : int
        Steps that were paid for but whose answer was lost in a crash.
    failed : (float, float) or None
        Share of all losses that were not finite, with noise, and the standard deviation of that
        noise; None before the last step.
    remarks : tuple of str
        What is to be said of the clip and of the start, from released numbers.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing.
    """

    theta: Array
    iterates: Array
    points: Array
    batch_sizes: tuple[int, ...]
    gradients: Array
    noise_scales: tuple[float, ...]
    traces: tuple[float, ...]
    method: str
    privacy: Guarantee
    lost_steps: int = 0
    parameters: Any = None
    failed: tuple[float, float] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def n_evaluations(self) -> int:
        """Number of points at which the losses were evaluated."""
        return len(self.points)

    @property
    def best_params(self) -> Any:
        """The recommended parameters as the losses receive them; the same as ``parameters``."""
        return self.theta if self.parameters is None else self.parameters

    @property
    def history(self) -> dict[str, Array]:
        """One entry a step, each of shape (steps,), for ``pandas.DataFrame(found.history)``.

        How many points were evaluated and the iterate after the step; where gradients are followed
        also the length of the released gradient and of its noise, and the part of the uncertainty
        that was left.
        """
        count, d = len(self.iterates) - 1, len(self.theta)
        columns: dict[str, Array] = {
            "evaluations": np.array(self.batch_sizes[:count], dtype=float),
        }
        if len(self.gradients):
            columns |= {
                "gradient": np.linalg.norm(self.gradients, axis=1),
                "noise": np.array(self.noise_scales) * d**0.5,
                "uncertainty": np.array(self.traces),
            }
        after = self.iterates[1 : count + 1].T
        return columns | {f"theta{j + 1}": column for j, column in enumerate(after)}

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Whether each step's released gradient is longer than half as long again as its noise is
        expected to be, shape (steps,); empty where values are compared.
        """
        noise = np.array(self.noise_scales[: len(self.gradients)]) * len(self.theta) ** 0.5
        return np.linalg.norm(self.gradients, axis=1) >= SEEN * noise

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the result must know, from released and public numbers only."""
        found = [*self.remarks]
        if self.lost_steps:
            found.append(
                f"{self.lost_steps} steps were paid for and their answers lost in a crash: the "
                "search had less to go by than its cost says."
            )
        share, noise_of_share = self.failed or (0.0, 0.0)
        if share > FAR * noise_of_share:
            found.append(
                f"about {min(share, 1.0):.0%} of the losses were not finite, as of trainings that "
                "failed; each counts as the largest of its record's. Leave out of the bounds what "
                "fails."
            )
        early = max(1, len(self.gradients) // 3)
        if len(self.gradients) and not self.stands_out[:early].any():
            found.append(
                f"none of the first {early} released gradients can be told from its noise: the "
                "search went where the noise led, unless it began at its end. More records or "
                "budget, fewer parameters, or a smaller clip (dpfast.bayesopt.private_clip buys "
                "one)."
            )
        return tuple(found)

    def summary(self) -> Summary:
        """What was found, how and at what cost: text, which notebooks show as HTML."""
        steps = len(self.iterates) - 1
        way = " (DP-GIBO)" if len(self.gradients) else " (choice by value)" * bool(steps)
        lost = f" ({self.lost_steps} more were paid for and lost)" if self.lost_steps else ""
        facts = [
            ("Steps", f"{steps}{lost}"),
            ("Evaluations", str(self.n_evaluations)),
            ("Covered", "the validation records; training data are not covered"),
            ("Method", self.method),
        ]
        return render_table(
            f"dpfast: private black-box optimisation{way}", facts, ("value",),
            _rows(self.best_params), self.privacy, self.warnings,
        )  # fmt: skip

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-able values."""
        return plain_fields(self._asdict())


def _rows(found: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Names and values of parameters."""
    named = found.items() if isinstance(found, dict) else enumerate(found, 1)
    return [
        (
            name if isinstance(name, str) else f"theta{name}",
            (f"{value:.4g}" if isinstance(value, float) else f"{value!r}",),
        )
        for name, value in named
    ]
