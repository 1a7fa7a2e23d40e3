"""Export of a ledger to Google's dp-accounting, for a check by another accountant."""

from __future__ import annotations

from typing import Any

from dpfast.errors import InvalidInput, UnsupportedConversion, described
from dpfast.privacy.budget import GDP, ZCDP, Budget, PureDP
from dpfast.privacy.ledger import Ledger


def to_dp_accounting(ledger: Ledger) -> Any:
    """Export every charge of a ledger as one composed event of dp-accounting.

    A ``mu``-GDP charge becomes a Gaussian event with noise multiplier ``1 / mu``, and ``rho``-zCDP
    a zCDP event.  ``epsilon``-DP becomes a Laplace event with noise multiplier ``1 / epsilon``.
    Sensitivities are already for replacement.  ``ApproxDP`` has no event and raises
    ``UnsupportedConversion``.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    dp_accounting.ComposedDpEvent

    Privacy
    -------
    Reads public charges only.

    Examples
    --------
    >>> ledger = dpfast.Ledger(1.0)
    >>> ledger.charge(0.5, "a query")
    >>> type(dpfast.audit.to_dp_accounting(ledger)).__name__
    'ComposedDpEvent'
    """
    try:
        import dp_accounting  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise InvalidInput(
            "to_dp_accounting needs the dp-accounting package, which is not installed. Install "
            "it with: pip install 'dpfast[accounting]'."
        ) from None

    def event(spend: Budget) -> Any:
        if isinstance(spend, GDP):
            return dp_accounting.GaussianDpEvent(1.0 / spend.mu)
        if isinstance(spend, ZCDP):
            return dp_accounting.ZCDpEvent(spend.rho)
        if isinstance(spend, PureDP):
            return dp_accounting.LaplaceDpEvent(1.0 / spend.epsilon)
        raise UnsupportedConversion(
            f"dp-accounting has no event for {described(spend)}. Keep the ledger in GDP, ZCDP or "
            "PureDP."
        )

    return dp_accounting.ComposedDpEvent(
        [event(entry.spend if entry.returned is None else entry.paid) for entry in ledger.entries]
    )
