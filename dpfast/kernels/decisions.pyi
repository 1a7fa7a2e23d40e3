from collections.abc import Sequence
from typing import Any

from numpy import float64
from numpy.typing import NDArray

_Array = NDArray[float64]
_Bins = tuple[Any, ...]
_Tail = tuple[_Array, _Array, float, _Array, _Array]
_Curvature = tuple[_Array, float, float, float]

def detect_bins(
    shares: _Array,
    noise: float,
    per_octave: int,
    edges: _Array,
    unit: float,
    single_sds: float,
    neighbour_sds: float,
    run_length: int,
    tail_octaves: int,
) -> tuple[_Array, _Array, _Array, _Array, bool]: ...
def tail_posterior(
    octaves: _Array, noise: float, n: float, before_mode: bool, tail: _Tail
) -> tuple[_Array, _Array]: ...
def extrapolate_tail(histogram: _Bins, n: float, tail: _Tail) -> tuple[_Array, _Array, _Array]: ...
def mean_excess_over(bounds: _Array, norms: _Array, shares: _Array) -> _Array: ...
def choose_clipping_norm(
    scores: _Bins,
    noise: float,
    p: int,
    longest: float,
    asymmetry: float,
    foreseen: _Bins | None,
    n: float,
    tail: _Tail,
    parts: _Array,
    undetected_asymmetry: float,
    undetected_variation: float,
    doubt_part: float,
    no_reason: float,
) -> tuple[float, float]: ...
def choose_weight_radius(
    histogram: _Bins, typical_square: float, noise: float, parts: _Array
) -> float: ...
def mean_excess(histogram: _Bins, radius: float, exponent: float) -> float: ...
def mean_square(histogram: _Bins, bound: float) -> float: ...
def downweighted_share(histogram: _Bins, radius: float, power: float) -> float: ...
def normal_excess(at: float) -> float: ...
def clipped_off(
    histogram: _Bins, spread: float, radius: float, power: float, bound: float
) -> float: ...
def clipped_square(histogram: _Bins, bound: float, n: float, tail: _Tail) -> float: ...
def precondition(
    gram: _Array, floor: float, expected: _Array | None
) -> tuple[_Array, _Array, _Array]: ...
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
def scale_of_cells(
    cells: _Array,
    noise: float,
    centre: float,
    nearest: float,
    complete: float,
    single_sds: float,
    neighbour_sds: float,
    cell_mean: float,
    smallest: float,
    largest: float,
) -> tuple[float, float, float, float] | None: ...
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
