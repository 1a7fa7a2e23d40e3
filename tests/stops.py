"""Calls that end after their counts, because hardly any record is complete (claim C95)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast.scaling.remarks import STOPPED


def stopped(result: Any, ledger: Any = None) -> bool:
    """Say whether a call ended after its counts; if so, check that it estimates nothing.

    Its only warning says so.  It costs at most a tenth of the total, whose rest is in the ledger.
    """
    told = [said for said in getattr(result, "warnings", ()) if said.startswith(STOPPED)]
    if not told:
        return False
    assert told == [*result.warnings]
    assert np.isnan(getattr(result, "params", getattr(result, "estimate", 0.0))).all()
    if ledger is not None:
        (entry,) = ledger.entries
        assert 0.0 < entry.paid.mu**2 < 0.1 * entry.charged.mu**2
        returns_only_the_rest(result, ledger)
    return True


def returns_only_the_rest(result: Any, ledger: Any) -> None:
    """Check that the ledger kept what every draw of its only call cost, and returned the rest."""
    (entry,) = ledger.entries
    drawn = math.fsum(mu**2 for _, mu in result.privacy.entries)
    assert 0.0 < drawn <= entry.paid.mu**2 * (1.0 + 1e-12)
    assert entry.paid.mu < entry.charged.mu
    assert entry.paid == ledger.spent
    assert entry.returned == result.privacy.returned
