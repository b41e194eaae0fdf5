/* Everything that is compiled once per CPU level, and the level's table. Included by isa/<level>.c, which defines DPK_ISA. */
#include "dpk_kernels.h"
#include "lanes.h"

#include "chacha20.inc.c"
#include "aes256.inc.c"
#include "laplace.inc.c"
#include "gaussian.inc.c"
#include "discrete.inc.c"
#include "bounds.inc.c"
#include "response.inc.c"
#include "scan.inc.c"
#include "stores.inc.c"
#include "codes.inc.c"
#include "counts.inc.c"
#include "selection.inc.c"
#include "sums.inc.c"
#include "search.inc.c"
#include "release.inc.c"
#include "constant.inc.c"

#define DPK_PASTE(a, b) a##b
#define DPK_TABLE(isa) DPK_PASTE(dpk_kernels_, isa)

const dpk_kernels DPK_TABLE(DPK_ISA) = {
    .name = DPK_ISA_NAME,
    .chacha20 = chacha20_groups,
    AES256_ENTRIES,
    .chacha20_element = dpk_chacha20_element,
    .chacha20_more = chacha20_more,
    .scan = {.all_finite = all_finite, .has_no_nan = has_no_nan, .any_outside = any_outside},
    .noise =
        {
            .laplace = laplace,
            .gaussian = gaussian,
            .discrete_laplace = discrete_laplace,
            .gaussian_table = gaussian_table,
            .gaussian_guided = gaussian_guided,
            .gaussian_rounded = gaussian_rounded,
            .look_up = look_up,
            .law_lanes = law_lanes,
            .grid_lanes = grid_lanes,
            .add_saturating = add_saturating,
            .past_cache = past_cache,
            .clamp_real = clamp_real,
            .clamp_int = clamp_int,
            .exponential_raw = exponential_raw,
            .normal_raw = normal_raw,
        },
    .response =
        {
            .below_planes = below_planes,
            .flip_bytes = flip_bytes,
            .pack = pack_bytes,
            .bounded = bounded,
            .bounded_each = bounded_each,
            .kary = kary,
            .kary_into = kary_into,
            .guided = guided,
            .widen = widen,
            .narrow = narrow,
            .replace_outside = replace_outside,
            .hadamard = hadamard,
            .hash = hash_codes,
            .hashing = hashing,
            .support = support,
            .count_columns = count_columns,
            .walsh_hadamard = walsh_hadamard,
        },
    .selection = {BESIDE_ENTRIES.largest = largest_of, .any_at_most = any_at_most, .within_reach = within_reach},
    .sums = {.run = sum_run, .rows = sum_rows, .reals = reals, .moments = moments, .moments_int = moments_int},
    .search = {.walk = walk, .steps = steps, .places = places, .nonzero = nonzero, .bytes = count_bytes},
    .constant = {.add_digit = add_digit},
    .release = {.choose = choose, .cosines = cosines, .band_row = band_row, .weigh_bits = weigh_bits},
};
