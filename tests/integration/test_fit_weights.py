"""Fits of records with weights and offsets of their own, from every kind of data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.models import resolve_loss
from tests.loops import each

N = 4000
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
W = RNG.choice([0.5, 1.0, 2.0, 4.0], size=N)
O = 0.5 * RNG.normal(size=N)  # noqa: E741
Z = np.column_stack([np.ones(N), X])
Y = Z @ [1.0, 1.0, -0.5] + O + RNG.normal(size=N) * (1.0 + 0.5 * (W > 1.0))
B = (RNG.random(N) < 1.0 / (1.0 + np.exp(-(Z @ [-0.5, 1.0, -0.5] + O)))).astype(float)
BESIDE = {"sample_weight": W, "largest_weight": 4.0, "offset": O}

pytestmark = pytest.mark.filterwarnings("ignore")

LOSSES = [
    "log-cosh", "huber", "pseudo-huber", "smoothed-huber", "ostrovskii-bach", "smooth-absolute",
    "logistic",
]  # fmt: skip
LOG_COSH = dpfast.Objective("log-cosh", scale=1.0)


def objective(loss, weights=None):
    if loss == "least-squares":
        return loss
    return dpfast.Objective(loss, weights, scale=1.0 if resolve_loss(loss).needs_scale else None)


def fit(X, y, loss, **options):
    options = {"privacy": 20.0, "noise": dpfast.SeededNoise(1)} | options
    return dpfast.fit(X, y, loss, **options)


# ---- the target and its standard errors ----------------------------------------------------------


def test_least_squares_has_the_coefficients_and_errors_of_sampling_weights():
    """``(sum a zz')^-1 (sum a^2 r^2 zz') (sum a zz')^-1``."""
    result = dpfast.nonprivate_fit(dpfast.records(X, Y, **BESIDE), None, "least-squares")
    gram = (W[:, None] * Z).T @ Z
    theta = np.linalg.solve(gram, (W[:, None] * Z).T @ (Y - O))
    scores = (W * (Y - O - Z @ theta))[:, None] * Z
    inverse = np.linalg.inv(gram)
    errors = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    np.testing.assert_allclose(result.params, theta, rtol=1e-9)
    np.testing.assert_allclose(result.bse, errors, rtol=1e-9)


def test_agrees_with_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    ours = dpfast.nonprivate_fit(dpfast.records(X, Y, **BESIDE), None, "least-squares")
    theirs = api.WLS(Y - O, Z, weights=W).fit(cov_type="HC0")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-9)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-9)
    ours = dpfast.nonprivate_fit(
        dpfast.records(X, B, **BESIDE),
        None,
        dpfast.Objective("logistic", weights=dpfast.Mallows(1e6)),
    )
    family = api.families.Binomial()
    theirs = api.GLM(B, Z, family=family, offset=O, var_weights=W).fit(cov_type="HC0")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-7)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-7)


@each("loss", LOSSES)
def test_a_private_fit_is_near_the_exact_one(loss):
    """At mu = 20 within 5 standard errors of privacy noise, which are a part of the sampling ones.

    False failure: below 1e-6 for each coefficient.
    """
    y = B if loss == "logistic" else Y
    every = resolve_loss(loss).supports_default_fit  # a target without weights of the rows
    target = objective(loss, dpfast.Mallows(1e6) if every else None)
    exact = dpfast.nonprivate_fit(dpfast.records(X, y, **BESIDE), None, target)
    found = fit(dpfast.records(X, y, **BESIDE), None, objective(loss))
    assert (np.abs(found.params - exact.params) <= 0.5 * exact.bse).all()
    np.testing.assert_allclose(found.bse, exact.bse, rtol=0.12)
    plain = dpfast.nonprivate_fit(X, y, target)
    assert np.abs(found.params - plain.params).max() > 0.5 * exact.bse.max()


@pytest.mark.parametrize("case", ["free scale", "bought units", "least squares", "groups"])
def test_other_ways_to_a_fit_see_weights_and_offsets(case):
    groups = {"group": np.arange(N) // 2, "group_size": 2} if case == "groups" else {}
    loss = {
        "free scale": dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0)),
        "bought units": "log-cosh", "least squares": "least-squares", "groups": LOG_COSH,
    }[case]  # fmt: skip
    rows = dpfast.records(X, Y, **groups, **BESIDE)
    found = fit(rows, None, loss, privacy=40.0 if groups else 20.0)
    if case == "bought units":
        loss = dpfast.Objective(loss, scale=found.scale)
    exact = dpfast.nonprivate_fit(dpfast.records(X, Y, **BESIDE), None, loss)
    assert (np.abs(found.params - exact.params)[:3] <= 0.6 * exact.bse[:3]).all()


