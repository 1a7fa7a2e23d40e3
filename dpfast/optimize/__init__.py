"""Optimisers that see only a Curator's noisy answers, and the schedules that budget them."""

from dpfast.optimize.adaptive.method import AdaptiveNewton
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.double_noise import DoubleNoise
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.joint_newton import JointNewton
from dpfast.optimize.newton import Newton
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.proximal import InnerOptimiser, NoisyDescent, Proximal
from dpfast.optimize.nonconvex.spider import Spider
from dpfast.optimize.propagation import Curvature, PrivacyNoise
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.schedules import Geometric, Schedule, Uniform, resolve_schedule
from dpfast.optimize.trajectory import Trajectory

__all__ = [
    "Adaptive",
    "AdaptiveNewton",
    "Answers",
    "Budgets",
    "Curvature",
    "DoubleNoise",
    "Geometric",
    "GradientDescent",
    "InnerOptimiser",
    "JointNewton",
    "Method",
    "Newton",
    "NoisyDescent",
    "PrivacyNoise",
    "Proximal",
    "Schedule",
    "Spider",
    "Trajectory",
    "Uniform",
    "resolve_schedule",
]
