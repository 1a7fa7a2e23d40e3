"""What a total is made of, read off the ledgers that were charged, and evaluated exactly.

Its cost is a fraction of integers (claims C9, C47, C54 and C55).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

from dpfast.errors import UnsupportedConversion
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, amount
from dpfast.privacy.decimals import written
from dpfast.privacy.ledger import Ledger


class Charge(NamedTuple):
    """One charge, in the ledger's currency: of one answer, or of several released together."""

    label: str
    spend: Budget


class Sum(NamedTuple):
    """Charges of the same records, which add up as the currency does."""

    parts: tuple[Composition, ...]


class Maximum(NamedTuple):
    """Charges of disjoint records, of which the largest counts (claim C55)."""

    label: str
    parts: tuple[Composition, ...]


class Rows(NamedTuple):
    """What one row costs, for a person with up to ``factor`` of them (claim C47)."""

    factor: int
    part: Composition


class Prepaid(NamedTuple):
    """A part of the budget that was set aside and counts in full, whatever was spent of it."""

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
    """What was charged to a ledger, and to the ledgers that its charges paid for."""
    waiting = list(ledger.parts)
    found: list[Composition] = []
    for label, spend, charged in ledger.entries:
        part = next((part for part in waiting if part[:2] == (label, spend)), None)
        if part is None:
            found.append(Charge(label, charged))
            continue
        waiting.remove(part)
        inside = tuple([composition_of(inner) for inner in part.ledgers])
        whole = Maximum("blocks of disjoint records", inside) if part.disjoint else inside[0]
        found.append(Prepaid(label, charged, whole))
    return Sum(tuple(found))


def cost(composition: Composition, currency: type[Budget]) -> tuple[Fraction, ...]:
    """What an expression costs, exactly, in what adds up: ``mu^2``, rho, epsilon (and delta)."""
    return _added(composition, currency, cost)


def _added(composition: Composition, currency: type[Budget], of: Any) -> tuple[Fraction, ...]:
    """What an expression costs where its parts cost what ``of`` says."""
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
    """What a number of a budget stands for (claim C86)."""
    return Fraction(*written(x))


def amounts(spend: Budget, currency: type[Budget]) -> tuple[Fraction, ...]:
    """A charge in what adds up in a currency; exact, but for pure DP read as Gaussian DP."""
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
    """Whether what was spent is within a total, and within each that was set aside, exactly."""
    if total is None or composition is None:
        return composition is None
    return all(
        0 <= spent <= limit
        for most, part in [(total, composition), *inner_totals(composition)]
        for spent, limit in zip(cost(part, type(most)), amounts(most, type(most)), strict=True)
    )


def iterate_parts(composition: Composition) -> Iterator[Composition]:
    """An expression and all that are inside it, however deep."""
    yield composition
    if isinstance(composition, Prepaid | Rows):
        yield from iterate_parts(composition.part)
    elif isinstance(composition, Sum | Maximum):
        for part in composition.parts:
            yield from iterate_parts(part)


def inner_totals(composition: Composition) -> list[tuple[Budget, Composition]]:
    """Each part that was set aside, however deep, with what was spent of it."""
    found = iterate_parts(composition)
    return [(part.spend, part.part) for part in found if isinstance(part, Prepaid)]


def charges(composition: Composition) -> list[Budget]:
    """Every single charge, however deep."""
    return [part.spend for part in iterate_parts(composition) if isinstance(part, Charge)]


def shares_of(total: Budget, composition: Composition) -> tuple[Fraction, ...]:
    """Exact shares of a total that an expression accounts for: of epsilon and delta, two."""
    spent = cost(composition, type(total))
    return tuple(a / b for a, b in zip(spent, amounts(total, type(total)), strict=True))


def reserved_cost(composition: Composition, currency: type[Budget]) -> tuple[Fraction, ...]:
    """As :func:`cost`, but of a part that was set aside only what was charged of it."""
    if isinstance(composition, Prepaid):
        try:
            return reserved_cost(composition.part, currency)
        except UnsupportedConversion:  # counted otherwise inside: all of it
            return cost(composition, currency)
    return _added(composition, currency, reserved_cost)


