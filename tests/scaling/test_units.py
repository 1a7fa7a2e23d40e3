"""D5: records in released units, and coefficients in the units the columns came in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpfast
from dpfast.data import as_records
from dpfast.data.scaling.units import ReleasedScales, in_units, released_coding
from dpfast.errors import InvalidInput
from dpfast.privacy.random_parts import chunk_keys, number_of_slots, scatter_chunk

N = 20_000
RNG = np.random.default_rng(7)
AGE, YEAR = RNG.integers(18, 90, N) * 1.0, RNG.integers(2000, 2009, N) * 1.0
DUMMY = (RNG.random(N) < 0.2) * 1.0
X = np.column_stack([AGE, YEAR, DUMMY])
Y = 1e4 + 300.0 * AGE + 50.0 * (YEAR - 2000) + 5e3 * DUMMY + 2e3 * RNG.normal(size=N)
UNITS = ReleasedScales(
    np.array([50.0, 2004.0, 0.25]), np.array([20.0, 2.5, 0.5]), (25_000.0, 6_000.0)
)
RANGES = np.tile([-np.inf, np.inf], (3, 1))
CODING = released_coding(UNITS, RANGES, ("x1", "x2", "x3"), by_name=False, fit_intercept=True)


def fitted(records, scale=2e3, fit_intercept=True, **options):
    options = {"privacy": 2.0, "noise": dpfast.SeededNoise(5)} | options
    return dpfast.fit(
        records,
        None,
        dpfast.Objective("log-cosh", scale=scale, fit_intercept=fit_intercept),
        **options,
    )


def test_a_fit_in_released_units_is_that_of_the_columns_coded_before():
    coded = fitted(in_units(as_records(X, Y), UNITS, CODING), standardize=False).coded
    Z, v = (X - UNITS.centres) / UNITS.spreads, (Y - 25_000.0) / 6_000.0
    right = ReleasedScales(np.zeros(3), np.ones(3), (0.0, 1.0))
    coding = released_coding(right, RANGES, ("x1", "x2", "x3"), by_name=False, fit_intercept=True)
    before = fitted(
        in_units(as_records(Z, v), right, coding), scale=2e3 / 6e3, standardize=False
    ).coded
    assert np.array_equal(coded.params, before.params)
    assert np.array_equal(coded.cov_params(), before.cov_params())


def test_natural_units_are_those_of_a_regression_on_raw_columns():
    """The algebra, written as a change of variables of each coefficient."""
    found = fitted(in_units(as_records(X, Y), UNITS, CODING))
    coded = found.coded
    t, c = coded.params, 6_000.0 / UNITS.spreads
    assert found.params[1:] == pytest.approx(c * t[1:])
    intercept = 25_000.0 + 6_000.0 * t[0] - np.sum(c * t[1:] * UNITS.centres)
    assert found.params[0] == pytest.approx(intercept)
    # the standard error of any combination is that of the same statement about coded columns
    row = np.array([1.0, 40.0, 2003.0, 1.0])
    z = np.array([1.0, *((row[1:] - UNITS.centres) / UNITS.spreads)])
    assert found.t_test(row).bse[0] == pytest.approx(6_000.0 * coded.t_test(z).bse[0], rel=1e-6)
    assert found.t_test(row).estimate[0] == pytest.approx(25e3 + 6e3 * coded.t_test(z).estimate[0])
    assert found.zvalues[1:] == pytest.approx(coded.zvalues[1:])
    assert found.degrees_of_freedom[1:] == pytest.approx(coded.degrees_of_freedom[1:])
    assert found.pvalues[1:] == pytest.approx(coded.pvalues[1:])
    turned = (found.confidence_ellipse("x1", "x3") / c[[0, 2]] - t[[1, 3]]).T
    inverse = np.linalg.inv(coded.cov_params()[np.ix_([1, 3], [1, 3])])
    distances = np.einsum("ik,ij,jk->k", turned, inverse, turned)
    assert distances == pytest.approx(distances[0])
    # and least squares on raw columns is where it should be: within its own standard errors
    raw = np.linalg.lstsq(np.column_stack([np.ones(N), X]), Y, rcond=None)[0]
    assert (np.abs(found.params - raw) < 4.0 * found.bse).all()
    assert found.natural is found


def test_predictions_are_the_same_in_all_units():
    coded = fitted(in_units(as_records(X, Y), UNITS, CODING)).coded
    rows = X[:50]
    assert coded.natural.predict(rows) == pytest.approx(coded.predict(rows))
    assert coded.natural.predict_interval(rows) == pytest.approx(coded.predict_interval(rows))
    assert coded.predict(rows) == pytest.approx(300.0 * (AGE[:50] - 50) + 26e3, abs=8e3)
    with pytest.raises(InvalidInput, match="shape"):
        coded.predict(rows[:, :2])


def test_natural_units_after_a_schema_clip_as_the_fit_did():
    schema = dpfast.Schema(
        {"age": dpfast.Numeric(20, 80), "sex": dpfast.Binary("f", "m"),
         "region": dpfast.Categorical(["n", "s", "w"]), "pay": dpfast.Numeric(0, 6e4)}
    )  # fmt: skip
    table = {"age": AGE, "sex": np.where(DUMMY == 1, "f", "m"), "pay": Y,
             "region": np.array(["n", "s", "w"])[YEAR.astype(int) % 3]}  # fmt: skip
    found = fitted(schema.encode(table, response="pay"))
    coded = found.coded
    assert found.names == ("intercept", "age", "sex", "region[s]", "region[w]")
    clipped = np.column_stack([
        np.ones(N), np.clip(AGE, 20, 80), DUMMY, YEAR % 3 == 1, YEAR % 3 == 2
    ])  # fmt: skip
    first = {name: values[:9] for name, values in table.items()}
    assert clipped[:9] @ found.params == pytest.approx(coded.predict(first))
    far = {"age": [200.0], "sex": ["f"], "region": ["w"]}
    assert found.predict(far) == pytest.approx(coded.predict(far))
    assert 250 < found.params[1] < 350


def test_a_free_scale_is_one_of_the_response_in_all_units():
    records = in_units(as_records(X, Y), UNITS, CODING)
    found = dpfast.fit(
        records, None, dpfast.Objective("huber", scale=dpfast.FreeScale(200.0, 2e4)), privacy=3.0,
        noise=dpfast.SeededNoise(1), method="newton",
    )  # fmt: skip
    coded = found.coded
    assert found.scale == coded.scale
    assert found.params[1] == pytest.approx(coded.params[1] * 6_000.0 / 20.0)
    assert found.bse[-1] == pytest.approx(coded.bse[-1])
    assert found.predict(X[:3]) == pytest.approx(coded.predict(X[:3]))


def test_without_an_intercept_columns_are_scaled_only():
    bought = dpfast.standardize(X, Y, privacy=1.0, fit_intercept=False, noise=dpfast.SeededNoise(0))
    assert not bought.centres.any() and bought.response[0] == 0.0
    assert bought.spreads == pytest.approx(np.sqrt((X**2).mean(axis=0)), rel=0.1)
    records = bought.encode(X, Y)
    found = fitted(records, fit_intercept=False)
    units = bought.response[1] / bought.spreads
    assert found.params == pytest.approx(found.coded.params * units)
    centred, ledger = in_units(as_records(X, Y), UNITS, CODING), dpfast.Ledger(2.0)
    with pytest.raises(InvalidInput, match="intercept"):
        fitted(centred, fit_intercept=False, ledger=ledger)
    assert not ledger.entries


def test_coefficients_of_functions_are_of_the_columns_as_they_are():
    pytest.importorskip("formulaic")
    schema = dpfast.Schema({name: dpfast.Numeric(-2.0, 2.0) for name in "aby"})
    table = {name: RNG.uniform(-1, 1, 500) for name in "ab"}
    table["y"] = table["a"] + np.exp(table["b"]) / 4.0
    loss, noise = dpfast.Objective("log-cosh", scale=0.5), dpfast.SeededNoise(0)
    options = {"schema": schema, "privacy": 50.0, "noise": noise}
    found = dpfast.fit("y ~ a + exp(b)", table, loss, **options)
    assert found.params == pytest.approx([0.0, 1.0, 0.25], abs=0.03)
    assert found.natural is found


def test_a_replaced_record_is_one_replaced_record_in_released_units():
    """Also where a finite entry becomes infinite: its record, and no other, contributes zero."""
    tiny = ReleasedScales(np.zeros(3), np.full(3, 1e-300), (0.0, 1.0))
    for row in ([1e300, 0.0, 0.0], [np.nan, 1.0, 1.0], [-np.inf, 0.0, 0.0]):
        other = X[:100].copy()
        other[17] = row
        for units in (UNITS, tiny):
            a, b = (units.coded(rows, Y[:100])[0] for rows in (X[:100], other))
            differs = ~np.isclose(a, b, equal_nan=True).all(axis=1)
            assert set(np.flatnonzero(differs)) <= {17}


def sources(tmp_path):
    sparse, dask = pytest.importorskip("scipy.sparse"), pytest.importorskip("dask.array")
    rows, y = X[:3000], Y[:3000]
    mapped = np.memmap(tmp_path / "x", dtype="f4", mode="w+", shape=rows.shape)
    mapped[:] = rows
    return rows, y, {
        "float32": (rows.astype("f4"), y),
        "fortran": (np.asfortranarray(rows), y),
        "csr": (sparse.csr_matrix(rows), y),
        "memmap": (mapped, y),
        "dask": (dask.from_array(rows, chunks=(700, 3)), dask.from_array(y, chunks=700)),
    }  # fmt: skip


def test_every_source_is_standardised_and_fitted_alike(tmp_path):
    """Counts are exact, so released numbers are the same; float32 keeps 24 bits of a column."""
    rows, y, others = sources(tmp_path)

    def both(A, b):
        bought = dpfast.standardize(A, b, privacy=2.0, noise=dpfast.SeededNoise(3))
        return bought, fitted(bought.encode(A, b))

    expected, fit = both(rows, y)
    for name, (A, b) in others.items():
        bought, found = both(A, b)
        assert np.array_equal(bought.centres, expected.centres), name
        assert np.array_equal(bought.spreads, expected.spreads), name
        assert found.params == pytest.approx(fit.params, abs=1e-5), name


def test_what_is_on_disk_stays_there(tmp_path):
    mapped = np.memmap(tmp_path / "x", dtype="f8", mode="w+", shape=X.shape)
    mapped[:] = X
    records = in_units(as_records(mapped, Y), UNITS, CODING)
    assert not hasattr(records, "X") and records.read_again and records.can_be_partitioned
    assert hasattr(in_units(as_records(X, Y), UNITS, CODING), "X")


def test_blocks_of_a_cluster_are_coded_there():
    """Random blocks of Dask chunks: each record of a part is one of the coded table."""
    dask = pytest.importorskip("dask.array")
    raw = as_records(dask.from_array(X, chunks=(6000, 3)), dask.from_array(Y, chunks=6000))
    records = in_units(raw, UNITS, CODING)
    assert records.is_remote and records.can_be_partitioned
    slots = number_of_slots(N)
    keys = chunk_keys(len(records.block_sizes), dpfast.SeededNoise(0))
    parts = records.random_partition(keys, scatter_chunk, slots)
    part = parts.part(0, slots // 10, N // 10)
    total, count = part.total(_sum_and_number)
    raw_part = parts.parts.part(0, slots // 10, N // 10)
    raw_total, raw_count = raw_part.total(_sum_and_number)
    assert count == raw_count and 0.05 * N < count < 0.2 * N
    assert total == pytest.approx((raw_total - count * UNITS.centres) / UNITS.spreads)
    assert part.excess == raw_part.excess and not part.can_be_partitioned


def _sum_and_number(X, y):
    return X.sum(axis=0), np.array(len(y))


def test_tables_parquet_and_persons(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pandas.DataFrame({"age": AGE, "year": YEAR, "pay": Y})
    options = {"privacy": 1.0, "noise": dpfast.SeededNoise(1)}
    bought = dpfast.standardize(table[["age", "year"]], table["pay"], **options)
    assert bought.names == ("age", "year")
    found = fitted(bought.encode(table[["age", "year"]], table["pay"]))
    assert found.natural.names == ("intercept", "age", "year")
    new = pandas.DataFrame({"year": [2003.0], "age": [30.0]})
    assert found.predict(new) == pytest.approx(found.natural.predict(new))
    with pytest.raises(InvalidInput, match="by their names"):
        found.predict(np.array([[30.0, 2003.0]]))
    with pytest.raises(InvalidInput, match="standardised"):
        bought.encode(table[["year", "age"]], table["pay"])
    person = np.arange(N) // 2
    grouped = dpfast.standardize(
        dpfast.records(table[["age", "year"]], Y, group=person, group_size=2), None, privacy=1.0,
        noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    assert "person" in str(grouped.privacy.relation)
    assert sum(mu**2 for _, mu in grouped.privacy.entries) <= 1.0
    assert grouped.spreads == pytest.approx(bought.spreads, rel=0.1)
    rows = bought.encode(table[["age", "year"]], Y)
    again = fitted(dpfast.records(rows, group=person, group_size=2))
    assert again.natural.params[1] == pytest.approx(300.0, rel=0.2)


def test_what_was_bought_is_charged_and_composes():
    ledger = dpfast.Ledger(1.0)
    bought = dpfast.standardize(
        dpfast.records(X, Y, names=["a", "b", "c"]), None, privacy=0.25, ledger=ledger
    )
    assert [entry.spend.mu for entry in ledger.entries] == [0.25]
    assert ledger.entries[0].label == f"standardize(n={N}, p=4)"
    dpfast.fit(
        bought.encode(X, Y),
        None,
        dpfast.Objective("log-cosh", scale=2e3),
        privacy=0.9,
        ledger=ledger,
    )
    assert ledger.spent.mu == pytest.approx(np.hypot(0.25, 0.9))
    spent = bought.privacy.to_dict()
    assert spent and "counts" in str(spent)
    assert "a: " in repr(bought) and "unseen" not in repr(bought) and bought.unseen == ()
    assert not bought.warnings
    assert len(pickle.dumps(bought)) < 20_000
    with pytest.raises(InvalidInput, match="coded already"):
        dpfast.standardize(bought.encode(X, Y), None, privacy=0.1)
    with pytest.raises(InvalidInput, match="coded already"):
        bought.encode(bought.encode(X, Y), None)


def test_a_response_of_zeros_and_ones_is_left_alone():
    labels = (RNG.random(N) < 1 / (1 + np.exp(-(AGE - 50) / 20))) * 1.0
    bought = dpfast.standardize(X, labels, privacy=0.5, response=False)
    assert bought.response == (0.0, 1.0)
    found = dpfast.fit(bought.encode(X, labels), None, "logistic", privacy=2.0)
    assert found.natural.params[1] == pytest.approx(1 / 20, rel=0.2)
    assert ((found.natural.predict(X) > 0) & (found.natural.predict(X) < 1)).all()
    assert found.natural.predict(X[:9]) == pytest.approx(found.predict(X[:9]))


def test_a_column_without_a_spread_is_named_and_no_unit_is_made_up():
    columns = np.column_stack([X, np.full(N, 3.5)])
    bought = dpfast.standardize(
        dpfast.records(columns, Y, names=["a", "b", "c", "d"]), None, privacy=0.5
    )
    assert bought.unseen == ("d",) and bought.spreads[-1] == 1.0 and bought.centres[-1] == 3.5
    assert "d" in bought.warnings[0] and "unseen" in repr(bought)
    through_zero = dpfast.standardize(columns, Y, privacy=0.5, fit_intercept=False)
    assert through_zero.unseen == () and through_zero.spreads[-1] == 3.5
    flat = dpfast.standardize(X, np.full(N, 2.0), privacy=0.5)
    assert "response" in flat.warnings[0] and flat.response == (2.0, 1.0)
