# Plans of questions about mapped rows at any clipping norm: public numbers in, public numbers out.

from libc.math cimport M_SQRT1_2, M_SQRT2, fmax, fmin, pow, sqrt

cdef extern from *:
    """
    static volatile double two = 2.0; /* as Python squares: no product in the place of a power */
    """
    double two

cdef object Receipt, Plan, kernel_and_plan, histogram_receipt
cdef double GRID_COST, SCALE_UP, LARGEST_VALUE


def connect_plans(receipt, plan, planned, histogram, double cost, double up, double largest):
    """Set the classes of plans, what plans or refuses in Python, and roundings of noise scales."""
    global Receipt, Plan, kernel_and_plan, histogram_receipt, GRID_COST, SCALE_UP, LARGEST_VALUE
    Receipt, Plan, kernel_and_plan, histogram_receipt = receipt, plan, planned, histogram
    GRID_COST, SCALE_UP, LARGEST_VALUE = cost, up, largest


# ---- histograms (claim C60) ----------------------------------------------------------------------

cdef dict histograms = {}  # receipt of a histogram by n and excess, of which only mu changes; public
cdef enum:
    MOST_HISTOGRAMS = 256


cdef tuple priced_histogram(n, excess, Py_ssize_t cells, double mu):
    """Make the receipt of a histogram, and its cost: ``histogram_receipt`` in Python, to the bit."""
    cdef object first = histograms.get((n, excess)), made
    cdef double scale
    if first is not None and mu > GRID_COST:
        query, claim, _, sensitivity, _ = <tuple>first
        scale = <double>sensitivity / (mu - GRID_COST) * SCALE_UP
        if 1e-200 <= scale <= 1e200 and (
                ldexp(<double>excess, grid_bits(cells)) <= LARGEST_VALUE * scale):
            made = new_tuple(Receipt, (query, claim, mu, sensitivity, scale))
            return made, price_of(mu)[0]
    made = histogram_receipt(n, excess, cells, mu)
    if len(histograms) >= MOST_HISTOGRAMS:
        histograms.clear()
    histograms[n, excess] = (<tuple>made)[0]
    return <tuple>made


def histogram_plan(n, excess, Py_ssize_t cells, double mu):
    """Return receipt and cost of a histogram (for tests)."""
    return priced_histogram(n, excess, cells, mu)


# ---- the price of means of one question (claims C17 and C72) -------------------------------------

cdef double peak(double slope, double quadratic) noexcept:
    """Maximise ``slope (1 + t) + quadratic (1 - t^2)`` over t in [0, 1]."""
    if slope >= 2.0 * quadratic:
        return 2.0 * slope
    return slope + quadratic + slope * slope / (4.0 * quadratic)


cdef double joint_mu(double gradient, double hessian, double meat, bint of_means,
                     double up) noexcept:
    """Bound the joint mu of any loss: ``sensitivity.joint_mu("independent", ...)``."""
    cdef double scale = fmax(fmax(gradient, hessian), meat), corners
    cdef double g = pow(gradient / scale, two), h = pow(hessian / scale, two)
    cdef double q = pow(meat / scale, two)
    cdef double squared = g + h + q
    if 4.0 * q <= g or not of_means:
        corners = fmax(peak(0.5 * g, h + q), peak(0.5 * g, q) + 0.5 * h)
        corners = fmax(corners, peak(0.25 * g, h) + 0.5 * q)
        squared = fmin(squared, fmax(corners, 0.5 * (g + h + q)))
    return scale * sqrt(squared) * up


cdef struct Mean:
    bint wanted
    int bits  # of the grid
    double mu
    double sensitivity
    double scale  # of the noise
    double grid
    double grid_off


cdef struct Question:
    # One question about mapped rows: its kernel, its price, and the noise of its means.
    int loss
    int weighting
    int want
    double c
    double h
    double norm
    double mu
    Mean[3] means  # gradient, Hessian, meat


