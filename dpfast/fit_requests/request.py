"""Steps that all private fits share: check arguments, charge the budget, make the result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, check_constant, detached, flag, real_array, whole_number
from dpfast.curator import Curator
from dpfast.curator.curator import Prepared
from dpfast.data import Records, as_records
from dpfast.data.coding import Coding, Design
from dpfast.data.records import MIN_SAMPLING_FACTOR
from dpfast.data.scaling.units import ReleasedScales, in_units
from dpfast.data.source import source_of
from dpfast.errors import InvalidInput
from dpfast.fit_requests.account import Account as Account
from dpfast.fit_requests.rows import NewRows, OffsetRows
from dpfast.inference.degrees import UNSEEN, Covariance
from dpfast.inference.guarantees import MEANS_RELATION, Guarantee, group_relation
from dpfast.inference.results import Fit
from dpfast.kernels.process_threads import MOST_THREADS, refuse_malformed
from dpfast.models import FreeScale, Loss, Objective, Weighting, resolve_loss
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM

if TYPE_CHECKING:
    from dpfast.inference.composition import Composition

#: Additions to the description of a model of persons' means, and of rows less these means.
PERSON_MEANS_NOTE = ", each person's rows averaged"
WITHIN_NOTE = " less their own means"

#: What the guarantee of a resample rests on besides this library.
PUBLIC_ROWS = "the row numbers of the resample were drawn without looking at the records"

#: Temporary numbers of each record, beside the copies of its row.
NUMBERS_PER_RECORD = 8

#: Copies of persons' rows at a time, at most: standardised ones, those preconditioned for this step
#: and for the next, and a part of them.  Single rows are copied only in a subsample.
PERSON_COPIES = 4

#: Further copies of the block that is read or averaged.
COPIES_IN_USE = 3

Names = tuple[str, ...] | None


class FitRequest:
    """Checked arguments that all methods of fitting share, with their ledger and records.

    Parameters
    ----------
    X, y
        As of :func:`dpfast.fit`; ``X`` may be a source with options.
    account : Account, optional
        What may be spent; None for calls that charge nothing by themselves.
    takes : tuple of str
        Options of a source that the caller supports; others are refused.
    per_person : bool
        Treat a person's rows as one contribution, not as that many records.
    bound_to : int, optional
        Number of covariates that a given objective is for.
    of_predictor : bool
        Whether offsets are added to the linear predictor, not to the response.
    instead : str
        What is possible in the place of options of a source that are refused.

    Privacy
    -------
    Nothing is released: only public facts are checked, and nothing is charged.
    """

    remarks: tuple[str, ...] = ()
    #: Whether the released number of complete records is within its noise of zero.
    few_complete = False
    #: Names of covariates that look constant at this budget.
    undetected: tuple[str, ...] = ()
    within = False
    max_rows: int | None
    account: Account
    ledger: Ledger
    _separate_rows: Records
    subsample: Records | None = None
    #: A larger sample, for levels that are rare in the subsample.
    larger_subsample: Records | None = None
    #: How often a record occurs at most, and the number of records, of a public resample (C96).
    occurrences = 1
    n_resampled: int | None = None
    #: Which of several fits of one call this is; public.
    part = ""

    def __init__(
        self,
        X: Any,
        y: Any,
        account: Account | None = None,
        *,
        fit_intercept: bool,
        noise: NoiseSource | None,
        takes: tuple[str, ...] = (),
        per_person: bool = False,
        bound_to: int | None = None,
        of_predictor: bool = False,
        instead: str = "",
    ) -> None:
        source = source_of(X, y)
        source.refuse_unused(takes, instead)
        weights = source.record_weights(of_predictor, boundless=per_person and source.group is None)
        wants_intercept = flag(fit_intercept, "fit_intercept")
        self.group_size, self.means, self.max_rows = 1, False, None
        covariates, group = source.covariates, None
        group_columns: tuple[str, ...] = ()
        if source.has_persons:
            from dpfast.fit_requests.persons import read_persons

            covariates, group, group_columns = read_persons(self, source)
        self.noise = checked_noise(noise)
        self.threads = _checked_threads(source.threads)
        self.record_weights = weights
        weight_columns: tuple[str, ...] = ()
        if weights is not None:
            weight_columns = weights.names
            covariates, weights = weights.split_columns(covariates)
        self._read_records(covariates, source.response, source.names)
        self._describe_rows(covariates, source.response, (*group_columns, *weight_columns))
        if weights is not None:
            self._join_weights(weights, covariates)
        #: Coding whose columns are the covariates before they are rescaled, by a formula or schema.
        self.terms: Coding | None = self.coding if source.terms is None else source.terms
        self.single = self.records
        self._reads_before = self.records.reads
        if source.effects is not None:
            from dpfast.fit_requests.persons import take_own_means

            take_own_means(self, source.effects, group)
        if group is not None:
            from dpfast.fit_requests.persons import put_rows_together

            put_rows_together(self, covariates, group, per_person)
        # a formula may drop the intercept, and persons' own means cancel it
        designed = covariates.fit_intercept if isinstance(covariates, Design) else True
        self.fit_intercept = source.effects is None and flag(
            wants_intercept and designed, "fit_intercept"
        )
        if account is not None:
            self.account, self.ledger = account, account.open_ledger(self.group_size)
        self.n = self.records.n
        self.n_covariates = self.records.n_covariates
        if bound_to is not None:
            self._refuse_other_columns(bound_to, wants_intercept)
        self.dimension = self.n_covariates + int(self.fit_intercept)
        if self.dimension == 0:
            raise InvalidInput(
                "X has no columns and fit_intercept is False: there is nothing to fit."
            )

    def _read_records(self, X: Any, y: Any, names: Any) -> None:
        """Read the records and their coding, from a design, an array, a table or a file."""
        if isinstance(X, Design):
            if y is not None or X.y is None:
                raise InvalidInput(
                    "a design holds its own response: encode the table with response=..., and pass "
                    "y=None."
                )
            self.records = as_records(X.X, X.y, X.names if names is None else names)
            self.coding: Coding | None = X.coding
            return
        if isinstance(X, str):
            raise InvalidInput(
                "this function takes no formula: pass the covariates as X and the response as y, "
                "columns of the table. dpfast.fit takes formulas, with every loss."
            )
        if type(X) is not np.ndarray:
            from dpfast.data.columns import refuse_column_of

            refuse_column_of(X, y, "y")
        self.records = as_records(X, y, names)
        self.coding = self.records.coding

    def _describe_rows(self, X: Any, y: Any, special_columns: tuple[str, ...]) -> None:
        """Keep the public facts that read new rows; groups and weights are not covariates."""
        columns: Names = None
        kinds: Names = None
        if self.coding is None and type(X) is not np.ndarray:
            columns, kinds = _columns(X, y, self.records)
        known = self.records.names or () if self.coding is None else self.coding.columns
        not_covariates = tuple([name for name in special_columns if name not in known])
        self.new_rows = NewRows(self.coding, columns, kinds, not_covariates)

    def _join_weights(self, weights: Any, X: Any) -> None:
        """Attach weights and offsets to the records; offsets are in units of the response."""
        if self.means and weights.weight is not None:
            raise InvalidInput(
                'with each="person" a person counts with the mean of their rows, which have no '
                "other weights. Leave sample_weight out, or keep a public number of rows of "
                "each person with group_size=..."
            )
        response_unit = 1.0 if self.coding is None else self.coding.response_units()[1]
        self.records = weights.join(self.records, X, response_unit)

    @property
    def rows(self) -> Records:
        """Records, or the rows of persons in the order in which they were passed."""
        persons: Any = self.records
        return persons.rows if self.means else self.records

    def drop_covariates(self) -> None:
        """Go on without the covariates, of records in memory or of persons."""
        from dpfast.curator.persons import one_row_per_person

        if self.means:
            self.records = self.records.without_covariates()  # type: ignore[attr-defined]
        else:
            self.records = Records(np.empty((self.n, 0)), self.records.y, None)
        self.single, self.n_covariates = one_row_per_person(self.records, self.noise), 0

    def charge_rows_separately(self) -> None:
        """Treat each row of a person as a record, and charge for all m of them (C47)."""
        if self.max_rows is not None:
            self.group_size, self.max_rows, self.means = self.max_rows, None, False
            self.records = self.single = self._separate_rows
            self.n = self.records.n
            self.ledger = self.account.open_ledger(self.group_size)

    @property
    def mu(self) -> float:
        """Gaussian DP budget of one record."""
        spend: Any = self.ledger.total
        return float(spend.mu)

    def with_account(self, account: Account) -> FitRequest:
        """Copy the request for a part of the budget, with a ledger of its own."""
        request = detached(self)
        request.account, request.ledger = account, account.open_ledger(self.copies)
        return request

    def resampled(self, rows: NDArray[np.int64] | None, records: Records) -> FitRequest:
        """Copy the request for other records of the same columns, or for public rows of them."""
        request = detached(self)
        records.names = self.records.names
        if rows is not None:
            request.occurrences = most_occurrences(rows)
            request.n_resampled = records.n
            records = records._picked(rows)
        request.records = request.single = records
        request.n = records.n
        return request

    def _refuse_other_columns(self, columns: int, fit_intercept: bool) -> None:
        """Refuse an objective that was made for other columns."""
        if columns != self.n_covariates:
            raise InvalidInput(
                f"the objective is for {columns} covariates and X has {self.n_covariates}."
            )
        if fit_intercept != self.fit_intercept:
            raise InvalidInput(
                "the objective has an intercept and the design has none: its formula drops it."
            )

    def draw_subsample(self, size: float, larger_part: float = 0.0) -> None:
        """Prepare a secret random subsample of about this size, and a larger one if it pays.

        The larger one has this part of the records, or as many as can be cached.  Each is drawn at
        its first use.
        """
        if self.means:
            return
        cached = self.records.cached()
        if cached.read_again:
            from dpfast.data.files.cached import kept

            cached = kept(cached)
        self.single = cached if self.single is self.records else self.single
        self.records = cached
        if size * MIN_SAMPLING_FACTOR <= self.n:
            from dpfast.curator.blocks import sample
            from dpfast.data.parts import CACHE_BYTES

            self.subsample = sample(self.records, self.noise, size)
            larger_size = min(larger_part * self.n, CACHE_BYTES / (16.0 * (self.n_covariates + 1)))
            if larger_size >= 2.0 * size:
                self.larger_subsample = sample(self.records, self.noise, larger_size)

    def rescale(self, units: ReleasedScales, coding: Coding, *, inner: bool = False) -> None:
        """Express the records in released units; with ``inner`` results keep the present coding."""
        fitted, single = self.records, self.single
        self.records = in_units(fitted, units, coding)
        self.single = self.records if single is fitted else in_units(single, units, coding)
        if self.subsample is not None:
            self.subsample = in_units(self.subsample, units, coding)
        if self.larger_subsample is not None:
            self.larger_subsample = in_units(self.larger_subsample, units, coding)
        if not inner:
            columns, kinds = self.new_rows[1:3]
            if columns is not None and columns == tuple(coding.covariate_columns):
                columns = kinds = None
            self.coding = coding
            self.new_rows = NewRows(coding, columns, kinds, self.new_rows.others)

    def objective(
        self,
        loss: str | Loss,
        *,
        scale: float | FreeScale | None,
        weights: Weighting | None,
        ridge: float,
    ) -> Objective:
        """Build the objective that these arguments describe; scales are of the coded response."""
        return Objective(
            self.loss(loss), weights, self.n_covariates, fit_intercept=self.fit_intercept,
            scale=scale, ridge=ridge,
        )  # fmt: skip

    def loss(self, loss: str | Loss, mu: float | None = None) -> Loss:
        """Resolve a loss by name, with the constants that depend on the number of records."""
        return resolve_loss(loss)._for_records(self.n, self.dimension, mu)

    def coded_scale(self, scale: float | FreeScale | None) -> Any:
        """Convert a scale in the response's own units to the coded response."""
        spread = 1.0 if self.coding is None else self.coding.response_units()[1]
        if scale is None or spread == 1.0:
            return scale
        if isinstance(scale, FreeScale):
            return FreeScale(scale.low / spread, scale.high / spread, scale.start / spread)
        return check_constant(scale, "scale", "public residual scale, in the units of y") / spread

    def check_response(self, loss: Loss) -> None:
        """Refuse a response whose coding does not fit the link of the loss."""
        if self.coding is None or loss.link == "identity":
            return
        name, units = self.coding.response, self.coding.response_units()
        if units != (0.0, 1.0):
            needed, remedy = "of 0 and 1", "Binary(positive=..., negative=...)"
            if not loss.binary_response:
                needed, remedy = "in its own units", "Numeric(0, high, centre=0, unit=1)"
            raise InvalidInput(
                f"the {loss.name} loss needs a response {needed}, and {name!r} is declared "
                f"Numeric, coded ({name} - {units[0]:g}) / {units[1]:g}. Declare it {remedy}."
            )

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the covariates."""
        names = self.records.names
        return _numbered(self.n_covariates) if names is None else names

    def curator(
        self,
        objective: Objective,
        prepared: Prepared | None = None,
        *,
        ledger: Ledger | None = None,
        from_subsample: bool = False,
    ) -> Curator:
        """Make a curator of the records or the subsample; ``ledger`` replaces the request's own."""
        self.check_response(objective.loss)
        records = self.subsample if from_subsample else self.records
        assert records is not None
        return Curator(
            records, objective, ledger or self.ledger, self.noise, self.threads, prepared
        )

    def label(self, method: str, *facts: str) -> str:
        """Name the charge of a method in a shared ledger, with public facts."""
        sizes = [f"n={self.n}", f"p={self.dimension}"]
        return f"{method}({', '.join((*facts, *sizes, *filter(None, [self.part])))})"

    def memory_bytes(self, copies: int = 0, *, include_arrays: bool = False) -> int:
        """Return the bytes needed for copies of the covariates and for samples, by public sizes."""
        records, q = self.records, self.n_covariates
        in_arrays = hasattr(records, "X")
        if self.means:
            return memory_needed(self.n + max(records.block_sizes), q, copies + COPIES_IN_USE)
        if records.is_remote:
            return 0
        # the size of a random sample varies: allow twice what is expected
        sampled = sum(
            memory_needed(2 * sample.n, q, 1)
            for sample in (self.subsample, self.larger_subsample)
            if sample is not None
        )
        if records.in_memory or (include_arrays and in_arrays):
            return memory_needed(self.n, q, copies) + sampled
        from dpfast.data.parts import CACHE_BYTES

        rows = max(records.block_sizes)
        if in_arrays:
            from dpfast.data.streams import block_sizes_for

            rows = max(block_sizes_for(self.n, q))
        cached = min(memory_needed(self.n, q, copies), CACHE_BYTES) + NUMBERS_PER_RECORD * self.n
        return memory_needed(rows, q, copies + COPIES_IN_USE) + cached + sampled

    def default_fit_bytes(self) -> int:
        """Return the bytes that a default fit needs after its charge, with 32 matrices: public."""
        return (
            self.memory_bytes(PERSON_COPIES * self.means or self.records.read_again)
            + 256 * self.dimension**2
        )

    @property
    def _passes_read(self) -> int | None:
        """Number of passes over records that are read again, since the request was made."""
        reads, before = self.records.reads, self._reads_before
        return None if reads is None or before is None else reads - before

    @property
    def n_units(self) -> int:
        """Number of protected persons: n, unless records are grouped."""
        return self.n // self.group_size

    @property
    def copies(self) -> int:
        """Rows that one person or record moves at most: each costs as much (C47, C96)."""
        return self.group_size * self.occurrences

    def mu_left(self, mu: float) -> float:
        """Return what the charges so far have left of a mu, rounded down."""
        spent = math.fsum([charge.mu**2 for _, charge in self.ledger._charges()])
        return math.sqrt(mu**2 - spent) * (1.0 - ROUNDING_SUM)

    def spent_share(self) -> float:
        """Return the part of the total, in mu^2, that was spent so far."""
        spent: Any = self.ledger.spent
        return float((spent.mu / self.mu) ** 2)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of all charges so far, each of them in Gaussian DP."""
        m, ledger, copies = self.group_size, self.ledger, self.copies
        entries = [(label, copies * charge.mu) for label, charge in ledger._charges()]
        relation = group_relation(self.max_rows or m)
        if self.means and self.max_rows is None:
            relation = MEANS_RELATION
        spent: Composition | None = None  # then it is composed of the entries, when read
        if ledger.parts or m > 1:
            from dpfast.inference.composition import Rows, composition_of

            spent = composition_of(ledger) if m == 1 else Rows(m, composition_of(ledger))
        return Guarantee.of(
            self.account.total,
            self.noise,
            self.n_units if self.n_resampled is None else self.n_resampled,
            entries,
            relation=relation,
            vouched=() if self.n_resampled is None else (PUBLIC_ROWS,),
            expression=spent,
            returned=self.account.returned,
        )

    def facts(self) -> ResultFacts:
        """Return what a result needs of this request: public facts and released remarks."""
        weights = self.record_weights
        rows: Any = self.new_rows
        notes = PERSON_MEANS_NOTE * (self.means and self.max_rows is None)
        if weights is not None:
            notes = weights.description + notes
            if isinstance(weights.offset, str):
                rows = OffsetRows(rows, weights.offset)
        return ResultFacts(
            self._coefficient_names(), self.n, self.n_units, self.fit_intercept, self.coding, rows,
            notes + WITHIN_NOTE * self.within, self.remarks, self.few_complete, self._passes_read,
        )  # fmt: skip

    def make_result(
        self, theta: Array, target: Objective | Loss, *, method: str, **parts: Any
    ) -> Fit:
        """Build the fit (:meth:`ResultFacts.make_result`), which shows all charges so far."""
        if "privacy" not in parts:
            parts["privacy"] = self.guarantee()
        return self.facts().make_result(theta, target, method=method, **parts)

    def fit_of_slopes(
        self,
        slopes: Array,
        covariance: Covariance,
        model: str,
        method: str,
        remarks: tuple[str, ...],
    ) -> Fit:
        """Make the result of an analysis that releases slopes alone, and predicts nothing."""
        return Fit(
            params=slopes,
            names=self.column_names,
            n_records=self.n,
            model=model,
            method=method,
            privacy=self.guarantee(),
            covariance=self.released_covariance(covariance, self.column_names),
            iterates=np.array([np.zeros(len(slopes)), slopes]),
            fit_intercept=False,
            rows=NewRows(),
            remarks=remarks,
        )

    def _coefficient_names(self) -> tuple[str, ...]:
        names = self.column_names
        return ("intercept", *names) if self.fit_intercept else names

    def released_covariance(self, covariance: Covariance, names: Sequence[str] = ()) -> Covariance:
        """Remove the entries of a covariance that were not released.

        Nothing is left where too few records are complete.  With names, the entries of columns that
        look constant are removed.
        """
        dropped = np.array([name in self.undetected for name in names], dtype=bool)
        if dropped.any():
            covariance = covariance.without(dropped, UNSEEN)
        return covariance.uncounted() if self.few_complete else covariance


class ResultFacts(NamedTuple):
    """What a result needs of its request: public facts and released remarks, no records."""

    names: tuple[str, ...]
    n: int
    n_units: int
    fit_intercept: bool
    coding: Coding | None
    rows: Any
    notes: str
    remarks: tuple[str, ...]
    few_complete: bool
    reads: int | None

    def make_result(
        self,
        theta: Array,
        target: Objective | Loss,
        *,
        method: str,
        privacy: Guarantee,
        model: str | None = None,
        iterates: Sequence[Array] | None = None,
        covariance: Covariance | None = None,
        missing: str = "",
        predictor: Array | None = None,
    ) -> Fit:
        """Build the fit; a one-shot method has only two iterates, zero and its estimate."""
        names = self.names
        if iterates is None:
            iterates = [np.zeros(len(names)), theta]
        path = np.array(iterates)
        scale_is_free = isinstance(target, Objective) and target.free_scale is not None
        if scale_is_free:
            units = self._units_with_scale(target)
            names = (*names, "scale")
            with np.errstate(all="ignore"):  # of released numbers, in whatever units
                theta, path = theta * units, path * units
                covariance = covariance and _rescaled(covariance, units)
        if covariance is not None and self.few_complete:
            covariance = covariance.uncounted()
        return Fit(
            params=theta,
            names=names,
            n_records=self.n,
            model=(described_model(target) if model is None else model) + self.notes,
            method=method,
            privacy=privacy,
            covariance=covariance,
            missing=missing,
            remarks=self.remarks,
            predictor=predictor,
            iterates=path,
            **response_of(target),
            fit_intercept=self.fit_intercept,
            free_scale=scale_is_free,
            reads=self.reads,
            rows=self.rows,
        )

    def _units_with_scale(self, target: Any) -> Array:
        """Units of the coefficients and of the residual scale, which follows the response's."""
        units: Array = target.units()
        if self.coding is not None:
            units[-1] *= self.coding.response_units()[1]
        return units


