"""``Waves``: a regression of a table that grows by waves, released after each, under one total."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import whole_number
from dpfast.curator.answers import Answer
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.curator.waves import ScoreWaves
from dpfast.data.source import source_of
from dpfast.errors import InvalidBudget, InvalidInput, understood
from dpfast.fit_requests.account import Account
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import quietly, warn_of
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.degrees import coverage
from dpfast.inference.guarantees import RELATION, Guarantee
from dpfast.inference.named import Named, named
from dpfast.inference.results import Fit
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.models import Loss, resolve_loss
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit, Solution, preconditioned_rows
from dpfast.scaling.private import PrivateScaling
from dpfast.scaling.remarks import complete_remarks, many_missing
from dpfast.solvers.pcn.clipping import ASYMMETRY, choose_clipping_norm
from dpfast.solvers.pcn.histogram import COARSE, NormHistogram, bin_edges
from dpfast.solvers.pcn.result import SolverResult
from dpfast.tables.over_waves import error_levels, spent_by
from dpfast.tables.prefix_noise import left_coefficients

Array = NDArray[np.float64]

#: Parts of mu^2 of a later wave for the second moments of its scores, and for the histogram of
#: their norms; the scores have the rest.
MEAT_SHARE, NORMS_SHARE = 0.1, 0.03
SCORES_SHARE = 1.0 - MEAT_SHARE - NORMS_SHARE

#: Edges of the histogram of norms, in units of a score.
CELLS = bin_edges(COARSE)[:-1]

#: Noise at which the longest clipping norm is chosen: the one that is in use.
NO_NOISE = 1e-15

#: Most waves: the noise grows with the logarithm of their number.
MAX_WAVES = 1000

#: Least probability of error of an interval, far above what float64 resolves.
SMALLEST_LEVEL = 1e-12

NOTHING_KNOWN = (
    "the first wave told no coefficients, so later waves have no start. Nothing was spent on this "
    "wave. Begin again with a larger first wave or budget."
)

STOPPED = (
    "an earlier update was stopped after it had asked for its records, which may not be asked for "
    "again. The results so far are in .results. Begin with new Waves."
)

PERSONS = "the replacement of one person with one row in each of {} waves at most"


class WaveResult(NamedTuple):
    """Estimates after a wave: of the wave alone, and of all waves so far."""

    number: int
    #: Coefficients of this wave's records.
    wave: Fit
    #: Mean of the waves' coefficients, weighted by their numbers of records.
    pooled: Fit


class Known(NamedTuple):
    """What is known of one wave, in whitened coordinates."""

    n: int
    #: Its complete records, over their share in the first wave: it counts with so many.
    counted: float
    #: Where its scores were released; of the first wave its estimate.
    start: Array
    meat: Array
    #: Shares of the norms of its scores, and their noise.
    norms: tuple[Array, float] | None = None
    #: Length of its step, without the noise's part, and relative noise of its complete records.
    step: float = 0.0
    doubt: float = 0.0


class _FirstWave(DefaultFit):
    """Default fit that keeps what the later waves start from."""

    promise: Guarantee
    found: SolverResult | None = None

    def solve(self, k: int, report: Any) -> Solution:
        """Run the solver, and keep its result."""
        solution = super().solve(k, report)
        self.found = solution.solution
        return solution

    def result(self, k: int, solution: Solution, guarantee: Guarantee) -> Fit:
        """Make the fit, with the promise of all waves."""
        return super().result(k, solution, self.promise)

    def of(self, n: int, result: SolverResult, remarks: tuple[str, ...]) -> Fit:
        """Make the fit of n records by the result of other queries."""
        fits = copy(self)
        fits.request = copy(self.request)
        fits.request.n = n
        fits.request.remarks = (*self.request.remarks, *remarks)
        return fits.result(0, Solution([result.theta], result), self.promise)

    @property
    def complete(self) -> tuple[float, float]:
        """Share of complete records, where many are missing, and its relative noise."""
        if not isinstance(self._scaling, PrivateScaling):
            return 1.0, 0.0
        return complete_share(self._scaling.counted(), self.request.n)

    def rows_of(self, request: FitRequest) -> PreconditionedQueries:
        """Return queries of later records, in the coordinates of this wave's steps."""
        assert self.found is not None
        units = None if self._scaling is None else self._scaling.released
        if units is not None:
            request.rescale(units._units, units._coding)
        rows = preconditioned_rows(request)
        rows = rows if self.basis is None else rows.mapped(self.basis)
        return rows.mapped(self.found.mapping)


