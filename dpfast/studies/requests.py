"""Requests: what may be asked of a study, as small JSON documents that are read strictly."""

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
from dpfast.data.formula import coding_from_formula, columns_of_formula, response_of
from dpfast.data.schema import Binary, Schema
from dpfast.documents import read_document
from dpfast.effects.hazards import checked_cuts
from dpfast.effects.instrumental import columns_of
from dpfast.effects.treatment import ESTIMANDS, METHODS
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import Account
from dpfast.models import Loss
from dpfast.models.names import all_losses, kind_of, resolve_loss
from dpfast.privacy.budget import GDP, Budget, amount
from dpfast.privacy.decimals import ratio_to_float, root_to_float, written
from dpfast.tables.absorbed import parts_of
from dpfast.tables.grouping import grouping_of, refuse_within
from dpfast.tables.subgroups import LOSSES

#: Bytes of a document, signs of a formula or a name, names in a list: more is refused unread.
LONGEST, LONGEST_FORMULA, LONGEST_NAME, MOST_NAMES = 1 << 16, 1000, 200, 100

#: Signs of products that a formula may have beside those within functions: each may double it.
MOST_PRODUCTS = 8

#: How deep parentheses may be.
DEEPEST = 20


class Reads(NamedTuple):
    """Columns of the table that an analysis reads, and no others."""

    declared: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    intercept: bool = False


class StudyRequest(NamedTuple):
    """One request, every part of which was read and found to be allowed."""

    analysis: str
    arguments: dict[str, Any]
    spend: Budget | None
    reads: Reads

    def to_dict(self) -> dict[str, Any]:
        """The document, with its defaults."""
        return {"analysis": self.analysis} | deepcopy(self.arguments)

    @property
    def digest(self) -> str:
        """Of the document: the same words in another order are the same request."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def mark(self) -> str:
        """What the ledger's entry ends with, so that nobody pays for it twice."""
        return f" for request {self.digest}"


# ---- fields --------------------------------------------------------------------------------------


def _text(value: Any, name: str, most: int = LONGEST_NAME) -> str:
    if type(value) is not str or not 0 < len(value) <= most or not value.isprintable():
        raise InvalidInput(
            f"{name} must be text of 1 to {most} signs that can be printed; received "
            f"{described(value)}."
        )
    return value


def _names(value: Any, name: str) -> list[str]:
    given = [value] if type(value) is str else value
    if not isinstance(given, list | tuple) or not 0 < len(given) <= MOST_NAMES:
        raise InvalidInput(
            f"{name} must be the name of a column, or a list of 1 to {MOST_NAMES}; received "
            f"{described(value)}."
        )
    for i, one in enumerate(given):  # not shown: a list of cells may stand in its place
        if type(one) is not str or not 0 < len(one) <= LONGEST_NAME or not one.isprintable():
            raise InvalidInput(f"{name}[{i}] is no name of at most {LONGEST_NAME} printed signs.")
    return list(given)


def _formula(value: Any, name: str) -> str:
    """A formula that is read in no time: its terms are few, whatever it says."""
    text = _text(value, name, LONGEST_FORMULA)
    outside, before = "", ""
    calls: list[bool] = []
    for sign in text:
        if sign == "(":
            calls.append(bool(calls) or before.isalnum() or before == "_")
        elif sign == ")" and calls:
            calls.pop()
        elif not calls:
            outside += sign
        if len(calls) > DEEPEST or not all(calls):
            raise InvalidInput(
                f"{name} of a request has parentheses in functions only, such as C(a), log(a) and "
                f"I(a * b), at most {DEEPEST} deep. Write its terms one by one."
            )
        before = sign if sign.strip() else before
    found = re.findall(r"\*\*|[\^*/:%]", outside)
    if len(found) > MOST_PRODUCTS or any(sign in ("**", "^", "%") for sign in found):
        raise InvalidInput(
            f"{name} of a request has at most {MOST_PRODUCTS} products of columns, and no power of "
            "sums. Write its terms one by one."
        )
    return text


def _numbers(value: Any, name: str) -> list[float]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_NAMES:
        raise InvalidInput(f"{name} must be a list of numbers; received {described(value)}.")
    if not all(type(one) in (int, float) and 0.0 < one < 1.0 for one in value):
        raise InvalidInput(f"each of {name} must be a number between 0 and 1.")
    return list(map(float, value))


def _loss(value: Any, name: str) -> Any:
    """A loss by its name, or by name and settings; checked by making it."""
    if isinstance(value, Loss) and type(value) is kind_of(value.name):
        given = {key: getattr(value, key) for key in value.settings}
        value = {"name": value.name} | {k: v for k, v in given.items() if v is not None}
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
    settings = {key: positive(one, f"{name}.{key}") for key, one in settings.items()}
    found = {"name": kind.name} | settings if settings else kind.name
    loss_of(found)
    return found