def test_weights_count_relative_to_the_largest():
    """Twice the weights and twice the bound: the same bits; all the largest: as without weights."""
    first = fit(dpfast.records(X, Y, sample_weight=W, largest_weight=4.0), None, LOG_COSH)
    twice = fit(dpfast.records(X, Y, sample_weight=2.0 * W, largest_weight=8.0), None, LOG_COSH)
    np.testing.assert_array_equal(first.params, twice.params)
    np.testing.assert_array_equal(first.bse, twice.bse)
    equal = fit(
        dpfast.records(X, Y, sample_weight=np.full(N, 9.0), largest_weight=3.0), None, LOG_COSH
    )
    alone = fit(X, Y, LOG_COSH)
    assert (np.abs(equal.params - alone.params) <= 0.3 * alone.bse).all()
    papers = objective("log-cosh", dpfast.Mallows(3.0))
    equal = fit(
        dpfast.records(X, Y, sample_weight=np.full(N, 9.0), largest_weight=3.0), None, papers
    )
    np.testing.assert_array_equal(equal.params, fit(X, Y, papers).params)
    zero = fit(dpfast.records(X, Y, offset=np.zeros(N)), None, LOG_COSH)
    np.testing.assert_array_equal(zero.params, alone.params)


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh", "logistic"])
def test_weights_need_no_bound_on_the_road(loss):
    """One in fifty records weighs 20 times the others: within 1.6 standard errors at mu = 1.

    False failure below 1e-6: root mean squares of three distances are .4 to .9.
    """
    rng, n = np.random.default_rng(7), 20_000
    x = rng.normal(size=(n, 2))
    w = np.where(rng.random(n) < 0.02, 20.0, rng.uniform(0.2, 1.5, n))
    y = 0.5 + x @ [1.0, -0.5] + rng.standard_t(5, size=n)
    y = (y > 0.0) * 1.0 if loss == "logistic" else y
    options = {"noise": dpfast.SeededNoise(5), "privacy": 1.0}
    found = [
        dpfast.fit(dpfast.records(x, y, sample_weight=unit * w), None, loss, **options)
        for unit in (1e-90, 1.0, 1e90)
    ]
    scale = found[1].scale if loss == "log-cosh" else None
    every = dpfast.Mallows(1e6)
    target = loss if loss == "least-squares" else dpfast.Objective(loss, every, scale=scale)
    exact = dpfast.nonprivate_fit(dpfast.records(x, y, sample_weight=w), None, target)
    for one in found:
        error = np.sqrt(((one.params - exact.params) ** 2 / exact.bse**2).mean())
        assert error <= 1.6
        assert "sample weights" in one.model and "clipped to [0" not in one.model
        paid = dict(one.privacy.entries)
        assert "histogram of weights" in paid
        assert np.hypot.reduce(list(paid.values())) <= 1.0


def test_the_unit_of_weights_is_a_released_one(monkeypatch):
    """One record's weight changes it only through a histogram, whose noise has the last word."""
    from dpfast.scaling.weight_unit import WeightUnit

    units, bought = [], WeightUnit.estimate_unit

    def estimate_unit(self, rows):
        bought(self, rows)
        units.append(self.unit)

    monkeypatch.setattr(WeightUnit, "estimate_unit", estimate_unit)
    for largest in (4.0, 1e90):
        weights = W.copy()
        weights[0] = largest
        fit(dpfast.records(X, Y, sample_weight=weights), None, "least-squares")
    assert units[0] == pytest.approx(units[1], rel=0.01)
    assert units[0] * 1e100 == pytest.approx(W.mean(), rel=0.5)


