"""Statement of a ledger: each charge, its price, and what it left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpfast.inference.composition import PublicLine, lines_of, replay
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.privacy.ledger import Ledger
from dpfast.studies.approvals import Approvals
from dpfast.studies.requests import StudyRequest


def statement_of(
    ledger: Ledger, known: Mapping[str, StudyRequest], approvals: Approvals | None
) -> Summary:
    """List the charges of a ledger with what each left; ``known`` are requests by their mark."""
    lines, copy = lines_of(ledger), Ledger(ledger.total, ledger.apart)
    left: list[str] = []

    def watched() -> Iterator[PublicLine]:
        for line in lines:
            yield line
            left.append(repr(copy.remaining))

    replay(copy, watched())  # adds up as the ledger itself, exactly
    rows = []
    for (label, spend, *of), rest in zip(lines, left, strict=True):
        label = f"returned by charge {of[0] + 1}" if of else label
        name, day = ("-", "-") if approvals is None else approvals.entry(label)
        cells = (_name(label, known, name), f"{'-' * bool(of)}{spend!r}", rest)
        rows.append((label, cells if approvals is None else (*cells, day)))
    facts = (
        ("Total", f"{ledger.total!r}"),
        ("Remaining", f"{copy.remaining!r}"),
        ("Charges", f"{sum(len(line) == 2 for line in lines)}"),
    )
    numbered = [(f"{k}. {label}", cells) for k, (label, cells) in enumerate(rows, 1)]
    columns = ("name", "price", "left", *(["approved"] if approvals is not None else []))
    return render_table("dpfast: statement of a ledger", facts, columns, numbered, None)


def _name(label: str, known: Mapping[str, StudyRequest], approved: str) -> str:
    """Return the name that a request of this process has, or that of the approved one."""
    request = next((known[mark] for mark in known if label.endswith(mark)), None)
    return approved if request is None else str(request.arguments.get("name", "-"))
