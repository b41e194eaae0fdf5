/* Threads draw words of one secure generator, and halves now and then, without any lock of their own. For ThreadSanitizer. Prints how many
   words there are and how many different ones. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "dpk_bitgen.h"
#include "driver.h"

enum { THREADS = 6, WORDS = 6000, HALVES = 100 };

static dpk_secure_bits bits;
static dpk_numpy_bits served;
static uint64_t drawn[THREADS * WORDS];

static void *work(void *argument) {
    uint64_t *own = argument;
    for (int i = 0; i < WORDS; i++) {
        own[i] = served.next_uint64(served.state);
        if (i % HALVES == 0) served.next_uint32(served.state);
    }
    return NULL;
}

static int in_order(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static dpk_kernels usable;
    const uint8_t owned[32] = {1}, shared[32] = {2};
    const uint64_t *now = dpk_watch_forks();
    pthread_t threads[THREADS];
    size_t different = 1;
    dpk_usable_level("baseline", &usable);
    dpk_secure_bits_start(&bits, &usable, now, DPK_CHACHA20, owned, shared);
    dpk_secure_bits_serve(&bits, &served);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, drawn + i * WORDS);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    qsort(drawn, THREADS * WORDS, sizeof *drawn, in_order);
    for (size_t i = 1; i < THREADS * WORDS; i++) different += drawn[i] != drawn[i - 1];
    printf("%d words, %zu different\n", THREADS * WORDS, different);
    return 0;
}
