"""Rows turned until no direction is longer than another, and the radius of their weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.whitened import Whitened
from dpfast.data.bought.units import Turned
from dpfast.front.request import Request
from dpfast.inference.natural import NaturalMap
from dpfast.models import Loss, Mallows, Objective
from dpfast.optimize import AdaptiveNewton
from dpfast.optimize.answers import Answers
from dpfast.optimize.least_squares.leverage import (
    budgets,
    composed,
    even_radius,
    foreseen_radius,
    missed,
    most_share,
    on_coefficients,
    turn,
)
from dpfast.optimize.least_squares.run import (
    COARSE,
    FINE,
    FIRST_RADIUS,
    MOST_CELLS,
    few,
    longest_radius,
    seen_lengths,
)
from dpfast.optimize.protocol import answers_only
from dpfast.privacy.ledger import Ledger

__all__ = ["Bought", "EvenRows", "likely_radius", "turning_share"]

#: Radius of logistic weights in sqrt(p), where n mu is so much, and the power with which it grows;
#: by bench.rivals.radius.
RADIUS, ENOUGH_FOR_RADIUS, RADIUS_POWER = 1.7, 5000.0, 0.17

#: Shares of ``mu^2``: a pilot estimate, and the lengths of scores there.  They are worth it where
#: records are so many (bench.rivals.logistic).
PILOT, SCORES, MANY = 0.04, 0.02, 0.06

Array = NDArray[np.float64]


class Bought(NamedTuple):
    """What was released of turned rows.

    Attributes
    ----------
    back : NaturalMap
        From coefficients of turned rows to those of the rows as they were.
    radius : float
        Of the weights.
    missed : float
        By how much these may move the mean score, its norm.
    start : ndarray of shape (p,) or None
        The pilot's coefficients, if there was one.
    """

    back: NaturalMap
    radius: float
    missed: float
    start: Array | None


class EvenRows:
    """Rows turned until no direction is longer than another, and the radius of their weights.

    Parameters
    ----------
    request : Request
    loss : Loss
        With bounded scores.
    mu : float
        Of the whole analysis; what it spends is a part (``turning_share``).
    ledger : Ledger
        That pays.

    Privacy
    -------
    Grams (claim C14), a short fit (C13 to C19), and histograms of lengths of rows and scores (C60)
    under released maps, which are maps of each record alone (D5).
    """

    def __init__(self, request: Request, loss: Loss, mu: float, ledger: Ledger) -> None:
        self._request, self._ledger = request, ledger
        n, p = request.n, request.dimension
        self._shape = request.n_covariates, request.fit_intercept
        self._loss, self._budgets = loss, budgets(n, p, mu)
        self._of_pilot, self._of_scores = [mu * math.sqrt(share) for share in _shares(n, p, mu)]
        self._likely = likely_radius(n, p, mu)
        part, rows = self._budgets, self._rows()
        for gram in (part.rows, *[part.turned] * bool(part.turned)):  # refuses an impossible budget
            rows.refuse_gram(gram)
        asked = (part.lengths, part.leverage, self._of_scores)
        for lengths in [mu for mu in asked if mu]:
            rows.refuse_lengths(MOST_CELLS, lengths)
        if self._of_pilot:
            self._pilot().refuse()

    def _objective(self, radius: float) -> Objective:
        covariates, intercept = self._shape
        return Objective(self._loss, Mallows(radius), covariates, fit_intercept=intercept)

    def _rows(self) -> Whitened:
        objective = self._objective(1.0)
        return Whitened(self._request.curator(objective, self._ledger, single=True))

    def _pilot(self) -> Pilot:
        objective = self._objective(self._likely)
        return Pilot(self._request, objective, self._of_pilot, self._ledger)

    def run(self, left: float) -> Bought:
        """Pay, and turn the request's records.

        Parameters
        ----------
        left : float
            What the fit may spend.
        """
        request, part = self._request, self._budgets
        n, p, intercept = request.n, request.dimension, request.fit_intercept
        units = request.records, request.single
        matrix = turn(self._rows().gram(FIRST_RADIUS * math.sqrt(p), part.rows), intercept)
        request.turned(units, Turned(matrix, intercept))
        if part.turned:
            rows = self._rows()
            longest = seen_lengths(rows, FINE, part.lengths).longest
            gram = rows.gram(min(longest, longest_radius(n, p, part.turned)), part.turned)
            matrix = composed(matrix, turn(gram, intercept), intercept)
            request.turned(units, Turned(matrix, intercept))
        lengths = seen_lengths(self._rows(), FINE, part.leverage)
        back = NaturalMap(on_coefficients(matrix, intercept), np.zeros(p))
        if not self._of_pilot:
            radius = even_radius(lengths, n, p, left)
            return Bought(back, radius, float(missed(lengths, np.array([radius]))[0]), None)
        start = self._pilot().run()
        scores = seen_lengths(self._rows(), COARSE, self._of_scores, start)
        return Bought(back, *foreseen_radius(scores, lengths.longest, n, p, left), start)


class Pilot:
    """A short fit with weights of a radius that is not bought.

    Parameters
    ----------
    request : Request
    objective : Objective
    mu : float
        What it may spend.
    ledger : Ledger
        That pays.
    """

    def __init__(self, request: Request, objective: Objective, mu: float, ledger: Ledger) -> None:
        self._request, self._objective, self._ledger = request, objective, ledger
        self._method = AdaptiveNewton()
        self._budgets = self._method.plan(objective, request.n, mu, False)

    def _answers(self) -> Answers:
        curator = self._request.curator(self._objective, self._ledger, single=True)
        return answers_only(curator, self._budgets, [])

    def refuse(self) -> None:
        """Refuse a budget that is impossible; costs nothing."""
        self._method.check(self._answers(), self._budgets)

    def run(self) -> Array:
        """Pay; where it ended, or began if that is nowhere."""
        begin = self._objective.origin()
        with np.errstate(all="ignore"):  # of released numbers
            theta = self._method.run(self._answers(), begin, self._budgets).theta
        return theta if np.isfinite(theta).all() else begin


def _shares(n: int, p: int, mu: float) -> tuple[float, float]:
    """Parts of mu^2 of the pilot and of the scores' lengths there: public."""
    return (PILOT, SCORES) if few(n, p, mu) <= MANY else (0.0, 0.0)


def turning_share(n: int, p: int, mu: float) -> float:
    """Part of mu^2 that turned rows and the radius of their weights cost.

    Parameters
    ----------
    n, p : int
    mu : float
        Public.
    """
    return most_share(n, p, mu) + math.fsum(_shares(n, p, mu))


def likely_radius(n: int, p: int, mu: float) -> float:
    """Radius of the weights of a logistic regression in bought units.

    The more noise it can bear, the fewer rows are discounted: the target tends to the maximum of
    the likelihood.

    Parameters
    ----------
    n, p : int
    mu : float
        Public, as n and p are.
    """
    return math.sqrt(max(p, 2)) * max(1.0, RADIUS * (n * mu / ENOUGH_FOR_RADIUS) ** RADIUS_POWER)
