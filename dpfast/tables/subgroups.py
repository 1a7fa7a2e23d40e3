"""``fits``: the same regression in every level of a declared grouping, at the price of one fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive
from dpfast.curator.tables.cells import Cells
from dpfast.data import Records
from dpfast.data.columns import number_columns
from dpfast.data.formula import coding_from_formula, columns_of_formula, response_of
from dpfast.data.schema import Schema
from dpfast.data.source import records
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import PERSON_COPIES, Account, FitRequest
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective, resolve_loss
from dpfast.models.names import kind_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.fit import fit
from dpfast.regression.road import DefaultFit
from dpfast.regression.scaling_budget import MIN_RECORDS_FACTOR, ScalingBudget
from dpfast.regression.shared import refuse_too_few_records
from dpfast.regression.standardise import PrivateScaling, refuse_no_columns
from dpfast.tables.fitted import SubgroupFits
from dpfast.tables.grouping import declared_levels, grouping_of, refuse_within

Array = NDArray[np.float64]

#: Losses whose fits ask what claim T6 is about, and nothing else.
LOSSES = ("least-squares", "log-cosh", "huber", "pseudo-huber", "logistic")

#: Levels at most: each is a fit, which reads all records.
MOST_LEVELS = 200

#: Share of mu^2 that buys how many records are in each level.
COUNTED = 0.01

#: Below it the grids of single queries would have to be looked at in claim T6.
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

    All levels together cost one fit, because a record is in one of them; each has the noise of a
    fit that has all of the budget.  Where columns lie is bought once, of all records.

    Parameters
    ----------
    formula : str
        As for :func:`dpfast.fit_formula`: of columns that the schema declares, or of numeric
        columns of which it declares none.
    by : str or sequence of str
        One column that the schema declares categorical or binary.
    loss : {"least-squares", "log-cosh", "huber", "pseudo-huber", "logistic"}
    least : float
        Public: levels with fewer records are not fitted.  Those with too few for so many
        coefficients never are: a released count decides.
    table, schema, privacy, ledger, noise
        As of :func:`dpfast.tables.counts`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T6): every query of every
    fit is about all n records, those of other levels contributing zero, so that a record
    that changes its level moves two fits, each by no more than the root of one half.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, sex = rng.normal(size=6000), np.tile(["F", "M"], 3000)
    >>> table = {"x": x, "sex": sex, "y": x * (1 + (sex == "M")) + rng.normal(size=6000)}
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> found = dpfast.tables.fits("y ~ x", table, "sex", schema=schema, privacy=1.0)
    >>> found.params.shape, bool(found.equality()["x"][1] < 0.001)
    ((2, 2), True)
    """
    account = Account(privacy, ledger)
    plan = _Plan(formula, table, by, loss, schema, account, least, noise)
    spent = plan.request.guarantee
    with KeepReleased(lambda error: plan.result(keeping.inner()), privacy=spent) as keeping:
        label = plan.request.label("tables.fits", plan.loss, f"levels={len(plan.levels)}")
        account.charge(label, plan.request.memory_bytes(PERSON_COPIES + 1, include_arrays=True))
        plan.run()
        found = plan.result(None)
        assert found is not None
        return found


