"""Tables of the same records that agree: generalised least squares on their released sums.

Tables have independent noise, and margins of a cross of groupings are its sums.  Subspaces of main
effects and interactions are orthogonal, and each margin measures some of them.  So the best linear
unbiased estimate is, in each subspace, the mean of all tables that measure it, weighted by their
precision (Hay et al. 2010, for hierarchies; Searle 1971, for crossed effects).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidInput
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import GDP
from dpfast.tables.moments import ReleasedSums


def reconciled(
    sums: ReleasedSums, margins: Sequence[tuple[tuple[int, ...], ReleasedSums]]
) -> list[ReleasedSums]:
    """Return the sums of a cross and of its margins, each with the axes that it has, made to agree.

    Their scales are standard deviations of what is left of the noise.
    """
    shape = sums.values.shape[:-1]
    axes = tuple(range(len(shape)))
    tables = [(axes, sums), *margins]
    estimate = np.zeros_like(sums.values)
    variances = [0.0 for _ in tables]
    for effect in itertools.chain.from_iterable(
        itertools.combinations(axes, r) for r in range(len(axes) + 1)
    ):
        measured = [(kept, table) for kept, table in tables if set(effect) <= set(kept)]
        precision = sum([_cells_of(shape, kept) / table.scale**2 for kept, table in measured])
        weighted = sum([_expanded(table.values, kept, shape) / table.scale**2
                        for kept, table in measured])  # fmt: skip
        estimate += _projected(np.asarray(weighted), effect, axes) / precision
        for k, (kept, _) in enumerate(tables):
            if set(effect) <= set(kept):
                variances[k] += _share(effect, kept, shape) * _cells_of(shape, kept) / precision
    return [
        table._replace(
            values=estimate.sum(axis=tuple([axis for axis in axes if axis not in kept])),
            scale=math.sqrt(variance),
        )
        for (kept, table), variance in zip(tables, variances, strict=True)
    ]


def _cells_of(shape: tuple[int, ...], kept: tuple[int, ...]) -> float:
    """Count the cells of the cross that a cell of the margin adds up."""
    return float(math.prod([size for axis, size in enumerate(shape) if axis not in kept]))


def _share(effect: tuple[int, ...], kept: tuple[int, ...], shape: tuple[int, ...]) -> float:
    """Return the share of an effect's subspace in the variance of each cell of a margin."""
    sizes = [shape[axis] for axis in kept]
    parts = [1.0 - 1.0 / size if axis in effect else 1.0 / size
             for axis, size in zip(kept, sizes, strict=True)]  # fmt: skip
    return math.prod(parts)


def _expanded(values: Array, kept: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Repeat a margin over the axes that it lacks."""
    missing = tuple([axis for axis in range(len(shape)) if axis not in kept])
    return np.asarray(np.broadcast_to(np.expand_dims(values, missing), (*shape, values.shape[-1])))


def _projected(values: Array, effect: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Project on the effect: deviations from the mean on its axes, means on all others."""
    for axis in axes:
        mean = values.mean(axis=axis, keepdims=True)
        values = values - mean if axis in effect else np.broadcast_to(mean, values.shape)
    return values


def composed(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of several releases together: their squared mus add up (C9)."""
    first = guarantees[0]
    if any((g.relation, g.n) != (first.relation, first.n) for g in guarantees):
        raise InvalidInput(
            "tables are reconciled if they are about the same records: as many of them, and the "
            "same unit of privacy."
        )
    entries = tuple([entry for g in guarantees for entry in g.entries])
    mu = math.sqrt(math.fsum([mu * mu for _, mu in entries])) * (1.0 + 1e-12)
    genuine = all(g.genuine for g in guarantees)
    return first._replace(total=GDP(mu), entries=entries, mu=mu, genuine=genuine, returned=None)
