"""Rules of when steps have converged, and of the test that they have not."""

from __future__ import annotations

from typing import NamedTuple

#: Level of the test that scores still point one way.  Larger, fits that converged warn.
FALSE_ALARM = 1e-3

#: Largest error that steps may leave, as a part of their noise, and of the sampling error.  Larger,
#: fits are biased; smaller, the budget is divided among more steps.
SLIGHT, OF_SAMPLING = 0.3, 0.03


class StoppingRule(NamedTuple):
    """Stopping rule: bounds on the relative error of steps in whitened coordinates."""

    whitening_error: float
    curvature_change: float
    score_mean_square: float
