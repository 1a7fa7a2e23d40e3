"""Sensitivities of the joint loss of coefficients and scale (claims C34 to C37 of PROOFS.md).

Parameters are ``(beta, z)`` with scale ``sigma = f z``, f public; ``c`` is the corner of the loss,
``R`` the radius of the weights, ``(||x|| w/R)^2 <= w <= 1``, and ``ratio = f c/R``.  A record has

* score ``w (-psi(u) x, f (kappa/2 - chi(u)))``, in units of ``c R``;
* Hessian ``(w psi'(u)/sigma) a a'`` with ``a = (x, f u)``, in units of ``R^2/sigma``;
* majorising curvature ``(w/sigma) diag((psi(u)/u) x x', f^2 kappa)``, in the same units.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.privacy.sensitivity import _UP

__all__ = [
    "ScaleCoupling",
    "curvature_factor",
    "joint_scale_mu",
    "majorizer_factor",
    "meat_factor",
    "score_diameter",
]

GOLDEN_RATIO = (1.0 + math.sqrt(5.0)) / 2.0

#: ``sup chi / c^2``.
_CHI = {"huber": 0.5, "log-cosh": math.log(2.0), "pseudo-huber": 1.0}

#: Largest ratio at which the scale's coordinate adds nothing to the sensitivity of the score
#: (claim C34; rounded down).
SCORE_LIMIT = {
    "huber": GOLDEN_RATIO**2.5 * (1.0 - 1e-12),
    "log-cosh": 1.0 / math.log(2.0) * (1.0 - 1e-12),
    "pseudo-huber": 1.0,
}

#: Largest ratio at which the scale's coordinate adds nothing to the Hessian's bound (claim C35;
#: rounded down).  Huber's has none.
CURVATURE_LIMIT = {"huber": 2.0, "log-cosh": 1.0, "pseudo-huber": 1.22}


class ScaleCoupling(NamedTuple):
    """What decides the joint cost of quantities released at one parameter.

    Attributes
    ----------
    family : str
        ``"huber"``, ``"log-cosh"`` or ``"pseudo-huber"``.
    ratio : float
        ``f c/R``.
    kappa : float
        ``kappa / c^2``.
    """

    family: str
    ratio: float
    kappa: float


def _checked(family: str, ratio: float, limits: dict[str, float]) -> float:
    if family not in limits:
        raise InvalidInput(
            f"family must be one of {sorted(limits)}; received {described(family, text=True)}."
        )
    if not 0.0 < ratio <= limits[family]:
        raise InvalidInput(
            f"the ratio f c/R of the {family} loss must lie in (0, {limits[family]:.6g}]; received "
            f"{described(ratio)}."
        )
    return ratio


def score_diameter(family: str, score_bound: float, ratio: float) -> float:
    """Diameter of the set of scores: ``2 c R``, as if the scale were known (claim C34).

    Parameters
    ----------
    score_bound : float
        ``c R``.
    """
    _checked(family, ratio, SCORE_LIMIT)
    return 2.0 * score_bound


def curvature_factor(family: str, ratio: float) -> float:
    """Bound on a record's Hessian in units of ``R^2/sigma`` (claim C35)."""
    _checked(family, ratio, CURVATURE_LIMIT)
    return (1.0 + ratio * ratio) * _UP if family == "huber" else 1.0


def majorizer_factor(coupling: ScaleCoupling) -> float:
    """Bound on a record's majorising curvature in units of ``R^2/sigma`` (claim C35)."""
    ratio = _checked(coupling.family, coupling.ratio, CURVATURE_LIMIT)
    return math.hypot(1.0, ratio * ratio * coupling.kappa) * _UP


def meat_factor(coupling: ScaleCoupling) -> float:
    """Bound on a record's squared score in units of ``(c R)^2`` (claim C36)."""
    family, ratio, kappa = coupling
    if not 0.0 <= kappa <= 2.0 * _CHI[family] * _UP:
        raise InvalidInput(
            f"kappa / c^2 must lie in [0, {2.0 * _CHI[family]:.6g}]; received {described(kappa)}."
        )
    return (1.0 + (ratio * max(0.5 * kappa, _CHI[family] - 0.5 * kappa)) ** 2) * _UP


