# cython: language_level=3, boundscheck=False, wraparound=False
"""Exact samplers on supplied random bytes, and noise addition on a public grid.

This module draws no randomness: :mod:`dpfast.privacy.noise` hands it the bytes.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport floor, ldexp
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy

cimport cython
cimport numpy as cnp

from dpfast.errors import EntropyFailure, InvalidInput

cnp.import_array()


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)

cdef extern from "sampler/sampler_core.h":
    ctypedef struct dpf_stream:
        unsigned char *buffer
        size_t position
        size_t length
        int status
        int (*refill)(dpf_stream *stream) except -1
        void *owner
        uint64_t consumed
    enum:
        DPF_OK
        DPF_REFILL_FAILED
    int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits) except? -1
    int dpf_discrete_laplace(dpf_stream *stream, int64_t *out, size_t size, uint64_t numerator,
                             uint64_t denominator) except? -1
    int64_t dpf_nearest(double value, double grid) nogil
    void dpf_release(const double *value, const int64_t *noise, double *out, size_t size,
                     double grid) nogil
    void dpf_release_symmetric(const double *matrix, const int64_t *noise, double *out, size_t p,
                               double grid, double grid_off) nogil

cdef extern from *:
    """
    #include <string.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif

    /* A page for the unused random bytes.  Where the kernel can, a child process finds it filled
     * with zeros, its marker included, however the child was made (fork, clone, vfork); the
     * process id is checked as well. */
    static unsigned char *dpf_page_new(size_t size)
    {
    #ifdef __linux__
        void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return NULL;
    #ifdef MADV_WIPEONFORK
        (void)madvise(page, size, MADV_WIPEONFORK);
    #endif
    #ifdef MADV_DONTDUMP
        (void)madvise(page, size, MADV_DONTDUMP);
    #endif
        return (unsigned char *)page;
    #else
        return (unsigned char *)calloc(1, size);
    #endif
    }

    /* memset that the compiler may not remove: for all it knows, the barrier reads the memory */
    static void dpf_wipe(void *memory, size_t size)
    {
        memset(memory, 0, size);
        __asm__ volatile("" : : "r"(memory) : "memory");
    }

    /* One page that nobody uses is kept, empty: a small fit spends microseconds on a new one. */
    static unsigned char *dpf_spare;

    static unsigned char *dpf_page_take(size_t size)
    {
        unsigned char *page = __atomic_exchange_n(&dpf_spare, NULL, __ATOMIC_ACQ_REL);
        return page == NULL ? dpf_page_new(size) : page;
    }

    static void dpf_page_leave(unsigned char *page, size_t size)
    {
        dpf_wipe(page, size);
        page = __atomic_exchange_n(&dpf_spare, page, __ATOMIC_ACQ_REL);
        if (page == NULL)
            return;
    #ifdef __linux__
        (void)munmap(page, size);
    #else
        free(page);
    #endif
    }

    static long dpf_process_id(void) { return (long)getpid(); }
    """
    unsigned char *dpf_page_take(size_t size)
    void dpf_page_leave(unsigned char *page, size_t size)
    void dpf_wipe(void *memory, size_t size)
    long dpf_process_id()


cdef enum:
    PAGE = 4096
    MARKER = 16  # bytes before the random ones; the first says "not wiped by a fork"

MIN_BITS = 1
MAX_BITS = 44
BUFFER_BYTES = PAGE - MARKER
NOT_RANDOM = (
    "the random bytes are not random: they produced an event whose probability is below 2^-1000. "
    "No noise was drawn. Check the operating system's entropy source."
)


cdef int refill_from_owner(dpf_stream *stream) except -1:
    """Ask the owner's supplier for a buffer full of fresh bytes.

    One thread at a time works with a sampler: under the GIL, or in a critical section of the
    interpreter without one.  The supplier may give up either; another thread that draws meanwhile
    refills for itself, and whoever comes back last overwrites what is left with its own fresh
    bytes: bytes may be dropped, they are never used twice.
    """
    cdef ExactSampler sampler = <ExactSampler>stream.owner
    cdef object data = sampler.supply(BUFFER_BYTES)
    if type(data) is not bytes or len(data) != BUFFER_BYTES:
        raise EntropyFailure(
            f"the supplier of random bytes must return {BUFFER_BYTES} bytes; it returned "
            f"{type(data).__name__} of length {len(data)}. No noise was drawn."
        )
    if memcmp(PyBytes_AS_STRING(data), PyBytes_AS_STRING(data) + 1, BUFFER_BYTES - 1) == 0:
        raise EntropyFailure(NOT_RANDOM)
    memcpy(stream.buffer, PyBytes_AS_STRING(data), BUFFER_BYTES)
    if Py_REFCNT(data) == 1:  # nobody else holds it: leave no second copy of the bytes behind
        dpf_wipe(PyBytes_AS_STRING(data), BUFFER_BYTES)
    stream.position = 0
    stream.length = BUFFER_BYTES
    return 0


cdef class ExactSampler:
    """Exact discrete samples from the bytes returned by ``supply(n_bytes)``.

    Parameters
    ----------
    supply : callable
        Called with a number of bytes, returns that many independent uniform bytes.

    Notes
    -----
    Unused bytes are kept for the next call; bytes are erased as they are used, and a forked
    process never sees its parent's (:meth:`discard`).
    """

    cdef dpf_stream stream
    cdef readonly object supply
    cdef unsigned char *page
    cdef long process_id

    def __cinit__(self, supply):
        self.supply = supply
        self.page = dpf_page_take(PAGE)
        if self.page == NULL:
            raise MemoryError("no page for the buffer of random bytes")
        self.page[0] = 1
        self.process_id = dpf_process_id()
        self.stream.buffer = self.page + MARKER
        self.stream.position = 0
        self.stream.length = 0
        self.stream.consumed = 0
        self.stream.refill = refill_from_owner
        self.stream.owner = <void *>self

    def __dealloc__(self):
        if self.page != NULL:
            dpf_page_leave(self.page, PAGE)

    def __reduce__(self):
        raise TypeError("random bytes are not copied: an ExactSampler cannot be pickled")

    cdef void forget_if_forked(self) noexcept:
        if self.page[0] != 1 or self.process_id != dpf_process_id():
            self.erase()

    def discard(self):
        """Erase the bytes that are left, so that the next draw starts from fresh ones."""
        with cython.critical_section(self):
            self.erase()

    cdef void erase(self) noexcept:
        dpf_wipe(self.page, PAGE)
        self.page[0] = 1
        self.process_id = dpf_process_id()
        self.stream.position = 0
        self.stream.length = 0

    @property
    def consumed(self):
        """Bytes used since construction."""
        return self.stream.consumed

    def normals(self, Py_ssize_t size, int bits):
        """Draw ``floor(2**bits * Z)`` for ``size`` independent exactly normal Z, int64."""
        if size < 0 or bits < MIN_BITS or bits > MAX_BITS:
            raise InvalidInput(
                f"size must be at least 0 and bits in [{MIN_BITS}, {MAX_BITS}]; received "
                f"size={size}, bits={bits}."
            )
        cdef cnp.npy_intp length = size
        cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &length, cnp.NPY_INT64, 0)
        with cython.critical_section(self):
            self.forget_if_forked()
            self.check(dpf_normals(&self.stream, <int64_t *>cnp.PyArray_DATA(out), size, bits))
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
        cdef uint64_t s = numerator, t = denominator
        with cython.critical_section(self):
            self.forget_if_forked()
            self.check(
                dpf_discrete_laplace(&self.stream, <int64_t *>cnp.PyArray_DATA(out), size, s, t)
            )
        return out

    cdef int check(self, int status) except -1:
        if status == DPF_OK:
            return 0
        self.erase()
        raise EntropyFailure(NOT_RANDOM)


# ---- for other compiled modules; documented in dpfast/kernels/sampler.pxd ----------------------

cdef int exact_normals(object sampler, int64_t *out, Py_ssize_t size, int bits) except -1:
    cdef cnp.ndarray drawn = (<ExactSampler?>sampler).normals(size, bits)
    memcpy(out, cnp.PyArray_DATA(drawn), size * sizeof(int64_t))
    return 0


cdef int exact_laplace(object sampler, int64_t *out, Py_ssize_t size, int64_t numerator,
                       int64_t denominator) except -1:
    cdef cnp.ndarray drawn = (<ExactSampler?>sampler).discrete_laplace(size, numerator, denominator)
    memcpy(out, cnp.PyArray_DATA(drawn), size * sizeof(int64_t))
    return 0


cdef void add_noise(const double *value, const int64_t *noise, double *out, Py_ssize_t size,
                    double grid) noexcept nogil:
    dpf_release(value, noise, out, size, grid)


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


cdef cnp.ndarray coarser(cnp.ndarray noise, Py_ssize_t start, Py_ssize_t size, int shift):
    """Compute ``floor(2^(bits - shift) Z)`` from ``floor(2^bits Z)``: a floor of a floor."""
    cdef cnp.npy_intp length = size
    cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &length, cnp.NPY_INT64, 0)
    cdef const int64_t *source = <const int64_t *>cnp.PyArray_DATA(noise) + start
    cdef int64_t *target = <int64_t *>cnp.PyArray_DATA(out)
    cdef int64_t step = (<int64_t>1) << shift
    cdef Py_ssize_t i
    for i in range(size):
        target[i] = source[i] // step if source[i] >= 0 else -((-(source[i] + 1)) // step) - 1
    return out


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
    cdef cnp.ndarray source, rounded, out
    cdef cnp.npy_intp shape[2]
    cdef Py_ssize_t start = 0, size
    cdef int value_bits
    cdef double grid, grid_off
    cdef const int64_t *integers
    if (cnp.PyArray_TYPE(noise) != cnp.NPY_INT64 or cnp.PyArray_NDIM(noise) != 1
            or not cnp.PyArray_IS_C_CONTIGUOUS(noise)):
        raise InvalidInput("noise must be a contiguous int64 array")
    if len(values) != len(grids):
        raise InvalidInput(f"{len(values)} values need as many grids; received {len(grids)}")
    released = []
    for value, steps in zip(values, grids):
        if steps is None:
            if value is not None:
                raise InvalidInput("a value without a grid; only None has none")
            released.append(None)
            continue
        value_bits, grid, grid_off = steps
        source = as_doubles(value, 2 if grid_off > 0.0 else 1)
        shape[0] = size = cnp.PyArray_DIM(source, 0)
        if grid_off > 0.0:
            shape[1] = cnp.PyArray_DIM(source, 1)
            if shape[0] != shape[1]:
                raise InvalidInput(
                    f"expected a square matrix; received shape {(shape[0], shape[1])}."
                )
            size = shape[0] * (shape[0] + 1) // 2
        if start + size > cnp.PyArray_DIM(noise, 0):
            raise InvalidInput(f"noise has {len(noise)} entries; at least {start + size} needed")
        if not 0 <= bits - value_bits < 63:
            raise InvalidInput(f"noise of {bits} bits cannot meet a grid of {value_bits} bits")
        integers = <const int64_t *>cnp.PyArray_DATA(noise) + start
        if value_bits != bits:
            rounded = coarser(noise, start, size, bits - value_bits)
            integers = <const int64_t *>cnp.PyArray_DATA(rounded)
        out = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(source), shape, cnp.NPY_DOUBLE, 0)
        if grid_off > 0.0:
            dpf_release_symmetric(
                <const double *>cnp.PyArray_DATA(source), integers,
                <double *>cnp.PyArray_DATA(out), shape[0], grid, grid_off)
        else:
            dpf_release(<const double *>cnp.PyArray_DATA(source), integers,
                        <double *>cnp.PyArray_DATA(out), size, grid)
        start += size
        released.append(out)
    if start != cnp.PyArray_DIM(noise, 0):
        raise InvalidInput(f"noise has {len(noise)} entries; {start} were needed")
    return released
