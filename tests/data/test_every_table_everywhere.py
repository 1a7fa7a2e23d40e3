"""Every function that spends, with every kind of table, in pairs that differ in one cell.

Same outcome, same message, same warnings, same public attributes.  The cells of each kind are swept
by `test_values_never_speak`; here, that no function reads tables in a way of its own.
"""

from __future__ import annotations

import datetime
import inspect
import io
import warnings
from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast.audit import replay
from dpfast.cli import main
from dpfast.data.files import read_table
from dpfast.errors import ResultWarning
from tests.data.test_values_never_speak import arrow, pandas, polars
from tests.loops import each
from tests.privacy.test_refused_first import CALLS
from tests.surface import flat, parameters_of, public

N, CHANGED = 60, 17
RNG = np.random.default_rng(0)
X = np.round(RNG.uniform(-1.0, 1.0, (N, 2)), 2)
Y = np.round(X @ [1.0, 0.5], 2)
NUMBER = dpfast.Numeric(-2.0, 2.0)
SCHEMA = dpfast.Schema({"a": NUMBER, "b": NUMBER, "y": NUMBER})
NAMES = ("a", "b", "y")


# ---- kinds of tables -----------------------------------------------------------------------------
# Each makes a table of columns a, b and y, given the cells of a, of which one may be anything.


def floats(bad):
    def cells(changed):
        column = X[:, 0].tolist()
        if changed:
            column[CHANGED] = bad
        return column

    return cells


def decimals(changed):
    column = [Decimal(str(x)) for x in X[:, 0]]
    return [*column[:CHANGED], Decimal(10) ** 30 if changed else None, *column[CHANGED + 1 :]]


def whole(changed):
    column = [int(x > 0) for x in X[:, 0]]
    return [*column[:CHANGED], None if changed else 1, *column[CHANGED + 1 :]]


def times(changed):
    column = [datetime.datetime(2020, 1, 1)] * N
    return [*column[:CHANGED], None if changed else column[0], *column[CHANGED + 1 :]]


def words(changed):
    return [*["1.5"] * CHANGED, "patient 4711" if changed else "1", *["1.5"] * (N - CHANGED - 1)]


def pandas_frame(dtype=None):
    def make(cells):
        column = pandas().Series(cells, dtype=dtype)
        return pandas().DataFrame({"a": column, "b": X[:, 1], "y": Y})

    return make


def polars_frame(dtype):
    def make(cells):
        column = polars().Series(cells, dtype=getattr(polars(), dtype))
        return polars().DataFrame({"a": column, "b": X[:, 1], "y": Y})

    return make


def arrow_table(make=lambda pa, cells: pa.array(cells)):
    return lambda cells: arrow().table({"a": make(arrow(), cells), "b": X[:, 1], "y": Y})


def objects(cells):
    column = np.empty(N, dtype=object)
    column[:] = cells
    return {"a": column, "b": X[:, 1], "y": Y}


def lists(cells):
    return {"a": cells, "b": X[:, 1].tolist(), "y": Y.tolist()}


