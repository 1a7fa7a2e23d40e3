"""How one record's covariates are kept from having unbounded influence.

A weighting, with the bounded ``psi`` of a loss, gives every record a public bound on its score
and curvature.  The norm of a record is that of its full row, intercept included.
"""

from __future__ import annotations

import math
from typing import ClassVar

from dpfast.errors import InvalidInput
from dpfast.models.losses import check_constant

__all__ = ["Bounded", "Clip", "Mallows", "Weighting", "resolve_weighting"]


class Weighting:
    """Base of the weightings.

    Attributes
    ----------
    radius : float
        Public bound, in the units of the covariates (:class:`Clip`: of the score).
    code : int
        Number by which the compiled kernels know the weighting.
    has_curvature : bool
        Whether the weighted loss has a Hessian with a finite bound.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    has_curvature: ClassVar[bool] = True
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

    Only the covariates are scaled towards the origin; the intercept stays 1, so with an
    intercept the radius must exceed 1.
    """

    name = "bounded"
    code = 0
    radius_meaning = "the declared bound on the norm of a row, intercept included"


class Mallows(Weighting):
    """Mallows weights ``w = min(1, R^2 / ||x||^2)``: no bound on the data is needed.

    The square makes both ``||x|| w <= R`` and ``||x||^2 w <= R^2`` hold; with the first power
    (as printed in Appendix G of Avella-Medina et al.) the Hessian has no bound at all.
    """

    name = "mallows"
    code = 1
    radius_meaning = "rows with a norm above it are down-weighted"


class Clip(Weighting):
    """Each record's score is scaled down to a norm of at most ``radius``.

    The comparison method of the literature: it biases generalised linear models, and it has no
    Hessian, hence no Newton step and no sandwich covariance.
    """

    name = "clip"
    code = 2
    has_curvature = False
    radius_meaning = "the largest norm of one record's score"


def resolve_weighting(weights: Weighting | None, dimension: int) -> Weighting:
    """Turn the ``weights`` argument into a weighting.

    ``None`` means :class:`Mallows` with radius ``sqrt(dimension)``: valid for any data, and
    close to unweighted for covariates that were scaled to order one.
    """
    if weights is None:
        return Mallows(math.sqrt(max(dimension, 2)))
    if isinstance(weights, Weighting):
        return weights
    raise InvalidInput(
        "weights must be dpfast.Mallows(radius), dpfast.Bounded(radius), dpfast.Clip(radius) or "
        f"None (Mallows with radius sqrt(p)); received {weights!r}."
    )
