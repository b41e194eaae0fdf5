# A fresh key of the operating system. Included after key.pxi.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.ref cimport Py_REFCNT
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from dpk cimport dpk_wipe

import os

from dpcore.errors import EntropyError


cdef int fresh_material(uint8_t *material) except -1:
    """32 bytes of the operating system, which are nowhere else afterwards: those of the object in which they came are overwritten.

    Bytes objects are immutable to Python and this one is nobody else's, unless another reference to it is left.
    """
    try:
        read = os.urandom(32)
    except (OSError, NotImplementedError) as error:
        raise EntropyError(f"the operating system's random source failed: {type(error).__name__}") from error
    if not PyBytes_CheckExact(read) or PyBytes_GET_SIZE(read) != 32:
        raise EntropyError(f"the operating system's random source gave {len(read)} bytes instead of 32")
    memcpy(material, PyBytes_AS_STRING(read), 32)
    if Py_REFCNT(read) == 1:
        dpk_wipe(PyBytes_AS_STRING(read), 32)
    return 0
