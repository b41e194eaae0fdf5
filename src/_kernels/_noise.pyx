"""Exact noise: a `Law` holds the constants of one distribution, a `Call` one array's way through the kernels."""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from dpk cimport (
    DPK_AES256, DPK_BLOCK, DPK_CHACHA20, DPK_DISCRETE_LAPLACE, DPK_GAUSSIAN, DPK_GAUSSIAN_ROUNDED, DPK_GAUSSIAN_TABLE, DPK_LAPLACE,
    DPK_GUIDES, DPK_LOG2_SLOTS, DPK_MAX_TERMS, DPK_MOST_DISTINCT, DPK_NONFINITE, DPK_OK, DPK_PENDING_FULL,
    dpk_bounds, dpk_noise_call, dpk_first_nan, dpk_first_nonfinite, dpk_law, dpk_law_set_grid, dpk_noise_run, dpk_pending,
    dpk_guide_set, dpk_law_parameters, dpk_number_distinct, dpk_stream, dpk_wipe,
)

include "views.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"
include "fresh.pxi"
include "short.pxi"

from numpy import array, dtype, empty, float64, int64, ndarray

REAL, WHOLE = dtype(float64), dtype(int64)

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


cdef class Laws:
    """Several laws of one kind in one memory, and what the kernels take of each. Immutable; shared by threads."""

    cdef dpk_law *laws
    cdef uint64_t *guides
    cdef double *parameters
    cdef Py_ssize_t count
    cdef object kept  # the laws own their tables

    def __cinit__(self, tuple laws):
        cdef Py_ssize_t i, n = len(laws)
        cdef bint is_guided = False
        self.kept, self.count = laws, n
        self.laws = <dpk_law *> malloc((n + 1) * sizeof(dpk_law))
        self.parameters = <double *> malloc((2 * n + 1) * sizeof(double))
        if self.laws == NULL or self.parameters == NULL:
            raise MemoryError
        memset(self.laws, 0, (n + 1) * sizeof(dpk_law))
        for i in range(n):
            memcpy(&self.laws[i], &(<Law?> laws[i]).law, sizeof(dpk_law))
            dpk_law_parameters(&self.laws[i], self.parameters + i, self.parameters + n + i)
            is_guided |= self.laws[i].kind == DPK_GAUSSIAN_TABLE
        if n > 1 and is_guided:
            self._set_guides()

    cdef int _set_guides(self) except -1:
        cdef Py_ssize_t i
        self.guides = <uint64_t *> malloc(8 * DPK_GUIDES * self.count)
        if self.guides == NULL:
            raise MemoryError
        for i in range(self.count):
            if self.laws[i].table.guide != NULL:
                memcpy(self.guides + DPK_GUIDES * i, self.laws[i].table.guide, 8 * DPK_GUIDES)
            else:
                dpk_guide_set(&self.laws[i].table, self.guides + DPK_GUIDES * i)
        return 0

    def __dealloc__(self):
        free(self.laws)
        free(self.guides)
        free(self.parameters)


cdef class Call(Views):
    """One array's way through the kernels. `run` may be called from several threads on separate ranges."""

    cdef dpk_noise_call call
    cdef Laws laws

    def __cinit__(self, int kind, laws, values, out, key, uint32_t nonce, uint64_t first_element, int cipher, int tier=0,
                  double bound_factor=1.0, *, which=None, scales=None, tuple bounds=None, double fixed_grid=0.0, bint streams=False):
        memset(&self.call, 0, sizeof(dpk_noise_call))
        self.laws = laws if type(laws) is Laws else Laws(laws)
        self.call.n_laws, self.call.laws, self.call.guides = self.laws.count, self.laws.laws, self.laws.guides
        self.call.steps, self.call.seconds = self.laws.parameters, self.laws.parameters + self.laws.count
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.kind = kind
        self.call.tier = tier
        self.call.bound_factor = bound_factor
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

    def __dealloc__(self):
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


