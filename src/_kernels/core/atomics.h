/* Numbers that threads share. */
#ifndef DPK_ATOMICS_H
#define DPK_ATOMICS_H

#include <stdint.h>

#if defined(_MSC_VER)
#include <intrin.h>
/* Aligned loads and stores through volatile are atomic, and acquire and release, on the processors that MSVC builds this for. */
static inline uint64_t dpk_load(const uint64_t *p) { return *(const volatile uint64_t *)p; }
static inline void dpk_store_release(uint64_t *p, uint64_t value) { *(volatile uint64_t *)p = value; }
static inline int dpk_replace(uint64_t *p, uint64_t old, uint64_t value) {
    return (uint64_t)_InterlockedCompareExchange64((volatile long long *)p, (long long)value, (long long)old) == old;
}
static inline uint64_t dpk_increment(uint64_t *p) { return (uint64_t)_InterlockedIncrement64((volatile long long *)p); }
#else
static inline uint64_t dpk_load(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void dpk_store_release(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
static inline int dpk_replace(uint64_t *p, uint64_t old, uint64_t value) {
    return __atomic_compare_exchange_n(p, &old, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static inline uint64_t dpk_increment(uint64_t *p) { return __atomic_add_fetch(p, 1, __ATOMIC_ACQ_REL); }
#endif

#endif
