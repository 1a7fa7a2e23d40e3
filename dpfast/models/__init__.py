"""What is estimated: losses, weightings and their product, with their public constants."""

from dpfast.models.concordance import ReleaseConstants, release_constants
from dpfast.models.domains import Ball, Box, Domain, LpBall
from dpfast.models.losses import Huber, LogCosh, Logistic, Loss, PseudoHuber, resolve_loss
from dpfast.models.objective import Objective
from dpfast.models.products import Interval, OneHot, Product
from dpfast.models.weighting import Bounded, Clip, Mallows, Weighting, resolve_weighting

__all__ = [
    "Ball",
    "Bounded",
    "Box",
    "OneHot",
    "Clip",
    "Domain",
    "Huber",
    "Interval",
    "LogCosh",
    "Logistic",
    "Loss",
    "LpBall",
    "Mallows",
    "Objective",
    "Product",
    "PseudoHuber",
    "ReleaseConstants",
    "Weighting",
    "release_constants",
    "resolve_loss",
    "resolve_weighting",
]
