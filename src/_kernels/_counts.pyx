"""Aggregation: exact integer counts of reports. Every function may run on several threads."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from dpk cimport (
    DPK_HASH_PRIME, DPK_SUPPORT_SEEDS, dpk_count_bytes, dpk_count_columns, dpk_hash, dpk_nonzero, dpk_support, dpk_walsh_hadamard,
)

include "level.pxi"

HASH_PRIME = DPK_HASH_PRIME

ctypedef fused code_type:
    int64_t
    int
    short
    signed char
    uint32_t
    unsigned short
    unsigned char

cdef packed struct hashing_report:
    uint64_t seed
    uint32_t code

cdef packed struct hadamard_report:
    uint32_t row
    uint8_t bit

ctypedef unsigned char unsigned_char

cdef enum:
    LINE = 64      # bytes counted together; no narrower than a vector of any level


def count_columns(const uint8_t[:, :] rows, int64_t[::1] counts):
    """Add the bits of each column of packed rows to `counts`; the bytes of a row follow each other."""
    cdef size_t n = rows.shape[0], width = rows.shape[1], stride = rows.strides[0]
    if n == 0 or width == 0:
        return
    if <size_t> counts.shape[0] < 8 * width or (width > 1 and rows.strides[1] != 1) or (n > 1 and <Py_ssize_t> stride < rows.shape[1]):
        raise ValueError("rows must be contiguous and counts have room")
    with nogil:
        dpk_count_columns(level(), &rows[0, 0], n, width, stride if n > 1 else width, &counts[0])


cdef Py_ssize_t add_codes(const code_type *codes, Py_ssize_t n, Py_ssize_t stride, int64_t k, int64_t *counts) noexcept nogil:
    """Count one row; the position of the first code outside [0, k), or -1."""
    cdef Py_ssize_t i
    cdef int64_t code
    if code_type is unsigned_char and stride == 1 and k > 0:
        if dpk_count_bytes(level(), codes, n, <int> (k if k < 256 else 256), counts) == 0:
            return -1
        for i in range(n):
            if codes[i] >= k:
                return i
    for i in range(n):
        code = <int64_t> codes[i * stride]
        if <uint64_t> code >= <uint64_t> k:
            return i
        counts[code] += 1
    return -1


def count_codes(const code_type[:, :] rows, int64_t[:, ::1] counts):
    """Add how often each code occurs in each row; the position in C order of the first code outside the counts, or -1 and then all are
    counted."""
    cdef Py_ssize_t row, found = -1, n = rows.shape[1], stride = rows.strides[1] // <Py_ssize_t> sizeof(code_type)
    cdef int64_t k = counts.shape[1]
    if counts.shape[0] != rows.shape[0] or rows.strides[1] % <Py_ssize_t> sizeof(code_type):
        raise ValueError("counts must have a row for each of the codes, which must be aligned")
    if n == 0 or rows.shape[0] == 0:
        return -1
    if k == 0:
        return 0
    with nogil:
        for row in range(rows.shape[0]):
            found = add_codes(&rows[row, 0], n, stride, k, &counts[row, 0])
            if found >= 0:
                found += row * n
                break
    return found


def count_true(const uint8_t[:, :] rows, int64_t[::1] counts):
    """Store how many bytes of each row are not 0."""
    cdef Py_ssize_t row, i, n = rows.shape[1]
    cdef int64_t total
    if counts.shape[0] != rows.shape[0]:
        raise ValueError("counts must have an item for each row")
    with nogil:
        for row in range(rows.shape[0]):
            total = 0
            if rows.strides[1] == 1 and n:
                total = dpk_nonzero(level(), &rows[row, 0], n)
            else:
                for i in range(n):
                    total += rows[row, i] != 0
            counts[row] = total


def count_support(const hashing_report[:] reports, uint32_t g, int64_t[::1] counts):
    """Add how many reports each category's hash supports; the position of the first impossible report, or -1."""
    cdef uint64_t seeds[DPK_SUPPORT_SEEDS]
    cdef uint32_t codes[DPK_SUPPORT_SEEDS]
    cdef Py_ssize_t n = reports.shape[0], first = 0, i, m, impossible = -1
    cdef uint64_t a, b
    if g < 2:
        raise ValueError("g must be at least 2")
    if counts.shape[0] == 0:
        return -1
    with nogil:
        while first < n:
            m = n - first if n - first < DPK_SUPPORT_SEEDS else DPK_SUPPORT_SEEDS
            for i in range(m):
                seeds[i] = reports[first + i].seed
                codes[i] = reports[first + i].code
                a = seeds[i] & DPK_HASH_PRIME
                b = seeds[i] >> 31
                if codes[i] >= g or a == 0 or a == DPK_HASH_PRIME or b >= DPK_HASH_PRIME:
                    impossible = first + i
                    break
            if impossible >= 0:
                break
            dpk_support(level(), seeds, codes, m, g, counts.shape[0], &counts[0])
            first += m
    return impossible


