"""Marginal effects at public rows, by the delta method: post-processing of a released fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import Array, did_you_mean
from dpfast.errors import InferenceUnavailable, InvalidInput, described
from dpfast.inference.base import FixedLevel
from dpfast.inference.degrees import t_intervals, t_pvalues, variances
from dpfast.inference.guarantees import Guarantee

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Summary

AVERAGES = (
    "an average of effects over the records is a query about them, which a fit does not pay for: "
    "its interval needs the mean gradient of their effects. Pass the public rows at which effects "
    "are wanted, such as fit.marginal_effects([[0.0, 1.0]]) or a table, or nothing for effects at "
    "the centre of the columns, declared or estimated; received {received}."
)

NO_CENTRE = (
    "effects depend on where they are taken, and no centre of {which} was declared or estimated. "
    "Pass the public rows at which effects are wanted, such as a table of one row."
)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalEffects(FixedLevel):
    """Effects of variables on the mean response at public rows; of shape (m, v) unless noted.

    Attributes
    ----------
    names : tuple of str
        The v variables: columns that the model reads, levels but the reference one by one.  A
        variable counts once, with all terms that contain it.
    estimate : ndarray of shape (m, v)
        Derivative of the mean response, in its own units, by the variable; of a declared level the
        difference from the reference.
    bse : ndarray of shape (m, v)
        Standard errors by the delta method; they include the privacy noise.
    pvalues : ndarray of shape (m, v)
        Two-sided.
    interval : ndarray of shape (m, v, 2)
    level : float
        Nominal coverage of the intervals.
    at : dict of str to float or level, or None
        The centre at which the effects are taken where no rows were given.
    averaged : int
        Number of public rows whose effects were averaged; then m is 1.  0 if they were not.
    n_records, privacy, warnings
        Those of the fit.

    Privacy
    -------
    Post-processing of a released fit: costs nothing for public rows.
    """

    _headed = ("Records", "Persons", "At")

    names: tuple[str, ...]
    estimate: Array
    bse: Array
    pvalues: Array
    interval: Array
    level: float
    at: dict[str, Any] | None
    averaged: int
    n_records: int
    privacy: Guarantee
    warnings: tuple[str, ...]

    def _place(self) -> str:
        if self.at is not None:
            return "the centre, " + ", ".join(
                f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
                for name, value in self.at.items()
            )
        if self.averaged:
            return f"the average over {self.averaged} public rows"
        return f"{len(self.estimate)} public row{'s' * (len(self.estimate) > 1)}"

    def summary(self) -> Summary:  # type: ignore[override]
        """Summarise effects, intervals and privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.rendering.digits import by_error
        from dpfast.inference.summary import end_headings, of_first_cells, render_table

        rows = []
        for i in range(len(self.estimate)):
            for j, name in enumerate(self.names):
                numbers = [self.estimate[i, j], self.bse[i, j], *self.interval[i, j]]
                p = self.pvalues[i, j]
                cells = by_error([float(number) for number in numbers], float(self.bse[i, j]))
                label = f"row {i}: {name}" if len(self.estimate) > 1 else name
                rows.append((label, (*cells, "<0.001" if p < 0.001 else f"{p:.3f}")))
        return render_table(
            "dpfast: marginal effects",
            (("Records", str(self.n_records)), ("At", self._place())),
            ("effect", "std err", *end_headings(self.level), "P"),
            rows,
            self.privacy,
            self.warnings,
            pvalues=of_first_cells(self.pvalues.ravel()),
        )

    def _columns(self, level: float) -> dict[str, Any]:
        m, v = self.estimate.shape
        low, high = self.interval.reshape(-1, 2).T
        return {
            "row": np.repeat(np.arange(m), v), "term": [*self.names] * m,
            "estimate": self.estimate.ravel(), "std_error": self.bse.ravel(),
            "p_value": self.pvalues.ravel(), "conf_low": low, "conf_high": high,
        }  # fmt: skip


