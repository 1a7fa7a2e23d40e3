# The judge of the kernels' public arguments; part of records.pyx.

# What may be wrong with the arguments: one judge for Python and for the C functions.
cdef enum:
    FINE
    NO_SUCH_LOSS
    NO_SUCH_WEIGHTING
    NO_RESIDUAL
    BAD_C
    BAD_SCALE
    BAD_RADIUS
    BAD_H
    BAD_LARGEST_WEIGHT
    BAD_BOUND
    NO_ROOM
    NO_FREE_SCALE
    BAD_FREE_SCALE
    NO_SUCH_SUM
    CLIPPED_HESSIAN
    REDESCENDING_HESSIAN
    UNBOUNDED_HESSIAN

cdef int REFUSED = -2


cdef bint in_range(double value) noexcept nogil:
    return 1e-100 <= value <= 1e100


cdef double score_bound(const records_model *m) noexcept nogil:
    return records_steepest(m.loss, m.c, m.h) * m.radius * m.largest_weight


cdef int settle(records_model *m) noexcept nogil:
    """Set the constants this loss does not have to 1, and judge the others."""
    cdef double bound
    cdef int traits = records_loss_traits(m.loss)
    if traits < 0:
        return NO_SUCH_LOSS
    if not BOUNDED <= m.weighting <= MALLOWS_LINEAR:
        return NO_SUCH_WEIGHTING
    if traits & OF_PREDICTOR:
        m.scale = 1.0
        if m.weighting == SCHWEPPE:
            return NO_RESIDUAL
    if traits & C_IS_ONE:
        m.c = 1.0
    if not traits & USES_H:
        m.h = 1.0
    if not in_range(m.c):
        return BAD_C
    if not in_range(m.scale):
        return BAD_SCALE
    if not in_range(m.radius):
        return BAD_RADIUS
    if not in_range(m.h):
        return BAD_H
    if not in_range(m.largest_weight):
        return BAD_LARGEST_WEIGHT
    bound = score_bound(m)
    if m.weighting != CLIP and not 1e-140 <= bound <= 1e140:
        return BAD_BOUND
    if m.weighting == BOUNDED and m.intercept and not m.radius > 1.0:
        return NO_ROOM
    if m.scale_factor != 0.0:
        if not traits & FREE_SCALE or m.weighting not in (BOUNDED, MALLOWS):
            return NO_FREE_SCALE
        if not (in_range(m.scale_factor) and 0.0 <= m.kappa <= 1e100):
            return BAD_FREE_SCALE
        m.scale = 1.0
    return FINE


cdef int judge_want(const records_model *m, int want) noexcept nogil:
    if not 1 <= (want & ~WANT_MAJORIZE) <= 7 or (want & MAJORIZER_ONLY) == WANT_MAJORIZE:
        return NO_SUCH_SUM
    if want & WANT_HESSIAN:
        if m.weighting == CLIP:
            return CLIPPED_HESSIAN
        if records_loss_traits(m.loss) & NO_CURVATURE:
            return REDESCENDING_HESSIAN
        if m.weighting == MALLOWS_LINEAR:
            return UNBOUNDED_HESSIAN
    return FINE


cdef str explanation(int fault, const records_model *m, int want):
    """Describe a fault to the caller."""
    if fault == NO_SUCH_LOSS:
        return f"loss must be one of {LOSS_CODES} or {LOSS_USER}; got {m.loss}"
    if fault == NO_SUCH_WEIGHTING:
        return f"weighting must be one of {WEIGHT_CODES}; got {m.weighting}"
    if fault == NO_RESIDUAL:
        return "logistic and Poisson losses have no residual for Schweppe weights to scale"
    for code, name, value in ((BAD_C, "c", m.c), (BAD_SCALE, "scale", m.scale),
                              (BAD_RADIUS, "radius", m.radius), (BAD_H, "h", m.h),
                              (BAD_LARGEST_WEIGHT, "largest_weight", m.largest_weight)):
        if fault == code:
            return f"{name} must lie between 1e-100 and 1e100; got {value}"
    if fault == BAD_BOUND:
        return ("the bound on a record's score, radius times the largest psi times the largest "
                "weight, must lie between "
                f"1e-140 and 1e140 for its square to be representable; got {score_bound(m)}")
    if fault == NO_ROOM:
        return ("radius must exceed 1 with an intercept, whose own entry is 1; "
                f"got {m.radius}")
    if fault == NO_FREE_SCALE:
        free = [code for code in LOSS_CODES.values() if records_loss_traits(code) & FREE_SCALE]
        return (f"a free scale needs a loss out of {free} and bounded or Mallows weights (0 or 1); "
                f"got {m.loss}, {m.weighting}")
    if fault == BAD_FREE_SCALE:
        return ("scale_factor must lie between 1e-100 and 1e100 and kappa between 0 and 1e100; "
                f"got {m.scale_factor} and {m.kappa}")
    if fault == CLIPPED_HESSIAN:
        return "per-record clipping has no Hessian; ask for GRADIENT or MEAT"
    if fault == REDESCENDING_HESSIAN:
        return ("a redescending loss has no Hessian that is bounded below by zero; "
                "ask for GRADIENT or MEAT")
    if fault == UNBOUNDED_HESSIAN:
        return ("weights min(1, R/||x||) leave the Hessian without a bound; ask for "
                "GRADIENT or MEAT")
    return ("want must be a sum of GRADIENT (1), HESSIAN (2) or MAJORIZER (34), MEAT (4); "
            f"got {want}")
