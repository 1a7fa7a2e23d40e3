# cython: language_level=3, boundscheck=False, wraparound=False
"""Exact samplers on random bits, and noise addition on a public grid.

The bits are the operating system's, or those of a supplier for tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport floor, ldexp
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cimport cython
cimport numpy as cnp

from dpfast.errors import EntropyFailure, InvalidInput

cnp.import_array()


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)

cdef extern from "sampler/sampler_core.h":
    ctypedef struct dpf_stream:
        uint64_t position
        uint64_t length
        uint64_t consumed
        void *owner
        unsigned char *bytes
    enum:
        DPF_OK
        DPF_NOT_RANDOM
        DPF_PAGE_BYTES
    int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits) except? -1 nogil
    int dpf_discrete_laplace(dpf_stream *stream, int64_t *out, size_t size, uint64_t numerator,
                             uint64_t denominator) except? -1 nogil
    int64_t dpf_nearest(double value, double grid) nogil
    void dpf_release(const double *value, const int64_t *noise, double *out, size_t size,
                     double grid) nogil
    void dpf_release_symmetric(const double *matrix, const int64_t *noise, double *out, size_t p,
                               double grid, double grid_off) nogil

cdef extern from "sampler/entropy.h":
    dpf_stream *dpf_stream_new(int (*refill)(dpf_stream *stream) except -1, void *owner)
    void dpf_stream_free(dpf_stream *stream)
    void dpf_erase(dpf_stream *stream) nogil
    void dpf_renew_if_forked(dpf_stream *stream, int (*refill)(dpf_stream *stream) except -1,
                             void *owner)
    void dpf_wipe(void *memory, size_t size)
    int dpf_constant(const unsigned char *bytes, size_t size)
    dpf_stream *dpf_thread_stream() nogil

# The same functions on a stream that never calls Python.
cdef extern from "sampler/sampler_core.h" nogil:
    int thread_normals "dpf_normals"(dpf_stream *stream, int64_t *out, size_t size, int bits)
    int thread_laplace "dpf_discrete_laplace"(dpf_stream *stream, int64_t *out, size_t size,
                                              uint64_t numerator, uint64_t denominator)


MIN_BITS = 1
MAX_BITS = 44
BUFFER_BYTES = DPF_PAGE_BYTES
NOT_RANDOM = (
    "the random bytes are not random: they produced an event whose probability is below 2^-1000. "
    "No noise was drawn. Check the operating system's entropy source."
)
NO_ENTROPY = (
    "the operating system gave no random bytes. No noise was drawn. Check its entropy source."
)


cdef int refill_from_owner(dpf_stream *stream) except -1:
    """Ask the owner's supplier for a page full of fresh bytes.

    One thread at a time works with a sampler that has a supplier: under the GIL, or in a critical
    section of the interpreter without one.  The supplier may give up either; another thread that
    draws meanwhile refills for itself, and whoever comes back last overwrites what is left with its
    own fresh bytes: bytes may be dropped, they are never used twice.
    """
    cdef ExactSampler sampler = <ExactSampler>stream.owner
    cdef object data = sampler.supply(BUFFER_BYTES)
    if type(data) is not bytes or len(data) != BUFFER_BYTES:
        raise EntropyFailure(
            f"the supplier of random bytes must return {BUFFER_BYTES} bytes; it returned "
            f"{type(data).__name__} of length {len(data)}. No noise was drawn."
        )
    if dpf_constant(<unsigned char *>PyBytes_AS_STRING(data), DPF_PAGE_BYTES):
        raise EntropyFailure(NOT_RANDOM)
    memcpy(stream.bytes, PyBytes_AS_STRING(data), DPF_PAGE_BYTES)
    if Py_REFCNT(data) == 1:  # nobody else holds it: leave no second copy of the bytes behind
        dpf_wipe(PyBytes_AS_STRING(data), DPF_PAGE_BYTES)
    stream.position = 0
    stream.length = DPF_PAGE_BYTES
    return 0


cdef int failed(dpf_stream *stream, int status) except -1 nogil:
    """Raise the error of a draw that stopped; what is left of its bytes is erased."""
    dpf_erase(stream)
    with gil:
        raise EntropyFailure(NOT_RANDOM if status == DPF_NOT_RANDOM else NO_ENTROPY)


cdef dpf_stream *ready_stream() except NULL nogil:
    cdef dpf_stream *stream = dpf_thread_stream()
    if stream == NULL:
        with gil:
            raise MemoryError("no page for the random bytes of this thread")
    return stream


# ---- for other compiled modules; documented in dpfast/kernels/sampler.pxd ----------------------

cdef int entropy_normals(int64_t *out, Py_ssize_t size, int bits) except -1 nogil:
    cdef dpf_stream *stream = ready_stream()
    cdef int status = thread_normals(stream, out, size, bits)
    return 0 if status == DPF_OK else failed(stream, status)


cdef int entropy_laplace(int64_t *out, Py_ssize_t size, int64_t numerator,
                         int64_t denominator) except -1 nogil:
    cdef dpf_stream *stream = ready_stream()
    cdef int status = thread_laplace(stream, out, size, numerator, denominator)
    return 0 if status == DPF_OK else failed(stream, status)


cdef int exact_normals(object sampler, int64_t *out, Py_ssize_t size, int bits) except -1:
    return (<ExactSampler?>sampler).draw_normals(out, size, bits)


cdef int exact_laplace(object sampler, int64_t *out, Py_ssize_t size, int64_t numerator,
                       int64_t denominator) except -1:
    return (<ExactSampler?>sampler).draw_laplace(out, size, numerator, denominator)


cdef void add_noise(const double *value, const int64_t *noise, double *out, Py_ssize_t size,
                    double grid) noexcept nogil:
    dpf_release(value, noise, out, size, grid)


cdef class ExactSampler:
    """Exact discrete samples from the operating system's random bytes, or from a supplier's.

    Parameters
    ----------
    supply : callable, optional
        For tests: called with a number of bytes, returns that many independent uniform bytes.

    Notes
    -----
    The system's bytes are kept in one page for each thread, a supplier's in one page for each
    sampler.  Bits leave the page as they are used, and a forked process never sees its parent's.
    """

    cdef dpf_stream *stream  # of the supplier's bytes; NULL without one
    cdef readonly object supply

    def __cinit__(self, supply=None):
        self.supply = supply
        if supply is None:
            return
        self.stream = dpf_stream_new(refill_from_owner, <void *>self)
        if self.stream == NULL:
            raise MemoryError("no page for the supplier's random bytes")

    def __dealloc__(self):
        if self.stream != NULL:
            dpf_stream_free(self.stream)

    def __reduce__(self):
        raise TypeError("random bytes are not copied: an ExactSampler cannot be pickled")

    @property
    def consumed(self):
        """Bytes used since the page was new; of the system's, by this thread."""
        return (ready_stream() if self.stream == NULL else self.stream).consumed

    def normals(self, Py_ssize_t size, int bits):
        """Draw ``floor(2**bits * Z)`` for ``size`` independent exactly normal Z, int64."""
        if size < 0 or bits < MIN_BITS or bits > MAX_BITS:
            raise InvalidInput(
                f"size must be at least 0 and bits in [{MIN_BITS}, {MAX_BITS}]; received "
                f"size={size}, bits={bits}."
            )
        cdef cnp.npy_intp length = size
        cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &length, cnp.NPY_INT64, 0)
        self.draw_normals(<int64_t *>cnp.PyArray_DATA(out), size, bits)
        return out

    def discrete_laplace(self, Py_ssize_t size, numerator, denominator):
        """Draw integers j with probability proportional to exp(-|j| numerator/denominator)."""
        if size < 0 or not (
            0 < numerator < 2**62 and 0 < denominator < 2**62
            and numerator << 40 >= denominator
        ):
            raise InvalidInput(
                "size must be at least 0, numerator and denominator integers in (0, 2^62) and "
                f"their ratio at least 2^-40; received size={size}, {numerator}/{denominator}."
            )
        cdef cnp.npy_intp length = size
        cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &length, cnp.NPY_INT64, 0)
        self.draw_laplace(<int64_t *>cnp.PyArray_DATA(out), size, numerator, denominator)
        return out

    cdef int draw_normals(self, int64_t *out, Py_ssize_t size, int bits) except -1:
        if self.stream == NULL:
            with nogil:
                entropy_normals(out, size, bits)
            return 0
        with cython.critical_section(self):
            dpf_renew_if_forked(self.stream, refill_from_owner, <void *>self)
            if dpf_normals(self.stream, out, size, bits) != DPF_OK:
                failed(self.stream, DPF_NOT_RANDOM)
        return 0

    cdef int draw_laplace(self, int64_t *out, Py_ssize_t size, uint64_t numerator,
                          uint64_t denominator) except -1:
        if self.stream == NULL:
            with nogil:
                entropy_laplace(out, size, numerator, denominator)
            return 0
        with cython.critical_section(self):
            dpf_renew_if_forked(self.stream, refill_from_owner, <void *>self)
            if dpf_discrete_laplace(self.stream, out, size, numerator, denominator) != DPF_OK:
                failed(self.stream, DPF_NOT_RANDOM)
        return 0


