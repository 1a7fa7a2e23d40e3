"""Reading of one column as an array: pandas, polars, Arrow, mappings of arrays, lists.

A refusal depends on the type of a column, which is public.  A cell that the type allows but is
neither a number nor a label is missing.  No numbers are read from objects or categories, whose type
says nothing about cells; a list is read cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import did_you_mean
from dpfast.data.arrow_arrays import BrokenBuffers, encoded, is_encoded, parts
from dpfast.data.cells import cell_value, is_sequence, number_cells, objects, text
from dpfast.errors import InvalidInput, described, dtype_name

#: Arrow's numeric types except decimals; a column of nulls has the type "null".
ARROW_NUMBERS = frozenset(
    ["bool", "halffloat", "float", "double", "null"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
ARROW_TEXT = frozenset(["string", "large_string", "string_view"])
ARROW_BYTES = frozenset(["binary", "large_binary", "binary_view"])
#: Types that leave the type of their cells open.  Pandas infers the type of categories from the
#: cells, and Arrow stores them as dictionaries.
UNTYPED = ("object", "category", "dictionary")
#: Arrow types that ``dictionary_encode`` accepts.
ARROW_ENCODED = (ARROW_NUMBERS | ARROW_TEXT | {"binary", "large_binary"}) - {"halffloat", "null"}


def library(values: Any) -> str:
    """Return the name of the package that defines an object's type."""
    return type(values).__module__.partition(".")[0]


def is_table(X: Any) -> bool:
    """Test for an argument with named columns: a data frame, an Arrow table, a mapping."""
    return label_list(X) is not None


def label_list(table: Any) -> Any:
    """Return a table's column names unchanged; None for other objects."""
    if type(table) is np.ndarray:  # the most common case, on the path of every fit
        return table.dtype.names
    if isinstance(table, Mapping):
        return list(table)
    if type(table).__name__ == "LazyFrame":
        return None
    names = getattr(table, "column_names", None)  # Arrow
    if names is None:
        names = getattr(table, "columns", None)  # pandas, polars
    if names is None:
        names = getattr(getattr(table, "dtype", None), "names", None)  # structured arrays
    return names


def column_names(table: Any) -> list[str]:
    """Return a table's column names, in order, as text."""
    return [str(name) for name in _labels_of(table)]


def column_kinds(table: Any) -> tuple[str, ...]:
    """Return the type of each column's label, which in pandas may be anything; "str" for text."""
    labels = (name.item() if isinstance(name, np.generic) else name for name in _labels_of(table))
    return tuple(["str" if isinstance(name, str) else type(name).__name__ for name in labels])


def _labels_of(table: Any) -> list[Any]:
    names = label_list(table)
    if type(table).__name__ == "Source":
        raise InvalidInput(
            "this function reads a table whose rows count alike and once: pass the table itself. "
            "dpfast.fit, tables.counts, means, quantiles, distribution and fits, effects.two_stage "
            "and effects.cox take weights, persons or offsets of dpfast.records."
        )
    if names is None:
        raise InvalidInput(
            "a table must be a pandas or polars DataFrame (not a lazy one: call .collect() first), "
            f"an Arrow table or a mapping of column names to arrays; received {described(table)}."
        )
    return list(names)


def column(table: Any, name: str) -> Any:
    """Return the column with this name, in its library's own type."""
    return column_reader(table)(name)


def column_reader(table: Any) -> Callable[[str], Any]:
    """Return what reads a column by its name; the table's labels are read once."""
    return partial(_column, table, column_names(table), _reader(table))


def _column(table: Any, names: list[str], reader: Any, name: str) -> Any:
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(
            f"the table has no column {described(name, text=True)}{did_you_mean(name, names)}; "
            f"it has {names}."
        )
    if names.count(name) > 1:
        raise InvalidInput(
            f"the table has {names.count(name)} columns named {described(name, text=True)}. Give "
            "them different names."
        )
    place = names.index(name)
    if reader is not None:  # by position: labels need not be text
        return reader[1](place)
    return table[list(table)[place] if isinstance(table, Mapping) else name]


def refuse_column_of(X: Any, values: Any, what: str) -> None:
    """Refuse a column that is also among the covariates; in data frames by its public name."""
    if isinstance(X, dict) and not hasattr(X, "nnz"):  # one kind of sparse matrix is a dictionary
        same = [name for name in X if X[name] is values]
    else:
        kind = type(values).__name__
        names: list[Any] = []
        if kind == "Series":
            names = [getattr(values, "name", None)]
        elif kind == "DataFrame":
            names = column_names(values)
        present = column_names(X) if names and is_table(X) else []
        same = [name for name in names if isinstance(name, str) and name in present]
    if same:
        raise InvalidInput(
            f"{what} is the column {described(same[0], text=True)}, and X has that column, too. "
            "Leave it out of X, or give one of the two another name."
        )


