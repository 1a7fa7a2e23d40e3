"""What a warning means: coverage of fits that warn and of those that do not, over designs.

    python -m bench.warned [--runs 400] [--only LOSS] [--store]

A design is a kind of columns, a loss, a number of records and a budget; nothing is declared.
*held*: how often intervals hold the slopes, over all fits and over those that do not warn; *error*:
median over slopes of the root mean square error over that without privacy.  A cell is *well* where
.94 are held, the error is below 1.3 and no slope is left out, and *short* where fewer than .93 are
held.  Noise is seeded: a simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import options, store
from bench.tables import exact, in_units

RESULTS = Path(__file__).parent / "results" / "warned.md"
Array = NDArray[np.float64]
Drawn = Callable[[np.random.Generator, int], Array]

#: Records and budgets.
SIZES = ((3000, 1.0), (10_000, 0.5), (10_000, 2.0))

#: Means of such counts have no end.
ENDLESS = ("counts", "t(3)")

WELL, DEAR, SHORT = 0.94, 1.3, 0.93


def ages(rng: np.random.Generator, n: int) -> Array:
    """Age beside its square, schooling, and a rare label."""
    age = rng.integers(18, 66, n)
    return np.column_stack([age, age**2.0, rng.normal(12.0, 3.0, n), rng.random(n) < 0.1])


def beside(rng: np.random.Generator, n: int) -> Array:
    """Three columns that nearly follow from each other, and one on its own."""
    common = rng.normal(size=n)
    return np.column_stack([*(common + 0.2 * rng.normal(size=(3, n))), rng.normal(size=n)])


def labels(share: float) -> Drawn:
    def drawn(rng: np.random.Generator, n: int) -> Array:
        return np.column_stack(
            [rng.random(n) < share, rng.random(n) < 0.5, rng.normal(size=(n, 2))]
        )

    return drawn


COLUMNS: dict[str, Drawn] = {
    "normal": lambda rng, n: rng.normal(size=(n, 4)),
    "uniform, far off": lambda rng, n: 1e6 + 1e3 * rng.random((n, 4)),
    "t(3)": lambda rng, n: rng.standard_t(3, size=(n, 4)),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 1.0, (n, 4)),
    "labels, 10%": labels(0.1),
    "labels, 3%": labels(0.03),
    "labels, 1%": labels(0.01),
    "nearly alike": lambda rng, n: beside(rng, n),
    "age and its square": ages,
    "nine out of ten are zero": lambda rng, n: (
        rng.exponential(size=(n, 4)) * (rng.random((n, 4)) < 0.1)
    ),
}  # fmt: skip

LOSSES: dict[str, Any] = {
    "least squares": "least-squares",
    "least squares, t(3) errors": "least-squares",
    "least squares, spread with x": "least-squares",
    "log-cosh": "log-cosh",
    "quantile": dpfast.Quantile(0.75),
    "logistic": "logistic",
    "counts": "poisson",
}

#: Of standardised columns.
SLOPES = np.array([0.5, -0.4, 0.3, 0.0])


class Cell(NamedTuple):
    """What fits of a design say."""

    fits: int
    warned: int
    held: float
    unwarned: float
    error: float
    out: bool
    why: str

    @property
    def is_cheap(self) -> bool:
        """Whether privacy costs little, and no slope."""
        return self.error < DEAR and not self.out


def drawn(columns: Drawn, name: str, n: int, seed: int) -> tuple[Array, Array, Array]:
    """Covariates, response and slopes."""
    fixed = columns(np.random.default_rng(1), 100_000)
    centre, spread = fixed.mean(axis=0), fixed.std(axis=0)
    rng = np.random.default_rng(seed)
    X = columns(rng, n) * 1.0
    eta = ((X - centre) / spread) @ SLOPES
    if name == "logistic":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - eta))) * 1.0
    elif name == "counts":
        y = rng.poisson(np.exp(np.minimum(0.5 * eta, 8.0))) * 1.0
        return X, y, 0.5 * SLOPES / spread
    else:
        errors = rng.standard_t(3, n) if "t(3)" in name else rng.normal(size=n)
        if "spread" in name:
            errors *= 0.3 + np.abs((X[:, 0] - centre[0]) / spread[0])
        y = eta + errors
    return X, y, SLOPES / spread


def cell(columns: Drawn, name: str, n: int, mu: float, runs: int) -> Cell:
    loss, held, told, far = LOSSES[name], [], [], []
    why: Counter[str] = Counter()
    for seed in range(runs):
        X, y, truth = drawn(columns, name, n, seed)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=mu, noise=noise)
        low, high = fit.conf_int()[1:].T
        held.append(np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)))
        told.append(bool(fit.warnings))
        why.update(one.split(" ")[0] for one in fit.warnings)
        far.append(fit.params[1:] - truth)
    Z, spreads = in_units(X)
    unit = 1.0 if name in ("logistic", "counts") else float(y.std())
    plain = not (name.startswith("least") or unit == 1.0)
    own = exact(Z, y / unit, loss, fit._scale / unit if plain else None)
    errors = np.sqrt(np.nanmean(np.square(far), axis=0)) / (own.bse[1:] * unit / spreads)
    kept, says = np.array(held), np.array(told)
    unwarned = float(np.nanmean(kept[~says])) if not says.all() else np.nan
    words = ", ".join(f"{word} {count}" for word, count in why.most_common(3))
    return Cell(
        runs,
        int(says.sum()),
        float(np.nanmean(kept)),
        unwarned,
        float(np.median(errors)),
        bool(np.isnan(kept).any()),
        words,
    )


def main() -> None:
    asked = options("bench.warned", __doc__, 400, None).parse_args()
    head = "| loss | columns | n, mu | held | unwarned | warned | error | first words |\n"
    rows, cells = [head + "|---" * 8 + "|"], []
    for name in LOSSES:
        for kind, columns in COLUMNS.items():
            for n, mu in SIZES:
                if (asked.only and asked.only not in (name, kind)) or (name, kind) == ENDLESS:
                    continue
                found = cell(columns, name, n, mu, asked.runs)
                cells.append(found)
                rows.append(
                    f"| {name} | {kind} | {n}, {mu:g} | {found.held:.3f} | {found.unwarned:.3f} |"
                    f" {found.warned / found.fits:.2f} | {found.error:.2f} | {found.why} |"
                )
                print(rows[-1], flush=True)
    alone = [one for one in cells if one.warned < one.fits]
    many = [one.fits - one.warned for one in alone]
    pooled = np.average([one.unwarned for one in alone], weights=many)
    well = [one.warned / one.fits for one in cells if one.held >= WELL and one.is_cheap]
    short = [one.warned / one.fits for one in cells if one.held < SHORT]
    rows.append(
        f"\n{len(cells)} cells. Fits that do not warn hold {pooled:.3f}, the least "
        f"{min(one.unwarned for one in alone):.3f}. Where all is well ({len(well)} cells) "
        f"{np.mean(well or [np.nan]):.1%} of fits warn; where intervals are short ({len(short)}"
        f" cells) {np.mean(short or [np.nan]):.1%}."
    )
    print(rows[-1])
    store("bench.warned", asked, RESULTS, "\n".join(rows))


if __name__ == "__main__":
    main()
