"""Packages whose names are loaded on first use, as their stubs list them.

The stub of a package, ``__init__.pyi``, is read by type checkers and by :func:`attach_stub`, so
each name and its home are written once.  The package lazy_loader (Scientific Python, SPEC 1)
works alike; ours also says what to write for names of other libraries.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Stub:
    """Names that the stub of a package lists.

    ``homes`` maps each imported name to its module, ``"."`` for a module of the package.
    ``submodules`` are the names of those modules, ``public`` is the package's ``__all__``.
    """

    def __init__(self, path: str) -> None:
        import ast  # with the first name, which loads NumPy too, not with the package

        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read(), path)
        self.homes: dict[str, str] = {}
        public: list[str] | None = None
        constants = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self.homes.update((alias.name, module) for alias in node.names)
            elif isinstance(node, ast.AnnAssign):
                constants.append(ast.unparse(node.target))
            elif isinstance(node, ast.Assign):
                public = ast.literal_eval(node.value)
        self.submodules = {name for name, module in self.homes.items() if module == "."}
        imported = [name for name in self.homes if name not in self.submodules]
        self.public: list[str] = [*constants, *imported] if public is None else public


_STUBS: dict[str, Stub] = {}

#: Earlier names, and what does the same.
RENAMED = {
    "dpfast.fit_formula": "dpfast.fit",
    **{f"dpfast.optimize.{name}": f"dpfast.papers.{name}"
       for name in ("NoisyDescent", "Proximal", "Spider")},
    "dpfast.release.TestAndRelease": "dpfast.papers.TestAndRelease",
}  # fmt: skip


def stub_of(file: str) -> Stub:
    """Read the stub beside a package's ``__init__.py``, once."""
    path = f"{file.rpartition('.')[0]}.pyi"
    if path not in _STUBS:
        _STUBS[path] = Stub(path)
    return _STUBS[path]


def hint(name: str, package: str, public: "Iterable[str]") -> str:
    """Write the end of a message for a name that a package lacks: what does it, or where it is."""
    from dpfast.hints import of_module  # only where a name was not found

    return of_module(name, package, public, _elsewhere(name, package))


def _elsewhere(name: str, package: str) -> str:
    """Find a public name in the other packages, without loading them."""
    from os.path import dirname, join

    stub = stub_of(join(dirname(__file__), "__init__.py"))
    if name[:1] == "_":
        return ""
    if name in stub.public and package != "dpfast":
        return f"dpfast.{name}"
    for other in sorted(stub.submodules):
        if f"dpfast.{other}" != package and _is_public(name, f"dpfast.{other}"):
            return f"dpfast.{other}.{name}"
    return ""


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


def _is_module(name: str, file: str) -> bool:
    """Tell whether a name is of a file or a folder beside a package's ``__init__.py``."""
    from os.path import dirname, exists, join

    path = join(dirname(file), name)
    return exists(f"{path}.py") or exists(path)


def missing(package: str, public: "list[str]") -> "Callable[[str], object]":
    """Make the ``__getattr__`` of a package that loads its names at once: it says what to type."""

    def refuse(name: str) -> object:
        end = "" if name[:2] == "__" else hint(name, package, public)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{end}")

    return refuse


def _renamed(name: str) -> object:
    """Return what an earlier name stands for, with a warning in its caller's line."""
    import warnings
    from importlib import import_module

    message = f"{name} is now {RENAMED[name]}: write that. Version 2 drops the earlier name."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    package, _, key = RENAMED[name].rpartition(".")
    value: object = getattr(import_module(package), key)
    return value


def attach_stub(
    package: str, file: str
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Make the ``__getattr__`` and ``__dir__`` of a package, whose ``__file__`` is given."""

    def load(name: str) -> object:
        if name == "__all__":
            return stub_of(file).public
        if f"{package}.{name}" in RENAMED:
            return _renamed(f"{package}.{name}")
        special = name[:2] == "__"
        origin = None if special else stub_of(file).homes.get(name)
        if origin is None:
            # `from package import module` asks for the attribute before it loads the module
            internal = special or _is_module(name, file)
            end = "" if internal else hint(name, package, stub_of(file).public)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{end}")
        from importlib import import_module  # with the first name, not with the package

        if origin == ".":
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(origin, package), name)
        setattr(import_module(package), name, value)
        return value

    def names() -> list[str]:
        stub = stub_of(file)
        return sorted({*stub.public, *stub.submodules})

    return load, names


def module(name: str) -> "Any":
    """Import a module by its full name, for rooms that must not know each other."""
    from importlib import import_module

    return import_module(name)
