"""The exact samplers: claims C15 (normal) and C22 (discrete Laplace) of PROOFS.md.

Three independent lines of evidence.  (1) A Python twin of each algorithm, written over an abstract
source of randomness, agrees with the C code on every sample and every byte.  (2) The same twin,
driven by a source that enumerates *all* outcomes with exact rational probabilities, brackets every
acceptance probability around the value the proof needs.  (3) Goodness-of-fit tests of the output.
"""

from __future__ import annotations

import math
import os
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from dpfast.errors import EntropyFailure, InvalidInput
from dpfast.kernels.sampler import BUFFER_BYTES, ExactSampler
from dpfast.privacy.noise import SeededNoise
from tests.loops import each

# ---- the twin -----------------------------------------------------------------------------------


class Bits:
    """Random choices read from a byte string the way the C code reads them: low bits first."""

    def __init__(self, data):
        self.data, self.position = data, 0

    def take(self, n):
        first, last = self.position // 8, (self.position + n + 7) // 8
        word = int.from_bytes(self.data[first:last], "little")
        self.position += n
        assert self.position <= 8 * len(self.data)
        return (word >> (self.position - n) % 8) % 2**n

    def digit(self):
        return self.take(4)

    def bits(self, n):
        """Take n bits, those above the 32 lowest of the value first."""
        return self.take(max(n - 32, 0)) << 32 | self.take(min(n, 32))

    def below(self, m):
        while True:
            candidate = self.bits((m - 1).bit_length())
            if candidate < m:
                return candidate

    @property
    def consumed(self):
        """Bytes that were fetched: four at a time, when a choice needs more bits than are left."""
        return -(-self.position // 32) * 4


class Uniform:
    """A number in (0, 1) of which only the digits that were asked for exist."""

    def __init__(self, source):
        self.source, self.digits = source, []

    def digit(self, i):
        while len(self.digits) <= i:
            self.digits.append(self.source.digit())
        return self.digits[i]

    def __lt__(self, other):
        i = 0
        while self.digit(i) == other.digit(i):
            i += 1
        return self.digit(i) < other.digit(i)


def exp_minus_half(source, base=16):
    """Compare a uniform with the expansion of exp(-1/2), of which 60 digits are enough here."""
    rest = EXP_MINUS_HALF
    while True:
        bound, rest = divmod(rest * base, 1)
        digit = source.digit()
        if digit != bound:
            return digit < bound


def series(terms):
    """Sum (-1/2)^m/m!, exactly: within the first term left out of exp(-1/2)."""
    term, total = Fraction(1), Fraction(0)
    for m in range(terms):
        total += term
        term *= Fraction(-1, 2 * (m + 1))
    return total


EXP_MINUS_HALF = series(100)


def exp_minus(source, x, halved):
    """Give True with probability exp(-x), or exp(-x^2/2) if ``halved``."""
    last, n = x, 0
    while True:
        if halved and source.take(1):
            return n % 2 == 0
        following = Uniform(source)
        if not following < last:
            return n % 2 == 0
        if halved and not Uniform(source) < x:
            return n % 2 == 0
        last, n = following, n + 1


def normal(source, bits):
    while True:
        k = 0
        while exp_minus_half(source):
            k += 1
        if not all(exp_minus_half(source) for _ in range(k * (k - 1))):
            continue
        x = Uniform(source)
        if not all(exp_minus(source, x, i == 0) for i in range(k + 1)):
            continue
        known = 4 * len(x.digits)
        value = sum(digit << 4 * i for i, digit in enumerate(reversed(x.digits)))
        if known > bits:
            fraction = value >> known - bits
        else:
            fraction = value << bits - known | source.bits(bits - known)
        magnitude = (k << bits) + fraction
        return magnitude if source.take(1) else -magnitude - 1


def exp_minus_ratio(source, u, t):
    k = 1
    while source.below(k) == 0 and source.below(t) < u:
        k += 1
    return k % 2 == 1


def discrete_laplace(source, s, t):
    while True:
        u = source.below(t)
        if not exp_minus_ratio(source, u, t):
            continue
        v = 0
        while exp_minus_ratio(source, 1, 1):
            v += 1
        magnitude = (u + t * v) // s
        if source.take(1):
            if magnitude == 0:
                continue
            return -magnitude
        return magnitude


class Replay:
    """A supplier of bytes that remembers what it handed over."""

    def __init__(self, seed):
        self.generator, self.data = np.random.default_rng(seed), b""

    def __call__(self, size):
        fresh = self.generator.bytes(size)
        self.data += fresh
        return bytes(bytearray(fresh))


@pytest.mark.parametrize("bits", [1, 16, 20, 33, 44])
def test_c_and_twin_agree_on_every_normal_and_every_byte(bits):
    supply = Replay(bits)
    sampler = ExactSampler(supply)
    # about 8 bytes each: several draws straddle the end of a page, so a draw that was restarted
    # or that lost bits at a refill would show here
    found = np.concatenate([sampler.normals(size, bits) for size in (1, 0, 7, 1000, 1992)])
    source = Bits(supply.data)
    assert found.tolist() == [normal(source, bits) for _ in found]
    assert source.consumed == sampler.consumed > 3 * BUFFER_BYTES


@each(("s", "t"), [(1, 1), (1, 3), (7, 2), (2**40 + 1, 2**50), (2**61 + 7, 2**61 - 1), (1, 2**40)])
def test_c_and_twin_agree_on_every_laplace_and_every_byte(s, t):
    supply = Replay(7)
    sampler = ExactSampler(supply)
    found = np.concatenate([sampler.discrete_laplace(size, s, t) for size in (1, 300)])
    source = Bits(supply.data)
    assert found.tolist() == [discrete_laplace(source, s, t) for _ in found]
    assert source.consumed == sampler.consumed


class Ties(Replay):
    """Mostly zero bits: equal digits are common, so the long comparisons are exercised."""

    def __call__(self, size):
        values = np.array([0, 0, 0, 0x10, 0x99, 0xB4, 0xFF], dtype=np.uint8)
        fresh = values[self.generator.integers(0, len(values), size)].tobytes()
        self.data += fresh
        return bytes(bytearray(fresh))


def test_c_and_twin_agree_on_the_tie_breaking_paths():
    supply = Ties(11)
    sampler = ExactSampler(supply)
    found = sampler.normals(2000, 30)
    source = Bits(supply.data)
    assert found.tolist() == [normal(source, 30) for _ in found]
    assert source.consumed == sampler.consumed


def test_every_digit_of_exp_minus_half(repository):
    """The two sums bracket exp(-1/2): their terms alternate and fall."""
    source = (repository / "csrc" / "sampler" / "sampler_core.c").read_text()
    digits = "".join(re.findall(r'^    "([0-9A-F]{64})"', source, re.MULTILINE))
    assert len(digits) == 512
    assert int(digits, 16) == int(series(400) * 2**2048) == int(series(401) * 2**2048)


# ---- exact probabilities by enumeration ---------------------------------------------------------


class OutOfDepth(Exception):
    pass


class Enumerated:
    """Replays a list of choices; asks for one more outcome when the list runs out."""

    def __init__(self, choices, digit_size):
        self.choices, self.digit_size = list(choices), digit_size
        self.position, self.wanted = 0, None

    def choose(self, m):
        if self.position == len(self.choices):
            self.wanted = m
            raise OutOfDepth
        choice = self.choices[self.position]
        self.position += 1
        return choice

    def digit(self):
        return self.choose(self.digit_size)

    def take(self, n):
        return self.choose(2**n)

    def below(self, m):
        return self.choose(m) if m > 1 else 0


def probabilities(function, digit_size, smallest):
    """Exact probability of each outcome over all branches more likely than ``smallest``.

    The mass that is not resolved bounds the distance to the true probabilities.
    """
    resolved, unresolved = {}, Fraction(0)
    pending = [((), Fraction(1))]
    while pending:
        choices, weight = pending.pop()
        source = Enumerated(choices, digit_size)
        try:
            outcome = function(source)
        except OutOfDepth:
            if weight < smallest:
                unresolved += weight
            else:
                share = weight / source.wanted
                pending.extend(((*choices, i), share) for i in range(source.wanted))
        else:
            resolved[outcome] = resolved.get(outcome, 0) + weight
    return resolved, unresolved


def assert_bracketed(function, truth, digit_size, smallest, width):
    """P(True) in exact arithmetic brackets ``truth`` to within ``width``."""
    resolved, unresolved = probabilities(function, digit_size, smallest)
    assert unresolved < width
    low = resolved.get(True, Fraction(0))
    assert low <= truth <= low + unresolved
    assert sum(resolved.values()) + unresolved == 1


def test_exp_minus_half_has_exactly_that_probability():
    for base, width in ((4, 1e-5), (16, 1e-6)):
        assert_bracketed(
            lambda source, base=base: exp_minus_half(source, base),
            math.exp(-0.5),
            base,
            Fraction(1, 2**20),
            width,
        )


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.one_in(2)
def test_exp_minus_has_exactly_the_probability_the_proof_needs(halved):
    """E over x of exp(-x^2/2) or exp(-x), by enumerating x's digits, too."""
    truth = _integral(_chance(halved))

    def step(source):
        return exp_minus(source, Uniform(source), halved)

    assert_bracketed(step, truth, 2, Fraction(1, 2**16), 0.25)


def _chance(halved):
    return lambda x: math.exp(-x * x / 2 if halved else -x)


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.one_in(2)
def test_exp_minus_given_x_is_exact_for_every_prefix(halved):
    """For x whose first digits are fixed, the acceptance lies between those at the two ends."""
    for prefix in range(4):

        def step(source, prefix=prefix):
            x = Uniform(source)
            x.digits = [prefix]
            return exp_minus(source, x, halved)

        resolved, unresolved = probabilities(step, 4, Fraction(1, 4**7))
        ends = [_chance(halved)(x) for x in ((prefix + 1) / 4, prefix / 4)]
        assert unresolved < 0.25
        assert resolved[True] <= ends[1]
        assert resolved[True] + unresolved >= ends[0]


def _integral(function, cells=20000):
    x = (np.arange(cells) + 0.5) / cells
    return float(np.mean([function(value) for value in x]))


@each(("u", "t"), [(0, 3), (1, 3), (2, 3), (3, 4), (1, 1)])
def test_exp_minus_ratio_has_exactly_that_probability(u, t):
    assert_bracketed(
        lambda source: exp_minus_ratio(source, u, t),
        math.exp(-u / t),
        2,
        Fraction(1, 20000),
        0.003,
    )


def test_discrete_laplace_has_exactly_its_law():
    s, t = 2, 3
    resolved, unresolved = probabilities(
        lambda source: discrete_laplace(source, s, t), 2, Fraction(1, 100000)
    )
    assert unresolved < 0.25
    ratio = math.exp(-s / t)
    for j in range(-3, 4):
        truth = (1 - ratio) / (1 + ratio) * ratio ** abs(j)
        assert resolved[j] <= truth <= resolved[j] + unresolved


@pytest.mark.parametrize("m", [1, 2, 3, 6, 7, 10, 2**33 + 5])
def test_uniform_integers_are_exactly_uniform(m):
    """The candidates are uniform on a power of two, of which the first m are equally likely."""
    width = (m - 1).bit_length()
    source = Bits(np.random.default_rng(m).bytes(4000))
    drawn = [source.below(m) for _ in range(100)]
    candidates = Bits(source.data)
    words = [candidates.bits(width) for _ in range(400)]
    assert drawn == [word for word in words if word < m][:100]
    assert m <= 2**width < 2 * m


# ---- distribution of the output -----------------------------------------------------------------
# Each test fails falsely with probability at most 1e-6.  Power: a scale that is wrong by 1% moves
# the second moment of 1e6 draws by 14 of its standard deviations (power > 1 - 1e-15 at a threshold
# of 5), a mean that is off by 0.01 moves it by 10 (power > 0.999999).

FALSE_FAILURE = 1e-6


def test_normals_follow_the_normal_law():
    z = ExactSampler(os.urandom).normals(1_000_000, 20)
    uniform = special.ndtr((z + 0.5) / 2**20)
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_FAILURE
    x = (z + 0.5) / 2**20
    assert abs(np.mean(x)) * math.sqrt(x.size) < 5.0
    assert abs(np.mean(x * x) - 1.0) * math.sqrt(x.size / 2) < 5.0
    cells = np.clip((z >> 17) + 40, 0, 79)  # cells of width 1/8 over [-5, 5)
    edges = (np.arange(-39, 40)) / 8
    expected = np.diff(np.concatenate(([0], special.ndtr(edges), [1]))) * z.size
    counts = np.bincount(cells, minlength=80)
    keep = expected > 20
    assert _chi_square(counts[keep], expected[keep]) > FALSE_FAILURE


def test_low_bits_of_normals_are_uniform_and_independent_of_the_rest():
    z = ExactSampler(os.urandom).normals(400_000, 44)
    for shift in (0, 12, 24):
        low = (z >> shift) & 63
        counts = np.bincount(low, minlength=64)
        assert _chi_square(counts, np.full(64, z.size / 64)) > FALSE_FAILURE
        table = np.zeros((2, 64))
        np.add.at(table, ((z >= 0).astype(int), low), 1)
        assert stats.chi2_contingency(table).pvalue > FALSE_FAILURE


def test_successive_normals_are_uncorrelated():
    z = ExactSampler(os.urandom).normals(1_000_000, 20) / 2**20
    for lag in (1, 2, 3):
        correlation = np.mean(z[:-lag] * z[lag:]) * math.sqrt(z.size - lag)
        assert abs(correlation) < 5.0  # P < 6e-7 for each
        squares = np.mean((z[:-lag] ** 2 - 1) * (z[lag:] ** 2 - 1)) / 2 * math.sqrt(z.size - lag)
        assert abs(squares) < 5.3


@pytest.mark.parametrize(("s", "t"), [(1, 1), (1, 5), (3, 2)])
def test_discrete_laplace_follows_its_law(s, t):
    j = ExactSampler(os.urandom).discrete_laplace(100_000, s, t)
    ratio = math.exp(-s / t)
    support = np.arange(-60, 61)
    expected = (1 - ratio) / (1 + ratio) * ratio ** np.abs(support) * j.size
    counts = np.array([(j == value).sum() for value in support])
    keep = expected > 10
    assert _chi_square(counts[keep], expected[keep], total=j.size) > FALSE_FAILURE


def _chi_square(counts, expected, total=None):
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, len(counts) - (total is None)))


