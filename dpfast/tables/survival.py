"""Kaplan-Meier curves from released counts of times, with and without an event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.tables.prefix_noise import PrefixNoise

Array = NDArray[np.float64]

#: Largest share of those at risk with an event in one bin: its logarithm stays finite.
LARGEST_SHARE = 0.999


class Survival(NamedTuple):
    """Number at risk at the beginning of each bin, survival to its end, and its standard error."""

    at_risk: Array
    survival: Array
    error: Array


def survival_of_counts(
    came: Array, left: Array, noise: PrefixNoise, shown: NDArray[np.intp]
) -> Survival:
    """Estimate survival by the product-limit of Kaplan and Meier (1958), as a life table.

    Those who leave within a bin count as at risk for half of it (Cutler and Ederer 1958).  The
    variance is Greenwood's (1926), and that of the noise through the linear approximation.

    Parameters
    ----------
    came, left : ndarray of shape (bins,)
        Noisy numbers of records up to the upper edge of each bin, with an event and without.
    noise : PrefixNoise
        Covariance of the noise of either; both are independent.
    shown : ndarray of whole numbers
        Bins of which the curve is asked.
    """
    events, leaving = np.diff(came, prepend=0.0), np.diff(left, prepend=0.0)
    both = came + left
    at_risk = both[-1] - np.concatenate([[0.0], both[:-1]])
    exposed = np.maximum(at_risk - 0.5 * leaving, 1.0)
    shares = np.minimum(events / exposed, LARGEST_SHARE)
    logs = np.cumsum(np.log1p(-shares))
    sampling = np.cumsum(np.maximum(shares, 0.0) / (exposed * (1.0 - shares)))
    by_events = -1.0 / ((1.0 - shares) * exposed)
    by_exposed = shares / ((1.0 - shares) * exposed)
    errors = np.sqrt([
        sampling[k] + noise_variance(by_events[: k + 1], by_exposed[: k + 1], noise)
        for k in shown.tolist()
    ])  # fmt: skip
    curve = np.clip(np.minimum.accumulate(np.exp(logs)), 0.0, 1.0)
    return Survival(at_risk[shown], curve[shown], curve[shown] * errors)


def noise_variance(by_events: Array, by_exposed: Array, noise: PrefixNoise) -> float:
    """Return the variance that noise has in a logarithm of survival.

    It is a function of events in the first bins and of numbers exposed there, with these
    derivatives.  Both are sums of numbers up to each bin.
    """
    bins = len(by_events)
    came, left = np.zeros((2, noise.n_bins))
    came[:bins] += by_events
    came[: bins - 1] -= by_events[1:]
    for weights in (came, left):  # at risk are all but those of earlier bins
        weights[-1] += by_exposed.sum()
        weights[: bins - 1] -= by_exposed[1:]
    left[:bins] -= 0.5 * by_exposed
    left[: bins - 1] += 0.5 * by_exposed[1:]
    return float(noise.variance_of(np.array([came, left])).sum())
