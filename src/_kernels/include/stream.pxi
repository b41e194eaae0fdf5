# A stream of random words under a key. Included by the modules that open one, after key.pxi.
from libc.stdint cimport uint8_t, uint32_t

from dpk cimport DPK_AES256, DPK_OPEN_DEPTH, dpk_has_aes, dpk_kernels, dpk_stream, dpk_stream_init, dpk_wipe, dpk_wipe_frames


cdef int open_stream(dpk_stream *stream, const dpk_kernels *kernels, key, uint32_t nonce, int cipher) except -1:
    cdef uint8_t material[32]
    load_key(material, key)
    return open_material(stream, kernels, material, nonce, cipher)


cdef int open_material(dpk_stream *stream, const dpk_kernels *kernels, uint8_t *material, uint32_t nonce, int cipher) except -1:
    """Open the stream of a key that lies in 32 bytes, which are wiped."""
    if cipher == DPK_AES256 and not dpk_has_aes(kernels):
        dpk_wipe(material, 32)
        raise ValueError("this level has no AES")
    dpk_stream_init(stream, kernels, cipher, material, nonce)
    dpk_wipe(material, 32)
    dpk_wipe_frames(DPK_OPEN_DEPTH)
    return 0


cdef void close_stream(dpk_stream *stream) noexcept nogil:
    dpk_wipe(stream, sizeof(dpk_stream))
    dpk_wipe_frames(DPK_OPEN_DEPTH)
