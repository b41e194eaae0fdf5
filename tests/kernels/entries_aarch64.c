/* What an entry does to the registers of its caller on aarch64. Prints how many vector registers still hold something after a call, how many
   upper halves of those that callers keep do, in how many environments of the caller the results are others, and in how many the environment
   does not come back. */
#include <inttypes.h>

#include "dpk_entries.h"
#include "driver.h"

enum { N = 700, NEAREST = 0, FLUSHED = 1 << 24, DEFAULT_NAN = 1 << 25, RAISED = 0x1f };
#define MODE(i) ((uint64_t)(i) << 22)

static dpk_kernels usable;
static double values[N], noisy[N];
static dpk_law law;
static dpk_noise_call call;

static void draw(void) {
    static dpk_pending pending[N];
    int64_t count = 0, reached = 0;
    memset(noisy, 0, sizeof noisy);
    while (reached < N) dpk_entry_noise_run(&call, reached, N, pending, N, &count, &reached);
}

static void add(double pair[2]) {
    static const uint64_t low = 0x8000000000003039u;
    static const int64_t high = -((int64_t)1 << 39) - 3;
    dpk_entry_sums_pairs(&low, &high, 1, 1.0, pair, pair + 1);
}

static uint64_t results(void) {
    double pair[2];
    draw();
    add(pair);
    return digest_on(digest(noisy, sizeof noisy), pair, sizeof pair);
}

static void set_up(void) {
    uint8_t key[32] = {1, 2, 3};
    for (int i = 0; i < N; i++) values[i] = i % 7 ? i * 0x1.23p-4 : i * 0x1p-1074;
    dpk_usable_level("baseline", &usable);
    law.kind = DPK_LAPLACE;
    dpk_entry_law_set_grid(&law, 1.5, 0x1p-40);
    call.kernels = &usable;
    call.kind = DPK_LAPLACE;
    call.bound_factor = 1.0;
    call.n_laws = 1;
    call.laws = &law;
    dpk_stream_init(&call.stream, &usable, DPK_CHACHA20, key, 1);
    call.values = vector(values, DPK_F64, N);
    call.out = vector(noisy, DPK_F64, N);
}

/* For each register that a call may leave as it likes. */
#define EACH(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define FILL(i) "movi v" #i ".16b, #0xff\n\t"
#define STORE(i) "str q" #i ", [%0, #" #i " * 16]\n\t"
#define LOST                                                                                                                           \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "v28", "v29", "v30", "v31"

/* All of them filled before a call: how many are not 0 afterwards. */
static int registers_left(void) {
    static uint64_t seen[32][2];
    double pair[2];
    int left = 0;
    __asm__ volatile(EACH(FILL) : : : LOST);
    add(pair);
    __asm__ volatile(EACH(STORE) : : "r"(seen) : "memory");
    for (int i = 0; i < 32; i++) left += seen[i][0] != 0 || seen[i][1] != 0;
    return left;
}

/* Upper halves of v8 to v15 that are not 0 after a call which had them 0. */
static int halves_left(void) {
    uint64_t seen[8];
    int left = 0;
    __asm__ volatile("movi v8.2d, #0\n\tmovi v9.2d, #0\n\tmovi v10.2d, #0\n\tmovi v11.2d, #0\n\t"
                     "movi v12.2d, #0\n\tmovi v13.2d, #0\n\tmovi v14.2d, #0\n\tmovi v15.2d, #0"
                     : : : "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15");
    draw();
    __asm__ volatile("mov %0, v8.d[1]\n\tmov %1, v9.d[1]\n\tmov %2, v10.d[1]\n\tmov %3, v11.d[1]\n\t"
                     "mov %4, v12.d[1]\n\tmov %5, v13.d[1]\n\tmov %6, v14.d[1]\n\tmov %7, v15.d[1]"
                     : "=r"(seen[0]), "=r"(seen[1]), "=r"(seen[2]), "=r"(seen[3]), "=r"(seen[4]), "=r"(seen[5]), "=r"(seen[6]), "=r"(seen[7]));
    for (int i = 0; i < 8; i++) left += seen[i] != 0;
    return left;
}

static void set_environment(uint64_t control, uint64_t status) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status) : "memory");
}

static uint64_t control_now(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
    return control;
}

static uint64_t status_now(void) {
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    return status;
}

int main(void) {
    int differ = 0, lost = 0;
    set_up();
    const uint64_t expected = results();
    for (int mode = 0; mode < 4; mode++)
        for (int raised = 0; raised < 2; raised++) {
            const uint64_t control = MODE(mode) | FLUSHED | (raised ? DEFAULT_NAN : 0), status = raised ? RAISED : 0;
            double pair[2];
            set_environment(control, status);
            draw();
            lost += control_now() != control || status_now() != status;
            add(pair);
            lost += control_now() != control || status_now() != status;
            set_environment(NEAREST, 0);
            differ += digest_on(digest(noisy, sizeof noisy), pair, sizeof pair) != expected;
        }
    printf("registers %d halves %d differ %d lost %d\n", registers_left(), halves_left(), differ, lost);
    return 0;
}