def loss_of(loss: Any) -> Loss:
    """The loss that a checked field stands for."""
    if isinstance(loss, str):
        return resolve_loss(loss, unbounded=True)
    kind = kind_of(loss["name"])
    assert kind is not None
    return kind(**{key: value for key, value in loss.items() if key != "name"})


def _cuts(value: Any, name: str) -> list[float]:
    return [float(one) for one in checked_cuts(value)[1:]]


def _or_none(read: Callable[[Any, str], Any]) -> Field:
    """A field that may be left out, or null."""
    return lambda value, name: None if value is None else read(value, name), None


Field = tuple[Callable[[Any, str], Any], Any]

#: Of a field that has no default.
NEEDED: Any = object()
FORMULA: Field = (_formula, NEEDED)
LEVEL: Field = (partial(number_in, interval="[0.5, 1)"), 0.95)
BY: Field = (_names, NEEDED)
LEAST: Field = (partial(positive, or_zero=True), 0.0)
OPTIONAL_BY: Field = _or_none(_names)

#: Of each analysis its fields.
ANALYSES: dict[str, dict[str, Field]] = {
    "fit": {"formula": FORMULA, "loss": (_loss, "log-cosh"), "level": LEVEL},
    "effect": {
        "treatment": (_text, NEEDED),
        "response": (_text, NEEDED),
        "covariates": (_names, NEEDED),
        "method": (lambda value, name: one_of(value, tuple(METHODS), name), "aipw"),
        "propensity": _or_none(partial(number_in, interval="(0, 1)")),
        "average": (lambda value, name: one_of(value, ESTIMANDS, name), "all"),
        "weights": _or_none(_text),
        "largest_weight": _or_none(positive),
        "level": LEVEL,
    },
    "two_stage": {"formula": FORMULA, "level": LEVEL},
    "absorbed": {"formula": FORMULA, "level": LEVEL},
    "cox": {
        "formula": FORMULA,
        "event": (_text, NEEDED),
        "cuts": (_cuts, NEEDED),
        "unit": _or_none(positive),
        "level": LEVEL,
    },
    "counts": {"by": BY, "least": LEAST, "level": LEVEL},
    "means": {"columns": (_names, NEEDED), "by": OPTIONAL_BY, "least": LEAST, "level": LEVEL},
    "quantiles": {
        "column": (_text, NEEDED),
        "by": OPTIONAL_BY,
        "probabilities": (_numbers, (0.5,)),
        "least": LEAST,
        "level": LEVEL,
    },
    "fits": {
        "formula": FORMULA,
        "by": (_text, NEEDED),
        "loss": (lambda value, name: one_of(value, LOSSES, name), "least-squares"),
        "least": LEAST,
        "level": LEVEL,
    },
}

#: What any of them may say besides: what it costs, and a name that makes it another request.
PRICES: dict[str, Callable[[Any, str], Any]] = {
    "share": partial(number_in, interval="(0, 1]"),
    "mu": positive,
}


def read_request(
    document: Any, schema: Schema | None, total: Budget | None, *, width: bool = False
) -> StudyRequest:
    """Read a request: text of JSON, or what such text stands for."""
    asked = dict(_parsed(document))
    analysis = one_of(asked.pop("analysis", None), tuple(ANALYSES), "analysis")
    fields = ANALYSES[analysis]
    known = {*fields, *PRICES, "name", *(["width"] if width else [])}
    for key in asked:
        if key not in known:
            raise InvalidInput(
                f"a request of {analysis!r} has the fields {sorted(known)}; received "
                f"{described(key, text=True)}."
            )
    found: dict[str, Any] = {}
    for name, (read, default) in fields.items():
        if name not in asked and default is NEEDED:
            raise InvalidInput(f"a request of {analysis!r} needs {name!r}.")
        value = read(asked[name], name) if name in asked else default
        found[name] = list(value) if isinstance(value, tuple) else value
    prices = [name for name in PRICES if name in asked]
    if len(prices) > 1 or not (prices or (width and "width" in asked)):
        raise InvalidInput(
            'a request says what it may cost: either "share", of the total, or "mu"; received '
            f"{prices or 'neither'}."
        )
    found |= {name: PRICES[name](asked[name], name) for name in prices}
    if "width" in asked:
        found["width"] = positive(asked["width"], "width")
    if "name" in asked:
        found["name"] = _text(asked["name"], "name")
    spend = None
    if "share" in found and total is not None:
        spend = part_of(total, found["share"])
    elif "mu" in found:
        spend = GDP(found["mu"])
    if spend is not None:
        Account(spend)  # refuses what no analysis can spend
    try:
        reads = _reads(analysis, found, schema)
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError):
        reads = None
    if reads is None:  # raised without its context, which is Python's own
        raise InvalidInput("formula could not be read: a part of it is too large. Write less.")
    return StudyRequest(analysis, found, spend, reads)


