"""The public settings of a search, checked once."""

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

#: Length-scale of the default covariance, as a part of each side of the box.
DEFAULT_LENGTH = 0.25

#: Longest step of the default update, as a part of the shortest side of the box.
DEFAULT_STEP = 0.1

#: Evaluation noise variance of the default, relative to the prior variance.
DEFAULT_NOISE = 1e-4


#: Of the evaluations of a search that compares values, those around the first choice.
NARROW = 0.5


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a search for parameters goes about it, for `tune` and `Tuner`; all public.

    Parameters
    ----------
    covariance : Covariance, optional
        Prior of the losses as functions of the parameters, in the coordinates of the search;
        default an RBF with a length-scale of a quarter of each side.  Public: chosen, or fitted
        with :func:`dpfast.bayesopt.fit_covariance` on public data.
    noise_variance : float, optional
        Variance of the evaluation noise (of training, say); public.  Default a small share of the
        prior variance.
    mean : {"constant", "zero"}
        Whether records' losses have an unknown mean or, as in the paper, mean zero.
    batch : int, optional
        Points asked for at each step; default a third of d + 2, or up to four if that is more.
        Points of earlier steps keep informing the gradient, so fewer than d + 1 suffice.
    threshold : float, optional
        Ask for the fewest points that bring the variance of the surrogate's gradient down to this
        part of the prior's (line 4 of Algorithm 1 of the paper, corrected), of at most ``batch``,
        by default then ``d + 1``.
    update : Update, optional
        Default :class:`dpfast.bayesopt.Smoothed`.
    schedule : {"geometric", "uniform"} or Schedule, optional
        How the budget is divided among the steps; default one that grows towards the end.
    average : float in [0, 1)
        Share of the iterates, from the end, that the recommendation averages.
    start : array-like of shape (d,), list or dict, optional
        Public start, as the losses receive parameters; default the middle of the box.
    units : {"box", "theta"}
        Coordinates of the search: sides of the box of length one, or the caller's own.
    loss_range : (float, float), optional
        Public range that losses are clipped to.  With one, values are compared in place of
        following gradients: two choices, among points that fill the bounds and then among others
        around the one chosen, of as many evaluations as the steps have.  For what has no gradient
        to speak of: trees, losses of right and wrong, a few whole numbers.  :func:`dpfast.tune`
        takes (0, 1) by itself for losses that are booleans, and for ``metric="zero_one"`` of
        :func:`dpfast.bayesopt.sklearn_losses`.

    Privacy
    -------
    Nothing is spent.  No setting may depend on the validation records but through released answers.

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


class Settings(NamedTuple):
    """Everything a search is a function of besides the losses: all public."""

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
    #: Of losses whose values are compared, with how many points each choice has.
    loss_range: tuple[float, float] | None = None
    choices: tuple[int, ...] = ()

    @property
    def box(self) -> Box:
        """Of the columns that are searched."""
        return self.space.box

    def describe(self) -> str:
        """One line."""
        if self.loss_range is not None:
            among = " and ".join(map(str, self.choices))
            return (
                f"choice among {among} points, loss_range={self.loss_range}, {self.schedule!r}, "
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
        """Everything a search is a function of, for telling one from another."""
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
    covariance, noise_variance, mean = search.covariance, search.noise_variance, search.mean
    batch, threshold, average = search.batch, search.threshold, search.average
    space = Space(bounds, search.units)
    box, d = space.box, space.box.dimension
    if covariance is None:
        if search.units != "box":
            raise InvalidInput(
                'without a covariance the units must be "box": a default length-scale is a part '
                "of each side. Pass covariance=dpfast.bayesopt.RBF(length_scales)."
            )
        covariance = RBF(space.default_length_scales(DEFAULT_LENGTH * max(1.0, np.sqrt(d) / 4.0)))
    covariance = checked_covariance(covariance, d)
    if noise_variance is None:
        noise_variance = DEFAULT_NOISE * covariance.output_scale**2
    noise_variance = positive(noise_variance, "noise_variance", or_zero=True)
    mean = one_of(mean, MEANS, "mean")
    if batch is None:
        batch = default_batch(d) if threshold is None else d + 1
    batch = checked_count(batch, "batch")
    threshold = None if threshold is None else real_number(threshold, "threshold")
    if threshold is not None and not 0.0 < threshold <= 1.0:
        raise InvalidInput(
            "threshold is the part of the prior gradient variance that may remain, in (0, 1]; "
            f"received {threshold:g}."
        )
    average = number_in(average, "average", "[0, 1)")
    schedule: Schedule = Geometric(ratio=1.1, uniform_share=0.3)
    steps = checked_steps(steps)
    choices: tuple[int, ...] = ()
    loss_range = search.loss_range
    if loss_range is not None:
        loss_range = checked_range(loss_range)
        evaluations = steps * batch
        narrow = int(NARROW * evaluations)
        choices = (evaluations - narrow, narrow) if narrow else (evaluations,)
        steps, schedule = len(choices), Uniform()
    return Settings(
        space,
        space.start(search.start),
        covariance,
        float(noise_variance),
        mean,
        real_number(clip, "clip"),
        steps,
        batch,
        threshold,
        resolve_update(
            search.update, Smoothed(DEFAULT_STEP * float(np.diff(box.search_bounds).min()))
        ),
        resolve_schedule(search.schedule, schedule),
        average,
        loss_range,
        choices,
    )


def default_batch(dimension: int) -> int:
    """Points per step: a third of what a gradient needs without earlier points, or all if few."""
    return max(min(dimension + 1, 4), -(-(dimension + 2) // 3))


def checked_range(loss_range: tuple[float, float]) -> tuple[float, float]:
    """Public ends of the losses, the lower one first."""
    ends = real_array(loss_range, "loss_range")
    if ends.shape != (2,):
        raise InvalidInput(
            f"the range of the losses must be two public numbers; received {described(loss_range)}."
        )
    low, high = map(float, ends)
    refuse_range(low, high, described(loss_range))
    return low, high
