"""Formulas over a schema: ``"log_wage ~ education + I(experience**2) + C(state)"``."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from dpfast.arguments import Array
from dpfast.data.arithmetic import ALLOWED, Arithmetic
from dpfast.data.coding import Coding, Column, Factor, Main
from dpfast.data.columns import (
    column_names,
    column_reader,
    declaring_levels,
    public_levels,
    type_of,
)
from dpfast.data.scaling.units import Released
from dpfast.data.schema import Categorical, Numeric, Schema
from dpfast.data.splines import Spline, is_spline, parse_spline
from dpfast.errors import InvalidInput, described

#: Most cells of a product of levels, each one column of the design: no table has records for more.
MAX_CELLS = 10_000


IN_TERMS = "the response is one of the terms, too, or a part of one. Leave it out on the right."


class Terms(NamedTuple):
    """Codings of both sides of a formula in the columns' own units.

    ``scales`` has the declared centre and unit of each column with a public range.
    """

    coding: Coding
    left: Coding
    scales: Mapping[str, tuple[float, float]]

    @property
    def columns(self) -> dict[str, Column]:
        """All columns that the formula reads, and their declarations."""
        return {**self.coding.columns, **self.left.columns}

    def records(self, table: Any) -> tuple[Array, Array]:
        """Return covariates and responses of a table, record by record."""
        return self.coding.design(table).X, self.left.design(table).X[:, 0]


def terms_of(formula: str, schema: Schema | None = None, table: Any = None) -> Terms:
    """Read a formula with a response; terms act on the columns as they are.

    Parameters
    ----------
    formula : str
    schema : Schema, optional
        Columns that it declares are clipped to their ranges, or have its levels.
    table : data frame, Arrow table or mapping, optional
        Only the types of the columns without a declaration are read.  Without a table such a
        column is taken for numbers.
    """
    if schema is not None and not isinstance(schema, Schema):
        raise InvalidInput(
            "schema must be a dpfast.Schema, which declares columns of the formula; received "
            f"{described(schema)}."
        )
    responses, term_texts, intercept = sides(formula)
    if responses is None or len(responses) != 1:
        raise InvalidInput(
            f"formula {formula!r} must have one response on its left side: 'response ~ terms'."
        )
    texts = list(dict.fromkeys([*responses, *(text for factors in term_texts for text in factors)]))
    known = {} if schema is None else schema.columns
    own = _own_units(texts, known, table, _quoted(formula))
    products = _products(term_texts, own)
    response_factor = _factor(responses[0], own)
    if _is_categorical(response_factor, own):
        raise InvalidInput(
            f"the response {responses[0]!r} has levels. Declare it "
            "Binary(positive=..., negative=...) in a schema, or pass a column of 0 and 1."
        )
    used = {name: None for product in products for factor in product for name in _names(factor)}
    terms = _of_full_rank(products, intercept, own, response_factor)
    left = own.coding(((response_factor,),), _names(response_factor), None, False)
    scales = {
        name: (declared.location, declared.spread)
        for name, declared in known.items()
        if name in own.columns and isinstance(declared, Numeric)
    }
    return Terms(own.coding(terms, list(used), None, intercept), left, scales)


def coded_terms(formula: str, coding: Coding) -> tuple[tuple[Factor, ...], ...]:
    """Code the terms of a formula whose columns a coding declares."""
    _, term_texts, intercept = sides(formula)
    schema = Schema(dict(coding.columns))
    return _of_full_rank(_products(term_texts, schema), intercept, schema)


def _products(term_texts: Sequence[Sequence[str]], schema: Schema) -> list[list[Factor]]:
    """Read each term as its distinct factors."""
    return [
        list(dict.fromkeys(_factor(text, schema) for text in factors)) for factors in term_texts
    ]


def _own_units(
    texts: Sequence[str], known: Mapping[str, Column], table: Any, quoted: Sequence[str]
) -> Schema:
    """Declare the columns that terms read: numbers in their own units, or public levels."""
    columns: dict[str, Column] = {}
    levels: dict[str, Any] = {}
    present = [*known, *(quoted if table is None else column_names(table))]
    read = None if table is None else column_reader(table)
    for text in texts:
        names, listed = _read_by(text, present)
        levels |= listed
        for name in names:
            if isinstance(declared := known.get(name), Numeric):
                columns[name] = replace(declared, centre=0.0, unit=1.0)
            elif declared is not None:
                columns[name] = declared
            else:
                columns[name] = _undeclared(name, text, levels, read)
    return Schema(columns)


def _undeclared(
    name: str, text: str, levels: Mapping[str, Any], read: Callable[[str], Any] | None
) -> Column:
    """Declare a column by the levels that a formula or the column's type lists, or as numbers."""
    values = None if read is None else read(name)
    declared_levels = levels.get(name) or (None if read is None else public_levels(values))
    if declared_levels is not None:
        return Categorical(tuple(declared_levels))
    if name not in levels:
        return Released(0.0, 1.0)
    kind = "" if read is None else f" (type {type_of(values)})"
    raise InvalidInput(
        f"{text!r}: which levels column {name!r}{kind} has is a private fact of the data, also "
        f"where a library lists them. Declare them: {declaring_levels(name)} (at the command line "
        "--schema)."
    )


