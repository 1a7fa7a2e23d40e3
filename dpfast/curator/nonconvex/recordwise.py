"""Gradients from a user's function, clipped to their declared bounds record by record."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import detached
from dpfast.data import Records
from dpfast.kernels.user_gradients import CompiledGradients
from dpfast.models.nonconvex import PerRecordObjective

Array = NDArray[np.float64]

#: Records from which compiling the function is worth its seconds; public.
MIN_COMPILED_RECORDS = 10_000

#: Entries that are clipped at once: of these, what is computed on the way stays in the cache.
CLIPPED_ENTRIES = 8192

#: At least so many rows at once.  Of 1, 4, 16, 64 and 256 it is the fastest at 8,000 columns, and
#: 3.6 times as fast as 1 at 2,400; below 2,048 columns blocks are larger anyway.
LEAST_ROWS = 4

_QUIET: ContextVar[bool] = ContextVar("dpfast_quiet", default=False)


class _QuietPattern:
    """Pattern of a warnings filter that matches in contexts of :func:`ignore_warnings` only."""

    @staticmethod
    def match(message: str) -> bool:
        return _QUIET.get()


_FILTER: Any = ("ignore", _QuietPattern(), Warning, None, 0)


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Suppress warnings of a user's function of records, which would reveal values."""
    if not (warnings.filters and warnings.filters[0] is _FILTER):
        warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
    token = _QUIET.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _QUIET.reset(token)


