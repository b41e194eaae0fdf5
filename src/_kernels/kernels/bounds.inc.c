/* Clamping of a block's numbers to bounds that the caller declared. */
#include "dpk_noise.h"
#include "lanes.h"

/* Pre: lower <= missing <= upper, or missing is NaN. Post: x[i] in [lower, upper], `missing` where it was NaN. Errors: none. */
static void clamp_real(const dpk_bounds *bounds, double *DPK_RESTRICT x, size_t n) {
    const double lower = bounds->lower, upper = bounds->upper, missing = bounds->missing;
    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        v = v < lower ? lower : v;
        v = v > upper ? upper : v;
        x[i] = v == v ? v : missing;
    }
}

/* Post: x[i] in [int_lower, int_upper]. Errors: none. */
static void clamp_int(const dpk_bounds *bounds, int64_t *DPK_RESTRICT x, size_t n) {
    const int64_t lower = bounds->int_lower, upper = bounds->int_upper;
    for (size_t i = 0; i < n; i++) {
        int64_t v = x[i];
        v = v < lower ? lower : v;
        x[i] = v > upper ? upper : v;
    }
}
