"""DP-SGD: noisy gradient descent on Poisson samples of clipped gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.rivals.literature.asking import asked
from bench.rivals.literature.clipping import with_step_size
from bench.rivals.literature.subsample import SampledGradients, plan_sampling
from dpfast.arguments import positive, real_number
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.partial import UNFINISHED, KeepReleased
from dpfast.fit_requests.planned_run import checked_progress
from dpfast.fit_requests.request import Account, checked_start
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Clip, Loss, Objective
from dpfast.optimize import GradientDescent
from dpfast.privacy.budget import ApproxDP, Budget, PureDP, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

#: By default: steps, and the share of their end that is averaged.
STEPS, AVERAGE = 200, 0.5


def dp_sgd(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    clip: float,
    privacy: Budget | float,
    delta: float | None = None,
    sampling_rate: float = 0.1,
    method: GradientDescent | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit by DP-SGD: clipped gradients of Poisson samples (Abadi et al. 2016).

    Needs the optional dependency dp-accounting for the accounting.

    Parameters
    ----------
    X, y, loss, clip, progress
        As for :func:`clipped_gradient_descent`.
    privacy : ApproxDP, GDP, ZCDP or float
        The total to spend.  What is promised is always one pair (epsilon, delta): anything but
        ``ApproxDP`` is first turned into the pair it implies at ``delta``.
    delta : float, optional
        Required, and only allowed, if ``privacy`` is not an ``ApproxDP``.
    sampling_rate : float in (0, 1]
        Probability that a record is in a step's sample.
    method : GradientDescent, optional
        Its settings; by default 200 steps, of which the last half is averaged.  Every step costs
        the same, so there is no schedule.
    ledger : Ledger, optional
        A budget in ``ApproxDP`` shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
        Samples and noise both come from it.

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
    (claims B6 to B8 of ``PROOFS-rivals.md``), composed by dp-accounting with
    rounding towards safety.  Libraries that account for addition or removal of a record promise
    less with the same noise.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> literature.dp_sgd(
    ...     X, y, "least-squares", clip=1.0, privacy=dpfast.ApproxDP(1.0, 1e-6)
    ... ).names
    ('intercept', 'x1')
    """
    budget = _as_pair(privacy, delta)
    request, objective = asked(X, y, loss, Account(budget, ledger, budget), noise, Clip(clip))
    method = GradientDescent(steps=STEPS, average=AVERAGE) if method is None else method
    descent = with_step_size(method, objective)
    if descent.schedule is not None:
        raise InvalidInput(
            "every step of DP-SGD costs the same: leave the schedule of the method out."
        )
    n_steps = STEPS if descent.steps is None else descent.steps
    theta, average = checked_start(descent.start, request.dimension), descent.average
    step_size = positive(descent.step_size, "step_size")
    curator = request.curator(objective)
    sampling_rate = real_number(sampling_rate, "sampling_rate")
    plan = plan_sampling(curator, budget, sampling_rate, n_steps)
    report = checked_progress(progress, n_steps)
    iterates = [theta]

    def result(missing: str = "") -> Fit:
        step, taken = (plan.receipt.query, plan.receipt.mu), len(iterates) - 1
        last = max(1, round(average * taken))
        return request.make_result(
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

    with KeepReleased(lambda error: result(UNFINISHED % error) if len(iterates) > 1 else None):
        label = request.label("dp_sgd", objective.loss.name)
        request.account.charge(label, request.memory_bytes(1))
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
