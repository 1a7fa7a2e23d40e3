"""A loop in a test hides no case: `each` names every offender, and never passes on nothing."""

import pytest

from tests.loops import each


def test_every_offender_is_named():
    @each("number", [1, 2, 3, 4])
    def even(number):
        assert number % 2 == 0, "odd"

    with pytest.raises(AssertionError, match=r"(?s)2 of 4:\n1: .*odd.*\n3: .*odd"):
        even()


def test_whatever_a_case_raises_counts_and_ends_no_other():
    tried = []

    @each(("key", "value"), {"a": 1, "b": 2}.items(), ids=lambda case: case[0])
    def fails(key, value):
        tried.append((key, value))
        if key == "a":
            raise KeyError("no such thing")
        pytest.fail("said so")

    with pytest.raises(AssertionError, match=r"(?s)a: KeyError: .*\nb: Failed: said so"):
        fails()
    assert tried == [("a", 1), ("b", 2)]


def test_no_case_at_all_is_a_failure():
    @each("case", [])
    def nothing(case):
        """Passes."""

    with pytest.raises(AssertionError, match="nothing to check"):
        nothing()


def test_what_is_skipped_skips_no_other_and_is_no_success_alone():
    @each("number", [1, 2])
    def needs(number):
        pytest.importorskip("no_such_package_at_all")

    with pytest.raises(pytest.skip.Exception):
        needs()

    @each("number", [1, 2])
    def needs_for_one(number):
        if number == 1:
            pytest.importorskip("no_such_package_at_all")
        assert number == 0

    with pytest.raises(AssertionError, match="1 of 2:\n2: "):
        needs_for_one()


@each("number", range(3))
def test_fixtures_reach_every_case(number, tmp_path):
    (tmp_path / f"{number}").touch(exist_ok=False)
    assert len(list(tmp_path.iterdir())) == number + 1
