"""Record and replay: check that a result depends on paid answers and public values alone."""

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
from dpfast.curator.noisy_release import Choice, Release
from dpfast.privacy.budget import GDP, ApproxDP, Budget, PureDP, as_budget

#: False-alarm probability of the test of the noise's size.
NOISE_ALARM = 1e-12

#: Relative rounding error of the distances.
ROUNDING = 1e-13


def replay(
    fn: Callable[[Any], Any], data: Any, neighbour: Any, *, budget: Budget | float | None = None
) -> ReplayReport:
    """Run on one data set, replay on a neighbour with the same answers, and compare everything.

    A mechanism is private if its result depends on records through noisy answers only, and each
    answer moved by at most its declared sensitivity.  ``fn`` runs three times.  The first run, on
    ``data``, records every answer of a Curator.  The second, on ``data`` again, uses the recorded
    answers instead of new ones, and must reproduce the first.  The third, on ``neighbour``, uses
    the same answers.  In that run only the exact values behind the answers may differ.

    Parameters
    ----------
    fn : callable
        ``fn(data)`` runs public functions of dpfast on a data set.  It must create its own
        ledgers, seeded noise and other state, because it is called several times.
    data, neighbour : tuple, array or table
        Two data sets of the same length that differ in one record; see
        :func:`dpfast.audit.neighbours`.
    budget : budget or float, optional
        Total that ``fn`` claims to spend; a float is mu.

    Returns
    -------
    ReplayReport
        Its ``leaks`` name every difference.  These are another sequence of questions, charges or
        lines of Python; other questions, shapes, noise scales, sensitivities or budgets; other
        exceptions, warnings or results (bit for bit).  Further leaks are an exact value that moved
        by more than its declared sensitivity, and a release without a charge.  So are joint
        releases that moved by more than their charge covers, and noise smaller than declared.

    Notes
    -----
    One pair of data sets and one draw of the answers are examined; a pass is evidence for these,
    not a proof.  A test and release may fail with a probability that its delta covers: use seeded
    noise for it.  Lines are traced with ``sys.settrace``, so a debugger is suspended meanwhile.

    Secret choices, such as a sample of the records or folds, are recorded and are the same in all
    runs.  Given a sample of m records, an answer about it may move by the sensitivity of m records,
    for which it is charged: no amplification by sampling is claimed (C85).  A record outside of the
    sample moves no such answer, so try several records.

    In Arrow text and categories each different label is read once.  Data sets with different
    numbers of labels therefore run different lines.  That is running time, which is not protected.
    Replace a label that occurs once by another that occurs once.

    Privacy
    -------
    None: it reads the exact values behind every answer.

    Examples
    --------
    >>> pair = dpfast.audit.neighbours(np.linspace(-1.0, 1.0, 50)[:, None], np.zeros(50), "flipped")
    >>> fit = lambda data: dpfast.fit(*data, dpfast.Objective("huber", scale=1.0), privacy=1.0)
    >>> dpfast.audit.replay(fit, *pair).passed
    True
    """
    record = check_neighbours(data, neighbour)
    first = perform(fn, data, None)
    repeated = perform(fn, data, first.events)
    leaks = _reproduction(first, repeated)
    on_neighbour = repeated
    if not leaks:
        on_neighbour = perform(fn, neighbour, first.events)
        leaks = _divergences(repeated, on_neighbour)
        if leaks:
            # the callable itself may have changed: state between calls can show only now
            leaks = _reproduction(first, perform(fn, data, first.events)) or leaks
    groups = _groups(first.events, on_neighbour.events)
    distances = _distances(groups)
    leaks += distances.leaks + _unpaid(groups) + _noise_leaks(groups)
    leaks += _blocks_moved(first, on_neighbour)
    mu = _composition(first, groups)
    if budget is not None:
        allowed = GDP.within(as_budget(budget)).mu
        if not mu <= allowed * (1.0 + ROUNDING):
            leaks.append(f"the answers compose to mu = {mu!r}, above the claimed {allowed!r}")
    return ReplayReport(
        leaks=tuple(leaks),
        n_answers=sum(len(group.answers) for group in groups),
        n_charges=sum(isinstance(event, Charged) for event in first.events),
        n_lines=len(on_neighbour.lines),
        record=record,
        mu=mu,
        worst=distances.worst,
        worst_joint=distances.worst_joint,
        used=distances.total / mu if mu else 0.0,
    )


# ---- parts that must be equal --------------------------------------------------------------------


