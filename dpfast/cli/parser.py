"""What can be typed."""

from __future__ import annotations

import argparse
from functools import cache
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


EXIT_CODES = (
    "exit codes: 0 done; 1 refused, with a message that says what to do; 2 wrong usage; 3 the "
    "ledger cannot pay; 4 paid for, but not delivered as asked: a message says where the result "
    "is; 130 interrupted"
)


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
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _demo(commands)
    _fit(commands)
    _minimize(commands)
    _release(commands)
    _effect(commands)
    _instruments(commands)
    _quantiles(commands)
    _table(commands)
    _run(commands)
    _plan(commands)
    _explain(commands)
    _ledger(commands)
    _verify(commands)
    _schema(commands)
    _audit(commands)
    _completion(commands)
    return parser


def _add(commands: Commands, name: str, purpose: str, more: str = "") -> argparse.ArgumentParser:
    description = f"{purpose[0].upper()}{purpose[1:]}. {more}".strip()
    return commands.add_parser(name, help=purpose, description=description, epilog=EXIT_CODES)


def _budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("budget (give one)")
    group.add_argument("--mu", type=float, help="total, mu of Gaussian differential privacy")
    group.add_argument("--rho", type=float, help="total, rho of zero-concentrated DP")
    group.add_argument("--epsilon", type=float, help="total epsilon, with --delta")
    group.add_argument("--delta", type=float, help="total delta, with --epsilon")


def _demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="private wage regression on embedded census microdata",
        description="Fit the Mincer wage equation to 29,501 persons of the 2000 US Census, "
        "privately, and print it beside the non-private fit.",
    )
    demo.add_argument(
        "--mu",
        type=float,
        default=1.0,
        help="total privacy budget, mu of Gaussian differential privacy (default: 1)",
    )
    demo.add_argument(
        "--seed",
        type=int,
        help="simulate with this seed instead of operating-system entropy: reproducible, and "
        "without any privacy guarantee",
    )
    demo.add_argument("--no-plot", action="store_true", help="do not write demo-census2000.png")


def _fit(commands: Commands) -> None:
    fit = _add(
        commands,
        "fit",
        "fit a private regression to a file",
        "Prints the released coefficients with intervals. Without --schema the named columns are "
        "read as numbers, and where they lie and how much they vary is bought inside the total; "
        "with one, its public facts are used (dpfast schema draft helps to write one).",
    )
    _source(fit, schema=False)
    fit.add_argument("--formula", help="such as 'log_wage ~ education + I(experience**2)'")
    fit.add_argument("--response", help="instead of a formula: the response column ...")
    fit.add_argument("--covariates", help="... and a comma-separated list of the others")
    fit.add_argument(
        "--loss",
        default="log-cosh",
        help="loss, least-squares, quantile or poisson (default: log-cosh)",
    )
    _loss_settings(fit)
    fit.add_argument("--scale", type=float, help="public residual scale, in the response's units")
    fit.add_argument(
        "--radius",
        type=float,
        help="radius of the Mallows weights, of coded columns (default sqrt p)",
    )
    fit.add_argument(
        "--ridge", type=float, default=0.0, help="public ridge penalty, of coded coefficients"
    )
    fit.add_argument("--sample-weight", help="a column of private weights; with --largest-weight")
    fit.add_argument("--largest-weight", type=float, help="public: weights are held to it")
    fit.add_argument("--offset", help="a column added to the predictor, in the response's units")
    fit.add_argument("--group", help="a column that says whose each row is: persons are protected")
    fit.add_argument(
        "--each",
        default="row",
        help="with --group: 'person' counts each once, with the mean of any number of rows ...",
    )
    fit.add_argument("--group-size", type=int, help="... or 'row' (default): at most so many rows")
    fit.add_argument("--method", default="auto", help="optimiser (default: auto)")
    fit.add_argument("--steps", type=int, help="number of steps of --method newton and others")
    fit.add_argument("--no-inference", action="store_true", help="estimates only, no intervals")
    fit.add_argument("--level", type=float, default=0.95, help="of the intervals (default .95)")
    _spending(fit)


def _loss_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tau", type=float, help="level of --loss quantile (default .5)")
    parser.add_argument(
        "--bandwidth",
        type=float,
        help="of --loss quantile, in residual scales (default: from n, p and the budget)",
    )
    parser.add_argument(
        "--largest-mean", type=float, help="of --loss poisson: no mean above it is modelled"
    )
    parser.add_argument(
        "--largest-residual", type=float, help="of --loss poisson: where count less mean is clipped"
    )
    parser.add_argument(
        "--largest-count", type=float, help="of --loss poisson, in place of --largest-residual"
    )


