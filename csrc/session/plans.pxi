# Plans of questions about mapped rows at any clipping norm: public numbers in, public numbers out.

from libc.math cimport M_SQRT1_2, M_SQRT2

cdef object Receipt, Plan, kernel_and_plan, joint_price


def connect_plans(receipt, plan, planned, price):
    """Set the classes of plans, and what plans or refuses, and what prices, in Python."""
    global Receipt, Plan, kernel_and_plan, joint_price
    Receipt, Plan, kernel_and_plan, joint_price = receipt, plan, planned, price


cdef struct Mean:
    bint wanted
    int bits  # of the grid


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

    cdef object weights, layout, Kernel, label, want, size, finest
    cdef tuple names, claims
    cdef bint capped, of_means
    cdef public bint usual
    cdef int loss, weighting
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

    def at(self, double norm, double cap, double gradient, double hessian, double meat):
        """Return kernel and plan at a clipping norm, a cap (0 without one) and these mu."""
        cdef double size = cap if self.capped else 1.0, bound, sensitivity, scale, grid
        cdef list receipts = [], steps = []
        cdef double[3] mus = [gradient, hessian, meat]
        cdef Mean *mean
        cdef int i
        if not self.usual or (cap != 0.0) != self.capped:
            return self._planned_in_python(norm, cap, gradient, hessian, meat)
        if not (1e-30 <= norm <= 1e30 and 1e-30 <= size <= 1e30):
            return self._planned_in_python(norm, cap, gradient, hessian, meat)
        for i in range(3):
            mean = &self.means[i]
            if not mean.wanted:
                receipts.append(NOTHING[2])
                steps.append(None)
                continue
            if i == 0:  # a gradient (claim C13)
                bound = size * norm
                sensitivity = 2.0 * bound / self.n * self.sum_up * self.up
            else:  # a Hessian or a meat (claim C14); C multiplies where Python takes a power
                bound = (<object>norm) ** 2
                sensitivity = M_SQRT2 * bound / self.n * self.sum_up * self.up
            scale = sensitivity / (mus[i] - self.grid_mu) * self.scale_up
            grid = ldexp(scale, -mean.bits)
            if not (mus[i] > self.grid_mu and bound * self.largest <= grid):
                return self._planned_in_python(norm, cap, gradient, hessian, meat)
            receipts.append(new_tuple(
                Receipt, (self.names[i], self.claims[i], mus[i], sensitivity, scale)
            ))
            steps.append((mean.bits, grid, grid * M_SQRT1_2 * self.off_up if i else 0.0))
        kernel = self.Kernel(
            self.loss, cap if self.capped else self.c, 1.0, self.weighting, norm, False, h=self.h
        )
        grids = new_tuple(Grids, (self.size, self.finest, tuple(steps)))
        cost = joint_price(gradient, hessian, meat, self.of_means)
        return kernel, new_tuple(
            Plan, (self.label, cost, self.want, tuple(receipts), grids)
        )

    def _planned_in_python(self, norm, cap, gradient, hessian, meat):
        """Plan or refuse by the function that has the words of refusals."""
        return kernel_and_plan(self.weights, norm, cap, self.layout, gradient, hessian, meat)
