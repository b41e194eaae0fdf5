/* Exact sums: clamped values in units of a grid, added as integers. */
#ifndef DPK_SUMS_H
#define DPK_SUMS_H

#include "dpk.h"

enum {
    DPK_SUM_ROWS = 2048, /* values of one accumulator between carries: 2^11 integers of at most 2^51 stay below 2^63 */
    DPK_SUM_COLUMNS =
        32768 /* accumulators of a tile at most: 256 KiB. Whole rows are read as one stream, pieces of them at half the speed */
};

/* Bits of 1.5 2^52, to which a value in units of the grid is added: the sum's bits are these plus the integer nearest to the value. */
#define DPK_SUM_ZERO 0x4338000000000000u
/* Set in the bits of every NaN and in no other sum's. */
#define DPK_SUM_NAN 0x2000000000000000u

/* Pre: the bounds are multiples of the grid of less than 2^51 steps, lower <= upper; 1/grid a power of two. */
typedef struct {
    double lower, upper, inverse_grid;
} dpk_clamp;

/* Reports around a centre, in units of their grid: d = report/grid - centre; 1/grid a power of two. Of integers the grid is 1. */
typedef struct {
    double inverse_grid, grid, centre;
    int64_t int_centre; /* of magnitude below 2^62 */
} dpk_lattice;

/* Sums of d and, for d = a 2^25 + b, of a^2, ab and b^2. */
enum { DPK_MOMENT_PARTS = 4 };

/* `run` and `rows` add modulo 2^64, DPK_SUM_ZERO with every value, and or all bit patterns to *seen. */
typedef struct {
    /* The numbers of a contiguous run, aligned to it, as doubles, rounded once; any dtype but F16, U64 and pairs. */
    void (*reals)(const void *items, int dtype, size_t n, double *out);
    /* The parts of n reports <= DPK_SUM_ROWS modulo 2^64, with DPK_SUM_ZERO for every report in each; nonzero if one has |d| >= 2^50 or
       is no multiple of the grid. */
    int (*moments)(const dpk_lattice *, const double *x, size_t n, uint64_t *parts);
    int (*moments_int)(const dpk_lattice *, const int64_t *x, size_t n, uint64_t *parts);
    /* The sum of n values. */
    uint64_t (*run)(const dpk_clamp *, const double *x, size_t n, uint64_t *seen);
    /* Adds to sums[width] the columns of n_rows rows that lie `stride` doubles apart. */
    void (*rows)(const dpk_clamp *, const double *x, size_t n_rows, size_t width, ptrdiff_t stride, uint64_t *sums, uint64_t *seen);
} dpk_sum_kernels;

/* core/sums.c: sums of the columns of an array of rows */
typedef struct {
    const dpk_kernels *kernels;
    dpk_clamp clamp;
    char *data;
    int64_t columns, row_stride, column_stride; /* in bytes */
    dpk_view values;                            /* the same array, row by row */
} dpk_sums;

/* core/sums.c: moments of an array of reports */
typedef struct {
    const dpk_kernels *kernels;
    dpk_lattice lattice;
    dpk_view values; /* of float64 or int64 */
} dpk_moments;

void dpk_load_doubles(const dpk_kernels *, const dpk_view *, int64_t start, size_t n, double *out);
int64_t dpk_moments_run(const dpk_moments *, int64_t start, int64_t stop, uint64_t *low, int64_t *high);
void dpk_clamp_set(dpk_clamp *, double lower, double upper, double grid);
int64_t dpk_sums_room(int64_t columns); /* accumulators that a range of so many columns takes */
int dpk_sums_run(const dpk_sums *, int64_t start, int64_t stop, int64_t first, int64_t last, uint64_t *room, uint64_t *low, int64_t *high);
int dpk_sums_grouped(const dpk_kernels *, const dpk_clamp *, const double *x, const int32_t *groups, int64_t n, int64_t n_groups,
                     int64_t *totals);
void dpk_sums_pairs(const uint64_t *low, const int64_t *high, size_t n, double grid, double *nearest, double *rest);

#endif
