/* One lane of the transforms: plain C that compilers vectorise. u = 2^-53; the error of every line is counted in docs/exactness.md. */
#ifndef DPK_LANES_H
#define DPK_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define DPK_INLINE static __forceinline
#define DPK_NOINLINE static __declspec(noinline)
#define DPK_RESTRICT __restrict
#else
#define DPK_INLINE static inline __attribute__((always_inline))
#define DPK_NOINLINE static __attribute__((noinline))
#define DPK_RESTRICT restrict
#endif

/* 32-bit lanes of the level's widest vector; 1 where the compiler has no types for vectors. */
#if !defined(__GNUC__) && !defined(__clang__)
#define DPK_VECTOR_LANES 1
#elif defined(__AVX512F__)
#define DPK_VECTOR_LANES 16
#elif defined(__AVX2__)
#define DPK_VECTOR_LANES 8
#else
#define DPK_VECTOR_LANES 4
#endif

DPK_INLINE uint64_t bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

DPK_INLINE double double_of(uint64_t b) {
    double x;
    memcpy(&x, &b, 8);
    return x;
}

/* a*b + c with one rounding or two; the bounds allow both. */
DPK_INLINE double muladd(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* Nearest integer, ties to even. */
DPK_INLINE double nearest(double x) {
#if defined(__SSE4_1__) || defined(__aarch64__)
    return __builtin_rint(x);
#else
    double big = double_of((bits_of(x) & 0x8000000000000000u) | 0x4330000000000000u);
    return fabs(x) < 0x1p52 ? (x + big) - big : x;
#endif
}

/* A signed 64-bit integer, rounded once. */
DPK_INLINE double from_int64(int64_t v) {
#if defined(__AVX512DQ__) || defined(__aarch64__)
    return (double)v;
#else
    /* 2^84 + 2^63 + high half, then the low half on top of 2^52; the last addition is the only rounding. */
    double high = double_of((((uint64_t)v ^ 0x8000000000000000u) >> 32) | 0x4530000000000000u);
    double low = double_of(((uint64_t)v & 0xffffffffu) | 0x4330000000000000u);
    return (high - 0x1.00000801p84) + low;
#endif
}

/* v 2^-64, rounded once. */
DPK_INLINE double fraction_from_int64(int64_t v) {
#if defined(__AVX512DQ__) || defined(__aarch64__)
    return (double)v * 0x1p-64;
#else
    /* As from_int64, with 2^20 and 2^-12. */
    double high = double_of((((uint64_t)v ^ 0x8000000000000000u) >> 32) | 0x4130000000000000u);
    double low = double_of(((uint64_t)v & 0xffffffffu) | 0x3f30000000000000u);
    return (high - 0x1.00000801p20) + low;
#endif
}

/* x, or NaN where the mask has all bits set. */
DPK_INLINE double unless(uint64_t mask, double x) { return x + double_of(mask); }

#define DPK_SHIFT 0x1.8p52 /* added to |x| < 2^51 leaves the nearest integer, ties to even, in the low bits */

/* nearest(x) for |x| < 2^51; what it is beyond must not matter. */
DPK_INLINE double nearest_small(double x) { return (x + DPK_SHIFT) - DPK_SHIFT; }

/* The nearest integer for |x| < 2^51. */
DPK_INLINE int64_t to_int64(double x) { return (int64_t)(bits_of(x + DPK_SHIFT) - 0x4338000000000000u); }

/* The nearest integer for |x| < 2^51 if it is decided, else DPK_OPEN. */
DPK_INLINE int64_t settled_int64(double x, int decided) { return (int64_t)(bits_of(decided ? x + DPK_SHIFT : 0.0) - 0x4338000000000000u); }

/* (2 atanh(s)/s - 2)/s^2 for z = s^2 <= 0.02944; weighted error 2^-59.1. From fit_polynomials.py. The pairs of coefficients are
   evaluated side by side (Estrin): the chain of dependent operations is what limits the loop. */
DPK_INLINE double atanh_tail(double z) {
    double z2 = z * z;
    double p01 = muladd(0x1.99999999952e2p-2, z, 0x1.5555555555558p-1);
    double p23 = muladd(0x1.c71c62e5800a1p-3, z, 0x1.2492492df148dp-2);
    double p45 = muladd(0x1.39fe606542ddep-3, z, 0x1.7462b4ab2ef6bp-3);
    double high = muladd(muladd(0x1.2b584aae78a57p-3, z2, p45), z2, p23);
    return muladd(high, z2, p01);
}

/* sin(pi r/2)/r and (cos(pi r/2) - 1)/r^2 for z = r^2 <= 1/4; weighted errors 2^-53.2 and 2^-52.1. */
DPK_INLINE double sin_over_r(double z) {
    double z2 = z * z;
    double p01 = muladd(-0x1.4abbce625be41p-1, z, 0x1.921fb54442d18p+0);
    double p23 = muladd(-0x1.32d2cce2e25bap-8, z, 0x1.466bc677587d2p-4);
    double p45 = muladd(-0x1.e3006d7728134p-19, z, 0x1.50782fd612a49p-13);
    double high = muladd(muladd(0x1.e3f1e6baa60d8p-25, z2, p45), z2, p23);
    return muladd(high, z2, p01);
}

DPK_INLINE double cos_tail(double z) {
    double z2 = z * z;
    double p01 = muladd(0x1.03c1f081b4b74p-2, z, -0x1.3bd3cc9be45dbp+0);
    double p23 = muladd(0x1.e1f50093e2472p-11, z, -0x1.55d3c7e101525p-6);
    double p45 = muladd(0x1.f4b5360bfa5bfp-22, z, -0x1.a6cc32ceef7bcp-16);
    return muladd(muladd(p45, z2, p23), z2, p01);
}

/* A positive double d = 2^k m with m in [sqrt(1/2), sqrt(2)): returns m and k + 1023, biased, as a double minus `bias`. */
DPK_INLINE double reduce(double d, double bias, double *negated_exponent) {
    uint64_t shifted = bits_of(d) - 0x3fe6a09e667f3bcdu + 0x3ff0000000000000u;
    *negated_exponent = bias - double_of((shifted >> 52) | 0x4330000000000000u);
    return double_of((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
}

#define DPK_LN2 0x1.62e42fefa39efp-1

/* Below this |w| (|X| < 2^-13) the bits not seen yet weigh too much; the accurate tier has more of them. */
#define DPK_RARE_EXPONENTIAL 0x1p50

/* -ln|X| for |X| = |w + fraction| * 2^-63, w signed, up to the division: -s where |w| = 2^k m and s = (m - 1)/(m + 1), *negated = 63 - k,
   and *magnitude = |w|. */
DPK_INLINE double exponential_ratio(uint64_t w, double *magnitude, double *negated) {
    *magnitude = fabs(from_int64((int64_t)w));
    double m = reduce(*magnitude, 0x1p52 + 1023 + 63, negated);
    return (1.0 - m) / (m + 1.0);
}

/* Pre: the numbers of exponential_ratio. Post: -ln|X| up to u(3 + 2.3 E) and 2^-63/|X| for the fraction. */
DPK_INLINE double exponential_from(double ratio, double negated) {
    double z = ratio * ratio;
    return muladd(negated, DPK_LN2, ratio * muladd(z, atanh_tail(z), 2.0));
}

/* The first half of radius_lane: s = f/(2 + f) where U = 2^-k (1 + f), and *negated = k. Near U = 1 the signed reading of w gives U - 1
   itself, so the root keeps its relative precision. */
DPK_INLINE double radius_ratio(uint64_t w, double *negated, int *rare) {
    double a = fraction_from_int64((int64_t)w);
    double one = a < 0.0 ? 1.0 : 0.0, d = a + one;
    double m = reduce(d, 0x1p52 + 1023, negated);
    double f = (m - 1.0) + (a - (d - one)); /* what d was rounded by */
    *rare = (a >= -0x1p-24) & (a < 0x1p-15);
    return f / (2.0 + f);
}

DPK_INLINE double radius_from(double ratio, double negated) {
    double z = ratio * ratio;
    return sqrt(muladd(negated, 2 * DPK_LN2, -2.0 * ratio * muladd(z, atanh_tail(z), 2.0)));
}

/* Pre: U = (w + fraction) * 2^-64. Post: sqrt(-2 ln U) up to u(7.2 + 2.2 R) unless *rare (U < 2^-15 or 1 - U <= 2^-24). */
DPK_INLINE double radius_lane(uint64_t w, int *rare) {
    double negated;
    double ratio = radius_ratio(w, &negated, rare);
    return radius_from(ratio, negated);
}

/* Pre: V = (v + fraction) * 2^-64. Post: cos and sin of 2 pi V up to 4u. */
DPK_INLINE void circle_lane(uint64_t v, double *cosine, double *sine) {
    double r = fraction_from_int64((int64_t)(v << 2));
    uint64_t octant = v + 0x2000000000000000u; /* top two bits: which multiple of pi/2 is nearest */
    double z = r * r;
    double near_zero = r * sin_over_r(z);
    double near_one = muladd(z, cos_tail(z), 1.0);
    uint64_t odd = (int64_t)(octant << 1) < 0 ? UINT64_MAX : 0, exchange = (bits_of(near_zero) ^ bits_of(near_one)) & odd;
    *cosine = double_of(bits_of(near_one) ^ exchange ^ ((octant ^ (octant << 1)) & 0x8000000000000000u));
    *sine = double_of(bits_of(near_zero) ^ exchange ^ (octant & 0x8000000000000000u));
}

#endif
