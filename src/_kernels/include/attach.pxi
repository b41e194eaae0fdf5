# An array's memory as a dpk_view. Included by every module that hands arrays to the kernels: a cimport between them would not resolve.
from cpython.buffer cimport PyBUF_RECORDS, PyBUF_RECORDS_RO, PyBuffer_Release, PyObject_GetBuffer

from dpk cimport DPK_MAX_DIMS, dpk_view, dpk_view_coalesce

DTYPES = {
    "float64": 0, "float32": 1, "float16": 2, "int64": 3, "int32": 4, "int16": 5, "int8": 6, "uint32": 7, "uint16": 8, "uint8": 9,
    "complex128": 10,  # a pair: the higher part, then the lower
    "uint64": 11,  # only where numbers are clamped
}


cdef int fill_view(dpk_view *view, Py_buffer *buffer, int dtype) except -1:
    cdef int i
    if buffer.ndim > DPK_MAX_DIMS:
        raise ValueError("too many dimensions")
    view.data = <char *> buffer.buf
    view.dtype = dtype
    view.ndim = buffer.ndim
    for i in range(buffer.ndim):
        view.shape[i] = buffer.shape[i]
        view.strides[i] = buffer.strides[i]
    dpk_view_coalesce(view)
    return 0


cdef int attach(dpk_view *view, Py_buffer *buffer, array, bint writable) except -1:
    PyObject_GetBuffer(array, buffer, PyBUF_RECORDS if writable else PyBUF_RECORDS_RO)
    try:
        return fill_view(view, buffer, DTYPES[array.dtype.name])
    except BaseException:
        PyBuffer_Release(buffer)
        raise
