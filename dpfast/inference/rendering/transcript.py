"""Transcript of a fit's public numbers, and the checks that recompute a page from it."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.inference.claims import stated
from dpfast.inference.composition import (
    Composition,
    Rows,
    adds_up as composition_adds_up,
    amounts,
    charges,
    composed,
    cost,
    totalled,
)
from dpfast.inference.degrees import t_intervals, t_pvalues
from dpfast.inference.guarantees import Guarantee, is_stated
from dpfast.inference.rendering.targets import target_of
from dpfast.inference.rendering.wording import (
    FORMAT,
    WORDINGS,
)
from dpfast.inference.summary import coded_of, headings, row_of
from dpfast.privacy.budget import GDP, ZCDP, Budget

if TYPE_CHECKING:
    from dpfast.inference.results import Fit

BEGIN, END = '<script type="application/json" id="transcript">', "</script>"

#: A question about a page, in words, and the check that answers it.
Question = tuple[str, Callable[[dict[str, Any], str], bool]]


def transcript(fit: Fit, level: float) -> dict[str, Any]:
    """Collect everything on a page as plain content; numbers that are not finite as text."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": str(sys.modules["dpfast"].__version__),  # the package may not be imported here
        "names": list(fit.names),
        "n_records": fit.n_records,
        "model": fit.model,
        "method": fit.method,
        "target": target_of(fit.model, fit.method),
        "params": _plain(fit.params),
        **promised(fit.privacy),
        "warnings": list(fit.warnings),
        "free_scale": fit._free_scale,
        "level": level,
    }
    if coded := coded_of(fit):
        content["coded"] = coded
    if fit._covariance is not None:
        content["bse"] = _plain(fit.bse)
        content["degrees_of_freedom"] = _plain(fit.degrees_of_freedom)
    return content


def promised(privacy: Guarantee) -> dict[str, Any]:
    """Collect a guarantee in numbers and in words."""
    pairs = [] if privacy.total is None else privacy.equivalents()
    return {
        "privacy": privacy.to_dict() | {"genuine": privacy.genuine},
        "statement": str(privacy),
        "in_words": privacy.explain(),
        "equivalents": [_plain(np.array(pair)) for pair in pairs],
        **({} if privacy.total is None else {"claims": privacy.claims().chain}),
    }


def _plain(numbers: Any) -> list[Any]:
    return [value if math.isfinite(value) else str(value) for value in numbers.tolist()]


def written(content: dict[str, Any]) -> str:
    """Write the transcript as JSON without signs that could end its element of HTML."""
    text = json.dumps(content, sort_keys=True, indent=1)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def digest(content: dict[str, Any]) -> str:
    """Compute the SHA-256 of the text of a transcript, in hexadecimal."""
    return hashlib.sha256(written(content).encode()).hexdigest()


# ---- what follows from it ------------------------------------------------------------------------


def numbers(content: dict[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], Any]:
    """Compute headings, cells and interval ends of the table from the transcript alone."""
    params = np.array([float(value) for value in content["params"]])
    if "bse" not in content:
        from dpfast.inference.rendering.digits import short_number

        return ("coef",), tuple([(short_number(value),) for value in params]), None
    bse = np.array([float(value) for value in content["bse"]])
    known = np.array([float(value) for value in content["degrees_of_freedom"]])
    with np.errstate(all="ignore"):
        z = params / bse
        ends = t_intervals(content["level"], params, bse, known, content["free_scale"])
    columns = (params, bse, z, t_pvalues(z, known), *ends.T)
    rows = tuple([row_of(*row) for row in zip(*columns, strict=True)])
    return headings(content["level"], known=known), rows, ends


def adds_up(content: dict[str, Any], text: str) -> bool:
    privacy = content["privacy"]
    if privacy["total"] is None:
        return privacy["composition"] is None
    total, composition = totalled(privacy["total"]), composed(privacy["composition"])
    return composition_adds_up(total, composition) and _was_unused(privacy, total, composition)


def _returned(privacy: dict[str, Any]) -> GDP | None:
    """Read what was returned of a total, if anything."""
    if "returned" not in privacy:
        return None
    returned = totalled(privacy["returned"])
    if not isinstance(returned, GDP):
        raise ValueError("a mu is returned")
    return returned


