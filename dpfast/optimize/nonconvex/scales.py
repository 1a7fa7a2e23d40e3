"""Private scales of the parameters: noise and steps are in proportion to each one's gradients.

Noise of one size in all entries hides the gradient of a column whose entries are small.  Every
gradient is therefore divided by the root of the private diagonal of a second-moment matrix before
it is clipped, and so is every step.  It is a diagonal preconditioner (compare AdaGrad, Duchi et al.
2011), as if the columns had been standardised.

The second moments are those of gradients divided by their norms, the spatial sign covariance matrix
(Visuri, Koivunen and Oja 2000).  No norm of clipping is needed for it, and no long gradient
dominates it (claim K9).
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.descent import MIN_RHO

#: Part of the budget for the second moments.
SHARE = 0.02

#: Noise of a second moment relative to their mean, above which none is released.
MAX_NOISE = 1.0

#: Second moment, relative to the mean, below which a parameter is scaled no more; and the same in
#: standard deviations of the noise.
FLOOR = 0.003
FLOOR_SDS = 2.0


def private_scales(curator: GradientCurator, theta: Array, total: float) -> tuple[Array, float]:
    """Release the scales of the parameters at ``theta``; return them with their cost."""
    d, rho = curator.dimension, SHARE * total
    scales = np.ones(d)
    noise = math.inf if rho < MIN_RHO else d / (curator.n * math.sqrt(rho))
    if d == 1 or noise > MAX_NOISE or rho > curator.remaining:
        return scales, 0.0
    moments = d * curator.gradient_directions(theta, rho).value
    moments = np.maximum(moments, max(FLOOR, FLOOR_SDS * noise))
    return np.sqrt(moments.mean() / moments), rho
