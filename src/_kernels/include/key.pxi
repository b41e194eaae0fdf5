# From a key, bytes or a `Key`, to a stream. Included by every module that opens one: a cimport between them would not resolve.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef int load_key(uint8_t *material, key) except -1:
    cdef Py_buffer buffer
    PyObject_GetBuffer(key, &buffer, PyBUF_SIMPLE)
    try:
        if buffer.len != 32:
            raise ValueError("key must have 32 bytes")
        memcpy(material, buffer.buf, 32)
    finally:
        PyBuffer_Release(&buffer)
    return 0
