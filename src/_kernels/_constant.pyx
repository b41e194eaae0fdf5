"""Constant work: `Digits` hold the public tables of one law, the calls draw sums of digits for arrays."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from dpk cimport (
    DPK_LIMBS, DPK_MOST_DIGITS, dpk_constant_bits, dpk_constant_choice, dpk_constant_flip,
    dpk_constant_int, dpk_constant_largest, dpk_constant_noise, dpk_constant_real, dpk_digit, dpk_wipe,
)

include "views.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"


cdef class Digits:
    """The digits of a law: weights, thresholds of 127 bits, and whether a digit has a sign. Immutable; shared by threads."""

    cdef dpk_digit *digits
    cdef int64_t n_digits
    cdef int64_t *room

    def __cinit__(self, list digits):
        """Of each digit: the limbs of its weight, the upper and the lower parts of its thresholds, whether it has a sign."""
        cdef Py_ssize_t i, k, n, used = 0
        cdef Py_ssize_t size = sum([len(high) for _, high, _, _ in digits])
        if not 0 < len(digits) <= DPK_MOST_DIGITS:
            raise ValueError("too many digits")
        self.n_digits = len(digits)
        self.digits = <dpk_digit *> calloc(self.n_digits, sizeof(dpk_digit))
        self.room = <int64_t *> calloc(2 * size + 1, sizeof(int64_t))
        if self.digits == NULL or self.room == NULL:
            raise MemoryError
        for i in range(self.n_digits):
            limbs, high, low, is_signed = digits[i]
            n = len(high)
            if n != len(low) or len(limbs) != DPK_LIMBS:
                raise ValueError("a digit has two parts of each threshold, and three limbs")
            self.digits[i].is_signed = is_signed
            self.digits[i].n_thresholds = <int32_t> n
            for k in range(DPK_LIMBS):
                self.digits[i].weight[k] = limbs[k]
            self.digits[i].high, self.digits[i].low = self.room + used, self.room + used + n
            for k in range(n):
                self.room[used + k], self.room[used + n + k] = high[k], low[k]
            used += 2 * n

    def __dealloc__(self):
        free(self.digits)
        free(self.room)


cdef class Noise(Views):
    """One array and its noise. `run` may be called from several threads on separate ranges."""

    cdef dpk_constant_noise call
    cdef Digits digits
    cdef bint is_real

    def __cinit__(self, Digits digits not None, values, out, key, uint32_t nonce, uint64_t first_element, int cipher, *, tuple bounds=None,
                  int fraction_bits=0, double grid=1.0, double least=0.0, double most=0.0):
        memset(&self.call, 0, sizeof(dpk_constant_noise))
        self.digits = digits
        self.is_real = fraction_bits > 0
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.digits, self.call.n_digits = digits.digits, digits.n_digits
        self.call.fraction_bits, self.call.grid, self.call.inverse = fraction_bits, grid, 1.0 / grid
        self.call.least, self.call.most = least, most
        if bounds is not None:
            (self.call.bounds.lower, self.call.bounds.upper, self.call.bounds.missing, self.call.bounds.int_lower,
             self.call.bounds.int_upper, self.call.bounds.is_integral) = bounds
            self.call.bounds.is_set = 1
        self.attach_next(&self.call.values, values, False)
        self.attach_next(&self.call.out, out, True)

    def __dealloc__(self):
        dpk_wipe(&self.call, sizeof(dpk_constant_noise))

    def run(self, int64_t start, int64_t stop):
        """Write positions [start, stop)."""
        with nogil:
            if self.is_real:
                dpk_constant_real(&self.call, start, stop)
            else:
                dpk_constant_int(&self.call, start, stop)


cdef class Bits:
    """Bits and their reports, with one digit for a bit that is not set and one for a bit that is."""

    cdef dpk_constant_bits call
    cdef Digits digits
    cdef object kept

    def __cinit__(self, Digits digits not None, const uint8_t[::1] bits, uint8_t[::1] out, key, uint32_t nonce, uint64_t first_element,
                  int cipher):
        memset(&self.call, 0, sizeof(dpk_constant_bits))
        if digits.n_digits != 2 or bits.shape[0] != out.shape[0]:
            raise ValueError("two digits, and bits and reports of one length")
        self.digits, self.kept = digits, (bits, out)
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.digits = digits.digits
        if bits.shape[0]:
            self.call.bits, self.call.out = &bits[0], &out[0]

    def __dealloc__(self):
        dpk_wipe(&self.call, sizeof(dpk_constant_bits))

    def run(self, int64_t start, int64_t stop):
        """Write reports [start, stop)."""
        with nogil:
            dpk_constant_flip(&self.call, start, stop)


cdef class Choice(Views):
    """Scores, of which the one with the largest noisy key is looked for."""

    cdef dpk_constant_choice call
    cdef Digits digits

    def __cinit__(self, Digits digits not None, scores, key, uint32_t nonce, uint64_t first_element, int cipher, *, double grid,
                  double least, double most, double largest, double largest_low):
        memset(&self.call, 0, sizeof(dpk_constant_choice))
        self.digits = digits
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.digits, self.call.n_digits = digits.digits, digits.n_digits
        self.call.inverse, self.call.least, self.call.most = 1.0 / grid, least, most
        self.call.largest, self.call.largest_low = largest, largest_low
        self.attach_next(&self.call.scores, scores, False)

    def __dealloc__(self):
        dpk_wipe(&self.call, sizeof(dpk_constant_choice))

    def largest(self, int64_t n):
        """Position of the largest key."""
        cdef int64_t found
        with nogil:
            found = dpk_constant_largest(&self.call, n)
        return found
