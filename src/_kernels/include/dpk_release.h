/* Releases of distributions: choices among weighted codes, sums of cosines, paths inside a band, products with signs. */
#ifndef DPK_RELEASE_H
#define DPK_RELEASE_H

#include "dpk.h"

#define DPK_COSINE_LARGEST INT64_C(1554944255987) /* floor(sqrt(2) 2^40) */

enum {
    DPK_COSINE_BLOCK = 256, /* records whose phases are walked together */
    DPK_BAND_LANES = 8,     /* terms of a sum over paths that are added side by side */
    DPK_PRODUCT_PLANES = 64 /* bits of a value, at most */
};

/* Codes by inversion: code = how many of the ascending thresholds are <= the word. guide[b], b <= 2^(64 - shift), is how many are below
   b 2^shift; 1 <= shift <= 63. */
typedef struct {
    const uint64_t *thresholds;
    const uint32_t *guide;
    int32_t shift;
} dpk_choice;

/* Probabilities by count: those of the counts in [b 2^shift, (b + 1) 2^shift) lie in [low[b] 2^-64, (high[b] + 1) 2^-64), and those of all
   counts from last 2^shift on in the last bracket. */
typedef struct {
    const uint64_t *low, *high;
    int64_t last;
    int32_t shift;
} dpk_brackets;

/* core/partitions.c */
int64_t dpk_below_brackets(const dpk_brackets *, const int64_t *counts, const uint64_t *words, uint8_t *out, size_t n);

/* Sums f_i(C) over the paths whose partial sums lie in [lower[i], upper[i]], C - lower[i] places after offsets[i], each a mantissa in
   [1, 2) or 0, and an exponent, which is an integer. Weights are those of steps k, k - 1, ..., 0 in this order. */
typedef struct {
    const int64_t *lower, *upper, *offsets;
    const double *weights, *weight_exponents;
    int64_t most; /* k */
    double *mantissas, *exponents;
} dpk_band;

typedef struct {
    /* out[i] = code of words[i]; nonzero if a word is one of the thresholds. */
    int (*choose)(const dpk_choice *, const uint64_t *words, int64_t *out, size_t n);
    /* Adds to sums[j - 1] the rounded sqrt(2) cos(pi j x) of n <= DPK_COSINE_BLOCK numbers x in [0, 1], j = 1 .. terms; terms 2^41 n <
       2^63. Stores each in out[i terms + j - 1] too, unless out is NULL. */
    void (*cosines)(const double *x, size_t n, size_t terms, int64_t *sums, int64_t *out);
    /* Row i of the band from row i - 1; row 0 from the path of no steps. */
    void (*band_row)(const dpk_band *, size_t row);
    /* out[i] = how many bits row i shares with each plane, weighted by 1, 2, 4, ... and by -2^(n_planes - 1) for the last. Rows have
       `width` bytes, planes ceil(width/8) words; the bits of a last word behind the row are 0 in the planes. */
    void (*weigh_bits)(const uint8_t *rows, size_t n, size_t width, size_t stride, const uint64_t *planes, int n_planes, int64_t *out);
} dpk_release_kernels;

#endif
