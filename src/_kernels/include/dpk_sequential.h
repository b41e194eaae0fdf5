/* A sequentially interactive quantile. */
#ifndef DPK_SEQUENTIAL_H
#define DPK_SEQUENTIAL_H

#include "dpk.h"

typedef struct {
    double tau, lower, upper, start, step;
    double when_true, when_false; /* what an answer counts as */
} dpk_quantile;

/* core/sequential.c */
void dpk_sequential_quantile(const dpk_quantile *, const double *x, const uint8_t *flips, uint8_t *bits, int64_t n, double *average);

#endif
