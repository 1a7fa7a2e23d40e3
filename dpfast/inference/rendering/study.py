"""Page of a study, with its ledger and answers, and the checks that recompute them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from html import escape
from typing import Any

from dpfast.arguments import file_path
from dpfast.documents import write_document
from dpfast.errors import DpfastError
from dpfast.inference.composition import (
    amounts,
    in_numbers,
    lines_of,
    plain_spend,
    replay,
    totalled,
)
from dpfast.inference.rendering.digits import printable
from dpfast.inference.rendering.page import document, in_words, results, void
from dpfast.inference.rendering.renderings import html
from dpfast.inference.rendering.single import of_table, table_of
from dpfast.inference.rendering.table import Table
from dpfast.inference.rendering.transcript import (
    adds_up,
    claims_follow,
    digest,
    entries_are_the_sum,
    promise,
    target,
    transcript,
)
from dpfast.inference.rendering.wording import STUDY, WORDINGS
from dpfast.inference.results import Fit
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.ledger import Ledger

#: An answer: its request, the mark of its charge, the result, and its table.
Answer = tuple[dict[str, Any], str, Any, Table]


def report_of(ledger: Ledger, answers: Iterable[Answer], path: Any) -> str:
    """Write the page of a ledger and of answers that it paid for; return its digest."""
    name = file_path(path, "path")
    content = {
        "format": STUDY,
        "version": str(sys.modules["dpfast"].__version__),
        "ledger": ledger.identity,
        "total": plain_spend(ledger.total),
        **({} if ledger.apart is None else {"apart": plain_spend(ledger.apart)}),
        "charges": [[label, plain_spend(spend), *of] for label, spend, *of in lines_of(ledger)],
        "answers": [_told(*answer) for answer in answers],
    }
    write_document(name, study_page(content))
    return digest(content)


def _told(request: dict[str, Any], mark: str, result: Any, table: Table) -> dict[str, Any]:
    if isinstance(result, Fit):
        content = transcript(result, request["level"])
    else:
        content = of_table(table, result.privacy) | {"n_records": result.n_records}
    return {"request": request, "mark": mark} | content


# ---- the page ------------------------------------------------------------------------------------


def study_page(content: dict[str, Any]) -> str:
    """Write the page of a transcript, from nothing else."""
    charges = [
        (f"returned by charge {of[0] + 1}" if of else label, _numbers(spend))
        for label, spend, *of in content["charges"]
    ]
    labels = tuple([printable(label) for label, _ in charges])
    cells = tuple([(text,) for _, text in charges])
    words = WORDINGS[content["format"]]
    total = (("Total", _numbers(content["total"])),)
    ledger = Table("Charges, in order", total, ("",), labels, cells)
    sections = [f"<h2>{words.charges}</h2>", html(ledger, words.facts_first)]
    for number, answer in enumerate(content["answers"], 1):
        request = json.dumps(answer["request"], sort_keys=True)
        sections += [
            f"<h2>{number}. {escape(printable(answer['request']['analysis']))}</h2>",
            void(answer["privacy"]),
            f"<p>Request: <code>{escape(printable(request))}</code></p>",
            *(
                results(answer, words)
                if "params" in answer
                else [html(table_of(answer["table"]), words.facts_first)]
            ),
            in_words(answer),
            *(
                f'<p role="note">Warning: {escape(printable(said))}</p>'
                for said in answer.get("warnings", ())
            ),
        ]
    return document("Private study: report", sections, content)


def _numbers(spend: dict[str, Any]) -> str:
    return in_numbers(totalled(spend), " = ")


# ---- what follows from it ------------------------------------------------------------------------


def _ledger_adds_up(content: dict[str, Any], text: str) -> bool:
    """Check that a ledger of the same total grants the same charges in the same order."""
    reserved = content.get("apart")
    try:
        replayed = Ledger(
            totalled(content["total"]), None if reserved is None else totalled(reserved)
        )
        replay(
            replayed, [(label, totalled(spend), *of) for label, spend, *of in content["charges"]]
        )
    except DpfastError:
        return False
    return True


def _each_was_charged(content: dict[str, Any], text: str) -> bool:
    """Check that every answer has one charge of its own, of at least its promised total."""
    ledger_total = totalled(content["total"])
    kind = GDP if isinstance(ledger_total, ApproxDP) else type(ledger_total)
    marks = [answer["mark"] for answer in content["answers"]]
    for answer in content["answers"]:
        lines = list(enumerate(content["charges"]))
        paid = [(k, line[1]) for k, line in lines if line[0].endswith(answer["mark"])]
        total = amounts(totalled(answer["privacy"]["total"]), kind)[0]
        if len(paid) != 1 or not answer["mark"] or total > amounts(totalled(paid[0][1]), kind)[0]:
            return False
        returned = [spend for _, (_, spend, *of) in lines if of == [paid[0][0]]]
        if returned != [
            answer["privacy"][key] for key in ("returned",) if key in answer["privacy"]
        ]:
            return False
    return len(set(marks)) == len(marks)


def _of_each(check: Any, fits: bool = False) -> Any:
    def check_all(content: dict[str, Any], text: str) -> bool:
        answers = [answer for answer in content["answers"] if not fits or "params" in answer]
        return all(check(answer | {"format": content["format"]}, text) for answer in answers)

    return check_all


def _page(content: dict[str, Any], text: str) -> bool:
    return study_page(content) == text


#: Checks of a page: each question with its function.
QUESTIONS = (
    ("the ledger's charges add up to at most its total, in exact arithmetic", _ledger_adds_up),
    ("each answer has a charge of its own, of at least what it promises", _each_was_charged),
    ("the charges within each answer add up to at most its total", _of_each(adds_up)),
    ("the charges that are listed are those that add up", _of_each(entries_are_the_sum)),
    ("epsilon, delta and the words follow from the totals", _of_each(promise)),
    ("the claims are those behind the charges", _of_each(claims_follow)),
    ("the targets are those of the models", _of_each(target, fits=True)),
    ("tables, intervals, pictures and every other byte follow from the transcript", _page),
)
