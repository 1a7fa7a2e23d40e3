"""Page of one result that is no fit, and the checks that recompute it."""

from __future__ import annotations

import json
import sys
from html import escape
from typing import Any

from dpfast.errors import InferenceUnavailable
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import printable
from dpfast.inference.rendering.page import document, in_words, void
from dpfast.inference.rendering.renderings import html
from dpfast.inference.rendering.table import Table
from dpfast.inference.rendering.transcript import OF_PRIVACY, Question, promised
from dpfast.inference.rendering.wording import RESULT

#: Headings of details that state the privacy, which a page recomputes elsewhere.
PRIVACY = ("Promise", "Spent")

UNPROMISED = (
    "a report states a promise that can be checked, and this result has none in Gaussian DP, zCDP "
    "or (epsilon, delta) with its charges. to_html() has the same table without the checks."
)


def content_of(table: Table, privacy: Any) -> dict[str, Any]:
    """Collect everything on the page of a result as plain content."""
    if not isinstance(privacy, Guarantee):
        raise InferenceUnavailable(UNPROMISED)
    return {
        "format": RESULT,
        "version": str(sys.modules["dpfast"].__version__),
        **of_table(table, privacy),
    }


def of_table(table: Table, privacy: Guarantee) -> dict[str, Any]:
    """Collect a table and its promise as plain content."""
    parts = table._asdict()
    del parts["pvalues"]  # of stars, which no page has
    return {
        "n_records": privacy.n,
        "table": json.loads(json.dumps(parts)),
        **promised(privacy),
    }


def table_of(content: dict[str, Any]) -> Table:
    """Read a table from plain content, without its privacy, which the page recomputes below."""
    parts = {name: tuple(content[name]) for name in ("columns", "labels", "warnings")}
    parts |= {name: tuple(map(tuple, content[name])) for name in ("facts", "cells")}
    parts["details"] = tuple(
        [(head, said) for head, said in content.get("details", ()) if head not in PRIVACY]
    )
    return Table(title=content["title"], remark=content["remark"], **parts)


def result_page(content: dict[str, Any]) -> str:
    """Write the page of a transcript, from nothing else."""
    table = table_of(content["table"])
    sections = [
        void(content["privacy"]),
        html(table),
        "<h2>Privacy</h2>",
        in_words(content),
        f"<p>{escape(printable(content['privacy']['relation']))}</p>",
    ]
    return document("Private result: report", sections, content)


def _page(content: dict[str, Any], text: str) -> bool:
    return result_page(content) == text


#: Checks of a page: each question with its function.
QUESTIONS: tuple[Question, ...] = (
    *OF_PRIVACY,
    ("table, warnings and every other byte follow from the transcript", _page),
)