cdef class RowPlans:
    """Plans of one question about mapped rows; its norm, cap and budgets are chosen later.

    They are released numbers, and what is left: they almost never repeat.  Claims and roundings do
    not depend on them: ``joint.make_plan`` found these once.  The rest are its formulas, in its
    order, so that the bits are the same.  It plans what is unusual, and has the words of refusals.

    Parameters
    ----------
    weights : type
    layout : Layout
    kernel, plan
        Those of norm 1, of cap 1 where there is one, and of these means at any mu.
    capped : bool
    roundings : tuple of float
        Factors for the roundings of a sum, of a sensitivity, of a noise scale, and of a grid off
        the diagonal; the mu that a grid costs.
    largest : float
        Grids that a record's bound may have, inverted.

    Attributes
    ----------
    usual : bool
        Whether the formulas here are those of these means; set by who compared them.
    """

    cdef object weights, layout, Kernel, label, size, finest
    cdef tuple names, claims
    cdef bint capped, of_means
    cdef public bint usual
    cdef int loss, weighting, want
    cdef double c, h, n, sum_up, up, scale_up, off_up, grid_mu, largest
    cdef Mean[3] means

    def __init__(self, weights, layout, kernel, plan, bint capped, roundings, double largest):
        cdef int i
        self.weights, self.layout, self.capped, self.usual = weights, layout, capped, False
        self.n, self.of_means = layout.n, layout.means
        self.sum_up, self.up, self.scale_up, self.off_up, self.grid_mu = roundings
        self.largest = largest
        self.Kernel, self.loss, self.weighting = type(kernel), kernel.loss_code, kernel.weighting
        self.c, self.h = kernel.c, kernel.h
        self.label, _, self.want, receipts, grids = plan
        self.size, self.finest, steps = grids
        self.names = tuple([receipt.query for receipt in receipts])
        self.claims = tuple([receipt.claim for receipt in receipts])
        for i in range(3):
            self.means[i].wanted = steps[i] is not None
            self.means[i].bits = steps[i][0] if self.means[i].wanted else 0

    cdef int ask(self, Question *question, double norm, double cap, double gradient,
                 double hessian, double meat) except -1:
        """Fill in all of a question at a clipping norm, a cap (0 without one) and these mu."""
        if self.fill(question, norm, cap, gradient, hessian, meat):
            return 0
        kernel, plan = self._planned_in_python(norm, cap, gradient, hessian, meat)
        cdef Mean *mean
        cdef int i
        question.loss, question.weighting = kernel.loss_code, kernel.weighting
        question.c, question.h, question.norm = kernel.c, kernel.h, kernel.radius
        question.want, question.mu = plan.want, plan.cost.mu
        for i in range(3):
            mean = &question.means[i]
            steps = plan.grids.steps[i]
            mean.wanted = steps is not None
            if mean.wanted:
                _, _, mean.mu, mean.sensitivity, mean.scale = plan.receipts[i]
                mean.bits, mean.grid, mean.grid_off = steps
        return 0

    cdef bint fill(self, Question *question, double norm, double cap, double gradient,
                   double hessian, double meat) except -1:
        """Fill in a usual question by the formulas; False where Python has to plan it."""
        cdef double size = cap if self.capped else 1.0, bound
        cdef double[3] mus = [gradient, hessian, meat]
        cdef Mean *mean
        cdef int i
        if not self.usual or (cap != 0.0) != self.capped:
            return False
        if not (1e-30 <= norm <= 1e30 and 1e-30 <= size <= 1e30):
            return False
        for i in range(3):
            question.means[i] = self.means[i]
            mean = &question.means[i]
            if not 0.0 <= mus[i] < INFINITY:
                return False
            if not mean.wanted:
                continue
            mean.mu = mus[i]
            if i == 0:  # a gradient (claim C13)
                bound = size * norm
                mean.sensitivity = 2.0 * bound / self.n * self.sum_up * self.up
            else:  # a Hessian or a meat (claim C14)
                bound = pow(norm, two)
                mean.sensitivity = M_SQRT2 * bound / self.n * self.sum_up * self.up
            mean.scale = mean.sensitivity / (mus[i] - self.grid_mu) * self.scale_up
            mean.grid = ldexp(mean.scale, -mean.bits)
            mean.grid_off = mean.grid * M_SQRT1_2 * self.off_up if i else 0.0
            if not (mus[i] > self.grid_mu and bound * self.largest <= mean.grid):
                return False
        question.loss, question.weighting, question.want = self.loss, self.weighting, self.want
        question.c, question.h, question.norm = cap if self.capped else self.c, self.h, norm
        question.mu = joint_mu(gradient, hessian, meat, self.of_means, self.up)
        return True

    cdef tuple receipts(self, const Question *question):
        """Make the receipts of a question's means."""
        cdef const Mean *mean
        cdef list receipts = []
        cdef int i
        for i in range(3):
            mean = &question.means[i]
            receipts.append(NOTHING[2] if not mean.wanted else new_tuple(Receipt, (
                self.names[i], self.claims[i], mean.mu, mean.sensitivity, mean.scale
            )))
        return tuple(receipts)

    cdef object kernel(self, const Question *question):
        """Make the kernel of a question, for sums that are not made here."""
        return self.Kernel(
            question.loss, question.c, 1.0, question.weighting, question.norm, False, h=question.h
        )

    def at(self, double norm, double cap, double gradient, double hessian, double meat):
        """Return kernel and plan at a clipping norm, a cap (0 without one) and these mu."""
        cdef Question question
        cdef list steps = []
        cdef Mean *mean
        cdef int i
        if not self.fill(&question, norm, cap, gradient, hessian, meat):
            return self._planned_in_python(norm, cap, gradient, hessian, meat)
        for i in range(3):
            mean = &question.means[i]
            steps.append((mean.bits, mean.grid, mean.grid_off) if mean.wanted else None)
        grids = new_tuple(Grids, (self.size, self.finest, tuple(steps)))
        return self.kernel(&question), new_tuple(Plan, (
            self.label, price_of(question.mu)[0], self.want, self.receipts(&question), grids
        ))

    def _planned_in_python(self, norm, cap, gradient, hessian, meat):
        """Plan or refuse by the function that has the words of refusals."""
        return kernel_and_plan(self.weights, norm, cap, self.layout, gradient, hessian, meat)
