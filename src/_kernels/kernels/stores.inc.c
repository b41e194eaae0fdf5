/* Stores past the cache: memory that is written whole need not be read before, as an ordinary store does. */
#include "dpk_noise.h"
#include "lanes.h"

#if defined(__SSE2__) || defined(_M_X64)
#include <immintrin.h>
#if defined(__AVX512F__)
typedef __m512i stream_vec;
#define STREAM(p, from) _mm512_stream_si512((__m512i *)(p), _mm512_loadu_si512(from))
#elif defined(__AVX2__)
typedef __m256i stream_vec;
#define STREAM(p, from) _mm256_stream_si256((__m256i *)(p), _mm256_loadu_si256((const __m256i *)(from)))
#else
typedef __m128i stream_vec;
#define STREAM(p, from) _mm_stream_si128((__m128i *)(p), _mm_loadu_si128((const __m128i *)(from)))
#endif

/* Pre: `to` aligned to 8. Post: n items of 8 bytes stored, and visible to other threads after dpk_stores_done. Errors: none. */
static void past_cache(void *to, size_t n, const void *items) {
    enum { ITEMS = sizeof(stream_vec) / 8 };
    const char *from = items;
    char *at = to;
    size_t first = (ITEMS - (uintptr_t)at / 8 % ITEMS) % ITEMS, i = first < n ? first : n;
    memcpy(at, from, 8 * i);
    for (; i + ITEMS <= n; i += ITEMS) STREAM(at + 8 * i, from + 8 * i);
    memcpy(at + 8 * i, from + 8 * i, 8 * (n - i));
}
#else
static void past_cache(void *to, size_t n, const void *items) { memcpy(to, items, 8 * n); }
#endif
