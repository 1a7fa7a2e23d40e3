"""What a fit buys of what was not declared: columns, response and residual scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.front.request import Request
from dpfast.inference.guarantees import Guarantee
from dpfast.models import FreeScale, Loss, Objective, resolve_loss
from dpfast.models.losses import check_constant
from dpfast.optimize import AdaptiveNewton
from dpfast.optimize.answers import Answers
from dpfast.optimize.protocol import answers_only
from dpfast.optimize.road.run import few
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.locations import COUNT_SHARE, COUNTS
from dpfast.regression.scarce import only_the_mean
from dpfast.regression.standardise import Handed, Purchase, Standardized, checked_standardize

__all__ = [
    "BoughtUnits",
    "bought_units",
    "least_share",
]

#: Where the residual scale is looked for, in spreads of the response: it is at most about one of
#: them, and a heavy-tailed response has the spread of its bulk.
SCALES = FreeScale(1e-3, 10.0, 1.0)

#: A scale that was given is held to this range of spreads of the response: what is bought never
#: makes a fit refuse that was paid for.
FARTHEST = (1e-30, 1e30)

#: Share of ``mu^2`` for units where records are many, and what is added where they are few.
BOUGHT, BOUGHT_OF_FEW = 0.02, 0.05

#: Most that is spent on units, of mu^2; and the noise of a count, as a part of n, to spend it for.
MOST, ENOUGH = 0.25, 0.05

#: Share of mu^2 for the pilot of a loss whose scale has to be known roughly: least, most, and
#: ``n mu`` in ``p^1.5`` that it should have to itself.
PILOT_LEAST, PILOT_MOST, PILOT_NEEDS = 0.02, 0.2, 60.0

Array = NDArray[np.float64]


class Pilot:
    """A short fit of another loss in bought units: a scale and where to begin.

    Parameters
    ----------
    request : Request
    mu : float
        What it may spend.
    ledger : Ledger
        That pays.

    Privacy
    -------
    A fit with a free scale (claims C34 to C37) that composes with what follows (C9); of one row of
    each person where these count with the mean of theirs (C67).
    """

    def __init__(self, request: Request, mu: float, ledger: Ledger) -> None:
        self._request, self._ledger = request, ledger
        self._objective = request.objective(
            "log-cosh", scale=None, weights=None, ridge=0.0, free_scale=SCALES
        )
        self._method = AdaptiveNewton()
        self._budgets = self._method.plan(self._objective, request.n, mu, False)
        self._method.check(self._answers(), self._budgets)  # refuses an impossible budget

    def _answers(self) -> Answers:
        curator = self._request.curator(self._objective, self._ledger, single=True)
        return answers_only(curator, self._budgets, [])

    def run(self) -> tuple[Array, float]:
        """Pay; the coefficients and the residual scale, within ``SCALES``."""
        free = self._objective.free_scale
        assert free is not None
        start = np.zeros(self._objective.dimension)
        start[-1] = free.start / free.factor
        with np.errstate(all="ignore"):  # of released numbers
            theta = self._method.run(self._answers(), start, self._budgets).theta
        return theta[:-1], self._objective.scale_at(theta)


class BoughtUnits:
    """Standardisation inside a fit, within its total.

    Attributes
    ----------
    rest : float
        mu that is left for the fit.
    ledger : Ledger
        That pays for both.
    only_mean : bool
        Whether the fit is out of reach, so that the mean of the response is all there is to buy.
    """
    _pilot: Pilot | None = None
    _released: Array | None = None  # the pilot's coefficients

    def __init__(
        self,
        request: Request,
        unit: GDP,
        scale: Any,
        loss: Loss,
        given: Standardized | None = None,
    ) -> None:
        response = loss.link == "identity"
        columns = request.n_covariates + int(response)
        share = units_share(request.n, columns, unit.mu) if given is None else 0.0
        pilot = 0.0
        if (not loss.of_mean or request.means) and response and scale is None:
            pilot = pilot_share(request.n, request.dimension, unit.mu)
        self.rest = unit.mu * math.sqrt(1.0 - share - pilot) * (1.0 - MARGIN_8000)
        self.ledger = Ledger(unit)
        self._request, self._scale, self._response = request, scale, response
        mu = unit.mu * math.sqrt(share)
        self.only_mean = given is None and only_the_mean(request, share, columns, unit.mu)
        if self.only_mean and not loss.of_mean:
            raise InvalidBudget(
                f"n mu = {request.n * unit.mu:.3g} is too little for the {loss.name} loss with "
                f"{request.n_covariates} columns whose units nobody declared. Use more records, a "
                "larger budget or fewer columns, or declare their ranges in a schema and pass "
                "scale=<public residual scale>."
            )
        if self.only_mean:
            return
        self._purchase: Purchase | Handed
        if given is None:
            self._purchase = Purchase(
                request, mu, self.ledger, response=response, labels=loss.binary_response,
                whole=unit.mu,
            )  # fmt: skip
        else:
            self._purchase = Handed(request, given, response=response)
        if pilot:
            own = unit.mu * math.sqrt(pilot) * (1.0 - MARGIN_8000)
            self._pilot = Pilot(request, own, self.ledger)

    @property
    def planned_scales(self) -> list[Any]:
        """Scales to check everything with before anything is known: if the outer ones pass, so does
        whatever is bought; the last one is planned with.
        """
        if self._scale is None and self._pilot is not None:
            return [SCALES.low, SCALES.high, SCALES.start]
        if self._scale is None:
            free = SCALES.start if self._request.means else SCALES  # of persons: not proved
            return [free if self._response else None]
        start = _start(self._scale)
        return [self._in_spreads(start / part) for part in (*FARTHEST, 1.0)]

    def _in_spreads(self, spread: float) -> Any:
        """The scale that was given, in spreads of the response or what is as far as allowed."""
        scale, start = self._scale, _start(self._scale)
        nearest = min(max(start / spread, FARTHEST[0]), FARTHEST[1])
        if nearest != start / spread:
            spread = start / nearest
        if isinstance(scale, FreeScale):
            return FreeScale(scale.low / spread, scale.high / spread, scale.start / spread)
        return nearest

    @property
    def units(self) -> Standardized | None:
        """The units, once they were bought."""
        return None if self.only_mean else self._purchase.released

    def run(self, spent: Callable[[], Guarantee]) -> Any:
        """Buy the units, put the request's records into them; the scale in these.

        Parameters
        ----------
        spent : callable
            The guarantee of the analysis.
        """
        self._purchase.in_place(spent)
        if self._pilot is not None:
            self._released, scale = self._pilot.run()
            return scale
        if self._scale is None:
            return self.planned_scales[-1]
        coding = self._request.coding
        assert coding is not None
        return self._in_spreads(coding.response_units()[1])

    def start_of(self, objective: Objective, start: Array) -> Array:
        """Where the fit begins: at the pilot's coefficients, if there was one, else at ``start``.

        The constant of a quantile is that of the pilot's centre and a normal residual's quantile.
        """
        if self._released is None:
            return start
        begin = self._released.copy()
        if objective.fit_intercept and self._pilot is not None:
            begin[0] += objective.loss.level_shift * objective.scale
        return begin


def _start(scale: Any) -> float:
    """A scale, checked, or where the search for it starts."""
    if isinstance(scale, FreeScale):
        return scale.start
    return check_constant(scale, "scale", "public residual scale, in the units of y")


def units_share(n: int, columns: int, mu: float) -> float:
    """Part of mu^2 that units are worth: two to seven percent, and more where that shows nothing.

    Parameters
    ----------
    n, columns : int
        Public; the response is a column.
    mu : float
    """
    told = ENOUGH * n * mu
    if not 1e-100 < told < 1e100:  # its square would leave float64; refused later for what it is
        return MOST if told < 1.0 else least_share(n, columns, mu)
    needed = COUNTS * columns / (COUNT_SHARE * told**2)
    return min(MOST, max(least_share(n, columns, mu), needed))


def pilot_share(n: int, p: int, mu: float) -> float:
    """Part of mu^2 that a rough scale and a start are worth.

    Parameters
    ----------
    n, p : int
    mu : float
        Public.
    """
    needed = PILOT_NEEDS * p**1.5 / max(n * mu, 1e-100)
    return min(PILOT_MOST, max(PILOT_LEAST, needed * needed))


def least_share(n: int, columns: int, mu: float) -> float:
    """Two percent where records are many, five more where they are few."""
    return BOUGHT + BOUGHT_OF_FEW * few(n, columns, mu)


def bought_units(
    request: Request,
    unit: GDP,
    loss: str | Loss,
    scale: Any,
    weights: Any,
    standardize: Any,
) -> BoughtUnits | None:
    """What is to be bought, by public arguments alone; None if nothing is.

    By itself where neither scale nor weights nor a schema says anything about units, unless the
    loss needs a scale that cannot be estimated.
    """
    declared = scale is not None or weights is not None or request.coding is not None
    if standardize is None and declared:
        return None
    kind = resolve_loss(loss)
    linked = kind.link != "identity"
    complete = linked or kind.scale_part is not None or not kind.of_mean
    if standardize is None:
        standardize = complete and request.n_covariates > 0
    if not (asked := checked_standardize(standardize)):
        return None
    if request.coding is not None:
        raise InvalidInput(
            "these records are coded by a schema, which declares the units of their columns: "
            "there is nothing to standardise. Leave standardize out."
        )
    if scale is None and not complete:
        raise InvalidInput(
            "the scale of this loss cannot be estimated: pass scale=<public residual scale>, or "
            "take log-cosh, huber or pseudo-huber."
        )
    given = asked if isinstance(asked, Standardized) else None
    return BoughtUnits(request, unit, scale, kind, given)
