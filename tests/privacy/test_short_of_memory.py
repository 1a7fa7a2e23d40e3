"""Short of memory: refused before the charge, or answered; never charged with nothing to show.

Each sweep is a process of its own that limits the memory it may take on top of what is in use just
before a call, at several levels; what charges is watched, whether or not a ledger is shared.
"""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import dpfast
from dpfast.fit_requests import account as accounts

resource = pytest.importorskip("resource")

#: What the processes have in common.  ``tried(call, extra)`` is what comes of a call with so many
#: bytes more: refused (before the charge), answered, partial (charged, and its answers arrive) or
#: else what went wrong.
COMMON = """
import ctypes, gc, json, resource, sys, warnings
import numpy as np
import dpfast, dpfast.effects, dpfast.estimators
from tests.audit import calls
from dpfast.fit_requests import account as accounts

warnings.simplefilter("ignore")
charges, reserve = [], accounts.Account.reserve

def watched(self, label, room=0, *session):
    reserved = reserve(self, label, room, *session)
    charges.append(label)
    return reserved

class Shared(dpfast.Ledger):
    def charge(self, spend, label):
        super().charge(spend, label)
        charges.append(label)

accounts.Account.reserve = watched

def in_use():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData"))

def tried(call, extra):
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    charges.clear()
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (in_use() + extra, limits[1]))
    try:
        with np.errstate(all="ignore"):
            call()
        return "answered"
    except dpfast.errors.DpfastError as error:  # at this n
        return repr(error) if charges else "answered"
    except Exception as error:  # libraries have words of their own for a shortage
        if not charges:
            return "refused"
        return "partial" if hasattr(error, "partial_result") else f"charged, and {error!r}"
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
"""

#: Calls that copy many records, or nearly none, and what they are called with.
LARGE = """
n, p = 50_000, 20
rng = np.random.default_rng(0)
wide = rng.normal(size=(n, p))
y = wide[:, 0] + rng.normal(size=n)
labels, weights = (y > 0.0).astype(float), rng.random(n)
persons = np.arange(n) // 4
pair = dpfast.ApproxDP(2.0, 1e-6)

def paid(total):
    return {
        "privacy": total, "ledger": Shared(total), "noise": dpfast.SeededNoise(3)
    }

def large(X):
    fits = {
        "nothing declared": (y, "log-cosh", {}, {}),
        "logistic": (labels, "logistic", {}, {}),
        "weights": (y, "log-cosh", {"sample_weight": weights, "largest_weight": 1.0}, {}),
        "a scale": (y, dpfast.Objective("log-cosh", scale=1.0), {}, {}),
        "units bought": (
            y, dpfast.Objective("huber", dpfast.Mallows(9.0)), {}, {"standardize": True}),
        "persons": (y, "log-cosh", {"group": persons, "each": "person"}, {}),
    }
    for name, (response, loss, beside, given) in fits.items():
        yield name, lambda: dpfast.fit(
            dpfast.records(X, response, **beside), None, loss, **paid(1.0), **given)
    yield "quantiles", lambda: dpfast.fit_quantiles(X, y, [0.5], **paid(1.0))
    yield "standardize", lambda: dpfast.standardize(X, y, **paid(1.0))
    yield "an effect", lambda: dpfast.effects.treatment_effect(
        X, labels, y, standardize=False, **paid(1.0))
    cells = {"a": labels, "b": y}, dpfast.Schema(
        {"a": dpfast.Binary(1, 0), "b": dpfast.Numeric(-3.0, 3.0)})
    yield "means", lambda: dpfast.tables.means(
        cells[0], "b", "a", schema=cells[1], **paid(1.0))
    yield "cell quantiles", lambda: dpfast.tables.quantiles(
        cells[0], "b", "a", schema=cells[1], **paid(1.0))
    yield "minimize", lambda: dpfast.minimize(
        X, y, dpfast.Objective("tukey", scale=1.0), **paid(1.0))
    yield "a release", lambda: dpfast.release_parameter(
        X, y, dpfast.Objective("log-cosh", scale=1.0, ridge=0.5), domain=dpfast.models.Box(1.0),
        **paid(pair))

found = {}
for name, call in large(wide.astype(sys.argv[1])):
    tried(call, 1 << 40)  # whatever is loaded or compiled in a first call
    found[name] = [tried(call, extra << 20) for extra in map(int, sys.argv[2:])]
print(json.dumps(found))
"""

