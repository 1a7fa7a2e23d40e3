"""Steps that every release shares: check, charge, build the curator."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.arguments import Array, real_array
from dpfast.curator import Curator
from dpfast.curator.release.projection import projected
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
from dpfast.regression.default_fit import DefaultFit, uses_default_fit
from dpfast.release.results import ReleaseGuarantee

#: Delta at which a message translates a budget of another kind.
USUAL_DELTA = 1e-6

INSTEAD = (
    "The step along a direction is of records that count alike, without a domain beside offsets. "
    "dpfast.fit takes weights, persons and offsets, and has an interval for each coefficient; "
    "fit.t_test(direction) has one for a combination of them."
)

#: Range of a direction's length; squares of such lengths stay within float64.
DIRECTION_LENGTHS = (1e-100, 1e100)

#: Copies of float32 rows in memory while they are projected onto a domain.
COPIES = 2

#: Slack above the radius: kernels do not clip a projected row that rounding leaves outside.
ROW_SLACK = 1.0 + 1e-12


def approximate(privacy: Budget) -> ApproxDP:
    """Return the total as (epsilon, delta); these releases have no Gaussian-DP guarantee."""
    requested, privacy = privacy, as_budget(privacy)
    if not isinstance(privacy, ApproxDP):
        suggestion = (
            f"{privacy.as_approx(USUAL_DELTA)!r}, which {privacy!r} implies"
            if isinstance(requested, (GDP, ZCDP))
            else "dpfast.ApproxDP(epsilon, delta)"
        )
        raise InvalidBudget(
            "test and release needs an (epsilon, delta) budget: its test may fail with a small "
            "probability, which GDP, zCDP and pure DP do not allow. "
            f"Pass privacy={suggestion}; received {described(requested)}."
        )
    return privacy


class FunctionalRequest:
    """Base of requests for functionals: records, names and the words of a result."""

    n: int
    dimension: int
    #: Names of the coefficients, the intercept first.
    names: tuple[str, ...]
    loss: Loss
    ridge = 0.0
    #: Sentence of the result about rows outside of the domain.
    projection_note = ""
    #: What pays for a release without a certificate.
    account: Account
    _request: FitRequest

    def guarantee(
        self, epsilon: float, delta: float, entries: tuple[str, ...], spent: Composition
    ) -> ReleaseGuarantee:
        text = "(epsilon, delta)-DP" if is_genuine(self._request.noise) else SIMULATION
        return ReleaseGuarantee(text, epsilon, delta, self.n, entries, spent)

    def target(self, method: str) -> str:
        """Describe the estimand in one sentence."""
        ridge = f", ridge={self.ridge:g}" if self.ridge else ""
        return target_of(f"{self.loss!r}{ridge}, {method}", method) + self.projection_note

    def label(self, what: str) -> str:
        return f"{what}({self.loss.name}, n={self.n}, p={self.dimension})"

    def direction(self, direction: Any) -> tuple[Array, bool, tuple[str, ...]]:
        """Return the rows of directions, whether only one was given, and their names."""
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
        valid = rows.ndim == 2 and len(rows) and rows.shape[1] == self.dimension
        if not (valid and np.isfinite(rows).all()):
            raise InvalidInput(
                f"direction must be the name of a coefficient, {self.dimension} finite numbers "
                "(the intercept first, if there is one), or rows of them; received shape "
                f"{np.shape(direction)}."
            )
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.square(rows).sum(axis=1))
        if not ((norms >= DIRECTION_LENGTHS[0]) & (norms <= DIRECTION_LENGTHS[1])).all():
            raise InvalidInput(
                "the length of a direction must lie in "
                f"[{DIRECTION_LENGTHS[0]:g}, {DIRECTION_LENGTHS[1]:g}]. Rescale it."
            )
        labels = tuple(f"direction {j + 1}" for j in range(len(rows)))
        return rows, single, ("direction",) if single else labels


class ReleaseRequest(FunctionalRequest):
    """Checked arguments of a release with a declared domain."""

    projection_note = " Rows outside of the domain count as the nearest within it."

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
        options = terms_of(loss)
        if not options.fit_intercept and domain.intercept:
            raise InvalidInput(
                "the domain has an intercept and the objective none. Pass the domain without "
                "intercept=True."
            )
        if options.weights is not None:
            raise InvalidInput(
                f"the domain bounds the rows, and {described(loss)} has weights. Pass an objective "
                "without weights."
            )
        self._request = FitRequest(
            X, y, fit_intercept=domain.intercept, noise=noise, instead=INSTEAD
        )
        self.n, self.dimension = self._request.n, self._request.dimension
        self.domain = domain.bind(self._request.n_covariates)
        self.loss = self._request.loss(options.loss)
        self.scale = self._request.coded_scale(options.scale)
        self._request.check_response(self.loss)
        self.ridge = options.ridge
        self.names = self._request._coefficient_names()
        records = self._request.records
        self._records = projected(records, self.domain) if self.domain.needs_projection else records

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
        """Bytes of memory a paid release needs; rows on the domain are copies."""
        copies = COPIES * self.domain.needs_projection
        return self._request.memory_bytes(copies, include_arrays=True)


class RawRequest(FunctionalRequest):
    """Request without a declared domain: units are estimated privately and scores are clipped."""

    def __init__(
        self, X: Any, y: Any, loss: str | Loss | Objective, noise: NoiseSource | None
    ) -> None:
        options = terms_of(loss)
        linked = resolve_loss(options.loss, unbounded=True).link != "identity"
        self._request = request = FitRequest(
            X, y, fit_intercept=True, noise=noise, takes=("offset",), of_predictor=linked,
            instead=INSTEAD,
        )  # fmt: skip
        unbound = options.fit_intercept and options.n_covariates is None
        arguments = options._asdict() | {"method": "auto"}
        if not (unbound and uses_default_fit(options.loss, arguments)):
            raise InvalidInput(
                "without a domain the pilot is a default fit, which needs a loss such as "
                "'log-cosh', 'huber', 'logistic' or 'least-squares', without weights. Pass one of "
                "these, or domain=dpfast.models.Box(...)."
            )
        self.n, self.dimension = request.n, request.dimension
        self.names = request._coefficient_names()
        self.loss = resolve_loss(options.loss, unbounded=True)
        self.requested_loss = options.loss
        self.scale = options.scale

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory a paid release needs: public."""
        return self._request.default_fit_bytes()

    def planned(self, total: GDP) -> DefaultFit:
        """Plan a fit with standard errors; costs nothing and makes all refusals."""
        # a schema's columns stay in its units, so that one coding maps the answers
        standardize = None if self._request.coding is None else False
        self._request = self._request.with_account(Account(total))
        default_fit = DefaultFit(
            self._request,
            [self.requested_loss],
            scale=self.scale,
            standardize=standardize,
            inference=True,
        )
        if default_fit.only_mean or default_fit.few_records:
            raise InvalidBudget(
                f"n = {self.n:,} and mu = {total.mu:.3g} are too small to estimate the units of "
                f"{self.dimension} columns, so that no slope is estimated without a domain, by "
                "dpfast.fit neither: at most it has a mean or predictions. Use more records, a "
                "larger budget or fewer columns, or declare domain=dpfast.models.Box(...)."
            )
        return default_fit

    def natural(self) -> NaturalMap:
        """Return the map from private units to the columns' own units."""
        coding = self._request.coding
        if coding is None:
            return NaturalMap(np.eye(self.dimension), np.zeros(self.dimension))
        return natural_map(coding, True, False)
