# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The query session: every question to records is charged, answered with noise and receipted here.

A question is charged to the ledger of its run, and refused there, before a record is read.  Its
exact answer gets the noise of ``dpfast.privacy``, and leaves with a receipt.  An observer and a
tape are called if they are installed.  This module reads no record and draws no number itself.

``dpfast.curator.noisy_release`` connects it to the parts of the package, which kernels must not
import: see :func:`connect`.  Only the curator may use it.
"""

import numpy as np

cimport numpy as cnp
from cpython.contextvars cimport get_value
from libc.math cimport INFINITY, hypot

cdef extern from "unistd.h" nogil:
    int getpid()

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object o, void *context)

cnp.import_array()

# Parts of the package, set once by `connect`.
cdef object door, Answer, NOTHING, OBSERVER, TAPE, joint_grids
cdef object Ledger, GDP, MARK, HERE, cost_of, charge_of_ledger
cdef object new_tuple = tuple.__new__


def connect(module, answer, nothing, observer, tape, grids, ledger, gdp, mark, here, cost):
    """Set the module of the mechanisms, and what else a session uses of the package."""
    global door, Answer, NOTHING, OBSERVER, TAPE, joint_grids
    global Ledger, GDP, MARK, HERE, cost_of, charge_of_ledger
    door, Answer, NOTHING, OBSERVER, TAPE = module, answer, nothing, observer, tape
    joint_grids = grids
    Ledger, GDP, MARK, HERE, cost_of = ledger, gdp, mark, here, cost
    charge_of_ledger = ledger.charge


# ---- the accountant ------------------------------------------------------------------------------

cdef bint granted(object ledger, object cost, object label) except -1:
    """Charge a mu to a ledger in memory (claim C10); False where ``Ledger.charge`` has to decide.

    That has the words of every refusal.  A signal handler, which runs between two lines of Python,
    cannot interrupt this function while it has the lock.
    """
    if type(ledger) is not Ledger or Ledger.charge is not charge_of_ledger:
        return False  # a ledger in a file, or one whose charges are observed
    cdef dict book = PyObject_GenericGetDict(ledger, NULL)
    if type(cost) is not GDP or book["_currency"] is not GDP or type(label) is not str:
        return False
    if get_value(MARK) or book["_process"] is not HERE.token or getpid() != HERE.number:
        return False
    cdef object lock = book["_lock"], quanta = cost_of(2, cost.mu)[0], total
    if lock._is_owned() or not lock.acquire(False):
        return False
    try:
        total = book["_spent"][0] + quanta
        if book["_closed"] or total > book["_limit"][0]:
            return False
        book["_spent"] = (total,)
        book["_entries"].append((label, cost, cost))
    finally:
        lock.release()
    return True


def charge(ledger, cost, label):
    """Charge the cost of a question before a record is read, or refuse it."""
    if not granted(ledger, cost, label):
        ledger.charge(cost, label)


# ---- answers -------------------------------------------------------------------------------------

def release_with_noise(noise, tuple question not None, receipt, value):
    """Add noise to one mean, in sight of the observer."""
    grids = joint_grids(((<object>value).shape,), ((<tuple>receipt)[4],))
    return release_jointly_with_noise(noise, question, (receipt,), grids, (value,))[0]


def release_jointly_with_noise(noise, tuple question not None, receipts, grids, values):
    """Add noise to the means of one charge, in sight of the observer."""
    cdef object observer = get_value(OBSERVER), tape = get_value(TAPE), receipt, value
    cdef list answers = []
    if observer is None:
        noisy = door.release_together(values, grids, noise)
    else:
        noisy = door.observed_values(observer, noise, question, receipts, grids, values)
    for receipt, value in zip(receipts, noisy, strict=True):
        if value is None:
            answers.append(NOTHING)
        else:
            answers.append(new_tuple(Answer, (value, (<tuple>receipt)[4], receipt)))
    if tape is not None:  # for a run that may end early
        tape.keep(question, answers)
    return answers


include "session/tape.pxi"
include "session/columns.pxi"
include "session/plans.pxi"
include "session/rows.pxi"
