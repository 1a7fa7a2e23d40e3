"""Result of two-stage least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, chdtri

from dpfast.arguments import Array
from dpfast.errors import InferenceUnavailable
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage, t_intervals, t_pvalues
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import cells_of, headings, of_first_cells, render_table


@dataclass(frozen=True, eq=False, repr=False)
class TwoStage(Result):
    """Coefficients estimated with instruments.  Holds released numbers only, and no records.

    Attributes
    ----------
    params, bse, degrees_of_freedom : ndarray of shape (p,)
        Coefficients in the columns' own units; their standard errors, from sampling and privacy
        noise together; and the degrees of freedom of these errors.
    names, endogenous, instruments : tuple of str
        Names of the coefficients, of the endogenous regressors, and of the excluded instruments.
    response, covariance : str, ndarray of shape (p, p)
    first_stage_f : float
        F statistic of the excluded instruments; with several endogenous regressors, the least
        conditional one (Sanderson and Windmeijer 2016).  Its denominator includes the noise in the
        first stage.
    overidentification : (float, int)
        Hansen's J, and its degrees of freedom: the number of surplus instruments.
    n_records, privacy, warnings
    curve : (float, float, tuple) or None
        For :meth:`anderson_rubin` with one endogenous regressor: its coefficient, the unit of
        distances from it, and these with the statistics there and their degrees of freedom.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.
    """

    params: Array
    bse: Array
    degrees_of_freedom: Array
    names: tuple[str, ...]
    response: str
    endogenous: tuple[str, ...]
    instruments: tuple[str, ...]
    covariance: Array
    first_stage_f: float
    overidentification: tuple[float, int]
    n_records: int
    privacy: Guarantee
    warnings: tuple[str, ...]
    curve: tuple[float, float, Any] | None = None

    @property
    def zvalues(self) -> Array:
        """``params / bse``, shape (p,)."""
        with np.errstate(all="ignore"):
            return self.params / self.bse

    @property
    def pvalues(self) -> Array:
        """Two-sided p values of each coefficient being zero, shape (p,)."""
        return np.asarray(t_pvalues(self.zvalues, self.degrees_of_freedom))

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return confidence intervals, shape (p, 2); with weak instruments see below."""
        level = coverage(level, alpha)
        return np.asarray(t_intervals(level, self.params, self.bse, self.degrees_of_freedom))

    def anderson_rubin(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return the Anderson-Rubin (1949) interval of the endogenous coefficient, shape (2,).

        Valid for weak instruments: its variance includes the noise of scores and of the first
        stage.  NaN if all coefficients are rejected; an end may be infinite. Refused
        (``InferenceUnavailable``) with more than one endogenous regressor.
        """
        level = coverage(level, alpha)
        if self.curve is None:
            raise InferenceUnavailable(
                f"anderson_rubin is of one endogenous regressor; there are {self.endogenous}."
            )
        statistics, freedom = self.curve[2][1:]
        return self._ends(statistics <= chdtri(freedom, 1.0 - level))

    def _beyond(self) -> float:
        """Return by how many standard errors the Anderson-Rubin statistic reaches too far.

        That is how far beyond ``conf_int()`` the coefficient lies at which the statistic is above
        its minimum by the 95% point of chi-squared.  With strong instruments, of any number, it is
        nearly 0.
        """
        if self.curve is None:
            return math.nan
        statistics = self.curve[2][1]
        ends = self._ends(statistics - statistics.min() <= chdtri(1, 0.05))
        j = self.names.index(self.endogenous[0])
        outside = (ends - self.conf_int()[j]) / self.bse[j]
        return max(-float(outside[0]), float(outside[1]))

    def _ends(self, accepted: Array) -> Array:
        """Return the ends of the accepted coefficients; infinite at an end of the grid."""
        assert self.curve is not None
        centre, unit, (distances, _, _) = self.curve
        not_rejected = np.flatnonzero(accepted)
        if not not_rejected.size:
            return np.array([math.nan, math.nan])
        ends = centre + unit * distances[[not_rejected[0], not_rejected[-1]]]
        if not_rejected[0] == 0:
            ends[0] = -math.inf
        if not_rejected[-1] == len(distances) - 1:
            ends[1] = math.inf
        return np.asarray(ends)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return coefficients, first stage and the budget spent, as text with other forms."""
        level = coverage(level, alpha)
        facts = [
            ("Response", self.response),
            ("Instruments", f"{', '.join(self.instruments)} for {', '.join(self.endogenous)}"),
            ("Records", str(self.n_records)),
            ("First-stage F", short_number(self.first_stage_f)),
        ]
        if self.curve is not None:
            low, high = self.anderson_rubin(level)
            facts.append(("Anderson-Rubin", f"{self.endogenous[0]} within [{low:.5g}, {high:.5g}]"))
        statistic, freedom = self.overidentification
        if freedom:
            p = float(chdtrc(freedom, statistic))
            facts.append(("Hansen's J", f"{statistic:.3g} on {freedom}, p = {p:.3g}"))
        rows = zip(self.names, cells_of(self, level), strict=True)
        return render_table(
            "dpfast: private two-stage least squares", facts, headings(level), rows, self.privacy,
            self.warnings, pvalues=of_first_cells(self.pvalues),
        )  # fmt: skip

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.conf_int(level).T
        return {
            "term": self.names, "estimate": self.params, "std_error": self.bse,
            "statistic": self.zvalues, "p_value": self.pvalues, "conf_low": low, "conf_high": high,
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything published, as plain Python values (for JSON)."""
        fields = super().to_dict()
        del fields["curve"]
        interval = None if self.curve is None else self.anderson_rubin().tolist()
        return fields | {"anderson_rubin": interval}
