"""The sweep of constants changes what a fit uses, not only what it has not used yet."""

from __future__ import annotations

from bench.constants import Changed, Constant
from dpfast.solvers.pcn.plan import BudgetAllocation


def test_a_changed_constant_reaches_what_was_remembered():
    def asked():
        return BudgetAllocation(100_000, 4, 1.0).budgets((False, False, False), 0)

    before = asked()
    share = Constant("dpfast.solvers.pcn.plan", "SHARES", ("matrix",), 0.05)
    with Changed(share, 2.0):
        assert asked().matrix > 1.3 * before.matrix
    assert asked() == before
