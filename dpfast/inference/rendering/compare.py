"""Comparison of fits side by side, with their privacy cost together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dpfast.arguments import text_names
from dpfast.errors import DpfastError, InvalidInput, described, understood
from dpfast.inference.composition import in_numbers
from dpfast.inference.guarantees import statement
from dpfast.inference.rendering.digits import by_error, printable, short_number
from dpfast.inference.rendering.table import Summary, Table
from dpfast.inference.results import Fit
from dpfast.inference.summary import coded_of
from dpfast.privacy.budget import GDP, ApproxDP, Budget, PureDP
from dpfast.privacy.ledger import Entry, Ledger

#: Rows below the coefficients, and below what n counts.
PAID, EPSILON = "Privacy paid", "epsilon at delta = 1e-6"


class Comparison(Summary):
    """Fits side by side: a string, with the other forms of a :class:`Summary`.

    Attributes
    ----------
    together : Budget or None
        Cost of all of them, if the records are the same; None where no sum is known.

    Privacy
    -------
    Made of released and public numbers: costs nothing.
    """

    together: Budget | None = None


@understood
def compare(
    *fits: Fit | Sequence[Fit] | Mapping[str, Fit],
    names: Sequence[str] | None = None,
    ledger: Ledger | None = None,
) -> Comparison:
    """Compare coefficients of several fits in one table, with the privacy cost of each.

    Parameters
    ----------
    *fits : Fit
        A column for each; a row for each name that occurs in any.  Or one list of fits, or one
        mapping of names to fits.
    names : sequence of str, optional
        Headings of the columns; by default (1), (2) and so on.
    ledger : Ledger, optional
        The ledger that paid for all of them: its charges are looked up, and the rest is stated.

    Privacy
    -------
    Costs nothing: it shows released numbers.  Fits of the same records cost their sum.  The sum is
    a promise if the budgets were fixed in advance, or came from one ledger (claim C9).

    Examples
    --------
    >>> X, y = np.linspace(-1.0, 1.0, 400)[:, None], np.linspace(-0.5, 0.5, 400)
    >>> budget = dpfast.Ledger(1.0)
    >>> one = dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0), privacy=0.6, ledger=budget)
    >>> two = dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=0.6, ledger=budget)
    >>> shown = str(dpfast.compare(one, two, names=["huber", "log-cosh"], ledger=budget))
    >>> "Together: 0.848528-GDP of the ledger's 1-GDP, which has 0.52915-GDP left" in shown
    True
    """
    if len(fits) == 1 and isinstance(fits[0], Mapping):
        names = list(fits[0]) if names is None else names
        fits = tuple(fits[0].values())
    elif len(fits) == 1 and isinstance(fits[0], list | tuple):
        fits = tuple(fits[0])
    return _compared(fits, names, ledger)


def _compared(fits: Any, names: Sequence[str] | None, ledger: Ledger | None) -> Comparison:
    for fit in fits:
        if not isinstance(fit, Fit):
            raise InvalidInput(f"compare takes fits; received {described(fit)}.")
    if not fits:
        raise InvalidInput("pass the fits to compare, as in dpfast.compare(first, second).")
    if names is None:
        columns = tuple([f"({k + 1})" for k in range(len(fits))])
    else:
        columns = tuple(map(printable, text_names(names, len(fits), "fit")))
    if ledger is None:
        together, sentence = _sum(fits)
    else:
        together, sentence = _sum_of_charges(fits, columns, ledger)
    labels = list(dict.fromkeys(name for fit in fits for name in fit.names))
    body = [tuple([_cell(fit, name) for fit in fits]) for name in labels]
    body += [
        tuple([str(fit.n_records) for fit in fits]),
        tuple([_paid(fit) for fit in fits]),
        tuple([short_number(fit.privacy.epsilon(1e-6)) for fit in fits]),
    ]
    counted = " or ".join(sorted({fit.privacy.counted for fit in fits}))
    pairs = list(zip(columns, fits, strict=True))
    table = Table(
        "dpfast: fits side by side",
        tuple(
            [
                (name, f"units: {printable(coded)}")
                for name, fit in pairs
                if (coded := coded_of(fit))
            ]
        ),
        columns,
        (*map(printable, labels), counted, PAID, EPSILON),
        tuple(body),
        "Standard errors, privacy noise included, in parentheses.",
        (*[f"{name}: {_promise(fit)}" for name, fit in pairs], sentence),
        tuple([printable(f"{name}: {remark}") for name, fit in pairs for remark in fit.warnings]),
        tuple([(name, printable(f"{fit.model}; {fit.method}")) for name, fit in pairs]),
        tuple([tuple([_pvalue(fit, name) for fit in fits]) for name in labels]),
    )
    comparison = Comparison(table)
    comparison.together = together
    return comparison


def _cell(fit: Fit, name: str) -> str:
    if name not in fit.names:
        return ""
    k = fit.names.index(name)
    if fit._covariance is None:
        return short_number(float(fit.params[k]))
    error = float(fit.bse[k])
    estimate, width = by_error([float(fit.params[k]), error], error)
    return f"{estimate} ({width})"


def _pvalue(fit: Fit, name: str) -> float:
    known = name in fit.names and fit._covariance is not None
    return float(fit.pvalues[fit.names.index(name)]) if known else math.nan


def _paid(fit: Fit) -> str:
    total = fit.privacy.total
    if total is None:
        return "not private"
    return in_numbers(total)


def _promise(fit: Fit) -> str:
    if fit.privacy.total is None:
        return "not private; could not be published"
    return ". ".join([fit.privacy.in_one_line, *fit.privacy.conditions])


def _sum(fits: Sequence[Fit]) -> tuple[Budget | None, str]:
    """Add up the cost of fits of the same records by a ledger's arithmetic, rounded up."""
    guarantees = [fit.privacy for fit in fits]
    if any(guarantee.total is None for guarantee in guarantees):
        return None, "Together: no promise, as not all of them are private"
    if len({guarantee.relation for guarantee in guarantees}) > 1:
        return None, "Together: no sum, as their neighbouring relations differ"
    totals: list[Any] = [guarantee.total for guarantee in guarantees]
    for kind in (GDP, ApproxDP):
        spends = totals
        if kind is GDP:
            spends = [
                GDP(guarantee.mu) if 0.0 < guarantee.mu < 100.0 else None
                for guarantee in guarantees
            ]
        elif not all(isinstance(total, ApproxDP | PureDP) for total in totals):
            continue
        with suppress(DpfastError):
            joint = Ledger(GDP(1000.0) if kind is GDP else ApproxDP(1000.0, 0.999))
            for spend in spends:
                joint.charge(spend, "a fit")
            return joint.spent, (
                f"Together: {statement(joint.spent)}, if they are of the same records and their "
                "budgets were fixed in advance or came from one ledger"
            )
    return None, "Together: no sum is known in one currency"


def _sum_of_charges(fits: Sequence[Fit], columns: Sequence[str], ledger: Any) -> tuple[Budget, str]:
    if not isinstance(ledger, Ledger):
        raise InvalidInput(f"ledger must be a dpfast.Ledger or None; received {described(ledger)}.")
    unmatched = list(ledger.entries)
    spent = Ledger(ledger.total)
    for name, fit in zip(columns, fits, strict=True):
        entry = next((entry for entry in unmatched if _pays(entry, fit)), None)
        if entry is None:
            raise InvalidInput(
                f"the ledger has no charge that pays for fit {name}. Pass the one it was given, or "
                "none."
            )
        unmatched.remove(entry)
        spent.charge(entry.paid, name)
    return spent.spent, (
        f"Together: {statement(spent.spent)} of the ledger's {statement(ledger.total)}, which has "
        f"{statement(ledger.remaining)} left"
    )


def _pays(entry: Entry, fit: Fit) -> bool:
    """Return whether a charge is of a fit's total, or of the pair that it came from."""
    if entry.spend == fit.privacy.total:
        return True
    with suppress(DpfastError):
        return GDP.within(entry.spend) == fit.privacy.total
    return False
