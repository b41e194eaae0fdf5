/* Unit samples of many lanes. The chain of operations of one lane is long: loops over parts of it keep several lanes under way. A loop
   whose divisions or roots take longer than its other operations has another part beside it, of other lanes. */
#ifndef DPK_SAMPLES_H
#define DPK_SAMPLES_H

#include "dpk_noise.h"
#include "lanes.h"

enum { DPK_STRETCH = 32 }; /* lanes of a loop: its arrays stay where loads find what was just stored */

DPK_INLINE void exponential_start(uint64_t w, double *ratio, double *negated) {
    double magnitude, power;
    *ratio = exponential_ratio(w, &magnitude, &power);
    *negated = unless(magnitude >= DPK_RARE_EXPONENTIAL ? 0 : UINT64_MAX, power);
}

/* Pre: n a multiple of DPK_GROUP. Post: e[i] = -ln|X_i|, NaN where |X_i| is too small for this tier. Errors: none. */
DPK_INLINE void exponentials(const uint64_t *DPK_RESTRICT words, double *DPK_RESTRICT e, size_t n) {
    double ratio[2][DPK_STRETCH], negated[2][DPK_STRETCH];
    for (size_t i = 0; i < DPK_STRETCH; i++) exponential_start(words[i], ratio[0] + i, negated[0] + i);
    size_t start = 0;
    for (; start < n - DPK_STRETCH; start += DPK_STRETCH) {
        size_t now = start / DPK_STRETCH % 2, next = 1 - now;
        const uint64_t *DPK_RESTRICT ahead = words + start + DPK_STRETCH;
        for (size_t i = 0; i < DPK_STRETCH; i++) {
            exponential_start(ahead[i], ratio[next] + i, negated[next] + i);
            e[start + i] = exponential_from(ratio[now][i], negated[now][i]);
        }
    }
    for (size_t i = 0; i < DPK_STRETCH; i++) e[start + i] = exponential_from(ratio[1][i], negated[1][i]);
}

/* Pre: one group. Post: z[i] a standard normal and radius[i % DPK_HALF_GROUP] its pair's, both NaN where that is left to the next tier.
   Errors: none. */
DPK_INLINE void normals(const uint64_t *DPK_RESTRICT words, double *DPK_RESTRICT radius, double *DPK_RESTRICT z) {
    double negated[DPK_HALF_GROUP];
    for (size_t i = 0; i < DPK_HALF_GROUP; i++) {
        double power;
        int rare;
        radius[i] = radius_ratio(words[i], &power, &rare);
        negated[i] = unless(rare ? UINT64_MAX : 0, power);
    }
    for (size_t i = 0; i < DPK_HALF_GROUP; i++) {
        double cosine, sine;
        circle_lane(words[i + DPK_HALF_GROUP], &cosine, &sine);
        radius[i] = radius_from(radius[i], negated[i]);
        z[i] = radius[i] * cosine;
        z[i + DPK_HALF_GROUP] = radius[i] * sine;
    }
}

#endif
