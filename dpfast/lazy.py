"""Packages whose names are loaded on first use, as their stubs list them.

The stub of a package, ``__init__.pyi``, is read by type checkers and by :func:`attach_stub`, so
each name and its home are written once.  The package lazy_loader (Scientific Python, SPEC 1)
works alike; ours also says what to write for names of other libraries.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms
if TYPE_CHECKING:
    from collections.abc import Callable
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


def stub_of(file: str) -> Stub:
    """Read the stub beside a package's ``__init__.py``, once."""
    path = f"{file.rpartition('.')[0]}.pyi"
    if path not in _STUBS:
        _STUBS[path] = Stub(path)
    return _STUBS[path]


def hint(name: str) -> str:
    """Write the end of a message for a name that other libraries have."""
    from dpfast.hints import NAMES  # only where a name was not found

    return f". Write {NAMES[name]}." if name in NAMES else ""


def attach_stub(
    package: str, file: str, hint_of: "Callable[[str], str]" = hint
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Make the ``__getattr__`` and ``__dir__`` of a package, whose ``__file__`` is given."""

    def load(name: str) -> object:
        if name == "__all__":
            return stub_of(file).public
        special = name[:2] == "__"
        origin = None if special else stub_of(file).homes.get(name)
        if origin is None:
            end = "" if special else hint_of(name)
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
