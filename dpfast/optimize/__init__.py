"""Optimisers that see only a Curator's noisy answers, and the schedules that budget them."""

from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.newton import Newton
from dpfast.optimize.schedules import Geometric, Schedule, Uniform, resolve_schedule
from dpfast.optimize.trajectory import Trajectory

__all__ = [
    "Geometric",
    "GradientDescent",
    "Newton",
    "Schedule",
    "Trajectory",
    "Uniform",
    "resolve_schedule",
]
