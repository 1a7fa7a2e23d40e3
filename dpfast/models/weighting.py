"""Weightings, which bound the influence of one record's covariates."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from dpfast.arguments import check_constant, refuse_own_class
from dpfast.errors import InvalidInput, described, understood
from dpfast.models.losses import Loss


@understood
class Weighting:
    """Base of the weightings.

    Attributes
    ----------
    radius : float
        Public bound, in the units of the covariates (:class:`Clip`: of the score).
    has_curvature, has_loss : bool
        Whether the weighted loss has a Hessian with a finite bound; whether the weighted scores are
        the gradient of a loss.
    no_curvature_reason : str
        Why there is no such Hessian.

    Parameters
    ----------
    radius : float
        Norm of a row, the intercept's 1 included, beyond which its influence is cut; public.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    has_curvature: ClassVar[bool] = True
    has_loss: ClassVar[bool] = True
    no_curvature_reason: ClassVar[str] = ""
    radius_meaning: ClassVar[str]

    def __init__(self, radius: float) -> None:
        self.radius = check_constant(radius, "radius", self.radius_meaning)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(radius={self.radius:g})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weighting):
            return False
        return type(self) is type(other) and self.radius == other.radius

    def __hash__(self) -> int:
        return hash((type(self), self.radius))


class Bounded(Weighting):
    """No weights: the covariates lie in a declared ball, and records outside are projected.

    Only the covariates are scaled towards the origin; the intercept stays 1.

    Parameters
    ----------
    radius : float
        Of a row, the intercept's 1 included: above 1 with an intercept.  Public.

    Examples
    --------
    >>> dpfast.Bounded(2.0).radius
    2.0
    """

    name = "bounded"
    code = 0
    radius_meaning = "the declared bound on the norm of a row, intercept included"


class Mallows(Weighting):
    """Mallows weights ``w = min(1, R^2 / ||x||^2)``: no bound on the data is needed.

    Equations (6), (7) and (10) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).  The square makes
    both ``||x|| w <= R`` and ``||x||^2 w <= R^2`` hold; with the first power (as printed in
    Appendix G) the Hessian has no bound at all.

    Parameters
    ----------
    radius : float
        Norm of a row, the intercept's 1 included, beyond which its influence is cut; public.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("huber", weights=dpfast.Mallows(1.5), scale=1.0)
    >>> dpfast.fit(X, y, objective, privacy=1.0).names
    ('intercept', 'x1')
    """

    name = "mallows"
    code = 1
    radius_meaning = "rows with a norm above it are down-weighted"


class Clip(Weighting):
    """Each record's score is scaled down to a norm of at most ``radius``.

    The comparison method of the literature: it biases generalised linear models, and it has no
    Hessian, hence no Newton step and no sandwich covariance.

    Parameters
    ----------
    radius : float
        Largest norm of a record's contribution; public.

    Examples
    --------
    >>> dpfast.models.Clip(2.0).radius
    2.0
    """

    name = "clip"
    code = 2
    has_curvature = False
    has_loss = False
    no_curvature_reason = "clipped scores are not the gradient of a loss"
    radius_meaning = "the largest norm of one record's score"


class Schweppe(Weighting):
    """Schweppe weights: ``v = min(1, C / ||x||)`` scales the whole row and the residual.

    Section 4.3 and lemma 3 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).  The loss of a record
    is ``sigma * rho((y - x'theta) v / sigma)``: a record far out is rewritten at distance C,
    intercept included.  The row itself is bounded, so the loss has a public self-concordance
    constant ``g C / sigma`` (lemma 3) and allows the steps of section 4.4.2.

    Parameters
    ----------
    radius : float
        Norm of a row, the intercept's 1 included, beyond which its influence is cut; public.

    Examples
    --------
    >>> dpfast.models.Schweppe(2.0).radius
    2.0
    """

    name = "schweppe"
    code = 3
    radius_meaning = "rows with a norm above it are scaled down to it"


class MallowsLinear(Weighting):
    """Mallows weights ``w = min(1, R / ||x||)``, for gradients only.

    Equation (6) with the printed weights of paper 1 (Avella-Medina, Bradshaw and Loh 2023).  It
    bounds the score, ``||x|| w <= R``, and down-weights far records less than :class:`Mallows`
    does.  But ``||x||^2 w`` has no bound: no Hessian, Newton step or interval (formulas page,
    section 0, item 4).

    Parameters
    ----------
    radius : float
        Norm of a row, the intercept's 1 included, beyond which its influence is cut; public.

    Examples
    --------
    >>> dpfast.models.MallowsLinear(2.0).radius
    2.0
    """

    name = "mallows-linear"
    code = 4
    has_curvature = False
    no_curvature_reason = "||x||^2 min(1, R/||x||) has no finite bound"
    radius_meaning = "rows with a norm above it are down-weighted"


def resolve_weighting(weights: Weighting | None, dimension: int) -> Weighting:
    """Turn the ``weights`` argument into a weighting."""
    if weights is None:
        return Mallows(math.sqrt(max(dimension, 2)))
    if isinstance(weights, Weighting):
        refuse_own_class(weights, "Pass one of dpfast's own weightings.")
        return weights
    raise InvalidInput(
        "weights must be dpfast.Mallows(radius), dpfast.Bounded(radius), "
        "dpfast.models.Schweppe(radius), dpfast.models.MallowsLinear(radius), "
        "dpfast.models.Clip(radius) or None (Mallows with radius sqrt(p)); received "
        f"{described(weights, text=True)}."
    )


def check_together(weighting: Weighting, loss: Loss, fit_intercept: bool) -> None:
    """Refuse weights that a loss, or an intercept, leaves without meaning."""
    if isinstance(weighting, Schweppe) and not loss.needs_scale:
        raise InvalidInput(
            f"{described(weighting)} scales the residual of a record together with its "
            f"covariates, and the {loss.name} loss is not a function of a residual: P(y = 1) "
            "would change. Use "
            "weights=dpfast.Mallows(radius) or dpfast.Bounded(radius)."
        )
    if isinstance(weighting, Bounded) and fit_intercept and weighting.radius <= 1.0:
        raise InvalidInput(
            f"Bounded(radius={weighting.radius:g}) leaves no room for covariates beside the "
            "intercept, whose value 1 counts in the norm of a row. Pass a radius above 1."
        )


class Sides(NamedTuple):
    """Scores with a longer and a shorter side, of rows with an intercept (claim C75)."""

    #: Bound on the shorter side's ``|psi|``, relative to the longer one's.
    short: float
    #: Squared radius of the weights.
    square: float
    #: Whether rows may be far away: with next to no score, and any curvature.
    far: bool

    @property
    def diameter(self) -> float:
        """Diameter of the set of scores, in bounds on one score."""
        square = max(self.square, 2.0) if self.far else self.square
        return min(2.0, max(1.0 + self.short, 2.0 * math.sqrt(1.0 - 1.0 / square)) * (1 + 2**-48))


def sides_of(loss: Loss, weighting: Weighting, fit_intercept: bool) -> Sides | None:
    """Bound scores of either sign more sharply than by their norm, if that is possible."""
    if not (fit_intercept and loss.short_side < 1.0 and isinstance(weighting, (Bounded, Mallows))):
        return None
    return Sides(loss.short_side, weighting.radius**2, isinstance(weighting, Mallows))
