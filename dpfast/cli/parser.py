"""Options of the command line."""

from __future__ import annotations

import argparse
import re
from functools import cache
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


EXIT_CODES = (
    "exit codes: 0 done; 1 refused, with a message that says what to do; 2 wrong usage; 3 the "
    "ledger has too little budget; 4 budget spent, output not written as requested (a message "
    "names the file with the result); 5 budget spent, no usable record; 128 plus the number of "
    "the signal that ended the command, such as 130 for Ctrl-C"
)

DELIMITED = """\
--delimiter: of a text file, 'tab' for a tab (default: found in its first row)
--decimal =.: decimal mark of a text file: '.' (default) or ','"""
FILE = "data: .csv, .tsv, .txt (also .gz), .parquet, .feather or .npz"
LEVEL = "--level float =0.95: level of the intervals (default .95)"

#: Options of a budget; epsilon and delta go together.
BUDGET = {
    "--mu": "total, mu of Gaussian differential privacy",
    "--rho": "total, rho of zero-concentrated DP",
    "--epsilon": "total epsilon, with --delta",
    "--delta": "total delta, with --epsilon",
}

#: Lines shared by several commands.
SHARED = {
    "@source": f"""\
{FILE}
--schema: TOML file of public facts (default: estimate undeclared facts with part of the budget)
{DELIMITED}""",
    "@losses": """\
--tau float: level of --loss quantile (default .5)
--bandwidth float: bandwidth of --loss quantile, in residual scales (default: from n, p and the
    budget)
--largest-mean float: for --loss poisson: largest mean of the model
--largest-residual float: for --loss poisson: bound at which count minus mean is clipped""",
    "@spending": """\
@budget
--ledger: budget file shared by analyses; see dpfast ledger
--out: write the released result as JSON
--json flag: print JSON instead of the table
--seed int: simulation: reproducible, and NOT private""",
}

#: For each command its purpose, further help, and its options, one per line.
COMMANDS = {
    "demo": ("private wage regression on embedded census microdata",
             "Fits the Mincer wage equation to 29,501 persons of the 2000 US Census, and prints it "
             "beside the non-private fit.", """
--mu float: total as the mu of Gaussian differential privacy (default: epsilon 1 and delta 1e-6)
--seed int: simulate with this seed instead of operating-system entropy: reproducible, and without
    any privacy guarantee
--no-plot flag: do not write demo-census2000.png"""),
    "fit": ("fit a private regression to a file",
            "Prints the released coefficients with intervals. Without --schema the named columns "
            "are read as numbers and C(region, levels=['a', 'b']) as levels; centres and scales "
            "are estimated with part of the budget. With a schema its public facts are used.",
            f"""
@source
--formula: such as 'log(wage) ~ education + I(experience**2)'
--response: instead of a formula: the response column ...
--covariates: ... and a comma-separated list of the covariates
--loss =least-squares: loss, such as log-cosh, quantile or poisson (default: least-squares)
@losses
--scale float: public residual scale of a robust loss, in the response's units
--radius float: radius of the Mallows weights, of coded columns (default sqrt p)
--ridge float =0.0: public ridge penalty, of coded coefficients
--sample-weight: a column of private weights; with --largest-weight
--largest-weight float: public bound at which weights are clipped
--offset: a column added to the predictor, in the response's units
--group: a column that names the person of each row: persons are protected
--each =row: with --group: 'person' counts each person once, by the mean of all rows ...
--group-size int: ... or 'row' (default) counts at most so many rows of a person
--method =auto: optimiser (default: auto)
--steps int: number of steps, for --method newton and gradient-descent
--no-inference flag: estimates only, no intervals
{LEVEL}
@spending"""),
    "run": ("answer a request of a study: effects, instruments, tables, quantiles and more",
            'Such as {"analysis": "fit", "formula": "y ~ x", "share": 0.2}: a share of the total '
            "of the ledger. A repeated request costs nothing. dpfast.Study lists the analyses and "
            "their fields.", f"""
request: a JSON document, or the name of its file
--{FILE}
--schema: TOML file of public facts
{DELIMITED}
--ledger required: budget file; see dpfast ledger
--n int: number of records, public; widths follow from it
--like: a PUBLIC file like the data, for expected widths
--quote flag: show the cost; reads no data
--group: a column that names the person of each row: all requests protect persons
--each =row: with --group: 'person' counts each person once, by the mean of all rows ...
--group-size int: ... or 'row' (default) counts at most so many rows of a person
--approvals: folder of requests that wait, with a folder 'approved' in it
--submit flag: let the request wait there, and show its cost
--approve flag: approve it, and show its cost
--out: write the answer as JSON
--json flag: print JSON instead of the table
--seed int: simulation: reproducible, and NOT private"""),
    "plan": ("forecast interval width, budget or number of records",
             "Give two of --n, a budget and --width. Touches no data.", f"""
--n int: number of records
--p int required: coefficients, the intercept included
--width float: width of the widest slope's interval
@budget
--loss =least-squares: loss (default: least-squares)
@losses
--scale float: public residual scale of a robust loss
--radius float: radius of the Mallows weights
--rate float =0.5: share of ones (logistic)
{LEVEL}
--plot PNG: draw width against the budget and n
--json flag: print JSON"""),
    "explain": ("explain a budget in plain words", "", """
@budget
--plot PNG: draw the attacker's trade-off curve"""),
    "ledger": ("create or show a budget shared by analyses", "", ""),
    "ledger create": ("create a budget file", "", """
file
@budget"""),
    "ledger show": ("show the charges and the remaining budget", "", """
file
--json flag: print JSON"""),
    "verify": ("recompute the accounting of a page that Fit.report wrote",
               "Adds the charges in exact fractions, and recomputes conversions, intervals and the "
               "page.", """
page: the page, such as fit.html
--json flag: print JSON"""),
    "bench": ("measure this installation, beside what else is installed",
              "Fits, kernels, noise and an embedded call, in turn with NumPy, scikit-learn and "
              "statsmodels where they are installed. Needs no data; the last line counts targets.",
              """
--seconds float =40: about how long to measure (default 40)
--only TEXT: fits, kernels, noise or embedded
--json FILE: also write what was measured, for pytest-benchmark compare"""),
    "audit": ("attack this installation",
              "Replays the most common calls on two neighbouring synthetic data sets with the same "
              "noisy answers: any difference is a leak.", """
--pairs int =1: neighbouring pairs for each call
--only TEXT: calls whose name contains this
--quick flag: one call of each function
--json flag: print JSON"""),
}  # fmt: skip


