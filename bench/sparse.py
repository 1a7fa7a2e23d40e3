"""Columns selected out of thousands, beside rivals, and coverage of coefficients of interest

n = 20,000, errors of variance 1, ten columns that matter.  Designs: "near" has neighbours that
correlate by .5, and coefficients of .1; "common" has a common factor, correlations of .3, and
coefficients from .5 falling by a quarter; "rare" has indicators of 3 to 50%, and coefficients of .1
side by side.  The first table has the distance of coefficients from the truth over that of least
squares of the true columns (median), and how many of the ten were found (mean).  The second has
coverage of 95% intervals of three coefficients of interest, which one call estimates, and their
median width over that of least squares of the true columns and these.

Rivals are told what their papers assume.  *Peeling* is noisy iterative hard thresholding (Cai, Wang
and Zhang 2021) with the number of coefficients; *Frank-Wolfe* (Talwar, Thakurta and Zhang 2015)
has the l1 norm of the truth.  Both know the columns' units, clip scores as here, and choose by the
exponential mechanism at our price, which is below that of their papers.  Of several numbers of
rounds the best is shown.  *Post-lasso* is not private: scikit-learn's lasso at sqrt(2 log(p)/n),
and least squares of what it selected.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri

import dpfast
from bench.study import Block, study
from dpfast.privacy.blackbox.sensitivity import choice_exponent

N, TRUE = 20_000, 10
#: Data sets of a row of the first table; at p = 5,000 it is one.
SETS = 3
#: Clipping bound of columns and residuals, in standard deviations.
CLIP = 2.0

Array = np.ndarray[Any, np.dtype[np.float64]]


def draw(kind: str, p: int, seed: int) -> tuple[Array, Array, Array]:
    """Draw columns of variance 1, responses, and the coefficients."""
    rng = np.random.default_rng([seed, p])
    X = rng.standard_normal((N, p), dtype=np.float32)
    if kind == "common":
        factor = rng.standard_normal((N, 1), dtype=np.float32)
        X = np.sqrt(np.float32(0.7)) * X + np.sqrt(np.float32(0.3)) * factor
    else:
        for j in range(1, p):
            X[:, j] = np.float32(0.5) * X[:, j - 1] + np.sqrt(np.float32(0.75)) * X[:, j]
    if kind == "rare":
        shares = rng.uniform(0.03, 0.5, p).astype(np.float32)
        X = (ndtri(1.0 - shares).astype(np.float32) < X).astype(np.float32)
        X = (X - shares) / np.sqrt(shares * (1.0 - shares))
    places = rng.choice(np.arange(10, p - 10), TRUE, replace=False)
    if kind == "rare":
        places = places[0] + np.arange(TRUE) - 5
    sizes = 0.5 * 0.75 ** np.arange(TRUE) if kind == "common" else np.full(TRUE, 0.1)
    b = np.zeros(p)
    b[places] = sizes * rng.choice([-1.0, 1.0], TRUE)
    return X, X @ b.astype(np.float32) + rng.standard_normal(N), b


def score(X: Array, residuals: Array) -> tuple[Array, float]:
    """Return clipped scores, and by how much one record moves each at most."""
    bound = CLIP * 1.4826 * float(np.median(np.abs(residuals)))
    clipped = np.clip(residuals, -bound, bound).astype(np.float32)
    total = np.zeros(X.shape[1])
    for first in range(0, N, 2000):
        block = slice(first, first + 2000)
        total += clipped[block] @ np.clip(X[block], -CLIP, CLIP)
    return total / N, 2.0 * CLIP * bound / N


def peeling(X: Array, y: Array, b: Array, mu: float, rounds: int, rng: Any) -> Array:
    """Noisy iterative hard thresholding; a third of each round's mu^2 is for the values."""
    found, part = np.zeros(len(b)), mu / math.sqrt(rounds)
    for _ in range(rounds):
        gradient, moved = score(X, y - X @ found.astype(np.float32))
        step = found + gradient
        rate = choice_exponent(part * math.sqrt(2.0 / 3.0 / TRUE)) / moved
        kept = np.argsort(-rate * np.abs(step) - rng.gumbel(size=len(b)))[:TRUE]
        noise = moved * math.sqrt(TRUE) / (part * math.sqrt(1.0 / 3.0))
        found = np.zeros(len(b))
        found[kept] = step[kept] + noise * rng.standard_normal(TRUE)
    return found


def frank_wolfe(X: Array, y: Array, b: Array, mu: float, rounds: int, rng: Any) -> Array:
    """Private Frank-Wolfe over the l1 ball through the truth."""
    found, radius = np.zeros(len(b)), float(np.abs(b).sum())
    for k in range(rounds):
        gradient, moved = score(X, y - X @ found.astype(np.float32))
        rate = choice_exponent(mu / math.sqrt(rounds)) / moved
        both = rate * np.concatenate([gradient, -gradient])
        best = int(np.argmax(both + rng.gumbel(size=len(both))))
        found *= 1.0 - 2.0 / (k + 2.0)
        found[best % len(b)] += 2.0 / (k + 2.0) * radius * (1.0 if best < len(b) else -1.0)
    return found


