/* Threads hammer the entries on shared calls and on ranges of shared arrays while others replace the level in use. For ThreadSanitizer;
   with a name as argument, one deliberate race beside them that it must report. Prints one digest of each kind: all of them must agree. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dpk_entries.h"
#include "driver.h"

enum { N = 40000, THREADS = 8, ROUNDS = 6, RANGE = N / THREADS };

static dpk_kernels usable[3];
static int n_levels;
static const dpk_kernels *level;
static double x[N], noisy[N], second[N];
static dpk_law law;
static dpk_noise_call call, laplace_call;
static dpk_selection selection;
static uint64_t expected[4];
static volatile int is_racy;
static int shared_memo; /* the mistake itself: looked up and stored by every thread, without order */

static void noise_range(const dpk_noise_call *c, int64_t start, int64_t stop) {
    dpk_pending pending[512];
    int64_t count, reached = start;
    while (reached < stop) dpk_entry_noise_run(c, reached, stop, pending, 512, &count, &reached);
}

static uint64_t select_one(uint64_t round) {
    dpk_candidate places[2 + DPK_SPARE_PLACES];
    int64_t winner, bad = -1;
    dpk_entry_selection_winner(&selection, round, places, 2 + DPK_SPARE_PLACES, &winner, &bad);
    return (uint64_t)winner;
}

static uint64_t cosine_sums(void) {
    static const double at[3] = {0.1, 0.25, 0.7};
    int64_t sums[5] = {0};
    dpk_entry_cosines(dpk_level_now(&level), at, 3, 5, sums, NULL);
    return digest(sums, sizeof sums);
}

static uint64_t words_of_all_levels(void) {
    uint8_t key[32] = {7};
    uint64_t words[DPK_GROUP];
    dpk_stream stream;
    const dpk_kernels *now = dpk_level_now(&level);
    dpk_stream_init(&stream, now, DPK_CHACHA20, key, 3);
    dpk_entry_bulk_words(&stream, now, 0, 5, 1, words);
    return digest(words, sizeof words);
}

static void *work(void *argument) {
    int64_t id = (int64_t)(intptr_t)argument, start = id * RANGE;
    for (int round = 0; round < ROUNDS; round++) {
        if (id == 0) dpk_level_use(&level, &usable[round % n_levels]);
        if (is_racy) shared_memo = shared_memo ? shared_memo : (int)id + 1;
        noise_range(&call, start, start + RANGE);
        noise_range(&laplace_call, start, start + RANGE);
        if (select_one(9) != expected[0] || cosine_sums() != expected[1] || words_of_all_levels() != expected[2]) abort();
    }
    return NULL;
}

static void set_up(void) {
    uint8_t key[32] = {1, 2, 3};
    for (int i = 0; i < N; i++) x[i] = (i % 1000) * 0x1.23p-4;
    static const char *const names[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 0; i < 3; i++) n_levels += dpk_usable_level(names[i], &usable[n_levels]);
    dpk_level_use(&level, &usable[n_levels - 1]);
    law.kind = DPK_GAUSSIAN;
    dpk_entry_law_set_grid(&law, 1.5, 0x1p-40);
    call.kernels = level;
    call.kind = DPK_GAUSSIAN;
    call.bound_factor = 1.0;
    call.n_laws = 1;
    call.laws = &law;
    dpk_stream_init(&call.stream, level, DPK_CHACHA20, key, 1);
    call.values = vector(x, DPK_F64, N);
    call.out = vector(noisy, DPK_F64, N);
    laplace_call = call;
    laplace_call.out = vector(second, DPK_F64, N);
    laplace_call.kind = DPK_LAPLACE;
    selection.kernels = level;
    selection.stream = call.stream;
    selection.noise = DPK_GUMBEL;
    selection.bound_factor = 1.0;
    selection.scale = 0.5;
    selection.n = N;
    selection.keep = 1;
    selection.stride = N + DPK_PIECES;
    selection.n_units = (N + DPK_PIECES * DPK_UNIT_BLOCKS - 1) / (DPK_PIECES * DPK_UNIT_BLOCKS);
    selection.step = 1;
    selection.scores = vector(x, DPK_F64, N);
    expected[0] = select_one(9);
    expected[1] = cosine_sums();
    expected[2] = words_of_all_levels();
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    (void)argv;
    is_racy = argc > 1;
    set_up();
    noise_range(&call, 0, N);
    noise_range(&laplace_call, 0, N);
    uint64_t alone = digest(noisy, sizeof noisy) ^ digest(second, sizeof second);
    memset(noisy, 0, sizeof noisy);
    memset(second, 0, sizeof second);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    uint64_t together = digest(noisy, sizeof noisy) ^ digest(second, sizeof second);
    printf("%d levels, %s\n", n_levels, alone == together ? "same" : "different");
    return alone == together ? 0 : 1;
}
