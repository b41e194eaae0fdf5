/* Prints a digest of every local randomiser's keyed reports and of their counts, for each level this machine has: the same lines on every
   platform. */
#include "dpk_sequential.h"
#include "driver.h"

enum { N = 50003, K = 100, WIDTH = 13, LIMBS = 8 };
static double x[N];
static int64_t codes[N], counts[8 * WIDTH], transformed[1 << 13];
static uint8_t bytes[N], reports[N * 13];
static uint64_t seeds[N];
static uint32_t hashed[N];
static uint8_t room[1 << 12];
static dpk_pending pending[512];

/* Limbs of 1/9, of 1/3 and of 1/2. */
static const uint32_t ninth[LIMBS] = {0x1c71c71c, 0x71c71c71, 0xc71c71c7, 0x1c71c71c, 0x71c71c71, 0xc71c71c7, 0x1c71c71c, 0x71c71c71};
static const uint32_t third[LIMBS] = {0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555, 0x55555555};
static const uint32_t half[LIMBS] = {0x80000000};
static const dpk_real reals[3] = {{LIMBS, 0, third}, {LIMBS, 0, ninth}, {LIMBS, 1, half}};

static dpk_response response(const dpk_kernels *k, int kind, const dpk_real *real) {
    static const uint8_t key[32] = "a key of thirty-two bytes, known";
    dpk_response call;
    memset(&call, 0, sizeof call);
    call.kernels = k;
    dpk_stream_init(&call.stream, k, DPK_CHACHA20, key, 9);
    call.first_element = 1001;
    call.kind = kind;
    call.k = K;
    call.unknown = -1;
    call.w = 30;
    call.real = real;
    call.own = &reals[2];
    call.values = vector(codes, DPK_I64, N);
    call.out = vector(reports, DPK_U8, N);
    return call;
}

static void run_records(const char *name, const dpk_response *call, int64_t records, size_t size) {
    int64_t n = 0, reached = 0;
    memset(reports, 0, sizeof reports);
    const int status = dpk_response_run(call, 0, records, room, pending, 512, &n, &reached);
    print(name, status, digest(reports, size));
}

static void run(const char *name, const dpk_response *call, size_t size) { run_records(name, call, N, size); }

static void run_binary(const dpk_kernels *k) {
    dpk_response call = response(k, DPK_FLIP, &reals[0]);
    call.values = vector(bytes, DPK_U8, N);
    run("flip", &call, N);
    call.kind = DPK_FLIP_PACKED;
    run("flip_packed", &call, (N + 7) / 8);
    call = response(k, DPK_TABLE, reals);
    call.k = 3;
    call.unknown = 1;
    run("table", &call, N);
    call = response(k, DPK_BOUNDED, NULL);
    call.values = vector(x, DPK_F64, N);
    /* q = 1/4 in [-1000, 3000] */
    call.bounded = (dpk_bounded){-1000.0, 3000.0, 0.0, 4000.0, 1.0 / 4000.0, 16384.0, 32768.0, 0x1p-31, 0.25, 0.0};
    for (call.tier = DPK_TIER_FAST; call.tier <= DPK_TIER_ACCURATE; call.tier++) run("bounded", &call, N);
}

/* Nine inputs of five outcomes, 32 cells each; several ends meet in a cell. */
static dpk_guide guide(void) {
    static uint64_t ends[9][4];
    static uint32_t cells[9][32];
    for (uint64_t i = 0; i < 9; i++) {
        const uint64_t near = (i + 1) * 0x123456789abcdefu;
        const uint64_t row[4] = {near, near + (1u << 20), near + ((uint64_t)i << 58), UINT64_MAX - 77 * i};
        memcpy(ends[i], row, sizeof row);
        for (uint64_t j = 0; j < 32; j++) {
            uint32_t first = 0, inside = 0, bits = 0x7fff;
            for (int z = 0; z < 4; z++) {
                first += row[z] >> 59 < j;
                if (row[z] >> 59 != j) continue;
                inside++;
                bits = (uint32_t)(row[z] << 5 >> 49);
            }
            cells[i][j] = (inside > 1 ? 1u << 31 : bits << 16) | first;
        }
    }
    return (dpk_guide){cells[0], ends[0], 5, 5};
}

