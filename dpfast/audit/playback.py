"""Record and replay: is a result a function of the paid answers and public values alone?"""

from __future__ import annotations

import linecache
import math
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.audit.comparison import check_neighbours, first_difference
from dpfast.audit.report import ReplayReport, Worst
from dpfast.audit.transcript import Answered, Charged, Event, Recorded, perform
from dpfast.curator.noisy_release import Choice
from dpfast.privacy.budget import GDP, ApproxDP, Budget, PureDP, as_budget

#: False-alarm probability of the check that the noise handed out has the announced size.
NOISE_ALARM = 1e-12

#: Relative rounding of the distances computed here.
ROUNDING = 1e-13


def replay(
    fn: Callable[[Any], Any], data: Any, neighbour: Any, *, budget: Budget | float | None = None
) -> ReplayReport:
    """Run on one data set, replay on a neighbour with the answers frozen, and compare everything.

    A mechanism is private if its result depends on records through noisy answers only, each of
    which moved by at most its declared sensitivity.  ``fn`` is run on ``data``, recording what
    every Curator answers; on ``data`` again with those answers handed out instead of drawn, which
    must reproduce the first run; and on ``neighbour`` with the same answers.  In that last run
    nothing may differ but the exact values behind the answers.

    Parameters
    ----------
    fn : callable
        ``fn(data)`` runs public functions of dpfast on a data set.  Ledgers, seeded noise
        and other state belong inside it: it is called several times.
    data, neighbour : tuple, array or table
        Two data sets of the same length that differ in one record; see
        :func:`dpfast.audit.neighbours`.
    budget : budget or float, optional
        What ``fn`` claims to spend in total; a float is mu.

    Returns
    -------
    ReplayReport
        Its ``leaks`` name: another sequence of questions, charges or lines of Python; other
        questions, shapes, noise scales, sensitivities or budgets; other exceptions, warnings or
        results (bit for bit); an exact value that moved by more than its declared sensitivity;
        a release that was not charged, or whose quantities together moved by more than the
        charge covers; noise smaller than announced.

    Notes
    -----
    One pair of data sets and one draw of the answers are examined; a pass is evidence for these,
    not a proof.  A test and release may fail with a probability its delta covers: pass it seeded
    noise.  Lines are traced with ``sys.settrace``, so a debugger is suspended meanwhile.

    Secret choices, as of a sample of the records or of folds, are recorded and are the same in
    all runs.  Given a sample of m records, an answer about it may move by the sensitivity of m
    records, for which it is charged: no amplification by sampling is claimed (C85).  A record
    outside of the sample moves no such answer, so try several records.

    Of text in Arrow and of categories each different label is read once: data sets with another
    number of labels take other lines, which is time and no part of the promise.  Replace a label
    that occurs once by another that does.

    Privacy
    -------
    None: the exact values behind every answer are looked at.

    Examples
    --------
    >>> pair = dpfast.audit.neighbours(np.linspace(-1.0, 1.0, 50)[:, None], np.zeros(50), "flipped")
    >>> fit = lambda data: dpfast.fit(*data, dpfast.Objective("huber", scale=1.0), privacy=1.0)
    >>> dpfast.audit.replay(fit, *pair).passed
    True
    """
    record = check_neighbours(data, neighbour)
    first = perform(fn, data, None)
    again = perform(fn, data, first.events)
    leaks = _reproduction(first, again)
    other = again
    if not leaks:
        other = perform(fn, neighbour, first.events)
        leaks = _divergences(again, other)
        if leaks:
            # Unless it is the callable that changed: state kept between calls may show only now.
            leaks = _reproduction(first, perform(fn, data, first.events)) or leaks
    groups = _groups(first.events, other.events)
    worst, worst_joint, whole, found = _distances(groups)
    leaks += found + _unpaid(groups) + _noise_leaks(groups)
    leaks += _blocks_moved(first, other)
    mu = _composition(first, groups)
    if budget is not None:
        allowed = GDP.within(as_budget(budget)).mu
        if not mu <= allowed * (1.0 + ROUNDING):
            leaks.append(f"the answers compose to mu = {mu!r}, above the claimed {allowed!r}")
    return ReplayReport(
        leaks=tuple(leaks),
        n_answers=sum(len(group.answers) for group in groups),
        n_charges=sum(isinstance(event, Charged) for event in first.events),
        n_lines=len(other.lines),
        record=record,
        mu=mu,
        worst=worst,
        worst_joint=worst_joint,
        used=whole / mu if mu else 0.0,
    )


# ---- what may not differ -------------------------------------------------------------------------