#: Frames with columns of names, and the two versions of the cells of `a`.
FRAMES = {
    "NumPy": (lambda cells: {"a": np.array(cells), "b": X[:, 1], "y": Y}, floats(np.nan)),
    "float32": (lambda cells: {"a": np.array(cells, "f4"), "b": X[:, 1], "y": Y}, floats(np.inf)),
    "objects": (objects, floats("patient 4711")),
    "lists": (lists, floats(None)),
    "text in lists": (lists, floats("patient 4711")),
    "huge integer": (lists, floats(10**400)),
    "pandas": (pandas_frame(), floats(None)),
    "pandas objects": (pandas_frame(object), floats("patient 4711")),
    "pandas nullable": (pandas_frame("Float64"), floats(None)),
    "pandas Int8": (pandas_frame("Int8"), whole),
    "pandas boolean": (pandas_frame("boolean"), whole),
    "pandas category": (pandas_frame("category"), floats(None)),
    "pandas Arrow": (pandas_frame("double[pyarrow]"), floats(None)),
    "pandas text": (pandas_frame("str"), words),
    "pandas text as objects": (pandas_frame(object), words),
    "pandas text category": (pandas_frame("category"), words),
    "pandas string": (pandas_frame("string"), words),
    "pandas times": (pandas_frame("datetime64[ns]"), times),
    "polars": (lambda c: polars().DataFrame({"a": c, "b": X[:, 1], "y": Y}), floats(None)),
    "polars text": (lambda c: polars().DataFrame({"a": c, "b": X[:, 1], "y": Y}), words),
    "polars category": (polars_frame("Categorical"), words),
    "polars objects": (polars_frame("Object"), floats("patient 4711")),
    "polars lazy": (
        lambda c: polars().LazyFrame({"a": c, "b": X[:, 1], "y": Y}).with_columns(
            polars().col("a").cast(float, strict=False)  # a strict query may fail
        ), words,
    ),
    "Arrow": (arrow_table(), floats(None)),
    "Arrow decimal": (
        arrow_table(lambda pa, c: pa.array(c, pa.decimal256(60, 2))), decimals,
    ),
    "Arrow dictionary": (arrow_table(lambda pa, c: pa.array(c).dictionary_encode()), floats(9.0)),
    "Arrow view": (arrow_table(lambda pa, c: pa.array(c).cast("string_view")), words),
    "Arrow text dictionary": (
        arrow_table(lambda pa, c: pa.array(c).dictionary_encode()), words,
    ),
    "Arrow times": (arrow_table(lambda pa, c: pa.array(c, pa.timestamp("us"))), times),
    "Arrow chunks": (
        arrow_table(lambda pa, c: pa.chunked_array([c[:20], c[20:]])), floats(None),
    ),
}  # fmt: skip


def of_names(table):
    """Covariates and response of a table with named columns."""
    if hasattr(table, "collect"):
        return table, Y
    if isinstance(table, dict):
        columns = [table["a"], table["b"]]
        if isinstance(table["a"], list):
            return [list(row) for row in zip(*columns, strict=True)], table["y"]
        kind = object if columns[0].dtype == object else columns[0].dtype
        return np.column_stack([np.asarray(c, kind) for c in columns]), table["y"]
    if hasattr(table, "column_names"):
        return table.select(["a", "b"]), table["y"]
    return table[["a", "b"]], table["y"]


def rows(bad):
    table = X.copy()
    table[CHANGED, 0] = bad
    return table


def mapped(folder, table):
    path = folder / f"{len(list(folder.iterdir()))}.raw"
    table.tofile(path)
    return np.memmap(path, "f8", "r", shape=table.shape)


def parquet(folder, table):
    from pyarrow import parquet

    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    columns = [None if not np.isfinite(x) else x for x in table[:, 0]]
    parquet.write_table(arrow().table({"a": columns, "b": table[:, 1], "y": Y}), path)
    return dpfast.open_parquet(path, covariates=["a", "b"], response="y"), None


def csv(folder, table):
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    lines = [f"{a},{b},{y}" for (a, b), y in zip(table, Y, strict=True)]
    path.write_text("\n".join(["a,b,y", *lines]).replace("nan", "patient 4711") + "\n")
    return SCHEMA.encode(read_table(path, SCHEMA), ["a", "b"], "y"), None


def dask_array(folder, table):
    array = pytest.importorskip("dask.array")
    return array.from_array(table, chunks=(30, 2)), array.from_array(Y, chunks=30)


def dask_frame(folder, table):
    frame = pytest.importorskip("dask.dataframe")
    whole = pandas().DataFrame({"a": table[:, 0], "b": table[:, 1], "y": Y})
    return frame.from_pandas(whole, npartitions=2), "y"


#: Records that are no frame in memory; the changed cell is not a number.
STORED = {
    "CSR": lambda folder, table: (sparse.csr_array(table), Y),
    "memmap": lambda folder, table: (mapped(folder, table), Y),
    "Parquet": parquet,
    "CSV": csv,
    "Dask array": dask_array,
    "Dask frame": dask_frame,
}

# ---- what is seen --------------------------------------------------------------------------------


