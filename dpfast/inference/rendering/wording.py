"""Words of pages by the format that names them, so that pages of older versions still verify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpfast.inference.guarantees import PURPOSES
from dpfast.inference.rendering.targets import SENTENCES, Sentences

#: Formats that are written: of a page of a fit, of one of a study, and of one of another result.
FORMAT, STUDY, RESULT = "dpfast report 3", "dpfast study 2", "dpfast result 1"

#: Formats of 1.0.0 before its words changed, which are still read.
FIRST_FORMAT, FIRST_STUDY = "dpfast report 2", "dpfast study 1"


class Wording(NamedTuple):
    """Headings and sentences of a page that do not stand in its transcript."""

    results: str
    privacy: str
    estimand: str
    without_errors: str
    charges: str
    units: str
    facts_first: bool
    purposes: Mapping[str, str]
    sentences: Sentences


NOW = Wording(
    results="Results",
    privacy="Privacy",
    estimand="Estimand",
    without_errors="No standard errors were estimated.",
    charges="Charges",
    units="Units",
    facts_first=False,
    purposes=PURPOSES,
    sentences=SENTENCES,
)

_ROBUST = (
    "the coefficients that minimise the expected loss named in the model; those of least squares "
    "where errors are symmetric and the model is right"
)
_NONCONVEX = (
    "OstrovskiiBach(",
    "SmoothAbsolute(",
    "TukeyBiweight(",
    "GemanMcClure(",
    "Welsch(",
    "Cauchy(",
)
_LEAST_SQUARES = "the coefficients of ordinary least squares in the population"

#: Never changed: a page of that time is recomputed byte by byte.
FIRST = Wording(
    results="What was found",
    privacy="What was spent, in plain words",
    estimand="What it is an estimate of",
    without_errors="No standard errors were bought.",
    charges="What was charged",
    units="Coded",
    facts_first=True,
    purposes={
        "counts": ": where columns lie",
        "histogram of distances": ": their units",
        "hessian": ": curvatures, by which steps are scaled",
        "histogram of lengths": ": norms to which rows and scores are held",
        "histogram of weights": ": their unit",
        "gradient": ": scores, which say where to go",
        "gradient + meat": ": scores, and how they vary",
        "gradient + histogram of lengths": ": a first score, and the norm to which others are held",
    },
    sentences=Sentences(
        otherwise=_ROBUST,
        estimands={
            **dict.fromkeys(("Huber(", "LogCosh(", "PseudoHuber("), _ROBUST),
            "Logistic(": "log odds ratios: the coefficients that minimise the expected logistic "
            "loss",
            "LeastSquares(": _LEAST_SQUARES,
            "Quantile(": "a smoothed conditional quantile of the response, linear in the "
            "covariates",
            "Poisson(": "log ratios of means: the coefficients that minimise the expected Poisson "
            "loss, with means and residuals held as the model names",
            "Gamma(": "log ratios of means: the coefficients that minimise the expected gamma loss",
            "Probit(": "changes of normal quantiles: the coefficients that minimise the probit "
            "loss",
            **dict.fromkeys(_NONCONVEX, _ROBUST),
            "least squares": _LEAST_SQUARES,
            "the mean of the response alone": "the mean of the response (its intercept, through "
            "the loss's link); no slope was estimated",
            "Squared": "the coefficients that minimise the expected squared loss",
        },
        weighted="Rows far from the centre count less, by the public weights named in the model, "
        "which is part of the target unless the model is right.",
        clipped="A few records far out, which no histogram shows, count as far as scores are held "
        "to a norm: in long tails the population's own value may be farther off than the interval "
        "says.",
        penalised="A public ridge penalty pulls it towards zero.",
    ),
)

WORDINGS = {FORMAT: NOW, STUDY: NOW, RESULT: NOW, FIRST_FORMAT: FIRST, FIRST_STUDY: FIRST}
