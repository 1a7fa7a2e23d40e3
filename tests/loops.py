"""Many small cases in one test: what they have against the source is said in one message."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]
PARAM = type(pytest.param())


def each(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    ids: Callable[[Any], str] | Iterable[str] = str,
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test: every case is tried, every offender is named.

    For cases of milliseconds, mostly about the text of the sources: to collect, announce and report
    one takes longer than to run it.  Others stay cases of their own, which two processes share.
    """
    names = (names,) if isinstance(names, str) else names
    kept = list(cases)
    told = list(map(ids, kept)) if callable(ids) else list(ids)
    for k, case in enumerate(kept):
        if isinstance(case, PARAM):
            kept[k], told[k] = case.values, case.id

    def of(test: Test) -> Test:

        @wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            assert kept, "there is nothing to check"
            against, skipped = [], []
            for case, name in zip(kept, told, strict=True):
                values = case if len(names) > 1 else (case,)
                try:
                    test(**dict(zip(names, values, strict=True)), **fixtures)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    against.append(f"{name}: {type(error).__name__}: {error}")
            assert not against, "\n".join([f"{len(against)} of {len(kept)}:", *against])
            if len(skipped) == len(kept):
                raise skipped[0]

        signature = inspect.signature(test)
        others = [value for key, value in signature.parameters.items() if key not in names]
        all_of_them.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return all_of_them

    return of
