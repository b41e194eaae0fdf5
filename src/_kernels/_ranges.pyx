"""Ranges of an array that threads take, and the wait for all of them that no signal ends early."""

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_type_lock,
)
from libc.stdint cimport int64_t


cdef class Ranges:
    """Starts of the ranges of `chunk` elements that cover [0, size). One caller closes it; helpers join, take and leave."""

    cdef PyThread_type_lock lock
    cdef PyThread_type_lock idle  # held until the last helper leaves, if the caller waits for it
    cdef int64_t size, chunk, following, helpers
    cdef bint is_closed, is_waiting

    def __cinit__(self, int64_t size, int64_t chunk):
        self.lock, self.idle = PyThread_allocate_lock(), PyThread_allocate_lock()
        if self.lock == NULL or self.idle == NULL:
            raise MemoryError
        PyThread_acquire_lock(self.idle, WAIT_LOCK)
        self.size, self.chunk = size, chunk

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)
        if self.idle != NULL:
            PyThread_free_lock(self.idle)

    def take(self):
        """Start of a range that nobody else gets, or -1: there is none left, or no more are to be begun."""
        cdef int64_t start = -1
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        if not self.is_closed and self.following < self.size:
            start = self.following
            self.following += self.chunk
        PyThread_release_lock(self.lock)
        return start

    def join(self):
        """Whether a helper may begin; if so it has to `leave`."""
        cdef bint is_open
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        is_open = not self.is_closed
        self.helpers += is_open
        PyThread_release_lock(self.lock)
        return is_open

    def leave(self):
        """End a helper's part."""
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.helpers -= 1
        if self.is_waiting and self.helpers == 0:
            PyThread_release_lock(self.idle)
        PyThread_release_lock(self.lock)

    def stop(self):
        """Let nobody take a range any more."""
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.is_closed = True
        PyThread_release_lock(self.lock)

    def close(self):
        """Let nobody take a range or join any more, and wait until no helper is at work, whatever signals arrive meanwhile."""
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.is_closed = True
        self.is_waiting = self.helpers > 0
        PyThread_release_lock(self.lock)
        if self.is_waiting:
            with nogil:
                PyThread_acquire_lock(self.idle, WAIT_LOCK)
