"""A table as text, HTML, LaTeX and Markdown, with the same cells in all forms."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Table

#: Widest line of text, that of a terminal.
WIDTH = 79

#: Characters of a column of numbers and of the names, where they fit.
COLUMN, NAMES = 11, 16
COLUMNS = {"z": 10, "P>|z|": 9, "t": 10, "P>|t|": 9}

#: Rows of a screen, and facts that count what was protected.
SCREEN, COUNTED = 20, ("Records", "Persons")

#: Title of the folded details.
FOLD = "How it was made, and what each part cost"

#: A number in a cell, as Python writes it.
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e([+-]\d+))?")


#: Stars behind a number.
STARS = re.compile(r"\*+")


# ---- text ----------------------------------------------------------------------------------------


def text(table: Table) -> str:
    """Write text of at most 79 columns, unless the table has too many."""
    body = _text_table(table)
    width = max(WIDTH, *map(len, body))
    rule = "=" * width
    lines = [table.title.center(WIDTH).rstrip(), rule]
    lines += [*(line or "-" * width for line in body)]
    lines += [table.remark] if table.remark else []
    lines.append(rule)
    lines += _facts(table.facts)
    for line in table.notes:
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    for warning in table.warnings:
        lines += _wrapped("Warning: ", warning)
    return "\n".join(lines)


def screen(
    kind: str, table: Table, headed: tuple[str, ...], headline: str | None, warnings: int
) -> str:
    """Write numbers for one screen, below what they are of, their promise and their warnings."""
    facts = [(heading, said) for heading, said in table.facts if heading in headed]
    about = [f"{said} {heading.lower()}" for heading, said in facts if heading in COUNTED]
    about += [] if headline is None else [headline]
    if warnings:
        about.append(f"{warnings} warning{'s' * (warnings > 1)}, see .warnings")
    about += [f"{heading.lower()} {said}" for heading, said in facts if heading not in COUNTED]
    if len(table.labels) > SCREEN:
        hidden = len(table.labels) - SCREEN + 1
        labels, cells = table.labels[: SCREEN - 1], table.cells[: SCREEN - 1]
        body = _text_table(table._replace(labels=labels, cells=cells))
        body.append(f"... and {hidden} more rows, see .to_frame()")
    else:
        body = _text_table(table) if table.labels else []
    first = f"{kind}: {'; '.join(about)}" if about else kind
    lines = [*textwrap.wrap(first, WIDTH, subsequent_indent="    "), *filter(None, body)]
    return "\n".join(line.rstrip() for line in lines)


def explained(table: Table) -> str:
    """Write facts, warnings and details as lines of text, without the table."""
    in_full = {heading for heading, _ in table.details}
    lines = _facts([fact for fact in table.facts if fact[0] not in in_full])
    for warning in table.warnings:
        lines += _wrapped("Warning: ", warning)
    return "\n".join([*lines, *_facts(table.details)])


def _facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    return [line for heading, said in facts for line in _wrapped(f"{heading}: ", said)]


def _text_table(table: Table) -> list[str]:
    """Write lines of the table; an empty one is the rule below the headings."""
    columns = list(zip(table.columns, *table.cells, strict=True))
    needed = [1 + max(map(len, column)) for column in columns]
    longest = max(map(len, table.labels), default=0)
    alone = int(len(columns) == 1)
    widths = [
        max(COLUMNS.get(name, COLUMN) + alone, width)
        for name, width in zip(table.columns, needed, strict=True)
    ]
    names = max(12, min(NAMES, longest))
    if longest > names or names + sum(widths) > WIDTH:  # then the names get what is left
        widths = [width + 1 for width in needed]
        names = min(longest, max(NAMES, WIDTH - sum(widths)))
    lines = [" " * names + _row(table.columns, widths), ""]
    for label, cells in zip(table.labels, table.cells, strict=True):
        if len(label) > names:  # whole, on lines of its own
            lines += textwrap.wrap(label, WIDTH, drop_whitespace=False)
            label = ""
        lines.append(label.ljust(names) + _row(cells, widths))
    return lines


def _row(cells: Iterable[str], widths: list[int]) -> str:
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _wrapped(heading: str, said: str) -> list[str]:
    indent = " " * 4
    return textwrap.wrap(said, WIDTH, initial_indent=heading, subsequent_indent=indent) or [heading]


# ---- HTML ----------------------------------------------------------------------------------------


def html(table: Table, facts_first: bool = False) -> str:
    """Write one element, with the title as its caption and names as headings of their rows.

    ``facts_first``: facts stand above the table, as in pages of the first formats.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(f'<td style="text-align:right">{escape(cell)}</td>' for cell in cells)
        + "</tr>\n"
        for label, cells in zip(table.labels, table.cells, strict=True)
    )
    facts, details = (
        "".join(f"<dt>{escape(heading)}</dt><dd>{escape(said)}</dd>\n" for heading, said in pairs)
        for pairs in (table.facts, table.details)
    )
    facts = f"<dl>\n{facts}</dl>" if facts else ""
    parts = [
        facts if facts_first else "",
        f"<table>\n<caption>{escape(table.title)}</caption>\n"
        f"<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>",
        f"<p>{escape(table.remark)}</p>" if table.remark else "",
        "" if facts_first else facts,
        f"<p>{'<br>'.join(map(escape, table.notes))}</p>" if table.notes else "",
        *(f'<p role="note">Warning: {escape(warning)}</p>' for warning in table.warnings),
        f"<details><summary>{FOLD}</summary>\n<dl>\n{details}</dl></details>" if details else "",
    ]
    return '<div class="dpfast">\n' + "\n".join(filter(None, parts)) + "\n</div>"


