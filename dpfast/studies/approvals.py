"""Requests that wait for the steward's approval, as documents in a folder; public input only."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from dpfast.documents import read_document, write_document
from dpfast.errors import InvalidInput
from dpfast.studies.requests import MAX_BYTES, StudyRequest

#: Folder of approved requests, within that of those that wait.
APPROVED = "approved"

#: Name of a request's file: its digest.
NAME = re.compile(r"[0-9a-f]{24}\.json")


class Approvals:
    """A folder of requests that wait, and in it the folder of those that were approved.

    Who may write to the inner folder can approve.  An approval is for the whole document: a digest
    of 96 bits can be met twice by somebody who looks for it.
    """

    def __init__(self, folder: str) -> None:
        self._waiting, self._approved = folder, os.path.join(folder, APPROVED)
        if not os.path.isdir(self._approved):
            raise InvalidInput(
                f"approvals must be a folder in which there is a folder {APPROVED!r}; there is "
                "none in the folder given. Make both, the inner one for the steward alone to "
                "write to."
            )

    def submit(self, request: StudyRequest) -> None:
        """Let a request wait, unless it was approved."""
        if not self.approves(request):
            write_document(_place(self._waiting, request.digest), _text(request.to_dict()))

    def approve(self, request: StudyRequest) -> None:
        """Approve a request; it waits no longer."""
        if not self.approves(request):  # a date stays that of the first approval
            write_document(_place(self._approved, request.digest), _text(request.to_dict()))
        with suppress(OSError):  # it never waited, or another process approved it
            os.unlink(_place(self._waiting, request.digest))

    def approves(self, request: StudyRequest) -> bool:
        """Return whether exactly this request was approved."""
        return self._read(self._approved, request.digest) == _text(request.to_dict())

    def require(self, request: StudyRequest) -> None:
        """Refuse a request that was not approved."""
        if not self.approves(request):
            raise InvalidInput(
                f"the request {request.digest} was not approved, and nothing was charged. "
                "Let it wait by study.submit(request); the steward runs study.approve(request)."
            )

    def waiting(self) -> list[str]:
        """Return the documents that wait, the longest waiting first."""
        names = [entry.name for entry in os.scandir(self._waiting) if NAME.fullmatch(entry.name)]
        dated = []
        for name in sorted(names):
            with suppress(OSError):  # approved or deleted meanwhile
                dated.append((os.stat(os.path.join(self._waiting, name)).st_mtime, name[:-5]))
        texts = [self._read(self._waiting, digest) for _, digest in sorted(dated)]
        return [text for text in texts if text is not None]

    def entry(self, label: str) -> tuple[str, str]:
        """Return the name of the approved request that a charge is for, and its day in UTC."""
        digest = label[-24:]
        text = self._read(self._approved, digest) if NAME.fullmatch(f"{digest}.json") else None
        if text is None:
            return "-", "-"
        day = datetime.fromtimestamp(os.stat(_place(self._approved, digest)).st_mtime, UTC)
        return str(json.loads(text).get("name", "-")), f"{day:%Y-%m-%d}"

    def _read(self, folder: str, digest: str) -> str | None:
        """Read a document; None if it is not there."""
        with suppress(FileNotFoundError):
            return read_document(_place(folder, digest), MAX_BYTES).decode("utf-8", "replace")
        return None


def _place(folder: str, digest: str) -> str:
    return os.path.join(folder, f"{digest}.json")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)
