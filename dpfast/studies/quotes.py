"""What a request costs and how wide its intervals will be: from public facts, and no record."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpfast.data.columns import column, number_columns
from dpfast.data.formula import coding_from_formula
from dpfast.data.schema import Schema
from dpfast.inference.composition import amounts, plain_spend
from dpfast.inference.rendering.digits import short_number
from dpfast.privacy.budget import Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.forecast import NoForecast, Plan, evenly, plan
from dpfast.studies.answers import answered, ends_of, objective_of
from dpfast.studies.requests import StudyRequest
from dpfast.tables.grouping import grouping_of
from dpfast.tables.planning import plan as plan_cells

#: Simulations, and rows of one at most.
REHEARSALS, MOST_REHEARSED = 5, 1_000_000

#: Of what an epsilon is told.
DELTA = 1e-6


class Quote(NamedTuple):
    """What a request would cost and tell.

    Attributes
    ----------
    request, digest : dict, str
        As it was read, with every default, and its name: in the ledger, and for who asks again.
    spend, share : GDP or ZCDP, float
        What the ledger will be charged, at once, and never more; and its share of the total.
    payable : bool
        Whether the ledger could pay for it at this moment.
    widths : dict of str to float, or None
        Expected widths of its intervals, of several cells the median; None where they are not
        known.
    told : str
        What these widths were expected from, what is missing, or what :meth:`Study.run` would
        refuse the request for, which costs nothing there.

    Privacy
    -------
    Made of the request, the schema and the ledger: no record was looked at.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> study = dpfast.Study(None, privacy=1.0, schema=schema, n=1000)
    >>> study.quote({"analysis": "counts", "by": "sex", "share": 0.25}).to_dict()["spend"]
    {'type': 'GDP', 'mu': 0.5}
    """

    request: dict[str, Any]
    digest: str
    spend: Budget
    share: float
    payable: bool
    widths: dict[str, float] | None
    told: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values (for JSON)."""
        return self._asdict() | {"spend": plain_spend(self.spend)}

    def __str__(self) -> str:
        epsilon = self.spend.as_approx(DELTA).epsilon
        lines = [
            f"{self.request['analysis']} {self.digest}: {self.spend!r}, {self.share:.4g} of the "
            f"total (epsilon = {epsilon:.3g} at delta = {DELTA:g})",
            "  the ledger can pay for it"
            if self.payable
            else "  the ledger CANNOT pay for it, or has paid (with another name it pays again)",
        ]
        for name, width in (self.widths or {}).items():
            lines.append(f"  interval of {name}: {short_number(width)} wide")
        return "\n".join([*lines, f"  {self.told}"])


def share_of(total: Budget, spend: Budget) -> Fraction:
    """Exact share of a total that a charge is, in what adds up."""
    kind = type(total)
    return amounts(spend, kind)[0] / amounts(total, kind)[0]


def forecast_of(
    request: StudyRequest, n: int | None, like: Any, schema: Schema | None, **asked: Any
) -> Plan:
    """The forecast of a fit, from a public table or from standard normal covariates."""
    pilot = None
    if like is not None and request.reads.declared:
        assert schema is not None
        design = coding_from_formula(request.arguments["formula"], schema).design(like)
        pilot = design.X, design.y
    elif like is not None:
        response, *names = request.reads.plain
        found = number_columns(like, [*names, response])
        pilot = found[:, :-1], found[:, -1]
    size = len(request.reads.coefficients) + int(request.reads.intercept)
    objective = objective_of(request)
    return plan(n, size, objective, level=request.arguments["level"], pilot=pilot, **asked)


SYNTHETIC = (
    "expected for covariates and residuals of standard deviation 1, in these units; of a public "
    "table they are those of its columns: pass it as like="
)


def expected_widths(
    request: StudyRequest, spend: Budget, n: int | None, like: Any, schema: Schema | None
) -> tuple[dict[str, float] | None, str]:
    """Widths of the intervals of an answer, and where they come from."""
    if n is None:
        return None, "widths follow from the number of records: pass n="
    asked, public = request.arguments, "expected from the public table"
    if request.analysis == "fit":
        try:
            planned = forecast_of(request, n, like, schema, privacy=spend)
        except NoForecast:
            return None, "so few records have no intervals at this price"
        first = ("intercept",) if request.reads.intercept else ()
        names = (*first, *request.reads.coefficients)
        widths = dict(zip(names, planned.widths.tolist(), strict=True))
        return widths, SYNTHETIC if like is None else public
    if request.analysis in ("counts", "means"):
        assert schema is not None
        columns = asked.get("columns", ())
        cells = plan_cells(
            schema, asked["by"], columns, n=n, privacy=spend, least=asked["least"],
            level=asked["level"],
        )  # fmt: skip
        if not columns:
            return {"count": cells.count_width}, "of privacy alone: counts are of these records"
        if like is None:
            halves = 2.0 * cells.half_widths
            widths = dict(zip(cells.columns, halves.tolist(), strict=True))
            return widths, "of privacy alone, beside sampling, in a cell with its even share"
    elif like is None and request.analysis == "absorbed":
        assert schema is not None
        like, public = _within_levels(request, n, schema), SYNTHETIC
    elif like is None:
        return None, "widths follow from what the columns are like: pass a public table as like="
    if n > MOST_REHEARSED:
        return None, f"widths of more than {MOST_REHEARSED:,} records are not simulated"
    # what it would be of the public table, with as many rows; the noise has a seed
    rows = np.arange(n)
    names = (*request.reads.declared, *request.reads.plain)
    columns = {name: np.asarray(column(like, name)) for name in names}
    table = {name: some[rows % len(some)] for name, some in columns.items()}
    found: dict[str, list[float]] = {}
    for seed in range(REHEARSALS):
        noise = SeededNoise(seed)
        result = answered(request, table, schema, privacy=spend, ledger=None, noise=noise)
        for name, ends in ends_of(request, result).items():
            own = np.ptp(ends, axis=-1).ravel()
            known = own[~np.isnan(own)]  # of cells that are large enough
            found.setdefault(name, []).append(float(np.median(known)) if known.size else np.inf)
    widths = {name: float(np.median(some)) for name, some in found.items()}
    return widths, f"{public}, repeated to so many rows, with simulated noise"


def _within_levels(request: StudyRequest, n: int, schema: Schema) -> dict[str, Any]:
    """Standard normal columns, without random numbers, and records as many in every level."""
    from scipy.special import ndtri

    names = request.reads.plain
    table: dict[str, Any] = dict(zip(names, ndtri(evenly(n, len(names))).T, strict=True))
    (by,) = request.reads.declared
    levels = grouping_of(schema, by, ()).levels[0]
    table[by] = np.array(levels, dtype=object)[np.arange(n) % len(levels)]
    return table