def _reproduction(first: Recorded, repeated: Recorded) -> list[str]:
    """List differences between two runs on the same data with the same answers."""
    difference = (
        repeated.divergence
        or _outcome_difference(first, repeated)
        or _value_difference(first, repeated)
    )
    if not difference:
        return []
    return [
        "on the SAME data with the same answers the callable did something else, so it is not a "
        "function of its answers: noise drawn outside a Curator, a sample or randomness of its "
        "own, the clock, or state kept between calls (a shared ledger belongs inside the "
        f"callable): {difference}"
    ]


def _value_difference(first: Recorded, repeated: Recorded) -> str | None:
    """Return the first difference between the exact values behind two runs' answers."""
    pairs = zip(first.events, repeated.events, strict=True)
    for number, (recorded, replayed) in enumerate(pairs):
        if isinstance(recorded, Answered) and isinstance(replayed, Answered):
            path = f"exact value of event {number} ({recorded.release.query})"
            if mismatch := first_difference(recorded.release.value, replayed.release.value, path):
                return mismatch
    return None


def _divergences(repeated: Recorded, on_neighbour: Recorded) -> list[str]:
    leaks = []
    if on_neighbour.divergence:
        leaks.append(f"the sequence of questions depends on the record: {on_neighbour.divergence}")
    line = _line_difference(repeated.lines, on_neighbour.lines)
    if line:
        leaks.append(f"control flow depends on the record: {line}")
    if repeated.warnings != on_neighbour.warnings:
        leaks.append(
            f"warnings depend on the record: {repeated.warnings!r} and {on_neighbour.warnings!r}"
        )
    if not on_neighbour.divergence:
        outcome = _outcome_difference(repeated, on_neighbour)
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
    for line, other_line in zip_longest(a, b):
        if line != other_line:
            return f"after {_source(before)}: {_source(line)} or {_source(other_line)}"
        before = line
    return None


def _source(line: tuple[str, int] | None) -> str:
    if line is None:
        return "the end"
    if not line[1]:
        return "the start"
    file, number = line
    text = linecache.getline(file, number).strip()
    return f"{file.rsplit('/', 2)[-1]}:{number} `{text}`"


# ---- parts that may differ, within bounds --------------------------------------------------------


def _length(value: NDArray[Any]) -> float:
    """Return the l2 (Frobenius) norm without overflow and underflow; NaN counts as infinite."""
    largest = float(np.max(np.abs(value), initial=0.0))
    if not largest < math.inf:
        return math.inf
    if largest == 0.0:
        return 0.0
    with np.errstate(all="ignore"):  # NumPy 1.26 warns about vector lanes that it does not use
        return largest * math.sqrt(float(np.sum((value / largest) ** 2)))


def _covered(charge: Charged) -> float:
    """Return the mu that a charge pays for; infinite for a sequence paid in advance."""
    budget = as_budget(charge.spend)
    if isinstance(budget, ApproxDP):
        return math.inf
    return (budget.as_gdp() if isinstance(budget, PureDP) else GDP.within(budget)).mu


class Group(NamedTuple):
    """Answers that one charge has to cover, in both runs."""

    charge: Charged | None
    #: Number among all answers, the answer, and the other run's answer there, if any.
    answers: list[tuple[int, Answered, Answered | None]]


def _groups(first: list[Event], on_neighbour: list[Event]) -> list[Group]:
    """Group answers by the charge before them."""
    groups, count = [Group(None, [])], 0
    for recorded, replayed in zip_longest(first, on_neighbour[: len(first)]):
        if isinstance(recorded, Charged):
            groups.append(Group(recorded, []))
        elif isinstance(recorded, Answered):
            groups[-1].answers.append(
                (count, recorded, replayed if isinstance(replayed, Answered) else None)
            )
            count += 1
    return groups


class Distances(NamedTuple):
    """Movements of exact values between the two data sets."""

    worst: dict[str, Worst]
    #: Largest movement of a joint release, relative to its charge.
    worst_joint: float
    #: Movement of all joint releases together, in units of their noise.
    total: float
    leaks: list[str]


def _distances(groups: list[Group]) -> Distances:
    """Compare every movement with its sensitivity, its noise and its charge."""
    leaks: list[str] = []
    worst: dict[str, Worst] = {}
    worst_joint, total = 0.0, 0.0
    for charge, members in groups:
        squared = 0.0
        for number, recorded, replayed in members:
            if replayed is None or recorded.release.value.shape != replayed.release.value.shape:
                continue  # reported as a divergence
            leaks += _movement_leaks(number, recorded.release, replayed.release, worst)
            distance = _moved(recorded.release, replayed.release)
            squared += (distance / recorded.release.noise_scale) ** 2
        if not members or charge is None:
            continue
        joint = math.sqrt(squared) / _covered(charge)
        total = math.hypot(total, math.sqrt(squared))
        worst_joint = max(worst_joint, joint)
        if not joint <= 1.0 + ROUNDING:
            leaks.append(
                f"the joint release for {charge.label!r} moved by {joint!r} times what its "
                f"charge {charge.spend!r} covers"
            )
    return Distances(worst, worst_joint, total, leaks)


