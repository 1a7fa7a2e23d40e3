"""The mean of scores along a direction, each held to a bound (claim R40)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Receipt
from dpfast.curator.door import hand_out_count
from dpfast.curator.whitened import FREE, At, Held, Whitened
from dpfast.data.bought.maps import View
from dpfast.data.bought.seen import BLOCK, projections
from dpfast.data.records import Covariates
from dpfast.privacy.budget import PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.sensitivity import HELD_CELLS

Array = NDArray[np.float64]


def mean_along(
    rows: Whitened,
    direction: Array,
    bound: float,
    epsilon: float,
    ledger: Ledger,
    at: At,
    held: Held = FREE,
) -> float:
    """Mean of the scores along a direction, each number held to ``+-bound``.

    Privacy
    -------
    Costs ``epsilon`` of pure DP, charged to ``ledger``; direction, bound and parameter are
    released (claim R40).  A record that is not finite is zero.
    """
    assert not rows._means  # the rows of a person would count each
    cost, curator = PureDP(epsilon), rows._curator
    ledger.charge(cost, "held Newton step")
    rate = laplace_rate(2 * HELD_CELLS, epsilon)
    noise_scale = math.sqrt(2.0) * rate[1] / rate[0]
    mu, sensitivity = 2.0 * HELD_CELLS / noise_scale, 2.0 * HELD_CELLS  # for audits
    receipt = Receipt("held Newton step", "R40", mu, sensitivity, noise_scale)
    view = rows._view("score", at, held=held, turned=False)
    count = int(curator._records.total(_sum_held, direction, bound, view)[0])
    question = (receipt.query, mu, at.theta, direction, bound)
    found = hand_out_count(curator._noise, question, receipt, count, rate)
    return float(found / HELD_CELLS / rows.n * bound)


def _sum_held(
    X: Covariates, y: Array, direction: Array, bound: float, view: View
) -> NDArray[np.int64]:
    """Sum of whole numbers of cells: of each record's score along a direction, held to a bound."""
    found = np.zeros(1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        parts = projections(X[some], y[some], view, direction) / bound
        cells = np.rint(HELD_CELLS * np.clip(parts, -1.0, 1.0))
        found += np.where(np.isnan(cells), 0.0, cells).astype(np.int64).sum()
    return found
