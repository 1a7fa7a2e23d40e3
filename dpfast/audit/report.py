"""Report of a replay."""

from __future__ import annotations

from typing import NamedTuple

from dpfast.errors import DpfastError


class LeakFound(DpfastError, AssertionError):
    """Error of an audit: a result depends on records beyond its paid answers."""


class Worst(NamedTuple):
    """Largest movement of one kind of query."""

    #: ``distance / sensitivity``; above 1 is a leak.
    ratio: float
    #: l2 (Frobenius) distance of the exact values on the two data sets.
    distance: float
    #: Declared sensitivity.
    sensitivity: float
    #: Number of the answer, from 0.
    answer: int


class ReplayReport(NamedTuple):
    """Result of :func:`dpfast.audit.replay`.

    Attributes
    ----------
    leaks : tuple of str
        Every difference that identifies the neighbour; empty if the audit passed.
    n_answers, n_charges, n_lines : int
        Numbers of recorded releases and ledger charges, and of compared lines of Python.
    record : int
        Index of the record in which the two data sets differ.
    mu : float
        Composition of the answers' costs, without (epsilon, delta) charges for whole
        sequences.
    worst, worst_joint : dict of str to Worst, float
        For each query the largest distance of exact values, relative to the declared sensitivity.
        Then the largest distance of a joint release in units of its noise, relative to the charged
        mu.

    Privacy
    -------
    Quotes exact distances between the two data sets.  It is for the auditor; do not publish it for
    private data.
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
        """True if no difference identifies the neighbour."""
        return not self.leaks

    def raise_on_leak(self) -> ReplayReport:
        """Return the report, or raise :class:`LeakFound` with its text if there is a leak."""
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
            lines.append("  no Curator was used: only the result was compared")
        return "\n".join(lines)
