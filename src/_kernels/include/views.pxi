# Arrays that a call works on: attached when the call is made, released when it goes.
include "attach.pxi"


cdef class Views:
    cdef Py_buffer buffers[4]
    cdef int n_buffers

    cdef int attach_next(self, dpk_view *view, array, bint writable) except -1:
        attach(view, &self.buffers[self.n_buffers], array, writable)
        self.n_buffers += 1
        return 0

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_buffers):
            PyBuffer_Release(&self.buffers[i])
