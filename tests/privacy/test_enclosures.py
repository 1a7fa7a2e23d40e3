"""Claims C2, C3, C5, C7, C8 and C45 in ball arithmetic: over boxes of arguments, not at points.

What is proved, and what it rests on.  The functions below are the code of the library, run on boxes
(``tests/privacy/balls.py``): for *every* double in a box, the result is on the safe side and within
its stated margin, if IEEE 754 holds for arithmetic and if ``exp``, ``erf``, ``erfcx``, ``ndtr`` and
``ndtri`` err by no more than ``balls.LIBRARY`` says.  That last condition is about other people's
machine code, and is compared with ball arithmetic at points, many of them, and no more.
Inversions (C3) need no box of their own: each ends with a check by ``gdp_delta``.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from scipy import special

from dpfast.privacy import GDP, ZCDP, PureDP, conversions, tradeoff

pytest.importorskip("flint", reason="needs python-flint, of the test extra")

from flint import arb, ctx

from tests.privacy import balls
from tests.privacy.balls import UNIT, Box, Rounded, rewired

MOST = 1e-9  # what a conversion may give away, relative


@pytest.fixture(autouse=True)
def many_bits():
    before = ctx.prec
    ctx.prec = balls.BITS
    yield
    ctx.prec = before


def both_branches(run):
    """Worst case over what a comparison may say that is true in a part of the box only."""
    for said in (None, True, False):
        Rounded.undecided = said
        try:
            found = run()
        except balls.Undecided:
            continue
        yield found
        if said is None:
            return


# ---- C2 -----------------------------------------------------------------------------------------


def loss_of_delta(mu_range, x_range):
    """Bounds of ``gdp_delta / delta`` over mu and ``x = e/mu - mu/2``."""
    box = Box(mu_range, x_range)
    mu, x = box.variables()
    exact = x + 0.5 * mu
    # The first thing that is computed, e/mu, of an epsilon that is a double as well.
    middle = Rounded(exact.hull, exact.centre, exact.slopes, relative=UNIT)

    class Epsilon:
        def __truediv__(self, other):
            assert other is mu
            return middle

    epsilon = Epsilon()
    delta = rewired(conversions._delta)

    def run():
        value = delta(mu, epsilon)
        if value.relative is None:  # too wide to tell
            return arb(0, 1)
        # exact arithmetic would lose this much to the end of the Taylor series (proof of C2)
        cut = 48 * box.variables()[0].hull ** 6 / 322560 if mu.hull < 0.011 else arb(0)
        ratio = Rounded(arb(1), arb(1), [arb(0)] * 2, relative=value.relative + cut)
        raised = rewired(
            conversions._delta_up,
            _delta=lambda *_: ratio,
            max=lambda value, floor: value,  # raising it to the floor is safe
            min=lambda one, value: value,  # so is 1
        )(mu, epsilon)
        if raised == 1.0:  # beyond MAX_MU
            return arb(1)
        return raised.hull * (1 + arb(0, raised.relative))

    return list(both_branches(run))


def box_is_safe(mu_range, x_range, depth=0):
    """Whether it is, where delta is above its floor; boxes that are too wide to tell are halved."""
    # delta <= exp(-x^2/2) min(mu, 1): below the floor nothing is to be shown
    if x_range[0] > 0 and -0.5 * x_range[0] ** 2 + math.log(min(1.0, mu_range[1])) < -667.7:
        return 1
    bounds = loss_of_delta(mu_range, x_range)
    # from x = -10 down delta is 1 to more than a double's digits, and so is what is cut to 1
    if all(bound >= 1 and (bound <= 1 + MOST or x_range[1] <= -10.0) for bound in bounds):
        return 1
    assert depth < 12, (mu_range, x_range, bounds)
    (a, b), (c, d) = mu_range, x_range
    if depth % 2:
        middle = math.sqrt(a * b)
        halves = ((a, middle), x_range), ((middle, b), x_range)
    else:
        middle = 0.5 * (c + d)
        halves = (mu_range, (c, middle)), (mu_range, (middle, d))
    return sum(box_is_safe(*half, depth + 1) for half in halves)


#: mu of the Taylor branch together, a narrow box around its end, then by factors; x by steps, the
#: left-most box whole.
MUS = [
    1e-290,
    0.01 * (1 - 1e-6),
    0.01 * (1 + 1e-6),
    *np.geomspace(0.01, conversions.MAX_MU, 40)[1:],
]
XS = [-60.0, *np.arange(-6.0, 36.9, 1.0), 37.0]


def boxes():
    for a, b in itertools.pairwise(MUS):
        if -0.5 * b < XS[0]:
            yield (float(a), float(b)), (-0.5 * float(b), XS[0])
        for c, d in itertools.pairwise(XS):
            if d > -0.5 * b:  # epsilon is not negative
                yield (float(a), float(b)), (max(float(c), -0.5 * float(b)), float(d))


def test_c2_delta_is_on_the_safe_side_over_boxes():
    """Some of all boxes, other ones each time a box is added; all of them in the slow test."""
    everything = list(boxes())
    chosen = everything[:: max(1, len(everything) // 40)]
    assert sum(box_is_safe(*box) for box in chosen) >= 40


@pytest.mark.slow
def test_c2_delta_is_on_the_safe_side_over_the_whole_range():
    everything = list(boxes())
    corners = {edge for box in everything for edge in box[0]}
    assert min(corners) == 1e-290 and max(corners) == pytest.approx(conversions.MAX_MU)
    print(sum(box_is_safe(*box) for box in everything))


def test_c2_outside_the_boxes():
    """Below mu = 1e-290 delta is below its floor; above MAX_MU, or beyond x = 37, likewise or 1."""
    assert (arb(1e-290) / arb(8).sqrt()).erf() < conversions.DELTA_FLOOR
    assert balls.normal(arb(-37)) < conversions.DELTA_FLOOR
    assert conversions.gdp_delta(2e4, 1.0) == 1.0
    assert conversions.gdp_delta(1e-300, 0.0) == conversions.DELTA_FLOOR


# ---- C45 ----------------------------------------------------------------------------------------


def power_is_safe(z_range, w_range, depth=0):
    """Power at a rate whose quantile is z, for ``w = z + mu``."""
    box = Box(z_range, w_range)
    z, w = box.variables()
    quantile = Rounded(z.hull, z.centre, z.slopes, relative=balls.LIBRARY["ndtri"])
    mu = Rounded((w - z).hull, (w - z).centre, (w - z).slopes, relative=arb(0))
    power = rewired(
        tradeoff._gaussian_power,
        ndtri=lambda rate: quantile,
        max=lambda rate, least: rate,
        min=lambda one, value: value,
        FLOOR=0.0,
        QUANTILE_MARGIN=0.0,
    )(mu, 0.3)
    factor = (1 + arb(tradeoff.QUANTILE_MARGIN)) * (1 - 2 * UNIT) * (1 - power.relative)
    if factor >= 1:
        return 1
    assert depth < 12, (z_range, w_range, power.relative)
    (a, b), (c, d) = z_range, w_range
    if b - a > d - c:
        halves = ((a, 0.5 * (a + b)), w_range), ((0.5 * (a + b), b), w_range)
    else:
        halves = (z_range, (c, 0.5 * (c + d))), (z_range, (0.5 * (c + d), d))
    return sum(power_is_safe(*half, depth + 1) for half in halves)


def quantile_boxes(step):
    """Quantiles of all normal doubles below 1; powers from the rate on."""
    for z in np.arange(-38.0, 8.5, step):
        for w in np.arange(z, 9.0, step):
            yield (float(z), float(z + step)), (float(w), float(w + step))
        yield (float(z), float(z + step)), (9.0, 1e4)


def test_c45_power_is_on_the_safe_side_over_boxes():
    everything = list(quantile_boxes(0.5))
    assert sum(power_is_safe(*box) for box in everything[:: len(everything) // 100]) >= 100


@pytest.mark.slow
def test_c45_power_is_on_the_safe_side_for_every_rate_and_budget():
    assert sum(power_is_safe(*box) for box in quantile_boxes(0.5)) >= 4000


def test_c45_quantiles_that_are_left_out_are_of_no_double():
    assert balls.normal(arb(-38)) < tradeoff._SMALLEST_NORMAL
    assert 1 - balls.normal(arb(8.5)) < UNIT
    # and powers that underflow are below what is added to every one
    assert balls.normal(arb(-37.5)) < tradeoff.FLOOR


def test_c45_powers_and_advantages_of_epsilon_delta_over_one_box():
    """All of (0, 700] x [0, 1] x (0, 1]: nothing cancels, so that one box is enough."""
    box = Box((0.0, 700.0), (0.0, 1.0), (0.0, 1.0))
    epsilon, delta, rate = box.variables()
    exp, erf = balls.FUNCTIONS["exp"], balls.FUNCTIONS["erf"]
    allowed = arb(tradeoff.ROUNDING_ELEMENTARY) - 4 * UNIT  # less what adding the margin rounds
    # a sum of what is not negative errs by no more than its terms do, and once more
    assert (exp(epsilon) * rate).relative + 2 * UNIT < allowed
    falling = 1.0 - exp(-epsilon) * (1.0 - delta - rate)
    assert falling.absolute < arb(2) ** -49
    # mu in the place of epsilon; the root of 8 is rounded as well
    assert erf(epsilon / math.sqrt(8.0)).relative + 2 * UNIT < allowed


# ---- what the boxes rest on ---------------------------------------------------------------------

POINTS = 400


def points_of(name, rng, count):
    """Arguments over the range in which the boxes use the function."""
    signed = np.concatenate([rng.uniform(-38, 40, count), -(10 ** rng.uniform(-300, 1.5, count))])
    return {
        "exp": -(10 ** rng.uniform(-12, 2.85, count)),
        "erf": 10 ** rng.uniform(-300, 1, count),
        "erfcx": np.concatenate([rng.uniform(-3.6, 27, count), 10 ** rng.uniform(-300, 4, count)]),
        "ndtr": signed[signed > -37.5],
        "ndtri": np.concatenate([10 ** rng.uniform(-307, -1e-9, count), rng.uniform(0, 1, count)]),
    }[name]


FLOATS = {"exp": math.exp, "erf": math.erf, "erfcx": special.erfcx, "ndtr": special.ndtr}
EXACT = {"exp": arb.exp, "erf": arb.erf, "erfcx": balls.erfcx, "ndtr": balls.normal}


def error_at(name, point) -> arb:
    if name != "ndtri":
        return abs(arb(float(FLOATS[name](point))) / EXACT[name](arb(float(point))) - 1)
    found = arb(float(special.ndtri(point)))
    return abs((balls.normal(found) - arb(float(point))) / balls.density(found) / found)


def library_errors(count, seed):
    rng = np.random.default_rng(seed)
    for name, allowed in balls.LIBRARY.items():
        worst = max(error_at(name, point).upper() for point in points_of(name, rng, count))
        print(f"{name}: {float(worst / UNIT):.3g} of {float(allowed / UNIT):g} units")
        yield name, worst, allowed


def test_the_library_errs_by_no_more_than_the_boxes_assume():
    for name, worst, allowed in library_errors(POINTS, 1):
        assert worst < allowed, name


@pytest.mark.slow
def test_the_library_errs_by_no_more_at_many_points():
    for name, worst, allowed in library_errors(100_000, 2):
        assert worst < allowed, name


# ---- at points: inversions (C3), pure DP (C5, C8) and zCDP (C7) ----------------------------------


def exact_delta(mu, epsilon) -> arb:
    mu, epsilon = arb(mu), arb(epsilon)
    x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return balls.normal(-x) - epsilon.exp() * balls.normal(-y)


def test_c3_inversions_end_on_the_safe_side():
    draw = random.Random(3)
    for _ in range(60):
        delta = 10 ** draw.uniform(-280, -0.01)
        mu, epsilon = 10 ** draw.uniform(-8, 3.9), 10 ** draw.uniform(-8, 4)
        assert exact_delta(conversions.gdp_mu(epsilon, delta), epsilon) <= delta
        assert exact_delta(mu, conversions.gdp_epsilon(mu, delta)) <= delta


def test_c5_pure_dp_as_gaussian():
    """``Phi(-mu/2) <= 1/(1 + e^eps)``."""
    draw = random.Random(5)
    for _ in range(400):
        epsilon = 10 ** draw.uniform(-14, 5)
        mu = arb(conversions.pure_mu(epsilon))
        assert balls.normal(-mu / 2) <= 1 / (1 + arb(epsilon).exp()), epsilon


def hard_deltas(draw):
    """Of every size, and as close to 1."""
    return min(draw.choice([10 ** draw.uniform(-40, -0.01), 1 - 10 ** draw.uniform(-15, -0.1)]),
               1 - 2.0**-53)  # fmt: skip


def test_c8_a_smaller_epsilon_for_a_delta_close_to_one():
    """Written as ``1 - delta (1 + e^-eps)`` the digits of such a delta are lost (it was)."""
    draw, near = random.Random(8), 0
    ctx.prec = 1600  # so that e^eps + 1 is told apart from e^eps
    for _ in range(800):
        epsilon, delta = 10 ** draw.uniform(-8, 2.7), hard_deltas(draw)
        found = PureDP(epsilon).as_approx(delta).epsilon
        e, smaller = arb(epsilon), arb(found)
        assert found == epsilon or (e.exp() - smaller.exp()) / (1 + e.exp()) <= delta
        if 0.0 < found < epsilon:
            inside = e.exp() - arb(delta) * (1 + e.exp())
            assert smaller - (inside.log() if inside > 1 else 0) < 3e-14 * (1 + e)
            near += 1
        lower = 0.5 * epsilon
        truth = (e.exp() - arb(lower).exp()) / (1 + e.exp())
        assert truth <= PureDP(epsilon).delta(lower)
    assert near > 100


def best_zcdp_epsilon(rho, delta) -> arb:
    """The bound of C7 at nearly the best order; the least over all orders is no larger."""
    rho, delta = arb(rho), arb(delta)
    low, high = arb(-140).exp(), arb(1000).exp()  # of the order less 1
    for _ in range(260):
        middle = (low * high).sqrt().mid()
        if middle * middle * rho < -(delta * (1 + middle)).log():
            low = middle
        else:
            high = middle
    order = 1 + high
    return order * rho + (1 - 1 / order).log() - (delta.log() + order.log()) / high


@pytest.mark.parametrize("tiny", [False, True])
def test_c7_epsilon_of_zcdp(tiny):
    """Where rho is of the size of delta^2, epsilon is of that of delta, and logarithms cancel."""
    draw = random.Random(7)
    ctx.prec, positive = 256, 0
    for _ in range(150):
        delta = 10 ** draw.uniform(-40, -0.01)
        rho = delta**2 * 10 ** draw.uniform(-3, 6) if tiny else 10 ** draw.uniform(-12, 3)
        found, exact = conversions.zcdp_epsilon(rho, delta), best_zcdp_epsilon(rho, delta)
        assert found >= exact or (found == 0.0 and exact <= 0)
        positive += found > 0.0
    assert positive > 30


def test_no_attack_is_reported_weaker_than_it_is_next_to_zero():
    """Rates down to the smallest double, quantiles by Newton's iteration in balls."""
    draw = random.Random(45)
    for _ in range(60):
        rate, mu = 10 ** draw.uniform(-307.6, -1e-3), 10 ** draw.uniform(-17, 1)
        z = arb(float(special.ndtri(rate)))
        for _ in range(3):
            z = (z - (balls.normal(z) - arb(rate)) / balls.density(z)).mid()
        assert balls.normal(z + arb(mu)) <= tradeoff.attack_power(GDP(mu), rate)
        advantage = 2 * balls.normal(arb(mu) / 2) - 1
        assert advantage <= tradeoff.attack_advantage(GDP(mu))
        # zCDP of a Gaussian: its power is one that is possible
        rho = float(ZCDP(0.5 * mu * mu).rho)
        possible = balls.normal(z + (2 * arb(rho)).sqrt())
        assert possible <= tradeoff.attack_power(ZCDP(rho), rate)
