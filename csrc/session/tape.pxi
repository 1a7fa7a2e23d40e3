# The tape of a run: copies of what was released, for its caller if the run ends early.
#
# Released and public numbers only.  Nobody can change afterwards what a partial result shows: an
# array is copied unless it is its own and read-only.

from collections import deque


cdef inline bint is_plain(object value):
    """Say whether a value counts as one number and cannot change."""
    cdef object kind = type(value)
    return kind is float or kind is int or kind is str or value is None or kind is bool


cdef class Copied:
    """Copy of a vector or matrix of doubles; an array is made of it when somebody looks."""

    cdef double *values
    cdef int dimensions
    cdef cnp.npy_intp[2] shape

    def __dealloc__(self):
        PyMem_Free(self.values)


cdef object copied(cnp.ndarray array):
    """Copy a contiguous array of doubles."""
    cdef Copied copy = Copied.__new__(Copied)
    cdef Py_ssize_t size = cnp.PyArray_SIZE(array) * sizeof(double)
    cdef int i
    copy.values = <double *>PyMem_Malloc(max(size, 1))
    if copy.values == NULL:
        raise MemoryError("no memory for the copy of an answer")
    memcpy(copy.values, cnp.PyArray_DATA(array), size)
    copy.dimensions = cnp.PyArray_NDIM(array)
    for i in range(copy.dimensions):
        copy.shape[i] = cnp.PyArray_DIM(array, i)
    return copy


cdef object shown(object value):
    """Make what somebody looks at of what was kept: an array of its own for each copy."""
    cdef Copied copy
    cdef cnp.ndarray array
    if type(value) is tuple:
        return tuple([shown(part) for part in value])
    if type(value) is not Copied:
        return value
    copy = value
    array = cnp.PyArray_EMPTY(copy.dimensions, copy.shape, cnp.NPY_DOUBLE, 0)
    memcpy(cnp.PyArray_DATA(array), copy.values, cnp.PyArray_NBYTES(array))
    return array


cdef object kept(object value, Py_ssize_t *count):
    """Return a value or a copy of it; add the numbers that it holds to a count."""
    cdef cnp.ndarray array
    cdef list copies
    cdef bint same = True
    if is_plain(value):
        count[0] += 1
        return value
    if cnp.PyArray_CheckExact(value):
        array = value
        count[0] += cnp.PyArray_SIZE(array)
        if not cnp.PyArray_ISWRITEABLE(array) and cnp.PyArray_BASE(array) == NULL:
            return value
        if (cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE and 1 <= cnp.PyArray_NDIM(array) <= 2
                and cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_ISBEHAVED_RO(array)):
            return copied(array)
        return cnp.PyArray_NewCopy(array, cnp.NPY_CORDER)
    if cnp.PyArray_Check(value):
        count[0] += cnp.PyArray_SIZE(<cnp.ndarray> value)
        return value.copy()
    if not isinstance(value, tuple):
        count[0] += 1
        return value
    copies = []
    for part in <tuple>value:
        copy = kept(part, count)
        same = same and copy is part
        copies.append(copy)
    if same or type(value) is not tuple:  # such as a view, whose arrays are its own
        return value
    return tuple(copies)


cdef class Tape:
    """Answers of one run, in order; beyond so many numbers the oldest are forgotten.

    Parameters
    ----------
    most_numbers : int
    nothing
        Answer in place of what was not requested; it is not kept.
    """

    cdef object parts, nothing
    cdef Py_ssize_t size, most_numbers

    def __init__(self, Py_ssize_t most_numbers, nothing):
        self.parts, self.size = deque(), 0
        self.most_numbers, self.nothing = most_numbers, nothing

    def keep(self, tuple question not None, list answers not None):
        """Record copies of the answers to one question: :meth:`keep_answers`."""
        self.keep_answers(question, answers)

    cdef int keep_answers(self, tuple question, list answers) except -1:
        """Record copies of the answers (value, noise scale, receipt) to one question.

        A question is its label, its cost, and the parameters that it was asked at.
        """
        cdef Py_ssize_t at_size = 3, count, i
        cdef object cost = question[1]
        cdef list copies = []
        cdef tuple at, parts
        for i in range(2, len(question)):
            copies.append(kept(question[i], &at_size))
        at = tuple(copies)
        for answer in answers:
            if answer is self.nothing:
                continue
            parts = <tuple>answer
            count = at_size
            value = kept(parts[0], &count)
            self.parts.append(((<tuple>parts[2])[0], at, value, parts[1], cost, count))
            self.size += count
        while self.size > self.most_numbers and len(self.parts) > 1:
            self.size -= self.parts.popleft()[5]
        return 0

    @property
    def recorded(self):
        """Return a tuple (query, at, value, noise scale, cost) for each answer, oldest first."""
        return [tuple([shown(part) for part in parts[:5]]) for parts in self.parts]