def marginal_effects(
    fit: Any, X: Any, level: float, contrasts: Sequence[str], average: bool
) -> MarginalEffects:
    """Compute effects at public rows, at the centre, or averaged over the rows."""
    at = None
    if isinstance(X, str) and X == "centre":
        at, X = _centre(fit)
    if X is None or isinstance(X, str):
        raise InferenceUnavailable(AVERAGES.format(received=described(X, text=True)))
    names, estimate, gradients = _effects(fit, X, contrasts)
    averaged = 0
    if average and at is None:
        averaged = len(estimate)
        estimate, gradients = (part.mean(axis=0, keepdims=True) for part in (estimate, gradients))
    flat = gradients.reshape(-1, len(fit.params))
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        bse = np.sqrt(variances(flat, fit.cov_params())).reshape(estimate.shape)
        degrees = fit._degrees(flat).reshape(estimate.shape)
        pvalues = t_pvalues(estimate / bse, degrees)
    ends = t_intervals(level, estimate, bse, degrees)
    return MarginalEffects(
        names, estimate, bse, pvalues, ends, level, at, averaged, fit.n_records, fit.privacy,
        fit.warnings,
    )  # fmt: skip


def _effects(fit: Any, X: Any, contrasts: Sequence[str]) -> tuple[tuple[str, ...], Array, Array]:
    """Return names, effects of shape (m, v), and their gradients by the coefficients."""
    rows = fit._rows(X)
    width, first = rows.shape[1], int(fit._fit_intercept)
    changes = fit._new_rows.changes(X, fit.names[first:width], tuple(contrasts))
    _refuse_unknown(contrasts, [change.name for change in changes])
    offsets = fit._offsets(X)
    estimate = np.empty((len(rows), len(changes)))
    gradients = np.zeros((*estimate.shape, len(fit.params)))
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        once, twice = fit._mean_slopes(rows @ fit.params[:width] + offsets)
        for j, change in enumerate(changes):
            if change.slopes is not None:
                slopes = np.pad(change.unit * change.slopes, ((0, 0), (first, 0)))
                predictor_slope = slopes @ fit.params[:width]
                estimate[:, j] = once * predictor_slope
                gradient = (twice * predictor_slope)[:, None] * rows + once[:, None] * slopes
            else:
                assert change.levels is not None
                (reference, reference_gradient), (level, level_gradient) = [
                    _mean_and_gradient(fit, covariates, offsets) for covariates in change.levels
                ]
                estimate[:, j], gradient = level - reference, level_gradient - reference_gradient
            gradients[:, j, :width] = gradient
    return tuple([change.name for change in changes]), estimate, gradients


def _refuse_unknown(contrasts: Sequence[str], names: list[str]) -> None:
    for name in contrasts:
        if name not in names:
            raise InvalidInput(
                f"contrasts must be names of numeric columns of the model, which are {names}; "
                f"received {described(name)}{did_you_mean(name, names)}."
            )


def _mean_and_gradient(fit: Any, covariates: Array, offsets: Any) -> tuple[Array, Array]:
    """Compute the mean response at rows without the intercept's ones, and its gradient."""
    ones = np.ones((len(covariates), int(fit._fit_intercept)))
    rows = np.column_stack([ones, covariates])
    t = rows @ fit.params[: rows.shape[1]] + offsets
    return fit._response(t), fit._mean_slopes(t)[0][:, None] * rows


def _centre(fit: Any) -> tuple[dict[str, Any], Any]:
    """Return the declared or estimated centre of the columns, by name and as a row."""
    centres = fit._new_rows.centres()
    lack = [] if centres is None else [name for name, value in centres if value is None]
    if centres is None or lack:
        which = " and ".join(map(repr, lack)) or "the columns"
        raise InferenceUnavailable(NO_CENTRE.format(which=which))
    return dict(centres), fit._new_rows.row([value for _, value in centres])