def seen(call, ledger):
    """What can be seen from outside: the outcome, warnings, charges, and public attributes."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result, outcome = call(), "returned"
        except Exception as error:
            result, outcome = None, f"{type(error).__name__}: {error}"
    assert "4711" not in outcome
    public = {
        name: getattr(result, name, None)
        for name in ("names", "n_records", "method", "shape", "_linked", "fit_intercept")
    }
    if "noisy Newton steps" in str(public["method"]):  # among released numbers
        public["method"] = "noisy Newton steps"
    shape = np.shape(getattr(result, "params", ()))
    charges = [(entry.label, entry.charged) for entry in ledger.entries]
    # warnings of released numbers are in the result, noise included
    messages = [str(w.message) for w in said if not issubclass(w.category, ResultWarning)]
    return outcome, messages, type(result), shape, str(public), charges


#: Kinds whose type is refused, whatever the cells.
REFUSED = {
    "objects", "pandas objects", "pandas category", "pandas text as objects",
    "pandas text category", "pandas string", "pandas text", "pandas times", "polars text",
    "polars category", "polars objects", "polars lazy", "Arrow view", "Arrow text dictionary",
    "Arrow dictionary", "Arrow times",
}  # fmt: skip


#: Of those, what is refused as a column of labels too.
OF_LABELS = {"pandas times", "polars lazy", "Arrow times"}


def assert_expected(name, kind, outcome):
    """A sweep in which everything is refused would show nothing."""
    elsewhere = kind in ("CSR", "Parquet") or kind.startswith("Dask")
    refused = OF_LABELS if name == "counts" else REFUSED
    persons_of_dask = name == "fit, persons" and kind.startswith("Dask")  # sizes would be seen
    if kind == "polars lazy" and name in ("fit, formula", "two_stage"):  # which evaluate it
        refused = ()
    coded = name in ("goodness_of_fit", "fit_sparse") and kind == "CSV"  # by a schema
    if kind in refused or persons_of_dask or coded or (elsewhere and " memory" in outcome):
        assert outcome.startswith("InvalidInput")
    else:
        assert outcome == "returned"


FIT_OF_NAMES = dpfast.fit(
    dpfast.records(X, Y, names=["a", "b"]), privacy=90.0, noise=dpfast.SeededNoise(0)
)


def is_named(covariates):
    """Whether covariates bring names of their own."""
    if type(covariates).__name__ == "LazyFrame":  # which is refused
        return False
    kinds = ("names", "column_names", "columns")
    return any(getattr(covariates, kind, None) is not None for kind in kinds)


def of_function(name, data):
    """Called with data in the place of its own."""
    function, right = CALLS[name]
    privacy = right["privacy"]
    kind = type(privacy) if isinstance(privacy, dpfast.ZCDP | dpfast.PureDP) else dpfast.GDP
    most = max(9.0, privacy) if isinstance(privacy, float) else 9.0
    total = dpfast.ApproxDP(9.0, 0.1) if isinstance(privacy, dpfast.ApproxDP) else kind(most)
    ledger = dpfast.Ledger(total)
    if name == "goodness_of_fit" and is_named(data.get("X")):
        data = data | {"fit": FIT_OF_NAMES}
    if "direction" in right:
        data = data | {"direction": [1.0, 0.0]}  # the tables have names of their own
    if "of_interest" in right:
        data = data | {"of_interest": []}  # the same
    given = right | data | {"noise": dpfast.SeededNoise(0), "ledger": ledger}
    return seen(lambda: function(**given), ledger)


#: The argument that holds records, of functions whose records are not X and y.
TABLES = {"private_quantiles": "x", "fit, formula": "data",
          "counts": "table", "means": "table", "cell quantiles": "table", "distribution": "table",
          "fits": "table",
          "two_stage": "table", "absorbed": "table", "small_areas": "table",
          "cox": "table"}  # fmt: skip
#: Of those, what is asked of a table of these columns, whose covariate is the column that changes.
ASKED = {
    "counts": {"by": "a", "schema": dpfast.Schema({"a": dpfast.Categorical([1, 2])})},
    "fits": {"by": "b", "schema": dpfast.Schema({"b": dpfast.Binary(1, 0)})},
    "absorbed": {"formula": "y ~ a | b", "schema": dpfast.Schema({"b": dpfast.Binary(1, 0)})},
    "small_areas": {
        "by": "b", "schema": dpfast.Schema({"b": dpfast.Categorical(list(range(10)))})
    },
    "cox": {"formula": "y ~ a", "event": "b"},
    "means": {"columns": ["a", "y"], "by": None},
    "cell quantiles": {"column": "a", "by": None},
    "distribution": {"column": "a", "by": None, "bins": 16},
}  # fmt: skip
MATRICES = [
    name
    for name, (function, _) in CALLS.items()
    if "X" in parameters_of(function) and name not in TABLES
]


def test_every_function_of_records_is_swept():
    spending = {
        name
        for name, thing in public().items()
        if inspect.isfunction(thing)
        and "privacy" in parameters_of(thing)
        and not {"X", "x", "table", "data"}.isdisjoint(parameters_of(thing))
    }
    swept = {CALLS[name][0] for name in [*MATRICES, *TABLES] if name in CALLS}
    assert all(flat(public()[name]) in swept for name in spending)


#: Functions with one kind in three in turn, and in the slow tests each with each.
THIRDS = [
    pytest.param(
        name,
        third,
        marks=[pytest.mark.slow] if (k + third) % 3 else [],
        id=f"{name}-{third}",
    )
    for k, name in enumerate(MATRICES)
    for third in (0, 1, 2)
]


@pytest.mark.parametrize(("name", "third"), THIRDS)
@pytest.mark.one_in(2)
def test_a_cell_of_a_frame(name, third):
    @each("kind", list(FRAMES)[third::3])
    def says_nothing(kind):
        a_cell_of_a_frame(name, kind)

    says_nothing()


def a_cell_of_a_frame(name, kind):
    make, cells = FRAMES[kind]
    both = [dict(zip("Xy", of_names(make(cells(c))), strict=True)) for c in (False, True)]
    first, second = [of_function(name, data) for data in both]
    assert first == second
    assert_expected(name, kind, first[0])


@pytest.mark.parametrize(("name", "third"), THIRDS)
@pytest.mark.one_in(2)
def test_a_cell_of_stored_records(name, third, tmp_path):
    @each("kind", list(STORED)[third::3])
    def says_nothing(kind):
        a_cell_of_stored_records(name, kind, tmp_path)

    says_nothing()


def a_cell_of_stored_records(name, kind, tmp_path):
    both = [dict(zip("Xy", STORED[kind](tmp_path, rows(c)), strict=True)) for c in (0.5, np.nan)]
    first, second = [of_function(name, data) for data in both]
    assert first == second
    assert_expected(name, kind, first[0])


@each("kind", FRAMES)
@pytest.mark.parametrize("name", [name for name in TABLES if name in CALLS])
@pytest.mark.one_in(2)
def test_a_cell_of_a_named_table(name, kind):
    make, cells = FRAMES[kind]
    both = [make(cells(changed)) for changed in (False, True)]
    if name == "private_quantiles":
        both = [table if hasattr(table, "collect") else table["a"] for table in both]
    extra = {} if name in ("private_quantiles", "two_stage", "cox") else {"schema": SCHEMA}
    extra |= ASKED.get(name, {})
    first, second = [of_function(name, {TABLES[name]: table} | extra) for table in both]
    assert first == second
    assert_expected(name, kind, first[0])


#: Tables of these columns, by the library that makes them.
COLUMNS = {
    "pandas": lambda columns: pandas().DataFrame(columns),
    "polars": lambda columns: polars().DataFrame(columns),
    "Arrow": lambda columns: arrow().table(columns),
}

#: Arguments that are one column, and what stands in them.
ONE = {
    "y": Y, "x": Y, "treatment": (Y > 0.0).astype(float), "sample_weight": np.ones(N),
    "offset": np.ones(N), "group": np.arange(N) // 2,
}  # fmt: skip
BESIDE = [
    (name, argument)
    for name, (function, right) in CALLS.items()
    for argument in parameters_of(function)
    if argument in ONE and right.get(argument) is not None
]


def test_every_column_beside_the_covariates_is_swept():
    assert {argument for _, argument in BESIDE} == set(ONE)


@each("kind", COLUMNS)
@pytest.mark.parametrize(("name", "argument"), BESIDE)
@pytest.mark.one_in(2)
def test_a_table_of_one_column_is_that_column(name, argument, kind):
    """It was a foreign error; of several columns none is meant."""
    column = CALLS[name][1][argument]
    plain, one, two = (
        of_function(name, {argument: given})
        for given in (
            np.asarray(column),
            COLUMNS[kind]({"c": column}),
            COLUMNS[kind]({"c": column, "d": column}),
        )
    )
    assert plain == one and plain[0] == "returned"
    if name == "fit_many" and argument == "y":  # two responses
        assert two[0] == "returned" and len(two[-1]) == 2, two
        return
    assert two[0].startswith("InvalidInput") and not two[-1], two
    assert "dimension" in two[0] or "must be one column" in two[0]


#: Half of a surrogate pair, which no screen and no file takes.
HALF = "a\ud800"


@each(("name", "given"), [
    (name, given) for name in MATRICES for given in ("frame", "names", "schema")
    if given != "names" or "names" in parameters_of(CALLS[name][0])
])  # fmt: skip
def test_a_name_that_is_no_text_is_refused_for_free(name, given):
    """What was paid for could not be printed."""
    table = pandas().DataFrame(X)
    table.columns = pandas().Index([HALF, "b"], dtype=object)
    data = {"frame": {"X": table}, "names": {"names": [HALF, "b"]}, "schema": {"X": table}}[given]
    if given == "schema":
        schema = dpfast.Schema({HALF: NUMBER, "b": NUMBER, "y": NUMBER})
        data = {"X": schema.encode(table.assign(y=Y), [HALF, "b"], "y"), "y": None}
    outcome, *_, charges = of_function(name, data)
    assert outcome.startswith("InvalidInput") and not charges
    assert given == "schema" or "no Unicode text" in outcome


@each("kind", FRAMES)
@pytest.mark.parametrize(
    "estimator",
    ["DPHuberRegressor", "DPQuantileRegressor", "DPPoissonRegressor", "DPLinearRegression"],
)
@pytest.mark.one_in(2)
def test_a_cell_of_an_estimators_table(estimator, kind):
    estimators = pytest.importorskip("dpfast.estimators")
    make, cells = FRAMES[kind]
    settings: dict[str, float] = {} if estimator == "DPLinearRegression" else {"scale": 1.0}
    if estimator == "DPPoissonRegressor":
        settings = {"loss": dpfast.Poisson(4.0)}
    found = []
    for changed in (False, True):
        table, response = of_names(make(cells(changed)))
        ledger = dpfast.Ledger(9.0)
        model = getattr(estimators, estimator)(
            privacy=1.0, score_privacy=1.0, ledger=ledger, noise=dpfast.SeededNoise(0), **settings
        )
        found.append([
            seen(lambda m=model, t=table, r=response: m.fit(t, r), ledger),
            seen(lambda m=model, t=table, r=response: m.score(t, r), ledger),
        ])  # fmt: skip
    assert found[0] == found[1]
    assert_expected(estimator, kind, found[0][0][0])


# ---- labels that nobody else has, in types that list them ----------------------------------------

MANY = 600
WORDS = [*"ab" * (MANY // 2)]
NUMBERS = {
    "x": np.random.default_rng(1).normal(size=MANY),
    "z": np.random.default_rng(2).normal(size=MANY),
    "d": np.tile([0.0, 1.0, 1.0], MANY // 3),
    "id": np.arange(MANY) // 3,
}
NUMBERS |= {"y": NUMBERS["x"] + NUMBERS["z"], "t": np.abs(NUMBERS["z"]) + 0.1}
LEVELS = dpfast.Categorical(["a", "b"])


def pandas_labels(dtype):
    return lambda g: pandas().DataFrame(NUMBERS).assign(g=pandas().Series(g, dtype=dtype(g)))


def of_a_file(g):
    columns = [*NUMBERS, "g"]
    lines = [",".join(map(str, row)) for row in zip(*NUMBERS.values(), g, strict=True)]
    text = io.StringIO("\n".join([",".join(columns), *lines]))
    return pandas().read_csv(text, dtype={"g": "category"})


def arrow_labels(g):
    return arrow().table(NUMBERS | {"g": arrow().array(g).dictionary_encode()})


def polars_labels(g):
    columns = {name: polars().Series(column) for name, column in NUMBERS.items()}
    return polars().DataFrame(columns | {"g": polars().Series(g, dtype=polars().Categorical)})


#: Tables whose type of the column g knows which labels there are, and what the type is called.
LISTING = {
    "pandas": (pandas_labels(lambda g: "category"), "category"),
    "pandas, in order": (
        pandas_labels(lambda g: pandas().CategoricalDtype(sorted(set(g)), ordered=True)),
        "category",
    ),
    "pandas, of a file": (of_a_file, "category"),
    "pandas, of Arrow": (
        pandas_labels(
            lambda g: pandas().ArrowDtype(arrow().dictionary(arrow().int8(), arrow().string()))
        ),
        "dictionary",
    ),
    "Arrow": (arrow_labels, "dictionary"),
    "polars": (polars_labels, "Categorical"),
}


def of_a_study(formula, table, **options):
    study = dpfast.Study(table, **options)
    return study.fit(formula, "least-squares", share=0.5)


def by_person(formula, table, **options):
    people = dpfast.records(table, group="id", each="person")
    return dpfast.fit(formula, people, "least-squares", **options)


#: Doors that read formulas, and what stands in their formulas around the terms of g.
FORMULAS = {
    "fit": (dpfast.fit, "y ~ x + {}", {"loss": "least-squares"}),
    "robust fit": (dpfast.fit, "y ~ x + {}", {"loss": "huber"}),
    "persons": (by_person, "y ~ x + {}", {}),
    "Study": (of_a_study, "y ~ x + {}", {}),
    "cox": (dpfast.effects.cox, "t ~ x + {}", {"event": "d", "cuts": [1.0, 2.0]}),
    "absorbed": (dpfast.tables.absorbed, "y ~ x + {} | d", {"schema": True}),
    "nonprivate": (dpfast.nonprivate_fit, "y ~ x + {}", {"loss": "least-squares"}),
}


def changed(column, cell):
    return [*column[:CHANGED], cell, *column[CHANGED + 1 :]]


def label_pair(make):
    return make(WORDS), make(changed(WORDS, "patient 4711"))


def heard_of(name, terms, table, **declared):
    """What a door says of a formula, and the names and shape of what it returns."""
    function, formula, options = FORMULAS[name]
    if options.get("schema"):
        options = {"schema": dpfast.Schema({"d": dpfast.Binary(1, 0)})}
    ledger = dpfast.Ledger(90.0)
    spending = {"privacy": 30.0, "noise": dpfast.SeededNoise(0), "ledger": ledger}
    if name == "nonprivate":
        spending = {}
    elif name == "Study":
        del spending["privacy"]
    return seen(
        lambda: function(formula.format(terms), table, **options | spending | declared), ledger
    )


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("kind", LISTING)
def test_a_label_that_nobody_else_has(name, kind):
    """Levels that a library listed named coefficients, of which there were as many."""
    pytest.importorskip("formulaic")
    make, called = LISTING[kind]
    both = label_pair(make)
    for terms in ("g", "C(g)", "x:g", "x*C(g)", "C(g):z"):
        first, second = [heard_of(name, terms, table) for table in both]
        assert first == second
        outcome, said, *_, charges = first
        assert outcome.startswith("InvalidInput") and not said and not charges, terms
        if name == "Study" and terms != "g":
            continue  # refused for the formula alone: a study's terms are declared
        assert "'g'" in outcome and called in outcome, outcome
        assert "C(g, levels=[...])" in outcome and "schema=" in outcome, outcome
        assert "int8" not in outcome and "int32" not in outcome  # as wide as there are labels
    terms, declared = "C(g, levels=['a', 'b'])", {}
    if name == "Study":
        number = dpfast.Numeric(-9.0, 9.0)
        declared["schema"] = dpfast.Schema({"y": number, "x": number, "g": LEVELS})
        terms = "C(g)"
    first, second = [heard_of(name, terms, table, **declared) for table in both]
    assert first == second and first[0] == "returned", first


CODED = dpfast.Schema({"g": LEVELS, "x": dpfast.Numeric(-9.0, 9.0), "y": dpfast.Numeric(-9.0, 9.0)})


def seeded():
    """The same noise in every call: a shared source would go on from test to test."""
    return {"privacy": 30.0, "noise": dpfast.SeededNoise(0)}


#: Doors that take levels from a schema.
DECLARED = {
    "counts": lambda t: dpfast.tables.counts(t, "g", schema=CODED, **seeded()),
    "means": lambda t: dpfast.tables.means(t, "y", "g", schema=CODED, **seeded()),
    "quantiles": lambda t: dpfast.tables.quantiles(
        t, "y", "g", schema=CODED, **seeded(), bins=16
    ),
    "fits": lambda t: dpfast.tables.fits("y ~ x", t, "g", schema=CODED, **seeded()),
    "absorbed": lambda t: dpfast.tables.absorbed("y ~ x | g", t, schema=CODED, **seeded()),
    "schema": lambda t: dpfast.fit(
        "y ~ x + C(g)", t, "least-squares", schema=CODED, **seeded()
    ),
    "design": lambda t: dpfast.fit(CODED.encode(t, ["x", "g"], "y"), None, "huber", **seeded()),
    "effect": lambda t: dpfast.effects.treatment_effect(
        CODED.encode(t, ["x", "g"], "y"), NUMBERS["d"], **seeded()
    ),
    "quantile regression": lambda t: dpfast.fit_quantiles(
        CODED.encode(t, ["x", "g"], "y"), taus=[0.5], **seeded()
    ),
    "minimize": lambda t: dpfast.minimize(
        CODED.encode(t, ["x", "g"], "y"), None, dpfast.Objective("tukey", scale=1.0),
        method=dpfast.optimize.Adaptive(last_share=0.1, max_steps=20), **seeded(),
    ),
}  # fmt: skip
REPLAYED = DECLARED | {
    name: lambda t, name=name: FORMULAS[name][0](
        FORMULAS[name][1].format("C(g, levels=['a', 'b'])"), t, **FORMULAS[name][2], **seeded()
    )
    for name in ("fit", "robust fit", "persons", "cox")
}


@pytest.mark.parametrize("name", REPLAYED)
@pytest.mark.one_in(2)
def test_a_replay_of_a_label_that_nobody_else_has(name):
    """Another one that nobody has, so that as many are read; time is no part of the promise."""
    pytest.importorskip("formulaic")
    kinds = list(LISTING)
    kind = kinds[list(REPLAYED).index(name) % len(kinds)]
    make, _ = LISTING[kind]
    one, other = [np.array(changed(WORDS, cell), dtype=object) for cell in ("solo", "patient 4711")]

    def call(labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return REPLAYED[name](make(labels.tolist()))

    report = replay(call, one, other)
    assert report.passed and report.n_answers > 0, (kind, report.leaks)


def test_levels_of_a_file(tmp_path, capsys):
    """A Parquet file keeps the type: labels of one record, and of how many there are."""
    pytest.importorskip("formulaic")
    from pyarrow import parquet

    said = set()
    for k, others in enumerate(([], ["patient 4711"], [f"label {i}" for i in range(200)])):
        path = tmp_path / f"{k}.parquet"
        frame = pandas_labels(lambda g: "category")([*others, *WORDS[len(others) :]])
        parquet.write_table(arrow().Table.from_pandas(frame), path)
        for call in (
            lambda p=path: dpfast.fit("y ~ g", p, privacy=1.0),
            lambda p=path: dpfast.fit("y ~ C(g)", p, privacy=1.0),
            lambda p=path: dpfast.open_parquet(p, covariates=["x", "g"], response="y"),
        ):
            with pytest.raises(dpfast.InvalidInput) as refused:
                call()
            assert "dictionary" in str(refused.value) and "chema" in str(refused.value)
            said.add(str(refused.value).replace(str(path), ""))
        for terms in ("g", "C(g)"):
            code = main(["fit", str(path), "--formula", f"y ~ x + {terms}", "--mu", "1"])
            told = capsys.readouterr().err
            assert code == 1 and "C(g, levels=[...])" in told
            said.add(told)
        names = dpfast.fit("y ~ x + C(g, levels=['a', 'b'])", path, privacy=9.0).names
        assert names == ("intercept", "x", "g[b]")
    assert len(said) == 5  # one for each call


# ---- what a library finds among the cells, and calls a type --------------------------------------


def series(column, dtype=None):
    return pandas().Series(column, dtype=dtype)


COUNTED = [1, 2, 3] * (MANY // 3)
DAY = datetime.datetime(2020, 1, 1)
KEY = {"a": 1}

#: One cell changes the type: how wide its numbers are, what it lists, its fields, its units.
INFERRED = {
    "a missing integer": lambda: (series(changed(COUNTED, None)), series(COUNTED)),
    "an integer of 4 bytes": lambda: tuple(
        pandas().to_numeric(series(changed(COUNTED, cell)), downcast="integer")
        for cell in (1, 70_000)
    ),
    "nullable whole numbers": lambda: tuple(
        series(changed(COUNTED, cell)).convert_dtypes() for cell in (1.0, 1.5)
    ),
    "categories of numbers": lambda: tuple(
        series(changed(COUNTED, cell)).astype("category") for cell in (1, 1.5, "?", None)
    ),
    "what a sparse column is filled with": lambda: tuple(
        series(pandas().arrays.SparseArray(COUNTED, fill_value=cell)) for cell in (1, 4711)
    ),
    "times of a finer unit": lambda: (series([DAY] * MANY), series([DAY] * MANY, "M8[ns]")),
    "zones": lambda: tuple(
        pandas().to_datetime(series([f"2020-01-01 00:00:00+0{hour}:00"] * MANY)) for hour in (1, 2)
    ),
    "fields in Arrow of pandas": lambda: tuple(
        series(pandas().arrays.ArrowExtensionArray(arrow().array(changed([KEY] * MANY, cell))))
        for cell in (KEY, KEY | {"patient 4711": 1})
    ),
    "the longest text": lambda: (np.array(WORDS), np.array(changed(WORDS, "patient 4711"))),
    "the longest bytes": lambda: (np.array([b"a"] * MANY), np.array(changed([b"a"] * MANY, b"ab"))),
    "fields": lambda: tuple(
        arrow().array(changed([KEY] * MANY, cell)) for cell in (KEY, KEY | {"patient 4711": 1})
    ),
    "digits": lambda: tuple(
        arrow().array([Decimal(str(cell)) for cell in changed(COUNTED, one)])
        for one in (1, "1.25", "1" * 50)
    ),
    "entries of lists": lambda: tuple(
        arrow().array(changed([[1]] * MANY, cell)) for cell in ([1], [1.5])
    ),
    "categories in Arrow": lambda: tuple(
        arrow().Array.from_pandas(series(cells).astype("category"))
        for cells in ([None] * MANY, COUNTED, WORDS, [f"label {i}" for i in range(MANY)])
    ),
    "fields in polars": lambda: tuple(
        polars().Series([cell] * MANY) for cell in (KEY, KEY | {"patient 4711": 1})
    ),
    "digits in polars": lambda: tuple(
        polars().Series([Decimal(str(cell)) for cell in changed(COUNTED, one)], strict=False)
        for one in (1, "1.25")
    ),
    "shortest integers": lambda: tuple(
        polars().Series(changed(COUNTED, cell)).shrink_dtype() for cell in (1, 70_000)
    ),
}


def table_of(g):
    """Columns x, y and g, in the library that made g."""
    columns = {name: NUMBERS[name] for name in ("x", "y")}
    home = type(g).__module__.partition(".")[0]
    make = {"pandas": "pandas", "pyarrow": "Arrow", "polars": "polars"}.get(home)
    return columns | {"g": g} if make is None else COLUMNS[make](columns | {"g": g})


#: What is asked of a column of any type: names and shape of the answer, or the refusal, are heard.
ASKED_OF_ANY = {
    "covariate": lambda g: dpfast.fit(
        "y ~ x + g", table_of(g), "least-squares", privacy=9.0, noise=dpfast.SeededNoise(0)
    ),
    "levels": lambda g: (
        dpfast.fit(  # a released count may end it early, which its method tells
            "y ~ C(g, levels=['1', '2', '3'])",
            table_of(g),
            "least-squares",
            privacy=30.0,
            noise=dpfast.SeededNoise(0),
        ).params
    ),
    "words": lambda g: dpfast.tables.counts(
        table_of(g), "g", schema=dpfast.Schema({"g": LEVELS}), privacy=9.0
    ),
    "declared number": lambda g: dpfast.tables.means(
        table_of(g), "g", schema=dpfast.Schema({"g": NUMBER}), privacy=9.0
    ),
    "response": lambda g: dpfast.fit(NUMBERS["x"][:, None], g, "least-squares", privacy=9.0),
    "weight": lambda g: dpfast.fit(
        dpfast.records(NUMBERS["x"][:, None], NUMBERS["y"], sample_weight=g), privacy=9.0
    ),
    "classes": lambda g: dpfast.estimators.DPLogisticRegression(privacy=9.0, classes=(1, 2)).fit(
        NUMBERS["x"][:, None], g
    ),
    "wrong argument": lambda g: dpfast.fit(NUMBERS["x"][:, None], NUMBERS["y"], privacy=g),
}


@pytest.mark.parametrize("kind", INFERRED)
def test_what_a_library_infers_is_not_heard(kind):
    """Of what kind a column is (numbers, text, objects) is public; nothing else of its type is."""
    pytest.importorskip("formulaic")
    for name, call in ASKED_OF_ANY.items():
        heard = {str(seen(lambda g=g, c=call: c(g), dpfast.Ledger(1.0))) for g in INFERRED[kind]()}
        assert len(heard) == 1, (name, heard)
