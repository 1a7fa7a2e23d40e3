from collections.abc import Callable, Sequence
from typing import Any

from numpy import float64
from numpy.typing import NDArray

_Array = NDArray[float64]
_Curvature = tuple[_Array, float, float, float]

ASYMMETRY: float
NEIGHBOUR_SDS: float
SINGLE_BIN_SDS: float

class NormHistogram:
    counted: tuple[float, float]
    def __init__(
        self,
        shares: _Array,
        upper: _Array,
        midpoints: _Array,
        max_undetected: float,
        octaves: _Array | None = None,
        octave_noise: float = 0.0,
        before_mode: bool = True,
        counted: tuple[float, float] = (1.0, 0.0),
    ) -> None: ...
    @staticmethod
    def from_noisy_shares(
        shares: _Array, noise_scale: float, per_octave: int, unit: float = 1.0
    ) -> NormHistogram: ...
    @property
    def shares(self) -> _Array: ...
    @property
    def upper(self) -> _Array: ...
    @property
    def midpoints(self) -> _Array: ...
    @property
    def octaves(self) -> _Array: ...
    @property
    def octave_noise(self) -> float: ...
    @property
    def before_mode(self) -> bool: ...
    @property
    def max_undetected(self) -> float: ...
    @property
    def longest(self) -> float: ...
    def rescaled(self, unit: float) -> NormHistogram: ...
    def median(self) -> float: ...
    def mean_square(self, bound: float) -> float: ...
    def mean_of_squares(self) -> float: ...
    def mean_excess(self, radius: float, exponent: float) -> float: ...
    def share_beyond(self, bound: float) -> float: ...
    def downweighted_share(self, radius: float, power: float) -> float: ...
    def clipped_off(self, spread: float, radius: float, power: float, bound: float) -> float: ...
    def choose_weight_radius(self, p: int, typical: float, noise: float) -> float: ...
    def density_ratio(
        self, shares: _Array, noise_scale: float, per_octave: int, times: float
    ) -> float: ...
    def extrapolate_tail(self, n: float = ...) -> tuple[_Array, _Array, _Array]: ...
    def tail(self, bounds: _Array, n: float = ...) -> _Array: ...
    def undetected_square(self) -> float: ...
    def clipped_square(self, bound: float, n: float = ...) -> float: ...

def bin_edges(per_octave: int) -> _Array: ...
def cell_edges(per_octave: int, unit: float) -> _Array: ...
def choose_clipping_norm(
    scores: NormHistogram,
    noise: float,
    p: int,
    longest: float = ...,
    asymmetry: float = ...,
    foreseen: NormHistogram | None = None,
    n: float = ...,
) -> tuple[float, float]: ...
def normal_excess(at: float) -> float: ...
def precondition(
    gram: _Array,
    noise: float,
    expected: _Curvature | None = None,
    times: float = 1.0,
    shrinks: bool = False,
) -> tuple[_Array, _Array, _Array, float, float, float]: ...
def white(values: _Array, floor: float) -> tuple[_Array, _Array, _Array]: ...
def matrix_vector(matrix: _Array, vector: _Array) -> _Array: ...
def round_step(
    score: _Array,
    noise: float,
    whiten: _Array,
    unwhiten: _Array,
    variance: float,
    trust_region: float,
) -> tuple[_Array, _Array]: ...
def shrunken_coefficients(
    moment: _Array, noise: float, whiten: _Array
) -> tuple[_Array, _Array]: ...
def coefficients_through_link(
    moment: _Array,
    noise: float,
    whiten: _Array,
    unwhiten: _Array,
    middle: float,
    predictor: Callable[[float, float], float] | None,
    offset: tuple[float, float],
    link: int,
    largest: float,
    nodes: _Array,
    masses: _Array,
    smallest: float,
    highest: float,
    overstated: float,
    trust_region: float,
) -> tuple[_Array, _Array]: ...
def mean_response(
    link: int, level: float, spread: float, largest: float, nodes: _Array, masses: _Array
) -> tuple[float, float]: ...
def design_curvature(
    theta: _Array,
    intercept: _Array | None,
    mean: float,
    spread: float,
    link: int,
    largest: float,
    constant: float,
    nodes: _Array,
    masses: _Array,
    min_condition: float,
    smallest: float,
    highest: float,
) -> _Curvature: ...
def design_hessian(slopes: _Array, variance: float, across: float, along: float) -> _Array: ...
def transport(
    whiten: _Array, back: _Array, curvature: _Array | None, was: _Curvature, here: _Curvature
) -> _Array: ...
def bfgs_update(
    curvature: _Array | None,
    step_from: _Array,
    step_to: _Array,
    score_from: _Array,
    score_to: _Array,
    doubt_sds: float,
    noise_from: float,
    noise_to: float,
    min_condition: float,
) -> _Array | None: ...
def relative_variances(curvature: _Array, meat: _Array) -> tuple[_Array, _Array, float]: ...
def information_bound(
    known: _Array,
    meat: _Array,
    noise: float,
    factor: float,
    undetermined: Any,
    of_step: bool,
    min_variation: float,
) -> tuple[_Array, _Array, _Array, float, float]: ...
def apply_information_bound(
    curvature: _Array, columns: _Array, shares: _Array, minima: _Array
) -> tuple[_Array, _Array]: ...
def squared_norm(score: _Array, noise: float) -> tuple[float, float]: ...
def length(vector: _Array) -> float: ...
def inverse_variance_weights(
    answers: Sequence[Any], curvature: _Array | None, curvatures: Sequence[_Curvature]
) -> _Array: ...
def averaged_newton_point(
    answers: Sequence[Any],
    weights: _Array | None,
    curvature: _Array | None,
    bound: Sequence[Any] | None,
) -> _Array: ...
def solve_after(curvature: _Array | None, step: _Array, transported: _Array) -> _Array: ...
def cutting_plane(
    step: _Array, scores: Sequence[Any], part_of_way: float, signal_sds: float
) -> float: ...
def chi_squared_tail(degrees: int, statistic: float) -> float: ...
def indicators(
    moments: _Array, natural: _Array, tolerance: float
) -> tuple[list[int], list[float], float]: ...
def moved_mean(scores: Sequence[Any]) -> tuple[_Array, float]: ...
def score_variances(mean: _Array) -> tuple[_Array, _Array, float, float]: ...
def with_removed_variance(
    variances: _Array, vectors: _Array, removed: float, one_sided: bool
) -> _Array: ...
def slope_moments(theta: _Array, intercept: _Array | None) -> tuple[float, float, float]: ...
def bias_variance(
    known: _Array,
    noises: Sequence[float],
    signal: float,
    pilot_variance: _Array,
    clipping_bias: float,
) -> _Array: ...
def explained_by_slopes(rows: _Array, theta: _Array) -> tuple[float, float, float]: ...
