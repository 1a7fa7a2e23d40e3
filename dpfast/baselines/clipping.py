"""Noisy gradient descent with clipped gradients (Abadi et al. 2016, full batch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.baselines.squared import loss_and_scale
from dpfast.errors import InvalidInput, described
from dpfast.front.partial import UNFINISHED, KeepingPaid
from dpfast.front.progress import watched
from dpfast.front.request import Request, charge_shared, checked_start
from dpfast.inference.results import Fit
from dpfast.models import Clip, Loss, Objective
from dpfast.optimize import GradientDescent, Schedule
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["clipped_gradient_descent", "clipped_objective", "default_step_size"]

Array = NDArray[np.float64]


def clipped_gradient_descent(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    clip: float,
    privacy: Budget | float,
    scale: float | None = None,
    fit_intercept: bool = True,
    ridge: float = 0.0,
    steps: int = 100,
    step_size: float | None = None,
    average: float = 0.0,
    schedule: str | Schedule | None = None,
    start: Sequence[float] | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit by noisy gradient descent on gradients clipped record by record.

    Appendix H.1 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    The comparison method of appendix H.2 and H.3 of Avella-Medina et al. (2023): each record's
    gradient of the usual loss is scaled down to a norm of at most ``clip``.  The result solves
    another estimating equation than the loss, so it is biased in generalised linear models.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,)
    loss : {"squared", "logistic", "huber", ...} or Loss
        "squared" is ``(y - x'theta)^2 / 2``.
    clip : float
        Public bound on the norm of one record's gradient.
    privacy : GDP, ZCDP, ApproxDP or float
        The total to spend; a float is ``mu`` of Gaussian DP.
    scale : float
        Public residual scale, for the losses of the Huber family other than "squared".
    fit_intercept : bool
    ridge : float
        Public ridge penalty, never clipped.
    steps : int
        Number of steps, fixed in advance.
    step_size : float, optional
        Public.  Default ``scale/p`` (logistic: ``4/p``), the inverse smoothness of the loss for
        rows of squared norm p; clipped gradients have no smoothness constant of their own.
    average : float in [0, 1)
        Share of the iterates, from the end, that are averaged.
    schedule : {"geometric", "uniform"} or Schedule, optional
    start : sequence of float, optional
        Public starting point, default zero.
    ledger : Ledger, optional
        A budget shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
        ``SeededNoise`` is for simulation and voids the guarantee.
    threads : int, optional
    names : sequence of str, optional
    progress : callable, optional
        Called as ``progress(step, n_steps)``; see :func:`dpfast.fit`.

    Returns
    -------
    Fit

    Raises
    ------
    InvalidInput
        If an argument is refused, before anything is charged.
    BudgetExceeded
        If the ledger cannot pay; nothing is spent then.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: each step releases a mean of
    vectors of norm at most ``clip``, whose sensitivity is ``2 clip / n`` (claim C13 of
    ``dpfast/privacy/PROOFS.md``).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.baselines.clipped_gradient_descent(
    ...     X, y, "squared", clip=1.0, privacy=1.0, steps=5
    ... ).names
    ('intercept', 'x1')
    """
    total = GDP.within(privacy)
    request = Request(X, y, fit_intercept=fit_intercept, noise=noise, threads=threads, names=names)
    objective = clipped_objective(request, loss, clip, scale, ridge)
    if step_size is None:
        step_size = default_step_size(objective)
    elif isinstance(step_size, str):  # of GradientDescent, which can buy an estimate
        raise InvalidInput(
            f"step_size must be a positive number or None; received {described(step_size)}."
        )
    optimiser = GradientDescent(
        step_size=step_size, average=average, steps=steps, schedule=schedule, start=start
    )
    objective.check_step(step_size)
    budgets = optimiser.plan(objective, request.n, total.mu, False)
    theta = checked_start(optimiser.start, request.dimension)
    curator = request.curator(objective, Ledger(total))
    for budget in budgets:
        curator.receipts(budget)  # refuses an impossible budget while nothing is spent
    report = watched(progress, len(budgets))
    label = request.label("clipped_gradient_descent", objective.loss.name)

    def result(theta: Array, iterates: Sequence[Array], missing: str = "") -> Fit:
        return request.fit(
            theta,
            objective,
            method=f"clipped {budgets.description}",
            privacy=request.guarantee(total, curator.ledger),
            iterates=iterates,
            missing=missing,
        )

    def so_far(error: str) -> Fit | None:
        points = keeping.points(request.dimension)
        return result(points[-1], points, UNFINISHED % error) if points else None

    with KeepingPaid(so_far) as keeping:
        charge_shared(ledger, privacy, total, label, request.room())
        trajectory = optimiser.run(curator, theta, budgets, report)
        return result(trajectory.theta, trajectory.iterates)


def clipped_objective(
    request: Request, loss: str | Loss, clip: float, scale: float | None, ridge: float
) -> Objective:
    """The objective whose records' gradients are clipped to norm ``clip``."""
    resolved, scale = loss_and_scale(loss, request.coded_scale(scale))
    return Objective(
        request.loss(resolved),
        Clip(clip),
        request.n_covariates,
        fit_intercept=request.fit_intercept,
        scale=scale,
        ridge=ridge,
    )


def default_step_size(objective: Objective) -> float:
    """Inverse smoothness of the unclipped loss for rows of squared norm p; public."""
    steepest = objective.loss.psi_prime_bound * objective.dimension / objective.scale
    smoothness: float = steepest + objective.ridge
    return 1.0 / smoothness
