"""What the commands do; each returns its exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpfast
from dpfast.cli.output import PaidResult
from dpfast.cli.progress import ProgressBar
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.privacy.budget import Budget


def budget_of(arguments: argparse.Namespace) -> Budget:
    """The one budget that was given."""
    given = [name for name in ("mu", "rho", "epsilon") if getattr(arguments, name) is not None]
    paired = (arguments.epsilon is None) == (arguments.delta is None)
    if len(given) != 1 or not paired:
        raise InvalidBudget(
            "give one budget: --mu M, --rho R, or --epsilon E with --delta D; received "
            f"{', '.join('--' + name for name in given) or 'none'}"
            f"{'' if paired else ' (epsilon and delta go together)'}."
        )
    if arguments.mu is not None:
        return dpfast.GDP(arguments.mu)
    if arguments.rho is not None:
        return dpfast.ZCDP(arguments.rho)
    return dpfast.ApproxDP(arguments.epsilon, arguments.delta)


def demo(arguments: argparse.Namespace) -> int:
    from dpfast.cli.demo import run

    run(
        arguments.mu,
        seed=arguments.seed,
        plot=not arguments.no_plot,
        progress=ProgressBar("private fit"),
    )
    return 0


def fit(arguments: argparse.Namespace) -> int:
    """Everything that can be refused comes before the fit, which charges; then nothing is lost."""
    from dpfast.data.files import read_table
    from dpfast.inference.hypotheses import half_width
    from dpfast.inference.summary import summary_text

    privacy = budget_of(arguments)
    half_width(arguments.level)
    if len(arguments.delimiter) != 1:
        raise InvalidInput(
            f"--delimiter must be a single character; received {arguments.delimiter!r}."
        )
    schema = dpfast.Schema.from_toml(Path(arguments.schema))
    options: dict[str, Any] = {
        "scale": arguments.scale,
        "ridge": arguments.ridge,
        "method": arguments.method,
        "steps": arguments.steps,
        "inference": not arguments.no_inference,
        "progress": ProgressBar("private fit"),
    }
    if arguments.radius is not None:
        options["weights"] = dpfast.Mallows(arguments.radius)
    if arguments.seed is not None:
        options["noise"] = dpfast.SeededNoise(arguments.seed)
    if arguments.ledger is not None:
        if not Path(arguments.ledger).exists():
            raise InvalidInput(
                f"there is no ledger {arguments.ledger!r}. Create it with its total: dpfast "
                f"ledger create {arguments.ledger} --mu ..."
            )
        options["ledger"] = dpfast.Ledger.open(arguments.ledger)
    if (arguments.formula is None) == (arguments.response is None):
        raise InvalidInput("give either --formula or --response (with --covariates).")
    source = {"formula": arguments.formula, "schema": schema.to_toml()}
    table = read_table(arguments.data, schema, arguments.delimiter)
    inputs = arguments.data, arguments.schema, arguments.ledger
    with PaidResult(arguments.out, inputs) as delivery:
        if arguments.formula is not None:
            result = dpfast.fit_formula(
                arguments.formula, table, arguments.loss, schema=schema, privacy=privacy, **options
            )
        else:
            names = None if arguments.covariates is None else arguments.covariates.split(",")
            design = schema.encode(table, names, arguments.response)
            result = dpfast.fit(design, None, arguments.loss, privacy=privacy, **options)
        report = result.to_dict() | {"source": source}
        if not arguments.no_inference:
            report["level"] = arguments.level
            report["conf_int"] = result.conf_int(arguments.level).tolist()
        text = json.dumps(report, indent=1)
        return delivery.deliver(
            text + "\n", lambda: text if arguments.json else summary_text(result, arguments.level)
        )


def plan(arguments: argparse.Namespace) -> int:
    weights = None if arguments.radius is None else dpfast.Mallows(arguments.radius)
    found = dpfast.plan(
        arguments.n,
        arguments.p,
        arguments.loss,
        mu=arguments.mu,
        width=arguments.width,
        level=arguments.level,
        scale=arguments.scale,
        weights=weights,
        rate=arguments.rate,
    )
    if arguments.plot is not None:
        from dpfast.plots import plan_plot

        plan_plot(found).savefig(arguments.plot, dpi=120)
    if arguments.json:
        numbers = {"n": found.n, "mu": found.mu, "width": found.width, "level": found.level}
        lists = {"widths": found.widths.tolist(), "remarks": list(found.remarks)}
        print(json.dumps({**numbers, **lists, "method": found.method}, indent=1))
    else:
        print(found)
    return 0


def explain(arguments: argparse.Namespace) -> int:
    budget = budget_of(arguments)
    print(budget.explain())
    if arguments.plot is not None:
        from dpfast.plots import tradeoff_plot

        tradeoff_plot(budget).savefig(arguments.plot, dpi=120)
    return 0


def ledger(arguments: argparse.Namespace) -> int:
    if arguments.action == "create":
        if Path(arguments.file).exists():
            raise InvalidInput(
                f"{arguments.file!r} exists already, and a budget is granted once. Show it with "
                f"dpfast ledger show {arguments.file}."
            )
        print(dpfast.Ledger.open(arguments.file, budget_of(arguments)))
        return 0
    if not Path(arguments.file).exists():
        raise InvalidInput(f"there is no ledger {arguments.file!r}.")
    book = dpfast.Ledger.open(arguments.file)
    if arguments.json:
        entries = [{"label": e.label, "spend": repr(e.spend)} for e in book.entries]
        totals = {name: repr(getattr(book, name)) for name in ("total", "spent", "remaining")}
        print(json.dumps({**totals, "entries": entries}, indent=1))
        return 0
    print(f"total      {book.total!r}\nspent      {book.spent!r}\nremaining  {book.remaining!r}")
    for entry in book.entries:
        print(f"  {entry.spend!r:28} {entry.label}")
    return 0


def schema(arguments: argparse.Namespace) -> int:
    from dpfast.data.files.sample import read_sample

    text = dpfast.Schema.draft(read_sample(arguments.sample)).to_toml()
    text = (
        "# Drafted from a public sample: check every range and level against what is known\n"
        "# about the population, not about the private data.\n\n" + text
    )
    if arguments.out is None:
        print(text, end="")
    else:
        Path(arguments.out).write_text(text, encoding="utf-8")
    return 0


def audit(arguments: argparse.Namespace) -> int:
    from dpfast.audit.selfcheck import self_check

    bar = ProgressBar("audit")
    report = self_check(
        pairs=arguments.pairs, only=arguments.only, quick=arguments.quick, progress=bar
    )
    if arguments.json:
        print(json.dumps(report.to_dict(), indent=1))
    else:
        print(report)
    if not report.passed:
        print("dpfast: the audit found leaks; do not use this installation", file=sys.stderr)
    return 0 if report.passed else 1


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "audit": audit,
    "demo": demo,
    "explain": explain,
    "fit": fit,
    "ledger": ledger,
    "plan": plan,
    "schema": schema,
}
