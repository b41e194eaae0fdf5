/* Values that a call cannot take, and where the first of them is. */
#ifndef DPK_SCAN_H
#define DPK_SCAN_H

#include "dpk.h"

/* Whether all of n numbers can be taken. */
typedef int dpk_check(const double *x, size_t n);

typedef struct {
    dpk_check *all_finite;
    dpk_check *has_no_nan; /* infinite ones may be there */
    int (*any_outside)(const void *items, int dtype, size_t n, int64_t k);
} dpk_scan_kernels;

/* core/scan.c; each returns -1 if there is none */
int64_t dpk_first_bad(dpk_check *, const double *x, size_t n);
int64_t dpk_first_nonfinite(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop);
int64_t dpk_first_nan(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop);
int64_t dpk_first_outside(const dpk_kernels *, const dpk_view *, int64_t k, int64_t start, int64_t stop);

#endif
