"""A keyed hash of cells, added up over the columns of a row."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from dpk cimport DPK_HASH_KEY, dpk_hash_rows, dpk_hash_texts

KEY_BYTES = DPK_HASH_KEY


def add_rows(const uint8_t[::1] key, const uint8_t[:, ::1] rows, const uint8_t[::1] taken, uint64_t[::1] sums):
    """Add the hash of each row of bytes to its sum; only of those that are `taken`, unless that is None."""
    cdef Py_ssize_t n = sums.shape[0]
    if key.shape[0] != DPK_HASH_KEY:
        raise ValueError("the key has another length")
    if rows.shape[0] != n or rows.shape[1] == 0 or (taken is not None and taken.shape[0] != n):
        raise ValueError("there must be a row of bytes, and whether it is taken, for each sum")
    if n == 0:
        return
    cdef const uint8_t *some = NULL
    if taken is not None:
        some = &taken[0]
    with nogil:
        dpk_hash_rows(&key[0], &rows[0, 0], <size_t> rows.shape[1], some, <size_t> n, &sums[0])


def add_texts(
    const uint8_t[::1] key, const int64_t[::1] ends, const uint8_t[::1] text, const uint8_t[::1] taken, uint64_t[::1] sums
):
    """Add the hash of each text, which lies between two ends, to its sum; only of those that are `taken`, unless that is None."""
    cdef Py_ssize_t i, n = sums.shape[0]
    if key.shape[0] != DPK_HASH_KEY:
        raise ValueError("the key has another length")
    if ends.shape[0] != n + 1 or (taken is not None and taken.shape[0] != n):
        raise ValueError("there must be a text, and whether it is taken, for each sum")
    for i in range(n):
        if ends[i] < 0 or ends[i + 1] < ends[i]:
            raise ValueError("texts must lie in order")
    if n == 0:
        return
    if ends[n] > text.shape[0]:
        raise ValueError("texts must lie in the bytes that are given")
    cdef uint8_t nothing = 0
    cdef const uint8_t *some = NULL
    if taken is not None:
        some = &taken[0]
    cdef const uint8_t *bytes_of_all = &text[0] if text.shape[0] else &nothing
    with nogil:
        dpk_hash_texts(&key[0], &ends[0], bytes_of_all, some, <size_t> n, &sums[0])
