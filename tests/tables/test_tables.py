"""Tables by cell: they estimate what they say, cover, hide what is too small, and are planned."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from dpfast import tables
from dpfast.tables.by_cell import MIN_COUNT_SDS
from tests.loops import each
from tests.stops import stopped

SCHEMA = dpfast.Schema(
    {
        "region": dpfast.Categorical(["north", "south", "west", "nowhere"]),
        "sex": dpfast.Binary("F", "M"),
        "age": dpfast.Categorical([0, 1, 2]),
        "pay": dpfast.Numeric(0.0, 50.0),
        "poor": dpfast.Binary(1, 0),
    }
)
RNG = np.random.default_rng(3)


def population(n, rng=RNG):
    region = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    sex = rng.integers(0, 2, n)
    pay = np.minimum(rng.gamma(4.0, 2.0 + region + sex), 50.0)
    return {
        "region": np.array(["north", "south", "west"])[region],
        "sex": np.array(["M", "F"])[sex],
        "pay": pay,
        "poor": (pay < 6.0).astype(int),
    }


def seeded(seed=0):
    return dpfast.SeededNoise(seed)


def test_counts_and_means_of_a_large_budget_are_those_of_the_table():
    table = population(4000)
    found = tables.means(
        table, ["pay", "poor"], ["region", "sex"], schema=SCHEMA, privacy=2000.0, noise=seeded()
    )
    counted = tables.counts(table, ["region", "sex"], schema=SCHEMA, privacy=2000.0, noise=seeded())
    assert found.levels == (("north", "south", "west", "nowhere"), ("M", "F"))
    for i, region in enumerate(found.levels[0][:3]):
        for j, sex in enumerate(found.levels[1]):
            inside = (table["region"] == region) & (table["sex"] == sex)
            for one in (found, counted):
                assert one.counts[i, j] == pytest.approx(inside.sum(), abs=0.1)
            for k, name in enumerate(("pay", "poor")):
                own = table[name][inside]
                assert found.mean[k, i, j] == pytest.approx(own.mean(), abs=0.01)
                error = own.std() / np.sqrt(inside.sum())
                assert found.bse[k, i, j] == pytest.approx(error, rel=0.01)
    assert np.isnan(found.mean[:, 3]).all() and not found.told[3].any()
    share, _ = counted.shares()
    assert share.sum() == pytest.approx(1.0)
    within, error = counted.shares("region")
    np.testing.assert_allclose(within[:3].sum(axis=1), 1.0, atol=1e-3)
    assert np.isnan(within[3]).all() and (error[:3] > 0.0).all()


def test_the_table_of_one_cell_is_of_all_records():
    table = population(4000)
    found = tables.means(table, "pay", schema=SCHEMA, privacy=1000.0, noise=seeded())
    assert found.mean.shape == (1,) and found.counts.shape == ()
    assert found.mean[0] == pytest.approx(table["pay"].mean(), abs=0.02)
    assert found.summary().table.labels == ("all records",)
    middle = tables.quantiles(table, "pay", schema=SCHEMA, privacy=1000.0, noise=seeded())
    assert middle.quantile[0] == pytest.approx(np.median(table["pay"]), abs=0.05)


@pytest.mark.parametrize(("n", "mu"), [(600, 1.0), (6000, 0.3)])
@pytest.mark.one_in(2)
def test_intervals_cover(n, mu):
    """120 tables of six cells, which have 30 to 180 records of n = 600 (60 of n = 6,000): 360 to
    720 intervals of each kind.  Of 360 at .95 fewer than .90 cover with a chance below 1e-4."""
    rng, runs = np.random.default_rng(7), 120 if n < 1000 else 60
    truth = np.array([[4.0 * (2.0 + r + s) for s in (0, 1)] for r in range(3)])
    hits = {"mean": [], "count": [], "median": [], "share": []}
    medians = 3.6720607 * truth / 4.0  # of a gamma distribution of shape 4
    for run in range(runs):
        table, by = population(n, rng), ["region", "sex"]
        options = {"schema": SCHEMA, "privacy": mu, "noise": seeded(run)}
        found = tables.means(table, "pay", by, **options)
        told = found.told[:3]
        low, high = np.moveaxis(found.conf_int("pay")[:3], -1, 0)
        hits["mean"].append(((low <= truth) & (truth <= high))[told])
        counts = np.array([[((table["region"] == r) & (table["sex"] == s)).sum() for s in "MF"]
                           for r in ("north", "south", "west")])  # fmt: skip
        low, high = np.moveaxis(found.conf_int()[:3], -1, 0)
        hits["count"].append(((low <= counts) & (counts <= high)).ravel())
        share, error = found.shares("region")
        hits["share"].append((np.abs(share - 0.5) < 1.96 * error)[:3][told])
        found = tables.quantiles(table, "pay", by, **options)
        inside = (found.low[0, :3] <= medians) & (medians <= found.high[0, :3])
        hits["median"].append(inside[found.told[:3]])
    for what, one in hits.items():
        together = np.concatenate([some.ravel() for some in one])
        assert together.size > 300 and together.mean() > 0.9, (what, together.mean())


def test_the_interval_of_a_quantile_covers_where_most_values_are_alike():
    """Zeros, .93 of 150: the interval of a high quantile reaches down to the heap."""
    rng, hits = np.random.default_rng(11), []
    for run in range(120):
        pay = np.where(rng.random(150) < 0.93, 0.0, rng.uniform(0.0, 50.0, 150))
        options = {"schema": SCHEMA, "privacy": 1.0, "noise": seeded(run)}
        found = tables.quantiles({"pay": pay}, "pay", None, (0.25, 0.5, 0.9), **options)
        hits.append(found.low[2] == 0.0)
    assert np.mean(hits) > 0.87


def test_means_at_an_end_of_what_was_declared_are_told():
    """Of 60 tables of incomes, ages and gains that are mostly 0 none is told of; ages + 200 are."""
    rng = np.random.default_rng(0)
    amounts = dpfast.Numeric(0.0, 1e6)
    schema = dpfast.Schema(
        {"group": dpfast.Categorical(["a", "b"]), "age": dpfast.Numeric(0.0, 100.0)}
        | {"pay": amounts, "gain": amounts, "share": dpfast.Numeric(0.0, 1.0)}
    )
    for seed in range(60):
        n = int(rng.integers(200, 5_000))
        table = {
            "group": rng.choice(["a", "b"], n),
            "age": rng.uniform(18.0, 90.0, n) + 200.0 * (seed == 59),
            "pay": np.exp(10.5 + rng.normal(size=n)),
            "gain": (rng.random(n) < 0.05) * np.exp(8.0 + rng.normal(size=n)),
            "share": np.ones(n),
        }
        found = dpfast.tables.means(
            table, ["age", "pay", "gain", "share"], "group", schema=schema,
            privacy=float(rng.choice([0.5, 1.0, 3.0])), noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        if seed < 59:
            assert not found.warnings
    (said,) = found.warnings
    assert said.startswith("means of age lie at an end of its declared range in 2 of 2 cells")
    assert "Warning: means of age" in str(found.summary())
    alone = dpfast.tables.means(table, "age", schema=schema, privacy=3.0)
    assert "in all records. Values beyond" in alone.warnings[0]


FEW = 6000
DRAWN = np.random.default_rng(11)
COLUMNS = {"x": DRAWN.normal(size=FEW), "d": np.tile([0.0, 1.0, 1.0], FEW // 3)}
COLUMNS["y"] = COLUMNS["x"] + DRAWN.normal(size=FEW)
LISTED = dpfast.Schema(
    {"g": dpfast.Categorical(["a", "b"]), "y": dpfast.Numeric(-9.0, 9.0), "s": dpfast.Binary(1, 0)}
)
ALONE = dpfast.Schema({"g": LISTED["g"]})
TEN = dpfast.Schema({"g": dpfast.Categorical(["a", "b", *"mnopqrst"])})
IN_LEVELS = "C(g, levels=['a', 'b'])"

#: Every function that takes declared levels and releases how many records count.
OF_LEVELS = {
    "counts": lambda t, **given: tables.counts(t, "g", schema=LISTED, **given),
    "means": lambda t, **given: tables.means(t, "y", "g", schema=LISTED, **given),
    "means of a binary": lambda t, **given: tables.means(t, "s", schema=LISTED, **given),
    "quantiles": lambda t, **given: tables.quantiles(t, "y", "g", schema=LISTED, **given),
    "fits": lambda t, **given: tables.fits("y ~ x", t, "g", schema=ALONE, **given),
    "absorbed": lambda t, **given: tables.absorbed("y ~ x | g", t, schema=LISTED, **given),
    "small areas": lambda t, **given: tables.small_areas("y ~ x", t, "g", schema=TEN, **given),
    "fit": lambda t, **given: dpfast.fit(f"y ~ x + {IN_LEVELS}", t, "least-squares", **given),
    "cox": lambda t, **given: dpfast.effects.cox(
        f"x ~ y + {IN_LEVELS}", t | {"x": np.abs(t["x"])}, event="d", cuts=[1.0, 2.0], **given
    ),
}


@each("name", OF_LEVELS)
@each("share", [0.0, 0.1, 1.0])
def test_levels_that_match_nothing_are_told_from_released_counts(name, share):
    """Nine of ten records without a level: nothing was said.  The bound is many errors of noise."""
    rng = np.random.default_rng(12)
    found = rng.random(FEW) < share
    labels = np.where(found, rng.choice(["a", "b"], FEW), "elsewhere")
    table = COLUMNS | {"g": labels, "s": np.where(found, rng.integers(0, 2, FEW), 7)}
    result = OF_LEVELS[name](table, privacy=6.0, noise=seeded())
    told = [said for said in result.warnings if f"of {FEW:,} records" in said]
    assert len(told) == (share < 1.0), result.warnings
    shown = " ".join(str(result.summary()).split())
    assert share == 1.0 or f"of {FEW:,} records" in shown
    if told:
        before, _, after = told[0].partition("about ")
        assert not before or (share == 0.0 and stopped(result))  # after the counts of no record
        number = float(after.split()[0].replace(",", ""))
        assert abs(number - share * FEW) < 0.1 * FEW
        assert "declared" in told[0]


def test_what_is_too_small_is_not_told():
    table = population(3000)
    few = tables.counts(table, "region", schema=SCHEMA, privacy=1.0, noise=seeded())
    assert few.least == pytest.approx(MIN_COUNT_SDS * few.count_noise)
    assert few.told.tolist() == [True, True, True, False]
    text = str(few.summary())
    assert "too small" in text and "Cells under 6 records are suppressed." in text
    public = tables.means(
        table, "pay", "region", schema=SCHEMA, privacy=1.0, least=500.0, noise=seeded()
    )
    assert public.told.tolist() == [True, True, False, False]
    assert np.isnan(public.conf_int("pay")[2:]).all() and np.isnan(public.bse[0, 2:]).all()
    hidden = tables.quantiles(
        table, "pay", "region", schema=SCHEMA, privacy=1.0, least=500.0, noise=seeded()
    )
    assert np.isnan(hidden.quantile[0]).tolist() == [False, False, True, True]
    assert np.isnan(hidden.low[0, 2]) and np.isnan(hidden.high[0, 2])


def test_a_plan_has_the_noise_that_the_table_has():
    table = population(3000)
    for columns in ((), "pay", ["pay", "poor"]):
        planned = tables.plan(SCHEMA, ["region", "sex"], columns, n=3000, privacy=0.5)
        options = {"schema": SCHEMA, "privacy": 0.5, "noise": seeded()}
        found = (
            tables.means(table, columns, ["region", "sex"], **options)
            if columns
            else tables.counts(table, ["region", "sex"], **options)
        )
        assert planned.count_noise == found.count_noise and planned.least == found.least
        assert planned.n_cells == found.counts.size
    # the noise of a mean is beside sampling: of one value there is no other
    same = table | {"pay": np.full(3000, 25.0)}
    found = tables.means(same, "pay", "sex", schema=SCHEMA, privacy=0.5, noise=seeded())
    planned = tables.plan(SCHEMA, "sex", "pay", n=3000, privacy=0.5)
    error = planned.half_widths[0] / 1.96
    assert error <= found.bse.max() <= 2.0 * error
    assert "mean of pay" in str(planned)
    assert "suppressed" in str(tables.plan(SCHEMA, "sex", "pay", n=10, privacy=0.5))


def test_quantiles_come_in_the_order_they_were_asked_for():
    found = tables.quantiles(
        population(3000), "pay", "sex", (0.9, 0.1, 0.5), schema=SCHEMA, privacy=1.0, noise=seeded()
    )
    assert (found.quantile[1] < found.quantile[2]).all()
    assert (found.quantile[2] < found.quantile[0]).all()
    assert (found.low <= found.quantile).all() and (found.quantile <= found.high).all()


def test_a_quantile_with_no_room_beside_it_has_the_end_of_the_range():
    table = {"pay": np.linspace(10.0, 20.0, 200)}
    found = tables.quantiles(
        table, "pay", None, (0.999,), schema=SCHEMA, privacy=1.0, noise=seeded()
    )
    assert found.high[0] == 50.0 and found.low[0] < 20.0


def test_a_ledger_is_charged_once_and_says_what_for():
    ledger = dpfast.Ledger(2.0)
    options = {"schema": SCHEMA, "privacy": 0.5, "ledger": ledger, "noise": seeded()}
    table = population(500)
    made = [
        tables.counts(table, "sex", **options),
        tables.means(table, ["pay", "poor"], "sex", **options),
        tables.quantiles(table, "pay", "sex", **options),
    ]
    assert [entry.spend for entry in ledger.entries] == [dpfast.GDP(0.5)] * 3
    assert ledger.entries[1].label == "tables.means(n=500, cells=2, columns=2)"
    for one in made:
        spent = sum(mu**2 for _, mu in one.privacy.entries)
        assert 1.0 - 1e-6 <= spent / 0.25 <= 1.0 and one.privacy.total == dpfast.GDP(0.5)


def test_frames_and_pages_have_every_cell():
    pytest.importorskip("pandas")
    found = tables.means(
        population(800), ["pay", "poor"], ["region", "sex"], schema=SCHEMA, privacy=1.0
    )
    frame = found.to_frame(0.9)
    assert len(frame) == 8 and list(frame.region[:3]) == ["north", "north", "south"]
    assert {"count_conf_low", "share_std_error", "pay", "poor_conf_high"} <= set(frame)
    assert frame.pay[0] == found.mean[0, 0, 0]
    summary = found.summary()
    assert len(summary.table.labels) == 16
    assert "west, F: pay" in summary.as_html() and r"\begin{table}" in summary.as_latex()
    middle = tables.quantiles(
        population(800), "pay", ["region", "sex"], (0.25, 0.5), schema=SCHEMA, privacy=1.0
    )
    frame = middle.to_frame()
    assert len(frame) == 16 and frame["estimate"][1] == middle.quantile[1, 0, 0]
    assert middle.to_dict()["quantile"][0][0] == middle.quantile[0, 0].tolist()
    json.dumps(found.to_dict()["levels"])


REFUSED = [
    ({"by": "pay"}, "grouped by Categorical"),
    ({"by": ["region", "region"]}, "twice"),
    ({"by": "absent"}, "does not declare"),
    ({"by": "age"}, "no column"),
    ({"columns": "region"}, "declared categorical"),
    ({"columns": []}, "is empty"),
    ({"schema": None}, "must be a dpfast.Schema"),
    ({"least": -1.0}, "least"),
    ({"privacy": 1e-9}, "too small"),
    ({"table": {"region": ["north"], "pay": [1.0, 2.0]}}, "one length"),
    ({"table": {"region": [], "pay": []}}, "is empty"),
    ({"schema": dpfast.Schema({"region": SCHEMA["region"],
                               "pay": dpfast.Numeric(0.0, 5e-324, 0.0, 1.0)})}, "too short"),
    ({"schema": dpfast.Schema({"region": dpfast.Categorical(range(400)), "pay": SCHEMA["pay"],
                               "sex": dpfast.Categorical(range(400))}),
      "by": ["region", "sex"]}, "at most 100000"),
]  # fmt: skip


@each(("wrong", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_refusals_cost_nothing(wrong, named):
    ledger = dpfast.Ledger(5.0)
    right = {"table": population(100), "columns": "pay", "by": "region", "schema": SCHEMA,
             "privacy": 1.0, "ledger": ledger}  # fmt: skip
    with pytest.raises((dpfast.DpfastError, KeyError), match=named):
        tables.means(**right | wrong)
    assert not ledger.entries


def test_no_value_is_refused():
    """Whatever the cells hold; a record with one that is not declared is in no cell."""
    odd = np.array(["north", "n/a", "", "WEST ", None, "north"], dtype=object)
    table = {"region": odd, "pay": np.array([1.0, 2.0, 3.0, np.inf, np.nan, -1e308])}
    found = tables.means(table, "pay", "region", schema=SCHEMA, privacy=1000.0, noise=seeded())
    assert np.rint(found.counts).tolist() == [2, 0, 0, 0]
    found = tables.counts(table, "region", schema=SCHEMA, privacy=1000.0, noise=seeded())
    assert np.rint(found.counts).tolist() == [2, 0, 1, 0]


def test_a_mean_and_a_share_lie_within_their_own_intervals():
    """Rare ones, of which noise makes shares below zero in a third of the cells."""
    rng = np.random.default_rng(3)
    table = {"c": rng.choice(5, 3000, p=[0.6, 0.2, 0.1, 0.06, 0.04]), "b": rng.random(3000) < 0.01}
    table["b"] = 1 * table["b"]
    schema = dpfast.Schema({"c": dpfast.Categorical(list(range(5))), "b": dpfast.Binary(1, 0)})
    for seed in range(6):
        noise = dpfast.SeededNoise(seed)
        found = dpfast.tables.means(table, "b", "c", schema=schema, privacy=0.3, noise=noise)
        low, high = np.moveaxis(found.conf_int("b"), -1, 0)
        told = np.isfinite(found.mean[0])
        assert ((low <= found.mean[0]) & (found.mean[0] <= high))[told].all()
        share = found.shares()[0]
        assert ((share >= 0.0) & (share <= 1.0))[np.isfinite(share)].all()


# ---- strata ------------------------------------------------------------------------------------

SIZES = {0: 5e5, 1: 3e5, 2: 1.5e5, 3: 5e4}
STRATA = dpfast.Schema(
    {
        "s": dpfast.Categorical(range(4)),
        "v": dpfast.Numeric(0, 100),
        "g": dpfast.Categorical(["a", "b"]),
    }
)


def stratified(rng, n=(1500, 1500, 2500, 2500)):
    """A sample with sizes that are not in proportion, and spreads that differ."""
    s = np.repeat(range(4), n)
    v = np.array([20.0, 35.0, 50.0, 65.0])[s] + np.array([5.0, 7.0, 9.0, 6.0])[s] * rng.normal(
        size=s.size
    )
    return {"s": s, "v": np.clip(v, 0, 100), "g": rng.choice(["a", "b"], s.size)}


def test_the_stratified_mean_is_that_of_surveys():
    """With hardly any noise: Cochran (1977), formulas 5.1 and 5.13, written out here."""
    table = stratified(np.random.default_rng(0))
    cells = tables.means(table, "v", ["s", "g"], schema=STRATA, privacy=2000.0, noise=seeded())
    sizes = np.array([*SIZES.values()])
    for g in ("a", "b"):
        own = [table["v"][(table["s"] == h) & (table["g"] == g)] for h in range(4)]
        mean = sum(size * v.mean() for size, v in zip(sizes, own, strict=True)) / sizes.sum()
        error = sum(size**2 * v.var() / v.size for size, v in zip(sizes, own, strict=True))
        found = cells["v"].poststratified("s", SIZES)
        k = found.levels[0].index(g)
        assert found.by == ("g",) and found.estimate[k] == pytest.approx(mean, abs=0.02)
        assert found.bse[k] == pytest.approx(error**0.5 / sizes.sum(), rel=0.02)
        total = cells["v"].poststratified("s", SIZES, total=True)
        assert total.estimate[k] == pytest.approx(1e6 * found.estimate[k])
        assert total.bse[k] == pytest.approx(1e6 * found.bse[k])


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_intervals_of_strata_cover_and_are_narrower_than_those_of_weights(mu):
    """200 seeded runs of a method that covers .95: fewer than 175 of them with probability 1e-5.
    The strata's means explain most of the variance."""
    truth = np.array([20.0, 35.0, 50.0, 65.0]) @ [0.5, 0.3, 0.15, 0.05]
    widths, covered = [], 0
    for run in range(200):
        table = stratified(np.random.default_rng(run + 10**4))
        options = {"schema": STRATA, "privacy": mu, "noise": seeded(run)}
        found = tables.means(table, "v", "s", **options)["v"].poststratified("s", SIZES)
        low, high = found.conf_int()
        covered += bool(low <= truth <= high)
        widths.append(high - low)
    assert covered >= 175
    weights = np.array([5e5 / 1500, 3e5 / 1500, 1.5e5 / 2500, 5e4 / 2500])[table["s"]]
    rows = dpfast.records(table | {"w": weights}, sample_weight="w", largest_weight=334.0)
    low, high = tables.means(rows, "v", **options).conf_int("v")
    assert np.median(widths) < 0.85 * (high - low)


