# The CPU level in use, which `_dispatch` owns and knows. Included by every module that runs kernels: a cimport between them would not resolve.
from cpython.pycapsule cimport PyCapsule_GetPointer

from dpk cimport dpk_kernels, dpk_level_now

from dpcore._kernels import _dispatch

cdef const dpk_kernels **slot = <const dpk_kernels **> PyCapsule_GetPointer(_dispatch.capsule, "dpcore._kernels.level")


cdef const dpk_kernels *level() noexcept nogil:
    return dpk_level_now(slot)
