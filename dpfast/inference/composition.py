"""Composition of the charges within a total: an expression, evaluated exactly.

Its cost is a fraction of integers (claims C9, C47, C54 and C55).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

from dpfast.errors import UnsupportedConversion
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, amount
from dpfast.privacy.decimals import written
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.ledger.book import Reserved, Returned, quanta_of


class Charge(NamedTuple):
    """A charge in the ledger's currency, for one answer or for several released together."""

    label: str
    spend: Budget


class Sum(NamedTuple):
    """Sequential composition: charges of the same records, which add up as the currency does."""

    parts: tuple[Composition, ...]


class Maximum(NamedTuple):
    """Parallel composition: of charges of disjoint records the largest counts (claim C55)."""

    label: str
    parts: tuple[Composition, ...]


class Rows(NamedTuple):
    """Group privacy: the cost for a person with up to ``factor`` rows (claim C47)."""

    factor: int
    part: Composition


class Prepaid(NamedTuple):
    """A reserved part of the budget, which counts in full even if not all of it was spent."""

    label: str
    spend: Budget
    part: Composition


Composition = Charge | Sum | Maximum | Rows | Prepaid

#: How amounts of a currency add up.
RULES: dict[type[Budget], str] = {
    GDP: "squares of mu add up",
    ZCDP: "rho adds up",
    PureDP: "epsilon adds up",
    ApproxDP: "epsilon and delta add up",
}


def composition_of(ledger: Ledger) -> Composition:
    """Read the composition off a ledger and the ledgers that its charges paid for."""
    unmatched = list(ledger.parts)
    parts: list[Composition] = []
    for entry in ledger.entries:
        label, spend = entry[:2]
        part = next((part for part in unmatched if part[:2] == (label, spend)), None)
        if part is None:
            parts.append(Charge(label, entry.paid))
            continue
        unmatched.remove(part)
        inside = tuple([composition_of(inner) for inner in part.ledgers])
        inner_composition = (
            Maximum("blocks of disjoint records", inside) if part.disjoint else inside[0]
        )
        parts.append(Prepaid(label, entry.charged, inner_composition))
    return Sum(tuple(parts))


#: Public line of a ledger: a label and a spend; for a return, the empty label, the amount and the
#: place of its reservation in the list.
PublicLine = tuple[str, Budget] | tuple[str, Budget, int]


def lines_of(ledger: Ledger) -> list[PublicLine]:
    """List the charges and returns of a ledger in their order (claim C95)."""
    lines: list[PublicLine] = []
    places: dict[str, int] = {}
    for line in ledger._current()[1]:
        if isinstance(line, Returned):
            lines.append(("", line.amount, places[line.mark]))
            continue
        if isinstance(line, Reserved):
            places[line.mark] = len(lines)
        lines.append((line[0], line[2]))
    return lines


def replay(ledger: Ledger, lines: Iterable[PublicLine]) -> None:
    """Charge and return the same in another ledger, which refuses what would not fit."""
    marks: list[str] = []
    for label, spend, *of in lines:
        if not of:
            marks.append(ledger._reserve(spend, label))
            continue
        if not isinstance(spend, GDP):
            raise UnsupportedConversion(f"only a GDP budget is returned; received {spend!r}.")
        ledger._give_back(marks[of[0]], quanta_of(spend))
        marks.append("")


def cost(composition: Composition, currency: type[Budget]) -> tuple[Fraction, ...]:
    """Add up an expression exactly, in what adds up: ``mu^2``, rho, epsilon (and delta)."""
    return _added(composition, currency, cost)


def _added(composition: Composition, currency: type[Budget], of: Any) -> tuple[Fraction, ...]:
    """Add up an expression whose parts cost ``of(part, currency)``."""
    if isinstance(composition, Charge | Prepaid):
        return amounts(composition.spend, currency)
    if isinstance(composition, Rows):
        if currency is not GDP:
            raise UnsupportedConversion("groups of rows are counted in GDP only.")
        return (composition.factor**2 * of(composition.part, currency)[0],)
    zero = (Fraction(0),) * len(currency.fields)
    columns = zip(zero, *(of(part, currency) for part in composition.parts), strict=True)
    return tuple([max(c) if isinstance(composition, Maximum) else sum(c) for c in columns])


