# Arguments and results of small linear algebra; part of linalg.pyx and decisions.pyx.

cdef inline bint _is_ready(object value):
    return (cnp.PyArray_CheckExact(value) and cnp.PyArray_TYPE(value) == cnp.NPY_FLOAT64
            and cnp.PyArray_ISCARRAY_RO(value))


cdef cnp.ndarray _float_array(object value, str name):
    """Convert to an aligned C-contiguous float64 array; usually two comparisons."""
    if _is_ready(value):
        return <cnp.ndarray> value
    array = np.asarray(value)
    if _is_ready(array):
        return <cnp.ndarray> array
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float64"
        )
    return np.require(array, np.float64, ["C", "A"])


cdef cnp.ndarray _square(object value, str name):
    cdef cnp.ndarray array = _float_array(value, name)
    if (cnp.PyArray_NDIM(array) != 2 or cnp.PyArray_DIM(array, 0) != cnp.PyArray_DIM(array, 1)
            or cnp.PyArray_DIM(array, 0) == 0):
        raise ValueError(
            f"{name} must be a square matrix with at least one row, got shape {np.shape(array)}"
        )
    return array


cdef cnp.ndarray _vector(object value, str name, Py_ssize_t length):
    cdef cnp.ndarray array = _float_array(value, name)
    if cnp.PyArray_NDIM(array) != 1 or cnp.PyArray_DIM(array, 0) != length:
        raise ValueError(f"{name} must have shape ({length},), got {np.shape(array)}")
    return array


cdef int _check_floor(double floor, bint strict) except -1:
    if (floor > 0.0 or (floor == 0.0 and not strict)) and floor <= DBL_MAX:
        return 0
    allowed = "positive" if strict else "non-negative"
    raise ValueError(f"floor must be finite and {allowed}, got {floor!r}")


cdef inline cnp.ndarray _new_vector(Py_ssize_t p):
    cdef cnp.npy_intp shape = p
    return cnp.PyArray_SimpleNew(1, &shape, cnp.NPY_FLOAT64)


cdef inline cnp.ndarray _new_matrix(Py_ssize_t p):
    cdef cnp.npy_intp[2] shape
    shape[0] = p
    shape[1] = p
    return cnp.PyArray_SimpleNew(2, shape, cnp.NPY_FLOAT64)


cdef inline double *_data(cnp.ndarray array) noexcept:
    return <double *> cnp.PyArray_DATA(array)


cdef double *_workspace(Py_ssize_t size) except NULL:
    cdef double *memory = <double *> malloc(size * sizeof(double))
    if memory == NULL:
        raise MemoryError(f"no room for {size} float64 numbers of workspace")
    return memory


cdef int _check_memory(int status) except -1:
    if status < 0:
        raise MemoryError("no room for the LAPACK workspace")
    return 0
