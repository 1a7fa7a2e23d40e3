"""A loss of responses in {0, 1} that are signs of a normal number."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import Array, real_array
from dpfast.models.losses import Labels

#: Margins are clipped at minus this size: in effect there is no bound on a score.
UNBOUNDED = 1e60

#: Size of a negative predictor above which the hazard equals that size to the last bit.
FAR = 1e30


class Probit(Labels):
    """A response in {0, 1}, 1 with probability ``Phi(x'theta)``, the normal distribution function.

    The score of a record is ``(2y - 1) h(m) x`` with the margin ``m = (2y - 1) x'theta`` and the
    hazard ``h = phi/Phi``.  It grows like ``-m`` for very improbable responses, so that it has no
    bound: :func:`dpfast.fit` estimates the length of scores with part of its budget and clips them.
    Labels other than 0 and 1 contribute zero.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> y = 1.0 * (rng.normal(size=5000) < 0.3 + 0.5 * X[:, 0])
    >>> result = dpfast.fit(X, y, "probit", privacy=1.0, noise=dpfast.SeededNoise(0))
    >>> bool(abs(result.params[1] - 0.5) < 0.15)
    True
    """

    name = "probit"
    aliases = "normit normal-link cumulative-normal"
    code = 17
    link = "probit"
    estimates = "changes of normal quantiles that minimise the expected probit loss"
    has_bound = False
    psi_prime_bound = 1.0
    undeclared = (
        'the probit loss has no bound on one record\'s score. dpfast.fit(X, y, "probit", '
        "privacy=...) finds one, and takes neither weights nor ridge; other functions take "
        '"logistic".'
    )

    def __init__(self) -> None:
        super().__init__(UNBOUNDED)

    @property
    def psi_bound(self) -> float:
        return self.c + 1.0

    def loss(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute the loss of a label at a linear predictor."""
        from scipy.special import log_ndtr

        margin = _signs(response) * real_array(r, "r")
        clipped = np.maximum(margin, -self.c)
        return np.asarray(-log_ndtr(clipped) + (clipped - margin) * hazard(clipped))

    def psi(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute its derivative in the predictor."""
        sign = _signs(response)
        margin = sign * real_array(r, "r")
        return -sign * np.minimum(hazard(np.maximum(margin, -self.c)), self.psi_bound)

    def psi_prime(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Compute its second derivative, in [0, 1]."""
        margin = np.clip(_signs(response) * real_array(r, "r"), -1e200, 1e200)
        with np.errstate(all="ignore"):
            size = hazard(margin)
            slope = np.where(margin < -200.0, 1.0 - margin**-2.0, size * (size + margin))
        return np.where(margin < -self.c, 0.0, np.clip(slope, 0.0, 1.0))

    def majorizer(self, r: ArrayLike, response: ArrayLike = 1.0) -> NDArray[np.float64]:
        """Return the largest slope, 1."""
        return np.ones(np.broadcast(real_array(r, "r"), _signs(response)).shape)

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        return -self.psi(eta, self._response(y))

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        return self.psi_prime(eta, self._response(y))

    def _expected_curvature(self, eta: Array) -> Array:
        return hazard(eta) * hazard(-eta)

    def _link(self, mean: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(mean))

    @classmethod
    def _means(cls, eta: Array, max_mean: float = math.inf) -> tuple[Array, Array, Array]:
        from scipy.special import ndtr

        slope = np.exp(-0.5 * np.minimum(np.abs(eta), 50.0) ** 2) / math.sqrt(2.0 * math.pi)
        return np.asarray(ndtr(eta)), slope, -eta * slope

    def _score_bound_at(self, eta: Array) -> Array:
        return hazard(-np.abs(eta))  # that of the rarer response

    def __repr__(self) -> str:
        return "Probit()"


def hazard(r: ArrayLike) -> Array:
    """Divide the normal density by the distribution function."""
    from scipy.special import erfcx, log_ndtr

    r = np.clip(np.asarray(r, dtype=np.float64), -1e200, 1e200)
    below = np.minimum(r, 0.0)
    with np.errstate(all="ignore"):
        tail = np.where(r < -FAR, -r, math.sqrt(2.0 / math.pi) / erfcx(-below / math.sqrt(2.0)))
        density = -0.5 * np.minimum(np.abs(r), 1e3) ** 2 - 0.5 * math.log(2.0 * math.pi)
        return np.where(r < 0.0, tail, np.exp(density - log_ndtr(r)))


def _signs(response: ArrayLike) -> Array:
    return 2.0 * real_array(response, "response") - 1.0


KINDS = (Probit,)
