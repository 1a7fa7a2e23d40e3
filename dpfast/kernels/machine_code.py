"""Object code of C functions over arrays of double: made from LLVM's language, loaded, run.

Needs llvmlite only, so that code that was compiled before starts without Numba.  Every piece of
code is loaded by a just-in-time linker of its own: names cannot be mistaken for those of others.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["MachineCode", "object_code", "target"]

#: Everything the code may call: the C standard's functions of floats, wherever Python runs.
MATHEMATICS = frozenset(
    (  # noqa: SIM905
        "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 "
        "expm1 fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 logb "
        "nearbyint pow rint round sin sinh sqrt tan tanh tgamma trunc"
    ).split(" ")
)

X86 = ("x86", "i386", "i686")

#: What is changed in LLVM's language, line by line.
REWRITINGS = (
    # as in the built-in losses a product and a sum may become one instruction with one rounding,
    (re.compile("= (fmul|fadd|fsub) "), r"= \1 contract "),
    # and a division by a constant a product with its reciprocal, where that is a normal number
    (re.compile("= fdiv (?=double %[^ ]+, [-0-9])"), "= fdiv arcp "),
    # what kept the loop as it is (user_loss.py)
    (re.compile(r'^.*call void asm sideeffect "", ""\(\).*$', re.MULTILINE), ""),
)


class MachineCode:
    """Loaded object code.

    Parameters
    ----------
    code : bytes
        What :func:`object_code` made on a machine with the same :func:`target`.
    """

    def __init__(self, code: bytes) -> None:
        llvm = _llvm()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Address of a function, valid as long as this object lives."""
        return int(self._engine.get_function_address(name))


def object_code(functions: dict[str, tuple[str, str]]) -> bytes | None:
    """Object code that holds the functions and nothing else.

    Parameters
    ----------
    functions : dict of str to (str, str)
        For every name to give: LLVM assembly, and the name in it.

    Returns
    -------
    bytes or None
        None if a function needs more than elementary functions of the C library.
    """
    llvm = _llvm()
    whole: Any = llvm.parse_assembly("")
    for name, (assembly, symbol) in functions.items():
        for pattern, replacement in REWRITINGS:
            assembly = pattern.sub(replacement, assembly)
        part = llvm.parse_assembly(assembly)
        part.get_function(symbol).name = name
        for value in [*part.functions, *part.global_variables]:
            if not value.is_declaration and value.name != name:
                value.linkage = "internal"
        whole.link_in(part)
    machine = _machine(llvm)
    whole.triple, whole.data_layout = llvm.get_process_triple(), str(machine.target_data)
    # Inlines the function into its caller and drops what no path reaches: Numba's error messages.
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(whole, passes)
    outside = [v.name for v in [*whole.functions, *whole.global_variables] if v.is_declaration]
    if any(name not in MATHEMATICS and not name.startswith("llvm.") for name in outside):
        return None
    return bytes(machine.emit_object(whole))


def target() -> tuple[str, str, str]:
    """Triple, processor and its features: what object code is made for."""
    llvm = _llvm()
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features().flatten()
    if triple.startswith(X86):
        features += ",-prefer-256-bit"  # vectors as long as those of the kernels around
    return triple, llvm.get_host_cpu_name(), features


def _machine(llvm: Any) -> Any:
    triple, processor, features = target()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=processor,
        features=features,
        opt=3,
        reloc="static" if triple.startswith(X86) else "default",
        codemodel="jitdefault",
        jit=True,
    )


def _llvm() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding
