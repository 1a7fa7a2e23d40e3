"""Defaults must not diverge: no simulated fit may end further from the truth than its start.

1,000 fits of each design; deterministic given the seeds.  ``python -m bench.divergence`` prints
the distances.
"""

import pytest

from bench.divergence import CELLS, run


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_no_fit_ends_further_away_than_it_began(cell):
    worse, mean, worst = run(cell, 1000)
    assert worse == 0, (mean, worst)


def test_a_few_fits_of_the_hardest_design():
    worse, _, _ = run(("logistic, R=sqrt(2)", 500, 0.5), 50)
    assert worse == 0
