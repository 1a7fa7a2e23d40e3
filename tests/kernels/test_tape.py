"""The compiled tape keeps copies, counts their numbers and forgets the oldest."""

from typing import NamedTuple

import numpy as np
import pytest

from dpfast.curator.answers import NOTHING, Answer, Receipt, Released, Tape
from dpfast.kernels import session

RECEIPT = Receipt("gradient", "C13", 0.1, 2.0, 20.0)


class View(NamedTuple):
    matrix: np.ndarray


def test_what_is_kept_does_not_change_with_what_was_given():
    theta, value, steps = np.zeros(2), np.ones(2), np.arange(3.0)
    kept = Tape()
    question = ("label", 0.1, theta, (steps, "text"), ((1, 2), (3, 4)), None, View(theta))
    kept.keep(question, [Answer(value, 20.0, RECEIPT), NOTHING])
    theta[:], value[:], steps[:] = 7.0, 7.0, 7.0
    (answer,) = kept.answers
    assert type(answer) is Released
    assert (answer.query, answer.noise_scale, answer.mu) == ("gradient", 20.0, 0.1)
    np.testing.assert_array_equal(answer.value, [1.0, 1.0])
    np.testing.assert_array_equal(answer.at[0], [0.0, 0.0])
    np.testing.assert_array_equal(answer.at[1][0], [0.0, 1.0, 2.0])
    assert answer.at[1:4] == ((answer.at[1][0], "text"), ((1, 2), (3, 4)), None)
    assert type(answer.at[4]) is View  # as it was given: its arrays are its own


def test_arrays_that_nobody_can_change_are_not_copied():
    own = np.zeros(3)
    own.flags.writeable = False
    view = np.zeros(3)[:]
    view.flags.writeable = False  # what it is a view of may change
    kept = Tape()
    kept.keep(("label", 0.1, own, view), [Answer(3, 1.0, RECEIPT)])
    assert kept.answers[0].at[0] is own
    assert kept.answers[0].at[1] is not view
    assert kept.answers[0].value == 3


@pytest.mark.parametrize("named", [False, True])
def test_subclasses_of_arrays_stay_what_they_are(named):
    class Named(np.ndarray):
        pass

    value = np.ones(2).view(Named) if named else np.ones(2)
    kept = Tape()
    kept.keep(("label", 0.1), [Answer(value, 1.0, RECEIPT)])
    assert type(kept.answers[0].value) is type(value)


def test_the_oldest_are_forgotten_and_the_last_stays():
    kept = session.Tape(250, NOTHING)
    for k in range(5):
        kept.keep(("label", 0.1), [Answer(np.full(97, float(k)), 1.0, RECEIPT)])
    assert [value[0] for _, _, value, _, _ in kept.recorded] == [3.0, 4.0]  # 100 numbers each
    kept.keep(("label", 0.1), [Answer(np.zeros(1000), 1.0, RECEIPT)])
    assert len(kept.recorded) == 1


def test_a_question_is_a_tuple():
    with pytest.raises(TypeError):
        Tape().keep(None, [])
