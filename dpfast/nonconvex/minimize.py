"""Private minimisation of objectives that need not be convex."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import one_of, text_names
from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.data.source import source_of
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest, checked_start, response_of
from dpfast.fit_requests.targets import target_of
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.models.nonconvex import KL, PerRecordObjective
from dpfast.nonconvex.kl import public_directions
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.descent import MIN_RHO, Path, noise_for
from dpfast.papers.noisy_descent import NoisyDescent
from dpfast.papers.proximal import Proximal
from dpfast.papers.spider import Spider
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

Method = Adaptive | Proximal | Spider

METHODS: dict[str, Callable[[], Method]] = {
    "adaptive": Adaptive,
    "proximal": Proximal,
    "spider": Spider,
}

SELECTIONS = ("last", "shortest gradient", "exponential")

CHOICES = ("auto", *METHODS)
SETTINGS = ", or dpfast.optimize.Adaptive(...), Spider(...) or Proximal(...)"

#: Part of the budget for a choice by the exponential mechanism.
SELECTION_SHARE = 0.1

#: Part of the budget for the comparison of the answer with the start.
CHECK_SHARE = 0.01

#: Noise of that comparison, relative to the largest possible change, above which it is left out:
#: it would detect no loss of that size.
CHECK_NOISE = 0.1

#: Standard deviations of noise by which an answer must be worse than the start for a warning.
#: Noise alone warns in one run of 40.
WORSE = 2.0

#: Largest number of candidates of the exponential mechanism, evenly spaced along the path.
MAX_CANDIDATES = 64


#: Warning of an answer that is worse than the start.
NO_GAIN = (
    "the loss at the answer was read as {change:.3g} more than at the start (with noise of "
    "standard deviation {noise:.2g}; paid within the total): this run did not go down. More budget "
    "or records, a shorter step_size, a public clip (or clip=None) in dpfast.optimize.Adaptive, "
    "or another start may help; params is no better than start."
)

#: Warning of a partial result.
ENDED = (
    "the run ended early ({error} was raised): params is the last point at which a question was "
    "answered, and iterates are these points. Pass it as start=... to go on with another budget."
)


class Minimum(Fit):
    """Result of :func:`minimize`: a :class:`Fit` without intervals, with the path's norms.

    Attributes
    ----------
    gradient_norms : ndarray of shape (K + 1,)
        Noisy norm of the mean (clipped) gradient at each iterate; NaN where none was released.
    rounds : tuple of dict
        Public record of the algorithm's rounds: targets, steps, spends.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.minimize(X, y, dpfast.Objective("cauchy", scale=1.0), privacy=1.0).names
    ('intercept', 'x1')
    """

    gradient_norms: NDArray[np.float64]
    rounds: tuple[dict[str, Any], ...]
    _linear: bool
    _remarks: tuple[str, ...] = ()  # the default is for results that older versions pickled

    @property
    def warnings(self) -> tuple[str, ...]:
        return super().warnings + self._remarks

    def _rows(self, X: Any) -> NDArray[np.float64]:
        if not self._linear:
            raise InvalidInput(
                f"{self.model} is not a linear regression: use params in the user's own model."
            )
        return super()._rows(X)


def minimize(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    privacy: Budget | float,
    method: str | Adaptive | NoisyDescent | Proximal | Spider = "auto",
    kl: KL | tuple[float, float] | None = None,
    start: Sequence[float] | str | None = None,
    select: str = "last",
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Minimum:
    """Minimise a mean of per-record losses that need not be convex, under differential privacy.

    Algorithms 1 to 4 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design, Records or Source
        ``names`` of :func:`dpfast.records` are those of the columns (of the parameters, for a
        per-record objective).
    y : array-like of shape (n,) or None
        A record with a NaN or an infinity contributes exactly zero and still counts in n.
    objective : str, Loss, Objective or PerRecordObjective
        A loss of linear regression, such as "tukey" (with its scale,
        ``dpfast.Objective("tukey", scale=1.0)``); or the gradients of any model.
    privacy : ZCDP, GDP, ApproxDP or float
        The **total** to spend; a float is ``mu`` of Gaussian DP.
    method : {"auto", "adaptive", "spider", "proximal"} or Adaptive, Spider, Proximal, NoisyDescent
        "auto" is adaptive, whatever ``kl`` says.  The stored figure "conditioning" compares it with
        Spider and Proximal.  Both run as published, to their end, and ``warnings`` says where
        released norms do not shrink as ``kl`` has it.  With ``Spider(guard=True)`` or
        ``Proximal(guard=True)`` adaptive descent then has the rest of the budget.  NoisyDescent is
        algorithm 4 alone, one round of Proximal: the mean loss plus ``L ||w - start||^2``.
    kl : KL or (gamma, kappa), optional
        The public constants of the KL condition, which KL-Spider needs; "auto" and "adaptive" do
        not use them.
    start : sequence of float or "random", optional
        Public starting point, default zero.  It must not be computed from these data.  "random" is
        a fixed vector of length 1 in no special direction: zero is a saddle of networks and of
        phase retrieval, and no descent leaves a saddle.
    select : {"last", "shortest gradient", "exponential"}
        Which point is the answer: the algorithm's own; the iterate with the smallest of the norms
        that were released anyway (free); or one drawn by the exponential mechanism on exact
        gradient norms, for a tenth of the budget (``ZCDP`` or ``ApproxDP`` only).
    progress : callable or bool, optional
        True shows a bar.  A function is called as ``progress(done, planned)``; see
        :func:`dpfast.fit`.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    Minimum
        Without standard errors: a redescending loss has curvature of either sign, and no claim of
        this library covers its inverse.  :func:`dpfast.fit` with a convex robust loss has them.

    Raises
    ------
    Exception
        Ctrl-C and whatever else ends a run has the points at which questions were answered, as a
        :class:`Minimum`, in its attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public.  Every query clips what a record
    contributes to declared bounds, so nothing rests on the user's constants being right (claims K1
    to K3 of ``PROOFS-nonconvex.md``); a private clip is paid for within the total (K7), and
    so is a warning that the answer is worse than the start (K8), for a hundredth of it.  What is
    asked next and for how much depends on earlier answers, which the ledger's rule covers (claim
    K4).  ``kl``, ``start`` and every other option must be public.

    Notes
    -----
    Gradients of a :class:`PerRecordObjective` are scaled privately, by factors of at most some 18;
    rescale columns first whose units differ by more than some 100, and standardise
    (:func:`dpfast.standardize`) those of a built-in loss, which is not scaled.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [2.0, -1.0] + 0.1 * rng.normal(size=5000)
    >>> y[:500] = 100.0
    >>> objective = dpfast.Objective("tukey", scale=1.0)
    >>> result = dpfast.minimize(X, y, objective, privacy=dpfast.ZCDP(0.5))
    >>> result.params.shape
    (3,)
    """
    select = one_of(select, SELECTIONS, "select")
    condition = None if kl is None else _condition(kl)
    total = _total(privacy, select)
    request, target = target_of(X, y, objective, noise)
    if isinstance(target, PerRecordObjective):
        target.rehearse(request.n_covariates)
    algorithm, reason = _choose(method, condition, target)
    theta = _starting_point(start, target)
    if isinstance(objective, PerRecordObjective):
        names = _parameter_names(source_of(X, y).names, target)
    else:
        names = request._coefficient_names()
    request.account = Account(privacy, ledger, total)
    description = f"{algorithm!r}; {reason}; answer: {select}"
    analysis = _Minimisation(request, target, total, names, description)
    if condition is not None and not isinstance(algorithm, Adaptive):
        _refuse_overflow(condition, analysis.curator)
    analysis.plan(algorithm, condition, theta, select)
    label = f"minimize({target!r}, n={request.n})"
    return run(analysis, label, request.memory_bytes(), progress)


class _Minimisation(Analysis[Minimum]):
    """Ledgers and curators of one minimisation, and its results."""

    def __init__(
        self,
        request: FitRequest,
        target: Objective | PerRecordObjective,
        total: GDP | ZCDP,
        names: tuple[str, ...],
        description: str,
    ) -> None:
        self.request = request
        self.target = target
        self.total = total
        self.names = names
        self.description = description
        self.ledger = Ledger(total)
        self.curator = GradientCurator(
            request.records, target, self.ledger, request.noise, request.threads
        )
        self.curator.check(self.curator.remaining)
        #: The curator that the algorithm queries; it cannot spend what is reserved.
        self.descent_curator = self.curator
        self._has_child = False

    def plan(
        self, algorithm: Any, condition: KL | None, start: NDArray[np.float64], select: str
    ) -> None:
        """Plan the steps, and reserve the cost of a comparison with the start."""
        adaptive = isinstance(algorithm, Adaptive)
        self.steps = algorithm.max_steps if adaptive else 1
        self._arguments = (start,) if adaptive else (start, condition)
        self._algorithm, self._start, self._select = algorithm, start, select
        self._check = self.reserve_for_check()

    def query(self, report: Progress | None) -> tuple[NDArray[np.float64], Path]:
        """Descend, select the answer, and compare it with the start."""
        selection = self.reserve_for_selection() if self._select == "exponential" else 0.0
        path: Path = self._algorithm.run(self.descent_curator, *self._arguments, report)
        params = self.selected(path, self._select, selection)
        if self._check:
            curator = self.curator.with_scales(path.scales)
            path.remarks += _no_gain(curator, params, self._start, self._check, path.longest)
        return params, path

    def reserve_for_check(self) -> float:
        """Reserve the cost of the comparison with the start; 0 where it would be too noisy."""
        check = CHECK_SHARE * self.curator.remaining
        if noise_for(1.0, self.curator.n, check) > CHECK_NOISE:
            check = 0.0
        self.descent_curator = self.curator.keeping(check)
        return check

    def reserve_for_selection(self) -> float:
        """Reserve the cost of the exponential mechanism, and return it.

        The descent gets a child ledger, so that it cannot spend the reserve.
        """
        remaining = self.descent_curator.remaining
        reserve = remaining * SELECTION_SHARE
        if reserve:
            rest = self.ledger.child(ZCDP(remaining * (1.0 - SELECTION_SHARE)), "descent")
            self.descent_curator = self.curator.with_ledger(rest)
            self._has_child = True
        return reserve

    def selected(self, path: Path, select: str, reserve: float) -> NDArray[np.float64]:
        """Return the point of the path that is the answer."""
        if select == "shortest gradient":
            return _shortest(path)
        if select == "exponential":
            stride = -(-len(path.iterates) // MAX_CANDIDATES)
            candidates = path.iterates[::-1][::stride]
            return candidates[self.curator.select_stationary(candidates, reserve)]
        return path.theta

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the queries that were answered."""
        entries = self.descent_curator.ledger.entries
        if self._has_child:
            entries = entries + self.ledger.entries[1:]
        return Guarantee.of_filter(
            self.total,
            self.request.noise,
            self.request.n,
            entries,
            self.target.vouched if isinstance(self.target, PerRecordObjective) else (),
            composition_of(self.ledger),
        )

    def report(self, answers: tuple[NDArray[np.float64], Path], ended: str = "") -> Minimum:
        """Make the result of a path; ``ended`` is the remark of a partial one."""
        params, path = answers
        request = self.request
        target = self.target
        minimum = Minimum(
            params=params,
            names=self.names,
            n_records=request.n,
            model=repr(target),
            method=self.description,
            privacy=self.guarantee(),
            covariance=None,
            iterates=np.array(path.iterates),
            **response_of(target),
            fit_intercept=target.fit_intercept if isinstance(target, Objective) else False,
            rows=request.new_rows,
        )
        minimum.gradient_norms = np.array(path.norms)
        minimum.rounds = tuple(path.rounds)
        minimum._remarks = (ended,) * bool(ended) + tuple(path.remarks)
        minimum._why_none = _no_errors(target)
        minimum._linear = isinstance(target, Objective)
        return minimum

    def so_far(self, error: str, keeping: KeepReleased) -> Minimum | None:
        """Make the result of a run that ended early, from the points of its answers."""
        points = keeping.points(self.target.dimension)
        if not points:
            return None
        path = Path(points[0])
        for point in points[1:]:
            path.move(point)
        return self.report((path.theta, path), ENDED.format(error=error))


