"""Rooms that load each of their names when it is first asked for."""

from importlib import import_module

__all__ = ["opened"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def opened(
    room: str, homes: "Mapping[str, str]", hint: "Callable[[str], str]" = lambda name: ""
) -> "Callable[[str], object]":
    """The ``__getattr__`` of a room, from its modules and the names of each.

    ``hint(name)`` ends the message for a name that is none of them.
    """

    def find(name: str) -> object:
        for home, names in homes.items():
            if name in names.split():
                found = import_module(home, room)
                value: object = getattr(found, name)
                setattr(import_module(room), name, value)
                return value
        raise AttributeError(f"module {room!r} has no attribute {name!r}{hint(name)}")

    return find
