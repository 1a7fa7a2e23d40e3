"""Choice, names and stars of the rows of a table, for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpfast.arguments import did_you_mean, names_given, real_number
from dpfast.errors import InvalidInput, described
from dpfast.inference.rendering.digits import printable

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Table

#: p values below which an estimate has one, two and three stars.
STARS = (0.1, 0.05, 0.01)


def edited(table: Table, keep: Any, drop: Any, labels: Any, stars: Any) -> Table:
    """Choose rows of coefficients, write other names, and add stars."""
    limits = _limits(stars)
    count = len(table.pvalues) or len(table.labels)
    names = table.labels[:count]
    chosen = list(range(count)) if keep is None else places(keep, names, "keep")
    left_out = places(drop, names, "drop")
    chosen = [k for k in chosen if k not in left_out]
    if chosen != list(range(count)):
        order = [*chosen, *range(count, len(table.labels))]
        table = table._replace(
            labels=tuple([table.labels[k] for k in order]),
            cells=tuple([table.cells[k] for k in order]),
            pvalues=tuple([table.pvalues[k] for k in chosen]) if table.pvalues else (),
        )
    if limits:
        table = _starred(table, limits)
    if labels is not None:
        known = checked_labels(labels, names)
        table = table._replace(labels=tuple([printable(known.get(n, n)) for n in table.labels]))
    return table


def places(asked: Any, names: Sequence[str], called: str) -> list[int]:
    """Find the rows that are called so, or are levels of a factor that is."""
    found: list[int] = []
    for name in names_given(asked, called):
        matching = [k for k, other in enumerate(names) if matches(name, other)]
        if not matching:  # a list may be cells by mistake, so it is not shown
            raise InvalidInput(
                f"{called} must be names of rows, which are {list(names)}; received "
                f"{described(asked, text=True)}{did_you_mean(name, names)}."
            )
        found += [k for k in matching if k not in found]
    return found


def matches(name: Any, coefficient: str) -> bool:
    """Return whether this is the coefficient's name, or that of the factor of which it is a level.

    Examples
    --------
    >>> from dpfast.inference.rendering.editing import matches
    >>> matches("region", "region[T.south]"), matches("C(region)", "region[T.south]")
    (True, False)
    """
    if not isinstance(name, str) or not name:
        return False
    return coefficient == name or factor_of(coefficient) == name


def factor_of(coefficient: str) -> str:
    """Return the name of a coefficient without its level; "" where it has none."""
    head, bracket, _ = coefficient.partition("[")
    return head if bracket and coefficient.endswith("]") and ":" not in coefficient else ""


def checked_labels(labels: Any, names: Sequence[str]) -> Mapping[str, str]:
    """Check labels: text for names that are there.  Keys may be cells by mistake."""
    if not isinstance(labels, Mapping) or not all(type(v) is str for v in labels.values()):
        raise InvalidInput(
            "labels must be a mapping of names to text, such as {'educ': 'Years of education'}; "
            f"received {described(labels)}."
        )
    for name in labels:
        if name not in names:
            raise InvalidInput(
                f"the keys of labels must be names of rows{did_you_mean(name, names)}; they are "
                f"{list(names)}."
            )
    return labels


def _limits(stars: Any) -> tuple[float, ...]:
    if isinstance(stars, bool):
        return STARS if stars else ()
    listed = stars if isinstance(stars, list | tuple) else [stars]
    limits = tuple([real_number(limit, "a limit of stars") for limit in listed])
    if not all(0.0 < limit < 1.0 for limit in limits) or list(limits) != sorted(limits)[::-1]:
        raise InvalidInput(
            "stars must be True, False, or p values between 0 and 1, the largest first, such as "
            "(0.05, 0.01, 0.001)."
        )
    return limits


def _starred(table: Table, limits: tuple[float, ...]) -> Table:
    """Add stars behind estimates, before an error in parentheses, and say what they mean."""
    if not table.pvalues:
        raise InvalidInput("stars need p values, and this table has none.")
    cells = [
        tuple([_with_stars(cell, k, row, limits) for k, cell in enumerate(cells)])
        for cells, row in zip(table.cells, table.pvalues, strict=False)
    ]
    meaning = ", ".join(f"{'*' * k} p < {limit:g}" for k, limit in enumerate(limits, 1))
    return table._replace(
        cells=(*cells, *table.cells[len(cells) :]),
        remark=f"{table.remark} {meaning}.".strip(),
    )


def _with_stars(cell: str, k: int, pvalues: tuple[float, ...], limits: tuple[float, ...]) -> str:
    if k >= len(pvalues) or not cell:
        return cell
    stars = "*" * sum(pvalues[k] < limit for limit in limits)
    estimate, space, error = cell.partition(" ")
    return f"{estimate}{stars}{space}{error}"
