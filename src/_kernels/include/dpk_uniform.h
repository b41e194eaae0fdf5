/* Uniform numbers read bit by bit, and probabilities to any number of bits that they are compared with. */
#ifndef DPK_UNIFORM_H
#define DPK_UNIFORM_H

#include "dpk.h"

enum { DPK_MAX_LIMBS = 64 /* 2048 bits of a probability */ };

/* A probability p: limbs are floor(p 2^(32 n)), the most significant first. Pre: n_limbs >= 3. */
typedef struct {
    int32_t n_limbs;
    int32_t is_exact; /* p is its limbs and no more */
    const uint32_t *limbs;
} dpk_real;

/* core/uniform.c */
typedef struct {
    const dpk_stream *stream;
    const dpk_kernels *kernels;
    uint32_t domain; /* of the bits after the first */
    uint64_t element;
    uint32_t first; /* the first bits */
    int32_t n_first;
} dpk_uniform;

/* Whether 32 bits tell floor(U bound), which is *out then: no carry can come from the bits below. */
static inline int dpk_below_at_once(uint32_t first, uint32_t bound, uint32_t *out) {
    const uint64_t product = (uint64_t)first * bound;
    *out = (uint32_t)(product >> 32);
    return (uint64_t)(uint32_t)product + bound <= 0x100000000u;
}

dpk_decision dpk_is_below(const dpk_uniform *, const dpk_real *p, uint32_t multiple);                 /* U < multiple p */
dpk_decision dpk_uniform_below(const dpk_uniform *, uint32_t bound, uint32_t attempt, uint32_t *out); /* floor(U bound) */
uint32_t dpk_leading(const dpk_real *, int bits);                                                     /* floor(p 2^bits), bits <= 32 */
uint64_t dpk_following(const dpk_real *, int bits);                                                   /* the 64 bits after those */

#endif
