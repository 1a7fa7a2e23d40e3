"""Commands; each returns its exit code."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpfast
from dpfast.cli.paid import fit, run
from dpfast.cli.parser import BUDGET
from dpfast.cli.values import budget_of, loss_of
from dpfast.documents import write_document
from dpfast.errors import InvalidInput
from dpfast.fit_requests.progress import ProgressBar
from dpfast.inference.composition import plain_spend
from dpfast.inference.rendering.arrays import plain


def demo(arguments: argparse.Namespace) -> int:
    from dpfast.cli.demo import run

    run(
        arguments.mu,
        seed=arguments.seed,
        plot=not arguments.no_plot,
        progress=ProgressBar("private fit"),
    )
    return 0


def plan(arguments: argparse.Namespace) -> int:
    weights = None if arguments.radius is None else dpfast.Mallows(arguments.radius)
    objective = dpfast.Objective(loss_of(arguments), weights, scale=arguments.scale)
    has_budget = any(getattr(arguments, option[2:]) is not None for option in BUDGET)
    if [arguments.n is not None, has_budget, arguments.width is not None].count(True) != 2:
        raise InvalidInput(
            "give two of --n N, a budget (--mu M, --rho R, or --epsilon E with --delta D) and "
            "--width W: the third is computed."
        )
    forecast = dpfast.plan(
        arguments.n,
        arguments.p,
        objective,
        privacy=budget_of(arguments) if has_budget else None,
        width=arguments.width,
        level=arguments.level,
        rate=arguments.rate,
    )
    if arguments.plot is not None:
        from dpfast.plots import plan_plot

        _save_figure(plan_plot(forecast), arguments.plot)
    if arguments.json:
        fields = {
            "n": forecast.n,
            "mu": forecast.mu,
            "width": forecast.width,
            "level": forecast.level,
            "widths": forecast.widths.tolist(),
            "remarks": list(forecast.remarks),
            "method": forecast.method,
        }
        print(json.dumps(plain(fields), indent=1))
    else:
        print(forecast)
    return 0


def _save_figure(figure: Any, path: str) -> None:
    """Save a figure; refuse a file type that cannot be written."""
    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=120, format=Path(path).suffix[1:] or "none")
    except ValueError as error:
        raise InvalidInput(f"--plot {path!r}: name a .png, .pdf or .svg file.") from error
    write_document(path, picture.getvalue())


def explain(arguments: argparse.Namespace) -> int:
    budget = budget_of(arguments)
    print(budget.explain())
    if arguments.plot is not None:
        from dpfast.plots import tradeoff_plot

        _save_figure(tradeoff_plot(budget), arguments.plot)
    return 0


def ledger(arguments: argparse.Namespace) -> int:
    if arguments.action == "create":
        if Path(arguments.file).exists():
            raise InvalidInput(
                f"{arguments.file!r} exists already; a ledger is created once. Show it with "
                f"dpfast ledger show {arguments.file}."
            )
        print(dpfast.Ledger.open(arguments.file, budget_of(arguments)))
        return 0
    if not Path(arguments.file).exists():
        raise InvalidInput(f"there is no ledger {arguments.file!r}.")
    budget_file = dpfast.Ledger.open(arguments.file)
    if arguments.json:
        entries = [
            {"label": entry.label, "spend": plain_spend(entry.spend)}
            | ({} if entry.returned is None else {"returned": plain_spend(entry.returned)})
            for entry in budget_file.entries
        ]
        parts = {
            "total": budget_file.total,
            "spent": budget_file.spent,
            "remaining": budget_file.remaining,
        }
        totals = {name: plain_spend(part) for name, part in parts.items()}
        print(json.dumps(plain({**totals, "entries": entries}), indent=1))
        return 0
    for name in ("total", "spent", "remaining"):
        print(f"{name:9}  {getattr(budget_file, name)!r}")
    for entry in budget_file.entries:
        print(f"  {entry.spend!r:28} {entry.label}")
        if entry.returned is not None:
            print(f"  {entry.paid!r:28}   after it returned {entry.returned!r}")
    return 0


def verify(arguments: argparse.Namespace) -> int:
    verification = dpfast.inference.verify_report(arguments.page)
    if arguments.json:
        print(json.dumps(verification._asdict() | {"checks": dict(verification.checks)}, indent=1))
    else:
        print(verification)
    return 0 if verification.passed else 1


def audit(arguments: argparse.Namespace) -> int:
    from dpfast.audit.selfcheck import self_check

    bar = ProgressBar("audit")
    report = self_check(
        pairs=arguments.pairs, only=arguments.only, quick=arguments.quick, progress=bar
    )
    if arguments.json:
        print(json.dumps(plain(report.to_dict()), indent=1))
    else:
        print(report)
    if not report.passed:
        print("dpfast: the audit found leaks; do not use this installation", file=sys.stderr)
    return 0 if report.passed else 1


def bench(arguments: argparse.Namespace) -> int:
    from dpfast.cli.bench_report import document, in_one_thread, last_line, row

    options = ["--seconds", str(arguments.seconds)]
    options += ["--only", arguments.only] if arguments.only else []
    options += ["--json", arguments.json] if arguments.json else []
    code = in_one_thread(options)
    if code is not None:
        return code
    from dpfast.cli.bench import GROUPS, measure_all

    if arguments.only is not None and arguments.only not in GROUPS:
        raise InvalidInput(f"--only must be one of {', '.join(GROUPS)}.")
    chosen = [arguments.only] if arguments.only else [*GROUPS]
    print("least CPU time of one thread, memory over that of X; peers are not private")
    found = []
    for one in measure_all(chosen, arguments.seconds):
        found.append(one)
        print(row(one), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document(found), indent=1), encoding="utf-8")
    print(last_line(found))
    return 0


_COMMANDS: tuple[Callable[[argparse.Namespace], int], ...] = (
    audit, bench, demo, explain, fit, ledger, plan, run, verify,
)  # fmt: skip

COMMANDS = {command.__name__: command for command in _COMMANDS}
