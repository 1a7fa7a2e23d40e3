"""Local Bayesian optimisation without privacy, for comparison only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import function
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import SearchSettings, resolve_settings
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise

__all__ = ["nonprivate_gibo"]

Array = NDArray[np.float64]


def nonprivate_gibo(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    n_records: int,
    steps: int = 25,
    search: SearchSettings | None = None,
) -> Tuning:
    """The search of :func:`dpfast.tune` with exact, unclipped gradients: not private.

    A rival of section 4 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    Mueller, von Rohr and Trimpe (2021).

    Parameters
    ----------
    losses, bounds, n_records, steps, search
        As for :func:`dpfast.tune`.

    Returns
    -------
    Tuning

    Privacy
    -------
    None.  What it returns says so.

    Examples
    --------
    >>> losses = lambda theta: np.full(100, ((theta - 0.3) ** 2).sum())
    >>> dpfast.baselines.nonprivate_gibo(losses, [(0.0, 1.0)], n_records=100, steps=2).theta.shape
    (1,)
    """
    settings = resolve_settings(bounds, 1.0, steps, search)
    run = Search(settings)
    function(losses, "losses", "the parameters")
    values = RecordValues(n_records, Ledger(1.0), SeededNoise(0))
    for _ in range(settings.steps):
        points = run.batch()
        asked = settings.space.all_parameters(settings.box.outside(points))
        told = np.array([losses(theta) for theta in asked])
        values.append(told, len(points))
        run.add(points)
        weights = run.weights()
        run.move(values.nonprivate_mean(weights), 0.0, weights)
    d, theta = settings.box.dimension, run.recommendation()
    return Tuning(
        theta=theta,
        parameters=settings.space.parameters(theta),
        iterates=settings.box.outside(np.array(run.iterates)),
        points=settings.box.outside(np.array(run.points).reshape(-1, d)),
        batch_sizes=tuple(run.batch_sizes),
        gradients=np.array(run.gradients).reshape(-1, d),
        noise_scales=tuple(run.noise_scales),
        traces=tuple(run.traces),
        method=settings.describe(),
        privacy=NOT_PRIVATE._replace(n=values.n),
    )
