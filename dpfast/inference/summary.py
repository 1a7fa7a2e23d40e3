"""The table of a fit, in the layout statsmodels users know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.errors import InvalidInput
from dpfast.inference.degrees import DEFAULT_LEVEL
from dpfast.inference.rendering.digits import by_error, printable, short_number, span_of
from dpfast.inference.rendering.table import Summary, Table
from dpfast.inference.rendering.targets import target_of

if TYPE_CHECKING:
    from dpfast.inference.guarantees import Guarantee
    from dpfast.inference.results import Fit
    from dpfast.inference.rows import Coded

#: Degrees of freedom from which on a t distribution is shown as a normal.
FEW = 1000.0

#: Facts that only some readers ask for, and how lines of a guarantee begin that are of a part.
FOLDED, SPENT = ("Model", "Method", "Bought"), "  spent "

#: What a table of coded units ends with.
NATURAL = "; of columns as they came is fit.natural"

UNBOUGHT = "No standard errors were bought."


def summary_of(fit: Fit, level: float = DEFAULT_LEVEL) -> Summary:
    """The coefficients of ``fit`` with what they cost, and intervals of this coverage."""
    columns, cells = _numbers(fit, level)
    private = fit.privacy.total is not None
    facts = [("Target", target_of(fit.model, fit.method)), ("Records", str(fit.n_records))]
    told = ("Bought", _bought(fit)), ("Coded", coded_of(fit))
    facts += [fact for fact in told if fact[1]] + [("Model", fit.model), ("Method", fit.method)]
    if fit._covariance is not None and not are_normal(fit.degrees_of_freedom):
        facts.append(("Degrees", _degrees(fit)))
    remark = ""
    if fit._covariance is None:
        remark = "No standard errors: see below." if fit._missing else UNBOUGHT
    title = "dpfast: private M-estimation" if private else "dpfast: NOT PRIVATE (comparison only)"
    return render_table(
        title, facts, columns, zip(fit.names, cells, strict=True), fit.privacy, fit.warnings, remark
    )


def render_table(
    title: str,
    facts: Iterable[tuple[str, str]],
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, tuple[str, ...]]],
    privacy: Guarantee,
    warnings: Iterable[str] = (),
    remark: str = "",
) -> Summary:
    """A table of what was released: rows by name, what they cost, and all of it on lines."""
    labels, cells = list[str](), list[tuple[str, ...]]()
    told = [(heading, printable(said)) for heading, said in facts]
    lines = [printable(line) for line in str(privacy).splitlines()]
    paid = [("Spent", line.removeprefix(SPENT)) for line in lines if line.startswith(SPENT)]
    for label, row in rows:
        labels.append(printable(label))
        cells.append(row)
    return Summary(
        Table(
            title,
            tuple([fact for fact in told if fact[0] not in FOLDED]),
            columns,
            tuple(labels),
            tuple(cells),
            remark,
            tuple([line for line in lines if not line.startswith(SPENT)]),
            tuple(map(printable, warnings)),
            (*[fact for fact in told if fact[0] in FOLDED], *paid),
        )
    )


def cells_of(fit: Any, level: float) -> tuple[tuple[str, ...], ...]:
    """A row of cells for each coefficient of whatever has estimates, errors and intervals."""
    columns = (fit.params, fit.bse, fit.zvalues, fit.pvalues, *fit.conf_int(level).T)
    return tuple([row_of(*map(float, row)) for row in zip(*columns, strict=True)])


def headings(level: float, estimate: str = "coef", known: Any = None) -> tuple[str, ...]:
    """Headings of columns with errors: with few degrees of freedom the ratio is called t."""
    tail = (1.0 - level) / 2.0
    ratio = "z" if known is None or are_normal(known) else "t"
    return (estimate, "std err", ratio, f"P>|{ratio}|", f"[{tail:.4g}", f"{1.0 - tail:.4g}]")


def are_normal(known: Any) -> bool:
    """Whether all intervals are those of a normal, to the digits that are shown."""
    return bool(min(map(float, known), default=FEW) >= FEW)


def row_of(
    value: float, error: float, z: float, p: float, low: float, high: float
) -> tuple[str, ...]:
    """Cells of an estimate, with the decimals that its error leaves."""
    estimate, width, lower, upper = by_error([value, error, low, high], error)
    ratio = f"{z:.3f}"
    ratio = ratio if len(ratio) <= 9 else short_number(z, 9)
    return estimate, width, ratio, "<0.001" if p < 0.001 else f"{p:.3f}", lower, upper


def _numbers(fit: Fit, level: float) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if fit._covariance is None:
        return ("coef",), tuple([(short_number(value),) for value in fit.params])
    return headings(level, known=fit.degrees_of_freedom), cells_of(fit, level)


def _degrees(fit: Fit) -> str:
    """Of freedom of the intervals, the fewest and the most."""
    span = span_of(fit.degrees_of_freedom)
    return f"of freedom of t: {span}, as each standard error was released with noise"


def _scaled(coding: Coded) -> bool:
    """Whether covariates are in other units than those of the table."""
    try:
        constant, matrix = coding.natural_units()
    except InvalidInput:  # products and functions of scaled columns
        return True
    return bool(constant.any() or (matrix != np.eye(len(matrix))).any())


def _bought(fit: Fit) -> str:
    """Where columns lie and their units, if these were bought."""
    pairs = fit.released_units()
    units = "; ".join(f"{name}: {centre:.4g}, {unit:.4g}" for name, (centre, unit) in pairs)
    return units and f"where columns lie, and their unit: {units}"


def coded_of(fit: Fit) -> str:
    """How columns were coded in whose units coefficients are; empty if they came so."""
    if fit.released_units() or fit.coding is None:
        return ""
    location, spread = fit.coding.response_units()
    if (location, spread) == (0.0, 1.0):
        told = "columns are coded (x - centre) / unit, as declared; coefficients are in these units"
        return told + NATURAL if _scaled(fit.coding) else ""
    own = "; the scale below is in the response's own" if fit._free_scale else ""
    return (
        f"({fit.coding.response} - {location:g}) / {spread:g}; coefficients and the model's "
        f"constants are in these units{own}{NATURAL}"
    )
