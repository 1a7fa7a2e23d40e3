"""Commands that spend: all refusals come before the charge, and no paid result is lost."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import dpfast
from dpfast.cli.interrupts import INTERRUPTS
from dpfast.cli.output import PaidResult, save_unfinished, tell
from dpfast.cli.values import budget_of, loss_of
from dpfast.data.columns import column_names, number_columns
from dpfast.data.files import read_columns_of_formula, read_labels, read_numbers, read_table
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.fit_requests.progress import ProgressBar
from dpfast.fit_requests.request import hide_row_details
from dpfast.inference.composition import plain_spend
from dpfast.inference.degrees import UNCOUNTED, coverage
from dpfast.inference.rendering.arrays import plain
from dpfast.scaling.remarks import says_incomplete


def fit(arguments: argparse.Namespace) -> int:
    """Fit a regression to a file."""
    coverage(arguments.level)
    privacy = budget_of(arguments)
    objective = _objective(arguments)
    schema = _schema(arguments)
    options = _fit_options(arguments)
    if (arguments.formula is None) == (arguments.response is None):
        raise InvalidInput("give either --formula or --response (with --covariates).")
    read = _read(arguments, schema)

    def report(result: Any) -> dict[str, Any]:
        public_facts = None if schema is None else schema.to_toml()
        source = {"formula": arguments.formula, "schema": public_facts}
        fields = dict(result.to_dict() | {"source": source})
        if not arguments.no_inference:
            fields["level"] = arguments.level
            # very few records have no intervals, but the paid estimate must arrive
            with suppress(InferenceUnavailable):
                fields["conf_int"] = result.conf_int(arguments.level)
        return fields

    def run() -> Any:
        if arguments.formula is not None:
            records = dpfast.records(read.table, **read.extras)
            return dpfast.fit(
                arguments.formula, records, objective, schema=schema, privacy=privacy, **options
            )
        records = _coded_records(arguments, schema, read)
        if schema is None and arguments.scale is None:
            options["standardize"] = True
        return dpfast.fit(records, None, objective, privacy=privacy, **options)

    return _deliver(arguments, run, report, lambda result: str(result.summary(arguments.level)))


def run(arguments: argparse.Namespace) -> int:
    """Answer a request of a study."""
    from dpfast.studies.requests import read_file

    document = read_file(arguments.request)
    only_quoted = arguments.quote or arguments.submit or arguments.approve
    if arguments.data is None and not only_quoted:
        raise InvalidInput("give --data, or --quote to see the cost of the request.")
    study = dpfast.Study(
        arguments.data,
        schema=_schema(arguments),
        ledger=_ledger(arguments),
        n=arguments.n,
        like=arguments.like,
        group=arguments.group,
        group_size=arguments.group_size,
        each=arguments.each,
        approvals=arguments.approvals,
        **_text_format(arguments),
        noise=_noise(arguments),
    )
    if arguments.approve:
        study.approve(document)
    if only_quoted:
        quote = study.submit(document) if arguments.submit else study.quote(document)
        print(_text(quote.to_dict()) if arguments.json else quote)
        return 0
    return _deliver(
        arguments,
        lambda: study.run(document),
        lambda _: study.answer(document),  # the stored answer as plain values, at no cost
        lambda _: str(study.answer(document)["summary"]),
    )


# ---- shared parts --------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """Columns of a file."""

    table: Any
    #: Weights, offsets and persons, as :func:`dpfast.records` takes them.
    extras: dict[str, Any]
    #: Names of the covariates where ``--covariates`` gives them without a schema.
    covariates: list[str]


def _objective(arguments: argparse.Namespace) -> dpfast.Objective:
    weights = None if arguments.radius is None else dpfast.Mallows(arguments.radius)
    return dpfast.Objective(
        loss_of(arguments), weights, scale=arguments.scale, ridge=arguments.ridge
    )


def _fit_options(arguments: argparse.Namespace) -> dict[str, Any]:
    method = arguments.method
    return {
        "method": method if arguments.steps is None else _stepwise(method, arguments.steps),
        "progress": ProgressBar("private fit"),
        "inference": not arguments.no_inference,
        "noise": _noise(arguments),
        "ledger": None if arguments.ledger is None else _ledger(arguments),
    }


def _schema(arguments: argparse.Namespace) -> dpfast.Schema | None:
    return None if arguments.schema is None else dpfast.Schema.from_toml(Path(arguments.schema))


def _read(arguments: argparse.Namespace, schema: dpfast.Schema | None) -> _Columns:
    """Read the columns of a file that a formula, a schema or the options name."""
    options = _read_options(arguments)
    table: Any
    if arguments.formula is not None:
        table = read_columns_of_formula(arguments.data, arguments.formula, schema, **options)
        return _Columns(table, _extras(arguments, {} if schema else table), [])
    if schema is not None:
        table = read_table(arguments.data, schema, **options)
        return _Columns(table, _extras(arguments, {}), [])
    if arguments.covariates is None:
        raise InvalidInput(
            "without a schema every column needs its name: give --covariates age,education "
            "and so on."
        )
    covariates = _split_names(arguments.covariates)
    table = _numbers(arguments, [arguments.response, *covariates])
    return _Columns(table, _extras(arguments, table), covariates)


def _coded_records(
    arguments: argparse.Namespace, schema: dpfast.Schema | None, read: _Columns
) -> Any:
    """Make records of the response and covariates that the options name."""
    with hide_row_details(arguments.each):
        if schema is not None:
            return dpfast.records(_design(arguments, schema, read.table), **read.extras)
        numbers = number_columns(read.table, [*read.covariates, arguments.response])
        return dpfast.records(numbers[:, :-1], numbers[:, -1], names=read.covariates, **read.extras)


def _numbers(arguments: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    return read_numbers(arguments.data, names, **_read_options(arguments))


def _extras(arguments: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    """Read weights, offsets and persons that the table does not have yet."""
    columns = {"sample_weight": arguments.sample_weight, "offset": arguments.offset}
    columns = {option: name for option, name in columns.items() if name is not None}
    missing = [name for name in dict.fromkeys(columns.values()) if name not in table]
    numbers = table | (_numbers(arguments, missing) if missing else {})
    extras: dict[str, Any] = {option: numbers[name] for option, name in columns.items()}
    if arguments.largest_weight is not None:
        extras["largest_weight"] = arguments.largest_weight
    if arguments.group is not None:
        extras["group"] = read_labels(arguments.data, arguments.group, **_read_options(arguments))
    return extras | {"group_size": arguments.group_size, "each": arguments.each}


def _read_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how text is written, and a progress bar unless the number of rows is private."""
    bar = None if arguments.each == "person" else ProgressBar("reading")
    return _text_format(arguments) | {"progress": bar}


