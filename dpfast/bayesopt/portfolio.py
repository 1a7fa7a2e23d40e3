"""The default of ``tune``: compare values, follow gradients where columns are many, then choose.

Values are compared by the exponential mechanism, whose price does not grow with the points: among
points that fill the box, then in ever smaller boxes around the last choice.  A record counts by its
regrets, its losses above its own smallest one among these points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import WIDTHS
from dpfast.bayesopt.settings import CHOICES, SearchSettings
from dpfast.bayesopt.space import Space
from dpfast.bayesopt.tuned_losses import (
    LARGEST,
    MIN_WORSE_SDS,
    SMALLEST,
    TunedLosses,
    WithPrivateClip,
    clear_share,
    private_length,
)
from dpfast.curator.blackbox.vectors import RecordValues, checked_values
from dpfast.curator.shares import share_receipt
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM

#: Parts of mu for the range of regrets, and for the choice among the answers and the start.
RANGE, CHOICE = 0.25, 0.25

#: Up to so many columns values alone are compared.  With more, gradients refine the first choice:
#: few points of a smaller box are better in several columns at once.
MAX_VALUE_COLUMNS = 3

#: Part of mu for the comparison of values where nothing follows.
VALUES_ALONE = math.sqrt(1.0 - RANGE**2 - CHOICE**2)

#: Parts of mu where gradients follow: the comparison of values, and the gradients with their clip.
VALUES = 0.4
GRADIENTS = math.sqrt(VALUES_ALONE**2 - VALUES**2)

#: Part of the gradients' mu for their clip, and the share of gradients that it leaves as they are.
CLIP, CLIP_QUANTILE = 0.2, 0.9

#: Bisections of the range, which end within a factor of 1.11: more of them have more noise each.
HALVINGS = 7

#: Below this share of records the range is said to be that of too few.
MIN_SHARE = 0.9

#: Regrets are clipped at this multiple of the highest quantile that noise can tell from all; in
#: later choices, at this times the root of their box's width.  Estimated anew there, the range of a
#: classifier's regrets falls to nothing, since most records have none.
RANGE_MULTIPLE = 4.0

#: The choice clips differences, which have both signs, at this part of the range of regrets.
CHOICE_CLIP = 0.5

#: Fewest steps that are divided between both searches.
MIN_STEPS = 8

FEW = (
    "noise hides how much {hidden:.0%} of the records lose above others: these losses may be cut "
    "off, and the end may be worse than the start. Use more records, a larger budget or a public "
    "range, search=dpfast.bayesopt.SearchSettings(loss_range=(low, high))."
)

START = (
    "the start is returned: at the end that was found the mean loss is larger by about "
    "{change:.2g} (noise {noise:.1g}). Use more records, a larger budget or narrower bounds."
)

NOT_CLEAR = (
    "the mean loss at the end differs from that at the start by about {change:.2g} (noise "
    "{noise:.1g}): the end may be no better. Use more records or a larger budget."
)


def regrets(rows: Array) -> Array:
    """Return each record's losses above its smallest finite one; infinite or NaN if not finite."""
    with np.errstate(all="ignore"):
        return np.asarray(rows - np.where(np.isfinite(rows), rows, np.inf).min(axis=0))


