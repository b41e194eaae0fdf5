"""Exact noise: a `Law` holds the constants of one distribution, a `Call` one array's way through the kernels."""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from dpk cimport (
    DPK_AES256, DPK_BLOCK, DPK_CHACHA20, DPK_DISCRETE_LAPLACE, DPK_GAUSSIAN, DPK_GAUSSIAN_ROUNDED, DPK_GAUSSIAN_TABLE, DPK_LAPLACE,
    DPK_GUIDES, DPK_MAX_TERMS, DPK_MOST_DISTINCT, DPK_NONFINITE, DPK_OK, DPK_PENDING_FULL, DPK_SLOTS,
    dpk_bounds, dpk_noise_call, dpk_first_nan, dpk_first_nonfinite, dpk_law, dpk_law_set_grid, dpk_noise_run, dpk_pending,
    dpk_guide_set, dpk_number_distinct, dpk_slot, dpk_stream, dpk_wipe,
)

include "views.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"
include "short.pxi"

from numpy import array, empty, float64, int64, ndarray

LAPLACE, GAUSSIAN, DISCRETE_LAPLACE = DPK_LAPLACE, DPK_GAUSSIAN, DPK_DISCRETE_LAPLACE
GAUSSIAN_TABLE, GAUSSIAN_ROUNDED = DPK_GAUSSIAN_TABLE, DPK_GAUSSIAN_ROUNDED
CHACHA20, AES256 = DPK_CHACHA20, DPK_AES256
DONE, NONFINITE, PENDING_FULL = DPK_OK, DPK_NONFINITE, DPK_PENDING_FULL
INTEGERS = frozenset(kind for kind, code in DTYPES.items() if code not in (DPK_F64, DPK_F32, DPK_F16, DPK_F64_PAIR, DPK_U64))
REALS = INTEGERS | {kind for kind, code in DTYPES.items() if code in (DPK_F64, DPK_F32, DPK_F16)}


cdef class Law:
    """Constants of one distribution at one scale. Immutable; shared by threads."""

    cdef dpk_law law
    cdef uint32_t *short_
    cdef uint64_t *high
    cdef uint64_t *low
    cdef uint64_t *guide

    def __cinit__(self, int kind, double scale, double grid=1.0, tuple offset=(0.0, 0.0), list short=None, list long=None,
                  double quick=0.0, list terms=None):
        cdef Py_ssize_t i, n
        memset(&self.law, 0, sizeof(dpk_law))
        self.law.kind = kind
        dpk_law_set_grid(&self.law, scale, grid)
        if self.law.step_scale > 2.0**40:  # the kernels round samples below 2^51 without a test of their size
            raise ValueError("a scale is at most 2**40 units of its grid")
        self.law.offset_high, self.law.offset_low = offset
        if short is not None:
            self._set_table(short, long)
        if terms is not None:
            n = len(terms)
            if n > DPK_MAX_TERMS:
                raise ValueError("too many terms")
            self.law.acceptance.quick = quick
            self.law.acceptance.n_terms = <int32_t> n
            for i in range(n):
                self.law.acceptance.terms[i] = terms[i]

    cdef int _set_table(self, list short, list long) except -1:
        cdef Py_ssize_t i
        if len(short) > 255:
            raise ValueError("too many entries")
        self.short_ = <uint32_t *> malloc(4 * len(short))
        self.high = <uint64_t *> malloc(8 * len(long))
        self.low = <uint64_t *> malloc(8 * len(long))
        self.guide = <uint64_t *> malloc(8 * DPK_GUIDES)
        if self.short_ == NULL or self.high == NULL or self.low == NULL or self.guide == NULL:
            raise MemoryError
        for i in range(len(short)):
            self.short_[i] = short[i]
        for i in range(len(long)):
            self.high[i] = long[i] >> 64
            self.low[i] = long[i] & 0xffffffffffffffff
        self.law.table.n_short = <int32_t> len(short)
        self.law.table.n_long = <int32_t> len(long)
        self.law.table.short_ = self.short_
        self.law.table.high = self.high
        self.law.table.low = self.low
        self.law.table.guide = self.guide
        dpk_guide_set(&self.law.table, self.guide)
        return 0

    def __dealloc__(self):
        free(self.short_)
        free(self.high)
        free(self.low)
        free(self.guide)


cdef int set_bounds(dpk_bounds *b, tuple bounds) except -1:
    b.lower, b.upper, b.missing, b.int_lower, b.int_upper, b.is_integral = bounds
    b.is_set = 1
    return 0


