/* The largest of many numbers, in the level's widest vectors: a step takes four of them. */
#ifndef DPK_LARGEST_H
#define DPK_LARGEST_H

#include "lanes.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512d score_vec;
#define SCORES_AT(x) _mm512_loadu_pd(x)
#define LARGER _mm512_max_pd
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256d score_vec;
#define SCORES_AT(x) _mm256_loadu_pd(x)
#define LARGER _mm256_max_pd
#else
typedef double score_vec;
#define SCORES_AT(x) (*(x))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#endif
enum { SCORE_LANES = sizeof(score_vec) / sizeof(double), SCORE_STEP = 4 * SCORE_LANES };

typedef struct {
    score_vec most[2], total; /* total: a sum, which is finite only if all are */
} search;

DPK_INLINE void search_step(search *s, const double *x) {
    const score_vec a = SCORES_AT(x), b = SCORES_AT(x + SCORE_LANES), c = SCORES_AT(x + 2 * SCORE_LANES),
                    d = SCORES_AT(x + 3 * SCORE_LANES);
    s->most[0] = LARGER(LARGER(a, b), s->most[0]);
    s->most[1] = LARGER(LARGER(c, d), s->most[1]);
    s->total = s->total + ((a + b) + (c + d));
}

/* The first step, of the first numbers. */
DPK_INLINE search search_start(const double *x) {
    search s = {{SCORES_AT(x), SCORES_AT(x)}, SCORES_AT(x)};
    search_step(&s, x);
    return s;
}

/* Where the second step begins, so that no load crosses a line of the cache: some numbers are taken by both. The last step is to be moved
   back to the end. */
DPK_INLINE size_t search_second(const double *x) { return SCORE_STEP - (uintptr_t)x / sizeof(double) % SCORE_LANES; }

/* The largest, if there is no NaN, and *sum, which is finite only if all are. */
DPK_INLINE double search_end(const search *s, double *sum) {
    const score_vec most = LARGER(s->most[0], s->most[1]);
    double lanes[SCORE_LANES], totals[SCORE_LANES];
    memcpy(lanes, &most, sizeof most);
    memcpy(totals, &s->total, sizeof totals);
    for (size_t j = 1; j < SCORE_LANES; j++) {
        lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
        totals[0] += totals[j];
    }
    *sum = totals[0];
    return lanes[0];
}

#endif
