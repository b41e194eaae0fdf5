"""The only importer of the kernels: CPU level, threads, chunks, and the hand-over to the exact tier."""

from dpcore._backend.counts import (
    HASH_PRIME,
    code_counts,
    column_counts,
    count_packed,
    count_true,
    hash_codes,
    sign_sums,
    support_counts,
    walsh_hadamard,
)
from dpcore._backend.hooks import Testing
from dpcore._backend.levels import available_levels, info, make_keystream, secure_cipher, select_level, selected_level
from dpcore._backend.noise import default_grid, float_noise, int_noise, scalar_float_noise, scalar_int_noise
from dpcore._backend.response import (
    HADAMARD_REPORT,
    HASHING_REPORT,
    bounded_response,
    first_outside,
    flip_bools,
    flip_packed,
    hadamard_response,
    hashing_response,
    kary_response,
    sequential_quantile,
    subset_response,
    table_response,
    unary_response,
)
from dpcore._backend.selection import NOISES, Selection
from dpcore._backend.sums import column_sums, noisy_pairs
from dpcore._backend.threads import default_threads, for_ranges
from dpcore._backend.words import uniform_words

__all__ = [
    "HADAMARD_REPORT",
    "HASHING_REPORT",
    "HASH_PRIME",
    "NOISES",
    "Selection",
    "Testing",
    "available_levels",
    "bounded_response",
    "code_counts",
    "column_counts",
    "column_sums",
    "count_packed",
    "count_true",
    "default_grid",
    "default_threads",
    "first_outside",
    "flip_bools",
    "flip_packed",
    "float_noise",
    "for_ranges",
    "hadamard_response",
    "hash_codes",
    "hashing_response",
    "info",
    "int_noise",
    "kary_response",
    "make_keystream",
    "noisy_pairs",
    "scalar_float_noise",
    "scalar_int_noise",
    "secure_cipher",
    "select_level",
    "selected_level",
    "sequential_quantile",
    "sign_sums",
    "subset_response",
    "support_counts",
    "table_response",
    "unary_response",
    "uniform_words",
    "walsh_hadamard",
]
