"""What the paper compares, as calls of the public API, and their errors over repetitions.

Every estimate is one call on one data set; nothing is computed from a scale.  The error is the
distance from the exact minimiser of the same data, which is what the noise adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.figures.runner import Panel
from bench.rivals import literature
from dpfast.models import release_constants
from dpfast.release import Certified

DELTA = 1e-6

#: Repetitions, as many as in the paper, and of large data sets.
REPETITIONS, FEWER, LARGE = 25, 10, 60_000

Array = np.ndarray


class Case(NamedTuple):
    """One data set and what is public of it; ``wanted`` is a coefficient, None for all."""

    X: Array
    y: Array
    loss: Any
    scale: float | None
    domain: Any
    wanted: int | None
    exact: Array
    settings: Mapping[str, Any]  # of DP-SGD


class Answer(NamedTuple):
    """What a call released, None if it was not certified, and the deviation it announced."""

    value: Any
    announced: float = math.nan
    by_fallback: bool = False


def case(
    X: Array,
    y: Array,
    loss: Any,
    domain: Any,
    wanted: int | None,
    scale: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Case:
    bound = domain.bind(X.shape[1])
    exact = dpfast.nonprivate_fit(X, y, objective(loss, scale, bound, weights=weighting(bound)))
    return Case(X, y, loss, scale, bound, wanted, exact.params, settings or {})


def repetitions(n: int, quick: bool) -> int:
    return 3 if quick else REPETITIONS if n <= LARGE else FEWER


def weighting(bound: Any) -> dpfast.Bounded:
    return dpfast.Bounded(bound.radius * (1.0 + 1e-9))


def objective(loss: Any, scale: float | None, bound: Any, **terms: Any) -> dpfast.Objective:
    return dpfast.Objective(loss, scale=scale, fit_intercept=bound.intercept, **terms)


def release(
    given: Case, epsilon: float, seed: int, certified: Certified | None = None
) -> tuple[Answer, Any]:
    """A functional, or the whole parameter if all coefficients are wanted; and what it is of."""
    options: dict[str, Any] = {
        "privacy": dpfast.ApproxDP(epsilon, DELTA), "domain": given.domain,
        "noise": dpfast.SeededNoise(seed),
    }  # fmt: skip
    data = given.X, given.y, dpfast.Objective(given.loss, scale=given.scale)
    if given.wanted is None:
        if certified is not None:
            options["certificate"] = certified.certificate
        found: Any = dpfast.release_parameter(*data, **options)
    else:
        direction = np.eye(len(given.exact))[given.wanted]
        method = certified or "auto"
        found = dpfast.release_functional(*data, direction, method=method, **options)
    if isinstance(found, dpfast.release.NotCertified):
        return Answer(None), found
    if isinstance(found, dpfast.release.FunctionalRelease):
        return Answer(found.value, float(found.noise_scale_bound[0])), found
    return Answer(chosen(given, found.params), float(found.noise_scale)), found


def chosen(given: Case, params: Array) -> Any:
    return params if given.wanted is None else params[given.wanted]


def ours(given: Case, epsilon: float, seed: int) -> Answer:
    """What is called without naming a method."""
    return release(given, epsilon, seed)[0]


def local(given: Case, epsilon: float, seed: int) -> Answer:
    """Algorithm 5 (3 for the whole parameter), corrected, with its recursion."""
    return release(given, epsilon, seed, Certified("recursive"))[0]


def hybrid(given: Case, epsilon: float, seed: int) -> Answer:
    """As the paper on its surveys: half of epsilon certifies, else the rest perturbs."""
    answer, found = release(given, epsilon, seed, Certified("recursive", 0.5))
    if answer.value is not None:
        return answer
    return perturbed(given, epsilon, seed, found.left)._replace(by_fallback=True)


def perturbed(given: Case, epsilon: float, seed: int, budget: Any = None) -> Answer:
    """Objective perturbation, tightly calibrated, with the paper's ridge."""
    privacy = budget or dpfast.ApproxDP(epsilon, DELTA)
    radius = given.domain.radius
    curvature = release_constants(given.loss, given.scale or 1.0).curvature * radius**2
    ridge = 4.0 * curvature / (len(given.y) * privacy.epsilon)
    fit = literature.objective_perturbation(
        given.X, given.y, objective(given.loss, given.scale, given.domain, ridge=ridge),
        privacy=privacy, radius=radius * (1.0 + 1e-9), noise=dpfast.SeededNoise(seed),
    )  # fmt: skip
    return Answer(chosen(given, fit.params))


