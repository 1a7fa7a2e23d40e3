"""Result of an average effect: an estimate, its standard error and the budget spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage, t_intervals, t_pvalues
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import headings, render_table, row_of


@dataclass(frozen=True, eq=False, repr=False)
class TreatmentEffect(Result):
    """Average effect of a treatment.  Holds released numbers only, and no records.

    Attributes
    ----------
    estimate, bse, degrees_of_freedom : float
        Mean outcome with treatment minus that without it, in the outcome's own units; its standard
        error, from sampling and privacy noise together; and the degrees of freedom of that error.
    method : str
        How the effect was adjusted, as text.
    clip, noise : float
        Bound at which deviations of pseudo-outcomes were clipped, in the outcome's own units, and
        standard deviation of the privacy noise in the estimate.
    overlap : tuple of three floats
        Released shares of the records whose propensity of treatment was below the bound, within
        the bounds and above them.
    n_records, privacy
    warnings : tuple of str
        Reasons why the interval may be unreliable, from released numbers only.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.
    """

    estimate: float
    bse: float
    degrees_of_freedom: float
    method: str
    n_records: int
    clip: float
    noise: float
    overlap: tuple[float, ...]
    privacy: Guarantee
    warnings: tuple[str, ...]

    @property
    def zvalue(self) -> float:
        """``estimate / bse``."""
        with np.errstate(all="ignore"):
            return float(np.divide(self.estimate, self.bse))

    @property
    def pvalue(self) -> float:
        """Two-sided p value of there being no effect."""
        return float(t_pvalues(np.array([self.zvalue]), np.array([self.degrees_of_freedom]))[0])

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> NDArray[np.float64]:
        """Return a confidence interval, shape (2,), in the outcome's own units."""
        estimate, degrees = np.array(self.estimate), np.array(self.degrees_of_freedom)
        return t_intervals(coverage(level, alpha), estimate, self.bse, degrees)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return the effect and the budget spent, as text with forms for notebooks and papers."""
        level = coverage(level, alpha)
        low, high = self.conf_int(level)
        below, within, above = self.overlap
        overlap = f"propensities too small {below:.1%}, fine {within:.1%}, too large {above:.1%}"
        facts = (("Method", self.method), ("Records", str(self.n_records)), ("Overlap", overlap))
        row = row_of(self.estimate, self.bse, self.zvalue, self.pvalue, low, high)
        return render_table(
            "dpfast: private treatment effect", facts, headings(level, "effect"),
            [("treatment", row)], self.privacy, self.warnings, pvalues=((self.pvalue,),),
        )  # fmt: skip

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.conf_int(level)
        return {
            "term": ["treatment"], "estimate": [self.estimate], "std_error": [self.bse],
            "statistic": [self.zvalue], "p_value": [self.pvalue], "conf_low": [low],
            "conf_high": [high],
        }  # fmt: skip
