"""Table of released numbers as text, from which every rendering is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpfast.arguments import flag, whole_number
from dpfast.errors import InvalidInput, described
from dpfast.inference.rendering import renderings

#: Labels that LaTeX can refer to with any package.
LABEL = re.compile(r"[A-Za-z0-9:._-]+")


class Table(NamedTuple):
    """Content of a summary, before it is rendered.

    Attributes
    ----------
    title, remark : str
        Texts above and right below the numbers; the remark may be empty.
    facts, details : tuple of (str, str)
        Facts below the numbers, and those that only ``explain()`` has, each with its heading.
    columns, labels : tuple of str
        Headings of the columns of numbers, and names of the rows, whole.
    cells : tuple of tuple of str
        The numbers of each row, as text.
    notes, warnings : tuple of str
        The promise, line by line, and warnings; lines that continue one begin with a space.
    pvalues : tuple of tuple of float
        p values of the first rows: one for the first cell, or one for each cell; NaN without one.

    Privacy
    -------
    Made of released and public numbers: costs nothing.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    remark: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    pvalues: tuple[tuple[float, ...], ...] = ()


class Summary(str):
    """A table as text, with HTML for notebooks and LaTeX or Markdown for papers.

    It is a string: ``print(summary)``, ``summary.splitlines()``.  All forms have the same numbers
    with the same digits.  Names are escaped as each form needs it.

    Attributes
    ----------
    table : Table
        Headings, names and numbers of every form.

    Privacy
    -------
    Made of released and public numbers: costs nothing.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> loss = dpfast.Objective("log-cosh", scale=1.0)
    >>> summary = dpfast.fit(X, 0.5 * X[:, 0], loss, privacy=2.0).summary()
    >>> summary.as_latex(label="tab:one", beneath=True, digits=2).count(" & ")
    5
    """

    table: Table

    def __new__(cls, table: Table) -> Summary:
        summary = super().__new__(cls, renderings.text(table))
        summary.table = table
        return summary

    def __getnewargs__(self) -> tuple[Table]:  # type: ignore[override]
        return (self.table,)

    def __str__(self) -> str:
        return str.__str__(self)

    def as_text(self, **options: Any) -> str:
        """Return plain text of at most 79 columns; options as of :meth:`edited`."""
        return str(self.edited(**options))

    def edited(
        self,
        *,
        keep: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        stars: bool | Sequence[float] = False,
    ) -> Summary:
        """Return the table with fewer rows, other names, or stars at small p values.

        Parameters
        ----------
        keep : str or sequence of str, optional
            Names of the coefficients that stay, in this order; a factor's name is all its levels.
        drop : str or sequence of str
            Names of those that do not.
        labels : mapping of str to str, optional
            What to write in the place of names.
        stars : bool or sequence of float
            Whether one, two and three stars stand at p values below .1, .05 and .01; or other
            limits, the largest first.
        """
        from dpfast.inference.rendering.editing import edited

        table = edited(self.table, keep, drop, labels, stars)
        return self if table is self.table else Summary(table)

    def explain(self) -> str:
        """Explain the result in full: facts, warnings, model, method, promise and spending.

        Returns
        -------
        str
            Lines of at most 79 columns, without the table.
        """
        return renderings.explained(self.table)

    def as_html(self, **options: Any) -> str:
        """Return a table of HTML, with facts and privacy below it, and the details folded.

        Options are those of :meth:`edited`.
        """
        return renderings.html(self.edited(**options).table)

    def as_latex(
        self,
        *,
        caption: str | None = None,
        label: str | None = None,
        digits: int | None = None,
        beneath: bool = False,
        notes: bool = True,
        **options: Any,
    ) -> str:
        r"""Return a floating table of LaTeX, with the rules of the package booktabs.

        Parameters
        ----------
        caption, label : str, optional
            Plain words, by default the title; what ``\ref`` refers to, such as ``"tab:wages"``.
        digits : int from 0 to 10, optional
            The most decimals of a number; by default as many as are printed.
        beneath : bool
            Whether a fit has one column, with standard errors in parentheses below its
            coefficients; of fits side by side, whether theirs are below.
        notes : bool
            Whether facts, privacy and warnings stand below the table.  Warnings stand there in any
            case.
        **options
            Of :meth:`edited`: which rows, under which names, with which stars.
        """
        if digits is not None:
            digits = whole_number(digits, "digits", 0, 10)
        if label is not None and not (isinstance(label, str) and LABEL.fullmatch(label)):
            raise InvalidInput(
                "label must be letters, digits and any of : . _ -, such as 'tab:wages'; received "
                f"{described(label)}."
            )
        if caption is not None and not isinstance(caption, str):
            raise InvalidInput(f"caption must be text; received {described(caption)}.")
        beneath, notes = flag(beneath, "beneath"), flag(notes, "notes")
        return renderings.latex(
            self.edited(**options).table, renderings.Paper(caption, label, digits, beneath, notes)
        )

    def as_markdown(self, **options: Any) -> str:
        """Return a table of GitHub's Markdown; options as of :meth:`edited`."""
        return renderings.markdown(self.edited(**options).table)

    #: Under the names pandas has.
    to_html, to_latex, to_markdown = as_html, as_latex, as_markdown

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython's terminal; repr stays that of a string