cdef class Call(Views):
    """One array's way through the kernels. `run` may be called from several threads on separate ranges."""

    cdef dpk_noise_call call
    cdef dpk_law *laws
    cdef uint64_t *guides
    cdef object kept  # the laws own their tables

    def __cinit__(self, int kind, tuple laws, values, out, key, uint32_t nonce, uint64_t first_element, int cipher, int tier=0,
                  double bound_factor=1.0, *, which=None, scales=None, tuple bounds=None, double fixed_grid=0.0, bint streams=False):
        cdef Py_ssize_t i
        memset(&self.call, 0, sizeof(dpk_noise_call))
        self.kept = laws
        self.laws = <dpk_law *> malloc((len(laws) + 1) * sizeof(dpk_law))
        if self.laws == NULL:
            raise MemoryError
        memset(self.laws, 0, (len(laws) + 1) * sizeof(dpk_law))
        for i in range(len(laws)):
            memcpy(&self.laws[i], &(<Law?> laws[i]).law, sizeof(dpk_law))
        if len(laws) > 1 and kind == DPK_GAUSSIAN_TABLE:
            self._set_guides(len(laws))
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.kind = kind
        self.call.tier = tier
        self.call.bound_factor = bound_factor
        self.call.n_laws = len(laws)
        self.call.laws = self.laws
        self.call.fixed_grid = fixed_grid
        self.call.streams = streams
        if bounds is not None:
            set_bounds(&self.call.bounds, bounds)
        self.attach_next(&self.call.values, values, False)
        self.attach_next(&self.call.out, out, True)
        if which is not None:
            self.attach_next(&self.call.which, which, False)
        if scales is not None:
            self.call.has_scales = 1
            self.attach_next(&self.call.scales, scales, False)

    cdef int _set_guides(self, Py_ssize_t n) except -1:
        cdef Py_ssize_t i
        self.guides = <uint64_t *> malloc(8 * DPK_GUIDES * n)
        if self.guides == NULL:
            raise MemoryError
        for i in range(n):
            dpk_guide_set(&self.laws[i].table, self.guides + DPK_GUIDES * i)
        self.call.guides = self.guides
        return 0

    def __dealloc__(self):
        free(self.laws)
        free(self.guides)
        dpk_wipe(&self.call, sizeof(dpk_noise_call))

    def run(self, int64_t start, int64_t stop):
        """Positions [start, stop): (status, position reached, pending samples)."""
        cdef int64_t count = 0, reached = start, i
        cdef int status
        # room for as many as a block has, so that every run advances
        cdef int64_t capacity = min(stop - start, DPK_BLOCK)
        cdef dpk_pending *pending = <dpk_pending *> malloc(<size_t> capacity * sizeof(dpk_pending) + 1)
        if pending == NULL:
            raise MemoryError
        try:
            with nogil:
                status = dpk_noise_run(&self.call, start, stop, pending, capacity, &count, &reached)
            return status, reached, [
                (pending[i].index, pending[i].element, pending[i].x, pending[i].x_low, pending[i].x_int, pending[i].law)
                for i in range(count)
            ]
        finally:
            dpk_wipe(pending, count * sizeof(dpk_pending))
            free(pending)

    def first_nan(self, int64_t start, int64_t stop):
        """Position of the first NaN among the values, or -1."""
        cdef int64_t found
        with nogil:
            found = dpk_first_nan(self.call.kernels, &self.call.values, start, stop)
        return found

    def first_nonfinite(self, int64_t start, int64_t stop):
        """Position of the first NaN or infinity among the values, or -1."""
        cdef int64_t found
        with nogil:
            found = dpk_first_nonfinite(self.call.kernels, &self.call.values, start, stop)
        return found


def number_distinct(const double[::1] x, uint16_t[::1] which):
    """Numbers the distinct numbers of x in `which`; returns them in the order of their numbers, or None if they are too many."""
    cdef Py_ssize_t i, n = x.shape[0]
    cdef int64_t count
    cdef double *distinct
    cdef dpk_slot *slots
    if which.shape[0] != n:
        raise ValueError("x and which must have one length")
    if n == 0:
        return []
    distinct = <double *> malloc(DPK_MOST_DISTINCT * sizeof(double))
    slots = <dpk_slot *> malloc(DPK_SLOTS * sizeof(dpk_slot))
    try:
        if distinct == NULL or slots == NULL:
            raise MemoryError
        with nogil:
            count = dpk_number_distinct(&x[0], <size_t> n, slots, distinct, &which[0])
        return None if count < 0 else [distinct[i] for i in range(count)]
    finally:
        free(distinct)
        free(slots)


