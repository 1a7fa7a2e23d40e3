"""What a plot of estimates draws: names, estimates and intervals of results of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.inference.base import Result
from dpfast.inference.rendering.editing import checked_labels, places
from dpfast.plots.figures import matplotlib_figure

#: Columns of a frame that an estimate with an interval has.
COLUMNS = ("term", "estimate", "conf_low", "conf_high")

DRAWN = (
    "what is drawn are fits of dpfast.fit or other results with names and intervals, alone, in a "
    "list, or in a mapping of labels to them; received {received}."
)


class Estimate(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def labelled(results: Any, level: float) -> dict[str, dict[str, Estimate]]:
    """Read results as estimates by name, by the label of each result."""
    if isinstance(results, Mapping):
        pairs = list(results.items())
    elif type(results) in (list, tuple):  # headed as dpfast.compare heads them
        pairs = [(f"({k})", result) for k, result in enumerate(results, 1)]
    else:
        pairs = [("", results)]
    if not pairs:
        raise InvalidInput("no result was passed: pass one, or a mapping of labels to results.")
    found: dict[str, dict[str, Estimate]] = {}
    for label, result in pairs:
        for part, estimates in _parts(result, level, results):
            found[", ".join(filter(None, (str(label), part)))] = estimates
    return found


def _parts(result: Any, level: float, given: Any) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """Iterate over the fits, levels or rows of a result, with their estimates by name."""
    if not isinstance(result, Result):
        matplotlib_figure()  # without it nothing is drawn, whatever it is
        raise InvalidInput(DRAWN.format(received=described(given)))
    fit: Any = result
    if getattr(fit, "_covariance", False) is None:
        fit.cov_params()  # refuses, in its words
    columns = result._columns(level)
    if not {*COLUMNS} <= {*columns}:
        raise InvalidInput(DRAWN.format(received=described(result)))
    others = [name for name in columns if name in _of_part(result)]
    keys = list(zip(*[columns[name] for name in others], strict=True)) if others else []
    rows = list(zip(*[columns[name] for name in COLUMNS], strict=True))
    for key in dict.fromkeys(keys) if keys else [()]:
        part = ", ".join(f"{n} {_short(v)}" for n, v in zip(others, key, strict=True))
        chosen = [row for k, row in enumerate(rows) if not keys or keys[k] == key]
        yield (
            part if len(set(keys)) > 1 else "",
            {str(term): Estimate(*map(float, numbers)) for term, *numbers in chosen},
        )


def _of_part(result: Any) -> tuple[str, ...]:
    """Name the columns that tell parts of a result apart: the levels, tau, or the public row."""
    return tuple([name for name in (getattr(result, "by", ""), "tau", "row") if type(name) is str])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def chosen_names(found: Mapping[str, Mapping[str, Estimate]], keep: Any, drop: Any) -> list[str]:
    """Choose names of any result, in the order of their first occurrence or of ``keep``."""
    names = list(dict.fromkeys(name for estimates in found.values() for name in estimates))
    kept = names if keep is None else [names[k] for k in places(keep, names, "keep")]
    dropped = {names[k] for k in places(drop, names, "drop")}
    chosen = [name for name in kept if name not in dropped]
    if not chosen:
        raise InvalidInput(f"nothing is left to draw: the names are {names}.")
    return chosen


def renamed(names: Sequence[str], labels: Mapping[str, str] | None) -> list[str]:
    """Write the labels of names, where there are some."""
    checked = checked_labels({} if labels is None else labels, names)
    return [checked.get(name, name) for name in names]
