"""The result of an effect: an estimate, its standard error and what it cost."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.degrees import t_half_widths, t_pvalues
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.hypotheses import coverage
from dpfast.inference.summary import WIDTH, short_number

__all__ = ["TreatmentEffect"]


class TreatmentEffect(NamedTuple):
    """An average effect of a treatment.  Holds no records, and released numbers only.

    Attributes
    ----------
    estimate : float
        Mean outcome with treatment minus that without it, in the outcome's own units.
    bse : float
        Standard error, sampling and privacy noise together.
    degrees_of_freedom : float
        How well the standard error, itself released with noise, is known.
    method : str
        How the effect was adjusted, as text.
    n_records : int
    clip : float
        Bound to which deviations of pseudo-outcomes were held, in the outcome's own units.
    noise : float
        Standard deviation of the privacy noise in the estimate.
    overlap : tuple of three floats
        Released shares of the records whose propensity of treatment was below the bound, within
        the bounds and above them.
    privacy : Guarantee
    warnings : tuple of str
        What makes the interval unreliable, from released numbers only.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, T = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
    >>> y = x[:, 0] + T + rng.normal(size=4000)
    >>> effect = dpfast.effects.treatment_effect(x, T, y, privacy=1.0)
    >>> bool(abs(effect.estimate - 1.0) < 0.3), effect.n_records
    (True, 4000)
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
        """Confidence interval, shape (2,).

        Parameters
        ----------
        level : float in [0.5, 1)
            Nominal coverage.
        alpha : float, optional
            ``1 - level``, in its place; by name only.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end, in the outcome's own units.

        Raises
        ------
        InvalidInput
            If the level is out of range, or both are given.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x, T = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
        >>> y = x[:, 0] + T + rng.normal(size=4000)
        >>> effect = dpfast.effects.treatment_effect(x, T, y, privacy=1.0)
        >>> low, high = effect.conf_int(0.9)
        >>> bool(low < effect.estimate < high)
        True
        """
        known = np.array([self.degrees_of_freedom])
        half = float(t_half_widths(coverage(level, alpha), known)[0]) * self.bse
        return np.array([self.estimate - half, self.estimate + half])

    def summary(self) -> str:
        """The effect and what it cost, as text.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x, T = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
        >>> y = x[:, 0] + T + rng.normal(size=4000)
        >>> effect = dpfast.effects.treatment_effect(x, T, y, privacy=1.0)
        >>> "Privacy: 1-GDP in total" in effect.summary()
        True
        """
        low, high = map(short_number, self.conf_int())
        header = f"{'':<12}{'effect':>11}{'std err':>11}{'z':>10}{'P>|z|':>9}{'[0.025':>11}"
        row = (
            f"{'treatment':<12}{short_number(self.estimate):>11}{short_number(self.bse):>11}"
            f"{self.zvalue:>10.3f}{self.pvalue:>9.3f}{low:>11}{high:>11}"
        )
        below, within, above = self.overlap
        lines = [
            "dpfast: private treatment effect".center(WIDTH).rstrip(),
            "=" * WIDTH,
            *textwrap.wrap(f"Method:  {self.method}", WIDTH, subsequent_indent=" " * 9),
            f"Records: {self.n_records}",
            f"Overlap: propensities too small {below:.1%}, fine {within:.1%}, "
            f"too large {above:.1%}",
            "=" * WIDTH,
            f"{header}{'0.975]':>11}",
            "-" * WIDTH,
            row,
            "=" * WIDTH,
        ]
        for line in str(self.privacy).splitlines():
            lines += textwrap.wrap(line, WIDTH, subsequent_indent="    ")
        for warning in self.warnings:
            lines += textwrap.wrap(f"Warning: {warning}", WIDTH, subsequent_indent=" " * 9)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything published, as plain Python values (for JSON).

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x, T = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
        >>> y = x[:, 0] + T + rng.normal(size=4000)
        >>> effect = dpfast.effects.treatment_effect(x, T, y, privacy=1.0)
        >>> sorted(effect.to_dict())[:3]
        ['bse', 'clip', 'degrees_of_freedom']
        """
        found = self._asdict()
        return found | {
            "overlap": list(self.overlap),
            "warnings": list(self.warnings),
            "privacy": self.privacy.to_dict(),
        }

    def __repr__(self) -> str:
        return f"<TreatmentEffect {self.estimate:.4g} +- {self.bse:.2g}; {self.privacy.headline}>"
