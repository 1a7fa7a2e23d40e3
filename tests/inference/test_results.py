"""Every kind of result has the same forms, and its warnings stand beside its numbers."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import types
import warnings

import numpy as np
import pytest

import dpfast
from dpfast.errors import InferenceUnavailable, InvalidInput, ResultWarning
from dpfast.inference import verify_report
from dpfast.inference.base import FixedLevel, Result
from dpfast.saved import RESULTS, load
from tests.loops import each

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

N = 4000
RNG = np.random.default_rng(5)
AGE, REGION = RNG.uniform(20.0, 60.0, N), RNG.choice(["n", "s", "w"], N)
FEMALE, Z = RNG.integers(0, 2, N).astype(float), RNG.normal(size=N)
PAY = 10.0 + 0.2 * AGE + 2.0 * (REGION == "s") + FEMALE + RNG.normal(size=N)
DOSE = Z + RNG.normal(size=N)
TABLE = pandas.DataFrame(
    {"pay": PAY, "age": AGE, "region": REGION, "female": FEMALE, "z": Z, "dose": DOSE}
).assign(high=(PAY > 19.5).astype(int))
SCHEMA = dpfast.Schema(
    {"region": dpfast.Categorical(["n", "s", "w"]), "pay": dpfast.Numeric(0, 50)}
)
ONLY_REGION = dpfast.Schema({"region": dpfast.Categorical(["n", "s", "w"])})
TENTHS = dpfast.Schema({"tenth": dpfast.Categorical(list(range(10)))})


def seeded():
    """The same noise in every call: a shared source would go on from test to test."""
    return {"privacy": 4.0, "noise": dpfast.SeededNoise(3)}


FORMULA = "pay ~ age + I(age**2) + C(region, levels=['n', 's', 'w']) + female"


def fit():
    return dpfast.fit(FORMULA, TABLE, "least-squares", **seeded())


def logit():
    return dpfast.fit("high ~ age + I(age**2) + female", TABLE, "logistic", **seeded())


KINDS = {
    "Fit": fit,
    "Contrast": lambda: fit().t_test("age = 0.2, region"),
    "WaldTest": lambda: fit().wald_test("region = 0, I(age ** 2) = 0"),
    "Ratios": lambda: logit().ratios(),
    "MarginalEffects": lambda: logit().marginal_effects(),
    "TreatmentEffect": lambda: dpfast.effects.treatment_effect(
        AGE[:, None], FEMALE, PAY, **seeded()
    ),
    "TwoStage": lambda: dpfast.effects.two_stage("pay ~ dose + age | z + age", TABLE, **seeded()),
    "QuantileFits": lambda: dpfast.fit_quantiles(AGE[:, None], PAY, [0.25, 0.75], **seeded()),
    "CellTable": lambda: dpfast.tables.means(TABLE, "pay", "region", schema=SCHEMA, **seeded()),
    "DistributionTable": lambda: dpfast.tables.distribution(
        TABLE, "pay", "region", schema=SCHEMA, bins=64, **seeded()
    ),
    "CellEstimates": lambda: made("DistributionTable").gini(),
    "QuantileTable": lambda: dpfast.tables.quantiles(
        TABLE, "pay", "region", [0.5], schema=SCHEMA, **seeded()
    ),
    "SubgroupFits": lambda: dpfast.tables.fits(
        "pay ~ age", TABLE, "region", schema=ONLY_REGION, **seeded()
    ),
    "GoodnessOfFit": lambda: dpfast.regression.goodness_of_fit(fit(), FORMULA, TABLE, **seeded()),
    "SmallAreas": lambda: dpfast.tables.small_areas(
        "pay ~ age", TABLE.assign(tenth=np.arange(N) % 10), "tenth", schema=TENTHS, **seeded()
    ),
    "Tuning": lambda: dpfast.tune(
        lambda at: (AGE / 60.0 - at[0]) ** 2, [(-1.0, 1.0)], n_records=N, steps=4, **seeded()
    ),
}  # fmt: skip
MADE: dict[str, Result] = {}


def made(kind):
    if kind not in MADE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MADE[kind] = KINDS[kind]()
    return MADE[kind]


def with_warning(result):
    """The result with one warning more."""
    if isinstance(result, dpfast.Fit):
        changed = pickle.loads(pickle.dumps(result))
        changed._of_units = ("mind the gap.",)
        return changed
    if "warnings" in {field.name for field in dataclasses.fields(result)}:
        return result._replace(warnings=(*result.warnings, "mind the gap."))
    if isinstance(getattr(result, "fits", None), tuple):
        return result._replace(fits=(with_warning(result.fits[0]), *result.fits[1:]))
    if hasattr(result, "remarks"):
        return result._replace(remarks=("mind the gap.",))
    return result._replace(counts=result.counts * 0.01)  # few records have a declared level


def test_every_kind_that_can_be_saved_is_here():
    assert {*KINDS} == {"Fit", *(kind.__name__ for kind in RESULTS)}


@each("kind", KINDS)
def test_a_result_prints_on_one_screen_with_its_estimates(kind):
    lines = repr(made(kind)).splitlines()
    assert lines[0].startswith(f"{kind}: ") and made(kind).privacy.headline in lines[0]
    assert 3 <= len(lines) <= 24 and max(map(len, lines[1:])) <= 100
    table = made(kind).summary().table
    assert table.cells[0][0] in "\n".join(lines)
    assert str(made(kind)) == str(made(kind).summary())


@each("kind", KINDS)
def test_warnings_stand_wherever_a_number_is(kind):
    result = with_warning(made(kind))
    count, last = len(result.warnings), result.warnings[-1]
    said = last.split(" (")[0][:40].strip()
    assert f"{count} warning" in repr(result)
    assert said in result.summary() and said in result.to_html() and said in result.to_markdown()
    assert said in result.to_latex() and said in result.to_latex(notes=False)
    assert any(said in text for text in result.to_frame().attrs["warnings"])
    assert said in result.methods_text() and said in result.explain()


@each("kind", KINDS)
def test_a_frame_of_any_package_has_tidy_names(kind):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    first = made(kind).to_frame()
    assert type(first).__module__.startswith("pandas")
    for backend in ("polars", "pyarrow"):
        other = made(kind).to_frame(backend=backend)
        names = other.columns if backend == "polars" else other.column_names
        assert list(first.columns) == list(names) and len(first) == other.shape[0]
    assert "guarantee" in first.attrs["privacy"]
    assert b"guarantee" in made(kind).to_frame(backend="pyarrow").schema.metadata[b"privacy"]
    if kind not in ("CellTable", "DistributionTable", "Tuning", "WaldTest"):
        assert {"estimate", "conf_low", "conf_high"} <= {*first.columns}
    with pytest.raises(InvalidInput, match="backend must be one of"):
        made(kind).to_frame(backend="dask")


@each("kind", KINDS)
def test_a_saved_result_is_the_same_result(kind, tmp_path):
    result = made(kind)
    result.save(tmp_path / "result.json")
    found = load(tmp_path / "result.json")
    assert type(found) is type(result) and repr(found) == repr(result)
    assert str(found.summary()) == str(result.summary())
    pandas.testing.assert_frame_equal(found.to_frame(), result.to_frame(), check_dtype=False)
    found.save(tmp_path / "again.json")
    written = (tmp_path / "result.json").read_bytes()
    assert (tmp_path / "again.json").read_bytes() == written
    at = written.index(b'"total"') + 30
    (tmp_path / "again.json").write_bytes(
        written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :]
    )
    with pytest.raises(InvalidInput, match="changed since"):
        load(tmp_path / "again.json")


@each("kind", KINDS)
def test_a_page_of_any_result_is_recomputed(kind, tmp_path):
    path = tmp_path / "page.html"
    digest = made(kind).report(path)
    check = verify_report(path)
    assert check.passed and check.digest == digest, str(check)
    page = path.read_text()
    assert "SIMULATION" in page and made(kind).summary().table.cells[0][0] in page
    last = made(kind).summary().table.cells[-1][0]
    path.write_text(page.replace(f">{last}<", ">123.456<", 1))
    assert not verify_report(path).passed


def test_a_result_without_a_guarantee_has_no_page(tmp_path):
    class Free(FixedLevel):
        privacy, warnings = None, ()

        def summary(self):
            return made("Ratios").summary()

    with pytest.raises(InferenceUnavailable, match="states a promise"):
        Free().report(tmp_path / "page.html")


# ---- for papers ----------------------------------------------------------------------------------


def test_rows_of_a_paper_are_chosen_named_and_starred():
    result = made("Fit")
    latex = result.to_latex(
        keep=["region", "age"], labels={"age": "Age in years"}, stars=True, digits=2, beneath=True
    )
    rows = [line for line in latex.splitlines() if " & " in line][1::2]
    assert [row.split(" &")[0] for row in rows] == [
        "region{[}s{]}",
        "region{[}w{]}",
        "Age in years",
    ]
    assert r"^{***}" in rows[0] and "I(age" not in latex
    assert r"{*}{*}{*} p \textless{} 0.01" in latex
    dropped = result.summary().edited(drop="region").table.labels
    assert dropped == ("intercept", "age", "I(age ** 2)", "female")
    two = result.summary().edited(stars=(0.05, 0.0)[:1]).table
    pvalues = np.asarray(result.pvalues)
    assert [cells[0].endswith("*") for cells in two.cells] == list(pvalues < 0.05)


@each(
    "options",
    [
        {"keep": "agee"}, {"drop": ["nothing"]}, {"labels": {"agee": "Age"}}, {"labels": ["Age"]},
        {"stars": (0.01, 0.05)}, {"stars": 2.0}, {"keep": 3}, {"stars": "yes"},
        {"labels": {"age": 1}},
    ],
    ids=repr,
)  # fmt: skip
def test_what_no_paper_can_have_is_refused(options):
    with pytest.raises(InvalidInput) as refusal:
        made("Fit").to_latex(**options)
    if "agee" in str(options):
        assert "did you mean 'age'?" in str(refusal.value)


def test_stars_of_fits_side_by_side_are_of_each():
    other = dpfast.fit("pay ~ age", TABLE, "least-squares", **seeded())
    table = dpfast.compare(made("Fit"), other).edited(stars=True).table
    row = dict(zip(table.labels, table.cells, strict=True))["age"]
    assert all(cell.partition(" ")[0].endswith("***") for cell in row)
    bottom = dict(zip(table.labels, table.cells, strict=True))["Records"]
    assert bottom == ("4000", "4000")
    kept = dpfast.compare(made("Fit"), other).edited(keep="age").table.labels
    assert kept[:2] == ("age", "Records")


# ---- warnings as warnings ------------------------------------------------------------------------


def separated():
    return dpfast.fit(Z[:, None], 2.0 * (Z > 0.0), "logistic", privacy=1.0)  # half have no label


def test_a_released_warning_is_raised_as_one_where_the_caller_stands():
    with pytest.warns(ResultWarning) as caught:
        result = separated()
    messages = [str(warning.message) for warning in caught]
    assert messages == list(result.warnings) and messages
    assert {warning.filename for warning in caught} == {__file__}


def test_what_was_paid_for_arrives_where_warnings_are_errors(caplog):
    ledger = dpfast.Ledger(1.0)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "dpfast"):
        warnings.simplefilter("error")
        result = dpfast.fit(Z[:, None], 2.0 * (Z > 0.0), "logistic", privacy=1.0, ledger=ledger)
    assert [record.getMessage() for record in caplog.records] == list(result.warnings)
    assert len(ledger.entries) == 1 and result.warnings


def test_a_forecast_does_not_warn_of_its_simulations():
    study = dpfast.Study(None, privacy=1.0, n=200, like=TABLE[:200])
    request = {"analysis": "two_stage", "formula": "pay ~ dose | z", "share": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResultWarning)
        study.quote(request)


# ---- parts that are made when they are read ------------------------------------------------------


def unread(loss="logistic", scale=1.0):
    """Fit 4,000 records; nothing of the result was read yet."""
    return dpfast.fit(scale * AGE[:, None], 1.0 * (PAY > 19.5), loss, **seeded())


ASKED = {
    "pickled": lambda fit: pickle.loads(pickle.dumps(fit)),
    "copied": copy.copy,
    "printed": lambda fit: (str(fit), fit)[1],
    "asked for an error": lambda fit: (fit.bse, fit)[1],
    "asked for what it lacks": lambda fit: (hasattr(fit, "bs"), hasattr(fit, "_bs"), fit)[2],
    "converted": lambda fit: fit.natural,
}


@each("how", ASKED, ids=str)
def test_a_fit_is_the_same_whatever_is_read_first(how):
    expected, result = unread(), unread()
    assert "_covariance" not in vars(result)
    told = result.warnings
    result = ASKED[how](result)
    assert vars(result).keys() == expected.__getstate__().keys() and "_make" not in vars(result)
    assert result.to_dict() == expected.to_dict() and result.warnings == told
    assert (result.coded.params == expected.coded.params).all()


@each("scale", [1.0, 1e-170, 1e160], ids=str)
@each("loss", ["least-squares", "logistic"], ids=str)
def test_warnings_are_complete_before_anything_is_read(loss, scale):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResultWarning)
        warnings.simplefilter("ignore", dpfast.errors.BudgetWarning)
        result = unread(loss, scale)
    messages = [str(warning.message) for warning in caught]
    assert messages == list(result.warnings)
    whole = pickle.loads(pickle.dumps(result))
    assert list(whole.warnings) == messages
    assert any("float64" in message for message in messages) == (scale != 1.0)


def test_a_fit_that_was_not_read_holds_no_records():
    """Nothing that it leads to is as large as the records."""
    seen, sizes, to_see = set(), [], [unread()]
    while to_see:
        thing = to_see.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType):
            continue
        seen.add(id(thing))
        sizes += [thing.size] if isinstance(thing, np.ndarray) else []
        to_see += [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
        if isinstance(thing, dict | list | tuple | set):
            to_see += [*thing.values()] if isinstance(thing, dict) else [*thing]
        elif type(thing).__module__.startswith("dpfast"):
            to_see += (
                [getattr(thing, name) for name in vars(thing)] if hasattr(thing, "__dict__") else []
            )
    assert sizes and max(sizes) < 100


# ---- persons -------------------------------------------------------------------------------------


@each("whose", [{"each": "person"}, {"group_size": 2}], ids=repr)
def test_persons_are_counted_as_persons(whose):
    rows = dpfast.records(Z[:, None], Z + AGE, group=np.arange(N) // 2, **whose)
    result = dpfast.fit(rows, None, "least-squares", **seeded())
    assert f"Persons: {N // 2}" in result.summary() and "Records" not in result.summary()
    assert f"{N // 2} persons" in repr(result) and f"{N // 2} persons" in result.methods_text()
    assert f"{N // 2} persons" in result.methods_text(
        "board"
    ) or "no privacy" in result.methods_text("board")
    assert "Persons" in dpfast.compare(result)
