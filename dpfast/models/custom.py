"""A user's own loss: three functions of a residual, and public bounds that are enforced."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import check_constant, function, one_of, real_array
from dpfast.errors import InvalidInput, described, understood
from dpfast.kernels.user_loss import CompiledLoss
from dpfast.models.losses import Loss

#: Relations between psi and psi' that the kernels can enforce.
ENFORCED_COUPLINGS = ("independent", "one-minus-square")

Scalar = Callable[[float], float]

_compiled = lru_cache(maxsize=64)(CompiledLoss)


@understood
class CustomLoss(Loss):
    """A loss given by three Python functions of one residual, compiled by Numba.

    Needs the extra ``dpfast[numba]``.  Called from the same compiled loop as the built-in losses,
    without the interpreter.  Compilation takes one or two seconds in every process.

    Parameters
    ----------
    loss, psi, psi_prime : callable
        ``rho(r)`` and its first two derivatives; functions of one float (the residual in units of
        the scale, possibly infinite) that Numba can compile and that never raise.
    psi_bound, psi_prime_bound : float
        Public bounds on ``|psi|`` and on ``psi'`` (on ``|psi'|`` if not convex).
    name : str
        For summaries.
    convex : bool
        Whether ``psi' >= 0``.  If not, the loss has no Hessian: no Newton step, no intervals.
    coupling : {"independent", "one-minus-square"}, optional
        "one-minus-square" declares ``psi'/psi_prime_bound <= 1 - (psi/psi_bound)^2``, which makes
        the Hessian free beside the gradient.  Default: no relation.
    self_concordance : float
        ``g`` with ``|psi''| <= g psi'``, used for the length of steps only.

    Notes
    -----
    Two losses are equal if they have the same functions and constants.  A loss pickles if its
    functions do.  Globals and closed-over values are those of the first use; a helper that Numba
    has compiled before keeps those of its first call.  :func:`dpfast.audit.check_loss` attacks the
    declared constants before the first use.

    Privacy
    -------
    The kernels clip every value to the declaration: psi to ``[-psi_bound, psi_bound]``, psi' to
    ``[0, psi_prime_bound]`` (and to the coupling), differences of losses to the bound that
    psi_bound implies.  NaN counts as zero (claim C31).  Wrong functions or constants cost
    accuracy, never privacy.  What cannot be enforced is not relied on: no certified
    minimiser or eigenvalue is released.

    Examples
    --------
    >>> import math, dpfast
    >>> def loss(r): return abs(r) - math.log1p(abs(r))
    >>> def psi(r): return r / (1 + abs(r)) if abs(r) < 1e300 else math.copysign(1.0, r)
    >>> def psi_prime(r): return 1 / (1 + abs(r)) ** 2
    >>> dpfast.CustomLoss(loss, psi, psi_prime, psi_bound=1.0, psi_prime_bound=1.0, name="fair")
    CustomLoss('fair', psi_bound=1, psi_prime_bound=1)
    """

    name = "custom"
    code = 7
    certified = False

    def __init__(
        self,
        loss: Scalar,
        psi: Scalar,
        psi_prime: Scalar,
        *,
        psi_bound: float,
        psi_prime_bound: float,
        name: str = "custom",
        convex: bool = True,
        coupling: str | None = None,
        self_concordance: float = math.inf,
    ) -> None:
        for argument, callable_ in (("loss", loss), ("psi", psi), ("psi_prime", psi_prime)):
            function(callable_, argument, "one residual")
        if not isinstance(name, str) or not name:
            raise InvalidInput(
                f"name must be a string that is not empty; received {described(name, text=True)}."
            )
        if not isinstance(convex, bool):
            raise InvalidInput(f"convex must be True or False; received {described(convex)}.")
        coupling = one_of(coupling, (None, *ENFORCED_COUPLINGS), "coupling") or "independent"
        self.functions = (loss, psi, psi_prime)
        self.name = name
        self.c = check_constant(psi_bound, "psi_bound", "the declared bound on |psi|")
        self.h = check_constant(psi_prime_bound, "psi_prime_bound", "the declared bound on psi'")
        self.convex = convex
        self.coupling = coupling
        if type(self_concordance) is not float or self_concordance != math.inf:
            meaning = "g with |psi''| <= g psi'"
            self_concordance = check_constant(self_concordance, "self_concordance", meaning)
        self._self_concordance = self_concordance

    @property
    def has_curvature(self) -> bool:
        return self.convex

    @property
    def curvature_refusal(self) -> str:
        return (
            f"the {self.name} loss is declared convex=False: its second derivative may be "
            "negative, so there is no positive semidefinite Hessian"
        )

    @property
    def psi_prime_bound(self) -> float:
        return self.h

    @property
    def self_concordance(self) -> float:
        return self._self_concordance

    @property
    def compiled(self) -> CompiledLoss:
        """The compiled functions; compiles them on first use."""
        return _compiled(*self.functions, self.coupling != "independent")

    def loss(self, r: ArrayLike) -> NDArray[np.float64]:
        return _each(self.functions[0], r)

    def psi(self, r: ArrayLike) -> NDArray[np.float64]:
        return np.clip(_each(self.functions[1], r), -self.c, self.c)

    def psi_prime(self, r: ArrayLike) -> NDArray[np.float64]:
        low = 0.0 if self.convex else -self.h
        return np.clip(_each(self.functions[2], r), low, self.h)

    def majorizer(self, r: ArrayLike) -> NDArray[np.float64]:
        r = real_array(r, "r")
        near_zero = np.abs(r) <= 1e-150
        chord = self.psi(r) / np.where(near_zero, 1.0, r)
        return np.clip(np.where(near_zero, self.psi_prime(r), chord), 0.0, self.h)

    def _key(self) -> tuple[object, ...]:
        return (
            type(self), self.functions, self.c, self.h, self.name, self.convex, self.coupling,
            self._self_concordance,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"CustomLoss({self.name!r}, psi_bound={self.c:g}, psi_prime_bound={self.h:g})"


def _each(scalar: Scalar, r: Any) -> NDArray[np.float64]:
    """Evaluate the function at every entry; NaN counts as zero."""
    r = real_array(r, "r")
    values = np.array([scalar(float(v)) for v in r.ravel()], dtype=float).reshape(r.shape)
    return np.where(np.isnan(values), 0.0, values)
