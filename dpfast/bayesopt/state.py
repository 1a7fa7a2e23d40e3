"""Search state in a file: public numbers only, replaced atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpfast.bayesopt.search import Search, search_for
from dpfast.bayesopt.settings import Settings
from dpfast.documents import any_folder, read_document, replacing
from dpfast.errors import InvalidInput, described

FORMAT = 1

#: Largest size of a file in bytes; a step has one point and one gradient.
LARGEST = 1_000_000_000

#: Attributes of a search in the file: lists of vectors, and lists of numbers with their types.
ROWS = ("points", "iterates", "gradients", "variances", "origins")
NUMBERS = {"batch_sizes": int, "noise_scales": float, "traces": float, "failed": float}


def ledger_path(path: str | os.PathLike[str]) -> str:
    """Return the path of the ledger beside the search at `path`."""
    return os.fspath(path) + ".ledger"


def save_state(path: str, search: Search, n_records: int, fingerprint: str, genuine: bool) -> None:
    """Save the released and public numbers of a search durably, all or nothing."""
    with staged_state(path, search, n_records, fingerprint, genuine):
        pass


@contextmanager
def staged_state(
    path: str, search: Search, n_records: int, fingerprint: str, genuine: bool
) -> Iterator[None]:
    """Write the state before the body, where disk errors are raised; publish it after the body."""
    if not path or os.path.isdir(path):
        raise InvalidInput(
            f"path must name a file to keep the search in; received {described(path, text=True)}."
        )
    state = {
        "dpfast search": FORMAT,
        "n_records": n_records,
        "settings": fingerprint,
        "genuine_noise": genuine,  # in every process of this search
    }
    state |= {name: np.array(getattr(search, name)).tolist() for name in (*ROWS, *NUMBERS)}
    place, name = os.path.split(os.path.abspath(path))
    with any_folder(place) as folder, replacing(folder, name) as file:
        file.write(json.dumps(state).encode())  # floats are written with all their digits
        file.flush()
        os.fsync(file.fileno())
        yield


def load_state(path: str) -> dict[str, Any]:
    """Read a state that :func:`save_state` wrote."""
    try:
        state: dict[str, Any] = json.loads(read_document(path, LARGEST))
    except InvalidInput:
        raise
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no search at {described(path, text=True)}. Start one with Tuner(..., "
            "path=...)."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{described(path, text=True)} is not a search of dpfast: it is not JSON."
        ) from error
    if not isinstance(state, dict) or state.get("dpfast search") != FORMAT:
        raise InvalidInput(
            f"{described(path, text=True)} is not a search that this version of dpfast can read."
        )
    return state


def restore(state: dict[str, Any], settings: Settings, fingerprint: str) -> Search:
    """Restore a search from its saved state."""
    if state["settings"] != fingerprint:
        raise InvalidInput(
            "the search was started with other settings, and its budget was divided for those: "
            f"{state['settings']}; received {fingerprint}."
        )
    search = search_for(settings)
    for name in ROWS:
        setattr(search, name, [np.array(row, dtype=np.float64) for row in state[name]])
    for name, kind in NUMBERS.items():
        setattr(search, name, [kind(number) for number in state[name]])
    return search
