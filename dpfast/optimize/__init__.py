"""Optimisers that see only a Curator's noisy answers, and the schedules that budget them."""

from typing import TYPE_CHECKING

from dpfast.lazy import lazy_getattr

if TYPE_CHECKING:
    from dpfast.optimize.budgets import Budgets
    from dpfast.optimize.gradient_descent import GradientDescent
    from dpfast.optimize.newton import Newton
    from dpfast.optimize.nonconvex.adaptive import Adaptive
    from dpfast.optimize.nonconvex.proximal import NoisyDescent, Proximal
    from dpfast.optimize.nonconvex.spider import Spider
    from dpfast.optimize.propagation import Curvature, PrivacyNoise
    from dpfast.optimize.protocol import Answers, Method
    from dpfast.optimize.schedules import Geometric, Schedule, Uniform
    from dpfast.optimize.trajectory import Trajectory

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    ".budgets": "Budgets",
    ".gradient_descent": "GradientDescent",
    ".newton": "Newton",
    ".nonconvex.adaptive": "Adaptive",
    ".nonconvex.proximal": "NoisyDescent Proximal",
    ".nonconvex.spider": "Spider",
    ".propagation": "Curvature PrivacyNoise",
    ".protocol": "Answers Method",
    ".schedules": "Geometric Schedule Uniform",
    ".trajectory": "Trajectory",
}

__all__ = [
    "Adaptive",
    "Answers",
    "Budgets",
    "Curvature",
    "Geometric",
    "GradientDescent",
    "Method",
    "Newton",
    "NoisyDescent",
    "PrivacyNoise",
    "Proximal",
    "Schedule",
    "Spider",
    "Trajectory",
    "Uniform",
]

__getattr__ = lazy_getattr(__name__, _HOMES)
