"""Rooms that load each of their names when it is first asked for."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def hint(name: str) -> str:
    """The end of a message for a name that other libraries have."""
    from dpfast.hints import NAMES  # only who asks for what there is not

    return f". Write {NAMES[name]}." if name in NAMES else ""


def lazy_getattr(
    room: str, homes: "Mapping[str, str]", hint_of: "Callable[[str], str] | None" = None
) -> "Callable[[str], object]":
    """The ``__getattr__`` of a room, from its modules and the names of each."""

    def find(name: str) -> object:
        for home, names in homes.items():
            if name in names.split():
                found = import_module(home, room)
                value: object = getattr(found, name)
                setattr(import_module(room), name, value)
                return value
        told = (hint_of or hint)(name)
        raise AttributeError(f"module {room!r} has no attribute {name!r}{told}")

    return find