def _rescaled(covariance: Covariance, units: Array) -> Covariance:
    """Multiply coefficients by these units in their covariance."""
    return covariance._replace(
        matrix=covariance.matrix * np.outer(units, units),
        unfinished=covariance.unfinished * units,
        spread=covariance.spread and covariance.spread._replace(units=units),
    )


def most_occurrences(rows: NDArray[np.int64]) -> int:
    """Return how often a record occurs at most in a resample, which is its price (claim C96)."""
    return int(np.bincount(rows).max())


@contextmanager
def hide_row_details(each: str) -> Iterator[None]:
    """Remove shapes and lengths from refusals where the number of a person's rows is private."""
    try:
        yield
    except InvalidInput as error:
        message = re.sub(
            r"shape \([^)]*\)|length \d+|(?<=lengths: )\[[^]]*\]",
            "a shape that is not shown",
            str(error),
        )
        of_persons = isinstance(each, str) and each == "person"
        if not of_persons or message == str(error):
            raise
        refusal = InvalidInput(message)
    else:
        return
    raise refusal


def _columns(X: Any, y: Any, records: Records) -> tuple[Names, Names]:
    """Return names of a table's columns in the covariates' order, and kinds if names repeat."""
    from dpfast.data.columns import column_kinds, label_list

    if isinstance(X, Records):
        return None if X.of_terms else records.names, None
    labels = label_list(X)
    if labels is None:
        return None, None
    names = tuple([str(name) for name in labels if not (isinstance(y, str) and str(name) == y)])
    if len(names) != records.n_covariates:
        return None, None
    return names, column_kinds(X) if len(set(names)) < len(names) else None


