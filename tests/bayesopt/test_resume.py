"""A search in a file: killed at any moment, it goes on and spends nothing twice (claim G3)."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import SearchSettings, Tuner
from dpfast.bayesopt.state import ledger_path
from dpfast.errors import BudgetExceeded, DpfastError, InvalidInput
from tests.twins.searches import settled

ROOT = Path(__file__).resolve().parents[2]
N, STEPS = 40, 4
X = np.random.default_rng(0).normal(0.3, 1.0, size=(N, 2))


def losses(theta):
    return np.sum((X - theta) ** 2, axis=1)


def tuner(path=None, **options):
    chosen = {
        "bounds": [(-2.0, 2.0)] * 2,
        "privacy": 1.0,
        "n_records": N,
        "clip": 8.0,
        "steps": STEPS,
        "path": path,
        "noise": dpfast.SeededNoise(3),
    }
    return Tuner(**settled(chosen | options))


def finish(search):
    while not search.done:
        search.tell([losses(theta) for theta in search.ask()])
    return search.result()


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


def entries(path):
    return dpfast.Ledger.open(ledger_path(path)).entries


def spent(path):
    return sum(entry.charged.mu**2 for entry in entries(path))


def test_a_file_changes_nothing(tmp_path):
    with_file = finish(tuner(tmp_path / "search"))
    without = finish(tuner())
    assert np.array_equal(with_file.iterates, without.iterates)
    assert with_file.privacy == without.privacy
    assert with_file.lost_steps == 0
    assert len(entries(tmp_path / "search")) == STEPS + 1  # the share that failed


def test_it_goes_on_where_it_was(tmp_path):
    """Stopped between steps, the search continues with the same points and gradients."""
    path = tmp_path / "search"
    first = tuner(path)
    for _ in range(2):
        first.tell([losses(theta) for theta in first.ask()])
    before = first.result()
    planned = first.ask()
    again = tuner(path)
    points = again.ask()
    known = before.n_evaluations
    assert np.array_equal(points[:known], before.points[:known])
    assert np.array_equal(points[known:], planned)
    found = finish(again)
    assert np.array_equal(found.gradients[:2], before.gradients)
    assert np.array_equal(found.points[: before.n_evaluations], before.points)
    assert len(found.gradients) == STEPS
    assert len(entries(path)) == STEPS + 1  # the share that failed
    whole = finish(tuner())
    half = len(whole.points) // 2
    assert np.array_equal(found.points[:half], whole.points[:half])


def test_a_step_lost_between_charge_and_save_is_not_repeated(tmp_path):
    path = tmp_path / "search"
    search = tuner(path)
    search.tell([losses(theta) for theta in search.ask()])
    search._search.move = interrupt
    with pytest.raises(KeyboardInterrupt):
        search.tell([losses(theta) for theta in search.ask()])
    assert len(entries(path)) == 2
    again = tuner(path)
    assert again.steps_paid == 2
    found = finish(again)
    assert found.lost_steps == 1
    assert len(found.gradients) == STEPS - 1
    labels = [entry.label for entry in entries(path)]
    steps = [f"step {k + 1} of {STEPS}" for k in range(STEPS)]
    assert labels == [*steps, "share that failed"]
    assert spent(path) <= 1.0
    with pytest.raises(BudgetExceeded):
        again.ask()


def test_an_interrupted_step_can_be_followed_by_the_next():
    """In the same process, too: the answer is lost, its budget is not spent again."""
    search = tuner()
    move = search._search.move
    search._search.move = interrupt
    with pytest.raises(KeyboardInterrupt):
        search.tell([losses(theta) for theta in search.ask()])
    search._search.move = move
    found = finish(search)
    assert found.lost_steps == 1
    assert len(found.privacy.entries) == STEPS + 1  # the share that failed


CHILD = textwrap.dedent("""
    import os, sys, signal, numpy as np
    sys.path.insert(0, {root!r})
    import dpfast
    from dpfast.bayesopt import tuner as module
    from dpfast.privacy.ledger.file import FileLedger
    moment, path = sys.argv[1], sys.argv[2]
    def die(): os.kill(os.getpid(), signal.SIGKILL)
    def before(function):
        return lambda *a, **k: (die(), function(*a, **k))
    def after(function):
        return lambda *a, **k: (function(*a, **k), die())
    X = np.random.default_rng(0).normal(0.3, 1.0, size=(40, 2))
    t = module.Tuner([(-2.0, 2.0)] * 2, privacy=1.0, n_records=40, clip=8.0, steps=4, path=path)
    points = t.ask()
    values = [np.sum((X - theta) ** 2, axis=1) for theta in points]
    if moment == "before charge": FileLedger._settle = before(FileLedger._settle)
    if moment == "after charge": FileLedger._settle = after(FileLedger._settle)
    if moment == "after noise": t._search.move = before(t._search.move)
    if moment == "after values": t._search.add = before(t._search.add)
    if moment == "during save":
        moves = t._search.move
        def move(*a):
            moves(*a)
            os.replace = before(os.replace)
        t._search.move = move
    t.tell(values)
