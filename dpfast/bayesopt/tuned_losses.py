"""Searches that call a function for its losses, and the private clip of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, function
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.tuner import Tuner
from dpfast.curator.blackbox.vectors import RecordValues, checked_values
from dpfast.curator.shares import Shares, share_receipt
from dpfast.errors import InvalidInput
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import ROUNDING_SUM

#: Range of the powers of ten of a private clip, and the number of bisections: they end within a
#: factor of 1.014.
SMALLEST, LARGEST, HALVINGS = -6.0, 6.0, 10

#: Remark about a clip at the lower end of its range.
NO_GRADIENT = (
    "{name} returned its smallest clip, {clip:.2g}: the losses of nearly all records look "
    "constant among the first points. Losses of trees, whole numbers and zero-one losses are "
    "flat; others may not be finite there. With such a clip tune follows noise: "
    "search=dpfast.bayesopt.SearchSettings(loss_range=(low, high)) compares values instead."
)


#: Parts of mu for the private clip, and for the comparison of end and start.
PILOT, COMPARED = 0.22, 0.1

#: Share of the records whose gradients a private clip leaves as they are.  If many gradients are
#: clipped, their mean can have another direction.
CLIP_QUANTILE = 0.95

#: Standard deviations of noise between all records and the quantile that is asked for.  One answer
#: in 3,000 is then led to powers of ten above all norms.  The clip of a search asks for its own
#: quantile: of losses with a long tail, lower ones made its regret twice as large.
CLEAR_SDS = 4.0

#: The loss differences between end and start are clipped at this multiple of this quantile.
DIFFERENCE_QUANTILE, CLIP_MULTIPLE = 0.95, 4.0

#: The end is reported as worse above this many standard deviations of noise.
MIN_WORSE_SDS = 2.0

WORSE = (
    "the mean loss at the end is above that at the start by about {worse:.2g} (noise {noise:.1g}): "
    "the search failed. Use a larger clip, or compare values with "
    "search=dpfast.bayesopt.SearchSettings(loss_range=(low, high))."
)


class BooleanLosses(InvalidInput):
    """Refusal of boolean losses, for which :func:`tune` switches to comparing values."""


def refuse_boolean(answer: Any) -> None:
    """Refuse boolean losses where gradients are followed."""
    if getattr(answer, "dtype", None) == np.bool_:
        raise BooleanLosses(
            "boolean losses have no gradient, and a search with a path needs their range from "
            "the start. Nothing was spent. Pass "
            "search=dpfast.bayesopt.SearchSettings(loss_range=(0, 1))."
        )


class TunedLosses(Tuner):
    """Search that calls a function for its losses, the first time before the charge."""

    def __init__(self, losses: Callable[[Any], ArrayLike], bounds: Any, **options: Any) -> None:
        self._losses = function(losses, "losses", "the parameters")
        self._first_losses: list[Array] = []  # losses of the rehearsal, until they are used
        self.remarks: tuple[str, ...] = ()
        self._has_settings = options["search"] is not None
        super().__init__(bounds, **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the first point of the first batch; only its shape and dtype are checked."""
        batch = self._search.batch()
        points = self._settings.space.all_parameters(self._settings.box.from_unit(batch))
        answer = self._losses(points[0])
        if not self._has_settings:
            refuse_boolean(answer)
        first_losses = checked_values(answer, n)
        self._first_losses, self._pending = [first_losses], batch

    def evaluate(self) -> None:
        """Ask, evaluate and tell."""
        points = self.ask()
        rows, self._first_losses = self._first_losses, []
        n = self._values.n
        rows += [checked_values(self._losses(theta), n) for theta in points[len(rows) :]]
        values = np.concatenate(rows)
        self.prepare(values)
        self.tell(values)

    def prepare(self, losses: Array) -> None:
        """Answer further questions before a step; none where the clip was given."""

    def compare(self) -> None:
        """Compare the end with the start; not where the clip was given."""

    def result(self) -> Tuning:
        """Return the result with its remarks."""
        return super().result()._replace(remarks=self.remarks)