def _text_format(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how a file of text is written."""
    return {"delimiter": typed_delimiter(arguments.delimiter), "decimal": arguments.decimal}


def _design(arguments: argparse.Namespace, schema: dpfast.Schema, table: Any) -> Any:
    """Code the named covariates, or all columns except the response and the group."""
    if arguments.covariates is not None:
        names = _split_names(arguments.covariates)
    else:
        present = column_names(table)
        excluded = (arguments.group, arguments.response)
        names = [name for name in schema.columns if name in present and name not in excluded]
    return schema.encode(table, names, arguments.response)


def _noise(arguments: argparse.Namespace) -> dpfast.SeededNoise | None:
    return None if arguments.seed is None else dpfast.SeededNoise(arguments.seed)


def _ledger(arguments: argparse.Namespace) -> dpfast.Ledger:
    """Open the named ledger, which must exist: only ``ledger create`` grants a total."""
    if not Path(arguments.ledger).exists():
        raise InvalidInput(
            f"there is no ledger {arguments.ledger!r}. Create it with its total: dpfast "
            f"ledger create {arguments.ledger} --mu ..."
        )
    return dpfast.Ledger.open(arguments.ledger)


#: Optimisers that take a number of steps.
STEPWISE = {"newton": "Newton", "gradient-descent": "GradientDescent"}


def _stepwise(method: str, steps: int) -> Any:
    if method not in STEPWISE:
        raise InvalidInput(
            f"--steps is a setting of --method {', '.join(STEPWISE)}; {method!r} chooses its "
            "number of steps itself."
        )
    return getattr(dpfast.optimize, STEPWISE[method])(steps=steps)


def typed_delimiter(text: str | None) -> str | None:
    r"""Return the delimiter; ``\t`` or ``tab`` stands for a tab, which is hard to type."""
    if text in ("\\t", "tab"):
        return "\t"
    if text is not None and len(text) != 1:
        raise InvalidInput(f"--delimiter must be a single character, or 'tab'; received {text!r}.")
    return text


def _split_names(text: str) -> list[str]:
    """Split names at commas; spaces around them are ignored, and a name in quotes may have one."""
    try:
        return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [""])]
    except csv.Error:
        raise InvalidInput(
            "a list of names must be one line, with commas between the names."
        ) from None


def _text(report: dict[str, Any]) -> str:
    return json.dumps(plain(report), indent=1, allow_nan=False)


def _unfinished(partial: Any) -> dict[str, Any]:
    """Return the released part of a run that ended early, as plain values."""
    fields = partial.to_dict() if hasattr(partial, "to_dict") else dict(vars(partial))
    unspent = partial.privacy.unspent
    return fields | {
        "unfinished": True,
        "privacy": partial.privacy.to_dict(),
        "never_charged": None if unspent is None else plain_spend(unspent),
    }


def _deliver(
    arguments: argparse.Namespace,
    run: Callable[[], Any],
    report: Callable[[Any], dict[str, Any]],
    show: Callable[[Any], str],
) -> int:
    """Run a command that spends, deliver its result, and return the exit code."""
    options = ("data", "schema", "ledger", "request", "like")
    inputs = [getattr(arguments, name, None) for name in options]
    finished: list[Any] = []
    # signals are raised while the command runs, and wait while its result is saved
    with INTERRUPTS.waiting(), PaidResult(arguments.out, inputs) as delivery:
        try:
            with INTERRUPTS.waiting(False):
                finished.append(run())
        except BaseException as error:
            if not finished:  # a signal after the last answer is ignored: the result is complete
                if (partial := getattr(error, "partial_result", None)) is not None:
                    save_unfinished(_text(_unfinished(partial)) + "\n")
                raise
        result = finished[0]
        fields = report(result)
        text = _text(fields)
        code = delivery.deliver(text + "\n", lambda: text if arguments.json else show(result))
    if code == 0 and _is_empty(fields):
        tell(NOTHING_USABLE)
        return 5
    return code


def _is_empty(fields: dict[str, Any]) -> bool:
    """Return whether released counts show no usable record, in no level if by level.

    A column without numbers is private information, so only released counts decide.
    """
    fields = fields.get("answer", fields)
    by_level = [fit for fit in fields.get("fits", ()) if fit is not None]
    if by_level:
        return all(_is_empty(fit) for fit in by_level)
    warnings = [*fields.get("warnings", ()), fields.get("stopped", "")]
    return UNCOUNTED in warnings or any(map(says_incomplete, warnings))


#: Message beside a result whose released count of usable records is zero.
NOTHING_USABLE = (
    "about 0 usable records: the result contains no estimate. "
    "Is a column text? Declare its labels, in --schema or as C(name, levels=[...]) in --formula. "
    "Do numbers have decimal commas? Pass --decimal ,"
)
