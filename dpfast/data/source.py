"""Records as one argument, and a pair (X, y).  Shapes and dtypes may raise; values never do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.data.records import FLOAT64, Records, checked_names
from dpfast.errors import InvalidInput, described, understood

if TYPE_CHECKING:
    from dpfast.data.record_weights.columns_given import RecordWeights

#: What a function may have a use for, beside names and threads.
EVERYTHING = ("group", "each", "effects", "sample_weight", "offset")


@understood
def records(
    X: Any,
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    group: Any = None,
    group_size: int | None = None,
    each: str = "row",
    effects: str | None = None,
    sample_weight: Any = None,
    largest_weight: float | None = None,
    offset: Any = None,
    threads: int | None = None,
) -> Source:
    """Join records with their persons, weights and offsets; passed in the place of X.

    Nothing is read before a function is given them, with ``y=None``.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design or Records
        Covariates, without a column of ones; or a design (``schema.encode(table, response=...)``)
        or opened records, which hold their response; for a formula the table.
    y : array-like of shape (n,), optional
        Response.
    names : sequence of str, optional
        Public names of the q covariates; a table's column names by default.
    group : array-like of shape (n,) or str, optional
        The person each row belongs to, or the name of its column in a data frame or (with
        ``each="person"``) a Parquet file: the budget then protects a person with all their rows.
    group_size : int, optional
        Public bound m on the rows of one person; further rows are left out.  The noise is that of
        a budget of ``privacy / m`` for one row.  Standard errors are those of clusters; with
        weights, a ridge, a method or a free scale intervals allow for rows that go together as far
        as rows can (m times the sampling variance of independent ones).
    each : {"row", "person"}
        What counts once.  With "person" a person counts with the mean of what their rows
        contribute, however many these are: no ``group_size``, the noise of one row a person, and
        the number of rows is private.  The estimand weights each row by one over its person's
        number of rows.  If that number depends on the response (as for rows until an event), it
        differs from the estimand of the rows.  Rows come in any order, from memory or from files
        (not from Dask).  Centres and scales are estimated from one random row of each person.
    effects : {"person"}, optional
        With ``each="person"``, a coefficient for each person; none is released.  Persons' means
        are subtracted from their rows, and there is no intercept.  For least squares and the
        robust losses, of rows in memory; nothing is spent on it.
    sample_weight : array-like of shape (n,) or str, optional
        Private weight of each record, as of a sampling design, or the name of its column in a data
        frame or Parquet file (of Dask: a collection of its own, or the name).  Without a
        positive, finite weight a record is incomplete.  Standard errors are those of sampling
        weights, and do not change if all weights are multiplied by a number; ``freq_weights`` are
        another model.
    largest_weight : float, optional
        Public bound A; larger weights are clipped to it.  The default fits need none: the clipping
        norm of weighted scores is estimated with part of the budget.  Required with
        ``sample_weight`` wherever weights, a ridge, a method, a free scale or persons are asked
        for: there a record counts with ``a_i / A``, and the noise is ``A / mean(a_i)`` times that
        of equal weights.
    offset : array-like of shape (n,) or str, optional
        Private part of the linear predictor whose coefficient is 1, or the name of its column; in
        the units of y (logistic: of log odds).  Predictions are those for an offset of zero, unless
        it is the name of a column and the rows are a table that has it.
    threads : int, optional
        Threads of the compiled kernels; results do not depend on it.

    Privacy
    -------
    Costs nothing: the function that reads them says what it spends.  ``names``,
    ``group_size``, ``each`` and ``largest_weight`` must be public.  Groups, weights and offsets are
    private (claims C47, C70, C71 and C81 of ``dpfast/privacy/PROOFS.md``).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 1))
    >>> y = X[:, 0] + rng.normal(size=6000)
    >>> people = dpfast.records(X, y, names=["dose"], group=np.arange(6000) // 3, group_size=3)
    >>> dpfast.fit(people, loss="log-cosh", privacy=3.0).names
    ('intercept', 'dose')
    """
    if isinstance(X, Source):
        raise InvalidInput(
            "these are records already, with what belongs to them. Give dpfast.records "
            "everything at once."
        )
    return Source(
        X, y, names=names, group=group, group_size=group_size, each=each, effects=effects,
        sample_weight=sample_weight, largest_weight=largest_weight, offset=offset, threads=threads,
    )  # fmt: skip


@dataclass(repr=False, eq=False)
class Source:
    """Arguments that describe records, before anything is read; made by :func:`records`.

    Privacy
    -------
    Holds private data, and shows none of it; it cannot be pickled.
    """

    covariates: Any
    response: Any
    names: Any = None
    group: Any = None
    group_size: Any = None
    each: Any = "row"
    effects: Any = None
    sample_weight: Any = None
    largest_weight: Any = None
    offset: Any = None
    threads: Any = None
    #: Coding of the terms of a formula, whose values the covariates are.
    terms: Any = None

    @property
    def has_persons(self) -> bool:
        """Whether an argument is about persons, right or wrong: it is checked as it is read."""
        each = self.each
        return not (
            self.group is None
            and self.group_size is None
            and isinstance(each, str)
            and each == "row"
        )

    def but(self, **changed: Any) -> Source:
        """Return a copy with other covariates, response or columns."""
        return replace(self, **changed)

    def refuse_unused(self, takes: tuple[str, ...], instead: str = "") -> None:
        """Refuse what a function has no use for, before it is left out in silence.

        ``instead`` says what is possible in its place.
        """
        is_used = {
            "group": self.group is not None or self.group_size is not None,
            "each": not (isinstance(self.each, str) and self.each == "row"),
            "effects": self.effects is not None,
            "sample_weight": self.sample_weight is not None or self.largest_weight is not None,
            "offset": self.offset is not None,
        }
        for name in is_used:
            if is_used[name] and name not in takes:
                raise InvalidInput(
                    f"{name} of these records has no meaning here. {instead or 'Leave it out.'}"
                )

    def record_weights(self, of_predictor: bool, boundless: bool = False) -> RecordWeights | None:
        """Check the public part of weights and offsets; None without them."""
        if self.sample_weight is None and self.largest_weight is None and self.offset is None:
            return None
        from dpfast.data.record_weights.columns_given import record_weights

        arguments = self.sample_weight, self.largest_weight, self.offset
        return record_weights(*arguments, of_predictor, boundless)

    def __reduce__(self) -> Any:
        raise TypeError("records hold private data and are not picklable.")

    def __repr__(self) -> str:
        return f"records({type(self.covariates).__name__})"


def source_of(X: Any, y: Any) -> Source:
    """Join the arguments X and y of a function; X may already be records with everything."""
    if not isinstance(X, Source):
        return Source(X, y)
    if y is not None:
        raise InvalidInput(
            f"records hold their response: pass y=None, or leave it out; received {described(y)}."
        )
    return X


def as_records(X: Any, y: Any, names: Sequence[str] | None = None) -> Records:
    """Check shapes and dtypes of a regression data set and wrap it without copying."""
    if isinstance(X, Records):
        return _opened(X, y, names)
    if type(X).__module__.split(".")[0] in ("dask", "dask_expr"):
        from dpfast.data.cluster import dask_records

        return dask_records(X, y, names)
    wrap: Callable[..., Records] = Records
    plain = type(X) is type(y) is np.ndarray and (X.ndim, y.ndim) == (2, 1)
    if not (plain and X.dtype == y.dtype == FLOAT64):
        from dpfast.data.arrays import converted

        wrap, X, y, names = converted(X, y, names)
    if y.shape[0] != X.shape[0]:
        raise InvalidInput(
            f"X has {X.shape[0]} rows and y has {y.shape[0]} entries; each record needs one of "
            "both."
        )
    if X.shape[0] == 0:
        raise InvalidInput("X has no rows; at least one record is needed.")
    return wrap(X, y, checked_names(names, X.shape[1]))


def _opened(records: Records, y: Any, names: Any) -> Records:
    if y is not None or names is not None:
        raise InvalidInput(
            "records that were opened hold their response and names already. Pass y=None and no "
            "names."
        )
    return records
