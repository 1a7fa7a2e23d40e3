"""What every private fit does before and after its own work: check, charge, report."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import check_constant, flag, real_array, whole_number
from dpfast.curator import Curator
from dpfast.curator.curator import Prepared
from dpfast.data import Records, as_records
from dpfast.data.coding import Coding, Design
from dpfast.data.records import MIN_SAMPLING_FACTOR
from dpfast.data.scaling.units import ReleasedScales
from dpfast.data.source import source_of
from dpfast.errors import BudgetWarning, InvalidBudget, InvalidInput, described
from dpfast.fit_requests.rows import NewRows, OffsetRows
from dpfast.inference.degrees import UNSEEN, Covariance
from dpfast.inference.guarantees import MEANS_RELATION, Guarantee, group_relation
from dpfast.inference.results import Fit
from dpfast.kernels.process_threads import MOST_THREADS, refuse_malformed
from dpfast.models import FreeScale, Loss, Objective, Weighting, resolve_loss
from dpfast.privacy.budget import GDP, ApproxDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_PRODUCT

if TYPE_CHECKING:
    from dpfast.inference.composition import Composition

#: What the description of a model says of them.
OF_PERSONS = ", each person's rows averaged"
WITHIN = " less their own means"

#: Bytes that are there before anything is charged, beside those of the records; numbers of each
#: record of which temporary copies are made, beside its row.
SPARE, BESIDE = 1 << 26, 8

#: Copies of persons' rows that there are at a time at most: in units, under the map of a round and
#: that of the next; and a part of them.  Of others there are none but those of a sample.
COPIES = 4

#: Further copies of what is read, or averaged, at a time.
AT_A_TIME = 3

Array = NDArray[np.float64]
Told = TypeVar("Told")
Names = tuple[str, ...] | None
PrivacyLike = Budget | float | tuple[float, float]


class FitRequest:
    """Checked arguments that all methods of fitting share."""

    remarks: tuple[str, ...] = ()
    #: Whether a released number of records that count is within its noise of zero.
    uncounted = False
    #: Names of covariates of which no spread was seen.
    undetected: tuple[str, ...] = ()
    within = False
    max_rows: int | None
    account: Account
    ledger: Ledger
    _slots: Records
    subsample: Records | None = None
    #: A larger sample, for levels that few of it have.
    larger_subsample: Records | None = None

    def __init__(
        self,
        X: Any,
        y: Any,
        account: Account | None = None,
        *,
        fit_intercept: bool,
        noise: NoiseSource | None,
        takes: tuple[str, ...] = (),
        together: bool = False,
        bound_to: int | None = None,
        of_predictor: bool = False,
    ) -> None:
        source = source_of(X, y)
        source.refuse_unused(takes)
        X, y, names = source.covariates, source.response, source.names
        group, group_size, each = source.group, source.group_size, source.each
        record_weights = source.record_weights(of_predictor, boundless=together and group is None)
        fit_intercept = asked = flag(fit_intercept, "fit_intercept")
        others: tuple[str, ...] = ()
        self.group_size, self.means, self.max_rows = 1, False, None
        alone = isinstance(each, str) and each == "row"
        if not (group is None and group_size is None and alone):
            from dpfast.fit_requests.persons import read_persons

            X, group, others = read_persons(self, X, y, group, group_size, each)
        self.noise = checked_noise(noise)
        self.threads = _checked_threads(source.threads)
        self.coding: Coding | None = None
        self.record_weights, others = (
            record_weights,
            (*others, *(() if record_weights is None else record_weights.names)),
        )
        if record_weights is not None:
            X, record_weights = record_weights.split_columns(X)
        if isinstance(X, Design):
            if y is not None or X.y is None:
                raise InvalidInput(
                    "a design holds its own response: encode the table with response=..., and pass "
                    "y=None."
                )
            self.coding, fit_intercept = X.coding, fit_intercept and X.fit_intercept
            self.records = as_records(X.X, X.y, X.names if names is None else names)
        else:
            if type(X) is not np.ndarray:
                from dpfast.data.columns import refuse_column_of

                refuse_column_of(X, y, "y")
            self.records = as_records(X, y, names)
            self.coding = self.records.coding
        columns: tuple[str, ...] | None = None
        kinds: tuple[str, ...] | None = None
        if self.coding is None and type(X) is not np.ndarray:
            columns, kinds = _columns(X, y, self.records)
        known = self.records.names or () if self.coding is None else self.coding.columns
        others = tuple([name for name in others if name not in known])
        self.new_rows = NewRows(self.coding, columns, kinds, others)
        if record_weights is not None:
            if self.means and record_weights.weight is not None:
                raise InvalidInput(
                    'with each="person" a person counts with the mean of their rows, which have no '
                    "other weights. Leave sample_weight out, or keep a public number of rows of "
                    "each person with group_size=..."
                )
            spread = 1.0 if self.coding is None else self.coding.response_units()[1]
            self.records = record_weights.join(self.records, X, spread)
        self.single = self.records
        self._read_before = self.records.reads
        if source.effects is not None:
            from dpfast.fit_requests.persons import take_own_means

            take_own_means(self, source.effects, group)
            fit_intercept = False
        if group is not None:
            from dpfast.fit_requests.persons import put_together

            put_together(self, X, group, together)
        self.fit_intercept = flag(fit_intercept, "fit_intercept")
        if account is not None:
            self.account, self.ledger = account, account.open_ledger(self.group_size)
        self.n = self.records.n
        self.n_covariates = self.records.n_covariates
        if bound_to is not None:
            self._refuse_other_columns(bound_to, asked)
        self.dimension = self.n_covariates + int(fit_intercept)
        if self.dimension == 0:
            raise InvalidInput(
                "X has no columns and fit_intercept is False: there is nothing to fit."
            )

    @property
    def rows(self) -> Records:
        """The records, or the rows of persons in the order in which they were passed."""
        persons: Any = self.records
        return persons.rows if self.means else self.records

    def responses_alone(self) -> None:
        """Go on without the covariates, of records in memory or of persons."""
        from dpfast.curator.persons import one_row_per_person

        if self.means:
            self.records = self.records.without_covariates()  # type: ignore[attr-defined]
        else:
            self.records = Records(np.empty((self.n, 0)), self.records.y, None)
        self.single, self.n_covariates = one_row_per_person(self.records, self.noise), 0

    def in_slots(self) -> None:
        """Go on with each row of a person as a record of its own, of which m are charged (C47)."""
        if self.max_rows is not None:
            self.group_size, self.max_rows, self.means = self.max_rows, None, False
            self.records = self.single = self._slots
            self.n = self.records.n
            self.ledger = self.account.open_ledger(self.group_size)

    @property
    def mu(self) -> float:
        """What may be spent on one record."""
        spend: Any = self.ledger.total
        return float(spend.mu)

    def with_account(self, account: Account) -> FitRequest:
        """The same request for a part of the budget, with a ledger of its own."""
        found = copy(self)
        found.account, found.ledger = account, account.open_ledger(self.group_size)
        return found

    def _refuse_other_columns(self, columns: int, fit_intercept: bool) -> None:
        """What an objective that is bound to columns is not for."""
        if columns != self.n_covariates:
            raise InvalidInput(
                f"the objective is for {columns} covariates and X has {self.n_covariates}."
            )
        if fit_intercept != self.fit_intercept:
            raise InvalidInput(
                "the objective has an intercept and the design has none: its formula drops it."
            )

    def sample(self, wanted: float, part: float = 0.0) -> None:
        """Have a secret sample of about so many records, and a larger one, up to this part of all
        or as many as can be kept; each is drawn when it is first looked at.
        """
        if self.means:
            return
        near = self.records.cached()
        self.single = near if self.single is self.records else self.single
        self.records = near
        if wanted * MIN_SAMPLING_FACTOR <= self.n:
            from dpfast.curator.blocks import sample
            from dpfast.data.parts import KEPT_BYTES

            self.subsample = sample(self.records, self.noise, wanted)
            larger = min(part * self.n, KEPT_BYTES / (16.0 * (self.n_covariates + 1)))
            if larger >= 2.0 * wanted:
                self.larger_subsample = sample(self.records, self.noise, larger)

    def with_scales(self, units: ReleasedScales, coding: Coding, *, inner: bool = False) -> None:
        """Go on with the same records in released units; ``inner``: results stay as coded now."""
        fitted, single = self.records, self.single
        self.records = fitted._in_units(units, coding)
        self.single = self.records if single is fitted else single._in_units(units, coding)
        self.subsample = self.subsample and self.subsample._in_units(units, coding)
        self.larger_subsample = self.larger_subsample and self.larger_subsample._in_units(
            units, coding
        )
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
        """The objective these arguments describe; the scales are of the coded response."""
        return Objective(
            self.loss(loss), weights, self.n_covariates, fit_intercept=self.fit_intercept,
            scale=scale, ridge=ridge,
        )  # fmt: skip

    def loss(self, loss: str | Loss, mu: float | None = None) -> Loss:
        """A loss by name, with the constants that depend on the number of records."""
        return resolve_loss(loss)._for_records(self.n, self.dimension, mu)

    def coded_scale(self, scale: float | FreeScale | None) -> Any:
        """A scale in the response's own units as one of the coded response."""
        spread = 1.0 if self.coding is None else self.coding.response_units()[1]
        if scale is None or spread == 1.0:
            return scale
        if isinstance(scale, FreeScale):
            return FreeScale(scale.low / spread, scale.high / spread, scale.start / spread)
        return check_constant(scale, "scale", "public residual scale, in the units of y") / spread

    def check_response(self, loss: Loss) -> None:
        """Refuse a response that a schema codes otherwise than a loss with a link needs."""
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
        """Of the covariates."""
        names = self.records.names
        return _numbered(self.n_covariates) if names is None else names

    def curator(
        self,
        objective: Objective,
        prepared: Prepared | None = None,
        *,
        ledger: Ledger | None = None,
        few: bool = False,
    ) -> Curator:
        """Of the records or the sample; another ledger pays for its answers, if one is given."""
        self.check_response(objective.loss)
        records, paying = self.subsample if few else self.records, ledger or self.ledger
        assert records is not None
        return Curator(records, objective, paying, self.noise, self.threads, prepared)

    def label(self, method: str, *facts: str) -> str:
        """What a shared ledger calls the charge of a method."""
        return f"{method}({', '.join((*facts, f'n={self.n}', f'p={self.dimension}'))})"

    def memory_bytes(self, copies: int = 0, *, whole: bool = False) -> int:
        """Bytes of so many copies of the covariates, what is beside them and a sample: public."""
        records, q, arrays = self.records, self.n_covariates, hasattr(self.records, "X")
        if self.means:
            return memory_needed(self.n + max(records.block_sizes), q, copies + AT_A_TIME)
        if records.elsewhere:
            return 0
        # slots are dealt at random: twice as many records as are to be expected
        own = 0 if self.subsample is None else memory_needed(2 * self.subsample.n, q, 1)
        own += (
            0 if self.larger_subsample is None else memory_needed(2 * self.larger_subsample.n, q, 1)
        )
        if records.in_memory or (whole and arrays):
            return memory_needed(self.n, q, copies) + own
        from dpfast.data.parts import KEPT_BYTES

        rows = max(records.block_sizes)
        if arrays:
            from dpfast.data.streams import block_sizes_for

            rows = max(block_sizes_for(self.n, q))
        kept = min(memory_needed(self.n, q, copies), KEPT_BYTES) + BESIDE * self.n
        return memory_needed(rows, q, copies + AT_A_TIME) + kept + own

    def default_fit_bytes(self) -> int:
        """Bytes that a default fit needs after its charge, of them 32 matrices: public."""
        return (
            self.memory_bytes(COPIES * self.means or self.records.read_again)
            + 256 * self.dimension**2
        )

    @property
    def _reads(self) -> int | None:
        """How many times records that are read again were read for this request."""
        reads, before = self.records.reads, self._read_before
        return None if reads is None or before is None else reads - before

    @property
    def n_units(self) -> int:
        """Number of persons, each of whom the budget protects: n, unless there are groups."""
        return self.n // self.group_size

    def guarantee(self) -> Guarantee:
        """What was spent so far, by a method whose every charge is in Gaussian DP."""
        m, ledger = self.group_size, self.ledger
        entries = [(label, m * spend.mu) for label, spend, _ in ledger._current()[1]]
        relation = group_relation(self.max_rows or m)
        if self.means and self.max_rows is None:
            relation = MEANS_RELATION
        spent: Composition | None = None  # the sum of the entries, which is made when asked for
        if ledger.parts or m > 1:
            from dpfast.inference.composition import Rows, composition_of

            spent = composition_of(ledger) if m == 1 else Rows(m, composition_of(ledger))
        about = self.account.total, self.noise, self.n_units, entries
        return Guarantee.of(*about, relation=relation, expression=spent)

    def make_result(
        self,
        theta: Array,
        target: Objective | Loss,
        *,
        method: str,
        privacy: Guarantee | None = None,
        model: str | None = None,
        iterates: Sequence[Array] | None = None,
        covariance: Covariance | None = None,
        missing: str = "",
        predictor: Array | None = None,
    ) -> Fit:
        """The result; a one-shot method has no path, only the zero start and its answer."""
        if iterates is None:
            iterates = [np.zeros(self.dimension), theta]
        units: Array | None = None
        if isinstance(target, Objective) and target.free_scale is not None:
            units = target.units()
        names = self._coefficient_names()
        path = np.array(iterates)
        if units is not None:
            if self.coding is not None:
                units[-1] *= self.coding.response_units()[1]
            names = (*names, "scale")
            with np.errstate(all="ignore"):  # of released numbers, in whatever units
                theta, path = theta * units, path * units
                if covariance is not None:
                    covariance = covariance._replace(
                        matrix=covariance.matrix * np.outer(units, units),
                        unfinished=covariance.unfinished * units,
                        spread=covariance.spread and covariance.spread._replace(units=units),
                    )
        told = "" if self.record_weights is None else self.record_weights.description
        offset = None if self.record_weights is None else self.record_weights.offset
        named = offset if isinstance(offset, str) else None
        return Fit(
            params=theta,
            names=names,
            n_records=self.n,
            model=(described_model(target) if model is None else model)
            + told
            + OF_PERSONS * (self.means and self.max_rows is None)
            + WITHIN * self.within,
            method=method,
            privacy=self.guarantee() if privacy is None else privacy,
            covariance=covariance and self.released_covariance(covariance),
            missing=missing,
            remarks=self.remarks,
            predictor=predictor,
            iterates=path,
            **response_of(target),
            fit_intercept=self.fit_intercept,
            free_scale=units is not None,
            reads=self._reads,
            rows=self.new_rows if named is None else OffsetRows(self.new_rows, named),
        )

    def _coefficient_names(self) -> tuple[str, ...]:
        names = self.column_names
        return ("intercept", *names) if self.fit_intercept else names

    def released_covariance(self, covariance: Covariance, names: Sequence[str] = ()) -> Covariance:
        """A covariance, or none where no records count, as far as was released.

        Of coefficients with names none where no spread of their columns was seen, either.
        """
        lost = np.array([name in self.undetected for name in names], dtype=bool)
        if lost.any():
            covariance = covariance.without(lost, UNSEEN)
        return covariance.uncounted() if self.uncounted else covariance


