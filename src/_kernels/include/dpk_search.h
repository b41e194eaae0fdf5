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

/* Ascending points, and how places among them are found: by comparing with each, or, if inverse_step is not 0, by a guess from their
   even distance, from which none of them is further than a quarter of a step. */
typedef struct {
    const double *points; /* n of them behind a -infinity and before an infinity, which points[0] and points[n + 1] are */
    int64_t n;
    double first, inverse_step, low, high; /* places below `low` are 0 and above `high` are n; both a step beyond the points */
    int32_t counts_equal;                  /* whether a point that is equal to the number counts */
} dpk_points;

/* core/places.c: places of the numbers of an array */
typedef struct {
    const dpk_kernels *kernels;
    dpk_points points;
    dpk_view values;
} dpk_places;

typedef struct {
    /* out[i] = how many points are below x[i], in [0, n] even of a NaN. */
    void (*places)(const dpk_points *, const double *x, size_t n, int64_t *out);
    /* Advances n data sets from their levels and places as far as the tests are known, at most through level `steps`. */
    void (*walk)(const dpk_tests *, const double *counts, int32_t *levels, int32_t *places, size_t n);
    /* out[i] = values[how many of the ascending thresholds are <= counts[i]]; 2^log2 - 1 thresholds. */
    void (*steps)(const int64_t *counts, const int64_t *thresholds, int log2, const double *values, double *out, size_t n);
    /* How many of n bytes are not 0. */
    int64_t (*nonzero)(const uint8_t *x, size_t n);
    /* Adds to counts[k] how often each code in [0, k) occurs, k <= 256; nonzero if there is another one. */
    int (*bytes)(const uint8_t *codes, size_t n, int k, int64_t *counts);
} dpk_search_kernels;

void dpk_places_run(const dpk_places *, int64_t start, int64_t stop, int dtype, void *out);

#endif
