"""Constants of a record's loss as a function of its linear predictor, as the releases need them."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.errors import InvalidInput, described
from dpfast.models.losses import Loss
from dpfast.models.names import all_losses


class ReleaseConstants(NamedTuple):
    """Public bounds on ``h(t)``, t the linear predictor (formulas page, section II.7)."""

    #: ``B1 = sup |h'|``.
    slope: float
    #: ``B2 = sup h''``; at most ``concordance * slope``.
    curvature: float
    #: ``c`` with ``|h'''| <= c h''``.
    concordance: float
    #: ``sup |h'''|``.
    third: float


def release_constants(loss: Loss, scale: float = 1.0) -> ReleaseConstants:
    """Constants of ``scale * rho((y - t)/scale)``: the curvature and c divide by the scale."""
    if not loss.certified:
        raise InvalidInput(
            f"the constants of the {loss.name} loss are declared, not proved, and no kernel can "
            "enforce a self-concordance constant. Use a built-in loss."
        )
    c = loss.self_concordance
    if not c < math.inf:
        raise InvalidInput(
            f"{described(loss, text=True)} is not self-concordant: its curvature can vanish "
            f"between two parameters. Use {_classes('self_concordance')}; or, for a convex loss "
            "whose third derivative is bounded, release_parameter or certify with "
            "certificate='smooth'."
        )
    up = 1.0 + 2.0**-50
    return ReleaseConstants(
        loss.psi_bound,
        loss.psi_prime_bound / scale * up,
        c / scale * up,
        loss.psi_second_bound / scale / scale * up,
    )


def _classes(constant: str) -> str:
    """Names of the convex losses whose constant is finite."""
    losses = (kind() for kind in all_losses().values() if kind.has_bound and not kind.undeclared)
    finite = [
        type(loss).__name__
        for loss in losses
        if loss.has_curvature and getattr(loss, constant) < math.inf
    ]
    return f"{', '.join(finite[:-1])} or {finite[-1]}"


class SmoothConstants(NamedTuple):
    """Public bounds on ``h(t)`` of a convex loss with a Lipschitz second derivative."""

    #: slope, curvature, third: ``sup |h'|``, ``sup h''``, ``sup |h'''|``.
    slope: float
    curvature: float
    third: float
    #: ``sup |r h'''|``, r the residual: what a relative rounding of r does to the curvature.
    stretch: float


def smooth_constants(loss: Loss, scale: float = 1.0) -> SmoothConstants:
    """Constants of ``scale * rho((y - t)/scale)`` for algorithm 7 of paper 3 (claim R26)."""
    advice = f"Use {_classes('psi_second_bound')}."
    if not loss.has_curvature:
        raise InvalidInput(
            f"{loss.curvature_refusal}, and its minimiser need not be unique. {advice}"
        )
    if not loss.certified:
        raise InvalidInput(
            f"the constants of the {loss.name} loss are declared, not proved, and no kernel can "
            f"enforce a bound of its third derivative. {advice}"
        )
    if not loss.psi_second_bound < math.inf:
        raise InvalidInput(
            f"{described(loss, text=True)} has no bound on its third derivative: psi' jumps "
            f"where the loss turns from quadratic to linear. {advice}"
        )
    up = 1.0 + 2.0**-50
    return SmoothConstants(
        loss.psi_bound,
        loss.psi_prime_bound / scale * up,
        loss.psi_second_bound / scale / scale * up,
        loss.psi_second_stretch / scale * up,
    )