def _was_unused(privacy: dict[str, Any], total: Budget, composition: Composition) -> bool:
    """Check exactly that what was charged and what was returned are together within the total."""
    returned = _returned(privacy)
    if returned is None:
        return True
    (used,), (limit,), (unused,) = (
        cost(composition, GDP), amounts(total, GDP), amounts(returned, GDP),
    )  # fmt: skip
    return 0 < unused <= limit - used


def entries_are_the_sum(content: dict[str, Any], text: str) -> bool:
    """Check that the list of charges and the expression have the same sum, up to rounding."""
    privacy = content["privacy"]
    if privacy["total"] is None:
        return not privacy["entries"]
    total, whole = totalled(privacy["total"]), composed(privacy["composition"])
    in_mu = privacy["entries_unit"] == "mu"
    spent = cost(whole, GDP if in_mu else type(total))[0]
    power = 2 if in_mu else 1
    listed = sum((_amount(spend) ** power for _, spend in privacy["entries"]), Fraction(0))
    return abs(spent - listed) <= listed / 10**9


def _amount(spend: Any) -> Fraction:
    """Read a charge that is a number; the text 1e999999999 would take days to convert."""
    if type(spend) not in (int, float) or spend < 0:
        raise ValueError("charges are numbers of at least 0")
    return Fraction(spend)


def _in_mu(total: Budget, composition: Composition, mu: float | None) -> bool:
    """Check that a total implies this mu: only if every charge is Gaussian (claim K4)."""
    if isinstance(total, GDP):
        return mu == total.mu
    if mu is None:
        return True
    gaussian = all(isinstance(spend, GDP) for spend in charges(composition))
    return isinstance(total, ZCDP) and gaussian and _amount(mu) ** 2 >= 2 * Fraction(total.rho)


def promise(content: dict[str, Any], text: str) -> bool:
    """Check conversions and words by recomputing them from the total."""
    privacy = content["privacy"]
    total = None if privacy["total"] is None else totalled(privacy["total"])
    expression = None if total is None else composed(privacy["composition"])
    recomputed = _guarantee(privacy, total, expression)
    if total is not None and expression is not None:
        if not _in_mu(total, expression, privacy["mu"]) or not is_stated(
            recomputed.relation, expression
        ):
            return False
        # what n counts: persons where the charges are of their rows
        if content["n_records"] != recomputed.n and not isinstance(expression, Rows):
            return False
    pairs = [] if total is None else [_plain(np.array(pair)) for pair in recomputed.equivalents()]
    purposes = WORDINGS[content["format"]].purposes
    same = recomputed.as_text(purposes) == content["statement"] and pairs == content["equivalents"]
    same = same and privacy["genuine"] in (True, False)
    return (
        same
        and recomputed.guarantee == privacy["guarantee"]
        and recomputed.explain() == content["in_words"]
    )


def claims_follow(content: dict[str, Any], text: str) -> bool:
    """Check that the claims are those behind the charges, where the page names some.

    A page of another version may name claims of its own: they have to exist.
    """
    if "claims" not in content or content["privacy"]["total"] is None:
        return "claims" not in content
    privacy = content["privacy"]
    expression = composed(privacy["composition"])
    tree = _guarantee(privacy, totalled(privacy["total"]), expression).claims()
    if content.get("version", "") == str(sys.modules["dpfast"].__version__):
        return bool(content["claims"] == tree.chain)
    return set(re.findall(r"\b[A-Z]\d+\b", content["claims"])) <= stated().keys()


def _guarantee(
    privacy: dict[str, Any], total: Budget | None, expression: Composition | None
) -> Guarantee:
    """Make the guarantee of a transcript anew."""
    return Guarantee(
        total,
        privacy["relation"],
        privacy["n"],
        tuple([(label, spend) for label, spend in privacy["entries"]]),
        privacy["genuine"],
        math.inf if total is None else math.nan if privacy["mu"] is None else privacy["mu"],
        tuple(privacy["vouched"]),
        expression,
        _returned(privacy),
    )


def target(content: dict[str, Any], text: str) -> bool:
    sentences = WORDINGS[content["format"]].sentences
    return bool(content["target"] == target_of(content["model"], content["method"], sentences))


#: Checks of what was promised and charged, for the page of any result.
OF_PRIVACY: tuple[Question, ...] = (
    ("the charges add up to at most the total, in exact arithmetic", adds_up),
    ("the charges that are listed are those that add up", entries_are_the_sum),
    ("epsilon, delta and the words follow from the total", promise),
    ("the claims are those behind the charges", claims_follow),
)
