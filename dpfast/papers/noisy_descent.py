"""Noisy descent on the regularised problem (algorithm 4 of paper 2, corrected).

The problem ``F(w) + L ||w - centre||^2`` is strongly convex for an L-weakly convex F.  Its exact
solution is in the ball of radius ``L0/(2 L)`` about the centre, and every step stays there.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.optimize.nonconvex.descent import MIN_RHO, checked_count


class NoisyDescent:
    """Noisy gradient descent for the strongly convex problem of one round.

    Algorithm 4 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Alone, as ``dpfast.minimize(..., method=dpfast.papers.NoisyDescent())``, it is given that
    problem with the start for its centre and the smoothness for L;
    ``Proximal(rounds=1, convexity=L)`` has another one.

    Parameters
    ----------
    steps : int, optional
        Default ``n sqrt(2 rho / d)``, at least 2 and at most ``max_steps``.  (The paper's
        ``n^2 rho log^2(2/beta)/d`` is its square.)
    max_steps : int

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> method = dpfast.papers.Proximal(inner=dpfast.papers.NoisyDescent(max_steps=5), rounds=2)
    >>> dpfast.minimize(
    ...     X, y, dpfast.Objective("cauchy", scale=1.0), privacy=dpfast.ZCDP(1.0), method=method
    ... ).params.shape
    (2,)
    """

    def __init__(self, *, steps: int | None = None, max_steps: int = 1000) -> None:
        self.max_steps = checked_count(max_steps, "max_steps")
        self.steps = None if steps is None else checked_count(steps, "steps")

    def solve(
        self, curator: GradientCurator, centre: Array, convexity: float, rho: float
    ) -> tuple[Array, float]:
        """Take steps ``2/(L (t + s))`` in the ball of radius L0/(2 L), and average the points.

        Weights are t + s; s makes the first step ``1/(L1 + 2 L)``.  The paper's long first steps
        (s = 1) fade slowly from an average.

        Parameters
        ----------
        curator : GradientCurator
            Answers for gradients of F.
        centre : ndarray of shape (p,)
            Released, or public.
        convexity : float
            L, positive and public.
        rho : float
            Budget.

        Returns
        -------
        theta : ndarray of shape (p,)
            The centre where ``rho`` is too little for a step.
        cost : float
            At most ``rho``.

        Privacy
        -------
        ``n_steps`` gradients at ``rho / n_steps`` each.
        """
        n_steps = self.steps
        if n_steps is None:
            natural = curator.n * math.sqrt(2.0 * rho / curator.dimension)
            n_steps = int(min(max(2.0, math.ceil(natural)), self.max_steps))
        n_steps = min(n_steps, int(rho / MIN_RHO))
        if n_steps < 1:
            return centre, 0.0
        step_rho = rho / n_steps * (1.0 - 1e-12)
        radius = reach(curator, centre, convexity)
        ridge = curator.objective.ridge_gradient
        theta = centre
        weighted_sum = np.zeros_like(centre)
        total_weight = 0.0
        smoothness = min(curator.smoothness, 1e6 * convexity)
        offset = max(1.0, 2.0 * (smoothness + 2.0 * convexity) / convexity - 1.0)
        for t in range(1, n_steps + 1):
            gradient = curator.gradient(theta, step_rho).value + ridge(theta)
            gradient = gradient + 2.0 * convexity * (theta - centre)
            theta = theta - 2.0 / (convexity * (t + offset)) * gradient
            theta = projected(theta, centre, radius)
            weighted_sum = weighted_sum + (t + offset) * theta  # later points are better
            total_weight = total_weight + (t + offset)
        return weighted_sum / total_weight, step_rho * n_steps

    def __repr__(self) -> str:
        return f"NoisyDescent(steps={self.steps}, max_steps={self.max_steps})"


def reach(curator: GradientCurator, centre: Array, convexity: float) -> float:
    """Bound the distance of a round's exact solution from its centre."""
    ridge = curator.objective.ridge
    pull = ridge * public_length(centre) if ridge else 0.0
    return (curator.lipschitz + pull) / (2.0 * convexity + ridge)


def projected(theta: Array, centre: Array, radius: float) -> Array:
    """Project a point onto the ball about the centre."""
    offset = theta - centre
    length = public_length(offset)
    return centre + offset * (radius / length) if length > radius else theta
