"""What part of the budget each answer of the adaptive method takes."""

from __future__ import annotations

from dpfast.models import Objective

#: Shares of the total ``mu^2``: start of the intercept, one early step, all blocks side by side,
#: one full answer.
START, EARLY, BLOCKS, FULL = 0.02, 0.02, 0.2, 0.12

#: Steps over all records before the first full answer.
FEWEST_EARLY, MOST_EARLY = 4, 14

#: Full answers before the last one: over all records the noise of their curvatures averages.
FULL_ANSWERS, MOST_FULL_ANSWERS = 4, 5

#: Gaussian-DP parameter of the meat relative to the gradient's in the last answer; of counts, whose
#: typical scores are a smaller part of the largest (bench.counts).
MEAT, MEAT_OF_COUNTS = 0.35, 0.7


def meat_share(objective: Objective) -> float:
    """Gaussian-DP parameter of the meat relative to the gradient's in the last answer."""
    return MEAT_OF_COUNTS if objective.loss.link == "log" else MEAT