def _starting_point(
    start: Sequence[float] | str | None, target: Objective | PerRecordObjective
) -> NDArray[np.float64]:
    """Return the public starting point."""
    if isinstance(start, str):
        one_of(start, ("random",), "start", otherwise=", a sequence of numbers, or None")
        return public_directions(target.dimension, 1)[0]
    return checked_start(start, target.dimension, getattr(target, "ridge", 0.0))


def _no_gain(
    curator: GradientCurator,
    params: NDArray[np.float64],
    start: NDArray[np.float64],
    rho: float,
    longest: float,
) -> list[str]:
    """Warn where the loss is measured to be higher than at the start, for ``rho``."""
    rho = min(rho, curator.remaining)
    distance = public_length(params - start)
    if rho < MIN_RHO or not 0.0 < distance < math.inf:
        return []
    clip = longest if curator.can_clip else None
    answer = curator.loss_change(params, start, rho, clip)
    ridge = getattr(curator.objective, "ridge", 0.0)
    penalised = 0.0
    if ridge:
        mean = 0.5 * (params + start)
        penalised = float(np.asarray(curator.objective.ridge_gradient(mean)) @ (params - start))
    change = float(answer.value[0]) + penalised
    if not change > WORSE * answer.noise_scale:
        return []
    return [NO_GAIN.format(change=change, noise=answer.noise_scale)]


