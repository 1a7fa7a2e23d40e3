"""What a replay found."""

from __future__ import annotations

from typing import NamedTuple

from dpfast.errors import DpfastError


class LeakFound(DpfastError, AssertionError):
    """An audit found that a result depends on records beyond what was paid for."""


class Worst(NamedTuple):
    """The answer of one kind of query whose exact values were furthest apart."""

    #: ``distance / sensitivity``; above 1 is a leak.
    ratio: float
    #: l2 (Frobenius) distance of the exact values on the two data sets.
    distance: float
    #: Declared sensitivity.
    sensitivity: float
    #: Which answer it was, counted from 0.
    answer: int


class ReplayReport(NamedTuple):
    """Outcome of :func:`dpfast.audit.replay`.

    Attributes
    ----------
    leaks : tuple of str
        Everything by which the neighbour could be told apart; empty if the audit passed.
    n_answers, n_charges, n_lines : int
        Releases and ledger charges that were recorded, and executed lines of Python compared.
    record : int
        Index of the record in which the two data sets differ.
    mu : float
        Composition of what the answers cost on their own, (epsilon, delta) charges for whole
        sequences disregarded.
    worst, worst_joint : dict of str to Worst, float
        By query, the largest distance of exact values relative to the declared sensitivity; that of
        everything released at one parameter, in units of its noise, relative to the charged mu.

    Privacy
    -------
    Quotes exact distances between the two data sets: for the one who audits, not for publication
    where they are private.
    """

    leaks: tuple[str, ...]
    n_answers: int
    n_charges: int
    n_lines: int
    record: int
    mu: float
    worst: dict[str, Worst]
    worst_joint: float
    used: float

    @property
    def passed(self) -> bool:
        """Whether nothing told the neighbour apart."""
        return not self.leaks

    def raise_on_leak(self) -> ReplayReport:
        """Return the report, or raise :class:`LeakFound` with all of it if there is a leak."""
        if self.leaks:
            raise LeakFound(str(self))
        return self

    def __str__(self) -> str:
        lines = [
            f"replay on a neighbour (record {self.record} replaced): "
            + ("passed" if self.passed else f"{len(self.leaks)} LEAK(S)"),
            f"  {self.n_answers} answers, {self.n_charges} charges and {self.n_lines} lines "
            f"compared; the answers compose to mu = {self.mu:.6g}",
        ]
        lines += [f"  LEAK: {leak}" for leak in self.leaks]
        lines += [
            f"  {query:10} distance/sensitivity at most {worst.ratio:.6f} (answer {worst.answer})"
            for query, worst in self.worst.items()
        ]
        if self.worst:
            lines.append(
                f"  jointly    distance in noise units / mu at most {self.worst_joint:.6f} of a "
                f"charge, {self.used:.6f} of them all"
            )
        else:
            lines.append("  no Curator was asked anything: only the result was compared")
        return "\n".join(lines)
