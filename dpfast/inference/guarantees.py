"""Privacy guarantees of results: every statement of them, in words or numbers, is made here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.errors import InvalidBudget, UnsupportedConversion
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, amount
from dpfast.privacy.ledger import Entry
from dpfast.privacy.noise import SIMULATION, NoiseSource, is_genuine
from dpfast.privacy.rounding import ROUNDING_PRODUCT

if TYPE_CHECKING:
    from fractions import Fraction

    from dpfast.inference.claims import ClaimTree
    from dpfast.inference.composition import Composition

RELATION = "neighbours differ in the replacement of one record; n is public"

MEANS_RELATION = (
    "neighbours differ in the replacement of one person with all their rows, however many; the "
    "number of persons is public, that of rows is not"
)

GROUP_RELATION = (
    "neighbours differ in the replacement of one person with up to {m} rows; the number of "
    "persons is public"
)

#: What is said of a fit for comparison.
NO_PRIVACY = "NONE. This fit is not private and could not be published."

#: What follows a relation where a fit is one of several that a ledger or a search paid for.
ALONE = "; this fit alone"

#: Condition of a search by losses that the caller computed for every record.
TOLD = (
    "the values told for a record depend on that record and on public or released numbers only",
)

KINDS: dict[type[Budget], str] = {
    GDP: "GDP",
    ZCDP: "zCDP",
    PureDP: "pure DP",
    ApproxDP: "(epsilon, delta)-DP",
}

#: What the answers to charges are used for; printed after the name of a charge.
PURPOSES = {
    "counts": ": centres of columns",
    "histogram of distances": ": scales of columns",
    "hessian": ": curvatures, which scale the steps",
    "histogram of lengths": ": clipping norms of rows and gradients",
    "histogram of weights": ": scale of the weights",
    "gradient": ": gradients, which give directions",
    "gradient + meat": ": gradients and their covariance",
    "gradient + histogram of lengths": ": a first gradient, and the clipping norm of the others",
}

#: Last line of a run that gave back what it did not use.
RETURNED = "  returned mu = {:.4f} to the ledger, which counts mu = {:.4f} for this run"

#: Neighbouring relations in three words, for one line.
REPLACED, PERSON_REPLACED = "one record replaced", "one person with all rows replaced"


class Guarantee(NamedTuple):
    """Privacy guarantee of a result: total, charges and neighbouring relation.

    Attributes
    ----------
    total : GDP, ZCDP, ApproxDP or None
        What is promised of everything published together, inference included; its type is the
        currency of the promise.  None for a comparison fit, which is not private.
    relation : str
        Neighbouring relation the guarantee is under.
    n : int
        Number of records, public.
    entries : tuple of (str, float)
        Each charge: what it was for, and how much, in :attr:`unit`.
    genuine : bool
        Whether the noise was genuine.  If not the promise is void, and the figures are those of the
        same run with genuine noise.
    mu : float
        A Gaussian-DP parameter that holds; NaN where none is known, ``inf`` if nothing is private.
    vouched : tuple of str
        What the promise rests on besides this library: the caller answers for it.
    expression : Composition or None
        How the charges add up to the total, where it is more than the sum of ``entries``.
    returned : GDP or None
        Part of the total that the ledger of the call has back: a run that ended by a rule on
        released values did not use it (claim C95).  The promise is of the total all the same.

    Privacy
    -------
    A statement of what was paid: costs nothing.

    Examples
    --------
    >>> from dpfast.inference.guarantees import Guarantee
    >>> noise = dpfast.privacy.EntropyNoise()
    >>> found = Guarantee.of(dpfast.GDP(1.0), noise, 500, [("a mean", 0.6)])
    >>> print(found)
    Privacy: 1-GDP in total; neighbours differ in the replacement of one record; n is public
      equivalent to (epsilon=..., delta=4e-06)-DP and (epsilon=4.887, delta=1e-06)-DP
      spent mu = 0.6000 on a mean
    >>> found.unspent, found.spent_share(), round(found.epsilon(1e-6), 3)
    (GDP(mu=0.79...), (Fraction(9, 25),), 4.887)
    """

    total: Budget | None
    relation: str
    n: int
    entries: tuple[tuple[str, float], ...]
    genuine: bool
    mu: float
    vouched: tuple[str, ...] = ()
    expression: Composition | None = None
    returned: GDP | None = None

    @classmethod
    def of(
        cls,
        total: Budget,
        noise: NoiseSource,
        n: int,
        entries: Iterable[tuple[str, float]] = (),
        *,
        mu: float = math.nan,
        relation: str = RELATION,
        vouched: tuple[str, ...] = (),
        expression: Composition | None = None,
        returned: GDP | None = None,
    ) -> Guarantee:
        """Make the guarantee of a run with this source of noise.

        Parameters
        ----------
        total : Budget
            What is promised of everything published together.
        noise : NoiseSource
            Its type decides whether the promise holds.
        n : int
            Number of records, public.
        entries : iterable of (str, float)
            Each charge and its amount, as in the attribute.
        mu : float
            A Gaussian-DP parameter that holds where the total is in another currency.
        relation : str
            Neighbouring relation.
        vouched : tuple of str
            What the caller answers for.
        expression : Composition, optional
            How the charges add up, where it is more than a sum.
        returned : GDP, optional
            What the ledger of the call has back.
        """
        if isinstance(total, GDP):
            mu = total.mu
        return cls(
            total, relation, n, tuple(entries), is_genuine(noise), mu, vouched, expression, returned
        )

    @classmethod
    def of_filter(
        cls,
        total: GDP | ZCDP,
        noise: NoiseSource,
        n: int,
        entries: Iterable[Entry],
        vouched: tuple[str, ...] = (),
        expression: Composition | None = None,
    ) -> Guarantee:
        """Make the guarantee of a ledger whose queries were chosen adaptively (claim K4).

        Where every charge was Gaussian noise a total in zCDP holds in Gaussian DP, too.  A choice
        by the exponential mechanism is zCDP only: then nothing is stated in Gaussian DP.

        Parameters
        ----------
        total : GDP or ZCDP
            The ledger's total.
        noise : NoiseSource
            Its type decides whether the promise holds.
        n : int
            Number of records, public.
        entries : iterable of Entry
            What was charged, as :attr:`dpfast.Ledger.entries` has it.
        vouched : tuple of str
            What the caller answers for.
        expression : Composition, optional
            How the charges add up, where it is more than a sum.
        """
        charges = list(entries)
        mu = math.nan
        if all(isinstance(entry.spend, GDP) for entry in charges):
            parts = [(entry.label, entry.spend.mu) for entry in charges]
            if isinstance(total, ZCDP):
                # rounded up: charges add up to at most rho exactly, hence to at most 2 rho in mu^2
                mu = math.sqrt(2.0 * total.rho) * (1.0 + ROUNDING_PRODUCT)
        else:
            parts = [(entry.label, entry.charged.rho) for entry in charges]
        return cls.of(total, noise, n, parts, mu=mu, vouched=vouched, expression=expression)

    @property
    def guarantee(self) -> str:
        """Kind of the promise, the currency of the total, or "none (...)" and why."""
        if self.total is None:
            return "none (not private)"
        return KINDS[type(self.total)] if self.genuine else SIMULATION

    @property
    def unit(self) -> str:
        """Unit of the entries, "mu" (squares add up) or "rho"."""
        return "rho" if isinstance(self.total, ZCDP) and math.isnan(self.mu) else "mu"

    @property
    def composition(self) -> Composition | None:
        """Composition of the charges; None for a comparison fit."""
        if self.total is None or self.expression is not None:
            return self.expression
        from dpfast.inference.composition import Charge, Sum

        kind = ZCDP if self.unit == "rho" else GDP
        return Sum(tuple([Charge(label, amount(kind, spent)) for label, spent in self.entries]))

    def spent_share(self) -> tuple[Fraction, ...]:
        """Compute the exact share of the total that was spent, in mu^2, rho, epsilon or delta.

        One fraction for each number of the total, at most 1; none of a comparison fit.
        """
        if self.total is None or self.composition is None:
            return ()
        from dpfast.inference.composition import shares_of

        return shares_of(self.total, self.composition)

    @property
    def unspent(self) -> Budget | None:
        """Part of the total that no mechanism was charged, in its currency; None if unknown.

        It was promised, and only :attr:`returned` is in the ledger again.  A run that ended early
        had reserved it for the rest of its plan; otherwise the plan left it over, or rounding did.
        """
        from dpfast.inference.composition import unspent

        return None if self.total is None else unspent(self.total, self.composition)

    @property
    def charged(self) -> Any:
        """Total that the ledger of the call counts, less what was returned to it."""
        return Entry("", self.total, self.total, self.returned).paid

    def epsilon(self, delta: float) -> float:
        """Compute the smallest known epsilon with (epsilon, delta)-DP, rounded up; else infinity.

        Parameters
        ----------
        delta : float
            In (0, 1).
        """
        if self.total is None:
            return math.inf
        try:
            found = self.total.as_approx(delta).epsilon
        except UnsupportedConversion:  # one pair, at a larger delta
            found = math.inf
        if not math.isnan(self.mu) and not isinstance(self.total, GDP):
            with suppress(InvalidBudget):  # mu beyond what can be expressed as (epsilon, delta)
                found = min(found, GDP(self.mu).epsilon(delta))
        return found

    def equivalents(self) -> list[tuple[float, float]]:
        """List ``(epsilon, delta)``: the promised pair, or those at ``1/n^2`` and ``1e-6``.

        Epsilon is infinite where the total is too large to have one.
        """
        if isinstance(self.total, ApproxDP):
            return [(self.total.epsilon, self.total.delta)]
        deltas = [1e-6] if self.n < 2 else [1.0 / self.n**2, 1e-6]
        try:
            return [(self.epsilon(delta), delta) for delta in deltas]
        except InvalidBudget:  # mu beyond what has a pair: a promise of nothing, still printable
            return [(math.inf, delta) for delta in deltas]

    def explain(self, delta: float = 1e-6) -> str:
        """Explain the guarantee in plain words: the best that an attacker can do.

        Parameters
        ----------
        delta : float
            For the (epsilon, delta) reading; far below ``1/n``.

        Returns
        -------
        str
            Some lines of text: the promise, how it was spent, and what the caller vouches for.
        """
        if self.total is None:
            return str(self)
        from dpfast.inference.composition import describe_spending

        text = self.total.explain(delta)
        if not self.genuine:
            text = f"Guarantee: {self.guarantee}. With genuine noise it would be:\n{text}"
        composition = self.composition
        made_of = [] if composition is None else describe_spending(self.total, composition)
        return "\n".join([text, *made_of, *self._vouched_lines()])

    def claims(self) -> ClaimTree:
        """Return the claims that the guarantee rests on, stage by stage, with their statements.

        Returns
        -------
        ClaimTree
            ``print`` it; its ``chain`` is one line, its ``claims`` have the statements.
        """
        from dpfast.inference.claims import claim_tree

        return claim_tree(self)

    def to_dict(self) -> dict[str, Any]:
        """Convert everything to plain Python values (for JSON); None where there is no number."""
        from dpfast.inference.composition import plain, plain_spend

        total = self.total
        return {
            "guarantee": self.guarantee,
            "total": None if total is None else plain_spend(total),
            "mu": self.mu if math.isfinite(self.mu) else None,
            "relation": self.relation,
            "n": self.n,
            "entries": [list(entry) for entry in self.entries],
            "entries_unit": self.unit,
            "composition": None if self.composition is None else plain(self.composition),
            "vouched": list(self.vouched),
            **({} if self.returned is None else {"returned": plain_spend(self.returned)}),
        }

    def shares(self) -> list[tuple[str, float]]:
        """Compute the share of each charge in the total, as the currency adds up.

        ``(label, share)`` in the order of the charges; shares of a run that spent all add up to 1.
        """
        if self.unit == "rho":
            assert isinstance(self.total, ZCDP)
            return [(label, amount / self.total.rho) for label, amount in self.entries]
        return [(label, (amount / self.mu) ** 2) for label, amount in self.entries]

    @property
    def headline(self) -> str:
        """The promise in a few words, its kind and its numbers, as in "GDP, mu=1"."""
        if self.total is None:
            return self.guarantee
        total = self.total
        numbers = zip(total.fields, total.values(), strict=True)
        vouched = ["if the caller is right"] * bool(self.vouched)
        return ", ".join(
            [self.guarantee, *(f"{name}={value:g}" for name, value in numbers), *vouched]
        )

    @property
    def in_one_line(self) -> str:
        """Total, one (epsilon, delta) that it implies, and the neighbouring relation."""
        if self.total is None:
            return NO_PRIVACY
        if isinstance(self.total, ApproxDP):
            epsilon, delta = self.total.values()
            return f"epsilon = {epsilon:.6g} at delta = {delta:.3g}, {self._replaced()}"
        epsilon, delta = self.equivalents()[-1]
        pair = f"epsilon = {epsilon:.4g} at delta = {delta:.1g}"
        return f"{pair} ({statement(self.total)}), {self._replaced()}"

    def _replaced(self) -> str:
        """Describe the neighbouring relation in a few words; in its own where it has some."""
        relation, alone, _ = self.relation.partition(ALONE)
        rows = re.search(r"with up to (\d+) rows", relation)
        if relation == MEANS_RELATION:
            replaced = PERSON_REPLACED
        elif rows is not None:
            replaced = f"one person with up to {rows[1]} rows replaced"
        else:
            replaced = REPLACED if relation == RELATION else relation
        return replaced + alone

    @property
    def counted(self) -> str:
        """What n counts, as a heading, records or persons."""
        return counted(self.relation)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences without which the promise must not be read, such as that noise had a seed."""
        simulated = f"Privacy guarantee: {self.guarantee}; the figures are for genuine noise"
        lines = [] if self.genuine or self.total is None else [simulated]
        return (*lines, *map(str.strip, self._vouched_lines()))

    def __str__(self) -> str:
        return self.as_text(PURPOSES)

    def as_text(self, purposes: Mapping[str, str]) -> str:
        """State the promise and every charge, with what it was used for, on lines of text.

        Parameters
        ----------
        purposes : mapping of str to str
            What charges were used for, by their labels.

        Returns
        -------
        str
        """
        if self.total is None:
            return f"Privacy: {NO_PRIVACY}"
        lines = []
        if not self.genuine:
            lines.append(f"Privacy guarantee: {self.guarantee}; the figures are for genuine noise")
        lines.append(f"Privacy: {statement(self.total)} in total; {self.relation}")
        if not isinstance(self.total, ApproxDP):
            pairs = [f"(epsilon={e:.4g}, delta={d:.3g})-DP" for e, d in self.equivalents()]
            lines.append("  equivalent to " + " and ".join(dict.fromkeys(pairs)))
        if not math.isnan(self.mu) and not isinstance(self.total, GDP):
            lines.append(f"  also {self.mu:.6g}-GDP")
        for label, spent in self._grouped(purposes):
            lines.append(f"  spent {self.unit} = {spent:.4f} on {label}")
        if self.returned is not None:
            lines.append(RETURNED.format(self.returned.mu, self.charged.mu))
        return "\n".join(lines + self._vouched_lines())

    def _grouped(self, purposes: Mapping[str, str] = PURPOSES) -> list[tuple[str, float]]:
        """Add up charges with the same label, and say what they were used for."""
        amounts: dict[str, list[float]] = {}
        for label, spent in self.entries:
            amounts.setdefault(label, []).append(spent)
        groups = []
        for label, parts in amounts.items():
            spent = math.hypot(*parts) if self.unit == "mu" else math.fsum(parts)
            times = f" ({len(parts)} times)" if len(parts) > 1 else ""
            groups.append((f"{label}{times}{purposes.get(label, '')}", spent))
        return groups

    def _repr_html_(self) -> str:
        from dpfast.inference.rendering.digits import printable
        from dpfast.inference.rendering.renderings import html
        from dpfast.inference.rendering.table import Table

        if self.total is None:
            return html(Table(str(self), (), (), (), ()))
        total = self.total.rho if isinstance(self.total, ZCDP) and self.unit == "rho" else self.mu
        power = 2 if self.unit == "mu" else 1
        charges = self._grouped()
        cells = [(f"{spent:.4f}", f"{(spent / total) ** power:.1%}") for _, spent in charges]
        heads = [line for line in str(self).splitlines() if not line.startswith("  spent ")]
        labels = tuple([printable(label) for label, _ in charges])
        title = f"Privacy: {self.headline}"
        return html(Table(title, (), (self.unit, "share"), labels, tuple(cells), "", tuple(heads)))

    def _vouched_lines(self) -> list[str]:
        return [f"  The caller vouches that {condition}." for condition in self.vouched]


