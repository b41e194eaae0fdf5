/* Rounded normals whose first proposal a block did not take: one element at a time, in floats with the block's own error bound. */
#include <math.h>

#include "../kernels/lanes.h"
#include "dpk_noise.h"

/* The two words of a proposal: attempt 0 is the element's pair, later attempts have words of their own. Returns the member. */
static int proposal_words(const dpk_sample *s, uint32_t attempt, uint64_t *radius, uint64_t *angle) {
    uint64_t more[2];
    if (attempt > 0) {
        dpk_more_words(s->stream, s->kernels, DPK_DOMAIN_MORE, s->element, attempt, 0, 2, more);
        *radius = more[0];
        dpk_more_words(s->stream, s->kernels, DPK_DOMAIN_MORE_PARTNER, s->element, attempt, 0, 2, more);
        *angle = more[0];
        return 0;
    }
    uint64_t half = DPK_HALF_GROUP, first = s->element & ~half;
    *radius = s->words[first % DPK_GROUP];
    *angle = s->words[(first + half) % DPK_GROUP];
    return s->element & half ? 1 : 0;
}

/* Pre: law of rounded normals; the block's bounds for unit samples. Post: *z the sample. Errors: undecided where the bound of the floats
   does not decide: the accurate tier begins anew. Source: docs/exactness.md, "Discrete Gaussian". */
dpk_decision dpk_retry_rounded(const dpk_sample *s, const dpk_lanes *p, int64_t *z) {
    const double sigma = s->law->step_scale;
    for (uint32_t attempt = 0; attempt < 4096; attempt++) {
        uint64_t radius_word, angle_word;
        int rare, member = proposal_words(s, attempt, &radius_word, &angle_word);
        double cosine, sine, radius = radius_lane(radius_word, &rare);
        circle_lane(angle_word, &cosine, &sine);
        double t = sigma * (radius * (member ? sine : cosine)), n = nearest(t);
        double bound = muladd(sigma * p->beta, radius, muladd(sigma, p->alpha, p->slack));
        if (rare || !(fabs(t - n) < 0.5 - bound) || !(fabs(t) < 0x1p50)) return DPK_UNDECIDED;
        dpk_decision taken = dpk_accepted(s, attempt, n);
        if (taken == DPK_UNDECIDED) return DPK_UNDECIDED;
        if (taken == DPK_YES) {
            *z = to_int64(n);
            return DPK_DECIDED;
        }
    }
    return DPK_UNDECIDED;
}
