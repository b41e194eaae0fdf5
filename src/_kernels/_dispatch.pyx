"""The CPU level in use, and the random words themselves. `_noise` takes the level from here by a capsule."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from dpk cimport (
    DPK_AES256, DPK_GROUP, dpk_best_level, dpk_build_flags, dpk_bulk_words, dpk_chacha20_block, dpk_compiler, dpk_find_level, dpk_has_aes,
    dpk_kernels, dpk_more_words, dpk_stream, dpk_stream_init,
)

LEVELS = ("baseline", "x86_v3", "x86_v4")

cdef const dpk_kernels *current = dpk_best_level()
capsule = PyCapsule_New(<void *> &current, "dpcore._kernels.level", NULL)


def select(str name):
    """Use the level `name`; False, and nothing changes, if this machine cannot."""
    global current
    cdef bytes encoded = name.encode()
    cdef const dpk_kernels *found = dpk_find_level(encoded)
    if found == NULL:
        return False
    current = found
    return True


def selected():
    """Name of the level in use."""
    return current.name.decode()


def available():
    """Names of the levels this machine can run."""
    return tuple(name for name in LEVELS if dpk_find_level(name.encode()) != NULL)


def has_aes():
    """Whether the level in use has AES-256 for the secure source."""
    return bool(dpk_has_aes(current))


def build():
    """Compiler and the flags that all levels share."""
    return dpk_compiler().decode(), dpk_build_flags().decode()


cdef int open_stream(dpk_stream *stream, bytes key, uint32_t nonce, int cipher) except -1:
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("key must have 32 bytes")
    if cipher == DPK_AES256 and not dpk_has_aes(current):
        raise ValueError("this level has no AES")
    dpk_stream_init(stream, current, cipher, <const uint8_t *> PyBytes_AS_STRING(key), nonce)
    return 0


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
    cdef dpk_stream stream
    cdef uint64_t source[2]
    cdef uint64_t out[2]
    if PyBytes_GET_SIZE(block) != 16:
        raise ValueError("block must have 16 bytes")
    open_stream(&stream, key, 0, DPK_AES256)
    memcpy(source, PyBytes_AS_STRING(block), 16)
    current.aes256_block(&stream, source, out)
    return PyBytes_FromStringAndSize(<char *> out, 16)


def bulk_words(bytes key, uint32_t nonce, int cipher, uint32_t domain, uint64_t group, size_t n_groups):
    """Keystream of whole groups, 1024 bytes each."""
    cdef dpk_stream stream
    cdef size_t size = n_groups * DPK_GROUP * 8
    open_stream(&stream, key, nonce, cipher)
    cdef uint64_t *words = <uint64_t *> malloc(size + 64)
    if words == NULL:
        raise MemoryError
    try:
        with nogil:
            dpk_bulk_words(&stream, current, domain, group, n_groups, words)
        return PyBytes_FromStringAndSize(<char *> words, size)
    finally:
        free(words)


def keystream_into(bytes key, int cipher, uint64_t[::1] out):
    """Fill `out` (whole groups) with keystream, a block at a time: the bound that benchmarks compare with."""
    cdef dpk_stream stream
    cdef size_t g, n = out.shape[0] // DPK_GROUP
    open_stream(&stream, key, 0, cipher)
    with nogil:
        for g in range(0, n, 4):
            dpk_bulk_words(&stream, current, 0, g, 4 if n - g >= 4 else n - g, &out[g * DPK_GROUP])


def keystream_in_cache(bytes key, int cipher, uint64_t n_words):
    """Make `n_words` of keystream in a buffer that stays in L1; returns their last word."""
    cdef dpk_stream stream
    cdef uint64_t words[512]
    cdef uint64_t g, n = n_words // 512
    open_stream(&stream, key, 0, cipher)
    words[511] = 0
    with nogil:
        for g in range(n):
            dpk_bulk_words(&stream, current, 0, 4 * g, 4, words)
    return words[511]


def more_words(bytes key, uint32_t nonce, int cipher, uint32_t domain, uint64_t element, uint32_t attempt, uint32_t chunk):
    """Eight further words of one element."""
    cdef dpk_stream stream
    cdef uint64_t out[8]
    if attempt >= 4096 or chunk >= (1024 if cipher == DPK_AES256 else 4096):
        raise ValueError("attempt and chunk must be below 4096 (chunk below 1024 for AES)")
    open_stream(&stream, key, nonce, cipher)
    dpk_more_words(&stream, current, domain, element, attempt, chunk, 8, out)
    return [out[i] for i in range(8)]


def exponential_raw(const uint64_t[::1] words, double[::1] out):
    """-ln|X| of each word in the fast path's arithmetic; whole groups. For measurements of its error."""
    if words.shape[0] != out.shape[0] or words.shape[0] % DPK_GROUP:
        raise ValueError("words and out must have the same length, a multiple of the group")
    if words.shape[0]:
        current.exponential_raw(&words[0], &out[0], words.shape[0])


def normal_raw(const uint64_t[::1] words, double[::1] out):
    """Box-Muller pairs of each group in the fast path's arithmetic. For measurements of its error."""
    if words.shape[0] != out.shape[0] or words.shape[0] % DPK_GROUP:
        raise ValueError("words and out must have the same length, a multiple of the group")
    if words.shape[0]:
        current.normal_raw(&words[0], &out[0], words.shape[0])
