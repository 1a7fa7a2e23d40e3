"""Elementary functions in plain arithmetic, which LLVM turns into vector code."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
LN2 = math.log(2.0)
INVERSE_LN2 = 1.0 / LN2
#: Adding it leaves the nearest integer in the low bits.
MAGIC = 1.5 * 2.0**52


def _expm1(x: float) -> tuple[float, float]:
    """Return (2^k, exp(r) - 1), x = k ln 2 + r in [-708, 709], with r within half of ln 2."""
    shifted = x * INVERSE_LN2 + MAGIC
    k = shifted - MAGIC
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    power = np.int64((np.float64(shifted).view(np.int64) << 52) + 0x3FF0000000000000).view(
        np.float64
    )
    # Taylor series to r^13: relative error 1e-17 on |r| <= 0.347
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    return power, r + r * r * p


@lru_cache(maxsize=1)
def _functions() -> dict[str, Any]:
    import numba

    inline = numba.njit(error_model="numpy", inline="always")
    parts = inline(_expm1)

    @inline  # type: ignore[untyped-decorator,unused-ignore]
    def exp(x: float) -> float:
        power, rest = parts(min(max(x, -708.0), 709.0))
        value = power + power * rest
        value = math.inf if x > 709.0 else value
        value = 0.0 if x < -708.0 else value
        return value if x == x else x

    @inline  # type: ignore[untyped-decorator,unused-ignore]
    def expm1(x: float) -> float:
        power, rest = parts(min(max(x, -708.0), 709.0))
        value = power * rest + (power - 1.0)
        value = math.inf if x > 709.0 else value
        return value if x == x else x

    @inline  # type: ignore[untyped-decorator,unused-ignore]
    def tanh(x: float) -> float:
        power, rest = parts(-min(2.0 * abs(x), 700.0))
        minus = power * rest + (power - 1.0)
        size = -minus / (2.0 + minus)
        value = math.copysign(size, x)
        return value if x == x else x

    @inline  # type: ignore[untyped-decorator,unused-ignore]
    def cosh(x: float) -> float:
        e = exp(abs(x))
        return 0.5 * e + 0.5 / e

    return {"exp": exp, "expm1": expm1, "tanh": tanh, "cosh": cosh}


@lru_cache(maxsize=2)
def _module(original: ModuleType) -> ModuleType:
    copy = ModuleType(original.__name__)
    copy.__dict__.update(vars(original))
    copy.__dict__.update(_functions())
    return copy


def vectorisable(function: Callable[[float], float]) -> Callable[[float], float]:
    """Replace ``math`` and ``numpy`` in the function by vectorisable versions."""
    if not isinstance(function, FunctionType):
        return function

    def exchanged(value: Any) -> Any:
        if value is math or value is np:
            return _module(value)
        for known, replacement in _functions().items():
            if value is getattr(math, known) or value is getattr(np, known):
                return replacement
        return value

    names = set(function.__code__.co_names).intersection(function.__globals__)
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **{name: exchanged(function.__globals__[name]) for name in names}},
        function.__name__,
        function.__defaults__,
        tuple(CellType(exchanged(cell.cell_contents)) for cell in function.__closure__ or ()),
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