def _no_errors(target: Objective | PerRecordObjective) -> str:
    """Explain the missing standard errors, and the alternatives."""
    if isinstance(target, PerRecordObjective):
        return (
            "minimize releases no standard errors: nothing is known of the curvature of gradients "
            "of one's own. A regression with a loss of the library has them from "
            "dpfast.fit(..., inference=True)."
        )
    if not target.loss.has_curvature:
        return (
            f"minimize releases no standard errors for {target.loss.name!r}: its curvature "
            "changes sign from record to record, and no noise that hides a record leaves its "
            "mean safely invertible. dpfast.fit(..., inference=True) with a convex robust loss "
            "('log-cosh', 'huber') has them; where errors are symmetric both estimate the same "
            "coefficients."
        )
    return (
        "minimize releases no standard errors. This loss is convex: dpfast.fit(..., "
        "inference=True) minimises it, with intervals inside the same total."
    )


def _total(privacy: Budget | float, select: str) -> GDP | ZCDP:
    """Choose the currency of the run: the request's, or Gaussian DP, which wastes nothing."""
    budget = as_budget(privacy)
    if isinstance(budget, ZCDP):
        return budget
    if select != "exponential" or isinstance(budget, PureDP):
        return GDP.within(budget)
    if isinstance(budget, ApproxDP):
        return ZCDP.within(budget)
    raise InvalidInput(
        'select="exponential" is accounted in zCDP, which implies no Gaussian DP; received '
        f"privacy={budget!r}. Pass ZCDP(rho) or ApproxDP(epsilon, delta), or use "
        'select="shortest gradient", which is free.'
    )