#: Calls that the audit replays, with so many records as they are given.
REGISTERED = """
# short of memory pyarrow's writer, which makes the file of one example, ends the process
examples = [one for one in calls.examples()
            if not one.name.startswith("dpfast.curator") and one.label != "Parquet"]
rng = np.random.default_rng(0)

def data(example):
    own = {"dpfast.nonconvex": 200, "dpfast.bayesopt": 12}  # searches have so many records
    n = next((n for name, n in own.items() if example.name.startswith(name)), int(sys.argv[1]))
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=n)
    return X, (y > 0.0).astype(float) if example.binary else y

found = {}
for k, example in enumerate(examples[:: int(sys.argv[2])]):
    records = data(example)
    call = lambda: example.call(records)
    tried(call, 1 << 40)
    name = f"{k}: {example.name}, {example.label}"
    found[name] = [tried(call, extra << 20) for extra in map(int, sys.argv[3:])]
print(json.dumps(found))
"""


def swept(calls, *arguments):
    """What came of each call at each level."""
    command = [sys.executable, "-c", COMMON + calls, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) > 3
    return found


#: Megabytes on top of what is in use: from what is too little for any call to enough for all.
LEVELS = (8, 66, 72, 80, 90, 200)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def check_large(found):
    for name, outcomes in found.items():
        assert set(outcomes) == {"refused", "answered"}, (name, outcomes)
        assert outcomes[0] == "refused" and outcomes[-1] == "answered", (name, outcomes)
        assert sorted(outcomes, reverse=True) == outcomes, (name, outcomes)


def test_copies_of_the_records_are_there_before_the_charge():
    """More than any machine has: refused, and nothing was charged; without copies it is paid."""
    ledger = dpfast.Ledger(1.0)
    account = accounts.Account(0.5, ledger)
    with pytest.raises(MemoryError):
        account.charge("fit", extra_bytes=1 << 60)
    assert not ledger.entries
    account.charge("fit")
    assert len(ledger.entries) == 1


WIDE = {
    "least squares": lambda X, **paid: dpfast.fit(X, X[:, 0], "least-squares", **paid),
    "quantiles": lambda X, **paid: dpfast.fit_quantiles(X, X[:, 0], [0.2, 0.5, 0.7, 0.9], **paid),
}


@pytest.mark.parametrize("call", WIDE)
def test_matrices_of_many_columns_are_there_before_the_charge(call, monkeypatch):
    """Some 25 at a time, whatever the number of records, and more of several fits."""
    rooms, reserve = [], accounts.Account.reserve

    def reserved(self, label, room=0, *session):
        context = reserve(self, label, room, *session)
        rooms.append(accounts.SPARE_BYTES + room)
        tracemalloc.start()
        return context

    monkeypatch.setattr(accounts.Account, "reserve", reserved)
    X = np.random.default_rng(0).normal(size=(2000, 600))
    try:
        WIDE[call](X, privacy=8.0, standardize=False)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert accounts.SPARE_BYTES < used < rooms[0]


@linux
@pytest.mark.slow
@pytest.mark.parametrize("stored", ["float64", "float32"])
def test_large_records_are_refused_before_the_charge_or_answered(stored):
    check_large(swept(LARGE, stored, *LEVELS))


def check(found):
    for name, outcomes in found.items():
        assert set(outcomes) <= {"refused", "answered", "partial"}, (name, outcomes)
        assert outcomes[-1] == "answered", (name, outcomes)
    refused = [outcomes[0] for outcomes in found.values()].count("refused")
    assert refused > 0.9 * len(found)  # the others are refused for their arguments, at this n


@linux
@pytest.mark.slow
def test_some_registered_calls_short_of_memory():
    check(swept(REGISTERED, 2000, 40, 8, 160))


@linux
@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 20_000])
def test_every_registered_call_short_of_memory(n):
    check(swept(REGISTERED, n, 1, 8, 64, 72, 160))
