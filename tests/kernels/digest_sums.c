/* Prints a digest of exact sums of arrays of every layout, for each level this machine has: the same lines on every platform. */
#include "driver.h"

enum { N = 60007, MOST_COLUMNS = 2051 };
static uint64_t room[MOST_COLUMNS];
static double x[N];
static double reports[N];
static int64_t integers[N], counts[N];
static uint64_t low[MOST_COLUMNS];
static int64_t high[MOST_COLUMNS];
static double nearest[MOST_COLUMNS], rest[MOST_COLUMNS];

/* Sums of the columns of an array of `rows` rows; strides in bytes. */
static void run(const dpk_kernels *k, const char *name, void *data, int dtype, int64_t columns, int64_t row_stride, int64_t column_stride,
                int64_t rows) {
    dpk_sums s;
    memset(&s, 0, sizeof s);
    s.kernels = k;
    s.clamp = (dpk_clamp){-0x1.2p6, 0x1.fffcp6, 0x1p44};
    s.data = data;
    s.columns = columns;
    s.row_stride = row_stride;
    s.column_stride = column_stride;
    s.values = (dpk_view){.data = data, .dtype = dtype, .ndim = 2, .shape = {rows, columns}, .strides = {row_stride, column_stride}};
    dpk_view_coalesce(&s.values);
    memset(low, 0, sizeof low);
    memset(high, 0, sizeof high);
    int status = dpk_sums_run(&s, 0, rows, 0, columns, room, low, high);
    dpk_sums_pairs(low, high, (size_t)columns, 0x1p-44, nearest, rest);
    uint64_t h = digest_on(EMPTY_DIGEST, low, 8 * (size_t)columns);
    h = digest_on(digest_on(digest_on(h, high, 8 * (size_t)columns), nearest, 8 * (size_t)columns), rest, 8 * (size_t)columns);
    print(name, status, h);
}

/* Moments of all reports; strides in bytes. */
static void run_moments(const dpk_kernels *k, const char *name, void *data, int dtype, int64_t stride, dpk_lattice lattice) {
    dpk_moments m;
    memset(&m, 0, sizeof m);
    m.kernels = k;
    m.lattice = lattice;
    m.values = (dpk_view){.data = data, .dtype = dtype, .ndim = 1, .shape = {8 * N / stride}, .strides = {stride}};
    memset(low, 0, sizeof low);
    memset(high, 0, sizeof high);
    int64_t n = m.values.shape[0], reached = dpk_moments_run(&m, 0, n, low, high);
    uint64_t h = digest_on(EMPTY_DIGEST, low, 8 * DPK_MOMENT_PARTS);
    print(name, reached != n, digest_on(h, high, 8 * DPK_MOMENT_PARTS));
}

/* Sums of groups that follow each other, and one that most rows are in. */
static void run_grouped(const dpk_kernels *k) {
    static int32_t groups[N];
    int64_t totals[3 * 16] = {0};
    dpk_clamp clamp = {-0x1.2p6, 0x1.fffcp6, 0x1p44};
    for (int i = 0; i < N; i++) groups[i] = i % 5 ? 7 : i % 16;
    int status = dpk_sums_grouped(k, &clamp, x, groups, N, 16, totals);
    print("grouped", status, digest_on(EMPTY_DIGEST, totals, sizeof totals));
}

static void run_level(const dpk_kernels *k) {
    run_grouped(k);
    run(k, "column", x, DPK_F64, 1, 8, 8, N);
    run(k, "strided_column", x, DPK_F64, 1, 24, 8, N / 3);
    run(k, "narrow", x, DPK_F64, 3, 24, 8, N / 3);
    run(k, "gaps", x, DPK_F64, 5, 56, 8, N / 7);
    run(k, "wide", x, DPK_F64, 200, 1600, 8, N / 200);
    run(k, "tiles", x, DPK_F64, MOST_COLUMNS, 8 * MOST_COLUMNS, 8, N / MOST_COLUMNS);
    run(k, "by_column", x, DPK_F64, 7, 8, 8 * (N / 7), N / 7);
    run(k, "integers", integers, DPK_I64, 7, 56, 8, N / 7);
    run_moments(k, "moments", reports, DPK_F64, 8, (dpk_lattice){0x1p30, 0x1p-30, 12345.0, 0});
    run_moments(k, "strided_moments", reports, DPK_F64, 24, (dpk_lattice){0x1p30, 0x1p-30, 12345.0, 0});
    run_moments(k, "integer_moments", counts, DPK_I64, 8, (dpk_lattice){1.0, 1.0, 0.0, -77});
}

int main(void) {
    static const char *const levels[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 1; i < N; i++) {
        x[i] = (i % 4001 - 2000) * 0x1.123456789abcdp-4;
        counts[i] = i * 987654321LL - (1LL << 44);
        reports[i] = (double)counts[i] * 0x1p-30;
        integers[i] = (int64_t)i * 0x123456789 >> i % 40;
    }
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        const dpk_kernels *k = dpk_usable_level(levels[i], &usable) ? &usable : NULL;
        if (k == NULL) continue;
        printf("level %s\n", levels[i]);
        run_level(k);
    }
    return 0;
}
