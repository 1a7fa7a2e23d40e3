"""``Study``: several analyses of one table under one ledger, each asked by a small document."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from dpfast.arguments import did_you_mean, file_path, flag, one_of, whole_number
from dpfast.data.columns import column, column_names
from dpfast.data.files import Written, read_labels, read_numbers, read_table, written
from dpfast.data.schema import Schema
from dpfast.errors import (
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    UnsupportedConversion,
    described,
    understood,
)
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import hide_row_details
from dpfast.inference.rendering.study import report_of
from dpfast.inference.rendering.table import Summary
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.ledger.process import this_process
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.regression.forecast import NoForecast
from dpfast.studies.answers import Persons, answered, summary_of, told_of
from dpfast.studies.approvals import Approvals
from dpfast.studies.methods import StudyMethods
from dpfast.studies.plans import StudyPlan, plan_of
from dpfast.studies.quotes import Quote, expected_widths, rehearsal_of, share_of
from dpfast.studies.requests import Reads, StudyRequest, read_request
from dpfast.studies.statement import statement_of


@understood
class Study(StudyMethods):
    """Several analyses of one table or file under one ledger, with a schema and one total.

    Each analysis is a request, a small document (JSON, or a dictionary).  It names the analysis and
    the share of the total that it may cost.  :meth:`fit` and the other methods write it themselves.
    :meth:`quote` says what a request costs without reading the table, and :meth:`run` answers it,
    in this process or in another.

    Parameters
    ----------
    data : table, path or None
        A pandas or polars DataFrame, an Arrow table, a mapping of names to arrays, or a file
        (``.csv``, ``.tsv``, ``.txt``, these with ``.gz``, ``.parquet``, ``.feather``, ``.npz``).
        Of a file, each request reads the columns that it names.  None for quotes only.
    privacy : GDP, ZCDP, ApproxDP or float, optional
        The total of all analyses; a float is mu of Gaussian DP.  Needed unless the ledger exists.
        An (epsilon, delta) becomes the largest mu within it.  With an (epsilon, delta) ledger, a
        study shares the part that the ledger pays in Gaussian DP.
    schema : Schema, optional
        Public facts.  If it does not declare the response of a formula, all its columns are taken
        as undeclared numbers.
    ledger : path or Ledger, optional
        A file that processes share, made if there is none; in memory by default.
    n : int, optional
        Number of records, public; by default that of a table in memory.
    like : table or path, optional
        **Public** data similar to the private ones, for forecasts of widths.
    delimiter : str, optional
        Separator in text files; by default found in the first row.
    decimal : {".", ","}
        Decimal mark in text files.
    group, group_size, each : str, int, {"row", "person"}, optional
        The column that names the person of each row, and how persons count, as for
        :func:`dpfast.records`.  Every request then protects persons with all their rows.  With
        ``each="person"`` the number of rows is private: ``n`` is that of persons, and has no
        default.  Analyses that know no persons are refused.
    approvals : path, optional
        A folder that holds a folder ``approved``.  Requests are then answered only once
        :meth:`approve` was called for them, by this process or another.
    noise : NoiseSource, optional
        ``SeededNoise`` is for simulation and voids the guarantee.

    Other Parameters
    ----------------
    request, requests : str, bytes or mapping, and a sequence of them
        Of methods: JSON, or what it stands for.

    Attributes
    ----------
    schema, ledger, n

    Notes
    -----
    A share ``s`` costs ``mu sqrt(s)`` of a total in Gaussian DP, because squares add up, and ``s
    rho`` of one in zCDP.  Shares are taken as written decimals, and each cost is rounded down: ten
    requests of a tenth always fit.  A request is refused before the charge, or not at all.

    A request is paid for once: the ledger's entry ends with its digest.  The same request is
    answered again from the log, or refused if another process paid for it.  Another ``name``
    makes it another request.

    Threads may share a study: analyses wait for each other; quotes, the log and reports do not
    wait. A study cannot be copied or pickled, and a forked process can use it only with a ledger in
    a file.  If an interrupt comes too late to stop an analysis, its answer is in the log.

    Privacy
    -------
    The total, for everything ever released from the ledger, under replacement of one record, n
    public (claim C9).  Each request is charged at once, in full, before its analysis reads a
    record. The quoted amount is the most that it can spend.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = {"x": rng.normal(size=5000), "sex": np.tile(["F", "M"], 2500)}
    >>> table["y"] = 2.0 * table["x"] + rng.normal(size=5000)
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> study = dpfast.Study(table, privacy=1.0, schema=schema)
    >>> fit = study.fit("y ~ x", "least-squares", share=0.75)
    >>> counts = study.counts("sex", share=0.25)
    >>> bool(abs(fit.params[1] - 2.0) < 0.5), study.remaining
    (True, GDP(mu=...))
    """

    def __init__(
        self,
        data: Any,
        *,
        privacy: Budget | float | None = None,
        schema: Schema | None = None,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        n: int | None = None,
        like: Any = None,
        delimiter: str | None = None,
        decimal: str = ".",
        group: str | None = None,
        group_size: int | None = None,
        each: str = "row",
        approvals: str | os.PathLike[str] | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if schema is not None and not isinstance(schema, Schema):
            raise InvalidInput(f"schema must be a dpfast.Schema; received {described(schema)}.")
        self.schema, self._noise = schema, checked_noise(noise)
        self._written = written(delimiter, decimal)
        self._data, self._like = (
            _source(value, name) for value, name in ((data, "data"), (like, "like"))
        )
        self.n = None if n is None else whole_number(n, "n", 1)
        self._persons = _persons(group, group_size, each)
        in_memory = data is not None and not isinstance(self._data, str)
        if n is None and in_memory and not self._count_once:
            self.n = _rows(data, column_names(data)[0])
        folder = None if approvals is None else os.path.abspath(file_path(approvals, "approvals"))
        self._approvals = None if folder is None else Approvals(folder)
        self.ledger = _ledger_of(ledger, privacy)
        self._answers: dict[str, tuple[StudyRequest, Any]] = {}
        #: One analysis at a time.  A lock for each process: a fork may copy one that is held.
        self._locks: dict[object, threading.RLock] = {}

    @property
    def _count_once(self) -> bool:
        """Whether persons count once, so that the number of rows is private."""
        return self._persons is not None and self._persons.each == "person"

    @property
    def remaining(self) -> Budget:
        """Unspent part of the total, rounded down."""
        unspent: Budget = self.ledger.remaining
        total = self._total
        return unspent if type(unspent) is type(total) else total  # before the first charge in GDP

    @property
    def _total(self) -> Budget:
        """Total that requests share; for an (epsilon, delta) ledger its part in GDP (claim C87)."""
        total: Budget = self.ledger.total_in_gdp
        return total

    @property
    def log(self) -> list[tuple[dict[str, Any], Any]]:
        """Requests answered in this process, in order, with their answers."""
        return [(request.to_dict(), result) for request, result in list(self._answers.values())]

    def __repr__(self) -> str:
        records = "no table" if self._data is None else "a table"
        if self.n is not None:
            records = f"{self.n} {'persons' if self._count_once else 'records'}"
        return (
            f"Study: {records}; total {self.ledger.total!r}; remaining {self.remaining!r}; "
            f"{len(self._answers)} answers, see .log"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse ``copy`` and ``pickle``."""
        raise LedgerClosed(
            "a Study cannot be copied or pickled: a copy would not know which requests the other "
            "answered and paid for. Threads share the study itself; give each process its own, "
            "dpfast.Study(data, ledger='study.ledger'), on one ledger in a file, and save answers "
            "(study.log) rather than the study."
        )

    def quote(self, request: Any) -> Quote:
        """Quote a request: its cost and the expected widths of its intervals; no record is read.

        Privacy
        -------
        Spends nothing: from the request, the schema, n and a public table alone.

        Examples
        --------
        >>> study = dpfast.Study(None, privacy=dpfast.GDP(1.0), n=10_000)
        >>> quote = study.quote('{"analysis": "fit", "formula": "y ~ x", "share": 0.25}')
        >>> quote.spend, quote.payable, sorted(quote.widths)
        (GDP(mu=0.5), True, ['intercept', 'x'])
        """
        return self._quoted(self._read(request))

    def plan(self, requests: Sequence[Any], *, records: bool = False) -> StudyPlan:
        """Plan a list of requests: their costs and expected widths; no record is read.

        Parameters
        ----------
        records : bool
            Find the number of records with which the widest interval of each request (the
            intercept's excepted) is as narrow as the request's ``width``.

        Privacy
        -------
        Spends nothing: from the requests, the schema, n and a public table alone.

        Examples
        --------
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> study = dpfast.Study(None, privacy=1.0, schema=schema, n=10_000)
        >>> plan = study.plan([
        ...     {"analysis": "fit", "formula": "y ~ x", "loss": "least-squares", "share": 0.5},
        ...     {"analysis": "counts", "by": "sex", "share": 0.1},
        ... ])
        >>> plan.payable, round(plan.rows[1].width, 1)
        (True, 17.5)
        """
        if not (flag(records, "records") or self.n):
            raise InvalidInput("a plan needs the number of records: pass n= to the study.")
        n, total = None if records else self.n, self._total
        return plan_of(requests, self.schema, total, n, self._public, self._persons)

    def run(self, request: Any) -> Any:
        """Answer a request: charge the quoted amount, then run the analysis.

        Returns
        -------
        Fit, TreatmentEffect, TwoStage, CellTable, QuantileTable or SubgroupFits
            The result of the function that answers.  The same request again has the same answer,
            which costs nothing.

        Privacy
        -------
        Spends :attr:`Quote.spend` of the ledger, once.
        """
        return self._answered(self._read(request))

    def _answered(self, request: StudyRequest) -> Any:
        lock, digest = self._locks.setdefault(this_process(), threading.RLock()), request.digest
        if lock._is_owned():  # type: ignore[attr-defined]
            raise LedgerClosed(
                "a study was asked by a signal handler (or a function of yours) that interrupted "
                "an analysis of it in the same thread. Nothing was spent. Ask after it returned."
            )
        with lock, hide_row_details("person" if self._count_once else "row"):
            if digest not in self._answers:
                if self._approvals is not None:
                    self._approvals.require(request)
                table, request_ledger = self._table(request), _StudyLedger(self.ledger, request)
                with KeepReleased(lambda *_: self._answers[digest][1], adopts_inner=True):
                    # one statement: no interrupt falls between the end of the analysis and its
                    # entry
                    self._answers[digest] = (
                        request,
                        answered(
                            request,
                            table,
                            self.schema,
                            persons=self._persons,
                            privacy=request_ledger.total,
                            ledger=request_ledger,
                            noise=self._noise,
                        ),
                    )
            return self._answers[digest][1]

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer a request as :meth:`run`, in plain values for JSON.

        Returns
        -------
        dict
            The ``request`` as it was read, its ``digest``, the ``answer``, the ends of its
            intervals (``conf_int``), and a ``summary`` as text.

        Privacy
        -------
        As for :meth:`run`.
        """
        checked = self._read(request)
        return told_of(checked, self._answered(checked))

    def rehearse(self, request: Any, like: Any = None) -> dict[str, Any]:
        """Answer a request on public rows with simulated noise; no record of the study is read.

        The rows are repeated to n, where the study knows n.  Numbers of the answer are of the
        public rows.  Its names, shapes and price are those that :meth:`answer` would have.

        Parameters
        ----------
        like : table or path, optional
            **Public** or synthetic rows; by default those of the study.

        Returns
        -------
        dict
            The entries of :meth:`answer`; ``rehearsal``, a text that says that this is not private;
            the price (``spend``); and the ``warnings`` of the answer.

        Privacy
        -------
        Spends nothing, and protects nothing of ``like``.

        Examples
        --------
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> study = dpfast.Study(None, privacy=1.0, schema=schema, n=1000)
        >>> request = {"analysis": "counts", "by": "sex", "share": 0.25}
        >>> told = study.rehearse(request, {"sex": ["F", "M", "F"]})
        >>> np.shape(told["conf_int"]["count"]), told["spend"], study.remaining
        ((2, 2), {'type': 'GDP', 'mu': 0.5}, GDP(mu=1.0))
        """
        checked = self._read(request)
        source = self._like if like is None else _source(like, "like")
        if source is None:
            raise InvalidInput("a rehearsal needs public rows: pass like=, a table or a file.")
        if source is self._data or (isinstance(source, str) and source == self._data):
            raise InvalidInput(
                "like is the private table of this study. A rehearsal protects nothing: pass "
                "public or synthetic rows."
            )
        public, spend = self._read_columns(source, checked), checked.spend
        if not _rows(public, (*checked.reads.declared, *checked.reads.plain)[0]):
            raise InvalidInput("like has no rows; at least one is needed.")
        assert spend is not None
        return rehearsal_of(checked, spend, self.n, public, self.schema, self._persons)

    def submit(self, request: Any) -> Quote:
        """Let a request wait for approval; return its quote.  No record is read.

        Its document is written to the folder of approvals, and waits there after a restart.

        Privacy
        -------
        Spends nothing, and writes public input only.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "approved").mkdir()
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> table = {"sex": ["F", "M"] * 500}
        >>> study = dpfast.Study(table, privacy=1.0, schema=schema, approvals=folder)
        >>> _ = study.submit({"analysis": "counts", "by": "sex", "share": 0.25})
        >>> [quote] = study.waiting()  # the steward's turn
        >>> study.approve(quote.request)
        >>> study.run(quote.request).by, study.waiting()
        (('sex',), [])
        """
        checked = self._read(request)
        self._with_approvals().submit(checked)
        return self._quoted(checked)

    def waiting(self) -> list[Quote]:
        """Quote the requests that wait for approval, the longest waiting first.

        Privacy
        -------
        Spends nothing, as :meth:`quote`.
        """
        return [self.quote(document) for document in self._with_approvals().waiting()]

    def approve(self, request: Any) -> None:
        """Approve a request, such as ``quote.request`` of one that waits; it can then be run.

        To turn a request down, delete its file, which is named after its digest.

        Privacy
        -------
        Spends nothing: :meth:`run` charges for the request, once.
        """
        self._with_approvals().approve(self._read(request))

    def _with_approvals(self) -> Approvals:
        if self._approvals is None:
            raise InvalidInput(
                "this study answers without approval. Pass approvals=, a folder, to dpfast.Study."
            )
        return self._approvals

    def statement(self) -> Summary:
        """List the ledger's charges in order: their labels, names, prices, and what they left.

        Names are those of requests that were answered in this process, or that were approved.  Of
        these the day of approval is shown, in UTC, as the file system has it.

        Privacy
        -------
        Public, as is all a ledger says: costs nothing.

        Examples
        --------
        >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
        >>> study = dpfast.Study({"sex": ["F", "M"] * 500}, privacy=1.0, schema=schema)
        >>> _ = study.counts("sex", share=0.75, name="Ana, first look")
        >>> text = str(study.statement())
        >>> "Ana, first look" in text, "GDP(mu=0.5)" in text
        (True, True)
        """
        asked = [request for request, _ in list(self._answers.values())]
        known = {request.mark: request for request in asked}
        return statement_of(self.ledger, known, self._approvals)

    def report(self, path: str | os.PathLike[str]) -> str:
        """Write one page about all answers; ``dpfast verify`` checks its accounting.

        Returns the SHA-256 of the page's transcript.

        Parameters
        ----------
        path : path
            HTML file to write; an existing file is replaced, ``OSError`` if it cannot be written.

        Privacy
        -------
        Released and public numbers: costs nothing.
        """
        answers = [
            (request.to_dict(), request.mark, result, summary_of(request, result).table)
            for request, result in list(
                self._answers.values()
            )  # copied before their charges are listed
        ]
        return report_of(self.ledger, answers, path)

    def _read(self, request: Any) -> StudyRequest:
        return read_request(request, self.schema, self._total)

    def _quoted(self, request: StudyRequest) -> Quote:
        spend, ledger = request.spend, self.ledger
        assert spend is not None
        share = share_of(self._total, spend)
        earlier = tuple(
            entry.label for entry in ledger.entries if entry.label.endswith(request.mark)
        )
        payable = not earlier and share <= share_of(self._total, self.remaining)
        forecast: tuple[dict[str, float] | None, str]
        try:
            forecast = expected_widths(
                request, spend, self.n, self._public(request), self.schema, self._persons
            )
        except (InvalidBudget, NoForecast) as error:  # as run would refuse it, at no cost
            forecast = None, f"this would be refused: {error}"
        return Quote(request.to_dict(), request.digest, spend, float(share), payable, *forecast)

    def _public(self, request: StudyRequest) -> Any:
        """Return the public table, or the columns of it that a request names; None without one."""
        return None if self._like is None else self._read_columns(self._like, request)

    def _read_columns(self, source: Any, request: StudyRequest) -> Any:
        """Return a table, or the columns of a file that a request names, and those of persons."""
        group = None if self._persons is None else self._persons.group
        return _columns(source, request.reads, self.schema, self._written, group)

    def _table(self, request: StudyRequest) -> Any:
        """Return the private table, or the columns of its file that a request names."""
        if self._data is None:
            raise InvalidInput("this study has no table, so it can quote but not answer.")
        table = self._read_columns(self._data, request)
        rows = _rows(table, (*request.reads.declared, *request.reads.plain)[0])
        if self.n is not None and rows != self.n and not self._count_once:
            raise InvalidInput(
                f"the table has {rows} records, and the study was declared to have n={self.n}."
            )
        return table


class _StudyLedger(Ledger):
    """Ledger of one request: pays from the study's ledger once, and no more than was quoted."""

    def __init__(self, whole: Ledger, request: StudyRequest) -> None:
        assert request.spend is not None
        super().__init__(request.spend)
        self._whole, self._mark = whole, request.mark

    def charge(self, spend: Any, label: str, *, once: str = "") -> None:
        super().charge(spend, label)
        self._whole.charge(spend, label, once=self._mark)

    def _give_back(self, mark: str, quanta: int) -> GDP:
        return self._whole._give_back(mark, quanta)  # this one pays for one request


