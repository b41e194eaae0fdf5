"""Noisy selection: a `Call` is one array of scores, from which rounds of noise choose."""

from cpython.buffer cimport PyBUF_WRITABLE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from dpk cimport (
    DPK_EXPONENTIAL, DPK_FEW_CANDIDATES, DPK_GUMBEL, DPK_NONFINITE, DPK_OK, DPK_PENDING_FULL, DPK_PIECES, DPK_SPARE_PLACES,
    DPK_STACK_DEPTH, DPK_TWO_SIDED, DPK_UNIT_BLOCKS, dpk_candidate, dpk_selection, dpk_selection_bounds, dpk_selection_peel,
    dpk_selection_ranked, dpk_selection_rebound, dpk_selection_run, dpk_selection_winner, dpk_threshold, dpk_wipe, dpk_wipe_stack,
)

from dpcore._kernels import _memory

from numpy import empty, int64

include "attach.pxi"
include "level.pxi"
include "key.pxi"
include "stream.pxi"
include "fresh.pxi"
include "short.pxi"

GUMBEL, EXPONENTIAL, TWO_SIDED = DPK_GUMBEL, DPK_EXPONENTIAL, DPK_TWO_SIDED
DONE, NONFINITE, PENDING_FULL = DPK_OK, DPK_NONFINITE, DPK_PENDING_FULL
BLOCK = DPK_PIECES
UNIT = DPK_PIECES * DPK_UNIT_BLOCKS
SPARE_PLACES = DPK_SPARE_PLACES


