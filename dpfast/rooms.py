"""Rooms that load each of their names when it is first asked for."""

from importlib import import_module

__all__ = ["opened"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def opened(room: str, homes: "Mapping[str, str]") -> "Callable[[str], object]":
    """The ``__getattr__`` of a room, from its modules (with a dot before) and the names of each."""

    def find(name: str) -> object:
        for home, names in homes.items():
            if name in names.split():
                found = import_module(home, room)
                value: object = getattr(found, name)
                setattr(import_module(room), name, value)
                return value
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return find
