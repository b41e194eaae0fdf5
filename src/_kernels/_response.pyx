"""Local randomisers: `Reals` are probabilities to many bits, a `Guide` the ends of a channel's outcomes, a `Call` one array's way."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from dpk cimport (
    DPK_BLOCK, DPK_BOUNDED, DPK_CHANNEL, DPK_EXHAUSTED, DPK_FLIP, DPK_FLIP_PACKED, DPK_GUIDE_BITS, DPK_HADAMARD, DPK_HASHING, DPK_HYPERCUBE,
    DPK_KARY, DPK_MAX_LIMBS, DPK_MOST_DIMENSIONS, DPK_NEED_LIMBS, DPK_NONFINITE, DPK_OK, DPK_PENDING_FULL, DPK_PROJECTIVE, DPK_REAL_DEPTH,
    DPK_SAMPLE, DPK_SUBSET, DPK_TABLE, DPK_UNARY,
    dpk_bounded, dpk_bounded_set, dpk_box, dpk_box_set, dpk_field, dpk_field_table, dpk_first_nan, dpk_first_outside, dpk_guide,
    dpk_line_sums, dpk_pending, dpk_real, dpk_quantile, dpk_response, dpk_response_run, dpk_sequential_quantile, dpk_subset_words,
    dpk_vector_words, dpk_wipe,
)

include "views.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"
include "fresh.pxi"
include "short.pxi"

from numpy import empty, ndarray

REAL_CODES = frozenset((DPK_F64, DPK_F32, DPK_F16))
TRUTH = dtype("bool")

FLIP, FLIP_PACKED, BOUNDED, TABLE, KARY = DPK_FLIP, DPK_FLIP_PACKED, DPK_BOUNDED, DPK_TABLE, DPK_KARY
UNARY, SUBSET, HASHING, HADAMARD, CHANNEL = DPK_UNARY, DPK_SUBSET, DPK_HASHING, DPK_HADAMARD, DPK_CHANNEL
SAMPLE, HYPERCUBE, PROJECTIVE = DPK_SAMPLE, DPK_HYPERCUBE, DPK_PROJECTIVE
DONE, NONFINITE, PENDING_FULL, NEED_LIMBS, EXHAUSTED = DPK_OK, DPK_NONFINITE, DPK_PENDING_FULL, DPK_NEED_LIMBS, DPK_EXHAUSTED
MAX_LIMBS, GUIDE_BITS = DPK_MAX_LIMBS, DPK_GUIDE_BITS


cdef class Reals:
    """Probabilities, each floor(p 2^(32 n)) in n 32-bit limbs. Immutable; shared by threads."""

    cdef dpk_real *reals
    cdef uint32_t *limbs
    cdef readonly Py_ssize_t count

    def __cinit__(self, const uint32_t[:, ::1] limbs, list exact):
        cdef Py_ssize_t i, n = limbs.shape[1]
        self.count = limbs.shape[0]
        if self.count < 1 or n < 3 or n > DPK_MAX_LIMBS or len(exact) != self.count:
            raise ValueError("limbs must be at least one row of 3 to 64")
        self.reals = <dpk_real *> malloc(self.count * sizeof(dpk_real))
        self.limbs = <uint32_t *> malloc(self.count * n * 4)
        if self.reals == NULL or self.limbs == NULL:
            raise MemoryError
        memcpy(self.limbs, &limbs[0, 0], self.count * n * 4)
        for i in range(self.count):
            self.reals[i].n_limbs = <int32_t> n
            self.reals[i].is_exact = bool(exact[i])
            self.reals[i].limbs = self.limbs + i * n

    def __dealloc__(self):
        free(self.reals)
        free(self.limbs)


cdef class Guide:
    """Where the outcomes of a finite channel end, and the cells that find them. It keeps the arrays; nobody writes to them."""

    cdef dpk_guide guide
    cdef const uint32_t[:, ::1] cells
    cdef const uint64_t[:, ::1] ends

    def __cinit__(self, const uint32_t[:, ::1] cells, const uint64_t[:, ::1] ends, int bits):
        if not 1 <= bits <= DPK_GUIDE_BITS or cells.shape[1] != 1 << bits or cells.shape[0] < 1 or ends.shape[0] != cells.shape[0]:
            raise ValueError("cells must be 2**bits an input, with one row of ends for each row of cells")
        self.cells, self.ends = cells, ends
        self.guide.cells = &cells[0, 0]
        self.guide.ends = &ends[0, 0] if ends.shape[1] else NULL
        self.guide.outcomes, self.guide.bits = ends.shape[1] + 1, bits


cdef class Box:
    """Bounds of each coordinate of a vector, and the number that stands for NaN (NaN: none). Immutable; shared by threads."""

    cdef dpk_box box
    cdef double *room

    def __cinit__(self, const double[::1] lower, const double[::1] upper, const double[::1] missing):
        cdef Py_ssize_t d = lower.shape[0], size = d + DPK_BLOCK
        if d < 1 or upper.shape[0] != d or missing.shape[0] != d:
            raise ValueError("bounds must have one length, which is at least 1")
        self.room = <double *> malloc(5 * size * sizeof(double))
        if self.room == NULL:
            raise MemoryError
        memcpy(self.room, &lower[0], d * sizeof(double))
        memcpy(self.room + size, &upper[0], d * sizeof(double))
        memcpy(self.room + 2 * size, &missing[0], d * sizeof(double))
        dpk_box_set(self.room, self.room + size, self.room + 2 * size, self.room + 3 * size, self.room + 4 * size, d, size)
        self.box.lower, self.box.upper, self.box.missing = self.room, self.room + size, self.room + 2 * size
        self.box.width, self.box.inverse = self.room + 3 * size, self.room + 4 * size

    def __dealloc__(self):
        free(self.room)


cdef enum:
    FEW_POINTS = 64  # a space of so many has a table of all points of all hyperplanes


cdef class Field:
    """A finite field of q elements and the projective space of vectors of t of them. Immutable; shared by threads."""

    cdef dpk_field field
    cdef uint32_t offsets[DPK_MOST_DIMENSIONS + 1]
    cdef uint16_t *room

    def __cinit__(self, uint32_t q, int t, uint32_t minus_one, const uint16_t[::1] log, const uint16_t[::1] exp,
                  const uint16_t[::1] sums):
        cdef int m
        cdef uint64_t points = 0
        cdef size_t n_sums = 0 if sums is None else <size_t> q * q, n_table = 0
        if q < 2 or q > 65535 or t < 3 or t > DPK_MOST_DIMENSIONS or minus_one >= q:
            raise ValueError("q and t must be those of a plane or a larger space")
        if log.shape[0] != q or exp.shape[0] != 2 * q or (n_sums and <size_t> sums.shape[0] != n_sums):
            raise ValueError("tables must have q, 2 q and q q items")
        for m in range(t + 1):
            if points >= <uint64_t> 1 << 31:
                raise ValueError("the space has too many points")
            self.offsets[m] = <uint32_t> points
            points = points * q + 1
        if self.offsets[t] <= FEW_POINTS:
            n_table = <size_t> self.offsets[t] * self.offsets[t]
        self.room = <uint16_t *> malloc((3 * q + n_sums + n_table) * sizeof(uint16_t))
        if self.room == NULL:
            raise MemoryError
        memcpy(self.room, &log[0], q * sizeof(uint16_t))
        memcpy(self.room + q, &exp[0], 2 * q * sizeof(uint16_t))
        if n_sums:
            memcpy(self.room + 3 * q, &sums[0], n_sums * sizeof(uint16_t))
        self.field.q, self.field.t, self.field.minus_one = q, t, minus_one
        self.field.offsets, self.field.log, self.field.exp = self.offsets, self.room, self.room + q
        self.field.sum = self.room + 3 * q if n_sums else NULL
        if n_table:
            dpk_field_table(&self.field, self.room + 3 * q + n_sums)
            self.field.table = self.room + 3 * q + n_sums

    def __dealloc__(self):
        free(self.room)


def line_sums(Field field, const int64_t[:, ::1] x, int64_t start, int64_t stop, int64_t[:, ::1] out):
    """Rows [start, stop) of `out`: row q r + c has the sums of row r of x along lines of slope c."""
    cdef size_t q = field.field.q, blocks = 0
    if out.shape[1] < 1 or <size_t> (out.shape[1] - 1) % q:
        raise ValueError("out must have 1 + q b columns")
    blocks = <size_t> (out.shape[1] - 1) // q
    if <size_t> x.shape[1] != 1 + q + q * q * blocks or <size_t> out.shape[0] != q * <size_t> x.shape[0]:
        raise ValueError("x must have 1 + q + q q b columns, and out q times its rows")
    if start < 0 or stop > out.shape[0] or start >= stop:
        return
    with nogil:
        dpk_line_sums(&field.field, &x[0, 0], blocks, start, stop, &out[0, 0])


cdef int set_law(dpk_response *call, int kind, Reals real, Reals own, Box box, Field field, int64_t k, int64_t unknown, int64_t w,
                 int64_t g, double scale, tuple bounded, Guide guide) except -1:
    cdef dpk_bounded *b = &call.bounded
    call.kind, call.k, call.unknown, call.w, call.g, call.scale = kind, k, unknown, w, g, scale
    if real is not None:
        call.real = real.reals
    if own is not None:
        call.own = own.reals
    if guide is not None:
        if k > guide.cells.shape[0]:
            raise ValueError("a channel must have a row for each input")
        call.guide = guide.guide
    if box is not None:
        call.box = &box.box
    if field is not None:
        call.field = &field.field
    if bounded is not None:
        b.lower, b.upper, b.missing, b.slack, b.start, b.rise, b.q_high, b.q_low = bounded
        dpk_bounded_set(b)
    return 0


cdef size_t room_of(const dpk_response *call) noexcept:
    """Bytes of a report that is made elsewhere than in the output."""
    if call.kind == DPK_HYPERCUBE:
        return <size_t> call.k
    return <size_t> ((call.k + 7) // 8) if call.kind == DPK_SUBSET else 0


cdef class Call(Views):
    """One array's way through the kernels. `run` may be called from several threads on separate ranges."""

    cdef dpk_response call
    cdef object kept
    cdef size_t room

    def __cinit__(self, int kind, values, out, key, uint32_t nonce, uint64_t first_element, int cipher, *, Reals real=None,
                  Reals own=None, Box box=None, Field field=None, int64_t k=0, int64_t unknown=-1, int64_t w=0, int64_t g=0,
                  double scale=0.0, tuple bounded=None, Guide guide=None, int tier=0, bint streams=False):
        memset(&self.call, 0, sizeof(dpk_response))
        self.kept = (real, own, box, field, guide)
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.tier = tier
        self.call.streams = streams
        set_law(&self.call, kind, real, own, box, field, k, unknown, w, g, scale, bounded, guide)
        self.room = room_of(&self.call)
        self.attach_next(&self.call.values, values, False)
        self.attach_next(&self.call.out, out, True)

    def __dealloc__(self):
        dpk_wipe(&self.call, sizeof(dpk_response))

    def run(self, int64_t start, int64_t stop):
        """Positions [start, stop): (status, position reached, pending records)."""
        cdef int64_t count = 0, reached = start, i
        cdef int status
        # room for as many as a block has, so that every run advances
        cdef int64_t capacity = min(stop - start, DPK_BLOCK)
        cdef dpk_pending *pending = <dpk_pending *> malloc(<size_t> capacity * sizeof(dpk_pending) + 1)
        cdef uint8_t *room = <uint8_t *> malloc(self.room + 1)
        if pending == NULL or room == NULL:
            free(pending)
            free(room)
            raise MemoryError
        try:
            with nogil:
                status = dpk_response_run(&self.call, start, stop, room, pending, capacity, &count, &reached)
            return status, reached, [
                (pending[i].index, pending[i].element, pending[i].x, pending[i].x_low, pending[i].x_int, pending[i].law)
                for i in range(count)
            ]
        finally:
            dpk_wipe(pending, count * sizeof(dpk_pending))
            dpk_wipe(room, self.room)
            free(pending)
            free(room)

    def run_rounded(self, int64_t record, const uint8_t[::1] corner):
        """The report of one vector whose corner is given, a byte of 0 or 1 a coordinate: the status."""
        cdef dpk_response call
        cdef int64_t count = 0, reached = record
        cdef int status
        cdef uint8_t *room
        if self.call.kind != DPK_HYPERCUBE or corner.shape[0] != self.call.k:
            raise ValueError("corner must have a byte for each coordinate")
        room = <uint8_t *> malloc(self.room)
        if room == NULL:
            raise MemoryError
        memcpy(&call, &self.call, sizeof(dpk_response))
        memcpy(room, &corner[0], self.room)
        call.is_rounded = 1
        with nogil:
            status = dpk_response_run(&call, record, record + 1, room, NULL, 0, &count, &reached)
        dpk_wipe(room, self.room)
        dpk_wipe(&call.stream, sizeof(dpk_stream))
        free(room)
        return status

    def first_nan(self, int64_t start, int64_t stop):
        """Position of the first NaN among the values, or -1."""
        cdef int64_t found
        with nogil:
            found = dpk_first_nan(self.call.kernels, &self.call.values, start, stop)
        return found


