/* Laplace noise in units of the grid: Y/g = x/g + (scale/g) E with the sign of the word. */
#include "dpk_noise.h"
#include "grid.h"
#include "lanes.h"
#include "samples.h"

DPK_INLINE int laplace_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, const double *DPK_RESTRICT x,
                            const double *DPK_RESTRICT x_low, double *DPK_RESTRICT y, size_t n, int uniform, int with_low) {
    uint64_t undecided = 0;
    lane_scale same = scale_of(p, 0);
    exponentials(words, y, n);
    for (size_t i = 0; i < n; i++) {
        double e = y[i], sample = double_of(bits_of(e) ^ (words[i] & 0x8000000000000000u));
        y[i] = release_lane(uniform ? same : scale_of(p, i), x[i], with_low ? x_low + i : NULL, sample, e, &undecided);
    }
    return undecided != 0;
}

/* Pre: n a multiple of DPK_GROUP. Post: y[i] = R(x[i] + scale W_i), NaN if undecided. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Laplace". */
static int laplace(const dpk_lanes *p, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n) {
    if (x_low) return p->uniform ? laplace_body(p, words, x, x_low, y, n, 1, 1) : laplace_body(p, words, x, x_low, y, n, 0, 1);
    return p->uniform ? laplace_body(p, words, x, x, y, n, 1, 0) : laplace_body(p, words, x, x, y, n, 0, 0);
}

/* Pre: scales normal, in [2^-960, 2^960]; fixed_grid a power of two, or 0 for 2^(floor(log2 scale) - 25) of each. Post: each scale in units
   of its grid, the grid and its inverse. Errors: none. */
static void grid_lanes(const double *DPK_RESTRICT scales, double fixed_grid, double *DPK_RESTRICT step, double *DPK_RESTRICT grid,
                       double *DPK_RESTRICT inverse, size_t n) {
    const int is_fixed = fixed_grid > 0.0;
    const double fixed_inverse = is_fixed ? 1.0 / fixed_grid : 0.0;
    for (size_t i = 0; i < n; i++) {
        uint64_t exponent = bits_of(scales[i]) >> 52;
        grid[i] = is_fixed ? fixed_grid : double_of((exponent - 25) << 52);
        inverse[i] = is_fixed ? fixed_inverse : double_of((2 * 1023 + 25 - exponent) << 52);
        step[i] = scales[i] * inverse[i];
    }
}

/* For measurements of the bound: what the kernels round to a grid. */
static void exponential_raw(const uint64_t *DPK_RESTRICT words, double *DPK_RESTRICT e, size_t n) { exponentials(words, e, n); }
