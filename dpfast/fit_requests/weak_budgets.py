"""Warnings about budgets that promise next to nothing."""

from __future__ import annotations

import warnings
from typing import Any

from dpfast.errors import BudgetWarning, described, stack_level
from dpfast.privacy.budget import GDP, ApproxDP, Budget, as_budget

#: Epsilon above which a call warns: odds may change by exp(20), which protects nobody.
WEAK_EPSILON = 20.0

#: Delta at which the epsilon of a mu is given, and the mu whose epsilon there is the weak one.
USUAL_DELTA, WEAK_MU = 1e-6, 3.2353


def warn_if_weak(privacy: Any, n: int, asked: Budget | None = None) -> None:
    """Warn of a large epsilon or mu, and of a delta that allows to publish a record.

    ``asked`` is the budget that ``privacy`` stands for, if it was read before.
    """
    requested = as_budget(privacy) if asked is None else asked
    if isinstance(requested, GDP):
        _warn_of_mu(requested.mu, privacy)
    if not isinstance(requested, ApproxDP):
        return
    epsilon, delta = requested.values()
    if delta * n >= 1.0:
        warnings.warn(
            f"delta = {delta:g} is at least 1/n = {1.0 / n:.2g}: publishing one of the {n} "
            "records unchanged would keep this promise. Pass a delta far below 1/n, such as "
            f"({epsilon:g}, {0.01 / n:.0e}).",
            BudgetWarning,
            stacklevel=stack_level(),
        )
    if epsilon > WEAK_EPSILON:
        warnings.warn(
            f"epsilon = {epsilon:g} promises next to nothing: an attacker's odds may change by "
            f"a factor of exp({epsilon:g}). Common values are between 0.1 and 10.",
            BudgetWarning,
            stacklevel=stack_level(),
        )


def _warn_of_mu(mu: float, requested: Any) -> None:
    """Warn of a mu that somebody may have typed as epsilon."""
    if mu > WEAK_MU:
        warnings.warn(
            f"a mu above {WEAK_MU:.3g} promises next to nothing: that is epsilon = "
            f"{WEAK_EPSILON:g} at delta = {USUAL_DELTA:g}; received {described(requested)}. One "
            "number is the mu of Gaussian differential privacy. To give epsilon pass a pair, such "
            "as privacy=(1.0, 1e-6).",
            BudgetWarning,
            stacklevel=stack_level(),
        )
