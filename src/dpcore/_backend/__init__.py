"""The only importer of the kernels: CPU level, threads, chunks, and the hand-over to the exact tier."""

from dpcore._backend.hooks import Testing
from dpcore._backend.levels import available_levels, info, make_keystream, secure_cipher, select_level, selected_level
from dpcore._backend.noise import default_grid, float_noise, int_noise, scalar_float_noise, scalar_int_noise
from dpcore._backend.threads import default_threads, for_ranges

__all__ = [
    "Testing",
    "available_levels",
    "default_grid",
    "default_threads",
    "float_noise",
    "for_ranges",
    "info",
    "int_noise",
    "make_keystream",
    "scalar_float_noise",
    "scalar_int_noise",
    "secure_cipher",
    "select_level",
    "selected_level",
]
