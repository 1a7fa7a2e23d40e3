"""Results of a release: released numbers, public bounds of their noise, and their cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InferenceUnavailable
from dpfast.inference.base import FixedLevel, Result
from dpfast.inference.composition import Composition, describe_spending, plain, shares_of, unspent
from dpfast.inference.degrees import coverage
from dpfast.inference.guarantees import RELATION
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import end_headings, render_table
from dpfast.privacy.budget import ApproxDP, Budget, PureDP
from dpfast.privacy.release.scaled import law_quantile, law_scale
from dpfast.release.sum_of_errors import sum_quantiles


class ReleaseGuarantee(NamedTuple):
    """Total privacy cost of a release, certificate included.

    Attributes
    ----------
    guarantee : str
        ``"(epsilon, delta)-DP"``; ``"none (simulation)"`` for seeded noise.
    epsilon, delta : float
        Guarantee for everything published together.
    n : int
        Number of records, public.
    entries : tuple of str
        Items that were paid for.
    composition : Composition or None
        How the charges add up to epsilon and delta.

    Privacy
    -------
    States the cost; reading it costs nothing.
    """

    guarantee: str
    epsilon: float
    delta: float
    n: int
    entries: tuple[str, ...]
    composition: Composition | None = None

    @property
    def total(self) -> PureDP | ApproxDP:
        """Budget that is guaranteed; pure DP where delta is zero."""
        if self.delta == 0.0:
            return PureDP(self.epsilon)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def headline(self) -> str:
        """The promise in a few words."""
        return f"{self.guarantee}, epsilon={self.epsilon:g}, delta={self.delta:g}"

    @property
    def in_one_line(self) -> str:
        """Epsilon, delta and the neighbouring relation."""
        return f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.3g}; {RELATION}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences without which the promise must not be read, such as that noise had a seed."""
        if not self.guarantee.startswith("none"):
            return ()
        return (f"Privacy guarantee: {self.guarantee}; the figures are for genuine noise",)

    @property
    def counted(self) -> str:
        """What n counts, as a heading."""
        return "Records"

    def spent_share(self) -> tuple[Fraction, ...]:
        """Return the exact share spent of epsilon, and of delta where there is one.

        One fraction each, at most 1; none where the composition is unknown.
        """
        return () if self.composition is None else shares_of(self.total, self.composition)

    @property
    def unspent(self) -> Budget | None:
        """Part of the total charged to no mechanism and not refunded; None if unknown."""
        return unspent(self.total, self.composition)

    def explain(self, delta: float = 1e-6) -> str:
        """Explain the guarantee in plain words: an attacker's best success, and the spending.

        Parameters
        ----------
        delta : float
            For the (epsilon, delta) reading of pure DP; far below ``1/n``.
        """
        text = self.total.explain(delta)
        if self.guarantee.startswith("none"):
            text = f"Guarantee: {self.guarantee}. With genuine noise it would be:\n{text}"
        spent = [] if self.composition is None else describe_spending(self.total, self.composition)
        return "\n".join([text, *spent])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values (for JSON)."""
        return self._asdict() | {
            "entries": list(self.entries),
            "composition": None if self.composition is None else plain(self.composition),
        }

    def __str__(self) -> str:
        lines = []
        if self.guarantee.startswith("none"):
            lines.append(f"Privacy guarantee: {self.guarantee}; the figures are for genuine noise")
        lines.append(
            f"Privacy: (epsilon={self.epsilon:.6g}, delta={self.delta:.3g})-DP in total; {RELATION}"
        )
        lines += [f"  spent on {entry}" for entry in self.entries]
        return "\n".join(lines)


@dataclass(kw_only=True, eq=False, repr=False)
class Certificate(FixedLevel):
    """Private lower bound of the curvature at the minimiser.

    An upper bound of the largest eigenvalue comes with it where one was requested.

    Attributes
    ----------
    lower_bound : float
        At most the smallest eigenvalue of the Hessian, except with probability ``failure``.
        Where nothing could be certified it is the public penalty's share (``floor``).
    estimate : float
        Released eigenvalue, with Laplace noise of scale ``step/epsilon``; at least ``step``.
    step : float
        Largest change of the eigenvalue when one record is replaced.
    floor : float
        The eigenvalue is at least this for every data set.
    failure : float
        Probability that a bound is wrong.
    largest_bound : float or None
        At least the largest eigenvalue.  None if it was not requested, or if nothing was
        certified about the smallest one.
    privacy : ReleaseGuarantee

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing.
    """

    lower_bound: float
    estimate: float
    step: float
    floor: float
    failure: float
    privacy: ReleaseGuarantee
    largest_bound: float | None = None

    @property
    def certified(self) -> bool:
        """True if the bound is above the one that holds for every data set."""
        return self.lower_bound > self.floor

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether nothing was certified beyond the public penalty's share."""
        if self.certified:
            return ()
        return ("nothing was certified: the bound is that of the public penalty for all data.",)

    @property
    def condition_number(self) -> float | None:
        """Upper bound of the Hessian's condition number, if the largest eigenvalue is bounded."""
        if self.largest_bound is None:
            return None
        return max(self.largest_bound / self.lower_bound, 1.0)

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the bounds and what they cost, as text with other forms."""
        names, values = self._columns(math.nan).values()
        rows = [(name, (f"{value:.5g}",)) for name, value in zip(names, values, strict=True)]
        facts = (
            ("Records", str(self.privacy.n)),
            ("Wrong", f"with probability at most {self.failure:.2g}"),
            ("One record", f"moves the smallest eigenvalue by at most {self.step:.3g}"),
        )
        title = "dpfast: certified curvature at the minimiser"
        return render_table(title, facts, ("value",), rows, self.privacy)

    def _columns(self, level: float) -> dict[str, Any]:
        pairs = [
            ("smallest eigenvalue, at least", self.lower_bound),
            ("released estimate of it", self.estimate),
        ]
        if self.largest_bound is not None:
            pairs.append(("largest eigenvalue, at most", self.largest_bound))
            pairs.append(("condition number, at most", float(self.condition_number or math.nan)))
        names, values = zip(*pairs, strict=True)
        return {"term": names, "estimate": values}


@dataclass(kw_only=True, eq=False, repr=False)
class NotCertified(FixedLevel):
    """Refusal of the release after a paid certificate.  A result, not an error.

    Attributes
    ----------
    certificate : Certificate
    lower_bound_needed : float
        Lower bound that would be enough; ``inf`` if no bound is with these options.  With
        ``method="paper"``, at the same condition number.
    records_needed : float
        About how many records like these would be enough; ``inf`` where nothing is known about
        the curvature.  From public and released numbers only.
    least_records : float
        Below about how many records no release is possible, as far as the noise of the released
        count allows to say (in 19 of 20 releases).
    left : ApproxDP
        Part of the budget that was not charged (claim R35), as the ``privacy`` of ``dpfast.fit`` or
        of ``dpfast.release_functional`` with its default method.
    privacy : ReleaseGuarantee
        Guarantee for the part that was charged.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing.
    """

    certified = False

    certificate: Certificate
    lower_bound_needed: float
    records_needed: float
    least_records: float
    left: ApproxDP
    privacy: ReleaseGuarantee

    def _advice(self) -> str:
        if self.lower_bound_needed == math.inf:
            return "no number of records would be enough with this budget and domain"
        if self.records_needed < math.inf:
            return (
                f"about {self.records_needed:,.0f} records like these would be enough "
                f"(now {self.privacy.n:,})"
            )
        return (
            "the curvature is below what this budget detects: too few records, or covariates that "
            f"determine y. At least about {self.least_records:,.0f} records like these would be "
            f"needed (now {self.privacy.n:,}); a larger epsilon or certificate_share needs fewer"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would be enough, and what answers with the rest of the budget."""
        return (
            f"nothing was released: {self._advice()}. dpfast.fit and the default of "
            "dpfast.release_functional answer with privacy=answer.left, the rest of the budget.",
        )

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the bound, the one that would do, and the cost, as text with other forms."""
        names, values = self._columns(math.nan).values()
        rows = [(name, (f"{value:.5g}",)) for name, value in zip(names, values, strict=True)]
        epsilon, delta = self.left.values()
        left = f"epsilon={epsilon:.6g}, delta={delta:.3g} of what was offered"
        facts = (("Records", str(self.privacy.n)), ("Not charged", left))
        title = "dpfast: Not certified, nothing released"
        return render_table(title, facts, ("value",), rows, self.privacy, self.warnings)

    def _columns(self, level: float) -> dict[str, Any]:
        return {
            "term": (
                "smallest eigenvalue, at least", "needed for a release", "released estimate of it",
            ),
            "estimate": (
                self.certificate.lower_bound, self.lower_bound_needed, self.certificate.estimate,
            ),
        }  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class FunctionalRelease(Result):
    """Released linear functionals of the minimiser.

    Attributes
    ----------
    value : float or ndarray of shape (k,)
        One number for one direction.
    directions : ndarray of shape (k, p)
    names : tuple of str
    noise_scale_bound : ndarray of shape (k,)
        Standard deviation of the privacy noise.  After a certificate it is a public bound: the
        noise used is smaller by a secret factor.  After a fit it is estimated.
    beyond : ndarray of shape (k,)
        Approximate standard deviation of the other error relative to these data: the pilot's
        error after a step, or an unfinished optimisation.  It is 0 after a certificate.
    noise_law : str
    certificate : Certificate or None
    method : str
    target : str
        The estimand, in a sentence.
    warnings : tuple of str
        Reasons why intervals may miss the value; without a domain, those of the pilot fit.
    privacy : ReleaseGuarantee

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing.

    Examples
    --------
    >>> X = np.random.default_rng(1).uniform(-1.0, 1.0, (20_000, 1))
    >>> released = dpfast.release_functional(
    ...     X,
    ...     X[:, 0],
    ...     dpfast.Objective("pseudo-huber", scale=1.0),
    ...     [1.0],
    ...     privacy=dpfast.ApproxDP(1.0, 1e-6),
    ...     domain=dpfast.models.Box([1.0]),
    ...     inference=0.25,
    ... )
    >>> low, high = released.noise_interval()[0]
    >>> bool(low < released.value < high), released.conf_int(level=0.9).shape
    (True, (1, 2))
    """

    value: Any
    directions: Array
    names: tuple[str, ...]
    noise_law: str
    certificate: Certificate | None
    method: str
    target: str
    warnings: tuple[str, ...]
    privacy: ReleaseGuarantee
    beyond: Array
    _scale_bounds: Array
    _sampling_error: Array | None

    @property
    def certified(self) -> bool:
        """True if a certificate bounds how far one record moves the value in these data."""
        return self.certificate is not None

    @property
    def noise_scale_bound(self) -> Array:
        return self._scale_bounds * law_scale(self.noise_law)

    @property
    def sampling_error(self) -> Array:
        """Standard error of sampling, shape (k,), of a release with ``inference=``."""
        if self._sampling_error is None:
            raise InferenceUnavailable(
                "this release has no sandwich covariance. Release again with inference=0.25, the "
                "share of the budget for it."
            )
        return self._sampling_error

    def noise_interval(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return intervals for the value *in these data* (privacy noise only), shape (k, 2).

        After a certificate they hold with probability at least ``level``: the public bound of the
        noise scale is used.  Otherwise they have room for :attr:`beyond`, which is estimated.
        """
        tail = 1.0 - coverage(level, alpha)
        half = sum_quantiles(self.noise_law, self._scale_bounds, self.beyond, tail)
        return np.column_stack([self._values - half, self._values + half])

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return intervals for the population's value: sampling and privacy noise, shape (k, 2).

        The half-width is the quantile of the sum of the noise and an independent normal error,
        up to the normal approximation of the sampling error.

        Raises
        ------
        InferenceUnavailable
            If the release was made without ``inference=``.
        """
        tail = 1.0 - coverage(level, alpha)
        normal = np.hypot(self.sampling_error, self.beyond)
        half_width = sum_quantiles(self.noise_law, self._scale_bounds, normal, tail)
        return np.column_stack([self._values - half_width, self._values + half_width])

    @property
    def _values(self) -> Array:
        return np.atleast_1d(self.value)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return values, intervals and what they cost, as text with other forms."""
        level = coverage(level, alpha)
        columns = self._columns(level)
        rows = [
            (name, tuple(map(short_number, numbers)))
            for name, *numbers in zip(*columns.values(), strict=True)
        ]
        ends = end_headings(level)
        headings = ("value", *(f"noise {end}" for end in ends))
        if self._sampling_error is not None:
            headings = (*headings, *ends)
        facts = [
            ("Estimand", self.target),
            ("Records", str(self.privacy.n)),
            ("Method", f"{self.method}, {self.noise_law} noise"),
        ]
        if self.certificate is not None:
            facts.append(("Smallest eigenvalue", f"at least {self.certificate.lower_bound:.5g}"))
        title = "dpfast: linear functionals of the minimiser"
        return render_table(title, facts, headings, rows, self.privacy, self.warnings)

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.noise_interval(level).T
        columns = {"term": self.names, "estimate": self._values.tolist()}
        columns |= {"noise_low": low, "noise_high": high}
        if self._sampling_error is not None:
            low, high = self.conf_int(level).T
            columns |= {"conf_low": low, "conf_high": high}
        return columns


