"""Many small cases in one test: what they have against the source is said in one message."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each(
    names: str | tuple[str, ...], cases: Iterable[Any], ids: Callable[[Any], str] = str
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test: every case is tried, every offender is named.

    For cases of milliseconds, mostly about the text of the sources: to collect, announce and report
    one takes longer than to run it.  Others stay cases of their own, which two processes share.
    """
    names = (names,) if isinstance(names, str) else names

    def of(test: Test) -> Test:
        kept = list(cases)

        @wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            assert kept, "there is nothing to check"
            against = []
            for case in kept:
                values = case if len(names) > 1 else (case,)
                try:
                    test(**dict(zip(names, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    against.append(f"{ids(case)}: {type(error).__name__}: {error}")
            assert not against, "\n".join([f"{len(against)} of {len(kept)}:", *against])

        signature = inspect.signature(test)
        others = [value for key, value in signature.parameters.items() if key not in names]
        all_of_them.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return all_of_them

    return of
