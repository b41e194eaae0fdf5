/* Binary search of tests: reports become counts, and counts an estimate. */
#ifndef DPK_SEARCH_H
#define DPK_SEARCH_H

#include "dpk.h"

enum {
    DPK_WALK_LANES = 8,   /* data sets that walk side by side, and terms of a statistic that are added side by side */
    DPK_WALK_SETS = 64,   /* data sets that walk together; their counts stay in L1 */
    DPK_ROUGH_WIDTH = 64, /* widest rows that are tried in float first */
    DPK_FEW_CODES = 16    /* up to this many codes each is counted by comparing, above by tables */
};

/* Tests of all nodes: the one of level k >= 1 and place 1 <= j <= k is row k (k - 1)/2 + j - 1; a row of NaN is not known yet. */
typedef struct {
    const double *weights;
    size_t width; /* of a row and of a data set's counts: a multiple of DPK_WALK_LANES */
    int32_t steps;
    /* The same tests in float, or NULL: a row w becomes (w + (w . centre)/(reports - sum of centre)) times a power of two, at most 1, and
       its statistic that of counts - centre. The same for counts that sum to `reports`, and rounded less if they are near the centre. */
    const float *rough;
    const double *centre; /* integers */
    double reports;
    double error;       /* of a statistic in float, per unit of sum |counts - centre| */
    double error_fixed; /* and in any case */
} dpk_tests;

typedef struct {
    /* Advances n data sets from their levels and places as far as the tests are known, at most through level `steps`. */
    void (*walk)(const dpk_tests *, const double *counts, int32_t *levels, int32_t *places, size_t n);
    /* out[i] = values[how many of the ascending thresholds are <= counts[i]]; 2^log2 - 1 thresholds. */
    void (*steps)(const int64_t *counts, const int64_t *thresholds, int log2, const double *values, double *out, size_t n);
    /* How many of n bytes are not 0. */
    int64_t (*nonzero)(const uint8_t *x, size_t n);
    /* Adds to counts[k] how often each code in [0, k) occurs, k <= 256; nonzero if there is another one. */
    int (*bytes)(const uint8_t *codes, size_t n, int k, int64_t *counts);
} dpk_search_kernels;

#endif
