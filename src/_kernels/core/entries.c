/* The ways in. Inside, floats round to nearest, subnormals are neither flushed nor taken for 0 and exceptions are masked, as every error
   bound in docs/exactness.md needs; afterwards the caller's floating-point environment is as it was, its exceptions included. */
#include "dpk_entries.h"

#if defined(__SSE2__) || defined(_M_X64)
/* All floating point of this library is in SSE registers: MXCSR alone is what it obeys, and the x87's environment, which is slow to change,
   is left as it is. */
#include <xmmintrin.h>
typedef unsigned int environment;
static environment enter(void) {
    const environment caller = _mm_getcsr();
    _mm_setcsr(0x1f80); /* to nearest, nothing flushed, every exception masked */
    return caller;
}
static void set_back(environment caller) { _mm_setcsr(caller); }
#elif defined(__aarch64__) && defined(__GNUC__)
/* Two registers, written whole: glibc's fesetenv keeps some bits of the caller's control register, and a C library is called by way of the
   loader, which stores vector registers when it looks for a function. */
typedef struct {
    uint64_t control, status;
} environment;
static environment enter(void) {
    environment caller;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(caller.control), "=r"(caller.status));
    __asm__ volatile("msr fpcr, xzr" : : : "memory"); /* to nearest, nothing flushed, every exception masked */
    return caller;
}
static void set_back(environment caller) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(caller.control), "r"(caller.status) : "memory");
}
#else
#include <fenv.h>
typedef fenv_t environment;
static environment enter(void) {
    environment caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    return caller;
}
static void set_back(environment caller) { fesetenv(&caller); }
#endif

#if defined(__GNUC__) && defined(__x86_64__) && !defined(_WIN32)
/* Vector registers still hold values of the call. Whoever saves them next would write these to memory: the system's loader does so each
   time that it looks for a function, in the frames of its caller. Post: they are 0. No caller expects anything in them. */
__attribute__((noinline, target("avx512f"))) static void clear_512(void) {
    __asm__ volatile("vzeroall\n\t"
                     "vpxorq %zmm16, %zmm16, %zmm16\n\tvpxorq %zmm17, %zmm17, %zmm17\n\tvpxorq %zmm18, %zmm18, %zmm18\n\t"
                     "vpxorq %zmm19, %zmm19, %zmm19\n\tvpxorq %zmm20, %zmm20, %zmm20\n\tvpxorq %zmm21, %zmm21, %zmm21\n\t"
                     "vpxorq %zmm22, %zmm22, %zmm22\n\tvpxorq %zmm23, %zmm23, %zmm23\n\tvpxorq %zmm24, %zmm24, %zmm24\n\t"
                     "vpxorq %zmm25, %zmm25, %zmm25\n\tvpxorq %zmm26, %zmm26, %zmm26\n\tvpxorq %zmm27, %zmm27, %zmm27\n\t"
                     "vpxorq %zmm28, %zmm28, %zmm28\n\tvpxorq %zmm29, %zmm29, %zmm29\n\tvpxorq %zmm30, %zmm30, %zmm30\n\t"
                     "vpxorq %zmm31, %zmm31, %zmm31");
}

__attribute__((noinline, target("avx"))) static void clear_256(void) { __asm__ volatile("vzeroall"); }

static void clear_registers(void) {
    if (__builtin_cpu_supports("avx512f")) clear_512();
    else if (__builtin_cpu_supports("avx")) clear_256();
}
#elif defined(__GNUC__) && defined(__aarch64__)
/* As above: aarch64's loader stores v0 to v7. Writing a register clears what SVE adds to it, which the C library's copies may have used.
   Callers expect the lower halves of v8 to v15 as they were: who has used these loads them again, which clears the upper halves. */
static void clear_registers(void) {
    __asm__ volatile("movi v0.2d, #0\n\tmovi v1.2d, #0\n\tmovi v2.2d, #0\n\tmovi v3.2d, #0\n\t"
                     "movi v4.2d, #0\n\tmovi v5.2d, #0\n\tmovi v6.2d, #0\n\tmovi v7.2d, #0\n\t"
                     "movi v16.2d, #0\n\tmovi v17.2d, #0\n\tmovi v18.2d, #0\n\tmovi v19.2d, #0\n\t"
                     "movi v20.2d, #0\n\tmovi v21.2d, #0\n\tmovi v22.2d, #0\n\tmovi v23.2d, #0\n\t"
                     "movi v24.2d, #0\n\tmovi v25.2d, #0\n\tmovi v26.2d, #0\n\tmovi v27.2d, #0\n\t"
                     "movi v28.2d, #0\n\tmovi v29.2d, #0\n\tmovi v30.2d, #0\n\tmovi v31.2d, #0"
                     :
                     :
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",
                       "v26", "v27", "v28", "v29", "v30", "v31");
}
#else
static void clear_registers(void) {}
#endif

