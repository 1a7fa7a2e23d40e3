"""``like``: a public table of the same columns, from which units and whitening are taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpfast.curator.noisy_release import observed
from dpfast.data.scaling.units import from_elsewhere
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput, understood
from dpfast.fit_requests.account import Account
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.privacy.budget import GDP
from dpfast.privacy.noise import SeededNoise
from dpfast.scaling.standardized import GivenScaling, Standardized

#: What both tables have, or neither.
KINDS = ("group", "each", "sample_weight", "offset")

#: Budget of all queries of a public table: their noise is far below its sampling error.
SIMULATED = GDP(1e3)

#: Total of the queries of a public fit.
UNLIMITED = GDP(1e9)


@understood
def like(X: Any, y: Any = None) -> Like:
    """Name a public table with the columns of the private one, for ``fit(standardize=...)``.

    Centres and spreads, the Gram matrix that whitens the rows, the curvature and the first point of
    the Newton steps are then those of the public rows.  Nothing is spent on them: all but one
    histogram of the private scores' norms is left for the steps.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design, Records or Source
        Public covariates: an earlier year, another region, or synthetic rows.  With a formula, the
        table that has its columns.  With :func:`dpfast.records` weights, offsets or persons, if the
        private table has them.
    y : array-like of shape (n,), optional
        Public response.

    Returns
    -------
    Like
        For ``standardize`` of :func:`dpfast.fit`, also of a formula.

    Privacy
    -------
    None of this table: it must be public, or released before.  A part of the private table is
    neither, not even a sample of it.  A fit of the private table spends its total (claims D5 and
    C107).

    Notes
    -----
    Intervals are as right as the public Gram matrix.  A fit stops with most of its budget left
    where the private scores have another size, and warns where they vary otherwise in a direction.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(9000, 3))
    >>> y = X @ [1.0, 0.0, 2.0] + rng.normal(size=9000)
    >>> last_year = dpfast.regression.like(X[:4000], y[:4000])
    >>> fit = dpfast.fit(X[4000:], y[4000:], privacy=0.5, standardize=last_year)
    >>> fit.privacy.entries[0][0], len(fit.params)
    ('histogram of lengths', 4)
    """
    return Like(source_of(X, y))


def _kind(request: FitRequest) -> tuple[bool, bool, bool]:
    """Return whether records are persons, and have weights or offsets."""
    has = request.record_weights
    if has is None:
        return request.means, False, False
    return request.means, has.weight is not None, has.offset is not None


def _described(request: FitRequest) -> str:
    """Name what the records have beside their rows."""
    words = ("persons", "weights", "offsets")
    has = [word for word, one in zip(words, _kind(request), strict=True) if one]
    return " and ".join(has) or "none of them"


class Like:
    """Public table that is like the private one; see :func:`dpfast.regression.like`."""

    def __init__(self, source: Source) -> None:
        source.refuse_unused(KINDS, "a public table has no effects.")
        self.source = source

    def request(self, private: FitRequest, of_predictor: bool) -> FitRequest:
        """Check that the public rows have the columns, and the kind, of a private request."""
        request = FitRequest(
            self.source, None, Account(SIMULATED), fit_intercept=private.fit_intercept,
            noise=SeededNoise(0), takes=KINDS, per_person=True, of_predictor=of_predictor,
        )  # fmt: skip
        if _kind(request) != _kind(private):
            raise InvalidInput(
                "the public table of regression.like must have weights, offsets and persons where "
                "the private one has them, and none elsewhere: their scores would be of other "
                f"sizes. It has {_described(request)}, and the private one {_described(private)}. "
                "Pass both by dpfast.records(..., sample_weight=..., offset=...), and persons by "
                'dpfast.records(..., group=..., each="person"). With weights persons need '
                "group_size=... and largest_weight=... in the place of each."
            )
        same = request.records.names == private.records.names
        coded = (request.coding is None) == (private.coding is None)
        if request.n_covariates != private.n_covariates or not (same and coded):
            raise InvalidInput(
                f"the public table has the columns {list(request.column_names)} and the private "
                f"one {list(private.column_names)}: pass the same columns and levels in this order "
                "to regression.like, encoded in the same way."
            )
        return request

    def __deepcopy__(self, memo: dict[int, Any]) -> Like:
        return self  # nothing of it changes, and estimators are cloned

    def __repr__(self) -> str:
        return "<Like: public table>"


@contextmanager
def of_like() -> Iterator[None]:
    """Say that what is refused is the public table; observers of private answers see nothing."""
    try:
        with observed(None):
            yield
    except InvalidInput as error:
        raise InvalidInput(f"in the public table of regression.like: {error}") from error


class PublicScaling(GivenScaling):
    """Units of the columns of a public table: free."""

    def __init__(self, request: FitRequest, units: Standardized, *, inner: bool) -> None:
        if units.warnings:
            raise InvalidInput(" ".join(units.warnings))
        units.privacy = NOT_PRIVATE
        units._coding = from_elsewhere(units._coding, "taken from a public table")
        self.released, self.inner, self._request = units, inner, request
