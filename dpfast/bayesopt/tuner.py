"""DP-GIBO by ask and tell, for losses that are computed elsewhere."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, file_path
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import search_for
from dpfast.bayesopt.settings import SearchSettings, resolve_settings
from dpfast.bayesopt.state import ledger_path, load_state, restore, save_state, staged_state
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise, is_genuine
from dpfast.privacy.rounding import ROUNDING_SUM

#: Part of mu for the share of losses that were not finite.  Its noise is then ``20/(n mu)``, and
#: that of the steps .1% larger.
FAILED = 0.05


def _paid(shared: Ledger | None, search_ledger: Ledger) -> bool:
    """Return whether a shared ledger has paid for the search with this ledger."""
    return isinstance(shared, Ledger) and any(
        entry.label.endswith(f", search {search_ledger.identity})") for entry in shared.entries
    )


class Tuner:
    """Private search for the best parameters of a black box, by batches of evaluations.

    Algorithm 1 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).  ``ask`` returns the
    points at which to train and evaluate.  ``tell`` takes one loss per validation record at each
    of them and spends the budget of one step.  With `path`, the search survives a crash at any
    moment and spends nothing twice.

    Parameters
    ----------
    bounds : array-like of shape (d, 2), list or dict
        Public lower and upper bound of each parameter.  A list may hold
        :class:`dpfast.bayesopt.Real`, :class:`dpfast.bayesopt.Integer` and
        :class:`dpfast.bayesopt.Categorical` beside pairs; a dict gives names to these.  Points are
        then lists, or dicts, of values of these types.
    privacy : GDP, ZCDP, ApproxDP or float
        The total to spend on the validation records; a float is ``mu`` of Gaussian DP.
    n_records : int
        Number of validation records, public.
    clip : float
        Public bound on the norm of one record's gradient.  A gradient is the change of a loss over
        a side of the box (``units="box"``) or per unit of theta.  Longer gradients are clipped.
        :func:`dpfast.bayesopt.private_clip` estimates a bound that most of them do not exceed.
    steps : int
        Number of steps that share the budget.
    search : SearchSettings, optional
        Settings of the search.
    ledger : Ledger, optional
        Budget shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
    path : path, optional
        File for the public state; the budget is beside it in ``path + ".ledger"``.  If only the
        state was deleted, a new search uses the rest of that budget.  A shared ledger that has
        paid for that ledger file is not charged again.

    Privacy
    -------
    The validation records are protected with ``privacy`` in total, under replacement of one record,
    n public (claims G1 to G3 of ``PROOFS-bayesopt.md``).  A record's loss must depend on that
    record and public numbers only.  Rounding to whole numbers and choices costs nothing: points are
    rounded before they are evaluated.  Training data are not covered.  If they need protection,
    make each training private, and charge it to their own ledger.

    Examples
    --------
    >>> tuner = dpfast.bayesopt.Tuner([(0.0, 1.0)], privacy=1.0, n_records=100, steps=2)
    >>> while not tuner.done:
    ...     points = tuner.ask()
    ...     tuner.tell([np.full(100, ((theta - 0.3) ** 2).sum()) for theta in points])
    >>> tuner.result().theta.shape
    (1,)
    """

    def __init__(
        self,
        bounds: Any,
        *,
        privacy: Budget | float,
        n_records: int,
        clip: float = 1.0,
        steps: int = 25,
        search: SearchSettings | None = None,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self._settings = resolve_settings(bounds, clip, steps, search)
        self._noise = noise = checked_noise(noise)
        self._genuine = is_genuine(noise)
        account = Account(privacy, ledger)
        self._total = account.total
        self._path = None if path is None else file_path(path, "path")
        self._mu_failed = FAILED * self._total.mu
        stepping = self._total.mu * (1.0 - FAILED**2) ** 0.5 * (1.0 - ROUNDING_SUM)
        self._mus = self._settings.schedule.step_mus(stepping, self._settings.steps)
        # refusals come before anything is charged or written
        self._search = search_for(self._settings)
        probe = RecordValues(n_records, Ledger(self._total), noise)
        for mu in {min(self._mus), max(self._mus)}:
            self._search.refuse_impossible(probe, mu)
        probe.loss_receipt(0.0, 1.0, self._mu_failed)

        fingerprint = f"{self._settings.fingerprint()}, mu={self._total.mu!r}, n={probe.n}"
        self._fingerprint = fingerprint
        self._pending: Array | None = None
        self._missing: list[Array] = []  # evaluated before a crash
        if self._path is not None and os.path.exists(self._path):
            self._search = restore(load_state(self._path), self._settings, fingerprint)
            # without a total: a search whose ledger was deleted must not get a new one
            self._ledger = Ledger.open(ledger_path(self._path))
        else:
            self._start(probe.n, account, ledger)
        self._values = RecordValues(probe.n, self._ledger, noise)
        if self._path is not None:
            self._missing = self._search.points
            self._save()

    def _start(self, n: int, account: Account, ledger: Ledger | None) -> None:
        """Charge the shared ledger for a new search, after all refusals."""
        settings, path = self._settings, self._path
        label = f"tune({settings.describe()}, steps={settings.steps}, n={n}"
        if path is None:
            account.refuse_unpayable(label + ")")
            self._rehearse(n)
            self._ledger = Ledger(self._total)
            account.charge(label + ")")
            return
        path_of_ledger = ledger_path(path)
        # a ledger without a search comes from a crash: its charges stand
        existing = (
            Ledger.open(path_of_ledger, self._total) if os.path.exists(path_of_ledger) else None
        )
        already_paid = existing is not None and _paid(ledger, existing)
        if not already_paid:
            account.refuse_unpayable(label + ")")
        with staged_state(path, self._search, n, self._fingerprint, self._genuine):
            self._rehearse(n)
            # after the refusals, which leave no ledger; another process may have created it
            self._ledger = Ledger.open(path_of_ledger, self._total)
            if self._ledger.entries:  # the noise of these charges is unknown
                self._genuine = False
            if not _paid(ledger, self._ledger):
                account.charge(f"{label}, search {self._ledger.identity})")

    def _rehearse(self, n: int) -> None:
        """Try the losses before the charge; does nothing where losses come from outside."""

    @property
    def done(self) -> bool:
        """True if the budget of every step is spent."""
        return self.steps_paid >= self._settings.steps

    @property
    def steps_paid(self) -> int:
        """Number of steps charged to the ledger, with or without an answer."""
        # the last entry is for failed losses
        return min(len(self._ledger.entries), self._settings.steps)

    @property
    def theta(self) -> Array:
        """Current iterate in the columns of :attr:`Tuning.theta`, shape (d,)."""
        return self._settings.box.from_unit(self._search.theta)

    def ask(self) -> Any:
        """Return the points to evaluate, shape (b, d), in the caller's units.

        The points stay the same until :meth:`tell`.  Where `bounds` have types or names, they are
        a list of b lists or dicts.  After a resumption the points evaluated before come first,
        because their values are not stored.

        Privacy
        -------
        Points follow from released numbers and cost nothing.
        """
        if self._pending is None:
            if self.done:
                raise BudgetExceeded(
                    f"all {self._settings.steps} steps were paid for. Nothing was spent. Read the "
                    "result(), or start a search with more steps."
                )
            self._pending = self._search.batch()
        points = self._settings.box.from_unit(np.array([*self._missing, *self._pending]))
        return self._settings.space.all_parameters(points)

    def tell(self, values: ArrayLike) -> None:
        """Take the losses at the points of :meth:`ask`, and make one step.

        Parameters
        ----------
        values : array-like of shape (b, n)
            ``values[j, i]`` is the loss of validation record i at point j of :meth:`ask`.
            Only shape and dtype can raise.  A value that is not finite, as of a training that
            failed, counts as the largest of its record's values so far, and the search turns away
            from there.  The result has the share of these values.

        Privacy
        -------
        Spends the budget of one step, before the noise is drawn.  If anything goes wrong after
        that, the step is lost, and never repeated (claim G3).
        """
        if self._pending is None:
            raise InvalidInput("there are no points to tell about. Call ask() first.")
        self._values.append(values, len(self._missing) + len(self._pending))
        self._search.add(self._pending)
        self._missing, self._pending = [], None
        self._save()  # evaluated points survive a crash in the step
        k = self.steps_paid
        if k >= self._settings.steps:  # another process took the last step
            raise BudgetExceeded("all steps were paid for by another process. Nothing was spent.")
        label = f"step {k + 1} of {self._settings.steps}"
        with KeepReleased(lambda *_: self.result()):
            self._search.step(self._values, self._mus[k], label)
            self._save()
            if self.done:
                self._search.failed.append(self._values.failed(self._mu_failed))
                self._save()

    def result(self) -> Tuning:
        """Return the result so far; costs nothing."""
        search, box = self._search, self._settings.box
        d = box.dimension
        theta = search.recommendation()
        failed_scale = 1.0 / (self._values.n * self._mu_failed)
        return Tuning(
            theta=theta,
            parameters=self._settings.space.parameters(theta),
            iterates=box.from_unit(np.array(search.iterates)),
            points=box.from_unit(np.array(search.points).reshape(-1, d)),
            batch_sizes=tuple(search.batch_sizes),
            gradients=np.array(search.gradients).reshape(-1, d),
            noise_scales=tuple(search.noise_scales),
            traces=tuple(search.traces),
            failed=(search.failed[0], failed_scale) if search.failed else None,
            method=self._settings.describe(),
            privacy=Guarantee.of(
                self._total,
                self._noise,
                self._values.n,
                [(entry.label, entry.spend.mu) for entry in self._ledger.entries],
                vouched=TOLD,
            )._replace(genuine=self._genuine_so_far()),
            lost_steps=self.steps_paid - (len(search.iterates) - 1),
        )

    def _save(self) -> None:
        if self._path is not None:
            genuine = self._genuine_so_far()
            save_state(self._path, self._search, self._values.n, self._fingerprint, genuine)

    def _genuine_so_far(self) -> bool:
        """Return whether all noise of the search was genuine, in every process."""
        if self._genuine and self._path is not None and os.path.exists(self._path):
            self._genuine = load_state(self._path).get("genuine_noise") is True
        return self._genuine

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Tuner has sensitive values and a budget, and cannot be copied or pickled. Give it "
            "a path, and create it again with the same arguments to resume."
        )
