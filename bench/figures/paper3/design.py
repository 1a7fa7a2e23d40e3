"""The paper's simulation design, and certificates on one data set, opened as a release would.

Covariates uniform on [-1, 1]^d, ``||theta|| = 1``, Laplace errors of scale 1, loss
``log(1 + e^t) + log(1 + e^-t)``, of which ``LogCosh(2)`` is twice: both have the same minimiser,
and everything here is invariant to the factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import dpfast
from dpfast.curator import Curator
from dpfast.curator.release.kinds import Kind, RecursiveKind
from dpfast.curator.release.projection import projected
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import Terms
from dpfast.data import as_records
from dpfast.models import Bounded, Box, Domain, LogCosh, Loss, Objective
from dpfast.privacy.mechanisms import laplace_rate, release_integer
from dpfast.privacy.release.calibration import COUNT

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
    kinds: dict[str, Kind]
    theta: np.ndarray
    smallest: float
    largest: float


def solve(
    X: np.ndarray,
    y: np.ndarray,
    epsilon: float,
    *,
    loss: Loss = LOSS,
    scale: float | None = 1.0,
    domain: Domain | None = None,
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
    terms = Terms("functional", epsilon, DELTA, epsilon / 4.0, failure)
    ledger, source = dpfast.Ledger(terms.budget), dpfast.SeededNoise(0)
    records = projected(as_records(X, y), bound)
    curator = Curator(records, objective, ledger, source)
    kinds = {"global": Kind(curator, bound), "recursive": RecursiveKind(curator, bound)}
    query = CertifiedRelease(curator, terms, kinds["global"])
    found = query._search()
    return Exact(query, kinds, found.theta, found.eigenvalue, found.largest)


def share(exact: Exact, seed: int, certificate: str) -> float:
    """One released lower bound relative to what it bounds; 0 if nothing was certified."""
    kind, terms, source = exact.kinds[certificate], exact.query.terms, dpfast.SeededNoise(seed)
    rate = laplace_rate(COUNT, terms.count_epsilon)
    noisy = release_integer(kind.count(exact.smallest), rate, source)
    bound = kind.lower_bound(noisy, terms.tail())
    return bound / exact.smallest if bound > kind.plan.floor else 0.0


def medians(
    xs: Iterable[Any],
    repetitions: int,
    names: Sequence[str],
    measure: Callable[[Any, int], Iterable[float]],
) -> dict[str, list[float]]:
    """A curve for each name: the median over repetitions of what is measured at each x."""
    rows = [np.median([list(measure(x, r)) for r in range(repetitions)], axis=0) for x in xs]
    return {name: np.array(rows)[:, k].tolist() for k, name in enumerate(names)}
