"""The estimand of a fit in a sentence: the coefficients that minimise its expected loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpfast.models.losses import LeastSquares, Loss
from dpfast.models.names import all_losses


class Sentences(NamedTuple):
    """What is said of the estimand of any loss, and where its weights, clipping or ridge move it.

    ``estimands``: estimands by a word of the model's description; the first that occurs counts.
    None for those of the losses as they are now, and ``MODELS``.
    """

    otherwise: str
    weighted: str
    clipped: str
    penalised: str
    estimands: Mapping[str, str] | None = None


#: Estimands of models that no loss names.
MODELS = {
    "least squares": LeastSquares.estimates,
    "the mean of the response alone": "the mean of the response (its intercept, through the loss's "
    "link); no slope was estimated",
    "predictions by shrunk slopes alone": "predictions of the response, by slopes that are shrunk "
    "towards its mean; no coefficient was estimated",
    "Squared": "the coefficients that minimise the expected squared loss",
}


SENTENCES = Sentences(
    otherwise=Loss.estimates,
    weighted="Rows far from the centre are down-weighted by the public weights of the model; "
    "unless the model is right, this changes the estimand.",
    clipped="Extreme records have limited influence. With very long tails the true value can lie "
    "outside the interval more often than its level says.",
    penalised="A public ridge penalty shrinks the coefficients towards zero.",
)

#: Words in the text of a method that clips gradients; the second is that of fits saved before.
CLIPPED = "gradients clipped", "scores held to a norm"

#: Words in the text of a model that down-weights rows.
WEIGHTED = "Mallows", "Schweppe", "Bounded", "Clip"


def target_of(model: str, method: str, sentences: Sentences = SENTENCES) -> str:
    """State what coefficients of this model estimate in the population of the records."""
    estimands = sentences.estimands
    if estimands is None:
        kinds = all_losses().values()
        estimands = {f"{kind.__name__}(": kind.estimates for kind in kinds} | MODELS
    words = (said for word, said in estimands.items() if word in model)
    estimand = next(words, sentences.otherwise)
    parts = [estimand[0].upper() + estimand[1:] + "."]
    if any(word in model for word in WEIGHTED):
        parts.append(sentences.weighted)
    if any(word in method for word in CLIPPED):
        parts.append(sentences.clipped)
    if "ridge=" in model:
        parts.append(sentences.penalised)
    return " ".join(parts)


def hidden_directions(count: int, p: int, columns: str = "") -> str:
    """Warn that the Hessian is too noisy in some directions, mainly of these columns."""
    directions = "one direction" if count == 1 else f"{count} directions"
    columns = f", mainly {columns}" if columns else ""
    return (
        f"the Hessian is too noisy in {directions} of {p}{columns}; standard errors there are "
        "unreliable. Use more records, a larger budget, or fewer or better scaled covariates."
    )
