"""Exact sums of the columns of an array, as 128-bit integers in units of a grid."""

from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from dpk cimport (
    DPK_MOMENT_PARTS, DPK_NONFINITE, DPK_OK, DPK_STACK_DEPTH, dpk_clamp, dpk_clamp_set, dpk_first_nan, dpk_moments, dpk_moments_run,
    dpk_sums, dpk_sums_grouped, dpk_sums_pairs, dpk_sums_room, dpk_sums_run, dpk_wipe, dpk_wipe_stack,
)

include "attach.pxi"
include "level.pxi"

MOMENT_PARTS = DPK_MOMENT_PARTS

cdef enum:
    LINE = 64  # bytes of a cache line


cdef class Sums:
    """A two-dimensional array whose columns are added. `add` may be called from several threads."""

    cdef dpk_sums sums
    cdef Py_buffer buffer
    cdef bint attached
    cdef int64_t rows

    def __cinit__(self, array, double lower, double upper, double grid):
        memset(&self.sums, 0, sizeof(dpk_sums))
        attach(&self.sums.values, &self.buffer, array, False)
        self.attached = True
        if self.buffer.ndim != 2:
            raise ValueError("the array must have two dimensions")
        self.rows = self.buffer.shape[0]
        self.sums.kernels = level()
        dpk_clamp_set(&self.sums.clamp, lower, upper, grid)
        self.sums.data = <char *> self.buffer.buf
        self.sums.columns = self.buffer.shape[1]
        self.sums.row_stride = self.buffer.strides[0]
        self.sums.column_stride = self.buffer.strides[1]

    def __dealloc__(self):
        if self.attached:
            PyBuffer_Release(&self.buffer)

    def add(self, int64_t start, int64_t stop, int64_t first, int64_t last, uint64_t[::1] low, int64_t[::1] high):
        """Add the sums of columns [first, last) over rows [start, stop) to high 2^64 + low; False if there is a NaN among them."""
        cdef int status
        if not (0 <= start <= stop <= self.rows and 0 <= first <= last <= self.sums.columns):
            raise ValueError("the range must be inside the array")
        if low.shape[0] != last - first or high.shape[0] != last - first:
            raise ValueError("the totals must have an item for each column")
        if start == stop or first == last:
            return True
        cdef void *memory = malloc(dpk_sums_room(last - first) * sizeof(uint64_t) + LINE)
        cdef uint64_t *room = <uint64_t *> ((<uintptr_t> memory + LINE - 1) & ~<uintptr_t> (LINE - 1))  # no vector crosses a line
        if memory == NULL:
            raise MemoryError
        with nogil:
            status = dpk_sums_run(&self.sums, start, stop, first, last, room, &low[0], &high[0])
            dpk_wipe(memory, dpk_sums_room(last - first) * sizeof(uint64_t) + LINE)
            dpk_wipe_stack(DPK_STACK_DEPTH)
        free(memory)
        return status == DPK_OK

    def first_nan(self):
        """Position, row by row, of the first NaN, or -1."""
        cdef int64_t found
        with nogil:
            found = dpk_first_nan(self.sums.kernels, &self.sums.values, 0, self.rows * self.sums.columns)
        return found


def pairs(const uint64_t[::1] low, const int64_t[::1] high, double grid, double[::1] nearest, double[::1] rest):
    """(high 2^64 + low) grid as the nearest float64 and the exact rest."""
    cdef Py_ssize_t n = low.shape[0]
    if high.shape[0] != n or nearest.shape[0] != n or rest.shape[0] != n:
        raise ValueError("all arrays must have one length")
    if n:
        with nogil:
            dpk_sums_pairs(&low[0], &high[0], n, grid, &nearest[0], &rest[0])


cdef class Moments:
    """Reports, float64 or int64, whose distances from a centre are added, and their squares, in parts. Several threads may add."""

    cdef dpk_moments moments
    cdef Py_buffer buffer
    cdef bint attached
    cdef int64_t size

    def __cinit__(self, array, centre, double grid):
        memset(&self.moments, 0, sizeof(dpk_moments))
        attach(&self.moments.values, &self.buffer, array, False)
        self.attached = True
        if self.buffer.ndim != 1 or self.moments.values.dtype not in (DPK_F64, DPK_I64):
            raise ValueError("the array must have one dimension, and be of float64 or int64")
        self.size = self.buffer.shape[0]
        self.moments.kernels = level()
        self.moments.lattice.grid, self.moments.lattice.inverse_grid = grid, 1.0 / grid
        if self.moments.values.dtype == DPK_I64:
            if not -2**62 < centre < 2**62:
                raise ValueError("the centre must be below 2^62 in magnitude")
            self.moments.lattice.int_centre = centre
        else:
            self.moments.lattice.centre = centre

    def __dealloc__(self):
        if self.attached:
            PyBuffer_Release(&self.buffer)

    def add(self, int64_t start, int64_t stop, uint64_t[::1] low, int64_t[::1] high):
        """Add the parts of reports from `start` on to high 2^64 + low; returns `stop`, or where a block begins that it cannot add."""
        cdef int64_t reached
        if not 0 <= start <= stop <= self.size or stop - start > 1 << 40:
            raise ValueError("the range must be inside the array, and not too long")
        if low.shape[0] != DPK_MOMENT_PARTS or high.shape[0] != DPK_MOMENT_PARTS:
            raise ValueError("the totals must have an item for each part")
        with nogil:
            reached = dpk_moments_run(&self.moments, start, stop, &low[0], &high[0])
        return reached


def grouped(const double[::1] x, const int32_t[::1] groups, double lower, double upper, double grid, int64_t[:, ::1] totals):
    """Add each value, clamped and in steps of the grid, to the total of its group: rows of (low word, high word, count).

    Returns whether no value is a NaN; if one is, the totals are worthless.
    """
    cdef Py_ssize_t n = x.shape[0]
    cdef int status
    cdef dpk_clamp clamp
    if groups.shape[0] != n or totals.shape[1] != 3:
        raise ValueError("each value has a group, and each total three items")
    if n == 0:
        return True
    if totals.shape[0] == 0:
        raise ValueError("groups must be inside the totals")
    dpk_clamp_set(&clamp, lower, upper, grid)
    with nogil:
        status = dpk_sums_grouped(level(), &clamp, &x[0], &groups[0], n, totals.shape[0], &totals[0, 0])
        dpk_wipe_stack(DPK_STACK_DEPTH)
    if status not in (DPK_OK, DPK_NONFINITE):
        raise ValueError("groups must be inside the totals")
    return status == DPK_OK
