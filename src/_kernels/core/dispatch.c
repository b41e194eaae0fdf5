/* Which levels this CPU and this operating system can run. */
#include <string.h>

#include "dpk_kernels.h"

typedef struct {
    int v3, v4, aes, vaes;
} features;

#if defined(DPK_X86)
#if defined(_MSC_VER)
#include <intrin.h>
static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4]) { __cpuidex((int *)r, (int)leaf, (int)sub); }
static uint64_t saved_registers(void) { return _xgetbv(0); }
#else
#include <cpuid.h>
static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4]) {
    r[0] = r[1] = r[2] = r[3] = 0;
    __get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]);
}
static uint64_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}
#endif

static int has_all(uint32_t r, uint32_t mask) { return (r & mask) == mask; }

/* A feature counts only if the operating system saves its registers (xgetbv), not just if the CPU has it. */
static features look(void) {
    enum {
        FMA = 1 << 12,
        SSE41 = 1 << 19,
        SSE42 = 1 << 20,
        MOVBE = 1 << 22,
        POPCNT = 1 << 23,
        AES = 1 << 25,
        OSXSAVE = 1 << 27,
        AVX = 1 << 28,
        F16C = 1 << 29,
        BMI1 = 1 << 3,
        AVX2 = 1 << 5,
        BMI2 = 1 << 8,
        VAES = 1 << 9,
        LZCNT = 1 << 5
    };
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */
    uint32_t one[4], seven[4], extended[4];
    features f = {0, 0, 0, 0};
    cpuid(1, 0, one);
    if (!has_all(one[2], OSXSAVE)) return f;
    cpuid(7, 0, seven);
    cpuid(0x80000001u, 0, extended);
    uint64_t saved = saved_registers();
    f.v3 = (saved & 0x6) == 0x6 && has_all(one[2], FMA | SSE41 | SSE42 | MOVBE | POPCNT | AVX | F16C) &&
           has_all(seven[1], BMI1 | AVX2 | BMI2) && has_all(extended[2], LZCNT);
    f.v4 = f.v3 && (saved & 0xe6) == 0xe6 && has_all(seven[1], avx512);
    f.aes = f.v3 && has_all(one[2], AES);
    f.vaes = f.aes && has_all(seven[2], VAES);
    return f;
}
#else
static features look(void) { return (features){0, 0, 0, 0}; }
#endif

/* A level of that name, or 0, with the entries for AES that these features allow. */
static int usable_with(features f, const char *name, dpk_kernels *usable) {
    const struct {
        const dpk_kernels *kernels;
        int runs, has_aes;
    } levels[] = {{&dpk_kernels_baseline, 1, 1},
#if defined(DPK_X86)
                  {&dpk_kernels_x86_v3, f.v3, f.aes},
                  {&dpk_kernels_x86_v4, f.v4, f.vaes}
#endif
    };
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(levels[i].kernels->name, name) != 0 || !levels[i].runs) continue;
        *usable = *levels[i].kernels;
        if (!levels[i].has_aes) usable->aes256 = NULL;
        else if (f.vaes && usable->aes256_wide) {
            usable->aes256 = usable->aes256_wide;
            usable->selection.beside = usable->selection.beside_wide;
        }
        return 1;
    }
    return 0;
}

/* Pre: none. Post: if this machine can run the level of that name, its table, with the entries for AES only if the CPU has it too; returns
   whether it can. Errors: none. cpuid traps into the hypervisor on virtual machines, at tens of microseconds: ask once, at import. */
int dpk_usable_level(const char *name, dpk_kernels *usable) { return usable_with(look(), name, usable); }

/* The same as if the CPU had no VAES. */
int dpk_usable_without_vaes(const char *name, dpk_kernels *usable) {
    features f = look();
    f.vaes = 0;
    return usable_with(f, name, usable);
}

int dpk_has_aes(const dpk_kernels *usable) { return usable->aes256 != NULL; }

int dpk_has_vaes(const dpk_kernels *usable) { return usable->aes256 != NULL && usable->aes256 == usable->aes256_wide; }

/* The level in use is one pointer that threads read while another one replaces it. As in atomics.h. */
#if defined(_MSC_VER) && defined(_M_ARM64)
#include <intrin.h>
const dpk_kernels *dpk_level_now(const dpk_kernels *const *level) {
    return (const dpk_kernels *)__ldar64((volatile unsigned __int64 *)level);
}
void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable) {
    __stlr64((volatile unsigned __int64 *)level, (unsigned __int64)usable);
}
#elif defined(_MSC_VER)
const dpk_kernels *dpk_level_now(const dpk_kernels *const *level) { return *(const dpk_kernels *const volatile *)level; }
void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable) { *(const dpk_kernels *volatile *)level = usable; }
#else
const dpk_kernels *dpk_level_now(const dpk_kernels *const *level) { return __atomic_load_n(level, __ATOMIC_ACQUIRE); }
void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable) { __atomic_store_n(level, usable, __ATOMIC_RELEASE); }
#endif

#if !defined(DPK_BUILD_FLAGS)
#define DPK_BUILD_FLAGS "not recorded"
#endif

const char *dpk_build_flags(void) { return DPK_BUILD_FLAGS; }

const char *dpk_compiler(void) {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "msvc";
#endif
}
