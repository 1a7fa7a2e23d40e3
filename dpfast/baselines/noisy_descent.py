"""Noisy gradient descent for losses whose gradients the caller can compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import function, number_in, real_array, real_number
from dpfast.baselines.searched import Searched
from dpfast.bayesopt.box import Box
from dpfast.bayesopt.training import Spending
from dpfast.bayesopt.updates import History, Plain, Update, resolve_update
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.optimize.schedules import Schedule, Uniform, checked_steps, resolve_schedule
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["noisy_descent"]

Array = NDArray[np.float64]


def noisy_descent(
    gradients: Callable[[Array], ArrayLike],
    bounds: ArrayLike,
    *,
    privacy: Budget | float,
    n_records: int,
    clip: float,
    steps: int = 100,
    update: str | Update | None = None,
    schedule: str | Schedule | None = None,
    average: float = 0.0,
    start: ArrayLike | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Searched:
    """Gradient descent with clipped, noisy means of per-record gradients.

    Appendix E.4 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    What DP-GIBO is compared with where gradients exist (paper 4, appendix E.4).  The paper's
    ``B = 1`` there is not a bound on its gradients, whose norm reaches sqrt(2): here they are
    clipped.

    Parameters
    ----------
    gradients : callable
        ``gradients(theta)`` returns one gradient per record, shape (n, d).
    bounds : array-like of shape (d, 2)
        Iterates are projected onto this box.
    privacy : GDP, ZCDP, ApproxDP or float
    n_records : int
    clip : float
        Public norm that records' gradients are clipped to.
    steps : int
    update : Update, optional
        Default ``Plain(1.0)``.
    schedule : {"geometric", "uniform"} or Schedule, optional
        Default uniform, as printed.
    average : float in [0, 1)
        Share of the iterates that is averaged.
    start : array-like of shape (d,), optional
        Default the middle of the box.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    Tuning

    Raises
    ------
    InvalidInput
        If an argument is refused, before anything is charged.
    BudgetExceeded
        If the ledger cannot pay; nothing is spent then.
    Exception
        What ``gradients`` raises later has the path so far in the attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total (claim G1 of PROOFS-bayesopt.md, composed as in G2).

    Examples
    --------
    >>> gradients = lambda theta: np.tile(2.0 * (theta - 0.3), (100, 1))
    >>> dpfast.baselines.noisy_descent(
    ...     gradients, [(0.0, 1.0)], privacy=1.0, n_records=100, clip=2.0, steps=5
    ... ).theta.shape
    (1,)
    """
    function(gradients, "gradients", "the parameters")
    box = Box(bounds, "theta")
    count, d = checked_steps(steps), box.dimension
    rule = resolve_update(update, Plain(1.0))
    average = number_in(average, "average", "[0, 1)")
    total, clip = GDP.within(privacy), real_number(clip, "clip")
    mus = resolve_schedule(schedule, Uniform()).step_mus(total.mu, count)
    own = Spending(privacy, total, n_records, noise)
    probe = own.values
    for mu in {min(mus), max(mus)}:
        probe.mean_receipt(clip, mu, d)
    theta = 0.5 * box.lower + 0.5 * box.upper
    if start is not None:
        theta = np.array(real_array(start, "start"))
        if theta.shape != (d,) or not np.isfinite(theta).all():
            raise InvalidInput(f"start must be {d} finite numbers; received shape {theta.shape}.")
    theta = box.project(theta)

    def told_at(point: Array) -> RecordValues:
        told = RecordValues(n_records, own.ledger, own.noise)
        rows = np.asarray(gradients(point))
        if rows.shape != (probe.n, d):
            raise InvalidInput(
                f"gradients must return shape ({probe.n}, {d}), one row per record; received "
                f"{rows.shape}."
            )
        told.append(rows.T, d)
        return told

    label = f"noisy_descent(n={probe.n}, d={d})"
    history = History([], [], [], [], count)
    path = [theta]

    def found() -> Searched:
        last = max(1, round(average * (len(path) - 1)))
        return Searched(
            theta=np.mean(path[-last:], axis=0),
            path=np.array(path),
            scores=np.empty(0),
            method=f"noisy gradient descent, clip {clip:g}, {rule!r}",
            privacy=own.guarantee(),
        )

    with KeepingPaid(lambda _: found() if history.gradients else None, privacy=own.guarantee):
        told = own.begin(lambda: told_at(path[0]), ledger, label, d, 2)
        for k, mu in enumerate(mus):
            if k:
                told = told_at(theta)
            answer = told.mean(np.eye(d), clip, mu)
            history.iterates.append(theta)
            history.gradients.append(answer.value)
            history.variances.append(np.full(d, answer.noise_scale**2))
            history.noise_scales.append(answer.noise_scale)
            theta = box.project(theta + rule.step(history))
            path.append(theta)
        return found()
