/* Uniforms of many lanes as bit planes, compared with one probability: eight bits of each by a kernel, then the few open lanes. */
#include "dpk_kernels.h"

enum { PLANE_WORDS = DPK_FLIP_GROUPS * DPK_PLANE_WORDS };

#if defined(_MSC_VER)
#include <intrin.h>
static int lowest_bit(uint64_t v) {
    unsigned long i;
    _BitScanForward64(&i, v);
    return (int)i;
}
#else
static int lowest_bit(uint64_t v) { return __builtin_ctzll(v); }
#endif

/* Open lanes on their way to a decision. */
typedef struct {
    const dpk_response *call;
    const dpk_real *p;
    uint64_t following; /* the 64 bits of p after the planes' */
    uint64_t element;   /* of lane 0 */
    uint64_t *below;
    uint64_t elements[DPK_MORE_LANES];
    int n;
} open_lanes;

/* Decides the lanes gathered by their next 64 bits; the one in 2^64 that these leave open reads on. */
static dpk_status settle_lanes(open_lanes *o) {
    const dpk_response *call = o->call;
    uint64_t words[DPK_MORE_LANES];
    int n = o->n;
    o->n = 0;
    for (int i = n; i < DPK_MORE_LANES; i++) o->elements[i] = 0;
    dpk_more_first(&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, o->elements, words);
    for (int i = 0; i < n; i++) {
        dpk_decision is_below = words[i] < o->following ? DPK_YES : DPK_NO;
        if (words[i] == o->following) {
            dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, o->elements[i], dpk_leading(o->p, DPK_PLANES),
                             DPK_PLANES};
            is_below = dpk_is_below(&u, o->p, 1);
            if (is_below == DPK_UNDECIDED) return DPK_NEED_LIMBS;
        }
        uint64_t lane = o->elements[i] - o->element;
        o->below[lane / 64] |= (uint64_t)is_below << (lane % 64);
    }
    return DPK_OK;
}

/* Whether the planes' bits are all of p there is. */
int dpk_ends_early(const dpk_real *p) {
    if (!p->is_exact || p->limbs[0] << DPK_PLANES) return 0;
    for (int i = 1; i < p->n_limbs; i++)
        if (p->limbs[i]) return 0;
    return 1;
}

/* Pre: at most DPK_FLIP_GROUPS groups. Post: bit l of `below` says whether the uniform of lane l is below p; planes holds their first bits.
   Errors: DPK_NEED_LIMBS. */
dpk_status dpk_draw_below(const dpk_response *call, const dpk_real *p, uint64_t group, size_t n_groups, uint64_t *planes, uint64_t *below) {
    uint64_t open[PLANE_WORDS];
    uint32_t lead = dpk_leading(p, DPK_PLANES);
    dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_RESPONSE, group, n_groups, planes);
    for (size_t g = 0; g < n_groups; g++)
        call->kernels->response.below_planes(planes + DPK_GROUP * g, lead, below + DPK_PLANE_WORDS * g, open + DPK_PLANE_WORDS * g);
    if (dpk_ends_early(p)) return DPK_OK;
    open_lanes o = {call, p, dpk_following(p, DPK_PLANES), group * DPK_LANES, below, {0}, 0};
    uint32_t words[PLANE_WORDS]; /* those with open lanes, one in five; gathered without a branch */
    size_t n_words = 0;
    for (size_t w = 0; w < n_groups * DPK_PLANE_WORDS; w++) {
        words[n_words] = (uint32_t)w;
        n_words += open[w] != 0;
    }
    for (size_t i = 0; i < n_words; i++)
        for (uint64_t w = words[i], lanes = open[w]; lanes; lanes &= lanes - 1) {
            o.elements[o.n++] = o.element + 64 * w + (uint64_t)lowest_bit(lanes);
            if (o.n == DPK_MORE_LANES && settle_lanes(&o) != DPK_OK) return DPK_NEED_LIMBS;
        }
    return o.n ? settle_lanes(&o) : DPK_OK;
}
