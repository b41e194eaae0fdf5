/* Constant work: a call's branches, addresses and operands of division depend on sizes and parameters alone. Floats are normal numbers or
   0 throughout, as subnormal ones take longer; choices are made by masks. docs/constant-work.md. */
#include <math.h>
#include <string.h>

#include "../kernels/lanes.h"
#include "dpk_kernels.h"

/* Sums of a group of lanes, and what they are added to. */
typedef struct {
    uint64_t words[2 * DPK_GROUP];
    int64_t sums[DPK_LIMBS * DPK_GROUP];
    double high[DPK_GROUP], low[DPK_GROUP], real[DPK_GROUP];
    int64_t whole[DPK_GROUP], noise[DPK_GROUP], result[DPK_GROUP];
} group;

/* A number of 128 bits. */
typedef struct {
    uint64_t low;
    int64_t high;
} wide;

static wide wide_add(wide a, wide b) {
    uint64_t low = a.low + b.low, carry = low < b.low;
    return (wide){low, (int64_t)((uint64_t)a.high + (uint64_t)b.high + carry)};
}

static wide wide_of(int64_t x) { return (wide){(uint64_t)x, x >> 63}; }

/* x * 2^bits for 0 < bits < 64. */
static wide wide_shifted(int64_t x, int bits) { return (wide){(uint64_t)x << bits, x >> (64 - bits)}; }

/* The sum of a lane. */
static wide total(const group *g, size_t lane) {
    wide top = {0, (int64_t)((uint64_t)g->sums[2 * DPK_GROUP + lane] << (2 * DPK_LIMB_BITS - 64))};
    return wide_add(top, wide_add(wide_shifted(g->sums[DPK_GROUP + lane], DPK_LIMB_BITS), wide_of(g->sums[lane])));
}

static uint64_t mask_of(int condition) { return (uint64_t)0 - (uint64_t)condition; }

static double choose_real(uint64_t mask, double a, double b) { return double_of((bits_of(a) & mask) | (bits_of(b) & ~mask)); }

/* Bits of positive floats are in their order. */
static uint64_t size_of(double x) { return bits_of(x) & 0x7fffffffffffffffu; }

static uint64_t is_between(double x, double least, double most) {
    return mask_of(size_of(x) >= bits_of(least)) & mask_of(size_of(x) < bits_of(most));
}

/* The nearest integer, ties to even. */
static double rounded(double x) {
    double big = double_of((bits_of(x) & 0x8000000000000000u) | 0x4330000000000000u);
    return choose_real(mask_of(size_of(x) < 0x4330000000000000u), (x + big) - big, x);
}

/* a + b and its error; exact. */
static double two_sum_of(double a, double b, double *error) {
    double sum = a + b, back = sum - a;
    *error = (a - (sum - back)) + (b - back);
    return sum;
}

/* a + b + c rounded once, for integers: the two lower parts are rounded to odd. Source: Boldo & Melquiond (2008), Theorem 1. */
static double sum_of_three(double a, double b, double c) {
    double lost, rest, error;
    double lower = two_sum_of(b, c, &lost), sum = two_sum_of(a, lower, &rest);
    double tail = two_sum_of(rest, lost, &error);
    uint64_t bits = bits_of(tail), is_even = mask_of((bits & 1) == 0), is_off = mask_of(error != 0.0);
    /* towards the error: up in size if both have one sign, else down */
    uint64_t step = 1 - 2 * ((bits ^ bits_of(error)) >> 63);
    return sum + double_of(bits + (step & is_even & is_off));
}

/* The sums of the group's lanes, whose elements are [128 at, 128 (at + 1)). */
static void draw(group *g, const dpk_stream *stream, const dpk_kernels *k, const dpk_digit *digits, int64_t n_digits, uint64_t at) {
    memset(g->sums, 0, sizeof g->sums);
    for (int64_t d = 0; d < n_digits; d++) {
        dpk_bulk_words(stream, k, DPK_DOMAIN_CONSTANT, at * DPK_CONSTANT_PLANES + 2 * (uint64_t)d, 2, g->words);
        k->constant.add_digit(&digits[d], g->words, g->sums);
    }
}

/* Lanes of a group that a range has: positions from `start` on. */
typedef struct {
    uint64_t at;
    size_t offset, n;
    int64_t start;
} lanes_of_group;