def least_squares(X: Array, y: Array, places: Any) -> Array:
    """Least squares of a few columns."""
    found = np.zeros(X.shape[1])
    found[places] = np.linalg.lstsq(X[:, places].astype(float), y, rcond=None)[0]
    return found


def post_lasso(X: Array, y: Array, b: Array) -> Array:
    """Lasso at the universal penalty, and least squares of the selected columns."""
    from sklearn.linear_model import Lasso

    penalty = math.sqrt(2.0 * math.log(len(b)) / N)
    lasso = Lasso(penalty, copy_X=False, tol=1e-3).fit(np.asfortranarray(X), y)
    return least_squares(X, y, np.flatnonzero(lasso.coef_))


def ours(X: Array, y: Array, mu: float, seed: int, standardize: bool) -> Array:
    """Coefficients of ``fit_sparse``, with the number of columns known."""
    fit = dpfast.regression.fit_sparse(
        X, y, privacy=mu, n_nonzero_coefs=TRUE, standardize=standardize,
        noise=dpfast.SeededNoise(seed),
    )  # fmt: skip
    found = np.zeros(X.shape[1])
    found[[int(name[1:]) - 1 for name in fit.names[1:]]] = fit.params[1:]
    return found


def methods(mu: float, seed: int) -> dict[str, Callable[..., Array]]:
    """Return all methods by their names, as functions of columns, responses and the truth."""
    found: dict[str, Callable[..., Array]] = {
        "fit_sparse": lambda X, y, b: ours(X, y, mu, seed, True),
        "units declared": lambda X, y, b: ours(X, y, mu, seed, False),
        "post-lasso": post_lasso,
    }
    for name, rival, rounds in (
        ("peeling", peeling, (2, 4, 8)),
        ("Frank-Wolfe", frank_wolfe, (20, 50)),
    ):
        for k in rounds:
            found[f"{name} {k}"] = partial(rival, mu=mu, rounds=k, rng=np.random.default_rng(seed))
    return found


def selection(p: int, runs: int, kinds: tuple[str, ...]) -> Iterator[Block]:
    """Compare errors, and true columns found, over those of least squares of the true columns."""
    for kind in kinds:
        for mu in (1.0, 3.0):
            errors: dict[str, list[float]] = {}
            hits: dict[str, list[int]] = {}
            for seed in range(runs):
                X, y, b = draw(kind, p, seed)
                true = np.flatnonzero(b)
                best = float(np.linalg.norm(least_squares(X, y, true) - b))
                for name, method in methods(mu, seed).items():
                    found = method(X, y, b)
                    errors.setdefault(name, []).append(float(np.linalg.norm(found - b)) / best)
                    hits.setdefault(name, []).append(int(np.count_nonzero(found[true])))
            row: dict[str, object] = {"p": p, "design": kind, "mu": f"{mu:g}"}
            for name in ("fit_sparse", "units declared", "peeling", "Frank-Wolfe", "post-lasso"):
                same = [k for k in errors if k.split()[0] == name.split()[0]]
                k = min(same, key=lambda k: float(np.median(errors[k])))
                row[name] = f"{np.median(errors[k]):.2f} ({np.mean(hits[k]):.1f})"
            yield row


def coverage(p: int, mu: float, kind: str, runs: int) -> dict[str, object]:
    """Intervals of an effect, of a zero beside one, and of a zero between two that are missed."""
    covered, widths = [], []
    for seed in range(runs):
        X, y, b = draw(kind, p, 1000 + seed)
        near = np.array([3, 5])
        y = y + X[:, near] @ np.full(2, 0.03)
        effect = int(np.flatnonzero(b)[0])
        beside = next(j for j in range(effect + 1, p) if b[j] == 0.0)
        asked = [effect, beside, 4]
        names = [f"x{j + 1}" for j in asked]
        fit = dpfast.regression.fit_sparse(
            X, y, privacy=mu, of_interest=names, standardize=False, noise=dpfast.SeededNoise(seed)
        )
        low, high = np.array([fit.conf_int()[name] for name in names]).T
        covered.append((low <= b[asked]) & (b[asked] <= high))
        exact = np.linalg.inv(np.cov(X[:, sorted({*np.flatnonzero(b), *near, *asked})].T))
        order = sorted({*np.flatnonzero(b), *near, *asked})
        errors = np.sqrt(exact.diagonal() / N)[[order.index(j) for j in asked]]
        widths.append((high - low) / (2.0 * 1.96 * errors))
    shares = np.mean(covered, axis=0)
    return {
        "p": p, "design": kind, "mu": f"{mu:g}", "data sets": runs,
        "an effect": f"{shares[0]:.3f}", "a zero beside it": f"{shares[1]:.3f}",
        "a zero between two that are missed": f"{shares[2]:.3f}",
        "width": f"{np.median(widths):.2f}",
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    if asked.quick:
        yield from selection(60, 1, ("near",))
        yield coverage(60, 1.0, "near", 2)
        return
    yield from selection(500, SETS, ("near", "common", "rare"))
    yield from selection(5000, 1, ("near",))
    for kind, mu in product(("near", "common"), (1.0, 3.0)):
        yield coverage(500, mu, kind, asked.runs)
    yield coverage(5000, 1.0, "near", max(2, asked.runs // 10))


main = study("sparse", measured, __doc__, runs=200)
