# The bisection that asks counts, and the histograms of distances from where it ends (claim D4).

cdef object query_mu
cdef double ABOVE, INSIDE, STOP_SDS, ROUNDING_SUM, INDICATOR_CENTRE, INDICATOR_NEAREST
cdef int PATIENCE, INDICATOR_OCTAVES, OCTAVES_OF_SCALE


def connect_bisection(price, double above, double inside, double stop_sds, int patience,
                      double rounding, indicator, octaves):
    """Set the public rules of a search; ``dpfast.scaling`` documents them."""
    global query_mu, ABOVE, INSIDE, STOP_SDS, PATIENCE, ROUNDING_SUM
    global INDICATOR_CENTRE, INDICATOR_NEAREST, INDICATOR_OCTAVES, OCTAVES_OF_SCALE
    query_mu, ABOVE, INSIDE, STOP_SDS, PATIENCE = price, above, inside, stop_sds, patience
    ROUNDING_SUM = rounding
    INDICATOR_CENTRE, INDICATOR_NEAREST = indicator
    INDICATOR_OCTAVES, OCTAVES_OF_SCALE = octaves


cdef class Quantile:
    """Interval of keys that contains a quantile of a column, and the distances from there.

    Attributes
    ----------
    far : bool
        Whether records are beyond the octaves that were measured first, or the centre moved after
        them: the interval of counts in doubt may be far narrower than the scale.
    """

    cdef public int64_t low, high
    #: Counts at the ends, minus three fifths of the records.
    cdef public double below, above
    #: Answers in a row that the quantile is lower.
    cdef public int patience
    cdef public bint far
    cdef DistanceHistogram histogram

    def __init__(self, low, high):
        self.low, self.high, self.patience = low, high, 0
        self.below, self.above = -INFINITY, INFINITY

    cdef int octaves(self) noexcept:
        """Return the octaves on a side: few where the interval of the centre tells the scale."""
        return SIDE if self.far or is_tie(self.low, self.high) else OCTAVES_OF_SCALE

    cdef void update(self, int64_t key, double count) noexcept:
        """Move the end of the interval that a centred count says."""
        if count < 0.0:
            self.low, self.below, self.patience = key, count, 0
        else:
            self.high, self.above = key, count
            self.patience += 1


