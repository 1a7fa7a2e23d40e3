"""Private selection: the best of a random number of random trials (Papernot and Steinke 2022).

The trials' scores stay behind the door; only the winner leaves.  That is what makes looking at
hundreds of candidates cost three times as much as looking at one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bench.rivals.literature.sensitivity import selection_cost, trial_epsilon
from bench.rivals.literature.trials import number_of_trials, trial_point
from dpfast.arguments import Array
from dpfast.curator.answers import Receipt
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.noisy_release import source_of_noise
from dpfast.privacy.budget import PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate, release_integer
from dpfast.privacy.noise import NoiseSource


class Selection(NamedTuple):
    """Public constants of a selection."""

    #: What the winner costs.
    cost: PureDP
    #: Pure-DP epsilon of one trial.
    trial: float
    #: Step of the grid that mean losses are rounded to.
    grid: float
    #: Of the discrete Laplace noise, per grid step.
    rate: tuple[int, int]
    #: Standard deviation of one trial's score.
    noise_scale: float
    #: Of the winner, in steps of the grid; its mu is what ``cost`` implies.
    receipt: Receipt


class Selected(NamedTuple):
    """The winner: its place and its noisy mean loss, which is too low by the winner's luck."""

    theta: Array
    score: float


def plan_selection(values: RecordValues, lower: float, upper: float, epsilon: float) -> Selection:
    """Calibrate the noise of the trials; touches nothing, costs nothing."""
    trial = trial_epsilon(epsilon)
    grid, steps = values.loss_grid(lower, upper)
    rate = laplace_rate(steps, trial)
    noise_scale = grid * 2.0**0.5 * rate[1] / rate[0]
    cost = PureDP(selection_cost(trial))
    mu = cost.as_gdp().mu
    receipt = Receipt("best of a random number of random trials", "B10", mu, steps, steps / mu)
    return Selection(cost, trial, grid, rate, noise_scale, receipt)


def best_of_random_trials(
    losses: Callable[[Array], ArrayLike],
    box: tuple[Array, Array],
    loss_range: tuple[float, float],
    *,
    n: int,
    epsilon: float,
    mean_trials: float,
    ledger: Ledger,
    noise: NoiseSource,
) -> Selected:
    """Draw points from the box, score each by its noisy mean loss, publish the lowest score.

    ``epsilon``-DP (claims B10, B11 and G5).  The number of trials is secret; the running
    time, and the number of calls of ``losses``, tell it to whoever can observe them, and with it
    about as much as ``mean_trials`` more releases would.
    """
    values = RecordValues(n, ledger, noise)
    plan = plan_selection(values, *loss_range, epsilon)
    ledger.charge(plan.cost, plan.receipt.query)
    source = source_of_noise(noise)
    middle, half = 0.5 * (loss_range[0] + loss_range[1]), 0.5 * (loss_range[1] - loss_range[0])

    def trials() -> Iterator[tuple[int, list[float]]]:
        for _ in range(number_of_trials(mean_trials, source)):
            theta = trial_point(*box, source)
            trial = RecordValues(n, ledger, noise)
            trial.append(losses(theta))
            exact = round(trial._mean_loss(0, middle, half) / plan.grid)
            yield release_integer(exact, plan.rate, source), theta.tolist()

    score, place = min(trials())  # a total order of what may be published
    return Selected(np.array(place), score * plan.grid + middle)
