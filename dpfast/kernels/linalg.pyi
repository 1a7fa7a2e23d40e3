from collections.abc import Sequence

from numpy import float64
from numpy.typing import ArrayLike, NDArray

def eigh(A: ArrayLike) -> tuple[NDArray[float64], NDArray[float64]]: ...
def floor_eigenvalues(
    A: ArrayLike, floor: float
) -> tuple[NDArray[float64], NDArray[float64], int]: ...
def newton_direction(
    H: ArrayLike, g: ArrayLike, floor: float
) -> tuple[NDArray[float64], NDArray[float64], int]: ...
def floored_step(
    H: ArrayLike, g: ArrayLike, floor: float
) -> tuple[NDArray[float64], NDArray[float64], NDArray[float64]]: ...
def capped_step(
    theta: ArrayLike, direction: ArrayLike, step_size: float, max_step: float
) -> NDArray[float64]: ...
def weighted_mean(arrays: Sequence[ArrayLike], weights: Sequence[float]) -> NDArray[float64]: ...
def congruence(A: ArrayLike, S: ArrayLike) -> NDArray[float64]: ...
def variance_bounds(
    mapping: ArrayLike,
    meat: ArrayLike,
    bias: ArrayLike,
    directions: ArrayLike | None,
    noise: float,
    natural: ArrayLike | None,
) -> tuple[float, float]: ...
def noise_after_steps(
    inverses: Sequence[ArrayLike],
    curvatures: Sequence[ArrayLike],
    step_sizes: ArrayLike,
    gradient_scales: ArrayLike,
    curvature_scales: ArrayLike,
) -> NDArray[float64]: ...
def sandwich(H: ArrayLike, Q: ArrayLike, floor_h: float) -> tuple[NDArray[float64], int, int]: ...
