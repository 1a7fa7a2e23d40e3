"""What is estimated: losses, weightings and their product, with their public constants."""

from dpfast.models.losses import Huber, LogCosh, Logistic, Loss, PseudoHuber, resolve_loss
from dpfast.models.objective import Objective
from dpfast.models.weighting import Bounded, Clip, Mallows, Weighting, resolve_weighting

__all__ = [
    "Bounded",
    "Clip",
    "Huber",
    "LogCosh",
    "Logistic",
    "Loss",
    "Mallows",
    "Objective",
    "PseudoHuber",
    "Weighting",
    "resolve_loss",
    "resolve_weighting",
]
