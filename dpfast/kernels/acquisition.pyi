from numpy import float64
from numpy.typing import ArrayLike, NDArray

def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str = "") -> None: ...

class AcquisitionKernel:
    def __init__(
        self,
        family: int,
        length_scales: ArrayLike,
        output_scale: float,
        offset: float,
        noise_variance: float,
        lower: ArrayLike,
        upper: ArrayLike,
    ) -> None: ...
    def condition(self, points: ArrayLike) -> int: ...
    def value(self, Z: ArrayLike, theta: ArrayLike) -> float: ...
    def value_and_gradient(
        self, Z: ArrayLike, theta: ArrayLike
    ) -> tuple[float, NDArray[float64]]: ...
    def minimise(
        self,
        start: ArrayLike,
        theta: ArrayLike,
        max_evaluations: int,
        gradient_tolerance: float,
        value_tolerance: float,
        target: float,
    ) -> tuple[NDArray[float64], float, int]: ...
    def weights(self, theta: ArrayLike) -> NDArray[float64]: ...
    def mean_weights(self) -> NDArray[float64]: ...
    def whitened(self, theta: ArrayLike) -> NDArray[float64]: ...
