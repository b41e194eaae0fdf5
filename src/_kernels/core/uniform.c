/* A uniform number is an infinite string of bits: its first ones from a group, the rest one element at a time. Comparisons here read as
   many as it takes. */
#include "dpk_uniform.h"

enum { WORDS = 8, MAX_CHUNKS = 1024 };

/* The bits of a uniform as 32-bit limbs. */
typedef struct {
    const dpk_uniform *u;
    uint32_t chunk, held; /* held: n_first bits that the next limb starts with */
    int n_words, half;
    int started;
    uint64_t words[WORDS];
} limb_reader;

static uint32_t next_half(limb_reader *r) {
    if (r->half == 0 && r->n_words == 0) {
        dpk_more_words(r->u->stream, r->u->kernels, r->u->domain, r->u->element, 0, r->chunk++, WORDS, r->words);
        r->n_words = WORDS;
    }
    uint64_t word = r->words[WORDS - r->n_words];
    r->half ^= 1;
    if (r->half) return (uint32_t)(word >> 32);
    r->n_words--;
    return (uint32_t)word;
}

static uint32_t next_limb(limb_reader *r) {
    int n = r->u->n_first;
    if (n == 32 && !r->started) {
        r->started = 1;
        return r->u->first;
    }
    if (n == 32) return next_half(r);
    uint32_t half = next_half(r);
    uint32_t limb = r->held << (32 - n) | half >> n;
    r->held = half & ((1u << n) - 1);
    return limb;
}

/* Pre: p has at most DPK_MAX_LIMBS limbs, multiple < 2^25, 1 <= n_first <= 32. Post: whether U < multiple p. Errors: undecided if the limbs
   do not say. Source: with P = multiple floor(p 2^B) and V = floor(U 2^B), V < P implies U < multiple p; V >= P + multiple the contrary. */
dpk_decision dpk_is_below(const dpk_uniform *u, const dpk_real *p, uint32_t multiple) {
    uint32_t product[DPK_MAX_LIMBS], upper[DPK_MAX_LIMBS];
    uint64_t carry = 0, extra = p->is_exact ? 0 : multiple;
    for (int i = p->n_limbs - 1; i >= 0; i--) {
        uint64_t limb = (uint64_t)p->limbs[i] * multiple + carry;
        product[i] = (uint32_t)limb;
        carry = limb >> 32;
        uint64_t sum = (uint64_t)product[i] + extra;
        upper[i] = (uint32_t)sum;
        extra = sum >> 32;
    }
    if (carry) return DPK_YES; /* multiple p >= 1 */
    limb_reader r = {u, 0, u->first, 0, 0, 0, {0}};
    int below_product = 0, below_upper = extra ? 1 : 0; /* 0: equal so far; 1: less; 2: greater */
    for (int i = 0; i < p->n_limbs; i++) {
        uint32_t limb = next_limb(&r);
        if (!below_product && limb != product[i]) below_product = limb < product[i] ? 1 : 2;
        if (!below_upper && limb != upper[i]) below_upper = limb < upper[i] ? 1 : 2;
        if (below_product == 1) return DPK_YES;
        if (below_product && below_upper) break;
    }
    if (p->is_exact) return DPK_NO; /* V >= P */
    return below_upper == 1 ? DPK_UNDECIDED : DPK_NO;
}

/* Pre: the first 32 bits are there; bound >= 1; attempt < 2^22 numbers the record's draws. Post: floor(U bound).
   Errors: undecided after 512 further bits, which has probability below 2^-480. */
dpk_decision dpk_uniform_below(const dpk_uniform *u, uint32_t bound, uint32_t attempt, uint32_t *out) {
    if (dpk_below_at_once(u->first, bound, out)) return DPK_DECIDED;
    uint64_t words[WORDS], product = (uint64_t)u->first * bound;
    uint32_t low = (uint32_t)product;
    dpk_more_words(u->stream, u->kernels, u->domain, u->element, attempt & 0xfff, attempt >> 12, WORDS, words);
    for (int i = 0; i < 2 * WORDS; i++) {
        uint32_t limb = (uint32_t)(words[i / 2] >> (i % 2 ? 0 : 32));
        product = (uint64_t)limb * bound;
        uint64_t sum = (uint64_t)low + (product >> 32);
        *out += (uint32_t)(sum >> 32); /* the carry came: what follows cannot add another */
        if (sum != 0xffffffffu) return DPK_DECIDED;
        low = (uint32_t)product; /* a carry out of this place would run through */
    }
    return DPK_UNDECIDED;
}

uint32_t dpk_leading(const dpk_real *p, int bits) { return bits == 32 ? p->limbs[0] : p->limbs[0] >> (32 - bits); }

uint64_t dpk_following(const dpk_real *p, int bits) {
    uint64_t next = (uint64_t)p->limbs[1] << 32 | p->limbs[2];
    return bits == 32 ? next : (uint64_t)p->limbs[0] << (32 + bits) | next >> (32 - bits);
}
