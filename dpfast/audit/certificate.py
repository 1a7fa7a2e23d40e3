"""Certified lower bounds on privacy parameters, from repeated runs on a worst-case pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from dpfast.arguments import Array, number_in, whole_number
from dpfast.errors import InvalidInput

#: Levels of the pooled held-out statistics that become thresholds: dense in the middle, which is
#: best for mu, and in the tails, which are best for epsilon.
LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)

#: Share of the runs for the choice of the direction and the thresholds.
HELD_OUT = 0.2

#: Relative reduction of every certified number: more than the rounding of special functions.
ROUNDING = 1e-9


class LowerBound(NamedTuple):
    """Certified lower bounds of the privacy parameters of a mechanism.

    Attributes
    ----------
    mu : float
        With the stated confidence the mechanism is not mu'-GDP for any mu' below this.
    confidence, n_samples : float, int
        The confidence, and the runs per data set, held-out ones included.
    thresholds : tuple of float
        Events ``statistic > threshold`` that were tested.
    false_positive, true_positive : tuple of float
        Upper confidence limits of each event's probability on ``data``, lower ones on
        ``neighbour``.

    Privacy
    -------
    A property of the mechanism, found on made-up data sets.
    """

    mu: float
    confidence: float
    n_samples: int
    thresholds: tuple[float, ...]
    false_positive: tuple[float, ...]
    true_positive: tuple[float, ...]

    def epsilon(self, delta: float = 0.0) -> float:
        """Return the largest certified epsilon: no smaller one holds with this delta.

        Parameters
        ----------
        delta : float
            In [0, 1).  The confidence holds for all values at once.
        """
        delta = number_in(delta, "delta", "[0, 1)")
        best = 0.0
        for high, low in zip(self.false_positive, self.true_positive, strict=True):
            for larger, unlikely in ((low, high), (1.0 - high, 1.0 - low)):
                if larger > delta:
                    best = max(best, float(np.log((larger - delta) / unlikely)))
        return best * (1.0 - ROUNDING)

    def __str__(self) -> str:
        return (
            f"mu >= {self.mu:.4f} and epsilon >= {self.epsilon():.4f} (delta = 0) with confidence "
            f"1 - {1.0 - self.confidence:.2g}, from 2 x {self.n_samples} runs"
        )


def lower_bound(
    mechanism: Callable[[Any], Any],
    pair: tuple[Any, Any],
    n_samples: int,
    *,
    confidence: float = 1.0 - 1e-6,
    statistic: Callable[[Any], float] | None = None,
) -> LowerBound:
    """Certify a lower bound on mu (and epsilon) from repeated runs on two neighbouring data sets.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data)`` returns one output; every call must draw fresh, independent noise.
    pair : (data, neighbour)
        The worst known pair: the bound is about this pair.
    n_samples : int
        Runs per data set, at least 100.  At the default confidence, 10,000 certify about 85% of
        mu = 1 and 92% of mu = 3, 50,000 about 94% and 97%.
    confidence : float
        Minimum probability that the bound is not above the true value.
    statistic : callable, optional
        Maps an output to a number that is larger on ``neighbour``.  By default the output is an
        array, and the statistic is the linear function that best separates the held-out runs.

    Notes
    -----
    The statistic and a fixed number of thresholds are chosen on a fifth of the runs.  The other
    runs give exact (Clopper-Pearson) limits of each threshold's false and true positive rates, with
    a union bound over thresholds and rates.  A mu-GDP mechanism has
    ``Phi^-1(TPR) <= Phi^-1(FPR) + mu`` (Dong, Roth and Su 2022).

    Privacy
    -------
    None: it is an attack.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bound = dpfast.audit.lower_bound(lambda data: data + rng.normal(), (0.0, 3.0), 1000)
    >>> 0.0 < bound.mu <= 3.0
    True
    """
    n_samples = whole_number(n_samples, "n_samples", least=100)
    confidence = number_in(confidence, "confidence", "[0.5, 1)")
    held_out = max(20, round(HELD_OUT * n_samples))
    # alternate, so that a drift of the machine or of the noise source has no effect
    outputs: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(n_samples):
        for side, data in zip(outputs, pair, strict=True):
            output = mechanism(data)
            side.append(_as_vector(output) if statistic is None else float(statistic(output)))
    off, on = (np.array(side) for side in outputs)
    if statistic is None:
        direction = _separating_direction(off[:held_out], on[:held_out])
        off, on = off @ direction, on @ direction
    pooled = np.concatenate([off[:held_out], on[:held_out]])
    thresholds = np.unique(np.quantile(pooled[~np.isnan(pooled)], LEVELS, method="lower"))
    # one-sided limits: two per threshold share the error probability
    error = (1.0 - confidence) / (2.0 * len(thresholds))
    rest = n_samples - held_out
    high = _upper_limit((off[held_out:, None] > thresholds).sum(axis=0), rest, error)
    low = 1.0 - _upper_limit(rest - (on[held_out:, None] > thresholds).sum(axis=0), rest, error)
    certified = float(np.max(ndtri(low) - ndtri(high)))
    return LowerBound(
        mu=max(0.0, certified * (1.0 - ROUNDING)),
        confidence=confidence,
        n_samples=int(n_samples),
        thresholds=tuple(thresholds.tolist()),
        false_positive=tuple(high.tolist()),
        true_positive=tuple(low.tolist()),
    )


def _as_vector(output: Any) -> Array:
    try:
        return np.asarray(output, dtype=float).ravel()
    except (TypeError, ValueError):
        raise InvalidInput(
            f"the mechanism returned a {type(output).__name__}, which is not an array of numbers. "
            "Pass statistic=..., a function from such an output to one number."
        ) from None


def _separating_direction(off: Array, on: Array) -> Array:
    """Return Fisher's linear discriminant of two samples.

    It is optimal for normal outputs with a common covariance.
    """
    shift = on.mean(axis=0) - off.mean(axis=0)
    centred = np.concatenate([off - off.mean(axis=0), on - on.mean(axis=0)])
    scale = centred.std(axis=0)
    scale[scale == 0.0] = 1.0  # a coordinate without noise: any difference separates
    standard = centred / scale
    covariance = standard.T @ standard / len(standard)
    floor = 1e-6 * np.eye(len(shift))
    return np.linalg.solve(covariance + floor, shift / scale) / scale


def _upper_limit(successes: NDArray[np.integer], trials: int, error: float) -> Array:
    """Return the Clopper-Pearson upper limit of a binomial probability at this error rate."""
    failures = trials - successes
    limit = 1.0 - betaincinv(np.maximum(failures, 1), successes + 1.0, error)
    return np.where(failures == 0, 1.0, limit)
