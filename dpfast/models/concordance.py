"""Constants of a record's loss as a function of its linear predictor, as the releases need them."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.errors import InvalidInput
from dpfast.models.losses import Loss

__all__ = ["ReleaseConstants", "release_constants"]


class ReleaseConstants(NamedTuple):
    """Public bounds on ``h(t)``, t the linear predictor (formulas page, section II.7).

    Attributes
    ----------
    slope : float
        ``B1 = sup |h'|``.
    curvature : float
        ``B2 = sup h''``; at most ``concordance * slope``.
    concordance : float
        ``c`` with ``|h'''| <= c h''``.
    third : float
        ``sup |h'''|``.
    """

    slope: float
    curvature: float
    concordance: float
    third: float


def release_constants(loss: Loss, scale: float = 1.0) -> ReleaseConstants:
    """Constants of ``scale * rho((y - t)/scale)``: the curvature and c divide by the scale.

    Parameters
    ----------
    loss : Loss
        With a finite self-concordance.
    scale : float
        Public residual scale; 1 for losses without one.

    Raises
    ------
    InvalidInput
        For a loss such as Huber's, whose curvature is not comparable at neighbouring parameters.
    """
    if not loss.certified:
        raise InvalidInput(
            f"the constants of the {loss.name} loss are declared, not proved, and no kernel can "
            "enforce a self-concordance constant. Use a built-in loss."
        )
    c = loss.self_concordance
    if not c < math.inf:
        raise InvalidInput(
            f"{loss!r} is not self-concordant: its curvature can vanish between two parameters, so "
            "no eigenvalue of its Hessian can be certified. Use LogCosh, PseudoHuber,"
            " OstrovskiiBach, SmoothAbsolute or Logistic."
        )
    up = 1.0 + 2.0**-50
    return ReleaseConstants(
        loss.psi_bound,
        loss.psi_prime_bound / scale * up,
        c / scale * up,
        loss.psi_second_bound / scale / scale * up,
    )
