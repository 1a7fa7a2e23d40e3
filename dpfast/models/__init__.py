"""What is estimated: losses, weightings and their product, with their public constants.

Each name is loaded on first use: a fit loads what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpfast.models.concordance import (
        ReleaseConstants,
        SmoothConstants,
        release_constants,
        smooth_constants,
    )
    from dpfast.models.custom import CustomLoss
    from dpfast.models.domains import Ball, Domain, LpBall
    from dpfast.models.free_scale import FreeScale, JointScale
    from dpfast.models.losses import (
        Huber,
        LeastSquares,
        LogCosh,
        Logistic,
        Loss,
        PseudoHuber,
    )
    from dpfast.models.names import resolve_loss
    from dpfast.models.nonconvex import KL, PerRecordObjective, one_hidden_layer, phase_retrieval
    from dpfast.models.objective import Constants, Objective
    from dpfast.models.products import Box, Interval, OneHot, Product
    from dpfast.models.smooth_losses import OstrovskiiBach, SmoothAbsolute, SmoothedHuber
    from dpfast.models.special_losses import Cauchy, GemanMcClure, TukeyBiweight, Welsch
    from dpfast.models.weighting import (
        Bounded,
        Clip,
        Mallows,
        MallowsLinear,
        Schweppe,
        Weighting,
        resolve_weighting,
    )

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    "concordance": "ReleaseConstants SmoothConstants release_constants smooth_constants",
    "custom": "CustomLoss",
    "domains": "Ball Domain LpBall",
    "free_scale": "FreeScale JointScale",
    "losses": "Huber LeastSquares LogCosh Logistic Loss PseudoHuber",
    "names": "resolve_loss",
    "nonconvex": "KL PerRecordObjective one_hidden_layer phase_retrieval",
    "objective": "Constants Objective",
    "products": "Box Interval OneHot Product",
    "smooth_losses": "OstrovskiiBach SmoothAbsolute SmoothedHuber",
    "special_losses": "Cauchy GemanMcClure TukeyBiweight Welsch",
    "weighting": "Bounded Clip Mallows MallowsLinear Schweppe Weighting resolve_weighting",
}

__all__ = [
    "Ball",
    "Bounded",
    "Box",
    "Cauchy",
    "Clip",
    "Constants",
    "CustomLoss",
    "Domain",
    "FreeScale",
    "GemanMcClure",
    "Huber",
    "Interval",
    "JointScale",
    "KL",
    "LeastSquares",
    "LogCosh",
    "Logistic",
    "Loss",
    "LpBall",
    "Mallows",
    "MallowsLinear",
    "Objective",
    "OneHot",
    "OstrovskiiBach",
    "PerRecordObjective",
    "Product",
    "PseudoHuber",
    "ReleaseConstants",
    "Schweppe",
    "SmoothAbsolute",
    "SmoothConstants",
    "SmoothedHuber",
    "TukeyBiweight",
    "Weighting",
    "Welsch",
    "one_hidden_layer",
    "phase_retrieval",
    "release_constants",
    "resolve_loss",
    "resolve_weighting",
    "smooth_constants",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