def _ledger_of(ledger: Any, privacy: Any) -> Ledger:
    declared = total = None if privacy is None else as_budget(privacy)
    if isinstance(declared, ApproxDP):
        total = GDP.within(declared)
    if isinstance(ledger, Ledger):
        opened = ledger
    elif ledger is not None and total is not declared and _is_kept(ledger):
        opened = Ledger.open(ledger)
    elif ledger is not None:
        opened = Ledger.open(ledger, total)
    elif total is None:
        raise InvalidInput("a study needs a total: pass privacy=, or a ledger that has one.")
    else:
        opened = Ledger(total)
    if total is not None and opened.total not in (declared, total):
        raise InvalidInput(f"the ledger has the total {opened.total!r}, not {total!r}.")
    if not isinstance(opened.total_in_gdp, GDP | ZCDP):
        raise UnsupportedConversion(
            f"a study shares a total in GDP, zCDP or (epsilon, delta); this ledger has "
            f"{opened.total!r}. Open one with GDP(mu), ZCDP(rho) or (epsilon, delta) as its total."
        )
    if not any(opened.total_in_gdp.values()):
        raise InvalidInput(
            f"nothing of the ledger's total {opened.total!r} is left for Gaussian noise, which "
            "every analysis of a study adds. Keep less apart, or open a ledger with a larger total."
        )
    return opened


