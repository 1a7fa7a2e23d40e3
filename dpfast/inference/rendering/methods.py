"""Presentation methods of a fit, by the names of statsmodels and pandas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import one_of
from dpfast.errors import InferenceUnavailable
from dpfast.inference.degrees import coverage
from dpfast.inference.named import Named

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Summary

Array = NDArray[np.float64]

RECORDS = (
    "has a value for each record, which no budget could pay for at a useful accuracy. For public "
    "rows there is fit.predict(rows)"
)
QUERY = (
    "is a query about the records that this fit did not pay for. Compare fits by their intervals, "
    "test coefficients together with fit.wald_test, or choose between losses with dpfast.tune"
)

#: Attributes of other packages that a private fit refuses, with the reason.
REFUSED = {
    "aic": QUERY, "bic": QUERY, "llf": QUERY, "fvalue": QUERY, "f_pvalue": QUERY, "ssr": QUERY,
    "mse_resid": QUERY, "rsquared": QUERY, "rsquared_adj": QUERY, "prsquared": QUERY, "ess": QUERY,
    "centered_tss": QUERY, "uncentered_tss": QUERY, "mse_model": QUERY, "mse_total": QUERY,
    "deviance": QUERY, "null_deviance": QUERY, "pearson_chi2": QUERY, "llnull": QUERY,
    "llr": QUERY, "llr_pvalue": QUERY, "condition_number": QUERY, "eigenvals": QUERY,
    "fittedvalues": RECORDS, "resid": RECORDS, "wresid": RECORDS, "resid_pearson": RECORDS,
    "resid_response": RECORDS, "resid_deviance": RECORDS,
}  # fmt: skip


class Shown:
    """Tables, frames and pages of released coefficients.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> print(fit.summary())  # doctest: +ELLIPSIS
                            dpfast: private M-estimation
    ...
    >>> fit.methods_text("board")[:22], len(fit.report("fit.html"))  # the page's SHA-256
    ('The published numbers ', 64)
    """

    names: tuple[str, ...]
    n_records: int
    _covariance: Any

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or hasattr(type(self), name):  # a property that refuses, in its words
            return object.__getattribute__(self, name)
        from dpfast.hints import CALLED  # only who asks for what there is not

        hint = f"; write {CALLED[name]}." if name in CALLED else ""
        raise AttributeError(f"'Fit' object has no attribute {name!r}" + hint)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Summarise coefficients, facts and privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.summary import summary_of

        return summary_of(self, coverage(level, alpha))  # type: ignore[arg-type]

    def explain(self) -> str:
        """Explain the fit in full: what :meth:`summary` has no room for.

        The estimand, records, warnings, model and method; the private centre and scale of each
        column; the promise and what each part of the budget was spent on.

        Returns
        -------
        str
            Lines of at most 79 columns, to be printed.

        Privacy
        -------
        Made of released and public numbers: costs nothing.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(X, X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
        >>> "Spent: mu = " in fit.explain(), "Spent" in fit.summary()
        (True, False)
        """
        return self.summary().explain()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    @property
    def tvalues(self) -> Named:
        """The same as :attr:`zvalues`, under the name statsmodels has, shape (p,)."""
        return self.zvalues

    @property
    def nobs(self) -> int:
        """The same as :attr:`n_records`, under the name statsmodels has."""
        return self.n_records

    def to_frame(self, level: float = 0.95, *, alpha: float | None = None) -> Any:
        """Make a pandas data frame of estimates, errors and intervals, a row for each name.

        Returns
        -------
        pandas.DataFrame
            Columns params, bse, zvalues, pvalues, low and high; without standard errors params
            alone.
        """
        from dpfast.inference.rendering.arrays import in_pandas

        level = coverage(level, alpha)
        fit: Any = self
        columns, heads = [self.params], ("params", "bse", "zvalues", "pvalues", "low", "high")
        if self._covariance is not None:
            columns += [fit.bse, self.zvalues, fit.pvalues, *fit.conf_int(level).T]
        return in_pandas(np.column_stack(columns), self.names, heads[: len(columns)])

    def methods_text(self, audience: str = "paper") -> str:
        """Write a paragraph about this fit from its own numbers.

        Parameters
        ----------
        audience : {"paper", "board"}
            For the methods of a paper, or for an ethics board: the risk of a person in the data.
        """
        from dpfast.inference.rendering.paper import for_board, for_paper

        audience = one_of(audience, ("paper", "board"), "audience")
        return (for_board if audience == "board" else for_paper)(self)  # type: ignore[arg-type]

    def report(self, path: str | os.PathLike[str], level: float = 0.95) -> str:
        """Write one HTML page that stands alone, with results, privacy and how to check them.

        It has the table, a picture, the privacy in plain words, the estimand, warnings and how to
        cite.  From its transcript of public numbers :func:`dpfast.inference.verify_report`
        recomputes them.  The page loads nothing and runs nothing.  It has no seed, time or place
        in it: the same fit gives the same page, byte by byte.

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
        from dpfast.arguments import file_path
        from dpfast.documents import write_document
        from dpfast.inference.rendering.page import page
        from dpfast.inference.rendering.transcript import digest, transcript

        name, values = file_path(path, "path"), transcript(self, coverage(level))  # type: ignore[arg-type]
        write_document(name, page(values))
        return digest(values)


def _refusal(name: str, reason: str) -> property:
    def read(self: Any) -> Any:
        raise InferenceUnavailable(f"{name} {reason}.")

    read.__name__, read.__doc__ = name, f"Refused: {name} {reason}."
    return property(read)


for _name, _reason in REFUSED.items():
    setattr(Shown, _name, _refusal(_name, _reason))