static lanes_of_group lanes_at(uint64_t first_element, int64_t position, int64_t stop) {
    uint64_t element = first_element + (uint64_t)position;
    size_t offset = (size_t)(element % DPK_GROUP), room = DPK_GROUP - offset;
    int64_t left = stop - position;
    return (lanes_of_group){element / DPK_GROUP, offset, left < (int64_t)room ? (size_t)left : room, position};
}

static void load_reals(const dpk_constant_noise *c, group *g, lanes_of_group p) {
    double *high = g->high + p.offset, *low = g->low + p.offset;
    memset(g->low, 0, sizeof g->low);
    if (c->bounds.is_set && c->bounds.is_integral && (c->values.dtype == DPK_I64 || c->values.dtype == DPK_U64)) {
        dpk_load_int(&c->values, p.start, p.n, g->whole + p.offset);
        c->kernels->noise.clamp_int(&c->bounds, g->whole + p.offset, p.n);
        dpk_split_int(g->whole + p.offset, p.n, high, low);
        return;
    }
    dpk_load_real(&c->values, p.start, p.n, high, low);
    if (!c->bounds.is_set) return;
    for (size_t i = 0; i < p.n; i++) high[i] += low[i]; /* bounds that are no integers: the nearest double */
    memset(g->low, 0, sizeof g->low);
    c->kernels->noise.clamp_real(&c->bounds, high, p.n);
}

/* A value in units of the grid: an integer, and a fraction in units of 2^-fraction_bits. */
static double split(const dpk_constant_noise *c, double x, double unit, int64_t *fraction) {
    double scaled = choose_real(is_between(x, c->least, c->most), x, 0.0) * c->inverse;
    double whole = rounded(scaled);
    *fraction = (int64_t)rounded((scaled - whole) * unit);
    return whole;
}

static double released(const dpk_constant_noise *c, const group *g, size_t lane, double unit) {
    const int bits = c->fraction_bits;
    int64_t fraction, low_fraction;
    double x = g->high[lane];
    double whole = split(c, x, unit, &fraction), low_whole = split(c, g->low[lane], unit, &low_fraction);
    wide sum = wide_add(wide_add(total(g, lane), wide_of(fraction)), wide_of(low_fraction));
    sum = wide_add(sum, wide_of((int64_t)1 << (bits - 1)));
    int64_t n = (int64_t)(sum.low >> bits | (uint64_t)sum.high << (64 - bits));
    double y = sum_of_three(whole, low_whole, (double)n) * c->grid + 0.0;
    uint64_t is_infinite = mask_of(size_of(y) == 0x7ff0000000000000u);
    y = choose_real(is_infinite, copysign(0x1.fffffffffffffp+1023, y), y);
    return choose_real(mask_of(size_of(x) < bits_of(c->most)), y, x);
}

/* Pre: values finite or bounds set. Post: out[start, stop) = the values with noise, on the grid. Errors: none.
   Source: docs/constant-work.md. */
void dpk_constant_real(const dpk_constant_noise *c, int64_t start, int64_t stop) {
    group g;
    const double unit = ldexp(1.0, c->fraction_bits);
    memset(&g, 0, sizeof g);
    for (int64_t position = start; position < stop;) {
        lanes_of_group p = lanes_at(c->first_element, position, stop);
        draw(&g, &c->stream, c->kernels, c->digits, c->n_digits, p.at);
        load_reals(c, &g, p);
        for (size_t i = p.offset; i < p.offset + p.n; i++) g.real[i] = released(c, &g, i, unit);
        dpk_store(&c->out, p.start, p.n, g.real + p.offset);
        position += (int64_t)p.n;
    }
    dpk_wipe(&g, sizeof g);
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
}

/* Pre: the sum of the digits is below 2^62. Post: as above for integers, saturated. Errors: none. */
void dpk_constant_int(const dpk_constant_noise *c, int64_t start, int64_t stop) {
    group g;
    memset(&g, 0, sizeof g);
    for (int64_t position = start; position < stop;) {
        lanes_of_group p = lanes_at(c->first_element, position, stop);
        draw(&g, &c->stream, c->kernels, c->digits, c->n_digits, p.at);
        dpk_load_int(&c->values, p.start, p.n, g.whole + p.offset);
        if (c->bounds.is_set) c->kernels->noise.clamp_int(&c->bounds, g.whole + p.offset, p.n);
        for (size_t i = 0; i < DPK_GROUP; i++) g.noise[i] = (int64_t)total(&g, i).low;
        c->kernels->noise.add_saturating(g.whole, g.noise, g.result, DPK_GROUP);
        dpk_store(&c->out, p.start, p.n, g.result + p.offset);
        position += (int64_t)p.n;
    }
    dpk_wipe(&g, sizeof g);
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
}

