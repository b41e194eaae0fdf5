/* Whether this process is a copy of the one that made some words. A handler of fork takes no argument, so the number is this file's. */
#define _GNU_SOURCE
#include "dpk_bitgen.h"
#include "atomics.h"

#if defined(_WIN32)
static const uint64_t only = 1;
const uint64_t *dpk_watch_forks(void) { return &only; }
uint64_t dpk_process_now(void) { return only; }
#else
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* `now` is the number of this process, and 0 in one that has been forked and has none yet; `last` is the highest number that this process
   and those it comes from have had. */
static struct {
    uint64_t *now, last, elsewhere;
} process;

static void renumber(void) { dpk_store_release(process.now, dpk_increment(&process.last)); }

#if defined(MADV_WIPEONFORK)
/* The kernel itself clears this page in a child, so that no way to fork is missed, not even the bare system call. */
static uint64_t *cleared_by_forks(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return &process.elsewhere;
    if (madvise(page, size, MADV_WIPEONFORK) == 0) return page;
    munmap(page, size);
    return &process.elsewhere;
}
#else
static uint64_t *cleared_by_forks(void) { return &process.elsewhere; }
#endif

const uint64_t *dpk_watch_forks(void) {
    process.now = cleared_by_forks();
    renumber();
    pthread_atfork(NULL, NULL, renumber);
    return process.now;
}

/* Pre: forks are watched. Post: the number of this process. Errors: none. */
uint64_t dpk_process_now(void) {
    uint64_t now = dpk_load(process.now);
    if (now != 0) return now;
    dpk_replace(process.now, 0, dpk_increment(&process.last));
    return dpk_load(process.now);
}
#endif
