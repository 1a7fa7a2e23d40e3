"""The table of a fit, in the layout statsmodels users know."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.errors import InvalidInput
from dpfast.inference.degrees import DEFAULT_LEVEL
from dpfast.inference.rendering.digits import by_error, printable, short_number, span_of
from dpfast.inference.rendering.table import Summary, Table
from dpfast.inference.rendering.targets import target_of

if TYPE_CHECKING:
    from dpfast.inference.results import Fit
    from dpfast.inference.rows import Coded

#: Degrees of freedom from which on a t distribution is shown as a normal.
NORMAL_FROM = 1000.0

#: How lines of a guarantee begin that state one charge.
SPENT = "  spent "

#: Characters of a method in a summary (two lines), and of centres and scales (one line). With
#: estimand, records and privacy that makes six lines; ``explain()`` has the rest.
METHOD_ROOM, SCALES_ROOM = 138, 61

#: Ends of estimands that need the name of the loss: which loss, or which quantile.
NAMED_BY_MODEL = " expected loss", "conditional quantile of the response"

UNESTIMATED = "No standard errors were estimated."


def summary_of(fit: Fit, level: float = DEFAULT_LEVEL) -> Summary:
    """Show the coefficients of a fit with intervals of this coverage, and state its privacy."""
    columns, cells = _numbers(fit, level)
    private = fit.privacy.total is not None
    title = "dpfast: private M-estimation" if private else "dpfast: NOT PRIVATE (comparison only)"
    remark = ""
    if fit._covariance is None:
        remark = "No standard errors: see below." if fit._missing else UNESTIMATED
    estimand = target_of(fit.model, fit.method)
    shortly = _first(estimand, ". ", "; ", ", ")
    if shortly.endswith(NAMED_BY_MODEL):
        shortly = f"{shortly.removesuffix(' of the response')}, {_first(fit.model, ', ')}"
    facts = [("Estimand", shortly), ("Records", str(fit.n_records))]
    details = [("Estimand", estimand), ("Model", fit.model)]
    method = _first(fit.method, ". ")
    facts.append(("Method", textwrap.shorten(method, METHOD_ROOM, placeholder=" ...")))
    details.append(("Method", fit.method))
    if scales := _scales(fit):
        whole = "; ".join(scales)
        shown = whole if len(whole) <= SCALES_ROOM else f"{len(scales)} columns, see fit.explain()"
        facts.append(("Centre and scale", shown))
        details.append(("Centre and scale", f"{whole} ({origin_of(fit)})"))
    if coded := coded_of(fit):
        facts.append(("Units", coded))
    if fit._covariance is not None and not are_normal(fit.degrees_of_freedom):
        details.append(("Intervals", _degrees(fit)))
    rows = zip(fit.names, cells, strict=True)
    pvalues = () if fit._covariance is None else of_first_cells(fit.pvalues)
    return render_table(
        title, facts, columns, rows, fit.privacy, fit.warnings, remark, details, pvalues
    )


def of_first_cells(pvalues: Any) -> tuple[tuple[float, ...], ...]:
    """Give each row's p value to its first cell, the estimate."""
    return tuple([(float(p),) for p in pvalues])


def render_table(
    title: str,
    facts: Iterable[tuple[str, str]],
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, tuple[str, ...]]],
    privacy: Any,
    warnings: Iterable[str] = (),
    remark: str = "",
    details: Iterable[tuple[str, str]] = (),
    pvalues: tuple[tuple[float, ...], ...] = (),
) -> Summary:
    """Build the summary of any result: rows by name, facts, privacy, warnings and details.

    ``details`` are facts that ``explain()`` adds, or has in place of those of the same heading.
    What the total promises and what it was spent on follow them.
    """
    labels, cells = list[str](), list[tuple[str, ...]]()
    for label, row in rows:
        labels.append(printable(label))
        cells.append(row)
    notes, rest = ((), []) if privacy is None else _privacy(privacy)
    facts = [
        (privacy.counted if privacy and heading == "Records" else heading, printable(said))
        for heading, said in facts
    ]
    return Summary(
        Table(
            title,
            tuple(facts),
            columns,
            tuple(labels),
            tuple(cells),
            remark,
            notes,
            tuple(map(printable, warnings)),
            (*_printable(details), *rest),
            pvalues,
        )
    )


