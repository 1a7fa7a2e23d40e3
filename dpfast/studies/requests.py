"""Requests of a study: small JSON documents, read strictly."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from dpfast.arguments import number_in, one_of, positive
from dpfast.data.formula import terms_of
from dpfast.data.instruments import equations_of
from dpfast.data.schema import Binary, Schema
from dpfast.documents import read_document
from dpfast.effects.hazards import checked_cuts
from dpfast.effects.treatment import ESTIMANDS
from dpfast.effects.treatment_inputs import METHODS
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import Account
from dpfast.hints import of_request
from dpfast.models import Loss
from dpfast.models.names import all_losses, kind_of, resolve_loss
from dpfast.privacy.budget import GDP, Budget, amount
from dpfast.privacy.decimals import ratio_to_float, root_to_float, written
from dpfast.tables.absorbed import parts_of
from dpfast.tables.grouping import grouping_of, refuse_within
from dpfast.tables.subgroups import LOSSES

#: Longest document in bytes, formula and name in characters, and list of names: more is refused
#: before it is parsed.
MAX_BYTES, MAX_FORMULA, MAX_NAME, MAX_NAMES = 1 << 16, 1000, 200, 100

#: Products outside functions in a formula, at most: each can double the number of its terms.
MAX_PRODUCTS = 8

#: Depth of parentheses, at most.
MAX_DEPTH = 20


class Reads(NamedTuple):
    """Columns of the table that an analysis reads."""

    declared: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    intercept: bool = False


class StudyRequest(NamedTuple):
    """A request that was read and checked in every part."""

    analysis: str
    arguments: dict[str, Any]
    spend: Budget | None
    reads: Reads

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with its defaults."""
        return {"analysis": self.analysis} | deepcopy(self.arguments)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the document, independent of the order of its fields."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def mark(self) -> str:
        """End of the ledger's label, so that a request is paid for once."""
        return f" for request {self.digest}"


# ---- fields --------------------------------------------------------------------------------------


def _text(value: Any, name: str, longest: int = MAX_NAME) -> str:
    if type(value) is not str or not 0 < len(value) <= longest or not value.isprintable():
        raise InvalidInput(
            f"{name} must be text of 1 to {longest} printable characters; received "
            f"{described(value)}."
        )
    return value


def _names(value: Any, name: str) -> list[str]:
    listed = [value] if type(value) is str else value
    if not isinstance(listed, list | tuple) or not 0 < len(listed) <= MAX_NAMES:
        raise InvalidInput(
            f"{name} must be the name of a column, or a list of 1 to {MAX_NAMES}; received "
            f"{described(value)}."
        )
    for i, entry in enumerate(listed):  # not shown: it may be a list of cells
        if type(entry) is not str or not 0 < len(entry) <= MAX_NAME or not entry.isprintable():
            raise InvalidInput(
                f"{name}[{i}] is not a name of at most {MAX_NAME} printable characters."
            )
    return list(listed)


def _formula(value: Any, name: str) -> str:
    """Check a formula before it is parsed: few products, shallow parentheses, in functions only."""
    text = _text(value, name, MAX_FORMULA)
    outside_calls, before = "", ""
    calls: list[bool] = []
    for sign in text:
        if sign == "(":
            calls.append(bool(calls) or before.isalnum() or before == "_")
        elif sign == ")" and calls:
            calls.pop()
        elif not calls:
            outside_calls += sign
        if len(calls) > MAX_DEPTH or not all(calls):
            raise InvalidInput(
                f"{name} of a request has parentheses in functions only, such as C(a), log(a) and "
                f"I(a * b), at most {MAX_DEPTH} deep. Write its terms one by one."
            )
        before = sign if sign.strip() else before
    signs = re.findall(r"\*\*|[\^*/:%]", outside_calls)
    if len(signs) > MAX_PRODUCTS or any(sign in ("**", "^", "%") for sign in signs):
        raise InvalidInput(
            f"{name} of a request has at most {MAX_PRODUCTS} products of columns, and no power of "
            "sums. Write its terms one by one."
        )
    return text


def _numbers(value: Any, name: str) -> list[float]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_NAMES:
        raise InvalidInput(f"{name} must be a list of numbers; received {described(value)}.")
    if not all(type(share) in (int, float) and 0.0 < share < 1.0 for share in value):
        raise InvalidInput(f"each of {name} must be a number between 0 and 1.")
    return list(map(float, value))


