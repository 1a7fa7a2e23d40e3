"""Private Bayesian optimisation: covariance functions, gradient information, DP-GIBO."""

from dpfast.bayesopt.covariance import RBF, Covariance, Matern52, Matern72, Polynomial2
from dpfast.bayesopt.gradient_information import GradientInformation

__all__ = [
    "Covariance",
    "GradientInformation",
    "Matern52",
    "Matern72",
    "Polynomial2",
    "RBF",
]
