"""Tests that were missing until a planted bug of ``planted_bugs.toml`` survived without them."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.curator import Curator, StepBudget
from dpfast.data import Records, as_records
from dpfast.kernels.records import GRADIENT, MEAT, summation_depth
from dpfast.kernels.sampler import BUFFER_BYTES, ExactSampler
from dpfast.models import (
    Huber,
    LogCosh,
    Logistic,
    Mallows,
    Objective,
    PseudoHuber,
    resolve_weighting,
)
from dpfast.privacy.sensitivity import RECORD_ERROR, joint_mu
from tests import sources
from tests.loops import each

PACKAGE = Path(dpfast.__file__).parent


# ---- rounding of sums ----------------------------------------------------------------------------


class Blocks(Records):
    """One short block, then all other records."""

    def __init__(self, X, y):
        super().__init__(X, y, None)
        self.block_sizes = (1, len(y) - 1)

    def blocks(self):
        yield self.X[:1], self.y[:1]
        yield self.X[1:], self.y[1:]


@pytest.mark.parametrize("kind", [lambda X, y: Records(X, y, None), Blocks])
def test_the_curator_pays_for_the_rounding_of_its_sums(kind):
    """C11: the relative slack of a receipt is at least ``3 (1e-12 + gamma n)``."""
    n, p = 100_000, 2
    records = kind(np.zeros((n, p)), np.zeros(n))
    objective = Objective(LogCosh(), Mallows(2.0), p, fit_intercept=False, scale=1.0)
    keeper = Curator(records, objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    sizes = records.block_sizes
    deepest = max(summation_depth(size, p, GRADIENT | MEAT) for size in sizes) + len(sizes) - 1
    roundings = Fraction(deepest, 2**53)
    slack = 3 * (Fraction(RECORD_ERROR) + roundings / (1 - roundings) * n)
    gradient, meat = keeper.receipts(StepBudget(1.0, 0.0, 1.0))
    ideal = Fraction(2 * objective.score_bound) / n
    assert Fraction(gradient.l2_sensitivity) >= ideal * (1 + slack)
    ideal_squared = 2 * Fraction(objective.score_bound) ** 4 / n**2
    assert Fraction(meat.l2_sensitivity) ** 2 >= ideal_squared * (1 + slack) ** 2 * (1 - 2**-50)


# ---- joint releases ------------------------------------------------------------------------------


def largest_curvature(coupling, tau):
    """Largest relative curvature a coupling allows at the relative score ``tau``."""
    if coupling == "independent":
        return np.ones_like(tau)
    if coupling == "one-minus-square":
        return 1.0 - tau**2
    if coupling == "circle":
        return np.sqrt(1.0 - tau**2)
    if coupling == "logistic":
        return 4.0 * tau * (1.0 - tau)
    if coupling == "logistic-majorizer":
        tau = np.maximum(2.0 * tau - 1.0, 0.0)
    else:
        assert coupling == "log-cosh-majorizer"
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(tau > 0.0, tau / np.arctanh(tau), 1.0)


@each("loss", [Huber(), LogCosh(), PseudoHuber(), Logistic()], ids=repr)
def test_every_loss_obeys_the_couplings_it_names(loss):
    r = np.linspace(-12.0, 12.0, 4801)
    if loss.binary_response:
        psi = loss.psi(r)
        scores = [psi, 1.0 - psi]  # responses 0 and 1
    else:
        scores = [np.abs(loss.psi(r)) / loss.psi_bound]
    for tau in scores:
        for curvature, coupling in (
            (loss.psi_prime(r), loss.coupling),
            (loss.majorizer(r), loss.majorizer_coupling),
        ):
            h = curvature / loss.psi_prime_bound
            assert (h <= largest_curvature(coupling, np.minimum(tau, 1.0)) + 1e-6).all(), coupling


@pytest.mark.parametrize("coupling", ["log-cosh-majorizer", "logistic-majorizer"])
def test_the_cost_of_a_majorizer_covers_what_lies_between_the_entries_of_its_table(coupling):
    """Curvature and meat of two records with equal scores and orthogonal covariates (C18, t = 0).

    Their distance in units of noise attains the bound; its maximum over s, found on a grid 100
    times as fine as the table's, must not exceed the cost.
    """
    s = np.linspace(1.0 / 256.0, 6.0, 153_500)
    tau = np.tanh(s) if coupling == "log-cosh-majorizer" else 0.5 * (1.0 + np.tanh(s))
    h = np.tanh(s) / s
    for mu_meat in np.linspace(0.6, 1.4, 60):
        attack = math.sqrt(float((h**2 + mu_meat**2 * tau**4).max()))
        assert attack <= joint_mu(coupling, 0.0, 1.0, float(mu_meat))


# ---- conversions ---------------------------------------------------------------------------------


@each("epsilon", [1e-6, 0.1, 0.9, 1.0, 3.0, 30.0])
def test_a_pure_guarantee_costs_its_whole_mu(epsilon):
    """C5 through the conversion itself: the kink of randomised response lies on G_mu or above."""
    ledger = dpfast.Ledger(dpfast.GDP(100.0))
    ledger.charge(dpfast.PureDP(epsilon), "randomised response")
    (entry,) = ledger.entries
    assert entry.charged == dpfast.PureDP(epsilon).as_gdp()
    with mpmath.workdps(40):
        needed = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        assert mpmath.ncdf(mpmath.mpf(entry.charged.mu) / 2) >= needed


# ---- randomness ----------------------------------------------------------------------------------


def test_sources_have_seeds_of_more_than_a_few_bits():
    """100 sources: with 8-bit seeds two agree with probability 1 - 1e-9, honestly never."""
    draws = {dpfast.privacy.EntropyNoise().normals(4, 40).tobytes() for _ in range(100)}
    assert len(draws) == 100


def test_two_draws_differ():
    for noise in (dpfast.privacy.EntropyNoise(), dpfast.SeededNoise(0)):
        assert noise.normals(4, 40).tolist() != noise.normals(4, 40).tolist()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="reads its own memory")
def test_the_buffer_holds_no_byte_that_was_used():
    """The page of the sampler, found by the last unused bytes in it, has zeros where it drew."""
    tails = []

    def supply(size):
        data = os.urandom(size)
        tails.append(data[-32:])
        return data

    sampler = ExactSampler(supply)
    sampler.normals(50, 20)
    assert len(tails) == 1
    pages = []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, mode, _, _, inode = line.split()[:5]
            start, end = (int(address, 16) for address in span.split("-"))
            if not mode.startswith("rw") or inode != "0" or end - start > 1 << 20:
                continue  # a page of its own: never part of a large arena
            for page in range(start, end, 4096):
                memory.seek(page)
                content = memory.read(4096)
                if content.endswith(tails[0]):
                    pages.append(content)
    (page,) = pages
    used = sampler.consumed
    assert used >= 100
    first = len(page) - BUFFER_BYTES
    assert not any(page[first : first + used])
    assert page[first + used : first + used + 64].count(0) < 32  # what follows is not used yet
    bits, left = (int.from_bytes(page[i : i + 8], "little") for i in (0, 8))
    assert bits < 2**left < 2**32  # bits that were used are gone from the word, too


# ---- data-dependent behaviour --------------------------------------------------------------------


@each("optimiser", [dpfast.optimize.Newton, dpfast.optimize.GradientDescent])
@each("loss", ["log-cosh", "logistic"])
def test_no_data_set_ends_a_fit_early(loss, optimiser):
    n, steps = 60, 5
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(n, 2)), np.zeros((n, 2))
    everything = [
        (z, np.zeros(n)),
        (x, np.zeros(n)),
        (x, np.ones(n)),
        (x * 1e300, np.ones(n)),
        (np.full((n, 2), np.nan), np.zeros(n)),
        (x, np.full(n, np.inf)),
    ]
    standardize = False if loss == "logistic" else None
    loss = loss if loss == "logistic" else dpfast.Objective(loss, scale=1.0)
    found = set()
    for X, y in everything:
        fit = dpfast.fit(
            X, y, loss, privacy=1.0, method=optimiser(steps=steps), standardize=standardize
        )
        assert len(fit.iterates) == steps + 1
        found.add(fit.privacy.entries)
    assert len(found) == 1
    assert len(found.pop()) == steps


#: What may read exact numbers: the curator and below, the audit, the comparison fit, and what
#: the user reads in a notebook.
BEHIND_THE_DOOR = ("curator", "kernels", "data", "audit", "datasets")
READERS = (
    "regression/nonprivate.py",
    "regression/exact.py",
    "fit_requests/request.py",  # a Design's X, on its way to the records
    "regression/formula.py",  # the same
    "regression/many.py",  # the same, for each of several responses
    "studies/quotes.py",  # of a public table
    "tables/subgroups.py",  # a Design's X, on its way to the records
    "tables/absorbed.py",  # the same
    "tables/small_areas.py",  # the same
    "effects/hazards.py",  # the same
    "effects/treatment_inputs.py",  # the same
    "bayesopt/estimator_losses.py",  # lists as arrays, for the caller's estimator
    "estimators/base.py",
    "estimators/validation.py",
    "regression/forecast.py",
    "nonconvex/kl.py",
    "cli/demo.py",
    "cli/commands.py",
    "__init__.py",
    "__main__.py",
)


def test_exact_numbers_are_read_behind_the_curators_door_only():
    """Everything else sees answers: no `nonprivate_...`, and nothing private of a curator."""
    objective = Objective(Huber(), Mallows(2.0), 1, scale=1.0)
    keeper = Curator(
        as_records([[1.0]], [1.0]), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0)
    )
    members = (*vars(Curator), *vars(keeper))
    hidden = {name for name in members if name.startswith("_") and not name.startswith("__")}
    hidden |= {"X", "blocks"}
    assert {"_records", "_sums", "_kernel"} <= hidden
    offenders = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE)
        if where.parts[0] in BEHIND_THE_DOOR or where.as_posix() in READERS:
            continue
        for node in ast.walk(sources.tree(path)):
            if not isinstance(node, ast.Attribute):
                continue
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr.startswith("nonprivate_") or (node.attr in hidden and not own):
                offenders.append(f"{where}:{node.lineno} reads .{node.attr}")
    assert offenders == []


@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_an_outlier_in_one_data_set_only_changes_no_bound(loss):
    """A radius, scale or step size taken from the largest row would show."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] > 0) * 1.0
    standardize = False if loss == "logistic" else None
    loss = loss if loss == "logistic" else dpfast.Objective(loss, scale=0.8)
    for row in (1e300, 50.0):
        outlier = X.copy()
        outlier[3] = row
        for method in (dpfast.optimize.Newton(steps=3), dpfast.optimize.GradientDescent(steps=3)):

            def call(data, method=method):
                return dpfast.fit(*data, loss, privacy=1.0, method=method, standardize=standardize)

            replay(call, (X, y), (outlier, y), budget=1.0).raise_on_leak()


def test_the_default_radius_is_that_of_the_dimension():
    assert resolve_weighting(None, 7) == Mallows(math.sqrt(7.0))
    x = np.full((50, 2), 1e6)
    fit = dpfast.fit(
        x, np.zeros(50), dpfast.Objective("huber", scale=1.0), privacy=1.0, method="newton"
    )
    assert f"radius={math.sqrt(3.0):g}" in fit.model


def test_a_signalling_nan_does_not_warn_about_itself():
    X = np.array([[0x7FA00000], [0x3F800000]], dtype=np.uint32).view(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = as_records(X, X[:, 0])
    assert math.isnan(records.X[0, 0])
    assert records.X[1, 0] == 1.0


# ---- the build -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CFLAGS", "-O2 -ffast-math"), ("CPPFLAGS", "-ffinite-math-only"), ("CC", "gcc -Ofast")],
)
def test_flags_of_the_environment_cannot_delete_the_nan_guards(variable, value):
    pytest.importorskip("Cython")
    root = PACKAGE.parent
    if not (root / "setup.py").exists():
        pytest.skip("an installed package has no build")
    built = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=root,
        env=os.environ | {variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode != 0
    assert value.split()[-1] in built.stderr
    assert "NaN" in built.stderr