def number_distinct(scales, uint16_t[::1] which, double low, double high):
    """Numbers the distinct items of an array, in C order, in `which`; returns these as floats, in the order of their numbers.

    None: they are too many, or one is not in (low, high].
    """
    cdef Py_ssize_t i, n = which.shape[0]
    cdef int log2_slots = 2
    cdef int64_t count = -1
    cdef double *distinct = NULL
    cdef uint64_t *slots = NULL
    cdef Py_buffer buffer
    cdef dpk_view view
    attach(&view, &buffer, scales, False)
    try:
        if buffer.len != n * buffer.itemsize:
            raise ValueError("scales and which must have one size")
        if n == 0:
            return ()
        while log2_slots < DPK_LOG2_SLOTS and 1 << log2_slots < 4 * n:
            log2_slots += 1
        distinct = <double *> malloc(DPK_MOST_DISTINCT * sizeof(double))
        slots = <uint64_t *> malloc(2 * sizeof(uint64_t) << log2_slots)
        if distinct == NULL or slots == NULL:
            raise MemoryError
        if n <= GIL_KEPT:
            count = dpk_number_distinct(level(), &view, <size_t> n, low, high, slots, log2_slots, distinct, &which[0])
        else:
            with nogil:
                count = dpk_number_distinct(level(), &view, <size_t> n, low, high, slots, log2_slots, distinct, &which[0])
        return None if count < 0 else tuple([distinct[i] for i in range(count)])
    finally:
        PyBuffer_Release(&buffer)
        free(distinct)
        free(slots)


cdef enum:
    MOST_LISTED = 64  # items of a list that are read without an array of them


