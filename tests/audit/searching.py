"""Attack an objective's constants: how far apart can two records push each query?"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, whole_number
from dpfast.curator import Curator, StepBudget
from dpfast.curator.noisy_release import Release, observed
from dpfast.data import as_records
from dpfast.errors import InvalidInput, described
from dpfast.kernels.records import RecordKernel
from dpfast.models import Bounded, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise

#: Bits of the kernels' ``want`` for each query.
#: And the place of its contributions.
QUERIES = {"gradient": (1, 0), "hessian": (2, 1), "majorizer": (34, 1), "meat": (4, 2)}

#: Residuals of the structured records, in units of the corner of the loss.
RESIDUALS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 2.0, 4.0, 1e6)
#: Lengths of their covariates, in units of the radius.
LENGTHS = (0.0, 0.5, 1.0, 1e3)
#: Angles of their covariates, in the plane of the parameter and one orthogonal direction.
N_ANGLES = 16
#: Sine of the angle between a parameter and the records nearly orthogonal to it, whose logistic
#: scores are opposite when the parameter is long.
NEARLY = 0.003
#: Lengths of the parameter, in units of 1/radius; those of the logistic loss.
SLOPES = (0.0, 1.0, 4.0, 30.0, 1e3, 1e6)


#: Of each record its gradient, curvature and meat.
Columns = tuple[Array | None, ...]


class Finding(NamedTuple):
    """The worst pair of records found for one quantity."""

    quantity: str
    ratio: float
    distance: float
    sensitivity: float
    records: tuple[tuple[Array, float], tuple[Array, float]]
    theta: Array


class SearchReport(NamedTuple):
    """Outcome of :func:`sensitivity_search`."""

    objective: str
    findings: dict[str, Finding]
    n_pairs: int

    @property
    def worst(self) -> Finding:
        """The finding with the largest ratio."""
        return max(self.findings.values(), key=lambda finding: finding.ratio)

    @property
    def sound(self) -> bool:
        """Whether no pair moved any quantity by more than declared."""
        return self.worst.ratio <= 1.0

    def __str__(self) -> str:
        lines = [f"{self.objective}: {self.n_pairs} pairs of records tried"]
        lines += [
            f"  {name:16} largest distance / declared = {finding.ratio:.6f}"
            + ("" if finding.ratio <= 1.0 else "   WRONG CONSTANT")
            for name, finding in self.findings.items()
        ]
        return "\n".join(lines)


class _Part(NamedTuple):
    """One quantity and what it is divided by: its sensitivity, or its noise scale."""

    column: int
    unit: float


class _Target(NamedTuple):
    """What is searched: parts whose distances add up in squares, and the declared total."""

    want: int
    parts: tuple[_Part, ...]
    declared: float


class _Notes:
    """An observer that notes what a Curator declares and hands out the exact values."""

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def release(self, question: tuple[Any, ...], release: Release, draw: Any) -> Any:
        self.releases.append(release)
        return release.value


def declared(objective: Objective, n: int, budget: StepBudget) -> tuple[list[Release], float]:
    """What a Curator of n records declares for a joint release, and the mu it charges."""
    records = as_records(np.full((n, objective.n_covariates), np.nan), np.full(n, np.nan))
    ledger = Ledger(GDP(1e3 * (1.0 + sum(budget))))
    notes = _Notes()
    with observed(notes):
        curator = Curator(records, objective, ledger, SeededNoise(0))
        answer = curator.joint(np.zeros(objective.dimension), budget)
    return notes.releases, answer.mu


def sensitivity_search(
    objective: Objective,
    n: int = 1000,
    *,
    budget: StepBudget | tuple[float, float, float] = (1.0, 0.7, 0.3),
    quantities: Collection[str] | None = None,
    rounds: int = 40,
    seed: int = 0,
) -> SearchReport:
    """Search for the pair of records that moves each query of an objective the most."""
    n = whole_number(n, "n", 1)
    budget = StepBudget(*budget)
    if not isinstance(objective, Objective) or not objective.bound:
        raise InvalidInput(
            "objective must be a dpfast.Objective for a number of columns, such as "
            f"objective.bind(2); received {described(objective)}."
        )
    search = _PairSearch(objective, int(n), seed)
    findings = {
        name: search.run(name, target, rounds)
        for name, target in _targets(objective, int(n), budget).items()
        if quantities is None or name in quantities
    }
    if not findings:
        raise InvalidInput(
            f"quantities must contain some of {tuple(_targets(objective, int(n), budget))}; "
            f"received {described(quantities, text=True)}."
        )
    return SearchReport(repr(objective), findings, search.n_pairs)


def _targets(objective: Objective, n: int, budget: StepBudget) -> dict[str, _Target]:
    found = {}
    curves = objective.has_curvature
    if not curves:
        budget = budget._replace(hessian=0.0)
    for majorize in (False, True) if curves else (False,):
        releases, mu = declared(objective, n, budget._replace(majorize=majorize))
        parts, joint_want = [], 0
        for release in releases:
            want, column = QUERIES[release.query]
            joint_want |= want
            parts.append(_Part(column, release.noise_scale))
            alone = (_Part(column, 1.0),)
            found[release.query] = _Target(want, alone, release.l2_sensitivity)
        found["joint majorizer" if majorize else "joint"] = _Target(joint_want, tuple(parts), mu)
    return found


class _PairSearch:
    """Structured pairs, then differential evolution, for one objective."""

    def __init__(self, objective: Objective, n: int, seed: int) -> None:
        self.objective = objective
        self.n = n
        self.seed = seed
        self.q = objective.n_covariates
        self.p = objective.dimension
        self.binary = objective.loss.binary_response
        radius = objective.weighting.radius
        inner = radius**2 - 1.0 if objective.fit_intercept else radius**2
        self.reach = math.sqrt(inner) if inner > 0.0 else radius
        self.n_pairs = 0
        self.codes, self.thetas = self._pools()
        self.moved: dict[tuple[int, bool], Columns] = {}

    def run(self, name: str, target: _Target, rounds: int) -> Finding:
        best: tuple[float, Array] = (-1.0, np.empty(0))
        for at, theta in enumerate(self.thetas):
            ratio, code = self._best_pair(at, theta, target)
            if ratio > best[0]:
                best = ratio, code
        if rounds:
            best = max(best, self._evolve(best[1], target, rounds), key=lambda found: found[0])
        first, second, theta = self._decode(best[1])
        distance = self._distance(first, second, theta, target)
        return Finding(
            name, distance / target.declared, distance, target.declared, (first, second), theta
        )

    # A pair is coded as [x, log10 length, residual] twice, then theta; the coding keeps each
    # residual in reach however large the covariates are.

    def _pools(self) -> tuple[Array, list[Array]]:
        """Coded structured records, and the parameters at which to pair them."""
        directions = np.zeros((N_ANGLES, self.q))
        if self.q >= 2:
            angles = 2.0 * np.pi * np.arange(N_ANGLES) / N_ANGLES
            directions[:, 0], directions[:, 1] = np.cos(angles), np.sin(angles)
            if self.binary:
                near = np.zeros((4, self.q))
                near[:, 0], near[:, 1] = (NEARLY, NEARLY, -NEARLY, -NEARLY), (1.0, -1.0, 1.0, -1.0)
                directions = np.concatenate([directions, near])
        elif self.q == 1:
            directions = np.array([[1.0], [-1.0]])
        else:
            directions = directions[:1]
        corners = (
            (-1.0, 1.0) if self.binary else sorted({s * r for s in (-1, 1) for r in RESIDUALS})
        )
        lengths = LENGTHS[1:] if self.q else LENGTHS[1:2]
        codes = np.array(
            [
                [*direction, math.log10(length * self.reach), corner]
                for direction in directions
                for length in lengths
                for corner in corners
            ]
            + [[*np.zeros(self.q + 1), corner] for corner in corners]
        )
        # The first direction of the parameter is that of the first covariate (or the intercept).
        axis = np.zeros(self.p)
        axis[int(self.objective.fit_intercept and self.q > 0)] = 1.0
        slopes = SLOPES if self.binary else SLOPES[:1]
        thetas = [slope / self.reach * axis for slope in slopes]
        if self.binary and self.objective.fit_intercept:
            thetas += [slope * np.eye(self.p)[0] for slope in (-8.0, -1.0, 1.0, 8.0)]
        highest = self.objective.loss.largest_mean
        if highest < math.inf and self.objective.fit_intercept:
            most = math.log(highest) - 1e-9  # where the curvature is
            thetas += [most * np.eye(self.p)[0]]
        return codes, thetas

    def _record(self, code: Array, theta: Array) -> tuple[Array, float]:
        """Covariates and response that a code stands for."""
        length = math.sqrt(float(code[: self.q] @ code[: self.q]))
        scale = 10.0 ** min(float(code[self.q]), 300.0) / length if length > 0.0 else 0.0
        x = code[: self.q] * scale
        corner = float(code[self.q + 1])
        if self.binary:
            return x, float(corner > 0.0)
        seen = x
        if isinstance(self.objective.weighting, Bounded) and scale * length > self.reach:
            seen = x * (self.reach / (scale * length))
        intercept = int(self.objective.fit_intercept)
        t = float(theta[:intercept].sum() + seen @ theta[intercept:])
        loss = self.objective.loss
        mean = float(loss._means(np.array([t]), loss.largest_mean)[0][0])
        return x, mean + self.objective.scale * loss.c * corner

    def _decode(self, code: Array) -> tuple[tuple[Array, float], tuple[Array, float], Array]:
        size = self.q + 2
        theta = np.ascontiguousarray(code[2 * size :])
        return (self._record(code[:size], theta), self._record(code[size : 2 * size], theta), theta)

    def _columns(self, records: list[tuple[Array, float]], theta: Array, want: int) -> Columns:
        X = np.array([x for x, _ in records]).reshape(len(records), self.q)
        y = np.array([label for _, label in records])
        return nonprivate_contributions(self.objective, X, y, theta, want)

    def _features(self, columns: Columns, target: _Target) -> Array:
        """Contributions in the units of the target, one row per record."""
        parts = []
        for part in target.parts:
            values = columns[part.column]
            assert values is not None
            parts.append(values.reshape(len(values), -1) / (self.n * part.unit))
        return np.concatenate(parts, axis=1)

    def _best_pair(self, at: int, theta: Array, target: _Target) -> tuple[float, Array]:
        codes, majorize = self.codes, bool(target.want & 32)
        if (at, majorize) not in self.moved:  # all that any target wants
            want = 5 | (34 if majorize else 2 * self.objective.has_curvature)
            records = [self._record(code, theta) for code in codes]
            self.moved[at, majorize] = self._columns(records, theta, want)
        features = self._features(self.moved[at, majorize], target)
        # In units of the declared size, so that no square overflows or underflows.
        features /= target.declared
        squares = (features * features).sum(axis=1)
        gram = features @ features.T
        gram *= -2.0
        gram += squares[:, None]
        gram += squares
        i, j = divmod(int(gram.argmax()), len(codes))
        self.n_pairs += len(codes) * (len(codes) - 1) // 2
        return math.sqrt(max(gram[i, j], 0.0)), np.concatenate([codes[i], codes[j], theta])

    def _distance(
        self, first: tuple[Array, float], second: tuple[Array, float], theta: Array, target: _Target
    ) -> float:
        features = self._features(self._columns([first, second], theta, target.want), target)
        features /= target.declared
        difference = features[0] - features[1]
        return math.sqrt(float(difference @ difference)) * target.declared

    def _evolve(self, start: Array, target: _Target, rounds: int) -> tuple[float, Array]:
        from scipy.optimize import differential_evolution

        def objective(code: Array) -> float:
            return -self._distance(*self._decode(code), target) / target.declared

        size = len(start)
        spread = np.full(size, 0.3)
        for at in (self.q + 1, 2 * self.q + 3):  # residuals
            spread[at] = 0.0 if self.binary else 0.3 * min(1.0 + abs(start[at]), 10.0)
        theta = start[2 * (self.q + 2) :]
        spread[2 * (self.q + 2) :] = 0.3 * np.abs(theta) + (0.3 / self.reach if self.binary else 0)
        population = min(60, max(20, 4 * size))
        draws = SeededNoise(self.seed).normals(population * size, 40) * 2.0**-40
        pool = start + spread * draws.reshape(population, size)
        pool[0] = start
        found = differential_evolution(
            objective,
            # a little wider than the spread: half of the search stays near the structured pair
            bounds=np.column_stack([start - 4 * spread - 1e-9, start + 4 * spread + 1e-9]),
            init=np.clip(pool, start - 4 * spread, start + 4 * spread),
            maxiter=rounds,
            polish=False,
            tol=0.0,
            seed=self.seed,
        )
        self.n_pairs += int(found.nfev)
        return -float(found.fun), np.asarray(found.x)


def nonprivate_contributions(
    objective: Objective,
    X: np.ndarray,
    y: np.ndarray,
    theta: np.ndarray,
    want: int,
) -> Columns:
    """Exact gradient, curvature and meat of each record on its own, by the compiled kernels."""
    sums, n = RecordKernel(*objective.kernel_arguments()).sums, len(y)
    parts = [sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0, 1) for i in range(n)]
    return tuple(
        # much faster than stacking, for many small arrays
        None if column[0] is None else np.concatenate(column).reshape(n, *column[0].shape)
        for column in zip(*parts, strict=True)
    )
