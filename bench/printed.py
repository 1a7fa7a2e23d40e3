"""Paper 1's algorithms as printed, for comparison.  Never part of the package.

NumPy, written from the text of Avella-Medina, Bradshaw and Loh (2023): eq. (4), (9), (13), (14) and
C_Newton.  ``exact=False`` uses the constants as printed, which are, against replacement of one
record with n public:

* gradient of a known-scale or logistic loss, ``2B``: exact;
* gradient of the joint loss (6), ``sqrt(8 c^2 + c^4/4)``: over-noised by 2.7%;
* Hessian and sandwich matrices, ``2 Bbar`` and ``2 B^2`` on the upper triangle: over-noised by
  sqrt(2), and more off the diagonal (Lemma 1's own factor 1 would be under-noised by sqrt(2));
* Proposition 3's total of sqrt(3) mu: over-noised.

The one departure: the normal quantile multiplies the whole standard error of a Newton interval;
printed inside the root, 95% intervals cover 66% to 84%.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

import dpfast
from dpfast.models import Loss, resolve_loss

__all__ = ["Estimate", "Problem", "gradient_descent", "joint", "linear", "logistic", "newton"]

Array = np.ndarray


class Problem(NamedTuple):
    """Records with an intercept column, and what a method may know about them.

    ``kind`` is "linear", "logistic" or "joint"; a joint parameter ends with sigma.  ``radius`` is
    the R of ``w = min(1, R^2/||x||^2)``, or with ``linear_weights`` of ``min(1, R/||x||)``.
    """

    kind: str
    A: Array
    y: Array
    loss: Loss
    sigma: float
    radius: float
    linear_weights: bool = False

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def p(self) -> int:
        return self.A.shape[1] + (self.kind == "joint")

    @property
    def weights(self) -> Array:
        norm = np.linalg.norm(self.A, axis=1)
        ratio = np.minimum(1.0, self.radius / norm)
        return ratio if self.linear_weights else ratio**2

    @property
    def diameter(self) -> float:
        """``2B`` as printed."""
        c = self.loss.psi_bound
        if self.kind == "joint":
            return math.sqrt(8.0 * c**2 + c**4 / 4.0)
        return 2.0 * c * self.radius

    @property
    def curvature_bound(self) -> float:
        """``Bbar``, with the factor 1/sigma that the paper's display of the Hessian drops."""
        return self.loss.psi_prime_bound * self.radius**2 / self.sigma

    def scores(self, theta: Array) -> Array:
        """Score of every record, shape (n, p)."""
        if self.kind == "logistic":
            return (expit(self.A @ theta) - self.y)[:, None] * self.A * self.weights[:, None]
        if self.kind == "linear":
            u = (self.y - self.A @ theta) / self.sigma
            return -self.loss.psi(u)[:, None] * self.A * self.weights[:, None]
        sigma = max(float(theta[-1]), 1e-3)  # the algorithm as printed has no guard
        u = (self.y - self.A @ theta[:-1]) / sigma
        psi = self.loss.psi(u)
        scale = 0.5 * (KAPPA - psi**2)
        return np.column_stack([-psi[:, None] * self.A, scale]) * self.weights[:, None]

    def gradient(self, theta: Array) -> Array:
        return self.scores(theta).mean(axis=0)

    def hessian(self, theta: Array) -> Array:
        """Mean Hessian, shape (p, p)."""
        if self.kind == "joint":
            sigma = max(float(theta[-1]), 1e-3)
            u = (self.y - self.A @ theta[:-1]) / sigma
            rows = np.column_stack([self.A, u])
            curvature = self.loss.psi_prime(u) / sigma
        else:
            rows = self.A
            t = self.A @ theta
            u = t if self.kind == "logistic" else (self.y - t) / self.sigma
            curvature = self.loss.psi_prime(u) / self.sigma
        return (rows.T * (curvature * self.weights)) @ rows / self.n

    def meat(self, theta: Array) -> Array:
        scores = self.scores(theta)
        return scores.T @ scores / self.n


#: ``E psi(Z)^2`` of Huber's psi at c = 1.345.
KAPPA = 0.7101645


def linear(X: Array, y: Array, sigma: float, radius: float, loss: str = "huber") -> Problem:
    """Known scale (sections 3.2.1 and 4.4), covariates without their intercept."""
    return Problem("linear", _intercept(X), y, resolve_loss(loss), sigma, radius)


def joint(X: Array, y: Array) -> Problem:
    """Equation (6) with Huber's loss and the weights of section 3.2.1."""
    return Problem("joint", _intercept(X), y, dpfast.Huber(), 1.0, math.sqrt(2.0))


def logistic(X: Array, y: Array, radius: float, linear_weights: bool = False) -> Problem:
    """Section 3.2.2."""
    return Problem("logistic", _intercept(X), y, dpfast.Logistic(), 1.0, radius, linear_weights)


def _intercept(X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), X])