cdef class Bisection:
    """Base of a search for scales: narrows intervals of keys by noisy counts, within a plan.

    Attributes
    ----------
    least : float
        Complete records below which a search makes no sense, and stops after its counts.
    """

    cdef public object _answers, _every, _of_labels, _labelled, _within, shares
    cdef public dict _quantiles
    cdef public double _total, _spent, _complete, _precision, least, share_noise

    @property
    def counted(self):
        """Estimated number of complete records, once asked with a valid label; its noise (D2)."""
        if self.labels_counted:
            return self._labelled
        return self._complete, self._deviation()

    cdef double _deviation(self) noexcept:
        """Return the standard deviation of the noise of the number of complete records."""
        return pow(larger(self._precision, 1e-300), -0.5)

    @property
    def labels_counted(self):
        """Whether the number of records with a valid label was asked."""
        return (<tuple>self._labelled)[1] > 0.0

    @property
    def too_few(self):
        """Whether too few records are complete, beyond the noise of the counts so far."""
        return self._few_complete()

    cdef bint _few_complete(self) except -1:
        cdef tuple labelled, within
        if not self.least > 0.0:
            return False
        labelled, within = self._labelled, self._within
        if <double>labelled[1] > 0.0:
            if self._below_least(labelled[0], labelled[1], STOP_SDS):
                return True
        elif self._below_least(self._complete, self._deviation(), STOP_SDS):
            return True
        return self._below_least(within[0], within[1], STOP_SDS)

    cdef bint _below_least(self, double count, double noise, double deviations) noexcept:
        if self._every is not self._answers:  # if there were as many, a sample would vary, too
            noise = hypot(noise, pow(self.least, 0.5))
        return self.least > 0.0 and count + deviations * noise < self.least

    def _is_below(self, double count, double noise, double deviations):
        """Say whether a count is so many deviations below the least that makes sense."""
        return self._below_least(count, noise, deviations)

    def tied(self, column):
        """Say whether about a fifth of the records have the same entry, or zero, in a column."""
        cdef Quantile quantile = self._quantiles[column]
        return (is_tie(quantile.low, quantile.high)
                and quantile.above - quantile.below > INSIDE * larger(self._complete, 1.0))

    def _left(self, double reserved):
        """Return the mu that may be spent while this part of mu^2 is reserved."""
        cdef double rest = (1.0 - reserved) * (self._total * self._total) - self._spent
        return sqrt(larger(0.0, rest)) * (1.0 - ROUNDING_SUM)

    # -- counts

    def _narrow(self, columns, planned, double total):
        """Narrow the intervals of these columns, for at most so many counts of a total."""
        cdef Quantile quantile
        cdef list thresholds
        cdef double mu, above
        cdef const double *count
        cdef Py_ssize_t remaining = planned, i
        while not self._few_complete():
            thresholds = self._next(columns)[:remaining]
            if not thresholds:
                return
            remaining -= len(thresholds)
            mu = query_mu(total, planned, len(thresholds))
            self._spent += mu * mu
            answer = self._answers.below(thresholds, mu, self._of_labels)
            counts = doubles((<tuple>answer)[0])
            count = <const double *>cnp.PyArray_DATA(<cnp.ndarray>counts)
            above = self._refined(answer, len(thresholds), count)
            for i, (column, key) in enumerate(thresholds):
                quantile = self._quantiles[column]
                quantile.update(key, count[i] - above)

    cdef double _refined(self, answer, Py_ssize_t m, const double *count) except? -1.0:
        """Refine the number of complete records; return what counts are at the quantile."""
        cdef double weight = complete_weight(m), precision = weight / <double>(<tuple>answer)[1]
        precision *= precision
        self._precision += precision
        self._complete += precision / self._precision * (count[m] / weight - self._complete)
        return ABOVE * self._complete

    def _counts(self, answer):
        """Return counts centred at the quantile; refine the number of complete records."""
        cdef cnp.ndarray counts = doubles((<tuple>answer)[0])
        cdef const double *count = <const double *>cnp.PyArray_DATA(counts)
        cdef Py_ssize_t i, m = cnp.PyArray_SIZE(counts) - 1
        cdef double above = self._refined(answer, m, count)
        return [count[i] - above for i in range(m)]

    cdef bint _helps(self, Quantile quantile) noexcept:
        """Say whether another count helps: the interval is wide, and no tie."""
        return not (quantile.above - quantile.below < INSIDE * self._complete
                    or is_tie(quantile.low, quantile.high))

    def _asking(self, columns):
        """Return the columns for which another count helps."""
        return [column for column in columns if self._helps(<Quantile?>self._quantiles[column])]

    cdef list _next(self, columns):
        """Return the next thresholds, of the coarsest cells first: few passes then serve all."""
        cdef Quantile quantile
        cdef list thresholds = []
        cdef int coarsest = 0, level
        cdef int64_t key
        for column in columns:
            quantile = self._quantiles[column]
            if not self._helps(quantile):
                continue
            key = next_key(quantile.low, quantile.high, quantile.patience >= PATIENCE)
            level = level_of(key)
            if level > coarsest:
                thresholds, coarsest = [], level
            if level == coarsest:
                thresholds.append((column, key))
        return thresholds

    # -- distances

    def _measure(self, columns, double reserved, indicators=()):
        """Measure these columns by a histogram of distances; reserve this part of mu^2."""
        cdef list measured = [*columns, *indicators], octaves = []
        cdef Py_ssize_t i, m = len(columns)
        cdef cnp.npy_intp size = len(measured)
        cdef Quantile quantile
        if not size:
            return {}
        centres = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
        nearest = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
        cdef double *centre = <double *>cnp.PyArray_DATA(<cnp.ndarray>centres)
        cdef double *near = <double *>cnp.PyArray_DATA(<cnp.ndarray>nearest)
        for i in range(size):
            if i < m:
                quantile = self._quantiles[measured[i]]
                place_of(quantile.low, quantile.high, &centre[i], &near[i])
                octaves.append(quantile.octaves())
            else:
                centre[i], near[i] = INDICATOR_CENTRE, INDICATOR_NEAREST
                octaves.append(INDICATOR_OCTAVES)
        cdef double mu = self._left(reserved), complete = larger(self._complete, 1.0), noise
        answer = self._answers.distances(measured, centres, nearest, octaves, mu)
        self._spent += mu * mu
        noise = (<tuple>answer)[1]
        if indicators:
            self.shares = (<tuple>answer)[0][m:, 0, 1] / complete
            self.share_noise = noise / complete
        cdef cnp.ndarray cells = doubles((<tuple>answer)[0])
        cdef dict found = {}
        for i in range(m):
            quantile = self._quantiles[measured[i]]
            self._pool(quantile, centre[i], near[i], octaves[i],
                       <const double *>cnp.PyArray_DATA(cells) + 2 * SIDE * i, noise)
            found[measured[i]] = quantile.histogram.scale(complete)
        return found

    cdef int _pool(self, Quantile quantile, double centre, double nearest, Py_ssize_t octaves,
                   const double *cells, double noise) except -1:
        """Keep the histogram of a column, with an earlier one of the same distances."""
        cdef DistanceHistogram histogram = DistanceHistogram.__new__(DistanceHistogram)
        histogram.centre, histogram.nearest, histogram.noise = centre, nearest, noise
        histogram.octaves = octaves
        if cells[SIDE - 1] + cells[2 * SIDE - 1] > 0.5 * self._complete:  # counts went wrong
            quantile.low, quantile.high = 0, BINADE
        else:
            memcpy(histogram.cells, cells, sizeof(histogram.cells))
        if histogram.ends_too_early():
            quantile.far = True
        if quantile.histogram is not None:
            histogram.join(quantile.histogram)
        quantile.histogram = histogram
        return 0
