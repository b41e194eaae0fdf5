/* Prints a digest of every kernel of the binary search of tests, for each level this machine has: the same lines on every platform. */
#include <math.h>
#include <stdlib.h>

#include "driver.h"

enum { STEPS = 60, NODES = STEPS * (STEPS + 1) / 2, MOST_WIDTH = 72, SETS = 1031, BYTES = 70001, POINTS = 100 };
static double weights[NODES * MOST_WIDTH], counts[SETS * MOST_WIDTH];
static const double centre[MOST_WIDTH];
static float rough[NODES * MOST_WIDTH];
static int32_t levels[SETS], places[SETS];
static uint8_t codes[BYTES];
static int64_t numbers[SETS], thresholds[63];
static double values[64], found[SETS];

/* Weights of alternating sign whose sums nearly vanish, some of them exactly. */
static void run_walk(const dpk_kernels *k, const char *name, size_t width, int is_rough, int known) {
    const double nan = strtod("nan", NULL);
    for (size_t i = 0; i < NODES * width; i++) {
        double w = ((int)(i * 7919 % 127) - 63) * (i % width % 2 ? -0x1p-7 : 0x1p-7) * (i / width % 11 ? 1.0 : 0.0);
        weights[i] = (int)(i / width) < known ? w : nan;
        rough[i] = (float)weights[i];
    }
    for (size_t i = 0; i < SETS * width; i += 2) { /* pairs, so that all sum to the same */
        counts[i] = (double)(600 + i * 31 % 41);
        counts[i + 1] = 1280 - counts[i];
    }
    for (int i = 0; i < SETS; i++) levels[i] = places[i] = 1;
    dpk_tests tests = {weights, width, STEPS, is_rough ? rough : NULL, centre, 0, (double)(width / 8 + 6) * 0x1p-24, 0};
    for (size_t z = 0; z < width; z++) tests.reports += counts[z];
    k->search.walk(&tests, counts, levels, places, SETS);
    uint64_t h = digest_on(EMPTY_DIGEST, levels, sizeof levels);
    print(name, 0, digest_on(h, places, sizeof places));
}

/* Places of numbers on and beside points. */
static void run_places(const dpk_kernels *k, const char *name, double inverse_step) {
    double points[POINTS + 2], x[SETS];
    int64_t at[2 * SETS];
    points[0] = -HUGE_VAL, points[POINTS + 1] = HUGE_VAL;
    for (int i = 0; i < POINTS; i++) points[i + 1] = 3.0 * i + (i % 5) * (inverse_step == 0.0 ? 0.5 : 0.1);
    for (int i = 0; i < SETS; i++) x[i] = i % 7 ? 0.37 * i - 20.0 : points[i % (POINTS + 2)];
    dpk_points p = {points, POINTS, points[1], inverse_step, points[1] - 3.0, points[POINTS] + 3.0, 0};
    k->search.places(&p, x, SETS, at);
    p.counts_equal = 1;
    k->search.places(&p, x, SETS, at + SETS);
    print(name, 0, digest_on(EMPTY_DIGEST, at, sizeof at));
}

static void run_level(const dpk_kernels *k) {
    run_walk(k, "walk", 8, 0, NODES);
    run_walk(k, "walk_rough", 8, 1, NODES);
    run_walk(k, "walk_wide", 16, 0, NODES);
    run_walk(k, "walk_wide_rough", 16, 1, NODES);
    run_walk(k, "walk_widest", MOST_WIDTH, 1, NODES);
    run_walk(k, "walk_partly", 8, 0, NODES / 2);
    run_walk(k, "walk_partly_rough", 8, 1, NODES / 2);
    k->search.steps(numbers, thresholds, 6, values, found, SETS);
    print("steps", 0, digest_on(EMPTY_DIGEST, found, sizeof found));
    run_places(k, "places", 0.0);
    run_places(k, "even_places", 1.0 / 3.0);
    int64_t nonzero = k->search.nonzero(codes, BYTES);
    print("nonzero", 0, digest_on(EMPTY_DIGEST, &nonzero, 8));
    for (int few = 0; few < 2; few++) {
        int64_t found_codes[256] = {0};
        for (int i = 0; i < BYTES; i++) codes[i] = (uint8_t)(codes[i] % (few ? 16 : 200));
        int status = k->search.bytes(codes, BYTES, few ? 16 : 200, found_codes);
        print(few ? "few_codes" : "codes", status, digest_on(EMPTY_DIGEST, found_codes, sizeof found_codes));
    }
}

int main(void) {
    static const char *const names[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 0; i < 63; i++) thresholds[i] = 10 * i + i % 3;
    for (int i = 0; i < 64; i++) values[i] = 0.1 * i;
    for (int i = 0; i < SETS; i++) numbers[i] = (int64_t)i * 7 % 700 - 30;
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        const dpk_kernels *k = dpk_usable_level(names[i], &usable) ? &usable : NULL;
        if (k == NULL) continue;
        for (int j = 0; j < BYTES; j++) codes[j] = (uint8_t)(j * 2654435761u >> 13);
        printf("level %s\n", names[i]);
        run_level(k);
    }
    return 0;
}