@contextmanager
def hide_row_details(each: str) -> Iterator[None]:
    """Refusals of rows of persons, whose number is private, without shapes and lengths."""
    try:
        yield
    except InvalidInput as error:
        told = re.sub(
            r"shape \([^)]*\)|length \d+|(?<=lengths: )\[[^]]*\]",
            "a shape that is not shown",
            str(error),
        )
        of_persons = isinstance(each, str) and each == "person"
        if not of_persons or told == str(error):
            raise
        refusal = InvalidInput(told)
    else:
        return
    raise refusal


def _columns(X: Any, y: Any, records: Records) -> tuple[Names, Names]:
    """Names of the columns of a table, in the order of the covariates; and what they are, if only
    that tells them apart.
    """
    from dpfast.data.columns import column_kinds, column_names, is_table

    if isinstance(X, Records):
        return None if X.of_terms else records.names, None
    if not is_table(X):
        return None, None
    names = tuple([name for name in column_names(X) if not (isinstance(y, str) and name == y)])
    if len(names) != records.n_covariates:
        return None, None
    return names, column_kinds(X) if len(set(names)) < len(names) else None


def described_model(objective: Any) -> str:
    """What a result says was estimated."""
    return f"{objective!r}{objective.loss._target(objective.scale)}"


def response_of(target: Any) -> dict[str, Any]:
    """What a result has to know of the response to predict it, from an objective or another."""
    loss = target.loss if isinstance(target, Objective) else target
    if not isinstance(loss, Loss) or loss.link == "identity":
        return {}
    return {"linked": loss.name, "largest_mean": loss.largest_mean}


