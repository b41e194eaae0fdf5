/* Noisy selection: what is done to every element. Everything else happens to the few that can still win. */
#include "dpk_selection.h"
#include "largest.h"

/* Pre: n a positive multiple of 64. Post: the largest, if none is NaN; *sum is finite only if all are. Errors: none. */
DPK_NOINLINE double largest_of(const double *x, size_t n, double *sum) {
    search s = search_start(x);
    for (size_t i = search_second(x); i < n; i += SCORE_STEP) search_step(&s, x + (i < n - SCORE_STEP ? i : n - SCORE_STEP));
    return search_end(&s, sum);
}

/* Pre: n a multiple of 64, at most 2048. Post: bit g says whether any piece of the 64 from 64 g on is <= most. Errors: none. */
DPK_NOINLINE uint32_t any_at_most(const uint16_t *DPK_RESTRICT pieces, uint16_t most, size_t n) {
    uint32_t found = 0;
    uint16_t least = 0xffff;
    for (size_t i = 0; i < n; i++) least = pieces[i] < least ? pieces[i] : least;
    if (least > most) return 0; /* nearly always */
    for (size_t g = 0; g < n / 64; g++) {
        uint16_t any = 0;
        for (size_t i = 0; i < 64; i++) any |= (uint16_t)(pieces[64 * g + i] <= most);
        found |= (uint32_t)(any != 0) << g;
    }
    return found;
}

/* Pre: 64 pieces and scores, no NaN. Post: hits[i] = whether piece i is 0 or its logarithm within the score's reach. Errors: none.
   Source: docs/exactness-selection.md, "The filter". */
DPK_NOINLINE void within_reach(const uint16_t *DPK_RESTRICT pieces, const double *DPK_RESTRICT scores, const dpk_reach *r,
                               uint64_t *DPK_RESTRICT hits) {
    double logarithm[64], least = r->least, origin = r->origin, slope = r->slope, intercept = r->intercept;
    for (size_t i = 0; i < 64; i++) {
        float piece = (float)pieces[i];
        int32_t bits;
        memcpy(&bits, &piece, 4);
        logarithm[i] = (double)bits;
    }
    for (size_t i = 0; i < 64; i++) {
        double score = scores[i] > least ? scores[i] : least;
        double most = (score - origin) * slope + intercept;
        most = most > 0.0 ? most : 0.0; /* the bits of 0.0f are 0: they are within every reach */
        hits[i] = logarithm[i] <= most;
    }
}
