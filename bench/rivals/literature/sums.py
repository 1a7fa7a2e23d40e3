"""Sufficient statistics of least squares: ``mean xx'``, ``mean xy``, smallest eigenvalue.

Functions of a :class:`~dpfast.curator.Curator` whose objective is Huber's loss with corner
``y_bound`` and scale 1 on a declared ball of radius ``x_bound``: at parameter zero its score is
exactly ``-clip(y) x`` and its Hessian, with the responses replaced by zeros, exactly ``xx'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.rivals.literature.sensitivity import statistics_mu
from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt
from dpfast.errors import InvalidInput, described
from dpfast.kernels.linalg import eigh
from dpfast.kernels.records import GRADIENT, HESSIAN, RecordKernel
from dpfast.models import Bounded, Huber
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.sensitivity import extreme_eigenvalue, mean_rank_one, mean_score

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator
    from dpfast.models import Objective


class StatisticsAnswer(NamedTuple):
    """``mean xx'`` (p, p) and ``mean xy`` (p,), released together at the cost ``mu``."""

    gram: Answer
    moment: Answer
    mu: float


def statistics_receipts(
    curator: Curator, mu_gram: float, mu_moment: float
) -> tuple[Receipt, Receipt]:
    """What :func:`sufficient_statistics` would release; touches nothing, costs nothing."""
    objective, n, p = _least_squares(curator), curator.n, curator.objective.dimension
    coordinates = p * (p + 1) // 2
    depth = _depth(curator, HESSIAN)
    sensitivity = mean_rank_one(objective.curvature_bound, n, p, depth=depth)
    scale = gaussian_scale(sensitivity, mu_gram, coordinates)
    check_grid_range(objective.curvature_bound, scale, coordinates)
    gram = Receipt("gram", "B1", mu_gram, sensitivity, scale)
    depth = _depth(curator, GRADIENT)
    sensitivity = mean_score(objective.score_diameter, n, depth=depth)
    scale = gaussian_scale(sensitivity, mu_moment, p)
    check_grid_range(objective.score_bound, scale, p)
    return gram, Receipt("moment", "B1", mu_moment, sensitivity, scale)


def sufficient_statistics(curator: Curator, mu_gram: float, mu_moment: float) -> StatisticsAnswer:
    """Release ``mean xx'`` and ``mean clip(y) x`` of the projected rows.

    A record that is not finite contributes zero to both.

    Charges ``statistics_mu(mu_gram, mu_moment)`` (claims B1 and B2 of PROOFS-rivals.md).
    """
    receipts = statistics_receipts(curator, mu_gram, mu_moment)
    mu = statistics_mu(mu_gram, mu_moment)
    curator.ledger.charge(GDP(mu), "gram + moment")
    question = ("gram + moment", mu)
    gram = curator._release(question, receipts[0], _gram(curator))
    score, _, _ = curator._sums(np.zeros(curator.objective.dimension), GRADIENT)
    return StatisticsAnswer(gram, curator._release(question, receipts[1], -score), mu)


def smallest_eigenvalue_receipt(curator: Curator, mu: float) -> Receipt:
    """What :func:`smallest_eigenvalue` would release; touches nothing, costs nothing."""
    objective, n, p = _least_squares(curator), curator.n, curator.objective.dimension
    depth = _depth(curator, HESSIAN)
    sensitivity = extreme_eigenvalue(objective.curvature_bound, n, p, depth=depth)
    scale = gaussian_scale(sensitivity, mu, 1)
    check_grid_range(2.0 * objective.curvature_bound, scale, 1)
    return Receipt("smallest eigenvalue of gram", "C20", mu, sensitivity, scale)


def smallest_eigenvalue(curator: Curator, mu: float) -> Answer:
    """Release the smallest eigenvalue of ``mean xx'``, shape (1,) (claim C20).

    A scalar costs ``x_bound^2 / n``, by Weyl's inequality, less than the whole matrix.
    """
    receipt = smallest_eigenvalue_receipt(curator, mu)
    curator.ledger.charge(GDP(mu), receipt.query)
    values, _ = eigh(_gram(curator))
    return curator._release((receipt.query, mu), receipt, values[:1].copy())


def _gram(curator: Curator) -> Array:
    """Exact ``mean xx'``.

    The responses are replaced by zeros, so that every residual is at the centre of the loss: a
    record whose xy counts must not be able to hide its xx' (claim B1).  A response that is not
    finite stays so, and its record contributes zero.
    """
    theta, n = np.zeros(curator.objective.dimension), float(curator.n)
    gram: Array = curator._records.total(_block_gram, curator._kernel, theta, n, curator._threads)
    return gram


def _block_gram(
    X: Array, y: Array, kernel: RecordKernel, theta: Array, n: float, threads: int
) -> Array:
    with np.errstate(all="ignore"):
        centred = y * 0.0
    _, part, _ = kernel.sums(X, centred, theta, HESSIAN, n, threads)
    assert part is not None
    return part


def _depth(curator: Curator, want: int) -> int:
    return curator.depth(want) + 1


def _least_squares(curator: Curator) -> Objective:
    objective = curator.objective
    if (
        not isinstance(objective.loss, Huber)
        or not isinstance(objective.weighting, Bounded)
        or objective.scale != 1.0
        or objective.free_scale is not None
    ):
        raise InvalidInput(
            "sufficient statistics need the objective Huber(c=y_bound), Bounded(x_bound) with "
            f"scale 1; received {described(objective)}."
        )
    return objective