class Estimate(NamedTuple):
    """Last iterate, path (start first), covariance (13), and what (14) or C_Newton adds to it."""

    theta: Array
    path: Array
    covariance: Array
    correction: Array

    @property
    def plain(self) -> Array:
        """Standard errors without the correction."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def corrected(self) -> Array:
        return np.sqrt(np.diag(self.covariance + self.correction))


def gradient_descent(
    problem: Problem,
    mu: float,
    n_steps: int,
    step_size: float,
    rng: np.random.Generator,
    start: Array,
    inference: bool = True,
    n_extra: int = 0,
) -> Estimate:
    """Equation (4), uniform noise, with (13) and the constant correction (14).

    With ``inference`` the total ``mu`` is divided as in Proposition 3: ``mu/sqrt(3)`` each for the
    path and the two matrices.
    """
    own = mu / math.sqrt(3.0) if inference else mu
    noise = problem.diameter * math.sqrt(n_steps) / (own * problem.n)
    theta, path = start.astype(float), [start]
    for _ in range(n_steps + n_extra):  # extra steps are not paid for: only to look at
        step = problem.gradient(theta) + noise * rng.normal(size=problem.p)
        theta = theta - step_size * step
        path.append(theta)
    covariance, correction = np.full((2, problem.p, problem.p), np.nan)
    if inference and np.isfinite(theta).all():
        bread = problem.hessian(theta) + _triangle(problem.curvature_bound, own, problem, rng)
        covariance = _sandwich(problem, theta, bread, own, rng, exact=False)
        correction = 2.0 * (step_size * noise) ** 2 * np.eye(problem.p)
    return Estimate(theta, np.array(path), covariance, correction)


def newton(
    problem: Problem,
    mu: float,
    n_steps: int,
    rng: np.random.Generator,
    start: Array,
    step_size: float = 1.0,
    exact: bool = False,
    inference: bool = True,
    floor: float = 1e-2,
    n_extra: int = 0,
    gamma: float | None = None,
) -> Estimate:
    """Equation (9) with a uniform schedule, (13) and C_Newton; ``floor`` is the paper's epsilon.

    With ``gamma``, adaptive steps ``log(1 + b)/b``, ``b = gamma ||H^-1 G||`` (section 4.4.2).

    With ``exact``, the audited constants: symmetric noise for sensitivity ``sqrt(2) Bbar/n``,
    the meat at a tenth of ``mu^2``, the last Hessian reused for the sandwich, and composition of
    what is left over all steps, four fifths of it to gradients (independent accounting).
    """
    n, p = problem.n, problem.p
    if exact:
        left = mu * math.sqrt(0.9 if inference else 1.0)
        mu_gradient = left * math.sqrt(0.8 / n_steps)
        mu_hessian = left * math.sqrt(0.2 / n_steps)
        noise = problem.diameter / (n * mu_gradient)
        own = mu * math.sqrt(0.1)
    else:
        own = mu / math.sqrt(3.0) if inference else mu
        noise = problem.diameter * math.sqrt(2.0 * n_steps) / (own * n)
        mu_hessian = own / math.sqrt(2.0 * n_steps)
    theta, path = start.astype(float), [start]
    matrix = np.eye(p)
    for _ in range(n_steps + n_extra):
        matrix = problem.hessian(theta)
        if exact:
            matrix = matrix + _symmetric(problem.curvature_bound, mu_hessian, problem, rng)
        else:
            matrix = matrix + _triangle(problem.curvature_bound, mu_hessian, problem, rng)
        gradient = problem.gradient(theta) + noise * rng.normal(size=p)
        inverse = _inverse(matrix, floor)
        direction = inverse @ gradient
        if gamma is not None:
            b = gamma * float(np.linalg.norm(direction))
            step_size = math.log1p(b) / b
        theta = theta - step_size * direction
        path.append(theta)
        if not np.isfinite(theta).all():
            break
    covariance, correction = np.full((2, p, p), np.nan)
    if inference and np.isfinite(theta).all():
        bread = matrix
        if not exact:
            bread = problem.hessian(theta) + _triangle(problem.curvature_bound, own, problem, rng)
        covariance = _sandwich(problem, theta, bread, own, rng, exact)
        inverse = _inverse(matrix, floor)
        correction = (step_size * noise) ** 2 * inverse @ inverse
    return Estimate(theta, np.array(path), covariance, correction)


def _triangle(bound: float, mu: float, problem: Problem, rng: np.random.Generator) -> Array:
    """Independent noise on the upper triangle, mirrored, standard deviation ``2 bound/(mu n)``."""
    upper = np.triu(rng.normal(size=(problem.p, problem.p)))
    return 2.0 * bound / (mu * problem.n) * (upper + np.triu(upper, 1).T)


def _symmetric(bound: float, mu: float, problem: Problem, rng: np.random.Generator) -> Array:
    square = rng.normal(size=(problem.p, problem.p))
    return math.sqrt(2.0) * bound / (mu * problem.n) * (square + square.T) / 2.0


def _sandwich(
    problem: Problem, theta: Array, bread: Array, mu: float, rng: np.random.Generator, exact: bool
) -> Array:
    draw = _symmetric if exact else _triangle
    meat = problem.meat(theta) + draw((problem.diameter / 2.0) ** 2, mu, problem, rng)
    values, vectors = np.linalg.eigh(meat)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    inverse = _inverse(bread, 1e-2)
    return inverse @ positive @ inverse / problem.n


def _inverse(matrix: Array, floor: float) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.maximum(values, floor)) @ vectors.T
