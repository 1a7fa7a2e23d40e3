"""From a trajectory of noisy answers to estimates, standard errors and intervals."""

from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit

__all__ = ["Fit", "Guarantee"]
