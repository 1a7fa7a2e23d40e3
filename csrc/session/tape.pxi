# The tape of a run: copies of what was released, for its caller if the run ends early.
#
# Released and public numbers only.  Nobody can change afterwards what a partial result shows: an
# array is copied unless it is its own and read-only.

from collections import deque


cdef inline bint is_plain(object value):
    """Say whether a value counts as one number and cannot change."""
    cdef object kind = type(value)
    return kind is float or kind is int or kind is str or value is None or kind is bool


cdef object kept(object value, Py_ssize_t *count):
    """Return a value or a copy of it; add the numbers that it holds to a count."""
    cdef bint all_plain = True
    if is_plain(value):
        count[0] += 1
        return value
    if cnp.PyArray_Check(value):
        count[0] += cnp.PyArray_SIZE(<cnp.ndarray> value)
        if cnp.PyArray_CheckExact(value):
            if (not cnp.PyArray_ISWRITEABLE(<cnp.ndarray> value)
                    and cnp.PyArray_BASE(<cnp.ndarray> value) == NULL):
                return value
            return cnp.PyArray_NewCopy(<cnp.ndarray> value, cnp.NPY_CORDER)
        return value.copy()
    if not isinstance(value, tuple):
        count[0] += 1
        return value
    for part in value:
        all_plain = all_plain and is_plain(part)
    if all_plain:
        count[0] += len(value)
        return value
    copies = tuple([kept(part, count) for part in value])
    return copies if type(value) is tuple else value  # such as a view, whose arrays are its own


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

    def keep(self, tuple question not None, answers):
        """Record copies of the answers (value, noise scale, receipt) to one question.

        A question is its label, its cost, and the parameters that it was asked at.
        """
        cdef Py_ssize_t at_size = 3, count
        cdef object cost = question[1]
        cdef tuple at = question[2:]
        cdef list copies = [kept(part, &at_size) for part in at]
        at = tuple(copies)
        for answer in answers:
            if answer is self.nothing:
                continue
            value, scale, receipt = answer
            count = at_size
            value = kept(value, &count)
            self.parts.append((receipt[0], at, value, scale, cost, count))
            self.size += count
        while self.size > self.most_numbers and len(self.parts) > 1:
            self.size -= self.parts.popleft()[5]

    @property
    def recorded(self):
        """Return a tuple (query, at, value, noise scale, cost) for each answer, oldest first."""
        return [part[:5] for part in self.parts]