class RecordGradients:
    """Sums over records of clipped gradients and of clipped changes of gradients."""

    def __init__(self, objective: PerRecordObjective, records: Records) -> None:
        # a caller's function may keep, and write on, what it is part of
        self._objective = detached(objective)
        records.blocks()  # refused, while nothing is spent, where records never leave their workers
        self._records = records
        self._compiled: CompiledGradients | None = None
        if not objective.vectorized and records.n >= MIN_COMPILED_RECORDS:
            self._compiled = objective.compiled(records.n_covariates)

    def depth(self) -> int:
        """Count the sequential roundings of a record's contribution (claim C11)."""
        rows = self._objective.block_rows
        n_blocks = int(sum([-(-size // rows) for size in self._records.block_sizes]))
        return int(min(rows, self._records.n) + n_blocks + 8)

    def gradient(
        self,
        theta: Array,
        divisor: float,
        limit: float | None = None,
        scales: Array | None = None,
    ) -> Array:
        """Sum of the gradients times ``scales``, each clipped to ``limit``, / divisor.

        The limit is at most the declared bound, which is the default.
        """
        total = np.zeros(self._objective.dimension)
        for X, y in self._blocks():
            total += self._clipped(theta, X, y, limit, scales).sum(axis=0)
        return total / divisor

    def squared_directions(self, theta: Array) -> Array:
        """Sum the squared entries of the gradients, each divided by its norm."""
        total = np.zeros(self._objective.dimension)
        for X, y in self._blocks():
            squares = _normalise_rows(self._clipped(theta, X, y))[0] ** 2
            norms = squares.sum(axis=1)
            total += (squares / np.where(norms > 0.0, norms, 1.0)[:, None]).sum(axis=0)
        return total

    def norm_histogram(self, theta: Array, edges: Array, scales: Array | None = None) -> Array:
        """Count records by the norm of their gradient, one cell for each edge."""
        counts = np.zeros(len(edges))
        for X, y in self._blocks():
            rows = self._clipped(theta, X, y, None, scales)
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            cells = np.searchsorted(edges[:-1], norms)
            counts += np.bincount(cells, minlength=len(edges))
        return counts

    def gradient_change(self, new: Array, old: Array, limit: float, divisor: float) -> Array:
        """Sum of the changes of the clipped gradients, each clipped to ``limit``, / divisor."""
        total = np.zeros(self._objective.dimension)
        for X, y in self._blocks():
            change = self._clipped(new, X, y) - self._clipped(old, X, y)
            total += _clip_rows(change, limit).sum(axis=0)
        return total / divisor

    def loss(self, theta: Array, divisor: float) -> float:
        """Sum of the losses / divisor; not clipped, for comparisons outside of privacy."""
        losses = self._objective.losses
        if losses is None:
            raise TypeError("the objective has no losses.")
        total = 0.0
        with ignore_warnings():
            for X, y in self._blocks():
                total += float(np.sum(losses(theta, X, y)))
        return total / divisor

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        size = self._objective.block_rows
        for X, y in self._records.blocks():
            for first in range(0, len(y), size):
                # however they are stored, gradients are of float64 records
                with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
                    rows = X[first : first + size].astype(np.float64, copy=False)
                yield rows, y[first : first + size]

    def _clipped(
        self,
        theta: Array,
        X: Array,
        y: Array,
        limit: float | None = None,
        scales: Array | None = None,
    ) -> Array:
        # a record that is not finite counts for nothing, as everywhere, and is not shown
        usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
        if not usable.all():
            X, y = np.where(usable[:, None], X, 0.0), np.where(usable, y, 0.0)
        with ignore_warnings():
            if self._objective.vectorized:
                rows = self._together(theta, X, y)
            else:
                rows = self._one_by_one(theta, X, y, usable)
        rows[~usable] = 0.0
        if scales is not None:
            with np.errstate(all="ignore"):
                rows = rows * scales
        declared = self._objective.lipschitz
        return _clip_rows(rows, declared if limit is None else min(limit, declared))

    def _one_by_one(
        self, theta: Array, X: Array, y: Array, usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Compute each row from its record alone; zero where the function raises."""
        rows = np.zeros((len(y), self._objective.dimension))
        if self._compiled is not None:
            # writable copies in C order: the loop was compiled for these and for no other
            theta, X, y = (np.array(part, dtype=np.float64, order="C") for part in (theta, X, y))
            self._compiled(theta, X, y, rows, usable)
            return rows
        for i in np.flatnonzero(usable):
            single = self._evaluate(theta, X[i : i + 1], y[i : i + 1])
            if single is not None:
                rows[i] = single[0]
        return rows

    def _together(self, theta: Array, X: Array, y: Array) -> Array:
        """Compute all rows in one call of a vectorized function; halve the block if it fails."""
        rows = np.zeros((len(y), self._objective.dimension))
        parts = [(0, len(y))]
        while parts:
            first, last = parts.pop()
            in_part = np.zeros(len(y), dtype=bool)
            in_part[first:last] = True
            all_rows = last - first == len(y)
            X_part = X if all_rows else np.where(in_part[:, None], X, 0.0)
            gradients = self._evaluate(theta, X_part, y if all_rows else np.where(in_part, y, 0.0))
            if gradients is not None:
                rows[first:last] = gradients[first:last]
            elif last - first > 1:
                middle = (first + last) // 2
                parts += [(first, middle), (middle, last)]
        return rows

    def _evaluate(self, theta: Array, X: Array, y: Array) -> Array | None:
        """Call the user's function; return a fresh array of the right shape, or None."""
        try:
            # copies, so that the function can change neither records nor parameters
            gradients = np.array(
                self._objective.gradients(theta.copy(), X.copy(), y.copy()), dtype=np.float64
            )
        except KeyboardInterrupt:
            raise
        except BaseException:  # also sys.exit() and a lack of memory: they may depend on values
            return None
        return gradients if gradients.shape == (len(y), self._objective.dimension) else None


def _clip_rows(rows: Array, limit: float) -> Array:
    """Clip rows to a norm of at most ``limit``, in place; rows that are not finite become zero."""
    size_of_block = max(LEAST_ROWS, CLIPPED_ENTRIES // rows.shape[1])
    with np.errstate(all="ignore"):
        for first in range(0, len(rows), size_of_block):
            block = rows[first : first + size_of_block]
            directions, length, size = _normalise_rows(block)
            within_limit = length * size <= limit
            scaled = directions * (limit / np.where(length > 0.0, length, 1.0))
            block[:] = np.where(within_limit, directions * size, scaled)
    return rows


def _normalise_rows(rows: Array) -> tuple[Array, Array, Array]:
    """Divide rows by their largest entry; return them, their norms and the entries.

    All are zero for rows that are not finite.
    """
    sizes = np.abs(rows)
    if len(rows) < rows.shape[1]:
        largest = sizes.max(axis=1)
    else:  # along short rows a maximum is slow
        largest = np.ascontiguousarray(sizes.T).max(axis=0)
    usable = (largest > 0.0) & (largest < np.inf)
    size = np.where(usable, largest, 1.0)[:, None]
    scaled = np.where(usable[:, None], rows, 0.0) / size  # entries at most 1 in absolute value
    return scaled, np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None], size
