/* Exact sums of one column or many: which memory a kernel reads, and the carries into 128 bits. */
#include <stdlib.h>
#include <string.h>

#include "dd.h"
#include "dpk_kernels.h"

enum {
    LANES = 256, /* narrow rows are taken several at a time, so that a loop over them has at least this many values */
    NARROW = 128,
    FEW = 16 /* rows of fewer columns than this, with gaps between them, are copied together first */
};

/* Adds `sum` - n DPK_SUM_ZERO, a signed number, to a 128-bit total. */
static void carry(uint64_t sum, uint64_t n, uint64_t *low, int64_t *high) {
    int64_t part = (int64_t)(sum - n * DPK_SUM_ZERO);
    *low += (uint64_t)part;
    *high += (part < 0 ? -1 : 0) + (*low < (uint64_t)part);
}

/* A tile of accumulators: lane j of `columns` and those that follow at distances of `columns` belong to column j. */
typedef struct {
    uint64_t *sums, seen;
} tile;

static void empty(tile *t, size_t width, size_t columns, uint64_t n, uint64_t *low, int64_t *high) {
    for (size_t j = 0; j < width; j += columns)
        for (size_t i = 0; i < columns; i++) carry(t->sums[j + i], n, low + i, high + i);
    memset(t->sums, 0, width * sizeof *t->sums);
}

/* Pre: n <= DPK_BLOCK; no pairs. Post: a block of any strides and dtype as doubles; an int64 beyond 2^53 becomes the nearest one.
   Errors: none. */
void dpk_load_doubles(const dpk_kernels *k, const dpk_view *v, int64_t start, size_t n, double *out) {
    int64_t items[DPK_BLOCK];
    const void *run = v->dtype == DPK_F16 || v->dtype == DPK_U64 ? NULL : dpk_view_run(v, start);
    if (!run && v->dtype != DPK_I64) {
        dpk_load_real(v, start, n, out, NULL);
        return;
    }
    if (!run) dpk_load_int(v, start, n, items);
    k->sums.reals(run ? run : items, v->dtype, n, out);
}

static int is_aligned(const dpk_sums *s, const char *at) { return s->values.dtype == DPK_F64 && (uintptr_t)at % 8 == 0; }

/* One column: in place if its values are contiguous doubles, else by way of blocks in L1. */
static void sum_column(const dpk_sums *s, int64_t start, int64_t stop, char *at, uint64_t *low, int64_t *high, uint64_t *seen) {
    double x[DPK_BLOCK];
    dpk_view column = {.data = at, .dtype = s->values.dtype, .ndim = 1, .shape = {stop}, .strides = {s->row_stride}};
    const double *direct = is_aligned(s, at) && s->row_stride == 8 ? (const double *)(void *)at : NULL;
    int64_t most = direct ? DPK_SUM_ROWS : DPK_BLOCK;
    for (int64_t i = start; i < stop; i += most) {
        size_t m = (size_t)(stop - i < most ? stop - i : most);
        if (!direct) dpk_load_doubles(s->kernels, &column, i, m, x);
        carry(s->kernels->sums.run(&s->clamp, direct ? direct + i : x, m, seen), m, low, high);
    }
}

/* Rows of `width` contiguous doubles, `stride` doubles apart; accumulators fold onto `columns` columns. */
static void sum_wide_rows(const dpk_sums *s, tile *t, const double *x, int64_t n, size_t width, ptrdiff_t stride, size_t columns,
                          uint64_t *low, int64_t *high) {
    for (int64_t r = 0; r < n; r += DPK_SUM_ROWS) {
        size_t m = (size_t)(n - r < DPK_SUM_ROWS ? n - r : DPK_SUM_ROWS);
        s->kernels->sums.rows(&s->clamp, x + r * stride, m, width, stride, t->sums, &t->seen);
        empty(t, width, columns, m, low, high);
    }
}

