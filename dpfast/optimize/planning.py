"""Choice of the optimiser, from public facts."""

from __future__ import annotations

from collections.abc import Callable

from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.newton import Newton, curvature_noise
from dpfast.optimize.protocol import Method, refuse_unmet_needs

#: Optimisers by name.
NAMED: dict[str, Callable[[], Method]] = {
    "newton": Newton,
    "gradient-descent": GradientDescent,
}


def choose_method(
    method: str | Method, objective: Objective, n: int, mu: float
) -> tuple[Method, str]:
    """Pick the optimiser, and say why, from n, p, the objective's constants and mu only."""
    if isinstance(method, Method):
        chosen, reason = method, "as requested"
    elif isinstance(method, str) and method in NAMED:
        chosen, reason = NAMED[method](), "as requested"
    elif isinstance(method, str) and method == "auto":
        chosen, reason = _automatic(objective, n, mu)
    else:
        names = ", ".join(f'"{name}"' for name in ("auto", *NAMED))
        raise InvalidInput(
            f"method must be {names}, "
            "dpfast.optimize.Newton(...), dpfast.optimize.GradientDescent(...) or a "
            "dpfast.optimize.Method of your own; received "
            f"{described(method, text=True)}."
        )
    refuse_unmet_needs(chosen, objective)
    return chosen, reason


def _automatic(objective: Objective, n: int, mu: float) -> tuple[Method, str]:
    if not objective.has_curvature:
        return GradientDescent(), f"auto: {objective.curvature_refusal()}"
    noise_level = curvature_noise(objective, n, mu)
    if noise_level <= 0.5 or objective.ridge >= noise_level * objective.curvature_bound:
        return Newton(), (
            f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} is at most 0.5"
        )
    step_size = "estimated" if objective.curvature_peaks_at_zero else None
    return GradientDescent(step_size=step_size), (
        f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} exceeds 0.5"
    )
