/* Positions of values that a call cannot take. */
#ifndef DPK_SCAN_H
#define DPK_SCAN_H

#include "dpk.h"

/* core/noise.c, core/response.c, core/categories.c; each returns -1 if there is none */
int64_t dpk_first_nonfinite(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop);
int64_t dpk_first_nan(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop);
int64_t dpk_first_outside(const dpk_kernels *, const dpk_view *, int64_t k, int64_t start, int64_t stop);

#endif