/* Rows of `columns` <= NARROW doubles that follow each other: a multiple of eight of them makes one row without a rest. */
static void sum_narrow_rows(const dpk_sums *s, tile *t, const double *x, int64_t n, size_t columns, uint64_t *low, int64_t *high) {
    size_t together = 8 * ((LANES / 8 + columns - 1) / columns), width = together * columns;
    int64_t wide = n / (int64_t)together, rest = n % (int64_t)together;
    sum_wide_rows(s, t, x, wide, width, (ptrdiff_t)width, columns, low, high);
    sum_wide_rows(s, t, x + wide * (int64_t)width, rest, columns, (ptrdiff_t)columns, columns, low, high);
}

/* Any other memory, by way of blocks in L1: several rows if they fit into one, else pieces of a row. */
static void sum_loaded_rows(const dpk_sums *s, tile *t, int64_t start, int64_t stop, int64_t first, size_t columns, uint64_t *low,
                            int64_t *high) {
    double x[DPK_BLOCK];
    int64_t together = columns == (size_t)s->columns && columns < DPK_BLOCK ? (int64_t)(DPK_BLOCK / columns) : 1;
    for (int64_t r = start; r < stop; r += together) {
        size_t width = columns * (size_t)(stop - r < together ? stop - r : together);
        for (size_t at = 0, m; at < width; at += m) {
            m = width - at < DPK_BLOCK ? width - at : DPK_BLOCK;
            dpk_load_doubles(s->kernels, &s->values, r * s->columns + first + (int64_t)at, m, x);
            s->kernels->sums.rows(&s->clamp, x, 1, m, 0, t->sums + at, &t->seen);
        }
        empty(t, width, columns, 1, low, high);
    }
}

/* Columns [first, first + columns) of rows [start, stop), at most a tile of them. */
static void sum_tile(const dpk_sums *s, tile *t, int64_t start, int64_t stop, int64_t first, size_t columns, uint64_t *low, int64_t *high) {
    char *at = s->data + first * s->column_stride;
    int by_column = columns == 1 || (stop - start > 1 && llabs(s->row_stride) < llabs(s->column_stride));
    if (by_column) {
        for (size_t j = 0; j < columns; j++) sum_column(s, start, stop, at + (int64_t)j * s->column_stride, low + j, high + j, &t->seen);
        return;
    }
    at += start * s->row_stride;
    int in_place = is_aligned(s, at) && s->column_stride == 8 && s->row_stride % 8 == 0;
    const double *x = (const double *)(void *)at;
    if (in_place && columns <= NARROW && s->row_stride == 8 * (int64_t)columns) sum_narrow_rows(s, t, x, stop - start, columns, low, high);
    else if (in_place && columns >= FEW) sum_wide_rows(s, t, x, stop - start, columns, (ptrdiff_t)(s->row_stride / 8), columns, low, high);
    else sum_loaded_rows(s, t, start, stop, first, columns, low, high);
}

/* As many as a tile of columns, or as the rows that are taken together have values. */
int64_t dpk_sums_room(int64_t columns) {
    int64_t least = 8 * NARROW;
    return columns < least ? least : columns < DPK_SUM_COLUMNS ? columns : DPK_SUM_COLUMNS;
}

/* Pre: grid a power of two. Post: the clamp in units of the grid. Errors: none. */
void dpk_clamp_set(dpk_clamp *c, double lower, double upper, double grid) {
    c->lower = lower;
    c->upper = upper;
    c->inverse_grid = 1.0 / grid;
}

/* Pre: ranges inside the array; low and high have an item for each column of the range, room has dpk_sums_room of them. Post: the totals in
   units of the grid are added to high 2^64 + low. Errors: DPK_NONFINITE if there is a NaN among the values; the totals are then worthless.
   Source: docs/exactness.md, "Exact sums". */
int dpk_sums_run(const dpk_sums *s, int64_t start, int64_t stop, int64_t first, int64_t last, uint64_t *room, uint64_t *low,
                 int64_t *high) {
    tile t = {room, 0};
    memset(room, 0, (size_t)dpk_sums_room(last - first) * sizeof *room);
    for (int64_t j = first; j < last && start < stop;) {
        int64_t m = last - j < DPK_SUM_COLUMNS ? last - j : DPK_SUM_COLUMNS;
        sum_tile(s, &t, start, stop, j, (size_t)m, low + (j - first), high + (j - first));
        j += m;
    }
    return t.seen & DPK_SUM_NAN ? DPK_NONFINITE : DPK_OK;
}

