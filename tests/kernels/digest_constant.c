/* Prints a digest of constant work, for each level this machine has: the same lines on every platform. */
#include "driver.h"

enum { N = 4001, DIGITS = 60, THRESHOLDS = 40 };
static int64_t high[DIGITS][THRESHOLDS], low[DIGITS][THRESHOLDS];
static dpk_digit digits[DIGITS];
static double x[N], pairs[2 * N], y[N];
static int64_t integers[N], sums[N];
static uint8_t bits[N], reports[N];

/* Digits with thresholds that rise, and weights that double. */
static void set_digits(void) {
    for (int d = 0; d < DIGITS; d++) {
        for (int k = 0; k < THRESHOLDS; k++) {
            high[d][k] = (INT64_MAX / (THRESHOLDS + 1)) * (k + 1) + d;
            low[d][k] = (int64_t)(0x9e3779b97f4a7c15u * (uint64_t)(d * THRESHOLDS + k + 1));
        }
        digits[d] = (dpk_digit){.n_thresholds = 1 + d % THRESHOLDS, .is_signed = d % 3 != 0, .high = high[d], .low = low[d]};
        digits[d].weight[d / 20] = (int64_t)1 << (d % 20 + 15);
    }
}

static dpk_constant_noise noise_of(const dpk_kernels *k, int64_t n_digits, dpk_view values, dpk_view out) {
    dpk_constant_noise c;
    uint8_t key[32];
    memset(&c, 0, sizeof c);
    for (int i = 0; i < 32; i++) key[i] = (uint8_t)(7 * i + 1);
    c.kernels = k;
    dpk_stream_init(&c.stream, k, DPK_CHACHA20, key, 3);
    c.first_element = 77;
    c.digits = digits;
    c.n_digits = n_digits;
    c.fraction_bits = 62;
    c.grid = 0x1p-20;
    c.inverse = 0x1p20;
    c.least = 0x1p-90;
    c.most = 0x1p180;
    c.values = values;
    c.out = out;
    return c;
}

static void run_level(const dpk_kernels *k) {
    dpk_constant_noise c = noise_of(k, DIGITS, vector(x, DPK_F64, N), vector(y, DPK_F64, N));
    dpk_constant_real(&c, 0, N);
    print("real", 0, digest(y, sizeof y));
    dpk_view pair = vector(pairs, DPK_F64_PAIR, N);
    pair.strides[0] = 16;
    c = noise_of(k, DIGITS, pair, vector(y, DPK_F64, N));
    dpk_constant_real(&c, 0, N);
    print("pairs", 0, digest(y, sizeof y));
    c = noise_of(k, 20, vector(integers, DPK_I64, N), vector(sums, DPK_I64, N));
    dpk_constant_int(&c, 0, N);
    print("integers", 0, digest(sums, sizeof sums));
    dpk_constant_bits b = {k, c.stream, 5, digits, bits, reports};
    dpk_constant_flip(&b, 0, N);
    print("bits", 0, digest(reports, sizeof reports));
    dpk_constant_choice choice = {k, c.stream, 0, DIGITS, digits, 0x1p20, 0x1p-30, 0x1p60, 4000.0, 0.0, vector(x, DPK_F64, N)};
    int64_t winner = dpk_constant_largest(&choice, N);
    print("largest", 0, digest(&winner, sizeof winner));
}

int main(void) {
    const char *names[] = {"baseline", "x86_v3", "x86_v4"};
    set_digits();
    for (int i = 0; i < N; i++) {
        x[i] = (i % 97 - 48) * 0x1.23456789abcdep-7 * (double)((int64_t)1 << i % 40);
        pairs[2 * i] = x[i];
        pairs[2 * i + 1] = x[i] * 0x1p-56;
        integers[i] = (int64_t)(0x9e3779b97f4a7c15u * (uint64_t)i);
        bits[i] = i % 3 == 0;
    }
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        if (!dpk_usable_level(names[i], &usable)) continue;
        printf("level %s\n", names[i]);
        run_level(&usable);
    }
    return 0;
}