def described_model(objective: Any) -> str:
    """Describe the model and its estimand."""
    return f"{objective!r}{objective.loss._target(objective.scale)}"


def response_of(target: Any) -> dict[str, Any]:
    """Return a fit's arguments about the mean of the response, for predictions."""
    loss = target.loss if isinstance(target, Objective) else target
    if not isinstance(loss, Loss) or loss.link == "identity":
        return {}
    return {"linked": loss.name, "largest_mean": loss.largest_mean}


@lru_cache(maxsize=64)
def _numbered(n_covariates: int) -> tuple[str, ...]:
    return tuple([f"x{j + 1}" for j in range(n_covariates)])


def memory_needed(n: int, columns: int = 0, copies: int = 0) -> int:
    """Return the bytes of a few numbers of each record, and of copies of its row."""
    return 8 * n * (copies * (columns + 1) + NUMBERS_PER_RECORD)


def _checked_threads(threads: int | None) -> int:
    """Check a number of threads; 0 stands for the default of the process."""
    if threads is None:
        refuse_malformed()
        return 0
    return whole_number(threads, "threads", 1, MOST_THREADS, otherwise=", or None")


#: Largest entry of a start, and of the ridge's gradient there: the square stays within float64.
MAX_START = 1e100


def checked_start(start: Sequence[float] | None, dimension: int, ridge: float = 0.0) -> Array:
    """Check a public starting point; it is zero by default."""
    if start is None:
        return np.zeros(dimension)
    theta = np.array(real_array(start, "start"))
    if theta.shape != (dimension,) or not np.isfinite(theta).all():
        raise InvalidInput(
            f"start must be {dimension} finite numbers (the intercept first, if any); received "
            f"shape {theta.shape}."
        )
    if not np.abs(theta).max(initial=0.0) * max(1.0, ridge) <= MAX_START:
        raise InvalidInput(
            f"start must be within {MAX_START:g} of zero, and so must its product with the ridge."
        )
    return theta
