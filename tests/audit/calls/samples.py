"""Calls at sizes at which a fit draws a secret sample, one for each kind of it (claim C85)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.data.source import records
from dpfast.effects.treatment import treatment_effect
from dpfast.privacy.budget import GDP
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.fit import fit
from dpfast.regression.quantiles.fitting import fit_quantiles
from tests.audit.calls.example import Example

__all__ = ["Sized", "samples"]


class Sized(NamedTuple):
    """A call for so many records of so many columns, and what it is to ask of their rows.

    ``rare`` is the share of ones in the last column.  ``tied`` says whether the first two columns
    are nearly the same, so that rows are whitened again.  ``shows`` is told of every row asked.
    """

    example: Example
    n: int
    columns: int
    draws: int = 1
    rare: float = 0.0
    tied: bool = False
    shows: Callable[[set[tuple[int, bool, bool]]], bool] = lambda asked: True

    def table(self) -> tuple[Any, Any]:
        """Covariates and responses."""
        rng = np.random.default_rng(7)
        X = rng.normal(size=(self.n, self.columns))
        if self.rare:
            X[:, -1] = rng.random(self.n) < self.rare
        if self.tied:
            X[:, 1] = X[:, 0] + 0.25 * X[:, 1]
        return X, X.sum(axis=1) + rng.logistic(size=self.n)


def seen(rows: PreconditionedQueries) -> tuple[int, bool, bool]:
    """How many records are asked about, whether turned, and whether their lengths are kept."""
    many = rows._rotated
    return rows.n, many is not None, many is not None and many.squares is not None


def samples() -> Iterator[Sized]:
    """The noise is seeded, so that each run of a call draws the same sample."""

    def fitted(label: str, loss: str, mu: float, function: Any = fit) -> Example:
        def call(data: Any) -> Any:
            found = function(records(*data, threads=1), None, loss, **_paid(mu))
            return found, found.summary(), found.to_dict(), repr(found)

        return Example("dpfast.regression.fit.fit", f"{loss}, {label}", call, False, GDP(mu))

    squares = "least-squares"
    yield Sized(
        fitted("drawn", squares, 2.0), 60_000, 2,
        shows=lambda asked: {n for n, *_ in asked} == {15_000, 60_000},
    )  # fmt: skip
    yield Sized(
        fitted("given up for a rare level", squares, 2.0), 60_000, 2, rare=1.0 / 400.0,
        shows=lambda asked: {n for n, *_ in asked} == {60_000},
    )  # fmt: skip
    yield Sized(
        fitted("a larger one for a rare level", "log-cosh", 1.0), 180_000, 1, 2, 1.0 / 400.0,
        shows=lambda asked: {n for n, *_ in asked} == {45_000, 180_000},
    )  # fmt: skip
    yield Sized(
        fitted("turned rows", squares, 2.0), 140_000, 15, tied=True,
        shows=lambda asked: (35_000, True, False) in asked,
    )  # fmt: skip
    yield Sized(
        fitted("white rows", squares, 2.0), 140_000, 15,
        shows=lambda asked: asked == {(35_000, False, False), (140_000, True, True)},
    )  # fmt: skip
    yield Sized(
        fitted("lengths that are kept", "log-cosh", 2.0), 60_000, 9,
        shows=lambda asked: (60_000, True, True) in asked,
    )  # fmt: skip

    def levels(data: Any) -> Any:
        found = fit_quantiles(records(*data, threads=1), None, (0.5, 0.9), **_paid(2.0))
        return found, found.summary()

    name = "dpfast.regression.quantiles.fitting.fit_quantiles"
    yield Sized(Example(name, "drawn", levels, False, GDP(2.0)), 60_000, 2)

    def effect(data: Any) -> Any:
        X, y = data
        with np.errstate(all="ignore"):
            treated = (X[:, 0] > 0.0) * 1.0
        found = treatment_effect(records(X, y, threads=1), treated, **_paid(2.0))
        return found, found.summary()

    name = "dpfast.effects.treatment.treatment_effect"
    yield Sized(Example(name, "units of a sample", effect, False, GDP(2.0)), 60_000, 2, 2)


def _paid(mu: float) -> dict[str, Any]:
    return {"privacy": GDP(mu), "noise": SeededNoise(1)}
