"""The CPU level in use, which other modules take from here by a capsule, and the random words themselves."""

from cpython.buffer cimport PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from dpk cimport (
    DPK_AES256, DPK_BLOCK, DPK_GROUP, DPK_STACK_DEPTH, dpk_aes256_block, dpk_build_flags, dpk_bulk_words, dpk_chacha20_block, dpk_compiler,
    dpk_exponential_raw, dpk_has_aes, dpk_has_vaes, dpk_kernels, dpk_keystream_in_cache, dpk_keystream_into, dpk_level_now, dpk_level_use,
    dpk_more_words, dpk_normal_raw, dpk_stream, dpk_usable_level, dpk_usable_without_vaes, dpk_wipe, dpk_wipe_stack,
)

from dpcore._kernels import _memory

include "key.pxi"
include "stream.pxi"

LEVELS = ("baseline", "x86_v3", "x86_v4")

cdef dpk_kernels usable[3]  # the levels this machine can run, least first; not changed after import
cdef dpk_kernels without_vaes[3]
cdef const dpk_kernels *slot = NULL
numbers = {}
for name_ in LEVELS:
    if dpk_usable_level(name_.encode(), &usable[len(numbers)]):
        dpk_usable_without_vaes(name_.encode(), &without_vaes[len(numbers)])
        numbers[name_] = len(numbers)
slot = &usable[len(numbers) - 1]
capsule = PyCapsule_New(<void *> &slot, "dpcore._kernels.level", NULL)


cdef const dpk_kernels *level() noexcept nogil:
    return dpk_level_now(&slot)


def select(str name, bint vaes=True):
    """Use the level `name`, with VAES if it has that; False, and nothing changes, if this machine cannot."""
    cdef int number = numbers.get(name, -1)
    if number < 0:
        return False
    dpk_level_use(&slot, &usable[number] if vaes else &without_vaes[number])
    return True


def selected():
    """Name of the level in use."""
    return level().name.decode()


def available():
    """Names of the levels this machine can run."""
    return tuple(numbers)


def has_aes():
    """Whether the level in use has AES-256 for the secure source."""
    return bool(dpk_has_aes(level()))


def has_vaes():
    """Whether the level in use has AES-256 on VAES, several blocks an instruction."""
    return bool(dpk_has_vaes(level()))


def build():
    """Compiler and the flags that all levels share."""
    return dpk_compiler().decode(), dpk_build_flags().decode()


def chacha20_block(bytes key, uint32_t counter, bytes nonce):
    """RFC 8439's block function: 64 bytes."""
    cdef uint32_t k[8]
    cdef uint32_t n[3]
    cdef uint32_t out[16]
    if PyBytes_GET_SIZE(key) != 32 or PyBytes_GET_SIZE(nonce) != 12:
        raise ValueError("key must have 32 bytes, nonce 12")
    memcpy(k, PyBytes_AS_STRING(key), 32)
    memcpy(n, PyBytes_AS_STRING(nonce), 12)
    dpk_chacha20_block(k, counter, n, out)
    return PyBytes_FromStringAndSize(<char *> out, 64)


def aes256_block(bytes key, bytes block):
    """AES-256 of one 16-byte block."""
    cdef const dpk_kernels *current = level()
    cdef dpk_stream stream
    cdef uint64_t source[2]
    cdef uint64_t out[2]
    if PyBytes_GET_SIZE(block) != 16:
        raise ValueError("block must have 16 bytes")
    open_stream(&stream, current, key, 0, DPK_AES256)
    memcpy(source, PyBytes_AS_STRING(block), 16)
    dpk_aes256_block(current, &stream, source, out)
    close_stream(&stream)
    return PyBytes_FromStringAndSize(<char *> out, 16)


def bulk_words(key, uint32_t nonce, int cipher, uint32_t domain, uint64_t group, size_t n_groups):
    """Keystream of whole groups, 1024 bytes each, in memory that is wiped when nobody reads it any more."""
    cdef const dpk_kernels *current = level()
    cdef dpk_stream stream
    cdef Py_buffer buffer
    words = _memory.Wiped(n_groups * DPK_GROUP * 8)
    PyObject_GetBuffer(words, &buffer, PyBUF_WRITABLE)
    try:
        open_stream(&stream, current, key, nonce, cipher)
        with nogil:
            dpk_bulk_words(&stream, current, domain, group, n_groups, <uint64_t *> buffer.buf)
            dpk_wipe(&stream, sizeof(dpk_stream))
            dpk_wipe_stack(DPK_STACK_DEPTH)
    finally:
        PyBuffer_Release(&buffer)
    return words


def keystream_into(key, int cipher, uint64_t[::1] out):
    """Fill `out` (whole groups) with keystream, a block at a time: the bound that benchmarks compare with."""
    cdef const dpk_kernels *current = level()
    cdef dpk_stream stream
    cdef size_t n = out.shape[0] // DPK_GROUP
    if n == 0:
        return
    open_stream(&stream, current, key, 0, cipher)
    with nogil:
        dpk_keystream_into(&stream, current, n, &out[0])
    close_stream(&stream)


def keystream_in_cache(key, int cipher, uint64_t n_words):
    """Make `n_words` of keystream in a buffer that stays in L1; returns their last word."""
    cdef const dpk_kernels *current = level()
    cdef dpk_stream stream
    cdef uint64_t words[DPK_BLOCK]
    open_stream(&stream, current, key, 0, cipher)
    words[DPK_BLOCK - 1] = 0
    with nogil:
        dpk_keystream_in_cache(&stream, current, n_words // DPK_BLOCK, words)
    close_stream(&stream)
    return words[DPK_BLOCK - 1]


def more_words(key, uint32_t nonce, int cipher, uint32_t domain, uint64_t element, uint32_t attempt, uint32_t chunk):
    """Eight further words of one element."""
    cdef const dpk_kernels *current = level()
    cdef dpk_stream stream
    cdef uint64_t out[8]
    if attempt >= 4096 or chunk >= (1024 if cipher == DPK_AES256 else 4096):
        raise ValueError("attempt and chunk must be below 4096 (chunk below 1024 for AES)")
    open_stream(&stream, current, key, nonce, cipher)
    dpk_more_words(&stream, current, domain, element, attempt, chunk, 8, out)
    close_stream(&stream)
    words = [out[i] for i in range(8)]
    dpk_wipe(out, sizeof(out))
    return words


def exponential_raw(const uint64_t[::1] words, double[::1] out):
    """-ln|X| of each word in the fast path, NaN where it is left to the next tier; whole groups. For measurements of its error."""
    if words.shape[0] != out.shape[0] or words.shape[0] % DPK_GROUP:
        raise ValueError("words and out must have the same length, a multiple of the group")
    if words.shape[0]:
        dpk_exponential_raw(level(), &words[0], &out[0], words.shape[0])


def normal_raw(const uint64_t[::1] words, double[::1] out):
    """Box-Muller pairs of each group in the fast path, NaN where they are left to the next tier. For measurements of its error."""
    if words.shape[0] != out.shape[0] or words.shape[0] % DPK_GROUP:
        raise ValueError("words and out must have the same length, a multiple of the group")
    if words.shape[0]:
        dpk_normal_raw(level(), &words[0], &out[0], words.shape[0])
