"""Private Bayesian optimisation: covariance functions, gradient information, DP-GIBO."""

from dpfast.bayesopt.covariance import RBF, Covariance, Matern52, Matern72, Polynomial2
from dpfast.bayesopt.fitting import fit_covariance
from dpfast.bayesopt.gradient_information import GradientInformation
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.sklearn_losses import sklearn_losses
from dpfast.bayesopt.training import TrainingCost
from dpfast.bayesopt.tuner import Tuner
from dpfast.bayesopt.tuning import tune
from dpfast.bayesopt.updates import AdaGrad, Plain, Smoothed

__all__ = [
    "AdaGrad",
    "Covariance",
    "GradientInformation",
    "Matern52",
    "Matern72",
    "Plain",
    "Polynomial2",
    "RBF",
    "Smoothed",
    "TrainingCost",
    "Tuner",
    "Tuning",
    "fit_covariance",
    "sklearn_losses",
    "tune",
]