cdef cnp.ndarray as_doubles(object value, int n_dim):
    cdef cnp.ndarray array
    if cnp.PyArray_Check(value):
        array = value
        if (cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE and cnp.PyArray_NDIM(array) == n_dim
                and cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_ISBEHAVED_RO(array)):
            return array
    array = cnp.PyArray_FROMANY(value, cnp.NPY_DOUBLE, 0, 0, cnp.NPY_ARRAY_CARRAY_RO)
    if cnp.PyArray_NDIM(array) != n_dim:
        raise InvalidInput(
            f"expected an array with {n_dim} dimension(s); received shape "
            f"{(<object>array).shape}."
        )
    return array


def nearest(double value, double grid):
    """Compute the integer nearest to ``value / grid``, clamped at 2^51; NaN gives 0."""
    return dpf_nearest(value, grid)


# ---- noise on values, in place -----------------------------------------------------------------

cdef object own_source = None, own_normals = None


def connect(source):
    """Set the class of the private source, whose normals are those of its ``ExactSampler``."""
    global own_source, own_normals
    own_source, own_normals = source, source.normals


cdef int draw_from(object source, int64_t *out, Py_ssize_t size, int bits) except -1:
    """Draw ``floor(2^bits Z)`` from a source of ``dpfast.privacy``, as its ``normals`` does."""
    if type(source) is own_source and own_source.normals is own_normals:
        if not MIN_BITS <= bits <= MAX_BITS:
            raise InvalidInput(f"bits must be in [{MIN_BITS}, {MAX_BITS}]; received {bits}.")
        return (<ExactSampler?>source._sampler).draw_normals(out, size, bits)
    cdef object drawn = source.normals(size, bits)  # of a source of the user's, or a seed
    check_integers(drawn)
    if cnp.PyArray_DIM(drawn, 0) != size:
        raise InvalidInput(f"noise has {len(drawn)} entries; {size} were needed")
    memcpy(out, cnp.PyArray_DATA(drawn), size * sizeof(int64_t))
    return 0


