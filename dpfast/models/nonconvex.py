"""Objectives that need not be convex: users' own gradients, and the condition that bounds risk."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, check_constant, flag, whole_number
from dpfast.errors import InvalidInput, described
from dpfast.kernels.user_gradients import CompiledGradients, compiled_gradients

Gradients = Callable[[Array, Array, Array], ArrayLike]


class KL(NamedTuple):
    """Kurdyka-Lojasiewicz condition ``F(w) - F* <= (gamma ||grad F(w)||)^kappa``.

    Equation (1) of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).  Both numbers must be
    public: known from the model, or estimated on public or synthetic data
    (:func:`dpfast.nonconvex.estimate_kl`).

    Attributes
    ----------
    gamma, kappa : float
        Positive; at least 1, 2 for the Polyak-Lojasiewicz condition, with ``gamma^2 = 1/(2 mu)``.

    Other Parameters
    ----------------
    norm, excess : float
        Of methods: norm of a gradient, excess risk; zero or more.
    rate, exponent : float
        Public numbers of a growth ``F(w) - F* >= (rate * distance)^exponent``.

    Examples
    --------
    >>> dpfast.nonconvex.KL(gamma=2.0, kappa=1.0).excess(0.5)
    1.0
    """

    gamma: float
    kappa: float = 2.0

    def checked(self) -> KL:
        """Check both constants and return the condition."""
        check_constant(self.gamma, "gamma", "the constant of the KL condition")
        check_constant(self.kappa, "kappa", "the exponent of the KL condition")
        if not self.kappa >= 1.0:
            raise InvalidInput(f"kappa must be at least 1; received {described(self.kappa)}.")
        return KL(float(self.gamma), float(self.kappa))

    def excess(self, norm: float) -> float:
        """Bound the excess risk at a gradient of this norm, ``(gamma norm)^kappa``."""
        return math.pow(self.gamma * norm, self.kappa)

    def norm(self, excess: float) -> float:
        """Bound the gradient norm at this excess risk from below, ``excess^(1/kappa) / gamma``."""
        return math.exp(math.log(excess) / self.kappa) / self.gamma if excess > 0.0 else 0.0

    def growth(self) -> tuple[float, float]:
        """Return the growth condition that this one implies (lemma 7 of paper 2).

        Returns
        -------
        rate, exponent : float
            ``F(w) - F* >= (rate * distance)^exponent``, with the distance from the minimisers.
        """
        self.checked()
        if not self.kappa > 1.0:
            raise InvalidInput(
                f"kappa must exceed 1 for a growth condition; received {described(self.kappa)}."
            )
        return (self.kappa - 1.0) / (self.gamma * self.kappa), self.kappa / (self.kappa - 1.0)

    @classmethod
    def from_growth(cls, rate: float, exponent: float) -> KL:
        """Return the condition that growth implies for a **convex** F (lemma 6 of paper 2)."""
        rate = check_constant(rate, "rate", "the constant of the growth condition")
        exponent = check_constant(exponent, "exponent", "the exponent of the growth condition")
        if not exponent > 1.0:
            raise InvalidInput(f"exponent must exceed 1; received {described(exponent)}.")
        return cls(1.0 / rate, exponent / (exponent - 1.0)).checked()


class PerRecordObjective:
    """Mean over records of a loss given by its gradients.

    Parameters
    ----------
    gradients : callable
        ``gradients(theta, X, y)`` with X of shape (m, q) and y of shape (m,) returns the gradients
        of m records, shape (m, dimension); of one record at a time unless ``vectorized``.
    dimension : int
        Number of parameters.
    lipschitz, smoothness : float
        ``L0`` and ``L1``: record by record, gradients are clipped to this norm, and their changes
        between two parameters at distance r to ``L1 * r``.
    losses : callable, optional
        ``losses(theta, X, y) -> (m,)``, for comparisons outside of privacy only.
    n_covariates : int, optional
        Columns of X it expects; any if omitted.
    vectorized : bool
        True calls ``gradients`` with many records at a time.  The guarantee then rests on the
        caller, and states this: row i of the answer must depend on row i of the data only.  A
        function that subtracts a mean over its rows, say, has no guarantee.
    block_rows : int
        Records per call if vectorized; rows are added up in blocks of as many.
    name : str

    Notes
    -----
    The behaviour of the function on particular records must not show.  It is first called on
    made-up records (zeros and ones), before anything is spent: errors and wrong shapes there are
    raised.  Later a record contributes zero if an entry or its gradient is not finite, or if the
    function raises or returns a wrong shape.  Warnings are silenced.

    Record by record the function is compiled if there are at least 10,000 records and Numba
    (``dpfast[numba]``) is installed and can compile it.  Otherwise it is called from Python, some
    hundred times slower.  A compiled function sees global variables as they were when compiled.

    A guarantee rests on the caller's word that the function keeps nothing from call to call, and
    states this.  Its prints, its logs, its time and its memory are the user's channels, too.

    Privacy
    -------
    Nothing is spent: it is a setting.  :func:`dpfast.minimize` says what a run costs.

    Examples
    --------
    >>> import numpy as np
    >>> def gradients(theta, X, y):
    ...     return (np.tanh(X @ theta) - y)[:, None] * X
    >>> dpfast.nonconvex.PerRecordObjective(gradients, dimension=2, lipschitz=2.0, smoothness=1.0)
    PerRecordObjective(gradients, dimension=2, lipschitz=2, smoothness=1)
    """

    ridge = 0.0

    def __init__(
        self,
        gradients: Gradients,
        *,
        dimension: int,
        lipschitz: float,
        smoothness: float,
        losses: Gradients | None = None,
        n_covariates: int | None = None,
        vectorized: bool = False,
        block_rows: int = 4096,
        name: str | None = None,
    ) -> None:
        if not callable(gradients) or (losses is not None and not callable(losses)):
            raise InvalidInput(
                "gradients (and losses, if given) must be functions of (theta, X, y); received "
                f"{described(gradients)} and {described(losses)}."
            )
        self.gradients = gradients
        self.losses = losses
        self.dimension = whole_number(dimension, "dimension", 1, 10**8)
        self.lipschitz = check_constant(lipschitz, "lipschitz", "the largest norm of a gradient")
        self.smoothness = check_constant(
            smoothness, "smoothness", "the largest change of a gradient per distance"
        )
        self.n_covariates = n_covariates
        self.vectorized = flag(vectorized, "vectorized")
        self.block_rows = whole_number(block_rows, "block_rows", 1, 10**8)
        if name is not None and not isinstance(name, str):
            raise InvalidInput(f"name must be text, or None; received {described(name)}.")
        self.name = name or getattr(gradients, "__name__", type(gradients).__name__)

    def ridge_gradient(self, theta: Array) -> Array | float:
        """Return zero, of shape (), because there is no public penalty.

        Parameters
        ----------
        theta : ndarray of shape (dimension,)
        """
        return 0.0

    @property
    def vouched(self) -> tuple[str, ...]:
        """Conditions that the caller vouches for, in words."""
        memory = f"{self.name} keeps nothing from one call to the next"
        if not self.vectorized:
            return (memory,)
        return (
            f"row i of what {self.name} returns, or that it raises, depends on row i of the data "
            "only",
            memory,
        )

    def compiled(self, n_covariates: int) -> CompiledGradients | None:
        """Compile the loop over records; None if it differs on made-up records."""
        loop = compiled_gradients(self.gradients)
        if loop is not None:
            X, y, theta = *_made_up(n_covariates), np.zeros(self.dimension)
            out = np.zeros((len(y), self.dimension))
            loop(theta, X, y, out, np.ones(len(y), dtype=bool))
            with np.errstate(all="ignore"):
                plain = [self.gradients(theta.copy(), X[i : i + 1], y[i : i + 1]) for i in (0, 1)]
                same = np.allclose(out, np.concatenate(plain), rtol=1e-9, equal_nan=True)
            if not same:
                return None
        return loop

    def rehearse(self, n_covariates: int) -> None:
        """Call the function on made-up records and raise its errors."""
        if self.n_covariates not in (None, n_covariates):
            raise InvalidInput(
                f"{self.name} is for {self.n_covariates} covariates and X has {n_covariates}."
            )
        X, y = _made_up(n_covariates)
        theta = np.zeros(self.dimension)
        if self.vectorized:
            self._rehearse(theta, X, y)
        for i in range(len(y) if not self.vectorized else 0):
            self._rehearse(theta, X[i : i + 1], y[i : i + 1])

    def _rehearse(self, theta: Array, X: Array, y: Array) -> None:
        rows = len(y)
        with np.errstate(all="ignore"):
            gradients_: Any = np.asarray(self.gradients(theta.copy(), X.copy(), y.copy()))
        if gradients_.shape != (rows, self.dimension) or gradients_.dtype.kind not in "fiub":
            raise InvalidInput(
                f"{self.name} must return one gradient per record, shape {(rows, self.dimension)} "
                f"for {rows} record(s), of real numbers; on made-up records it returned shape "
                f"{gradients_.shape} and dtype {gradients_.dtype}."
            )

    def __repr__(self) -> str:
        return (
            f"PerRecordObjective({self.name}, dimension={self.dimension}, "
            f"lipschitz={self.lipschitz:g}, smoothness={self.smoothness:g}"
            + ", vectorized=True" * self.vectorized
            + ")"
        )


def _made_up(n_covariates: int) -> tuple[Array, Array]:
    """Two records, of zeros and of ones."""
    X, y = np.zeros((2, n_covariates)), np.zeros(2)
    X[-1], y[-1] = 1.0, 1.0
    return X, y
