"""Public facts about a table: ranges, categories, units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, did_you_mean, real_number
from dpfast.data.cells import cell_value
from dpfast.data.classes import Spellings, check_type
from dpfast.data.coding import Coding, Column, Design, Encoded, Factor, Main
from dpfast.data.columns import column_names, labels, numbers
from dpfast.errors import Hinted, InvalidInput, described, understood

LARGEST = float(np.finfo(float).max)


def _check_text(declared: Any, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(declared, name), str):
            raise InvalidInput(
                f"{name} must be text; received {described(getattr(declared, name))}."
            )


@understood
@dataclass(frozen=True)
class Numeric(Column):
    """Number in a declared range.

    Values outside are clipped to the range; missing and non-finite ones stay missing, so that
    their record contributes exactly zero and still counts in n.

    Parameters
    ----------
    low, high : float
        Public range, in the units of the table.
    centre, unit : float, optional
        The encoded value is ``(x - centre) / unit``; default the middle of the range and half of
        its length, which puts it in [-1, 1].
    units, source : str
        For people: "years", "dollars a week"; who declared the range, and from what.

    Examples
    --------
    >>> dpfast.Schema({"age": dpfast.Numeric(20, 80)}).encode({"age": [50, 200]}).X.ravel()
    array([0., 1.])
    """

    low: float
    high: float
    centre: float | None = None
    unit: float | None = None
    units: str = ""
    source: str = field(default="", kw_only=True)
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        for name in ("low", "high", "centre", "unit"):
            value = getattr(self, name)
            if value is None and name in ("centre", "unit"):
                continue
            if isinstance(value, np.integer):  # as a range read from an array of whole numbers
                value = int(value)
                object.__setattr__(self, name, value)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InvalidInput(f"{name} must be a number; received {described(value)}.")
            if not abs(value) <= LARGEST:
                raise InvalidInput(
                    f"{name} must be finite, in float64; received {described(value)}."
                )
        if not self.low < self.high:
            raise InvalidInput(
                f"low must be below high; received low={described(self.low)}, "
                f"high={described(self.high)}."
            )
        if self.unit is not None and not self.unit > 0.0:
            raise InvalidInput(f"unit must be positive; received {described(self.unit)}.")
        _check_text(self, "units", "source")
        ends = self.scaled(np.array([self.low, self.high], dtype=float))
        if not (0.0 < self.spread < math.inf and np.isfinite(ends).all()):
            raise InvalidInput(
                f"the range from low={described(self.low)} to high={described(self.high)} cannot "
                "be coded: its length, or what it is divided by, leaves float64. Declare the "
                "column in other units, or pass another centre and unit."
            )

    @property
    def location(self) -> float:
        return 0.5 * (self.low + self.high) if self.centre is None else float(self.centre)

    @property
    def spread(self) -> float:
        return 0.5 * (self.high - self.low) if self.unit is None else float(self.unit)

    def scaled(self, x: Array) -> Array:
        """Clip and scale values, in the shape of ``x``; NaN where they are not finite.

        Parameters
        ----------
        x : ndarray
            In the units of the column.
        """
        with np.errstate(all="ignore"):
            clipped = np.where(np.isfinite(x), np.clip(x, self.low, self.high), np.nan)
            return np.asarray((clipped - self.location) / self.spread)

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        bounds = self.scaled(np.array([self.low, self.high], dtype=float))
        return self.scaled(numbers(values, name))[:, None], [name], bounds[None, :]


@understood
@dataclass(frozen=True)
class Categorical(Column):
    """Label from a declared list, coded as one indicator per level but the reference.

    A cell is a level if it is spelled like it.  Otherwise spaces around it and the case of letters
    are ignored, if exactly one level then fits.  A number is the level that writes it, and "1.0",
    as files have integers beside an empty cell, is "1".  An empty cell and a missing one are the
    same: the level ``""`` if it is declared.

    Parameters
    ----------
    levels : sequence of str or int
        Every level there can be.
    reference : str or int, optional
        Level without an indicator; default the first.
    other : str or int, optional
        The level that values outside the list (missing ones included) belong to.  Without it
        their record contributes exactly zero.
    source : str
        For people: who declared the levels, and from what.

    Examples
    --------
    >>> schema = dpfast.Schema({"region": dpfast.Categorical(["north", "south", "west"])})
    >>> schema.encode({"region": ["west", "north"]}).X
    array([[0., 1.],
           [0., 0.]])
    """

    levels: tuple[Any, ...]
    reference: Any = None
    other: Any = None
    source: str = field(default="", kw_only=True)
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        levels = self.levels
        if isinstance(levels, str) or not isinstance(levels, Sequence):
            raise InvalidInput(f"levels must be a list of labels; received {described(levels)}.")
        object.__setattr__(self, "levels", tuple(levels))
        for level in levels:
            if not isinstance(level, (str, int, bool)):
                raise InvalidInput(
                    "levels must be strings or integers; received a "
                    f"{type(level).__name__} among them."
                )
        if len(set(levels)) != len(levels) or len(levels) < 2:
            raise InvalidInput(
                f"levels must be at least two different labels; received {described(levels)}."
            )
        _check_text(self, "source")
        if self.reference is None:
            object.__setattr__(self, "reference", self.levels[0])
        for name in ("reference", "other"):
            value = getattr(self, name)
            if value is not None and not cell_value(lambda value=value: bool(value in self.levels)):
                raise InvalidInput(
                    f"{name} must be one of the levels {described(levels)}; received "
                    f"{described(value)}."
                )

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        codes = self.codes(values, name)
        kept = [level for level in self.levels if every_level or level != self.reference]
        encoded = np.empty((len(codes), len(kept)))
        for j, level in enumerate(kept):
            encoded[:, j] = codes == self.levels.index(level)
        encoded[codes < 0] = np.nan
        bounds = np.tile([0.0, 1.0], (len(kept), 1))
        return encoded, [f"{name}[{level}]" for level in kept], bounds

    def codes(self, values: Any, name: str) -> NDArray[np.int64]:
        """Position of each value among the levels, -1 for those outside, shape (n,).

        Parameters
        ----------
        values : array-like of shape (n,)
            A column.
        name : str
            What the column is called in messages.

        Privacy
        -------
        None is spent; the codes are as private as the column.
        """
        check_type(values, self.levels, name)
        missing_code = -1 if self.other is None else self.levels.index(self.other)
        spellings = Spellings(self.levels, missing_code)
        distinct, positions = labels(values, name)
        table = np.array([*map(spellings.code, distinct), spellings.code(None)])
        return table[positions]  # -1, a missing label, is the last


@understood
@dataclass(frozen=True)
class Binary(Column):
    """A response or covariate that is 1 for one declared value and 0 for another.

    Parameters
    ----------
    positive, negative : str, int or bool
        The values coded as 1 and as 0, spelled as for :class:`Categorical`.  Anything else is
        missing: its record contributes exactly zero.
    source : str
        For people: who declared the values, and from what.

    Examples
    --------
    >>> smokers = dpfast.Schema({"smoker": dpfast.Binary("yes", "no")})
    >>> smokers.encode({"smoker": ["yes", "no"]}).X.ravel()
    array([1., 0.])
    """

    positive: Any
    negative: Any
    source: str = field(default="", kw_only=True)
    kind: ClassVar[str] = "binary"

    def __post_init__(self) -> None:
        for name in ("positive", "negative"):
            value = getattr(self, name)
            if not isinstance(value, (str, int)):
                raise InvalidInput(
                    f"{name} must be a string, an integer or a boolean; received "
                    f"{described(value)}."
                )
        if self.positive == self.negative:
            raise InvalidInput(
                "positive and negative must differ; received "
                f"{described(self.positive, text=True)} for both."
            )
        _check_text(self, "source")

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        codes = Categorical((self.negative, self.positive)).codes(values, name)
        return np.where(codes < 0, np.nan, codes)[:, None], [name], np.array([[0.0, 1.0]])


@understood
class Schema(Hinted):
    """Public declarations of a table's columns.

    Parameters
    ----------
    columns : mapping of str to Numeric, Categorical or Binary

    Examples
    --------
    >>> sex = dpfast.Categorical(["F", "M"])
    >>> schema = dpfast.Schema({"age": dpfast.Numeric(18, 90), "sex": sex})
    >>> design = schema.encode({"age": [54, 200], "sex": ["F", "M"]})
    >>> design.names, design.X.tolist()
    (('age', 'sex[M]'), [[0.0, 0.0], [1.0, 1.0]])

    Privacy
    -------
    Encoding is a fixed map of each record on its own.  It spends nothing and learns nothing.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        if not isinstance(columns, Mapping):
            raise InvalidInput(
                "columns must map names to Numeric(...), Categorical(...) or Binary(...); received "
                f"{described(columns)}."
            )
        for name, declared in columns.items():
            if not isinstance(name, str) or not isinstance(declared, Column):
                raise InvalidInput(
                    "columns must map names to Numeric(...), Categorical(...) or Binary(...); "
                    f"received {described(name, text=True)} with a {type(declared).__name__}."
                )
        self.columns: dict[str, Column] = dict(columns)

    def __getitem__(self, name: str) -> Column:
        if not isinstance(name, str) or name not in self.columns:
            raise InvalidInput(
                f"the schema does not declare column {described(name, text=True)}"
                f"{did_you_mean(name, list(self.columns))}; it declares "
                f"{list(self.columns)}. Add it with its public range or levels."
            )
        return self.columns[name]

    def declared(self, names: Any, argument: str) -> list[str]:
        """Check a list of declared names; messages show places, because cells may be passed.

        Parameters
        ----------
        names : sequence of str
        argument : str
            What the list is called in messages.
        """
        listed: list[Any] | None = None
        if not isinstance(names, str):
            with suppress(Exception):  # refused below without its context, which may quote a value
                listed = list(names)
        if listed is None:
            raise InvalidInput(
                f"{argument} must be a list of names of columns; received "
                f"{described(names, text=True)}."
            )
        for i, name in enumerate(listed):
            if not isinstance(name, str) or name not in self.columns:
                raise InvalidInput(
                    f"the schema does not declare {argument}[{i}]"
                    f"{did_you_mean(name, list(self.columns))}; it declares "
                    f"{list(self.columns)}. Add it with its public range or levels."
                )
        return listed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.columns == other.columns

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        columns = ", ".join(f"{name!r}: {declared!r}" for name, declared in self.columns.items())
        return f"Schema({{{columns}}})"

    def with_scaling(self, /, **scaling: tuple[float, float]) -> Schema:
        """Return a copy with public or released ``(centre, unit)`` of numeric columns.

        Parameters
        ----------
        **scaling : (float, float)
            By the name of the column, in its own units.
        """
        columns = dict(self.columns)
        for name, (centre, unit) in scaling.items():
            declared = self[name]
            if not isinstance(declared, Numeric):
                raise InvalidInput(
                    f"column {described(name, text=True)} is {declared.kind}; only numbers are "
                    "scaled."
                )
            columns[name] = replace(
                declared, centre=real_number(centre, "centre"), unit=real_number(unit, "unit")
            )
        return Schema(columns)

    def encode(
        self, table: Any, covariates: Sequence[str] | None = None, response: str | None = None
    ) -> Design:
        """Encode columns of a table, for :func:`dpfast.fit`.

        Parameters
        ----------
        table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
            Other columns are ignored.
        covariates : sequence of str, optional
            Default: every declared column the table has, except the response.
        response : str, optional
            Numeric or binary.

        Privacy
        -------
        None is spent; X and y of the design are as private as the table.

        Examples
        --------
        >>> schema = dpfast.Schema({"age": dpfast.Numeric(18, 90), "pay": dpfast.Numeric(0, 4000)})
        >>> design = schema.encode({"pay": [1000, 2000], "age": [54, 90]}, ["age"], "pay")
        >>> design.X.ravel(), design.y
        (array([0., 1.]), array([-0.5,  0. ]))
        """
        if covariates is None:
            present = column_names(table)
            covariates = [name for name in self.columns if name in present and name != response]
        covariates = self.declared(covariates, "covariates")
        if not covariates:
            raise InvalidInput("there is no covariate to encode: name at least one column.")
        used = [*covariates] if response is None else [*covariates, response]
        terms = tuple((Main(name),) for name in covariates)
        return self.coding(terms, used, response).design(table)

    def coding(
        self,
        terms: tuple[tuple[Factor, ...], ...],
        used: Sequence[str],
        response: str | None = None,
        fit_intercept: bool = True,
    ) -> Coding:
        """Make the coding of these terms of the used columns; the response must be one column.

        Parameters
        ----------
        terms : tuple of tuple of factors
            Each stands for the products of its factors' columns.
        used : sequence of str
            Columns that are read.
        response, fit_intercept : str, bool
            Numeric or binary; whether a fit of the design has one.
        """
        if response is not None and isinstance(self[response], Categorical):
            raise InvalidInput(
                f"the response {described(response, text=True)} is declared categorical; declare "
                "it Binary(positive=..., negative=...) for a logistic regression."
            )
        names = self.declared(used, "used")
        return Coding({name: self[name] for name in names}, terms, response, fit_intercept)

    @staticmethod
    def from_toml(source: Any) -> Schema:
        """Read a schema from a TOML file (a path) or text; see :meth:`to_toml`.

        Parameters
        ----------
        source : path or str
            A file, or the text itself.
        """
        from dpfast.data.files.schema_file import read

        kinds = {"numeric": Numeric, "categorical": Categorical, "binary": Binary}
        columns: dict[str, Column] = {}
        for name, (kind, values) in read(source).items():
            try:
                columns[name] = kinds[kind](**values)
            except InvalidInput as error:
                raise InvalidInput(f"column {described(name, text=True)}: {error}") from error
        return Schema(columns)

    @staticmethod
    def draft(source: Any, known: Schema | None = None) -> str:
        """Draft a schema from the names and types of columns, for a person to fill in.

        Parameters
        ----------
        source : path, data frame, Arrow table or mapping
            Of a file of text only the first row is read, of other files their types.
        known : Schema, optional
            What is publicly known already; its columns are filled in.

        Returns
        -------
        str
            TOML text with blanks, which :meth:`from_toml` reads once they are filled in.

        Privacy
        -------
        None is spent: names and types are public, and no value is read.

        Examples
        --------
        >>> print(dpfast.Schema.draft({"age": np.array([54.0])}).splitlines()[3])
        [columns."age"]  # float64
        """
        from dpfast.data.files.schema_file import draft

        if known is not None and not isinstance(known, Schema):
            raise InvalidInput(
                "known must be a dpfast.Schema of what is publicly known; received "
                f"{described(known)}."
            )
        return draft(source, {} if known is None else known.columns)

    def to_toml(self) -> str:
        """Write this schema as TOML text, one ``[columns.NAME]`` table per column."""
        from dpfast.data.files.schema_file import write

        return write(self.columns)
