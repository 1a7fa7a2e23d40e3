"""What a fit estimates, in a sentence: its target, by the loss it names."""

from __future__ import annotations

__all__ = ["target_of"]

ROBUST = (
    "the coefficients that minimise the expected loss named in the model; those of least squares "
    "where errors are symmetric and the model is right"
)

#: By a word of the model's description, the first that occurs.
TARGETS = {
    "LeastSquares": "the coefficients of ordinary least squares in the population",
    "least squares": "the coefficients of ordinary least squares in the population",
    "Logistic": "log odds ratios: the coefficients that minimise the expected logistic loss",
    "Quantile": "a smoothed conditional quantile of the response, linear in the covariates",
    "Poisson": (
        "log ratios of means: the coefficients that minimise the expected Poisson loss, with means "
        "and residuals held as the model names"
    ),
    "Squared": "the coefficients that minimise the expected squared loss",
}

WEIGHTED = (
    "Rows far from the centre count less, by the public weights named in the model, which is part "
    "of the target unless the model is right."
)
PENALISED = "A public ridge penalty pulls it towards zero."


def target_of(model: str) -> str:
    """What coefficients of this model are estimates of, for the population of the records."""
    found = next((said for word, said in TARGETS.items() if word in model), ROBUST)
    parts = [found[0].upper() + found[1:] + "."]
    if any(word in model for word in ("Mallows", "Schweppe", "Bounded", "Clip")):
        parts.append(WEIGHTED)
    if "ridge=" in model:
        parts.append(PENALISED)
    return " ".join(parts)
