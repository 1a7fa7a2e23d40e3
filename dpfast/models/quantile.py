"""Quantiles by a check loss that is smoothed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, check_constant, positive, real_array, whole_number
from dpfast.errors import InvalidInput, described, understood
from dpfast.models.losses import FAR, NEAR, Loss

if TYPE_CHECKING:
    from statistics import NormalDist

#: Bandwidth of the median where the number of records is not known, in units of the scale.
MEDIAN_BANDWIDTH = 0.2

#: From the bandwidth of a Gaussian kernel (He, Pan, Tan and Zhou 2023) to that of a logistic one of
#: the same variance.
LOGISTIC_KERNEL = math.sqrt(3.0) / math.pi

#: Share of mu that a Hessian gets; a wider bandwidth has less noise in it.
HESSIAN_MU = 0.55

#: Mean curvature over that of the weakest direction, a guess.
WEAKEST_RATIO = 3.0

#: Largest bandwidth that is chosen for the Hessian's noise alone; above it bias dominates.
MAX_NOISE_BANDWIDTH = 0.3

#: The curvature's bandwidth over the score's; csrc/losses/smooth.h has its third power.
BANDWIDTH_RATIO = 3.0

#: Largest shift of the intercept by a wide score, in standard errors without privacy and with
#: normal residuals.  90% intervals then still cover in 88%; above it the score is narrowed.
MAX_WIDE_SHIFT = 0.3

#: Largest such shift by a narrow score, which bounds the curvature's bandwidth.
MAX_NARROW_SHIFT = 0.15

#: Largest curvature bandwidth beside a narrow score, relative to the rule's.
MAX_WIDENING = 1.5


def rule_of_bandwidth(tau: float, n: int, p: int, mu: float | None = None) -> float:
    """Choose a bandwidth in units of the scale, from public numbers: little bias, little noise."""
    smooth: float = LOGISTIC_KERNEL * ((p + math.log(n)) / n) ** 0.4
    if mu is None:
        return smooth
    information = HESSIAN_MU * mu * n * _density(tau) / WEAKEST_RATIO
    noise = math.sqrt(2.0 * p) * p / max(information, 1e-100)
    return max(smooth, min(noise, MAX_NOISE_BANDWIDTH))


def _density(tau: float) -> float:
    """Return the standard normal density at its tau-quantile, at least 0.01."""
    normal = _normal()
    return max(normal.pdf(normal.inv_cdf(tau)), 0.01)


def _normal() -> NormalDist:
    """Return the standard normal distribution."""
    from statistics import NormalDist  # with the first quantile: it takes as long as ten modules

    return NormalDist()


@understood
class Quantile(Loss):
    """A quantile by the check loss, convolved with a logistic kernel of width ``bandwidth``.

    ``tau r + b log(1 + exp(-r/b))`` with ``r = (y - x'theta)/scale`` and the bandwidth b: twice
    differentiable, with ``psi(r) = 1/(1 + exp(-r/b)) - (1 - tau)`` and curvature at most
    ``1/(4 b)`` (claim C56).  As the bandwidth tends to zero it becomes the loss of quantile
    regression (Koenker and Bassett 1978).

    Parameters
    ----------
    tau : float
        Level of the quantile, between 0 and 1; default the median.
    bandwidth : float, optional
        Width of the kernel in **units of the scale**, not computed from these data.  A wide one
        needs less noise, a narrow one has less bias (below).  By default it is chosen from the
        level and the numbers of records and coefficients, in :func:`dpfast.fit` from its budget,
        too (:meth:`for_records`).  Where the number of records is not known it is 0.2 for the
        median; other levels are refused.

    Notes
    -----
    **Estimates and intervals are those of the smoothed target**: the tau-quantile of the residual
    *plus independent logistic noise* of width ``b scale``.  For errors with density f in a model of
    location the intercept differs from the true quantile by about ``-(pi^2/6) (b scale)^2
    f'(q)/f(q)``, and the slopes not at all; at the median of symmetric errors there is no
    difference.  For normal errors with tau = 0.9 and b = 0.1 it is 0.021 standard deviations; with
    0.3 it is 0.17, more than a standard error in most data sets.  The rule (He, Pan, Tan and Zhou
    2023, for this kernel) is ``b = 0.55 ((p + log n)/n)**0.4``, which keeps it below the sampling
    error.  It is wider where the noise of a private Hessian would dominate the curvature: far out
    in the tails, and with few records.  If that would move the intercept by more than 0.3 standard
    errors, :func:`dpfast.fit` with Newton's method uses two bandwidths: this one for curvatures
    and a third of it for the score, which determines the target.  The result's model names both.
    bench/results/quantile-coverage.md has the coverage of the quantile itself.

    The score is not symmetric: beside an intercept (Mallows or Bounded weights of radius R) noise
    is for the diameter of the scores, ``max(R, 2 max(tau, 1 - tau) sqrt(R^2 - 1))``.  That is less
    than twice their bound except for the median (claim C75).  There is no free scale: it would
    only be another bandwidth.

    Privacy
    -------
    Charged like any loss.  For the median the Hessian comes free with the gradient.  For other
    levels it costs as much as for the logistic loss, whose coupling covers every level (claim
    C56), and with two bandwidths more (claim C73).  tau and bandwidth are public, and so is
    everything a bandwidth is chosen from.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 1))
    >>> y = 1 + 2 * X[:, 0] + rng.normal(size=5000)
    >>> loss = dpfast.Objective(dpfast.Quantile(0.75), scale=1.0)
    >>> result = dpfast.fit(X, y, loss, privacy=1.0, noise=dpfast.SeededNoise(0))
    >>> bool(abs(result.params[1] - 2) < 0.3)
    True
    """

    name = "quantile"
    aliases = "pinball check median rq qreg"
    supports_default_fit = True
    estimates = "a smoothed conditional quantile of the response, linear in the covariates"
    code = 8
    lowest_slope = 0.0
    of_mean = False
    settings = ("tau", "bandwidth")
    scale_refusal = (
        "its bandwidth is in units of the scale, so that a scale that is estimated would only "
        "choose how much to smooth"
    )

    def __init__(self, tau: float = 0.5, bandwidth: float | None = None) -> None:
        self.h = check_constant(tau, "tau", "the level of the quantile, between 0 and 1")
        if not self.h < 1.0:
            raise InvalidInput(
                "tau must lie between 0 and 1 (the level of the quantile, 0.5 for the median); "
                f"received {described(tau)}. Pass dpfast.Quantile(0.9, bandwidth=0.1), for one."
            )
        self.automatic = bandwidth is None
        self.c = check_constant(
            MEDIAN_BANDWIDTH if bandwidth is None else bandwidth,
            "bandwidth",
            "the width of the kernel, in units of scale",
        )
        if self.h == 0.5:
            self.coupling, self.majorizer_coupling = "one-minus-square", "log-cosh-majorizer"
        else:
            self.coupling, self.majorizer_coupling = "logistic", "logistic-majorizer"
        self.mean_curvature, self.level_shift = _density(self.h), _normal().inv_cdf(self.h)
        self.peakedness = max(1.0, 0.25 / self.c / self.mean_curvature)

    @property
    def tau(self) -> float:
        """Level of the quantile."""
        return self.h

    @property
    def bandwidth(self) -> float | None:
        """Width of the kernel, in units of the scale; None until it is chosen."""
        return None if self.automatic else self.c

    def for_records(self, n: int | None, p: int, mu: float | None = None) -> Quantile:
        """Choose the bandwidth from public numbers, unless it was given.

        Parameters
        ----------
        n, p : int
            Number of records, None where it is not known, and of coefficients.
        mu : float, optional
            Budget of the fit.
        """
        if not self.automatic:
            return self
        if n is not None:
            n, p = whole_number(n, "n", 1), whole_number(p, "p", 0)
            mu = None if mu is None else positive(mu, "mu")
            return Quantile(self.h, rule_of_bandwidth(self.h, n, p, mu))
        if self.h == 0.5:
            return Quantile(self.h, MEDIAN_BANDWIDTH)
        raise InvalidInput(
            f"bandwidth must be given for tau={self.h:g} where the number of records is not "
            "known: it is chosen from that, and smoothing moves every quantile but the median of "
            "symmetric errors. Pass a public number in units of scale, such as "
            "0.55 * ((p + log(n)) / n)**0.4."
        )

    def _for_records(self, n: int | None, p: int, mu: float | None = None) -> Loss:
        return self.for_records(n, p, mu)

    def _adapted_to_sample(self, chosen: Loss, n: int) -> Loss:
        """Narrow the score where a wide one has much bias; a given bandwidth is not changed."""
        if not self.automatic or type(chosen) is not Quantile:
            return chosen
        tau, shift = chosen.h, math.pi**2 / 6.0 * abs(chosen.level_shift)
        error = math.sqrt(tau * (1.0 - tau) / n) / chosen.mean_curvature
        if shift * chosen.c**2 <= MAX_WIDE_SHIFT * error:
            return chosen
        unbiased = BANDWIDTH_RATIO * math.sqrt(MAX_NARROW_SHIFT * error / shift)
        return NarrowQuantile(tau, max(chosen.c, min(MAX_WIDENING * chosen.c, unbiased)))

    def _target(self, scale: float) -> str:
        b = self.bandwidth or self.c
        curvature = "" if b == self.c else f", curvature with {self.c:.4g}"
        return f"; smoothed target, bandwidth {b:.4g} scales = {b * scale:.4g}{curvature}"

    @property
    def psi_bound(self) -> float:
        return max(self.h, 1.0 - self.h)

    @property
    def short_side(self) -> float:  # type: ignore[override]
        return min(self.h, 1.0 - self.h) / self.psi_bound

    @property
    def psi_prime_bound(self) -> float:
        return 0.25 / self.c

    @property
    def self_concordance(self) -> float:
        return 1.0 / self.c

    @property
    def psi_second_bound(self) -> float:
        return 1.0 / (6.0 * math.sqrt(3.0)) / self.c / self.c  # as the logistic loss's

    def loss(self, r: ArrayLike) -> Array:
        r = real_array(r, "r")
        tail = self.c * np.log1p(np.exp(-np.abs(r) / self.c))
        return np.asarray(np.maximum(self.h * r, (self.h - 1.0) * r) + tail)

    def psi(self, r: ArrayLike) -> Array:
        half = 0.5 * np.tanh(0.5 * (real_array(r, "r") / self.c))
        return np.asarray(half + (self.h - 0.5))

    def psi_prime(self, r: ArrayLike) -> Array:
        u = np.minimum(np.abs(real_array(r, "r")) / self.c, 2.0 * FAR)
        return np.asarray((0.5 / np.cosh(0.5 * u)) ** 2 / self.c)

    def _expected_curvature(self, eta: Array) -> Array:
        return np.full(len(eta), self.mean_curvature)

    def majorizer(self, r: ArrayLike) -> Array:
        """Compute the majorising curvature ``(psi(r) - psi(0))/r``; all else is linear."""
        r = real_array(r, "r")
        with np.errstate(all="ignore"):
            ratio = 0.5 * np.tanh(0.5 * (r / self.c)) / r
        return np.where(np.abs(r) < NEAR, self.psi_prime_bound, ratio)

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.automatic, self.c, self.h)

    def __repr__(self) -> str:
        return f"Quantile({self.h:g})" if self.automatic else f"Quantile({self.h:g}, {self.c:.4g})"


class NarrowQuantile(Quantile):
    """A :class:`Quantile` whose score is narrower than its curvature (claim C73), made by a fit."""

    name = "narrow-quantile"
    code = 15
    score_slope = BANDWIDTH_RATIO

    def __init__(self, tau: float, bandwidth: float) -> None:
        super().__init__(tau, bandwidth)
        self.coupling = "narrow-logistic"

    @property
    def bandwidth(self) -> float:
        """Width of the kernel of the score, and so of the target, in units of the scale."""
        return self.c / BANDWIDTH_RATIO

    @property
    def self_concordance(self) -> float:
        return math.inf  # of no loss: the curvature is not the score's slope

    @property
    def psi_second_bound(self) -> float:
        return math.inf

    def loss(self, r: ArrayLike) -> Array:
        """Compute the loss whose derivative is the score."""
        return Quantile(self.h, self.bandwidth).loss(r)

    def psi(self, r: ArrayLike) -> Array:
        return Quantile(self.h, self.bandwidth).psi(r)

    def __repr__(self) -> str:
        return f"Quantile({self.h:g}, {self.bandwidth:.4g})"


KINDS = (Quantile,)
