/* Strided arrays of any shape and dtype, read and written in C order, a block at a time. */
#include <string.h>

#include "dpk.h"

#if defined(__SSE2__) || defined(_M_X64)
#define DPK_HAS_STREAMS 1
#include <emmintrin.h>
#else
#define DPK_HAS_STREAMS 0
#endif

static const int8_t item_sizes[] = {8, 4, 2, 8, 4, 2, 1, 4, 2, 1, 16, 8};

int dpk_view_is_contiguous(const dpk_view *v) {
    return v->ndim == 0 || (v->ndim == 1 && (v->shape[0] <= 1 || v->strides[0] == item_sizes[v->dtype]));
}

void *dpk_view_run(const dpk_view *v, int64_t start) {
    char *at = v->data + start * item_sizes[v->dtype];
    return dpk_view_is_contiguous(v) && (uintptr_t)at % (uintptr_t)item_sizes[v->dtype] == 0 ? at : NULL;
}

/* Merges dimensions that lie one after the other in memory, so that most arrays become one-dimensional. */
void dpk_view_coalesce(dpk_view *v) {
    int32_t kept = 0;
    for (int32_t d = 0; d < v->ndim; d++) {
        if (v->shape[d] == 1) continue;
        if (kept > 0 && v->strides[kept - 1] == v->strides[d] * v->shape[d]) {
            v->shape[kept - 1] *= v->shape[d];
            v->strides[kept - 1] = v->strides[d];
        } else {
            v->shape[kept] = v->shape[d];
            v->strides[kept] = v->strides[d];
            kept++;
        }
    }
    v->ndim = kept;
}

/* A position in an array, moved along runs of the innermost dimension. */
typedef struct {
    char *at;
    int64_t left; /* items left in this run */
    int64_t index[DPK_MAX_DIMS];
} cursor;

static void cursor_seek(cursor *c, const dpk_view *v, int64_t position) {
    c->at = v->data;
    c->left = v->ndim ? v->shape[v->ndim - 1] : 1;
    for (int32_t d = v->ndim - 1; d >= 0; d--) {
        c->index[d] = position % v->shape[d];
        position /= v->shape[d];
        c->at += c->index[d] * v->strides[d];
        if (d == v->ndim - 1) c->left = v->shape[d] - c->index[d];
    }
}

static void cursor_next_run(cursor *c, const dpk_view *v) {
    int32_t d = v->ndim - 1;
    if (d < 0) return;
    c->at -= c->index[d] * v->strides[d];
    c->index[d] = 0;
    for (d--; d >= 0; d--) {
        c->at += v->strides[d];
        if (++c->index[d] < v->shape[d]) break;
        c->at -= v->shape[d] * v->strides[d];
        c->index[d] = 0;
    }
    c->left = v->shape[v->ndim - 1];
}

/* IEEE binary16 to double, subnormals included; infinities and NaN keep their kind. */
static double from_half(uint16_t h) {
    int exponent = h >> 10 & 31;
    double magnitude = h & 1023;
    uint64_t special = 0x7ff0000000000000u | (uint64_t)(h & 1023) << 42;
    if (exponent == 31) memcpy(&magnitude, &special, 8);
    else if (exponent == 0) magnitude *= 0x1p-24;
    else {
        uint64_t scale = (uint64_t)(exponent + 1023 - 25) << 52;
        double factor;
        memcpy(&factor, &scale, 8);
        magnitude = (magnitude + 1024.0) * factor;
    }
    return h & 0x8000 ? -magnitude : magnitude;
}

/* One strided run of a C type into doubles or int64: the loop the compiler specialises. */
#define RUN(ctype, target, convert)                \
    for (size_t i = 0; i < n; i++, at += stride) { \
        ctype item;                                \
        memcpy(&item, at, sizeof item);            \
        target = convert(item);                    \
    }                                              \
    break

static void run_real(int32_t dtype, const char *at, int64_t stride, size_t n, double *out) {
    switch (dtype) {
    case DPK_F64:
        if (stride == 8) {
            memcpy(out, at, 8 * n);
            break;
        }
        RUN(double, out[i], );
    case DPK_F32:
        RUN(float, out[i], (double));
    case DPK_F16:
        RUN(uint16_t, out[i], from_half);
    case DPK_I32:
        RUN(int32_t, out[i], (double));
    case DPK_I16:
        RUN(int16_t, out[i], (double));
    case DPK_I8:
        RUN(int8_t, out[i], (double));
    case DPK_U32:
        RUN(uint32_t, out[i], (double));
    case DPK_U16:
        RUN(uint16_t, out[i], (double));
    case DPK_U8:
        RUN(uint8_t, out[i], (double));
    case DPK_U64:
        RUN(uint64_t, out[i], (double));
    }
}

/* An int64 is the sum of two doubles: a multiple of 2048, and the rest. Both are exact. */
static void run_split(const char *at, int64_t stride, size_t n, double *high, double *low) {
    for (size_t i = 0; i < n; i++, at += stride) {
        int64_t item;
        memcpy(&item, at, 8);
        high[i] = (double)(item - (item & 2047));
        low[i] = (double)(item & 2047);
    }
}

static void run_pairs(const char *at, int64_t stride, size_t n, double *high, double *low) {
    for (size_t i = 0; i < n; i++, at += stride) {
        memcpy(high + i, at, 8);
        memcpy(low + i, at + 8, 8);
    }
}

static int64_t saturated(uint64_t item) { return item > INT64_MAX ? INT64_MAX : (int64_t)item; }