""")


@pytest.mark.parametrize(
    "moment",
    ["never", "after values", "before charge", "after charge", "after noise", "during save"],
)
@pytest.mark.one_in(3)
def test_killed_at_any_moment_spends_nothing_twice(tmp_path, moment):
    """SIGKILL in a child process; the resumed search keeps every charge and the total."""
    path = str(tmp_path / "search")
    code = CHILD.format(root=str(ROOT))
    child = subprocess.run([sys.executable, "-c", code, moment, path], capture_output=True)
    if moment == "never":
        assert child.returncode == 0, child.stderr
    else:
        assert child.returncode == -signal.SIGKILL, child.stderr
    charged = 0 if moment in ("after values", "before charge") else 1
    assert len(entries(path)) == charged
    again = tuner(path, noise=None)
    assert again.steps_paid == charged
    found = finish(again)
    lost = 1 if moment in ("after charge", "after noise", "during save") else 0
    assert found.lost_steps == lost
    assert len(found.gradients) == STEPS - lost
    assert len(entries(path)) == STEPS + 1  # the share that failed
    assert spent(path) <= 1.0


def test_a_state_without_its_ledger_is_refused(tmp_path):
    path = tmp_path / "search"
    finish(tuner(path))
    os.remove(ledger_path(path))
    with pytest.raises(DpfastError):
        tuner(path)


def test_a_ledger_without_a_state_keeps_its_charges(tmp_path):
    path = tmp_path / "search"
    finish(tuner(path))
    os.remove(path)
    assert tuner(path).done


def test_an_old_copy_of_the_state_gains_nothing(tmp_path):
    path = tmp_path / "search"
    search = tuner(path)
    old = path.read_bytes()
    search.tell([losses(theta) for theta in search.ask()])
    path.write_bytes(old)
    again = tuner(path)
    assert again.steps_paid == 1
    found = finish(again)
    assert (found.lost_steps, len(entries(path))) == (1, STEPS + 1)


def test_two_processes_share_one_budget(tmp_path):
    path = tmp_path / "search"
    one, other = tuner(path), tuner(path)
    for search in (one, other, one, other):
        search.tell([losses(theta) for theta in search.ask()])
    assert one.done and other.done
    assert spent(path) <= 1.0
    with pytest.raises(BudgetExceeded):
        one.ask()


def test_other_settings_are_refused(tmp_path):
    path = tmp_path / "search"
    tuner(path)
    for other in ({"steps": 9}, {"privacy": 2.0}, {"clip": 1.0}, {"n_records": N + 1}):
        with pytest.raises(InvalidInput, match="other settings"):
            tuner(path, **other)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidInput, match="JSON"):
        tuner(tmp_path / "text")


def test_the_state_holds_no_values(tmp_path):
    """Not the told losses, nor anything that follows from them but the noisy gradients."""
    path = tmp_path / "search"
    secret = 123.456789

    def told(theta):
        values = losses(theta)
        values[7] = secret
        return values

    search = tuner(path)
    while not search.done:
        search.tell([told(theta) for theta in search.ask()])
    text = path.read_text() + Path(ledger_path(path)).read_text()
    assert str(secret) not in text
    assert {file.name for file in tmp_path.iterdir()} == {"search", "search.ledger"}
    state = json.loads(path.read_text())
    sizes = {name: len(np.ravel(value)) for name, value in state.items()}
    assert all(size % N for name, size in sizes.items() if name != "n_records" and size > 1)
    assert set(state) == {
        "dpfast search", "n_records", "settings", "points", "batch_sizes", "iterates", "gradients",
        "variances", "origins", "noise_scales", "traces", "failed", "genuine_noise",
    }  # fmt: skip


def test_a_shared_ledger_pays_for_a_search_once(tmp_path):
    path, shared = tmp_path / "search", dpfast.Ledger(1.5)
    first = tuner(path, ledger=shared)
    first.tell([losses(theta) for theta in first.ask()])
    finish(tuner(path, ledger=shared))
    assert len(shared.entries) == 1
    with pytest.raises(BudgetExceeded):
        tuner(tmp_path / "another", ledger=dpfast.Ledger(0.5))
    assert not (tmp_path / "another").exists()


def test_a_search_whose_state_alone_was_deleted_is_not_paid_for_again(tmp_path):
    path, shared = tmp_path / "search", dpfast.Ledger(1.5)
    finish(tuner(path, ledger=shared))
    os.remove(path)
    again = tuner(path, ledger=shared)
    assert again.done and len(shared.entries) == 1
    os.remove(path)
    another = dpfast.Ledger(2.0)  # which has not paid for this one
    tuner(tmp_path / "other", ledger=another)
    tuner(path, ledger=another)
    assert len(another.entries) == 2
    os.remove(path)
    os.remove(ledger_path(path))  # a new budget is a new search
    with pytest.raises(BudgetExceeded):
        tuner(path, ledger=dpfast.Ledger(0.5))
    tuner(path, ledger=dpfast.Ledger(1.1))


def test_a_crash_between_payment_and_state_is_not_paid_for_again(tmp_path, monkeypatch):
    path, shared = tmp_path / "search", dpfast.Ledger(1.5)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tuner(path, ledger=shared)
    assert not path.exists() and len(shared.entries) == 1
    finish(tuner(path, ledger=shared))
    assert len(shared.entries) == 1


def test_a_search_that_fails_leaves_one_that_joined_alone(tmp_path):
    """Another process starts the search at the same path while this one rehearses."""
    path, joined = tmp_path / "search", []
    options = {"privacy": 1.0, "n_records": N, "clip": 8.0, "steps": STEPS, "path": path}

    def failing(theta):
        joined.append(tuner(path))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        dpfast.tune(failing, [(-2.0, 2.0)] * 2, noise=dpfast.SeededNoise(3), **options)
    assert len(finish(joined[0]).gradients) == STEPS
    assert len(entries(path)) == STEPS + 1  # the share that failed


def test_copies_are_refused():
    with pytest.raises(TypeError, match="copied"):
        pickle.dumps(tuner())


def test_training_that_can_be_paid_for_no_more_ends_a_search():
    """Each private training is charged by the function that trains, to a ledger of its own."""
    ledger, called = dpfast.Ledger(dpfast.GDP(0.1)), []

    def counted(theta):
        ledger.charge(0.05, "training run")
        called.append(theta)
        return losses(theta)

    with pytest.raises(BudgetExceeded) as refused:
        dpfast.tune(
            counted, [(-2.0, 2.0)] * 2, privacy=1.0, n_records=N, steps=4,
            search=SearchSettings(batch=2),
        )  # fmt: skip
    assert len(called) == 4  # (0.1 / 0.05)^2 runs, and none beyond
    assert len(refused.value.partial_result.gradients) == 2


# ---- what a resumed search claims ----------------------------------------------------------------


def test_a_search_that_once_had_seeded_noise_never_claims_a_guarantee(tmp_path):
    path = tmp_path / "search"
    one = tuner(path, noise=None)
    assert one.result().privacy.genuine
    assert tuner(path, noise=None).result().privacy.genuine
    finish(tuner(path))
    again = tuner(path, noise=None).result()
    assert len(again.gradients) == STEPS
    assert again.privacy.guarantee == "none (simulation)"
    assert not one.result().privacy.genuine  # another process had it
    assert not tuner(path, noise=None).result().privacy.genuine


def test_a_state_or_a_ledger_of_unknown_noise_is_no_guarantee(tmp_path):
    path = tmp_path / "search"
    finish(tuner(path, noise=None))
    state = json.loads(path.read_text())
    del state["genuine_noise"]
    path.write_text(json.dumps(state))
    assert not tuner(path, noise=None).result().privacy.genuine
    os.remove(path)
    assert not tuner(path, noise=None).result().privacy.genuine
