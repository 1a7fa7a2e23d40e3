"""The methods the literature compares with, honest and correctly calibrated.

Every fit returns the :class:`~dpfast.Fit` of :func:`dpfast.fit`, spends at most ``privacy``
in total under replacement of one record, and needs its public bounds passed explicitly.  None of
them buys standard errors.  ``random_search`` of a black box is what :func:`dpfast.tune` is compared
with.
"""

from dpfast.baselines.clipping import clipped_gradient_descent
from dpfast.baselines.output import output_perturbation
from dpfast.baselines.perturbation import objective_perturbation
from dpfast.baselines.random_search import random_search
from dpfast.baselines.sgd import dp_sgd
from dpfast.baselines.statistics import adassp, sufficient_statistics

__all__ = [
    "adassp",
    "clipped_gradient_descent",
    "dp_sgd",
    "objective_perturbation",
    "output_perturbation",
    "random_search",
    "sufficient_statistics",
]