cdef int check_integers(object noise) except -1:
    if not (cnp.PyArray_Check(noise) and cnp.PyArray_TYPE(noise) == cnp.NPY_INT64
            and cnp.PyArray_NDIM(noise) == 1 and cnp.PyArray_IS_C_CONTIGUOUS(noise)):
        raise InvalidInput("noise must be a contiguous int64 array")
    return 0


cdef Py_ssize_t entries(const noisy_part *part) noexcept nogil:
    """Count the normals of a vector, or of the upper triangle of a symmetric matrix."""
    return part.p * (part.p + 1) // 2 if part.grid_off > 0.0 else part.p


cdef int add_to_parts(noisy_part *parts, int n_parts, int64_t *noise, int bits) except -1:
    """Replace each value by ``grid * (nearest(value / grid) + noise)``; each has its own noise.

    Noise of a coarser grid is the floor of a floor: ``floor(2^(bits - shift) Z)``.
    """
    cdef Py_ssize_t i, size
    cdef int k, shift
    for k in range(n_parts):
        shift = bits - parts[k].bits
        if not 0 <= shift < 63:
            raise InvalidInput(
                f"noise of {bits} bits cannot meet a grid of {parts[k].bits} bits"
            )
        size = entries(&parts[k])
        if shift:
            for i in range(size):
                noise[i] = noise[i] >> shift  # rounds down
        if parts[k].grid_off > 0.0:
            dpf_release_symmetric(parts[k].values, noise, parts[k].values, parts[k].p,
                                  parts[k].grid, parts[k].grid_off)
        else:
            dpf_release(parts[k].values, noise, parts[k].values, size, parts[k].grid)
        noise += size
    return 0


