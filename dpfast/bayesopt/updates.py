"""Update rules: steps from released gradients only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array, flag, number_in, positive
from dpfast.errors import InvalidInput, described


class History(NamedTuple):
    """Released numbers of the steps so far, in the coordinates of the search."""

    #: Where each gradient was taken; one per gradient.
    iterates: list[Array]
    #: Noisy gradients, projected on the directions that carry signal.
    gradients: list[Array]
    #: Public variance of the privacy noise in each coordinate, after the projection.
    variances: list[Array]
    #: Standard deviation of the privacy noise before the projection.
    noise_scales: list[float]
    #: Number of steps planned.
    n_steps: int


class Update:
    """Base of the update rules.

    Other Parameters
    ----------------
    history : History
        Argument of :meth:`step`: released numbers of the steps so far.

    Privacy
    -------
    Sees released and public numbers only: its steps are post-processing.
    """

    def step(self, history: History) -> Array:
        """Return the displacement after the last gradient, in search coordinates, shape (d,)."""
        raise NotImplementedError


class Plain(Update):
    """Gradient descent with a fixed step size (line 9 of Algorithm 1).

    Parameters
    ----------
    step_size : float
        Positive; public.

    Examples
    --------
    >>> dpfast.bayesopt.SearchSettings(update=dpfast.bayesopt.Plain(0.1)).update
    Plain(0.1)
    """

    def __init__(self, step_size: float) -> None:
        self.step_size = positive(step_size, "step_size")

    def step(self, history: History) -> Array:
        return -self.step_size * history.gradients[-1]

    def __repr__(self) -> str:
        return f"Plain({self.step_size:g})"


class AdaGrad(Update):
    """Coordinate-wise steps ``step_size g / sqrt(sum g^2)``.

    Appendix E of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    Parameters
    ----------
    step_size : float
        Length of the first step in every coordinate.
    subtract_noise : bool
        Take the public variance of the privacy noise off the sum of squares, at or above one step's
        noise, so that steps do not shrink because of noise.

    Examples
    --------
    >>> dpfast.bayesopt.SearchSettings(update=dpfast.bayesopt.AdaGrad()).update
    AdaGrad(0.3, subtract_noise=True)
    """

    def __init__(self, step_size: float = 0.3, *, subtract_noise: bool = True) -> None:
        self.step_size = positive(step_size, "step_size")
        self.subtract_noise = flag(subtract_noise, "subtract_noise")

    def step(self, history: History) -> Array:
        total = np.sum(np.square(history.gradients), axis=0)
        if self.subtract_noise:
            noise = np.sum(history.variances, axis=0)
            total = np.maximum(total - noise, np.max(history.variances, axis=0))
        return -self.step_size * history.gradients[-1] / np.sqrt(np.maximum(total, 1e-300))

    def __repr__(self) -> str:
        return f"AdaGrad({self.step_size:g}, subtract_noise={self.subtract_noise})"


class Smoothed(Update):
    """Sign-like steps along an average of recent gradients, shorter where noise dominates.

    The average m weights a gradient by ``decay`` to the power of its age and by its inverse noise
    variance.  Its own noise variance v is therefore public.  With q the mean square of the averages
    so far, the step in a coordinate is ``step_size m / sqrt(q + v)``.

    Parameters
    ----------
    step_size, decay : float
        Longest step in a coordinate, and memory of the average in [0, 1).
    final : float in (0, 1]
        Longest step at the end, relative to the first; in between it shrinks linearly.

    Examples
    --------
    >>> dpfast.bayesopt.SearchSettings(update=dpfast.bayesopt.Smoothed()).update
    Smoothed(0.1, decay=0.8, final=0.2)
    """

    def __init__(self, step_size: float = 0.1, *, decay: float = 0.8, final: float = 0.2) -> None:
        self.step_size = positive(step_size, "step_size")
        self.decay = number_in(decay, "decay", "[0, 1)")
        self.final = number_in(final, "final", "(0, 1]")

    def step(self, history: History) -> Array:
        gradients, variances = np.array(history.gradients), np.array(history.variances)
        precision = 1.0 / np.maximum(np.square(history.noise_scales), 1e-300)
        count = len(gradients)
        ages = np.arange(count)[:, None] - np.arange(count)
        weights = np.where(ages >= 0, self.decay ** np.maximum(ages, 0), 0.0) * precision
        weights /= weights.sum(axis=1, keepdims=True)
        averages = weights @ gradients
        variance = np.square(weights[-1]) @ variances
        typical = float(np.mean(averages**2))
        part = count / history.n_steps
        longest = self.step_size * (1.0 - (1.0 - self.final) * part)
        return -longest * averages[-1] / np.sqrt(typical + variance + 1e-300)

    def __repr__(self) -> str:
        return f"Smoothed({self.step_size:g}, decay={self.decay:g}, final={self.final:g})"


def resolve_update(update: str | Update | None, default: Update) -> Update:
    """Turn the ``update`` argument into an :class:`Update`."""
    if update is None:
        return default
    if isinstance(update, Update):
        return update
    if isinstance(update, str) and update == "adagrad":
        return AdaGrad()
    raise InvalidInput(
        'update must be "adagrad", dpfast.bayesopt.Plain(step_size), AdaGrad(...), Smoothed(...) '
        f"or None; received {described(update, text=True)}."
    )
