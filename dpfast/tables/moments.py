"""Counts, means and totals by cell from released sums, with their errors (post-processing)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.degrees import MIN_DEGREES
from dpfast.privacy.tables.sensitivity import (
    SQUARE_AT,
    SQUARE_WEIGHT,
    count_square_factor,
    count_weight,
    weighted_factors,
)

Array = NDArray[np.float64]

#: What a count may be of: records as they are, rows of persons, persons, or a population that the
#: records are sampled from, by their weights.
COUNTED = ("records", "rows", "persons", "population")


class ReleasedSums(NamedTuple):
    """Released sums by cell, as the curator gave them.

    Attributes
    ----------
    values : ndarray of shape (levels..., sums)
    scale : float
        Standard deviation of the noise of each.
    squared : tuple of bool
        For each column, whether it has more than two values.
    counted : str
        What counts are of; one of ``COUNTED``.
    unit : float
        Weighted rows that the largest contribution stands for.
    n_units : int
        Records or persons that were sampled.
    clustered : bool
        Whether a person may be in several cells.
    lost : float
        Part of the sum of weights that an estimated bound may have clipped.
    """

    values: Array
    scale: float
    squared: tuple[bool, ...]
    counted: str
    unit: float
    n_units: int
    clustered: bool = False
    lost: float = 0.0

    @property
    def n_columns(self) -> int:
        """Number of columns with sums."""
        return len(self.squared)

    def over(self, axes: tuple[int, ...]) -> ReleasedSums:
        """Add up over groupings; the noise of a sum of k cells is root k times as large."""
        values = self.values.sum(axis=axes)
        k = self.values.size // max(values.size, 1)
        return self._replace(values=values, scale=self.scale * float(np.sqrt(k)))


class Moments(NamedTuple):
    """Counts and means of coded columns by cell, with errors; counts are in natural units.

    ``totals`` are sums of the columns in natural units, and ``squares`` sums of squared weights,
    which are the counts themselves where records count alike.
    """

    counts: Array
    count_noise: float
    count_error: Array
    squares: Array
    mean: Array
    bse: Array
    degrees: Array
    totals: Array
    total_error: Array


def moments_of(sums: ReleasedSums, middles: Array, halves: Array) -> Moments:
    """Compute counts, means and totals of columns with these ranges, and their standard errors."""
    if sums.counted == "records":
        return _of_records(sums, middles, halves)
    return _of_weights(sums, middles, halves)


def _of_records(sums: ReleasedSums, middles: Array, halves: Array) -> Moments:
    """Compute moments of records that count alike: sums, sums of squares and counts.

    The variance of a ratio is by the delta method.  Cells whose count is not positive are NaN.
    """
    q, scale = sums.n_columns, sums.scale
    n_squared = sum(sums.squared)
    weight = count_weight(n_squared, q - n_squared) if q else 1.0
    count, count_noise = sums.values[..., -1] / weight, scale / weight
    noisy_squares = iter(np.moveaxis(sums.values[..., q:-1], -1, 0) / SQUARE_WEIGHT)
    columns = []
    with np.errstate(all="ignore"):
        n = np.where(count > 0.0, count, np.nan)
        for j, squared in enumerate(sums.squared):
            mean = sums.values[..., j] / n
            noise = (scale**2 + (mean * count_noise) ** 2) / n**2
            if squared:
                second_moment = next(noisy_squares) / n + SQUARE_AT
                count_effect = 2.0 * mean * mean - second_moment + SQUARE_AT
                by_squares = (scale / SQUARE_WEIGHT) ** 2 + (count_effect * count_noise) ** 2
                square_error = np.sqrt(by_squares + (2.0 * mean * scale) ** 2) / n
            else:
                second_moment = np.ones_like(n)
                square_error = 2.0 * np.abs(mean) * np.sqrt(noise)
            sampling = np.maximum(second_moment - mean * mean, square_error) / n
            columns.append(_column(mean, sampling, noise, square_error / n))
    coded = sums.values[..., :q]
    totals = _natural_totals(coded, count, middles, halves)
    noise = np.hypot(halves * scale, middles * count_noise)
    errors = np.broadcast_to(noise.reshape(q, *[1] * count.ndim), totals.shape)
    error = np.full_like(count, count_noise)
    mean, bse, degrees = _stacked(columns, count.shape)
    return Moments(count, count_noise, error, count, mean, bse, degrees, totals, errors)


def _of_weights(sums: ReleasedSums, middles: Array, halves: Array) -> Moments:
    """Compute moments of weighted rows or persons (Horvitz-Thompson totals, ratio means).

    The variance of a mean is that of persons' sums of weighted residuals, so it holds for any
    weights, and for rows of a person that go together.  It is a function of released sums of
    squares, of products with weights and of squared weights.
    """
    q, scale, unit = sums.n_columns, sums.scale, sums.unit
    first = np.moveaxis(sums.values, -1, 0)
    if q:
        product, weight_square, count_factor = weighted_factors(q)
    else:
        product, weight_square, count_factor = 1.0, count_square_factor(), 1.0
    count, count_noise = first[0 if not q else -1] / count_factor, scale / count_factor
    squared_noise = scale / weight_square
    with np.errstate(all="ignore"):
        n = np.where(count > 0.0, count, np.nan)
        # a weight is at most 1, and the mean square is at least the squared mean
        least = n * n / max(sums.n_units, 1)
        weights = np.clip(first[-2 if q else 1] / weight_square, np.minimum(least, n), n)
        columns, totals, errors = [], [], []
        for j in range(q):
            total, products = first[j], first[2 * q + j] / product
            squares = first[q + j] / SQUARE_WEIGHT + SQUARE_AT * weights
            mean = np.clip(total / n, -1.0, 1.0)
            noise = (scale**2 + (mean * count_noise) ** 2) / n**2
            variance = squares - 2.0 * mean * products + mean * mean * weights
            error = _error(scale, squared_noise, SQUARE_AT + mean * mean, 2.0 * mean / product)
            sampling = np.maximum(variance, error) / n**2
            columns.append(_column(mean, sampling, noise, error / n**2))
            middle, half = float(middles[j]), float(halves[j])
            natural = middle * count + half * total
            by_noise = np.full_like(count, (half * scale) ** 2 + (middle * count_noise) ** 2)
            if sums.counted == "population":
                spread = half**2 * squares + 2.0 * middle * half * products + middle**2 * weights
                error = _error(
                    scale * half**2,
                    squared_noise,
                    SQUARE_AT * half**2 + middle**2,
                    2.0 * middle / half / product,
                )
                by_noise = by_noise + np.maximum(spread - natural**2 / sums.n_units, error)
            totals.append(unit * natural)
            errors.append(unit * np.hypot(np.sqrt(by_noise), sums.lost * natural))
        count_variance = np.full_like(count, count_noise**2)
        if sums.counted == "population":
            count_variance = count_variance + np.maximum(weights - least, 0.0)
    shape = count.shape
    mean, bse, degrees = _stacked(columns, shape)
    return Moments(
        unit * count,
        unit * count_noise,
        unit * np.hypot(np.sqrt(count_variance), sums.lost * count),
        unit**2 * weights,
        mean,
        bse,
        degrees,
        np.array(totals).reshape(q, *shape),
        np.array(errors).reshape(q, *shape),
    )


def weighted_shares(
    sums: ReleasedSums, axes: tuple[int, ...], told: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Estimate shares of weighted counts within what is added up over ``axes``, and their errors.

    With one row a person the sampling variance is that of a ratio.  Of persons in several cells it
    is a bound: the weights inside and outside of a cell have opposite signs in it, so it is at most
    the sum of both squares.
    """
    moments = moments_of(sums, np.zeros(sums.n_columns), np.ones(sums.n_columns))
    counts, squares = moments.counts / sums.unit, moments.squares / sums.unit**2
    noise = float(moments.count_noise) / sums.unit
    total = counts.sum(axis=axes, keepdims=True)
    n_others = counts.size // total.size - 1
    with np.errstate(all="ignore"):
        large_enough = told.any(axis=axes, keepdims=True) & (
            total >= 4.0 * np.sqrt(n_others + 1.0) * noise
        )
        total = np.where(large_enough, total, np.nan)
        share = np.clip(counts / total, 0.0, 1.0)
        squares = np.where(np.isfinite(squares), squares, 0.0)
        others = squares.sum(axis=axes, keepdims=True) - squares
        if sums.clustered:
            others = np.maximum(total - counts, 0.0)  # a person's weight is at most 1
        sampling = (1.0 - share) ** 2 * squares + share**2 * others
        by_noise = noise**2 * ((1.0 - share) ** 2 + n_others * share**2)
        return share, np.sqrt(sampling + by_noise) / total


def _error(scale: float, weight_noise: float, of_weights: Any, of_products: Any) -> Array:
    """Compute the noise of squares, plus squared weights and products with these coefficients."""
    squares = (scale / SQUARE_WEIGHT) ** 2 + (of_products * scale) ** 2
    return np.asarray(np.sqrt(squares + (of_weights * weight_noise) ** 2))


def _column(mean: Array, sampling: Array, noise: Array, error: Array) -> tuple[Array, ...]:
    """Return a mean, its standard error, and degrees of freedom by the error of the variance."""
    variance = sampling + noise
    degrees = np.maximum(MIN_DEGREES, 2.0 / (error / variance) ** 2)
    return mean, np.sqrt(variance), degrees


def _stacked(columns: list[tuple[Array, ...]], shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Stack means, errors and degrees of freedom of columns."""
    return tuple(
        [
            np.array([column[k] for column in columns]).reshape(len(columns), *shape)
            for k in range(3)
        ]
    )


def _natural_totals(coded: Array, count: Array, middles: Array, halves: Array) -> Array:
    columns = np.moveaxis(coded, -1, 0)
    across = (-1, *[1] * count.ndim)
    return np.asarray(middles.reshape(across) * count + halves.reshape(across) * columns)