static void run_int(int32_t dtype, const char *at, int64_t stride, size_t n, int64_t *out) {
    switch (dtype) {
    case DPK_I64:
        if (stride == 8) {
            memcpy(out, at, 8 * n);
            break;
        }
        RUN(int64_t, out[i], );
    case DPK_I32:
        RUN(int32_t, out[i], );
    case DPK_I16:
        RUN(int16_t, out[i], );
    case DPK_I8:
        RUN(int8_t, out[i], );
    case DPK_U32:
        RUN(uint32_t, out[i], );
    case DPK_U16:
        RUN(uint16_t, out[i], );
    case DPK_U8:
        RUN(uint8_t, out[i], );
    case DPK_U64:
        RUN(uint64_t, out[i], saturated);
    }
}

/* Calls `body` for each run of the block [start, start + n); `count` items from `c.at`, `done` items before it. */
#define FOR_RUNS(v, start, n, body)                                               \
    cursor c;                                                                     \
    int64_t stride = (v)->ndim ? (v)->strides[(v)->ndim - 1] : 0;                 \
    cursor_seek(&c, v, start);                                                    \
    for (size_t done = 0; done < (n);) {                                          \
        size_t count = (size_t)c.left < (n) - done ? (size_t)c.left : (n) - done; \
        body;                                                                     \
        done += count;                                                            \
        if (done < (n)) cursor_next_run(&c, v);                                   \
    }

/* Items after which an array that repeats one row begins anew, or as many as are wanted. */
static size_t period(const dpk_view *v, size_t n) {
    return v->ndim == 2 && v->strides[0] == 0 && (uint64_t)v->shape[1] < n ? (size_t)v->shape[1] : n;
}

/* Pre: the first `done` items of 8 bytes are whole periods. Post: all n. Errors: none. */
static void repeat(void *items, size_t done, size_t n) {
    for (char *at = items; done < n; done *= 2) memcpy(at + 8 * done, at, 8 * (done < n - done ? done : n - done));
}

static void load_pairs(const dpk_view *v, int64_t start, size_t n, double *high, double *low) {
    FOR_RUNS(v, start, n, if (v->dtype == DPK_I64) run_split(c.at, stride, count, high + done, low + done);
             else run_pairs(c.at, stride, count, high + done, low + done))
}

/* Pre: [start, start + n) inside the array. Post: the values as doubles; int64 and pairs as exact pairs. Errors: none. */
void dpk_load_real(const dpk_view *v, int64_t start, size_t n, double *high, double *low) {
    if (v->dtype == DPK_I64 || v->dtype == DPK_F64_PAIR) {
        load_pairs(v, start, n, high, low);
        return;
    }
    const size_t first = period(v, n);
    FOR_RUNS(v, start, first, run_real(v->dtype, c.at, stride, count, high + done))
    repeat(high, first, n);
}

/* Post: the values as int64, those of uint64 cut at its edge. Errors: none. */
void dpk_load_int(const dpk_view *v, int64_t start, size_t n, int64_t *out) {
    const size_t first = period(v, n);
    FOR_RUNS(v, start, first, run_int(v->dtype, c.at, stride, count, out + done))
    repeat(out, first, n);
}

/* Post: each item as the exact sum of two doubles. Errors: none. */
void dpk_split_int(const int64_t *items, size_t n, double *high, double *low) { run_split((const char *)items, 8, n, high, low); }

static void run_store(char *at, int64_t stride, size_t n, const char *items) {
    if (stride == 8) {
        memcpy(at, items, 8 * n);
        return;
    }
    for (size_t i = 0; i < n; i++) memcpy(at + (int64_t)i * stride, items + 8 * i, 8);
}

/* Doubles into one strided run of floats, each rounded to the nearest. */
static void run_store_single(char *at, int64_t stride, size_t n, const double *items) {
    if (stride == sizeof(float) && (uintptr_t)at % sizeof(float) == 0) {
        float *to = (float *)(void *)at;
        for (size_t i = 0; i < n; i++) to[i] = (float)items[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float item = (float)items[i];
        memcpy(at + (int64_t)i * stride, &item, sizeof item);
    }
}

static void run_store_any(const dpk_view *v, char *at, int64_t stride, size_t n, const void *items) {
    if (v->dtype == DPK_F32) run_store_single(at, stride, n, items);
    else run_store(at, stride, n, items);
}

/* Pre: items of 8 bytes, doubles if the array has floats. Post: stored. Errors: none. */
void dpk_store(const dpk_view *v, int64_t start, size_t n, const void *items) {
    FOR_RUNS(v, start, n, run_store_any(v, c.at, stride, count, (const char *)items + 8 * done))
}

/* Post: stores past the cache are visible to other threads. Errors: none. */
void dpk_stores_done(void) {
#if DPK_HAS_STREAMS
    _mm_sfence();
#endif
}

/* int64 items into one strided run of a narrower type. */
#define RUN_INTO(ctype)                            \
    for (size_t i = 0; i < n; i++, at += stride) { \
        ctype item = (ctype)items[i];              \
        memcpy(at, &item, sizeof item);            \
    }                                              \
    break

static void run_store_int(int32_t dtype, char *at, int64_t stride, size_t n, const int64_t *items) {
    switch (dtype) {
    case DPK_I32:
    case DPK_U32:
        RUN_INTO(int32_t);
    case DPK_I16:
    case DPK_U16:
        RUN_INTO(int16_t);
    case DPK_I8:
    case DPK_U8:
        RUN_INTO(int8_t);
    default:
        run_store(at, stride, n, (const char *)items);
    }
}

/* Pre: every item fits the array's integer type. Post: stored. Errors: none. */
void dpk_store_int(const dpk_view *v, int64_t start, size_t n, const int64_t *items) {
    FOR_RUNS(v, start, n, run_store_int(v->dtype, c.at, stride, count, items + done))
}