#: Python expressions in messages, and the command line's words for them.
SHELL_WORDS = {
    r", dpfast\.optimize\.\w+\(\.\.\.\)| or a dpfast [\w.]+ object such as [^;]*": "",
    r" or a dpfast\.optimize\.Method of your own| The probability of error is alpha.*": "",
    r"dpfast\.Objective\(\"([\w-]+)\", \w+=\.\.\.\)|\bloss=\"([\w-]+)\"": r"--loss \1\2",
    r"\blevel=": "--level ",
    r"^level\b": "--level",
    r"\b(group|largest|sample)_(size|weight)(=\.\.\.)?": r"--\1-\2",
    r"^(decimal|each|group|loss|method|radius|ridge|scale|seed|steps|tau|[pn](?! =))\b": r"--\1",
    r"^schema must be a dpfast\.Schema; received None\.": "give --schema, a file of public facts.",
}


def in_shell_words(message: str) -> str:
    """Rewrite a refusal of the library in the words of the command line."""
    for python, shell in SHELL_WORDS.items():
        message = re.sub(python, shell, message)
    return message


def option_for(unknown: list[str]) -> str:
    """Write which option takes a formula or a budget that stands without it; empty for others."""
    if any("~" in word for word in unknown):
        return ". Write the file first, and --formula before the formula."
    if any(word.startswith("--privacy") for word in unknown):
        return ". Write --mu 1.0, or --epsilon 1 --delta 1e-6."
    return ""


@cache
def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the ``dpfast`` command, without loading NumPy and SciPy."""
    import dpfast

    parser = argparse.ArgumentParser(
        prog="dpfast",
        description="Differentially private regression with honest intervals.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"dpfast {dpfast.__version__}")
    parsers = {"": parser}
    groups: dict[str, Commands] = {"": parser.add_subparsers(dest="command", metavar="COMMAND")}
    for name, (purpose, details, options) in COMMANDS.items():
        parent, _, word = name.rpartition(" ")
        if parent not in groups:
            groups[parent] = parsers[parent].add_subparsers(
                dest="action", metavar="ACTION", required=True
            )
        description = f"{purpose[0].upper()}{purpose[1:]}. {details}".strip()
        parsers[name] = groups[parent].add_parser(
            word, help=purpose, description=description, epilog=EXIT_CODES
        )
        _add_options(parsers[name], options)
    return parser


def _add_options(parser: argparse.ArgumentParser, options: str) -> None:
    """Add options from lines ``name facts: help``, or ``@name`` for shared lines."""
    for line in re.sub(r"\n {4}", " ", options).strip().splitlines():
        head, _, help_text = line.partition(": ")
        name, *facts = head.split(" ")
        if name == "@budget":
            group = parser.add_argument_group("budget (give one)")
            for option, meaning in BUDGET.items():
                group.add_argument(option, type=float, help=meaning)
        elif name.startswith("@"):
            _add_options(parser, SHARED[name])
        else:
            parser.add_argument(name, help=help_text or None, **_argument_options(facts))


def _argument_options(words: list[str]) -> dict[str, Any]:
    """Translate the words between an option's name and its help for ``add_argument``."""
    options: dict[str, Any] = {}
    kind: type = {"float": float, "int": int}.get(words[0] if words else "", str)
    for word in words:
        if word == "flag":
            options["action"] = "store_true"
        elif word == "required":
            options["required"] = True
        elif word.startswith("="):
            options["default"] = kind(word[1:])
        elif word.isupper():
            options["metavar"] = word
        else:
            options["type"] = kind
    return options