def statement(total: Budget) -> str:
    """Write a promise in a few digits."""
    if isinstance(total, ApproxDP):
        return f"(epsilon={total.epsilon:.6g}, delta={total.delta:.3g})-DP"
    return f"{total.values()[0]:.6g}-{KINDS[type(total)]}"


def counted(relation: str) -> str:
    """Name what n counts under a neighbouring relation, as a heading."""
    return "Persons" if "one person" in relation else "Records"


def group_relation(m: int) -> str:
    """Name the relation of persons with up to ``m`` rows, charged each (C47) or at once (C81)."""
    return RELATION if m == 1 else GROUP_RELATION.format(m=m)


def is_stated(relation: str, composition: Composition | None) -> bool:
    """Return whether a fit can have this relation with charges composed like this.

    Examples
    --------
    >>> from dpfast.inference.guarantees import group_relation, is_stated
    >>> is_stated(group_relation(3), None), is_stated("neighbours differ in one cell", None)
    (True, False)
    """
    from dpfast.inference.composition import Rows

    stated = relation.partition(ALONE)[0]
    if isinstance(composition, Rows):
        return stated == group_relation(composition.factor)
    rows = re.search(r"with up to (\d{1,5}) rows", stated)  # of a person who is charged once (C81)
    together = [] if rows is None else [group_relation(int(rows[1]))]
    return stated in [RELATION, MEANS_RELATION, *together]


#: Guarantee of a fit for comparison.
NOT_PRIVATE = Guarantee(None, "none", 0, (), True, math.inf)