def unspent(total: Budget, composition: Composition | None) -> Budget | None:
    """What of a total was charged to no mechanism, however deep, rounded down; None if unknown."""
    kind = type(total)
    if composition is None:
        return None
    try:
        used = reserved_cost(composition, kind)
    except UnsupportedConversion:
        return None
    left = [max(Fraction(0), a - b) for a, b in zip(amounts(total, kind), used, strict=True)]
    values = [math.sqrt(part) if kind is GDP else float(part) for part in left]
    return amount(kind, *[max(0.0, math.nextafter(value, -1.0)) for value in values])


def describe_spending(total: Budget, composition: Composition) -> list[str]:
    """What a total was spent on, in words."""
    found = [f"What was spent on it ({RULES[type(total)]}):", *lines(composition)]
    spent = max(shares_of(total, composition))
    if spent < 1 - Fraction(1, 10**6):  # it stopped by released numbers (claim K4)
        found.append(f"  {float(1 - spent):.3g} of the total was promised, but not spent")
    return found


def lines(composition: Composition, indent: str = "  ") -> list[str]:
    """An expression as text, a line for each charge, or for a row of charges alike."""
    further = indent + "  "
    if isinstance(composition, Charge):
        return [f"{indent}{in_numbers(composition.spend)} for {composition.label}"]
    if isinstance(composition, Prepaid):
        head = f"{indent}{in_numbers(composition.spend)} for {composition.label}, of which:"
        return [head, *lines(composition.part, further)]
    if isinstance(composition, Rows):
        head = f"{indent}{composition.factor} times the root of this, for the rows of one person:"
        return [head, *lines(composition.part, further)]
    if isinstance(composition, Maximum):
        head = f"{indent}the largest of {len(composition.parts)} {composition.label}:"
        return [head, *(line for part in composition.parts for line in lines(part, further))]
    found = [f"{indent}sum of:"]
    for label, group in groupby(composition.parts, key=lambda part: isinstance(part, Charge)):
        if label:
            found += _charges(list(group), further)  # type: ignore[arg-type]
        else:
            found += [line for part in group for line in lines(part, further)]
    return found


def _charges(charges: list[Charge], indent: str) -> list[str]:
    found = []
    for label, group in groupby(charges, key=lambda charge: charge.label):
        spends = [charge.spend for charge in group]
        sizes = " to ".join(dict.fromkeys([in_numbers(spends[0]), in_numbers(spends[-1])]))
        times = f" ({len(spends)} times)" if len(spends) > 1 else ""
        found.append(f"{indent}{sizes} for {label}{times}")
    return found


def in_numbers(spend: Budget, equals: str = "=") -> str:
    """The numbers of a budget with their names."""
    pairs = zip(spend.fields, spend.values(), strict=True)
    return ", ".join(f"{name}{equals}{value:.6g}" for name, value in pairs)


def plain(composition: Composition) -> dict[str, Any]:
    """An expression as plain Python values (for JSON)."""
    if isinstance(composition, Charge):
        return {"charge": composition.label} | plain_spend(composition.spend)
    if isinstance(composition, Prepaid):
        inside = {"of_which": plain(composition.part)}
        return {"set_aside": composition.label} | plain_spend(composition.spend) | inside
    if isinstance(composition, Rows):
        return {"times": composition.factor, "of": plain(composition.part)}
    kind = "sum" if isinstance(composition, Sum) else "maximum"
    return {kind: [plain(part) for part in composition.parts]}


def plain_spend(spend: Budget) -> dict[str, Any]:
    """A budget as plain Python values."""
    return {"type": type(spend).__name__} | dict(zip(spend.fields, spend.values(), strict=True))


# ---- and back ------------------------------------------------------------------------------------

KINDS: dict[str, type[Budget]] = {kind.__name__: kind for kind in RULES}


def totalled(told: dict[str, Any]) -> Budget:
    """A budget from plain told, as a guarantee's dictionary has it."""
    kind = KINDS[told["type"]]
    return amount(kind, *(float(told[name]) for name in kind.fields))


def composed(told: dict[str, Any]) -> Composition:
    """An expression from plain told, as :func:`plain` made them."""
    if "charge" in told:
        return Charge(told["charge"], totalled(told))
    if "set_aside" in told:
        return Prepaid(told["set_aside"], totalled(told), composed(told["of_which"]))
    if "times" in told:
        return Rows(_whole(told["times"]), composed(told["of"]))
    if "sum" in told:
        return Sum(tuple([composed(part) for part in told["sum"]]))
    return Maximum("blocks of disjoint records", tuple(map(composed, told["maximum"])))


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("rows of a person are counted")
    return value