class WithPrivateClip(TunedLosses):
    """Search with a private clip from its first points, and a comparison of end and start.

    Privacy
    -------
    The total is divided among three ledgers; their mu^2 add up to the total's (claim C9).
    """

    def __init__(
        self,
        losses: Callable[[Any], ArrayLike],
        bounds: Any,
        *,
        pilot: float = PILOT,
        compared: float = COMPARED,
        quantile: float = CLIP_QUANTILE,
        **options: Any,
    ) -> None:
        self._quantile, self._compares = quantile, compared > 0.0
        self._account = Account(options["privacy"], options["ledger"])
        mu = self._account.total.mu
        self.clip_ledger = Ledger(GDP(pilot * mu))
        self._comparison_ledger = Ledger(GDP(max(compared, COMPARED) * mu))
        query_share = (1.0 - ROUNDING_SUM) / math.sqrt(HALVINGS)
        self._clip_mu = pilot * mu * query_share  # of each question about the clip
        comparison_mu = max(compared, COMPARED) * mu * math.sqrt(0.5)
        self._length_mu = comparison_mu * query_share
        self._ends_mu = comparison_mu * (1.0 - ROUNDING_SUM)
        steps_mu = mu * math.sqrt(1.0 - pilot**2 - compared**2) * (1.0 - ROUNDING_SUM)
        self._has_clip = False
        super().__init__(losses, bounds, **options | {"privacy": GDP(steps_mu), "ledger": None})

    def _start(self, n: int, account: Account, ledger: Ledger | None) -> None:
        """Charge the whole total, after all refusals."""
        probe = RecordValues(n, self._comparison_ledger, self._noise)
        for mu in (self._clip_mu, self._length_mu):
            share_receipt(n, mu)
        for bound in (10.0**SMALLEST, 10.0**LARGEST):
            self._search.refuse_impossible(probe, min(self._mus))
            probe.mean_receipt(CLIP_MULTIPLE * bound, self._ends_mu, 1)
        steps = f"steps={self._settings.steps}"
        label = f"tune({self._settings.describe()}, private clip, {steps}, n={n})"
        self._account.refuse_unpayable(label)
        self._rehearse(n)
        self._ledger = Ledger(self._total)
        self._account.charge(label)

    def prepare(self, losses: Array) -> None:
        """Estimate the clip at the first points."""
        if self._has_clip:
            return
        assert self._pending is not None
        values = RecordValues(self._values.n, self.clip_ledger, self._noise)
        pilot_search = Search(self._settings)
        values.append(losses, len(losses))
        pilot_search.add(self._pending)
        clip, nonzero = private_length(
            values.norms(pilot_search.weights()), self._quantile, self._clip_mu
        )
        if not nonzero:
            self.remarks = (NO_GRADIENT.format(name="the search", clip=clip),)
        self._settings = self._search.settings = self._settings._replace(clip=clip)
        self._has_clip = True

    def compare(self) -> None:
        """Estimate the increase of the mean loss from start to end, with clipped differences."""
        if not self._compares:
            return
        n, space = self._values.n, self._settings.space
        first = space.box.from_unit(np.array([self._search.iterates[0]]))
        start = space.all_parameters(first)[0]
        values = RecordValues(n, self._comparison_ledger, self._noise)
        for point in (start, self.result().best_params):
            values.append(checked_values(self._losses(point), n), 1)
        ends = np.array([[-1.0], [1.0]])
        length, _ = private_length(values.norms(ends), DIFFERENCE_QUANTILE, self._length_mu)
        answer = values.mean(ends, CLIP_MULTIPLE * length, self._ends_mu, label="end and start")
        worse, noise = float(answer.value[0]), answer.noise_scale
        if worse > MIN_WORSE_SDS * noise:
            message = WORSE.format(worse=worse, noise=noise)
            self.remarks = (*self.remarks, message)

    def result(self) -> Tuning:
        """Return the result with the clip and the comparison among the charges."""
        tuning = super().result()
        ledgers = (self.clip_ledger, self._ledger, self._comparison_ledger)
        charges = [(entry.label, entry.spend.mu) for ledger in ledgers for entry in ledger.entries]
        guarantee = Guarantee.of(
            self._account.total, self._noise, self._values.n, charges, vouched=TOLD
        )
        return tuning._replace(privacy=guarantee._replace(genuine=tuning.privacy.genuine))


def clear_share(n: int, mu: float, share: float = 1.0) -> float:
    """Return the share, or a lower one down to a half that noise can tell from all records."""
    return min(share, max(0.5, 1.0 - CLEAR_SDS * share_receipt(n, mu).noise_scale))


def private_length(
    answers: Shares, share: float, mu: float, halvings: int = HALVINGS
) -> tuple[float, bool]:
    """Find a quantile of the records' norms by noisy bisection.

    Returns the length, and False if it is the smallest possible one.
    """
    low, high = SMALLEST, LARGEST
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        if answers.excess(10.0**middle, share, mu).value[0] < 0.0:
            low = middle
        else:
            high = middle
    return float(10.0 ** (0.5 * (low + high))), low > SMALLEST
