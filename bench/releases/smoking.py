"""One coefficient of a logistic regression on a real survey, privately.

    python -m bench.releases.smoking

Heart disease on smoking in the BRFSS 2020 survey (319,795 adults), adjusted for sex, exercise,
difficulty walking, diabetes, age and body mass.  Codes and ranges are public.
"""

from __future__ import annotations

import numpy as np

import dpfast
from bench.figures.paper3.survey import brfss
from bench.figures.runner import data_folder


def main() -> None:
    folder = data_folder()
    if folder is None:
        raise SystemExit("the survey is not here: set DPFAST_DATA to the folder that holds it")
    survey = brfss(folder)
    direction = 2.0 * np.eye(survey.X.shape[1] + 1)[survey.coefficient]  # codes are -1 and 1
    result = dpfast.release_functional(
        survey.X,
        survey.y,
        "logistic",
        direction,
        privacy=dpfast.ApproxDP(1.0, 1e-6),
        domain=survey.domain,
        inference=0.3,
    )
    print(result)
    exact = dpfast.nonprivate_fit(
        survey.X,
        survey.y,
        dpfast.Objective("logistic", weights=dpfast.Bounded(survey.domain.radius)),
    )
    value, se = direction @ exact.params, 2.0 * exact.bse[survey.coefficient]
    print(f"\nWithout privacy: {value:.5f}, standard error {se:.5f}")


if __name__ == "__main__":
    main()
