/* The distinct numbers of an array, each numbered: scales of which a few occur again and again. */
#include <string.h>

#include "dpk_noise.h"

/* Where the search for a number's slot begins: multiplicative hashing with 2^64 over the golden ratio. */
static size_t first_slot(uint64_t bits) { return (size_t)(bits * 0x9e3779b97f4a7c15u >> (64 - DPK_LOG2_SLOTS)); }

/* Pre: no NaN; `slots` and `distinct` have room for DPK_SLOTS and for DPK_MOST_DISTINCT. Post: which[i] is the number of x[i] in the order
   of first appearance, distinct[which[i]] is x[i]; returns how many there are. Errors: -1 if they are more than DPK_MOST_DISTINCT. */
int64_t dpk_number_distinct(const double *x, size_t n, dpk_slot *slots, double *distinct, uint16_t *which) {
    int64_t count = 0;
    memset(slots, 0, DPK_SLOTS * sizeof *slots);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, 8);
        size_t at = first_slot(bits);
        while (slots[at].is_used && slots[at].bits != bits) at = (at + 1) % DPK_SLOTS;
        if (!slots[at].is_used) {
            if (count == DPK_MOST_DISTINCT) return -1;
            slots[at] = (dpk_slot){bits, (uint16_t)count, 1};
            distinct[count++] = x[i];
        }
        which[i] = slots[at].number;
    }
    return count;
}
