"""Commands that spend: everything that can be refused comes first; then nothing is lost."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import dpfast
from dpfast.cli.output import PaidResult, save_unfinished
from dpfast.cli.progress import ProgressBar
from dpfast.cli.values import budget_of, budget_values, loss_of
from dpfast.data.columns import column_names, number_columns
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.front.plain import plain
from dpfast.front.request import rows_unseen
from dpfast.inference.hypotheses import half_width


def fit(arguments: argparse.Namespace) -> int:
    half_width(arguments.level)
    privacy = budget_of(arguments)
    weights = None if arguments.radius is None else dpfast.Mallows(arguments.radius)
    objective = dpfast.Objective(
        loss_of(arguments), weights, scale=arguments.scale, ridge=arguments.ridge
    )
    schema = None if arguments.schema is None else _schema(arguments)
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
    raw = None if schema is not None else _raw(arguments)
    table = _table(arguments, schema) if raw is None else raw.table
    beside = _beside(arguments, {} if raw is None else raw.table)

    def report(result: Any) -> dict[str, Any]:
        found = result.to_dict() | _source(schema, formula=arguments.formula)
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
        if raw is not None:
            with rows_unseen(arguments.each):
                X, y = raw.columns()
            if arguments.scale is None:
                options["standardize"] = True
            records = dpfast.records(X, y, names=raw.covariates, **beside)
            return dpfast.fit(records, None, objective, privacy=privacy, **options)
        with rows_unseen(arguments.each):
            design = _design(arguments, schema, table)
        records = dpfast.records(design, **beside)
        return dpfast.fit(records, None, objective, privacy=privacy, **options)

    return _deliver(arguments, run, report, lambda result: str(result.summary(arguments.level)))


def run(arguments: argparse.Namespace) -> int:
    from dpfast.studies.requests import read_file

    document = read_file(arguments.request)
    if arguments.data is None and not arguments.quote:
        raise InvalidInput("give --data, or --quote to see what the request costs.")
    study = dpfast.Study(
        arguments.data,
        schema=None if arguments.schema is None else _schema(arguments),
        ledger=_ledger(arguments),
        n=arguments.n,
        like=arguments.like,
        noise=_noise(arguments),
    )
    if arguments.quote:
        quote = study.quote(document)
        print(_text(quote.to_dict()) if arguments.json else quote)
        return 0
    return _deliver(
        arguments, lambda: study.answer(document), dict, lambda result: result["summary"]
    )


# ---- what they share -----------------------------------------------------------------------------


def _schema(arguments: argparse.Namespace) -> dpfast.Schema:
    return dpfast.Schema.from_toml(Path(arguments.schema))


class _Raw(NamedTuple):
    """Columns of a file about which nothing is declared."""

    response: str
    covariates: list[str]
    table: dict[str, Any]

    def columns(self) -> tuple[Any, Any]:
        """Covariates and response; what has a type other than a number's is refused."""
        found = number_columns(self.table, [*self.covariates, self.response])
        return found[:, :-1], found[:, -1]


def _raw(arguments: argparse.Namespace) -> _Raw:
    """Read what the options name, as numbers."""
    if arguments.formula is not None:
        from dpfast.data.files import read_labels
        from dpfast.data.formula import columns_read

        names, levels = columns_read(arguments.formula)
        table = _numbers(arguments, [name for name in names if name not in levels])
        how = typed_delimiter(arguments.delimiter), _bar(arguments)
        for name, listed in levels.items():
            table[name] = read_labels(arguments.data, name, *how, listed)
        return _Raw("", [], table)
    if arguments.covariates is None:
        raise InvalidInput(
            "without a schema the columns are named one by one: give --covariates age,education "
            "and so on."
        )
    response, covariates = arguments.response, _listed(arguments.covariates)
    return _Raw(response, covariates, _numbers(arguments, [response, *covariates]))


def _numbers(arguments: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    from dpfast.data.files import read_numbers

    return read_numbers(
        arguments.data, names, typed_delimiter(arguments.delimiter), _bar(arguments)
    )


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
        given["group"] = _labels(arguments, arguments.group)
    given |= {"group_size": arguments.group_size, "each": arguments.each}
    return given


def _labels(arguments: argparse.Namespace, name: str) -> Any:
    from dpfast.data.files import read_labels

    delimiter = typed_delimiter(arguments.delimiter)
    return read_labels(arguments.data, name, delimiter, _bar(arguments))


def _bar(arguments: argparse.Namespace) -> ProgressBar | None:
    """How far reading is, in bytes; not where the number of rows is private."""
    return None if arguments.each == "person" else ProgressBar("reading")


def _table(arguments: argparse.Namespace, schema: Any) -> Any:
    from dpfast.data.files import read_table

    return read_table(arguments.data, schema, typed_delimiter(arguments.delimiter), _bar(arguments))


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
STEPWISE = {
    "newton": "Newton",
    "gradient-descent": "GradientDescent",
}


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


def _source(schema: dpfast.Schema | None, **more: Any) -> dict[str, Any]:
    return {"source": more | {"schema": None if schema is None else schema.to_toml()}}


def _text(report: dict[str, Any]) -> str:
    return json.dumps(plain(report), indent=1, allow_nan=False)


def _unfinished(found: Any) -> dict[str, Any]:
    """What a run had released that ended early."""
    told = found.to_dict() if hasattr(found, "to_dict") else dict(vars(found))
    left = found.privacy.unspent
    return told | {
        "unfinished": True,
        "privacy": found.privacy.to_dict(),
        "never_charged": None if left is None else budget_values(left),
    }


def _deliver(
    arguments: argparse.Namespace,
    run: Callable[[], Any],
    report: Callable[[Any], dict[str, Any]],
    show: Callable[[Any], str],
) -> int:
    named = ("data", "schema", "ledger", "request", "like")
    inputs = [getattr(arguments, name, None) for name in named]
    with PaidResult(arguments.out, inputs) as delivery:
        try:
            result = run()
        except BaseException as error:
            if (found := getattr(error, "partial_result", None)) is not None:
                save_unfinished(_text(_unfinished(found)) + "\n")
            raise
        text = _text(report(result))
        return delivery.deliver(text + "\n", lambda: text if arguments.json else show(result))