def read_file(path: str) -> str | bytes:
    """A document from a file, as far as one can be long."""
    if path.lstrip().startswith("{"):
        return path
    try:
        return read_document(path, LONGEST)
    except OSError as error:
        raise InvalidInput(f"the request {path!r} cannot be read ({error.strerror}).") from error


def _parsed(document: Any) -> Mapping[str, Any]:
    """What a document stands for: one object of JSON, with no name twice and no infinity."""
    if isinstance(document, str | bytes):
        told = None
        if len(document) <= LONGEST:
            with suppress(ValueError, RecursionError):  # refused below; they quote the document
                told = json.loads(document, object_pairs_hook=_once_each, parse_constant=_no_number)
        document = told
    if not isinstance(document, Mapping) or not all(type(key) is str for key in document):
        raise InvalidInput(
            f"a request must be an object of JSON of at most {LONGEST} bytes, each of whose names "
            f'stands there once, such as {{"analysis": "counts", "by": "region", "share": 0.1}}; '
            f"received {described(document)}."
        )
    return document


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def part_of(total: Budget, share: float) -> Budget:
    """The largest amount that is no more than a share of a total, both as written (claim C86)."""
    (whole,), power = total.values(), 2 if isinstance(total, GDP) else 1
    most = Fraction(*written(float(share))) * Fraction(*written(whole)) ** power
    nearest = root_to_float if power == 2 else ratio_to_float
    return amount(type(total), nearest(most.numerator, most.denominator, up=False))


# ---- columns -------------------------------------------------------------------------------------


def _reads(analysis: str, asked: Mapping[str, Any], schema: Schema | None) -> Reads:
    """The columns that a request reads; whatever names none that may be read is refused."""
    if analysis == "two_stage":
        return Reads(plain=tuple(dict.fromkeys(columns_of(asked["formula"]))))
    if analysis in ("absorbed", "cox"):
        formula, by = asked["formula"], None
        if analysis == "absorbed":
            formula, by = parts_of(formula)
            grouping_of(schema, by, ())
        response, names, intercept = columns_of_formula(formula)
        if not intercept:
            raise InvalidInput("a formula of these has an intercept: leave '- 1' out.")
        plain = [response, *names, *([] if by else [asked["event"]])]
        if len({*plain, by}) <= len(plain):
            raise InvalidInput("the columns of a request must be different ones.")
        return Reads((by,) if by else (), tuple(plain), tuple(names))
    if analysis == "effect":
        weights = () if asked["weights"] is None else (asked["weights"],)
        if bool(weights) != (asked["largest_weight"] is not None):
            raise InvalidInput('give "weights" and "largest_weight" together, or neither.')
        listed = [*asked["covariates"], asked["response"], asked["treatment"]]
        if len({*listed, *weights}) < len(listed) + len(weights):
            raise InvalidInput(
                "covariates, response, treatment and weights must be different columns."
            )
        known = {} if schema is None else schema.columns
        used, plain, treatment = list[str](), listed[:-1], listed[-1]
        if schema is not None and asked["response"] in known:
            used, plain = [*schema.declared(plain, "covariates")], []
        (used if isinstance(known.get(treatment), Binary) else plain).append(treatment)
        return Reads(tuple(used), (*plain, *weights), tuple(asked["covariates"]))
    if "formula" in asked:
        found = _of_formula(asked["formula"], schema)
        if analysis == "fits":
            grouping = grouping_of(schema, asked["by"], ())
            refuse_within(grouping.by, [(*found.declared, *found.plain)])
            declared = dict.fromkeys([*found.declared, asked["by"]])
            found = found._replace(declared=tuple(declared))
        return found
    columns = asked.get("columns", asked.get("column", ()))
    grouping = grouping_of(schema, asked["by"], columns, "columns")
    return Reads(declared=tuple(dict.fromkeys([*grouping.by, *grouping.columns])))


def _of_formula(formula: str, schema: Schema | None) -> Reads:
    """As for fits by level: where the response is not declared, nothing of the formula is."""
    if schema is None or response_of(formula) not in schema.columns:
        response, names, intercept = columns_of_formula(formula)
        return Reads((), tuple(dict.fromkeys([response, *names])), tuple(names), intercept)
    coding = coding_from_formula(formula, schema)
    nothing: dict[str, list[Any]] = {name: [] for name in coding.columns}
    design = coding.design(nothing)  # of no rows: names only
    return Reads(tuple(coding.columns), (), tuple(design.names), coding.fit_intercept)
