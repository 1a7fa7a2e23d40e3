"""Requests that are written by name: each method is one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpfast.models import Loss


class Asking:
    """What :class:`dpfast.Study` is asked by name; ``run`` answers, or refuses before the charge.

    Parameters
    ----------
    level : float in [0.5, 1)
        Of the intervals that a report shows.
    share, mu : float
        What an analysis costs: a share of the total, or mu of Gaussian DP.  Give one.
    name : str, optional
        Makes it another request than the same one without it.
    """

    def run(self, request: Any) -> Any:
        """Answer a request."""
        raise NotImplementedError

    def fit(
        self,
        formula: str,
        loss: str | Loss | dict[str, Any] = "log-cosh",
        *,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """A regression: :func:`dpfast.fit_formula`.

        Parameters
        ----------
        formula : str
            Of declared columns; or of numbers, where its response is not declared.
        loss : str, Loss or dict
            By its name, or by name and settings: ``{"name": "quantile", "tau": 0.9}``.

        Returns
        -------
        Fit

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> x = np.linspace(-1.0, 1.0, 2000)
        >>> study = dpfast.Study({"x": x, "y": 0.5 * x}, privacy=1.0)
        >>> study.fit("y ~ x", "least-squares", share=0.5).names
        ('intercept', 'x')
        """
        return self._ask("fit", (share, mu, name), formula=formula, loss=loss, level=level)

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
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """The average effect of a treatment: :func:`dpfast.effects.treatment_effect`.

        Parameters
        ----------
        treatment : str
            A column declared binary, or of 0 and 1.
        response : str
        covariates : str or sequence of str
        method : {"aipw", "regression", "difference"}
        propensity : float, optional
            Of a trial: nothing is spent on it.
        average : {"all", "treated"}
        weights : str, optional
            A column of sampling weights, held to the public ``largest_weight``.
        largest_weight : float, optional

        Returns
        -------
        TreatmentEffect

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> table = {"x": rng.normal(size=4000), "t": rng.integers(0, 2, 4000)}
        >>> table["y"] = table["x"] + table["t"] + rng.normal(size=4000)
        >>> study = dpfast.Study(table, privacy=2.0)
        >>> bool(abs(study.effect("t", "y", "x", share=0.5).estimate - 1.0) < 0.3)
        True
        """
        named: dict[str, Any] = {
            "treatment": treatment,
            "response": response,
            "covariates": covariates,
        }
        named |= {"method": method, "propensity": propensity, "average": average}
        named |= {"weights": weights, "largest_weight": largest_weight}
        return self._ask("effect", (share, mu, name), **named, level=level)

    def two_stage(
        self,
        formula: str,
        *,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Two-stage least squares: :func:`dpfast.effects.two_stage`.

        Parameters
        ----------
        formula : str
            ``"y ~ x + w | z + w"``, of numeric columns.

        Returns
        -------
        TwoStage

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> z, u = rng.normal(size=(2, 8000))
        >>> table = {"z": z, "x": z + u}
        >>> table["y"] = 2.0 * table["x"] + 3.0 * u + rng.normal(size=8000)
        >>> dpfast.Study(table, privacy=2.0).two_stage("y ~ x | z", share=0.5).instruments
        ('z',)
        """
        return self._ask("two_stage", (share, mu, name), formula=formula, level=level)

    def absorbed(
        self,
        formula: str,
        *,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Least squares within declared levels: :func:`dpfast.tables.absorbed`.

        Parameters
        ----------
        formula : str
            ``"y ~ x + w | state"``, of numeric columns and a declared one after the bar.

        Returns
        -------
        Fit

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> table = {"x": rng.normal(size=8000), "state": np.tile(["A", "B"], 4000)}
        >>> table["y"] = 2.0 * table["x"] + rng.normal(size=8000)
        >>> schema = dpfast.Schema({"state": dpfast.Categorical(["A", "B"])})
        >>> study = dpfast.Study(table, privacy=2.0, schema=schema)
        >>> study.absorbed("y ~ x | state", share=0.5).names
        ('x',)
        """
        return self._ask("absorbed", (share, mu, name), formula=formula, level=level)

    def cox(
        self,
        formula: str,
        event: str,
        cuts: Sequence[float],
        *,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Proportional hazards: :func:`dpfast.effects.cox`.

        Parameters
        ----------
        formula : str
            ``"weeks ~ drug + age"``, of numeric columns.
        event : str
        cuts : sequence of float

        Returns
        -------
        Fit

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> table = {"drug": rng.integers(0, 2, 8000), "died": np.ones(8000)}
        >>> table["weeks"] = rng.exponential(np.exp(0.7 * table["drug"]))
        >>> study = dpfast.Study(table, privacy=2.0)
        >>> study.cox("weeks ~ drug", "died", [0.5, 1.0, 2.0, 4.0], share=0.5).names
        ('drug',)
        """
        asked = {"formula": formula, "event": event, "cuts": cuts}
        return self._ask("cox", (share, mu, name), **asked, level=level)

    def counts(
        self,
        by: str | Sequence[str],
        *,
        least: float = 0.0,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Counts by declared groupings: :func:`dpfast.tables.counts`.

        Parameters
        ----------
        by : str or sequence of str
            One or two declared groupings.
        least : float
            Cells with fewer records are not told.

        Returns
        -------
        CellTable

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> study = dpfast.Study({"sex": ["F", "M"] * 500}, privacy=1.0, schema=schema)
        >>> study.counts("sex", share=0.1).levels
        (('F', 'M'),)
        """
        return self._ask("counts", (share, mu, name), by=by, least=least, level=level)

    def means(
        self,
        columns: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        *,
        least: float = 0.0,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Means of declared columns: :func:`dpfast.tables.means`.

        Parameters
        ----------
        columns : str or sequence of str
        by : str or sequence of str, optional
            One or two declared groupings.
        least : float
            Cells with fewer records are not told.

        Returns
        -------
        CellTable

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9)})
        >>> study = dpfast.Study({"pay": [2.0, 5.0] * 500}, privacy=1.0, schema=schema)
        >>> bool(abs(study.means("pay", share=0.5).mean[0] - 3.5) < 0.5)
        True
        """
        return self._ask(
            "means", (share, mu, name), columns=columns, by=by, least=least, level=level
        )

    def quantiles(
        self,
        column: str,
        by: str | Sequence[str] | None = None,
        probabilities: Sequence[float] = (0.5,),
        *,
        least: float = 0.0,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """Quantiles of a declared column: :func:`dpfast.tables.quantiles`.

        Parameters
        ----------
        column : str
        by : str or sequence of str, optional
            One or two declared groupings.
        probabilities : sequence of float in (0, 1)
        least : float
            Cells with fewer records are not told.
        level : float in [0.5, 1)
            Of the intervals.

        Returns
        -------
        QuantileTable

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9)})
        >>> study = dpfast.Study({"pay": np.linspace(0, 9, 999)}, privacy=1.0, schema=schema)
        >>> study.quantiles("pay", probabilities=[0.25, 0.75], share=0.5).probabilities
        (0.25, 0.75)
        """
        asked = {"column": column, "by": by, "probabilities": probabilities}
        return self._ask("quantiles", (share, mu, name), **asked, least=least, level=level)

    def fits(
        self,
        formula: str,
        by: str,
        loss: str = "least-squares",
        *,
        least: float = 0.0,
        level: float = 0.95,
        share: float | None = None,
        mu: float | None = None,
        name: str | None = None,
    ) -> Any:
        """The same regression in each level of a grouping: :func:`dpfast.tables.fits`.

        Parameters
        ----------
        formula : str
            Of declared columns; or of numbers, where its response is not declared.
        by : str
            A declared grouping.
        loss : str
        least : float
            Levels with fewer records are not fitted.

        Returns
        -------
        SubgroupFits

        Privacy
        -------
        Spends what it was priced at.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> table = {"x": rng.normal(size=6000), "sex": np.tile(["F", "M"], 3000)}
        >>> table["y"] = 2.0 * table["x"] + rng.normal(size=6000)
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> study = dpfast.Study(table, privacy=2.0, schema=schema)
        >>> study.fits("y ~ x", "sex", share=0.5).levels
        ('F', 'M')
        """
        asked = {"formula": formula, "by": by, "loss": loss}
        return self._ask("fits", (share, mu, name), **asked, least=least, level=level)

    def _ask(self, analysis: str, price: tuple[Any, ...], **asked: Any) -> Any:
        named = zip(("share", "mu", "name"), price, strict=True)
        given = {key: value for key, value in named if value is not None}
        return self.run({"analysis": analysis} | given | asked)