# ---- LaTeX ---------------------------------------------------------------------------------------

#: Signs with a meaning in LaTeX; brackets and stars have one at the beginning of a row.
LATEX = {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&",
    "#": r"\#", "_": r"\_", "%": r"\%",
}  # fmt: skip


class Paper(NamedTuple):
    """Settings of a table for a paper, as documented by :meth:`Summary.as_latex`."""

    caption: str | None = None
    label: str | None = None
    digits: int | None = None
    beneath: bool = False
    notes: bool = True


def latex(table: Table, paper: Paper) -> str:
    """Write a floating table with the rules of booktabs."""
    columns, rows = table.columns, list(zip(table.labels, table.cells, strict=True))
    if paper.beneath:
        columns, rows = _errors_beneath(columns, rows)
    body = [
        " & ".join([_latex(label), *(_latex_cell(_rounded(cell, paper.digits)) for cell in cells)])
        for label, cells in rows
    ]
    facts = [
        *(f"{_latex(heading)}: {_latex(words)}" for heading, words in table.facts),
        *(_latex(line.strip()) for line in table.notes),
    ]
    said = [
        *([_latex(table.remark)] if table.remark and (paper.notes or _has_stars(table)) else []),
        *(facts if paper.notes else []),
        *(f"Warning: {_latex(warning)}" for warning in table.warnings),
    ]
    caption = _latex(table.title if paper.caption is None else paper.caption)
    return "\n".join(
        [
            r"\begin{table}[htbp] % \usepackage{booktabs}",
            r"\centering",
            rf"\caption{{{caption}}}",
            *([] if paper.label is None else [rf"\label{{{paper.label}}}"]),
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            rf"{' & '.join(['', *map(_latex, columns)])} \\",
            r"\midrule",
            *(rf"{row} \\" for row in body),
            r"\bottomrule",
            r"\end{tabular}",
            *(
                [
                    "",
                    r"\medskip",
                    r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
                    *(rf"{line}\par" for line in said),
                    r"\end{minipage}",
                ]
                if said
                else []
            ),
            r"\end{table}",
        ]
    )


def _has_stars(table: Table) -> bool:
    return any("*" in cell for cells in table.cells for cell in cells)


def _errors_beneath(
    columns: tuple[str, ...], rows: list[tuple[str, tuple[str, ...]]]
) -> tuple[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]:
    """Move standard errors to rows of their own below the estimates, in parentheses."""
    if columns[1:2] == ("std err",):  # of one fit: its other columns follow from these two
        columns = columns[:1]
        rows = [(label, (f"{cells[0]} ({cells[1]})",)) for label, cells in rows]
    beneath = []
    for label, cells in rows:
        pairs = [cell.partition(" (") for cell in cells]
        beneath.append((label, tuple(estimate for estimate, _, _ in pairs)))
        if any(error for _, _, error in pairs):
            beneath.append(("", tuple(f"({error}" if error else "" for _, _, error in pairs)))
    return columns, beneath


def _rounded(cell: str, digits: int | None) -> str:
    """Round to at most so many decimals; powers of ten stay."""
    if digits is None:
        return cell
    decimals = rf"(-?\d+)\.(\d{{{digits + 1},}})(?![\de])"
    return re.sub(decimals, lambda match: f"{Decimal(match[0]):.{digits}f}", cell)


def _latex(words: str) -> str:
    escaped = "".join(LATEX.get(sign, sign) for sign in words)
    return re.sub("-(?=-)", "-{}", escaped)  # two would become a dash


def _latex_cell(cell: str) -> str:
    """Write numbers in mathematical mode, for their minus signs, and the rest as words."""
    parts, end = [], 0
    for number in NUMBER.finditer(cell):
        parts.append(_latex(cell[end : number.start()]))
        mantissa, _, power = number[0].partition("e")
        times = rf" \times 10^{{{int(power)}}}" if power else ""
        stars = STARS.match(cell, number.end())
        above = f"^{{{stars[0]}}}" if stars else ""
        parts.append(f"${mantissa}{times}{above}$")
        end = number.end() if stars is None else stars.end()
    return "".join([*parts, _latex(cell[end:])])


# ---- Markdown ------------------------------------------------------------------------------------

MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$#])")


def markdown(table: Table) -> str:
    """Write a table of GitHub's Markdown, with lists of facts and warnings."""
    rows = [_cells([label, *cells]) for label, cells in zip(table.labels, table.cells, strict=True)]
    parts = [
        [f"**{_markdown(table.title)}**"],
        [_cells(["", *table.columns]), "|---|" + "---:|" * len(table.columns), *rows],
        [_markdown(table.remark)] if table.remark else [],
        [f"- {_markdown(heading)}: {_markdown(said)}" for heading, said in table.facts],
        [f"{'  ' * line.startswith(' ')}- {_markdown(line.strip())}" for line in table.notes],
        [f"- Warning: {_markdown(warning)}" for warning in table.warnings],
        [f"<details><summary>{FOLD}</summary>"] if table.details else [],
        [f"- {_markdown(heading)}: {_markdown(said)}" for heading, said in table.details],
        ["</details>"] if table.details else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_markdown, cells))} |"


def _markdown(words: str) -> str:
    return MARKDOWN.sub(r"\\\1", words)
