/* Noise of unit scale from the leading bits of a uniform number. docs/exactness-selection.md derives the bounds. */
#ifndef DPK_UNIT_NOISE_H
#define DPK_UNIT_NOISE_H

#include "../kernels/lanes.h"
#include "dpk_selection.h"

#define NOISE_BOUND 0x1p-45 /* a unit of noise N is good to this much times 1 + |N| */

/* The leading bits of V: 16, 64, and where those leave less than 2^-32, 64 more. */
typedef struct {
    uint32_t piece;
    uint64_t word, next;
} leading_bits;

static inline leading_bits complement(leading_bits b) { return (leading_bits){~b.piece & 0xffff, ~b.word, ~b.next}; }

/* Of a positive number. */
static inline int leading_zeros(uint64_t x) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_clzll(x);
#else
    int zeros = 0;
    for (; !(x >> 63); x <<= 1) zeros++;
    return zeros;
#endif
}

/* Their value as a double, good to a relative 2^-47. 0 where they are too few: below 2^-32, or 2^-64 with all of them. */
static inline double fraction_of(leading_bits b) {
    uint64_t top = (uint64_t)b.piece << 48 | b.word >> 16, rest = b.word << 48 | b.next >> 16;
    int zeros = 0;
    if (top >> 32 == 0) {
        top = top << 32 | rest >> 32;
        rest <<= 32;
        zeros = 32;
    }
    if (top >> 32 == 0) return 0.0;
    int shift = leading_zeros(top);
    top = top << shift | rest >> 1 >> (63 - shift);
    zeros += shift;
    return (double)top * double_of((uint64_t)(1023 - 64 - zeros) << 52);
}

static inline int is_extreme(leading_bits b) {
    return (b.piece == 0 && b.word >> 48 == 0) || (b.piece == 0xffff && b.word >> 48 == 0xffff);
}

/* -ln d for a positive normal d, good to 2^-50 (1 + |ln d|). */
static inline double negative_log(double d) {
    double c, m = reduce(d, 0x1p52 + 1023, &c);
    double s = (m - 1.0) / (m + 1.0);
    return c * DPK_LN2 - s * muladd(s * s, atanh_tail(s * s), 2.0);
}

/* -ln(1 - V), good to a relative 2^-46; not positive where too few bits are known. */
static inline double exponential_of(leading_bits b) {
    if (b.piece < 0x4000) { /* V < 1/4: 2 atanh(V/(2 - V)) keeps the relative precision */
        double v = fraction_of(b);
        double s = v / (2.0 - v);
        return s * muladd(s * s, atanh_tail(s * s), 2.0);
    }
    double u = fraction_of(complement(b));
    return u > 0.0 ? negative_log(u) : 0.0;
}

/* Post: *noise good to NOISE_BOUND (1 + |noise|). Errors: undecided where too few bits are known. */
static inline dpk_decision unit_noise(int kind, leading_bits b, double *noise) {
    if (kind == DPK_GUMBEL) {
        double e = exponential_of(b);
        if (!(e > 0.0)) return DPK_UNDECIDED;
        *noise = negative_log(e);
        return DPK_DECIDED;
    }
    int is_lower = kind == DPK_TWO_SIDED && b.piece >= 0x8000;
    double v = fraction_of(is_lower ? complement(b) : b);
    if (!(v > 0.0)) return DPK_UNDECIDED;
    double e = negative_log(kind == DPK_TWO_SIDED ? 2.0 * v : v);
    *noise = is_lower ? -e : e;
    return DPK_DECIDED;
}

#endif
