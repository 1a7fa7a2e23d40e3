"""Proved constants of losses whose residual scale is estimated with the coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ScaleProfile(NamedTuple):
    """A smooth loss with corner 1 at residuals ``v >= 0``, as claim C37 needs it."""

    #: psi, slope, chord: ``psi``, ``psi'`` and ``psi(v)/v``.
    psi: NDArray[np.float64]
    #: ``sup chi - chi``, without cancellation.
    rest: NDArray[np.float64]
    slope: NDArray[np.float64]
    chord: NDArray[np.float64]


class ScalePart(NamedTuple):
    """Proved constants of a loss with a free scale: ``chi = r psi - rho``, factor f, radius R."""

    #: ``sup chi / c^2``.
    chi: float
    #: Largest ``f c/R`` at which the scale's coordinate adds nothing to the sensitivity of the
    #: score (claim C34; rounded down).
    score_limit: float
    #: Largest ``f c/R`` for which the bound on the Hessian is proved (claim C35; rounded down).
    curvature_limit: float
    #: The ``f c/R`` used.  Larger values mean less noise in the scale, up to the limits, and less
    #: of the Hessian for free (C37); bench/coverage.py has the design they were chosen on.
    ratio: float
    #: hessian_share, majorizer_share: ``mu^2`` of the Hessian, or of the majorising curvature,
    #: relative to the gradient's: the best trade found.
    hessian_share: float
    majorizer_share: float
    #: For smooth losses, whose Hessian is bounded and charged as if the scale were known (C35,
    #: C37): the loss at residuals ``v >= 0``.  None: Hessian and score are charged one by one.
    profile: Callable[[NDArray[np.float64]], ScaleProfile] | None = None