/* Pre: bits 0 or 1. Post: out[i] = whether the uniform of record i has reached the threshold of its bit. Errors: none. */
void dpk_constant_flip(const dpk_constant_bits *c, int64_t start, int64_t stop) {
    group g;
    memset(&g, 0, sizeof g);
    for (int64_t position = start; position < stop;) {
        lanes_of_group p = lanes_at(c->first_element, position, stop);
        dpk_bulk_words(&c->stream, c->kernels, DPK_DOMAIN_CONSTANT, p.at * DPK_CONSTANT_PLANES, 2, g.words);
        memset(g.sums, 0, sizeof g.sums);
        c->kernels->constant.add_digit(&c->digits[0], g.words, g.sums);
        memcpy(g.whole, g.sums, sizeof g.whole);
        memset(g.sums, 0, sizeof g.sums);
        c->kernels->constant.add_digit(&c->digits[1], g.words, g.sums);
        for (size_t i = 0; i < p.n; i++) {
            uint64_t mask = mask_of(c->bits[position + (int64_t)i] != 0);
            c->out[position + (int64_t)i] = (uint8_t)(((uint64_t)g.sums[p.offset + i] & mask) | ((uint64_t)g.whole[p.offset + i] & ~mask));
        }
        position += (int64_t)p.n;
    }
    dpk_wipe(&g, sizeof g);
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
}

/* A distance below the largest score, in units of the grid; beyond `most` it is that. */
static wide distance(const dpk_constant_choice *c, double score, double low) {
    double high = choose_real(mask_of(size_of(score) >= bits_of(0x1p-1022)), score, 0.0);
    double rest, down = two_sum_of(c->largest, -high, &rest);
    rest += c->largest_low - low;
    uint64_t is_near = mask_of(size_of(down) < bits_of(c->most)), counts = is_between(down, c->least, c->most);
    uint64_t rest_counts = is_between(rest, c->least, c->most) & is_near;
    double steps = choose_real(is_near, choose_real(counts, down, 0.0), c->most) * c->inverse;
    double top = rounded(steps * 0x1p-62), bottom = rounded(steps - top * 0x1p62);
    double more = choose_real(rest_counts, rest, 0.0) * c->inverse, more_top = rounded(more * 0x1p-62);
    wide first = wide_add(wide_shifted((int64_t)top, 62), wide_of((int64_t)bottom));
    return wide_add(first, wide_add(wide_shifted((int64_t)more_top, 62), wide_of((int64_t)rounded(more - more_top * 0x1p62))));
}

/* Pre: n > 0 finite scores. Post: the position of the largest key, the first of those that are equal. Errors: none. */
int64_t dpk_constant_largest(const dpk_constant_choice *c, int64_t n) {
    group g;
    wide best = {0, INT64_MIN};
    uint64_t winner = 0;
    memset(&g, 0, sizeof g);
    for (int64_t position = 0; position < n;) {
        lanes_of_group p = lanes_at(c->first_element, position, n);
        draw(&g, &c->stream, c->kernels, c->digits, c->n_digits, p.at);
        memset(g.low, 0, sizeof g.low);
        dpk_load_real(&c->scores, p.start, p.n, g.high + p.offset, g.low + p.offset);
        for (size_t i = p.offset; i < p.offset + p.n; i++) {
            wide down = distance(c, g.high[i], g.low[i]), noise = total(&g, i);
            /* noise - down as noise + ~down + 1 */
            wide key = wide_add(noise, wide_add((wide){~down.low, ~down.high}, wide_of(1)));
            uint64_t above = mask_of(key.high > best.high) | (mask_of(key.high == best.high) & mask_of(key.low > best.low));
            best.low = (key.low & above) | (best.low & ~above);
            best.high = (int64_t)(((uint64_t)key.high & above) | ((uint64_t)best.high & ~above));
            winner = ((uint64_t)(position + (int64_t)(i - p.offset)) & above) | (winner & ~above);
        }
        position += (int64_t)p.n;
    }
    dpk_wipe(&g, sizeof g);
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
    return (int64_t)winner;
}