def test_shares_below_a_line_have_strata_and_what_is_hidden_hides_them():
    table = stratified(np.random.default_rng(1), (1500, 1500, 2500, 20))
    options = {"schema": STRATA, "privacy": 1.0, "noise": seeded()}
    few = tables.distribution(table, "v", "s", least=100.0, **options).share_below(30.0)
    assert np.isnan(few.poststratified("s", SIZES).estimate)
    without = few.poststratified("s", SIZES | {3: 0.0})  # its size is none
    assert without.estimate == pytest.approx(few.estimate[:3] @ [5e5, 3e5, 1.5e5] / 9.5e5)
    assert without.told and "stratified share" in str(without.summary())


def test_persons_in_several_strata_are_not_taken_for_independent():
    table = stratified(np.random.default_rng(2))
    order = np.random.default_rng(3).permutation(8000)
    rows = dpfast.records(
        {k: v[order] for k, v in table.items()} | {"id": np.arange(8000) // 2}, group="id",
        each="person",
    )  # fmt: skip
    cells = tables.means(rows, "v", "s", schema=STRATA, privacy=2.0, noise=seeded())["v"]
    found = cells.poststratified("s", SIZES)
    assert found.bse == pytest.approx(cells.bse @ [0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(
    ("strata", "sizes", "said"),
    [
        ("g", SIZES, "one of"), (["s"], SIZES, "one of"), ("s", [1, 2, 3, 4], "mapping"),
        ("s", {0: 1.0}, "mapping"), ("s", SIZES | {3: -1.0}, "sizes"),
        ("s", dict.fromkeys(SIZES, 0), "all zero"), ("s", SIZES | {3: float("nan")}, "sizes"),
    ],
    ids=str,
)  # fmt: skip
def test_sizes_of_strata_are_checked(strata, sizes, said):
    table = stratified(np.random.default_rng(0))
    cells = tables.means(table, "v", "s", schema=STRATA, privacy=1.0, noise=seeded())
    with pytest.raises(dpfast.InvalidInput, match=said):
        cells["v"].poststratified(strata, sizes)


def test_only_means_and_shares_are_means_of_strata():
    table = stratified(np.random.default_rng(0))
    cells = tables.means(table, "v", "s", schema=STRATA, privacy=1.0, noise=seeded())
    spread = tables.distribution(table, "v", "s", schema=STRATA, privacy=1.0, noise=seeded())
    for wrong in (
        cells.totals("v"),
        cells["v"].difference(0),
        spread.gini(),
        spread.poverty_rate(),
    ):
        with pytest.raises(dpfast.InvalidInput, match="no mean of those of strata"):
            wrong.poststratified("s", SIZES)
