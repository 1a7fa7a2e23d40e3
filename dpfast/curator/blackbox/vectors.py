"""Means of caller-supplied per-record vectors, clipped to a public norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, real_number, whole_number
from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import (
    release_choice_with_noise,
    release_with_noise,
    source_of_noise,
)
from dpfast.curator.shares import Shares
from dpfast.data.cells import number, number_cells
from dpfast.data.columns import foreign_array
from dpfast.errors import InvalidInput, described
from dpfast.privacy.blackbox.sensitivity import choice_exponent, clipped_mean, loss_steps, mean_loss
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.noise import NoiseSource

#: Records whose vectors are formed at a time: what they need stays in the cache, which makes
#: the pass as fast as the bare matrix product.
BLOCK = 4096

#: Grid steps in the sensitivity of a mean loss: rounding to the grid costs one of them.
STEPS_PER_RECORD = 1024

#: Range a clipping norm must lie in, so that squares neither overflow nor underflow.
BOUND_RANGE = (1e-100, 1e100)


def checked_values(values: ArrayLike, n: int, points: int | None = None) -> Array:
    """Copy per-record values to shape (points, n), checked by shape and dtype alone."""
    expected = (n,) if points is None else (points, n)
    if points is None or not _is_list(values):
        return _checked_array(values, expected).reshape(-1, n)
    rows: Any = values
    if len(rows) != points:
        raise _wrong_shape(expected, f"with {len(rows)} rows")
    return np.concatenate(
        [np.empty((0, n)), *(_checked_array(row, (n,)).reshape(1, n) for row in rows)]
    )


def _checked_array(values: Any, expected: tuple[int, ...]) -> Array:
    """Copy an array, or a list of cells, to an array of float64."""
    if _is_list(values):
        if (len(values),) != expected:
            raise _wrong_shape(expected, f"of {len(values)} entries")
        return _to_numbers(values)
    found = foreign_array(values, "the array of per-record values")
    if found.dtype.kind not in "fiubO":
        raise InvalidInput(
            "per-record values must be real numbers (a floating-point, integer or boolean dtype); "
            f"received dtype {found.dtype}."
        )
    if found.shape != expected:
        raise _wrong_shape(expected, f"of shape {found.shape}")
    if found.dtype.kind == "O":
        return _to_numbers(found.ravel().tolist()).reshape(expected)
    with np.errstate(all="ignore"):  # what does not fit a double becomes infinite: contributes zero
        return np.array(found, dtype=np.float64, order="C")


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes))


def _wrong_shape(expected: tuple[int, ...], received: str) -> InvalidInput:
    return InvalidInput(
        f"expected one value per validation record, shape {expected}; received values {received}. "
        "A loss that is already averaged over records cannot be privatised."
    )


def _to_numbers(cells: Sequence[Any]) -> Array:
    """Convert each cell to a number; a cell that has none becomes NaN and stops no other."""
    numbers = number_cells(cells)
    for i in np.flatnonzero(np.isnan(numbers)):
        numbers[i] = _to_number(cells[int(i)])
    return numbers


def _to_number(cell: Any) -> float:
    """Convert an array of one entry, such as other libraries' scalars; NaN for the rest."""
    if type(cell) is float:
        return cell
    try:
        array = np.asarray(cell)
        return number(array.item()) if array.size == 1 and array.dtype.kind in "fiub" else math.nan
    except Exception:
        return math.nan


