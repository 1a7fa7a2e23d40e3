"""Noisy gradient descent with clipped gradients (Abadi et al. 2016, full batch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.rivals.literature.asking import asked
from dpfast.arguments import Array
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.partial import UNFINISHED, KeepReleased
from dpfast.fit_requests.planned_run import checked_progress
from dpfast.fit_requests.request import Account, checked_start
from dpfast.inference.results import Fit
from dpfast.models import Clip, Loss, Objective
from dpfast.optimize import GradientDescent
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource


def clipped_gradient_descent(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    clip: float,
    privacy: Budget | float,
    method: GradientDescent | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit by noisy gradient descent on gradients clipped record by record.

    Appendix H.1 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    The comparison method of appendix H.2 and H.3 of Avella-Medina et al. (2023): each record's
    gradient of the usual loss is scaled down to a norm of at most ``clip``.  The result solves
    another estimating equation than the loss, so it is biased in generalised linear models.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design, Records or Source
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,) or None
    loss : {"least-squares", "logistic", "huber", ...}, Loss or Objective
        "least-squares" is ``(y - x'theta)^2 / 2``; others but the logistic need the scale of an
        objective, whose ridge is never clipped.
    clip : float
        Public bound on the norm of one record's gradient.
    privacy : GDP, ZCDP, ApproxDP or float
        The total to spend; a float is ``mu`` of Gaussian DP.
    method : GradientDescent, optional
        Its settings; by default 100 steps of size ``scale/p`` (logistic: ``4/p``), the inverse
        smoothness of the loss for rows of squared norm p; clipped gradients have no smoothness
        constant of their own.
    ledger, noise, progress
        As of :func:`dpfast.fit`.

    Returns
    -------
    Fit

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: each step releases a mean of
    vectors of norm at most ``clip``, whose sensitivity is ``2 clip / n`` (claim C13 of
    ``dpfast/privacy/PROOFS.md``).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> literature.clipped_gradient_descent(
    ...     X, y, "least-squares", clip=1.0, privacy=1.0
    ... ).names
    ('intercept', 'x1')
    """
    account = Account(privacy, ledger)
    request, objective = asked(X, y, loss, account, noise, Clip(clip))
    optimiser = with_step_size(method, objective)
    budgets = optimiser.plan(objective, request.n, account.total.mu, False)
    theta = checked_start(optimiser.start, request.dimension)
    curator = request.curator(objective)
    for budget in budgets:
        curator.receipts(budget)  # refuses an impossible budget while nothing is spent
    report = checked_progress(progress, len(budgets))
    label = request.label("clipped_gradient_descent", objective.loss.name)

    def result(theta: Array, iterates: Sequence[Array], missing: str = "") -> Fit:
        return request.make_result(
            theta,
            objective,
            method=f"clipped {budgets.description}",
            iterates=iterates,
            missing=missing,
        )

    def so_far(error: str) -> Fit | None:
        points = keeping.points(request.dimension)
        return result(points[-1], points, UNFINISHED % error) if points else None

    with KeepReleased(so_far) as keeping:
        account.charge(label, request.memory_bytes())
        trajectory = optimiser.run(curator, theta, budgets, report)
        return result(trajectory.theta, trajectory.iterates)


def with_step_size(method: GradientDescent | None, objective: Objective) -> GradientDescent:
    """The method with a public step size, by default that of the unclipped loss."""
    method = GradientDescent() if method is None else method
    if not isinstance(method, GradientDescent) or isinstance(method.step_size, str):
        raise InvalidInput(
            "method must be a dpfast.optimize.GradientDescent whose step_size is a number or None; "
            f"received {described(method)}."
        )
    size = method.step_size
    if size is None:  # inverse smoothness of the unclipped loss for rows of squared norm p
        steepest = objective.loss.psi_prime_bound * objective.dimension / objective.scale
        size = 1.0 / (steepest + objective.ridge)
    objective.check_step(size)
    return GradientDescent(
        step_size=size, average=method.average, steps=method.steps, schedule=method.schedule,
        start=method.start,
    )  # fmt: skip