# ---- bad suppliers and bad arguments ------------------------------------------------------------


@each("byte", [b"\x00", b"\xff", b"\x80", b"\x7f", b"\x01"])
@each("method", ["normals", "discrete_laplace"])
def test_constant_bytes_are_reported_not_used(byte, method):
    """A broken source must neither hang nor give noise that is always the same."""
    sampler = ExactSampler(lambda size: byte * size)
    arguments = (1000, 20) if method == "normals" else (1000, 1, 3)
    with pytest.raises(EntropyFailure, match="not random"):
        getattr(sampler, method)(*arguments)


def test_a_failing_supplier_is_an_error_each_time_and_recovers():
    healthy = [True]

    def supply(size):
        if not healthy[0]:
            raise OSError("no entropy")
        return os.urandom(size)

    sampler = ExactSampler(supply)
    sampler.normals(10, 20)
    healthy[0] = False
    for _ in range(3):
        with pytest.raises(OSError, match="no entropy"):
            sampler.normals(1000, 20)
    healthy[0] = True
    assert sampler.normals(1000, 20).shape == (1000,)


@each("wrong", [b"short", bytearray(BUFFER_BYTES), None, "x" * BUFFER_BYTES])
def test_a_supplier_of_the_wrong_thing_is_an_error(wrong):
    with pytest.raises((EntropyFailure, TypeError)):
        ExactSampler(lambda size: wrong).normals(1, 20)


@each(("size", "bits"), [(-1, 20), (1, 0), (1, 45), (1, -3)])
def test_bad_arguments_of_normals(size, bits):
    with pytest.raises(InvalidInput):
        ExactSampler(os.urandom).normals(size, bits)


@each(("s", "t"), [(0, 1), (-1, 1), (1, 0), (2**62, 1), (1, 2**62), (1, 2**41)])
def test_bad_arguments_of_discrete_laplace(s, t):
    with pytest.raises(InvalidInput):
        ExactSampler(os.urandom).discrete_laplace(1, s, t)


def test_normals_of_a_seed_are_rounded_down():
    z = np.random.default_rng(3).standard_normal(1000)
    expected = [math.floor(4.0 * value) for value in z]
    assert SeededNoise(3).normals(1000, 2).tolist() == expected
