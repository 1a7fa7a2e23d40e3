# Counts below thresholds of columns, and the bisection that asks them (claims D2 and D4).

cdef object query_mu, complete_weight, next_key, is_tie, counts_receipt, window_of, turned_records
cdef double ABOVE, INSIDE, STOP_SDS
cdef int PATIENCE


def connect_counts(receipt, weight, window, turned):
    """Set the receipt of counts, the weight of the complete records, and how keys are counted."""
    global counts_receipt, complete_weight, window_of, turned_records
    counts_receipt, complete_weight, window_of, turned_records = receipt, weight, window, turned


def connect_bisection(price, key, tie, double above, double inside, double stop_sds, int patience):
    """Set the public rules of a bisection; ``dpfast.scaling.search`` documents them."""
    global query_mu, next_key, is_tie, ABOVE, INSIDE, STOP_SDS, PATIENCE
    query_mu, next_key, is_tie = price, key, tie
    ABOVE, INSIDE, STOP_SDS, PATIENCE = above, inside, stop_sds, patience


cdef class ColumnQuestions:
    """Base of queries about columns: how many records lie below thresholds.

    Attributes
    ----------
    _windows : dict
        Exact counts in the windows that were read, by column and window.
    _complete : int
        Number of complete records, once a window was read.
    _few : bool
        Whether records are in memory, and fewer than the cells of a window.
    """

    cdef public object ledger, _noise, _records, _max_records, _complete, _few_turned
    cdef public bint _few
    cdef public dict _windows

    def below(self, thresholds, mu, later=()):
        """Release how many complete records have a key below each threshold: ``mu`` (claim D2)."""
        cdef list places = [(column, window_of(key)) for column, key in thresholds]
        cdef Py_ssize_t m = len(places), i
        cdef cnp.npy_intp size = m + 1
        receipt, cost = counts_receipt(self._max_records, m, mu)
        charge(self.ledger, cost, (<tuple>receipt)[0])
        cdef cnp.ndarray value = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
        cdef double *centred = <double *>cnp.PyArray_DATA(value)
        # exact: halves and 32nds of integers below 2^33
        cdef double half = 0.5 * self._count(thresholds, places, centred, later)
        for i in range(m):
            centred[i] -= half
        centred[m] *= <double>complete_weight(m)
        question = ((<tuple>receipt)[0], mu, tuple(thresholds))
        return release_with_noise(self._noise, question, receipt, value)

    def _turned(self):
        """Return these few records in columns; they are read once."""
        if self._few_turned is None:
            self._few_turned = self._records.total(turned_records)
        return self._few_turned

    cdef double _count(self, thresholds, list places, double *counts, later) except? -1.0:
        """Count records below each threshold, and last the complete ones, which are returned."""
        cdef Py_ssize_t i, m = len(places)
        cdef list below
        if self._few:  # a pass over them is shorter than one over the cells of a window
            below = self._turned().below(thresholds)
            for i in range(m):
                counts[i] = <double>below[i]
            counts[m] = self._few_turned.n_complete
            return counts[m]
        for place in places:
            if place not in self._windows:
                self._count_windows(thresholds, later)
                break
        for i in range(m):
            shift, start = places[i][1]
            counts[i] = <double>self._windows[places[i]][(thresholds[i][1] - start) >> shift]
        counts[m] = self._complete
        return counts[m]


cdef class Quantile:
    """Interval of keys that contains a quantile of a column."""

    cdef public object low, high
    #: Counts at the ends, minus three fifths of the records.
    cdef public double below, above
    #: Answers in a row that the quantile is lower.
    cdef public int patience

    def __init__(self, low, high):
        self.low, self.high, self.patience = low, high, 0
        self.below, self.above = -INFINITY, INFINITY


cdef class Bisection:
    """Base of a search for scales: narrows intervals of keys by noisy counts, within a plan.

    Attributes
    ----------
    least : float
        Complete records below which a search makes no sense, and stops after its counts.
    """

    cdef public object _answers, _every, _of_labels, _labelled, _within
    cdef public dict _quantiles
    cdef public double _spent, _complete, _precision, least

    @property
    def counted(self):
        """Estimated number of complete records, once asked with a valid label; its noise (D2)."""
        if self.labels_counted:
            return self._labelled
        return self._complete, max(self._precision, 1e-300) ** -0.5

    @property
    def labels_counted(self):
        """Whether the number of records with a valid label was asked."""
        return self._labelled[1] > 0.0

    @property
    def too_few(self):
        """Whether too few records are complete, beyond the noise of the counts so far."""
        if not self.least > 0.0:
            return False
        return (self._is_below(*self.counted, STOP_SDS)
                or self._is_below(*self._within, STOP_SDS))

    def _is_below(self, double count, double noise, double deviations):
        """Say whether a count is so many deviations below the least that makes sense."""
        if self._every is not self._answers:  # if there were as many, a sample would vary, too
            noise = hypot(noise, self.least ** 0.5)
        return self.least > 0.0 and count + deviations * noise < self.least

    def _narrow(self, columns, planned, total):
        """Narrow the intervals of these columns, for at most so many counts of a total."""
        cdef Quantile quantile
        cdef list thresholds, counts
        cdef double mu, count
        cdef Py_ssize_t remaining = planned
        while not self.too_few:
            thresholds = self._next(columns)[:remaining]
            if not thresholds:
                return
            remaining -= len(thresholds)
            mu = query_mu(total, planned, len(thresholds))
            self._spent += mu * mu
            counts = self._counts(self._answers.below(thresholds, mu, self._of_labels))
            for (column, key), count in zip(thresholds, counts, strict=True):
                quantile = self._quantiles[column]
                if count < 0.0:
                    quantile.low, quantile.below, quantile.patience = key, count, 0
                else:
                    quantile.high, quantile.above = key, count
                    quantile.patience += 1

    def _counts(self, answer):
        """Return counts centred at the quantile; refine the number of complete records."""
        cdef list values = (<tuple>answer)[0].tolist()
        cdef double last = values.pop(), weight = complete_weight(len(values)), above
        cdef double precision = weight / <double>(<tuple>answer)[1]
        precision *= precision
        self._precision += precision
        self._complete += precision / self._precision * (last / weight - self._complete)
        above = ABOVE * self._complete
        return [<double>value - above for value in values]

    def _asking(self, columns):
        """Return the columns for which another count helps: wide intervals that are not ties."""
        cdef Quantile quantile
        cdef list found = []
        for column in columns:
            quantile = self._quantiles[column]
            if not (quantile.above - quantile.below < INSIDE * self._complete
                    or is_tie(quantile.low, quantile.high)):
                found.append(column)
        return found

    def _next(self, columns):
        """Return the next thresholds, of the coarsest cells first: few passes then serve all."""
        cdef Quantile quantile
        cdef list thresholds = []
        coarsest = 0
        for column in self._asking(columns):
            quantile = self._quantiles[column]
            key, level = next_key(quantile.low, quantile.high, quantile.patience >= PATIENCE)
            if level > coarsest:
                thresholds, coarsest = [], level
            if level == coarsest:
                thresholds.append((column, key))
        return thresholds
