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

#define REALS(ctype, convert)                                 \
    {                                                         \
        const ctype *DPK_RESTRICT x = items;                  \
        for (size_t i = 0; i < n; i++) out[i] = convert x[i]; \
        break;                                                \
    }

/* Pre: items of the dtype, aligned to it; no F16, U64 or pairs. Post: out[i] is the double nearest to items[i]. Errors: none. */
static void reals(const void *items, int dtype, size_t n, double *DPK_RESTRICT out) {
    switch (dtype) {
    case DPK_F32:
        REALS(float, (double))
    case DPK_I64: {
        const int64_t *DPK_RESTRICT x = items;
        for (size_t i = 0; i < n; i++) out[i] = from_int64(x[i]);
        break;
    }
    case DPK_I32:
        REALS(int32_t, (double))
    case DPK_I16:
        REALS(int16_t, (double))
    case DPK_I8:
        REALS(int8_t, (double))
    case DPK_U32: {
        const uint32_t *DPK_RESTRICT x = items;
        for (size_t i = 0; i < n; i++) out[i] = from_int64((int64_t)x[i]);
        break;
    }
    case DPK_U16:
        REALS(uint16_t, (double))
    case DPK_U8:
        REALS(uint8_t, (double))
    default:
        memcpy(out, items, 8 * n);
    }
}

/* Sums of bits, DPK_SUM_ZERO in each. */
typedef struct {
    uint64_t d, aa, ab, bb;
} moment_sums;

/* Pre: d an integer of magnitude below 2^50, `bits` those of d + 1.5 2^52. Post: adds its parts. d = a 2^25 + b with |a| <= 2^25 and
   |b| <= 2^24: products are below 2^51 and exact, so that one rounding or two are the same. Errors: none. */
DPK_INLINE void add_moments(moment_sums *s, double d, uint64_t bits) {
    double a = muladd(d, 0x1p-25, 0x1.8p52) - 0x1.8p52, b = d - a * 0x1p25;
    s->d += bits;
    s->aa += bits_of(muladd(a, a, 0x1.8p52));
    s->ab += bits_of(muladd(a, b, 0x1.8p52));
    s->bb += bits_of(muladd(b, b, 0x1.8p52));
}

static void store_moments(const moment_sums *s, uint64_t *parts) {
    parts[0] = s->d;
    parts[1] = s->aa;
    parts[2] = s->ab;
    parts[3] = s->bb;
}

/* Pre: as dpk_lattice says. Post: as dpk_sum_kernels says. Errors: 1. The quotient by the grid is exact, and so is the difference of two
   integers if it is below 2^50: giving the report back shows that there was nothing to round. */
static int moments(const dpk_lattice *lattice, const double *DPK_RESTRICT x, size_t n, uint64_t *parts) {
    const dpk_lattice l = *lattice;
    moment_sums sums = {0, 0, 0, 0};
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        double steps = x[i] * l.inverse_grid - l.centre, above = steps + 0x1.8p52, d = above - 0x1.8p52;
        bad |= (uint64_t)!(fabs(steps) < 0x1p50) | (uint64_t)!((d + l.centre) * l.grid == x[i]);
        add_moments(&sums, d, bits_of(above));
    }
    store_moments(&sums, parts);
    return bad != 0;
}

/* Pre: as dpk_lattice says. Post: as dpk_sum_kernels says. Errors: 1. Differences modulo 2^64 are the true ones where they are small. */
static int moments_int(const dpk_lattice *lattice, const int64_t *DPK_RESTRICT x, size_t n, uint64_t *parts) {
    const uint64_t centre = (uint64_t)lattice->int_centre, far = (uint64_t)1 << 50;
    moment_sums sums = {0, 0, 0, 0};
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t steps = (uint64_t)x[i] - centre, bits = steps + DPK_SUM_ZERO;
        bad |= (steps + far) >> 51;
        add_moments(&sums, double_of(bits) - 0x1.8p52, bits);
    }
    store_moments(&sums, parts);
    return bad != 0;
}
