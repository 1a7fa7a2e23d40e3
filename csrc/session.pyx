# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The query session: every question to records is charged, answered with noise and receipted here.

A question is charged to the ledger of its run, and refused there, before a record is read.  Its
exact answer gets the noise of ``dpfast.privacy``, and leaves with a receipt.  An observer and a
tape are called if they are installed.  Noise is added by the mechanism of
``dpfast.privacy``, which draws it.

``dpfast.curator.noisy_release`` connects it to the parts of the package, which kernels must not
import: see :func:`connect`.  Only the curator may use it.
"""

import numpy as np

cimport numpy as cnp
from cpython.contextvars cimport get_value
from cpython.long cimport PyLong_FromUnsignedLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY, M_PI, atan, frexp, hypot, ldexp, pow, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from dpfast.kernels.records cimport lengths_of_rows, quantity, row_view, sums_of_rows
from dpfast.kernels.sampler cimport noisy_part, release_in_place

cdef extern from "unistd.h" nogil:
    int getpid()

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object o, void *context)
    char *PyOS_double_to_string(double value, char format, int precision, int flags,
                                int *kind) except NULL

cnp.import_array()

# Parts of the package, set once by `connect`.
cdef object door, Answer, NOTHING, OBSERVER, TAPE, Grids, together, joint_grids, vector_grid
cdef object Ledger, GDP, MARK, HERE, cost_of, charge_of_ledger, QUANTA, set_mu
cdef int MIN_GRID_BITS

cdef extern from *:
    """
    /* As tuple.__new__ makes an instance of a subclass without fields of its own. */
    static PyObject *new_tuple(PyObject *kind, PyObject *items) {
        Py_ssize_t i, size = PyTuple_GET_SIZE(items);
        PyObject *made = ((PyTypeObject *)kind)->tp_alloc((PyTypeObject *)kind, size);
        if (made == NULL)
            return NULL;
        for (i = 0; i < size; i++) {
            PyObject *item = PyTuple_GET_ITEM(items, i);
            Py_INCREF(item);
            PyTuple_SET_ITEM(made, i, item);
        }
        return made;
    }
    """
    object new_tuple(object kind, tuple items)


def connect(module, answers, contexts, mechanisms, book):
    """Set the module of the mechanisms, and what else a session uses of the package."""
    global door, Answer, NOTHING, OBSERVER, TAPE, Grids, together, joint_grids, vector_grid
    global Ledger, GDP, MARK, HERE, cost_of, charge_of_ledger, QUANTA, set_mu, MIN_GRID_BITS
    door, (Answer, NOTHING), (OBSERVER, TAPE, MARK, HERE) = module, answers, contexts
    Grids, together, joint_grids, vector_grid, MIN_GRID_BITS = mechanisms
    Ledger, GDP, cost_of, QUANTA = book
    charge_of_ledger, set_mu = Ledger.charge, GDP.mu.__set__


# ---- the accountant ------------------------------------------------------------------------------

cdef dict prices = {}  # GDP and quanta of each mu that was charged lately; public
cdef dict quanta_of_scale = {}  # quanta of the square of 10^-s, as m and k of m 2^k, by s; public
cdef enum:
    MOST_PRICES = 4096


cdef object quanta_of_square(double mu):
    """Return the square of a mu in quanta: ``cost_in_quanta(2, mu)``, its definition (claim C86).

    Its shortest decimal is ``a 10^-s``.  Quanta are integers, of which 10^-324 has a whole number.
    """
    cdef unsigned long long a = 0
    cdef int s = 0, exponent = 0, sign = 1
    cdef bint in_fraction = False
    cdef char *text
    cdef char *digit
    if not 0.0 < mu < 1e17:
        return cost_of(2, mu)[0]
    text = PyOS_double_to_string(mu, c'r', 0, 0, NULL)
    digit = text
    while c'0' <= digit[0] <= c'9' or digit[0] == c'.':
        if digit[0] == c'.':
            in_fraction = True
        else:  # 17 digits at most, and a zero
            a = 10 * a + <unsigned long long>(digit[0] - c'0')
            s += in_fraction
        digit += 1
    if digit[0] == c'e':
        digit += 1
        if digit[0] == c'-' or digit[0] == c'+':
            sign = 1 if digit[0] == c'+' else -1
            digit += 1
        while c'0' <= digit[0] <= c'9':
            exponent = 10 * exponent + (digit[0] - c'0')
            digit += 1
    s -= sign * exponent
    cdef bint understood = digit[0] == 0
    PyMem_Free(text)
    if not understood or s < 0:
        return cost_of(2, mu)[0]
    cdef object scale = quanta_of_scale.get(s), whole = PyLong_FromUnsignedLongLong(a), factor
    cdef Py_ssize_t zeros
    if scale is None:  # 10^-324 has many factors of two, which a shift multiplies by
        factor = QUANTA // (<object>10) ** (<object>(2 * s))
        zeros = (factor & -factor).bit_length() - 1
        scale = quanta_of_scale[s] = factor >> zeros, zeros
    return (whole * whole * (<tuple>scale)[0]) << (<tuple>scale)[1]


cdef object gdp(double mu):
    """Make the GDP of a computed mu, without the price of a look at its type."""
    if not 0.0 < mu < INFINITY:
        return GDP(mu)  # which refuses it
    cost = GDP.__new__(GDP)
    set_mu(cost, mu)
    return cost


cdef tuple price_of(double mu, cost=None):
    """Return the GDP of a mu, and its quanta."""
    cdef object price = prices.get(mu)
    if price is None:
        price = gdp(mu) if cost is None else cost, quanta_of_square(mu)
        if len(prices) >= MOST_PRICES:
            prices.clear()
        prices[mu] = price
    return <tuple>price


def quanta(double mu):
    """Return the exact square of a mu in quanta, as the session adds them up (for tests)."""
    return quanta_of_square(mu)


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
    cdef object lock = book["_lock"], mu = cost.mu, total
    if type(mu) is not float or not mu > 0.0:
        return False
    cdef object quanta = price_of(mu, cost)[1]
    if lock._is_owned() or not lock.acquire(False):
        return False
    try:
        total = <object>(<tuple>book["_spent"])[0] + quanta
        if book["_closed"] or total > (<tuple>book["_limit"])[0]:
            return False
        book["_spent"] = (total,)
        (<list>book["_entries"]).append((label, cost, cost))
    finally:
        lock.release()
    return True


cpdef object charge(ledger, cost, label):
    """Charge the cost of a question before a record is read, or refuse it."""
    if not granted(ledger, cost, label):
        ledger.charge(cost, label)


# ---- answers -------------------------------------------------------------------------------------

cdef int grid_bits(Py_ssize_t dimension) noexcept:
    """Return the bits of a grid: ``dpfast.privacy.mechanisms.grid_bits``."""
    cdef int length = 0
    cdef Py_ssize_t rest = dimension - 1
    while rest > 0:
        length, rest = length + 1, rest >> 1
    return MIN_GRID_BITS + (length + 1) // 2


cdef int vector_part(noisy_part *part, cnp.ndarray value, double scale) except -1:
    """Describe a vector that gets noise of this scale: ``dpfast.privacy.mechanisms.vector_grid``."""
    if not 1e-200 <= scale <= 1e200:
        vector_grid(scale, cnp.PyArray_DIM(value, 0))  # which may refuse it
    part.values, part.p = <double *>cnp.PyArray_DATA(value), cnp.PyArray_DIM(value, 0)
    part.bits = grid_bits(part.p)
    part.grid, part.grid_off = ldexp(scale, -part.bits), 0.0
    return 0


cpdef object release_with_noise(noise, tuple question, receipt, value):
    """Add noise to one mean, in sight of the observer."""
    cdef noisy_part part
    cdef double scale = (<tuple>receipt)[4]
    if not (cnp.PyArray_Check(value) and cnp.PyArray_NDIM(value) == 1):
        grids = joint_grids((np.shape(value),), (scale,))
        return release_jointly_with_noise(noise, question, (receipt,), grids, (value,))[0]
    value = cnp.PyArray_NewCopy(contiguous(value), cnp.NPY_CORDER)
    vector_part(&part, value, scale)
    return released(noise, question, (receipt,), [value], &part, 1)[0]


def release_jointly_with_noise(noise, tuple question not None, receipts, grids, values):
    """Add noise to the means of one charge, in sight of the observer."""
    cdef object observer = get_value(OBSERVER)
    if observer is None:
        noisy = door.release_together(values, grids, noise)
    else:
        noisy = door.observed_values(observer, noise, question, receipts, grids, values)
    return answered(question, tuple(receipts), noisy)


cdef list released(noise, tuple question, tuple receipts, list values, noisy_part *parts,
                   int n_parts):
    """Add noise to arrays of this session's own, in place; an observer sees them before.

    ``parts`` are those of the values, in order; None in the place of a mean that was not asked for.
    """
    cdef object observer = get_value(OBSERVER)
    if observer is None and door.release_together is together:
        release_in_place(noise, parts, n_parts)
        return answered(question, receipts, values)
    cdef list steps = []
    cdef Py_ssize_t size = 0
    cdef int finest = 0
    for value in values:
        if value is None:
            steps.append(None)
            continue
        size += parts.p * (parts.p + 1) // 2 if parts.grid_off > 0.0 else parts.p
        finest = max(finest, parts.bits)
        steps.append((parts.bits, parts.grid, parts.grid_off))
        parts += 1
    grids = new_tuple(Grids, (size, finest, tuple(steps)))
    return release_jointly_with_noise(noise, question, receipts, grids, values)


cdef list answered(tuple question, tuple receipts, list noisy):
    """Make the answers of one question, and keep them for a run that may end early."""
    cdef object tape = get_value(TAPE), value
    cdef list answers = []
    cdef tuple receipt
    cdef Py_ssize_t i = 0
    if len(noisy) != len(receipts):
        raise ValueError(f"{len(receipts)} receipts for {len(noisy)} answers")
    for value in noisy:
        if value is None:
            answers.append(NOTHING)
        else:
            receipt = <tuple>receipts[i]
            answers.append(new_tuple(Answer, (value, receipt[4], receipt)))
        i += 1
    if tape is not None:
        if isinstance(tape, Tape):
            (<Tape>tape).keep_answers(question, answers)
        else:
            tape.keep(question, answers)
    return answers


include "session/tape.pxi"
include "session/thresholds.pxi"
include "session/scales.pxi"
include "session/columns.pxi"
include "session/bisection.pxi"
include "session/plans.pxi"
include "session/rows.pxi"