class RangedValues(TunedLosses):
    """Comparison of values by each record's regrets among the points of a choice."""

    def __init__(
        self,
        losses: Callable[[Any], ArrayLike],
        bounds: Any,
        mu: float,
        choices: int,
        **options: Any,
    ) -> None:
        self.range_ledger = Ledger(GDP(RANGE * mu))
        self._range_mu = RANGE * mu * (1.0 - ROUNDING_SUM) / math.sqrt(HALVINGS)
        search = SearchSettings(loss_range=(0.0, 1.0), choices=choices)  # until it is estimated
        super().__init__(losses, bounds, search=search, ledger=None, **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the start, which is the first point."""
        self._has_settings = False  # of the caller: boolean losses are refused
        super()._rehearse(n)
        self.at_start = self._first_losses[0][0]

    def evaluate(self) -> None:
        """Ask, evaluate, estimate the range of regrets at the first points, and tell them."""
        n, rows = self._values.n, self._first_losses
        self._first_losses = []
        points = self.ask()
        rows = [*rows, *(checked_values(self._losses(p), n) for p in points[len(rows) :])]
        told = regrets(np.concatenate(rows))
        number = len(self._search.batch_sizes)
        if number == 0:
            self.limit = self._range(told)
        loss_range = (0.0, self.limit * math.sqrt(WIDTHS[number]))
        self._settings = self._search.settings = self._settings._replace(loss_range=loss_range)
        self.tell(told)

    def _range(self, told: Array) -> float:
        """Estimate the range from the regret that each record has at half of the points."""
        values = RecordValues(self._values.n, self.range_ledger, self._noise)
        values.append(told, len(told))
        share = clear_share(values.n, self._range_mu)
        if share < MIN_SHARE:
            self.remarks = (FEW.format(hidden=1.0 - share),)
        sizes = values.smallest(len(told) // 2)
        return RANGE_MULTIPLE * private_length(sizes, share, self._range_mu, HALVINGS)[0]


class _PlannedValues(RangedValues):
    """The same for its refusals, without a call of the losses."""

    def _rehearse(self, n: int) -> None:
        pass


class _PlannedGradients(WithPrivateClip):
    """The same for its refusals, without a call of the losses."""

    def _rehearse(self, n: int) -> None:
        pass


class Portfolio:
    """Searches, and a choice among their answers and the start, under one total.

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
        self._follows = Space(bounds).box.dimension > MAX_VALUE_COLUMNS
        self._total_steps = steps
        self._steps = steps // 2 if self._follows else steps - 1
        self._options = {"n_records": n_records, "steps": self._steps, "noise": self._noise}
        self._losses, self._bounds = losses, bounds
        self._choice_ledger = Ledger(GDP(CHOICE * self._mu))
        self._choice_mu = CHOICE * self._mu * (1.0 - ROUNDING_SUM)
        self._gradients: WithPrivateClip | None = None
        self._chosen: Any = None
        self.remarks: tuple[str, ...] = ()
        label = f"tune(portfolio, steps={steps}, n={self._refuse()})"
        account.refuse_unpayable(label)
        self._values = RangedValues(losses, bounds, **self._of_values())
        account.charge(label)

    def _refuse(self) -> int:
        """Refuse what cannot be answered before losses are called; return the number of records."""
        planned = _PlannedValues(self._losses, self._bounds, **self._of_values())
        n, values = planned._values.n, planned._values
        if self._follows:
            _PlannedGradients(self._losses, self._bounds, **self._of_gradients(SearchSettings()))
        share_receipt(n, planned._range_mu)
        for end in (SMALLEST, LARGEST):
            limit = RANGE_MULTIPLE * 10.0**end
            for width in WIDTHS:
                values.choice_receipt(0.0, limit * math.sqrt(width), min(planned._mus))
            values.mean_receipt(CHOICE_CLIP * limit, self._choice_mu, 1 + self._follows)
        return n

    def _of_values(self) -> dict[str, Any]:
        choices, part = (1, VALUES) if self._follows else (CHOICES, VALUES_ALONE)
        mu = part * self._mu * (1.0 - ROUNDING_SUM)
        return self._options | {"mu": self._mu, "choices": choices, "privacy": GDP(mu)}

    def _of_gradients(self, search: SearchSettings) -> dict[str, Any]:
        return self._options | {
            "search": search,
            "privacy": GDP(GRADIENTS * self._mu * (1.0 - ROUNDING_SUM)),
            "ledger": None,
            "clip": 1.0,
            "pilot": CLIP,
            "compared": 0.0,
            "quantile": CLIP_QUANTILE,
        }

    def run(self, report: Callable[[int], None]) -> Tuning:
        """Search by values, then by gradients, and choose."""
        search = self._values
        while not search.done:
            search.evaluate()
            report(search.steps_paid * self._steps // search._settings.steps)
        if self._follows:
            from_here = SearchSettings(start=search.result().best_params)
            self._gradients = WithPrivateClip(
                self._losses, self._bounds, **self._of_gradients(from_here)
            )
            while not self._gradients.done:
                self._gradients.evaluate()
                report(self._steps + self._gradients.steps_paid)
        self._choose()
        report(self._total_steps)
        return self.result()

    def _choose(self) -> None:
        """Choose by noisy mean differences from the start; remark where no answer is better."""
        searches = [self._values, *([self._gradients] if self._gradients else [])]
        answers = [search.result() for search in searches]
        values = RecordValues(self._values._values.n, self._choice_ledger, self._noise)
        values.append(self._values.at_start)
        for answer in answers:
            # a copy: losses that write on it must not write on what is returned
            values.append(self._losses(deepcopy(answer.best_params)))
        count = len(answers)
        weights = np.vstack((np.full(count, -1.0), np.eye(count)))
        clip = CHOICE_CLIP * self._values.limit
        changes = values.mean(weights, clip, self._choice_mu, label="differences from the start")
        best = int(np.argmin(changes.value))
        change, noise = float(changes.value[best]), changes.noise_scale
        settings = self._values._settings
        start = settings.box.from_unit(settings.space.snap(settings.start))
        self._chosen = (answers[best].theta, answers[best].best_params)
        same, clear = np.array_equal(start, answers[best].theta), MIN_WORSE_SDS * noise
        if change > clear and not same:
            self._chosen = (start, settings.space.parameters(start))
            self.remarks = (START.format(change=change, noise=noise),)
        elif change > -clear or same:
            self.remarks = (NOT_CLEAR.format(change=change, noise=noise),)

    def result(self) -> Tuning:
        """Return the result so far: of the last search that began, at the chosen point."""
        tuning, remarks = self._values.result(), self._values.remarks
        points, method = [tuning.points], self._values._settings.describe()
        ledgers = [self._values.range_ledger, self._values._ledger]
        if self._gradients is not None:
            tuning = self._gradients.result()
            remarks = (*remarks, *self._gradients.remarks)
            points.append(tuning.points)
            method = f"{method}; {tuning.method}"
            ledgers += [self._gradients.clip_ledger, self._gradients._ledger]
        ledgers.append(self._choice_ledger)
        charges = [(entry.label, entry.spend.mu) for ledger in ledgers for entry in ledger.entries]
        n = self._values._values.n
        guarantee = Guarantee.of(self._account.total, self._noise, n, charges, vouched=TOLD)
        if self._chosen is not None:
            theta, parameters = self._chosen
            tuning = tuning._replace(theta=theta, parameters=parameters)
        return tuning._replace(
            points=np.concatenate(points),
            method=f"portfolio: {method}",
            privacy=guarantee,
            remarks=(*remarks, *self.remarks),
        )
