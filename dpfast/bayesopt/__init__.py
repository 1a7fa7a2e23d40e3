"""Private Bayesian optimisation: covariance functions, gradient information, DP-GIBO.

Differences from Algorithm 1 of Sopa, Marusic, Avella-Medina and Cunningham (2025):

* line 4 bounds the remaining variance ``T0 + alpha``.  The printed condition bounds ``alpha``
  alone, which is negative, and so accepts a single point at every step.  The batch is capped;
* line 9 projects onto the box, and AdaGrad subtracts the public noise variance from its sum;
* a record's vector that is not finite counts as zero, and no norm of zero is divided by;
* the covariance matrix always includes the evaluation noise (appendix B omits it).

Additions: an unknown mean of the losses, privacy noise projected on the directions with signal,
smoothed updates, budgets that grow towards the end, and averages of the last iterates.
"""

from dpfast.bayesopt.parameters import Categorical, Integer, Real
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.settings import SearchSettings
from dpfast.bayesopt.sklearn_losses import sklearn_losses
from dpfast.bayesopt.surrogate.covariance import RBF, Covariance, Matern52, Matern72, Polynomial2
from dpfast.bayesopt.surrogate.fitting import fit_covariance
from dpfast.bayesopt.surrogate.gradient_information import GradientInformation
from dpfast.bayesopt.tuner import Tuner
from dpfast.bayesopt.tuning import private_choice, private_clip, tune
from dpfast.bayesopt.updates import AdaGrad, Plain, Smoothed
from dpfast.lazy import missing

__all__ = [
    "AdaGrad",
    "Categorical",
    "Covariance",
    "GradientInformation",
    "Integer",
    "Matern52",
    "Matern72",
    "Plain",
    "Polynomial2",
    "RBF",
    "Real",
    "SearchSettings",
    "Smoothed",
    "Tuner",
    "Tuning",
    "fit_covariance",
    "private_choice",
    "private_clip",
    "sklearn_losses",
    "tune",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
