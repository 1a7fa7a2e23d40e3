"""From a trajectory of noisy answers to estimates, standard errors and intervals."""

from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import sandwich_covariance

__all__ = ["Fit", "Guarantee", "sandwich_covariance"]
