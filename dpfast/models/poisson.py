"""A loss of counts; it is no function of a residual and needs a cap, public or estimated."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, check_constant, real_array
from dpfast.errors import understood
from dpfast.models.losses import Loss

#: Predictors are clipped at this: the log of more than the largest mean that can be declared.
LARGEST_LOG = 700.0

#: Largest mean of a synthetic pilot's counts where none is declared: their mean is half of it.
SYNTHETIC_MEAN = 2.0

#: Bound where nobody declared one.
UNBOUNDED = 1e100

#: Residual at which counts are clipped by default, in standard deviations of a Poisson count whose
#: mean is the cap.  It is five of them at the largest mean if the cap is twice that (bench.counts).
#: A larger one needs more noise, a smaller one biases means down.
CLIPPED_AT = 3.5


@understood
class Poisson(Loss):
    """Poisson regression: a count with mean ``exp(x'theta)``, up to a public cap.

    The score of a record is ``clip(mu - y, -a, a) x`` with ``mu = min(exp(x'theta), M)``.  It is
    the score of quasi Poisson (PPML), with a cumulant that is linear above ``log M`` and clipped
    residuals, which need less noise than clipped counts.  Coefficients are differences of log
    means; their intervals allow for any dispersion.

    Parameters
    ----------
    largest_mean : float, optional
        Public cap ``M`` of the mean *count*, at any exposure.  A plain :func:`dpfast.fit` needs
        none: it estimates the length of scores with part of its budget.
    largest_residual : float, optional
        ``a``, where the difference of count and mean is clipped: a count that almost no record
        exceeds is right.  Default (none in a fit that estimates the length of scores):
        ``3.5 sqrt(M)``, five standard deviations of a Poisson count whose mean is half of ``M``.
        If counts vary more, clipping pulls means down, the intercept above all, and the fit warns:
        pass about five standard deviations of the most variable counts.

    Notes
    -----
    Negative counts are zero, fractional ones are used unchanged, and a NaN contributes zero.
    The target is the maximum of the quasi likelihood where means stay below ``M`` and residuals
    within ``a``.  Caps that many records reach bias it; caps twice as large as necessary add
    little noise.

    Privacy
    -------
    Charged like any loss without a coupling (claims C76 and C77).  Where ``largest_mean`` is below
    ``largest_residual`` scores of one sign are shorter, and noise beside an intercept is for the
    diameter of all scores (claim C75).  The constants are public.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 1))
    >>> y = rng.poisson(np.exp(0.2 + 0.5 * X[:, 0]))
    >>> loss = dpfast.Poisson(largest_mean=4)
    >>> result = dpfast.fit(X, y, loss, privacy=1.0, noise=dpfast.SeededNoise(0))
    >>> bool(abs(result.params[1] - 0.5) < 0.2)
    True
    """

    aliases = "count counts log-linear"
    name = "poisson"
    code = 14
    needs_scale = False
    link = "log"
    may_separate = True
    responses = "counts"
    mean_label = "mean of counts"
    estimates = (
        "log ratios of means that minimise the expected Poisson loss, with means and residuals "
        "clipped as the model says"
    )
    score_bound_ratio = math.inf
    settings = ("largest_mean", "largest_residual")
    supports_default_fit = True
    undeclared = (
        "largest_mean must be given for counts here: a public number above which no mean is "
        "modelled. It was not given, and no bound is estimated unpaid. Pass "
        'dpfast.Poisson(largest_mean=20), for one; dpfast.fit(X, y, "poisson", privacy=...) '
        "without weights, ridge or a method buys what it needs."
    )

    def __init__(
        self, largest_mean: float | None = None, largest_residual: float | None = None
    ) -> None:
        self.declared = largest_mean is not None
        self.h = UNBOUNDED
        if largest_mean is not None:
            self.h = check_constant(largest_mean, "largest_mean", "the largest mean count")
        self._held = largest_residual is not None
        if largest_residual is not None:
            meaning = "where count less mean is clipped"
            self.c = check_constant(largest_residual, "largest_residual", meaning)
        else:
            self.c = CLIPPED_AT * math.sqrt(self.h) if self.declared else UNBOUNDED
        self.start = math.log(0.5 * self.h)

    @property
    def largest_mean(self) -> float:  # type: ignore[override]
        """Cap ``M`` of the means."""
        return self.h

    @property
    def largest_residual(self) -> float:
        """Cap ``a`` of the residuals."""
        return self.c

    @property
    def psi_bound(self) -> float:
        return self.c

    @property
    def psi_prime_bound(self) -> float:
        return self.h

    @property
    def short_side(self) -> float:  # type: ignore[override]
        return min(self.h, self.c) / self.c

    def mean(self, r: ArrayLike) -> Array:
        """Compute the mean count at linear predictors, of the shape of ``r``."""
        return np.asarray(self._means(real_array(r, "r"), self.h)[0])

    def loss(self, r: ArrayLike, count: ArrayLike = 0.0) -> Array:
        """Compute the loss of a count at a linear predictor, up to a term of the count alone."""
        t, y = real_array(r, "r"), np.minimum(self._counts(count), self.h + self.c)
        with np.errstate(divide="ignore"):
            first = np.log(np.maximum(y - self.c, 0.0))
        last = np.log(np.minimum(y + self.c, self.h))
        s = np.minimum(np.maximum(t, first), last)
        with np.errstate(invalid="ignore"):
            central = np.exp(s) - np.where(y > 0.0, y * s, 0.0)
            upper_tail = np.where(t > s, (np.exp(last) - y) * (t - s), 0.0)
            lower_tail = np.where(t < s, self.c * (s - t), 0.0)
        return np.asarray(
            central + np.maximum(upper_tail, -self.c * np.maximum(t - s, 0.0)) + lower_tail
        )

    def psi(self, r: ArrayLike, count: ArrayLike = 0.0) -> Array:
        """Compute its derivative, the mean less the count, clipped."""
        return np.clip(self.mean(r) - self._counts(count), -self.c, self.c)

    def psi_prime(self, r: ArrayLike, count: ArrayLike = 0.0) -> Array:
        """Compute its second derivative: the mean below the caps, zero beyond them."""
        mean = self.mean(r)
        within_cap = np.abs(mean - self._counts(count)) <= self.c
        return np.where(within_cap & (mean < self.h), mean, 0.0)

    def _response(self, y: Array) -> Array:
        return self._counts(y)

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        if self._held:
            return -self.psi(eta, y)
        return self._counts(y) - self.mean(eta)

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        if self._held:
            return self.psi_prime(eta, y)
        return self._expected_curvature(eta)

    def _expected_curvature(self, eta: Array) -> Array:
        return self._means(eta, self.h)[1]

    @property
    def _kernel_parameters(self) -> tuple[int, float, float]:
        return self.code, self.c if self._held else UNBOUNDED, self.h

    @property
    def _bounded(self) -> Poisson:
        return self if self.declared else Poisson(UNBOUNDED, UNBOUNDED)

    @property
    def _highest(self) -> float | None:
        return 2.0 * self.h if self.h < UNBOUNDED else None

    def _link(self, mean: float) -> float:
        return math.log(mean)

    def _predictor(self, mean: float) -> float:
        return self._link(min(mean, 0.5 * self.h))  # below the cap, where there is a curvature

    def _score_scale(self, size: float) -> float:
        return float(size**0.25)  # between those of the least and the most dispersion

    @classmethod
    def _means(cls, eta: Array, max_mean: float = math.inf) -> tuple[Array, Array, Array]:
        mean = np.minimum(np.exp(np.minimum(eta, LARGEST_LOG)), max_mean)
        slope = np.where(mean < max_mean, mean, 0.0)
        return mean, slope, slope

    def _synthetic(self, uniform: Array, rate: float, scale: float) -> ArrayLike:
        from scipy.special import pdtrik

        mean = rate * (self.h if self.declared else SYNTHETIC_MEAN)
        return np.asarray(np.ceil(np.nan_to_num(pdtrik(uniform, mean))))

    def _score_bound_at(self, eta: Array) -> Array:
        return np.sqrt(self.mean(eta))

    def majorizer(self, r: ArrayLike, count: ArrayLike = 0.0) -> Array:
        """Return the largest mean: no smaller curvature is known to majorise the loss."""
        return np.full(np.broadcast(real_array(r, "r"), self._counts(count)).shape, self.h)

    def _counts(self, count: ArrayLike) -> Array:
        """Raise negative counts to zero."""
        return np.maximum(real_array(count, "count"), 0.0)

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.c, self.h, self.declared, self._held)

    def __repr__(self) -> str:
        if not self.declared:
            return "Poisson()"
        return f"Poisson(largest_mean={self.h:g}, largest_residual={self.c:g})"


KINDS = (Poisson,)
