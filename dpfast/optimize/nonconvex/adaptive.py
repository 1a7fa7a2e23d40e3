"""Adaptive noisy gradient descent (algorithm 3 of paper 2, corrected): large gradients are cheap.

Noise is in proportion to a gradient's own size, so that the far start of the path costs almost
nothing.  The paper charges the wrong amounts (erratum E3).  Here every query is charged the cost of
its noise, and the ledger is the filter: the path ends when it is used up (claim K4).

Users' gradients are scaled (claim K9) and clipped where that costs least (claim K7).  Theorems 4
and 5 are about the declared bound, ``clip=None``, and the paper's steps, ``step_rate=0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import flag, number_in, one_of, positive
from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.optimize.nonconvex.clip import PrivateClip
from dpfast.optimize.nonconvex.descent import MIN_RHO, Path, checked_count, noise_for, price_of
from dpfast.optimize.nonconvex.scales import private_scales
from dpfast.optimize.nonconvex.steps import MAX_CLIPS, Steps

Array = NDArray[np.float64]

#: Weight of the past in the free estimate of a gradient's squared norm.  Smaller, the estimate is
#: noise; larger, it lags behind a gradient that shrinks, and gradients get too little budget.
MEMORY = 0.7

#: Part of the budget that may be left without a warning.
MOST_LEFT = 0.05

OUT_OF_STEPS = (
    "after max_steps={steps} steps {left:.0%} of the budget was left: the answer is some way from "
    "the minimum. Use larger max_steps of dpfast.optimize.Adaptive, or columns of like units."
)


class Adaptive:
    """Settings of adaptive noisy gradient descent; all public.

    Algorithm 3 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Parameters
    ----------
    step_size : float, optional
        Of plain steps, which are this times the gradient; default ``1/(2 L1)`` with the declared
        smoothness.  Scaled steps begin with .2 of a plain one against the longest gradient.
    step_rate : float
        Steps are scaled, as those of Adam (Kingma and Ba 2015): every parameter moves by about the
        same length, which falls with the budget that is left.  After each step the length is
        multiplied by ``exp(step_rate * cosine)`` of the angle between the step before and the noisy
        gradient.  It changes by less where the gradient is mostly noise.  Steps grow while they
        agree, and shrink when they turn.  0 is the paper's: plain steps of one size.
    signal : float
        Noise vectors have the estimated norm of the gradient divided by ``sqrt(signal)``.  The
        paper's ``log(n sqrt(rho)/beta)`` is far more careful than a descent needs.
    last_share : float
        Largest part of the budget one gradient may cost.  (The paper: one half.)
    norm_queries : bool
        Estimate the norm by a query of its own before each gradient, as in the paper, at
        ``2 sqrt(rho)/n`` each.  Otherwise by the gradients already released, which is free.
    clip : {"private"} or float or None
        Norm to which users' gradients are clipped, at most the declared ``lipschitz``.  "private"
        chooses it by the norms of gradients, which are released eight times for at most 8% of the
        budget (four times with very few records).  It is at least their 80% quantile.  It balances
        the bias of clipping, if a part of .15 of it points one way, and the noise that is saved.
        Before, gradients and parameters are scaled by private second moments, for 2%.  A number is
        public, and a clip of gradients that are not scaled; None is ``lipschitz``.  Gradients of
        built-in losses are bounded by their weights only.
    average : float in [0, 1)
        The answer is the average of the points that this last part of the budget led to, weighted
        by the inverse square of the noise on the way there (Polyak-Ruppert averaging).  0 is the
        last point.
    max_steps : int

    Other Parameters
    ----------------
    curator : GradientCurator
        Of methods: answers for gradients, their norms and changes.

    Notes
    -----
    A clip below the longest gradient moves the stationary point to that of the clipped mean: noise
    is traded for a bias, and the norms say how large it may be.  Theorems 4 and 5 of paper 2 are
    about the gradient of F and plain steps: ``clip=None`` and ``step_rate=0``.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> objective = dpfast.Objective("tukey", scale=1.0)
    >>> method = dpfast.optimize.Adaptive(max_steps=9)
    >>> dpfast.minimize(X, X[:, 0], objective, privacy=1.0, method=method).params.shape
    (2,)
    """

    name = "adaptive"

    def __init__(
        self,
        *,
        step_size: float | None = None,
        step_rate: float = 0.2,
        signal: float = 1.0,
        last_share: float = 0.006,
        norm_queries: bool = False,
        clip: str | float | None = "private",
        average: float = 0.75,
        max_steps: int = 2000,
    ) -> None:
        self.step_size = None if step_size is None else positive(step_size, "step_size")
        self.step_rate = number_in(step_rate, "step_rate", "[0, 1)")
        self.signal = positive(signal, "signal")
        self.last_share = min(1.0, positive(last_share, "last_share"))
        self.norm_queries = flag(norm_queries, "norm_queries")
        self.clip: str | float | None = None
        if isinstance(clip, str):
            self.clip = one_of(clip, ("private",), "clip", otherwise=", a public number, or None")
        elif clip is not None:
            self.clip = positive(clip, "clip")
        self.average = number_in(average, "average", "[0, 1)")
        self.max_steps = checked_count(max_steps, "max_steps")

    def check(self, objective: Objective | PerRecordObjective) -> None:
        """Refuse an objective this method cannot minimise.

        Parameters
        ----------
        objective : Objective or PerRecordObjective
        """
        if self.step_size is None and not objective.smoothness < math.inf:
            raise InvalidInput(
                f"{described(objective)} has no smoothness constant to take a step size from. Pass "
                "dpfast.optimize.Adaptive(step_size=...), a public number."
            )

    def run(
        self,
        curator: GradientCurator,
        start: Array,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Descend until the curator's ledger is used up.

        Parameters
        ----------
        start : ndarray of shape (p,)
            Public.
        progress : callable, optional
            Called as ``progress(step, most_steps)`` after each step.

        Privacy
        -------
        Post-processing of the curator's answers.  The cost of a query depends on earlier answers
        only, and the ledger refuses costs above its total (claim K4).
        """
        return self._descend(curator, start, curator.remaining, None, progress)

    def solve(
        self, curator: GradientCurator, centre: Array, convexity: float, rho: float
    ) -> tuple[Array, float]:
        """Minimise ``F(w) + convexity ||w - centre||^2``: an inner optimiser of Proximal.

        Parameters
        ----------
        centre, convexity, rho
            As of ``solve`` of :class:`dpfast.papers.NoisyDescent`.

        Returns
        -------
        theta : ndarray of shape (p,)
        cost : float
            At most ``rho``.

        Privacy
        -------
        Post-processing of the curator's answers, which cost at most ``rho``.
        """
        path = self._descend(curator, centre, rho, (centre, convexity), None)
        return path.theta, path.rounds[-1]["rho"]

    def _descend(
        self,
        curator: GradientCurator,
        start: Array,
        total: float,
        pull: tuple[Array, float] | None,
        progress: Callable[[int, int], None] | None,
    ) -> Path:
        """Descend from ``start`` for at most ``total``; ``pull`` is that of a proximal round."""
        descent = _Descent(self, curator, start, total, pull)
        for k in range(self.max_steps):
            if not descent.step():
                break
            if progress is not None:
                progress(k + 1, self.max_steps)
            if descent.finished:
                break
        path = descent.result()
        left = 1.0 - descent.used / total
        if not descent.finished and pull is None and left > MOST_LEFT:
            path.remarks.append(OUT_OF_STEPS.format(steps=self.max_steps, left=left))
        return path

    def _first_step(self, curator: GradientCurator) -> float:
        self.check(curator.objective)
        if self.step_size is not None:
            return self.step_size
        return 0.5 / (curator.smoothness + curator.objective.ridge)

    def _price(self, square: float, lipschitz: float, n: int, d: int, total: float) -> float:
        """Return the cost of a gradient whose noise fits this squared norm."""
        # no gradient is longer than its bound: more noise than that would hide all of them
        lowest = max(price_of(lipschitz, n, lipschitz / math.sqrt(self.signal * d)), MIN_RHO)
        highest = max(self.last_share * total, lowest)
        if not square > 0.0:
            return highest
        price = price_of(lipschitz, n, math.sqrt(square / (self.signal * d)))
        return min(max(price, lowest), highest)

    def __repr__(self) -> str:
        return (
            f"Adaptive(step_size={self.step_size}, step_rate={self.step_rate:g}, "
            f"signal={self.signal:g}, last_share={self.last_share:g}, "
            f"norm_queries={self.norm_queries}, clip={self.clip!r}, average={self.average:g})"
        )


