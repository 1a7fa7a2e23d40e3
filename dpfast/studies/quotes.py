"""Quotes: cost of a request and expected widths of its intervals, from public facts only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpfast.data.columns import column
from dpfast.data.formula import terms_of
from dpfast.data.schema import Schema
from dpfast.fit_requests.planned_run import quietly
from dpfast.inference.base import Planned
from dpfast.inference.composition import amounts, plain_spend
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.privacy.budget import Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.forecast import GOLDEN, NoForecast, Plan, evenly, plan
from dpfast.studies.answers import Persons, answered, ends_of, objective_of, told_of
from dpfast.studies.requests import StudyRequest
from dpfast.tables.grouping import grouping_of
from dpfast.tables.planning import plan as plan_cells

#: Number of simulations, and their rows at most.  The median width of five is steady enough for a
#: forecast, but not that of quantiles, which jump between edges.  Larger tables would take long.
SIMULATIONS, OF_QUANTILES, MAX_SIMULATED = 5, 25, 1_000_000

#: Values without ties that a bandwidth needs.
MIN_UNTIED = 8

#: The delta at which a quote shows epsilon.
DELTA = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Quote(Planned):
    """Cost of a request, and the expected widths of its intervals.

    Attributes
    ----------
    request, digest : dict, str
        The request with every default, and its digest, under which the ledger knows it.
    spend, share : GDP or ZCDP, float
        What the ledger will be charged, at once, and never more; and its share of the total.  A
        run that stops after its counts returns the rest.
    payable : bool
        Whether the ledger could pay for it at this moment.
    widths : dict of str to float, or None
        Expected widths of its intervals, of several cells the median; None where they are not
        known.
    told : str
        The basis of these widths, what is missing for them, or why :meth:`Study.run` would
        refuse the request, which costs nothing there.

    Privacy
    -------
    Made of the request, the schema and the ledger; no record is read.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> study = dpfast.Study(None, privacy=1.0, schema=schema, n=1000)
    >>> study.quote({"analysis": "counts", "by": "sex", "share": 0.25}).to_dict()["spend"]
    {'type': 'GDP', 'mu': 0.5}
    """

    _headed = ("Request", "Price", "Forecast")

    request: dict[str, Any]
    digest: str
    spend: Budget
    share: float
    payable: bool
    widths: dict[str, float] | None
    told: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values (for JSON)."""
        return super().to_dict() | {"spend": plain_spend(self.spend)}

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the price and the expected widths, as text with other forms."""
        epsilon = self.spend.as_approx(DELTA).epsilon
        payable = (
            "the ledger can pay for it"
            if self.payable
            else "the ledger CANNOT pay for it, or has paid (with another name it pays again)"
        )
        facts = (
            ("Request", f"{self.request['analysis']} {self.digest}"),
            ("Price", f"{self.spend!r}, {self.share:.4g} of the total (epsilon = {epsilon:.3g} "
                      f"at delta = {DELTA:g}); {payable}"),
            ("Forecast", self.told),
        )  # fmt: skip
        rows = [(name, (short_number(width),)) for name, width in (self.widths or {}).items()]
        return render_table("dpfast: quote of a request", facts, ("width",), rows, None)

    def _columns(self, level: float) -> dict[str, Any]:
        widths = self.widths or {}
        return {"term": list(widths), "width": list(widths.values())}


def share_of(total: Budget, spend: Budget) -> Fraction:
    """Return a charge as an exact share of a total, in units that add up."""
    kind = type(total)
    return amounts(spend, kind)[0] / amounts(total, kind)[0]


def forecast_of(
    request: StudyRequest, n: int | None, like: Any, schema: Schema | None, **options: Any
) -> Plan:
    """Forecast a fit from a public table, or from standard normal covariates."""
    pilot = None
    if like is not None:
        pilot = terms_of(request.arguments["formula"], schema, like).records(like)
    size = len(request.reads.coefficients) + int(request.reads.intercept)
    objective = objective_of(request)
    return plan(n, size, objective, level=request.arguments["level"], pilot=pilot, **options)


SYNTHETIC = (
    "for covariates and residuals of standard deviation 1, in these units; for forecasts in the "
    "units of your columns pass a public table as like="
)


def records_alike(request: StudyRequest, persons: Persons | None) -> bool:
    """Say whether every row is a record that counts as any other."""
    return persons is None and request.arguments.get("weights") is None


def expected_widths(
    request: StudyRequest,
    spend: Budget,
    n: int | None,
    like: Any,
    schema: Schema | None,
    persons: Persons | None = None,
) -> tuple[dict[str, float] | None, str]:
    """Forecast the widths of the intervals of an answer; return them and their basis."""
    if n is None:
        return None, "widths depend on the number of records: pass n="
    arguments, public = request.arguments, "expected from the public table"
    alike = records_alike(request, persons)
    if request.analysis == "fit" and alike:
        try:
            planned = forecast_of(request, n, like, schema, privacy=spend)
        except NoForecast:
            return None, "so few records give no intervals at this price"
        first = ("intercept",) if request.reads.intercept else ()
        names = (*first, *request.reads.coefficients)
        widths = dict(zip(names, planned.widths.tolist(), strict=True))
        return widths, SYNTHETIC if like is None else public
    if request.analysis in ("counts", "means") and alike:
        assert schema is not None
        columns = arguments.get("columns", ())
        cells = plan_cells(
            schema, arguments["by"], columns, n=n, privacy=spend, least=arguments["least"],
            level=arguments["level"],
        )  # fmt: skip
        if not columns:
            return {"count": cells.count_width}, "privacy noise alone: counts are for these records"
        if like is None:
            halves = 2.0 * cells.half_widths
            widths = dict(zip(cells.columns, halves.tolist(), strict=True))
            return widths, "privacy noise alone, without sampling error, if all cells are equal"
    elif like is None and request.analysis == "absorbed" and alike and _reads_columns(request):
        assert schema is not None
        like, public = _within_levels(request, n, schema), SYNTHETIC
    elif like is None:
        return None, "widths depend on the columns: pass a public table as like="
    if n > MAX_SIMULATED:
        return None, f"widths of more than {MAX_SIMULATED:,} records are not simulated"
    # simulate the answer on the public table, repeated to n rows, with seeded noise
    table, smoothed = repeated(request, like, n, persons), None
    if request.analysis == "quantiles":
        name, cells_by = arguments["column"], grouping_of(schema, arguments["by"], ()).n_cells
        smoothed = _Smoothed(table[name], np.asarray(column(like, name)), cells_by)
    widths_by_name: dict[str, list[float]] = {}
    for seed in range(SIMULATIONS if smoothed is None else OF_QUANTILES):
        noise = SeededNoise(seed)
        if smoothed is not None:
            table[name] = smoothed.drawn(seed)
        with quietly():
            result = answered(
                request, table, schema, persons, privacy=spend, ledger=None, noise=noise
            )
        for name, ends in ends_of(request, result).items():
            interval_widths = np.ptp(ends, axis=-1).ravel()
            known = interval_widths[~np.isnan(interval_widths)]  # suppressed cells have no interval
            widths_by_name.setdefault(name, []).append(
                float(np.median(known)) if known.size else np.inf
            )
    widths = {name: float(np.median(values)) for name, values in widths_by_name.items()}
    return widths, f"{public}, repeated to so many rows, with simulated noise"


def repeated(
    request: StudyRequest, like: Any, n: int | None, persons: Persons | None
) -> dict[str, Any]:
    """Return the columns that a request reads, repeated to n; as they are without an n.

    n counts rows, or persons where each counts once.  Persons of a repetition are others.
    """
    names = [*request.reads.declared, *request.reads.plain, *(persons[:1] if persons else ())]
    columns = {name: np.asarray(column(like, name)) for name in names}
    if n is None or n > MAX_SIMULATED:
        return columns
    size = len(columns[names[0]])
    if persons is None:
        rows = np.arange(n)
        return {name: values[rows % size] for name, values in columns.items()}
    distinct, codes = np.unique(columns[persons.group], return_inverse=True)
    once = persons.each == "person"
    rows = np.arange(size * -(-n // len(distinct)) if once else n)
    labels = codes.ravel()[rows % size] + len(distinct) * (rows // size)
    kept = labels < n if once else np.ones(n, dtype=bool)
    columns = {name: values[rows[kept] % size] for name, values in columns.items()}
    return columns | {persons.group: labels[kept]}


class _Smoothed:
    """Repeated values with noise of a kernel's bandwidth where they have no ties.

    This is a smoothed bootstrap.  The density at a quantile sets the width of its interval.  Few
    public rows show it with gaps, which more repetitions do not fill.
    """

    def __init__(self, repeated: Any, public: Any, n_cells: int) -> None:
        self._values, self._bandwidths = repeated, np.zeros(len(repeated))
        if public.dtype.kind not in "fiu":
            return
        values = np.asarray(public, np.float64)
        distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        untied = distinct[counts == 1]
        if untied.size < MIN_UNTIED:
            return
        spread = min(float(untied.std()), float(np.ptp(np.quantile(untied, (0.25, 0.75)))) / 1.34)
        # Of a normal distribution all three are its standard deviation.  The shortest interval
        # with a quarter of the values is that of the highest mode, where several are far apart.
        quarter = untied.size // 4
        spread = min(spread, float((untied[quarter:] - untied[:-quarter]).min()) / 0.637)
        # Silverman (1986), equation 3.31, for the density within a cell
        bandwidth = 0.9 * spread * max(untied.size / n_cells, 1.0) ** -0.2
        self._bandwidths[np.isin(repeated, untied)] = bandwidth

    def drawn(self, k: int) -> Any:
        """Return the k-th draw."""
        from scipy.special import ndtri

        if not self._bandwidths.any():
            return self._values
        uniform = (evenly(len(self._values), 1)[:, 0] + k * GOLDEN) % 1.0
        return self._values + self._bandwidths * ndtri(np.clip(uniform, 1e-9, 1.0 - 1e-9))


def _reads_columns(request: StudyRequest) -> bool:
    """Say whether the terms of a formula are columns without a declaration, and nothing else."""
    reads = request.reads
    return len(reads.declared) == 1 and {*reads.coefficients} <= {*reads.plain}


def _within_levels(request: StudyRequest, n: int, schema: Schema) -> dict[str, Any]:
    """Make standard normal columns without random numbers, and levels of equal size."""
    from scipy.special import ndtri

    names = request.reads.plain
    table: dict[str, Any] = dict(zip(names, ndtri(evenly(n, len(names))).T, strict=True))
    (by,) = request.reads.declared
    levels = grouping_of(schema, by, ()).levels[0]
    table[by] = np.array(levels, dtype=object)[np.arange(n) % len(levels)]
    return table


#: First words of a rehearsal, and of its summary.
NOT_PRIVATE = "REHEARSAL, not private: public rows and simulated noise; nothing was charged."


def rehearsal_of(
    request: StudyRequest,
    spend: Budget,
    n: int | None,
    like: Any,
    schema: Any,
    persons: Persons | None,
) -> dict[str, Any]:
    """Answer a request on public rows, in the form of an answer for JSON."""
    table, noise = repeated(request, like, n, persons), SeededNoise(0)
    with quietly():
        result = answered(request, table, schema, persons, privacy=spend, ledger=None, noise=noise)
    told = told_of(request, result)
    told["summary"] = f"{NOT_PRIVATE}\n\n{told['summary']}"
    warnings = [str(message) for message in getattr(result, "warnings", ())]
    return {"rehearsal": NOT_PRIVATE, **told, "spend": plain_spend(spend), "warnings": warnings}