def frame(table: Any) -> tuple[list[str] | None, list[Any]] | None:
    """Return names (None if not all are strings) and columns of a data frame; None for others."""
    reader = _reader(table)
    if reader is None:
        return None
    names, at = reader
    columns = [at(j) for j in range(len(names))]
    return (names if all(isinstance(name, str) for name in names) else None), columns


def _reader(table: Any) -> tuple[list[Any], Callable[[int], Any]] | None:
    """Return labels of a data frame, and what returns a column by its place; None for others."""
    origin = library(table)
    kind = type(table).__name__
    if origin == "polars" and kind == "LazyFrame":
        raise InvalidInput("a lazy data frame holds no records yet. Call .collect() first.")
    if origin == "pandas" and hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
        labels = list(table.columns)
        by_name = table.columns.nlevels == 1 and table.columns.is_unique  # faster than by place
        return (
            labels,
            lambda j: table[labels[j]] if by_name and type(labels[j]) is str else table.iloc[:, j],
        )
    if origin == "polars" and hasattr(table, "get_columns"):
        return list(table.columns), table.to_series
    if origin == "pyarrow" and hasattr(table, "column_names"):
        return list(table.column_names), table.column
    return None


def one_column(values: Any, what: str) -> Any:
    """Return the only column of a data frame; other objects are returned unchanged."""
    parts = frame(values)
    if parts is None:
        return values
    if len(parts[1]) != 1:
        raise InvalidInput(
            f"{what} must be one column; received {described(values)}. Pass one of its columns."
        )
    return parts[1][0]


def number_columns(table: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return numeric columns side by side, shape (n, len(names)); no message shows their length."""
    arrays = [numbers(column(table, name), name) for name in names]
    if len({len(column_values) for column_values in arrays}) > 1:
        raise InvalidInput("the columns have different lengths; each needs an entry for each row.")
    return np.column_stack(arrays)


def public_levels(values: Any) -> list[str] | None:
    """Return the levels that were declared with a column's type: a polars Enum.

    The categories of a pandas ``category``, a polars Categorical or an Arrow dictionary come from
    the cells: those are values.
    """
    kind: Any = getattr(values, "dtype", None)
    if library(values) != "polars" or type(kind).__name__ != "Enum":
        return None
    return list(kind.categories)


def declaring_levels(name: str) -> str:
    """Return advice to declare the levels of a column, which are a private fact of the data."""
    quoted = described(name, text=True)
    formula = f"C({name}, levels=[...]) in a formula, or " if name.isidentifier() else ""
    return f"{formula}schema=dpfast.Schema({{{quoted}: dpfast.Categorical([...])}})"


def refuse_other_rows(X: Any, values: Any, what: str) -> None:
    """Refuse two pandas objects whose indices differ, because records would be mixed up."""
    first = _index(X)
    second = _index(values)
    if first is None or second is None or len(first) != len(second) or first is second:
        return  # different lengths are refused later
    try:
        equal = bool(first.equals(second))
    except Exception:
        equal = False
    if not equal:
        raise InvalidInput(
            f"the index of X and that of {what} differ, and records are matched by position. "
            f"Align them first, {what} = {what}.loc[X.index], or pass {what}.to_numpy() if the "
            "positions are right."
        )


def _index(values: Any) -> Any:
    index = getattr(values, "index", None) if library(values) == "pandas" else None
    return index if hasattr(index, "equals") else None


def is_arrow_number(kind: Any) -> bool:
    """Test whether float64 can hold the values of an Arrow type."""
    return str(kind) in ARROW_NUMBERS or str(kind).startswith("decimal")


def is_number_type(dtype: Any) -> bool:
    """Test whether a NumPy type holds real numbers of at most 64 bits."""
    return dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize <= 8)


def refused_type(dtype: Any, what: str) -> InvalidInput:
    """Make the error for an array whose type holds no numbers."""
    untold = dtype_name(dtype) == "object"
    return InvalidInput(
        f"{what} has dtype {dtype_name(dtype)}{', which does not say what it holds' * untold}; "
        "allowed are floats of at most 64 bits, integers and booleans. Convert numbers to float64 "
        "first; levels of labels are declared: C(column, levels=[...]) in a formula, or "
        "schema=dpfast.Schema({...})."
    )


def foreign_array(values: Any, what: str) -> NDArray[Any]:
    """Apply ``np.asarray`` to an object of an unknown library, or refuse it by its type."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(
            f"{what} is a masked array, and its mask would be lost. Fill it first: a record with a "
            "NaN contributes exactly zero and still counts in n."
        )
    try:
        return np.asarray(values)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(f"{what} could not be read as an array; received {described(values)}.")