cdef class ShortCall:
    """The way of a single number or a short array through one law, without Python's part of a `Call`."""

    cdef Law law
    cdef dpk_bounds bounds
    cdef bint is_discrete
    cdef object sizes, hooks, secure_cipher, whole

    def __cinit__(self, Law law not None, tuple bounds, sizes, hooks, secure_cipher, whole):
        """`sizes.SMALL` is the length of the longest array. `whole(values, position)` does what is left to the general way: values that
        the exact tier decides, or that are refused.
        """
        self.law, self.sizes, self.hooks, self.secure_cipher, self.whole = law, sizes, hooks, secure_cipher, whole
        memset(&self.bounds, 0, sizeof(dpk_bounds))
        if bounds is not None:
            set_bounds(&self.bounds, bounds)
        self.is_discrete = law.law.kind != DPK_LAPLACE and law.law.kind != DPK_GAUSSIAN

    def release(self, values, stream):
        """The values with noise from the stream's next position. None: `values` is none of these, and no position has been taken."""
        cdef bint is_float = type(values) is float
        cdef int64_t longest = self.sizes.SMALL
        if longest < 1 or self.hooks.tier or self.hooks.bound_factor != 1.0:
            return None
        if type(values) is ndarray:
            return self.release_array(values, stream, longest)
        if self.is_discrete:
            return self.release_integer(values, stream) if type(values) is int else None
        return self.release_float(values, stream) if is_float else None

    cdef release_float(self, values, stream):
        cdef dpk_noise_call call
        cdef double x = values, y = 0.0
        if not isfinite(x) and not self.bounds.is_set:
            return None
        position = stream.position()
        self.open(&call, position)
        call.values.data, call.values.dtype = <char *> &x, DPK_F64
        call.out.data, call.out.dtype = <char *> &y, DPK_F64
        return y if run_short(&call, 1) else self.whole(array(values), position).item()

    cdef release_integer(self, values, stream):
        cdef dpk_noise_call call
        cdef int overflow = 0
        cdef int64_t y = 0, x = PyLong_AsLongLongAndOverflow(values, &overflow)
        if overflow:
            return None
        position = stream.position()
        self.open(&call, position)
        call.values.data, call.values.dtype = <char *> &x, DPK_I64
        call.out.data, call.out.dtype = <char *> &y, DPK_I64
        return y if run_short(&call, 1) else self.whole(array(values, int64), position).item()

    cdef release_array(self, values, stream, int64_t longest):
        cdef dpk_noise_call call
        cdef Py_buffer given, made
        cdef int64_t size = values.size
        cdef bint is_done
        dtype = values.dtype
        if size > longest or dtype not in (INTEGERS if self.is_discrete else REALS):
            return None
        position = stream.position()
        result = empty(values.shape, int64 if self.is_discrete else float64)
        self.open(&call, position)
        try:
            attach(&call.values, &given, values, False)
            try:
                attach(&call.out, &made, result, True)
                # a stream is foreign code, which may have changed the array meanwhile
                is_done = made.len == 8 * size and given.len == size * given.itemsize and run_short(&call, size)
                PyBuffer_Release(&made)
            finally:
                PyBuffer_Release(&given)
        finally:
            dpk_wipe(&call.stream, sizeof(dpk_stream))
        return result if is_done else self.whole(values, position)

    cdef int open(self, dpk_noise_call *call, position) except -1:
        """The call of one law under a position, but for its arrays."""
        memset(call, 0, sizeof(dpk_noise_call))
        call.kernels = level()
        call.first_element = open_position(&call.stream, call.kernels, position, self.secure_cipher)
        call.kind = self.law.law.kind
        call.bound_factor = 1.0
        call.bounds = self.bounds
        call.n_laws = 1
        call.laws = &self.law.law
        return 0


cdef bint run_short(dpk_noise_call *call, int64_t size) noexcept:
    """Run the whole call and wipe its stream; whether every value is written, none being refused or left to the exact tier."""
    cdef int64_t count = 0, reached = 0
    cdef int status
    if size <= GIL_KEPT:
        status = dpk_noise_run(call, 0, size, NULL, 0, &count, &reached)
    else:
        with nogil:
            status = dpk_noise_run(call, 0, size, NULL, 0, &count, &reached)
    dpk_wipe(&call.stream, sizeof(dpk_stream))
    return status == DPK_OK
