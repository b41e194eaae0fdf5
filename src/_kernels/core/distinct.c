/* The distinct numbers of an array, each numbered: scales of which a few occur again and again. */
#include <string.h>

#include "dpk_kernels.h"

enum { RUN = 512 };
static const uint64_t UNKNOWN = UINT64_MAX; /* in `which` its lowest part, which is above every number */

/* Items [start, start + n) of an array as doubles, integers beyond 2^53 to the nearest: in place where they lie so, else in `room`. */
static const double *items_of(const dpk_view *scales, size_t start, size_t n, double *room) {
    const double *run = scales->dtype == DPK_F64 ? dpk_view_run(scales, (int64_t)start) : NULL;
    int64_t whole[RUN];
    if (run) return run;
    if (scales->dtype != DPK_I64) {
        dpk_load_real(scales, (int64_t)start, n, room, NULL);
        return room;
    }
    dpk_load_int(scales, (int64_t)start, n, whole);
    for (size_t i = 0; i < n; i++) room[i] = (double)whole[i];
    return room;
}

/* Pre: `distinct` has room for DPK_MOST_DISTINCT, `slots` for the bits of 2^log2_slots items and as many numbers; they are at most
   2^DPK_LOG2_SLOTS, and fewer only if n is below that. Post: which[i] is the number of item i, told by its bits, in the order of first
   appearance, distinct[which[i]] is the item; returns how many there are. Errors: -1 if they are more than DPK_MOST_DISTINCT, or one is not
   in (low, high]. */
int64_t dpk_number_distinct(const dpk_kernels *k, const dpk_view *scales, size_t n, double low, double high, uint64_t *slots,
                            int log2_slots, double *distinct, uint16_t *which) {
    const size_t last = ((size_t)1 << log2_slots) - 1;
    uint64_t *numbers = slots + last + 1;
    int64_t count = 0;
    memset(slots, 0xff, 2 * (last + 1) * sizeof *slots); /* every number is UNKNOWN */
    for (size_t start = 0; start < n; start += RUN, which += RUN) {
        const size_t length = n - start < RUN ? n - start : RUN;
        double room[RUN];
        const double *x = items_of(scales, start, length, room);
        if (!k->noise.look_up(x, slots, numbers, 64 - log2_slots, which, length)) continue;
        for (size_t i = 0; i < length; i++) {
            if (which[i] != (uint16_t)UNKNOWN) continue;
            uint64_t bits;
            memcpy(&bits, x + i, 8);
            size_t at = (size_t)(bits * DPK_GOLDEN >> (64 - log2_slots));
            while (numbers[at] != UNKNOWN && slots[at] != bits) at = (at + 1) & last;
            if (numbers[at] == UNKNOWN) {
                double item;
                memcpy(&item, &bits, 8); /* another thread may change the array meanwhile: the bits that were read count */
                if (count == DPK_MOST_DISTINCT || !(low < item && item <= high)) return -1;
                slots[at] = bits;
                numbers[at] = (uint64_t)count;
                distinct[count++] = item;
            }
            which[i] = (uint16_t)numbers[at];
        }
    }
    return count;
}
