"""Attributes of other packages' fits that a private fit refuses, each with its reason."""

from __future__ import annotations

from typing import Any

from dpfast.errors import InferenceUnavailable

RECORDS = (
    "has a value for each record, which no budget could pay for at a useful accuracy. For public "
    "rows there is fit.predict(rows)"
)
QUERY = (
    "is a query about the records that this fit did not pay for. Compare fits by their intervals, "
    "test coefficients together with fit.wald_test, or choose between losses with dpfast.tune"
)
PAID = (
    "was not asked for, and costs a budget of its own: privacy={price:.2g} for noise of about half "
    "of the sampling error. Type dpfast.regression.goodness_of_fit(fit, 'y ~ x', table, "
    "privacy={price:.2g})"
)

#: What the root of the number of records times mu is at that price.
PRICE = 75.0

#: Attributes of other packages that a private fit refuses, with the reason.
REFUSED = {
    "aic": QUERY, "bic": QUERY, "llf": QUERY, "ssr": QUERY,
    "mse_resid": QUERY, "rsquared": PAID, "rsquared_adj": PAID, "prsquared": PAID, "ess": QUERY,
    "centered_tss": QUERY, "uncentered_tss": QUERY, "mse_model": QUERY, "mse_total": QUERY,
    "deviance": QUERY, "null_deviance": QUERY, "pearson_chi2": QUERY, "llnull": QUERY,
    "llr": QUERY, "llr_pvalue": QUERY, "condition_number": QUERY, "eigenvals": QUERY,
    "fittedvalues": RECORDS, "resid": RECORDS, "wresid": RECORDS, "resid_pearson": RECORDS,
    "resid_response": RECORDS, "resid_deviance": RECORDS,
}  # fmt: skip


class Refused:
    """Attributes that would be queries about the records, which read as :data:`REFUSED` says."""


def _refusal(name: str, reason: str) -> property:
    def read(self: Any) -> Any:
        said = reason
        if reason is PAID:
            said = reason.format(price=PRICE / self.n_records**0.5)
        raise InferenceUnavailable(f"{name} {said}.")

    shown = reason.format(price=1.0)
    read.__name__, read.__doc__ = name, f"Refused: {name} {shown}."
    return property(read)


for _name, _reason in REFUSED.items():
    setattr(Refused, _name, _refusal(_name, _reason))
