"""Base of every result: a table in all forms, a frame, a file, warnings beside the numbers."""

from __future__ import annotations

import math
import os
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dpfast.arguments import file_path, one_of
from dpfast.errors import Hinted, understood
from dpfast.inference.degrees import DEFAULT_LEVEL, coverage
from dpfast.lazy import module

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Summary

#: Methods that people call with arguments of other packages.
UNDERSTOOD = (
    "summary", "conf_int", "predict", "predict_interval", "t_test", "wald_test", "ratios",
    "marginal_effects", "to_frame",
)  # fmt: skip


class Result(Hinted):
    """Released numbers, with their warnings, as text, tables, frames, pictures, pages and files.

    Fits, tests, ratios, effects, tables by cell, quantiles, plans and searches are results.

    Attributes
    ----------
    privacy : Guarantee or None
        What was promised of the numbers; None where they cost nothing, as in a plan.
    warnings : tuple of str
        What makes the numbers unreliable, from released numbers only.
    fixed_level : bool
        True where intervals have the level that was chosen with the numbers, or there are none.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing, however often.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> test = fit.t_test("x1 = 0.5")
    >>> list(test.to_frame().columns)[:3], test.to_latex(stars=True).count("tabular")
    (['term', 'estimate', 'std_error'], 2)
    >>> test.methods_text("board")[:22], len(test.report("test.html"))  # the page's SHA-256
    ('The published numbers ', 64)
    """

    privacy: Any
    warnings: Any
    fixed_level: ClassVar[bool] = False
    _headed: ClassVar[tuple[str, ...]] = ("Records", "Persons")  # facts above the numbers

    def __init_subclass__(cls, **options: Any) -> None:
        """Let methods say what to type in place of arguments of other packages."""
        super().__init_subclass__(**options)
        for name in UNDERSTOOD:
            if name in vars(cls):
                setattr(cls, name, understood(vars(cls)[name]))

    def summary(self, level: float = DEFAULT_LEVEL, *, alpha: float | None = None) -> Summary:
        """Summarise numbers, facts and privacy in a table: text, HTML, LaTeX, Markdown."""
        raise NotImplementedError

    def _summary_at(self, level: float) -> Summary:
        """Summarise at a level, or at the result's own where it is fixed."""
        return self.summary() if self.fixed_level else self.summary(level)

    def _columns(self, level: float) -> dict[str, Any]:
        """Return the columns of :meth:`to_frame`, all of one length."""
        raise NotImplementedError

    @understood
    def to_frame(
        self,
        level: float = DEFAULT_LEVEL,
        *,
        alpha: float | None = None,
        backend: str | None = None,
    ) -> Any:
        """Make a data frame, a row for each number, with tidy names of columns.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            ``term``, ``estimate``, ``std_error``, ``statistic``, ``p_value``, ``conf_low`` and
            ``conf_high``, as far as the result has them, and what a row is of.  pandas' ``attrs``
            and the metadata of pyarrow's schema have ``privacy`` and ``warnings``, as text;
            polars has no place for them.
        """
        from dpfast.inference.rendering.arrays import frame

        return frame(self._columns(coverage(level, alpha)), self._about(), backend)

    def _about(self) -> dict[str, Any]:
        """Return what a frame says of its numbers: privacy and warnings."""
        privacy = "costs nothing" if self.privacy is None else str(self.privacy)
        return {"privacy": privacy, "warnings": list(self.warnings)}

    def to_html(self, **options: Any) -> str:
        """Return a table of HTML; options as of :meth:`Summary.as_html`."""
        return self.summary().as_html(**options)

    def to_latex(self, **options: Any) -> str:
        """Return a table of LaTeX; options as of :meth:`Summary.as_latex`."""
        return self.summary().as_latex(**options)

    def to_markdown(self, **options: Any) -> str:
        """Return a table of Markdown; options as of :meth:`Summary.as_markdown`."""
        return self.summary().as_markdown(**options)

    def explain(self) -> str:
        """Explain the result in full: what :meth:`summary` has no room for.

        The facts, warnings and details; the promise and what each part of the budget was spent on.

        Returns
        -------
        str
            Lines of at most 79 columns, to be printed.
        """
        return self.summary().explain()

    def methods_text(self, audience: str = "paper") -> str:
        """Write a paragraph about the result from its own numbers.

        Parameters
        ----------
        audience : {"paper", "board"}
            For the methods of a paper, or for an ethics board: the risk of a person in the data.
        """
        from dpfast.inference.rendering.paper import for_board, for_paper

        audience = one_of(audience, ("paper", "board"), "audience")
        return (for_board if audience == "board" else for_paper)(self)

    def report(self, path: str | os.PathLike[str], level: float = DEFAULT_LEVEL) -> str:
        """Write one HTML page that stands alone, with results, privacy and how to check them.

        It has the table, a picture, the privacy in plain words, the estimand, warnings and how to
        cite.  From its transcript of public numbers :func:`dpfast.inference.verify_report`
        recomputes them.  The page loads nothing and runs nothing.  It has no seed, time or place
        in it: the same result gives the same page, byte by byte.

        Parameters
        ----------
        path : path
            The HTML file, replaced if it exists; ``OSError`` if it cannot be written.

        Returns
        -------
        str
            The SHA-256 of the transcript, which the page shows, too: published elsewhere it ties
            the page to the publication.
        """
        from dpfast.documents import write_document
        from dpfast.inference.rendering.transcript import digest

        name = file_path(path, "path")
        content, page = self._page(coverage(level))
        write_document(name, page)
        return digest(content)

    def _page(self, level: float) -> tuple[dict[str, Any], str]:
        """Return the transcript of this result, and the page that is made of it."""
        from dpfast.inference.rendering.single import content_of, result_page

        content = content_of(self._summary_at(level).table, self.privacy)
        return content, result_page(content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file, which :func:`dpfast.saved.load` reads.

        Parameters
        ----------
        path : path
            What is there is replaced once all of the new file is on the disk.
        """
        module("dpfast.saved").save(self, path)

    def plot(self, **options: Any) -> Any:
        """Draw the result; options as of the function of :mod:`dpfast.plots` for its kind.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return module("dpfast.plots").plot(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return everything published, as plain Python values (for JSON)."""
        from dpfast.inference.rendering.arrays import plain_fields

        assert is_dataclass(self)
        return plain_fields({field.name: getattr(self, field.name) for field in fields(self)})

    def _replace(self, **changes: Any) -> Any:
        """Return a copy with other values of some fields."""
        return replace(self, **changes)  # type: ignore[type-var]

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        from dpfast.inference.rendering.renderings import screen

        headline = None if self.privacy is None else self.privacy.headline
        kind, table = type(self).__name__, self.summary().table
        return screen(kind, table, self._headed, headline, len(self.warnings))


class FixedLevel(Result):
    """A result whose intervals have the level that was chosen with it, or that has none."""

    fixed_level = True

    def summary(self) -> Summary:  # type: ignore[override]
        """Summarise numbers, facts and privacy in a table: text, HTML, LaTeX, Markdown."""
        raise NotImplementedError

    def to_frame(self, *, backend: str | None = None) -> Any:  # type: ignore[override]
        """Make a data frame, a row for each number, with tidy names of columns.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            As for :meth:`Result.to_frame`.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
        """
        from dpfast.inference.rendering.arrays import frame

        return frame(self._columns(math.nan), self._about(), backend)


class Planned(FixedLevel):
    """A forecast from public numbers, which no record and no budget went into."""

    privacy = None
    warnings: tuple[str, ...] = ()