def sum_signs(const hadamard_report[:] reports, int64_t[::1] sums):
    """Add +1 or -1 to each report's row; the position of the first impossible report, or -1."""
    cdef Py_ssize_t i, impossible = -1
    cdef uint64_t rows = sums.shape[0]
    with nogil:
        for i in range(reports.shape[0]):
            if reports[i].row >= rows or reports[i].bit > 1:
                impossible = i
                break
            sums[reports[i].row] += 2 * <int64_t> reports[i].bit - 1
    return impossible


def count_pairs(const hadamard_report[:] reports, int64_t[::1] counts):
    """Add how often each pair of an index and a bit occurs, at 2 index + bit; the position of the first impossible report, or -1."""
    cdef Py_ssize_t i, impossible = -1
    cdef uint64_t rows = counts.shape[0] // 2
    with nogil:
        for i in range(reports.shape[0]):
            if reports[i].row >= rows or reports[i].bit > 1:
                impossible = i
                break
            counts[2 * <Py_ssize_t> reports[i].row + reports[i].bit] += 1
    return impossible


def walsh_hadamard(int64_t[::1] x):
    """Transform in place; the length is a power of two."""
    cdef int log2_n = 0
    while (<Py_ssize_t> 1 << log2_n) < x.shape[0]:
        log2_n += 1
    if (<Py_ssize_t> 1 << log2_n) != x.shape[0]:
        raise ValueError("the length must be a power of two")
    with nogil:
        dpk_walsh_hadamard(level(), &x[0], log2_n)


def hash_codes(const uint64_t[::1] seeds, const int64_t[::1] x, uint32_t g, int64_t[::1] out):
    """h(x) of each pair of a seed and a category."""
    if seeds.shape[0] != x.shape[0] or out.shape[0] != x.shape[0] or g < 2:
        raise ValueError("seeds, x and out must have one length")
    if x.shape[0]:
        with nogil:
            dpk_hash(level(), &seeds[0], &x[0], g, &out[0], x.shape[0])


cdef int64_t ones(const uint8_t *packed, int64_t n) noexcept nogil:
    """How many of the first n packed bits are set: whole lines as columns, whose carry-save adders take them at memory speed."""
    cdef int64_t columns[8 * LINE]
    cdef int64_t total = 0, lines = n // (8 * LINE), i = 0
    cdef uint64_t word
    if lines:
        memset(columns, 0, sizeof(columns))
        dpk_count_columns(level(), packed, lines, LINE, LINE, columns)
        for i in range(8 * LINE):
            total += columns[i]
    i = lines * LINE
    while 8 * i < n:
        word = packed[i]
        if 8 * i + 8 > n:
            word &= (<uint64_t> 1 << (n - 8 * i)) - 1
        while word:
            word &= word - 1
            total += 1
        i += 1
    return total


def count_bits(const uint8_t[:, :] rows, int64_t n, int64_t[::1] counts):
    """Store how many of the first n packed bits of each row are set; the bytes of a row follow each other."""
    cdef Py_ssize_t row
    if n < 0 or rows.shape[1] * 8 < n or counts.shape[0] != rows.shape[0] or (rows.shape[1] > 1 and rows.strides[1] != 1):
        raise ValueError("rows must be contiguous and long enough, and counts have an item for each")
    with nogil:
        for row in range(rows.shape[0]):
            counts[row] = ones(&rows[row, 0], n) if n else 0
