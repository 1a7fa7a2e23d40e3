"""Cells of the grid: designs, sizes and seeds that nothing was tuned to.

Every design meets six sizes, large ones and a million records come at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.arrival.designs import SMALL, Cell

__all__ = ["DESIGNS", "Design", "grid_cells"]


class Design(NamedTuple):
    """What a cell has beside its size."""

    name: str
    loss: str
    options: dict[str, Any]
    scale: float = 1.0
    interval: tuple[float, float] | None = None


def _joint(
    name: str, loss: str, interval: tuple[float, float] = (0.08, 8.0), **options: Any
) -> Design:
    return Design(name, loss, options, interval=interval)


#: The scale is 1 in all of them.
DESIGNS = (
    Design("linear", "log-cosh", {}),
    Design("8% are ones", "logistic", {"ones": 0.08}),
    _joint("linear", "log-cosh"),
    Design("linear", "huber", {}),
    Design("half are ones", "logistic", {}),
    _joint("linear", "huber", (0.2, 25.0)),
    Design("correlated .6", "log-cosh", {"kind": "correlated 0.6"}),
    Design("15% are ones", "logistic", {"ones": 0.15}),
    _joint("linear", "pseudo-huber"),
    Design("correlated .9", "huber", {"kind": "correlated 0.9"}),
    Design("2% are ones", "logistic", {"ones": 0.02}),
    _joint("scale near the lower end", "huber", (0.9, 5.0)),
    Design("correlated .95", "log-cosh", {"kind": "correlated 0.95"}),
    Design(".8% are ones", "logistic", {"ones": 0.008}),
    _joint("40 scales away, heavy", "huber", far=40.0, heavy=True),
    Design("neighbours .9", "huber", {"kind": "neighbours 0.9"}),
    Design("slopes of .75", "logistic", {"slopes": 0.75}),
    _joint("neighbours .9", "log-cosh", kind="neighbours 0.9"),
    Design("dummies 2%", "huber", {"kind": "dummies 0.02"}),
    Design("slopes of 1.5", "logistic", {"slopes": 1.5}),
    _joint("dummies 3%", "log-cosh", kind="dummies 0.03"),
    Design("dummies 8%", "log-cosh", {"kind": "dummies 0.08"}),
    Design("slopes of 2.5", "logistic", {"slopes": 2.5}),
    _joint("t2.5, heavy", "pseudo-huber", kind="t2.5", heavy=True),
    Design("t2.5, heavy", "log-cosh", {"kind": "t2.5", "heavy": True}),
    Design("slopes of 4", "logistic", {"slopes": 4.0}),
    _joint("an interval that misses", "log-cosh", (3.0, 30.0)),
    Design("exponential", "huber", {"kind": "exponential"}),
    Design("correlated .9", "logistic", {"kind": "correlated 0.9", "slopes": 0.4}),
    _joint("sorted by response", "log-cosh", order="response"),
    Design("lumps", "log-cosh", {"kind": "lumps"}),
    Design("dummies 2%", "logistic", {"kind": "dummies 0.02"}),
    Design("shrinking", "huber", {"kind": "shrinking"}),
    Design("t2.5", "logistic", {"kind": "t2.5"}),
    Design("15 scales away", "log-cosh", {"far": 15.0}),
    Design("lumps", "logistic", {"kind": "lumps"}),
    Design("500 scales away", "huber", {"far": 500.0}),
    Design("sorted by response, 5%", "logistic", {"ones": 0.05, "order": "response"}),
    Design("scale / 10", "huber", {}, 0.1),
    Design("scale x 10", "log-cosh", {}, 10.0),
    Design("sorted by a covariate", "log-cosh", {"order": "covariate"}),
)

#: Records, coefficients and budgets; a design takes every fifth.
SIZES = (
    (200, 2, 1.0),
    (400, 2, 0.5),
    (700, 5, 1.0),
    (1_500, 3, SMALL),
    (1_500, 8, 1.0),
    (2_500, 15, 1.0),
    (4_000, 6, 0.5),
    (4_000, 25, 1.0),
    (6_000, 30, 1.0),
    (7_000, 12, 1.0),
    (12_000, 4, SMALL),
    (15_000, 10, 0.5),
    (25_000, 8, 1.0),
    (50_000, 5, 1.0),
)
SIZES_A_DESIGN = 6

#: Designs of large tables, by their place above.
LARGE = (
    (75_000, 3, 1.0, (10, 13, 25, 18, 40)),
    (120_000, 9, 1.0, (0, 25, 37, 33, 30, 29)),
    (200_000, 6, SMALL, (4, 12, 31, 36)),
)
MILLION = (
    (3, (13, 25, 18)),
    (6, (0, 30, 37, 40, 2)),
    (20, (4, 12)),
)


def _cell(design: Design, n: int, p: int, mu: float) -> Cell:
    options = dict(design.options)
    if design.loss != "logistic" or "ones" not in options:
        options["mixed"] = True
    return Cell(
        design.name,
        design.loss,
        n,
        p,
        mu,
        design.scale,
        tuple(sorted(options.items())),
        design.interval,
    )


def grid_cells() -> Iterator[Cell]:
    """Small tables first, a million records last."""
    found = [
        _cell(design, *SIZES[(3 * i + 5 * k) % len(SIZES)])
        for i, design in enumerate(DESIGNS)
        for k in range(SIZES_A_DESIGN)
    ]
    for i in (0, 1, 2, 3):  # the constant alone
        found += [_cell(DESIGNS[i], n, 1, 1.0) for n in (300, 5_000)]
    for n, p, mu, designs in LARGE:
        found += [_cell(DESIGNS[i], n, p, mu) for i in designs]
    yield from sorted(found, key=lambda cell: cell.n * cell.p)
    for p, designs in MILLION:
        yield from (_cell(DESIGNS[i], 1_000_000, p, 1.0) for i in designs)
