"""What is estimated: losses, weightings, domains and objectives, with their public constants."""

from typing import TYPE_CHECKING

from dpfast.lazy import lazy_getattr

if TYPE_CHECKING:
    from dpfast.models.concordance import (
        ReleaseConstants as ReleaseConstants,
        SmoothConstants as SmoothConstants,
        release_constants as release_constants,
        smooth_constants as smooth_constants,
    )
    from dpfast.models.custom import CustomLoss
    from dpfast.models.domains import Ball, Domain
    from dpfast.models.free_scale import FreeScale
    from dpfast.models.gamma import Gamma
    from dpfast.models.joint_scale import JointScale as JointScale
    from dpfast.models.losses import (
        Huber,
        LeastSquares as LeastSquares,
        LogCosh,
        Logistic,
        Loss,
        PseudoHuber,
    )
    from dpfast.models.names import resolve_loss as resolve_loss
    from dpfast.models.objective import Constants as Constants, Objective
    from dpfast.models.poisson import Poisson
    from dpfast.models.probit import Probit
    from dpfast.models.products import Box, Interval, OneHot, Product
    from dpfast.models.quantile import Quantile
    from dpfast.models.smooth_losses import OstrovskiiBach, SmoothAbsolute, SmoothedHuber
    from dpfast.models.special_losses import Cauchy, GemanMcClure, TukeyBiweight, Welsch
    from dpfast.models.weighting import (
        Bounded,
        Clip,
        Mallows,
        MallowsLinear,
        Schweppe,
        Weighting as Weighting,
        resolve_weighting as resolve_weighting,
    )

#: Where each loss lives: those of a name are looked for in this order.
_LOSSES = {
    ".losses": "Huber LeastSquares LogCosh Logistic Loss PseudoHuber",
    ".quantile": "Quantile",
    ".poisson": "Poisson",
    ".gamma": "Gamma",
    ".probit": "Probit",
    ".smooth_losses": "OstrovskiiBach SmoothAbsolute SmoothedHuber",
    ".special_losses": "Cauchy GemanMcClure TukeyBiweight Welsch",
}

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    **_LOSSES,
    ".concordance": "ReleaseConstants SmoothConstants release_constants smooth_constants",
    ".custom": "CustomLoss",
    ".domains": "Ball Domain",
    ".free_scale": "FreeScale",
    ".joint_scale": "JointScale",
    ".names": "resolve_loss",
    ".objective": "Constants Objective",
    ".products": "Box Interval OneHot Product",
    ".weighting": "Bounded Clip Mallows MallowsLinear Schweppe Weighting resolve_weighting",
}

__all__ = [
    "Ball",
    "Bounded",
    "Box",
    "Cauchy",
    "Clip",
    "CustomLoss",
    "Domain",
    "FreeScale",
    "Gamma",
    "GemanMcClure",
    "Huber",
    "Interval",
    "LogCosh",
    "Logistic",
    "Loss",
    "Mallows",
    "MallowsLinear",
    "Objective",
    "OneHot",
    "OstrovskiiBach",
    "Poisson",
    "Probit",
    "Product",
    "PseudoHuber",
    "Quantile",
    "Schweppe",
    "SmoothAbsolute",
    "SmoothedHuber",
    "TukeyBiweight",
    "Welsch",
]

__getattr__ = lazy_getattr(__name__, _HOMES)
