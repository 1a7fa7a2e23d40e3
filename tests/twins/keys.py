"""Counts over float keys, distances and integer moments: sorts, searches, angles, masks.

Written differently from ``csrc/keys.pyx`` on purpose: no keys of single entries are looked up in a
table; the entries are compared as floating-point numbers with the first double of each cell.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

LARGEST = float(np.finfo(float).max)


@cache
def first_doubles(start: int, shift: int = 0, cells: int = 4096):
    """The first double of each cell of keys, and of what follows; or an infinity."""
    infinite = 2047 << 52
    edges = [start + (cell << shift) for cell in range(cells + 1)]
    keys = np.array([min(max(edge, -infinite), infinite) for edge in edges], dtype=np.int64)
    return np.copysign(abs(keys).view(np.float64), keys)


def complete(X, y):
    Z = np.column_stack([np.asarray(X, dtype=np.float64), y])
    return Z[np.isfinite(Z).all(axis=1)]


def key_cells(X, y, columns, starts, shifts):
    found = np.empty((len(columns), 4097), dtype=np.int64)
    Z = np.sort(complete(X, y), axis=0)
    for w, (column, start, shift) in enumerate(zip(columns, starts, shifts, strict=True)):
        edges = first_doubles(int(start), int(shift))
        found[w] = np.searchsorted(Z[:, column], edges, side="left")
        found[w] -= found[w, 0]
    return found


def parts_of(distance: float, nearest: float, octaves: int = 100) -> dict[int, int]:
    """What one entry adds to which cells: an angle whose cosine and 4 sines are its square."""
    if not distance > nearest:
        return {}
    first = math.frexp(nearest)[1]
    mantissa, exponent = (0.5, 1025) if distance > LARGEST else math.frexp(distance)
    cell = exponent - first
    if cell >= octaves - 1:
        return {octaves - 1: 1 << 19}
    squared = (math.floor(mantissa * 1024) / 512) ** 2
    angle = math.atan2(4.0, 1.0) - math.acos(min(squared / math.sqrt(17.0), 1.0))
    return {cell: round(math.cos(angle) * (1 << 19)), cell + 1: round(math.sin(angle) * (1 << 19))}


def distances(X, y, centres, nearest, octaves):
    Z = complete(X, y)
    table = np.zeros((Z.shape[1], 2, 100), dtype=np.int64)
    for j, (centre, near, cells) in enumerate(zip(centres, nearest, octaves, strict=True)):
        for entry in Z[:, j]:
            with np.errstate(over="ignore"):
                away = entry - centre
            for cell, part in parts_of(abs(float(away)), float(near), int(cells)).items():
                table[j, int(away < 0), cell] += part
    return table


def moments(X, y, middles, halves):
    with np.errstate(all="ignore"):
        u = np.clip((complete(X, y) - middles) / halves, -1.0, 1.0)
    k = np.rint(u * 2.0**15).astype(object)  # whole numbers of any size
    return np.array([k.sum(axis=0), (k * k).sum(axis=0)]).astype(np.int64).reshape(2, -1)
