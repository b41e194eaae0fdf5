"""The look-up of estimates by counts, places among points, and the walk of data sets through a table of tests. All may run on several
threads."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from dpk cimport (
    DPK_STACK_DEPTH, DPK_WALK_LANES, dpk_places, dpk_places_run, dpk_steps, dpk_tests, dpk_walk, dpk_wipe_stack,
)

include "level.pxi"
include "attach.pxi"

WALK_LANES = DPK_WALK_LANES


def walk(
    const double[:, ::1] weights, const float[:, ::1] rough, const double[::1] centre, tuple numbers, const double[:, ::1] counts,
    int32_t[::1] levels, int32_t[::1] places, int32_t steps
):
    """Advance each data set through the tests that are known, at most through level `steps`; a row of NaN is not known.

    `rough` has no rows, or is dpk_tests' table in float for this centre, with `numbers` its reports, error and error_fixed.
    """
    cdef Py_ssize_t i, n = counts.shape[0]
    cdef dpk_tests tests
    if levels.shape[0] != n or places.shape[0] != n:
        raise ValueError("levels and places must have an item for each data set")
    if counts.shape[1] != weights.shape[1] or weights.shape[1] == 0 or weights.shape[1] % DPK_WALK_LANES:
        raise ValueError("rows must have one length, a multiple of the lanes")
    if steps < 0 or weights.shape[0] < <Py_ssize_t> steps * (steps + 1) // 2:
        raise ValueError("weights must have a row for each node of every level")
    if rough.shape[0] and (
        rough.shape[0] != weights.shape[0] or rough.shape[1] != weights.shape[1] or centre.shape[0] != weights.shape[1]
        or rough.size >= 2**31
    ):
        raise ValueError("rough must be of the shape of weights, with less than 2^31 items, and the centre of that of a row")
    for i in range(n):
        if not (1 <= levels[i] <= steps + 1 and 1 <= places[i] <= levels[i]):
            raise ValueError("every data set must stand at a node")
    if n == 0 or steps == 0:
        return
    tests.weights, tests.width, tests.steps = &weights[0, 0], weights.shape[1], steps
    tests.rough, tests.centre = NULL, NULL
    if rough.shape[0]:
        tests.rough, tests.centre = &rough[0, 0], &centre[0]
        tests.reports, tests.error, tests.error_fixed = numbers
    with nogil:
        dpk_walk(level(), &tests, &counts[0, 0], &levels[0], &places[0], n)


def first_wrong(const int64_t[:, :] counts, int64_t n):
    """The first row that holds a negative count or does not sum to n, or -1."""
    cdef Py_ssize_t i, z
    cdef int64_t left, wrong = -1
    with nogil:
        for i in range(counts.shape[0]):
            left = n
            for z in range(counts.shape[1]):
                if not 0 <= counts[i, z] <= left:
                    left = -1
                    break
                left -= counts[i, z]
            if left != 0:
                wrong = i
                break
    return wrong


def step_values(const int64_t[::1] counts, const int64_t[::1] thresholds, const double[::1] values, double[::1] out):
    """Store for each count the value whose number is that of the thresholds at or below it; 2^m - 1 ascending thresholds."""
    cdef int log2 = 0
    while (<Py_ssize_t> 1 << log2) < values.shape[0]:
        log2 += 1
    if (<Py_ssize_t> 1 << log2) != values.shape[0] or thresholds.shape[0] != values.shape[0] - 1 or out.shape[0] != counts.shape[0]:
        raise ValueError("there must be one value more than thresholds, a power of two, and an item of out for each count")
    if counts.shape[0] == 0:
        return
    with nogil:
        dpk_steps(level(), &counts[0], &thresholds[0] if log2 else NULL, log2, &values[0], &out[0], counts.shape[0])


ctypedef fused place_type:
    int64_t
    uint8_t


def find_places(array, const double[::1] points, double step, bint counts_equal, place_type[::1] out):
    """Store for each number how many of the ascending points, which lie between two infinities, are below it, or at most it.

    A step of 0 compares with each. Otherwise the points are evenly spaced by it, but for a quarter of it.
    """
    cdef dpk_places places
    cdef Py_buffer buffer
    cdef Py_ssize_t n = points.shape[0] - 2
    if n < 1 or (place_type is uint8_t and n > 255):
        raise ValueError("there must be a point, and places must fit their type")
    memset(&places, 0, sizeof(dpk_places))
    attach(&places.values, &buffer, array, False)
    try:
        if buffer.ndim != 1 or buffer.shape[0] != out.shape[0]:
            raise ValueError("out must have an item for each number")
        places.kernels = level()
        places.points.points, places.points.n, places.points.counts_equal = &points[0], n, counts_equal
        places.points.first, places.points.inverse_step = points[1], 1.0 / step if step else 0.0
        places.points.low, places.points.high = points[1] - step, points[n] + step
        if out.shape[0]:
            with nogil:
                dpk_places_run(&places, 0, buffer.shape[0], DPK_U8 if place_type is uint8_t else DPK_I64, &out[0])
                dpk_wipe_stack(DPK_STACK_DEPTH)
    finally:
        PyBuffer_Release(&buffer)
