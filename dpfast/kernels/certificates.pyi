"""Type information of the certificate kernels; the docstrings are in csrc/certificates.pyx."""

from numpy import float64
from numpy.typing import NDArray

LINEAR_MODEL: int
SMOOTH_LOSS: int
MOST_NODES: int

class RecursionTable:
    nodes: NDArray[float64]
    heights: NDArray[float64]
    def __init__(
        self,
        kind: int,
        a: float,
        k: float,
        g: float,
        ridge: float,
        threshold: float,
        largest: float,
        eta: float = 0.0,
        growth: float = 1.001953125,
    ) -> None: ...
    def exact_count(self, x: float, most: int = ...) -> int: ...
    def count(self, x: float) -> int: ...
    def inverse(self, count: int) -> float: ...
    def integral(self, x: float) -> float: ...
    def integral_inverse(self, t: float) -> float: ...
    @property
    def integral_error(self) -> float: ...
