/* Which thread this is. */
#define _GNU_SOURCE
#include "dpk_bitgen.h"

#if defined(_WIN32)
#include <windows.h>
uint64_t dpk_thread_now(void) { return GetCurrentThreadId(); }
void dpk_thread_rest(void) { SwitchToThread(); }
#else
#include <pthread.h>
#include <sched.h>
uint64_t dpk_thread_now(void) { return (uint64_t)(uintptr_t)pthread_self(); }
void dpk_thread_rest(void) { sched_yield(); }
#endif
