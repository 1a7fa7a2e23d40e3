"""Page of HTML made from a transcript; it loads nothing and runs nothing."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from dpfast.inference.guarantees import counted
from dpfast.inference.rendering.digits import printable, short_number
from dpfast.inference.rendering.renderings import html
from dpfast.inference.rendering.table import Table
from dpfast.inference.rendering.transcript import (
    BEGIN,
    END,
    OF_PRIVACY,
    Question,
    digest,
    numbers,
    target,
    written,
)
from dpfast.inference.rendering.wording import FIRST, WORDINGS, Wording

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: bold; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ccc; }
th[scope=row] { text-align: left; font-weight: normal; }
dt { font-weight: bold; } dd { margin: 0 0 .4rem; }
pre { white-space: pre-wrap; } svg { max-width: 100%; height: auto; }
.void { border: 3px solid #d55e00; padding: .5rem 1rem; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161616; } }
"""

CITE = (
    "dpfast developers. dpfast: differentially private M-estimation with honest intervals, version "
    "{version}. Avella-Medina, M., Bradshaw, C. and Loh, P.-L. (2023). Differentially private "
    "inference via noisy optimization. The Annals of Statistics 51(5), 2067-2092."
)

CHECK = (
    "Save this page and run <code>dpfast verify</code> on it, or "
    '<code>dpfast.inference.verify_report("fit.html")</code>: charges are added in exact '
    "fractions, "
    "conversions, intervals and this page are made anew from the transcript below. That the "
    "charges were made with genuine noise is the author's word."
)


def page(content: dict[str, Any]) -> str:
    """Write the page of a transcript, from nothing else."""
    words = WORDINGS[content["format"]]
    sections = [
        void(content["privacy"]),
        f"<h2>{words.results}</h2>",
        *results(content, words),
        _facts(content, words),
        f"<h2>{words.privacy}</h2>",
        in_words(content),
        "<h2>Warnings</h2>\n" + _list(content["warnings"]),
    ]
    return document("Private regression: report", sections, content)


def results(content: dict[str, Any], words: Wording) -> list[str]:
    """Write the table of a fit, its picture and its estimand."""
    columns, cells, ends = numbers(content)
    labels = tuple(map(printable, content["names"]))
    return [
        html(Table("Coefficients", (), columns, labels, cells)),
        "" if ends is None else _picture(labels, content, ends),
        "" if ends is not None else f"<p>{words.without_errors}</p>",
        f"<h2>{words.estimand}</h2>\n<p>{escape(printable(content['target']))}</p>",
    ]


def in_words(content: dict[str, Any]) -> str:
    """Write privacy in words, as a statement, and by the claims that it rests on."""
    words = f"<pre>{_lines(content['in_words'])}</pre>\n<pre>{_lines(content['statement'])}</pre>"
    claims = content.get("claims", "")
    return f"{words}\n<p>Claims: {escape(printable(claims))}</p>" if claims else words


def document(title: str, sections: list[str], content: dict[str, Any]) -> str:
    """Write a page of these sections, with its transcript and how to check it."""
    sections = [
        *sections,
        f"<h2>How to cite</h2>\n<p>{escape(CITE.format(version=content['version']))}</p>",
        f"<h2>How to check</h2>\n<p>{CHECK}</p>\n<p>SHA-256 of the transcript: "
        f"<code>{digest(content)}</code></p>",
        f"<details><summary>Transcript</summary>\n<pre>{escape(written(content))}</pre></details>",
        BEGIN + written(content) + END,
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        + "\n".join(filter(None, sections))
        + "\n</body>\n</html>\n"
    )


def void(privacy: dict[str, Any]) -> str:
    """Warn first of a run that promises nothing."""
    if privacy["total"] is None:
        return '<p class="void">NOT PRIVATE: this fit could not be published.</p>'
    if not privacy["genuine"]:
        return (
            '<p class="void">SIMULATION: the noise came from a seed, so nothing is guaranteed. The '
            "figures are those of genuine noise.</p>"
        )
    return ""