def _source(parser: argparse.ArgumentParser, *, schema: bool = True) -> None:
    parser.add_argument("data", help=".csv, .csv.gz, .parquet, .feather or .npz")
    optional = "" if schema else " (default: buy what is not declared)"
    parser.add_argument("--schema", required=schema, help=f"TOML file of public facts{optional}")
    parser.add_argument(
        "--delimiter", help="of a CSV file, 'tab' for a tab (default: found in its first row)"
    )


def _design(parser: argparse.ArgumentParser, loss: str) -> None:
    _source(parser)
    parser.add_argument("--response", required=True, help="the response column")
    parser.add_argument("--covariates", help="comma-separated columns (default: the others)")
    parser.add_argument("--loss", default=loss, help=f"loss (default: {loss})")
    _loss_settings(parser)
    parser.add_argument(
        "--scale", type=float, help="public residual scale, in the response's units"
    )
    parser.add_argument(
        "--ridge", type=float, default=0.0, help="public ridge penalty, of coded coefficients"
    )


def _spending(parser: argparse.ArgumentParser) -> None:
    _budget(parser)
    parser.add_argument("--ledger", help="budget file shared by analyses; see dpfast ledger")
    parser.add_argument("--out", help="write the released result as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--seed", type=int, help="simulation: reproducible, and NOT private")


def _minimize(commands: Commands) -> None:
    minimize = _add(
        commands,
        "minimize",
        "minimise a loss that need not be convex",
        "Estimates without intervals, such as those of the Tukey loss.",
    )
    _design(minimize, "tukey")
    minimize.add_argument("--radius", type=float, help="radius of the Mallows weights")
    minimize.add_argument("--method", default="auto", help="optimiser (default: auto)")
    minimize.add_argument("--select", default="last", help="which point is the answer")
    _spending(minimize)


def _release(commands: Commands) -> None:
    release = _add(
        commands,
        "release",
        "release single coefficients, or all with the noise that a certificate allows",
        "Takes --epsilon with --delta. The declared ranges are the domain of the rows.",
    )
    _design(release, "log-cosh")
    release.add_argument("--directions", help="names of coefficients (default: all, as a vector)")
    release.add_argument("--method", default="auto", help="of --directions (default: auto)")
    release.add_argument("--certificate", help="what is certified (default: global for all)")
    release.add_argument("--fallback", help="what to do if nothing can be certified")
    release.add_argument("--level", type=float, default=0.95, help="of the intervals (default .95)")
    _spending(release)


def _effect(commands: Commands) -> None:
    effect = _add(
        commands,
        "effect",
        "estimate the average effect of a treatment",
        "Prints the released effect with its interval. Without --schema the named columns are read "
        "as numbers, and their units are bought inside the total.",
    )
    _source(effect, schema=False)
    effect.add_argument(
        "--treatment", required=True, help="a column of 0 and 1, or COLUMN=LABEL of the treated"
    )
    effect.add_argument("--response", required=True, help="the outcome's column")
    effect.add_argument(
        "--covariates", help="comma-separated columns, known before (default: the schema's others)"
    )
    effect.add_argument("--method", default="aipw", help="aipw, regression or difference")
    effect.add_argument(
        "--overlap", type=float, default=0.05, help="propensities are held away from 0 and 1 by it"
    )
    effect.add_argument("--clip", type=float, help="bound on deviations (default: bought)")
    effect.add_argument("--level", type=float, default=0.95, help="of the interval (default .95)")
    _spending(effect)


def _instruments(commands: Commands) -> None:
    instruments = _add(
        commands,
        "instruments",
        "two-stage least squares with instruments",
        "The formula's columns are read as numbers, and their units are bought inside the total.",
    )
    instruments.add_argument("data", help=".csv, .csv.gz, .parquet, .feather or .npz")
    instruments.add_argument(
        "--delimiter", help="of a CSV file, 'tab' for a tab (default: found in its first row)"
    )
    instruments.add_argument("--formula", required=True, help="'y ~ x + w | z + w'")
    instruments.add_argument("--level", type=float, default=0.95, help="of the intervals")
    _spending(instruments)


def _quantiles(commands: Commands) -> None:
    quantiles = _add(
        commands, "quantiles", "private quantiles of a column, within its declared range"
    )
    _source(quantiles)
    quantiles.add_argument("--column", required=True, help="a numeric column of the schema")
    quantiles.add_argument("--probabilities", default="0.25,0.5,0.75", help="separated by commas")
    _spending(quantiles)


def _table(commands: Commands) -> None:
    table = _add(
        commands,
        "table",
        "private counts, means, quantiles or fits by declared groupings",
        "Groupings are categorical or binary columns of the schema; every declared level is a row.",
    )
    _source(table)
    table.add_argument("--by", default="", help="one or two groupings (default: all records)")
    table.add_argument("--means", help="comma-separated columns (default: counts)")
    table.add_argument("--quantiles", help="a numeric column")
    table.add_argument("--probabilities", default="0.5", help="of --quantiles (default: 0.5)")
    table.add_argument("--formula", help="fit this regression in each level, and test equality")
    table.add_argument("--loss", default="least-squares", help="of --formula (default: OLS)")
    table.add_argument(
        "--least", type=float, default=0.0, help="cells with fewer records are not told"
    )
    table.add_argument("--level", type=float, default=0.95, help="of the intervals (default .95)")
    _spending(table)


