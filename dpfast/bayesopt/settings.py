"""Public settings of a search, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, one_of, positive, real_array, real_number
from dpfast.bayesopt.space import Box, Space
from dpfast.bayesopt.surrogate.covariance import RBF, Covariance, checked_covariance
from dpfast.bayesopt.surrogate.gradient_information import MEANS
from dpfast.bayesopt.updates import Smoothed, Update, resolve_update
from dpfast.errors import InvalidInput, described
from dpfast.optimize.nonconvex.descent import checked_count
from dpfast.optimize.schedules import Geometric, Schedule, Uniform, checked_steps, resolve_schedule
from dpfast.privacy.blackbox.sensitivity import refuse_range

#: Length-scale of the default covariance, relative to each side of the box.
DEFAULT_LENGTH = 0.25

#: Longest step of the default update, relative to the shortest side of the box.
DEFAULT_STEP = 0.1

#: Default variance of the evaluation noise, relative to the prior variance.
DEFAULT_NOISE = 1e-4


#: Choices by value, the share of evaluations of the first, and the fewest of each.
CHOICES, FIRST, MIN_POINTS = 4, 0.4, 6


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Public settings of a search, for `tune` and `Tuner`.

    Parameters
    ----------
    covariance : Covariance, optional
        Prior of the losses as functions of the parameters, in search coordinates; default an RBF
        with a length-scale of a quarter of each side.  Public: chosen, or fitted with
        :func:`dpfast.bayesopt.fit_covariance` on public data.
    noise_variance : float, optional
        Variance of the evaluation noise (of training, say); public.  Default a small share of the
        prior variance.
    mean : {"constant", "zero"}
        Unknown mean of a record's losses, or mean zero as in the paper.
    batch : int, optional
        Points of each step; default a third of d + 2, or up to four if that is more.  Points of
        earlier steps also inform the gradient, so fewer than d + 1 are enough.
    threshold : float, optional
        Use the fewest points that reduce the variance of the surrogate's gradient to this part of
        the prior's (line 4 of Algorithm 1 of the paper, corrected).  At most ``batch`` points are
        used, by default ``d + 1``.
    update : Update, optional
        Default :class:`dpfast.bayesopt.Smoothed`.
    schedule : {"geometric", "uniform"} or Schedule, optional
        Division of the budget among the steps; the default grows towards the end.
    average : float in [0, 1)
        Share of the iterates, from the end, that the recommendation averages.
    start : array-like of shape (d,), list or dict, optional
        Public start, as the losses receive parameters; default the middle of the box.
    units : {"box", "theta"}
        Coordinates of the search: sides of the box of length one, or the caller's own.
    loss_range : (float, float), optional
        Public range that losses are clipped to.  With a range, values are compared instead of
        following gradients, with as many evaluations as the steps have.  Use it where gradients are
        useless: trees, zero-one losses, a few whole numbers.  :func:`dpfast.tune` uses (0, 1) for
        boolean losses, and for ``metric="zero_one"`` of :func:`dpfast.bayesopt.sklearn_losses`.
    choices : int
        Most choices by value: among points that fill the bounds, then among points around the last
        choice, in a box of .4, .2 and .1 of each side.  Fewer where evaluations are few.

    Privacy
    -------
    Spends nothing.  Settings may depend on the validation records through released answers only.

    Examples
    --------
    >>> dpfast.bayesopt.SearchSettings(mean="zero", batch=3).batch
    3
    """

    covariance: Covariance | None = None
    noise_variance: float | None = None
    mean: str = "constant"
    batch: int | None = None
    threshold: float | None = None
    update: str | Update | None = None
    schedule: str | Schedule | None = None
    average: float = 0.3
    start: Any = None
    units: str = "box"
    loss_range: tuple[float, float] | None = None
    choices: int = CHOICES


class Settings(NamedTuple):
    """All public inputs of a search; everything else is its losses."""

    space: Space
    start: Array
    covariance: Covariance
    noise_variance: float
    mean: str
    clip: float
    steps: int
    batch: int
    threshold: float | None
    update: Update
    schedule: Schedule
    average: float
    #: Range of the losses where values are compared, and the number of points of each choice.
    loss_range: tuple[float, float] | None = None
    choices: tuple[int, ...] = ()

    @property
    def box(self) -> Box:
        """Box of the searched columns."""
        return self.space.box

    def describe(self) -> str:
        """Describe the settings in one line."""
        if self.loss_range is not None:
            counts = ", ".join(map(str, self.choices))
            return (
                f"choice among {counts} points, loss_range={self.loss_range}, {self.schedule!r}, "
                f"units={self.box.units}" + (f", {self.space!r}" if repr(self.space) else "")
            )
        size = f"batch={self.batch}"
        if self.threshold is not None:
            size = f"threshold={self.threshold:g}, {size}"
        return (
            f"{self.covariance!r}, mean={self.mean}, noise_variance={self.noise_variance:g}, "
            f"clip={self.clip:g}, {size}, {self.update!r}, {self.schedule!r}, "
            f"average={self.average:g}, units={self.box.units}"
            + (f", {self.space!r}" if repr(self.space) else "")
        )

    def fingerprint(self) -> str:
        """Return text that differs between any two different searches."""
        corners = [self.box.lower.tolist(), self.box.upper.tolist(), self.start.tolist()]
        return f"{self.describe()}, steps={self.steps}, box and start {corners!r}"


