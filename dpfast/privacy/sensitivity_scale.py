"""Sensitivities of the joint loss of coefficients and scale (claims C34 to C37 of PROOFS.md).

Of ``(beta, z)`` with ``sigma = f z``: score in units of ``c R``, Hessian ``(w psi'(u)/sigma) a a'``
with ``a = (x, f u)`` and majorising curvature in units of ``R^2/sigma``; ``ratio = f c/R``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.privacy.sensitivity import _UP, relative


class ScaleFamily(Protocol):
    """Constants of a loss in units of its corner, from claims C34 and C35 (``Loss.scale_part``)."""

    @property
    def chi(self) -> float: ...

    @property
    def score_limit(self) -> float: ...

    @property
    def curvature_limit(self) -> float: ...

    @property
    def profile(self) -> Callable[[Any], tuple[Any, Any, Any, Any]] | None: ...


class ScaleCoupling(NamedTuple):
    """Constants that determine the joint cost of quantities released at one parameter."""

    family: ScaleFamily
    ratio: float
    kappa: float


def _checked(ratio: float, limit: float) -> float:
    if not 0.0 < ratio <= limit:
        raise InvalidInput(
            f"the ratio f c/R of this loss must lie in (0, {limit:.6g}]; received "
            f"{described(ratio)}."
        )
    return ratio


def score_diameter(family: ScaleFamily, score_bound: float, ratio: float) -> float:
    """Bound the diameter of the set of scores: ``2 c R``, as for a known scale (claim C34)."""
    _checked(ratio, family.score_limit)
    return 2.0 * score_bound


def curvature_factor(family: ScaleFamily, ratio: float) -> float:
    """Bound on a record's Hessian in units of ``R^2/sigma`` (claim C35)."""
    _checked(ratio, family.curvature_limit)
    return (1.0 + ratio * ratio) * _UP if family.profile is None else 1.0


def majorizer_factor(coupling: ScaleCoupling) -> float:
    """Bound on a record's majorising curvature in units of ``R^2/sigma`` (claim C35)."""
    ratio = _checked(coupling.ratio, coupling.family.curvature_limit)
    return math.hypot(1.0, ratio * ratio * coupling.kappa) * _UP


def meat_factor(coupling: ScaleCoupling) -> float:
    """Bound on a record's squared score in units of ``(c R)^2`` (claim C36)."""
    family, ratio, kappa = coupling
    if not 0.0 <= kappa <= 2.0 * family.chi * _UP:
        raise InvalidInput(
            f"kappa / c^2 must lie in [0, {2.0 * family.chi:.6g}]; received {described(kappa)}."
        )
    return (1.0 + (ratio * max(0.5 * kappa, family.chi - 0.5 * kappa)) ** 2) * _UP


#: Grid of ``v = |u|/c``.
_STEP = 1.0 / 512.0
_REACH = 32.0


@lru_cache(maxsize=1024)
def joint_scale_mu(
    coupling: ScaleCoupling,
    majorize: bool,
    mu_gradient: float,
    mu_hessian: float,
    mu_meat: float = 0.0,
) -> float:
    """Bound the joint cost of score, curvature and meat at one parameter, rounded up."""
    scale, g, h, q = relative(mu_gradient, mu_hessian, mu_meat)
    squared = g + h + q
    if coupling.family.profile is not None:
        squared = min(squared, _largest(coupling, majorize, g, h, q))
    return scale * math.sqrt(squared) * _UP


def _largest(coupling: ScaleCoupling, majorize: bool, g: float, h: float, q: float) -> float:
    """Bound ``sup over v of g T + h H^2 + q Q^2``, beyond the grid as well (claim C37)."""
    ratio, kappa = coupling.ratio, coupling.kappa
    score, curvature, meat = _table(coupling, majorize)
    on_grid = float(np.max(g * score + h * curvature + q * meat))
    second_derivative = 16.0 * (1.0 + ratio * ratio) ** 2
    within_cell = _STEP * _STEP / 8.0 * second_derivative * (g + h + q)
    tail = 3.0 / (_REACH * _REACH)
    limit = 1.0 + (ratio * (coupling.family.chi - 0.5 * kappa)) ** 2
    tail_meat = max(float(meat[-1]), (limit / meat_factor(coupling)) ** 2) * (1.0 + tail)
    tail_curvature = tail
    if majorize:
        tail_curvature += (ratio * ratio * kappa / majorizer_factor(coupling)) ** 2
    return max(on_grid + within_cell, g + h * tail_curvature + q * tail_meat)


@lru_cache(maxsize=32)
def _table(coupling: ScaleCoupling, majorize: bool) -> tuple[Any, Any, Any]:
    """Tabulate squared relative score around its centre, curvature and meat, on the grid."""
    family, ratio, kappa = coupling
    assert family.profile is not None
    _checked(ratio, 1.0)
    v = np.arange(round(_REACH / _STEP) + 1) * _STEP
    psi, rest, slope, chord = family.profile(v)
    score = psi**2 + (ratio * rest) ** 2
    if majorize:
        curvature = np.hypot(chord, ratio**2 * kappa) / majorizer_factor(coupling)
    else:
        curvature = slope * (1.0 + (ratio * v) ** 2)
    meat = psi**2 + (ratio * (0.5 * kappa - family.chi + rest)) ** 2
    return score, curvature**2, (meat / meat_factor(coupling)) ** 2