def joint_scale_mu(
    coupling: ScaleCoupling,
    majorize: bool,
    mu_gradient: float,
    mu_hessian: float,
    mu_meat: float = 0.0,
) -> float:
    """What releasing score, curvature and meat at one parameter costs together, rounded up.

    Parameters
    ----------
    coupling : ScaleCoupling
    majorize : bool
        Whether the curvature is the majorising one.
    mu_gradient, mu_hessian, mu_meat : float
        What each costs on its own, with noise for the sensitivities ``2 c R/n`` (score) and
        ``sqrt(2) * bound / n`` (matrices); 0 leaves a quantity out.

    Returns
    -------
    float
        At most ``sqrt(mu_gradient^2 + mu_hessian^2 + mu_meat^2)`` (claim C37).
    """
    return _joint_scale_mu(coupling, majorize, mu_gradient, mu_hessian, mu_meat)


#: Grid of ``v = |u|/c``.
_STEP = 1.0 / 512.0
_REACH = 32.0


@lru_cache(maxsize=1024)
def _joint_scale_mu(
    coupling: ScaleCoupling, majorize: bool, mu_g: float, mu_h: float, mu_q: float
) -> float:
    scale = max(mu_g, mu_h, mu_q)
    if not (0.0 < scale < math.inf and min(mu_g, mu_h, mu_q) >= 0.0):
        raise InvalidInput(
            "the mu of each quantity must be finite and at least 0, one of them positive; received "
            f"gradient {described(mu_g)}, hessian {described(mu_h)}, meat {described(mu_q)}."
        )
    g, h, q = (mu_g / scale) ** 2, (mu_h / scale) ** 2, (mu_q / scale) ** 2
    squared = g + h + q
    if coupling.family != "huber":
        squared = min(squared, _largest(coupling, majorize, g, h, q))
    return scale * math.sqrt(squared) * _UP


def _largest(coupling: ScaleCoupling, majorize: bool, g: float, h: float, q: float) -> float:
    """``sup over v of g T + h H^2 + q Q^2``, bounded and not just searched for (claim C37)."""
    ratio, kappa = coupling.ratio, coupling.kappa
    score, curvature, meat = _table(coupling, majorize)
    inside = float(np.max(g * score + h * curvature + q * meat))
    bend = 16.0 * (1.0 + ratio * ratio) ** 2
    between = _STEP * _STEP / 8.0 * bend * (g + h + q)
    far = 3.0 / (_REACH * _REACH)
    limit = 1.0 + (ratio * (_CHI[coupling.family] - 0.5 * kappa)) ** 2
    far_meat = max(float(meat[-1]), (limit / meat_factor(coupling)) ** 2) * (1.0 + far)
    far_curvature = far
    if majorize:
        far_curvature += (ratio * ratio * kappa / majorizer_factor(coupling)) ** 2
    return max(inside + between, g + h * far_curvature + q * far_meat)


@lru_cache(maxsize=32)
def _table(coupling: ScaleCoupling, majorize: bool) -> tuple[Any, Any, Any]:
    """Squared relative score around its centre, curvature and meat, on the grid."""
    family, ratio, kappa = coupling
    _checked(family, ratio, {"log-cosh": 1.0, "pseudo-huber": 1.0})
    v = np.arange(round(_REACH / _STEP) + 1) * _STEP
    positive = np.maximum(v, _STEP)
    if family == "log-cosh":
        psi = np.tanh(v)
        e = np.exp(-2.0 * v)
        rest = np.log1p(e) + 2.0 * v * e / (1.0 + e)  # sup chi - chi
        slope, chord = 1.0 - psi * psi, np.where(v > 0.0, psi / positive, 1.0)
    else:
        root = np.hypot(1.0, v)
        psi, rest = v / root, 1.0 / root
        slope, chord = root**-3.0, 1.0 / root
    score = psi**2 + (ratio * rest) ** 2
    if majorize:
        curvature = np.hypot(chord, ratio**2 * kappa) / majorizer_factor(coupling)
    else:
        curvature = slope * (1.0 + (ratio * v) ** 2)
    meat = psi**2 + (ratio * (0.5 * kappa - _CHI[family] + rest)) ** 2
    return score, curvature**2, (meat / meat_factor(coupling)) ** 2
