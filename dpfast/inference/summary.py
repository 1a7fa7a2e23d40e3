"""The text table of a fit, in the layout statsmodels users know."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from dpfast.inference.hypotheses import DEFAULT_LEVEL

if TYPE_CHECKING:
    from dpfast.inference.guarantees import Guarantee
    from dpfast.inference.results import Fit

__all__ = ["privacy_lines", "short_number", "summary_text", "wrapped"]

WIDTH = 79

UNBOUGHT = "No standard errors were bought."


def summary_text(fit: Fit, level: float = DEFAULT_LEVEL) -> str:
    """Format ``fit`` as a table of at most 79 columns, with intervals of this coverage."""
    private = fit.privacy.total is not None
    title = "dpfast: private M-estimation" if private else "dpfast: NOT PRIVATE (comparison only)"
    lines = [title.center(WIDTH).rstrip(), "=" * WIDTH]
    lines += wrapped("Model:   ", fit.model)
    lines += wrapped("Method:  ", fit.method)
    lines += _coded(fit)
    lines.append(f"Records: {fit.n_records}")
    lines.append("=" * WIDTH)
    lines += _coefficient_table(fit, level)
    lines.append("=" * WIDTH)
    lines += privacy_lines(fit.privacy)
    for warning in fit.warnings:
        lines += wrapped("Warning: ", warning)
    return "\n".join(lines)


def _coded(fit: Fit) -> list[str]:
    """How the response was coded, where coefficients are not in its own units; what was bought."""
    if units := fit.released_units():
        bought = "; ".join(f"{name}: {centre:.4g}, {unit:.4g}" for name, (centre, unit) in units)
        return wrapped("Bought:  ", f"where columns lie, and their unit: {bought}")
    location, spread = (0.0, 1.0) if fit.coding is None else fit.coding.response_units()
    if fit.coding is None or (location, spread) == (0.0, 1.0):
        return []
    own = "; the scale below is in the response's own" if fit._free_scale else ""
    text = (
        f"({fit.coding.response} - {location:g}) / {spread:g}; coefficients and the model's "
        f"constants are in these units{own}"
    )
    return wrapped("Coded:   ", text)


def _coefficient_table(fit: Fit, level: float) -> list[str]:
    width = max(12, min(16, max(len(name) for name in fit.names)))
    if fit._covariance is None:
        lines = [f"{'':<{width}}{'coef':>12}", "-" * WIDTH]
        for name, value in zip(fit.names, fit.params, strict=True):
            lines.append(f"{name[:width]:<{width}}{short_number(value):>12}")
        return [*lines, "No standard errors: see below." if fit._missing else UNBOUGHT]
    header = f"{'':<{width}}{'coef':>11}{'std err':>11}{'z':>10}{'P>|z|':>9}"
    tail = (1.0 - level) / 2.0
    lines = [header + f"{f'[{tail:.4g}':>11}{f'{1.0 - tail:.4g}]':>11}", "-" * WIDTH]
    rows = zip(
        fit.names, fit.params, fit.bse, fit.zvalues, fit.pvalues, fit.conf_int(level), strict=True
    )
    for name, value, error, z, p, (low, high) in rows:
        lines.append(
            f"{name[:width]:<{width}}{short_number(value):>11}{short_number(error):>11}{z:>10.3f}{p:>9.3f}"
            f"{short_number(low):>11}{short_number(high):>11}"
        )
    return lines


def privacy_lines(privacy: Guarantee) -> list[str]:
    """What was spent, on what."""
    return [
        part
        for line in str(privacy).splitlines()
        for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    ]


def short_number(value: float) -> str:
    """At most ten characters: four decimals, or as many digits as there is room for."""
    text = f"{value:.4f}"
    if len(text) <= 10 and not 0.0 < abs(value) < 5e-3:
        return text
    fitting = (f"{value:.{digits}g}" for digits in (5, 4, 3, 2, 1))
    return next((text for text in fitting if len(text) <= 10), f"{value:.0e}")


def wrapped(label: str, text: str) -> list[str]:
    """Text behind a label, on lines of its width."""
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label)) or [
        label
    ]
