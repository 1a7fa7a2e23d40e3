"""Settings with which our descents are those of the papers: budgets divided evenly, no average."""

from __future__ import annotations

from dpfast.optimize.damping import Damped
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.newton import Newton
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.schedules import Uniform


def noisy_gradient_descent(steps: int, *, step_size: float | None = None) -> GradientDescent:
    """Return noisy gradient descent as printed: equal noise at each step, the last iterate.

    Equation (4) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    steps : int
    step_size : float, optional
        As of :class:`dpfast.optimize.GradientDescent`.

    Returns
    -------
    GradientDescent

    Examples
    --------
    >>> dpfast.papers.noisy_gradient_descent(50).average
    0.0
    """
    return GradientDescent(steps=steps, step_size=step_size, schedule=Uniform())


def noisy_newton(steps: int, *, step_size: float = 1.0) -> Newton:
    """Return the noisy Newton method as printed: each step uses the Hessian of its iterate.

    Equation (9) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    steps : int
    step_size : float in (0, 1]
        Full steps need a start near the solution: from zero they may diverge (figure 2).

    Returns
    -------
    Newton

    Examples
    --------
    >>> dpfast.papers.noisy_newton(15, step_size=0.5).newton_steps
    15
    """
    return Newton(steps=steps, newton_steps=steps, step=Damped(step_size), schedule=Uniform())


def adaptive_descent() -> Adaptive:
    """Return adaptive noisy descent as printed: it pays for a norm before each gradient.

    Algorithm 3 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Returns
    -------
    Adaptive

    Notes
    -----
    Each query is charged the cost of its noise, which the printed algorithm undercharges (E3).

    Examples
    --------
    >>> dpfast.papers.adaptive_descent().norm_queries
    True
    """
    return Adaptive(norm_queries=True, clip=None, step_rate=0.0, last_share=0.5, average=0.0)
