"""Scalar Python functions compiled by Numba into block functions the record kernels can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpfast.errors import InvalidInput, described
from dpfast.kernels.scalar_math import vectorisable

Scalar = Callable[[float], float]


class CompiledLoss:
    """Block functions of one loss, at addresses that are valid as long as this object lives."""

    def __init__(
        self,
        loss: Scalar,
        psi: Scalar,
        psi_prime: Scalar,
        coupled: bool = False,
    ) -> None:
        self.functions = (loss, psi, psi_prime)
        self.coupled = coupled
        # a Numba function brings its source
        self._compiled = _compile(*(getattr(f, "py_func", f) for f in self.functions))
        addresses = (int(function.address) for function in self._compiled)
        self.slopes_address, self.psi_address, self.values_address = addresses

    def __reduce__(self) -> tuple[type[CompiledLoss], tuple[Scalar, Scalar, Scalar, bool]]:
        return CompiledLoss, (*self.functions, self.coupled)


def _compile(loss: Scalar, psi: Scalar, psi_prime: Scalar) -> tuple[Any, ...]:
    """Numba's compilation of the block functions."""
    try:
        import numba
        from numba import types
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a loss of your own is compiled by Numba, which is not installed. Install "
            "dpfast[numba] or use a built-in loss."
        ) from error

    names = ("loss", "psi", "psi_prime")
    scalars = []
    for name, function in zip(names, (loss, psi, psi_prime), strict=True):
        scalars.append(_scalar(numba, types, name, function))
    of_loss, of_psi, of_psi_prime = scalars
    pointer = types.CPointer(types.float64)

    @numba.cfunc(types.void(pointer, pointer, pointer, types.uintp), error_model="numpy")  # type: ignore[untyped-decorator,unused-ignore]
    def slopes(r: Any, out_psi: Any, out_psi_prime: Any, count: Any) -> None:
        for i in range(count):
            value = r[i]
            out_psi[i] = of_psi(value)
            out_psi_prime[i] = of_psi_prime(value)

    def over_array(function: Any) -> Any:
        @numba.cfunc(types.void(pointer, pointer, types.uintp), error_model="numpy")  # type: ignore[untyped-decorator,unused-ignore]
        def values(r: Any, out: Any, count: Any) -> None:
            for i in range(count):
                out[i] = function(r[i])

        return values

    compiled = (slopes, over_array(of_psi), over_array(of_loss))
    for part, used in zip(compiled, ("psi and psi_prime", "psi", "loss"), strict=True):
        if _may_raise(part.inspect_llvm()):
            raise InvalidInput(
                f"{used} of a loss may raise an exception, which would depend on the records. "
                "Return a number for every residual, infinities included: replace raise and "
                "assert, integer division and indexing by arithmetic on floats."
            )
    return compiled


def _may_raise(llvm: str) -> bool:
    """Tell whether optimised code still touches the place of Numba's exceptions."""
    lines = [line for line in llvm.splitlines() if "%excinfo" in line]
    defined = [line for line in lines if line.startswith("define")]
    return not defined or len(lines) > len(defined)


def _scalar(numba: Any, types: Any, name: str, function: Scalar) -> Any:
    """Compile a function of one float to return a float."""
    if not callable(function):
        raise InvalidInput(
            f"{name} must be a Python function of one residual; received {described(function)}."
        )
    try:
        compiled = numba.njit(error_model="numpy", inline="always")(vectorisable(function))
        compiled.compile((types.float64,))
        result = compiled.overloads[(types.float64,)].signature.return_type
    except Exception as error:  # Numba has no common base class of its failures
        raise InvalidInput(
            f"{name} of a loss must be a function of one float that Numba can compile; received "
            f"{described(function)}, for which Numba says: {str(error).strip().splitlines()[0]}. "
            "Use arithmetic, comparisons, and functions of math or numpy on floats."
        ) from error
    if result not in (types.float64, types.float32, types.int64, types.boolean):
        raise InvalidInput(
            f"{name} of a loss must return a float; received {described(function)}, which "
            f"returns {result}."
        )
    return compiled
