/* What the C programs of the tests share. */
#ifndef DRIVER_H
#define DRIVER_H
#include <stdio.h>
#include <string.h>

#include "dpk_kernels.h"

static const uint64_t EMPTY_DIGEST = 0xcbf29ce484222325u;

/* FNV-1a of what `h` is the digest of and of these bytes. */
static inline uint64_t digest_on(uint64_t h, const void *data, size_t size) {
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static inline uint64_t digest(const void *data, size_t size) { return digest_on(EMPTY_DIGEST, data, size); }

static inline void print(const char *name, int status, uint64_t h) {
    printf("%s status %d %016llx\n", name, status, (unsigned long long)h);
}

/* A vector of n numbers. */
static inline dpk_view vector(void *data, int32_t dtype, int64_t n) {
    dpk_view v;
    memset(&v, 0, sizeof v);
    v.data = data;
    v.dtype = dtype;
    v.ndim = 1;
    v.shape[0] = n;
    v.strides[0] = dtype == DPK_U8 ? 1 : 8;
    return v;
}

#endif
