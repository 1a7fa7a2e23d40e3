from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIN_BITS: int
MAX_BITS: int
BUFFER_BYTES: int

class ExactSampler:
    def __init__(self, supply: Callable[[int], bytes] | None = None) -> None: ...
    @property
    def supply(self) -> Callable[[int], bytes] | None: ...
    @property
    def consumed(self) -> int: ...
    def normals(self, size: int, bits: int) -> NDArray[np.int64]: ...
    def discrete_laplace(
        self, size: int, numerator: int, denominator: int
    ) -> NDArray[np.int64]: ...

def connect(source: type[Any]) -> None: ...
def nearest(value: float, grid: float) -> int: ...
def release(
    values: Sequence[ArrayLike | None],
    noise: NDArray[np.int64],
    bits: int,
    grids: Sequence[tuple[int, float, float] | None],
) -> list[Any]: ...