def _facts(content: dict[str, Any], words: Wording) -> str:
    relation = content["privacy"]["relation"]
    n_counts = "Records" if words is FIRST else counted(relation)
    facts = (
        *([(words.units, content["coded"])] if "coded" in content else []),
        ("Model", content["model"]),
        ("Method", content["method"]),
        (n_counts, str(content["n_records"])),
        ("Relation", relation),
    )
    said = "".join(
        f"<dt>{heading}</dt><dd>{escape(printable(text))}</dd>\n" for heading, text in facts
    )
    return f"<dl>\n{said}</dl>"


def _lines(text: str) -> str:
    return "\n".join(escape(printable(line)) for line in text.split("\n"))


def _list(texts: list[str]) -> str:
    if not texts:
        return "<p>None.</p>"
    return "<ul>\n" + "".join(f"<li>{escape(printable(text))}</li>\n" for text in texts) + "</ul>"


# ---- the picture ---------------------------------------------------------------------------------

#: Sizes of the drawing, in its own units.
WIDTH, NAMES, ROW, EDGE = 720, 220, 26, 30
LONGEST = 26  # letters beside the picture; the table has names whole


def _picture(labels: tuple[str, ...], content: dict[str, Any], ends: Any) -> str:
    """Draw coefficients with their intervals as SVG, with a description in words."""
    params = [float(value) for value in content["params"]]
    finite = [value for value in (*params, *ends.ravel().tolist()) if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    reach = high - low
    if not 0.0 < reach < 1e300:
        return ""

    def x(value: float) -> str:
        return f"{NAMES + (WIDTH - NAMES - 20) * (value - low) / reach:.1f}"

    height = ROW * len(labels) + 2 * EDGE
    parts = [
        f'<line x1="{x(0.0)}" x2="{x(0.0)}" y1="10" y2="{height - EDGE}" stroke="#999"/>',
    ]
    words = []
    for k, (label, value, (lower, upper)) in enumerate(
        zip(labels, params, ends.tolist(), strict=True)
    ):
        if not all(map(math.isfinite, (value, lower, upper))):
            continue
        y = EDGE / 2 + ROW * (k + 0.5)
        short = label if len(label) <= LONGEST else f"{k + 1}. {label[: LONGEST - 5]}..."
        parts.append(
            f'<text x="{NAMES - 8}" y="{y + 5:.1f}" text-anchor="end" font-size="14" '
            f'fill="currentColor">{escape(short)}</text>'
            f'<line x1="{x(lower)}" x2="{x(upper)}" y1="{y:.1f}" y2="{y:.1f}" stroke="#0072b2" '
            f'stroke-width="3"/><circle cx="{x(value)}" cy="{y:.1f}" r="5" fill="#0072b2"/>'
        )
        words.append(
            f"{label}: {short_number(value)}, from {short_number(lower)} to {short_number(upper)}"
        )
    ticks = sorted({low, 0.0, high})
    for tick in ticks:
        overlaps = tick != 0.0 and abs(tick) < 0.08 * reach
        if not overlaps:
            parts.append(
                f'<text x="{x(tick)}" y="{height - 8}" text-anchor="middle" font-size="13" '
                f'fill="currentColor">{short_number(float(np.float64(tick)))}</text>'
            )
    said = f"Coefficients with {100 * content['level']:g}% intervals. " + "; ".join(words)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(said)}" xmlns="http://www.w3.org/2000/svg">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _page(content: dict[str, Any], text: str) -> bool:
    return page(content) == text


#: Checks of a page: each question with its function.
QUESTIONS: tuple[Question, ...] = (
    *OF_PRIVACY,
    ("the target is that of the model", target),
    ("table, intervals, picture and every other byte follow from the transcript", _page),
)