def _loss(value: Any, name: str) -> Any:
    """Read a loss by its name, or by name and settings, and check it by making it."""
    if isinstance(value, Loss) and type(value) is kind_of(value.name):
        settings_of = {key: getattr(value, key) for key in value.settings}
        value = {"name": value.name} | {k: v for k, v in settings_of.items() if v is not None}
    named = {"name": value} if type(value) is str else value
    if not isinstance(named, Mapping) or "name" not in named:
        raise InvalidInput(
            f"{name} must be the name of a loss, or a name with settings "
            f'{{"name": "quantile", "tau": 0.9}}; received {described(value)}.'
        )
    kind = kind_of(one_of(named["name"], tuple(all_losses()), name))
    assert kind is not None
    settings = {str(key): value for key, value in named.items() if key != "name"}
    for key in settings:
        if key not in kind.settings:
            raise InvalidInput(
                f"{name} {kind.name!r} has the settings {list(kind.settings)}; received "
                f"{described(key, text=True)}."
            )
    settings = {key: positive(number, f"{name}.{key}") for key, number in settings.items()}
    field = {"name": kind.name} | settings if settings else kind.name
    loss_of(field)
    return field


def loss_of(loss: Any) -> Loss:
    """Return the loss of a checked field."""
    if isinstance(loss, str):
        return resolve_loss(loss, unbounded=True)
    kind = kind_of(loss["name"])
    assert kind is not None
    return kind(**{key: value for key, value in loss.items() if key != "name"})


def _cuts(value: Any, name: str) -> list[float]:
    return [float(cut) for cut in checked_cuts(value)[1:]]


def _or_none(read: Callable[[Any, str], Any]) -> Field:
    """Make a field optional: it may be left out, or null."""
    return lambda value, name: None if value is None else read(value, name), None


Field = tuple[Callable[[Any, str], Any], Any]

#: Mark a field without a default, and one that is no part of the document where it is not given.
NEEDED: Any = object()
LEFT_OUT: Any = object()
FORMULA: Field = (_formula, NEEDED)
LEVEL: Field = (partial(number_in, interval="[0.5, 1)"), 0.95)
BY: Field = (_names, NEEDED)
LEAST: Field = (partial(positive, or_zero=True), 0.0)
OPTIONAL_BY: Field = (lambda value, name: _names(value, name) if value else None, None)
WEIGHTS: dict[str, Field] = {
    "weights": _or_none(_text),
    "largest_weight": _or_none(positive),
}

#: The same, of analyses whose documents had no such fields: without weights they are as before.
NEW_WEIGHTS: dict[str, Field] = {name: (read, LEFT_OUT) for name, (read, _) in WEIGHTS.items()}

#: Fields of each analysis: how each is read, and its default.
ANALYSES: dict[str, dict[str, Field]] = {
    "fit": {
        "formula": FORMULA,
        "loss": (_loss, "least-squares"),
        **NEW_WEIGHTS,
        "level": LEVEL,
    },
    "effect": {
        "treatment": (_text, NEEDED),
        "response": (_text, NEEDED),
        "covariates": (_names, NEEDED),
        "method": (lambda value, name: one_of(value, tuple(METHODS), name), "aipw"),
        "propensity": _or_none(partial(number_in, interval="(0, 1)")),
        "average": (lambda value, name: one_of(value, ESTIMANDS, name), "all"),
        **WEIGHTS,
        "level": LEVEL,
    },
    "two_stage": {"formula": FORMULA, **NEW_WEIGHTS, "level": LEVEL},
    "absorbed": {"formula": FORMULA, "level": LEVEL},
    "cox": {
        "formula": FORMULA,
        "event": (_text, NEEDED),
        "cuts": (_cuts, NEEDED),
        "unit": _or_none(positive),
        **NEW_WEIGHTS,
        "level": LEVEL,
    },
    "counts": {"by": BY, **WEIGHTS, "least": LEAST, "level": LEVEL},
    "means": {
        "columns": (_names, NEEDED),
        "by": OPTIONAL_BY,
        **WEIGHTS,
        "least": LEAST,
        "level": LEVEL,
    },
    "quantiles": {
        "column": (_text, NEEDED),
        "by": OPTIONAL_BY,
        "probabilities": (_numbers, (0.5,)),
        **WEIGHTS,
        "least": LEAST,
        "level": LEVEL,
    },
    "fits": {
        "formula": FORMULA,
        "by": (_text, NEEDED),
        "loss": (lambda value, name: one_of(value, LOSSES, name), "least-squares"),
        **NEW_WEIGHTS,
        "least": LEAST,
        "level": LEVEL,
    },
}

