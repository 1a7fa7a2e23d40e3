"""Survival curves of a fit of proportional hazards: post-processing of its released numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, real_number
from dpfast.errors import InvalidInput, described
from dpfast.inference.degrees import Covariance, t_half_widths, variances

#: A point of a curve is NaN if directions in which the Hessian is noise have more than this part of
#: its variance: above it intervals cover .73 to .84 of six designs, up to it .95 to .97.
MAX_HIDDEN = 0.3


def part_of(hidden: Array, seen: Array) -> Array:
    """Return the part of the variance of whitened rows that lies in hidden directions."""
    squares = (hidden**2).sum(axis=1)
    return np.asarray(squares / np.maximum(squares + (seen**2).sum(axis=1), 1e-300))


class Baseline(NamedTuple):
    """Log hazards of each interval, by stratum, at the released centres of the covariates.

    ``covariance`` is that of log hazards and ratios together; a hazard is the expected number of
    events in its interval.  Their whitened coefficients are mapped by ``hidden`` where the Hessian
    shows noise alone, and by ``seen``.
    """

    cuts: Array
    levels: tuple[Any, ...]
    log_hazards: Array
    centres: Array
    hidden: Array
    seen: Array
    covariance: Covariance

    def survival(
        self, names: tuple[str, ...], slopes: Array, at: Any, level: float
    ) -> dict[str, Any]:
        """Compute the curve of each stratum at these covariates, as columns of a table."""
        K, rows = len(self.cuts), max(1, len(self.levels))
        shift = self._values(names, at) - self.centres
        with np.errstate(all="ignore"):
            hazards = np.exp(self.log_hazards + shift @ np.nan_to_num(slopes)).reshape(rows, K)
            cumulative = np.cumsum(hazards, axis=1)
            # derivatives of the logarithm of a cumulative hazard by all log hazards and slopes
            parts = np.zeros((rows, K, rows, K))
            for stratum in range(rows):
                shares = hazards[stratum] / cumulative[stratum][:, None]
                parts[stratum, :, stratum] = np.tril(shares)
            gradient = np.hstack([parts.reshape(rows * K, -1), np.tile(shift, (rows * K, 1))])
            error = np.sqrt(variances(gradient, self.covariance.matrix))
            error[part_of(gradient @ self.hidden, gradient @ self.seen) > MAX_HIDDEN] = np.nan
            half = t_half_widths(level, self.covariance.degrees_of_freedom(gradient)) * error
            total = np.where(np.isnan(error), np.nan, cumulative.ravel())
            low, high = np.exp(-total * np.exp(half)), np.exp(-total * np.exp(-half))
            curve = np.exp(-total)
        strata = {"stratum": np.repeat(np.array(self.levels), K)} if self.levels else {}
        return strata | {
            "time": np.tile(self.cuts, rows), "cumulative_hazard": total,
            "survival": curve, "conf_low": low, "conf_high": high,
        }  # fmt: skip

    def _values(self, names: tuple[str, ...], at: Any) -> Array:
        """Read values of covariates; of those that are not given, the centres."""
        values = self.centres.copy()
        given = {} if at is None else at
        if not isinstance(given, Mapping) or not {*given} <= {*names}:
            raise InvalidInput(
                f"at must be a mapping of some of {list(names)} to numbers; received "
                f"{described(at)}."
            )
        for name, value in given.items():
            values[names.index(name)] = real_number(value, f"at[{name!r}]")
        return values
