"""Smooth convex losses, further to those of :mod:`dpfast.models.losses`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import check_constant, real_array
from dpfast.models.losses import DEFAULT_CORNER, FAR, NEAR, Loss

#: Argument, in units of c, above which psi equals its bound to the last bit.
SATURATED = 1e120


class SmoothedHuber(Loss):
    """Huber's loss with its corner rounded by the unique quartic of psi (paper 1, section 4).

    Example 1 of appendix C.3 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).  ``psi`` is ``r``
    up to ``c``, bends on ``[c, c + h]`` and stays at ``c + h/2`` from there: the bound is **not**
    ``c`` (formulas page, section 9).  The loss is not self-concordant.  A record can have the
    largest curvature together with a large score, so a Hessian is charged by the rule for any loss
    (claim C17).

    Parameters
    ----------
    c, h : float
        Where the bend begins, and its width, in units of the scale.

    Examples
    --------
    >>> dpfast.models.SmoothedHuber(c=1.0).psi_prime([0.0, 5.0])
    array([1., 0.])
    """

    name = "smoothed-huber"
    code = 4
    lowest_slope = 0.0

    def __init__(self, c: float = DEFAULT_CORNER, h: float = 0.5) -> None:
        super().__init__(c)
        self.h = check_constant(h, "h", "the width of the rounded corner, in units of scale")

    @property
    def psi_bound(self) -> float:
        return self.c + 0.5 * self.h

    @property
    def psi_second_bound(self) -> float:
        return 1.5 / self.h  # in the middle of the bend

    @property
    def psi_second_stretch(self) -> float:
        return (self.c + self.h) * self.psi_second_bound

    def _at(self, r: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        a = np.abs(real_array(r, "r"))
        return a, np.clip((a - self.c) / self.h, 0.0, 1.0)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        (a, s), h = self._at(r), self.h
        corner = self.c * h * s + (h * s) ** 2 * (0.5 - s**2 * (0.25 - 0.1 * s))
        tail = self.psi_bound * np.maximum(a - self.c - h, 0.0)
        return np.asarray(0.5 * np.minimum(a, self.c) ** 2 + corner + tail)

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        a, s = self._at(r)
        size = np.minimum(a, self.c) + self.h * (s * (1.0 - s * s * (1.0 - 0.5 * s)))
        return np.asarray(np.copysign(np.minimum(size, self.psi_bound), real_array(r, "r")))

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        _, s = self._at(r)
        return np.asarray((1.0 - s) ** 2 * (1.0 + 2.0 * s))

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.c, self.h)

    def __repr__(self) -> str:
        return f"SmoothedHuber(c={self.c:g}, h={self.h:g})"


class OstrovskiiBach(Loss):
    """The third Huber loss of paper 1, self-concordant (Ostrovskii and Bach 2021).

    Example 2 of appendix C.3 of paper 1 (Avella-Medina, Bradshaw and Loh 2023): ``c^2/2 (s - 1 -
    log((1 + s)/2))`` with ``s = sqrt(1 + 4 (r/c)^2)``.  Both its Hessian and its majorising
    curvature come free with the gradient (claims C29 and C30).

    Parameters
    ----------
    c : float
        Corner, in units of the scale.

    Examples
    --------
    >>> dpfast.models.OstrovskiiBach(c=1.0).psi_prime([0.0])
    array([1.])
    """

    name = "ostrovskii-bach"
    code = 5
    lowest_slope = 0.0
    coupling = "one-minus-square"
    majorizer_coupling = "one-minus-square"

    @property
    def self_concordance(self) -> float:
        # sup of |psi''|/psi' = 2 sqrt(s^2 - 1) (2 s + 1)/(s^2 (s + 1)), at s = 1.47569; the
        # paper's Lemma 10 gives a worse constant in another sense (formulas page, section 8).
        return 1.5907517294 / self.c

    @property
    def psi_second_bound(self) -> float:
        return 1.079075982 / self.c  # 4 (1 + 2 s) sqrt(s^2 - 1)/(s^3 (1 + s)^2) at s = 1.191488

    def _root(self, r: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        u = np.clip(real_array(r, "r") / self.c, -SATURATED, SATURATED)
        return u, np.hypot(1.0, 2.0 * u)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        u, root = self._root(r)
        z = 2.0 * u * (u / (1.0 + root))
        slope = self.c * np.abs(2.0 * u / (1.0 + root))
        linear = slope * np.abs(real_array(r, "r"))
        return np.asarray(linear - 0.5 * self.c**2 * np.log1p(z))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        u, root = self._root(r)
        return np.asarray(self.c * np.clip(2.0 * u / (1.0 + root), -1.0, 1.0))

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        _, root = self._root(r)
        return np.asarray(2.0 / (1.0 + root) / root)


class SmoothAbsolute(Loss):
    """``log(1 + e^r) + log(1 + e^-r)``, the smooth absolute loss of paper 3.

    Example 3 of paper 3 (Asi, Duchi and Talwar 2025).  Half of the log-cosh loss with ``c = 2``, up
    to a constant: score bound 1, curvature bound 1/2, self-concordance 1 (formulas page, section
    II.7).

    Examples
    --------
    >>> dpfast.models.SmoothAbsolute().psi_prime([0.0])
    array([0.5])
    """

    name = "smooth-absolute"
    aliases = "l1 mae lad absolute absolute-error laplace"
    code = 6
    lowest_slope = 0.0
    coupling = "one-minus-square"
    majorizer_coupling = "log-cosh-majorizer"
    psi_bound = 1.0
    psi_prime_bound = 0.5
    self_concordance = 1.0
    psi_second_bound = 1.0 / (3.0 * math.sqrt(3.0))

    def __init__(self) -> None:
        super().__init__(1.0)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        a = np.abs(real_array(r, "r"))
        return np.asarray(a + 2.0 * np.log1p(np.exp(-np.minimum(a, 2.0 * FAR))))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.tanh(0.5 * real_array(r, "r")))

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        e = np.exp(-np.minimum(np.abs(real_array(r, "r")), 2.0 * FAR))
        return np.asarray(2.0 * e / (1.0 + e) ** 2)

    def majorizer(self, r: ArrayLike) -> NDArray[np.float64]:
        t = real_array(r, "r")
        with np.errstate(all="ignore"):
            ratio = np.tanh(0.5 * t) / t
        return np.where(np.abs(t) < NEAR, 0.5, ratio)

    def __repr__(self) -> str:
        return "SmoothAbsolute()"


KINDS = (SmoothedHuber, OstrovskiiBach, SmoothAbsolute)