def _read_by(text: str, present: Sequence[str] = ()) -> tuple[list[str], dict[str, Any]]:
    """Return the columns that a term reads, and the levels that it lists for some of them."""
    if text in present:
        return [text], {}
    tree = _parsed(text)
    levels: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_factor(node):
            levels[node.args[0].id] = _listed(node, text)  # type: ignore[attr-defined]
    names = Arithmetic(text).names
    return names[:1] if is_spline(tree) else names, levels


def _is_factor(node: ast.Call) -> bool:
    """Test for ``C(name)`` or ``C(name, levels=[...])``."""
    return (
        isinstance(node.func, ast.Name)
        and node.func.id == "C"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and [keyword.arg for keyword in node.keywords] in ([], ["levels"])
    )


def _listed(node: ast.Call, text: str) -> Any:
    """Return the levels that a formula lists; None if it lists none."""
    try:
        level_lists = [ast.literal_eval(keyword.value) for keyword in node.keywords]
    except ValueError as error:
        raise InvalidInput(
            f"{text!r}: write the levels themselves, levels=['a', 'b', ...]."
        ) from error
    if level_lists and not isinstance(level_lists[0], list | tuple):
        raise InvalidInput(f"{text!r}: levels are a list: levels=['a', 'b', ...].")
    return level_lists[0] if level_lists else None


def _quoted(formula: str) -> list[str]:
    """Return the names between backticks."""
    return re.findall("`([^`]+)`", formula)


def parts_at(mark: str, formula: str) -> list[str]:
    """Split a formula at a mark, except between backticks."""
    return re.split(rf"{re.escape(mark)}(?=(?:[^`]*`[^`]*`)*[^`]*$)", formula)


def sides(formula: str) -> tuple[list[str] | None, list[list[str]], bool]:
    """Parse a formula: factors of the response, factors of each term, and the intercept."""
    try:
        import formulaic  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "formulas need the formulaic package: pip install 'dpfast[tables]'."
        ) from error
    _refuse_other_notation(formula)
    try:
        parsed = _formula(formula)
    except Exception as error:  # formulaic raises many kinds, and draws the place on further lines
        problem = str(error).partition("\n")[0]
        raise InvalidInput(
            f"formula {formula!r} could not be read: {problem} Write 'response ~ x1 + x2'."
        ) from None
    left = getattr(parsed, "lhs", None)
    right = getattr(parsed, "rhs", parsed)
    sides = [right] if left is None else [left, right]
    if not all(hasattr(term, "factors") for side in sides for term in side):
        raise InvalidInput(f"formula {formula!r} has several parts; write it without '|'.")
    terms = [[str(factor.expr) for factor in term.factors] for term in right]
    covariates = [factors for factors in terms if factors != ["1"]]
    intercept = len(covariates) < len(terms)
    if not covariates:
        raise InvalidInput(f"formula {formula!r} has no covariate.")
    if left is None:
        return None, covariates, intercept
    responses = [str(factor.expr) for term in left for factor in term.factors]
    return responses, covariates, intercept


