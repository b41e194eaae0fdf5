"""Releases of distributions and of partitions: choices, decisions by count, cosines, paths inside a band, products with signs.

Every function may run on several threads.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from dpk cimport (
    DPK_COSINE_LARGEST, DPK_DISCRETE_DEPTH, DPK_DOMAIN_BULK, DPK_GROUP, DPK_PRODUCT_PLANES, DPK_STACK_DEPTH, dpk_band, dpk_band_rows,
    dpk_below_brackets, dpk_brackets, dpk_bulk_words, dpk_choice, dpk_choose, dpk_cosines, dpk_stream, dpk_weigh_bits, dpk_wipe,
    dpk_wipe_frames, dpk_wipe_stack,
)

include "attach.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"
include "fresh.pxi"
include "short.pxi"

from numpy import empty, ndarray

TRUTH = dtype("bool")

COSINE_LARGEST = DPK_COSINE_LARGEST


def choose(const uint64_t[::1] words, const uint64_t[::1] thresholds, const uint32_t[::1] guide, int shift, int64_t[::1] out):
    """Store for each word how many of the ascending thresholds are at most it; whether a word is one of them.

    `guide` holds how many are below 0, 2^shift, 2·2^shift, …, 2^64.
    """
    cdef dpk_choice choice
    cdef int is_tie
    if not 1 <= shift <= 63 or guide.shape[0] != (<Py_ssize_t> 1 << (64 - shift)) + 1 or out.shape[0] != words.shape[0]:
        raise ValueError("the guide must have an item for each bucket and one more, and out one for each word")
    if words.shape[0] == 0:
        return False
    choice.thresholds = &thresholds[0] if thresholds.shape[0] else NULL
    choice.guide, choice.shift = &guide[0], shift
    if guide[guide.shape[0] - 1] != <uint64_t> thresholds.shape[0]:
        raise ValueError("the guide must end with the number of thresholds")
    with nogil:
        is_tie = dpk_choose(level(), &choice, &words[0], &out[0], words.shape[0])
    return is_tie != 0


def cosines(const double[::1] x, int64_t[::1] sums, int64_t[:, ::1] out=None):
    """Add the rounded √2 cos(πjx), j = 1 …, of at most 2^21 numbers in [0, 1] to `sums`, and store them in the rows of `out`."""
    cdef size_t n = x.shape[0], terms = sums.shape[0]
    if n > <size_t> 1 << 21 or (out is not None and (<size_t> out.shape[0] != n or <size_t> out.shape[1] != terms)):
        raise ValueError("too many numbers, or out has another shape")
    cdef int64_t *rows = &out[0, 0] if out is not None and n and terms else NULL
    if n == 0 or terms == 0:
        return
    with nogil:
        dpk_cosines(level(), &x[0], n, terms, &sums[0], rows)
        dpk_wipe_stack(DPK_STACK_DEPTH)


def band_rows(tuple band, tuple weights, double[::1] mantissas, double[::1] exponents, size_t start, size_t stop):
    """Fill rows [start, stop) of the table: `band` is lower, upper and offsets, `weights` those of k, …, 0 with their exponents."""
    cdef const int64_t[::1] lower = band[0], upper = band[1], offsets = band[2]
    cdef const double[::1] factors = weights[0], powers = weights[1]
    cdef dpk_band table
    cdef size_t row, rows = lower.shape[0]
    cdef int64_t most = factors.shape[0] - 1, below = 0, above = 0
    if <size_t> upper.shape[0] != rows or <size_t> offsets.shape[0] != rows + 1 or powers.shape[0] != factors.shape[0] or stop > rows:
        raise ValueError("there must be two bounds and a place for each row")
    for row in range(rows):
        if lower[row] < below or upper[row] < above or upper[row] > most:
            raise ValueError("bands must not fall and lie in [0, k]")
        if offsets[row] < 0 or offsets[row] + max(0, upper[row] - lower[row] + 1) > offsets[row + 1]:
            raise ValueError("there must be a place for each sum of a row")
        below, above = lower[row], upper[row]
    if offsets[rows] > mantissas.shape[0] or mantissas.shape[0] != exponents.shape[0]:
        raise ValueError("there must be a place for each sum")
    if rows == 0 or mantissas.shape[0] == 0:
        return
    table.lower, table.upper, table.offsets, table.most = &lower[0], &upper[0], &offsets[0], most
    table.weights, table.weight_exponents = &factors[0], &powers[0]
    table.mantissas, table.exponents = &mantissas[0], &exponents[0]
    with nogil:
        dpk_band_rows(level(), &table, start, stop)


def weigh_bits(const uint8_t[:, :] rows, const uint64_t[:, ::1] planes, int64_t[::1] out):
    """Store for each row how many bits it shares with each plane, weighted by 1, 2, 4, … and by −2^(b − 1) for the last plane."""
    cdef size_t n = rows.shape[0], width = rows.shape[1]
    if planes.shape[0] > DPK_PRODUCT_PLANES or planes.shape[1] != (rows.shape[1] + 7) // 8 or out.shape[0] != rows.shape[0]:
        raise ValueError("planes must have a word for each eight bytes of a row, and out an item for each row")
    if width > 1 and rows.strides[1] != 1:
        raise ValueError("the bytes of a row must follow each other")
    if n == 0 or width == 0 or planes.shape[0] == 0:
        return
    with nogil:
        dpk_weigh_bits(level(), &rows[0, 0], n, width, rows.strides[0], &planes[0, 0], planes.shape[0], &out[0])


def below_brackets(
    const int64_t[::1] counts, const uint64_t[::1] words, const uint64_t[::1] low, const uint64_t[::1] high, int shift, uint8_t[::1] out
):
    """Store for each count whether the uniform number that begins with its word is below its probability, or 2; how many are 2.

    That of the counts in [b·2^shift, (b + 1)·2^shift) lies in [low[b], high[b] + 1)·2^-64; the last bracket is that of larger counts, too.
    """
    cdef dpk_brackets brackets
    cdef size_t n = counts.shape[0]
    cdef int64_t undecided
    if <size_t> words.shape[0] != n or <size_t> out.shape[0] != n or not 0 <= shift <= 62:
        raise ValueError("there must be a word and an item of out for each count")
    if low.shape[0] == 0 or low.shape[0] != high.shape[0]:
        raise ValueError("each bracket must have two ends")
    if n == 0:
        return 0
    brackets.low, brackets.high, brackets.last, brackets.shift = &low[0], &high[0], low.shape[0] - 1, shift
    with nogil:
        undecided = dpk_below_brackets(&brackets, &counts[0], &words[0], &out[0], n)
    return undecided


cdef class ShortBrackets:
    """Brackets of probabilities, for few counts at a time under the secure source. They keep the arrays; nobody writes to them."""

    cdef dpk_brackets brackets
    cdef const uint64_t[::1] low, high
    cdef object sizes, secure_cipher

    def __cinit__(self, const uint64_t[::1] low, const uint64_t[::1] high, int shift, sizes, secure_cipher):
        if low.shape[0] == 0 or low.shape[0] != high.shape[0] or not 0 <= shift <= 62:
            raise ValueError("each bracket must have two ends")
        self.low, self.high, self.sizes, self.secure_cipher = low, high, sizes, secure_cipher
        self.brackets.low, self.brackets.high, self.brackets.last, self.brackets.shift = &low[0], &high[0], low.shape[0] - 1, shift

    def decide(self, counts):
        """For each count whether its uniform number is below its probability; if some words do not tell, the position of all of them.

        None: `counts` are none that are read here, and no position has been taken.
        """
        cdef Py_buffer given, made
        cdef dpk_stream stream
        cdef uint64_t words[GIL_KEPT]
        cdef uint64_t first = 0
        cdef size_t n
        cdef int64_t longest = self.sizes.SMALL, undecided
        cdef const dpk_kernels *kernels = level()
        if type(counts) is not ndarray or DTYPES.get(counts.dtype) != DPK_I64:
            return None
        PyObject_GetBuffer(counts, &given, PyBUF_STRIDED_RO)
        n = <size_t> given.len // 8
        try:
            if given.ndim != 1 or n < 1 or n > GIL_KEPT or <int64_t> n > longest or given.strides[0] != 8 or <size_t> given.buf % 8:
                return None
            result = empty(n, TRUTH)
            PyObject_GetBuffer(result, &made, PyBUF_STRIDED)
            PyBuffer_Release(&made)  # nobody else has the array
            open_next(&stream, &first, kernels, None, self.secure_cipher)
            dpk_bulk_words(&stream, kernels, DPK_DOMAIN_BULK, 0, (n + DPK_GROUP - 1) // DPK_GROUP, words)
            undecided = dpk_below_brackets(&self.brackets, <const int64_t *> given.buf, words, <uint8_t *> made.buf, n)
            return position_of(&stream, None) if undecided else result
        finally:
            dpk_wipe(&stream, sizeof(dpk_stream))
            dpk_wipe(words, sizeof(words))
            dpk_wipe_frames(DPK_DISCRETE_DEPTH)
            PyBuffer_Release(&given)
