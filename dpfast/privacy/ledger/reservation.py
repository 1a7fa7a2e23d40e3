"""Part of a ledger that a run reserves, and returns as far as its queries did not use it: C95."""

from __future__ import annotations

from contextlib import suppress

from dpfast.errors import InvalidInput, described
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger.book import Ledger, quanta_of
from dpfast.privacy.ledger.paid import ChargedAnswers

#: A rest below one part in so many of the reservation is rounding, and not worth a line.
SMALLEST_PART = 1000


class Reservation(ChargedAnswers):
    """Context of a run that spends a session ledger, charged to another ledger as a whole.

    At the normal end of the context the session is closed, and what it did not spend is returned,
    once.  After an exception nothing is returned: values of records or a clock may have caused it.
    So the body must end by a rule on released and public values alone.

    Parameters
    ----------
    ledger : Ledger
        Charged at once with the spend; it takes the rest back where that is mu^2.
    spend : Budget
    label : str
        What it is for; public.
    session : Ledger or None
        In memory, in GDP, of at most the spend: every draw of the run is charged to it first.
        Without one nothing is returned.
    rows : int
        Number of rows of a person, each of which the session pays for (claim C47).

    Privacy
    -------
    Spends ``spend`` of the ledger, less what is returned (claim C95).
    """

    #: What was returned, once it is in the ledger.
    returned: GDP | None = None

    #: What names the charge, if a part of it may be returned.
    _mark = ""

    def __init__(
        self,
        ledger: Ledger,
        spend: Budget,
        label: str,
        session: Ledger | None,
        rows: int = 1,
    ) -> None:
        super().__init__(["rest"], "the rest of a reservation is returned once.")
        if session is None:
            ledger.charge(spend, label)
            return
        if type(session) is not Ledger or type(session.total) is not GDP or session._closed:
            raise InvalidInput(f"a run spends a ledger of its own; received {described(session)}.")
        self._ledger, self._session, self._rows = ledger, session, rows
        self._reserved = 0
        if type(spend) is GDP:
            self._reserved = quanta_of(spend)
            if rows**2 * session._limit[0] > self._reserved:
                raise InvalidInput(f"the session {session!r} may spend more than {spend!r}.")
        mark = ledger._reserve(spend, label)
        self._mark = mark if self._reserved else ""

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is not None:
            self._left.clear()
            return
        with suppress(Exception):  # a lost return is safe, a paid result must arrive
            self._return_rest()

    def _return_rest(self) -> None:
        """Close the session, and return the exact rest, rounded down."""
        self._take("rest")  # first: in the reserving process alone, once
        if not self._mark:
            return
        rest = self._reserved - self._rows**2 * self._session._close()
        if rest * SMALLEST_PART > self._reserved:
            self.returned = self._ledger._give_back(self._mark, rest)
