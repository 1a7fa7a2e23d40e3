"""DP-SGD: noisy gradient descent on Poisson samples of clipped gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpfast.arguments import number_in, positive, real_number
from dpfast.baselines.clipping import clipped_objective, default_step_size
from dpfast.curator.baselines.subsample import SampledGradients, plan_sampling
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.front.partial import UNFINISHED, KeepingPaid
from dpfast.front.progress import watched
from dpfast.front.request import (
    Request,
    charge_shared,
    checked_start,
)
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Loss
from dpfast.optimize.schedules import checked_steps
from dpfast.privacy.budget import ApproxDP, Budget, PureDP, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["dp_sgd"]


def dp_sgd(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    clip: float,
    privacy: Budget | float,
    delta: float | None = None,
    scale: float | None = None,
    fit_intercept: bool = True,
    ridge: float = 0.0,
    sampling_rate: float = 0.1,
    steps: int = 200,
    step_size: float | None = None,
    average: float = 0.5,
    start: Sequence[float] | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit by DP-SGD: clipped gradients of Poisson samples (Abadi et al. 2016).

    Needs the optional dependency dp-accounting for the accounting.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,)
    loss : {"squared", "logistic", "huber", ...} or Loss
        "squared" is ``(y - x'theta)^2 / 2``.
    clip : float
        Public bound on the norm of one record's gradient.
    privacy : ApproxDP, GDP, ZCDP or float
        The total to spend.  What is promised is always one pair (epsilon, delta): anything but
        ``ApproxDP`` is first turned into the pair it implies at ``delta``.
    delta : float, optional
        Required, and only allowed, if ``privacy`` is not an ``ApproxDP``.
    scale : float
        Public residual scale, for the losses of the Huber family other than "squared".
    fit_intercept : bool
    ridge : float
        Public ridge penalty, never clipped.
    sampling_rate : float in (0, 1]
        Probability that a record is in a step's sample.
    steps : int
    step_size : float, optional
        Public; default as in :func:`clipped_gradient_descent`.
    average : float in [0, 1)
        Share of the iterates, from the end, that are averaged.
    start : sequence of float, optional
        Public starting point, default zero.
    ledger : Ledger, optional
        A budget in ``ApproxDP`` shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
        Samples and noise both come from it.
    threads : int, optional
    names : sequence of str, optional
    progress : callable, optional
        Called as ``progress(step, n_steps)``; see :func:`dpfast.fit`.

    Returns
    -------
    Fit
        Its guarantee is a pair (epsilon, delta), not a mu.

    Raises
    ------
    ImportError
        If dp-accounting is not installed; nothing is spent.

    Privacy
    -------
    (epsilon, delta) in total under **replacement** of one record, n public: each step is
    dominated by ``(1-q) N(0, s^2) + q N(1, s^2)`` against ``(1-q) N(0, s^2) + q N(-1, s^2)``
    (claims B6 to B8 of ``PROOFS-baselines.md``), composed by dp-accounting with
    rounding towards safety.  Libraries that account for addition or removal of a record promise
    less with the same noise.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.baselines.dp_sgd(
    ...     X, y, "squared", clip=1.0, privacy=dpfast.ApproxDP(1.0, 1e-6), steps=5
    ... ).names
    ('intercept', 'x1')
    """
    budget = _as_pair(privacy, delta)
    request = Request(X, y, fit_intercept=fit_intercept, noise=noise, threads=threads, names=names)
    objective = clipped_objective(request, loss, clip, scale, ridge)
    n_steps = checked_steps(steps)
    theta = checked_start(start, request.dimension)
    average = number_in(average, "average", "[0, 1)")
    if step_size is None:
        step_size = default_step_size(objective)
    step_size = positive(step_size, "step_size")
    objective.check_step(step_size)
    curator = request.curator(objective, Ledger(budget))
    sampling_rate = real_number(sampling_rate, "sampling_rate")
    plan = plan_sampling(curator, budget, sampling_rate, n_steps)
    report = watched(progress, n_steps)
    iterates = [theta]

    def result(missing: str = "") -> Fit:
        step, taken = (plan.receipt.query, plan.receipt.mu), len(iterates) - 1
        last = max(1, round(average * taken))
        return request.fit(
            np.mean(iterates[-last:], axis=0) if average else iterates[-1],
            objective,
            method=(
                f"DP-SGD, {n_steps} steps of size {step_size:g}, sampling rate {sampling_rate:g}, "
                f"noise multiplier {plan.multiplier:.4g}, average={average:g}"
            ),
            # the mu of all steps holds as well, but ignores what sampling buys
            privacy=Guarantee.of(
                budget,
                request.noise,
                request.n,
                (step,) * taken,
                mu=plan.mu,
                expression=composition_of(curator.ledger),
            ),
            iterates=iterates,
            missing=missing,
        )

    with KeepingPaid(lambda error: result(UNFINISHED % error) if len(iterates) > 1 else None):
        label = request.label("dp_sgd", objective.loss.name)
        charge_shared(ledger, budget, budget, label, request.room(1))
        gradients = SampledGradients(curator, plan)
        for k in range(n_steps):
            gradient = gradients.gradient(theta).value + objective.ridge_gradient(theta)
            theta = theta - step_size * gradient
            iterates.append(theta)
            if report is not None:
                report(k + 1, n_steps)
        return result()


def _as_pair(privacy: Budget | float, delta: float | None) -> ApproxDP:
    budget = as_budget(privacy)
    if isinstance(budget, ApproxDP):
        if delta is not None:
            raise InvalidInput(
                f"{described(budget)} has its own delta; received delta={described(delta)} as "
                "well. Omit it."
            )
        return budget
    if isinstance(budget, PureDP):
        raise InvalidBudget(
            f"Gaussian noise cannot honour {described(privacy)}: it is never pure-epsilon DP. Pass "
            "ApproxDP(epsilon, delta)."
        )
    if delta is None:
        raise InvalidInput(
            f"DP-SGD promises one pair (epsilon, delta), and {described(privacy)} has no delta. "
            "Pass privacy=ApproxDP(epsilon, delta), or delta=... for the pair that it implies "
            "there."
        )
    pair = budget.as_approx(delta)
    return ApproxDP(pair.epsilon, pair.delta)