def _privacy(privacy: Any) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Write the promise in a few lines, and in full with what the total was spent on."""
    promise = [printable(line) for line in str(privacy).splitlines()]
    spent = [("Spent", line.removeprefix(SPENT)) for line in promise if line.startswith(SPENT)]
    rest = [
        ("Promise", line.strip().removeprefix("Privacy: "))
        for line in promise
        if not line.startswith(SPENT)
    ]
    notes = f"Privacy: {privacy.in_one_line}", *privacy.conditions
    return tuple(map(printable, notes)), [*rest, *spent]


def _printable(facts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple([(heading, printable(said)) for heading, said in facts])


def _first(text: str, *ends: str) -> str:
    """Cut the text at the first of these ends outside parentheses."""
    depths = accumulate((char == "(") - (char == ")") for char in text)
    cuts = (i for i, depth in enumerate(depths) if not depth and text.startswith(ends, i))
    return text[: next(cuts, len(text))].rstrip(".")


def cells_of(fit: Any, level: float) -> tuple[tuple[str, ...], ...]:
    """Format a row of cells for each coefficient, with its error and interval."""
    columns = (fit.params, fit.bse, fit.zvalues, fit.pvalues, *fit.conf_int(level).T)
    return tuple([row_of(*map(float, row)) for row in zip(*columns, strict=True)])


def headings(level: float, estimate: str = "coef", known: Any = None) -> tuple[str, ...]:
    """Name the columns; with few degrees of freedom the ratio of estimate and error is called t."""
    ratio = "z" if known is None or are_normal(known) else "t"
    return (estimate, "std err", ratio, f"P>|{ratio}|", *end_headings(level))


def end_headings(level: float) -> tuple[str, str]:
    """Name the columns of an interval's ends."""
    tail = (1.0 - level) / 2.0
    return f"[{tail:.4g}", f"{1.0 - tail:.4g}]"


def are_normal(known: Any) -> bool:
    """Return whether all intervals are normal to the digits that are shown."""
    return bool(min(map(float, known), default=NORMAL_FROM) >= NORMAL_FROM)


def row_of(
    value: float, error: float, z: float, p: float, low: float, high: float
) -> tuple[str, ...]:
    """Format an estimate with the decimals that its error leaves."""
    estimate, width, lower, upper = by_error([value, error, low, high], error)
    ratio = f"{z:.3f}"
    ratio = ratio if len(ratio) <= 9 else short_number(z, 9)
    return estimate, width, ratio, "<0.001" if p < 0.001 else f"{p:.3f}", lower, upper


def _numbers(fit: Fit, level: float) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if fit._covariance is None:
        return ("coef",), tuple([(short_number(value),) for value in fit.params])
    return headings(level, known=fit.degrees_of_freedom), cells_of(fit, level)


def _degrees(fit: Fit) -> str:
    """Say which t distribution intervals have."""
    span = span_of(fit.degrees_of_freedom)
    return f"of a t distribution with {span} degrees of freedom: standard errors have noise, too"


def _scaled(coding: Coded) -> bool:
    """Return whether covariates are in other units than those of the table."""
    try:
        constant, matrix = coding.natural_units()
    except InvalidInput:  # products and functions of scaled columns
        return True
    return bool(constant.any() or (matrix != np.eye(len(matrix))).any())


def _scales(fit: Fit) -> list[str]:
    """Centre and scale of each column that the fit estimated, as text."""
    scales = fit.released_units()
    return [f"{name} {centre:.4g}, {scale:.4g}" for name, (centre, scale) in scales]


def origin_of(fit: Fit, budget: str = "the budget") -> str:
    """Say where the centres and scales of a fit are from."""
    coding = fit.coded.coding
    return (coding and coding.origin) or f"estimated with part of {budget}"


def coded_of(fit: Fit) -> str:
    """Say in which units coefficients are; empty if these are the columns' own."""
    if fit.released_units() or fit.coding is None:
        return ""
    location, spread = fit.coding.response_units()
    if (location, spread) == (0.0, 1.0):
        if not _scaled(fit.coding):
            return ""
        return "columns are coded as declared, (x - centre) / unit; fit.natural has original units"
    scale = ", but the scale is in original ones" if fit._free_scale else ""
    return (
        f"coded as declared, ({fit.coding.response} - {location:g}) / {spread:g}{scale}; "
        "fit.natural has original units"
    )
