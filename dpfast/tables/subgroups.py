"""``fits``: one regression in every level of a declared grouping, at the price of one fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, positive
from dpfast.curator.answers import Answer
from dpfast.curator.tables.cells import Cells
from dpfast.data import Records
from dpfast.data.formula import terms_of
from dpfast.data.schema import Schema
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import PERSON_COPIES, Account, FitRequest
from dpfast.fit_requests.rows import rows_of_formula
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective, resolve_loss
from dpfast.models.names import kind_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit
from dpfast.regression.fit import fit
from dpfast.regression.formula import table_source, with_columns
from dpfast.scaling.budget import ScalingBudget, records_needed, refuse_too_few_records
from dpfast.scaling.private import PrivateScaling, refuse_no_columns
from dpfast.scaling.remarks import stopped_levels_remark
from dpfast.tables.fitted import SubgroupFits
from dpfast.tables.grouping import levels_beside, one_grouping, refuse_within

#: Losses whose fits release only the queries that claim T6 covers.
LOSSES = ("least-squares", "log-cosh", "huber", "pseudo-huber", "logistic")

#: Levels at most: each is a fit, which reads all records.
MAX_LEVELS = 200

#: Share of mu^2 for the counts of levels, which only decide whether a level is fitted.
COUNTS_SHARE = 0.01

PERSONS = (
    "A person with rows in several levels would cost several fits. Pass one row of each person, or "
    "fit products with the levels, dpfast.fit('y ~ x * C(g)', ...), which protects persons."
)


#: Least mu: below it claim T6 does not cover the rounding of single queries.
MIN_MU = 0.01


def fits(
    formula: str,
    table: Any,
    by: str | Sequence[str],
    loss: str | Loss = "least-squares",
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> SubgroupFits:
    """Fit a regression in each level of a declared grouping, and test whether they are equal.

    All levels together cost one fit, because a record is in one of them.  Each level's fit has the
    noise of a fit with all of the budget.  Centres and scales of columns are estimated once, from
    all records.

    Parameters
    ----------
    formula : str
        As for :func:`dpfast.fit`.
    by : str or sequence of str
        One column that the schema declares categorical or binary.
    loss : {"least-squares", "log-cosh", "huber", "pseudo-huber", "logistic"}
    least : float
        Public: levels with fewer records are not fitted, as are those with too few records for so
        many coefficients, by a released count.
    table, schema, privacy, ledger, noise
        As for :func:`dpfast.tables.counts`; :func:`dpfast.records` adds weights and offsets.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T6).  Every query of every
    fit is about all n records, where those of other levels contribute zero.  A record
    that changes its level moves two fits, each by no more than the root of one half.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, sex = rng.normal(size=6000), np.tile(["F", "M"], 3000)
    >>> table = {"x": x, "sex": sex, "y": x * (1 + (sex == "M")) + rng.normal(size=6000)}
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> by_sex = dpfast.tables.fits("y ~ x", table, "sex", schema=schema, privacy=1.0)
    >>> by_sex.params.shape, bool(by_sex.equality()["x"][1] < 0.001)
    ((2, 2), True)
    """
    account = Account(privacy, ledger)
    analysis = _FitsByLevel(formula, table, by, loss, schema, account, least, noise)
    request = analysis.request
    label = request.label("tables.fits", analysis.loss, f"levels={len(analysis.levels)}")
    return run(analysis, label, request.memory_bytes(PERSON_COPIES + 1, include_arrays=True))


class _FitsByLevel(Analysis[SubgroupFits]):
    """Fits by level: public decisions before the charge, and the fits after it."""

    returns_unused = True

    def __init__(
        self,
        formula: Any,
        table: Any,
        by: Any,
        loss: Any,
        schema: Any,
        account: Account,
        least: Any,
        noise: NoiseSource | None,
    ) -> None:
        self.by, self.levels = one_grouping(schema, by)
        if len(self.levels) > MAX_LEVELS:
            raise InvalidInput(
                f"{self.by!r} has {len(self.levels)} levels; at most {MAX_LEVELS} are fitted one "
                "by one. Declare coarser levels, or fit them together: "
                "dpfast.tables.small_areas(...)."
            )
        kind = _checked_loss(loss)
        self.loss = kind.name
        min_count = positive(least, "least", or_zero=True)
        self._source = with_columns(table_source(table))
        table = self._source.covariates
        self._terms = terms = terms_of(formula, schema, table)
        refuse_within([self.by], [terms.columns])
        design, intercept = terms.coding.design(table), terms.coding.fit_intercept
        X, y = design.X, terms.left.design(table).X[:, 0]
        self._y, self._intercept = y, intercept
        self._codes = levels_beside(schema, self.by, table, y)
        self._objective = Objective(loss, fit_intercept=intercept)
        self._source = self._source.but(covariates=X, names=design.names, terms=terms.coding)
        self.request = FitRequest(
            self._source.but(response=y), None, account, fit_intercept=intercept, noise=noise,
            takes=("sample_weight", "offset"), per_person=True,
            of_predictor=kind.link != "identity", instead=PERSONS,
        )  # fmt: skip
        refuse_no_columns(self.request)
        self.names = self.request.column_names
        self._plan_budget(kind, account.total.mu)
        p = self.request.dimension
        refuse_too_few_records(
            self.request.n, p, self._mu, ": coefficients of any level", "covariates"
        )
        self.least = max(min_count, records_needed(p, self._mu))
        # refuses, before the charge, what the fit of a level would refuse
        trial = self.request.with_account(Account(GDP(self._mu)))
        DefaultFit(trial, [kind], scale=None, standardize=self._scaling, inference=True)
        self._fits: list[Fit | None] = []
        self._counted: Answer | None = None

    def _plan_budget(self, kind: Loss, mu: float) -> None:
        """Divide ``mu`` between counts, column scales and fits, and plan the first two."""
        if mu < MIN_MU:
            raise InvalidBudget(f"fits by level need mu of at least {MIN_MU}; received {mu:.3g}.")
        request, linked = self.request, kind.link != "identity"
        n, q = request.n, request.n_covariates
        mu *= 1.0 - ROUNDING_SUM
        offset = linked and self._source.offset is not None
        budget = ScalingBudget(n, q + offset + int(not linked), mu)
        share = budget.share()
        self._mu_counts = mu * math.sqrt(COUNTS_SHARE)
        mu_scaling = mu * math.sqrt(share)
        self._mu = mu * math.sqrt(1.0 - COUNTS_SHARE - share)
        cells = Records(np.empty((n, 0)), np.where(self._codes < 0, np.nan, self._codes), None)
        self._cells = Cells(cells, len(self.levels), (), request.ledger, request.noise)
        self._cells.counts_receipt(self._mu_counts)
        self._scaling = PrivateScaling(
            request, mu_scaling, response=not linked, linked=linked,
            labels=kind.binary_response, whole=mu, offset=offset, least=budget.least_records(),
        )  # fmt: skip

    def too_few(self) -> str:
        """Ask how many records each level has, and how many are complete."""
        self._counted = counted = self._cells.counts(self._mu_counts)
        if (counted.value < self.least).all():
            noise = counted.noise_scale * math.sqrt(len(self.levels))
            together = float(counted.value.sum()), noise
            return stopped_levels_remark(
                self.request.spent_share(), together, self.request.n, self.by, self.least
            )
        return self._scaling.too_few()

    def nothing(self, remark: str) -> SubgroupFits:
        """Report the counts, without a fit."""
        assert self._counted is not None
        return replace(self.report(self._counted), stopped=remark)

    def query(self, report: Progress | None) -> Answer:
        """Release column scales, and fit the levels with enough records."""
        counted, scaling = self._counted, self._scaling.run()
        assert counted is not None
        spend = GDP(self._mu)
        ledgers = [Ledger(spend) for _ in self.levels]
        self.request.ledger.charge(spend, "levels side by side")
        self.request.ledger.parts.append(Part("levels side by side", spend, ledgers, disjoint=True))
        for level, level_ledger in enumerate(ledgers):
            level_fit = None
            if counted.value[level] >= self.least:
                masked_y = masked(self._y, self._codes, level)
                source = self._source.but(response=masked_y)
                level_fit = fit(
                    source, loss=self._objective, noise=self.request.noise,
                    privacy=spend, standardize=scaling, ledger=level_ledger,
                )  # fmt: skip
                level_fit = rows_of_formula(level_fit, self._terms.coding)
            self._fits.append(level_fit)
        return counted

    def so_far(self, error: str, keeping: KeepReleased) -> SubgroupFits | None:
        """Build the result from the fits so far; None before the counts are released."""
        return self._counted and self.report(self._counted, keeping.inner())

    def report(self, answers: Answer, unfinished: Any = None) -> SubgroupFits:
        """Build the result from the fits, and from what the last one had released."""
        not_fitted: list[Fit | None] = [None] * (len(self.levels) - len(self._fits))
        names = ("intercept", *self.names) if self._intercept else self.names
        return SubgroupFits(
            by=self.by,
            levels=self.levels,
            names=tuple(names),
            loss=self.loss,
            fits=(*self._fits, *not_fitted),
            counts=answers.value,
            count_noise=answers.noise_scale,
            least=self.least,
            n_records=self.request.n,
            privacy=self.request.guarantee(),
            unfinished=unfinished,
        )


def _checked_loss(loss: Any) -> Loss:
    """Return the loss, refused unless claim T6 covers its fits."""
    if isinstance(loss, Objective):
        raise InvalidInput(f"loss must be one of {LOSSES}; received an Objective.")
    kind = resolve_loss(loss, unbounded=True)
    if type(kind) not in {kind_of(name) for name in LOSSES}:  # by class: a name can be any text
        raise InvalidInput(f"loss must be one of {LOSSES}; received {described(loss)}.")
    return kind


def masked(y: Array, codes: NDArray[np.int64], level: int) -> Array:
    """Set the responses of other levels to NaN, so that their records contribute zero."""
    return np.where(codes == level, y, np.nan)