def complete_share(counted: tuple[float, float], n: int) -> tuple[float, float]:
    """Return the share of complete records, 1 unless many are missing, and its relative noise."""
    count, noise = counted
    if not many_missing(counted, n):
        return 1.0, 0.0
    return max(count, noise, 1.0) / n, min(noise / max(count, noise, 1.0), 1.0)


class Waves:
    """Estimate a regression after each wave of records, all under one total.

    The first wave is fitted by :func:`dpfast.fit`.  The records of a later wave give their scores
    once, at the estimate of their arrival, and one Newton step follows.  The scores are released as
    sums weighted by the square root of prefix sums, the matrix mechanism of continual counting
    (Fichtenberger, Henzinger and Upadhyay 2023), as in DP-FTRL (Kairouz et al. 2021; Denisov et al.
    2022).  So the noise of the pooled scores grows with the logarithm of the number of waves.

    Parameters
    ----------
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The total for all releases together.
    waves : int
        Most waves, the first included; public.
    loss : str or Loss
        Of a default fit, by its name.
    most : int
        Waves that a person may be in, with one row in each; public.  A person in w waves costs w:
        the noise is that of ``privacy / w``.
    fit_intercept : bool
    ledger, noise
        As of :func:`dpfast.fit`.  The total is charged at the first wave.

    Attributes
    ----------
    results : list of WaveResult
        All releases so far.

    Privacy
    -------
    Everything that is released is ``privacy``-DP under replacement of one record, or of one person
    with one row in each of ``most`` waves at most; the number of records of each wave is public
    (claims C108 and C109).  The object holds sums over private records, and cannot be pickled.

    Notes
    -----
    The pooled estimate is the mean of the waves' coefficients, weighted by their complete records.
    Each interval of a result holds on its own; :meth:`conf_int` has those that hold for all waves
    together.  With ``most`` above 1 pooled standard errors allow for rows of a person that go
    together as far as rows can.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> waves = dpfast.tables.Waves(1.0, waves=5)
    >>> for year in range(3):
    ...     X = rng.normal(size=(4000, 2))
    ...     found = waves.update(X, X @ [1.0, 2.0] + rng.normal(size=4000))
    >>> found.number, found.pooled.n_records, found.wave.n_records
    (3, 12000, 4000)
    """

    @understood
    def __init__(
        self,
        privacy: Budget | float | tuple[float, float],
        waves: int,
        loss: str | Loss = "least-squares",
        *,
        most: int = 1,
        fit_intercept: bool = True,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        self.waves = whole_number(waves, "waves", 2)
        self.most = whole_number(most, "most", 1)
        if self.waves > MAX_WAVES or self.most > self.waves:
            raise InvalidInput(
                f"waves must be at most {MAX_WAVES}, and most at most waves; received {self.waves} "
                f"and {self.most}."
            )
        self._loss = resolve_loss(loss, unbounded=True)
        if not self._loss.supports_default_fit:
            raise InvalidInput(f"{self._loss.name} has no default fit, which the first wave needs.")
        self._account, self._noise = Account(privacy, ledger), checked_noise(noise)
        #: Budget of one record in one wave.
        self._mu = self._account.total.mu / self.most * (1.0 - ROUNDING_SUM * (self.most > 1))
        self._fit_intercept = fit_intercept
        self._first: _FirstWave | None = None
        #: Whether records were asked for in an update that has not ended.
        self._asked = False
        self._remarks: tuple[str, ...] = ()
        self.results: list[WaveResult] = []
        self._known: list[Known] = []
        self._answers: list[Answer] = []

    def __reduce__(self) -> Any:
        raise TypeError("waves hold sums over private records, and are not picklable.")

    @understood
    def update(self, X: Any, y: Any = None) -> WaveResult:
        """Add a wave of records, and release the estimates after it.

        Parameters
        ----------
        X : array-like of shape (n, q), data frame or Records
            Covariates; the same columns in each wave.
        y : array-like of shape (n,), optional
            Response.

        Returns
        -------
        WaveResult

        Privacy
        -------
        Nothing is spent beyond the total, which the first wave charges.  The number of records is
        public; each is in one wave only, or a person in ``most`` waves at most.
        """
        if len(self.results) == self.waves:
            raise InvalidInput(f"all {self.waves} waves have been released. Begin with new Waves.")
        if self._asked:
            raise InvalidInput(STOPPED)
        request = FitRequest(
            source_of(X, y), None, Account(GDP(self._mu)), fit_intercept=self._fit_intercept,
            noise=self._noise,
        )  # fmt: skip
        if request.coding is not None:
            raise InvalidInput("waves are arrays or data frames of numbers, not encoded designs.")
        with quietly():
            found = self._go_on(request) if self._first else self._begin(request)
        self.results.append(found)
        self._asked = False
        warn_of(found.wave)
        return found

    def _begin(self, request: FitRequest) -> WaveResult:
        """Fit the first wave; charge for all of them."""
        first = _FirstWave(request, [self._loss], scale=None, standardize=None, inference=True)
        if first.only_mean or first.few_records:
            raise InvalidBudget(
                f"n mu = {request.n * self._mu:.3g} of the first wave is too small for slopes. "
                "Begin with more records or a larger budget."
            )
        total = self._account.total
        relation = RELATION if self.most == 1 else PERSONS.format(self.most)
        first.promise = Guarantee.of(
            total, self._noise, request.n, [(f"{self.waves} waves", total.mu)], relation=relation
        )
        label = request.label("waves", self._loss.name, f"{self.waves} waves")
        with KeepReleased(lambda error, keeping: keeping.last(error), adopts_inner=True):
            self._account.charge(label)
            self._first, self._asked = first, True
            fit = first.fit()
        if (found := first.found) is not None:
            self._sums = ScoreWaves(self.waves - 1, self._part(SCORES_SHARE), found.bound)
            start = found.unmapping @ found.theta
            self._known = [Known(request.n, float(request.n), start, found.meat)]
            self._start = self._known[0].start
        return WaveResult(1, fit, fit)

    def _go_on(self, request: FitRequest) -> WaveResult:
        """Release a later wave's scores at the pooled estimate, and take its step."""
        first = self._first
        found = None if first is None else first.found
        if first is None or found is None:
            raise InvalidInput(NOTHING_KNOWN)
        self._check_columns(first.request, request)
        rows = first.rows_of(request)
        meat_mu, norms_mu = self._part(MEAT_SHARE), self._part(NORMS_SHARE)
        rows.refuse((), (), (norms_mu,), (meat_mu, self._part(SCORES_SHARE)), cells=CELLS.size + 1)
        at = Linearization(self._start, first.losses[0], found.scale)
        self._asked = True
        self._answers.append(self._sums.release(rows, at, found.row_clipping))
        meat = rows.clipped(at, found.bound, 0.0, meat_mu, found.row_clipping).meat
        norms = rows.norm_histogram(self._edges, norms_mu, at, "score", found.row_clipping)
        step, noise = self._combined(of_wave=True)
        counted, doubt, remarks = self._complete(request, norms)
        square = float(step @ step) - step.size * noise**2
        known = Known(
            request.n, counted, self._start, floor_eigenvalues(meat.value, 0.0)[0], norms[:2],
            math.sqrt(max(square, 0.0)) / counted, doubt,
        )  # fmt: skip
        self._known.append(known)
        self._remarks += remarks
        theta = self._start + step / counted
        alone = self._fit([known], theta, noise / counted, meat.noise_scale, remarks)
        total = sum(wave.counted for wave in self._known)
        steps, noise = self._combined(of_wave=False)
        starts = sum(wave.counted * wave.start for wave in self._known)
        noise = math.hypot(noise, self._known[0].n * found.noise) / total
        self._start = (starts + steps) / total
        pooled = self._fit(self._known, self._start, noise, meat.noise_scale, self._remarks)
        return WaveResult(len(self._known), alone, pooled)

    def _complete(self, request: FitRequest, norms: Answer) -> tuple[float, float, tuple[str, ...]]:
        """Return how many records count, the relative noise, and a warning, from released norms.

        An incomplete record has no norm: the shares of the cells add up to that of the others.
        """
        assert self._first is not None
        n, cells = request.n, norms.value.size
        released = n * float(norms.value.sum()), n * norms.noise_scale * math.sqrt(cells)
        share, doubt = complete_share(released, n)
        before, doubt_before = self._first.complete
        remarks = complete_remarks(released, n, request.column_names)
        remarks = tuple([f"wave {len(self._known) + 1}: {remark}" for remark in remarks])
        return n * share / before, math.hypot(doubt, doubt_before), remarks

    @understood
    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> list[Named]:
        """Return intervals of the pooled coefficients that hold for all waves together.

        One array of shape (p, 2) for each wave so far; those of earlier waves never change.  With
        this probability a coefficient is in all its intervals, of waves to come too.  A
        group-sequential boundary: that of Lan and DeMets (1983) with the spending function of
        Pocock's, from the exact correlation of the noise and of the sampling errors.  Above some 30
        waves the integral is less exact: at 200 waves 5.8% of series miss in place of 5%.

        Privacy
        -------
        Made of released numbers: costs nothing.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> waves = dpfast.tables.Waves(1.0, waves=5)
        >>> for year in range(2):
        ...     X = rng.normal(size=(4000, 1))
        ...     found = waves.update(X, X[:, 0] + rng.normal(size=4000))
        >>> together = waves.conf_int()
        >>> bool(np.ptp(together[1]["x1"]) > np.ptp(found.pooled.conf_int()["x1"]))
        True
        """
        spent = spent_by(coverage(level, alpha), self.waves)[: len(self.results)]
        fits = [found.pooled for found in self.results]
        if not fits:
            return []
        correlations = self._correlations()
        intervals = [np.full((len(fit.params), 2), np.nan) for fit in fits]
        for j in range(len(fits[0].params)):
            levels = error_levels(correlations[j], spent)
            for fit, interval, error in zip(fits, intervals, levels, strict=True):
                interval[j] = fit.conf_int(alpha=max(float(error), SMALLEST_LEVEL))[j]
        ends = ("low", "high")
        return [named(x, fit.names, ends) for x, fit in zip(intervals, fits, strict=True)]

    def _correlations(self) -> Array:
        """Return how each coefficient's pooled estimates correlate, shape (p, waves, waves).

        Sampling errors of waves are independent; sums of noise share their parts.  All else that is
        in a standard error counts as independent, which makes intervals wider.
        """
        fits = [found.pooled for found in self.results]
        errors = np.array([fit.bse for fit in fits]).T
        spread = None if fits[0]._covariance is None else fits[0]._covariance.spread
        if spread is None or spread.units is None or not self._known:
            return np.broadcast_to(np.eye(len(fits)), (len(errors), len(fits), len(fits)))
        units = np.diag(spread.units) if spread.units.ndim == 1 else spread.units
        known = self._known[: len(fits)]  # an interrupted wave has no result
        totals = np.cumsum([wave.counted for wave in known])
        sampling = np.cumsum(
            [wave.n * np.einsum("ij,jk,ik->i", units, wave.meat, units) for wave in known],
            axis=0,
        )
        order = np.arange(len(fits))
        shared = sampling[np.minimum.outer(order, order)].transpose(2, 0, 1)
        with np.errstate(all="ignore"):
            noise = self._shared_noise(self._answers[: len(fits) - 1])
            shared = shared + np.sum(units**2, axis=1)[:, None, None] * noise
            shared = shared / (np.outer(totals, totals) * errors[:, :, None] * errors[:, None, :])
        shared[:, order, order] = np.where(np.isfinite(errors), 1.0, np.nan)
        return np.asarray(shared)

    def _shared_noise(self, answers: list[Answer]) -> Array:
        """Return the covariance of the noise in sums of all scores after each of these waves."""
        assert self._first is not None and self._first.found is not None
        left, later = left_coefficients(self.waves - 1), len(answers)
        parts = np.zeros((later + 1, later))
        for s in range(1, later + 1):
            parts[s, :s] = left[:s][::-1]
        parts *= [answer.noise_scale for answer in answers]
        first = self._known[0].n * self._first.found.noise
        return np.asarray(first**2 + parts @ parts.T)

    def _part(self, share: float) -> float:
        """Return the budget of one query of a later wave's records."""
        return self._mu * math.sqrt(share) * (1.0 - ROUNDING_SUM)

    @property
    def _edges(self) -> Array:
        """Edges of the cells of the norms of scores."""
        assert self._first is not None
        return np.asarray(self._first.setting.score_unit * CELLS)

    def _clipping_bias(self, waves: list[Known], n: int) -> float:
        """Estimate the mean norm that clipping removes in these waves, by all later norms."""
        assert self._first is not None and self._first.found is not None
        found = self._first.found
        known = [(wave.n, *wave.norms) for wave in self._known if wave.norms is not None]
        total = sum(m for m, _, _ in known)
        shares = sum((m * shares for m, shares, _ in known), np.zeros(CELLS.size + 1)) / total
        noise = math.hypot(*[m * noise for m, _, noise in known]) / total
        norms = NormHistogram.from_noisy_shares(
            shares, noise, COARSE, self._first.setting.score_unit
        )
        return choose_clipping_norm(norms, NO_NOISE, found.theta.size, found.bound, n=n)[1]

    @staticmethod
    def _check_columns(first: FitRequest, request: FitRequest) -> None:
        if first.column_names != request.column_names:
            raise InvalidInput(
                f"each wave has the columns of the first, {list(first.column_names)}, in this "
                f"order; received {list(request.column_names)}."
            )

    def _combined(self, of_wave: bool) -> tuple[Array, float]:
        """Return the sum of scores of the last wave, or of all later ones, and its noise."""
        weights = left_coefficients(self.waves - 1)
        if of_wave:  # the inverse of R: differences of prefix sums
            weights = np.diff(weights, prepend=0.0)
        weights = weights[: len(self._answers)][::-1]
        values = np.array([answer.value for answer in self._answers])
        scales = np.array([answer.noise_scale for answer in self._answers])
        return weights @ values, math.sqrt(float(np.sum((weights * scales) ** 2)))

    def _fit(
        self,
        waves: list[Known],
        theta: Array,
        noise: float,
        meat_scale: float,
        remarks: tuple[str, ...],
    ) -> Fit:
        """Make the fit of the mean of these waves' coefficients."""
        first, n = self._first, sum(wave.n for wave in waves)
        assert first is not None and first.found is not None
        found, counted = first.found, sum(wave.counted for wave in waves)
        bias = self._clipping_bias(waves, n) * n / counted
        allowed = ASYMMETRY**2 * (bias**2 - found.clipping_bias**2) / found.theta.size
        # a step leaves the relative error of the first wave's curvature, of noise and sampling
        rate = math.hypot(found.curvature_noise / math.sqrt(theta.size), self._known[0].n ** -0.5)
        left = sum(wave.counted * math.hypot(rate, wave.doubt) * wave.step for wave in waves)
        # rows of one person in several waves may go together
        times = min(self.most, len(waves)) * n / counted**2
        result = found._replace(
            theta=found.mapping @ theta,
            meat=sum((wave.n * wave.meat for wave in waves), np.zeros_like(found.meat)) * times,
            meat_scale=meat_scale,
            noise=noise,
            residual_bias_var=np.maximum(found.residual_bias_var + allowed, 0.0)
            + (left / counted) ** 2,
            clipping_bias=bias,
            steps=1,
        )
        return first.of(n, result, remarks)
