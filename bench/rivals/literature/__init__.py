"""What the literature compares with, honest and correctly calibrated; no part of dpfast.

They ask dpfast's Curator and its mechanisms, spend at most ``privacy`` in total under replacement
of one record (``PROOFS-rivals.md``, attacked by ``tests/bench``), and need their public bounds
passed explicitly.  Fits return the :class:`~dpfast.Fit` of :func:`dpfast.fit`; none of them buys
standard errors.  ``random_search`` of a black box is what :func:`dpfast.tune` is compared with.
"""

from bench.rivals.literature.clipping import clipped_gradient_descent
from bench.rivals.literature.output import output_perturbation
from bench.rivals.literature.perturbation import objective_perturbation
from bench.rivals.literature.random_search import random_search
from bench.rivals.literature.sgd import dp_sgd
from bench.rivals.literature.statistics import adassp, sufficient_statistics

__all__ = [
    "adassp",
    "clipped_gradient_descent",
    "dp_sgd",
    "objective_perturbation",
    "output_perturbation",
    "random_search",
    "sufficient_statistics",
]
