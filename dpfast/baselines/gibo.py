"""Local Bayesian optimisation without privacy, for comparison only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import resolve_settings
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise

__all__ = ["nonprivate_gibo"]

Array = NDArray[np.float64]

#: What :func:`dpfast.tune` takes for the search itself.
_DEFAULTS: dict[str, Any] = {
    "units": "box",
    "start": None,
    "covariance": None,
    "noise_variance": None,
    "mean": "constant",
    "clip": 1.0,
    "steps": 25,
    "batch": None,
    "threshold": None,
    "max_batch": None,
    "update": None,
    "schedule": None,
    "average": 0.3,
}


def nonprivate_gibo(
    losses: Callable[[Array], ArrayLike], bounds: ArrayLike, *, n_records: int, **options: Any
) -> Tuning:
    """The search of :func:`dpfast.tune` with exact, unclipped gradients: not private.

    Mueller, von Rohr and Trimpe (2021).

    Parameters
    ----------
    losses, bounds, n_records
        As for :func:`dpfast.tune`.
    **options
        Settings of the search: steps, covariance, noise_variance, mean, batch, threshold,
        max_batch, update, average, start, units.

    Privacy
    -------
    None.  What it returns says so.
    """
    settings = resolve_settings(bounds, **(_DEFAULTS | options))
    search = Search(settings)
    values = RecordValues(n_records, Ledger(1.0), SeededNoise(0))
    for _ in range(settings.steps):
        points = search.batch()
        told = np.array([losses(theta) for theta in settings.box.outside(points)])
        values.append(told, len(points))
        search.add(points)
        weights = search.weights()
        search.move(values.nonprivate_mean(weights), 0.0, weights)
    d = settings.box.dimension
    return Tuning(
        theta=search.recommendation(),
        iterates=settings.box.outside(np.array(search.iterates)),
        points=settings.box.outside(np.array(search.points).reshape(-1, d)),
        batch_sizes=tuple(search.batch_sizes),
        gradients=np.array(search.gradients).reshape(-1, d),
        noise_scales=tuple(search.noise_scales),
        traces=tuple(search.traces),
        method=settings.describe(),
        privacy=NOT_PRIVATE._replace(n=values.n),
    )