cdef class ShortCall:
    """The way of a single number, a short list or a short array through one law, without Python's part of a `Call`."""

    cdef Law law
    cdef dpk_bounds bounds
    cdef bint is_discrete
    cdef object sizes, hooks, secure_cipher, whole, item

    def __cinit__(self, Law law not None, tuple bounds, sizes, hooks, secure_cipher, whole):
        """`sizes.SMALL` is the length of the longest array. `whole(values, position)` does what is left to the general way: values that
        the exact tier decides, or that are refused.
        """
        self.law, self.sizes, self.hooks, self.secure_cipher, self.whole = law, sizes, hooks, secure_cipher, whole
        memset(&self.bounds, 0, sizeof(dpk_bounds))
        if bounds is not None:
            set_bounds(&self.bounds, bounds)
        self.is_discrete = law.law.kind != DPK_LAPLACE and law.law.kind != DPK_GAUSSIAN
        self.item = WHOLE if self.is_discrete else REAL

    def release(self, values, source, out=None):
        """The values with noise from the source's next position, in `out` if that is given; the source None is the secure one.

        None: `values` or `out` are none that are read here, and no position has been taken.
        """
        cdef int64_t longest = self.sizes.SMALL
        if longest < 1 or self.hooks.tier or self.hooks.bound_factor != 1.0:
            return None
        if type(values) is ndarray:
            return self.release_array(values, source, longest, out)
        if out is not None:
            return None
        if type(values) is list:
            return self.release_list(values, source)
        if self.is_discrete:
            return self.release_integer(values, source) if type(values) is int else None
        return self.release_float(values, source) if type(values) is float else None

    cdef release_float(self, values, source):
        cdef dpk_noise_call call
        cdef double x = values, y = 0.0
        if not isfinite(x) and not self.bounds.is_set:
            return None
        position = self.open(&call, source)
        call.values.data, call.values.dtype = <char *> &x, DPK_F64
        call.out.data, call.out.dtype = <char *> &y, DPK_F64
        left = run_short(&call, 1, position)
        return y if left is None else self.whole(array(values), left).item()

    cdef release_integer(self, values, source):
        cdef dpk_noise_call call
        cdef int overflow = 0
        cdef int64_t y = 0, x = PyLong_AsLongLongAndOverflow(values, &overflow)
        if overflow:
            return None
        position = self.open(&call, source)
        call.values.data, call.values.dtype = <char *> &x, DPK_I64
        call.out.data, call.out.dtype = <char *> &y, DPK_I64
        left = run_short(&call, 1, position)
        return y if left is None else self.whole(array(values, int64), left).item()

    cdef release_list(self, list values, source):
        cdef dpk_noise_call call
        cdef int64_t items[MOST_LISTED]
        cdef int64_t n = len(values)
        if n == 0 or n > MOST_LISTED:
            return None
        try:
            if not self.read_items(values, n, items):
                return None
            result = empty(n, self.item)
            position = self.open(&call, source)
            call.values.data, call.values.dtype = <char *> items, DPK_I64 if self.is_discrete else DPK_F64
            call.values.ndim, call.values.shape[0], call.values.strides[0] = 1, n, 8
            return self.run_into(&call, result, n, position, values, None)
        finally:
            dpk_wipe(items, 8 * <size_t> n)

    cdef bint read_items(self, list values, int64_t n, int64_t *items) except -1:
        """Whether all items are plain numbers of the law's type, which are written down."""
        cdef int64_t i
        cdef int overflow = 0
        for i in range(n):
            item = values[i]
            if self.is_discrete:
                if type(item) is not int:
                    return False
                items[i] = PyLong_AsLongLongAndOverflow(item, &overflow)
                if overflow:
                    return False
            elif type(item) is float:
                (<double *> items)[i] = item
            else:
                return False
        return True

    cdef release_array(self, values, source, int64_t longest, out):
        cdef dpk_noise_call call
        cdef Py_buffer given
        cdef int64_t size = values.size
        if size > longest or values.dtype not in (INTEGERS if self.is_discrete else REALS):
            return None
        if out is not None and not (type(out) is ndarray and out.dtype is self.item and is_room(out, values.shape)):
            return None
        position = self.open(&call, source)
        try:
            result = empty(values.shape, self.item)
            attach(&call.values, &given, values, False)
            try:
                # a stream is foreign code, which may have changed the array meanwhile
                if given.len != size * given.itemsize:
                    return self.whole(values, position_of(&call.stream, position))
                return self.run_into(&call, result, size, position, values, out)
            finally:
                PyBuffer_Release(&given)
        finally:
            dpk_wipe(&call.stream, sizeof(dpk_stream))

    cdef run_into(self, dpk_noise_call *call, result, int64_t size, position, values, out):
        """Run a call whose values are attached into a new array, which is then copied to `out` as a whole."""
        cdef Py_buffer made
        attach(&call.out, &made, result, True)
        try:
            left = run_short(call, size, position)
        finally:
            PyBuffer_Release(&made)
        if left is not None:
            result = self.whole(values if type(values) is ndarray else array(values), left)
        if out is None:
            return result
        out[...] = result
        return out

    cdef object open(self, dpk_noise_call *call, source):
        """The call of one law under the next position of a source, which is returned, but for its arrays."""
        memset(call, 0, sizeof(dpk_noise_call))
        call.kernels = level()
        position = open_next(&call.stream, &call.first_element, call.kernels, source, self.secure_cipher)
        call.kind = self.law.law.kind
        call.bound_factor = 1.0
        call.bounds = self.bounds
        call.n_laws = 1
        call.laws = &self.law.law
        return position


cdef bint is_room(out, tuple shape) except -1:
    """Whether an array of 8-byte items has this shape, may be written to and has memory of its own for each item."""
    cdef Py_buffer made
    cdef bint is_fit
    cdef int i
    if len(shape) != out.ndim:
        return False
    try:
        PyObject_GetBuffer(out, &made, PyBUF_STRIDED)
    except (ValueError, BufferError):
        return False  # it is read only
    is_fit = True
    for i in range(made.ndim):
        is_fit &= made.shape[i] == <Py_ssize_t> shape[i] and (made.strides[i] != 0 or made.shape[i] <= 1)
    PyBuffer_Release(&made)
    return is_fit


cdef object run_short(dpk_noise_call *call, int64_t size, position):
    """Run the whole call and wipe its stream. None if every value is written; if some are refused or left to the exact tier,
    the position."""
    cdef int64_t count = 0, reached = 0
    cdef int status
    try:
        if size <= GIL_KEPT:
            status = dpk_noise_run(call, 0, size, NULL, 0, &count, &reached)
        else:
            with nogil:
                status = dpk_noise_run(call, 0, size, NULL, 0, &count, &reached)
        return None if status == DPK_OK else position_of(&call.stream, position)
    finally:
        dpk_wipe(&call.stream, sizeof(dpk_stream))