def _reproduction(first: Recorded, again: Recorded) -> list[str]:
    """Differences between two runs on the same data with the same answers."""
    found = again.divergence or _outcome_difference(first, again) or _other_values(first, again)
    if not found:
        return []
    return [
        "on the SAME data with the same answers the callable did something else, so it is not a "
        "function of its answers: noise drawn outside a Curator, a sample or randomness of its "
        "own, the clock, or state kept between calls (a shared ledger belongs inside the "
        f"callable): {found}"
    ]


def _other_values(first: Recorded, again: Recorded) -> str | None:
    """The first answer that has another exact value behind it."""
    pairs = zip(first.events, again.events, strict=True)
    for number, (left, right) in enumerate(pairs):
        if isinstance(left, Answered) and isinstance(right, Answered):
            path = f"exact value of event {number} ({left.release.query})"
            if found := first_difference(left.release.value, right.release.value, path):
                return found
    return None


def _divergences(again: Recorded, other: Recorded) -> list[str]:
    leaks = []
    if other.divergence:
        leaks.append(f"the sequence of questions depends on the record: {other.divergence}")
    line = _line_difference(again.lines, other.lines)
    if line:
        leaks.append(f"control flow depends on the record: {line}")
    if again.warnings != other.warnings:
        leaks.append(f"warnings depend on the record: {again.warnings!r} and {other.warnings!r}")
    if not other.divergence:
        outcome = _outcome_difference(again, other)
        if outcome:
            leaks.append(f"the outcome depends on the record: {outcome}")
    return leaks


def _outcome_difference(a: Recorded, b: Recorded) -> str | None:
    if a.returned and b.returned:
        return first_difference(a.outcome, b.outcome)
    if a.returned or b.returned:
        raised = b.outcome if a.returned else a.outcome
        return f"one run raised {raised!r} and the other did not"
    if type(a.outcome) is not type(b.outcome):
        return f"exceptions {a.outcome!r} and {b.outcome!r}"
    return first_difference(a.outcome.args, b.outcome.args, f"{type(a.outcome).__name__} arguments")


def _line_difference(a: list[tuple[str, int]], b: list[tuple[str, int]]) -> str | None:
    if a == b:
        return None
    before = ("", 0)
    for left, right in zip_longest(a, b):
        if left != right:
            return f"after {_source(before)}: {_source(left)} or {_source(right)}"
        before = left
    return None


def _source(line: tuple[str, int] | None) -> str:
    if line is None:
        return "the end"
    if not line[1]:
        return "the start"
    file, number = line
    text = linecache.getline(file, number).strip()
    return f"{file.rsplit('/', 2)[-1]}:{number} `{text}`"


# ---- what may differ, and by how much ------------------------------------------------------------


def _length(value: NDArray[Any]) -> float:
    """l2 (Frobenius) norm that neither overflows nor underflows; NaN counts as infinite."""
    largest = float(np.max(np.abs(value), initial=0.0))
    if not largest < math.inf:
        return math.inf
    if largest == 0.0:
        return 0.0
    with np.errstate(all="ignore"):  # NumPy 1.26 divides by subnormal numbers in lanes it drops
        return largest * math.sqrt(float(np.sum((value / largest) ** 2)))


def _covered(charge: Charged) -> float:
    """The mu that a charge pays for; infinite for a sequence paid for in advance."""
    budget = as_budget(charge.spend)
    if isinstance(budget, ApproxDP):
        return math.inf
    return (budget.as_gdp() if isinstance(budget, PureDP) else GDP.within(budget)).mu


class Group(NamedTuple):
    """The answers that one charge has to cover, in both runs."""

    charge: Charged | None
    #: Number among all answers, the answer, and that of the other run at its place if there is one.
    answers: list[tuple[int, Answered, Answered | None]]


def _groups(first: list[Event], other: list[Event]) -> list[Group]:
    """Answers by the charge that precedes them."""
    groups, count = [Group(None, [])], 0
    for left, right in zip_longest(first, other[: len(first)]):
        if isinstance(left, Charged):
            groups.append(Group(left, []))
        elif isinstance(left, Answered):
            groups[-1].answers.append((count, left, right if isinstance(right, Answered) else None))
            count += 1
    return groups


