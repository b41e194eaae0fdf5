# An array's memory as a dpk_view. Included by every module that hands arrays to the kernels: a cimport between them would not resolve.
from cpython.buffer cimport PyBUF_STRIDED, PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer

from dpk cimport (
    DPK_F16, DPK_F32, DPK_F64, DPK_F64_PAIR, DPK_I8, DPK_I16, DPK_I32, DPK_I64, DPK_MAX_DIMS, DPK_U8, DPK_U16, DPK_U32, DPK_U64, dpk_view,
    dpk_view_coalesce,
)

from numpy import dtype

# by dtype and not by its name, which NumPy puts together anew each time, in two microseconds; those of foreign byte order are no keys
DTYPES = {
    dtype(name): code for name, code in (
        ("float64", DPK_F64), ("float32", DPK_F32), ("float16", DPK_F16),
        ("int64", DPK_I64), ("int32", DPK_I32), ("int16", DPK_I16), ("int8", DPK_I8),
        ("uint32", DPK_U32), ("uint16", DPK_U16), ("uint8", DPK_U8),
        ("complex128", DPK_F64_PAIR),  # the higher part, then the lower
        ("uint64", DPK_U64),  # only where numbers are clamped
    )
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
    PyObject_GetBuffer(array, buffer, PyBUF_STRIDED if writable else PyBUF_STRIDED_RO)
    try:
        return fill_view(view, buffer, DTYPES[array.dtype])
    except BaseException:
        PyBuffer_Release(buffer)
        raise
