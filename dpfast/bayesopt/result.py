"""Result of a private search: released and public numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array
from dpfast.inference.base import FixedLevel
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table

#: A share is reported as positive above this many standard deviations of its noise.
MIN_SHARE_SDS = 3.0

#: A gradient stands out if its norm is this multiple of its noise's expected norm.
MIN_SIGNAL_RATIO = 1.5


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(FixedLevel):
    """Result, path and cost of a private search.  Its size does not depend on n.

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
        Every point at which the losses were evaluated, in order, and the number of points of each
        step.
    gradients : ndarray of shape (steps, d)
        Noisy surrogate gradients, per unit of the search coordinates.  None where values are
        compared.
    noise_scales : tuple of float
        Standard deviation of each step's privacy noise, in the same unit.  For a choice by value:
        the increase of a mean loss that makes a point e times less likely.
    traces : tuple of float
        Posterior variance of the surrogate's gradient at each step, relative to the prior's.
    method : str
        All settings.
    privacy : Guarantee
        Guarantee for the validation records.  Training data are not covered.
    lost_steps : int
        Steps whose budget was spent but whose answer was lost in a crash.
    failed : (float, float) or None
        Share of losses that were not finite, with noise, and the standard deviation of that noise;
        None before the last step.
    remarks : tuple of str
        Remarks about the clip and the start, from released numbers.

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
        """Recommended parameters as the losses receive them; the same as ``parameters``."""
        return self.theta if self.parameters is None else self.parameters

    @property
    def history(self) -> dict[str, Array]:
        """Columns of shape (steps,), one entry per step, for ``pandas.DataFrame(found.history)``.

        They are the number of evaluated points and the iterate after the step.  Where gradients
        are followed, there are also the norms of the released gradient and of its noise, and the
        remaining share of the uncertainty.
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
        """True where a released gradient exceeds 1.5 times the expected norm of its noise.

        Shape (steps,); empty where values are compared.
        """
        noise = np.array(self.noise_scales[: len(self.gradients)]) * len(self.theta) ** 0.5
        return np.linalg.norm(self.gradients, axis=1) >= MIN_SIGNAL_RATIO * noise

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the result, from released and public numbers only."""
        messages = [*self.remarks]
        if self.lost_steps:
            messages.append(
                f"{self.lost_steps} steps were paid for, and their answers lost in a crash: the "
                "search used fewer answers than its cost suggests."
            )
        share, noise_of_share = self.failed or (0.0, 0.0)
        if share > MIN_SHARE_SDS * noise_of_share:
            messages.append(
                f"about {min(share, 1.0):.0%} of the losses were not finite, as of trainings that "
                "failed; each counts as its record's largest. Use bounds where trainings succeed."
            )
        early = max(1, len(self.gradients) // 3)
        if len(self.gradients) and not self.stands_out[:early].any():
            messages.append(
                f"none of the first {early} released gradients can be told from its noise: unless "
                "the start is near the optimum, the search followed noise. Use more records or "
                "budget, fewer parameters, or a smaller clip (dpfast.bayesopt.private_clip)."
            )
        return tuple(messages)

    def summary(self) -> Summary:  # type: ignore[override]
        """Summarise the result, its method and its cost as text, which notebooks show as HTML."""
        steps = len(self.iterates) - 1
        method_name = " (DP-GIBO)" if len(self.gradients) else " (choice by value)" * bool(steps)
        lost = f" ({self.lost_steps} more were paid for and lost)" if self.lost_steps else ""
        facts = [
            ("Steps", f"{steps}{lost}"),
            ("Evaluations", str(self.n_evaluations)),
            ("Covered", "the validation records; training data are not covered"),
            ("Method", self.method),
        ]
        return render_table(
            f"dpfast: private black-box optimisation{method_name}", facts, ("value",),
            _rows(self.best_params), self.privacy, self.warnings,
        )  # fmt: skip

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each step."""
        return {"step": np.arange(1, len(self.iterates)), **self.history}


def _rows(best: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Return names and formatted values of parameters."""
    items = best.items() if isinstance(best, dict) else enumerate(best, 1)
    return [
        (
            name if isinstance(name, str) else f"theta{name}",
            (f"{value:.4g}" if isinstance(value, float) else f"{value!r}",),
        )
        for name, value in items
    ]
