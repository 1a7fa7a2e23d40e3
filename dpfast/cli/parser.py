"""What can be typed."""

from __future__ import annotations

import argparse
import re
from functools import cache
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


EXIT_CODES = (
    "exit codes: 0 done; 1 refused, with a message that says what to do; 2 wrong usage; 3 the "
    "ledger cannot pay; 4 paid for, but not delivered as asked: a message says where the result "
    "is; 5 paid for, and no usable record was seen; 128 and the number of the signal that ended "
    "it, as 130 for Ctrl-C"
)

DELIMITED = """\
--delimiter: of a file of text, 'tab' for a tab (default: found in its first row)
--decimal =.: of a file of text, the mark before decimals: '.' (default) or ','"""
FILE = "data: .csv, .tsv, .txt (also .gz), .parquet, .feather or .npz"
LEVEL = "--level float =0.95: of the intervals (default .95)"

#: One of them, the last with the one before.
BUDGET = {
    "--mu": "total, mu of Gaussian differential privacy",
    "--rho": "total, rho of zero-concentrated DP",
    "--epsilon": "total epsilon, with --delta",
    "--delta": "total delta, with --epsilon",
}

#: Lines that several commands have.
SHARED = {
    "@source": f"""\
{FILE}
--schema: TOML file of public facts (default: buy what is not declared)
{DELIMITED}""",
    "@losses": """\
--tau float: level of --loss quantile (default .5)
--bandwidth float: of --loss quantile, in residual scales (default: from n, p and the budget)
--largest-mean float: of --loss poisson: no mean above it is modelled
--largest-residual float: of --loss poisson: where count less mean is clipped""",
    "@spending": """\
@budget
--ledger: budget file shared by analyses; see dpfast ledger
--out: write the released result as JSON
--json flag: print JSON instead of the table
--seed int: simulation: reproducible, and NOT private""",
}

#: Of each command: its purpose, what else is said of it, and its options, one a line.
COMMANDS = {
    "demo": ("private wage regression on embedded census microdata",
             "Fits the Mincer wage equation to 29,501 persons of the 2000 US Census, and prints it "
             "beside the non-private fit.", """
--mu float =1.0: total privacy budget, mu of Gaussian differential privacy (default: 1)
--seed int: simulate with this seed instead of operating-system entropy: reproducible, and without
    any privacy guarantee
--no-plot flag: do not write demo-census2000.png"""),
    "fit": ("fit a private regression to a file",
            "Prints the released coefficients with intervals. Without --schema the named columns "
            "are read as numbers, C(region, levels=['a', 'b']) as levels, and where they lie and "
            "how much they vary is bought inside the total; with one, its public facts are used.",
            f"""
@source
--formula: such as 'log(wage) ~ education + I(experience**2)'
--response: instead of a formula: the response column ...
--covariates: ... and a comma-separated list of the others
--loss =log-cosh: loss, least-squares, quantile or poisson (default: log-cosh)
@losses
--scale float: public residual scale, in the response's units
--radius float: radius of the Mallows weights, of coded columns (default sqrt p)
--ridge float =0.0: public ridge penalty, of coded coefficients
--sample-weight: a column of private weights; with --largest-weight
--largest-weight float: public: weights are held to it
--offset: a column added to the predictor, in the response's units
--group: a column that says whose each row is: persons are protected
--each =row: with --group: 'person' counts each once, with the mean of any number of rows ...
--group-size int: ... or 'row' (default): at most so many rows
--method =auto: optimiser (default: auto)
--steps int: number of steps of --method newton and others
--no-inference flag: estimates only, no intervals
{LEVEL}
@spending"""),
    "run": ("answer a request of a study: effects, instruments, tables, quantiles and more",
            'Such as {"analysis": "fit", "formula": "y ~ x", "share": 0.2}: a share of the total '
            "of the ledger. The same request is paid for once. dpfast.Study has the analyses and "
            "their fields.", f"""
request: a small document of JSON, or the file that has it
--{FILE}
--schema: TOML file of public facts
{DELIMITED}
--ledger required: budget file; see dpfast ledger
--n int: number of records, public; widths follow from it
--like: a PUBLIC file like the data, for expected widths
--quote flag: say what it costs; reads no data
--out: write the answer as JSON
--json flag: print JSON instead of the table
--seed int: simulation: reproducible, and NOT private"""),
    "plan": ("forecast interval width, budget or number of records",
             "Give two of --n, a budget and --width. Touches no data.", f"""
--n int: number of records
--p int required: coefficients, the intercept included
--width float: width of the widest slope's interval
@budget
--loss =log-cosh: loss (default: log-cosh)
@losses
--scale float: public residual scale
--radius float: radius of the Mallows weights
--rate float =0.5: share of ones (logistic)
{LEVEL}
--plot PNG: draw width against the budget and n
--json flag: print JSON"""),
    "explain": ("say in plain words what a budget promises", "", """
@budget
--plot PNG: draw the attacker's trade-off curve"""),
    "ledger": ("create or show a budget that analyses share", "", ""),
    "ledger create": ("create a budget file", "", """
file
@budget"""),
    "ledger show": ("show what was spent, on what, and what is left", "", """
file
--json flag: print JSON"""),
    "verify": ("recompute the accounting of a page that Fit.report wrote",
               "Adds the charges in exact fractions, and makes conversions, intervals and the page "
               "anew.", """
page: the page, such as fit.html
--json flag: print JSON"""),
    "audit": ("attack this installation",
              "Replays the commonest calls on a pair of neighbouring synthetic data sets with the "
              "same noisy answers: whatever differs is a leak.", """
--pairs int =1: neighbouring pairs for each call
--only TEXT: calls whose name contains this
--quick flag: one call of each function
--json flag: print JSON"""),
}  # fmt: skip