def _moved(recorded: Release, replayed: Release) -> float:
    """Return the distance of two exact values; the largest one of a choice's scores."""
    difference = recorded.value - replayed.value
    if isinstance(recorded, Choice):
        return max(map(_length, difference[:, None]))
    return _length(difference)


def _movement_leaks(
    number: int, recorded: Release, replayed: Release, worst: dict[str, Worst]
) -> list[str]:
    """List the leaks of one answer, and update the worst movement of its query."""
    leaks = []
    name = f"answer {number} ({recorded.query})"
    sensitivity = recorded.l2_sensitivity
    if not (np.isfinite(recorded.value).all() and np.isfinite(replayed.value).all()):
        leaks.append(f"{name}: an exact value is not finite")
    distance = _moved(recorded, replayed)
    ratio = distance / sensitivity
    if recorded.query not in worst or ratio > worst[recorded.query].ratio:
        worst[recorded.query] = Worst(ratio, distance, sensitivity, number)
    if not ratio <= 1.0 + ROUNDING:
        leaks.append(
            f"{name}: the exact values are {distance!r} apart, more than the declared "
            f"sensitivity {sensitivity!r}"
        )
    if not sensitivity <= recorded.mu * recorded.noise_scale * (1.0 + ROUNDING):
        leaks.append(
            f"{name}: noise scale {recorded.noise_scale!r} is too small for mu "
            f"{recorded.mu!r} at sensitivity {sensitivity!r}"
        )
    return leaks


def _unpaid(groups: list[Group]) -> list[str]:
    """List releases whose charge is missing, too small or of another label."""
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
    # a sequence paid in advance has the names of its parts in its label
    named = label in charge.label if covered == math.inf else label == charge.label
    return named and cost <= covered


def _noise_leaks(groups: list[Group]) -> list[str]:
    """Test the total energy of the noise against its declared scale."""
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
        if value.dtype.kind == "i":  # integer noise can be exactly zero
            noise = np.where(noise == 0.0, 0.5, noise)
        energy += (_length(noise) / event.release.noise_scale) ** 2
        size = value.shape[0] if value.ndim else 1
        # a symmetric matrix has p (p + 1) / 2 coordinates in an orthonormal basis
        coordinates += size if value.ndim < 2 else size * (size + 1) // 2
    if not coordinates or gammainc(coordinates / 2.0, energy / 2.0) >= NOISE_ALARM:
        return []
    return [
        f"the noise of {coordinates} released coordinates has root mean square "
        f"{math.sqrt(energy / coordinates):.3g} in units of its announced scale"
    ]


def _composition(run: Recorded, groups: list[Group]) -> float:
    """Compose the mu of every answer; a group counts its largest requested mu (claim C55)."""
    squares: list[float] = []
    blocks: dict[int, list[float]] = {block: [] for block in run.dealings}
    for charge, members in groups:
        if members and not (charge is not None and _covered(charge) == math.inf):
            group_squares = squares if charge is None else blocks.get(charge.ledger, squares)
            group_squares.append(max(answer.question[1] for _, answer, _ in members) ** 2)
    for dealing in set(run.dealings.values()):
        spent = [
            squares_of_block
            for block, squares_of_block in blocks.items()
            if run.dealings[block] == dealing
        ]
        squares.append(max(map(math.fsum, spent)))
    return math.sqrt(math.fsum(squares))


def _blocks_moved(first: Recorded, on_neighbour: Recorded) -> list[str]:
    """List partitions with answers about several blocks that moved: those blocks share a record."""
    moved: dict[int, set[int]] = {}
    for charge, members in _groups(first.events, on_neighbour.events):
        if charge is None or charge.ledger not in first.dealings:
            continue
        for _, recorded, replayed in members:
            if replayed and not np.array_equal(recorded.release.value, replayed.release.value):
                moved.setdefault(first.dealings[charge.ledger], set()).add(charge.ledger)
    return [
        f"the record moves answers about {len(blocks)} blocks of one dealing"
        for blocks in moved.values()
        if len(blocks) > 1
    ]