def _read(values: Any, name: str, readers: tuple[Callable[[Any], Any], ...]) -> Any:
    """Read a column by the reader of its kind: pandas, Arrow, polars, lists, arrays."""
    try:
        return _read_as_it_is(values, name, readers)
    except BrokenBuffers:
        pass  # raised below without its context
    raise InvalidInput(
        f"column {described(name, text=True)} is damaged: Arrow's buffers do not fit it. Read or "
        "make the table anew."
    )


def _read_as_it_is(values: Any, name: str, readers: tuple[Callable[[Any], Any], ...]) -> Any:
    of_pandas, of_arrow, of_polars, of_cells, of_array = readers
    origin = library(values)
    if origin == "pandas" and hasattr(values, "dtype"):
        return of_pandas(values)
    if origin == "pyarrow" and hasattr(values, "type") and hasattr(values, "__len__"):
        return of_arrow(values)
    if origin == "polars" and hasattr(values, "to_list"):
        return of_polars(values)
    if is_sequence(values):
        return of_cells(list(values))
    what = f"column {described(name, text=True)}"
    array = foreign_array(values, what)
    if array.ndim != 1:
        raise InvalidInput(f"{what} must have one dimension; received shape {array.shape}.")
    return of_array(array)


# ---- numbers -------------------------------------------------------------------------------------


def numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Return a numeric column as float64; NaN where a cell is missing."""
    values = one_column(values, f"column {described(name, text=True)}")
    readers = (_of_pandas, _of_arrow, _of_polars, number_cells, _of_array)
    array: Numbers = _read(values, name, readers)
    if array is None:
        raise InvalidInput(
            f"column {described(name, text=True)} must be numbers or booleans and has type "
            f"{type_of(values)}{_remedy(values, name)}"
        )
    return array


def shared_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Read :func:`numbers` for a reader that copies them: float64 columns are the table's own."""
    of_pandas = library(values) == "pandas" and type(values).__name__ == "Series"
    dtype = values.dtype if of_pandas or type(values) is np.ndarray else None
    if isinstance(dtype, np.dtype) and dtype == np.float64 and values.ndim == 1:
        return np.asarray(values)
    return numbers(values, name)