#: What a message says of Python, and what of it is typed in a shell.
SPOKEN = {
    r", dpfast\.optimize\.\w+\(\.\.\.\)| or a dpfast [\w.]+ object such as [^;]*": "",
    r" or a dpfast\.optimize\.Method of your own| The probability of error is alpha.*": "",
    r"\blevel=": "--level ",
    r"^level\b": "--level",
    r"\b(group|largest|sample)_(size|weight)(=\.\.\.)?": r"--\1-\2",
    r"^(decimal|each|group|loss|method|radius|ridge|scale|seed|steps|tau|[pn](?! =))\b": r"--\1",
    r"^schema must be a dpfast\.Schema; received None\.": "give --schema, a file of public facts.",
}


def spoken(message: str) -> str:
    """A refusal of the library, in the words of the command line."""
    for python, shell in SPOKEN.items():
        message = re.sub(python, shell, message)
    return message


@cache
def make_parser() -> argparse.ArgumentParser:
    """The parser of the ``dpfast`` command; loads neither NumPy nor SciPy."""
    import dpfast

    parser = argparse.ArgumentParser(
        prog="dpfast",
        description="Differentially private regression with honest intervals.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"dpfast {dpfast.__version__}")
    made = {"": parser}
    rooms: dict[str, Commands] = {"": parser.add_subparsers(dest="command", metavar="COMMAND")}
    for name, (purpose, more, options) in COMMANDS.items():
        home, _, word = name.rpartition(" ")
        if home not in rooms:
            rooms[home] = made[home].add_subparsers(dest="action", metavar="ACTION", required=True)
        said = f"{purpose[0].upper()}{purpose[1:]}. {more}".strip()
        made[name] = rooms[home].add_parser(word, help=purpose, description=said, epilog=EXIT_CODES)
        _fill(made[name], options)
    return parser


def _fill(parser: argparse.ArgumentParser, options: str) -> None:
    """Add the options of some lines: ``name facts: help``, or ``@`` and the name of others."""
    for line in re.sub(r"\n {4}", " ", options).strip().splitlines():
        head, _, said = line.partition(": ")
        name, *facts = head.split(" ")
        if name == "@budget":
            group = parser.add_argument_group("budget (give one)")
            for option, said in BUDGET.items():
                group.add_argument(option, type=float, help=said)
        elif name.startswith("@"):
            _fill(parser, SHARED[name])
        else:
            parser.add_argument(name, help=said or None, **_facts(facts))


def _facts(words: list[str]) -> dict[str, Any]:
    """What the words between an option's name and its help say, as ``add_argument`` takes it."""
    found: dict[str, Any] = {}
    kind: type = {"float": float, "int": int}.get(words[0] if words else "", str)
    for word in words:
        if word == "flag":
            found["action"] = "store_true"
        elif word == "required":
            found["required"] = True
        elif word.startswith("="):
            found["default"] = kind(word[1:])
        elif word.isupper():
            found["metavar"] = word
        else:
            found["type"] = kind
    return found
