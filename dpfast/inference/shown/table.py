"""One table of what was released, whose numbers are made text once; four renderings show them."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpfast.inference.shown import renderings

__all__ = ["Summary", "Table"]


class Table(NamedTuple):
    """What a summary says, before it has a form.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        What is said above the numbers, each with its heading.
    columns : tuple of str
        Headings of the columns of numbers.
    labels : tuple of str
        Names of the rows, whole.
    cells : tuple of tuple of str
        The numbers of each row, as text.
    remark : str
        What is said right below them; may be empty.
    notes : tuple of str
        What was paid, line by line; those that continue one begin with a space.
    warnings : tuple of str

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


class Summary(str):
    """A table as text, which notebooks show as HTML and papers take as LaTeX or Markdown.

    It is a string: ``print(summary)``, ``summary.splitlines()``.  All forms have the same numbers,
    with the same digits, and the names in them are escaped as each form needs it.

    Attributes
    ----------
    table : Table
        Headings, names and numbers, from which every form is made.

    Privacy
    -------
    Made of released and public numbers: costs nothing.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> summary = dpfast.fit(
    ...     X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
    ... ).summary()
    >>> summary.table.labels
    ('intercept', 'x1')
    >>> summary.as_latex().count(" & ") == 18 and summary.as_markdown().startswith("**dpfast")
    True
    """

    table: Table

    def __new__(cls, table: Table) -> Summary:
        found = super().__new__(cls, renderings.text(table))
        found.table = table
        return found

    def __getnewargs__(self) -> tuple[Table]:  # type: ignore[override]
        return (self.table,)

    def __str__(self) -> str:
        return str.__str__(self)

    def as_text(self) -> str:
        """Plain text of at most 79 columns, as it is printed.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> summary = dpfast.fit(
        ...     X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
        ... ).summary()
        >>> summary.as_text() == summary
        True
        """
        return str(self)

    def as_html(self) -> str:
        """A table of HTML with its facts above and what was paid below it; no style, no script.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(
        ...     dpfast.records(X, 0.5 * X[:, 0], names=["a<b"]),
        ...     None,
        ...     dpfast.Objective("log-cosh", scale=1.0),
        ...     privacy=2.0,
        ... )
        >>> "a&lt;b" in fit.summary().as_html()
        True
        """
        return renderings.html(self.table)

    def as_latex(self) -> str:
        """A floating table of LaTeX that needs no package.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(
        ...     dpfast.records(X, 0.5 * X[:, 0], names=["a_b"]),
        ...     None,
        ...     dpfast.Objective("log-cosh", scale=1.0),
        ...     privacy=2.0,
        ... )
        >>> r"a\\_b & " in fit.summary().as_latex()
        True
        """
        return renderings.latex(self.table)

    def as_markdown(self) -> str:
        """A table of GitHub's Markdown.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(
        ...     dpfast.records(X, 0.5 * X[:, 0], names=["a|b"]),
        ...     None,
        ...     dpfast.Objective("log-cosh", scale=1.0),
        ...     privacy=2.0,
        ... )
        >>> r"| a\\|b |" in fit.summary().as_markdown()
        True
        """
        return renderings.markdown(self.table)

    def to_html(self) -> str:
        """As :meth:`as_html`, under the name pandas has.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> summary = dpfast.fit(
        ...     X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
        ... ).summary()
        >>> summary.to_html() == summary.as_html()
        True
        """
        return self.as_html()

    def to_latex(self) -> str:
        """As :meth:`as_latex`, under the name pandas has.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> summary = dpfast.fit(
        ...     X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
        ... ).summary()
        >>> summary.to_latex() == summary.as_latex()
        True
        """
        return self.as_latex()

    def to_markdown(self) -> str:
        """As :meth:`as_markdown`, under the name pandas has.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> summary = dpfast.fit(
        ...     X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
        ... ).summary()
        >>> summary.to_markdown() == summary.as_markdown()
        True
        """
        return self.as_markdown()

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython's terminal; repr stays that of a string
