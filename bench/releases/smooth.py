"""From how many records each certificate allows a release of the whole parameter

The design of paper 3 (covariates uniform on [-1, 1]^d, Laplace errors) at epsilon = 4, delta =
1e-6, a quarter of epsilon for the certificate.  The log-cosh loss is self-concordant, so theorem A
("global"), the paper's recursion for linear models and algorithm 7 ("smooth") all apply; the
smoothed Huber loss has algorithm 7 alone.  Bisected over n with the eigenvalue of a large sample:
once without noise in the count, once with noise that nineteen of twenty releases stay above.  The
last column is the share of real releases that certify at the second n.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product

import numpy as np

import dpfast
from bench.figures.paper3.design import sample
from bench.study import Block, study
from dpfast.curator.release.kinds import kind_of
from dpfast.curator.release.terms import parameter_terms
from dpfast.models import Loss
from dpfast.privacy.ledger import Ledger
from dpfast.release.certified import make_terms
from dpfast.release.request import ReleaseRequest

TOTAL = dpfast.ApproxDP(4.0, 1e-6)
LARGE = 200_000
CASES: tuple[tuple[Loss, str], ...] = (
    (dpfast.LogCosh(2.0), "global"),
    (dpfast.LogCosh(2.0), "recursive"),
    (dpfast.LogCosh(2.0), "smooth"),
    (dpfast.models.SmoothedHuber(1.345, 2.0), "smooth"),
)


def eigenvalue(loss: Loss, d: int) -> float:
    """Smallest eigenvalue of the Hessian at the minimiser of a large sample."""
    X, y = sample(np.random.default_rng(d), LARGE, d)
    fit = dpfast.nonprivate_fit(
        X,
        y,
        dpfast.Objective(
            loss, weights=dpfast.Bounded(math.sqrt(d)), scale=1.0, fit_intercept=False
        ),
    )
    bend = loss.psi_prime(y - X @ fit.params)
    return float(np.linalg.eigvalsh((X * bend[:, None]).T @ X / LARGE)[0])


def allows(loss: Loss, certificate: str, n: int, d: int, lam: float, less: int) -> bool:
    """Whether a release of n records follows from a count that noise has lowered by ``less``."""
    terms = make_terms("parameter", TOTAL, 0.25)
    domain = dpfast.models.Ball(math.sqrt(d))
    request = ReleaseRequest(
        np.broadcast_to(0.0, (n, d)), np.broadcast_to(0.0, n),
        dpfast.Objective(loss, scale=1.0), domain=domain, noise=None,
    )  # fmt: skip
    kind = kind_of(certificate)(request.curator(Ledger(terms.budget)), request.domain)
    bound = kind.lower_bound(kind.count(lam) - less, terms.tail())
    return parameter_terms(kind.plan, terms, bound) is not None


def first(loss: Loss, certificate: str, d: int, lam: float, less: int) -> int:
    """Smallest n per dimension, within a hundredth."""
    low, high = 10.0, 10.0
    while not allows(loss, certificate, math.ceil(high * d), d, lam, less):
        low, high = high, 2.0 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        enough = allows(loss, certificate, math.ceil(middle * d), d, lam, less)
        low, high = (low, middle) if enough else (middle, high)
    return math.ceil(high)


def share(loss: Loss, certificate: str, n: int, d: int, repetitions: int) -> float:
    """Part of the releases that certify."""
    hits = 0
    for repetition in range(repetitions):
        X, y = sample(np.random.default_rng([d, repetition]), n, d)
        found = dpfast.release_parameter(
            X, y, dpfast.Objective(loss, scale=1.0), privacy=TOTAL,
            domain=dpfast.models.Ball(math.sqrt(d)), certificate=certificate,
        )  # fmt: skip
        hits += found.certified
    return hits / repetitions


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    low = round(1024.0 * math.log(10.0))  # the noise is below -log(10) steps with probability 0.05
    for d, (loss, certificate) in product((5,) if asked.quick else (5, 10, 20), CASES):
        lam = eigenvalue(loss, d)
        sure = first(loss, certificate, d, lam, low)
        yield {
            "loss": repr(loss), "certificate": certificate, "d": d, "lambda": f"{lam:.4f}",
            "n/d median": first(loss, certificate, d, lam, 0), "n/d 95%": sure,
            "certified": f"{share(loss, certificate, sure * d, d, asked.runs):.2f}",
        }  # fmt: skip


main = study("smooth", measured, __doc__, runs=40)