@lru_cache(maxsize=64)
def _numbered(n_covariates: int) -> tuple[str, ...]:
    return tuple([f"x{j + 1}" for j in range(n_covariates)])


def memory_needed(n: int, columns: int = 0, copies: int = 0) -> int:
    """Bytes of some numbers of each record, and of copies of its row."""
    return 8 * n * (copies * (columns + 1) + BESIDE)


#: Squares of larger budgets leave float64, and so does noise that spends them.
LARGEST_MU = 1e100

#: Epsilon of a request beyond which the promise is hardly one.
MOST_EPSILON = 20.0


class Account:
    """What a call may spend in all: as it was asked for, what that is here, and who else pays."""

    def __init__(
        self, privacy: PrivacyLike, shared: Ledger | None = None, total: Budget | None = None
    ) -> None:
        self.total: Any = GDP.within(privacy) if total is None else total
        if isinstance(self.total, GDP) and self.total.mu > LARGEST_MU:
            raise InvalidBudget(
                f"noise cannot be so small that mu = {self.total.mu:g} is spent. Pass a smaller "
                "budget."
            )
        self._asked, self._shared = privacy, shared

    def open_ledger(self, rows: int) -> Ledger:
        """Of what one record may cost, so that a person's rows cost the total together (C47)."""
        one = self.total if rows == 1 else GDP(self.total.mu / rows * (1.0 - ROUNDING_PRODUCT))
        return Ledger(one)

    def warn_of_weak(self, n: int) -> None:
        """Say, before anything is charged, that a budget in epsilon promises next to nothing."""
        asked = as_budget(self._asked)
        if not isinstance(asked, ApproxDP):
            return
        epsilon, delta = asked.values()
        if delta * n >= 1.0:
            warnings.warn(
                f"delta = {delta:g} is at least 1/n = {1.0 / n:.2g}: publishing one of the {n} "
                "records as it is would keep this promise. Pass a delta far below 1/n, such as "
                f"({epsilon:g}, {0.01 / n:.0e}).",
                BudgetWarning,
                stacklevel=3,
            )
        if epsilon > MOST_EPSILON:
            warnings.warn(
                f"epsilon = {epsilon:g} promises next to nothing: an attacker's odds may change by "
                f"a factor of exp({epsilon:g}). Common values are between 0.1 and 10.",
                BudgetWarning,
                stacklevel=3,
            )

    def charge(self, label: str, room: int = 0) -> None:
        """Charge the ledger several analyses share, in its own currency if that was asked for."""
        np.empty(SPARE + room, np.uint8)  # MemoryError, before anything is charged
        if self._shared is not None:
            _checked_ledger(self._shared).charge(self._spend(self._shared), label)

    def refuse_unpayable(self, label: str) -> None:
        """Refuse what the ledger cannot pay, before work that has to come before the charge."""
        if self._shared is not None:
            _checked_ledger(self._shared).check(self._spend(self._shared), label)

    def charge_after(self, first: Callable[[], Told], label: str, room: int = 0) -> Told:
        """Charge when a caller's function first told something of the right shape, not before."""
        self.refuse_unpayable(label)
        told = first()
        self.charge(label, room)
        return told

    def _spend(self, ledger: Ledger) -> Budget:
        asked = as_budget(self._asked)
        in_mu = ledger.keeps_apart and isinstance(self.total, GDP)
        total: Budget = self.total
        return asked if type(asked) is type(ledger.total) and not in_mu else total