def _distances(groups: list[Group]) -> tuple[dict[str, Worst], float, float, list[str]]:
    leaks: list[str] = []
    worst: dict[str, Worst] = {}
    worst_joint, whole = 0.0, 0.0
    for charge, members in groups:
        squared = 0.0
        for number, left, right in members:
            release = left.release
            if right is None or release.value.shape != right.release.value.shape:
                continue  # reported as a divergence
            name, sensitivity = f"answer {number} ({release.query})", release.l2_sensitivity
            if not (np.isfinite(release.value).all() and np.isfinite(right.release.value).all()):
                leaks.append(f"{name}: an exact value is not finite")
            moved = release.value - right.release.value
            chosen = isinstance(release, Choice)
            distance = max(map(_length, moved[:, None])) if chosen else _length(moved)
            ratio = distance / sensitivity
            if release.query not in worst or ratio > worst[release.query].ratio:
                worst[release.query] = Worst(ratio, distance, sensitivity, number)
            if not ratio <= 1.0 + ROUNDING:
                leaks.append(
                    f"{name}: the exact values are {distance!r} apart, more than the declared "
                    f"sensitivity {sensitivity!r}"
                )
            if not sensitivity <= release.mu * release.noise_scale * (1.0 + ROUNDING):
                leaks.append(
                    f"{name}: noise scale {release.noise_scale!r} is too small for mu "
                    f"{release.mu!r} at sensitivity {sensitivity!r}"
                )
            squared += (distance / release.noise_scale) ** 2
        if not members or charge is None:
            continue
        joint, whole = math.sqrt(squared) / _covered(charge), math.hypot(whole, math.sqrt(squared))
        worst_joint = max(worst_joint, joint)
        if not joint <= 1.0 + ROUNDING:
            leaks.append(
                f"what was released together for {charge.label!r} moved by {joint!r} times what "
                f"its charge {charge.spend!r} covers"
            )
    return worst, worst_joint, whole, leaks


def _unpaid(groups: list[Group]) -> list[str]:
    """Releases without a charge of their own, of the announced size, before them."""
    leaks = []
    for charge, members in groups:
        for _, answer, _ in members:
            label, cost = answer.question[:2]
            if not _pays(charge, label, cost):
                leaks.append(
                    f"{answer.release.query!r} was released for {label!r} at mu {cost!r}, but the "
                    f"last charge was {charge!r}"
                )
        if charge is None or _covered(charge) < math.inf:
            queries = Counter(answer.release.query for _, answer, _ in members)
            leaks += [
                f"{query!r} was released more than once for one charge"
                for query in sorted(queries)
                if queries[query] > 1
            ]
    return leaks


def _pays(charge: Charged | None, label: str, cost: float) -> bool:
    if charge is None or charge.outcome != "charged":
        return False
    covered = _covered(charge)
    # A sequence paid for in advance names what it consists of.
    named = label in charge.label if covered == math.inf else label == charge.label
    return named and cost <= covered


def _noise_leaks(groups: list[Group]) -> list[str]:
    """Whether the noise handed out is as large as announced, by its total energy."""
    from scipy.special import gammainc

    energy, coordinates = 0.0, 0
    for event in (answer for group in groups for _, answer, _ in group.answers):
        if isinstance(event.release, Choice):
            continue
        value, out = event.release.value, np.asarray(event.handed_out)
        if out.shape != value.shape:
            return [
                f"answer {event.release.query!r} has shape {out.shape}, its value {value.shape}"
            ]
        noise = np.asarray(out - value, dtype=float)
        if value.dtype.kind == "i":  # integer noise is exactly zero now and then
            noise = np.where(noise == 0.0, 0.5, noise)
        energy += (_length(noise) / event.release.noise_scale) ** 2
        size = value.shape[0] if value.ndim else 1
        # A symmetric matrix has p (p + 1) / 2 coordinates in an orthonormal basis.
        coordinates += size if value.ndim < 2 else size * (size + 1) // 2
    if not coordinates or gammainc(coordinates / 2.0, energy / 2.0) >= NOISE_ALARM:
        return []
    return [
        f"the noise of {coordinates} released coordinates has root mean square "
        f"{math.sqrt(energy / coordinates):.3g} in units of its announced scale"
    ]


def _composition(run: Recorded, groups: list[Group]) -> float:
    """Mu of everything answered: each group of answers counts what it was asked for (claim C55)."""
    squares: list[float] = []
    blocks: dict[int, list[float]] = {block: [] for block in run.dealings}
    for charge, members in groups:
        if members and not (charge is not None and _covered(charge) == math.inf):
            own = squares if charge is None else blocks.get(charge.ledger, squares)
            own.append(max(answer.question[1] for _, answer, _ in members) ** 2)
    for dealing in set(run.dealings.values()):
        spent = [found for block, found in blocks.items() if run.dealings[block] == dealing]
        squares.append(max(map(math.fsum, spent)))
    return math.sqrt(math.fsum(squares))


def _blocks_moved(first: Recorded, other: Recorded) -> list[str]:
    """Whether answers about more than one block of a dealing moved: they share a record."""
    moved: dict[int, set[int]] = {}
    for charge, members in _groups(first.events, other.events):
        if charge is None or charge.ledger not in first.dealings:
            continue
        for _, left, right in members:
            if right and not np.array_equal(left.release.value, right.release.value):
                moved.setdefault(first.dealings[charge.ledger], set()).add(charge.ledger)
    return [
        f"the record moves answers about {len(blocks)} blocks of one dealing"
        for blocks in moved.values()
        if len(blocks) > 1
    ]
