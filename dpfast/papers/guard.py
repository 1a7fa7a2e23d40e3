"""Our guard: adaptive descent gets the rest of the budget where a printed algorithm goes wrong."""

from __future__ import annotations

from dpfast.arguments import Array
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.descent import MIN_RHO, Path


def hand_over(
    descent: Adaptive,
    curator: GradientCurator,
    path: Path,
    origin: Array,
    min_budget: float,
    reason: str,
) -> None:
    """Spend the rest of the budget from ``origin`` on, for a method that did not go as planned.

    Parameters
    ----------
    descent : Adaptive
        Settings of the descent.
    curator : GradientCurator
        With the rest of the budget.
    path : Path
        Of that method; it is continued, and gets the reason as a remark.
    origin : ndarray of shape (p,)
        The last point at which everything went as planned; released, or public.
    min_budget : float
        With less budget than this, steps would be noise: the origin is the answer.
    reason : str
        From released and public numbers only.

    Privacy
    -------
    Post-processing of the curator's answers (claim K4).
    """
    remaining = curator.remaining
    if remaining < max(min_budget, MIN_RHO):
        path.move(origin)
        path.remarks.append(
            f"{reason}, and the budget is spent: the answer is the last point up to which all "
            "went as planned. The constants may not fit these data; adaptive descent needs none."
        )
        return
    path.append(descent.run(curator, origin))
    path.rounds[-1]["method"] = descent.name
    path.remarks.append(
        f"{reason}: adaptive descent had the remaining budget (rho = {remaining:.3g}), from "
        "the last point up to which all went as planned. The constants may not fit these data, "
        "or leave too little room for noise."
    )
