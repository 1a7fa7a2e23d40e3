"""Paragraphs about a result, for a paper's methods and for an ethics board."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpfast.inference.composition import in_numbers
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import printable, span_of
from dpfast.inference.rendering.targets import target_of
from dpfast.inference.summary import are_normal, coded_of, origin_of
from dpfast.privacy.budget import GDP

if TYPE_CHECKING:
    from dpfast.inference.base import Result
    from dpfast.inference.results import Fit

#: Most names that a sentence lists.
MOST = 12

#: False-positive rate at which an attacker's power is stated.
ALARMS = 0.05


def for_paper(result: Any) -> str:
    """Describe a result for a paper, from its own numbers."""
    return _of_fit(result) if hasattr(result, "cov_params") else _of_table(result)


def _of_table(result: Result) -> str:
    """Describe what a table shows, its facts and its privacy."""
    table, version = result.summary().table, sys.modules["dpfast"].__version__
    facts = [f"{heading}: {said.rstrip('.')}." for heading, said in table.facts]
    said = [
        f"{table.title.removeprefix('dpfast: ').capitalize()}, with dpfast {version}.",
        *facts,
        _promise(result),
        *(f"Caution: {printable(warning)}" for warning in result.warnings),
    ]
    return " ".join(said)


def _of_fit(fit: Fit) -> str:
    """Describe estimand, privacy and intervals of a fit."""
    version = sys.modules["dpfast"].__version__
    said = [
        f"Coefficients were estimated with dpfast {version} from {fit.n_records} "
        f"{fit.privacy.counted.lower()}, of {_listed(fit.names)}.",
        f"Estimand: {target_of(fit.model, fit.method).rstrip('.')}.",
        _promise(fit),
    ]
    if scales := fit.released_units():
        columns = _listed([name for name, _ in scales])
        said.append(
            f"Centre and scale of {columns} were {origin_of(fit, 'the same budget')}; no bound "
            "on the data was assumed."
        )
    if coded := coded_of(fit):
        said.append(f"Units: {printable(coded)}.")
    if fit._covariance is None:
        said.append("No standard errors were estimated.")
    else:
        known = fit.degrees_of_freedom
        said.append(
            "Standard errors account for sampling and for the privacy noise; "
            + (
                "intervals are those of a normal distribution."
                if are_normal(known)
                else "as they were released with noise themselves, intervals are those of a t "
                f"distribution with {span_of(known)} degrees of freedom."
            )
        )
    said += [f"Caution: {printable(warning)}" for warning in fit.warnings]
    return " ".join(said)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names)) if len(names) <= MOST else f"{len(names)} columns"


def for_board(result: Result) -> str:
    """Describe the risk of a person in the data, from the numbers of a result."""
    privacy = result.privacy
    if not isinstance(privacy, Guarantee):
        return str(privacy) if privacy else "The numbers are public: no record was read."
    if privacy.total is None or not privacy.genuine:
        return (
            "These results carry no privacy guarantee: "
            + ("noise came from a seed." if privacy.total is not None else "no noise was added.")
            + " They must not be published if the records are confidential."
        )
    power = privacy.total.attack_power(ALARMS)
    return (
        f"The published numbers were computed from {privacy.n} {privacy.counted.lower()} by a "
        f"differentially private procedure ({privacy.guarantee}); random noise was added to every "
        "statistic before it left the data holder's machine, and no record, residual or fitted "
        "value is published. The "
        f"guarantee holds where {privacy.relation}. Suppose that somebody knows every record but "
        "one, and that this one is either of two candidates. From everything that is published, "
        f"that person recognises the right candidate in at most {100 * power:.3g}% of cases, if "
        f"wrong in {100 * ALARMS:g}% of them ({100 * ALARMS:g}% would be guessing), whatever else "
        "they know, however long they compute, now or later. "
        + _equivalent(result)
        + " The guarantee covers these results together; further analyses of the same records add "
        "to the risk, and a shared budget limits their sum. It does not cover the data holder, who "
        "sees the records."
    )


def _promise(result: Result) -> str:
    privacy = result.privacy
    if not isinstance(privacy, Guarantee):
        return str(privacy) if privacy else "No record was read."
    if privacy.total is None or not privacy.genuine:
        return "The results are not differentially private and were made for comparison."
    total = in_numbers(privacy.total, " = ")
    return (
        f"The results together satisfy {privacy.guarantee} with {total} ({privacy.relation}). "
        + _equivalent(result)
    )


def _equivalent(result: Result) -> str:
    total = result.privacy.total
    if not isinstance(total, GDP):
        return "The total includes all that was published of this result."
    delta = min(1e-6, 0.1 / result.privacy.n)
    return f"Equivalently, epsilon = {result.privacy.epsilon(delta):.3g} at delta = {delta:.1g}."
