"""Writes a page for each public call: the claims behind its receipts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] * (str(ROOT) not in sys.path)

from dpfast.curator.noisy_release import observed  # noqa: E402
from dpfast.errors import DpfastError  # noqa: E402
from dpfast.inference.claims import INSTEAD, QUERIES, stated  # noqa: E402
from tests.audit.calls import examples  # noqa: E402

HEAD = """\
# {name}

The claims behind each answer that this call asks for, read off the receipts of {calls} calls with
different options. Every answer has noise (C1, C15, C16, C19; integers C22) from bytes that are used
once (C23), and the charges add up by C9, C10 and C86.
"""


class Receipts:
    """Collect the query and the claim of every release."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], None] = {}

    def release(self, question: Any, release: Any, draw: Callable[[], Any]) -> Any:
        self.seen[release.query, release.claim] = None
        return draw()


def receipts() -> dict[str, tuple[int, list[tuple[str, str]]]]:
    """Return of each public call how many variants were made, and queries with their claims."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    found: dict[str, tuple[int, Receipts]] = {}
    for example in examples():
        calls, receipts = found.get(example.name, (0, Receipts()))
        response = 1.0 * (y > 0) if example.binary else y
        # some variants need more records for their budget, searches have losses of twelve
        if any(_answers(partial(example.call, (X[:n], response[:n])), receipts) for n in (60, 12)):
            found[example.name] = calls + 1, receipts
    return {name: (calls, sorted(kept.seen)) for name, (calls, kept) in found.items() if kept.seen}


def _answers(call: Callable[[], Any], receipts: Receipts) -> bool:
    """Make a call; say whether it was answered."""
    with warnings.catch_warnings(), observed(receipts):
        warnings.simplefilter("ignore")
        try:
            call()
        except DpfastError:
            return False
    return True


def page(name: str, calls: int, pairs: list[tuple[str, str]]) -> str:
    """Write the page of one public call."""
    parts = [HEAD.format(name=f"`{name}`", calls=calls)]
    for query in dict.fromkeys(query for query, _ in pairs):
        own = {claim for asked, claim in pairs if asked == query}
        stage, behind = QUERIES[query]
        claims = sorted(own | {c for c in behind if c not in INSTEAD.get(query, ())})
        parts.append(f"## {query.capitalize()} ({stage})\n")
        for claim in claims:
            found = stated()[claim]
            parts.append(f"- **{claim}**, {found.title.lower()}. {found.statement}")
        parts.append("")
    return "\n".join(parts)


def write(folder: Path) -> None:
    """Write a page for each public call."""
    folder.mkdir(parents=True, exist_ok=True)
    public = {k: v for k, v in receipts().items() if not k.startswith("dpfast.curator.")}
    for name, (calls, pairs) in public.items():
        (folder / f"{name}.md").write_text(page(name, calls, pairs), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs" / "claims" / "calls")
