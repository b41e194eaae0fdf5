"""Random words one at a time, for bit generators of NumPy: pointers to functions, put where the capsule of such an object points."""

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint32_t, uint64_t

from dpk cimport (
    DPK_CHACHA20, dpk_keyed_bits, dpk_keyed_bits_seek, dpk_keyed_bits_serve, dpk_keyed_bits_start, dpk_keyed_bits_used, dpk_numpy_bits,
    dpk_numpy_bits_are_unset, dpk_secure_bits, dpk_secure_bits_serve, dpk_secure_bits_start, dpk_watch_forks,
)

include "key.pxi"
include "level.pxi"
include "stream.pxi"

cdef const uint64_t *process = dpk_watch_forks()


cdef dpk_numpy_bits *pointers_of(generator, Py_ssize_t room) except NULL:
    """Where an object of NumPy keeps its pointers: inside its first `room` bytes, and nothing has been put there yet."""
    cdef char *found = <char *> PyCapsule_GetPointer(generator.capsule, "BitGenerator")
    cdef Py_ssize_t offset = found - <char *> <PyObject *> generator
    if not <Py_ssize_t> sizeof(PyObject) <= offset <= room - <Py_ssize_t> sizeof(dpk_numpy_bits):
        raise ValueError("the capsule does not point into its bit generator")
    if not dpk_numpy_bits_are_unset(<dpk_numpy_bits *> found):
        raise ValueError("the bit generator has pointers already, or they are of another form")
    return <dpk_numpy_bits *> found


cdef class SecureBits:
    """Words under two keys of the operating system: one for the thread that draws first, the other for the rest."""

    cdef dpk_secure_bits bits
    cdef dpk_numpy_bits *served

    def __cinit__(self, owned, shared, int cipher):
        cdef uint8_t keys[64]
        cdef const dpk_kernels *current = level()
        if cipher != DPK_CHACHA20 and not dpk_has_aes(current):
            raise ValueError("this level has no AES")
        load_key(keys, owned)
        load_key(keys + 32, shared)
        dpk_secure_bits_start(&self.bits, current, process, cipher, keys, keys + 32)
        dpk_wipe(keys, 64)
        dpk_wipe_frames(DPK_OPEN_DEPTH)

    def __dealloc__(self):
        dpk_wipe(&self.bits, sizeof(dpk_secure_bits))

    def serve(self, generator, Py_ssize_t room):
        """Put the pointers into a bit generator, which has to keep this object; `room` is the size of NumPy's part of it."""
        if self.served == NULL:
            self.served = pointers_of(generator, room)
        dpk_secure_bits_serve(&self.bits, self.served)


cdef class KeyedBits:
    """Words of a key's stream, in their order."""

    cdef dpk_keyed_bits bits
    cdef dpk_numpy_bits *served

    def __cinit__(self):
        cdef uint8_t key[32]
        for i in range(32):
            key[i] = 0
        dpk_keyed_bits_start(&self.bits, level(), key)

    def __dealloc__(self):
        dpk_wipe(&self.bits, sizeof(dpk_keyed_bits))

    def serve(self, generator, Py_ssize_t room):
        """As that of SecureBits."""
        if self.served == NULL:
            self.served = pointers_of(generator, room)
        dpk_keyed_bits_serve(&self.bits, self.served)

    def start(self, key, uint32_t nonce, uint64_t element, half):
        """Go to a word of a key's stream; `half` is the upper half of the word before, or None."""
        cdef uint8_t material[32]
        load_key(material, key)
        dpk_keyed_bits_start(&self.bits, level(), material)
        dpk_wipe(material, 32)
        dpk_keyed_bits_seek(&self.bits, nonce, element)
        if half is not None:
            self.bits.half = half
            self.bits.has_half = 1

    def key(self):
        """The key."""
        return (<unsigned char *> self.bits.stream.key)[:32]

    def place(self):
        """Nonce, first element of the buffer, words used of it, and the half that is left of a word, or None."""
        cdef uint32_t has_half
        cdef uint32_t half
        cdef uint32_t used = dpk_keyed_bits_used(&self.bits, &has_half, &half)
        return self.bits.stream.nonce, self.bits.base, used, half if has_half else None
