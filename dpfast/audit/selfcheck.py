"""Audit of the installed package by record and replay: its curator and the most common calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpfast.audit.pairs import KINDS, neighbours
from dpfast.audit.playback import replay
from dpfast.curator import Curator, StepBudget
from dpfast.data import as_records
from dpfast.errors import InvalidInput, described
from dpfast.models import Mallows, Objective, resolve_loss
from dpfast.privacy.budget import GDP, ZCDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise

#: Records of the synthetic data sets.
N_RECORDS = 20


#: Budgets of joint answers, by their parts.
BUDGETS = {
    "gradient": StepBudget(1.0),
    "gradient + hessian": StepBudget(0.8, 0.7),
    "gradient + majorizer": StepBudget(0.8, 0.7, majorize=True),
    "gradient + meat": StepBudget(0.7, 0.0, 0.5),
}


class Example(NamedTuple):
    """Call with ``(X, y)`` of two covariates, its claimed cost, and the label of its options."""

    name: str
    label: str
    call: Callable[[Any], Any]
    binary: bool
    budget: Budget


class Checked(NamedTuple):
    """Result of one call on its neighbouring pairs."""

    #: The function, and the label of its options.
    name: str
    label: str
    #: Largest distance of exact values relative to the declared sensitivity or the charge; at most
    #: 1.
    ratio: float
    leaks: tuple[str, ...]


class SelfCheck(NamedTuple):
    """Result of :func:`self_check`."""

    calls: tuple[Checked, ...]
    pairs: int

    @property
    def passed(self) -> bool:
        return not any(call.leaks for call in self.calls)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for JSON."""
        calls = [call._asdict() | {"leaks": list(call.leaks)} for call in self.calls]
        return {"passed": self.passed, "pairs": self.pairs, "calls": calls}

    def __str__(self) -> str:
        names = sorted({call.name for call in self.calls})
        width = max((len(name) for name in names), default=0)
        lines = [f"{'function':{width}}  calls  leaks  distance / sensitivity"]
        for name in names:
            same_name = [call for call in self.calls if call.name == name]
            leaks = sum(len(call.leaks) for call in same_name)
            worst = max(call.ratio for call in same_name)
            lines.append(f"{name:{width}}  {len(same_name):5}  {leaks:5}  at most {worst:.6f}")
        lines += [
            f"LEAK in {call.name} ({call.label}): {leak}"
            for call in self.calls
            for leak in call.leaks
        ]
        verdict = "passed" if self.passed else "FAILED"
        lines.append(f"{len(self.calls)} calls, {self.pairs} neighbouring pairs each: {verdict}")
        return "\n".join(lines)


def examples() -> Iterator[Example]:
    """Yield the curator's joint answers, and the most common calls with their defaults."""
    import dpfast

    theta = np.array([0.2, -0.4, 0.3])
    for loss in ("huber", "log-cosh", "logistic"):
        binary = resolve_loss(loss).binary_response
        weighted = Objective(loss, Mallows(1.5), 2, scale=None if binary else 0.8)
        for label, budget in BUDGETS.items():

            def ask(data: Any, objective: Any = weighted, budget: Any = budget) -> Any:
                curator = Curator(as_records(*data), objective, Ledger(5.0), EntropyNoise())
                return [curator.joint(theta * length, budget) for length in (0.0, 1.0, 1e300)]

            name, label = "dpfast.curator.Curator.joint", f"{loss}, {weighted.weighting}, {label}"
            yield Example(name, label, ask, binary, GDP(3.0))

        def fit_and_summary(data: Any, objective: Any = weighted) -> Any:
            private_fit = dpfast.fit(data[0], data[1], objective, privacy=1.0)
            return private_fit, private_fit.summary()

        yield Example("dpfast.fit", loss, fit_and_summary, binary, GDP(1.0))

    def minimum(data: Any) -> Any:
        objective = Objective("tukey", scale=0.8)
        return dpfast.minimize(data[0], data[1], objective, privacy=ZCDP(0.5)).summary()

    def squares(data: Any) -> Any:
        return dpfast.fit(data[0], data[1], "least-squares", privacy=40.0).summary()

    def levels(data: Any) -> Any:
        return dpfast.private_quantiles(data[1], (0.2, 0.6), low=-2.0, high=2.0, privacy=1.0)

    yield Example("dpfast.fit", "least-squares", squares, False, GDP(40.0))
    yield Example("dpfast.minimize", "tukey", minimum, False, ZCDP(0.5))
    yield Example("dpfast.private_quantiles", "", levels, False, GDP(1.0))


def self_check(
    *,
    pairs: int = 1,
    only: str | None = None,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SelfCheck:
    """Replay calls of the curator and of public functions on synthetic neighbours."""
    if not 1 <= pairs <= len(KINDS):
        raise InvalidInput(f"pairs must lie in [1, {len(KINDS)}]; received {described(pairs)}.")
    chosen = [e for e in examples() if only is None or only in f"{e.name} {e.label}"]
    if quick:
        chosen = list({example.name: example for example in reversed(chosen)}.values())
    if not chosen:
        raise InvalidInput(
            f"no audited call contains {described(only, text=True)} in its name or options."
        )
    grid = np.arange(1.0, N_RECORDS + 1.0)
    X = np.column_stack([np.sin(3.0 * grid), np.cos(7.0 * grid)])  # irregular, but deterministic
    responses = {False: X[:, 0] - X[:, 1] + np.sin(grid), True: np.asarray(X[:, 0] > 0, float)}
    checked = []
    for i, example in enumerate(chosen):
        pairs_of_data = neighbours(X, responses[example.binary])
        leaks: list[str] = []
        ratio = 0.0
        for j in range(pairs):
            kind = KINDS[(i * 5 + j + 2) % len(KINDS)]  # 5 and 14 have no common divisor
            report = replay(example.call, *pairs_of_data[kind], budget=example.budget)
            leaks += [f"{kind}: {leak}" for leak in report.leaks]
            ratio = max(ratio, report.worst_joint, *(w.ratio for w in report.worst.values()), 0.0)
        checked.append(Checked(example.name, example.label, ratio, tuple(leaks)))
        if progress is not None:
            progress(i + 1, len(chosen))
    return SelfCheck(tuple(checked), pairs)