def naive(given: Case, epsilon: float, seed: int) -> Answer:
    """Output perturbation with the paper's ridge of .01."""
    weights = weighting(given.domain)
    asked = objective(given.loss, given.scale, given.domain, weights=weights, ridge=0.01)
    privacy = dpfast.ApproxDP(epsilon, DELTA)
    found = literature.output_perturbation(given.X, given.y, asked, privacy=privacy, seed=seed)
    return Answer(chosen(given, found))


def sgd(given: Case, epsilon: float, seed: int) -> Answer:
    """DP-SGD with the settings of the case."""
    found = literature.dp_sgd(
        given.X, given.y, objective(given.loss, given.scale, given.domain),
        privacy=dpfast.ApproxDP(epsilon, DELTA), seed=seed, **given.settings,
    )  # fmt: skip
    return Answer(chosen(given, found))


def fit(given: Case, epsilon: float, seed: int) -> Answer:
    found = dpfast.fit(
        given.X, given.y,
        objective(given.loss, given.scale, given.domain, weights=weighting(given.domain)),
        privacy=dpfast.ApproxDP(epsilon, DELTA), inference=False, noise=dpfast.SeededNoise(seed),
    )  # fmt: skip
    return Answer(chosen(given, found.params))


def ideal(given: Case, epsilon: float, seed: int) -> Answer:
    """Normal noise for the local sensitivity itself, as if it were public: **not private**."""
    rows = np.column_stack([np.ones(len(given.X)), given.X]) if given.domain.intercept else given.X
    logistic = given.scale is None
    t = 0.5 * ((0.0 if logistic else given.y) - rows @ given.exact)  # of one unit of scale
    slope, curvature = (1.0, 0.25 / np.cosh(t) ** 2) if logistic else (2.0, 1.0 / np.cosh(t) ** 2)
    inverse = np.linalg.inv((rows * curvature[:, None]).T @ rows / len(rows))
    if given.wanted is None:
        reach = given.domain.radius * float(np.linalg.norm(inverse, 2))
    else:
        reach = given.domain.support(inverse[given.wanted])
    mu = dpfast.GDP.within(dpfast.ApproxDP(epsilon, DELTA)).mu
    scale = 2.0 * slope * reach / (len(rows) * mu)
    noise = np.random.default_rng(seed).normal(scale=scale, size=len(given.exact))
    return Answer(chosen(given, given.exact + noise), scale)


Method = Callable[[Case, float, int], Answer]

#: Names, in the order of the figures, and their lines.
LOCAL = "algorithm 5, corrected"
OURS = "release_functional"
WHOLE, OUR_WHOLE = "algorithm 3, corrected", "release_parameter"
PERTURBED, NAIVE, SGD = "objective perturbation", "output perturbation", "DP-SGD, tuned for nothing"
FIT, IDEAL = "fit", "idealised (not private)"
HYBRID = "algorithm 5 or perturbation"

RIVALS: dict[str, Method] = {PERTURBED: perturbed, NAIVE: naive, SGD: sgd, FIT: fit, IDEAL: ideal}
ONE: dict[str, Method] = {LOCAL: local, OURS: ours} | RIVALS
ALL: dict[str, Method] = {WHOLE: local, OUR_WHOLE: ours} | RIVALS
SURVEY: dict[str, Method] = {
    HYBRID: hybrid, OURS: ours, PERTURBED: perturbed, FIT: fit, IDEAL: ideal,
}  # fmt: skip

LINES = dict(zip((LOCAL, OURS, PERTURBED, NAIVE, SGD, FIT, IDEAL),
                 ("C2^-", "C0o-", "C3v-", "C4x-", "C5d-", "C1s-", "k--"), strict=True))  # fmt: skip
LINES |= {WHOLE: "C2^-", OUR_WHOLE: "C0o-", HYBRID: "C2^-"}


