"""Commands that spend: everything that can be refused comes first; then nothing is lost."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dpfast
from dpfast.cli.interrupts import INTERRUPTS
from dpfast.cli.output import PaidResult, save_unfinished, tell
from dpfast.cli.progress import ProgressBar
from dpfast.cli.values import budget_of, loss_of
from dpfast.data.columns import column_names, number_columns
from dpfast.data.files import read_labels, read_numbers, read_table
from dpfast.data.formula import columns_read
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.fit_requests.plain import plain
from dpfast.fit_requests.request import hide_row_details
from dpfast.inference.composition import plain_spend
from dpfast.inference.degrees import UNCOUNTED, coverage


def fit(arguments: argparse.Namespace) -> int:
    coverage(arguments.level)
    privacy = budget_of(arguments)
    weights = None if arguments.radius is None else dpfast.Mallows(arguments.radius)
    objective = dpfast.Objective(
        loss_of(arguments), weights, scale=arguments.scale, ridge=arguments.ridge
    )
    schema = _schema(arguments)
    options = {
        "method": arguments.method,
        "progress": ProgressBar("private fit"),
        "inference": not arguments.no_inference,
        "noise": _noise(arguments),
        "ledger": None if arguments.ledger is None else _ledger(arguments),
    }
    if arguments.steps is not None:
        options["method"] = _stepwise(arguments.method, arguments.steps)
    if (arguments.formula is None) == (arguments.response is None):
        raise InvalidInput("give either --formula or --response (with --covariates).")
    table: Any
    if schema is None:
        table, covariates = _undeclared(arguments)
        beside = _beside(arguments, table)
    else:
        table = read_table(arguments.data, schema, **_how(arguments))
        beside = _beside(arguments, {})

    def report(result: Any) -> dict[str, Any]:
        told = None if schema is None else schema.to_toml()
        found = result.to_dict() | {"source": {"formula": arguments.formula, "schema": told}}
        if not arguments.no_inference:
            found["level"] = arguments.level
            with suppress(InferenceUnavailable):  # of too few records: what was paid for arrives
                found["conf_int"] = result.conf_int(arguments.level)
        return dict(found)

    def run() -> Any:
        if arguments.formula is not None:
            records = dpfast.records(table, **beside)
            return dpfast.fit_formula(
                arguments.formula, records, objective, schema=schema, privacy=privacy, **options
            )
        with hide_row_details(arguments.each):
            if schema is None:
                found = number_columns(table, [*covariates, arguments.response])
                records = dpfast.records(found[:, :-1], found[:, -1], names=covariates, **beside)
            else:
                records = dpfast.records(_design(arguments, schema, table), **beside)
        if schema is None and arguments.scale is None:
            options["standardize"] = True
        return dpfast.fit(records, None, objective, privacy=privacy, **options)

    return _deliver(arguments, run, report, lambda result: str(result.summary(arguments.level)))


def run(arguments: argparse.Namespace) -> int:
    from dpfast.studies.requests import read_file

    document = read_file(arguments.request)
    if arguments.data is None and not arguments.quote:
        raise InvalidInput("give --data, or --quote to see what the request costs.")
    study = dpfast.Study(
        arguments.data,
        schema=_schema(arguments),
        ledger=_ledger(arguments),
        n=arguments.n,
        like=arguments.like,
        **_written(arguments),
        noise=_noise(arguments),
    )
    if arguments.quote:
        quote = study.quote(document)
        print(_text(quote.to_dict()) if arguments.json else quote)
        return 0
    return _deliver(
        arguments,
        lambda: study.run(document),
        lambda _: study.answer(document),  # the same again, which costs nothing, in plain values
        lambda _: str(study.answer(document)["summary"]),
    )


# ---- what they share -----------------------------------------------------------------------------


def _schema(arguments: argparse.Namespace) -> dpfast.Schema | None:
    return None if arguments.schema is None else dpfast.Schema.from_toml(Path(arguments.schema))


def _undeclared(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Columns that the options name, as numbers, and which of them are covariates by name."""
    if arguments.formula is not None:
        names, levels = columns_read(arguments.formula)
        table = _numbers(arguments, [name for name in names if name not in levels])
        for name, listed in levels.items():
            table[name] = read_labels(arguments.data, name, levels=listed, **_how(arguments))
        return table, []
    if arguments.covariates is None:
        raise InvalidInput(
            "without a schema the columns are named one by one: give --covariates age,education "
            "and so on."
        )
    covariates = _listed(arguments.covariates)
    return _numbers(arguments, [arguments.response, *covariates]), covariates


