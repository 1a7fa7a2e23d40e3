# The acquisition's trace for other compiled modules.
#
# `kernel` is an AcquisitionKernel of dpfast.kernels.acquisition; one thread at a time works with it,
# and others wait.  `Z` holds b points of d coordinates, `theta` one.  The derivative with respect to
# Z, b * d numbers, is written to `gradient`.  Needs the GIL, which it lets go while it computes; NaN
# with an exception set where it fails.  Public numbers only.
cdef double value_and_gradient_at(object kernel, const double *Z, Py_ssize_t b, Py_ssize_t d,
                                  const double *theta, double *gradient) except? -1.0
