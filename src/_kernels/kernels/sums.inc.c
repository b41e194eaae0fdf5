/* Exact sums: clamp, one fused multiply-add that rounds to the grid, and the addition of raw bits as integers. */
#include "dpk_sums.h"
#include "lanes.h"

/* Pre: the bounds of dpk_clamp. Post: DPK_SUM_ZERO + the integer nearest to clamp(x)/grid, ties to even; a NaN stays one.
   The product is exact, so that one rounding or two are the same. Source: docs/exactness.md, "Exact sums". */
DPK_INLINE uint64_t grid_steps(const dpk_clamp *c, double x) {
    double above = c->lower > x ? c->lower : x; /* a NaN compares false: both choices keep it */
    double inside = c->upper < above ? c->upper : above;
    return bits_of(muladd(inside, c->inverse_grid, 0x1.8p52));
}

/* Pre: any n. Post: the sum modulo 2^64 of grid_steps; *seen has DPK_SUM_NAN if an x is NaN. Errors: none. */
static uint64_t sum_run(const dpk_clamp *clamp, const double *DPK_RESTRICT x, size_t n, uint64_t *seen) {
    const dpk_clamp c = *clamp;
    uint64_t sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t steps = grid_steps(&c, x[i]);
        sum += steps;
        all |= steps;
    }
    *seen |= all;
    return sum;
}

/* Pre: sums apart from x. Post: sums[j] += grid_steps of column j, modulo 2^64; *seen as above. Errors: none.
   One row after the other: the memory is then read as one stream, which measures twice as fast as several rows side by side. */
static void sum_rows(const dpk_clamp *clamp, const double *DPK_RESTRICT x, size_t n_rows, size_t width, ptrdiff_t stride,
                     uint64_t *DPK_RESTRICT sums, uint64_t *seen) {
    const dpk_clamp c = *clamp;
    uint64_t all = 0;
    for (size_t r = 0; r < n_rows; r++, x += stride)
        for (size_t j = 0; j < width; j++) {
            uint64_t steps = grid_steps(&c, x[j]);
            sums[j] += steps;
            all |= steps;
        }
    *seen |= all;
}
