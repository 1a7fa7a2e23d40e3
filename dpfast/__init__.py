"""dpfast: fast, private M-estimation with honest confidence intervals.

The commonest tasks are here, others in packages: ``dpfast.models``, ``dpfast.optimize``,
``dpfast.audit`` and others, which ``dir(dpfast)`` lists.  Importing this package loads neither
NumPy nor SciPy; each public name is loaded on first use.  The stub ``__init__.pyi`` lists them.
"""

from dpfast.lazy import attach_stub, hint, stub_of

__version__ = "1.0.0"


def _is_public(name: str, package: str) -> bool:
    """Look a name up in a package's stub, or in its source, without loading the package."""
    from importlib.util import find_spec
    from os.path import exists

    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return False
    if exists(f"{spec.origin}i"):
        return name in stub_of(spec.origin).public
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    listed, public = text.partition("\n__all__ = [")[1:]
    return f'"{name}"' in public.partition("]")[0] if listed else f"\ndef {name}(" in text


def _hint(name: str) -> str:
    """Write what to use for a name that is missing here, or which package has it."""
    if end := hint(name):
        return end
    for package in sorted(stub_of(__file__).submodules) if name[:1] != "_" else ():
        if _is_public(name, f"dpfast.{package}"):
            return f". It is dpfast.{package}.{name}."
    return "."


__getattr__, __dir__ = attach_stub(__name__, __file__, _hint)
