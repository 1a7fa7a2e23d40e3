"""The methods the literature compares with, honest and correctly calibrated.

Every function returns the :class:`~dpfast.Fit` of :func:`dpfast.fit`, spends at most ``privacy``
in total under replacement of one record, and needs its public bounds passed explicitly.  None of
them buys standard errors.
"""

from dpfast.baselines.clipping import clipped_gradient_descent
from dpfast.baselines.output import output_perturbation
from dpfast.baselines.sgd import dp_sgd
from dpfast.baselines.statistics import adassp, sufficient_statistics

__all__ = [
    "adassp",
    "clipped_gradient_descent",
    "dp_sgd",
    "output_perturbation",
    "sufficient_statistics",
]
