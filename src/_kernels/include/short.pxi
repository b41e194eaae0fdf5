# What the short ways of all families have in common. Included after stream.pxi and fresh.pxi.
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint64_t

from dpk cimport DPK_CHACHA20

from dpcore._kernels._memory import Key as _Key


cdef enum:
    GIL_KEPT = 1 << 10  # elements that take less time than to give the GIL away and get it back


cdef uint64_t open_position(dpk_stream *stream, const dpk_kernels *kernels, position, secure_cipher) except? 0:
    """Open the stream of a position, and return its first element; `secure_cipher` names the cipher of what is secure."""
    key, nonce, first, secure = position
    open_stream(stream, kernels, key, nonce, DPK_AES256 if secure and secure_cipher() == "aes256" else DPK_CHACHA20)
    return first


cdef object open_next(dpk_stream *stream, uint64_t *first, const dpk_kernels *kernels, source, secure_cipher):
    """Open the stream of the next position of a source, which is returned. None is the secure source, and then the position, too:
    its key lies in the stream alone, and `position_of` gives it to those who need it.
    """
    cdef uint8_t material[32]
    if source is None:
        fresh_material(material)
        open_material(stream, kernels, material, 0, DPK_AES256 if secure_cipher() == "aes256" else DPK_CHACHA20)
        first[0] = 0
        return None
    position = source.position()
    first[0] = open_position(stream, kernels, position, secure_cipher)
    return position


cdef object position_of(const dpk_stream *stream, position):
    """The position under which `open_next` has opened a stream that is not wiped yet."""
    if position is not None:
        return position
    return _Key(PyMemoryView_FromMemory(<char *> stream.key, 32, PyBUF_READ)), 0, 0, True
