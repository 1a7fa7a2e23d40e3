"""``fit_sparse``: regressions on a few of thousands of columns, which are selected privately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, did_you_mean, flag, whole_number
from dpfast.curator.column_scores import ColumnScores, Model, choice_receipt, without_values
from dpfast.curator.effects import planned_rows
from dpfast.curator.shares import share_receipt
from dpfast.data.records import Records
from dpfast.data.scaling.units import ReleasedScales
from dpfast.data.source import source_of
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.fit_requests.rows import with_columns_picked
from dpfast.inference.degrees import nothing_known
from dpfast.inference.results import Fit
from dpfast.models import LeastSquares, Loss, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit, uses_default_fit
from dpfast.scaling.budget import ScalingBudget, records_needed, refuse_too_few_records
from dpfast.scaling.private import PrivateScaling, refuse_no_columns
from dpfast.solvers.pcn.engine import fit_pcn
from dpfast.solvers.pcn.histogram import N_FINE_BINS
from dpfast.solvers.pcn.plan import BudgetAllocation, Setting, prices

#: Shares of mu^2 left by the column scales: of choices, of the fits between them, and of the sizes
#: of residuals.  The fit that is reported has the rest.  Shares of choices from .5 to .8 found as
#: many of 8 columns (24 data sets, n = 8,000, mu = 1); .3 found fewer.
CHOICES, BETWEEN, SIZES = 0.5, 0.15, 0.03

#: Columns selected for each coefficient of interest, and most columns of a fit.
CONTROLS, MAX_COLUMNS = 5, 60

#: Clipping bound of residuals, in their standard deviations, of normal ones 1.48 medians.  With the
#: columns' bound it trades noise for signal: from 1.25 to 3 errors changed by a fifth.
CLIP_SDS, SD_OF_MEDIAN = 2.0, 1.4826

#: Powers of ten between which the median of residuals lies, and halvings to find it.
LENGTHS, HALVINGS = (-6.0, 6.0), 10

MEMORY_ONLY = (
    "fit_sparse reads arrays and tables of numbers in memory, with one row for each person and no "
    "weights, offsets or coding by a schema. Pass arrays, or call dpfast.fit with fewer columns."
)

OF_MEANS = (
    "fit_sparse selects by residuals from a mean: with least squares, a robust loss, or a loss of "
    "labels or counts, without weights, a ridge or a scale; received {received}."
)


@understood
def fit_sparse(
    X: Any,
    y: Any = None,
    loss: str | Loss = "least-squares",
    *,
    privacy: Budget | float | tuple[float, float],
    n_nonzero_coefs: int = 10,
    of_interest: Sequence[str] = (),
    standardize: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Fit a sparse regression: select a few of thousands of columns privately, and fit these.

    In place of the lasso.  Orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad 1993)
    selects one column after the other.  Each is the one whose score beside the residuals of the fit
    so far is largest, by the exponential mechanism.  The columns selected are then fitted as by
    :func:`dpfast.fit`.

    Coefficients of interest have intervals, by double selection (Belloni, Chernozhukov and Hansen
    2014).  For each of them columns that predict it are selected as well.  The coefficient is that
    of a regression on all columns, where few of them matter.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, or records
        Numeric covariates in memory, without a column of ones.
    y : array-like of shape (n,), or str
        As for :func:`dpfast.fit`.
    loss : str or Loss
        "least-squares", "log-cosh", "logistic", "poisson" and others of a mean.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The **total** to spend.
    n_nonzero_coefs : int
        Number of columns to select: public, so that no query is needed to stop.
    of_interest : sequence of str
        Names of columns whose coefficients need an interval (``"x1"``, ... of an array).  They are
        always in the fit.
    standardize : bool
        Whether centres and spreads of all columns are estimated, with up to a quarter of mu^2.
        Thousands of columns need n mu of some ten thousand.  False declares that the columns'
        units are right: each is about zero on average, and is clipped at 2 of its units.
    ledger, noise
        As for :func:`dpfast.fit`.

    Returns
    -------
    Fit
        The coefficients of the columns of interest, then of the selected ones, in the order of
        selection.  Only the former have standard errors.  The same records chose the others, so
        that an interval would not cover.

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong argument, or too few records for so many columns; before anything is spent.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: choices are claim C106 of
    ``dpfast/privacy/PROOFS.md``, sizes of residuals C46, scales D1 to D6, and fits C80.  What a
    choice costs does not depend on the number of columns.  Their names and number are public.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 200))
    >>> y = X[:, 7] - X[:, 3] + rng.normal(size=10_000)
    >>> fit = dpfast.regression.fit_sparse(X, y, privacy=2.0, n_nonzero_coefs=2, of_interest=["x1"])
    >>> fit.names[:2], sorted(fit.names[2:4])
    (('intercept', 'x1'), ['x4', 'x8'])
    >>> bool(fit.conf_int()["x1"][0] < 0.1), bool(np.isnan(fit.bse["x4"]))
    (True, True)
    """
    analysis = _Sparse(
        X, y, loss, Account(privacy, ledger), n_nonzero_coefs, of_interest,
        flag(standardize, "standardize"), noise,
    )  # fmt: skip
    request = analysis.request
    label = request.label("fit_sparse", analysis.loss.name)
    return run(analysis, label, request.memory_bytes() + request.n * request.n_covariates)