cdef int release_in_place(object source, noisy_part *parts, int n_parts) except -1:
    cdef Py_ssize_t size = 0
    cdef int k, bits = 0
    for k in range(n_parts):
        size += entries(&parts[k])
        bits = max(bits, parts[k].bits)
    cdef int64_t *noise = <int64_t *>PyMem_Malloc(max(size, 1) * sizeof(int64_t))
    if noise == NULL:
        raise MemoryError("no memory for the noise of a release")
    try:
        draw_from(source, noise, size, bits)
        add_to_parts(parts, n_parts, noise, bits)
    finally:
        PyMem_Free(noise)
    return 0


def release(values, cnp.ndarray noise not None, int bits, grids):
    """Compute ``grid * (nearest(value / grid) + noise)`` for vectors and symmetric matrices.

    Parameters
    ----------
    values : sequence of ndarray of shape (p,) or (p, p), or None
        The upper triangle of a matrix is read; the release is exactly symmetric.
    noise : ndarray of int64
        ``floor(2^bits Z)`` for one Z for each entry, or entry of an upper triangle, in order.
    bits : int
    grids : sequence of (int, float, float), or None
        Bits of the value's grid, at most ``bits``; the grid; for a matrix the grid off its
        diagonal, for a vector 0.  None where the value is.

    Returns
    -------
    list of ndarray or None
    """
    cdef noisy_part *parts
    cdef noisy_part *part
    cdef cnp.ndarray source, copy
    cdef Py_ssize_t needed = 0
    cdef int n_parts = 0
    check_integers(noise)
    copy = cnp.PyArray_NewCopy(noise, cnp.NPY_CORDER)
    if len(values) != len(grids):
        raise InvalidInput(f"{len(values)} values need as many grids; received {len(grids)}")
    released = []
    parts = <noisy_part *>PyMem_Malloc((len(values) + 1) * sizeof(noisy_part))
    if parts == NULL:
        raise MemoryError("no memory for the parts of a release")
    try:
        for value, steps in zip(values, grids):
            if steps is None:
                if value is not None:
                    raise InvalidInput("a value without a grid; only None has none")
                released.append(None)
                continue
            part = &parts[n_parts]
            part.bits, part.grid, part.grid_off = steps
            source = as_doubles(value, 2 if part.grid_off > 0.0 else 1)
            part.p = cnp.PyArray_DIM(source, 0)
            if part.grid_off > 0.0 and part.p != cnp.PyArray_DIM(source, 1):
                raise InvalidInput(
                    f"expected a square matrix; received shape {(<object>source).shape}."
                )
            source = cnp.PyArray_NewCopy(source, cnp.NPY_CORDER)
            part.values = <double *>cnp.PyArray_DATA(source)
            needed += entries(part)
            n_parts += 1
            released.append(source)
        if needed != len(noise):
            raise InvalidInput(f"noise has {len(noise)} entries; {needed} were needed")
        add_to_parts(parts, n_parts, <int64_t *>cnp.PyArray_DATA(copy), bits)
    finally:
        PyMem_Free(parts)
    return released
