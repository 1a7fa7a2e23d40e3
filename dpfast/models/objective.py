"""Objectives, a loss with weights and perhaps a public ridge, and their public constants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import check_constant, detached, flag, positive, whole_number
from dpfast.errors import InvalidInput, described, understood
from dpfast.models.free_scale import FreeScale
from dpfast.models.losses import Loss
from dpfast.models.names import resolve_loss
from dpfast.models.weighting import (
    Bounded,
    Clip,
    Schweppe,
    Sides,
    Weighting,
    check_together,
    resolve_weighting,
    sides_of,
)

if TYPE_CHECKING:
    from dpfast.kernels.user_loss import CompiledLoss
    from dpfast.models.joint_scale import JointScale


class Constants(NamedTuple):
    """Public numbers that cost and noise of a joint release depend on, for a known scale."""

    dimension: int
    coupling: str
    majorizer_coupling: str
    score_bound: float
    score_diameter: float
    curvature_bound: float
    meat_bound: float
    sides: Sides | None = None
    means: bool = False
    free_scale: None = None


class Terms(NamedTuple):
    """Terms of an objective; ``n_covariates`` is None unless it is bound to columns."""

    loss: str | Loss
    scale: float | FreeScale | None = None
    weights: Weighting | None = None
    ridge: float = 0.0
    fit_intercept: bool = True
    n_covariates: int | None = None


def terms_of(loss: str | Loss | Objective) -> Terms:
    """Return the terms of an objective, or of a loss alone."""
    return loss.terms() if isinstance(loss, Objective) else Terms(loss)


#: Range in which a constant, its square and its quotient by another stay within float64.
DERIVED_RANGE = (1e-140, 1e140)


def _refuse_extreme(value: float, what: str) -> None:
    """Refuse public constants that are each in range, and together leave floating point."""
    low, high = DERIVED_RANGE
    if not low <= value <= high:
        raise InvalidInput(
            f"the {what} follows from loss, weights and scale, and would be {value:.3g}, outside "
            f"[{low:g}, {high:g}]. Choose a scale and a radius nearer to each other."
        )


@understood
class Objective:
    """A weighted M-estimation objective ``mean_i L_i(theta) + ridge/2 ||theta||^2``.

    Pass it instead of a loss.

    Parameters
    ----------
    loss : str or Loss
    weights : Mallows, Bounded, Schweppe, MallowsLinear or Clip, optional
        Bound on the influence of a record's covariates.  The default is ``Mallows(sqrt(p))``, p
        counting the intercept; :func:`dpfast.fit` without ridge, method and free scale has none.
    n_covariates : int, optional
        Columns of X, without the intercept; by default those of the X it is used with.
    fit_intercept : bool
        Add a constant term, the first coefficient.
    scale : float, FreeScale or None
        Public residual scale ``sigma``, in the units of y.  After a schema it is in the response's
        own units, not the coded ones; weights and ridge are for coded columns.  Logistic, Poisson
        and least squares have none.  Without one :func:`dpfast.fit` estimates it with part of the
        budget for "huber", "log-cosh", "pseudo-huber" and "quantile"; other functions need it.
        ``dpfast.FreeScale(low, high)`` estimates it together with the coefficients, within a
        public interval, as the last parameter "scale" (eq. (6)).  It needs Mallows or Bounded
        weights and the loss "huber", "log-cosh" or "pseudo-huber".
    ridge : float
        Public penalty ``ridge/2 ||theta||^2``, added outside the private sums; it costs nothing.

    Attributes
    ----------
    loss, weighting, n_covariates, fit_intercept, ridge
    dimension, n_coefficients : int
        Number of parameters p, a free scale included, and of entries of a design row.  These and
        the following exist after :meth:`bind`.
    scale, free_scale : float, JointScale or None
        Residual scale, its largest allowed value if free; constants of the joint loss, whose last
        parameter is the scale over its factor.
    score_bound, score_diameter : float
        ``B``, bound on the norm of one record's score (formulas page, section 2b), and the diameter
        of the set of scores, which bounds the effect of replacing a record.
    sides : Sides or None
        Geometry that makes the diameter less than twice the bound, or None.
    curvature_bound, meat_bound : float
        Bounds on the Frobenius norms of one record's Hessian and of its score's outer product.
    coupling, majorizer_coupling : str
        Accounting rule for a gradient and a Hessian (or majorising curvature) released at one
        parameter (formulas page, section 4.3).
    means : bool
        Whether records are persons who count with the mean of their rows.
    has_curvature : bool
        Whether there is a positive semidefinite Hessian with a finite bound to release.
    smoothness, score_smoothness : float
        Bound on the mean Hessian's eigenvalues, ridge included.  Bound on the change of one
        record's score over the distance of the parameters (``inf`` for clipped scores).
    self_concordance : float
        ``g`` with ``|D^3 L[v,v,v]| <= g ||v|| D^2 L[v,v]`` per record; ``inf`` if there is none.

    Other Parameters
    ----------------
    theta : ndarray of shape (p,)
        Of methods: a parameter.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("huber", dpfast.Mallows(2.0), scale=1.0, ridge=0.1)
    >>> dpfast.fit(X, y, objective, privacy=1.0).names
    ('intercept', 'x1')
    >>> objective.bind(1).score_bound
    2.69
    """

    _terms: Terms | None = None  # of an objective for any number of columns
    means = False

    def __init__(
        self,
        loss: str | Loss,
        weights: Weighting | None = None,
        n_covariates: int | None = None,
        *,
        fit_intercept: bool = True,
        scale: float | FreeScale | None = None,
        ridge: float = 0.0,
    ) -> None:
        self.fit_intercept = flag(fit_intercept, "fit_intercept")
        if n_covariates is None:
            self._set_terms(loss, weights, scale, ridge)
        else:
            loss = resolve_loss(loss)
            self.n_covariates = whole_number(n_covariates, "n_covariates")
            self._set_parts(loss, weights, scale, ridge)
            self._set_score_bounds()
            self._set_curvature_bounds()

    def _set_terms(
        self,
        loss: str | Loss,
        weights: Weighting | None,
        scale: float | FreeScale | None,
        ridge: float,
    ) -> None:
        """Set the terms of an objective for any number of columns."""
        self.loss = resolve_loss(loss, unbounded=True)
        terms = _terms(self.loss, scale, weights, ridge)
        name_or_loss = loss if isinstance(loss, str) else self.loss
        self._terms = terms._replace(loss=name_or_loss, fit_intercept=self.fit_intercept)
        self.ridge = terms.ridge

    def _set_parts(
        self,
        loss: Loss,
        weights: Weighting | None,
        scale: float | FreeScale | None,
        ridge: float,
    ) -> None:
        """Set loss, weights, scale and ridge for a known number of columns, or refuse them."""
        fit_intercept = self.fit_intercept
        self.n_coefficients = self.n_covariates + int(fit_intercept)
        # copies: bounds and kernels are made of them at different times
        self.loss = detached(loss._for_records(None, self.n_coefficients))
        self.weighting = detached(resolve_weighting(weights, self.n_coefficients))
        self._given_weights = None if weights is None else self.weighting
        self.free_scale: JointScale | None = None
        if isinstance(scale, FreeScale):
            from dpfast.models.joint_scale import joint_scale

            self.free_scale = joint_scale(self.loss, self.weighting, scale)
            self.scale = scale.high
        else:
            self.scale = _resolve_scale(self.loss, scale)
        self.dimension = self.n_coefficients + int(self.free_scale is not None)
        self.ridge = _resolve_ridge(ridge)
        check_together(self.weighting, self.loss, fit_intercept)
        if self.free_scale is not None and self.ridge:
            raise InvalidInput(
                "a free scale cannot be combined with a ridge penalty, whose weight beside the "
                f"loss would change with the estimated scale; received ridge={described(ridge)}."
            )

    def _set_score_bounds(self) -> None:
        """Bound one record's score, the diameter of all scores and the squared score."""
        loss, weighting = self.loss, self.weighting
        radius = weighting.radius
        self.score_bound = radius if isinstance(weighting, Clip) else loss.psi_bound * radius
        _refuse_extreme(self.score_bound, "largest score of a record")
        self.sides = sides_of(loss, weighting, self.fit_intercept)
        self.score_diameter = (self.sides.diameter if self.sides else 2.0) * self.score_bound
        self.meat_bound = self.score_bound**2
        if self.free_scale is not None:
            self.meat_bound *= self.free_scale.meat
            self.score_bound *= math.sqrt(self.free_scale.meat)

    def _set_curvature_bounds(self) -> None:
        """Bound one record's Hessian, the smoothness and the self-concordance."""
        loss, weighting = self.loss, self.weighting
        radius = weighting.radius
        self.has_curvature = weighting.has_curvature and loss.has_curvature
        self.coupling = loss.coupling if self.has_curvature else "independent"
        self.majorizer_coupling = loss.majorizer_coupling if self.has_curvature else "independent"
        steepest = math.inf
        if weighting.has_curvature:
            steepest = loss.psi_prime_bound * radius**2 / self.scale
        if self.free_scale is not None:
            # A bound for every allowed scale; smoothness_at is that of one.
            steepest *= self.free_scale.curvature * self.scale / self.free_scale.low
            # The scale's coordinate is not collinear with the row: charged by claim C37.
            self.coupling = self.majorizer_coupling = "none"
        if weighting.has_curvature:
            _refuse_extreme(steepest, "largest curvature of a record")
        self.curvature_bound = steepest if self.has_curvature else math.inf
        self.score_smoothness = steepest * loss.score_slope
        self.smoothness = steepest + self.ridge
        # Schweppe's scaled row and a declared ball are bounded themselves (paper 1, Lemma 3);
        # Mallows weights bound ||x||^2 w alone.
        if isinstance(weighting, (Bounded, Schweppe)) and self.free_scale is None:
            self.self_concordance = loss.self_concordance * radius / self.scale
        else:
            self.self_concordance = math.inf

    @property
    def bound(self) -> bool:
        """``True`` once the number of columns is known."""
        return self._terms is None

    def bind(self, n_covariates: int) -> Objective:
        """Fix the number of covariates and compute the public constants that depend on it."""
        if self._terms is None:
            if n_covariates != self.n_covariates:
                raise InvalidInput(
                    f"{self!r} is for {self.n_covariates} covariates; received "
                    f"{described(n_covariates)}."
                )
            return self
        return Objective(**self._terms._replace(n_covariates=n_covariates)._asdict())

    def terms(self) -> Terms:
        """Return loss, scale, weights, ridge, intercept and number of columns."""
        if self._terms is not None:
            return self._terms
        joint = self.free_scale
        scale: float | FreeScale | None = self.scale if self.loss.needs_scale else None
        if joint is not None:
            scale = FreeScale(joint.low, joint.high, joint.start)
        columns = self.fit_intercept, self.n_covariates
        return Terms(self.loss, scale, self._given_weights, self.ridge, *columns)

    def constants(self) -> Constants | None:
        """Return the numbers that cost and noise depend on; None with a free scale."""
        if self.free_scale is not None:
            return None
        return Constants(
            self.dimension, self.coupling, self.majorizer_coupling, self.score_bound,
            self.score_diameter, self.curvature_bound, self.meat_bound, self.sides, self.means,
        )  # fmt: skip

    def curvature_refusal(self) -> str:
        """Write the reason why no Hessian exists, for error messages."""
        if not self.loss.has_curvature:
            return self.loss.curvature_refusal
        return f"{self.weighting!r} has no Hessian: {self.weighting.no_curvature_reason}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each answer a curator can give about this objective."""
        p = self.dimension
        return {"gradient": (p,), "hessian": (p, p), "meat": (p, p)}

    @property
    def curvature_peaks_at_zero(self) -> bool:
        """``True`` if every record's Hessian is largest where its residual is zero."""
        if self.dimension != self.n_covariates + int(self.fit_intercept):
            return False  # a free scale: the residual itself is part of the direction
        at_zero = float(self.loss.psi_prime(np.zeros(1))[0])
        return at_zero >= self.loss.psi_prime_bound * (1.0 - 1e-12)

    def ridge_gradient(self, theta: NDArray[np.float64]) -> NDArray[np.float64] | float:
        """Return the gradient of the public penalty, shape (p,), or 0 without one."""
        return self.ridge * theta if self.ridge else 0.0

    def check_step(self, step_size: float) -> None:
        """Refuse a step so long that the public penalty alone makes every descent diverge.

        Parameters
        ----------
        step_size : float
        """
        step_size = positive(step_size, "step_size")
        if not step_size * max(1.0, self.score_bound) <= DERIVED_RANGE[1]:
            raise InvalidInput(
                f"steps of size {described(step_size)} leave floating point. Pass a smaller step."
            )
        if step_size * self.ridge >= 2.0:
            raise InvalidInput(
                f"with the penalty ridge={self.ridge:g} steps of size {described(step_size)} "
                f"diverge for any data. Pass a step size below 1/ridge = {1.0 / self.ridge:g}."
            )

    def scale_at(self, theta: NDArray[np.float64]) -> float:
        """Return the residual scale at a parameter."""
        joint = self.free_scale
        return self.scale if joint is None else joint.factor * float(theta[-1])

    def smoothness_at(self, theta: NDArray[np.float64]) -> float:
        """Bound the largest eigenvalue of the mean Hessian at a parameter, ridge included."""
        joint = self.free_scale
        if joint is None:
            return self.smoothness
        radius = self.weighting.radius
        return self.loss.psi_prime_bound * radius**2 * joint.curvature / self.scale_at(theta)

    def project(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Project a free scale into its interval; other coordinates do not change, shape (p,)."""
        joint = self.free_scale
        if joint is None:
            return theta
        scale = joint.factor * theta[-1]
        scale = min(max(scale, joint.low), joint.high) if scale == scale else joint.start
        return np.append(theta[:-1], scale / joint.factor)

    def origin(self) -> NDArray[np.float64]:
        """Return the public start, shape (n_coefficients,): zero but for some losses' intercept."""
        start = np.zeros(self.n_coefficients)
        if self.fit_intercept:
            start[0] = self.loss.start
        return start

    def units(self) -> NDArray[np.float64]:
        """Return the factors from parameters to coefficients and scale, shape (p,)."""
        result = np.ones(self.dimension)
        if self.free_scale is not None:
            result[-1] = self.free_scale.factor
        return result

    def kernel_arguments(
        self,
    ) -> tuple[int, float, float, int, float, bool, float, float, float, CompiledLoss | None]:
        """Return the arguments of the compiled kernels, in their order."""
        joint = self.free_scale
        return (
            self.loss.code,
            self.loss.c,
            self.scale,
            self.weighting.code,
            self.weighting.radius,
            self.fit_intercept,
            0.0 if joint is None else joint.factor,
            0.0 if joint is None else joint.kappa,
            self.loss.h,
            self.loss.compiled,
        )

    def __repr__(self) -> str:
        if self._terms is not None:
            _, public_scale, weights, ridge, intercept, _ = self._terms
            parts = [repr(self.loss), *([] if weights is None else [repr(weights)])]
            parts += [] if public_scale is None else [f"scale={public_scale!r}"]
            parts += [f"ridge={ridge:g}"] if ridge else []
            parts += [] if intercept else ["fit_intercept=False"]
            return f"Objective({', '.join(parts)})"
        parts = [repr(self.loss), repr(self.weighting)]
        if self.free_scale is not None:
            parts.append(f"scale in [{self.free_scale.low:g}, {self.free_scale.high:g}]")
        elif self.loss.needs_scale:
            parts.append(f"scale={self.scale:g}")
        if self.ridge:
            parts.append(f"ridge={self.ridge:g}")
        return f"Objective({', '.join(parts)}, dimension={self.dimension})"


def _terms(
    loss: Loss, scale: float | FreeScale | None, weights: Weighting | None, ridge: float
) -> Terms:
    """Check the settings as far as possible without the number of columns."""
    if weights is not None:
        weights = resolve_weighting(weights, 1)
    if scale is not None and not (loss.needs_scale and isinstance(scale, FreeScale)):
        scale = _resolve_scale(loss, scale)
    return Terms(loss, scale, weights, _resolve_ridge(ridge))


def _resolve_scale(loss: Loss, scale: float | FreeScale | None) -> float:
    if not loss.needs_scale:
        if scale is not None:
            robust = ', or name a robust loss: dpfast.Objective("log-cosh", scale=...)'
            raise InvalidInput(
                f"scale is not a parameter of the {loss.name} loss; received {described(scale)}. "
                f"Omit it{robust if loss.link == 'identity' else ''}."
            )
        return 1.0
    if scale is None:
        raise InvalidInput(
            f"the {loss.name} loss needs scale=..., a public number: the typical size of a "
            "residual in the units of y. It was not given, and no bound is estimated unpaid. Pass "
            f'dpfast.Objective("{loss.name}", scale=...) with a value known from outside these '
            "data, or with scale=dpfast.FreeScale(low, high); where "
            'nothing is declared dpfast.fit buys one for "log-cosh", "huber" and "quantile".'
        )
    return check_constant(scale, "scale", "public residual scale, in the units of y")


def _resolve_ridge(ridge: float) -> float:
    if isinstance(ridge, (int, float)) and not isinstance(ridge, bool) and ridge == 0:
        return 0.0
    return check_constant(ridge, "ridge", "public ridge penalty")
