/* The middle tier: one sample at a time in double-double, on 128 bits of each uniform. Every bound is 2^-68 of the scale;
   what even that leaves undecided goes to the exact tier. */
#include <math.h>
#include <string.h>

#include "dd.h"
#include "dpk.h"

static const dd LN2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const dd HALF_PI = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
#define BOUND 0x1p-68
enum { LOG_TERMS = 22, CIRCLE_TERMS = 14 };

typedef struct {
    uint64_t high, low;
} u128;

static u128 shift_left(u128 v, int n) {
    if (n == 0) return v;
    if (n >= 64) return (u128){v.low << (n - 64), 0};
    return (u128){v.high << n | v.low >> (64 - n), v.low << n};
}

static int leading_zeros(uint64_t v) {
    int n = 0;
    for (int step = 32; step > 0; step /= 2)
        if (v >> (64 - n - step) == 0) n += step;
    return n;
}

/* The 104 leading bits of v * 2^-128 as a double-double; v.high is not zero. */
static dd to_dd(u128 v) {
    int zeros = leading_zeros(v.high);
    u128 w = shift_left(v, zeros);
    dd sum = fast_two_sum((double)(w.high >> 12) * 0x1p-52, (double)((w.high & 0xfff) << 40 | w.low >> 24) * 0x1p-104);
    return (dd){ldexp(sum.high, -zeros), ldexp(sum.low, -zeros)};
}

/* -ln(v 2^-128) from atanh's series. one_minus is 2^128 - v (as a fraction), so that v near 1 keeps its relative precision. */
static dd negative_log(u128 v, u128 one_minus) {
    dd d = to_dd(v);
    int exponent;
    double fraction = frexp(d.high, &exponent);
    if (fraction < 0x1.6a09e667f3bcdp-1) exponent--;
    dd m = {ldexp(d.high, -exponent), ldexp(d.low, -exponent)};
    dd numerator = exponent == 0 && one_minus.high != 0 ? dd_negate(to_dd(one_minus)) : dd_add_double(m, -1.0);
    dd s = dd_divide(numerator, dd_add_double(m, 1.0));
    dd z = dd_multiply(s, s);
    dd p = dd_divide_double((dd){1.0, 0.0}, 2 * LOG_TERMS + 1);
    for (int k = LOG_TERMS - 1; k >= 0; k--) p = dd_add(dd_multiply(p, z), dd_divide_double((dd){1.0, 0.0}, 2 * k + 1));
    dd ln_m = dd_multiply(dd_scale(s, 2.0), p);
    return dd_negate(dd_add(ln_m, dd_scale(LN2, exponent)));
}

static dd square_root(dd a) {
    double r = sqrt(a.high);
    dd rest = dd_add(a, dd_negate(two_product(r, r)));
    return fast_two_sum(r, rest.high / (2.0 * r));
}

/* cos (first = 0) or sin (first = 1) of x, |x| <= pi/4, by Taylor's series in nested form. */
static dd circle_series(dd x, int first) {
    dd z = dd_multiply(x, x), p = {1.0, 0.0};
    for (int k = CIRCLE_TERMS; k >= 1; k--) {
        double divisor = (2.0 * k - 1.0 + first) * (2.0 * k + first);
        p = dd_add_double(dd_negate(dd_divide_double(dd_multiply(z, p), divisor)), 1.0);
    }
    return first ? dd_multiply(x, p) : p;
}

/* cos (member 0) or sin (member 1) of 2 pi v 2^-128. */
static dd circle(u128 v, int member) {
    unsigned quadrant = (unsigned)((v.high + 0x2000000000000000u) >> 62);
    u128 r = shift_left(v, 2);
    int negative = r.high >> 63 != 0;
    if (negative) r = (u128){~r.high, ~r.low};
    dd x = {0.0, 0.0};
    if (r.high != 0) x = dd_multiply(to_dd(r), HALF_PI);
    else if (r.low != 0) x = dd_scale(dd_multiply(to_dd((u128){r.low, 0}), HALF_PI), 0x1p-64);
    if (negative) x = dd_negate(x);
    unsigned turned = quadrant + (member ? 3u : 0u); /* sin t = cos(t - pi/2) */
    dd c = circle_series(x, turned & 1);
    return (turned & 3) == 1 || (turned & 3) == 2 ? dd_negate(c) : c;
}