def _is_kept(path: Any) -> bool:
    """Return whether a ledger file exists and is not empty."""
    with suppress(OSError, ValueError, TypeError):
        return os.path.getsize(path) > 0
    return False


def _persons(group: Any, group_size: Any, each: Any) -> Persons | None:
    """Check how persons count, as far as it is public."""
    if group is None:
        if group_size is None and isinstance(each, str) and each == "row":
            return None
        raise InvalidInput("group_size and each are about persons: name their column, group=.")
    if not isinstance(group, str):
        raise InvalidInput(f"group must be the name of a column; received {described(group)}.")
    each = one_of(each, ("row", "person"), "each")
    if (group_size is None) != (each == "person"):
        raise InvalidInput('give group_size, the rows of a person at most, or each="person".')
    size = None if group_size is None else whole_number(group_size, "group_size", 1)
    return Persons(group, size, each)


def _source(data: Any, name: str) -> Any:
    """Check a data source: a table, a path made absolute, or None."""
    if isinstance(data, str | bytes | os.PathLike):
        return os.path.abspath(file_path(data, name))
    if data is not None and not column_names(data):
        raise InvalidInput(f"{name} has no columns; at least one is needed.")
    return data


def _columns(
    source: Any, reads: Reads, schema: Schema | None, how: Written, group: str | None
) -> Any:
    """Return a table, or the columns of a file that a request names."""
    if not isinstance(source, str):
        available, named = column_names(source), [*reads.declared, *reads.plain]
        named += [] if group is None else [group]
        if not {*named} <= {*available}:
            absent = next(name for name in named if name not in available)
            raise InvalidInput(
                "the request names a column that the table lacks"
                f"{did_you_mean(absent, available)}; it has {available}."
            )
        return source
    table: dict[str, Any] = {}
    if reads.declared and schema is not None:
        declared = Schema({name: schema[name] for name in reads.declared})
        values = read_table(source, declared, **how._asdict())
        table = {name: column(values, name) for name in reads.declared}
    if reads.plain:
        table |= read_numbers(source, reads.plain, **how._asdict())
    if group is not None and group not in table:
        table[group] = read_labels(source, group, **how._asdict())
    return table


def _rows(table: Any, name: str) -> int:
    """Return the number of records, by the length of a column."""
    values = column(table, name)
    with suppress(TypeError):
        return len(values)
    raise InvalidInput(f"each column must have one entry a record; one is {described(values)}.")