@lru_cache(maxsize=64)
def _formula(text: str) -> Any:
    """Parse a formula; those of the last calls are remembered."""
    from formulaic import Formula

    return Formula(text)


def _refuse_other_notation(formula: str) -> None:
    """Refuse the notation of other libraries, and what formulaic would read otherwise."""
    if type(formula) is not str:  # a NumPy string is an entry of an array
        raise InvalidInput(
            "formula must be a string, and comes first: fit('response ~ terms', table, ...); "
            f"received {described(formula)}."
        )
    from dpfast.hints import power_of_a_name, without_parts

    bare = without_parts(formula)
    if re.search(r"(^|[~+])\s*\.\s*($|[-+])", formula):
        raise InvalidInput(
            f"formula {formula!r}: '.' stands for all columns that the table has. Write the "
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


def _of_full_rank(
    products: list[list[Factor]], intercept: bool, schema: Schema, response: Factor | None = None
) -> tuple[tuple[Factor, ...], ...]:
    """Code the products as terms of full rank that span the same columns.

    The terms' columns are independent if every cell of the levels holds records.
    """
    if response is not None:
        response_columns = {*_names(response)}
        used = {name for product in products for factor in product for name in _names(factor)}
        # a response of several columns may share one, as in 'after - before ~ before'
        if [response] in products or (len(response_columns) == 1 and response_columns & used):
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
        if cells > MAX_CELLS:
            raise InvalidInput(
                f"a product of levels has {cells:,} cells, of at most {MAX_CELLS:,}. Leave a "
                "factor out, or use fewer levels."
            )
        numeric = frozenset(product) - frozenset(labels)
        subsets = [
            frozenset(subset) for k in range(len(labels) + 1) for subset in combinations(labels, k)
        ]
        parts = [subset for subset in subsets if (numeric, subset) not in spanned]
        spanned.update((numeric, subset) for subset in parts)
        terms += [
            tuple(
                coding.get(factor, factor) for factor in product if factor in numeric | set(coding)
            )
            for coding in _merged(parts)
        ]
    return tuple(terms)


def _merged(parts: Sequence[frozenset[Factor]]) -> list[dict[Factor, Factor]]:
    """Code each categorical factor so that the fewest terms span these parts."""
    codings = [{factor: factor for factor in part} for part in parts]  # short ones first
    merged = True
    while merged:
        merged = False
        for i, j in combinations(range(len(codings)), 2):
            short = codings[i]
            long = codings[j]
            added = [factor for factor in long if factor not in short]
            if len(added) == 1 and short.items() <= long.items():
                codings[j] = long | {added[0]: _all_of(added[0])}
                del codings[i]
                merged = True
                break
    return codings


def _is_categorical(factor: Factor, schema: Schema) -> bool:
    return isinstance(factor, Main) and isinstance(schema[factor.name], Categorical)


def _spans_one(factor: Factor, schema: Schema) -> bool:
    """Test for a factor whose columns may span a constant."""
    return _is_categorical(factor, schema) or (isinstance(factor, Spline) and factor.whole)


def _all_of(factor: Factor) -> Main | Spline:
    """Return a factor with an indicator for every level."""
    assert isinstance(factor, Main | Spline)
    return replace(factor, every_level=True)


def _names(factor: Factor) -> list[str]:
    """Return the declared columns that a factor reads."""
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
    if is_spline(tree):
        return parse_spline(tree, text, schema)
    factor = Arithmetic(text)
    factor.encode({name: [] for name in schema.columns}, schema)  # refuses before data are read
    return factor


def _parsed(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InvalidInput(f"term {text!r} could not be read. {ALLOWED}") from error
    from dpfast.hints import instead_of_term

    is_factor = isinstance(tree, ast.Call) and _is_factor(tree)
    if hint := "" if is_factor else instead_of_term(tree):
        raise InvalidInput(f"term {text!r}: write {hint}.")
    return tree