class RecordValues:
    """Values that a caller computed for every record, from it alone (PROOFS-bayesopt.md)."""

    def __init__(self, n: int, ledger: Ledger, noise: NoiseSource) -> None:
        self.n = whole_number(n, "the number of records", 1)
        self.ledger = ledger
        self._noise = source_of_noise(noise)
        self._chunks: list[Array] = []
        #: largest finite value of each record, in place of its values that are not finite
        self._largest: Array = np.array(-np.inf)

    @property
    def n_points(self) -> int:
        """Number of values given for each record so far."""
        return sum([len(chunk) for chunk in self._chunks])

    def append(self, values: ArrayLike, points: int | None = None) -> None:
        """Append the values of every record at one point, shape (n,), or several, (points, n)."""
        chunk = checked_values(values, self.n, points)
        finite = np.where(np.isfinite(chunk), chunk, -np.inf)
        self._largest = np.maximum(self._largest, finite.max(axis=0, initial=-np.inf))
        self._chunks.append(chunk)

    def _without_failures(self, chunk: Array, block: slice) -> Array:
        """Replace values of failed trainings by the worst value of that record."""
        part = chunk[:, block]
        return np.where(np.isfinite(part), part, self._largest[block])

    def depth(self) -> int:
        """Count the sequential roundings of a mean: in a block, then over blocks (claim G1)."""
        return min(self.n, BLOCK) + -(-self.n // BLOCK) + 1

    def mean_receipt(self, bound: float, mu: float, dimension: int) -> Receipt:
        """Make the receipt of :meth:`mean`; reads no record, costs nothing."""
        bound = real_number(bound, "the clipping norm")
        if not BOUND_RANGE[0] <= bound <= BOUND_RANGE[1]:
            raise InvalidInput(
                "the clipping norm must be a public number in "
                f"[{BOUND_RANGE[0]:g}, {BOUND_RANGE[1]:g}]; received {described(bound)}."
            )
        sensitivity = clipped_mean(bound, self.n, dimension, depth=self.depth())
        return gaussian_receipt("clipped mean", "G1", mu, sensitivity, bound, dimension)

    def mean(self, weights: Array, bound: float, mu: float, *, label: str = "") -> Answer:
        """Release the mean of ``clip(weights' y_i)``, shape (d,): ``mu`` (claims G1 and G2)."""
        if weights.ndim != 2 or len(weights) != self.n_points:
            raise InvalidInput(
                f"weights must have shape (n_points, d) with n_points = {self.n_points}; "
                f"received {weights.shape}."
            )
        receipt = self.mean_receipt(bound, mu, weights.shape[1])
        label = label or receipt.query
        self.ledger.charge(GDP(mu), label)
        value = self._clipped_mean(weights, bound)
        return release_with_noise(self._noise, (label, mu, weights, bound), receipt, value)

    def norms(self, weights: Array) -> Shares:
        """Compute norms of ``weights' y_i``, NaN if not finite; a share costs its ``mu`` (C46)."""
        values = np.concatenate(self._chunks)
        with np.errstate(all="ignore"):
            vectors = [
                weights.T @ self._without_failures(values, block) for block in _blocks(self.n)
            ]
            lengths = np.concatenate([np.linalg.norm(rows, axis=0) for rows in vectors])
        return Shares(np.where(np.isfinite(lengths), lengths, np.nan), self.ledger, self._noise)

    def smallest(self, rank: int) -> Shares:
        """Take the size of each record's values, the one of this rank; a share costs mu (C46)."""
        values = np.sort(np.abs(np.concatenate(self._chunks)), axis=0)[rank]
        return Shares(np.where(np.isfinite(values), values, np.nan), self.ledger, self._noise)

    def loss_receipt(self, lower: float, upper: float, mu: float) -> Receipt:
        """Make the receipt of :meth:`mean_loss`; reads no record, costs nothing."""
        sensitivity = mean_loss(lower, upper, self.n, depth=self.depth())
        return gaussian_receipt("mean loss", "G4", mu, sensitivity, upper - lower, 1)

    def mean_loss(
        self, point: int, lower: float, upper: float, mu: float, *, label: str = ""
    ) -> Answer:
        """Release the mean of the values at one point, clipped, shape (1,): ``mu`` (claim G4)."""
        receipt = self.loss_receipt(lower, upper, mu)
        label = label or receipt.query
        self.ledger.charge(GDP(mu), label)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        value = self._mean_loss(point, middle, half)
        answer = release_with_noise(
            self._noise, (label, mu, point, lower, upper), receipt, np.array([value])
        )
        return answer._replace(value=answer.value + middle)

    def failed(self, mu: float) -> float:
        """Release the share of values that are not finite; costs ``mu`` (claim G4)."""
        shares = RecordValues(self.n, self.ledger, self._noise)
        counts = [np.count_nonzero(~np.isfinite(chunk), axis=0) for chunk in self._chunks]
        shares.append(np.sum(counts, axis=0) / self.n_points)
        return float(shares.mean_loss(0, 0.0, 1.0, mu, label="share that failed").value[0])

    def loss_grid(self, lower: float, upper: float) -> tuple[float, int]:
        """Return the unit in which mean losses are integers, and one record's effect in it (G5)."""
        grid = (upper - lower) / (self.n * float(STEPS_PER_RECORD))
        return grid, loss_steps(lower, upper, self.n, grid, depth=self.depth())

    def choice_receipt(
        self, lower: float, upper: float, mu: float
    ) -> tuple[Receipt, tuple[int, int]]:
        """Make the receipt of :meth:`choice`, and its rate; reads no record, costs nothing."""
        steps = self.loss_grid(lower, upper)[1]
        rate = laplace_rate(steps, choice_exponent(mu))
        return Receipt("choice of a point", "G7", mu, float(steps), steps / mu), rate

    def choice(self, first: int, lower: float, upper: float, mu: float, *, label: str = "") -> int:
        """Choose among the points from ``first`` on by clipped mean value: ``mu`` (claim G7)."""
        receipt, rate = self.choice_receipt(lower, upper, mu)
        label = label or receipt.query
        self.ledger.charge(GDP(mu), label)
        middle, half, grid = (
            0.5 * (lower + upper),
            0.5 * (upper - lower),
            self.loss_grid(lower, upper)[0],
        )
        means = [self._mean_loss(k, middle, half, half) for k in range(first, self.n_points)]
        question = (label, mu, first, lower, upper)
        return release_choice_with_noise(
            self._noise, question, receipt, [round(m / grid) for m in means], rate
        )

    def _mean_loss(self, point: int, middle: float, half: float, failed: float = 0.0) -> float:
        """Compute the exact mean deviation from the middle of the range, block by block."""
        row = [row for chunk in self._chunks for row in chunk][point]
        total = 0.0
        with np.errstate(all="ignore"):
            for block in _blocks(self.n):
                deviation = np.clip(row[block] - middle, -half, half)
                total += float(np.sum(np.where(np.isfinite(row[block]), deviation, failed)))
        return total / self.n

    def _clipped_mean(self, weights: Array, bound: float) -> Array:
        """Compute the exact mean of the clipped vectors."""
        return self._mean(weights, lambda vectors: _clipping_factors(vectors, bound))

    def _mean(self, weights: Array, factors: Callable[[Array], Array]) -> Array:
        """Compute the mean of vectors times one factor per record, block by block."""
        parts = []
        start = 0
        for chunk in self._chunks:
            parts.append((np.ascontiguousarray(weights[start : start + len(chunk)].T), chunk))
            start += len(chunk)
        total = np.zeros(weights.shape[1])
        with np.errstate(all="ignore"):
            for block in _blocks(self.n):
                vectors = np.zeros((len(total), block.stop - block.start))
                for part, chunk in parts:
                    vectors += part @ self._without_failures(chunk, block)
                factor = factors(vectors)  # first: it may rescale the vectors
                total += vectors @ factor
            return total / self.n


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


def _clipping_factors(vectors: Array, bound: float) -> Array:
    """Compute the factor that clips each column to the bound (claim G1).

    Scales the columns in place, so that no square overflows or underflows.
    """
    largest = np.abs(vectors).max(axis=0)
    usable = (largest > 0.0) & (largest < np.inf)  # False for NaN
    scale = np.where(usable, largest, 1.0)
    vectors /= scale
    vectors[:, ~usable] = 0.0
    norms = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
    norms[~usable] = 1.0
    return np.asarray(np.minimum(scale * norms, bound) / norms * usable)
