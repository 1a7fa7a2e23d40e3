"""Redescending losses: records with large residuals have (almost) no influence."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array
from dpfast.models.losses import Loss

#: Beyond this argument, in units of c, the losses have reached their limits.
FAR = 1e120


class Redescending(Loss):
    """Base of the redescending losses: ``sup |psi'|`` is 1, and ``inf psi'`` negative."""

    #: ``sup |psi| / c``
    peak: ClassVar[float]
    lowest_slope: ClassVar[float]
    has_curvature = False

    @property
    def psi_bound(self) -> float:
        return self.peak * self.c

    def _scaled(self, r: ArrayLike) -> NDArray[np.float64]:
        return np.clip(real_array(r, "r") / self.c, -FAR, FAR)


class TukeyBiweight(Redescending):
    """Tukey's biweight: records beyond ``c`` count for nothing.

    Parameters
    ----------
    c : float
        Default 4.685: 95% efficiency at the normal model, in units of the scale.

    Examples
    --------
    >>> dpfast.models.TukeyBiweight(c=4.0).psi([0.0, 2.0, 5.0])
    array([0.   , 1.125, 0.   ])
    """

    name = "tukey"
    aliases = "biweight bisquare"
    code = 10
    peak = 16.0 / (25.0 * math.sqrt(5.0))
    lowest_slope = -0.8

    def __init__(self, c: float = 4.685) -> None:
        super().__init__(c)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        v = np.minimum(np.abs(self._scaled(r)), 1.0) ** 2
        return np.asarray(self.c**2 / 6.0 * v * (3.0 - 3.0 * v + v * v))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        u = np.clip(self._scaled(r), -1.0, 1.0)
        return np.asarray(self.c * u * (1.0 - u * u) ** 2)

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        v = np.minimum(np.abs(self._scaled(r)), 1.0) ** 2
        return np.asarray((1.0 - v) * (1.0 - 5.0 * v))


class GemanMcClure(Redescending):
    """``c^2 v / (2 (1 + v))``, ``v = (r/c)^2`` (Geman and McClure 1985).

    Parameters
    ----------
    c : float
        Default 3.787: 95% efficiency at the normal model, in units of the scale.

    Examples
    --------
    >>> dpfast.models.GemanMcClure(c=1.0).psi([0.0, 1.0])
    array([0.  , 0.25])
    """

    name = "geman-mcclure"
    code = 11
    peak = 9.0 / (16.0 * math.sqrt(3.0))
    lowest_slope = -0.25

    def __init__(self, c: float = 3.787) -> None:
        super().__init__(c)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        v = self._scaled(r) ** 2
        return np.asarray(0.5 * self.c**2 * v / (1.0 + v))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        u = self._scaled(r)
        inverse = 1.0 / (1.0 + u * u)
        return np.asarray(self.c * u * inverse * inverse)

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        v = np.minimum(self._scaled(r) ** 2, 1e100)
        return np.asarray((1.0 - 3.0 * v) / (1.0 + v) ** 3)


class Welsch(Redescending):
    """``c^2 (1 - exp(-(r/c)^2)) / 2`` (Dennis and Welsch 1978).

    Parameters
    ----------
    c : float
        Default 2.985: 95% efficiency at the normal model, in units of the scale.

    Examples
    --------
    >>> dpfast.models.Welsch(c=1.0).psi_prime([0.0])
    array([1.])
    """

    name = "welsch"
    code = 12
    peak = math.exp(-0.5) / math.sqrt(2.0)
    lowest_slope = -2.0 * math.exp(-1.5)

    def __init__(self, c: float = 2.985) -> None:
        super().__init__(c)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(-0.5 * self.c**2 * np.expm1(-np.minimum(self._scaled(r) ** 2, 700.0)))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        u = np.clip(self._scaled(r), -30.0, 30.0)  # exp(-900) is zero
        return np.asarray(self.c * u * np.exp(-u * u))

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        v = np.minimum(self._scaled(r) ** 2, 900.0)
        return np.asarray((1.0 - 2.0 * v) * np.exp(-v))


class Cauchy(Redescending):
    """``c^2 log(1 + (r/c)^2) / 2``: influence fades like ``1/r``.

    Parameters
    ----------
    c : float
        Default 2.385: 95% efficiency at the normal model, in units of the scale.

    Examples
    --------
    >>> dpfast.models.Cauchy(c=1.0).psi([0.0, 1.0])
    array([0. , 0.5])
    """

    name = "cauchy"
    aliases = "lorentzian student t"
    code = 13
    peak = 0.5
    lowest_slope = -0.125

    def __init__(self, c: float = 2.385) -> None:
        super().__init__(c)

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(0.5 * self.c**2 * np.log1p(self._scaled(r) ** 2))

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        u = self._scaled(r)
        return np.asarray(self.c * u / (1.0 + u * u))

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        v = np.minimum(self._scaled(r) ** 2, 1e120)
        return np.asarray((1.0 - v) / (1.0 + v) ** 2)


KINDS = (TukeyBiweight, GemanMcClure, Welsch, Cauchy)
