"""The only package that imports the kernels: CPU level, threads, chunks, and the hand-over to the exact tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._backend.hooks import Testing
from dpcore._backend.levels import available_levels, info, make_keystream, secure_cipher, select_level, selected_level
from dpcore._backend.memory import Key, contiguous, filled, fresh_key, os_key, secure_position, separate, wiped_copy, wiped_empty
from dpcore._backend.noise import (
    Bounds,
    default_grid,
    float_noise,
    fraction_noise,
    int_noise,
    numbered_scales,
    short_float_call,
    short_int_call,
)
from dpcore._backend.threads import default_threads, for_ranges
from dpcore._backend.words import GROUP, KernelWords, Position, call_words, derived_key, uniform_words
from dpcore._extras import refuse_old
from dpcore._lazy import found_in

if TYPE_CHECKING:
    from dpcore._backend.channels import MOST_CELLS, ChannelTable, channel_response, guide_bits
    from dpcore._backend.constant import check_constant_dtype, constant_bits, constant_choice, constant_noise, constant_shifts
    from dpcore._backend.counts import (
        HASH_PRIME,
        add_code_counts,
        code_counts,
        code_counts_rows,
        column_counts,
        count_packed,
        count_packed_rows,
        count_true,
        count_true_rows,
        hash_codes,
        pair_counts,
        sign_sums,
        support_counts,
        walsh_hadamard,
    )
    from dpcore._backend.geometry import ProjectiveSpace, hyperplane_counts, line_law, projective_response
    from dpcore._backend.hash import HASH_KEY_BYTES, add_row_hashes, add_text_hashes
    from dpcore._backend.partitions import Brackets, below_brackets
    from dpcore._backend.release import (
        COSINE_GRID,
        COSINE_LARGEST,
        BandPaths,
        band_paths,
        choose_codes,
        cosine_sums,
        rounded_cosines,
        sign_products,
        step_weights,
    )
    from dpcore._backend.response import (
        HADAMARD_REPORT,
        HASHING_REPORT,
        VECTOR_REPORT,
        Law,
        bounded_response,
        bounding_law,
        first_outside,
        flip_answer,
        flip_bools,
        flip_law,
        flip_packed,
        hadamard_law,
        hadamard_response,
        hashing_law,
        hashing_response,
        kary_law,
        kary_response,
        sequential_quantile,
        subset_law,
        subset_response,
        table_response,
        unary_law,
        unary_response,
    )
    from dpcore._backend.search import WALK_LANES, first_wrong_counts, places, step_values, walk
    from dpcore._backend.selection import NOISES, Selection, select_largest, select_peeled
    from dpcore._backend.sums import add_grouped_sums, column_sums, grouped_pairs, merge_grouped_sums, moments, noisy_pairs
    from dpcore._backend.text import INSIDE_QUOTES, START_OF_RECORD, EncodedTexts, TextRecords, encode_objects, end_of_record, split_records
    from dpcore._backend.vectors import HypercubeLaw, check_no_nan, hypercube_law, hypercube_response, sampled_response, sampling_law
else:
    __getattr__ = found_in(
        __name__,
        {
            "channels": "MOST_CELLS ChannelTable channel_response guide_bits",
            "constant": "check_constant_dtype constant_bits constant_choice constant_noise constant_shifts",
            "counts": (
                "HASH_PRIME add_code_counts code_counts code_counts_rows column_counts count_packed count_packed_rows "
                "count_true count_true_rows hash_codes pair_counts sign_sums support_counts walsh_hadamard"
            ),
            "geometry": "ProjectiveSpace hyperplane_counts line_law projective_response",
            "hash": "HASH_KEY_BYTES add_row_hashes add_text_hashes",
            "partitions": "Brackets below_brackets",
            "release": (
                "COSINE_GRID COSINE_LARGEST BandPaths band_paths choose_codes cosine_sums rounded_cosines sign_products step_weights"
            ),
            "response": (
                "HADAMARD_REPORT HASHING_REPORT VECTOR_REPORT Law bounded_response bounding_law first_outside flip_answer "
                "flip_bools flip_law flip_packed hadamard_law hadamard_response hashing_law hashing_response kary_law "
                "kary_response sequential_quantile subset_law subset_response table_response unary_law unary_response"
            ),
            "search": "WALK_LANES first_wrong_counts places step_values walk",
            "selection": "NOISES Selection select_largest select_peeled",
            "sums": "add_grouped_sums column_sums grouped_pairs merge_grouped_sums moments noisy_pairs",
            "text": "INSIDE_QUOTES START_OF_RECORD EncodedTexts TextRecords encode_objects end_of_record split_records",
            "vectors": "HypercubeLaw check_no_nan hypercube_law hypercube_response sampled_response sampling_law",
        },
    )

# pip sees to it; who changes packages by hand may not.
refuse_old("numpy", "scipy")

__all__ = [
    "COSINE_GRID",
    "COSINE_LARGEST",
    "GROUP",
    "HADAMARD_REPORT",
    "HASHING_REPORT",
    "HASH_KEY_BYTES",
    "HASH_PRIME",
    "INSIDE_QUOTES",
    "MOST_CELLS",
    "NOISES",
    "START_OF_RECORD",
    "VECTOR_REPORT",
    "WALK_LANES",
    "BandPaths",
    "Bounds",
    "Brackets",
    "ChannelTable",
    "EncodedTexts",
    "HypercubeLaw",
    "KernelWords",
    "Key",
    "Law",
    "Position",
    "ProjectiveSpace",
    "Selection",
    "Testing",
    "TextRecords",
    "add_code_counts",
    "add_grouped_sums",
    "add_row_hashes",
    "add_text_hashes",
    "available_levels",
    "band_paths",
    "below_brackets",
    "bounded_response",
    "bounding_law",
    "call_words",
    "channel_response",
    "check_constant_dtype",
    "check_no_nan",
    "choose_codes",
    "code_counts",
    "code_counts_rows",
    "column_counts",
    "column_sums",
    "constant_bits",
    "constant_choice",
    "constant_noise",
    "constant_shifts",
    "contiguous",
    "cosine_sums",
    "count_packed",
    "count_packed_rows",
    "count_true",
    "count_true_rows",
    "default_grid",
    "default_threads",
    "derived_key",
    "encode_objects",
    "end_of_record",
    "filled",
    "first_outside",
    "first_wrong_counts",
    "flip_answer",
    "flip_bools",
    "flip_law",
    "flip_packed",
    "float_noise",
    "for_ranges",
    "fraction_noise",
    "fresh_key",
    "grouped_pairs",
    "guide_bits",
    "hadamard_law",
    "hadamard_response",
    "hash_codes",
    "hashing_law",
    "hashing_response",
    "hypercube_law",
    "hypercube_response",
    "hyperplane_counts",
    "info",
    "int_noise",
    "kary_law",
    "kary_response",
    "line_law",
    "make_keystream",
    "merge_grouped_sums",
    "moments",
    "noisy_pairs",
    "numbered_scales",
    "os_key",
    "pair_counts",
    "places",
    "projective_response",
    "rounded_cosines",
    "sampled_response",
    "sampling_law",
    "secure_cipher",
    "secure_position",
    "select_largest",
    "select_level",
    "select_peeled",
    "selected_level",
    "separate",
    "sequential_quantile",
    "short_float_call",
    "short_int_call",
    "sign_products",
    "sign_sums",
    "split_records",
    "step_values",
    "step_weights",
    "subset_law",
    "subset_response",
    "support_counts",
    "table_response",
    "unary_law",
    "unary_response",
    "uniform_words",
    "walk",
    "walsh_hadamard",
    "wiped_copy",
    "wiped_empty",
]
