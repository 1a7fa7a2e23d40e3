"""Requests that are written by name: each method is one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from dpfast.models import Loss

if TYPE_CHECKING:
    from dpfast.effects.iv import TwoStage
    from dpfast.effects.results import TreatmentEffect
    from dpfast.inference.results import Fit
    from dpfast.tables.fitted import SubgroupFits
    from dpfast.tables.results import CellTable, QuantileTable


class Price(TypedDict, total=False):
    """What every request may say besides."""

    level: float
    share: float | None
    mu: float | None
    name: str | None


class StudyMethods:
    """What :class:`dpfast.Study` is asked by name; ``run`` answers, or refuses before the charge.

    Parameters
    ----------
    level : float in [0.5, 1)
        Of the intervals that a report shows; .95 by default.
    share, mu : float
        What an analysis costs: a share of the total, or mu of Gaussian DP.  Give one.
    name : str, optional
        Makes it another request than the same one without it.
    formula, treatment, response, covariates, method, propensity, average, event, cuts, by
        As of the function that the method names, columns by their names.
    columns, column, probabilities, least
        Likewise; counts below ``least`` are not told.
    loss : str, Loss or dict
        By its name, or by name and settings: ``{"name": "quantile", "tau": 0.9}``.
    weights, largest_weight
        A column of sampling weights, and the public bound that they are held to.

    Privacy
    -------
    Each spends what it was priced at.

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

    def run(self, request: Any) -> Any:
        """Answer a request."""
        raise NotImplementedError

    def fit(
        self,
        formula: str,
        loss: str | Loss | dict[str, Any] = "log-cosh",
        **price: Unpack[Price],
    ) -> Fit:
        """A regression, :func:`dpfast.fit_formula`, of declared columns or of numbers."""
        return self._run_request("fit", price, formula=formula, loss=loss)

    def effect(
        self,
        treatment: str,
        response: str,
        covariates: str | Sequence[str],
        *,
        method: str = "aipw",
        propensity: float | None = None,
        average: str = "all",
        weights: str | None = None,
        largest_weight: float | None = None,
        **price: Unpack[Price],
    ) -> TreatmentEffect:
        """The average effect of a treatment: :func:`dpfast.effects.treatment_effect`."""
        columns = {"treatment": treatment, "response": response, "covariates": covariates}
        weighed = {"weights": weights, "largest_weight": largest_weight}
        how = {"method": method, "propensity": propensity, "average": average}
        return self._run_request("effect", price, **columns, **how, **weighed)

    def two_stage(self, formula: str, **price: Unpack[Price]) -> TwoStage:
        """Two-stage least squares: :func:`dpfast.effects.two_stage`."""
        return self._run_request("two_stage", price, formula=formula)

    def absorbed(self, formula: str, **price: Unpack[Price]) -> Fit:
        """Least squares within declared levels: :func:`dpfast.tables.absorbed`."""
        return self._run_request("absorbed", price, formula=formula)

    def cox(
        self,
        formula: str,
        event: str,
        cuts: Sequence[float],
        *,
        unit: float | None = None,
        **price: Unpack[Price],
    ) -> Fit:
        """Proportional hazards: :func:`dpfast.effects.cox`.

        Parameters
        ----------
        formula, event, cuts, unit
            As of that function.
        """
        return self._run_request("cox", price, formula=formula, event=event, cuts=cuts, unit=unit)

    def counts(
        self, by: str | Sequence[str], *, least: float = 0.0, **price: Unpack[Price]
    ) -> CellTable:
        """Counts by declared groupings: :func:`dpfast.tables.counts`."""
        return self._run_request("counts", price, by=by, least=least)

    def means(
        self,
        columns: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        *,
        least: float = 0.0,
        **price: Unpack[Price],
    ) -> CellTable:
        """Means of declared columns: :func:`dpfast.tables.means`."""
        return self._run_request("means", price, columns=columns, by=by, least=least)

    def quantiles(
        self,
        column: str,
        by: str | Sequence[str] | None = None,
        probabilities: Sequence[float] = (0.5,),
        *,
        least: float = 0.0,
        **price: Unpack[Price],
    ) -> QuantileTable:
        """Quantiles of a declared column: :func:`dpfast.tables.quantiles`."""
        asked = {"column": column, "by": by, "probabilities": probabilities}
        return self._run_request("quantiles", price, **asked, least=least)

    def fits(
        self,
        formula: str,
        by: str,
        loss: str = "least-squares",
        *,
        least: float = 0.0,
        **price: Unpack[Price],
    ) -> SubgroupFits:
        """The same regression in each level of a grouping: :func:`dpfast.tables.fits`."""
        return self._run_request("fits", price, formula=formula, by=by, loss=loss, least=least)

    def _run_request(self, analysis: str, price: Price, **asked: Any) -> Any:
        """Run the request that the arguments are."""
        given = {key: value for key, value in price.items() if value is not None}
        return self.run({"analysis": analysis} | given | asked)