/* Pre: totals has three items for each group: the low and the high word of a sum, and a count of rows. Post: each value's steps of the grid
   are added to the sum of its group, and 1 to its count. Errors: DPK_NONFINITE if there is a NaN among the values, DPK_OUTSIDE if a group
   is outside [0, n_groups); the totals are then worthless. Source: docs/exactness.md, "Exact sums". */
int dpk_sums_grouped(const dpk_kernels *k, const dpk_clamp *c, const double *x, const int32_t *groups, int64_t n, int64_t n_groups,
                     int64_t *totals) {
    uint64_t steps[DPK_BLOCK], seen = 0;
    for (int64_t i = 0; i < n; i += DPK_BLOCK) {
        size_t m = (size_t)(n - i < DPK_BLOCK ? n - i : DPK_BLOCK);
        memset(steps, 0, m * sizeof *steps);
        k->sums.rows(c, x + i, 1, m, 0, steps, &seen);
        for (size_t j = 0; j < m; j++) {
            int64_t group = groups[i + (int64_t)j];
            if ((uint64_t)group >= (uint64_t)n_groups) return DPK_OUTSIDE;
            int64_t *total = totals + 3 * group;
            uint64_t low = (uint64_t)total[0];
            carry(steps[j], 1, &low, total + 1);
            total[0] = (int64_t)low;
            total[2]++;
        }
    }
    return seen & DPK_SUM_NAN ? DPK_NONFINITE : DPK_OK;
}

/* Pre: |high 2^64 + low| <= 2^106; grid a power of two, so that nothing overflows or underflows. Post: pairs: the double nearest to each
   total times the grid, and the rest, which is a double too. Errors: none. */
void dpk_sums_pairs(const uint64_t *low, const int64_t *high, size_t n, double grid, double *nearest, double *rest) {
    for (size_t i = 0; i < n; i++) {
        dd upper = two_sum((double)high[i] * 0x1p64, (double)(uint32_t)(low[i] >> 32) * 0x1p32);
        dd lower = two_sum(upper.low, (double)(uint32_t)low[i]);
        dd total = two_sum(upper.high, lower.high);
        total = two_sum(total.high, total.low + lower.low); /* an integer below 2^53: exact */
        nearest[i] = total.high * grid;
        rest[i] = total.low * grid;
    }
}

/* The parts of a block of reports, and whether one of them is far or no report. */
static int block_moments(const dpk_moments *m, int64_t start, size_t n, const void *run, uint64_t *parts) {
    union {
        double real[DPK_BLOCK];
        int64_t integer[DPK_BLOCK];
    } block;
    if (m->values.dtype == DPK_I64) {
        if (!run) dpk_load_int(&m->values, start, n, block.integer);
        return m->kernels->sums.moments_int(&m->lattice, run ? run : block.integer, n, parts);
    }
    if (!run) dpk_load_real(&m->values, start, n, block.real, NULL);
    return m->kernels->sums.moments(&m->lattice, run ? run : block.real, n, parts);
}

/* Pre: [start, stop) inside the array, of at most 2^40 reports; low and high have DPK_MOMENT_PARTS items. Post: the parts of the reports
   before the result are added to high 2^64 + low; it is `stop`, or where DPK_BLOCK or DPK_SUM_ROWS reports begin of which one is far or
   no multiple of the grid. Errors: none. */
int64_t dpk_moments_run(const dpk_moments *m, int64_t start, int64_t stop, uint64_t *low, int64_t *high) {
    uint64_t parts[DPK_MOMENT_PARTS];
    while (start < stop) {
        const void *run = dpk_view_run(&m->values, start);
        int64_t most = run ? DPK_SUM_ROWS : DPK_BLOCK;
        size_t n = (size_t)(stop - start < most ? stop - start : most);
        if (block_moments(m, start, n, run, parts)) return start;
        for (size_t i = 0; i < DPK_MOMENT_PARTS; i++) carry(parts[i], n, low + i, high + i);
        start += (int64_t)n;
    }
    return stop;
}