def _exactly(x: float) -> Fraction:
    """Return the decimal that a number of a budget stands for (claim C86)."""
    return Fraction(*written(x))


def amounts(spend: Budget, currency: type[Budget]) -> tuple[Fraction, ...]:
    """Convert a charge to the unit that adds up; exact, except for pure DP as Gaussian DP."""
    if type(spend) is currency:
        power = 2 if currency is GDP else 1
        return tuple(_exactly(value) ** power for value in spend.values())
    if currency is ZCDP and isinstance(spend, GDP | PureDP):
        return (_exactly(spend.values()[0]) ** 2 / 2,)
    if currency is ApproxDP and isinstance(spend, PureDP):
        return _exactly(spend.epsilon), Fraction(0)
    if currency is GDP:
        return (_exactly(spend.as_gdp().mu) ** 2,)
    raise UnsupportedConversion(f"{spend!r} is no amount of {currency.__name__}.")


def adds_up(total: Budget | None, composition: Composition | None) -> bool:
    """Check exactly that charges are within the total, and within each reserved part."""
    if total is None or composition is None:
        return composition is None
    return all(
        0 <= spent <= limit
        for available, part in [(total, composition), *inner_totals(composition)]
        for spent, limit in zip(
            cost(part, type(available)), amounts(available, type(available)), strict=True
        )
    )


def iterate_parts(composition: Composition) -> Iterator[Composition]:
    """Iterate over an expression and all expressions inside it."""
    yield composition
    if isinstance(composition, Prepaid | Rows):
        yield from iterate_parts(composition.part)
    elif isinstance(composition, Sum | Maximum):
        for part in composition.parts:
            yield from iterate_parts(part)


def inner_totals(composition: Composition) -> list[tuple[Budget, Composition]]:
    """List each reserved part with the charges inside it."""
    expressions = iterate_parts(composition)
    return [(part.spend, part.part) for part in expressions if isinstance(part, Prepaid)]


def charges(composition: Composition) -> list[Budget]:
    """List every single charge."""
    return [part.spend for part in iterate_parts(composition) if isinstance(part, Charge)]


def shares_of(total: Budget, composition: Composition) -> tuple[Fraction, ...]:
    """Compute the exact share of a total that was spent; two shares for (epsilon, delta)."""
    spent = cost(composition, type(total))
    return tuple(a / b for a, b in zip(spent, amounts(total, type(total)), strict=True))


def reserved_cost(composition: Composition, currency: type[Budget]) -> tuple[Fraction, ...]:
    """Add up as :func:`cost`, but count only the charges inside a reserved part."""
    if isinstance(composition, Prepaid):
        try:
            return reserved_cost(composition.part, currency)
        except UnsupportedConversion:  # counted otherwise inside: all of it
            return cost(composition, currency)
    return _added(composition, currency, reserved_cost)


def unspent(total: Budget, composition: Composition | None) -> Budget | None:
    """Compute the part of a total that no mechanism was charged, rounded down; None if unknown."""
    kind = type(total)
    if composition is None:
        return None
    try:
        used = reserved_cost(composition, kind)
    except UnsupportedConversion:
        return None
    rests = [max(Fraction(0), a - b) for a, b in zip(amounts(total, kind), used, strict=True)]
    values = [math.sqrt(part) if kind is GDP else float(part) for part in rests]
    return amount(kind, *[max(0.0, math.nextafter(value, -1.0)) for value in values])


def describe_spending(total: Budget, composition: Composition) -> list[str]:
    """Describe in words what a total was spent on."""
    text = [f"What was spent on it ({RULES[type(total)]}):", *lines(composition)]
    spent = max(shares_of(total, composition))
    if spent < 1 - Fraction(1, 10**6):  # it stopped by released numbers (claim K4)
        text.append(f"  {float(1 - spent):.3g} of the total was promised, but not spent")
    return text


