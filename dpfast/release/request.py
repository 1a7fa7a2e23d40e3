"""What every release does before its own work: check, charge, build the curator."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.arguments import Array, real_array
from dpfast.curator import Curator
from dpfast.curator.release.projection import ProjectedRecords
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.composition import Composition
from dpfast.inference.natural import NaturalMap, natural_map
from dpfast.inference.rendering.targets import target_of
from dpfast.models import Bounded, Domain, Loss, Objective, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SIMULATION, NoiseSource, is_genuine
from dpfast.regression.road import DefaultFit, uses_default_fit
from dpfast.release.results import ReleaseGuarantee

#: At which a budget of another kind is translated in a message.
USUAL_DELTA = 1e-6

#: Range of a direction's length, whose square then neither overflows nor underflows.
DIRECTION_LENGTHS = (1e-100, 1e100)

#: Copies of rows of float32 while they are moved onto a domain.
COPIES = 2

#: Slack above the radius within which the kernels leave a projected row as it is.
ROW_SLACK = 1.0 + 1e-12


def approximate(privacy: Budget) -> ApproxDP:
    """The total as (epsilon, delta); these releases have no Gaussian-DP guarantee."""
    spoken, privacy = privacy, as_budget(privacy)
    if not isinstance(privacy, ApproxDP):
        pair = (
            f"{privacy.as_approx(USUAL_DELTA)!r}, which {privacy!r} implies"
            if isinstance(spoken, (GDP, ZCDP))
            else "dpfast.ApproxDP(epsilon, delta)"
        )
        raise InvalidBudget(
            "a release by test and release has an (epsilon, delta) guarantee: the test may fail "
            "with a small probability, beyond which nothing is promised, as GDP, zCDP and pure DP "
            f"would. Pass privacy={pair}; received {described(spoken)}."
        )
    return privacy


class Asking:
    """What all requests for functionals have: records, names, and how a result is told."""

    n: int
    dimension: int
    #: Of the coefficients, the intercept first.
    names: tuple[str, ...]
    loss: Loss
    ridge = 0.0
    #: What is said of rows that are not where they were declared to be.
    elsewhere = ""
    _request: FitRequest

    def guarantee(
        self, epsilon: float, delta: float, entries: tuple[str, ...], spent: Composition
    ) -> ReleaseGuarantee:
        text = "(epsilon, delta)-DP" if is_genuine(self._request.noise) else SIMULATION
        return ReleaseGuarantee(text, epsilon, delta, self.n, entries, spent)

    def target(self, method: str) -> str:
        """What is released, in a sentence."""
        ridge = f", ridge={self.ridge:g}" if self.ridge else ""
        return target_of(f"{self.loss!r}{ridge}, {method}", method) + self.elsewhere

    def label(self, what: str) -> str:
        return f"{what}({self.loss.name}, n={self.n}, p={self.dimension})"

    def direction(self, direction: Any) -> tuple[Array, bool, tuple[str, ...]]:
        """Rows of directions, whether there was a single one, and their names."""
        if isinstance(direction, str):
            direction = [direction]
        if isinstance(direction, (list, tuple)) and direction and isinstance(direction[0], str):
            unknown = [name for name in direction if name not in self.names]
            if unknown:
                # by its place: a list of cells may be passed for a list of names
                raise InvalidInput(
                    f"direction[{direction.index(unknown[0])}] names no coefficient; they are "
                    f"{', '.join(self.names)}."
                )
            rows = np.zeros((len(direction), self.dimension))
            for row, name in zip(rows, direction, strict=True):
                row[self.names.index(name)] = 1.0
            return rows, len(direction) == 1, tuple(direction)
        rows = real_array(direction, "direction")
        single = rows.ndim == 1
        rows = np.atleast_2d(rows)
        fits = rows.ndim == 2 and len(rows) and rows.shape[1] == self.dimension
        if not (fits and np.isfinite(rows).all()):
            raise InvalidInput(
                f"direction must be the name of a coefficient, {self.dimension} finite numbers "
                "(the intercept first, if there is one), or rows of them; received shape "
                f"{np.shape(direction)}."
            )
        with np.errstate(all="ignore"):
            lengths = np.sqrt(np.square(rows).sum(axis=1))
        if not ((lengths >= DIRECTION_LENGTHS[0]) & (lengths <= DIRECTION_LENGTHS[1])).all():
            raise InvalidInput(
                "the length of a direction must lie in "
                f"[{DIRECTION_LENGTHS[0]:g}, {DIRECTION_LENGTHS[1]:g}]. Rescale it."
            )
        labels = tuple(f"direction {j + 1}" for j in range(len(rows)))
        return rows, single, ("direction",) if single else labels


class ReleaseRequest(Asking):
    """Checked arguments that all releases share."""

    elsewhere = " Rows outside of the domain count as the nearest within it."

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: str | Loss | Objective,
        *,
        domain: Domain,
        noise: NoiseSource | None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise InvalidInput(
                "domain must say where the rows of X are, such as dpfast.models.Ball(radius) or "
                f"dpfast.models.Box(1.0); received {described(domain)}. Rows outside are "
                "projected onto it."
            )
        given = terms_of(loss)
        if not given.fit_intercept and domain.intercept:
            raise InvalidInput(
                "the domain has an intercept and the objective none. Pass the domain without "
                "intercept=True."
            )
        if given.weights is not None:
            raise InvalidInput(
                f"the domain bounds the rows, and {described(loss)} has weights. Pass an objective "
                "without weights."
            )
        self._request = FitRequest(X, y, fit_intercept=domain.intercept, noise=noise)
        self.n, self.dimension = self._request.n, self._request.dimension
        self.domain = domain.bind(self._request.n_covariates)
        self.loss = self._request.loss(given.loss)
        self.scale = self._request.coded_scale(given.scale)
        self._request.check_response(self.loss)
        self.ridge = given.ridge
        self.names = self._request._coefficient_names()
        records = self._request.records
        self._records = (
            ProjectedRecords(records, self.domain) if self.domain.needs_projection else records
        )

    def objective(self, ridge: float | None = None) -> Objective:
        slack = ROW_SLACK if self.domain.needs_projection else 1.0
        return Objective(
            self.loss,
            Bounded(self.domain.radius * slack),
            self._request.n_covariates,
            fit_intercept=self.domain.intercept,
            scale=self.scale,
            ridge=self.ridge if ridge is None else ridge,
        )

    def curator(self, ledger: Ledger, ridge: float | None = None) -> Curator:
        return Curator(
            self._records, self.objective(ridge), ledger, self._request.noise, self._request.threads
        )

    @property
    def memory_bytes(self) -> int:
        """Bytes that are needed once a release is paid for: rows on the domain are copies."""
        return self._request.memory_bytes(
            COPIES * self.domain.needs_projection, include_arrays=True
        )


class RawRequest(Asking):
    """A request about columns whose domain nobody declared: units are bought, scores are held."""

    def __init__(
        self, X: Any, y: Any, loss: str | Loss | Objective, noise: NoiseSource | None
    ) -> None:
        given = terms_of(loss)
        self._request = request = FitRequest(X, y, fit_intercept=True, noise=noise)
        plain = given.fit_intercept and given.n_covariates is None
        if not plain or not uses_default_fit(given.loss, given._asdict() | {"method": "auto"}):
            raise InvalidInput(
                "without a domain units are bought and scores held to a bound, which takes a loss "
                "that fits so by default, such as 'log-cosh', 'huber', 'logistic' or "
                "'least-squares'. Pass one of these, or domain=dpfast.models.Box(...)."
            )
        self.n, self.dimension = request.n, request.dimension
        self.names = request._coefficient_names()
        self.loss = resolve_loss(given.loss, unbounded=True)
        self.asked, self.scale = given.loss, given.scale

    @property
    def memory_bytes(self) -> int:
        """Bytes that are needed once a release is paid for: public."""
        return self._request.default_fit_bytes()

    def planned(self, total: GDP) -> DefaultFit:
        """A fit with standard errors; refuses whatever can be refused, and costs nothing."""
        # a schema's columns stay in its units: answers are mapped from one coding
        standardize = None if self._request.coding is None else False
        self._request = self._request.with_account(Account(total))
        found = DefaultFit(
            self._request, [self.asked], scale=self.scale, standardize=standardize, inference=True
        )
        if found.only_mean:
            raise InvalidBudget(
                "n, the budget and the number of columns are such that no units can be bought. "
                "Declare domain=dpfast.models.Box(...), or use dpfast.fit, which answers with the "
                "mean."
            )
        return found

    def natural(self) -> NaturalMap:
        """From coefficients in bought units to those of the columns as they came."""
        coding = self._request.coding
        if coding is None:
            return NaturalMap(np.eye(self.dimension), np.zeros(self.dimension))
        return natural_map(coding, True, False)
