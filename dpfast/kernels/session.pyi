from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from numpy import float64
from numpy.typing import NDArray

_Array = NDArray[float64]
_Threshold = tuple[int, int]

def connect(
    module: ModuleType,
    answers: tuple[type[Any], Any],
    contexts: tuple[ContextVar[Any], ContextVar[Any], ContextVar[str], Any],
    mechanisms: tuple[type[Any], Callable[..., Any], Callable[..., Any], Callable[..., Any], int],
    book: tuple[type[Any], type[Any], Callable[..., tuple[int, ...]], int],
) -> None: ...
def quanta(mu: float) -> int: ...
def charge(ledger: Any, cost: Any, label: str) -> None: ...
def release_with_noise(
    noise: Any, question: tuple[Any, ...], receipt: Any, value: _Array
) -> Any: ...
def release_jointly_with_noise(
    noise: Any,
    question: tuple[Any, ...],
    receipts: Sequence[Any],
    grids: Any,
    values: Sequence[_Array | None],
) -> list[Any]: ...

class Tape:
    def __init__(self, most_numbers: int, nothing: Any) -> None: ...
    def keep(self, question: tuple[Any, ...], answers: list[Any]) -> None: ...
    @property
    def recorded(self) -> list[tuple[str, tuple[Any, ...], Any, float, float]]: ...

def connect_columns(
    counted: Callable[..., tuple[Any, Any]],
    measured: Callable[..., tuple[Any, Any]],
    weight: Callable[[int], float],
    window: Callable[[int], _Threshold],
    turned: Callable[..., Any],
    distances: Callable[..., NDArray[Any]],
    octaves: int,
    whole: float,
) -> None: ...
def connect_scales(
    scale: type[Any],
    single_sds: float,
    neighbour_sds: float,
    cell_mean: float,
    smallest: float,
    largest: float,
) -> None: ...
def connect_bisection(
    price: Callable[[float, int, int], float],
    above: float,
    inside: float,
    stop_sds: float,
    patience: int,
    rounding: float,
    indicator: tuple[float, float],
    octaves: tuple[int, int],
) -> None: ...
def place_between(low: int, high: int) -> tuple[float, float]: ...
def threshold_between(low: int, high: int, patient: bool) -> tuple[int, int, bool]: ...
def column_scales(histograms: Sequence[DistanceHistogram], complete: float) -> list[Any]: ...

class DistanceHistogram:
    def __init__(
        self, centre: float, nearest: float, octaves: int, cells: _Array, noise: float
    ) -> None: ...

class ColumnQuestions:
    ledger: Any
    n_columns: int
    _noise: Any
    _records: Any
    _max_records: int
    _complete: int
    _few: bool
    _few_turned: Any
    _windows: dict[tuple[int, _Threshold], NDArray[Any]]
    def _turned(self) -> Any: ...
    def below(
        self, thresholds: Sequence[_Threshold], mu: float, later: Sequence[_Threshold] = ()
    ) -> Any: ...
    def distances(
        self,
        columns: Sequence[int],
        centres: _Array,
        nearest: _Array,
        octaves: Sequence[int],
        mu: float,
    ) -> Any: ...

class Quantile:
    low: int
    high: int
    below: float
    above: float
    patience: int
    far: bool
    def __init__(self, low: int, high: int) -> None: ...

class Bisection:
    least: float
    shares: _Array
    share_noise: float
    _answers: Any
    _every: Any
    _of_labels: list[_Threshold]
    _labelled: tuple[float, float]
    _within: tuple[float, float]
    _quantiles: dict[int, Quantile]
    _total: float
    _spent: float
    _complete: float
    _precision: float
    @property
    def counted(self) -> tuple[float, float]: ...
    @property
    def labels_counted(self) -> bool: ...
    @property
    def too_few(self) -> bool: ...
    def tied(self, column: int) -> bool: ...
    def _left(self, reserved: float) -> float: ...
    def _is_below(self, count: float, noise: float, deviations: float) -> bool: ...
    def _narrow(self, columns: Iterable[int], planned: int, total: float) -> None: ...
    def _counts(self, answer: Any) -> list[float]: ...
    def _asking(self, columns: Iterable[int]) -> list[int]: ...
    def _measure(
        self, columns: Sequence[int], reserved: float, indicators: Sequence[int] = ()
    ) -> dict[int, Any]: ...

def connect_rows(
    classes: tuple[type[Any], type[Any], type[Any], type[Any], type[Any]],
    kinds: tuple[Any, type[Any]],
    functions: tuple[
        Callable[..., RowPlans], Callable[[int], tuple[_Array, _Array]], Callable[..., Any]
    ],
) -> None: ...
def connect_plans(
    receipt: type[Any],
    plan: type[Any],
    planned: Callable[..., tuple[Any, Any]],
    histogram: Callable[..., tuple[Any, Any]],
    cost: float,
    up: float,
    largest: float,
) -> None: ...
def histogram_plan(n: int, excess: int, cells: int, mu: float) -> tuple[Any, Any]: ...
def negated(answer: Any) -> Any: ...

class RowPlans:
    usual: bool
    def __init__(
        self,
        weights: Any,
        layout: Any,
        kernel: Any,
        plan: Any,
        capped: bool,
        roundings: tuple[float, ...],
        largest: float,
    ) -> None: ...
    def at(
        self, norm: float, cap: float, gradient: float, hessian: float, meat: float
    ) -> tuple[Any, Any]: ...

class RowQuestions:
    n: int
    dimension: int
    _curator: Any
    _sample: Any
    _layout: Any
    _rotated: Any
    _raw: Any
    _units: Any
    _matrix: _Array | None
    _means: bool
    _intercept: bool
    _weigh: float
    def __init__(
        self,
        curator: Any,
        matrix: _Array | None = None,
        *,
        subsample: Any = None,
        weigh: float = 0.0,
    ) -> None: ...
    def norm_histogram(
        self,
        edges: _Array,
        mu: float,
        at: Any = None,
        what: str = "response",
        row_clipping: Any = None,
        direction: _Array | None = None,
    ) -> Any: ...
    def clipped(
        self, at: Any, radius: float, mu: float, mu_meat: float = 0.0, row_clipping: Any = None
    ) -> Any: ...
    def _view(
        self,
        what: str,
        at: Any,
        shift: float = 0.0,
        row_clipping: Any = None,
        rotate: bool = True,
    ) -> Any: ...
    def _release_means(
        self,
        view: Any,
        weights: Callable[[float], Any],
        radius: float,
        cap: float,
        gradient: float,
        hessian: float = 0.0,
        meat: float = 0.0,
    ) -> Any: ...
    def _sums(
        self, view: Any, kernel: Any, want: int, radius: float | None, layout: Any = None
    ) -> Any: ...
    def _counts(self, view: Any, edges: _Array) -> Any: ...
    def _observed(
        self, view: Any, norm: float | None = None, cap: float | None = None
    ) -> tuple[Any, ...]: ...

def compiled(
    view: Any, units: Any = None, *, squares: _Array | None = None, keep: _Array | None = None
) -> Any: ...