def _run(commands: Commands) -> None:
    run = _add(
        commands,
        "run",
        "answer a request of a study, a small JSON document",
        'Such as {"analysis": "fit", "formula": "y ~ x", "share": 0.2}: a share of the total of '
        "the ledger. The same request is paid for once.",
    )
    run.add_argument("request", help="a file of JSON")
    run.add_argument("--data", help=".csv, .csv.gz, .parquet, .feather or .npz")
    run.add_argument("--schema", help="TOML file of public facts")
    run.add_argument("--ledger", required=True, help="budget file; see dpfast ledger")
    run.add_argument("--n", type=int, help="number of records, public; widths follow from it")
    run.add_argument("--like", help="a PUBLIC file like the data, for expected widths")
    run.add_argument("--quote", action="store_true", help="say what it costs; reads no data")
    run.add_argument("--out", help="write the answer as JSON")
    run.add_argument("--json", action="store_true", help="print JSON instead of the table")
    run.add_argument("--seed", type=int, help="simulation: reproducible, and NOT private")


def _completion(commands: Commands) -> None:
    completion = _add(
        commands, "completion", "print a script that completes commands and options in a shell",
        'Put eval "$(dpfast completion bash)" into the start-up file of your shell.',
    )  # fmt: skip
    completion.add_argument("shell", choices=["bash", "zsh"])


def _plan(commands: Commands) -> None:
    plan = _add(
        commands,
        "plan",
        "forecast interval width, budget or number of records",
        "Give two of --n, --mu and --width. Touches no data.",
    )
    plan.add_argument("--n", type=int, help="number of records")
    plan.add_argument("--p", type=int, required=True, help="coefficients, the intercept included")
    plan.add_argument("--width", type=float, help="width of the widest slope's interval")
    plan.add_argument("--mu", type=float, help="total budget, mu of Gaussian DP")
    plan.add_argument("--loss", default="log-cosh", help="loss (default: log-cosh)")
    _loss_settings(plan)
    plan.add_argument("--scale", type=float, help="public residual scale")
    plan.add_argument("--radius", type=float, help="radius of the Mallows weights")
    plan.add_argument("--rate", type=float, default=0.5, help="share of ones (logistic)")
    plan.add_argument("--level", type=float, default=0.95, help="of the intervals (default .95)")
    plan.add_argument("--plot", metavar="PNG", help="draw width against mu and n")
    plan.add_argument("--json", action="store_true", help="print JSON")


def _explain(commands: Commands) -> None:
    explain = _add(commands, "explain", "say in plain words what a budget promises")
    _budget(explain)
    explain.add_argument("--plot", metavar="PNG", help="draw the attacker's trade-off curve")


def _ledger(commands: Commands) -> None:
    ledger = _add(commands, "ledger", "create or show a budget that analyses share")
    actions = ledger.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = _add(actions, "create", "create a budget file")
    create.add_argument("file")
    _budget(create)
    show = _add(actions, "show", "show what was spent, on what, and what is left")
    show.add_argument("file")
    show.add_argument("--json", action="store_true", help="print JSON")


def _verify(commands: Commands) -> None:
    verify = _add(
        commands,
        "verify",
        "recompute the accounting of a page that Fit.report wrote",
        "Adds the charges in exact fractions, and makes conversions, intervals and the page anew.",
    )
    verify.add_argument("page", help="the page, such as fit.html")
    verify.add_argument("--json", action="store_true", help="print JSON")


def _schema(commands: Commands) -> None:
    schema = _add(commands, "schema", "help to write down public facts about a table")
    actions = schema.add_subparsers(dest="action", metavar="ACTION", required=True)
    draft = _add(
        actions,
        "draft",
        "draft a schema from a PUBLIC sample",
        "Never run it on the private data: every bound would leak.",
    )
    draft.add_argument("sample", help="a public file of the same layout (.csv, .parquet, .npz)")
    draft.add_argument("--delimiter", help="of a CSV file (default: found in its first row)")
    draft.add_argument("--out", help="write here instead of printing")


def _audit(commands: Commands) -> None:
    audit = _add(
        commands,
        "audit",
        "attack every public function of this installation",
        "Replays each on a pair of neighbouring synthetic data sets with the same noisy answers: "
        "whatever differs is a leak.",
    )
    audit.add_argument("--pairs", type=int, default=1, help="neighbouring pairs for each call")
    audit.add_argument("--only", metavar="TEXT", help="calls whose name contains this")
    audit.add_argument("--quick", action="store_true", help="one call of each function")
    audit.add_argument("--json", action="store_true", help="print JSON")
