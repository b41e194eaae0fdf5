# What the short ways of all families have in common. Included after stream.pxi.
from libc.stdint cimport uint64_t

from dpk cimport DPK_CHACHA20


cdef enum:
    GIL_KEPT = 1 << 10  # elements that take less time than to give the GIL away and get it back


cdef uint64_t open_position(dpk_stream *stream, const dpk_kernels *kernels, position, secure_cipher) except? 0:
    """Open the stream of a position, and return its first element; `secure_cipher` names the cipher of what is secure."""
    key, nonce, first, secure = position
    open_stream(stream, kernels, key, nonce, DPK_AES256 if secure and secure_cipher() == "aes256" else DPK_CHACHA20)
    return first