def lines(composition: Composition, indent: str = "  ") -> list[str]:
    """Write an expression as text, a line for each run of equal charges."""
    deeper = indent + "  "
    if isinstance(composition, Charge):
        return [f"{indent}{in_numbers(composition.spend)} for {composition.label}"]
    if isinstance(composition, Prepaid):
        head = f"{indent}{in_numbers(composition.spend)} for {composition.label}, of which:"
        return [head, *lines(composition.part, deeper)]
    if isinstance(composition, Rows):
        head = f"{indent}{composition.factor} times the root of this, for the rows of one person:"
        return [head, *lines(composition.part, deeper)]
    if isinstance(composition, Maximum):
        head = f"{indent}the largest of {len(composition.parts)} {composition.label}:"
        return [head, *(line for part in composition.parts for line in lines(part, deeper))]
    written_lines = [f"{indent}sum of:"]
    for label, group in groupby(composition.parts, key=lambda part: isinstance(part, Charge)):
        if label:
            written_lines += _charges(list(group), deeper)  # type: ignore[arg-type]
        else:
            written_lines += [line for part in group for line in lines(part, deeper)]
    return written_lines


def _charges(charges: list[Charge], indent: str) -> list[str]:
    text = []
    for label, group in groupby(charges, key=lambda charge: charge.label):
        spends = [charge.spend for charge in group]
        sizes = " to ".join(dict.fromkeys([in_numbers(spends[0]), in_numbers(spends[-1])]))
        times = f" ({len(spends)} times)" if len(spends) > 1 else ""
        text.append(f"{indent}{sizes} for {label}{times}")
    return text


def in_numbers(spend: Budget, equals: str = "=") -> str:
    """Write the numbers of a budget with their names."""
    pairs = zip(spend.fields, spend.values(), strict=True)
    return ", ".join(f"{name}{equals}{value:.6g}" for name, value in pairs)


def plain(composition: Composition) -> dict[str, Any]:
    """Convert an expression to plain Python values (for JSON)."""
    if isinstance(composition, Charge):
        return {"charge": composition.label} | plain_spend(composition.spend)
    if isinstance(composition, Prepaid):
        reserved = {"of_which": plain(composition.part)}
        return {"set_aside": composition.label} | plain_spend(composition.spend) | reserved
    if isinstance(composition, Rows):
        return {"times": composition.factor, "of": plain(composition.part)}
    kind = "sum" if isinstance(composition, Sum) else "maximum"
    return {kind: [plain(part) for part in composition.parts]}


def plain_spend(spend: Budget) -> dict[str, Any]:
    """Convert a budget to plain Python values."""
    return {"type": type(spend).__name__} | dict(zip(spend.fields, spend.values(), strict=True))


# ---- and back ------------------------------------------------------------------------------------

KINDS: dict[str, type[Budget]] = {kind.__name__: kind for kind in RULES}


def totalled(fields: dict[str, Any]) -> Budget:
    """Read a budget from the plain values that :func:`plain_spend` made."""
    kind = KINDS[fields["type"]]
    return amount(kind, *(float(fields[name]) for name in kind.fields))


def composed(fields: dict[str, Any]) -> Composition:
    """Read an expression from the plain values that :func:`plain` made."""
    if "charge" in fields:
        return Charge(fields["charge"], totalled(fields))
    if "set_aside" in fields:
        return Prepaid(fields["set_aside"], totalled(fields), composed(fields["of_which"]))
    if "times" in fields:
        return Rows(_whole(fields["times"]), composed(fields["of"]))
    if "sum" in fields:
        return Sum(tuple([composed(part) for part in fields["sum"]]))
    return Maximum("blocks of disjoint records", tuple(map(composed, fields["maximum"])))


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("rows of a person are counted")
    return value