#: Prices that a request of any analysis may have.
PRICES: dict[str, Callable[[Any, str], Any]] = {
    "share": partial(number_in, interval="(0, 1]"),
    "mu": positive,
}


def read_request(
    document: Any, schema: Schema | None, total: Budget | None, *, width: bool = False
) -> StudyRequest:
    """Read a request: JSON text, or the mapping that such text stands for."""
    entries = dict(_parsed(document))
    analysis = one_of(entries.pop("analysis", None), tuple(ANALYSES), "analysis")
    fields = ANALYSES[analysis]
    known = {*fields, *PRICES, "name", *(["width"] if width else [])}
    for key in entries:
        if key not in known:
            raise InvalidInput(
                f"a request of {analysis!r} has the fields {sorted(known)}; received "
                f"{described(key, text=True)}{of_request(key)}."
            )
    arguments: dict[str, Any] = {}
    for name, (read, default) in fields.items():
        if name not in entries and default is NEEDED:
            raise InvalidInput(f"a request of {analysis!r} needs {name!r}.")
        value = read(entries[name], name) if name in entries else default
        if default is LEFT_OUT and value in (None, LEFT_OUT):
            continue
        arguments[name] = list(value) if isinstance(value, tuple) else value
    prices = [name for name in PRICES if name in entries]
    if len(prices) != 1:
        raise InvalidInput(
            'a request needs a price: either "share", of the total, or "mu"; received '
            f"{prices or 'neither'}."
        )
    arguments |= {name: PRICES[name](entries[name], name) for name in prices}
    if "width" in entries:
        arguments["width"] = positive(entries["width"], "width")
    if "name" in entries:
        arguments["name"] = _text(entries["name"], "name")
    spend = None
    if "share" in arguments and total is not None:
        spend = part_of(total, arguments["share"])
    elif "mu" in arguments:
        spend = GDP(arguments["mu"])
    if spend is not None:
        Account(spend)  # refuses amounts that no analysis can spend
    try:
        reads = _reads(analysis, arguments, schema)
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError):
        reads = None
    if reads is None:  # raised without the context, whose message is Python's
        raise InvalidInput("formula could not be read: a part of it is too large. Write less.")
    return StudyRequest(analysis, arguments, spend, reads)


def read_file(path: str) -> str | bytes:
    """Read a document from a file, up to the longest allowed."""
    if path.lstrip().startswith("{"):
        return path
    try:
        return read_document(path, MAX_BYTES)
    except OSError as error:
        raise InvalidInput(f"the request {path!r} cannot be read ({error.strerror}).") from error


def _parsed(document: Any) -> Mapping[str, Any]:
    """Parse a document: one JSON object, with no name twice and no infinity."""
    if isinstance(document, str | bytes):
        parsed = None
        if len(document) <= MAX_BYTES:
            # refused below: messages of these errors quote the document
            with suppress(ValueError, RecursionError):
                parsed = json.loads(
                    document, object_pairs_hook=_once_each, parse_constant=_no_number
                )
        document = parsed
    if not isinstance(document, Mapping) or not all(type(key) is str for key in document):
        raise InvalidInput(
            f"a request must be one JSON object of at most {MAX_BYTES} bytes, with no name twice, "
            'such as {"analysis": "counts", "by": "region", "share": 0.1}; '
            f"received {described(document)}."
        )
    return document


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a name stands twice")
    return entries


def _no_number(text: str) -> Any:
    raise ValueError(text)


def part_of(total: Budget, share: float) -> Budget:
    """Return a share of a total, both as written decimals, rounded down (claim C86)."""
    (total_value,), power = total.values(), 2 if isinstance(total, GDP) else 1
    exact = Fraction(*written(float(share))) * Fraction(*written(total_value)) ** power
    nearest = root_to_float if power == 2 else ratio_to_float
    return amount(type(total), nearest(exact.numerator, exact.denominator, up=False))