static void run_categories(const dpk_kernels *k) {
    dpk_response call = response(k, DPK_KARY, &reals[1]);
    call.k = 7; /* e^epsilon = 3 */
    call.unknown = 2;
    call.scale = 9 * 0x1p-32;
    call.out = vector(reports, DPK_I64, N);
    run("kary", &call, 8 * N);
    call = response(k, DPK_CHANNEL, NULL);
    call.k = 9;
    call.unknown = 4;
    call.guide = guide();
    call.out = vector(reports, DPK_U16, N);
    for (call.tier = DPK_TIER_FAST; call.tier <= DPK_TIER_ACCURATE; call.tier++) run("channel", &call, 2 * N);
    call = response(k, DPK_UNARY, &reals[0]);
    run("unary", &call, N * WIDTH);
    memset(counts, 0, sizeof counts);
    k->response.count_columns(reports, N, WIDTH, WIDTH, counts);
    print("columns", 0, digest(counts, sizeof counts));
    call = response(k, DPK_SUBSET, &reals[0]);
    run("subset", &call, N * WIDTH);
    call = response(k, DPK_HASHING, &reals[1]);
    call.g = 4; /* e^epsilon = 6 */
    call.scale = 9 * 0x1p-32;
    run("hashing", &call, N * 12);
    for (int i = 0; i < N; i++) {
        memcpy(&seeds[i], reports + 12 * i, 8);
        memcpy(&hashed[i], reports + 12 * i + 8, 4);
    }
    memset(counts, 0, sizeof counts);
    k->response.support(seeds, hashed, N, 4, K, counts);
    print("supports", 0, digest(counts, sizeof counts));
    call = response(k, DPK_HADAMARD, &reals[0]);
    call.g = 128;
    run("hadamard", &call, N * 5);
    for (int i = 0; i < 1 << 13; i++) transformed[i] = (int64_t)i * 7919 % 1009 - 500;
    k->response.walsh_hadamard(transformed, 13);
    print("walsh_hadamard", 0, digest(transformed, sizeof transformed));
}

/* Vectors of five numbers with a majority of three: 16 of 32 reports on the likely side. */
static void run_vectors(const dpk_kernels *k) {
    enum { D = 5, LANES = D + DPK_BLOCK };
    static const uint32_t sixteenth[LIMBS] = {0x10000000}, three_eighths[LIMBS] = {0x60000000}, five_eighths[LIMBS] = {0xa0000000},
                          fifteen[LIMBS] = {0xf0000000};
    static const dpk_real distances[4] = {{LIMBS, 1, sixteenth}, {LIMBS, 1, three_eighths}, {LIMBS, 1, five_eighths}, {LIMBS, 1, fifteen}};
    static double lower[LANES], upper[LANES], missing[LANES], width[LANES], inverse[LANES];
    for (int j = 0; j < D; j++) lower[j] = -1000.0 - j, upper[j] = 3000.0 + j, missing[j] = 0.0;
    dpk_box_set(lower, upper, missing, width, inverse, D, LANES);
    const dpk_box box = {lower, upper, missing, width, inverse};
    dpk_response call = response(k, DPK_SAMPLE, &reals[1]);
    call.k = D;
    call.w = 2;
    call.own = distances;
    call.box = &box;
    call.values = vector(x, DPK_F64, N / D * D);
    call.bounded = (dpk_bounded){0.0, 1.0, 0.0, 1.0, 1.0, 16384.0, 32768.0, 0x1p-31, 0.25, 0.0};
    run_records("sample", &call, N / D, N / D * 5);
    call.kind = DPK_HYPERCUBE;
    call.bounded = (dpk_bounded){0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 65536.0, 0x1p-31, 0.0, 0.0};
    for (call.tier = DPK_TIER_FAST; call.tier <= DPK_TIER_ACCURATE; call.tier++) run_records("hypercube", &call, N / D, N / D);
}

static void run_quantile(void) {
    dpk_quantile law = {0.3, -1000.0, 3000.0, 0.0, 500.0, 1.6, -0.6};
    double average;
    dpk_sequential_quantile(&law, x, bytes, reports, N, &average);
    print("quantile", 0, digest(&average, sizeof average));
}

int main(void) {
    static const char *const levels[] = {"baseline", "x86_v3", "x86_v4"};
    for (int i = 0; i < N; i++) {
        x[i] = (i - N / 2) * 0x1.123456789abcdp-3;
        codes[i] = (int64_t)i * 31 % K;
        bytes[i] = (uint8_t)(i % 3 == 0);
    }
    for (int i = 0; i < 3; i++) {
        dpk_kernels usable;
        const dpk_kernels *k = dpk_usable_level(levels[i], &usable) ? &usable : NULL;
        if (k == NULL) continue;
        printf("level %s\n", levels[i]);
        run_binary(k);
        run_categories(k);
        run_vectors(k);
        run_quantile();
    }
    return 0;
}