@each("case", ["weights", "method", "group"])
def test_others_ask_for_a_bound_before_any_charge(case):
    ledger, method = dpfast.Ledger(30.0), "newton" if case == "method" else "auto"
    group = {"group": np.arange(N) // 2, "group_size": 2} if case == "group" else {}
    loss = {
        "weights": objective("log-cosh", dpfast.Mallows(3.0)), "method": LOG_COSH,
        "group": "log-cosh",
    }[case]  # fmt: skip
    with pytest.raises(InvalidInput, match="needs largest_weight"):
        fit(
            dpfast.records(X, Y, sample_weight=W, **group), None, loss, ledger=ledger, method=method
        )
    few = slice(0, 60)
    with pytest.raises(InvalidBudget, match="leave sample_weight"):
        fit(
            dpfast.records(X[few], Y[few], sample_weight=W[few]),
            None,
            "log-cosh",
            privacy=0.1,
            ledger=ledger,
        )
    assert ledger.spent.mu == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log-cosh", "logistic", "least-squares"])
def test_intervals_cover_the_weighted_target(loss):
    """95% intervals of 300 data sets cover a linear truth 88 to 99.3% of the time.

    False failure below 1e-6 at a coverage of 95%; an interval of half the width covers 67%.
    """
    rng = np.random.default_rng(11)
    theta, hits, runs, n = np.array([0.5, 1.0, -0.5]), 0, 300, 5000
    for seed in range(runs):
        x, w = rng.normal(size=(n, 2)), rng.uniform(0.0, 2.5, n)
        o, z = rng.normal(size=n), 0.5 + x @ theta[1:]
        if loss == "logistic":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z - o))).astype(float)
        else:
            y = z + o + rng.normal(size=n)
        found = dpfast.fit(
            dpfast.records(x, y, sample_weight=w, largest_weight=2.0, offset=o), None,
            objective(loss), privacy=1.0,
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        low, high = found.conf_int()[1]
        hits += low <= theta[1] <= high
    assert 0.88 <= hits / runs <= 0.993


# ---- kinds of data -------------------------------------------------------------------------------


def tables():
    columns = {"a": X[:, 0], "w": W, "b": X[:, 1], "o": O}
    return {
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(columns),
        "polars": lambda: pytest.importorskip("polars").DataFrame(columns),
        "Arrow": lambda: pytest.importorskip("pyarrow").table(columns),
    }


@pytest.mark.parametrize("kind", tables())
def test_columns_of_a_table_by_name(kind):
    table = tables()[kind]()
    found = fit(
        dpfast.records(table, Y, sample_weight="w", largest_weight=4.0, offset="o"), None, LOG_COSH
    )
    expected = fit(dpfast.records(X, Y, **BESIDE), None, LOG_COSH)
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.names == ("intercept", "a", "b")
    np.testing.assert_allclose(found.predict(table), expected.predict(X) + O, rtol=1e-12)
    exact = dpfast.nonprivate_fit(
        dpfast.records(table, Y, sample_weight="w", offset="o", largest_weight=8.0),
        None,
        LOG_COSH,
    )
    own = dpfast.nonprivate_fit(
        dpfast.records(X, Y, sample_weight=W, offset=O),
        None,
        LOG_COSH,
    )
    np.testing.assert_allclose(exact.params, own.params, rtol=1e-9)


def mapped(folder, array, dtype="f8"):
    path = folder / f"{len(list(folder.iterdir()))}.raw"
    array.astype(dtype).tofile(path)
    return np.memmap(path, dtype, "r", shape=array.shape)


def parquet(folder, **columns):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "data.parquet"
    parquet.write_table(arrow.table(columns), path, row_group_size=700)
    return path


@pytest.mark.parametrize("loss", ["log-cosh", "logistic"])
@pytest.mark.parametrize("kind", ["CSR", "memmap", "float32", "memmap y", "Parquet"])
@pytest.mark.values
def test_records_that_are_read_block_by_block(kind, loss, tmp_path, monkeypatch):
    """The same estimate, up to the order of additions, and in random blocks."""
    monkeypatch.setattr("dpfast.data.streams.BLOCK_BYTES", 1 << 13)
    y = B if loss == "logistic" else Y
    covariates = X.astype("f4").astype("f8") if kind == "float32" else X
    by_name = {"sample_weight": "w", "offset": "o", "largest_weight": 4.0}
    if kind == "Parquet":
        path = parquet(tmp_path, a=X[:, 0], b=X[:, 1], y=y, w=W, o=O)
        records = dpfast.open_parquet(path, covariates=["a", "b"], response="y")
        given, beside = (records, None), by_name
    else:
        made = {
            "CSR": lambda: (sparse.csr_array(X), y),
            "memmap": lambda: (mapped(tmp_path, X), y),
            "float32": lambda: (mapped(tmp_path, X, "f4"), y),
            "memmap y": lambda: (X, mapped(tmp_path, y)),
        }
        given, beside = made[kind](), BESIDE
    exact = dpfast.nonprivate_fit(dpfast.records(*given, **beside), None, objective(loss))
    expected = dpfast.nonprivate_fit(dpfast.records(covariates, y, **BESIDE), None, objective(loss))
    np.testing.assert_allclose(exact.params, expected.params, rtol=1e-7)
    np.testing.assert_allclose(exact.bse, expected.bse, rtol=1e-7)
    found = fit(dpfast.records(*given, **beside), None, objective(loss), method="newton")
    assert (np.abs(found.params - expected.params) <= 1.0 * expected.bse).all()


@pytest.mark.parametrize("loss", ["log-cosh", "logistic"])
@pytest.mark.parametrize(
    "kind", ["arrays", "frame", pytest.param("series", marks=pytest.mark.slow)]
)
@pytest.mark.values
def test_records_on_a_cluster(kind, loss):
    """Joined where they are: the same sums, and in random blocks."""
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    y = B if loss == "logistic" else Y
    if kind == "arrays":
        given = da.from_array(X, chunks=(900, 1)), da.from_array(y, chunks=700)
        weight, offset = da.from_array(W, chunks=1500), da.from_array(O, chunks=400)
        beside = {"sample_weight": weight, "offset": offset, "largest_weight": 4.0}
    else:
        table = pandas.DataFrame({"a": X[:, 0], "w": W, "b": X[:, 1], "y": y, "o": O})
        frame = dd.from_pandas(table, npartitions=3)
        rest = frame if kind == "frame" else frame[["a", "b", "y"]]
        given = rest, "y"
        names = {"sample_weight": "w", "offset": "o"}
        beside = {k: v if kind == "frame" else frame[v] for k, v in names.items()}
        beside["largest_weight"] = 4.0
    exact = dpfast.nonprivate_fit(dpfast.records(*given, **beside), None, objective(loss))
    expected = dpfast.nonprivate_fit(dpfast.records(X, y, **BESIDE), None, objective(loss))
    np.testing.assert_allclose(exact.params, expected.params, rtol=1e-7)
    np.testing.assert_allclose(exact.bse, expected.bse, rtol=1e-7)
    found = fit(dpfast.records(*given, **beside), None, objective(loss), method="newton")
    assert (np.abs(found.params - expected.params) <= 1.0 * expected.bse).all()
    for wrong, message in (
        ({"offset": O}, "is in memory"),
        ({"offset": da.from_array(O[:-1], chunks=500)}, "one entry for each"),
        ({"offset": da.from_array(X, chunks=500)}, "1 dimension"),
    ):
        with pytest.raises(InvalidInput, match=message):
            fit(dpfast.records(*given, **wrong), None, objective(loss))
    with pytest.raises(InvalidInput, match="none of Dask's"):
        fit(dpfast.records(X, y, offset=da.from_array(O, chunks=500)), None, objective(loss))
    if kind == "frame":
        with pytest.raises(InvalidInput, match="no column offset='absent'"):
            fit(dpfast.records(*given, offset="absent"), None, objective(loss))


def test_a_schema_codes_the_offset_with_the_response(tmp_path):
    """Offsets are in the response's own units, whatever its coding."""
    number = dpfast.Numeric(-4.0, 4.0)
    schema = dpfast.Schema({"a": number, "b": number, "y": dpfast.Numeric(-10.0, 30.0)})
    table = {"a": X[:, 0], "b": X[:, 1], "y": Y, "w": W, "o": O}
    design = schema.encode(table, ["a", "b"], "y")
    wide = objective("log-cosh", dpfast.Mallows(1e3))
    coded = dpfast.nonprivate_fit(dpfast.records(design, **BESIDE), None, wide)
    inside = np.abs(X).max(axis=1) <= 4.0
    plain = dpfast.nonprivate_fit(dpfast.records(np.clip(X, -4.0, 4.0), Y, **BESIDE), None, wide)
    assert inside.mean() > 0.99
    rows = {"a": [0.5], "b": [-1.0]}
    assert coded.predict(rows) == pytest.approx(plain.predict([[0.5, -1.0]]), rel=1e-6)
    path = parquet(tmp_path, **table)
    records = dpfast.open_parquet(path, covariates=["a", "b"], response="y", schema=schema)
    beside = {"sample_weight": "w", "offset": "o", "largest_weight": 4.0}
    stored = dpfast.nonprivate_fit(dpfast.records(records, **beside), None, wide)
    np.testing.assert_allclose(stored.params, coded.params, rtol=1e-7)


# ---- values never speak; arguments are refused first ---------------------------------------------


@each("loss", ["log-cosh", "logistic", "least-squares"])
@each("bad", [np.nan, -3.0, 0.0, np.inf, -np.inf])
def test_a_record_without_a_weight_is_one_without_a_response(loss, bad):
    y = B if loss == "logistic" else Y
    weights, missing = W.copy(), y.copy()
    weights[:50], missing[:50] = bad, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "a mu above")  # of next to no noise
        warnings.filterwarnings("ignore", ".*[Ss]eeded.*")
        found = fit(
            dpfast.records(X, y, sample_weight=weights, largest_weight=4.0), None, objective(loss)
        )
    expected = fit(
        dpfast.records(X, missing, sample_weight=W, largest_weight=4.0), None, objective(loss)
    )
    np.testing.assert_array_equal(found.params, expected.params)


