"""The exported ledger, priced by dp-accounting, agrees with our own conversion."""

import pytest

import dpfast
from dpfast.audit import to_dp_accounting


def test_gaussian_charges_are_priced_alike():
    pld = pytest.importorskip("dp_accounting.pld")
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    for mu in (0.3, 0.5, 0.2, 0.7):
        ledger.charge(mu, "query")
    accountant = pld.PLDAccountant()
    accountant.compose(to_dp_accounting(ledger))
    ours = ledger.spent.epsilon(1e-6)
    theirs = accountant.get_epsilon(1e-6)
    # theirs is rounded up by its discretisation (1e-4 in the loss, composed four times)
    assert ours * (1 - 1e-9) <= theirs <= ours * (1 + 2e-3)


def test_zcdp_and_pure_charges():
    rdp = pytest.importorskip("dp_accounting.rdp")
    ledger = dpfast.Ledger(dpfast.ZCDP(1.0))
    ledger.charge(dpfast.ZCDP(0.25), "a")
    ledger.charge(dpfast.GDP(0.5), "b")
    ledger.charge(dpfast.PureDP(0.1), "c")
    events = to_dp_accounting(ledger).events
    assert [type(event).__name__ for event in events] == [
        "ZCDpEvent",
        "GaussianDpEvent",
        "LaplaceDpEvent",
    ]
    accountant = rdp.RdpAccountant()
    accountant.compose(events[0])
    assert accountant.get_epsilon(1e-6) >= dpfast.ZCDP(0.25).epsilon(1e-6) * (1 - 1e-9)


def test_approximate_charges_are_refused_by_name():
    pytest.importorskip("dp_accounting")
    ledger = dpfast.Ledger(dpfast.ApproxDP(1.0, 1e-6))
    ledger.charge(dpfast.ApproxDP(0.5, 1e-7), "x")
    with pytest.raises(dpfast.DpfastError, match="no event"):
        to_dp_accounting(ledger)
