"""A kernel that gets no memory raises an error, and what was charged arrives: some of each call."""

import shutil
import sys
from types import SimpleNamespace

import pytest

from tests.privacy import failing_allocations
from tests.privacy.failing_allocations import SAYS, Watched

built = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc"
)


@built
def test_a_kernel_without_memory_raises_and_what_was_paid_for_arrives():
    """All calls in `.ci/nightly`; here two allocations of one in sixty."""
    code, said = failing_allocations.run(step=60, most=2, seed=0)
    assert code == 0 and ", 0 calls went wrong" in said, said


@pytest.mark.parametrize(
    ("labels", "ends", "kept", "found"),
    [
        ([], [], False, "nothing was released"),
        (["fit"], [(False, 0)], False, "nothing was released"),
        (["fit"], [(True, 3)], False, "it had arrived"),
        (["fit"], [(False, 3)], True, "it arrives"),
        (["fit"], [(False, 3)], False, "IT IS LOST"),
    ],
)
def test_a_lost_answer_is_noticed(labels, ends, kept, found):
    watched, error = Watched(), MemoryError()
    watched.labels, watched.ends = labels, ends
    if kept:
        error.partial_result = SimpleNamespace()
    assert watched.of(error) == found


def test_an_error_with_a_value_is_noticed():
    assert SAYS.fullmatch("no room for 18 float64 numbers of workspace")
    assert SAYS.fullmatch("no memory for the partial sums")
    assert not SAYS.fullmatch("no memory for the row 3.14")
