"""Sixty cells of the grid: unwarned fits do not silently miss, warned ones are wide.

Every fourth cell of `bench.arrival.grid` that is small enough, with seeds that no stored table has.
Coverage of intercept and slopes must not be below .93 by exact binomial tests, which fail a library
that keeps this with probability 1e-6 in all.  Of 200 fits an intercept's coverage of .75 is seen
with probability .95; slopes of which q go their own ways count as q times as many fits: with three,
.83 is seen with .98.
"""

import numpy as np
import pytest
from scipy import stats

from bench.arrival.grid import grid_cells
from tests.statistics.arrival_fits import measure
from tests.statistics.arrival_rules import COVERAGE, coverage_of, covers_less

LARGEST = 250_000
CELLS = [cell for cell in grid_cells() if cell.n * cell.p <= LARGEST][::4]
FITS, FITS_OF_LARGE, LARGE = 200, 80, 50_000

#: Two kinds of fits, intercept and slopes: over all of these tests together 1e-6.
LEVEL = 1e-6 / (4 * len(CELLS))

#: Fits of a kind below which nothing is said of them: few unwarned ones among many that are warned
#: of are those that noise made look better than they are.
FEWEST = 0.4

pytestmark = pytest.mark.slow


def fits_of(cell):
    n_fits = FITS_OF_LARGE if cell.n * cell.p > LARGE else FITS
    return measure(cell, range(900_000, 900_000 + n_fits))


def name_of(cell):
    scale = " free" if cell.interval else ""
    return f"{cell.name}{scale} {cell.loss} {cell.n} {cell.p} {cell.mu:.2g}"


@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_fits_do_not_silently_miss(cell):
    fits = fits_of(cell)
    covered = fits.covered.astype(float)
    assert not fits.helpless.any()  # every warning names what would help
    for chosen in (~fits.warned, fits.warned):
        if chosen.mean() < FEWEST:
            continue
        for part in (covered[chosen, :1], covered[chosen, 1 : cell.p]):
            if part.size:
                assert not covers_less(part, COVERAGE, LEVEL), coverage_of(covered[chosen], cell.p)


def test_there_are_sixty_of_all_kinds():
    assert 55 <= len(CELLS) <= 65
    assert {cell.loss for cell in CELLS} == {"logistic", "log-cosh", "huber", "pseudo-huber"}
    assert len({cell.name for cell in CELLS}) >= 25
    assert sum(cell.interval is not None for cell in CELLS) >= 10


def test_the_power_that_is_stated():
    """Exactly, from the binomial distribution."""

    def seen(trials, rate):
        fewest = stats.binom.ppf(LEVEL, trials, COVERAGE)
        return stats.binom.cdf(fewest - 1, trials, rate)

    assert seen(200, COVERAGE) < LEVEL
    assert seen(200, 0.75) > 0.95
    assert seen(600, 0.83) > 0.98
    assert np.isclose(LEVEL * 4 * len(CELLS), 1e-6)
