"""The default of ``tune``: compare values, follow gradients from the answer, then choose.

Comparing values finds the region and stops at its grid; gradients refine, and lose their way where
losses are flat or steep.  The private choice at the end takes the better one, or the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.settings import SearchSettings
from dpfast.bayesopt.tuned_losses import (
    HALVINGS,
    LARGEST,
    SMALLEST,
    TunedLosses,
    WithPrivateClip,
    private_length,
    refuse_boolean,
)
from dpfast.curator.blackbox.vectors import RecordValues, checked_values
from dpfast.curator.shares import share_receipt
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM

#: Parts of mu: each of two ranges, the comparison of values, the gradients with their clip.  The
#: choice has the rest, a part of .39.
RANGE, VALUES, GRADIENTS = 0.14, 0.5, 0.745
CHOICE = math.sqrt(1.0 - 2.0 * RANGE**2 - VALUES**2 - GRADIENTS**2)

#: Part of the gradients' mu for their clip, and the share of gradients that it leaves as they are.
CLIP, CLIP_QUANTILE = 0.2, 0.9

#: Points that spread over the box at which the range is estimated, and which of a record's
#: differences from the start counts: the second smallest, since most points of a box are far worse
#: than those that a search compares.
PILOTS, RANK = 6, 1

#: Differences are clipped at this multiple of this quantile.  At four times the quantile of .95 the
#: noise of a choice loses more than what clipping costs (eight problems, mu of .3 to 3).
RANGE_QUANTILE, RANGE_MULTIPLE = 0.9, 2.0

#: Fewest steps that are divided between both searches.
MIN_STEPS = 8

NOT_BETTER = (
    "the start was chosen: no point that the searches found has a clearly smaller mean loss. Use "
    "more records, a larger budget or narrower bounds."
)


def range_question(mu: float) -> float:
    """Return the mu of each question about a range."""
    return RANGE * mu * (1.0 - ROUNDING_SUM) / math.sqrt(HALVINGS)


class RangedValues(TunedLosses):
    """Comparison of values, less those at the start, in a private range."""

    def __init__(
        self, losses: Callable[[Any], ArrayLike], bounds: Any, mu: float, **options: Any
    ) -> None:
        self.range_ledger = Ledger(GDP(RANGE * mu))
        self._range_mu = range_question(mu)
        self.limit = 0.0  # until the range is estimated
        search = SearchSettings(loss_range=(-1.0, 1.0))
        super().__init__(losses, bounds, search=search, privacy=GDP(VALUES * mu), **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the start; only shape and dtype are checked."""
        space, box = self._settings.space, self._settings.box
        self.start = space.all_parameters(box.from_unit(np.array([self._settings.start])))[0]
        answer = self._losses(self.start)
        refuse_boolean(answer)
        self.first = checked_values(answer, n)[0]

    def evaluate(self) -> None:
        """Ask, evaluate and tell differences from the start."""
        n = self._values.n
        rows = [checked_values(self._losses(theta), n) for theta in self.ask()]
        with np.errstate(all="ignore"):
            differences = np.concatenate(rows) - self.first
        if not self.limit:
            self._estimate_range(differences[:PILOTS])
        self.tell(differences)

    def _estimate_range(self, differences: Array) -> None:
        values = RecordValues(self._values.n, self.range_ledger, self._noise)
        values.append(differences, len(differences))
        length, _ = private_length(
            values.smallest(min(RANK, len(differences) - 1)), RANGE_QUANTILE, self._range_mu
        )
        self.limit = RANGE_MULTIPLE * length
        loss_range = (-self.limit, self.limit)
        self._settings = self._search.settings = self._settings._replace(loss_range=loss_range)


class _PlannedValues(RangedValues):
    """The same for its refusals, without a call of the losses."""

    def _rehearse(self, n: int) -> None:
        pass


class _PlannedGradients(WithPrivateClip):
    """The same for its refusals, without a call of the losses."""

    def _rehearse(self, n: int) -> None:
        pass