# ---- columns -------------------------------------------------------------------------------------


def _reads(analysis: str, arguments: Mapping[str, Any], schema: Schema | None) -> Reads:
    """Find the columns that a request reads; refuse a request without readable ones."""
    reads = _without_weights(analysis, arguments, schema)
    return reads._replace(
        plain=(*reads.plain, *_weights_of(arguments, (*reads.declared, *reads.plain)))
    )


def _without_weights(analysis: str, arguments: Mapping[str, Any], schema: Schema | None) -> Reads:
    """Find the columns that a request reads beside its weights."""
    if analysis == "two_stage":
        return _of_formula(equations_of(arguments["formula"]).formula, schema)
    if analysis == "absorbed":
        formula, by = parts_of(arguments["formula"])
        return _by(_of_formula(formula, schema, needs_intercept=True), by, schema)
    if analysis == "cox":
        event = arguments["event"]
        reads = _of_formula(arguments["formula"], schema, needs_intercept=True)
        if event in (*reads.declared, *reads.plain):
            raise InvalidInput("the columns of a request must differ.")
        return reads._replace(plain=(*reads.plain, event))
    if analysis == "effect":
        if (arguments["weights"] is None) != (arguments["largest_weight"] is None):
            raise InvalidInput('give "weights" and "largest_weight" together, or neither.')
        named = [*arguments["covariates"], arguments["response"], arguments["treatment"]]
        if len({*named}) < len(named):
            raise InvalidInput("covariates, response and treatment must be different columns.")
        known = {} if schema is None else schema.columns
        used, plain, treatment = list[str](), named[:-1], named[-1]
        if schema is not None and arguments["response"] in known:
            used, plain = [*schema.declared(plain, "covariates")], []
        (used if isinstance(known.get(treatment), Binary) else plain).append(treatment)
        return Reads(tuple(used), tuple(plain), tuple(arguments["covariates"]))
    if "formula" in arguments:
        reads = _of_formula(arguments["formula"], schema)
        return _by(reads, arguments["by"], schema) if analysis == "fits" else reads
    columns = arguments.get("columns", arguments.get("column", ()))
    grouping = grouping_of(schema, arguments["by"], columns, "columns")
    return Reads(declared=tuple(dict.fromkeys([*grouping.by, *grouping.columns])))


def _weights_of(arguments: Mapping[str, Any], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the column of weights, which nothing else may be."""
    weights = arguments.get("weights")
    if weights is None and arguments.get("largest_weight") is not None:
        raise InvalidInput('"largest_weight" is the bound on "weights": name their column, too.')
    if weights in others:
        raise InvalidInput("weights and all other columns of a request must be different columns.")
    return () if weights is None else (weights,)


def _by(reads: Reads, by: str, schema: Schema | None) -> Reads:
    """Add the column of levels that a regression is fitted by, or that it absorbs."""
    grouping = grouping_of(schema, by, ())
    refuse_within(grouping.by, [(*reads.declared, *reads.plain)])
    return reads._replace(declared=(*reads.declared, by))


def _of_formula(formula: str, schema: Schema | None, *, needs_intercept: bool = False) -> Reads:
    """Find the columns of a formula; those that are not declared are taken for numbers."""
    terms = terms_of(formula, schema)
    if needs_intercept and not terms.coding.fit_intercept:
        raise InvalidInput("the formula must have an intercept: leave '- 1' out.")
    names = [*terms.left.columns, *terms.coding.columns]
    known = {} if schema is None else schema.columns
    plain = [name for name in dict.fromkeys(names) if name not in known]
    for name in plain:
        if terms.columns[name].kind == "categorical":
            raise InvalidInput(
                f"{name!r}: declare its levels in the schema of the study, Categorical([...])."
            )
    nothing: dict[str, list[Any]] = {name: [] for name in terms.coding.columns}
    design = terms.coding.design(nothing)  # no rows: for its names only
    declared = [name for name in dict.fromkeys(names) if name in known]
    return Reads(tuple(declared), tuple(plain), tuple(design.names), terms.coding.fit_intercept)
