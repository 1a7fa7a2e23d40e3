"""Noisy sums over Poisson samples of the records: the gradients of DP-SGD.

The whole sequence is paid for at once, because its cost is not the sum of its steps' costs: a
:class:`SampledGradients` charges (epsilon, delta) when it is opened and answers a fixed number of
questions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.literature.amplification import noise_multiplier
from bench.rivals.literature.sensitivity import sampled_mean
from dpfast.curator.answers import Answer, Receipt
from dpfast.data.reduction import tree_sum
from dpfast.errors import InvalidInput
from dpfast.kernels.records import GRADIENT, RecordKernel
from dpfast.privacy.budget import ApproxDP
from dpfast.privacy.ledger.paid import ChargedAnswers
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale, laplace_rate
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_ELEMENTARY, ROUNDING_SUM

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

Array = NDArray[np.float64]


class SamplingPlan(NamedTuple):
    """Public constants of a sequence of sampled gradients."""

    #: What the whole sequence costs.
    budget: ApproxDP
    sampling_rate: float
    n_steps: int
    #: Noise standard deviation relative to the largest contribution of one record.
    multiplier: float
    #: Gaussian-DP parameter of the whole sequence if the samples were public: a valid bound that
    #: ignores what sampling buys.
    mu: float
    #: Of one step; its ``mu`` and ``l2_sensitivity`` (replacement, record sampled) likewise.
    receipt: Receipt


def plan_sampling(
    curator: Curator, budget: ApproxDP, sampling_rate: float, n_steps: int
) -> SamplingPlan:
    """Calibrate the noise; touches no record, costs nothing."""
    if not 0.0 < sampling_rate <= 1.0:
        raise InvalidInput("sampling_rate must lie in (0, 1].")
    objective, n, p = curator.objective, curator.n, curator.objective.dimension
    if sampling_rate < 1.0:
        gap_rate(sampling_rate)  # refuses a rate that cannot be sampled
    multiplier = noise_multiplier(budget, sampling_rate, n_steps)
    depth = curator.depth(GRADIENT) + 1
    divisor = sampling_rate * n
    one_sided = sampled_mean(objective.score_bound, divisor, n, depth=depth)
    scale = gaussian_scale(one_sided, 1.0 / multiplier, p)
    # a sample can hold all the records
    check_grid_range(objective.score_bound / sampling_rate, scale, p)
    step_mu = 2.0 / multiplier
    receipt = Receipt("sampled gradient", "B6", step_mu, 2.0 * one_sided, scale)
    total_mu = step_mu * math.sqrt(n_steps) * (1.0 + ROUNDING_SUM)
    return SamplingPlan(budget, sampling_rate, n_steps, multiplier, total_mu, receipt)


class SampledGradients(ChargedAnswers):
    """A fixed number of noisy gradients, each over a fresh Poisson sample of the records.

    Opening charges ``plan.budget``: the whole sequence, with parameters chosen adaptively, is
    (epsilon, delta)-DP (claims B6 to B8 of PROOFS-rivals.md).  A further question is refused,
    and so is any question to a copy or in a forked process (claim C48).
    """

    def __init__(self, curator: Curator, plan: SamplingPlan) -> None:
        if plan_sampling(curator, plan.budget, plan.sampling_rate, plan.n_steps) != plan:
            raise InvalidInput("the plan was made for another curator. Make it with plan_sampling.")
        curator.ledger.charge(plan.budget, f"{plan.n_steps} sampled gradients")
        self._curator = curator
        self._plan = plan
        super().__init__(
            [plan.receipt.query] * plan.n_steps,
            f"all {plan.n_steps} sampled gradients that were paid for are used. Plan more steps "
            "from the start.",
        )

    def gradient(self, theta: Array) -> Answer:
        """Release the sum of the scores of a fresh sample / expected size of a sample."""
        receipt = self._plan.receipt
        self._take(receipt.query)
        value = self._sampled_sum(theta)
        return self._curator._release((receipt.query, receipt.mu, theta), receipt, value)

    def _sampled_sum(self, theta: Array) -> Array:
        """Records outside the sample get a response that is not finite: they contribute zero.

        The kernel still sees n records, so that the order of its additions, and with it the
        bound on their rounding, is that of a whole pass, and time tells nothing of the sample.
        """
        curator, plan = self._curator, self._plan
        rate, n = plan.sampling_rate, curator.n
        sample = slice(0, n) if rate == 1.0 else poisson_sample(n, rate, curator._noise)
        inside = np.zeros(n, dtype=bool)
        inside[sample] = True
        ends = np.cumsum(curator._records.block_sizes)[:-1]
        asked = curator._kernel, theta, rate * n, curator._threads
        pairs = zip(curator._records.blocks(), np.split(inside, ends), strict=True)
        total: Array = tree_sum(_sampled_gradient(X, y, own, *asked) for (X, y), own in pairs)
        return total


def _sampled_gradient(
    X: Array, y: Array, inside: NDArray[np.bool_], kernel: RecordKernel, theta: Array,
    divisor: float, threads: int,
) -> Array:  # fmt: skip
    responses = np.where(inside, y, np.nan)
    gradient, _, _ = kernel.sums(X, responses, theta, GRADIENT, divisor, threads)
    assert gradient is not None
    return gradient


def gap_rate(sampling_rate: float) -> tuple[int, int]:
    """Exact ratio ``r`` with ``1 - exp(-r)`` at most the sampling rate, and within 2^-40 of it."""
    return laplace_rate(1, -math.log1p(-sampling_rate) * (1.0 - ROUNDING_ELEMENTARY))


def poisson_sample(n: int, sampling_rate: float, source: NoiseSource) -> NDArray[np.int64]:
    """Indices below ``n``, each present independently with probability ``1 - exp(-gap_rate)``.

    The gaps between members of a Poisson sample are geometric, and a discrete Laplace variable
    that is not negative is geometric (claim B7), so no other randomness is needed and the cost is
    that of the sample, not of n.
    """
    numerator, denominator = gap_rate(sampling_rate)
    size = min(int(2.2 * sampling_rate * n) + 64, 1 << 20)
    position = -1
    found = []
    while position < n:
        draws = source.discrete_laplace(size, numerator, denominator)
        gaps = np.minimum(draws[draws >= 0], n)
        if not gaps.size:
            continue
        positions = position + np.cumsum(gaps + 1)
        found.append(positions[positions < n])
        position = int(positions[-1])
    return np.concatenate(found)