@pytest.mark.parametrize("loss", ["log-cosh", "logistic", "least-squares"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.one_in(2)
def test_a_record_without_an_offset_is_one_without_a_response(loss, bad):
    y = B if loss == "logistic" else Y
    offsets, missing = O.copy(), y.copy()
    offsets[:50], missing[:50] = bad, np.nan
    found = fit(dpfast.records(X, y, offset=offsets), None, objective(loss))
    expected = fit(dpfast.records(X, missing, offset=O), None, objective(loss))
    np.testing.assert_array_equal(found.params, expected.params)


def test_infinite_weights_do_not_take_over_a_fit():
    """Without a bound the records that had one were the fit: no others counted beside them."""
    infinite, missing, y = W.copy(), W.copy(), Y.copy()
    infinite[:200], missing[:200], y[:200] = np.inf, np.nan, Y[:200] + 40.0
    for given in ({}, {"largest_weight": 4.0}):
        found, expected = (
            fit(dpfast.records(X, y, sample_weight=weights, **given), None, "least-squares")
            for weights in (infinite, missing)
        )
        np.testing.assert_array_equal(found.params, expected.params)
        np.testing.assert_array_equal(found.bse, expected.bse)
        exact = [
            dpfast.nonprivate_fit(
                dpfast.records(X, y, sample_weight=weights, **given), None, "least-squares"
            )
            for weights in (infinite, missing)
        ]
        np.testing.assert_array_equal(exact[0].params, exact[1].params)
        arm = B.copy()
        effects = [
            dpfast.effects.treatment_effect(
                dpfast.records(X, y, sample_weight=weights, largest_weight=4.0), arm,
                privacy=30.0, noise=dpfast.SeededNoise(0),
            ).estimate
            for weights in (infinite, missing)
        ]  # fmt: skip
        assert effects[0] == effects[1]


def test_weights_beyond_the_largest_are_held_to_it():
    for huge in (7.0, 1e300):
        held = np.where(W == 4.0, huge, W)
        found = fit(dpfast.records(X, Y, sample_weight=held, largest_weight=4.0), None, LOG_COSH)
        expected = fit(dpfast.records(X, Y, sample_weight=W, largest_weight=4.0), None, LOG_COSH)
        np.testing.assert_array_equal(found.params, expected.params)


REFUSED = {
    "bound alone": ({"largest_weight": 2.0}, "which was not given"),
    "bound zero": ({"sample_weight": W, "largest_weight": 0.0}, "largest_weight must lie in"),
    "bound infinite": ({"sample_weight": W, "largest_weight": np.inf}, "largest_weight"),
    "bound a list": ({"sample_weight": W, "largest_weight": [4.0]}, "largest_weight"),
    "short": ({"sample_weight": W[:-1], "largest_weight": 4.0}, "one entry for each record"),
    "short offset": ({"offset": O[:7]}, "one entry for each record"),
    "two columns": ({"offset": X}, "must have one dimension"),
    "scalar": ({"offset": 1.0}, "must have one dimension"),
    "text": ({"offset": np.array(["a"] * N)}, "must be numbers"),
    "name without a table": ({"offset": "o"}, "X is no data frame"),
}  # fmt: skip


@each("case", REFUSED)
@each("loss", ["log-cosh", "least-squares"])
def test_what_is_refused_costs_nothing(case, loss):
    wrong, message = REFUSED[case]
    ledger = dpfast.Ledger(100.0)
    with pytest.raises(InvalidInput, match=message):
        fit(dpfast.records(X, Y, **wrong), None, objective(loss), ledger=ledger)
    assert not ledger.entries


def test_persons_who_count_once_have_offsets_and_no_weights():
    persons = {"group": np.arange(N) // 2, "each": "person"}
    ledger = dpfast.Ledger(100.0)
    with pytest.raises(InvalidInput, match="Leave sample_weight out"):
        fit(
            dpfast.records(X, Y, sample_weight=W, largest_weight=4.0, **persons),
            None,
            LOG_COSH,
            ledger=ledger,
        )
    with pytest.raises(InvalidInput, match=r"one entry for each record\.$"):
        fit(dpfast.records(X, Y, offset=O[:-1], **persons), None, LOG_COSH, ledger=ledger)
    assert not ledger.entries
    found = fit(dpfast.records(X, Y, offset=O, **persons), None, LOG_COSH)
    expected = fit(dpfast.records(X, Y - O, **persons), None, LOG_COSH)
    np.testing.assert_array_equal(found.params, expected.params)
    shifted = fit(dpfast.records(X, B, offset=np.full(N, 0.7), **persons), None, "logistic")
    plain = fit(dpfast.records(X, B, **persons), None, "logistic")
    np.testing.assert_allclose(shifted.params[0] + 0.7, plain.params[0], atol=0.05)


def test_names_that_no_table_has_cost_nothing(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "w": W})
    ledger = dpfast.Ledger(100.0)
    with pytest.raises(InvalidInput, match="no column 'absent'"):
        fit(dpfast.records(frame, Y, offset="absent"), None, LOG_COSH, ledger=ledger)
    other = pandas.Series(W, index=np.arange(N) + 1)
    with pytest.raises(InvalidInput, match="index of X"):
        fit(dpfast.records(frame, Y, sample_weight=other, largest_weight=1.0), None, LOG_COSH)
    path = parquet(tmp_path, a=X[:, 0], y=Y, w=W.astype(str))
    records = dpfast.open_parquet(path, covariates=["a"], response="y")
    for name, message in (("absent", "names no single column"), ("w", "has type string")):
        with pytest.raises(InvalidInput, match=message):
            fit(dpfast.records(records, offset=name), None, LOG_COSH, ledger=ledger)
    design = dpfast.Schema({"a": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(-1, 1)}).encode(
        {"a": X[:, 0], "y": Y}, ["a"], "y"
    )
    with pytest.raises(InvalidInput, match="Pass the column itself"):
        fit(dpfast.records(design, offset="w"), None, LOG_COSH, ledger=ledger)
    assert not ledger.entries


@pytest.mark.parametrize("loss", ["log-cosh", "logistic"])
def test_too_few_for_slopes_is_refused_where_a_mean_would_be_unweighted(loss):
    few = slice(0, 40)
    y = B if loss == "logistic" else Y
    options = {"privacy": 0.5, "standardize": True}
    ledger = dpfast.Ledger(100.0)
    with pytest.raises(InvalidBudget, match="leave sample_weight and offset out"):
        fit(
            dpfast.records(X[few], y[few], sample_weight=W[few], largest_weight=4.0),
            None,
            loss,
            ledger=ledger,
            **options,
        )
    assert not ledger.entries
    alone = fit(
        dpfast.records(X[few], Y[few], offset=O[few]),
        None,
        "log-cosh",
        **{**options, "privacy": 2.5},
    )
    assert np.isnan(alone.params[1:3]).all()


def test_the_largest_curvature_is_that_of_weighted_records():
    """Steps of estimated length follow it: a quarter of the weights, a quarter of the curvature."""
    from dpfast.curator.steps import _peak_hessian
    from dpfast.data.source import EVERYTHING
    from dpfast.fit_requests.request import Account, FitRequest
    from dpfast.models import Mallows, Objective

    def peak(**given):
        request = FitRequest(
            dpfast.records(X, B, **given), None, Account(1.0), fit_intercept=True,
            noise=dpfast.SeededNoise(0), takes=EVERYTHING, of_predictor=True,
        )  # fmt: skip
        return _peak_hessian(request.curator(Objective("logistic", Mallows(3.0), 2)))

    quarter = peak(sample_weight=np.full(N, 1.0), largest_weight=4.0, offset=O)
    np.testing.assert_allclose(quarter, 0.25 * peak(), rtol=1e-12)


def test_a_result_says_that_there_were_weights():
    found = fit(dpfast.records(X, Y, **BESIDE), None, LOG_COSH, standardize=False)
    assert found.model.endswith(", sample weights clipped to [0, 4] and an offset")
    assert "sample weights clipped to" in " ".join(found.explain().split())
    assert "sample weights" in found.to_dict()["model"]
    only = fit(dpfast.records(X, Y, offset=O), None, LOG_COSH, standardize=False)
    assert only.model.endswith(", an offset")
