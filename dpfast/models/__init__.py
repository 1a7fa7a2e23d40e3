"""What is estimated: losses, weightings and their product, with their public constants."""

from dpfast.models.concordance import ReleaseConstants, release_constants
from dpfast.models.domains import Ball, Box, Domain, LpBall
from dpfast.models.losses import Huber, LogCosh, Logistic, Loss, PseudoHuber, resolve_loss
from dpfast.models.objective import Objective
from dpfast.models.products import Interval, OneHot, Product
from dpfast.models.redescending import Cauchy, GemanMcClure, TukeyBiweight, Welsch
from dpfast.models.weighting import Bounded, Clip, Mallows, Weighting, resolve_weighting

__all__ = [
    "Ball",
    "Bounded",
    "Box",
    "Cauchy",
    "Clip",
    "Domain",
    "GemanMcClure",
    "Huber",
    "Interval",
    "LogCosh",
    "Logistic",
    "Loss",
    "LpBall",
    "Mallows",
    "Objective",
    "OneHot",
    "Product",
    "PseudoHuber",
    "ReleaseConstants",
    "TukeyBiweight",
    "Weighting",
    "Welsch",
    "release_constants",
    "resolve_loss",
    "resolve_weighting",
]
