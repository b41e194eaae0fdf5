/* Prints a digest of what every noise selects under a key, and of the exact sums of columns, for each level this machine has: the same
   lines on every platform. */
#include <stdlib.h>

#include "driver.h"

enum { N = 50003, KEEP = 40, PLACES = 2 * KEEP + DPK_SPARE_PLACES, COLUMNS = 7, ROWS = N / COLUMNS };
static double scores[N];
static int64_t counts[N];
static dpk_candidate places[PLACES];

static dpk_selection selection(const dpk_kernels *k, int noise, int64_t keep) {
    static const uint8_t key[32] = "a key of thirty-two bytes, known";
    dpk_selection call;
    memset(&call, 0, sizeof call);
    call.kernels = k;
    dpk_stream_init(&call.stream, k, DPK_CHACHA20, key, 5);
    call.noise = noise;
    call.bound_factor = 1.0;
    call.scale = 2.5;
    call.n = N;
    call.keep = keep;
    call.stride = (N + DPK_PIECES - 1) / DPK_PIECES * DPK_PIECES;
    call.n_units = (N + DPK_PIECES * DPK_UNIT_BLOCKS - 1) / (DPK_PIECES * DPK_UNIT_BLOCKS);
    call.step = 1;
    call.scores = vector(scores, DPK_F64, N);
    return call;
}

static int compare(const void *a, const void *b) {
    const dpk_candidate *x = a, *y = b;
    if (x->high != y->high) return x->high > y->high ? -1 : 1;
    return x->low > y->low ? -1 : x->low < y->low;
}

static void run_largest(const char *name, const dpk_selection *call) {
    int64_t count = 0, evaluated = 0, bad = -1, winners[KEEP];
    dpk_threshold threshold = {0.0, 0.0, 0};
    int status = dpk_selection_run(call, 0, 0, call->n_units, places, PLACES, &count, &threshold, &evaluated, &bad);
    qsort(places, (size_t)count, sizeof *places, compare);
    for (int i = 0; i < KEEP; i++) winners[i] = places[i].index;
    print(name, status, digest(winners, sizeof winners));
}

static void run_rounds(const char *name, dpk_selection call) {
    static double bounds[N / DPK_PIECES + 1];
    int64_t winners[16], bad = -1;
    int status = DPK_OK;
    call.bounds = bounds;
    dpk_selection_bounds(&call, 0, N / DPK_PIECES + 1, &bad);
    for (uint64_t round = 0; round < 16; round++) status |= dpk_selection_winner(&call, round, places, PLACES, &winners[round], &bad);
    print(name, status, digest(winners, sizeof winners));
}

static void run_sums(const dpk_kernels *k) {
    static uint64_t room[1024]; /* dpk_sums_room of few columns */
    uint64_t low[COLUMNS] = {0};
    int64_t high[COLUMNS] = {0};
    dpk_sums call;
    memset(&call, 0, sizeof call);
    call.kernels = k;
    call.clamp.lower = -20.0;
    call.clamp.upper = 24.0;
    call.clamp.inverse_grid = 0x1p46;
    call.data = (char *)scores;
    call.columns = COLUMNS;
    call.row_stride = 8 * COLUMNS;
    call.column_stride = 8;
    call.values = vector(scores, DPK_F64, N);
    int status = dpk_sums_run(&call, 0, ROWS, 0, COLUMNS, room, low, high);
    print("sums low", status, digest(low, sizeof low));
    print("sums high", status, digest(high, sizeof high));
}

int main(void) {
    static const char *const levels[] = {"baseline", "x86_v3", "x86_v4"};
    static const char *const names[] = {"gumbel", "exponential", "two_sided"};
    for (int i = 0; i < N; i++) {
        scores[i] = (double)((int64_t)(i * 2654435761u % 100003) - 50001) / 1024.0;
        counts[i] = (int64_t)(i * 2654435761u % 1009);
    }
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        const dpk_kernels *k = dpk_usable_level(levels[i], &usable) ? &usable : NULL;
        if (!k) continue;
        printf("level %s\n", k->name);
        for (int noise = DPK_GUMBEL; noise <= DPK_TWO_SIDED; noise++) {
            dpk_selection call = selection(k, noise, KEEP);
            run_largest(names[noise], &call);
            call.is_unpruned = 1;
            run_largest(names[noise], &call);
            call = selection(k, noise, 1);
            call.scores = vector(counts, DPK_I64, N);
            run_rounds(names[noise], call);
        }
        run_sums(k);
    }
    return 0;
}
