/* Where an array first holds what a call cannot take. */
#include "dpk_kernels.h"

enum {
    SHORT_RUN = 256, /* codes checked at a time where they do not lie contiguous */
    LONG_RUN = 8192  /* and where they do */
};

/* Post: position of the first of n numbers that the check refuses, or -1. Errors: none. */
int64_t dpk_first_bad(dpk_check *check, const double *x, size_t n) {
    if (check(x, n)) return -1;
    for (size_t i = 0; i < n; i++)
        if (!check(x + i, 1)) return (int64_t)i;
    return -1; /* another thread has changed the array meanwhile */
}

/* Post: position of the first number in [start, stop) that the check refuses, or -1; the scratch is wiped. Errors: none. */
static int64_t first_bad_of_view(dpk_check *check, const dpk_view *v, int64_t start, int64_t stop) {
    double x[DPK_BLOCK], x_low[DPK_BLOCK];
    int64_t found = -1;
    while (start < stop && found < 0) {
        size_t n = (size_t)(stop - start < DPK_BLOCK ? stop - start : DPK_BLOCK);
        const double *items = v->dtype == DPK_F64 ? dpk_view_run(v, start) : NULL;
        if (!items) dpk_load_real(v, start, n, x, x_low);
        int64_t at = dpk_first_bad(check, items ? items : x, n);
        if (at >= 0) found = start + at;
        start += (int64_t)n;
    }
    dpk_wipe(x, sizeof x);
    dpk_wipe(x_low, sizeof x_low);
    return found;
}

/* Post: position of the first NaN or infinity in [start, stop), or -1. Errors: none. */
int64_t dpk_first_nonfinite(const dpk_kernels *k, const dpk_view *v, int64_t start, int64_t stop) {
    return first_bad_of_view(k->scan.all_finite, v, start, stop);
}

/* Post: position of the first NaN in [start, stop), or -1. Errors: none. */
int64_t dpk_first_nan(const dpk_kernels *k, const dpk_view *v, int64_t start, int64_t stop) {
    return first_bad_of_view(k->scan.has_no_nan, v, start, stop);
}

/* Post: position of the first code outside [0, categories) in [start, stop), or -1. Errors: none. */
int64_t dpk_first_outside(const dpk_kernels *k, const dpk_view *v, int64_t categories, int64_t start, int64_t stop) {
    int64_t codes[SHORT_RUN];
    while (start < stop) {
        size_t n = (size_t)(stop - start < SHORT_RUN ? stop - start : SHORT_RUN);
        const void *run = dpk_view_run(v, start);
        if (run) n = (size_t)(stop - start < LONG_RUN ? stop - start : LONG_RUN);
        if (!run) dpk_load_int(v, start, n, codes);
        if (k->scan.any_outside(run ? run : codes, run ? v->dtype : DPK_I64, n, categories)) {
            if (n == 1) return start;
            if (n > SHORT_RUN) n = SHORT_RUN; /* look closer */
            dpk_load_int(v, start, n, codes);
            for (size_t i = 0; i < n; i++)
                if ((uint64_t)codes[i] >= (uint64_t)categories) return start + (int64_t)i;
        }
        start += (int64_t)n;
    }
    return -1;
}
