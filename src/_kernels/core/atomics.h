/* Numbers that threads share. Each operation has the order that its users need on processors that carry out loads and stores in another one
   than the program's, as aarch64 does; x86-64 hardly does, and so hides an order that is missing. ThreadSanitizer judges by the orders that
   stand here, whatever the machine: tests/kernels/test_thread_sanitizer.py.

   - dpk_load is acquire: who sees what dpk_store_release or dpk_replace has written also sees everything before it.
   - dpk_store_release is release: it ends a part of the program that one thread at a time is in.
   - dpk_replace is both: it begins such a part, or hands over what is another thread's.
   - dpk_increment is both, though only numbers that differ are asked of it: it is rare. */
#ifndef DPK_ATOMICS_H
#define DPK_ATOMICS_H

#include <stdint.h>

#if defined(_MSC_VER)
#include <intrin.h>
#if defined(_M_ARM64)
/* On ARM, loads and stores through volatile have no order for MSVC. */
static inline uint64_t dpk_load(const uint64_t *p) { return __ldar64((volatile unsigned __int64 *)p); }
static inline void dpk_store_release(uint64_t *p, uint64_t value) { __stlr64((volatile unsigned __int64 *)p, value); }
#else
/* On x86-64 they are atomic, and acquire and release, if they are aligned. */
static inline uint64_t dpk_load(const uint64_t *p) { return *(const volatile uint64_t *)p; }
static inline void dpk_store_release(uint64_t *p, uint64_t value) { *(volatile uint64_t *)p = value; }
#endif
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