def cell_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Read :func:`numbers`, also from objects and categories, cell by cell."""
    if not is_untyped(values):
        return numbers(values, name)
    table, positions = labels(values, name)
    array: NDArray[np.float64] = np.append(number_cells(table), np.nan)[positions]
    return array


def _remedy(values: Any, name: str) -> str:
    """Return advice about a column whose type holds no numbers."""
    declared = (
        f"declare labels: {declaring_levels(name)}; of a response with two labels make 0 and 1: "
        f"table[{described(name, text=True)}] == 'yes'."
    )
    if type_of(values).lower() in ("category", "categorical", "dictionary"):
        return (
            ", which does not say which levels there can be: it lists the labels that records "
            f"have, a private fact of the data. Convert it to a numeric type first, or {declared}"
        )
    if is_untyped(values):
        return (
            ", which does not say what its cells are: text among them would count as missing. "
            f'Convert numbers, as pandas.to_numeric(column, errors="coerce") does, or {declared}'
        )
    return f". Convert it to a numeric type first, or {declared}"


Numbers = NDArray[np.float64] | None  # None: refused for its type


def _of_array(array: NDArray[Any]) -> Numbers:
    if not is_number_type(array.dtype):
        return None
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        return array.astype(np.float64)


def _of_pandas(values: Any) -> Numbers:
    values = getattr(values, "array", values)
    dtype = values.dtype
    if is_untyped(values):
        return None
    if _is_arrow_backed(dtype):
        return _of_arrow(values.__arrow_array__())
    if isinstance(dtype, np.dtype) or type(dtype).__name__ in ("SparseDtype", "NumpyEADtype"):
        return _of_array(foreign_array(values, "a column"))
    if getattr(dtype, "kind", "O") in "iufb":  # nullable
        with np.errstate(all="ignore"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return None


def _of_arrow(values: Any) -> Numbers:
    if not is_arrow_number(values.type):  # nor is a dictionary one, as pandas' categories are none
        return None
    arrays = [np.empty(0)]
    for cells, _ in parts(values):
        with np.errstate(all="ignore"):
            # cast first: otherwise a null would change the type
            arrays.append(cells.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    return arrays[1] if len(arrays) == 2 else np.concatenate(arrays)


def _of_polars(values: Any) -> Numbers:
    dtype = values.dtype
    if not dtype.is_numeric() and str(dtype) not in ("Boolean", "Null"):
        return None
    return np.array(values.cast(float, strict=False).to_numpy(), dtype=np.float64)


# ---- labels --------------------------------------------------------------------------------------


def labels(values: Any, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """Return a column's labels, and each record's position among them; -1 where it is missing."""
    values = one_column(values, f"column {described(name, text=True)}")
    readers = (_pandas_labels, _arrow_labels, _polars_labels, _each, _array_labels)
    answer: Labels = _read(values, name, readers)
    if answer is None:
        raise InvalidInput(
            f"column {described(name, text=True)} must be labels (text, integers, booleans) and "
            f"has type {type_of(values)}. Convert it to text or integers first."
        )
    table, codes = answer  # pandas does not check its codes either
    return table, np.where((codes < 0) | (codes >= len(table)), -1, codes)


Labels = tuple[list[Any], NDArray[np.int64]] | None  # None: refused for its type


def _each(cells: Sequence[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    return list(cells), np.arange(len(cells))


def _array_labels(array: NDArray[Any]) -> Labels:
    return None if array.dtype.kind in "mMcV" else _each(objects(array))


def _pandas_labels(values: Any) -> Labels:
    values = getattr(values, "array", values)
    dtype = values.dtype
    if hasattr(dtype, "categories"):
        return _categories(dtype.categories), np.asarray(values.codes).astype(np.int64)
    if _is_arrow_backed(dtype):
        return _arrow_labels(values.__arrow_array__())
    if getattr(dtype, "kind", "O") in "mMcV":
        return None
    return _each(objects(np.asarray(values, dtype=object)))


def _categories(values: Any) -> list[Any]:
    """Return pandas categories as Python objects; their type is inferred from the cells."""
    encoded_labels = None
    try:
        if _is_arrow_backed(values.dtype):
            encoded_labels = _arrow_labels(values.array.__arrow_array__())
        if encoded_labels is None:
            return objects(np.asarray(values, dtype=object))
    except Exception:
        return [cell_value(lambda i=i: values[i]) for i in range(len(values))]
    distinct, positions = encoded_labels
    return [None if i < 0 else distinct[i] for i in positions.tolist()]


def _arrow_labels(values: Any) -> Labels:
    kind = str(_value_type(values))
    if kind == "null":
        return [], np.full(len(values), -1)
    if not is_arrow_number(kind) and kind not in ARROW_TEXT | ARROW_BYTES:
        return None
    table: list[Any] = []
    positions = [np.empty(0, dtype=np.int64)]
    for cells, codes in parts(values):
        if codes is None and kind in ARROW_ENCODED:
            cells, codes = encoded(cells)  # so that each different value is read once
        record_codes = np.arange(len(cells)) if codes is None else codes
        positions.append(np.where(record_codes < 0, -1, record_codes + len(table)))
        # text comes as bytes, which need not be valid text
        listed = cells.to_pylist()
        table.extend(text(listed) if kind in ARROW_TEXT else listed)
    return table, np.concatenate(positions)


def _polars_labels(values: Any) -> Labels:
    kind = str(values.dtype).partition("(")[0]
    if kind in ("String", "Categorical", "Enum"):
        return _each(list(text(values.cast(str).cast(bytes).to_list())))
    if values.dtype.is_numeric() or kind in ("Boolean", "Null", "Object", "Binary"):
        return _each(values.to_list())
    return None


# ---- types ---------------------------------------------------------------------------------------


def _value_type(values: Any) -> Any:
    """Return the Arrow type of a column's values, also if they are dictionary-encoded."""
    return getattr(values.type, "value_type", values.type) if is_encoded(values) else values.type


def is_untyped(values: Any) -> bool:
    """Test for a column type (objects, categories) that leaves the type of its cells open."""
    dtype: Any = getattr(values, "dtype", getattr(values, "type", None))
    dtype = dtype.subtype if type(dtype).__name__ == "SparseDtype" else dtype
    return dtype is not None and dtype_name(dtype).lower() in UNTYPED


def kept_encoded(arrow_schema: Any) -> list[str]:
    """Name the Parquet columns to read as text dictionaries, or Arrow would encode them twice."""
    return [
        field.name
        for field in arrow_schema
        if str(field.type).startswith("dictionary<")
        and str(field.type.value_type) in ARROW_TEXT | ARROW_BYTES
    ]


def _is_arrow_backed(dtype: Any) -> bool:
    return type(dtype).__name__ == "ArrowDtype" or getattr(dtype, "storage", None) == "pyarrow"


def type_of(values: Any) -> str:
    """Return a column's type by its library's name, without details that may follow the cells."""
    dtype = getattr(values, "dtype", getattr(values, "type", None))  # Arrow calls it type
    return type(values).__name__ if dtype is None else dtype_name(dtype)
