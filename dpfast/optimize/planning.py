"""Choice of the optimiser, from public facts."""

from __future__ import annotations

from collections.abc import Callable

from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.adaptive.method import AdaptiveNewton
from dpfast.optimize.double_noise import DoubleNoise
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.joint_newton import JointNewton
from dpfast.optimize.newton import Newton, curvature_noise
from dpfast.optimize.protocol import Method, refuse_unmet_needs

#: Optimisers by name.
NAMED: dict[str, Callable[[Objective], Method]] = {
    "newton": lambda objective: JointNewton() if objective.free_scale is not None else Newton(),
    "gradient-descent": lambda objective: GradientDescent(),
    "double-noise": lambda objective: DoubleNoise(),
    "adaptive-newton": lambda objective: AdaptiveNewton(),
}

#: Noise of a curvature, relative to the density it estimates, up to which the adaptive method's
#: answers see it one by one: above, a fixed schedule covers as well and is narrower, and far above
#: the adaptive method does not arrive (bench/results/quantile.md).
SEEN = 0.05


def choose_method(
    method: str | Method, objective: Objective, n: int, mu: float
) -> tuple[Method, str]:
    """Pick the optimiser, and say why, from n, p, the objective's constants and mu only."""
    if isinstance(method, Method):
        chosen, reason = method, "as requested"
    elif isinstance(method, str) and method in NAMED:
        chosen, reason = NAMED[method](objective), "as requested"
    elif isinstance(method, str) and method == "auto":
        chosen, reason = _automatic(objective, n, mu)
    else:
        names = ", ".join(f'"{name}"' for name in ("auto", *NAMED))
        raise InvalidInput(
            f"method must be {names}, "
            "dpfast.optimize.Newton(...), dpfast.optimize.GradientDescent(...), "
            "dpfast.optimize.DoubleNoise(...) or a dpfast.optimize.Method of your own; received "
            f"{described(method, text=True)}."
        )
    refuse_unmet_needs(chosen, objective)
    return chosen, reason


def _automatic(objective: Objective, n: int, mu: float) -> tuple[Method, str]:
    if not objective.has_curvature:
        return GradientDescent(), f"auto: {objective.curvature_refusal()}"
    noise_level = curvature_noise(objective, n, mu)
    hidden = noise_level * objective.loss.peakedness
    if objective.loss.peakedness > 1.0 and hidden > SEEN:
        return Newton(), (
            f"auto: curvature noise relative to a density {hidden:.2g} exceeds {SEEN:g}"
        )
    if noise_level <= 0.5 or objective.ridge >= noise_level * objective.curvature_bound:
        return AdaptiveNewton(), (
            f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} is at most 0.5"
        )
    step_size = "estimated" if objective.curvature_peaks_at_zero else None
    return GradientDescent(step_size=step_size), (
        f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} exceeds 0.5"
    )
