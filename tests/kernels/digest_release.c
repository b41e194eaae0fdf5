/* Prints a digest of every kernel of the releases, for each level this machine has: the same lines on every platform. */
#include <stdlib.h>

#include "driver.h"

enum { WORDS = 4099, THRESHOLDS = 700, BUCKETS = 512, TERMS = 70, BINS = 60, MOST = 90, ROWS = 301, WIDTH = 21, PLANES = 18 };
static uint64_t words[WORDS], thresholds[THRESHOLDS], planes[PLANES * ((WIDTH + 7) / 8)];
static uint32_t guide[BUCKETS + 1];
static int64_t codes[WORDS], sums[TERMS], cosines[DPK_COSINE_BLOCK * TERMS], lower[BINS], upper[BINS], offsets[BINS + 1], products[ROWS];
static double x[DPK_COSINE_BLOCK], weights[MOST + 1], exponents[MOST + 1], mantissas[BINS * (MOST + 1)], powers[BINS * (MOST + 1)];
static uint8_t rows[ROWS * WIDTH];

static uint64_t mixed(uint64_t i) {
    i = (i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 29) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}

static void run_choices(const dpk_kernels *k) {
    for (int i = 0; i < WORDS; i++) words[i] = mixed((uint64_t)i);
    for (int i = 0; i < THRESHOLDS; i++) thresholds[i] = (uint64_t)i * 0x5d9f3ab1c0000u + ((uint64_t)i << 53);
    for (int i = 0; i <= BUCKETS; i++) {
        guide[i] = 0;
        while (guide[i] < THRESHOLDS && (i == BUCKETS || thresholds[guide[i]] < (uint64_t)i << 55)) guide[i]++;
    }
    dpk_choice choice = {thresholds, guide, 55};
    int status = k->release.choose(&choice, words, codes, WORDS);
    print("choose", status, digest_on(EMPTY_DIGEST, codes, sizeof codes));
}

static void run_cosines(const dpk_kernels *k, const char *name, size_t n, int is_stored) {
    memset(sums, 0, sizeof sums);
    memset(cosines, 0, sizeof cosines);
    for (size_t i = 0; i < n; i++) x[i] = (double)(mixed(i) >> 11) * 0x1p-53;
    x[0] = 0.0, x[n - 1] = 1.0;
    k->release.cosines(x, n, TERMS, sums, is_stored ? cosines : NULL);
    print(name, 0, digest_on(digest_on(EMPTY_DIGEST, sums, sizeof sums), cosines, sizeof cosines));
}

static void run_band(const dpk_kernels *k, const char *name, int width) {
    weights[MOST] = 1.0, exponents[MOST] = 0.0;
    for (int c = 1; c <= MOST; c++) { /* a weight of each step, halved where it grows */
        weights[MOST - c] = weights[MOST - c + 1] * (1.0 + (double)(c % 7) / 8);
        exponents[MOST - c] = exponents[MOST - c + 1] - 3 * c % 11;
        if (weights[MOST - c] >= 2.0) weights[MOST - c] /= 2, exponents[MOST - c] += 1;
    }
    offsets[0] = 0;
    for (int i = 0; i < BINS; i++) {
        int middle = (i + 1) * MOST / BINS;
        lower[i] = i == BINS - 1 ? MOST : middle > width ? middle - width : 0;
        upper[i] = middle + width < MOST ? middle + width : MOST;
        offsets[i + 1] = offsets[i] + upper[i] - lower[i] + 1;
    }
    dpk_band band = {lower, upper, offsets, weights, exponents, MOST, mantissas, powers};
    for (int i = 0; i < BINS; i++) k->release.band_row(&band, (size_t)i);
    size_t size = (size_t)offsets[BINS] * sizeof *mantissas;
    print(name, 0, digest_on(digest_on(EMPTY_DIGEST, mantissas, size), powers, size));
}

static void run_level(const dpk_kernels *k) {
    run_choices(k);
    run_cosines(k, "cosines", DPK_COSINE_BLOCK, 0);
    run_cosines(k, "cosines_few", 19, 0);
    run_cosines(k, "cosines_stored", 19, 1);
    run_band(k, "band", MOST);
    run_band(k, "band_narrow", 7);
    for (int i = 0; i < ROWS * WIDTH; i++) rows[i] = (uint8_t)mixed((uint64_t)i);
    for (int i = 0; i < PLANES * ((WIDTH + 7) / 8); i++) planes[i] = mixed((uint64_t)i + 77) & (i % 3 == 2 ? 0xffffffffffu : UINT64_MAX);
    k->release.weigh_bits(rows, ROWS, WIDTH, WIDTH, planes, PLANES, products);
    print("weigh_bits", 0, digest_on(EMPTY_DIGEST, products, sizeof products));
}

int main(void) {
    static const char *const names[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        const dpk_kernels *k = dpk_usable_level(names[i], &usable) ? &usable : NULL;
        if (k == NULL) continue;
        printf("level %s\n", names[i]);
        run_level(k);
    }
    return 0;
}
