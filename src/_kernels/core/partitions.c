/* Uniform numbers compared with the probabilities of counts, by brackets that leave next to nothing undecided. */
#include "dpk_release.h"

/* Pre: low[b] <= high[b], shift is in [0, 62]; a negative count counts as 0. Post: out[i] is DPK_YES where the uniform number that begins
   with words[i] is below the probability of counts[i], DPK_NO where it is not, 2 where the word does not tell. Returns how many it does not
   tell. Errors: none. */
int64_t dpk_below_brackets(const dpk_brackets *brackets, const int64_t *counts, const uint64_t *words, uint8_t *out, size_t n) {
    int64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t b = counts[i] >> brackets->shift;
        b = b < 0 ? 0 : b < brackets->last ? b : brackets->last;
        int is_below = words[i] < brackets->low[b], is_inside = !is_below && words[i] <= brackets->high[b];
        out[i] = (uint8_t)(is_below | is_inside << 1);
        undecided += is_inside;
    }
    return undecided;
}
