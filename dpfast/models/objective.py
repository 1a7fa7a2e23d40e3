"""Objective = loss x weighting (+ public ridge): what is minimised, and its public constants."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput
from dpfast.kernels.user_loss import CompiledLoss
from dpfast.models.losses import Loss, check_constant
from dpfast.models.weighting import Bounded, Clip, Schweppe, Weighting

__all__ = ["Objective"]


class Objective:
    """A weighted M-estimation objective ``mean_i L_i(theta) + ridge/2 ||theta||^2``.

    Parameters
    ----------
    loss : Loss
    weighting : Weighting
    n_covariates : int
        Columns of X, without the intercept.
    fit_intercept : bool
    scale : float or None
        Public residual scale ``sigma``; required by the Huber family, refused by the logistic.
    ridge : float
        Public penalty; it is added outside the private sums and costs nothing.

    Attributes
    ----------
    dimension : int
        Number of parameters p.
    score_bound : float
        ``B``: bound on the norm of one record's score (formulas page, section 2b).
    score_diameter : float
        Diameter of the set of scores, the quantity that replacing a record can move.
    curvature_bound : float
        ``Bbar``: bound on the Frobenius norm of one record's Hessian.
    meat_bound : float
        Bound on the Frobenius norm of one record's score outer product, ``B^2``.
    coupling, majorizer_coupling : str
        Accounting rule for a gradient and a Hessian (or majorising curvature) released at one
        parameter (formulas page, section 4.3).
    has_curvature : bool
        Whether there is a positive semidefinite Hessian with a finite bound to release.
    smoothness : float
        Largest absolute eigenvalue the mean Hessian can have, ridge included.
    score_smoothness : float
        Largest ratio of a change of one record's score to the distance of the parameters (``inf``
        for clipped scores); the ridge has no part in it.
    self_concordance : float
        ``g`` with ``|D^3 L[v,v,v]| <= g ||v|| D^2 L[v,v]`` per record; ``inf`` if there is none.
    """

    def __init__(
        self,
        loss: Loss,
        weighting: Weighting,
        n_covariates: int,
        *,
        fit_intercept: bool = True,
        scale: float | None = None,
        ridge: float = 0.0,
    ) -> None:
        self.loss = loss
        self.weighting = weighting
        self.n_covariates = n_covariates
        self.fit_intercept = fit_intercept
        self.dimension = n_covariates + int(fit_intercept)
        self.scale = _resolve_scale(loss, scale)
        self.ridge = _resolve_ridge(ridge)
        if isinstance(weighting, Schweppe) and not loss.needs_scale:
            raise InvalidInput(
                f"{weighting!r} scales the residual of a record together with its covariates, and "
                f"the {loss.name} loss is not a function of a residual: P(y = 1) would change. Use "
                "weights=dpfast.Mallows(radius) or dpfast.Bounded(radius)."
            )
        if isinstance(weighting, Bounded) and fit_intercept and weighting.radius <= 1.0:
            raise InvalidInput(
                f"Bounded(radius={weighting.radius:g}) leaves no room for covariates beside the "
                "intercept, whose value 1 counts in the norm of a row. Pass a radius above 1."
            )
        radius = weighting.radius
        self.score_bound = radius if isinstance(weighting, Clip) else loss.psi_bound * radius
        self.score_diameter = 2.0 * self.score_bound
        self.meat_bound = self.score_bound**2
        self.has_curvature = weighting.has_curvature and loss.has_curvature
        self.coupling = loss.coupling if self.has_curvature else "independent"
        self.majorizer_coupling = loss.majorizer_coupling if self.has_curvature else "independent"
        steepest = math.inf
        if weighting.has_curvature:
            steepest = loss.psi_prime_bound * radius**2 / self.scale
        self.curvature_bound = steepest if self.has_curvature else math.inf
        self.score_smoothness = steepest
        self.smoothness = steepest + self.ridge
        # Schweppe's scaled row and a declared ball are bounded themselves (paper 1, Lemma 3);
        # Mallows weights bound ||x||^2 w alone.
        if isinstance(weighting, (Bounded, Schweppe)):
            self.self_concordance = loss.self_concordance * radius / self.scale
        else:
            self.self_concordance = math.inf

    def curvature_refusal(self) -> str:
        """Why there is no Hessian, for error messages."""
        if not self.loss.has_curvature:
            return self.loss.curvature_refusal
        return f"{self.weighting!r} has no Hessian: {self.weighting.no_curvature_reason}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each answer a curator can give about this objective."""
        p = self.dimension
        return {"gradient": (p,), "hessian": (p, p), "meat": (p, p)}

    def ridge_gradient(self, theta: NDArray[np.float64]) -> NDArray[np.float64] | float:
        """Gradient of the public penalty."""
        return self.ridge * theta if self.ridge else 0.0

    def kernel_arguments(
        self,
    ) -> tuple[int, float, float, int, float, bool, float, float, float, CompiledLoss | None]:
        """The arguments of the compiled kernels, in their order; the scale is not free."""
        return (
            self.loss.code,
            self.loss.c,
            self.scale,
            self.weighting.code,
            self.weighting.radius,
            self.fit_intercept,
            0.0,
            0.0,
            self.loss.h,
            self.loss.compiled,
        )

    def __repr__(self) -> str:
        parts = [repr(self.loss), repr(self.weighting)]
        if self.loss.needs_scale:
            parts.append(f"scale={self.scale:g}")
        if self.ridge:
            parts.append(f"ridge={self.ridge:g}")
        return f"Objective({', '.join(parts)}, dimension={self.dimension})"


def _resolve_scale(loss: Loss, scale: float | None) -> float:
    if not loss.needs_scale:
        if scale is not None:
            raise InvalidInput(
                f"scale is not a parameter of the {loss.name} loss; received {scale!r}. Omit it."
            )
        return 1.0
    if scale is None:
        raise InvalidInput(
            f"the {loss.name} loss needs scale=..., a public number: the typical size of a "
            "residual in the units of y. It was not given, and dpfast never estimates a bound "
            "from the data behind your back. Pass a value known from outside these data."
        )
    return check_constant(scale, "scale", "public residual scale, in the units of y")


def _resolve_ridge(ridge: float) -> float:
    if isinstance(ridge, (int, float)) and not isinstance(ridge, bool) and ridge == 0:
        return 0.0
    return check_constant(ridge, "ridge", "public ridge penalty")