def _checked_ledger(ledger: Any) -> Ledger:
    if not isinstance(ledger, Ledger):
        raise InvalidInput(
            "ledger must be a dpfast.Ledger, such as dpfast.Ledger.open(path), or None; received "
            f"{described(ledger)}."
        )
    return ledger


def _checked_threads(threads: int | None) -> int:
    """A number of threads, 0 for the default of the process that sums."""
    if threads is None:
        refuse_malformed()
        return 0
    return whole_number(threads, "threads", 1, MOST_THREADS, otherwise=", or None")


#: Of a start, and of the ridge's gradient there: their squares stay within float64.
FARTHEST = 1e100


def checked_start(start: Sequence[float] | None, dimension: int, ridge: float = 0.0) -> Array:
    """A public starting point, zero by default."""
    if start is None:
        return np.zeros(dimension)
    theta = np.array(real_array(start, "start"))
    if theta.shape != (dimension,) or not np.isfinite(theta).all():
        raise InvalidInput(
            f"start must be {dimension} finite numbers (the intercept first, if any); received "
            f"shape {theta.shape}."
        )
    if not np.abs(theta).max(initial=0.0) * max(1.0, ridge) <= FARTHEST:
        raise InvalidInput(
            f"start must be within {FARTHEST:g} of zero, and so must be its product with the ridge."
        )
    return theta
