"""Type information of the compiled record kernels; the docstrings are in csrc/records.pyx."""

import numpy as np
from numpy.typing import NDArray

GRADIENT: int
HESSIAN: int
MEAT: int
MAJORIZER: int
LOSS_CODES: dict[str, int]
USER_LOSS: int
WEIGHT_CODES: tuple[int, ...]
VIEW: int
SQUARES: int

class RecordView:
    def __init__(
        self,
        matrix_: NDArray[np.float64] | tuple[int, int],
        what: str = "response",
        loss: int | None = None,
        c: float = 1.0,
        h: float = 1.0,
        scale: float = 1.0,
        theta: NDArray[np.float64] | None = None,
        shift: float = 0.0,
        centres: NDArray[np.float64] | None = None,
        spreads: NDArray[np.float64] | None = None,
        response: tuple[float, float] = (0.0, 1.0),
        reach: float = ...,
        back: tuple[NDArray[np.float64], NDArray[np.float64], float, float, float] | None = None,
        weigh: float = 0.0,
        predictor: NDArray[np.float64] | None = None,
        keep: NDArray[np.float64] | None = None,
        squares: NDArray[np.float64] | None = None,
    ) -> None: ...
    def counts(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        edges: NDArray[np.float64],
        threads: int = 0,
        whole: float = 0.0,
    ) -> NDArray[np.int64]: ...
    def add_scores(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        group_of_row: NDArray[np.intp],
        first: int,
        longest: float,
        scores: NDArray[np.float64],
        has_row: NDArray[np.bool_],
    ) -> None: ...

class RecordKernel:
    def __init__(
        self,
        loss: int,
        c: float,
        scale: float,
        weighting: int,
        radius: float,
        intercept: bool,
        scale_factor: float = 0.0,
        kappa: float = 0.0,
        h: float = 1.0,
        user: object | None = None,
        largest_weight: float = 1.0,
    ) -> None: ...
    def sums(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        theta: NDArray[np.float64],
        want: int,
        divisor: float,
        threads: int = 0,
        view: RecordView | None = None,
        edges: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64] | None, ...]: ...
    def scores_of_runs(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        theta: NDArray[np.float64],
        ends: NDArray[np.intp],
    ) -> NDArray[np.float64]: ...
    def loss(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        theta: NDArray[np.float64],
        divisor: float,
        threads: int = 0,
    ) -> float: ...
    def loss_difference(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        theta_new: NDArray[np.float64],
        theta_old: NDArray[np.float64],
        divisor: float,
        threads: int = 0,
    ) -> float: ...
    def gradient_change(
        self,
        X: NDArray[np.float64 | np.float32],
        y: NDArray[np.float64],
        theta_new: NDArray[np.float64],
        theta_old: NDArray[np.float64],
        limit: float,
        divisor: float,
        threads: int = 0,
    ) -> NDArray[np.float64]: ...

def default_threads() -> int: ...
def summation_depth(n: int, p: int, want: int) -> int: ...
def _set_isa(name: str) -> None: ...
def _available_isas() -> tuple[str, ...]: ...
def _plan(n: int, p: int, want: int) -> tuple[int, int, int]: ...
