/* A key from the operating system, for a process that finds out in the middle of a C call that it is a forked one. */
#define _GNU_SOURCE
#include "dpk_bitgen.h"

#if defined(_WIN32)
/* Processes are not forked here, so nobody asks. */
int dpk_entropy(uint8_t key[32]) {
    (void)key;
    return 0;
}
#elif defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

/* For kernels and sandboxes that refuse the system call, as Python's os.urandom does. */
static int from_device(uint8_t *bytes, size_t n) {
    int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    for (size_t got = 0; got < n;) {
        ssize_t more = read(file, bytes + got, n - got);
        if (more <= 0 && !(more < 0 && errno == EINTR)) {
            close(file);
            return 0;
        }
        if (more > 0) got += (size_t)more;
    }
    close(file);
    return 1;
}

/* Pre: none. Post: 32 bytes of the operating system's randomness; returns whether it gave them. Errors: 0. Source: getrandom(2), which
   waits until the pool is initialised and then always gives so few. */
int dpk_entropy(uint8_t key[32]) {
    for (;;) {
        ssize_t got = getrandom(key, 32, 0);
        if (got == 32) return 1;
        if (got < 0 && errno == EINTR) continue;
        return got < 0 && (errno == ENOSYS || errno == EPERM) && from_device(key, 32);
    }
}
#else
#include <sys/random.h>
#include <unistd.h>

int dpk_entropy(uint8_t key[32]) { return getentropy(key, 32) == 0; }
#endif