/* |X| of an element as 128 bits of a fraction (value in [v, v + 2] * 2^-128), and the sign of X. */
static u128 magnitude(const dpk_stream *s, const dpk_kernels *k, uint64_t element, int *negative) {
    uint64_t words[DPK_GROUP], more[8];
    dpk_bulk_words(s, k, DPK_DOMAIN_BULK, element / DPK_GROUP, 1, words);
    dpk_more_words(s, k, DPK_DOMAIN_MORE, element, 0, 0, more);
    u128 v = {words[element % DPK_GROUP], more[0]};
    *negative = v.high >> 63 != 0;
    if (*negative) v = (u128){~v.high, ~v.low};
    return shift_left(v, 1);
}

/* The two uniforms of a normal: attempt 0 is the element's pair, later attempts have words of their own. Returns the member. */
static int normal_uniforms(const dpk_stream *s, const dpk_kernels *k, uint64_t element, uint32_t attempt, u128 *radius, u128 *angle) {
    uint64_t words[DPK_GROUP], more[8];
    if (attempt > 0) {
        dpk_more_words(s, k, DPK_DOMAIN_MORE, element, attempt, 0, more);
        *radius = (u128){more[0], more[1]};
        dpk_more_words(s, k, DPK_DOMAIN_MORE_PARTNER, element, attempt, 0, more);
        *angle = (u128){more[0], more[1]};
        return 0;
    }
    uint64_t half = DPK_GROUP / 2, first = element & ~half;
    dpk_bulk_words(s, k, DPK_DOMAIN_BULK, element / DPK_GROUP, 1, words);
    dpk_more_words(s, k, DPK_DOMAIN_MORE, first, 0, 0, more);
    *radius = (u128){words[first % DPK_GROUP], more[0]};
    dpk_more_words(s, k, DPK_DOMAIN_MORE, first + half, 0, 0, more);
    *angle = (u128){words[(first + half) % DPK_GROUP], more[0]};
    return element & half ? 1 : 0;
}

/* A standard normal; returns nonzero where the bound does not hold (U or 1 - U below 2^-40). */
static int standard_normal(const dpk_stream *s, const dpk_kernels *k, uint64_t element, uint32_t attempt, dd *z) {
    u128 radius, angle;
    int member = normal_uniforms(s, k, element, attempt, &radius, &angle);
    u128 one_minus = {~radius.high, ~radius.low};
    if (radius.high < (1u << 24) || one_minus.high < (1u << 24)) return 1;
    *z = dd_multiply(square_root(dd_scale(negative_log(radius, one_minus), 2.0)), circle(angle, member));
    return 0;
}

/* A standard Laplace sample's magnitude; nonzero where |X| is below 2^-39. */
static int standard_exponential(const dpk_stream *s, const dpk_kernels *k, uint64_t element, dd *e, int *negative) {
    u128 v = magnitude(s, k, element, negative);
    if (v.high < (1u << 25)) return 1;
    *e = negative_log(v, (u128){0, 0});
    return 0;
}

/* Nearest integer to t, unless a midpoint is within `bound`; nonzero if undecided. */
static int nearest_integer(dd t, double bound, double *n) {
    if (!(fabs(t.high) < 0x1p51)) return 1;
    double whole = rint(t.high), rest = t.high - whole;
    double toward = rest < 0.0 || (rest == 0.0 && t.low < 0.0) ? -1.0 : 1.0;
    double margin = (0.5 - toward * rest) - toward * t.low; /* distance to the midpoint on the side of t */
    *n = margin < 0.0 ? whole + toward : whole;
    return !(fabs(margin) > bound);
}

/* Pre: law of a float kind. Post: *y = R(x + x_low + scale W). Errors: nonzero if undecided; *y is NaN if x is not finite.
   Source: docs/exactness.md, "The accurate tier". */
int dpk_accurate_real(const dpk_stream *s, const dpk_kernels *k, const dpk_law *law, uint64_t element, double x, double x_low, double *y) {
    dd w;
    double n, scaled = x * law->inverse_grid, step = law->step_scale;
    int negative;
    if (law->kind == DPK_LAPLACE) {
        if (standard_exponential(s, k, element, &w, &negative)) return 1;
        if (negative) w = dd_negate(w);
    } else if (standard_normal(s, k, element, 0, &w)) return 1;
    if (!(fabs(scaled) < 0x1p1000) || step < 0x1p-200) return 1;
    double whole = rint(scaled);
    dd part = two_sum(scaled - whole, x_low * law->inverse_grid);
    if (nearest_integer(dd_add(part, dd_scale(w, step)), step * BOUND, &n)) return 1;
    *y = (whole + n) * law->grid + 0.0;
    if (!isfinite(*y)) *y = copysign(0x1.fffffffffffffp+1023, *y);
    return 0;
}

