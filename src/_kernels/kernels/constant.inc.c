/* A digit of many lanes: every threshold is compared with every lane, whatever they hold. */
#include "dpk_constant.h"
#include "lanes.h"

#if DPK_VECTOR_LANES > 1
typedef int64_t digit_vec __attribute__((vector_size(4 * DPK_VECTOR_LANES)));
#define DIGIT_TRUE(comparison) (comparison) /* of vectors: 0 and -1 */
#else
typedef int64_t digit_vec;
#define DIGIT_TRUE(comparison) (-(int64_t)(comparison))
#endif
enum { DIGIT_LANES = sizeof(digit_vec) / 8, DIGIT_VECTORS = 4 };

/* Counts the thresholds that each magnitude has reached, DIGIT_VECTORS vectors at a time. */
DPK_INLINE void count_reached(const dpk_digit *digit, const int64_t *high, const int64_t *low, int64_t *count) {
    digit_vec h[DIGIT_VECTORS], l[DIGIT_VECTORS], c[DIGIT_VECTORS];
    memcpy(h, high, sizeof h);
    memcpy(l, low, sizeof l);
    for (int v = 0; v < DIGIT_VECTORS; v++) c[v] = h[v] ^ h[v];
    for (int32_t k = 0; k < digit->n_thresholds; k++) {
        int64_t top = digit->high[k], rest = digit->low[k];
        for (int v = 0; v < DIGIT_VECTORS; v++) c[v] -= DIGIT_TRUE(h[v] > top) | (DIGIT_TRUE(h[v] == top) & DIGIT_TRUE(l[v] >= rest));
    }
    memcpy(count, c, sizeof c);
}

/* Pre: two planes of words, sums of DPK_LIMBS groups. Post: the weighted digits are added. Errors: none. Source: docs/constant-work.md. */
DPK_NOINLINE void add_digit(const dpk_digit *digit, const uint64_t *DPK_RESTRICT words, int64_t *DPK_RESTRICT sums) {
    int64_t high[DPK_GROUP], low[DPK_GROUP], count[DPK_GROUP];
    const int64_t is_signed = -(int64_t)digit->is_signed;
    for (size_t i = 0; i < DPK_GROUP; i++) {
        high[i] = (int64_t)(words[i] & 0x7fffffffffffffffu);
        low[i] = (int64_t)(words[i + DPK_GROUP] ^ 0x8000000000000000u);
    }
    for (size_t i = 0; i < DPK_GROUP; i += DIGIT_LANES * DIGIT_VECTORS) count_reached(digit, high + i, low + i, count + i);
    for (size_t i = 0; i < DPK_GROUP; i++) {
        int64_t sign = ((int64_t)words[i] >> 63) & is_signed;
        count[i] = (count[i] ^ sign) - sign;
    }
    for (size_t l = 0; l < DPK_LIMBS; l++)
        for (size_t i = 0; i < DPK_GROUP; i++) sums[l * DPK_GROUP + i] += digit->weight[l] * count[i];
}
