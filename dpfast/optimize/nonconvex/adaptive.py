"""Adaptive noisy gradient descent (algorithm 3 of paper 2, corrected): large gradients are cheap.

Noise is in proportion to a gradient's own size: the far start of the path costs next to nothing.
The paper charges the wrong amounts (erratum E3); here every query is charged what its noise costs,
and the ledger is the filter: the path ends when it is used up (claim K4).

Users' gradients are clipped where that costs least (claim K7).  Theorems 4 and 5 are about the
declared bound, ``clip=None``, and the paper's steps, ``step_rate=0``.
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
from dpfast.optimize.nonconvex.descent import LEAST_RHO, Path, checked_count, noise_for, price_of
from dpfast.optimize.nonconvex.steps import CLIPS, Steps

Array = NDArray[np.float64]

#: Weight of the past in the free estimate of a gradient's squared norm.
MEMORY = 0.7


class Adaptive:
    """Settings of adaptive noisy gradient descent; all public.

    Algorithm 3 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Parameters
    ----------
    step_size : float, optional
        Of plain steps, which are this times the gradient; default ``1/(2 L1)`` with the declared
        smoothness.  Scaled steps begin with .15 of a plain one against the longest gradient.
    step_rate : float
        Steps are scaled, as Adam's are: every parameter moves by about the same length, which
        falls with the budget that is left, and after each step is multiplied by
        ``exp(step_rate * cosine)`` of the angle between the step before and the noisy gradient,
        and by less where that is mostly noise: longer while they agree, shorter when they turn.
        0 is the paper's: plain steps of one size.
    signal : float
        Noise vectors have the estimated norm of the gradient divided by ``sqrt(signal)``.  The
        paper's ``log(n sqrt(rho)/beta)`` is far more careful than a descent needs.
    last_share : float
        Largest part of the budget one gradient may cost.  (The paper: one half.)
    norm_queries : bool
        Estimate the norm by a query of its own before each gradient, as in the paper, at
        ``2 sqrt(rho)/n`` each.  Otherwise by the gradients already released, which is free.
    clip : {"private"} or float or None
        Where users' gradients are clipped, at most at the declared ``lipschitz``.  "private" is
        chosen by their lengths, which are released eight times for at most 4% of the budget: what
        it takes away, if a tenth of that points one way, is no more than what its noise saves.  A
        number is public; None is ``lipschitz``.  Gradients of built-in losses are held by their
        weights, and to nothing else.
    average : float in [0, 1)
        The answer is the average of the points that this last part of the budget led to, weighted
        by the inverse square of the noise on the way there.  0 is the last one.
    max_steps : int

    Other Parameters
    ----------------
    curator : GradientCurator
        Of methods: answers for gradients, their norms and changes.

    Notes
    -----
    A clip below the longest gradient moves the stationary point to that of the clipped mean: noise
    is traded for a bias, of which the lengths say how large it may be.  Theorems 4 and 5 of paper 2
    are about the gradient of F and plain steps: ``clip=None`` and ``step_rate=0``.

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
        last_share: float = 0.004,
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
        Post-processing of the curator's answers; what a query may cost depends on earlier answers
        only, and the ledger refuses what exceeds its total (claim K4).
        """
        return self._descend(curator, start, curator.remaining, None, progress)

    def take_over(
        self, curator: GradientCurator, path: Path, origin: Array, least: float, reason: str
    ) -> None:
        """Spend what is left from ``origin`` on, for a method that did not go as planned.

        Parameters
        ----------
        path : Path
            Of that method; it is continued, and says why.
        origin : ndarray of shape (p,)
            The last point at which everything went as planned; released, or public.
        least : float
            With less left than this, steps would be noise: the origin is the answer.
        reason : str
            From released and public numbers only.

        Privacy
        -------
        Post-processing of the curator's answers, as :meth:`run`.
        """
        left = curator.remaining
        if left < max(least, LEAST_RHO):
            path.move(origin)
            path.remarks.append(
                f"{reason}, and the budget is spent: the answer is the last point up to which all "
                "went as planned. The constants do not fit these data; adaptive descent needs none."
            )
            return
        path.append(self._descend(curator, origin, left, None, None))
        path.rounds[-1]["method"] = self.name
        path.remarks.append(
            f"{reason}: adaptive descent had the remaining budget (rho = {left:.3g}), from the "
            "last point up to which all went as planned. The constants do not fit these data."
        )

    def solve(
        self, curator: GradientCurator, centre: Array, convexity: float, rho: float
    ) -> tuple[Array, float]:
        """Minimise ``F(w) + convexity ||w - centre||^2``: an inner optimiser of Proximal.

        Parameters
        ----------
        centre, convexity, rho
            As of :meth:`NoisyDescent.solve`.

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
        d, n, used = curator.dimension, curator.n, 0.0
        lipschitz, plain = curator.lipschitz, self._first_step(curator)
        if pull is not None:
            plain = 1.0 / (1.0 / plain + 2.0 * pull[1])
        norm_price = max(2.0 * math.sqrt(total) / n, LEAST_RHO) if self.norm_queries else 0.0
        path, theta, steps = Path(start), start, Steps(plain, self.step_rate, d)
        # the paper's algorithm and inner problems have the declared bound
        private = self.clip == "private" and not self.norm_queries and pull is None
        given = self.clip if isinstance(self.clip, float) and curator.can_clip else None
        clip = PrivateClip(curator, total, private, given)
        square, noises = lipschitz * lipschitz, []
        for k in range(self.max_steps):
            # towards the end a norm would cost more than the gradient it is for
            left = min(total - used, curator.remaining)
            if left < LEAST_RHO:
                break
            asks = self.norm_queries and left > 4.0 * norm_price
            if asks:
                norm = float(curator.gradient_norm(theta, norm_price).value[0])
                path.saw(norm)
                square = max(norm, 0.0) ** 2
                used += norm_price
                left -= norm_price
            cost = clip.renew(theta, used)
            used += cost
            left -= cost
            bound = clip.value
            rho = self._price(square, bound, n, d, total)
            last = False
            rest = left - rho - norm_price
            if rest < LEAST_RHO or rest < 1e-9 * left or asks != self.norm_queries:
                # the last one gets what there is
                rho = min(left, curator.remaining)
                last = True
            noise = noise_for(bound, n, rho)
            gradient = curator.gradient(theta, rho, bound).value
            size = public_length(gradient)
            if not asks:
                path.saw(size)  # noise included: what was read badly does not look short
                seen = min(size, bound) ** 2 - d * noise * noise
                square = MEMORY * square + (1.0 - MEMORY) * seen
                square = max(square, 0.0)
            if size > bound:  # no mean of clipped gradients is longer
                gradient = gradient * (bound / size)
            gradient = gradient + curator.objective.ridge_gradient(theta)
            if pull is not None:
                gradient = gradient + 2.0 * pull[1] * (theta - pull[0])
            theta = theta + steps(
                gradient, noise, min(CLIPS * bound, lipschitz), 1.0 - used / total
            )
            path.move(theta)
            noises.append(noise)
            used += rho
            if progress is not None:
                progress(k + 1, self.max_steps)
            if last:
                break
        if noises:
            path.theta = _average(path.iterates[-len(noises) :], noises, self.average)
        path.rounds.append({"steps": len(noises), "last_step_size": steps.length, "rho": used})
        if clip.path:
            path.rounds[-1]["clips"] = tuple(clip.path)
        path.longest = clip.longest
        path.remarks += clip.remarks()
        return path

    def _first_step(self, curator: GradientCurator) -> float:
        self.check(curator.objective)
        if self.step_size is not None:
            return self.step_size
        return 0.5 / (curator.smoothness + curator.objective.ridge)

    def _price(self, square: float, lipschitz: float, n: int, d: int, total: float) -> float:
        """What a gradient of about this squared norm is worth reading for."""
        # no gradient is longer than its bound: with more noise than that, nothing is read
        least = max(price_of(lipschitz, n, lipschitz / math.sqrt(self.signal * d)), LEAST_RHO)
        most = max(self.last_share * total, least)
        if not square > 0.0:
            return most
        price = price_of(lipschitz, n, math.sqrt(square / (self.signal * d)))
        return min(max(price, least), most)

    def __repr__(self) -> str:
        return (
            f"Adaptive(step_size={self.step_size}, step_rate={self.step_rate:g}, "
            f"signal={self.signal:g}, last_share={self.last_share:g}, "
            f"norm_queries={self.norm_queries}, clip={self.clip!r}, average={self.average:g})"
        )


def _average(points: list[Array], noises: list[float], part: float) -> Array:
    """The points that the last part of the budget led to, weighted by what was paid."""
    paid = (min(noises) / np.array(noises)) ** 2
    spent = np.cumsum(paid) / paid.sum()
    first = min(int(np.searchsorted(spent, 1.0 - part, side="right")), len(paid) - 1)
    with np.errstate(all="ignore"):  # a path that overflowed
        return np.asarray(paid[first:] / paid[first:].sum() @ np.array(points[first:]))
