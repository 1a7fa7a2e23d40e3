"""Methods of a study: each writes one request and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from dpfast.errors import Hinted, understood
from dpfast.models import Loss

if TYPE_CHECKING:
    from dpfast.effects.iv import TwoStage
    from dpfast.effects.results import TreatmentEffect
    from dpfast.inference.results import Fit
    from dpfast.tables.fitted import SubgroupFits
    from dpfast.tables.results import CellTable, QuantileTable


class Price(TypedDict, total=False):
    """Options that every request may have: level, price and name."""

    level: float
    share: float | None
    mu: float | None
    name: str | None


class Weighted(Price, total=False):
    """Options of a request that may have sampling weights."""

    weights: str | None
    largest_weight: float | None


class StudyMethods(Hinted):
    """Analyses of :class:`dpfast.Study` as methods; each is answered, or refused before the charge.

    Parameters
    ----------
    level : float in [0.5, 1)
        Nominal coverage of the intervals that a report shows; .95 by default.
    share, mu : float
        What an analysis costs: a share of the total, or mu of Gaussian DP.  Give one.
    name : str, optional
        Makes a new request of one that was already answered.
    formula, treatment, response, covariates, method, propensity, average, event, cuts, by
        As for the function that the method names; columns are given by their names.
    columns, column, probabilities, least
        Likewise; cells with counts below ``least`` are suppressed.
    loss : str, Loss or dict
        By its name, or by name and settings: ``{"name": "quantile", "tau": 0.9}``.
    weights, largest_weight
        A column of sampling weights, and the public bound at which they are clipped; without a
        bound one is estimated within the price, except for effects.

    Privacy
    -------
    Each spends its price.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = {"x": rng.normal(size=4000), "sex": np.tile(["F", "M"], 2000)}
    >>> table["y"] = table["x"] + rng.normal(size=4000)
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> study = dpfast.Study(table, privacy=2.0, schema=schema)
    >>> study.fit("y ~ x", "least-squares", share=0.3).names, study.counts("sex", mu=0.5).by
    (('intercept', 'x'), ('sex',))
    """

    @understood
    def run(self, request: Any) -> Any:
        """Answer a request."""
        raise NotImplementedError

    @understood
    def fit(
        self,
        formula: str,
        loss: str | Loss | dict[str, Any] = "least-squares",
        **price: Unpack[Weighted],
    ) -> Fit:
        """Fit a regression by :func:`dpfast.fit`, of declared columns or of numbers."""
        return self._run_request("fit", price, formula=formula, loss=loss)

    @understood
    def effect(
        self,
        treatment: str,
        response: str,
        covariates: str | Sequence[str],
        *,
        method: str = "aipw",
        propensity: float | None = None,
        average: str = "all",
        **price: Unpack[Weighted],
    ) -> TreatmentEffect:
        """Estimate the average effect of a treatment by :func:`dpfast.effects.treatment_effect`."""
        columns = {"treatment": treatment, "response": response, "covariates": covariates}
        adjustment = {"method": method, "propensity": propensity, "average": average}
        return self._run_request("effect", price, **columns, **adjustment)

    @understood
    def two_stage(self, formula: str, **price: Unpack[Weighted]) -> TwoStage:
        """Fit two-stage least squares by :func:`dpfast.effects.two_stage`."""
        return self._run_request("two_stage", price, formula=formula)

    @understood
    def absorbed(self, formula: str, **price: Unpack[Price]) -> Fit:
        """Fit least squares within declared levels by :func:`dpfast.tables.absorbed`."""
        return self._run_request("absorbed", price, formula=formula)

    @understood
    def cox(
        self,
        formula: str,
        event: str,
        cuts: Sequence[float],
        *,
        unit: float | None = None,
        **price: Unpack[Weighted],
    ) -> Fit:
        """Fit proportional hazards by :func:`dpfast.effects.cox`.

        Parameters
        ----------
        formula, event, cuts, unit
            As for that function.
        """
        fields = {"formula": formula, "event": event, "cuts": cuts, "unit": unit}
        return self._run_request("cox", price, **fields)

    @understood
    def counts(
        self, by: str | Sequence[str], *, least: float = 0.0, **price: Unpack[Weighted]
    ) -> CellTable:
        """Count records by declared groupings with :func:`dpfast.tables.counts`."""
        return self._run_request("counts", price, by=by, least=least)

    @understood
    def means(
        self,
        columns: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        *,
        least: float = 0.0,
        **price: Unpack[Weighted],
    ) -> CellTable:
        """Estimate means of declared columns by :func:`dpfast.tables.means`."""
        fields = {"columns": columns, "by": by}
        return self._run_request("means", price, **fields, least=least)

    @understood
    def quantiles(
        self,
        column: str,
        by: str | Sequence[str] | None = None,
        probabilities: Sequence[float] = (0.5,),
        *,
        least: float = 0.0,
        **price: Unpack[Weighted],
    ) -> QuantileTable:
        """Estimate quantiles of a declared column by :func:`dpfast.tables.quantiles`."""
        fields = {"column": column, "by": by, "probabilities": probabilities}
        return self._run_request("quantiles", price, **fields, least=least)

    @understood
    def fits(
        self,
        formula: str,
        by: str,
        loss: str = "least-squares",
        *,
        least: float = 0.0,
        **price: Unpack[Weighted],
    ) -> SubgroupFits:
        """Fit one regression in each level of a grouping by :func:`dpfast.tables.fits`."""
        fields = {"formula": formula, "by": by, "loss": loss, "least": least}
        return self._run_request("fits", price, **fields)

    def _run_request(self, analysis: str, price: Price, **fields: Any) -> Any:
        """Make a request of the arguments and run it."""
        price_fields = {key: value for key, value in price.items() if value is not None}
        return self.run({"analysis": analysis} | price_fields | fields)
