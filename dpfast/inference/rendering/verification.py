"""Verification of pages: whatever can be recomputed from a transcript."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from dpfast.arguments import file_path
from dpfast.documents import read_document
from dpfast.errors import DpfastError, InvalidInput
from dpfast.inference.rendering import page, single, study
from dpfast.inference.rendering.transcript import BEGIN, END, Question, digest
from dpfast.inference.rendering.wording import FIRST_FORMAT, FIRST_STUDY, FORMAT, RESULT, STUDY

LARGEST = 50_000_000  # of a page; a transcript is thousands of times smaller

#: A limit of every check: no recomputation shows who wrote a page.
AUTHOR = (
    "Anybody can make a page that passes, with numbers of their own: only this digest ties the\n"
    "page to its author. Compare it with the one that the author published."
)

#: Exceptions of a transcript that cannot be read in its format.
UNREADABLE = LookupError, TypeError, ValueError, AttributeError, RecursionError

#: Checks by the format of a transcript.
FORMATS: dict[str, tuple[Question, ...]] = {
    FORMAT: page.QUESTIONS,
    STUDY: study.QUESTIONS,
    RESULT: single.QUESTIONS,
    FIRST_FORMAT: page.QUESTIONS,
    FIRST_STUDY: study.QUESTIONS,
}


class ReportCheck(NamedTuple):
    """Result of checking a page.

    Attributes
    ----------
    passed : bool
        Whether everything that can be recomputed is as the page says.
    checks : tuple of (str, bool)
        Each question, in words, and its answer.
    digest : str
        SHA-256 of the transcript, to be compared with what the author published: nothing else ties
        the page to its author.

    Privacy
    -------
    About public numbers: costs nothing.
    """

    passed: bool
    checks: tuple[tuple[str, bool], ...]
    digest: str

    def __str__(self) -> str:
        lines = [f"{'yes' if answer else 'NO ':3}  {question}" for question, answer in self.checks]
        return "\n".join([*lines, f"transcript {self.digest}", AUTHOR])


def verify_report(path: Any) -> ReportCheck:
    """Recompute a page of :meth:`dpfast.Fit.report` or :meth:`dpfast.Study.report`.

    The charges are added up in exact fractions and compared with the total.  The promise in epsilon
    and delta, intervals and p content, and the page itself are recomputed from the transcript.  For
    a study the ledger is compared with its total, and each analysis with its charge.

    Parameters
    ----------
    path : path
        Of the page.

    Privacy
    -------
    Reads public numbers: costs nothing.  That the charges were made, with genuine noise, is the
    author's word: a page can be checked for being consistent, not for being true.  Only the digest,
    published elsewhere by the author, shows that the page is the author's.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> shown = fit.report("fit.html")
    >>> found = dpfast.inference.verify_report("fit.html")
    >>> found.passed, found.digest == shown
    (True, True)
    """
    text, content = _read(file_path(path, "path"))
    checks: list[tuple[str, bool]] = []
    for question, check in FORMATS[content["format"]]:
        try:
            answer = check(content, text)
        except (DpfastError, ArithmeticError, *UNREADABLE):
            answer = False
        checks.append((question, bool(answer)))
    return ReportCheck(all(answer for _, answer in checks), tuple(checks), digest(content))


def _read(name: str) -> tuple[str, dict[str, Any]]:
    try:
        text = read_document(name, LARGEST).decode("utf-8")
        body = text[text.index(BEGIN) + len(BEGIN) :]
        content = json.loads(body[: body.index(END)])
        if content["format"] in FORMATS:
            digest(content)  # what is nested too deep to be written again is no transcript
            return text, content
    except (OSError, *UNREADABLE):
        pass
    raise InvalidInput(
        f"{name!r} is not there, or no page of Fit.report or Study.report, or one of another "
        f"version of dpfast ({' and '.join(map(repr, FORMATS))} are read)."
    )
