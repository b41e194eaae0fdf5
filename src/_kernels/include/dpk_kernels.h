/* The table of one level's kernels, and the choice of a level. */
#ifndef DPK_KERNELS_H
#define DPK_KERNELS_H

#include "dpk.h"
#include "dpk_noise.h"
#include "dpk_constant.h"
#include "dpk_release.h"
#include "dpk_response.h"
#include "dpk_scan.h"
#include "dpk_search.h"
#include "dpk_selection.h"
#include "dpk_sums.h"

/* One level's kernels. */
struct dpk_kernels {
    const char *name;
    void (*chacha20)(const dpk_stream *, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words);
    /* The first is NULL without AES. The wide one needs VAES; a level has it in both places where the CPU has that. */
    void (*aes256)(const dpk_stream *, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words);
    void (*aes256_wide)(const dpk_stream *, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words);
    void (*chacha20_element)(const dpk_stream *, uint32_t tag, uint64_t element, size_t n_words, uint64_t *words);
    void (*chacha20_more)(const dpk_stream *, uint32_t tag, const uint64_t *elements, uint64_t *words);
    void (*aes256_more)(const dpk_stream *, uint32_t tag, const uint64_t *elements, uint64_t *words);
    void (*aes256_schedule)(dpk_stream *);
    void (*aes256_block)(const dpk_stream *, const uint64_t in[2], uint64_t out[2]);
    dpk_scan_kernels scan;
    dpk_noise_kernels noise;
    dpk_response_kernels response;
    dpk_selection_kernels selection;
    dpk_sum_kernels sums;
    dpk_search_kernels search;
    dpk_release_kernels release;
    dpk_constant_kernels constant;
};

extern const dpk_kernels dpk_kernels_baseline;
#if defined(DPK_X86)
extern const dpk_kernels dpk_kernels_x86_v3;
extern const dpk_kernels dpk_kernels_x86_v4;
#endif

/* core/dispatch.c */
int dpk_usable_level(const char *name, dpk_kernels *usable); /* 0 if unknown, not built or not supported by this CPU and OS */
int dpk_usable_without_vaes(const char *name, dpk_kernels *usable);
int dpk_has_aes(const dpk_kernels *usable);
int dpk_has_vaes(const dpk_kernels *usable);
const dpk_kernels *dpk_level_now(const dpk_kernels *const *level);
void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable);
const char *dpk_compiler(void);
const char *dpk_build_flags(void);

#endif
