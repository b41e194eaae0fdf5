/* Prints a digest of every kernel's keyed output, for each level this machine has: the same lines on every platform. */
#include <math.h>

#include "driver.h"

enum { N = 100003 };
static double x[N], y[N];
static int64_t xi[N], yi[N], which[N];
static dpk_pending pending[4096];

static void run(const dpk_kernels *k, const char *name, const dpk_law *laws, int64_t n_laws, int tier) {
    static const uint8_t key[32] = "a key of thirty-two bytes, known";
    const dpk_law law = laws[0];
    double steps[2], seconds[2];
    int64_t n = 0, reached = 0;
    dpk_noise_call call;
    memset(&call, 0, sizeof call);
    call.kernels = k;
    dpk_stream_init(&call.stream, k, DPK_CHACHA20, key, 7);
    call.kind = law.kind;
    call.tier = tier;
    call.bound_factor = 1.0;
    call.n_laws = n_laws;
    call.laws = laws;
    call.guides = laws->table.guide;
    call.steps = steps;
    call.seconds = seconds;
    for (int64_t i = 0; i < n_laws; i++) dpk_law_parameters(&laws[i], steps + i, seconds + i);
    call.which = vector(which, DPK_I64, N);
    int real = law.kind <= DPK_GAUSSIAN;
    call.values = vector(real ? (void *)x : (void *)xi, real ? DPK_F64 : DPK_I64, N);
    call.out = vector(real ? (void *)y : (void *)yi, real ? DPK_F64 : DPK_I64, N);
    int status = dpk_noise_run(&call, 0, N, pending, 4096, &n, &reached);
    printf("%s tier %d status %d pending %d %016llx\n", name, tier, status, (int)n,
           (unsigned long long)digest(real ? (void *)y : (void *)yi, sizeof y));
}

static void run_level(const dpk_kernels *k) {
    /* thresholds of a made-up symmetric law: the search is what is digested */
    static const uint32_t short_[] = {0x30000000, 0x58000000, 0x70000000, 0x7c000000, 0x7ff00000};
    static const uint64_t high[] = {0x3000000000000000, 0x5800000000000000, 0x7000000000000000,
                                    0x7c00000000000000, 0x7ff0000000000000, 0x7fffffffffffffff};
    static const uint64_t low[] = {1, 2, 3, 4, 5, 6};
    static uint64_t guides[2 * DPK_GUIDES];
    dpk_law law[5];
    memset(law, 0, sizeof law);
    for (int i = 0; i < 2; i++) {
        law[i].kind = i;
        law[i].step_scale = 0x1.8p40; /* the finest grid: one sample in a few hundred takes the accurate tier */
        law[i].grid = 0x1p-40;
        law[i].inverse_grid = 0x1p40;
    }
    law[2].kind = DPK_DISCRETE_LAPLACE;
    law[2].step_scale = 0x1.9p30;
    law[2].offset_high = 0x1.47ae147ae147bp-32;
    law[3].kind = DPK_GAUSSIAN_TABLE;
    law[3].step_scale = 2.0;
    law[3].table = (dpk_table){5, 6, short_, high, low, guides};
    dpk_guide_set(&law[3].table, guides);
    dpk_guide_set(&law[4].table, guides + DPK_GUIDES);
    law[4].kind = DPK_GAUSSIAN_ROUNDED;
    law[4].step_scale = 8.5;
    law[4].acceptance.quick = 65536.0 / 24 / (8.5 * 8.5 * 8.5 * 8.5) * 1.0000001;
    law[4].acceptance.n_terms = 3;
    law[4].acceptance.terms[0] = 1.0;
    law[4].acceptance.terms[1] = 1.0 / (24 * 8.5 * 8.5);
    static const char *const names[] = {"laplace", "gaussian", "discrete_laplace", "gaussian_table", "gaussian_rounded"};
    for (int i = 0; i < 5; i++)
        for (int tier = DPK_TIER_FAST; tier <= DPK_TIER_ACCURATE; tier++) run(k, names[i], &law[i], 1, tier);
    for (int tier = DPK_TIER_FAST; tier <= DPK_TIER_ACCURATE; tier++) run(k, "gaussian_mixed", &law[3], 2, tier);
}

int main(void) {
    static const char *const levels[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 0; i < N; i++) {
        x[i] = (i - N / 2) * 0x1.123456789abcdp-3;
        xi[i] = (int64_t)i * 1000003 - 17;
        which[i] = i % 3 == 2;
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
