/* The middle tier: one sample at a time in double-double, on 128 bits of each uniform. Every bound is 2^-68 of the scale;
   what even that leaves undecided goes to the exact tier. */
#include <math.h>
#include <string.h>

#include "dd.h"
#include "dpk_noise.h"

static const dd LN2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const dd HALF_PI = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
#define BOUND 0x1p-68

/* Series coefficients. Terms whose weight is below 2^-50 of the sum need only a double: LOG_DD and CIRCLE_DD terms are double-doubles. */
enum { LOG_TERMS = 22, LOG_DD = 11, CIRCLE_TERMS = 14, CIRCLE_DD = 8 };

/* 1/(2k + 1) */
static const dd ODD_RECIPROCAL[LOG_DD] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.5555555555555p-2, 0x1.5555555555555p-56},
    {0x1.999999999999ap-3, -0x1.999999999999ap-57},
    {0x1.2492492492492p-3, 0x1.2492492492492p-57},
    {0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58},
    {0x1.745d1745d1746p-4, -0x1.745d1745d1746p-59},
    {0x1.3b13b13b13b14p-4, -0x1.3b13b13b13b14p-58},
    {0x1.1111111111111p-4, 0x1.1111111111111p-60},
    {0x1.e1e1e1e1e1e1ep-5, 0x1.e1e1e1e1e1e1ep-61},
    {0x1.af286bca1af28p-5, 0x1.af286bca1af28p-59},
    {0x1.8618618618618p-5, 0x1.8618618618618p-59},
};
/* (-1)^k/(2k)! and (-1)^k/(2k + 1)! */
static const dd CIRCLE[2][CIRCLE_DD] = {
    {
        {0x1.0000000000000p+0, 0x0.0p+0},
        {-0x1.0000000000000p-1, 0x0.0p+0},
        {0x1.5555555555555p-5, 0x1.5555555555555p-59},
        {-0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65},
        {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
        {-0x1.27e4fb7789f5cp-22, -0x1.cbbc05b4fa99ap-76},
        {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
        {-0x1.93974a8c07c9dp-37, -0x1.05d6f8a2efd1fp-92},
    },
    {
        {0x1.0000000000000p+0, 0x0.0p+0},
        {-0x1.5555555555555p-3, -0x1.5555555555555p-57},
        {0x1.1111111111111p-7, 0x1.1111111111111p-63},
        {-0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73},
        {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
        {-0x1.ae64567f544e4p-26, 0x1.c062e06d1f209p-80},
        {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
        {-0x1.ae7f3e733b81fp-41, -0x1.1d8656b0ee8cbp-97},
    },
};

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
    double tail = 0.0;
    for (int k = LOG_TERMS; k >= LOG_DD; k--) tail = tail * z.high + 1.0 / (2 * k + 1);
    dd p = {tail, 0.0};
    for (int k = LOG_DD - 1; k >= 0; k--) p = dd_add(dd_multiply(p, z), ODD_RECIPROCAL[k]);
    dd ln_m = dd_multiply(dd_scale(s, 2.0), p);
    return dd_negate(dd_add(ln_m, dd_scale(LN2, exponent)));
}

static dd square_root(dd a) {
    double r = sqrt(a.high);
    dd rest = dd_add(a, dd_negate(two_product(r, r)));
    return fast_two_sum(r, rest.high / (2.0 * r));
}

/* cos (first = 0) or sin (first = 1) of x, |x| <= pi/4, by Taylor's series. */
static dd circle_series(dd x, int first) {
    dd z = dd_multiply(x, x);
    double tail = 0.0;
    for (int k = CIRCLE_TERMS; k >= CIRCLE_DD; k--) /* nested: each step carries the factorial of its own terms */
        tail = (1.0 - tail) * z.high / ((2.0 * k - 1.0 + first) * (2.0 * k + first));
    const dd *c = CIRCLE[first];
    dd p = dd_scale(c[CIRCLE_DD - 1], 1.0 - tail);
    for (int k = CIRCLE_DD - 2; k >= 0; k--) p = dd_add(dd_multiply(p, z), c[k]);
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

static void more_words(const dpk_sample *s, uint32_t domain, uint64_t element, uint32_t attempt, uint64_t out[2]) {
    dpk_more_words(s->stream, s->kernels, domain, element, attempt, 0, 2, out);
}

/* |X| of an element as 128 bits of a fraction (value in [v, v + 2] * 2^-128), and the sign of X. */
static u128 magnitude(const dpk_sample *s, int *negative) {
    uint64_t more[2];
    more_words(s, s->law->kind == DPK_GAUSSIAN_TABLE ? DPK_DOMAIN_MORE_TABLE : DPK_DOMAIN_MORE, s->element, 0, more);
    u128 v = {s->words[s->element % DPK_GROUP], more[0]};
    *negative = v.high >> 63 != 0;
    if (*negative) v = (u128){~v.high, ~v.low};
    return shift_left(v, 1);
}

/* The two uniforms of a normal: attempt 0 is the element's pair, later attempts have words of their own. Returns the member. */
static int normal_uniforms(const dpk_sample *s, uint32_t attempt, u128 *radius, u128 *angle) {
    uint64_t more[2];
    if (attempt > 0) {
        more_words(s, DPK_DOMAIN_MORE, s->element, attempt, more);
        *radius = (u128){more[0], more[1]};
        more_words(s, DPK_DOMAIN_MORE_PARTNER, s->element, attempt, more);
        *angle = (u128){more[0], more[1]};
        return 0;
    }
    uint64_t half = DPK_HALF_GROUP, first = s->element & ~half;
    more_words(s, DPK_DOMAIN_MORE, first, 0, more);
    *radius = (u128){s->words[first % DPK_GROUP], more[0]};
    more_words(s, DPK_DOMAIN_MORE, first + half, 0, more);
    *angle = (u128){s->words[(first + half) % DPK_GROUP], more[0]};
    return s->element & half ? 1 : 0;
}

/* A standard normal; undecided where the bound does not hold (U or 1 - U below 2^-40). */
static dpk_decision standard_normal(const dpk_sample *s, uint32_t attempt, dd *z) {
    u128 radius, angle;
    int member = normal_uniforms(s, attempt, &radius, &angle);
    u128 one_minus = {~radius.high, ~radius.low};
    if (radius.high < (1u << 24) || one_minus.high < (1u << 24)) return DPK_UNDECIDED;
    *z = dd_multiply(square_root(dd_scale(negative_log(radius, one_minus), 2.0)), circle(angle, member));
    return DPK_DECIDED;
}

/* A standard Laplace sample's magnitude; undecided where |X| is below 2^-39. */
static dpk_decision standard_exponential(const dpk_sample *s, dd *e, int *negative) {
    u128 v = magnitude(s, negative);
    if (v.high < (1u << 25)) return DPK_UNDECIDED;
    *e = negative_log(v, (u128){0, 0});
    return DPK_DECIDED;
}

/* Nearest integer to t, undecided if a midpoint is within `bound`. */
static dpk_decision nearest_integer(dd t, double bound, double *n) {
    if (!(fabs(t.high) < 0x1p51)) return DPK_UNDECIDED;
    double whole = rint(t.high), rest = t.high - whole;
    double toward = rest < 0.0 || (rest == 0.0 && t.low < 0.0) ? -1.0 : 1.0;
    double margin = (0.5 - toward * rest) - toward * t.low; /* distance to the midpoint on the side of t */
    *n = margin < 0.0 ? whole + toward : whole;
    return fabs(margin) > bound ? DPK_DECIDED : DPK_UNDECIDED;
}

/* Pre: law of a float kind. Post: *y = R(x + x_low + scale W). Errors: undecided, which x that is not finite always is.
   Source: docs/exactness.md, "The accurate tier". */
dpk_decision dpk_accurate_real(const dpk_sample *s, double x, double x_low, double *y) {
    const dpk_law *law = s->law;
    dd w;
    double n, scaled = x * law->inverse_grid, step = law->step_scale;
    int negative;
    if (law->kind == DPK_LAPLACE) {
        if (standard_exponential(s, &w, &negative) == DPK_UNDECIDED) return DPK_UNDECIDED;
        if (negative) w = dd_negate(w);
    } else if (standard_normal(s, 0, &w) == DPK_UNDECIDED) return DPK_UNDECIDED;
    if (!(fabs(scaled) < 0x1p1000) || step < 0x1p-200) return DPK_UNDECIDED;
    double whole = rint(scaled);
    dd part = two_sum(scaled - whole, x_low * law->inverse_grid);
    double bound = step * BOUND + fabs(part.high) * 0x1p-98; /* the second term: the sum's own error where the low part is large */
    if (nearest_integer(dd_add(part, dd_scale(w, step)), bound, &n) == DPK_UNDECIDED) return DPK_UNDECIDED;
    *y = (whole + n) * law->grid + 0.0;
    if (!isfinite(*y)) *y = copysign(0x1.fffffffffffffp+1023, *y);
    return DPK_DECIDED;
}

static dpk_decision accurate_discrete_laplace(const dpk_sample *s, int64_t *z) {
    const dpk_law *law = s->law;
    dd e, offset = {law->offset_high, law->offset_low};
    double n;
    int negative;
    if (standard_exponential(s, &e, &negative) == DPK_UNDECIDED) return DPK_UNDECIDED;
    dd t = dd_add_double(dd_scale(dd_add(e, offset), law->step_scale), -0.5);
    if (nearest_integer(t, law->step_scale * BOUND + 0x1p-90, &n) == DPK_UNDECIDED) return DPK_UNDECIDED;
    *z = (int64_t)(negative ? -n : n);
    return DPK_DECIDED;
}

static dpk_decision accurate_table(const dpk_sample *s, int64_t *z) {
    const dpk_table *table = &s->law->table;
    int negative, low = 0, high = table->n_long;
    u128 v = magnitude(s, &negative); /* 127 bits, then a zero */
    u128 m = {v.high >> 1, v.high << 63 | v.low >> 1};
    while (low < high) { /* first entry not below m */
        int middle = (low + high) / 2;
        int below = table->high[middle] < m.high || (table->high[middle] == m.high && table->low[middle] < m.low);
        if (below) low = middle + 1;
        else high = middle;
    }
    /* an entry is the floor of the real threshold: equality is a tie; so is the last entry, beyond which nothing is tabulated */
    if (low == table->n_long || (table->high[low] == m.high && table->low[low] == m.low)) return DPK_UNDECIDED;
    *z = negative ? -(int64_t)low : (int64_t)low;
    return DPK_DECIDED;
}

/* Pre: law of rounded normals. Post: whether attempt's proposal n is taken: acceptance uniform < I(0)/I(n). Errors: undecided.
   The 16 bits that every element has of attempt 0 settle most rejections. */
dpk_decision dpk_accepted(const dpk_sample *s, uint32_t attempt, double n) {
    uint64_t more[2];
    const dpk_acceptance *a = &s->law->acceptance;
    double ratio = n / s->law->step_scale, square = ratio * ratio, sum = 0.0;
    for (int j = a->n_terms - 1; j >= 0; j--) sum = sum * square + a->terms[j];
    if (attempt == 0 && (double)s->accept * 0x1p-16 * sum > 1.0 + 0x1p-46) return DPK_NO;
    more_words(s, DPK_DOMAIN_MORE_ACCEPT, s->element, attempt, more);
    uint64_t top = attempt == 0 ? (uint64_t)s->accept << 48 | more[0] >> 16 : more[0];
    double product = (double)top * 0x1p-64 * sum; /* compared with 1; relative error below 40 u */
    if (product < 1.0 - 0x1p-46) return DPK_YES;
    return product > 1.0 + 0x1p-46 ? DPK_NO : DPK_UNDECIDED;
}

static dpk_decision accurate_rounded(const dpk_sample *s, int64_t *z) {
    double scale = s->law->step_scale;
    for (uint32_t attempt = 0; attempt < 4096; attempt++) {
        dd w;
        double n;
        if (standard_normal(s, attempt, &w) == DPK_UNDECIDED) return DPK_UNDECIDED;
        if (nearest_integer(dd_scale(w, scale), scale * BOUND, &n) == DPK_UNDECIDED) return DPK_UNDECIDED;
        dpk_decision taken = dpk_accepted(s, attempt, n);
        if (taken == DPK_UNDECIDED) return DPK_UNDECIDED;
        if (taken == DPK_YES) {
            *z = (int64_t)n;
            return DPK_DECIDED;
        }
    }
    return DPK_UNDECIDED;
}

/* Pre: law of a discrete kind. Post: *z the sample. Errors: undecided. Source: docs/exactness.md, "The accurate tier". */
dpk_decision dpk_accurate_int(const dpk_sample *s, int64_t *z) {
    if (s->law->kind == DPK_DISCRETE_LAPLACE) return accurate_discrete_laplace(s, z);
    if (s->law->kind == DPK_GAUSSIAN_TABLE) return accurate_table(s, z);
    return accurate_rounded(s, z);
}