@dataclass(kw_only=True, eq=False, repr=False)
class ParameterRelease(FixedLevel):
    """Released minimiser.

    Attributes
    ----------
    params : ndarray of shape (p,)
        The intercept first, if there is one.
    names : tuple of str
    noise_scale : float
        Standard deviation of the normal noise of every coordinate; public.
    certificate : Certificate
    method : str
    privacy : ReleaseGuarantee

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing.
    """

    certified = True

    params: Array
    names: tuple[str, ...]
    noise_scale: float
    certificate: Certificate
    method: str
    privacy: ReleaseGuarantee

    def noise_interval(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return intervals for the minimiser of these data, one per coordinate, shape (p, 2)."""
        half = self.noise_scale * law_quantile("gaussian", 1.0 - coverage(level, alpha))
        return np.column_stack([self.params - half, self.params + half])

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the coefficients and what they cost, as text with other forms."""
        columns = self._columns(0.95)
        rows = [
            (name, tuple(map(short_number, numbers)))
            for name, *numbers in zip(*columns.values(), strict=True)
        ]
        facts = (
            ("Records", str(self.privacy.n)),
            ("Method", self.method),
            ("Noise", f"normal, of standard deviation {self.noise_scale:.4g}"),
        )
        headings = ("value", "noise [0.025", "noise 0.975]")
        return render_table("dpfast: minimiser", facts, headings, rows, self.privacy, self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Empty, because the certificate holds but for its probability of failure."""
        return ()

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.noise_interval(0.95).T
        return {
            "term": self.names, "estimate": self.params.tolist(), "noise_low": low,
            "noise_high": high,
        }  # fmt: skip
