"""Type information of the kernels of counts; the docstrings are in csrc/keys.pyx."""

from collections.abc import Iterable

from numpy import float32, float64, int64
from numpy.typing import NDArray

CELLS: int
UNIT: int
OCTAVES: int
WHOLE: int
PARTS: NDArray[int64]
MOST_RECORDS: int

def key_cells(
    X: NDArray[float64 | float32],
    y: NDArray[float64],
    columns: NDArray[int64],
    starts: NDArray[int64],
    shifts: NDArray[int64],
) -> NDArray[int64]: ...
def distances(
    X: NDArray[float64 | float32],
    y: NDArray[float64],
    centres: NDArray[float64],
    nearest: NDArray[float64],
    octaves: NDArray[int64],
) -> NDArray[int64]: ...
def moments(
    X: NDArray[float64 | float32],
    y: NDArray[float64],
    middles: NDArray[float64],
    halves: NDArray[float64],
) -> NDArray[int64]: ...

class TurnedRecords:
    n_complete: int
    def __init__(self, X: NDArray[float64 | float32], y: NDArray[float64]) -> None: ...
    def below(self, thresholds: Iterable[tuple[int, int]]) -> list[int]: ...
    def distances(
        self, centres: NDArray[float64], nearest: NDArray[float64], octaves: NDArray[int64]
    ) -> NDArray[int64]: ...