def _numbers(arguments: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    return read_numbers(arguments.data, names, **_how(arguments))


def _beside(arguments: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    """Weights, offsets and persons: columns read already, or that nothing else is made of."""
    named = {"sample_weight": arguments.sample_weight, "offset": arguments.offset}
    named = {what: name for what, name in named.items() if name is not None}
    missing = [name for name in dict.fromkeys(named.values()) if name not in table]
    found = table | (_numbers(arguments, missing) if missing else {})
    given: dict[str, Any] = {what: found[name] for what, name in named.items()}
    if arguments.largest_weight is not None:
        given["largest_weight"] = arguments.largest_weight
    if arguments.group is not None:
        given["group"] = read_labels(arguments.data, arguments.group, **_how(arguments))
    given |= {"group_size": arguments.group_size, "each": arguments.each}
    return given


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    """How text is written, and what shows how many bytes were read if rows may be counted."""
    bar = None if arguments.each == "person" else ProgressBar("reading")
    return _written(arguments) | {"progress": bar}


def _written(arguments: argparse.Namespace) -> dict[str, Any]:
    """How a file of text is written."""
    return {"delimiter": typed_delimiter(arguments.delimiter), "decimal": arguments.decimal}


def _design(arguments: argparse.Namespace, schema: Any, table: Any) -> Any:
    """The design of the covariates that are named, or of all columns but the response and group."""
    if arguments.covariates is not None:
        names = _listed(arguments.covariates)
    else:
        present, others = column_names(table), (arguments.group, arguments.response)
        names = [name for name in schema.columns if name in present and name not in others]
    return schema.encode(table, names, arguments.response)


def _noise(arguments: argparse.Namespace) -> dpfast.SeededNoise | None:
    return None if arguments.seed is None else dpfast.SeededNoise(arguments.seed)


def _ledger(arguments: argparse.Namespace) -> dpfast.Ledger:
    """The ledger that is named, which must exist: a total is granted once."""
    if not Path(arguments.ledger).exists():
        raise InvalidInput(
            f"there is no ledger {arguments.ledger!r}. Create it with its total: dpfast "
            f"ledger create {arguments.ledger} --mu ..."
        )
    return dpfast.Ledger.open(arguments.ledger)


#: Optimisers whose number of steps is a setting.
STEPWISE = {"newton": "Newton", "gradient-descent": "GradientDescent"}


def _stepwise(method: str, steps: int) -> Any:
    if method not in STEPWISE:
        raise InvalidInput(
            f"--steps is a setting of --method {', '.join(STEPWISE)}; {method!r} decides the "
            "number of its steps itself."
        )
    return getattr(dpfast.optimize, STEPWISE[method])(steps=steps)


def typed_delimiter(text: str | None) -> str | None:
    r"""What was typed: a tab as ``\t`` or ``tab``, which shells make easy."""
    if text in ("\\t", "tab"):
        return "\t"
    if text is not None and len(text) != 1:
        raise InvalidInput(f"--delimiter must be a single character, or 'tab'; received {text!r}.")
    return text


def _listed(text: str) -> list[str]:
    """Names between commas, spaces or none around them; quotes for a name that has a comma."""
    try:
        return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [""])]
    except csv.Error:
        raise InvalidInput("a list of names must be one line, with commas between them.") from None


def _text(report: dict[str, Any]) -> str:
    return json.dumps(plain(report), indent=1, allow_nan=False)


def _unfinished(found: Any) -> dict[str, Any]:
    """What a run had released that ended early."""
    told = found.to_dict() if hasattr(found, "to_dict") else dict(vars(found))
    left = found.privacy.unspent
    return told | {
        "unfinished": True,
        "privacy": found.privacy.to_dict(),
        "never_charged": None if left is None else plain_spend(left),
    }


def _deliver(
    arguments: argparse.Namespace,
    run: Callable[[], Any],
    report: Callable[[Any], dict[str, Any]],
    show: Callable[[Any], str],
) -> int:
    named = ("data", "schema", "ledger", "request", "like")
    inputs = [getattr(arguments, name, None) for name in named]
    finished: list[Any] = []
    # a signal is heard while there is something to stop, and waits while something is saved
    with INTERRUPTS.waiting(), PaidResult(arguments.out, inputs) as delivery:
        try:
            with INTERRUPTS.waiting(False):
                finished.append(run())
        except BaseException as error:
            if not finished:  # or else it arrived after the last answer: all of it is delivered
                if (found := getattr(error, "partial_result", None)) is not None:
                    save_unfinished(_text(_unfinished(found)) + "\n")
                raise
        result = finished[0]
        told = report(result)
        text = _text(told)
        code = delivery.deliver(text + "\n", lambda: text if arguments.json else show(result))
    if code == 0 and _says_nothing(told):
        tell(NOTHING_USABLE)
        return 5
    return code


def _says_nothing(told: dict[str, Any]) -> bool:
    """Whether released numbers of records say that nothing was estimated, in no level if by level.

    Whether a column is one of numbers is a value, so it is told by what was released of it alone.
    """
    told = told.get("answer", told)
    by_level = [one for one in told.get("fits", ()) if one is not None]
    if by_level:
        return all(_says_nothing(one) for one in by_level)
    return UNCOUNTED in told.get("warnings", ())


#: What is said beside a result of no records, by the released number of those that count.
NOTHING_USABLE = (
    "0 usable records, as far as the budget can see: the result says nothing, and was paid for. "
    "Is a column text? Declare its labels, in --schema or as C(name, levels=[...]) in --formula. "
    "Do numbers have decimal commas? Say --decimal ,"
)