static int accurate_discrete_laplace(const dpk_stream *s, const dpk_kernels *k, const dpk_law *law, uint64_t element, int64_t *z) {
    dd e, offset = {law->offset_high, law->offset_low};
    double n;
    int negative;
    if (standard_exponential(s, k, element, &e, &negative)) return 1;
    dd t = dd_add_double(dd_scale(dd_add(e, offset), law->step_scale), -0.5);
    if (nearest_integer(t, law->step_scale * BOUND + 0x1p-90, &n)) return 1;
    *z = (int64_t)(negative ? -n : n);
    return 0;
}

static int accurate_table(const dpk_stream *s, const dpk_kernels *k, const dpk_table *table, uint64_t element, int64_t *z) {
    int negative, low = 0, high = table->n_long;
    u128 v = magnitude(s, k, element, &negative); /* 127 bits, then a zero */
    u128 m = {v.high >> 1, v.high << 63 | v.low >> 1};
    while (low < high) { /* first entry not below m */
        int middle = (low + high) / 2;
        int below = table->high[middle] < m.high || (table->high[middle] == m.high && table->low[middle] < m.low);
        if (below) low = middle + 1;
        else high = middle;
    }
    /* an entry is the floor of the real threshold: equality is a tie; so is the last entry, beyond which nothing is tabulated */
    if (low == table->n_long || (table->high[low] == m.high && table->low[low] == m.low)) return 1;
    *z = negative ? -(int64_t)low : (int64_t)low;
    return 0;
}

/* Whether attempt's proposal n is taken: acceptance uniform < I(0)/I(n). 1 yes, 0 no, -1 undecided. */
static int accepted(const dpk_stream *s, const dpk_kernels *k, const dpk_law *law, uint64_t element, uint32_t attempt, double n) {
    uint64_t words[DPK_GROUP], more[8];
    const dpk_acceptance *a = &law->acceptance;
    dpk_more_words(s, k, DPK_DOMAIN_MORE_ACCEPT, element, attempt, 0, more);
    uint64_t top = more[0];
    if (attempt == 0) {
        uint64_t position = element % (4 * DPK_GROUP);
        dpk_bulk_words(s, k, DPK_DOMAIN_ACCEPT, element / (4 * DPK_GROUP), 1, words);
        top = (words[position / 4] >> (16 * (position % 4)) & 0xffff) << 48 | more[0] >> 16;
    }
    double ratio = n / law->step_scale, square = ratio * ratio, sum = 0.0;
    for (int j = a->n_terms - 1; j >= 0; j--) sum = sum * square + a->terms[j];
    double product = (double)top * 0x1p-64 * sum; /* compared with 1; relative error below 40 u */
    if (product < 1.0 - 0x1p-46) return 1;
    return product > 1.0 + 0x1p-46 ? 0 : -1;
}

static int accurate_rounded(const dpk_stream *s, const dpk_kernels *k, const dpk_law *law, uint64_t element, int64_t *z) {
    for (uint32_t attempt = 0; attempt < 4096; attempt++) {
        dd w;
        double n;
        if (standard_normal(s, k, element, attempt, &w)) return 1;
        if (nearest_integer(dd_scale(w, law->step_scale), law->step_scale * BOUND, &n)) return 1;
        int taken = accepted(s, k, law, element, attempt, n);
        if (taken < 0) return 1;
        if (taken) {
            *z = (int64_t)n;
            return 0;
        }
    }
    return 1;
}

/* Pre: law of a discrete kind. Post: *z the sample. Errors: nonzero if undecided. Source: docs/exactness.md, "The accurate tier". */
int dpk_accurate_int(const dpk_stream *s, const dpk_kernels *k, const dpk_law *law, uint64_t element, int64_t *z) {
    if (law->kind == DPK_DISCRETE_LAPLACE) return accurate_discrete_laplace(s, k, law, element, z);
    if (law->kind == DPK_GAUSSIAN_TABLE) return accurate_table(s, k, &law->table, element, z);
    return accurate_rounded(s, k, law, element, z);
}
