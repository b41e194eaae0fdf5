/* AES-256 in counter mode (FIPS 197, SP 800-38A) for the secure source, on AES-NI and on VAES: at x86_v4, and at x86_v3 where the CPU has
   it. The 128-bit counter block is (64-bit block index, tag, nonce); group g is blocks 64g..64g+63. */
#include "dpk.h"

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

/* Pre: the schedule is made; words has room for n_groups * DPK_GROUP. Post: the keystream of those groups. Errors: none.
   Source: SP 800-38A, section 6.5. */
#define AES_GROUPS(name, vec)                                                                                    \
    static void name(const dpk_stream *stream, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) { \
        enum { BLOCKS = sizeof(vec##_state) / 16 };                                                              \
        uint64_t block = 64 * group, end = 64 * (group + n_groups), upper = upper_half(stream, tag);             \
        for (; block < end; block += BLOCKS * AES_AT_ONCE, words += 2 * BLOCKS * AES_AT_ONCE) {                  \
            vec##_state state[AES_AT_ONCE];                                                                      \
            for (int i = 0; i < AES_AT_ONCE; i++)                                                                \
                state[i] = vec##_XOR(vec##_COUNTERS(block + (uint64_t)(BLOCKS * i), upper), vec##_KEY(0));       \
            for (int r = 1; r < DPK_AES_ROUNDS; r++)                                                             \
                for (int i = 0; i < AES_AT_ONCE; i++) state[i] = vec##_ROUND(state[i], vec##_KEY(r));            \
            for (int i = 0; i < AES_AT_ONCE; i++)                                                                \
                vec##_STORE((void *)(words + 2 * BLOCKS * i), vec##_LAST(state[i], vec##_KEY(DPK_AES_ROUNDS)));  \
        }                                                                                                        \
    }

#define AES_ROUND_KEY(r) _mm_loadu_si128((const __m128i *)stream->round_keys[r])
#if defined(__VAES__) && defined(__AVX512F__)
typedef __m512i AES512_state;
#define AES512_COUNTERS(block, upper)                                                                                              \
    _mm512_add_epi64(_mm512_set_epi64((long long)(upper), 3, (long long)(upper), 2, (long long)(upper), 1, (long long)(upper), 0), \
                     _mm512_maskz_set1_epi64(0x55, (long long)(block)))
#define AES512_KEY(r) _mm512_broadcast_i32x4(AES_ROUND_KEY(r))
#define AES512_XOR _mm512_xor_si512
#define AES512_ROUND _mm512_aesenc_epi128
#define AES512_LAST _mm512_aesenclast_epi128
#define AES512_STORE _mm512_storeu_si512
AES_GROUPS(aes256_groups, AES512)
#else
typedef __m128i AES128_state;
#define AES128_COUNTERS(block, upper) _mm_set_epi64x((long long)(upper), (long long)(block))
#define AES128_KEY AES_ROUND_KEY
#define AES128_XOR _mm_xor_si128
#define AES128_ROUND _mm_aesenc_si128
#define AES128_LAST _mm_aesenclast_si128
#define AES128_STORE(p, v) _mm_storeu_si128(p, v)
AES_GROUPS(aes256_groups, AES128)
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
/* Two blocks a register. The level does not ask for the instruction: core/dispatch.c looks whether the CPU has it. */
typedef __m256i AES256_state;
#define AES256_COUNTERS(block, upper) \
    _mm256_set_epi64x((long long)(upper), (long long)((block) + 1), (long long)(upper), (long long)(block))
#define AES256_KEY(r) _mm256_broadcastsi128_si256(AES_ROUND_KEY(r))
#define AES256_XOR _mm256_xor_si256
#define AES256_ROUND _mm256_aesenc_epi128
#define AES256_LAST _mm256_aesenclast_epi128
#define AES256_STORE _mm256_storeu_si256
__attribute__((target("vaes"))) AES_GROUPS(aes256_wide, AES256)
#define AES256_WIDE aes256_wide
#else
#define AES256_WIDE NULL
#endif

    /* Pre: the schedule is made. Post: the first word of the further bits of DPK_MORE_LANES elements, as dpk_more_words has it. Errors:
     * none.
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

#define AES256_ENTRIES                                                                                                     \
    .aes256 = aes256_groups, .aes256_wide = AES256_WIDE, .aes256_schedule = aes256_schedule, .aes256_block = aes256_block, \
    .aes256_more = aes256_more
#else
#define AES256_ENTRIES .aes256 = NULL, .aes256_wide = NULL, .aes256_schedule = NULL, .aes256_block = NULL, .aes256_more = NULL
#endif