class _Plan:
    """Everything that is decided before the charge, and the run after it."""

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
        grouping = grouping_of(schema, by, ())
        if len(grouping.by) != 1:
            raise InvalidInput(f"by must name one grouping; received {described(by)}.")
        self.by, self.levels = grouping.by[0], grouping.levels[0]
        if len(self.levels) > MOST_LEVELS:
            raise InvalidInput(
                f"{self.by!r} has {len(self.levels)} levels; at most {MOST_LEVELS} are fitted one "
                "by one. Declare coarser levels."
            )
        if isinstance(loss, Objective):
            raise InvalidInput(f"loss must be one of {LOSSES}; received an Objective.")
        kind = resolve_loss(loss, unbounded=True)
        if type(kind) not in {kind_of(name) for name in LOSSES}:  # not by a name it gives itself
            raise InvalidInput(f"loss must be one of {LOSSES}; received {described(loss)}.")
        self.loss = kind.name
        self._least = positive(least, "least", or_zero=True)
        X, y, names, intercept = _columns(formula, table, schema, self.by)
        self._X, self._y, self._intercept = X, y, intercept
        codes = declared_levels(schema, self.by, table)
        if len(codes) != len(y):
            raise InvalidInput(
                f"columns must be of one length; received {sorted({len(codes), len(y)})}."
            )
        self._codes = codes
        self._objective = Objective(loss, fit_intercept=intercept)
        source = records(X, y, names=names)
        self.request = request = FitRequest(
            source, None, account, fit_intercept=intercept, noise=noise
        )
        refuse_no_columns(request)
        n, q, linked = request.n, request.n_covariates, kind.link != "identity"
        mu = account.total.mu
        if mu < MIN_MU:
            raise InvalidBudget(f"fits by level need mu of at least {MIN_MU}; received {mu:.3g}.")
        mu *= 1.0 - ROUNDING_SUM
        self.names = request.column_names
        share = ScalingBudget(n, q + int(not linked), mu).share()
        parts = [mu * math.sqrt(part) for part in (COUNTED, share, 1.0 - COUNTED - share)]
        self._mu_counts, mu_units, self._mu = parts
        cells = Records(np.empty((n, 0)), np.where(codes < 0, np.nan, codes), None)
        self._cells = Cells(cells, len(self.levels), (), request.ledger, request.noise)
        self._cells.counts_receipt(self._mu_counts)
        self._purchase = PrivateScaling(
            request, mu_units, response=not linked, linked=linked,
            labels=kind.binary_response, whole=mu,
        )  # fmt: skip
        p = request.dimension
        refuse_too_few_records(n, p, self._mu, ": coefficients of any level", "covariates")
        self.least = max(self._least, MIN_RECORDS_FACTOR * p**1.5 / self._mu)
        part = request.with_account(
            Account(GDP(self._mu))
        )  # refuses what an answer would be refused for
        DefaultFit(part, [kind], scale=None, standardize=self._purchase, inference=True)
        self._fits: list[Fit | None] = []
        self._counted: tuple[Array, float] | None = None

    def run(self) -> None:
        """Count, buy units, and fit the levels with enough records."""
        counted = self._cells.counts(self._mu_counts)
        self._counted = counted.value, counted.noise_scale
        units = self._purchase.run()
        spend = GDP(self._mu)
        ledgers = [Ledger(spend) for _ in self.levels]
        self.request.ledger.charge(spend, "levels side by side")
        self.request.ledger.parts.append(Part("levels side by side", spend, ledgers, disjoint=True))
        for level, book in enumerate(ledgers):
            found = None
            if self._counted[0][level] >= self.least:
                masked_y = masked(self._y, self._codes, level)
                source = records(self._X, masked_y, names=self.names)
                found = fit(
                    source, loss=self._objective, privacy=spend, standardize=units, ledger=book,
                    noise=self.request.noise,
                )  # fmt: skip
            self._fits.append(found)

    def result(self, unfinished: Any) -> SubgroupFits | None:
        """What is there so far; None before anything is."""
        if self._counted is None:
            return None
        none: list[Fit | None] = [None] * (len(self.levels) - len(self._fits))
        names = ("intercept", *self.names) if self._intercept else self.names
        return SubgroupFits(
            by=self.by,
            levels=self.levels,
            names=tuple(names),
            loss=self.loss,
            fits=(*self._fits, *none),
            counts=self._counted[0],
            count_noise=self._counted[1],
            least=self.least,
            n_records=self.request.n,
            privacy=self.request.guarantee(),
            unfinished=unfinished,
        )


def masked(y: Array, codes: NDArray[np.int64], level: int) -> Array:
    """Responses of one level; those of other records are missing, so that they contribute zero."""
    return np.where(codes == level, y, np.nan)


def _columns(formula: Any, table: Any, schema: Schema, by: str) -> tuple[Array, Array, Any, bool]:
    """Covariates, response, names and whether there is an intercept."""
    if not isinstance(formula, str):
        raise InvalidInput(f"formula must be text; received {described(formula)}.")
    if response_of(formula) not in schema.columns:  # then nothing of it is
        response, names, intercept = columns_of_formula(formula)
        refuse_within([by], [[*names, response]])
        found = number_columns(table, [*names, response])
        return found[:, :-1], found[:, -1], names, intercept
    coding = coding_from_formula(formula, schema)
    refuse_within([by], [coding.columns])
    design = coding.design(table)
    assert design.y is not None
    return design.X, design.y, design.names, design.fit_intercept