class Portfolio:
    """Two searches and a choice under one total.

    Privacy
    -------
    The total is divided among ledgers whose mu^2 add up to the total's (claim C9).
    """

    def __init__(
        self,
        losses: Callable[[Any], ArrayLike],
        bounds: Any,
        *,
        privacy: Budget | float,
        n_records: int,
        steps: int,
        ledger: Ledger | None,
        noise: NoiseSource | None,
    ) -> None:
        self._account = account = Account(privacy, ledger)
        self._noise = checked_noise(noise)
        self._mu = account.total.mu * (1.0 - ROUNDING_SUM)
        self._steps = steps // 2
        self._options = {"n_records": n_records, "steps": self._steps, "noise": self._noise}
        self._losses, self._bounds = losses, bounds
        self._choice_ledger = Ledger(GDP(CHOICE * self._mu * (1.0 - ROUNDING_SUM)))
        self._range_ledger = Ledger(GDP(RANGE * self._mu))
        self._gradients: WithPrivateClip | None = None
        self._chosen: Any = None
        self.remarks: tuple[str, ...] = ()
        label = f"tune(portfolio, steps={steps}, n={self._refuse()})"
        account.refuse_unpayable(label)
        self._values = RangedValues(losses, bounds, self._mu, ledger=None, **self._options)
        account.charge(label)

    def _refuse(self) -> int:
        """Refuse what cannot be answered before losses are called; return the number of records."""
        of_gradients = self._of_gradients(SearchSettings())
        _PlannedValues(self._losses, self._bounds, self._mu, ledger=None, **self._options)
        n = _PlannedGradients(self._losses, self._bounds, **of_gradients)._values.n
        values = RecordValues(n, Ledger(GDP(self._mu)), self._noise)
        values.choice_receipt(-1.0, 1.0, CHOICE * self._mu * (1.0 - ROUNDING_SUM))
        for end in (SMALLEST, LARGEST):
            limit = RANGE_MULTIPLE * 10.0**end
            values.choice_receipt(-limit, limit, VALUES * self._mu)
        share_receipt(n, range_question(self._mu) * math.sqrt(0.5))
        return n

    def _of_gradients(self, search: SearchSettings) -> dict[str, Any]:
        return self._options | {
            "search": search,
            "privacy": GDP(GRADIENTS * self._mu),
            "ledger": None,
            "clip": 1.0,
            "pilot": CLIP,
            "compared": 0.0,
            "quantile": CLIP_QUANTILE,
        }

    def run(self, report: Callable[[int], None]) -> Tuning:
        """Search by values, then by gradients, and choose."""
        while not self._values.done:
            self._values.evaluate()
            report(self._values.steps_paid * self._steps // self._values._settings.steps)
        from_here = SearchSettings(start=self._values.result().best_params)
        self._gradients = WithPrivateClip(
            self._losses, self._bounds, **self._of_gradients(from_here)
        )
        while not self._gradients.done:
            self._gradients.evaluate()
            report(self._steps + self._gradients.steps_paid)
        self._choose()
        return self.result()

    def _choose(self) -> None:
        """Choose among both answers and the start, by clipped differences from the first answer.

        Each is in units of its own range, so the choice is of the clearest gain.
        """
        assert self._gradients is not None
        n = self._values._values.n
        answers = [part.result() for part in (self._values, self._gradients)]
        at_first, at_second = [
            checked_values(self._losses(answer.best_params), n)[0] for answer in answers
        ]
        rows = [at_first, at_second, self._values.first]
        with np.errstate(all="ignore"):
            differences = [row - at_first for row in rows[1:]]
        values = RecordValues(n, self._choice_ledger, self._noise)
        values.append(np.zeros(n))
        for row in differences:  # each in its own range: one that is far worse hides no other
            values.append(row / self._limit(row))
        chosen = values.choice(0, -1.0, 1.0, CHOICE * self._mu * (1.0 - ROUNDING_SUM))
        settings = self._values._settings
        start = settings.box.from_unit(settings.space.snap(settings.start))
        candidates = [(answer.theta, answer.best_params) for answer in answers]
        self._chosen = [*candidates, (start, self._values.start)][chosen]
        if chosen == len(answers):
            self.remarks = (NOT_BETTER,)

    def _limit(self, differences: Array) -> float:
        """Estimate the size at which the differences of a candidate are clipped."""
        values = RecordValues(len(differences), self._range_ledger, self._noise)
        values.append(differences)
        question = range_question(self._mu) * math.sqrt(0.5)
        return RANGE_MULTIPLE * private_length(values.smallest(0), RANGE_QUANTILE, question)[0]

    def result(self) -> Tuning:
        """Return the result so far: of the last search that began, at the chosen point."""
        last = self._values if self._gradients is None else self._gradients
        tuning = last.result()
        ledgers = [self._values.range_ledger, self._values._ledger]
        points = [self._values.result().points]
        if self._gradients is not None:
            ledgers += [self._gradients.clip_ledger, self._gradients._ledger]
            points.append(tuning.points)
        ledgers += [self._range_ledger, self._choice_ledger]
        charges = [(entry.label, entry.spend.mu) for ledger in ledgers for entry in ledger.entries]
        n = self._values._values.n
        guarantee = Guarantee.of(self._account.total, self._noise, n, charges, vouched=TOLD)
        if self._chosen is not None:
            theta, parameters = self._chosen
            tuning = tuning._replace(theta=theta, parameters=parameters)
        return tuning._replace(
            points=np.concatenate(points),
            method=f"portfolio: {self._values._settings.describe()}; {tuning.method}",
            privacy=guarantee,
            remarks=(*tuning.remarks, *self.remarks),
        )
