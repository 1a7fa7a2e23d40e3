"""The attack on declared constants finds every kind of lie, and clears the built-in losses."""

import math

import pytest

import dpfast
from dpfast.audit import check_loss
from tests.loops import each

BUILT_IN = [
    dpfast.Huber(),
    dpfast.LogCosh(),
    dpfast.models.PseudoHuber(3.0),
    dpfast.models.SmoothedHuber(1.3, 0.4),
    dpfast.models.OstrovskiiBach(0.7),
    dpfast.models.SmoothAbsolute(),
    dpfast.models.TukeyBiweight(),
]


def rho(r):
    return math.sqrt(1.0 + r * r) - 1.0


def psi(r):
    return r / math.sqrt(1.0 + r * r) if abs(r) < 1e150 else math.copysign(1.0, r)


def psi_prime(r):
    return (1.0 + r * r) ** -1.5


def custom(*functions, **options):
    chosen = {"psi_bound": 1.0, "psi_prime_bound": 1.0} | options
    return dpfast.CustomLoss(*(functions or (rho, psi, psi_prime)), **chosen)


@each("loss", BUILT_IN, ids=repr)
def test_built_in_losses_pass(loss):
    report = check_loss(loss)
    assert report.passed, str(report)
    assert report.psi_largest >= 0.99 * loss.psi_bound
    assert report.psi_prime_largest >= 0.99 * loss.psi_prime_bound


def test_an_honest_loss_of_ones_own_passes():
    loss = custom(self_concordance=1.5, coupling="one-minus-square")
    assert check_loss(loss).passed, str(check_loss(loss))
    assert "nothing contradicts" in str(check_loss(loss))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (custom(psi_bound=0.999), "above psi_bound"),
        (custom(psi_prime_bound=0.99), "above psi_prime_bound"),
        (custom(rho, psi, lambda r: -psi_prime(r)), "convex=False"),
        (custom(rho, psi, lambda r: 0.5 * psi_prime(r)), "psi_prime is not the derivative of psi"),
        (custom(lambda r: 0.9 * rho(r), psi, psi_prime), "psi is not the derivative of the loss"),
        (custom(rho, lambda r: r / r * psi(r), psi_prime), "not a number at r = 0"),
        (custom(self_concordance=1.0), "self_concordance"),
        (custom(psi_bound=1.2, psi_prime_bound=0.9, coupling="one-minus-square"), "coupling"),
        (custom(rho, lambda r: psi(r) if r < 5.0 else 3.0, psi_prime), "reaches 3"),
    ],
)
@pytest.mark.one_in(2)
def test_lies_are_found(loss, message):
    report = check_loss(loss)
    assert not report.passed
    assert message in str(report)


@pytest.mark.parametrize("bad", ["huber", None, dpfast.Logistic()])
def test_only_losses_of_a_residual(bad):
    with pytest.raises(dpfast.InvalidInput, match="loss of a residual"):
        check_loss(bad)