def resolve_settings(
    bounds: Any, clip: float, steps: int, search: SearchSettings | None
) -> Settings:
    """Check the arguments of :func:`dpfast.tune` and fill in the defaults."""
    if search is None:
        search = SearchSettings()
    if not isinstance(search, SearchSettings):
        raise InvalidInput(
            f"search must be a dpfast.bayesopt.SearchSettings; received {described(search)}."
        )
    space = Space(bounds, search.units)
    covariance = _resolve_covariance(search, space)
    noise_variance = search.noise_variance
    if noise_variance is None:
        noise_variance = DEFAULT_NOISE * covariance.output_scale**2
    noise_variance = positive(noise_variance, "noise_variance", or_zero=True)
    mean = one_of(search.mean, MEANS, "mean")
    batch, threshold = _resolve_batch(search, space.box.dimension)
    average = number_in(search.average, "average", "[0, 1)")
    schedule: Schedule = Geometric(ratio=1.1, uniform_share=0.3)
    steps = checked_steps(steps)
    choices: tuple[int, ...] = ()
    loss_range = search.loss_range
    if loss_range is not None:
        loss_range = checked_range(loss_range)
        choices = _choice_sizes(steps * batch, checked_count(search.choices, "choices"))
        steps, schedule = len(choices), Uniform()
    longest = DEFAULT_STEP * float(np.diff(space.box.search_bounds).min())
    return Settings(
        space=space,
        start=space.start(search.start),
        covariance=covariance,
        noise_variance=float(noise_variance),
        mean=mean,
        clip=real_number(clip, "clip"),
        steps=steps,
        batch=batch,
        threshold=threshold,
        update=resolve_update(search.update, Smoothed(longest)),
        schedule=resolve_schedule(search.schedule, schedule),
        average=average,
        loss_range=loss_range,
        choices=choices,
    )


def _resolve_covariance(search: SearchSettings, space: Space) -> Covariance:
    """Check the covariance, or return the default for the box."""
    d = space.box.dimension
    if search.covariance is not None:
        return checked_covariance(search.covariance, d)
    if search.units != "box":
        raise InvalidInput(
            'without a covariance the units must be "box": the default length-scale is relative '
            "to each side. Pass covariance=dpfast.bayesopt.RBF(length_scales)."
        )
    length = DEFAULT_LENGTH * max(1.0, np.sqrt(d) / 4.0)
    return checked_covariance(RBF(space.default_length_scales(length)), d)


def _resolve_batch(search: SearchSettings, d: int) -> tuple[int, float | None]:
    """Check the number of points per step, and the threshold that can lower it."""
    threshold, batch = search.threshold, search.batch
    if batch is None:
        batch = default_batch(d) if threshold is None else d + 1
    batch = checked_count(batch, "batch")
    threshold = None if threshold is None else real_number(threshold, "threshold")
    if threshold is not None and not 0.0 < threshold <= 1.0:
        raise InvalidInput(
            "threshold is the part of the prior gradient variance that may remain, in (0, 1]; "
            f"received {threshold:g}."
        )
    return batch, threshold


def _choice_sizes(evaluations: int, choices: int) -> tuple[int, ...]:
    """Divide the evaluations between the first choice and those around it."""
    later = min(choices, max(evaluations // MIN_POINTS, 1)) - 1
    each = int((1.0 - FIRST) * evaluations / later) if later else 0
    return (evaluations - later * each, *[each] * later)


def default_batch(dimension: int) -> int:
    """Return the points per step: a third of a gradient's need alone, or all if few."""
    return max(min(dimension + 1, 4), -(-(dimension + 2) // 3))


def checked_range(loss_range: tuple[float, float]) -> tuple[float, float]:
    """Check the public range of the losses, the lower end first."""
    ends = real_array(loss_range, "loss_range")
    if ends.shape != (2,):
        raise InvalidInput(
            f"the range of the losses must be two public numbers; received {described(loss_range)}."
        )
    low, high = map(float, ends)
    refuse_range(low, high, described(loss_range))
    return low, high