cdef class ShortCall:
    """The way of a short array through one randomiser, without Python's part of a `Call`."""

    cdef dpk_response law  # a call but for its arrays, its stream and its level
    cdef object kept, sizes, hooks, secure_cipher, report
    cdef bint refuses_nan
    cdef size_t room

    def __cinit__(self, int kind, Reals real, Reals own, Box box, Field field, int64_t k, int64_t unknown, int64_t w, int64_t g,
                  double scale, tuple bounded, Guide guide, sizes, hooks, secure_cipher, report, bint refuses_nan):
        """`report` is the dtype of reports, None for that of the records; `sizes.SMALL` the length of the longest array."""
        memset(&self.law, 0, sizeof(dpk_response))
        self.kept, self.sizes, self.hooks, self.secure_cipher = (real, own, box, field, guide), sizes, hooks, secure_cipher
        self.report, self.refuses_nan = report, refuses_nan
        set_law(&self.law, kind, real, own, box, field, k, unknown, w, g, scale, bounded, guide)
        self.room = room_of(&self.law)

    def respond(self, values):
        """Reports of the secure source on an array of few records, in a new array. If they are not all made, the position to go on from.

        None: `values` is no such array, or has a record that is refused or replaced, and no position has been taken.
        """
        cdef dpk_response call
        cdef Py_buffer given
        cdef int64_t size = 0, longest = self.sizes.SMALL
        if type(values) is not ndarray or self.hooks.tier or self.hooks.limbs:
            return None
        code = DPK_U8 if self.law.kind == DPK_FLIP and values.dtype is TRUTH else DTYPES.get(values.dtype)
        shape = None if code is None else self.shape_of(values, code, &size)
        if shape is None or not 0 < size <= longest or size > GIL_KEPT:
            return None
        memcpy(&call, &self.law, sizeof(dpk_response))
        call.kernels = level()
        PyObject_GetBuffer(values, &given, PyBUF_STRIDED_RO)
        try:
            fill_view(&call.values, &given, code)
            if self.has_refused(&call, given.len // given.itemsize):
                dpk_wipe_frames(DPK_REAL_DEPTH)
                return None
            result = empty(shape, values.dtype if self.report is None else self.report)
            open_next(&call.stream, &call.first_element, call.kernels, None, self.secure_cipher)
            return result if self.is_made(&call, result, code, size) else position_of(&call.stream, None)
        finally:
            dpk_wipe(&call.stream, sizeof(dpk_stream))
            PyBuffer_Release(&given)

    cdef tuple shape_of(self, values, int code, int64_t *size):
        """The shape of the reports on records of such a dtype, and the number of records; None if the general way is to tell it."""
        cdef int kind = self.law.kind
        cdef tuple shape = values.shape
        cdef int bits
        size[0] = values.size
        if kind == DPK_SAMPLE or kind == DPK_HYPERCUBE:
            if code == DPK_F64_PAIR or code == DPK_U64 or not shape or shape[-1] != self.law.k:
                return None
            size[0] //= self.law.k
            return shape[:-1] if kind == DPK_SAMPLE else (*shape[:-1], self.room_of_bits())
        if kind == DPK_BOUNDED:
            return None if code == DPK_F64_PAIR or code == DPK_U64 else shape
        if kind == DPK_FLIP:
            return shape if values.dtype is TRUTH else None
        if code in REAL_CODES or code == DPK_F64_PAIR or code == DPK_U64:
            return None
        if kind == DPK_UNARY or kind == DPK_SUBSET:
            return (size[0], self.room_of_bits()) if len(shape) <= 1 else None
        if kind == DPK_KARY:
            bits = 8 * values.dtype.itemsize - (code in (DPK_I64, DPK_I32, DPK_I16, DPK_I8))
            if bits < 63 and self.law.k > <int64_t> 1 << bits:
                return None
        return None if kind == DPK_CHANNEL or kind == DPK_FLIP_PACKED else shape

    cdef int64_t room_of_bits(self):
        return (self.law.k + 7) // 8

    cdef bint has_refused(self, const dpk_response *call, int64_t items):
        """Whether a record is refused, or replaced by another one."""
        cdef int kind = call.kind
        if kind == DPK_FLIP or kind == DPK_BOUNDED:
            return False
        if kind == DPK_SAMPLE or kind == DPK_HYPERCUBE:
            return self.refuses_nan and dpk_first_nan(call.kernels, &call.values, 0, items) >= 0
        return call.unknown < 0 and dpk_first_outside(call.kernels, &call.values, call.k, 0, items) >= 0

    cdef bint is_made(self, dpk_response *call, result, int code, int64_t size) except -1:
        """Run the call into a new array; whether it has every report."""
        cdef Py_buffer made
        cdef int64_t count = 0, reached = 0
        cdef uint8_t *room = <uint8_t *> malloc(self.room + 1)
        if room == NULL:
            raise MemoryError
        try:
            PyObject_GetBuffer(result, &made, PyBUF_STRIDED)
            call.out.data, call.out.ndim, call.out.dtype = <char *> made.buf, 1, code if self.report is None else DPK_U8
            call.out.strides[0] = made.itemsize if self.report is None else 1
            call.out.shape[0] = made.len // call.out.strides[0]
            PyBuffer_Release(&made)  # nobody else has the array
            return dpk_response_run(call, 0, size, room, NULL, 0, &count, &reached) == DPK_OK
        finally:
            dpk_wipe(room, self.room)
            free(room)

    def run(self, values, out, int64_t size, position):
        """Whether all of `out` has its reports. If not, all of it is left to a `Call` under this position."""
        cdef dpk_response call
        cdef Py_buffer given, made
        cdef int64_t count = 0, reached = 0
        cdef int status = DPK_NEED_LIMBS
        cdef uint8_t *room
        if self.hooks.tier or self.hooks.limbs:
            return False
        memcpy(&call, &self.law, sizeof(dpk_response))
        call.kernels = level()
        room = <uint8_t *> malloc(self.room + 1)
        if room == NULL:
            raise MemoryError
        try:
            attach(&call.values, &given, values, False)
            try:
                attach(&call.out, &made, out, True)
                try:
                    call.first_element = open_position(&call.stream, call.kernels, position, self.secure_cipher)
                    if size <= GIL_KEPT:
                        status = dpk_response_run(&call, 0, size, room, NULL, 0, &count, &reached)
                    else:
                        with nogil:
                            status = dpk_response_run(&call, 0, size, room, NULL, 0, &count, &reached)
                finally:
                    dpk_wipe(&call.stream, sizeof(dpk_stream))
                    PyBuffer_Release(&made)
            finally:
                PyBuffer_Release(&given)
        finally:
            dpk_wipe(room, self.room)
            free(room)
        return status == DPK_OK


def first_outside(codes, int64_t k, int64_t start, int64_t stop):
    """Position of the first code outside [0, k), or -1."""
    cdef Py_buffer buffer
    cdef dpk_view view
    cdef int64_t found
    memset(&view, 0, sizeof(dpk_view))
    attach(&view, &buffer, codes, False)
    try:
        with nogil:
            found = dpk_first_outside(level(), &view, k, start, stop)
            dpk_wipe_frames(DPK_REAL_DEPTH)
        return found
    finally:
        PyBuffer_Release(&buffer)


def first_nan(values, int64_t start, int64_t stop):
    """Position of the first NaN in [start, stop), or -1."""
    cdef Py_buffer buffer
    cdef dpk_view view
    cdef int64_t found
    memset(&view, 0, sizeof(dpk_view))
    attach(&view, &buffer, values, False)
    try:
        with nogil:
            found = dpk_first_nan(level(), &view, start, stop)
            dpk_wipe_frames(DPK_REAL_DEPTH)
        return found
    finally:
        PyBuffer_Release(&buffer)


def vector_words(int64_t d):
    """64-bit words of keystream that the signs of a vector of d numbers take."""
    return dpk_vector_words(d)


def subset_words(int64_t w):
    """64-bit words of keystream that a subset of size w takes."""
    return dpk_subset_words(w)


def sequential_quantile(tuple law, const double[::1] x, const uint8_t[::1] flips, uint8_t[::1] bits):
    """Answers of a sequential quantile, and its estimate; `x` and `flips` None to replay `bits`."""
    cdef dpk_quantile q
    cdef double average
    cdef Py_ssize_t n = bits.shape[0]
    cdef const double *values = NULL
    cdef const uint8_t *flipped = NULL
    cdef uint8_t *answers = NULL
    q.tau, q.lower, q.upper, q.start, q.step, q.when_true, q.when_false = law
    if x is not None:
        if flips is None or x.shape[0] != n or flips.shape[0] != n:
            raise ValueError("x, flips and bits must have one length")
    if n:
        answers = &bits[0]
        if x is not None:
            values = &x[0]
            flipped = &flips[0]
    with nogil:
        dpk_sequential_quantile(&q, values, flipped, answers, n, &average)
    return average
