"""DP-GIBO as functions of public settings and released gradients only (claim G2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.bayesopt.settings import Settings
from dpfast.bayesopt.surrogate.gradient_information import GradientInformation
from dpfast.bayesopt.updates import History
from dpfast.curator.blackbox.vectors import RecordValues

#: Up to so many parameters the batch is optimised fully, in a fraction of a second per search.
#: Beyond, the optimisation starts at the most uncertain directions, with a larger tolerance.  With
#: 200 parameters that takes a quarter of the time of random directions with an equal result
#: (bench/acquisition measures both).
THOROUGH_DIMENSION = 32

#: Tolerance beyond that dimension: a step that reduces the trace by less than this part of the
#: prior's ends the optimisation.
COARSE_TOLERANCE = 1e-3

#: Width of the points of each choice, relative to each side of the box; the last one repeats.
WIDTHS = (1.0, 0.4, 0.2, 0.1)


class Search:
    """Algorithm 1 of paper 4, corrected, without access to records."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.points: list[Array] = []
        self.batch_sizes: list[int] = []
        self.iterates: list[Array] = [settings.start]
        self.gradients: list[Array] = []
        self.variances: list[Array] = []
        self.noise_scales: list[float] = []
        self.traces: list[float] = []
        self.failed: list[float] = []  # one number after the last step
        self.origins: list[Array] = []  # where each gradient was taken
        self._information = GradientInformation(
            settings.covariance, settings.noise_variance, settings.box.search_bounds
        )

    def refuse_impossible(self, values: RecordValues, mu: float) -> None:
        """Refuse a budget with which a step cannot be answered; costs nothing."""
        values.mean_receipt(self.settings.clip, mu, self.settings.box.dimension)

    @property
    def theta(self) -> Array:
        """Current iterate, in search coordinates."""
        return self.iterates[-1]

    def batch(self) -> Array:
        """Choose the points to evaluate next, shape (b, d): lines 4 and 5."""
        settings, theta = self.settings, self.theta
        self._information.condition(self._evaluated())
        if settings.threshold is None:
            size = settings.batch
            if settings.mean == "constant" and not self.points:
                size = max(size, 2)  # a slope needs two values
            options: dict[str, Any] = {}
            if len(theta) > THOROUGH_DIMENSION:
                uncertain_points = self._information.most_uncertain(theta, size)
                options = {
                    "starts": 0,
                    "initial": [uncertain_points],
                    "tolerance": COARSE_TOLERANCE,
                }
            candidates, _ = self._information.acquire(theta, size, **options)
        else:
            allowed = settings.threshold * settings.covariance.prior_trace(theta)
            candidates = self._information.choose_batch(theta, allowed, settings.batch)
        # round trip: the points that the caller receives, to the last bit
        points = settings.space.snap_batch(
            np.asarray(candidates), theta, lambda batch: self._information.trace(batch, theta)
        )
        return settings.box.to_unit(settings.box.from_unit(points))

    def add(self, points: Array) -> None:
        """Add evaluated points to D: line 6."""
        self.points += list(points)
        self.batch_sizes.append(len(points))

    def weights(self) -> Array:
        """Return the weights of a record's values in its surrogate gradient: line 7."""
        self._information.condition(self._evaluated())
        return self._information.gradient_weights(self.theta, self.settings.mean)

    def step(self, values: RecordValues, mu: float, label: str) -> None:
        """Release the mean of the records' clipped gradients (line 8), and move."""
        weights = self.weights()
        answer = values.mean(weights, self.settings.clip, mu, label=label)
        self.move(answer.value, answer.noise_scale, weights)

    def move(self, gradient: Array, noise_scale: float, weights: Array) -> None:
        """Take a step along a released gradient: line 9, projected."""
        projection = signal_projection(weights)
        self.gradients.append(projection @ gradient)
        self.variances.append(noise_scale**2 * np.maximum(np.diag(projection), 0.0))
        self.noise_scales.append(noise_scale)
        self.traces.append(self._remaining_variance(weights))
        self.origins.append(self.theta)
        history = History(
            self.origins, self.gradients, self.variances, self.noise_scales, self.settings.steps
        )
        step = self.settings.update.step(history)
        self.iterates.append(self.settings.space.project(self.theta + step))

    def recommendation(self) -> Array:
        """Average the last iterates, in the caller's units."""
        count = max(1, round(self.settings.average * len(self.gradients)))
        space = self.settings.space
        return space.box.from_unit(space.snap(np.mean(self.iterates[-count:], axis=0)))

    def _evaluated(self) -> Array:
        if not self.points:
            return np.empty((0, self.settings.box.dimension))
        return np.array(self.points)

    def _remaining_variance(self, weights: Array) -> float:
        covariance, theta = self.settings.covariance, self.theta
        prior = covariance.prior_trace(theta)
        slopes = covariance.gradient(theta, self._evaluated())
        explained = float(np.sum(slopes * weights.T))
        return max(0.0, 1.0 - explained / prior) if prior > 0.0 else 0.0


class PointSearch(Search):
    """Search by value: choose among points that fill the box, then among points ever nearer."""

    def refuse_impossible(self, values: RecordValues, mu: float) -> None:
        values.choice_receipt(*self._range, mu)

    @property
    def _range(self) -> tuple[float, float]:
        assert self.settings.loss_range is not None
        return self.settings.loss_range

    def batch(self) -> Array:
        settings, number = self.settings, len(self.batch_sizes)
        count = settings.choices[min(number, len(settings.choices) - 1)]
        width = WIDTHS[min(number, len(WIDTHS) - 1)]
        points = settings.space.spread(count, self.theta, width)
        return settings.box.to_unit(settings.box.from_unit(points))

    def step(self, values: RecordValues, mu: float, label: str) -> None:
        first = len(self.points) - self.batch_sizes[-1]
        numerator, denominator = values.choice_receipt(*self._range, mu)[1]
        chosen = values.choice(first, *self._range, mu, label=label)
        self.noise_scales.append(values.loss_grid(*self._range)[0] * denominator / numerator)
        self.iterates.append(self.points[first + chosen])

    def recommendation(self) -> Array:
        return self.settings.box.from_unit(self.settings.space.snap(self.theta))


def search_for(settings: Settings) -> Search:
    """Create the search that the settings need."""
    return Search(settings) if settings.loss_range is None else PointSearch(settings)


#: Directions with singular values below this part of the largest one have no information.
RANK_TOLERANCE = 1e-9

#: W has full rank if all eigenvalues of W'W exceed this part of the largest one: rounding alone
#: cannot make them so large.
FULL_RANK = 1e-10


def signal_projection(weights: Array) -> Array:
    """Return the orthogonal projection onto possible surrogate gradients, shape (d, d)."""
    d = weights.shape[1]
    if len(weights) >= d:
        squares = np.linalg.eigvalsh(weights.T @ weights)  # cheaper than singular values
        if squares[0] > FULL_RANK * squares[-1]:
            return np.eye(d)
    _, values, vectors = np.linalg.svd(weights, full_matrices=False)
    rank = int(np.sum(values > RANK_TOLERANCE * values[0])) if values.size else 0
    if rank >= d:
        return np.eye(d)
    basis = vectors[:rank]
    return np.asarray(basis.T @ basis)