def measured(
    methods: Mapping[str, Method], cells: Iterable[Iterable[tuple[Case, float, int]]]
) -> dict[str, dict[str, list[float]]]:
    """For each method and each cell (its repetitions): mean error, two standard errors, ...

    The mean is over certified repetitions; it is infinite where these are fewer than half.
    """
    kept = "error", "two standard errors", "certified", "by fallback", "announced"
    found: dict[str, dict[str, list[float]]] = {
        name: {what: [] for what in kept} for name in methods
    }
    for repetitions in cells:
        answers: dict[str, list[tuple[float, Answer]]] = {name: [] for name in methods}
        total = 0
        for given, epsilon, seed in repetitions:
            total += 1
            for name, method in methods.items():
                answer = method(given, epsilon, seed)
                if answer.value is not None:
                    off = np.linalg.norm(answer.value - chosen(given, given.exact))
                    answers[name].append((float(off), answer))
        for name, there in answers.items():
            errors, entry = [error for error, _ in there], found[name]
            enough = len(errors) >= max(2, 0.5 * total)
            entry["error"].append(float(np.mean(errors)) if enough else math.inf)
            spread = float(np.std(errors, ddof=1)) if enough else math.inf
            entry["two standard errors"].append(2.0 * spread / math.sqrt(max(1, len(errors))))
            entry["certified"].append(
                sum(not answer.by_fallback for _, answer in there) / max(1, total)
            )
            entry["by fallback"].append(sum(a.by_fallback for _, a in there) / max(1, total))
            noises = [answer.announced for _, answer in there if not answer.by_fallback]
            entry["announced"].append(max(noises) if noises else math.nan)
    return found


def settings_grid(lipschitz: float, smoothness: float) -> list[dict[str, Any]]:
    """Sixteen settings of DP-SGD, in units of a record's bounds."""
    return [
        {"sampling_rate": rate, "clip": clip * lipschitz,
         "steps": steps, "step_size": length / smoothness}
        for steps in (50, 200) for rate in (0.02, 0.1) for length in (1.0, 4.0) for clip in (0.3, 1)
    ]  # fmt: skip


def tuned(
    given: Case, epsilon: float, seeds: Iterable[int], tries: int | None = None
) -> dict[str, Any]:
    """The settings with the least exact error on another data set: for nothing, as in the paper."""
    constants = release_constants(given.loss, given.scale or 1.0)
    rows = given.domain.radius
    # the mean loss is far smoother than a record's: covariates share the square of the radius
    smoothness = constants.curvature * rows**2 / len(given.exact)
    seeds = tuple(seeds)

    def error(settings: dict[str, Any]) -> float:
        tried = given._replace(settings=settings, wanted=None)
        return float(
            np.mean([np.linalg.norm(sgd(tried, epsilon, s).value - given.exact) for s in seeds])
        )

    return min(settings_grid(constants.slope * rows, smoothness)[:tries], key=error)


def panels(
    xs: Iterable[float], xlabel: str, ylabel: str,
    entries: Mapping[str, dict[str, dict[str, list[float]]]],
) -> list[Panel]:  # fmt: skip
    """Errors of every method with two standard errors; gaps where not certified."""
    at, found = list(xs), []
    for title, curves in entries.items():
        error, spread = (
            {
                name: np.where(np.isfinite(entry["error"]), entry[what], np.nan)
                for name, entry in curves.items()
            }
            for what in ("error", "two standard errors")
        )
        axes = {"xlabel": xlabel, "ylabel": "" if found else ylabel, "title": title}
        found.append(Panel(at, error, axes, "xy", LINES, spread, legend={"fontsize": 6}))
    return found


def barely(curves: Mapping[str, dict[str, list[float]]]) -> str:
    """A remark on releases that were certified and are of no use."""
    found = max(
        (
            (name, noise, off)
            for name, entry in curves.items()
            if name in (LOCAL, WHOLE, OUR_WHOLE, HYBRID)
            for noise, off in zip(entry["announced"], entry["error"], strict=True)
            if noise == noise
        ),
        key=lambda entry: entry[1],
        default=None,
    )
    if found is None:
        return "None of the releases was certified"
    name, largest, error = found
    measured = f", mean error {error:.2g} in that cell" if error < math.inf else ""
    return (
        f"Certified is not yet useful: the largest announced standard deviation of a certified "
        f"release here is {largest:.3g} ({name}{measured}). "
        f"{REPETITIONS} calls each up to n = {LARGE:,}, {FEWER} above"
    )
