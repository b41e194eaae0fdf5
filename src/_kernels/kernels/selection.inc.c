/* Noisy selection: what is done to every element. Everything else happens to the few that can still win. */
#include "dpk_selection.h"
#include "lanes.h"

/* Pre: n a positive multiple of 16, no NaN. Post: the largest. Errors: none. Source: lanes keep their own maxima, as the instruction does.
 */
DPK_NOINLINE double largest_of(const double *DPK_RESTRICT x, size_t n) {
    double lanes[16];
    memcpy(lanes, x, sizeof lanes);
    for (size_t i = 16; i < n; i += 16)
        for (size_t j = 0; j < 16; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    for (size_t j = 1; j < 16; j++) lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
    return lanes[0];
}

/* Pre: n a multiple of 64, at most 2048. Post: bit g says whether any piece of the 64 from 64 g on is <= most. Errors: none. */
DPK_NOINLINE uint32_t any_at_most(const uint16_t *DPK_RESTRICT pieces, uint16_t most, size_t n) {
    uint32_t found = 0;
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
