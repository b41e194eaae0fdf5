/* AES-256 in counter mode (FIPS 197, SP 800-38A) for the secure source, on AES-NI, and on VAES where the CPU has it.
   The 128-bit counter block is (64-bit block index, tag, nonce); group g is blocks 64g..64g+63. */
#include "dpk_selection.h"
#include "largest.h"

#if defined(__AES__)
#include <immintrin.h>

static __m128i schedule_step(__m128i key, __m128i assist) {
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, assist);
}

/* One pair of round keys: the even one from the rotated last word, the odd one from the substituted last word. */
#define SCHEDULE_PAIR(i, constant)                                                                 \
    even = schedule_step(even, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(odd, constant), 0xff)); \
    _mm_storeu_si128((__m128i *)stream->round_keys[i], even);                                      \
    if ((i) < DPK_AES_ROUNDS) {                                                                    \
        odd = schedule_step(odd, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(even, 0), 0xaa));     \
        _mm_storeu_si128((__m128i *)stream->round_keys[(i) + 1], odd);                             \
    }

static void aes256_schedule(dpk_stream *stream) {
    __m128i even = _mm_loadu_si128((const __m128i *)stream->key);
    __m128i odd = _mm_loadu_si128((const __m128i *)(stream->key + 4));
    _mm_storeu_si128((__m128i *)stream->round_keys[0], even);
    _mm_storeu_si128((__m128i *)stream->round_keys[1], odd);
    SCHEDULE_PAIR(2, 0x01)
    SCHEDULE_PAIR(4, 0x02)
    SCHEDULE_PAIR(6, 0x04)
    SCHEDULE_PAIR(8, 0x08)
    SCHEDULE_PAIR(10, 0x10)
    SCHEDULE_PAIR(12, 0x20)
    SCHEDULE_PAIR(14, 0x40)
}

static void aes256_block(const dpk_stream *stream, const uint64_t in[2], uint64_t out[2]) {
    __m128i state = _mm_loadu_si128((const __m128i *)in);
    state = _mm_xor_si128(state, _mm_loadu_si128((const __m128i *)stream->round_keys[0]));
    for (int r = 1; r < DPK_AES_ROUNDS; r++) state = _mm_aesenc_si128(state, _mm_loadu_si128((const __m128i *)stream->round_keys[r]));
    state = _mm_aesenclast_si128(state, _mm_loadu_si128((const __m128i *)stream->round_keys[DPK_AES_ROUNDS]));
    _mm_storeu_si128((__m128i *)out, state);
}

/* The upper half of a counter block. */
static uint64_t upper_half(const dpk_stream *stream, uint32_t tag) { return tag | (uint64_t)stream->nonce << 32; }

enum { AES_AT_ONCE = 8 }; /* eight chains hide the latency of a round */

/* Vectors of one, two and four blocks: their counters from `block` on, the same with a number added to each, and a round key in each. */
#define COUNTERS_1(block, upper) _mm_set_epi64x((long long)(upper), (long long)(block))
#define PLUS_1(counters, n) _mm_add_epi64(counters, _mm_set_epi64x(0, n))
#if defined(__SSE4_1__)
#define LEAST_1 _mm_min_epu16
#else
#define LEAST_1(a, b) (b) /* not used */
#endif
#define KEY_1(r) _mm_loadu_si128((const __m128i *)stream->round_keys[r])
#define COUNTERS_2(block, upper) _mm256_set_epi64x((long long)(upper), (long long)(block) + 1, (long long)(upper), (long long)(block))
#define PLUS_2(counters, n) _mm256_add_epi64(counters, _mm256_set_epi64x(0, n, 0, n))
#define KEY_2(r) _mm256_broadcastsi128_si256(KEY_1(r))
#define COUNTERS_4(block, upper)                                                                                                   \
    _mm512_add_epi64(_mm512_set_epi64((long long)(upper), 3, (long long)(upper), 2, (long long)(upper), 1, (long long)(upper), 0), \
                     _mm512_maskz_set1_epi64(0x55, (long long)(block)))
#define PLUS_4(counters, n) _mm512_add_epi64(counters, _mm512_set_epi64(0, n, 0, n, 0, n, 0, n))
#define KEY_4(r) _mm512_broadcast_i32x4(KEY_1(r))

/* Pre: the schedule is made; words has room for n_groups * DPK_GROUP; x is NULL, or DPK_PIECES numbers for one group. Post: the keystream
   of those groups; `found` has been at all numbers after its start. The CPU compares them while it waits for the rounds. Errors: none.
   Source: SP 800-38A, section 6.5. */
