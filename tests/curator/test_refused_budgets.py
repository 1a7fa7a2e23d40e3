"""Budgets that whitened rows refuse: the smallest and the largest of each kind decide."""

import numpy as np
import pytest

from dpfast.curator.curator import Curator
from dpfast.curator.preconditioned import PreconditionedQueries, _refuse
from dpfast.data import as_records
from dpfast.errors import DpfastError
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise


def rows(n):
    objective = Objective(LeastSquares(), Mallows(1.0), 3, fit_intercept=True)
    records = as_records(np.ones((n, 3)), np.zeros(n))
    return PreconditionedQueries(Curator(records, objective, Ledger(GDP(1.0)), SeededNoise(0)))


def refuses(call, *arguments):
    try:
        call(*arguments)
    except DpfastError:
        return True
    return False


@pytest.mark.parametrize("kind", range(4))
def test_a_list_is_refused_if_one_of_it_is(kind):
    queries, rng = rows(50), np.random.default_rng(kind)
    seen = set()
    for _ in range(60):
        mus = np.exp(rng.uniform(np.log(1e-7), np.log(1e7), rng.integers(1, 4))).tolist()
        mus.append(0.0)  # not asked
        lists = [()] * 4
        lists[kind] = mus
        layouts = queries._layout, queries._scores_layout
        each = [
            refuses(_refuse, *layouts, *[(mu,) if k == kind else () for k in range(4)], 53)
            for mu in mus[:-1]
        ]
        found = refuses(lambda lists=lists: queries.refuse(*lists, cells=53))
        assert found == any(each), mus
        seen.add(found)
    assert seen == {True, False}
