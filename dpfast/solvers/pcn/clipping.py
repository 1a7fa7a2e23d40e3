"""The clipping norm of scores, chosen by a noisy histogram of their norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpfast.kernels import decisions
from dpfast.solvers.pcn.histogram import TRIED_PARTS, NormHistogram, tail_shapes

#: Bias of clipping, relative to the mean norm clipped off, if tails are asymmetric.  Measured:
#: a quarter for capital gains of adult, three quarters for house prices.
ASYMMETRY = 0.4

#: Allowance for the bias of clipping in a coefficient's interval, in standard errors, from which on
#: results warn.  Of 960 fits of eight designs .36 warn, and the others cover .95.  At .4 of a
#: standard error .45 warn and .947 cover, at .8 .25 and .934.
MAX_ALLOWANCE = 0.5

#: Variance of undetected scores in a direction, relative to the mean of others: about 1, and more
#: where a start is too steep, so that too few of them are foreseen.
UNDETECTED_VARIATION = 3.0

#: Part of the doubt about undetected scores that counts as bias.  With all of it intervals of least
#: squares are 10% wider, and most fits of skewed tables warn; without it too few cover.
DOUBT_PART = 0.5

#: Noise of a clipping norm, as a part of the sampling variance, that is allowed for the sake of
#: undetected scores: a smaller norm saves too little noise for its bias.
NO_REASON = 0.05


def noise_per_bound(n: int, mus: Sequence[float]) -> float:
    """Return the noise of scores averaged over these budgets, for a clipping norm of 1."""
    return 2.0 / (n * math.hypot(*mus))


def may_bias(bias: float, standard_error: float, p: int) -> bool:
    """Return True if intervals of p whitened coefficients may not cover because of clipping.

    ``bias`` is the mean norm clipped off, in all directions together; the rule is that of every
    warning of clipping.
    """
    return ASYMMETRY * bias > MAX_ALLOWANCE * math.sqrt(p) * standard_error


def clipped_in_rare_direction(length: float, spread: float, bound: float) -> float:
    """Return the score variance that a bound removes along a direction of such long rows only."""
    return float(spread**2 * decisions.normal_excess(min(bound / (length * spread + 1e-300), 40.0)))


def mean_asymmetry(p: int) -> float:
    """Return the bias of clipping, relative to the mean norm clipped off, for scores of one sign.

    They have one sign along the intercept and along the slopes.
    """
    one_sign = min(2, p)
    return math.sqrt((one_sign + (p - one_sign) * ASYMMETRY**2) / p)


def choose_clipping_norm(
    scores: NormHistogram,
    noise: float,
    p: int,
    longest: float = math.inf,
    asymmetry: float = ASYMMETRY,
    foreseen: NormHistogram | None = None,
    n: float = math.inf,
) -> tuple[float, float]:
    """Choose the clipping norm of scores by bias plus noise, and return its bias.

    ``noise`` is that of :func:`noise_per_bound`.  Bias and noise are weighed as squares: the sum is
    the mean squared error.
    """
    # Undetected scores may have a third moment half as large as the others'.  Clipping removes at
    # most 4/27 of it over the squared bound: a shorter bound saves less noise than its bias.
    chosen, bias = decisions.choose_clipping_norm(
        scores, noise, p, longest, asymmetry, foreseen, n, tail_shapes(), TRIED_PARTS,
        ASYMMETRY, UNDETECTED_VARIATION, DOUBT_PART, NO_REASON,
    )  # fmt: skip
    return chosen, bias
