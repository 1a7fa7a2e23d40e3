"""The paper's simulation design, and certificates on one data set, opened as a release would.

Covariates uniform on [-1, 1]^d, ``||theta|| = 1``, Laplace errors of scale 1, loss
``log(1 + e^t) + log(1 + e^-t)``, of which ``LogCosh(2)`` is twice: both have the same minimiser,
and everything here is invariant to the factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import dpfast
from dpfast.curator import Curator
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.leverage import Leverage
from dpfast.curator.release.projection import ProjectedRecords
from dpfast.curator.release.recursion import RecursiveCertificate
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import (
    Size,
    Terms,
    functional_terms,
)
from dpfast.data import as_records
from dpfast.models import Bounded, Box, Domain, LogCosh, Loss, Objective, release_constants
from dpfast.privacy.mechanisms import laplace_rate, release_integer
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.scaled import law_scale
from dpfast.privacy.release.sensitivity import (
    lower_bound_from_release,
    scaled_count,
)

DELTA = 1e-6
LOSS = LogCosh(2.0)


def sample(
    rng: np.random.Generator, n: int, d: int, noise: float = 1.0, norm: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's design; its text does not give the scale of the errors."""
    theta = rng.normal(size=d)
    theta *= norm / np.linalg.norm(theta)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, X @ theta + noise * rng.laplace(size=n)


class Exact(NamedTuple):
    """What an omniscient observer knows about one data set (not private)."""

    query: CertifiedRelease
    leverage: Leverage
    theta: np.ndarray
    hessian: np.ndarray
    smallest: float
    largest: float
    inverse: float  # of the largest leverage


def solve(
    X: np.ndarray,
    y: np.ndarray,
    epsilon: float,
    *,
    loss: Loss = LOSS,
    scale: float | None = 1.0,
    domain: Domain | None = None,
    noise: str = "laplace",
    failure: float = DELTA / 2.0,
) -> Exact:
    """Certified minimiser of a data set, opened as a release would."""
    bound = (domain or Box(1.0)).bind(X.shape[1])
    objective = Objective(
        loss,
        Bounded(bound.radius * (1 + 1e-12)),
        X.shape[1],
        fit_intercept=bound.intercept,
        scale=scale,
    )
    terms = Terms("functional", epsilon, DELTA, epsilon / 4.0, failure, noise)
    ledger, source = dpfast.Ledger(terms.budget), dpfast.SeededNoise(0)
    records = ProjectedRecords(as_records(X, y), bound)
    curator = Curator(records, objective, ledger, source)
    query = CertifiedRelease(curator, terms, Kind(curator, bound))
    found = query._found()
    leverage = Leverage(query.kind.plan, bound)
    return Exact(
        query, leverage, found.theta, found.hessian, found.eigenvalue, found.largest,
        leverage.value(found.hessian),
    )  # fmt: skip


def steps(exact: Exact, certificate: str) -> float:
    """What a certificate measures, in units of what one record can do to it."""
    if certificate == "leverage":
        return exact.inverse / exact.leverage.plan.step
    return exact.smallest / exact.query.kind.plan.step


def share(exact: Exact, seed: int, certificate: str) -> float:
    """One released lower bound relative to what it bounds; 0 if nothing was certified."""
    kept = exact.leverage.plan if certificate == "leverage" else exact.query.kind.plan
    bound = lower_bound(exact, seed, certificate)
    return bound / (steps(exact, certificate) * kept.step) if bound > kept.floor else 0.0


def lower_bound(
    exact: Exact, seed: int, certificate: str = "global", terms: Terms | None = None
) -> float:
    """One released lower bound, through the library's own certificate."""
    kind, terms, source = exact.query.kind, terms or exact.query.terms, dpfast.SeededNoise(seed)
    plan = kind.plan
    rate = laplace_rate(COUNT, terms.count_epsilon)
    if certificate == "leverage":
        kept = exact.leverage.plan
        count = scaled_count(exact.inverse, kept.step, kept.eta, largest=kept.ceiling)
        noisy = release_integer(count, rate, source, terms.cap)
        return lower_bound_from_release(noisy, terms.tail(), kept.step, kept.eta, lreg=kept.floor)
    if certificate == "global":
        count = scaled_count(exact.smallest, plan.step, plan.eta, largest=plan.largest)
        return kind.lower_bound(release_integer(count, rate, source, terms.cap), terms.tail())
    recursion = recursive(exact)
    noisy = release_integer(recursion.count(exact.smallest), rate, source, terms.cap)
    return max(plan.floor, recursion.lower_bound(noisy, terms.tail()))


def recursive(exact: Exact) -> RecursiveCertificate:
    plan, objective = exact.query.kind.plan, exact.query._curator.objective
    curvature = release_constants(objective.loss, objective.scale).curvature
    return RecursiveCertificate.linear_model(
        plan.c, plan.slope, curvature, plan.radius, plan.n, eta=plan.eta
    )


def functional_noise(exact: Exact, w: np.ndarray, l0: float, law: str) -> float:
    """Standard deviation of the noise of the release (inf: not certified)."""
    query = exact.query
    terms = query.terms._replace(noise=law)
    size = Size(float(np.linalg.norm(w)), query.kind.domain.support(w))
    choices = functional_terms(query.kind.plan, terms, l0, [size])
    if choices is None:
        return math.inf
    return query._scale(query._found(), w, choices[0]) * law_scale(law)


def leverage_noise(exact: Exact, w: np.ndarray, seed: int, law: str) -> tuple[float, float]:
    """As :func:`functional_noise` with a leverage certificate, and the announced bound."""
    query = exact.query
    leverage = Leverage(query.kind.plan, query.kind.domain, w[None])
    terms = query.terms._replace(noise=law)
    # the same draw as that of lower_bound with this seed
    opened = exact._replace(leverage=leverage, inverse=leverage.value(exact.hessian))
    l0 = lower_bound(opened, seed, "leverage")
    size = Size(float(leverage.lengths[0]), None, float(leverage.alignments[0]))
    choices = functional_terms(leverage.plan, terms, l0, [size])
    if choices is None:
        return math.inf, math.inf
    sd, own = law_scale(law), query.measure
    query.measure = leverage.plan
    scale = query._scale(query._found(), w, choices[0])
    query.measure = own
    return scale * sd, choices[0].scale_bound * sd


def medians(
    xs: Iterable[Any],
    repetitions: int,
    names: Sequence[str],
    measure: Callable[[Any, int], Iterable[float]],
) -> dict[str, list[float]]:
    """A curve for each name: the median over repetitions of what is measured at each x."""
    rows = [np.median([list(measure(x, r)) for r in range(repetitions)], axis=0) for x in xs]
    return {name: np.array(rows)[:, k].tolist() for k, name in enumerate(names)}


def panels(
    canvas: Any,
    entries: dict[str, Any],
    draw: Callable[[Any, Any], None],
    ylabel: str,
    sharey: bool = True,
) -> None:
    """Panels side by side, one for each entry, the first with a legend."""
    every = canvas.subplots(1, len(entries), sharey=sharey, squeeze=False)[0]
    for axes, (title, entry) in zip(every, entries.items(), strict=True):
        axes.set_title(title)
        draw(axes, entry)
        axes.grid(alpha=0.3)
    every[0].set_ylabel(ylabel)
    every[0].legend(fontsize=7)
