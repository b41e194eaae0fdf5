/* Whether a block holds a number that a call cannot take. */
#include "dpk_scan.h"
#include "lanes.h"

/* Post: whether all of x is finite. Errors: none. */
static int all_finite(const double *DPK_RESTRICT x, size_t n) {
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (uint64_t)!(fabs(x[i]) <= 0x1.fffffffffffffp+1023);
    return bad == 0;
}

/* Post: whether all of x are numbers, infinite ones included. Errors: none. */
static int has_no_nan(const double *DPK_RESTRICT x, size_t n) {
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (uint64_t)(x[i] != x[i]);
    return bad == 0;
}