def _condition(kl: Any) -> KL:
    """Make a KL condition of the argument, which is one or its two numbers."""
    if isinstance(kl, (tuple, list)) and 1 <= len(kl) <= 2:
        return KL(*kl).checked()
    raise InvalidInput(
        "kl must be dpfast.nonconvex.KL(gamma, kappa) or its two numbers, or None; received "
        f"{described(kl)}."
    )


def _refuse_overflow(kl: KL, curator: GradientCurator) -> None:
    """Refuse a KL condition whose excess risks overflow where a run needs them."""
    noise = noise_for(curator.lipschitz, curator.n, 0.25 * curator.remaining)
    farthest = max(curator.lipschitz, curator.dimension**0.5 * noise)
    try:
        kl.excess(farthest)
    except OverflowError:
        raise InvalidInput(
            "the KL condition says of a gradient as long as is possible here that the excess risk "
            "is beyond floating point. Pass constants of these data's scale."
        ) from None


def _choose(
    method: str | Method | NoisyDescent, kl: KL | None, target: Objective | PerRecordObjective
) -> tuple[Method, str]:
    """Choose the algorithm, with the reason, and let it check the objective."""
    if isinstance(method, NoisyDescent):
        chosen: Method = Proximal(rounds=1, inner=method)
        reason = "one round: the mean loss plus L ||w - start||^2"
    elif isinstance(method, (Adaptive, Proximal, Spider)):
        chosen, reason = method, "as given"
    elif one_of(method, CHOICES, "method", otherwise=SETTINGS) in METHODS:
        chosen, reason = METHODS[method](), "as requested"
    else:
        # also where kl is given: the other methods gain less than they assume
        chosen, reason = Adaptive(), "auto: needs no constants of the KL condition"
    if isinstance(chosen, Spider) and kl is None:
        raise InvalidInput(
            "KL-Spider needs kl=(gamma, kappa), public constants of the KL condition. Estimate "
            'them on public data with dpfast.nonconvex.estimate_kl, or use method="adaptive".'
        )
    chosen.check(target)
    return chosen, reason


def _shortest(path: Path) -> NDArray[np.float64]:
    """Return the iterate with the smallest released norm, or the last one without norms."""
    norms = [norm if norm == norm else math.inf for norm in path.norms]
    best = min(range(len(norms)), key=norms.__getitem__)
    return path.iterates[best] if norms[best] < math.inf else path.theta


def _parameter_names(
    names: Sequence[str] | None, target: Objective | PerRecordObjective
) -> tuple[str, ...]:
    """Return the users' names of the parameters, or ``w1``, ``w2``, ..."""
    if names is None:
        return tuple(f"w{j + 1}" for j in range(target.dimension))
    return text_names(names, target.dimension, "parameter")