#define DEFINE_AES(name, attributes, vec, COUNTERS, PLUS, KEY, XOR, ROUND, LAST, LEAST, STORE)                                       \
    attributes DPK_INLINE void name##_body(const dpk_stream *stream, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words, \
                                           const double *x, search *found, vec *least) {                                             \
        enum { BLOCKS = sizeof(vec) / 16, PASSES = 64 / (BLOCKS * AES_AT_ONCE), STEPS = DPK_PIECES / SCORE_STEP / PASSES };          \
        const int steps = x ? STEPS : 0;                                                                                             \
        const size_t last = DPK_PIECES - SCORE_STEP;                                                                                 \
        size_t at = x ? search_second(x) : 0;                                                                                        \
        vec counters = COUNTERS(64 * group, upper_half(stream, tag));                                                                \
        for (size_t left = PASSES * n_groups; left; left--) {                                                                        \
            vec state[AES_AT_ONCE];                                                                                                  \
            int r = 1;                                                                                                               \
            for (int i = 0; i < AES_AT_ONCE; i++) state[i] = XOR(PLUS(counters, BLOCKS * i), KEY(0));                                \
            counters = PLUS(counters, BLOCKS * AES_AT_ONCE);                                                                         \
            for (; r <= steps; r++, at += SCORE_STEP) {                                                                              \
                for (int i = 0; i < AES_AT_ONCE; i++) state[i] = ROUND(state[i], KEY(r));                                            \
                search_step(found, x + (at < last ? at : last));                                                                     \
            }                                                                                                                        \
            for (; r < DPK_AES_ROUNDS; r++)                                                                                          \
                for (int i = 0; i < AES_AT_ONCE; i++) state[i] = ROUND(state[i], KEY(r));                                            \
            for (int i = 0; i < AES_AT_ONCE; i++, words += 2 * BLOCKS) {                                                             \
                state[i] = LAST(state[i], KEY(DPK_AES_ROUNDS));                                                                      \
                STORE((void *)words, state[i]);                                                                                      \
                if (x) *least = LEAST(*least, state[i]);                                                                             \
            }                                                                                                                        \
        }                                                                                                                            \
    }                                                                                                                                \
    attributes static void name(const dpk_stream *stream, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {          \
        name##_body(stream, tag, group, n_groups, words, NULL, NULL, NULL);                                                          \
    }

/* The same for one group, the largest of its DPK_PIECES numbers, as selection's `largest`, and its least piece. */
#define DEFINE_AES_BESIDE(name, attributes, vec)                                                                                   \
    attributes static void name##_beside(const dpk_stream *stream, uint32_t tag, uint64_t group, uint64_t *words, const double *x, \
                                         dpk_ends *ends) {                                                                         \
        search found = search_start(x);                                                                                            \
        vec least;                                                                                                                 \
        __m128i parts[sizeof least / 16];                                                                                          \
        memset(&least, 0xff, sizeof least);                                                                                        \
        name##_body(stream, tag, group, 1, words, x, &found, &least);                                                              \
        memcpy(parts, &least, sizeof least);                                                                                       \
        for (size_t i = 1; i < sizeof least / 16; i++) parts[0] = _mm_min_epu16(parts[0], parts[i]);                               \
        ends->least = (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(parts[0]));                                                     \
        ends->largest = search_end(&found, &ends->sum);                                                                            \
    }

#if defined(__VAES__) && defined(__AVX512F__)
DEFINE_AES(aes256_groups, , __m512i, COUNTERS_4, PLUS_4, KEY_4, _mm512_xor_si512, _mm512_aesenc_epi128, _mm512_aesenclast_epi128,
           _mm512_min_epu16, _mm512_storeu_si512)
DEFINE_AES_BESIDE(aes256_groups, , __m512i)
#define AES256_WIDE .aes256_wide = aes256_groups
#define BESIDE_ENTRIES .beside = aes256_groups_beside, .beside_wide = aes256_groups_beside,
#else
DEFINE_AES(aes256_groups, , __m128i, COUNTERS_1, PLUS_1, KEY_1, _mm_xor_si128, _mm_aesenc_si128, _mm_aesenclast_si128, LEAST_1,
           _mm_storeu_si128)
#if defined(__AVX2__)
/* The level does not ask for VAES, but many of its CPUs have it: two blocks an instruction. */
#define WITH_VAES __attribute__((target("vaes")))
DEFINE_AES(aes256_wide, WITH_VAES, __m256i, COUNTERS_2, PLUS_2, KEY_2, _mm256_xor_si256, _mm256_aesenc_epi128, _mm256_aesenclast_epi128,
           _mm256_min_epu16, _mm256_storeu_si256)
DEFINE_AES_BESIDE(aes256_groups, , __m128i)
DEFINE_AES_BESIDE(aes256_wide, WITH_VAES, __m256i)
#define AES256_WIDE .aes256_wide = aes256_wide
#define BESIDE_ENTRIES .beside = aes256_groups_beside, .beside_wide = aes256_wide_beside,
#else
#define AES256_WIDE .aes256_wide = NULL
#endif
#endif

/* Pre: the schedule is made. Post: the first word of the further bits of DPK_MORE_LANES elements, as dpk_more_words has it. Errors: none.
 */
static void aes256_more(const dpk_stream *stream, uint32_t tag, const uint64_t *elements, uint64_t *words) {
    __m128i state[DPK_MORE_LANES];
    __m128i key = _mm_loadu_si128((const __m128i *)stream->round_keys[0]);
    const long long upper = (long long)upper_half(stream, tag);
    for (int i = 0; i < DPK_MORE_LANES; i++) state[i] = _mm_xor_si128(_mm_set_epi64x(upper, (long long)elements[i]), key);
    for (int r = 1; r < DPK_AES_ROUNDS; r++) {
        key = _mm_loadu_si128((const __m128i *)stream->round_keys[r]);
        for (int i = 0; i < DPK_MORE_LANES; i++) state[i] = _mm_aesenc_si128(state[i], key);
    }
    key = _mm_loadu_si128((const __m128i *)stream->round_keys[DPK_AES_ROUNDS]);
    for (int i = 0; i < DPK_MORE_LANES; i++) words[i] = (uint64_t)_mm_cvtsi128_si64(_mm_aesenclast_si128(state[i], key));
}

#define AES256_ENTRIES \
    .aes256 = aes256_groups, AES256_WIDE, .aes256_schedule = aes256_schedule, .aes256_block = aes256_block, .aes256_more = aes256_more
#else
#define AES256_ENTRIES .aes256 = NULL
#endif
#if !defined(BESIDE_ENTRIES)
#define BESIDE_ENTRIES
#endif