class _Descent:
    """State of one descent within a total: its point, its spending and its estimates."""

    def __init__(
        self,
        method: Adaptive,
        curator: GradientCurator,
        start: Array,
        total: float,
        pull: tuple[Array, float] | None,
    ) -> None:
        self.method = method
        self.curator = curator
        self.total = total
        self.pull = pull
        self.theta = start
        self.path = Path(start)
        self.used = 0.0
        self.noises: list[float] = []
        self.finished = False
        step_size = method._first_step(curator)
        if pull is not None:
            step_size = 1.0 / (1.0 / step_size + 2.0 * pull[1])
        self.steps = Steps(step_size, method.step_rate, curator.dimension)
        self.norm_price = 0.0
        if method.norm_queries:
            self.norm_price = max(2.0 * math.sqrt(total) / curator.n, MIN_RHO)
        # the paper's algorithm and inner problems have the declared bound and no scales
        private = method.clip == "private" and not method.norm_queries and pull is None
        fixed = method.clip if isinstance(method.clip, float) and curator.can_clip else None
        self.scales = np.ones(curator.dimension)
        if private and curator.can_clip:
            self.scales, self.used = private_scales(curator, start, total)
            self.curator = curator = curator.with_scales(self.scales) if self.used else curator
        self.clip = PrivateClip(curator, total, private, fixed)
        #: Estimate of the gradient's squared norm.
        self.square = curator.lipschitz * curator.lipschitz

    def step(self) -> bool:
        """Take one step; return False, without one, if the budget is used up."""
        # towards the end a norm would cost more than the gradient it is for
        remaining = min(self.total - self.used, self.curator.remaining)
        if remaining < MIN_RHO:
            return False
        buys_norm = self.method.norm_queries and remaining > 4.0 * self.norm_price
        if buys_norm:
            self._buy_norm()
            remaining -= self.norm_price
        clip_cost = self.clip.renew(self.theta, self.used)
        self.used += clip_cost
        remaining -= clip_cost
        rho = self._gradient_cost(remaining, buys_norm)
        noise = noise_for(self.clip.value, self.curator.n, rho)
        gradient = self._gradient(rho, noise, not buys_norm)
        bound = min(MAX_CLIPS * self.clip.value, self.curator.lipschitz)
        budget_left = 1.0 - self.used / self.total
        step = self.steps(gradient, noise, bound, budget_left)
        self.theta = self.theta + self.scales * step
        self.path.move(self.theta)
        self.noises.append(noise)
        self.used += rho
        return True

    def _buy_norm(self) -> None:
        """Release the gradient's norm, for the cost of the gradient."""
        norm = float(self.curator.gradient_norm(self.theta, self.norm_price).value[0])
        self.path.saw(norm)
        self.square = max(norm, 0.0) ** 2
        self.used += self.norm_price

    def _gradient_cost(self, remaining: float, buys_norm: bool) -> float:
        """Return the cost of the next gradient; the last one costs all that remains."""
        curator = self.curator
        rho = self.method._price(
            self.square, self.clip.value, curator.n, curator.dimension, self.total
        )
        rest = remaining - rho - self.norm_price
        if rest < MIN_RHO or rest < 1e-9 * remaining or buys_norm != self.method.norm_queries:
            self.finished = True
            return min(remaining, curator.remaining)
        return rho

    def _gradient(self, rho: float, noise: float, estimates_norm: bool) -> Array:
        """Release the gradient of the penalised objective, and follow its squared norm."""
        bound = self.clip.value
        gradient = self.curator.gradient(self.theta, rho, bound).value
        norm = public_length(gradient)
        if estimates_norm:
            # in the parameters' own units and with its noise: it must not look short
            self.path.saw(public_length(gradient / self.scales))
            debiased = min(norm, bound) ** 2 - self.curator.dimension * noise * noise
            self.square = max(MEMORY * self.square + (1.0 - MEMORY) * debiased, 0.0)
        if norm > bound:  # no mean of clipped gradients is longer
            gradient = gradient * (bound / norm)
        gradient = gradient + self.curator.objective.ridge_gradient(self.theta)
        if self.pull is not None:
            centre, convexity = self.pull
            gradient = gradient + 2.0 * convexity * (self.theta - centre)
        return gradient

    def result(self) -> Path:
        """Return the path, with the average as its answer."""
        path = self.path
        if self.noises:
            points = path.iterates[-len(self.noises) :]
            path.theta = _average(points, self.noises, self.method.average)
        path.rounds.append(
            {
                "steps": len(self.noises),
                "last_step_size": self.steps.length,
                "rho": self.used,
            }
        )
        if self.clip.path:
            path.rounds[-1]["clips"] = tuple(self.clip.path)
            path.rounds[-1]["largest_bias_of_clip"] = self.clip.bias
            path.rounds[-1]["noise_of_all_gradients"] = self.clip.noise
        path.longest = self.clip.longest
        path.scales = self.curator._scales
        path.remarks += self.clip.remarks()
        return path


def _average(points: list[Array], noises: list[float], part: float) -> Array:
    """Average the points that the last part of the budget led to, weighted by their precision."""
    precisions = (min(noises) / np.array(noises)) ** 2
    spent = np.cumsum(precisions) / precisions.sum()
    first = min(int(np.searchsorted(spent, 1.0 - part, side="right")), len(precisions) - 1)
    with np.errstate(all="ignore"):  # a path that overflowed
        return np.asarray(precisions[first:] / precisions[first:].sum() @ np.array(points[first:]))
