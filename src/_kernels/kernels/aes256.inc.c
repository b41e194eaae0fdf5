/* AES-256 in counter mode (FIPS 197, SP 800-38A) for the secure source, on AES-NI and, from x86_v4, on VAES.
   The 128-bit counter block is (64-bit block index, tag, nonce); group g is blocks 64g..64g+63. */
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

#if defined(__VAES__) && defined(__AVX512F__)
typedef __m512i aes_vec;
#define AES_COUNTERS(block, upper)                                                                                                 \
    _mm512_add_epi64(_mm512_set_epi64((long long)(upper), 3, (long long)(upper), 2, (long long)(upper), 1, (long long)(upper), 0), \
                     _mm512_maskz_set1_epi64(0x55, (long long)(block)))
#define AES_KEY(r) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)stream->round_keys[r]))
#define AES_XOR _mm512_xor_si512
#define AES_ROUND _mm512_aesenc_epi128
#define AES_LAST _mm512_aesenclast_epi128
#define AES_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#else
typedef __m128i aes_vec;
#define AES_COUNTERS(block, upper) _mm_set_epi64x((long long)(upper), (long long)(block))
#define AES_KEY(r) _mm_loadu_si128((const __m128i *)stream->round_keys[r])
#define AES_XOR _mm_xor_si128
#define AES_ROUND _mm_aesenc_si128
#define AES_LAST _mm_aesenclast_si128
#define AES_STORE(p, v) _mm_storeu_si128((__m128i *)(p), v)
#endif
enum { AES_BLOCKS = sizeof(aes_vec) / 16, AES_AT_ONCE = 8 }; /* eight chains hide the latency of a round */

/* The upper half of a counter block. */
static uint64_t upper_half(const dpk_stream *stream, uint32_t tag) { return tag | (uint64_t)stream->nonce << 32; }

/* Pre: the schedule is made; words has room for n_groups * DPK_GROUP. Post: the keystream of those groups. Errors: none.
   Source: SP 800-38A, section 6.5. */
static void aes256_groups(const dpk_stream *stream, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {
    uint64_t block = 64 * group, end = 64 * (group + n_groups), upper = upper_half(stream, tag);
    for (; block < end; block += AES_BLOCKS * AES_AT_ONCE, words += 2 * AES_BLOCKS * AES_AT_ONCE) {
        aes_vec state[AES_AT_ONCE];
        for (int i = 0; i < AES_AT_ONCE; i++) state[i] = AES_XOR(AES_COUNTERS(block + (uint64_t)(AES_BLOCKS * i), upper), AES_KEY(0));
        for (int r = 1; r < DPK_AES_ROUNDS; r++)
            for (int i = 0; i < AES_AT_ONCE; i++) state[i] = AES_ROUND(state[i], AES_KEY(r));
        for (int i = 0; i < AES_AT_ONCE; i++) AES_STORE(words + 2 * AES_BLOCKS * i, AES_LAST(state[i], AES_KEY(DPK_AES_ROUNDS)));
    }
}

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

#define AES256_ENTRIES .aes256 = aes256_groups, .aes256_schedule = aes256_schedule, .aes256_block = aes256_block, .aes256_more = aes256_more
#else
#define AES256_ENTRIES .aes256 = NULL, .aes256_schedule = NULL, .aes256_block = NULL, .aes256_more = NULL
#endif
