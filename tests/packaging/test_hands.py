"""Through how many hands a default fit goes: functions that get X or the budget, and all calls.

A stay is a function of this library with an argument that is X or leads to it, or that is the
budget, a part of it or a ledger, by one fit in a fresh interpreter.  Calls are those of a fit that
is not the first, compiled functions among them.  The figures are printed, and may only fall.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dpfast

ROOT = Path(dpfast.__file__).parents[1]

#: As measured; the aims are 12 and 30 stays.
STAYS_OF_X, STAYS_OF_BUDGET, CALLS = 16, 36, 1_950

COUNT = """
import sys
import numpy as np
import dpfast
from dpfast.curator.answers import StepBudget
from dpfast.front.request import Account
from dpfast.optimize.road.run import Budgets, Purse
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 4))
y = X @ np.full(4, 0.25) + rng.normal(size=1000)
NAMES = {"mu", "mus", "privacy", "total", "totals", "spend", "mu_meat", "gradient", "hessian"}

def leads_to_records(value, depth=6):
    if isinstance(value, np.ndarray):
        return value is X
    if isinstance(value, tuple):
        return depth > 0 and any(leads_to_records(part, depth - 1) for part in value)
    if depth == 0 or isinstance(value, type) or not type(value).__module__.startswith("dpfast"):
        return False
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = [*getattr(value, "__dict__", {}).values(), *(getattr(value, s, None) for s in slots)]
    return any(leads_to_records(part, depth - 1) for part in parts)

def is_budget(value, name):
    if isinstance(value, (Account, Budget, Ledger, Purse, Budgets, StepBudget)):
        return True
    numbers = value if isinstance(value, tuple) else (value,)
    return name in NAMES and any(isinstance(number, float) for number in numbers)

of_x, of_budget = set(), set()

def watch(frame, event, argument):
    code = frame.f_code
    if event != "call" or "dpfast" not in code.co_filename or code.co_name.startswith("<"):
        return
    place = code.co_filename, code.co_qualname
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    given = {name: frame.f_locals[name] for name in code.co_varnames[:count]}
    given.pop("self", None)
    sys.setprofile(None)
    if any(map(leads_to_records, given.values())):
        of_x.add(place)
    if any(is_budget(value, name) for name, value in given.items()):
        of_budget.add(place)
    sys.setprofile(watch)

def fit(seed):
    return dpfast.fit(X, y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed))

sys.setprofile(watch)
fit(0)
sys.setprofile(None)
calls = 0

def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")

sys.setprofile(count)
fit(0)
sys.setprofile(None)
print(len(of_x), len(of_budget), calls)
"""


def test_hands_of_a_default_fit_only_become_fewer(capsys):
    command = [sys.executable, "-W", "error", "-c", COUNT]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = [int(number) for number in run.stdout.split()]
    with capsys.disabled():
        print("\nstays of X {}, of the budget {}; {:,} calls".format(*found), end="")
    limits = STAYS_OF_X, STAYS_OF_BUDGET, CALLS
    assert all(0.8 * most < number <= most for number, most in zip(found, limits, strict=True))
