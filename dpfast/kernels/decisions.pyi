from collections.abc import Callable, Sequence
from typing import Any

from numpy import float64
from numpy.typing import NDArray

from dpfast.solvers.pcn.curvature import CurvatureModel
from dpfast.solvers.pcn.scores import NoisyScore, Problem
from dpfast.solvers.pcn.steps import NewtonSolution
from dpfast.solvers.pcn.stopping import StoppingRule

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
def connect_curvatures(
    nodes: _Array,
    masses: _Array,
    update_sds: float,
    min_condition: float,
    smallest: float,
    largest: float,
) -> None: ...
def connect_limits(signal_sds: float, cutting_plane_part: float, trust_region: float) -> None: ...
def connect_steps(
    solution: type[NewtonSolution],
    score: type[NoisyScore],
    max_steps: int,
    many: int,
    meats: int,
    min_variation: float,
    false_alarm: float,
    slight: float,
    of_sampling: float,
) -> None: ...

class AveragedNewton:
    def __init__(
        self,
        problem: Problem,
        start: _Array,
        bound: float,
        stopping_rule: StoppingRule,
        model: CurvatureModel | None,
        inference: bool,
        updates: bool = True,
    ) -> None: ...
    def solve(
        self,
        mus: tuple[float, ...],
        report: Callable[[_Array, int], None],
        last_score: NoisyScore | None = None,
        first_score: NoisyScore | None = None,
    ) -> NewtonSolution: ...

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
) -> _Curvature: ...
def design_hessian(slopes: _Array, variance: float, across: float, along: float) -> _Array: ...
def bfgs_update(
    curvature: _Array | None, before: NoisyScore, here: NoisyScore
) -> _Array | None: ...
def relative_variances(curvature: _Array, meat: _Array) -> tuple[_Array, _Array, float]: ...
def excess_variation(
    curvature: _Array | None, meat: _Array, noise: float, most: float
) -> tuple[float, _Array] | None: ...
def information_bound(
    known: _Array,
    meat: _Array,
    noise: float,
    factor: float,
    undetermined: Any,
    of_step: bool = False,
) -> tuple[_Array, _Array, _Array, float, float]: ...
def apply_information_bound(
    curvature: _Array,
    columns: _Array,
    shares: _Array,
    values: _Array,
    doubt: float,
    reference: float,
) -> tuple[_Array, _Array, int]: ...
def squared_norm(score: _Array, noise: float) -> tuple[float, float]: ...
def length(vector: _Array) -> float: ...
def cutting_plane(step: _Array, scores: Sequence[NoisyScore]) -> float: ...
def trust_region(step: _Array, variance: float) -> float: ...
def has_converged(
    rule: StoppingRule,
    step: NoisyScore,
    before: tuple[float, float] | None,
    mus: tuple[float, ...],
    averages: bool,
    n: float,
) -> bool: ...
def chi_squared_tail(degrees: int, statistic: float) -> float: ...
def indicators(
    moments: _Array, natural: _Array, tolerance: float
) -> tuple[list[int], list[float], float]: ...
def score_variances(mean: _Array) -> tuple[_Array, _Array, float, float]: ...
def with_removed_variance(
    variances: _Array, vectors: _Array, removed: float, one_sided: bool
) -> _Array: ...
def slope_signal(theta: _Array, intercept: _Array | None) -> float: ...
def predictor_moments(
    theta: _Array, intercept: _Array | None, unmapping: _Array
) -> tuple[float, float]: ...
def step_coordinates(
    theta: _Array,
    root: _Array | None,
    mapping: _Array,
    unmapping: _Array,
    unwhiten: _Array,
    intercept: _Array | None,
) -> tuple[_Array, _Array, _Array, _Array, _Array | None, _Array]: ...
def known_part(values: _Array, noise: float | _Array, floor: float) -> _Array: ...
def count_hidden(known: _Array, values: _Array, floor: float) -> int: ...
def bias_variance(
    known: _Array,
    noises: Sequence[float],
    signal: float,
    pilot_variance: _Array,
    clipping_bias: float,
) -> _Array: ...
def explained_by_slopes(rows: _Array, theta: _Array) -> tuple[float, float, float]: ...
