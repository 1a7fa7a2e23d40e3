"""What a fit estimates, in a sentence: its target, by the loss it names."""

from __future__ import annotations

from dpfast.models.losses import LeastSquares, Loss
from dpfast.models.names import all_losses

ROBUST = Loss.estimates

#: By a word of the model's description, the first that occurs; of a loss its own.
TARGETS = {
    "least squares": LeastSquares.estimates,
    "the mean of the response alone": "the mean of the response (its intercept, through the loss's "
    "link); no slope was estimated",
    "Squared": "the coefficients that minimise the expected squared loss",
}

WEIGHTED = (
    "Rows far from the centre count less, by the public weights named in the model, which is part "
    "of the target unless the model is right."
)
HELD = (
    "A few records far out, which no histogram shows, count as far as scores are held to a norm: "
    "in long tails the population's own value may be farther off than the interval says."
)
PENALISED = "A public ridge penalty pulls it towards zero."


def target_of(model: str, method: str) -> str:
    """What coefficients of this model are estimates of, for the population of the records."""
    kinds = {f"{kind.__name__}(": kind.estimates for kind in all_losses().values()}
    found = next((said for word, said in (kinds | TARGETS).items() if word in model), ROBUST)
    parts = [found[0].upper() + found[1:] + "."]
    if any(word in model for word in ("Mallows", "Schweppe", "Bounded", "Clip")):
        parts.append(WEIGHTED)
    if "scores held to a norm" in method:
        parts.append(HELD)
    if "ridge=" in model:
        parts.append(PENALISED)
    return " ".join(parts)


def hidden_directions(count: int, p: int, most: str = "") -> str:
    """What a reader must know of directions whose curvature is not told from its noise."""
    most = f", most of all of {most}" if most else ""
    return (
        f"{count} of {p} curvature directions are hidden by the privacy noise{most}; intervals "
        "along them are not reliable. Use more records, a larger budget, or fewer or better "
        "scaled covariates."
    )
