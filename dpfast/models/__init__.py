"""What is estimated: losses, weightings and their product, with their public constants."""

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
    is_least_squares,
    resolve_loss,
)
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
    "is_least_squares",
    "one_hidden_layer",
    "phase_retrieval",
    "release_constants",
    "resolve_loss",
    "resolve_weighting",
    "smooth_constants",
]