NONE_OF_INTEREST = (
    "no coefficient of fit_sparse has a standard error unless it is of interest: name coefficients "
    "in of_interest."
)


class _Budgets(NamedTuple):
    """Gaussian-DP parameters of each choice, each fit between choices and each count of sizes."""

    choice: float
    between: float
    size: float
    #: Choices after one fit.
    together: int


class _Sparse(Analysis[Fit]):
    """Forward selection: public decisions before the charge, choices and fits after it."""

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: Any,
        account: Account,
        n_selected: Any,
        of_interest: Any,
        standardize: bool,
        noise: NoiseSource | None,
    ) -> None:
        terms = terms_of(loss)
        self.loss = resolve_loss(terms.loss, unbounded=True)
        default = uses_default_fit(self.loss, terms._asdict() | {"method": "auto"})
        if not (default and terms.scale is None and self.loss.of_mean):
            raise InvalidInput(OF_MEANS.format(received=described(loss)))
        source = source_of(X, y)
        self.request = request = FitRequest(
            source, None, account, fit_intercept=True, noise=noise, instead=MEMORY_ONLY,
            of_predictor=self.loss.link != "identity",
        )  # fmt: skip
        if type(request.records) is not Records or request.coding is not None:
            raise InvalidInput(MEMORY_ONLY)
        refuse_no_columns(request)
        self._by_name = request.new_rows.columns is not None
        self.names = request.column_names
        self.interest = tuple([self._place(name) for name in _listed(of_interest)])
        left = request.n_covariates - len(self.interest)
        self.n_selected = whole_number(n_selected, "n_nonzero_coefs", 1, left)
        self._standardize = standardize
        columns = self.n_selected + len(self.interest) * (1 + CONTROLS)
        self.n_columns = min(columns, request.n_covariates)
        if self.n_columns > MAX_COLUMNS:
            raise InvalidInput(
                f"{self.n_selected} columns, and {1 + CONTROLS} for each of {len(self.interest)} "
                f"coefficients of interest, are {columns}: at most {MAX_COLUMNS} are selected. Use "
                "a smaller n_nonzero_coefs, or several calls."
            )
        account.warn_if_weak(request.n)
        self._plan(request.mu * (1.0 - ROUNDING_SUM))

    def _place(self, name: Any) -> int:
        if not isinstance(name, str) or self.names.count(name) != 1:
            raise InvalidInput(
                f"of_interest lists names of columns of X; received {described(name)}"
                f"{did_you_mean(name, self.names) if isinstance(name, str) else ''}."
            )
        return self.names.index(name)

    def _plan(self, mu: float) -> None:
        """Divide the budget, and refuse what a later query would refuse."""
        request, loss = self.request, self.loss
        self._scaling, rest = self._planned_scaling(mu)
        reported = rest * math.sqrt(1.0 - CHOICES - BETWEEN - SIZES)
        fewer = "columns selected (n_nonzero_coefs) or of interest"
        p = self.n_columns + 1
        refuse_too_few_records(request.n, p, reported, ": coefficients of selected columns", fewer)
        self.budgets = self._divided(rest)
        choice_receipt(self.budgets.choice)
        share_receipt(request.n, self.budgets.size)
        between = self.budgets.between
        for kind in {loss, LeastSquares()}:
            counts = _setting(kind, request.n, p, between).query_counts
            planned_rows(request.n, p, request.noise).refuse(
                *prices(request.n, p, (between,), 1.0, (counts,), False), cells=N_FINE_BINS
            )
        trial = self._reported(list(range(self.n_columns)), Account(GDP(reported)), empty=True)
        if trial.only_mean or trial.few_records:
            raise InvalidInput(MEMORY_ONLY)

    def _divided(self, mu: float) -> _Budgets:
        """Divide ``mu`` between choices, and as many fits as it is enough for."""
        k = len(self.interest)
        largest = self.n_selected + k
        enough = BETWEEN * (self.request.n * mu / records_needed(largest, 1.0)) ** 2
        together = 1
        while together < self.n_selected and _fits(self.n_selected, k, together) > enough:
            together += 1
        fits, choices = _fits(self.n_selected, k, together), self.n_selected + k * CONTROLS
        return _Budgets(
            mu * math.sqrt(CHOICES / choices),
            mu * math.sqrt(BETWEEN / fits),
            mu * math.sqrt(SIZES / (fits * HALVINGS)),
            together,
        )

    def _planned_scaling(self, mu: float) -> tuple[PrivateScaling | None, float]:
        """Plan the scales of columns and response; return their search and the mu left."""
        request, loss = self.request, self.loss
        response = loss.largest_response is None
        columns = request.n_covariates * self._standardize + response
        if not columns:
            return None, mu
        budget = ScalingBudget(request.n, columns, mu)
        share = budget.share()
        scaling = PrivateScaling(
            request, mu * math.sqrt(share), covariates=self._standardize, response=response,
            linked=loss.link != "identity", labels=loss.binary_response, whole=mu,
            responses=loss.responses, least=budget.least_records(),
        )  # fmt: skip
        return scaling, mu * math.sqrt(1.0 - share)

    def too_few(self) -> str:
        """Ask the counts of complete records, if scales are estimated."""
        return self._scaling.too_few() if self._scaling is not None else ""

    def nothing(self, remark: str) -> Fit:
        """Make the result of a call that ended after its counts."""
        request = self.request
        request.drop_covariates()
        request.dimension = 1
        return request.make_result(
            np.full(1, np.nan), self.loss._bounded, method="stopped after the counts",
            model=repr(self.loss),
            covariance=nothing_known(1, remark),
        )  # fmt: skip

    def query(self, report: Progress | None) -> Fit:
        """Select columns for the response, then for each column of interest, and fit them all."""
        request, q = self.request, self.request.n_covariates
        units, settings = ReleasedScales(np.zeros(q), np.ones(q), (0.0, 1.0)), {}
        self._candidates = np.ones(q, dtype=bool)
        if self._scaling is not None:
            released = self._scaling.run(spend=False)
            units, settings = released._units, released._settings
            unseen = set(released.unseen)
            self._candidates = np.array([name not in unseen for name in self.names])
        self._scores = ColumnScores(request.records, units, request.ledger, request.noise)
        selected = self._select(None, self.interest, self.n_selected, self.loss, settings)
        for place in self.interest:
            others = tuple([other for other in self.interest if other != place])
            chosen = self._select(place, others, CONTROLS, LeastSquares(), {})
            selected += [one for one in chosen if one not in selected]
        self._places = [*self.interest, *selected]
        rest = Account(GDP(request.mu_left(request.mu)), request.ledger)
        return self._reported(self._places, rest).fit()

    def _select(
        self,
        response: int | None,
        start: Sequence[int],
        count: int,
        loss: Loss,
        settings: dict[str, Any],
    ) -> list[int]:
        """Select columns by orthogonal matching pursuit."""
        free = self._candidates.copy()
        free[[*start, *self.interest]] = False
        chosen: list[int] = []
        count = min(count, int(np.count_nonzero(free)))
        while len(chosen) < count:
            places = (*start, *chosen)
            model = Model(response, places, loss, self._fitted(response, places, loss, settings))
            bound = CLIP_SDS * SD_OF_MEDIAN * self._median(model)
            together = min(self.budgets.together, count - len(chosen))
            chosen += self._scores.choose(
                model, bound, np.flatnonzero(free), self.budgets.choice, together
            )
            free[chosen] = False
        return chosen

    def _fitted(
        self, response: int | None, places: Sequence[int], loss: Loss, settings: dict[str, Any]
    ) -> Array:
        """Fit a model of the columns selected so far, without standard errors."""
        rows, mu = self._scores.rows(response, places), self.budgets.between
        setting = _setting(loss, rows.n, rows.dimension, mu)._replace(**settings)
        allocation = BudgetAllocation(rows.n, rows.dimension, mu)
        return fit_pcn(rows, setting, allocation, False, []).theta

    def _median(self, model: Model) -> float:
        """Find the median length of residuals, by noisy bisection of its logarithm."""
        shares, (low, high) = self._scores.sizes(model), LENGTHS
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = shares.excess(10.0**middle, 0.5, self.budgets.size).value[0] < 0.0
            low, high = (middle, high) if below else (low, middle)
        return float(10.0 ** (0.5 * (low + high)))

    def _reported(self, places: list[int], account: Account, empty: bool = False) -> DefaultFit:
        """Plan the fit of selected columns, in their own units."""
        request = self.request
        names = tuple([self.names[place] for place in places])
        rows = without_values(request.n, names) if empty else self._scores.selected(places, names)
        inner = FitRequest(
            rows, None, account, fit_intercept=True, noise=request.noise,
            of_predictor=self.loss.link != "identity",
        )  # fmt: skip
        if not self._by_name:
            inner.new_rows = inner.new_rows._replace(columns=None)
        return DefaultFit(
            inner, [self.loss], scale=None, standardize=None if self._standardize else False,
            inference=bool(self.interest),
        )  # fmt: skip

    def _description(self) -> str:
        """Describe the method in a sentence, with public facts."""
        interest = ", ".join([self.names[place] for place in self.interest])
        return (
            f"{self.n_selected} of {self.request.n_covariates} columns selected privately "
            "(orthogonal matching pursuit"
            + f"; double selection, with intervals, for {interest}" * bool(interest)
            + "), then private clipped Newton"
        )

    def report(self, answers: Fit) -> Fit:
        """Make the result: the fit, with the guarantee of the whole call."""
        request, k = self.request, len(self.interest)
        lost = np.arange(len(self._places) + 1) > k
        lost[0] = True
        fit = answers
        if not self._by_name:
            fit = with_columns_picked(fit, tuple(self._places), request.n_covariates)
        for version in {id(one): one for one in (fit, fit.coded)}.values():
            version.privacy = request.guarantee()
            version.method = f"{self._description()}. Then {version.method}"
            version._why_none = NONE_OF_INTEREST
            if version._covariance is not None:
                matrix = np.where(lost | lost[:, None], np.nan, version._covariance.matrix)
                version._covariance = version._covariance._replace(matrix=matrix)
        return fit


def _fits(selected: int, of_interest: int, together: int) -> int:
    """Count the fits between choices, of so many choices after each."""
    return -(-selected // together) + of_interest * -(-CONTROLS // together)


def _setting(loss: Loss, n: int, p: int, mu: float) -> Setting:
    """Return the settings of a fit of p coefficients, the intercept among them."""
    adapted = loss._adapted_to_sample(loss._for_records(n, p, mu), n)
    return Setting(adapted, None, True)


def _listed(names: Any) -> Sequence[Any]:
    if isinstance(names, str) or not isinstance(names, list | tuple):
        raise InvalidInput(
            'of_interest must be a list of names of columns, such as ["x1"]; received '
            f"{described(names)}."
        )
    if len(set(map(str, names))) < len(names):
        raise InvalidInput("of_interest has a name twice. Name each column once.")
    return names
