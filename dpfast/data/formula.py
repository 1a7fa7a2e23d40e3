"""Formulas over a schema: ``"log_wage ~ education + I(experience**2) + C(state)"``."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding, Column, Encoded, Factor, Main
from dpfast.data.columns import (
    column,
    column_names,
    declaring_levels,
    numbers,
    public_levels,
    type_of,
)
from dpfast.data.scaling.units import Released
from dpfast.data.schema import Categorical, Numeric, Schema
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]

#: Cells of a product of levels: no table has records for more; knots of a spline, and their size.
N_FINE_BINS, MOST_KNOTS, LARGEST_KNOT = 10_000, 100, 1e100


IN_TERMS = "the response is one of the terms, too, or a part of one. Leave it out on the right."


def coding_from_formula(formula: str, schema: Schema) -> Coding:
    """What a formula means for tables that a schema declares; no table is needed."""
    if not isinstance(schema, Schema):
        raise InvalidInput(
            "schema must be a dpfast.Schema, which declares the columns of the formula; received "
            f"{described(schema)}."
        )
    responses, written, intercept = _sides(formula)
    products = [
        list(dict.fromkeys(_factor(text, schema) for text in factors)) for factors in written
    ]
    used = {name: None for product in products for factor in product for name in _names(factor)}
    response = None
    if responses is not None:
        if len(responses) != 1 or responses[0] not in schema.columns:
            raise InvalidInput(
                f"the left side of {formula!r} must be one declared column; received {responses}."
            )
        response = responses[0]
        used[response] = None
    left = None if response is None else Main(response)
    terms = _of_full_rank(products, intercept, schema, left)
    return schema.coding(terms, list(used), response, intercept)


class Terms(NamedTuple):
    """Both sides of a formula, where nothing is declared; with a schema the first has both."""

    coding: Coding
    left: Coding | None = None

    @property
    def columns(self) -> dict[str, Column]:
        """All that are read, and how they are declared."""
        return {**self.coding.columns, **({} if self.left is None else self.left.columns)}

    def records(self, table: Any) -> tuple[Array, Array]:
        """Covariates and responses of a table, record by record."""
        found = self.coding.design(table)
        y = found.y if self.left is None else self.left.design(table).X[:, 0]
        assert y is not None
        return found.X, y


def terms_of_table(formula: str, table: Any, schema: Schema | None) -> Terms:
    """What a formula with a response means for a table, of which the types alone are looked at."""
    if schema is None:
        return Terms(*codings_of_table(formula, table))
    coding = coding_from_formula(formula, schema)
    if coding.response is None:
        raise InvalidInput(
            f"formula {described(formula, text=True)} has no response: write 'response ~ terms'."
        )
    return Terms(coding)


def codings_of_table(formula: str, table: Any) -> tuple[Coding, Coding]:
    """What both sides of a formula mean where nothing is declared: right, and left."""
    responses, written, intercept = _sides(formula)
    if responses is None or len(responses) != 1:
        raise InvalidInput(
            f"formula {formula!r} must have one response on its left side: 'response ~ terms'."
        )
    texts = list(dict.fromkeys([*responses, *(text for factors in written for text in factors)]))
    schema = _undeclared(texts, table)
    products = [
        list(dict.fromkeys(_factor(text, schema) for text in factors)) for factors in written
    ]
    left = _factor(responses[0], schema)
    if _is_categorical(left, schema):
        raise InvalidInput(
            f"the response {responses[0]!r} has levels. Declare it "
            "Binary(positive=..., negative=...) in a schema, or pass a column of 0 and 1."
        )
    used = {name: None for product in products for factor in product for name in _names(factor)}
    terms = _of_full_rank(products, intercept, schema, left)
    response = schema.coding(((left,),), _names(left), None, False)
    return schema.coding(terms, list(used), None, intercept), response


def _undeclared(texts: Sequence[str], table: Any) -> Schema:
    """The columns that terms read: numbers in their own units, or public levels."""
    found, levels = dict[str, Column](), dict[str, Any]()
    present = column_names(table)
    for text in texts:
        names, listed = _read_by(text, present)
        levels |= listed
        for name in names:
            given = levels.get(name) or public_levels(column(table, name))
            if given is None and name in levels:
                raise InvalidInput(
                    f"{text!r}: which levels column {name!r} (type {type_of(column(table, name))}) "
                    "has is a private fact of the data, also where a library lists them. Declare "
                    f"them: {declaring_levels(name)}."
                )
            found[name] = Released(0.0, 1.0) if given is None else Categorical(tuple(given))
    return Schema(found)


def _read_by(text: str, present: Sequence[str] = ()) -> tuple[list[str], dict[str, Any]]:
    """Columns that a term reads, and the levels that it lists of those that have some."""
    if text in present:
        return [text], {}
    tree, levels = _parsed(text), dict[str, Any]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_factor(node):
            levels[node.args[0].id] = _listed(node, text)  # type: ignore[attr-defined]
    names = Arithmetic(text).names
    return names[:1] if _is_spline(tree) else names, levels


def columns_read(formula: str) -> tuple[list[str], dict[str, Any]]:
    """Columns that a formula reads, of a table that is not there yet, and their levels."""
    responses, written, _ = _sides(formula)
    names, levels = dict[str, None](), dict[str, Any]()
    quoted = _quoted(formula)
    for text in [*(responses or ()), *(text for factors in written for text in factors)]:
        found, listed = _read_by(text, quoted)
        names |= dict.fromkeys(found)
        levels |= listed
    for name, given in levels.items():
        if given is None:
            raise InvalidInput(
                f"C({name}): which levels there are is a private fact of the data. List them: "
                f"C({name}, levels=[...]), or declare {name!r} in the file of --schema."
            )
    return list(names), levels


def _is_factor(node: ast.Call) -> bool:
    """Whether this is ``C(name)`` or ``C(name, levels=[...])``."""
    return (
        isinstance(node.func, ast.Name)
        and node.func.id == "C"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and [keyword.arg for keyword in node.keywords] in ([], ["levels"])
    )


def _listed(node: ast.Call, text: str) -> Any:
    """Levels that a formula lists; None where it lists none."""
    try:
        found = [ast.literal_eval(keyword.value) for keyword in node.keywords]
    except ValueError as error:
        raise InvalidInput(
            f"{text!r}: write the levels themselves, levels=['a', 'b', ...]."
        ) from error
    if found and not isinstance(found[0], list | tuple):
        raise InvalidInput(f"{text!r}: levels are a list: levels=['a', 'b', ...].")
    return found[0] if found else None


def _quoted(formula: str) -> list[str]:
    """Names between backticks."""
    return re.findall("`([^`]+)`", formula)


def parts_at(mark: str, formula: str) -> list[str]:
    """What stands between such marks, which none within backticks is."""
    return re.split(rf"{re.escape(mark)}(?=(?:[^`]*`[^`]*`)*[^`]*$)", formula)


def response_of(formula: str) -> str:
    """The name on the left side, if that is one."""
    return parts_at("~", formula)[0].strip().strip("`")


def columns_of_formula(formula: str) -> tuple[str, list[str], bool]:
    """Response, covariates and whether there is an intercept, where nothing is declared."""
    responses, written, intercept = _sides(formula)

    def is_column(text: str) -> bool:
        return text.isidentifier() or text in _quoted(formula)

    if responses is None or len(responses) != 1 or not is_column(responses[0]):
        raise InvalidInput(
            f"formula {formula!r} must have one column on its left side: 'response ~ terms'."
        )
    for factors in written:
        if len(factors) > 1 or not is_column(factors[0]):
            raise InvalidInput(
                f"term {':'.join(factors)!r} needs the ranges or levels of a schema: without one, "
                "each term is a numeric column here. Pass schema=dpfast.Schema({...}) where there "
                "is one to pass, or add the column to the table."
            )
    names = list(dict.fromkeys(factors[0] for factors in written))
    if responses[0] in names:
        raise InvalidInput(IN_TERMS)
    return responses[0], names, intercept


def _sides(formula: str) -> tuple[list[str] | None, list[list[str]], bool]:
    """Factors on the left, those of each term on the right, and whether there is an intercept."""
    try:
        from formulaic import Formula
    except ImportError as error:
        raise ImportError(
            "formulas need the formulaic package: pip install 'dpfast[tables]'."
        ) from error
    if type(formula) is not str:  # a NumPy string is an entry of an array
        raise InvalidInput(
            "formula must be a string, and comes first: fit('response ~ terms', table, ...); "
            f"received {described(formula)}."
        )
    from dpfast.hints import power_of_a_name, without_parts

    bare = without_parts(formula)
    if re.search(r"(^|[~+])\s*\.\s*($|[-+])", formula):
        raise InvalidInput(
            f"formula {formula!r}: '.' stands for whatever the table happens to have. Write the "
            "columns: 'wage ~ educ + exper'."
        )
    if "`1`" in formula:
        raise InvalidInput(
            f"formula {formula!r}: a column named 1 reads as the intercept there. Rename it."
        )
    if "|" in re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", formula):
        raise InvalidInput(
            f"formula {formula!r} has a bar: levels are absorbed by dpfast.tables.absorbed('y ~ x "
            "| state', ...), and instruments are for dpfast.effects.two_stage('y ~ x | z', ...)."
        )
    if "~" not in formula and re.search(r"[^=!<>]=[^=]", bare):
        raise InvalidInput(f"formula {formula!r}: write '~' for '=': 'response ~ terms'.")
    if power := power_of_a_name(bare):
        raise InvalidInput(
            f"formula {formula!r}: a power of a name is the name itself, as in R. Write I({power})."
        )
    if "as.factor(" in formula:
        raise InvalidInput(f"formula {formula!r}: write C(x, levels=[...]) for as.factor(x).")
    try:
        parsed = Formula(formula)
    except Exception as error:  # its parser raises many kinds, and paints the place
        told = str(error).partition("\n")[0]
        raise InvalidInput(
            f"formula {formula!r} could not be read: {told} Write 'response ~ x1 + x2'."
        ) from None
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
    sides = [side for side in (left, right) if side is not None]
    if not all(hasattr(term, "factors") for side in sides for term in side):
        raise InvalidInput(f"formula {formula!r} has several parts; write it without '|'.")
    intercept, products = False, []
    for term in right:
        factors = [str(factor.expr) for factor in term.factors]
        if factors == ["1"]:
            intercept = True
        else:
            products.append(factors)
    if not products:
        raise InvalidInput(f"formula {formula!r} has no covariate.")
    if left is None:
        return None, products, intercept
    return [str(factor.expr) for term in left for factor in term.factors], products, intercept


def _of_full_rank(
    products: list[list[Factor]], intercept: bool, schema: Schema, response: Factor | None = None
) -> tuple[tuple[Factor, ...], ...]:
    """Terms whose columns span what the products do and are independent where cells are filled."""
    if response is not None:
        own = set(_names(response))  # of one column, or of some, as in 'after - before ~ before'
        reads = (set(_names(factor)) for product in products for factor in product)
        if [response] in products or (len(own) == 1 and any(own & names for names in reads)):
            raise InvalidInput(IN_TERMS)
    splines = {factor for product in products for factor in product if isinstance(factor, Spline)}
    if len(splines) > len({(spline.what, spline.name) for spline in splines}):
        raise InvalidInput(
            "two different splines of a column would have the same name. Write one with the knots "
            "of both."
        )
    terms: list[tuple[Factor, ...]] = []
    spanned = {(frozenset[Factor](), frozenset[Factor]())} if intercept else set()
    empty: dict[str, list[Any]] = {name: [] for name in schema.columns}
    for product in products:
        labels = [factor for factor in product if _spans_one(factor, schema)]
        cells = math.prod(
            [_all_of(factor).encode(empty, schema.columns)[0].shape[1] for factor in labels]
        )
        if cells > N_FINE_BINS:
            raise InvalidInput(
                f"a product of levels has {cells:,} cells, of at most {N_FINE_BINS:,}. Leave a "
                "factor out, or use fewer levels."
            )
        others = frozenset(product) - frozenset(labels)
        subsets = [
            frozenset(subset) for k in range(len(labels) + 1) for subset in combinations(labels, k)
        ]
        parts = [subset for subset in subsets if (others, subset) not in spanned]
        spanned.update((others, subset) for subset in parts)
        terms += [
            tuple(
                coding.get(factor, factor) for factor in product if factor in others | set(coding)
            )
            for coding in _merged(parts)
        ]
    return tuple(terms)


def _merged(parts: Sequence[frozenset[Factor]]) -> list[dict[Factor, Factor]]:
    """The coding of each categorical factor in as few terms as span these parts."""
    codings = [{factor: factor for factor in part} for part in parts]  # short ones first
    merged = True
    while merged:
        merged = False
        for i, j in combinations(range(len(codings)), 2):
            short, long = codings[i], codings[j]
            more = [factor for factor in long if factor not in short]
            if len(more) == 1 and short.items() <= long.items():
                codings[j] = long | {more[0]: _all_of(more[0])}
                del codings[i]
                merged = True
                break
    return codings


def _is_categorical(factor: Factor, schema: Schema) -> bool:
    return isinstance(factor, Main) and isinstance(schema[factor.name], Categorical)


def _spans_one(factor: Factor, schema: Schema) -> bool:
    """Whether its columns may span a constant."""
    return _is_categorical(factor, schema) or (isinstance(factor, Spline) and factor.whole)


def _all_of(factor: Factor) -> Main | Spline:
    """It with all of its columns."""
    assert isinstance(factor, Main | Spline)
    return replace(factor, every_level=True)


def _names(factor: Factor) -> list[str]:
    """The declared columns a factor reads."""
    if isinstance(factor, Arithmetic):
        return factor.names
    assert isinstance(factor, Main | Spline)
    return [factor.name]


def refuse_terms_of(coding: Coding, names: Sequence[str], why: str) -> None:
    """Refuse a formula with a term that is a function of these columns alone."""
    for term in coding.terms:
        read = {name for factor in term for name in _names(factor)}
        if read and read <= {*names}:
            raise InvalidInput(
                f"a term of the formula reads {' and '.join(map(repr, sorted(read)))} alone: {why}"
            )


def _factor(text: str, schema: Schema) -> Factor:
    if text in schema.columns:
        return Main(text)
    tree = _parsed(text)
    if isinstance(tree, ast.Call) and _is_factor(tree):
        name = tree.args[0].id  # type: ignore[attr-defined]
        if not isinstance(schema[name], Categorical):
            raise InvalidInput(
                f"{text!r}: column {name!r} is declared {schema[name].kind}. Declare it "
                "Categorical([...]) with its public levels."
            )
        listed = _listed(tree, text)
        if listed is not None and tuple(listed) != schema[name].levels:  # type: ignore[attr-defined]
            raise InvalidInput(f"{text!r}: other levels are declared for {name!r}. Leave them out.")
        return Main(name)
    if _is_spline(tree):
        return _spline(tree, text, schema)
    factor = Arithmetic(text)
    factor.encode({name: [] for name in schema.columns}, schema)  # refuses before data are read
    return factor


def _parsed(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InvalidInput(f"term {text!r} could not be read. {ALLOWED}") from error
    from dpfast.hints import instead_of_term

    whole = isinstance(tree, ast.Call) and _is_factor(tree)
    if hint := "" if whole else instead_of_term(tree):
        raise InvalidInput(f"term {text!r}: write {hint}.")
    return tree


#: Arguments of each spline after its column, as patsy and formulaic have them.
_BOUNDS = ("knots", "lower_bound", "upper_bound", "extrapolation")
SPLINES = {"bs": (*_BOUNDS, "degree", "include_intercept"), "cr": _BOUNDS, "ns": _BOUNDS}


def _is_spline(tree: ast.expr | None) -> TypeGuard[ast.Call]:
    return (
        isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in SPLINES
    )


def _spline(tree: ast.Call, text: str, schema: Schema) -> Spline:
    """A spline, whose knots and ends are public: written down, or declared with the column."""
    what = tree.func.id  # type: ignore[attr-defined]
    natural = what != "bs"
    typed = (
        f"{what}(x, knots=[...]{'' if natural else ', degree=3'}, lower_bound=..., upper_bound=...)"
    )
    if not (len(tree.args) == 1 and isinstance(tree.args[0], ast.Name)):
        raise InvalidInput(f"{text!r}: a spline is of one column, all else by name: {typed}.")
    name, given = tree.args[0].id, dict[str, Any]()
    for keyword in tree.keywords:
        if keyword.arg == "df":
            raise InvalidInput(
                f"{text!r}: df puts knots at quantiles of the data, which nobody paid for. Write "
                f"them down, from what is publicly known: {typed}."
            )
        if keyword.arg not in SPLINES[what]:
            raise InvalidInput(
                f"{text!r}: {what} has no argument {keyword.arg!r}; it has "
                f"{', '.join(SPLINES[what])}."
            )
        try:
            given[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"{text!r}: write the numbers themselves, {keyword.arg}=..., not names for them."
            ) from error
    declared, degree = schema[name], given.get("degree", 3)
    if declared.kind not in ("numeric", "released"):
        raise InvalidInput(f"{text!r}: column {name!r} is {declared.kind}, and no number.")
    if given.get("extrapolation", "clip") != "clip":
        raise InvalidInput(
            f"{text!r}: values beyond the ends are taken for the ends, extrapolation='clip'."
        )
    ends = [
        given.get(end, getattr(declared, at) if isinstance(declared, Numeric) else None)
        for end, at in (("lower_bound", "low"), ("upper_bound", "high"))
    ]
    if None in ends:
        raise InvalidInput(
            f"{text!r}: where the column ends is a private fact of the data. Write what is "
            f"publicly known: {typed}."
        )
    inner = given.get("knots", ())
    inner = list(inner) if isinstance(inner, list | tuple) else [inner]
    knots = [ends[0], *inner, ends[1]]
    if (
        not all(type(knot) in (int, float) and abs(knot) < LARGEST_KNOT for knot in knots)
        or not all(float(a) < float(b) for a, b in pairwise(knots))
        or len(inner) > MOST_KNOTS
        or (natural and not inner)
    ):
        raise InvalidInput(
            f"{text!r}: knots are {int(natural)} to {MOST_KNOTS} numbers that increase between "
            f"the ends, {described(ends[0])} and {described(ends[1])} here: {typed}."
        )
    if type(degree) is not int or not 0 <= degree <= 5:
        raise InvalidInput(f"{text!r}: the degree of a spline is from 0 to 5.")
    whole = what == "cr" or given.get("include_intercept", False) is True
    spline = Spline(what, name, tuple(map(float, knots)), degree, whole)
    try:
        told_apart = bool(np.isfinite(spline.encode({name: []}, schema)[2]).all())
    except (ValueError, np.linalg.LinAlgError):
        told_apart = False
    if not told_apart:
        raise InvalidInput(f"{text!r}: these knots lie too close together to be told apart.")
    return spline


@dataclass(frozen=True)
class Spline:
    """Pieces of polynomials of a column in its own units, between public knots."""

    what: str
    name: str
    knots: tuple[float, ...]
    degree: int
    whole: bool
    every_level: bool = False
    own_units: ClassVar[bool] = True

    def _basis(self) -> Any:
        from scipy.interpolate import BSpline, make_interp_spline

        knots = np.array(self.knots)
        if self.what != "bs":
            return make_interp_spline(knots, np.eye(len(knots)), 3, bc_type="natural")
        knots = np.pad(knots, self.degree, "edge")
        return BSpline(knots, np.eye(len(knots) - self.degree - 1), self.degree)

    def derivatives(self, table: Any) -> Array:
        """Of its columns, by the number in the column; beyond the ends nothing moves."""
        x, low, high = numbers(column(table, self.name), self.name), self.knots[0], self.knots[-1]
        with np.errstate(all="ignore"):
            held = np.where(np.isfinite(x), np.clip(x, low, high), np.nan)
            found = self._basis().derivative()(held) * ((low <= x) & (x <= high))[:, None]
        return np.asarray(found[:, int(not self.every_level) :])

    def encode(self, table: Any, columns: Mapping[str, Column] | Schema) -> Encoded:
        x, ends = numbers(column(table, self.name), self.name), (self.knots[0], self.knots[-1])
        with np.errstate(all="ignore"):
            basis = self._basis()
            held = np.where(np.isfinite(x), np.clip(x, *ends), np.nan)
            # B-splines are nonnegative and sum to one: their coefficients bound what they sum to
            low, high = basis.c.min(axis=0), basis.c.max(axis=0)
            values = np.clip(basis(held), low, high)
        first = int(not self.every_level)
        names = [f"{self.what}({self.name})[{j}]" for j in range(first, len(low))]
        return values[:, first:], names, np.column_stack([low, high])[first:]


@dataclass(frozen=True)
class Arithmetic:
    """An expression of declared numbers, evaluated record by record."""

    text: str

    @property
    def names(self) -> list[str]:
        """The names in it, without those of functions."""
        tree = self._tree()
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        called |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        return list(dict.fromkeys(node.id for node in found if id(node) not in called))

    @property
    def power(self) -> list[str] | None:
        """The column as often as it is multiplied, of a whole power of one."""
        tree = self._tree()
        if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Pow):
            return None
        base, times = tree.left, tree.right
        if not isinstance(base, ast.Name) or not isinstance(times, ast.Constant):
            return None
        often = times.value
        return [base.id] * often if isinstance(often, int) and 1 < often < 9 else None

    def _tree(self) -> ast.expr:
        tree = ast.parse(self.text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "I":
            return tree.args[0] if len(tree.args) == 1 and not tree.keywords else tree
        return tree

    def encode(self, table: Any, columns: Mapping[str, Column] | Schema) -> Encoded:
        with np.errstate(all="ignore"):
            value, low, high = _Evaluation(self.text, table, columns).of(self._tree())
        if not isinstance(value, np.ndarray):
            raise InvalidInput(f"term {self.text!r} names no column. {ALLOWED}")
        # functions of arrays may round otherwise than those of single numbers
        value = np.where(np.isfinite(value), np.clip(value, low, high), np.nan)
        return value[:, None], [self.text], np.array([[low, high]])


ALLOWED = (
    "A term is a declared column, C(column), a spline with public knots, bs(column, knots=[...]), "
    "cr or ns, or arithmetic (+ - * / **) of declared numeric columns, constants, log, exp, sqrt "
    "and abs."
)

#: Function, and its bounds over an interval.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}


class _Evaluation:
    """Evaluates an expression on the records and, by interval arithmetic, on the public ranges."""

    free = False

    def __init__(self, text: str, table: Any, columns: Mapping[str, Column] | Schema) -> None:
        self.text, self.table, self.columns = text, table, columns

    def of(self, node: ast.AST) -> tuple[Any, float, float]:
        """Value on the records (or a constant), and its least and largest possible value."""
        value, low, high = self._of(node)
        if self.free:
            return (
                (value, -math.inf, math.inf)
                if isinstance(value, np.ndarray)
                else (value, low, high)
            )
        if not np.isfinite([low, high]).all():
            raise InvalidInput(
                f"term {self.text!r} has no finite bound over the declared ranges. Change the "
                "range, the centre or the function."
            )
        return value, low, high

    def _of(self, node: ast.AST) -> tuple[Any, float, float]:
        number = node.value if isinstance(node, ast.Constant) else None
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            constant = float(number)
            return constant, constant, constant
        if isinstance(node, ast.Name):
            declared = self.columns[node.id]
            if isinstance(declared, Categorical):
                raise InvalidInput(
                    f"{self.text!r}: column {node.id!r} is categorical and has no arithmetic."
                )
            self.free |= isinstance(declared, Released)
            encoded, _, bounds = declared.encode(column(self.table, node.id), node.id)
            return encoded[:, 0], float(bounds[0, 0]), float(bounds[0, 1])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value, low, high = self.of(node.operand)
            return (-value, -high, -low) if isinstance(node.op, ast.USub) else (value, low, high)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            return self._call(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        raise InvalidInput(f"term {self.text!r} is not allowed. {ALLOWED}")

    def _call(self, node: ast.Call) -> tuple[Any, float, float]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            name = node.func.attr if node.func.value.id in ("np", "numpy") else ""
        if name not in FUNCTIONS:
            raise InvalidInput(f"term {self.text!r} calls a function. {ALLOWED}")
        function = FUNCTIONS[name]
        value, low, high = self.of(node.args[0])
        ends = [float(function(low)), float(function(high))]
        least = 0.0 if name == "abs" and low < 0.0 < high else min(ends)
        return function(value), least, max(ends)

    def _binary(self, node: ast.BinOp) -> tuple[Any, float, float]:
        left, low, high = self.of(node.left)
        right, right_low, right_high = self.of(node.right)
        if isinstance(node.op, ast.Add):
            return left + right, low + right_low, high + right_high
        if isinstance(node.op, ast.Sub):
            return left - right, low - right_high, high - right_low
        if isinstance(node.op, ast.Mult):
            ends = [a * b for a in (low, high) for b in (right_low, right_high)]
            return left * right, min(ends), max(ends)
        if isinstance(node.op, ast.Div) and (self.free or not right_low <= 0.0 <= right_high):
            ends = [a / b for a in (low, high) for b in (right_low, right_high)]
            return left / right, min(ends), max(ends)
        if isinstance(node.op, ast.Pow) and right_low == right_high and right_low in range(1, 9):
            power = int(right_low)
            ends = [_power(low, power), _power(high, power)]
            least = 0.0 if power % 2 == 0 and low < 0.0 < high else min(ends)
            return _power(left, power), least, max(ends)
        raise InvalidInput(
            f"term {self.text!r}: powers are whole numbers from 1 to 8, and a divisor's declared "
            f"range must not contain zero. {ALLOWED}"
        )


def _power(base: Any, power: int) -> Any:
    """Also where Python raises because the result is too large, as NumPy does not."""
    try:
        return base**power
    except OverflowError:
        return -math.inf if base < 0.0 and power % 2 else math.inf
