from .estimator_losses import sklearn_losses as sklearn_losses
from .parameters import Categorical as Categorical, Integer as Integer, Real as Real
from .result import Tuning as Tuning
from .settings import SearchSettings as SearchSettings
from .surrogate.covariance import (
    RBF as RBF,
    Covariance as Covariance,
    Matern52 as Matern52,
    Matern72 as Matern72,
    Polynomial2 as Polynomial2,
)
from .surrogate.fitting import fit_covariance as fit_covariance
from .surrogate.gradient_information import GradientInformation as GradientInformation
from .tuner import Tuner as Tuner
from .tuning import private_choice as private_choice, private_clip as private_clip, tune as tune
from .updates import AdaGrad as AdaGrad, Plain as Plain, Smoothed as Smoothed
