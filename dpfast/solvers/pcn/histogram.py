"""Noisy histograms of norms."""

from __future__ import annotations

from dpfast.arguments import Array
from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)
from dpfast.kernels.decisions import (
    NEIGHBOUR_SDS,
    SINGLE_BIN_SDS,
    NormHistogram,
    bin_edges,
    cell_edges,
)

__all__ = [
    "COARSE",
    "FINE",
    "NEIGHBOUR_SDS",
    "N_FINE_BINS",
    "SINGLE_BIN_SDS",
    "NormHistogram",
    "bin_edges",
    "cell_edges",
    "released_norms",
]

#: Bins to a factor 2 in the histograms of rows and of scores: wider bins detect tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Number of bins of the finer histogram.
N_FINE_BINS = len(bin_edges(FINE))


def released_norms(
    rows: PreconditionedQueries,
    mu: float,
    at: Linearization | None,
    what: str,
    per_octave: int = COARSE,
    unit: float = 1.0,
    row_clipping: RowClipping = NO_CLIPPING,
    direction: Array | None = None,
) -> NormHistogram:
    """Release a histogram of norms of these rows or scores; costs ``mu`` (claim C60)."""
    edges = cell_edges(per_octave, unit)
    shares, noise, _ = rows.norm_histogram(edges, mu, at, what, row_clipping, direction)
    return NormHistogram.from_noisy_shares(shares, noise, per_octave, unit)