static void leave(environment caller) {
    clear_registers();
    set_back(caller);
}

/* Whole groups, four at a time. */
static void dpk_keystream_into(const dpk_stream *s, const dpk_kernels *k, size_t n_groups, uint64_t *out) {
    for (size_t g = 0; g < n_groups; g += 4) dpk_bulk_words(s, k, 0, g, n_groups - g < 4 ? n_groups - g : 4, out + g * DPK_GROUP);
}

/* Four groups at a time, each into the same DPK_BLOCK words. */
static void dpk_keystream_in_cache(const dpk_stream *s, const dpk_kernels *k, uint64_t n_blocks, uint64_t *words) {
    for (uint64_t b = 0; b < n_blocks; b++) dpk_bulk_words(s, k, 0, 4 * b, 4, words);
}

static void dpk_aes256_block(const dpk_kernels *k, const dpk_stream *s, const uint64_t *in, uint64_t *out) { k->aes256_block(s, in, out); }

static void dpk_exponential_raw(const dpk_kernels *k, const uint64_t *words, double *e, size_t n) { k->noise.exponential_raw(words, e, n); }

static void dpk_normal_raw(const dpk_kernels *k, const uint64_t *words, double *z, size_t n) { k->noise.normal_raw(words, z, n); }

static void dpk_hash(const dpk_kernels *k, const uint64_t *seeds, const int64_t *x, uint32_t g, int64_t *out, size_t n) {
    k->response.hash(seeds, x, g, out, n);
}

static void dpk_support(const dpk_kernels *k, const uint64_t *seeds, const uint32_t *codes, size_t n, uint32_t g, size_t categories,
                        int64_t *counts) {
    k->response.support(seeds, codes, n, g, categories, counts);
}

static void dpk_count_columns(const dpk_kernels *k, const uint8_t *rows, size_t n, size_t width, size_t stride, int64_t *counts) {
    k->response.count_columns(rows, n, width, stride, counts);
}

static void dpk_walsh_hadamard(const dpk_kernels *k, int64_t *x, int log2_n) { k->response.walsh_hadamard(x, log2_n); }

static void dpk_walk(const dpk_kernels *k, const dpk_tests *tests, const double *counts, int32_t *levels, int32_t *places, size_t n) {
    k->search.walk(tests, counts, levels, places, n);
}

static void dpk_steps(const dpk_kernels *k, const int64_t *counts, const int64_t *thresholds, int log2_values, const double *values,
                      double *out, size_t n) {
    k->search.steps(counts, thresholds, log2_values, values, out, n);
}

static int64_t dpk_nonzero(const dpk_kernels *k, const uint8_t *x, size_t n) { return k->search.nonzero(x, n); }

static int dpk_count_bytes(const dpk_kernels *k, const uint8_t *x, size_t n, int categories, int64_t *counts) {
    return k->search.bytes(x, n, categories, counts);
}

static int dpk_choose(const dpk_kernels *k, const dpk_choice *choice, const uint64_t *words, int64_t *out, size_t n) {
    return k->release.choose(choice, words, out, n);
}

/* Pre: out NULL, or n rows of `terms`. Post: as the kernel's, a block of numbers at a time. Errors: none. */
static void dpk_cosines(const dpk_kernels *k, const double *x, size_t n, size_t terms, int64_t *sums, int64_t *out) {
    for (size_t start = 0; start < n; start += DPK_COSINE_BLOCK) {
        size_t size = n - start < DPK_COSINE_BLOCK ? n - start : DPK_COSINE_BLOCK;
        k->release.cosines(x + start, size, terms, sums, out ? out + start * terms : NULL);
    }
}

static void dpk_band_rows(const dpk_kernels *k, const dpk_band *band, size_t start, size_t stop) {
    for (size_t row = start; row < stop; row++) k->release.band_row(band, row);
}

static void dpk_weigh_bits(const dpk_kernels *k, const uint8_t *rows, size_t n, size_t width, size_t stride, const uint64_t *planes,
                           int n_planes, int64_t *out) {
    k->release.weigh_bits(rows, n, width, stride, planes, n_planes, out);
}

/* The only place where a call enters and leaves. */
#define INSIDE(call)                    \
    const environment caller = enter(); \
    call;                               \
    leave(caller);

#define DPK_ENTRY(type, name, parameters, arguments) \
    type dpk_entry_##name parameters {               \
        type result;                                 \
        INSIDE(result = dpk_##name arguments)        \
        return result;                               \
    }
#define DPK_ENTRY_VOID(name, parameters, arguments) \
    void dpk_entry_##name parameters { INSIDE(dpk_##name arguments) }

#include "dpk_entries.inc"
