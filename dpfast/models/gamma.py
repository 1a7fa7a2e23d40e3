"""A loss of positive responses, whose scores are relative to their means."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import Array, real_array
from dpfast.models.losses import Loss

#: Predictors are clipped at this size, so that no mean leaves float64.
MAX_PREDICTOR = 708.0

#: Bound on a response over its mean where there is none.
UNBOUNDED = 1e60


class Gamma(Loss):
    """A positive response with mean ``exp(x'theta)``, such as a cost, a duration or an income.

    The score of a record is ``(y / exp(x'theta) - 1) x``.  It is the score of a gamma response,
    and a quasi score where the spread is in proportion to the mean.  Coefficients are
    differences of log means, not means of logs; intervals allow for any dispersion.  One record's
    score has no bound: :func:`dpfast.fit` estimates the length of scores with part of its budget,
    and clips them at that.  Responses of zero are used unchanged.  Negative ones are set to zero,
    and a released count warns of them.  A NaN contributes zero, as everywhere.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> y = 300.0 * np.exp(0.5 * X[:, 0]) * rng.gamma(2.0, 0.5, 5000)
    >>> result = dpfast.fit(X, y, "gamma", privacy=1.0, noise=dpfast.SeededNoise(0))
    >>> bool(abs(result.params[1] - 0.5) < 0.1)
    True
    """

    name = "gamma"
    aliases = "positive multiplicative cost costs duration exponential inverse-gaussian tweedie"
    code = 16
    needs_scale = False
    link = "log"
    mean_label = "mean of the response"
    responses = "positive"
    estimates = "log ratios of means that minimise the expected gamma loss"
    score_bound_ratio = math.inf
    supports_default_fit = True
    has_bound = False
    undeclared = (
        'the gamma loss has no bound on one record\'s score. dpfast.fit(X, y, "gamma", '
        "privacy=...) finds one, and takes neither weights nor ridge; other functions take "
        'the logarithm of the response and "log-cosh" or "huber".'
    )

    def __init__(self) -> None:
        super().__init__(UNBOUNDED)

    @property
    def psi_bound(self) -> float:
        return max(1.0, self.c)

    @property
    def psi_prime_bound(self) -> float:
        return 1.0 + self.c

    def loss(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute the loss of a response at a linear predictor, up to a term of the response."""
        t, y = real_array(r, "r"), self._response(real_array(response, "response"))
        ratio, cap = self._ratio(t, y), 1.0 + self.c
        with np.errstate(all="ignore"):
            log_response = np.log(y / cap)
            tail = cap + log_response - self.c * (t - log_response)
        return np.where(ratio > cap, tail, ratio + t)

    def psi(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute its derivative, 1 less the response over its mean."""
        return -np.minimum(self._ratio(r, response) - 1.0, self.c)

    def psi_prime(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute its second derivative, the response over its mean."""
        ratio = self._ratio(r, response)
        return np.where(ratio <= 1.0 + self.c, ratio, 0.0)

    def majorizer(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Return the largest slope: no smaller curvature lies above the loss everywhere."""
        return np.full(np.shape(self._ratio(r, response)), self.psi_prime_bound)

    def _ratio(self, r: ArrayLike, response: ArrayLike) -> Array:
        t = np.clip(real_array(r, "r"), -MAX_PREDICTOR, MAX_PREDICTOR)
        with np.errstate(over="ignore"):
            return np.asarray(self._response(real_array(response, "response")) / np.exp(t))

    def _response(self, y: Array) -> Array:
        return np.maximum(y, 0.0)

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        return -self.psi(eta, y)

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        return self.psi_prime(eta, y)

    def _expected_curvature(self, eta: Array) -> Array:
        return np.ones(len(eta))

    def _link(self, mean: float) -> float:
        return math.log(mean)

    @classmethod
    def _means(cls, eta: Array, max_mean: float = math.inf) -> tuple[Array, Array, Array]:
        mean = np.exp(np.minimum(eta, MAX_PREDICTOR))
        return mean, mean, mean

    def _synthetic(self, uniform: Array, rate: float, scale: float) -> ArrayLike:
        return -np.log1p(-uniform)  # exponential: as variable as its mean

    def _score_bound_at(self, eta: Array) -> Array:
        return np.where(np.isnan(eta), np.nan, 1.0)

    def __repr__(self) -> str:
        return "Gamma()"


KINDS = (Gamma,)