cdef class Call:
    """Scores and how they are chosen from. `run`, `winners` and `find_bounds` may be called from several threads; `exclude` may not."""

    cdef dpk_selection call
    cdef Py_buffer buffer
    cdef bint attached
    cdef object kept  # the arrays of bounds and of excluded elements

    def __cinit__(self, int noise, scores, double scale, int64_t keep, int64_t step, key, uint32_t nonce, uint64_t first_element,
                  int cipher, int tier=0, bint unpruned=False, double bound_factor=1.0):
        memset(&self.call, 0, sizeof(dpk_selection))
        attach(&self.call.scores, &self.buffer, scores, False)
        self.attached = True
        self.call.kernels = level()
        open_stream(&self.call.stream, self.call.kernels, key, nonce, cipher)
        self.call.first_element = first_element
        self.call.noise = noise
        self.call.tier = tier
        self.call.is_unpruned = unpruned
        self.call.bound_factor = bound_factor
        self.call.scale = scale
        self.call.n = scores.size
        self.call.keep = keep
        self.call.stride = <uint64_t> (-(-self.call.n // DPK_PIECES) * DPK_PIECES)
        self.call.n_units = -(-self.call.n // UNIT)
        self.call.step = step
        self.kept = {}

    def __dealloc__(self):
        if self.attached:
            PyBuffer_Release(&self.buffer)
        dpk_wipe(&self.call, sizeof(dpk_selection))

    @property
    def n_units(self):
        """Units that a round visits."""
        return self.call.n_units

    @property
    def stride(self):
        """Elements of keystream that a round takes."""
        return self.call.stride

    def use_bounds(self, double[::1] bounds):
        """Take the largest score of each block from `bounds`, which `find_bounds` fills."""
        if bounds.shape[0] * DPK_PIECES < self.call.n:
            raise ValueError("one bound for each block")
        self.kept["bounds"] = bounds
        self.call.bounds = &bounds[0]

    def find_bounds(self, int64_t start, int64_t stop):
        """Fill the bounds of blocks [start, stop): position of a score that is not finite, or -1."""
        cdef int64_t bad = -1
        with nogil:
            dpk_selection_bounds(&self.call, start, stop, &bad)
            dpk_wipe_stack(DPK_STACK_DEPTH)
        return bad

    def exclude(self, const int64_t[::1] excluded, int64_t newest):
        """Leave these elements, ascending, out of all further rounds; `newest` of them was not left out before."""
        self.kept["excluded"] = excluded
        self.call.excluded = &excluded[0]
        self.call.n_excluded = excluded.shape[0]
        dpk_selection_rebound(&self.call, newest // DPK_PIECES)
        dpk_wipe_stack(DPK_STACK_DEPTH)

    def run(self, uint64_t round_, int64_t start, int64_t stop, threshold, int64_t spare):
        """Units at positions [start, stop): (status, candidates as a buffer of (index, high, low, error), threshold, evaluated, bad)."""
        cdef dpk_threshold limit
        cdef int64_t count = 0, evaluated = 0, bad = -1, capacity = 2 * self.call.keep + DPK_SPARE_PLACES + spare
        cdef int status
        cdef Py_buffer buffer
        cdef dpk_candidate *places = <dpk_candidate *> malloc(<size_t> capacity * sizeof(dpk_candidate))
        if places == NULL:
            raise MemoryError
        memset(&limit, 0, sizeof(dpk_threshold))
        if threshold is not None:
            limit.high, limit.low = threshold
            limit.is_set = 1
        try:
            with nogil:
                status = dpk_selection_run(&self.call, round_, start, stop, places, capacity, &count, &limit, &evaluated, &bad)
                dpk_wipe_stack(DPK_STACK_DEPTH)
            found = _memory.Wiped(count * <Py_ssize_t> sizeof(dpk_candidate))
            PyObject_GetBuffer(found, &buffer, PyBUF_WRITABLE)
            memcpy(buffer.buf, places, <size_t> count * sizeof(dpk_candidate))
            PyBuffer_Release(&buffer)
            return status, found, (limit.high, limit.low) if limit.is_set else None, evaluated, bad
        finally:
            dpk_wipe(places, <size_t> capacity * sizeof(dpk_candidate))
            free(places)

    def winners(self, uint64_t first, int64_t[::1] out, int64_t start, int64_t stop):
        """Winners of rounds first + [start, stop) into `out`, -1 where only the exact tier can tell: position of a bad score, or -1."""
        cdef int64_t bad = -1, i, capacity = 2 * self.call.keep + DPK_SPARE_PLACES
        cdef int status = DPK_OK
        cdef dpk_candidate *places = <dpk_candidate *> malloc(<size_t> capacity * sizeof(dpk_candidate))
        if places == NULL:
            raise MemoryError
        if start < 0 or stop > out.shape[0]:
            free(places)
            raise ValueError("rounds outside the array")
        with nogil:
            for i in range(start, stop):
                status = dpk_selection_winner(&self.call, first + <uint64_t> i, places, capacity, &out[i], &bad)
                if status != DPK_OK:
                    break
            dpk_wipe(places, <size_t> capacity * sizeof(dpk_candidate))
            dpk_wipe_stack(DPK_STACK_DEPTH)
        free(places)
        return bad if status != DPK_OK else -1


def short(int noise, scores, double scale, int64_t keep, int64_t rounds, int64_t step, position, int64_t size, hooks, secure_cipher):
    """Elements of `size` > 0 scores on this thread: those with the `keep` largest keys, or if keep = 1 the winners of a peeling.

    `step` is prime to the number of units. The position None is the next one of the secure source: it is taken, and returned where only the
    general way can tell the elements, or refuse the scores. None: the same, but no position was taken.
    """
    cdef dpk_selection call
    cdef Py_buffer given
    cdef bint is_next = position is None
    if hooks.tier or hooks.unpruned or hooks.bound_factor != 1.0 or keep > DPK_FEW_CANDIDATES:
        return None
    memset(&call, 0, sizeof(dpk_selection))
    call.kernels = level()
    call.noise = noise
    call.bound_factor = 1.0
    call.scale = scale
    call.keep = keep
    call.step = step
    attach(&call.scores, &given, scores, False)
    try:
        if given.len != size * given.itemsize:  # a stream is foreign code, which may have changed the array
            return None
        call.n = size
        call.n_units = -(-call.n // (DPK_PIECES * DPK_UNIT_BLOCKS))
        call.stride = <uint64_t> (-(-call.n // DPK_PIECES) * DPK_PIECES)
        if is_next:
            open_next(&call.stream, &call.first_element, call.kernels, None, secure_cipher)
        else:
            call.first_element = open_position(&call.stream, call.kernels, position, secure_cipher)
        if call.first_element % DPK_PIECES or 0 < -call.first_element < <uint64_t> rounds * call.stride:
            return None
        found = run_short(&call, rounds)
        return position_of(&call.stream, None) if found is None and is_next else found
    finally:
        dpk_wipe(&call.stream, sizeof(dpk_stream))
        PyBuffer_Release(&given)


cdef run_short(dpk_selection *call, int64_t rounds):
    """The elements of one round, or the winners of several; None where they are not found."""
    cdef int64_t n_chosen = call.keep * rounds, capacity = 2 * call.keep + DPK_SPARE_PLACES
    cdef int64_t n_bounds = -(-call.n // DPK_PIECES) if rounds > 1 and call.n > DPK_PIECES else 0
    cdef size_t size = <size_t> capacity * sizeof(dpk_candidate) + 8 * <size_t> (n_chosen + rounds + n_bounds)
    cdef int status
    cdef Py_buffer made
    cdef dpk_candidate *places = <dpk_candidate *> malloc(size)
    cdef int64_t *chosen = <int64_t *> (places + capacity)
    if places == NULL:
        raise MemoryError
    if n_bounds:
        call.bounds = <double *> (chosen + n_chosen + rounds)
    if rounds * call.n <= GIL_KEPT:
        status = run_rounds(call, rounds, places, capacity, chosen, chosen + n_chosen)
    else:
        with nogil:
            status = run_rounds(call, rounds, places, capacity, chosen, chosen + n_chosen)
    try:
        if status != DPK_OK or chosen[0] < 0:
            return None
        found = empty(n_chosen, int64)
        PyObject_GetBuffer(found, &made, PyBUF_WRITABLE)
        memcpy(made.buf, chosen, 8 * <size_t> n_chosen)
        PyBuffer_Release(&made)
        return found
    finally:
        dpk_wipe(places, size)
        free(places)


cdef int run_rounds(dpk_selection *call, int64_t rounds, dpk_candidate *places, int64_t capacity, int64_t *chosen,
                    int64_t *excluded) noexcept nogil:
    cdef int64_t bad = -1, evaluated = 0
    cdef int status
    if rounds == 1:
        return dpk_selection_ranked(call, 0, places, capacity, chosen, &evaluated, &bad)
    status = dpk_selection_peel(call, rounds, places, capacity, excluded, chosen, &bad)
    if call.bounds != NULL:
        dpk_wipe_stack(DPK_STACK_DEPTH)
    return status
