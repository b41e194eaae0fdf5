/* Categories of any integer type to int64 and back, and the check that they are categories: contiguous runs, vectorised at each level. */
#include "dpk.h"
#include "lanes.h"

#define WIDEN(ctype)                                           \
    {                                                          \
        const ctype *DPK_RESTRICT x = items;                   \
        for (size_t i = 0; i < n; i++) out[i] = (int64_t)x[i]; \
        break;                                                 \
    }

/* Pre: items of an integer dtype, aligned to it. Post: out[i] is items[i]. Errors: none. */
static void widen(const void *items, int dtype, size_t n, int64_t *DPK_RESTRICT out) {
    switch (dtype) {
    case DPK_I32:
        WIDEN(int32_t)
    case DPK_I16:
        WIDEN(int16_t)
    case DPK_I8:
        WIDEN(int8_t)
    case DPK_U32:
        WIDEN(uint32_t)
    case DPK_U16:
        WIDEN(uint16_t)
    case DPK_U8:
        WIDEN(uint8_t)
    default:
        memcpy(out, items, 8 * n);
    }
}

#define NARROW(ctype)                                          \
    {                                                          \
        ctype *DPK_RESTRICT y = out;                           \
        for (size_t i = 0; i < n; i++) y[i] = (ctype)items[i]; \
        break;                                                 \
    }

/* Pre: every item fits the dtype; out aligned to it. Post: out[i] is items[i]. Errors: none. */
static void narrow(const int64_t *DPK_RESTRICT items, int dtype, size_t n, void *out) {
    switch (dtype) {
    case DPK_I32:
    case DPK_U32:
        NARROW(uint32_t)
    case DPK_I16:
    case DPK_U16:
        NARROW(uint16_t)
    case DPK_I8:
    case DPK_U8:
        NARROW(uint8_t)
    default:
        memcpy(out, items, 8 * n);
    }
}

/* Post: what is outside [0, k) is `other`. Errors: none. */
static void replace_outside(int64_t *codes, size_t n, int64_t k, int64_t other) {
    for (size_t i = 0; i < n; i++) codes[i] = (uint64_t)codes[i] < (uint64_t)k ? codes[i] : other;
}

/* Whether any item, read without sign, is above `most`: negative ones are. */
#define ANY_ABOVE(ctype)                                               \
    {                                                                  \
        const ctype *DPK_RESTRICT x = items, limit = (ctype)most;      \
        ctype above = 0;                                               \
        for (size_t i = 0; i < n; i++) above |= (ctype)(x[i] > limit); \
        return above != 0;                                             \
    }

/* Pre: items of an integer dtype, aligned to it; k >= 1. Post: whether any is outside [0, k). Errors: none. */
static int any_outside(const void *items, int dtype, size_t n, int64_t k) {
    uint64_t most = (uint64_t)(k - 1);
    switch (dtype) {
    case DPK_I32:
        most = most < INT32_MAX ? most : INT32_MAX;
        ANY_ABOVE(uint32_t)
    case DPK_I16:
        most = most < INT16_MAX ? most : INT16_MAX;
        ANY_ABOVE(uint16_t)
    case DPK_I8:
        most = most < INT8_MAX ? most : INT8_MAX;
        ANY_ABOVE(uint8_t)
    case DPK_U32:
        most = most < UINT32_MAX ? most : UINT32_MAX;
        ANY_ABOVE(uint32_t)
    case DPK_U16:
        most = most < UINT16_MAX ? most : UINT16_MAX;
        ANY_ABOVE(uint16_t)
    case DPK_U8:
        most = most < UINT8_MAX ? most : UINT8_MAX;
        ANY_ABOVE(uint8_t)
    default: {
        const uint64_t *DPK_RESTRICT x = items;
        uint64_t above = 0;
        for (size_t i = 0; i < n; i++) above |= (most - x[i]) | x[i]; /* most < 2^63: the upper bit of one of them */
        return above >> 63 != 0;
    }
    }
}
