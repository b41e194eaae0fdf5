/* ChaCha20 keystream (RFC 8439's block function, 64-bit block counter), CHACHA_LANES blocks at a time.
   Group g is blocks 16g..16g+15, stored transposed: row j holds word j of the sixteen blocks, so no level needs a transposition. */

#include "dpk.h"
#include "lanes.h"

#define CHACHA_LANES DPK_VECTOR_LANES /* a block in each lane of a vector */
#if CHACHA_LANES > 1
typedef uint32_t chacha_vec __attribute__((vector_size(4 * CHACHA_LANES)));
#define CHACHA_SPLAT(x) ((chacha_vec){0} + (x))
#else
typedef uint32_t chacha_vec;
#define CHACHA_SPLAT(x) (x)
#endif

#if CHACHA_LANES == 8 && defined(__AVX2__)
#include <immintrin.h>
/* Rotations by whole bytes are one shuffle where there is no rotate instruction. */
#define ROTATE_BYTES(x, ...) ((chacha_vec)_mm256_shuffle_epi8((__m256i)(x), _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)))
#define ROTATE16(x) ROTATE_BYTES(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define ROTATE8(x) ROTATE_BYTES(x, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)
#else
#define ROTATE16(x) ROTATE(x, 16)
#define ROTATE8(x) ROTATE(x, 8)
#endif
#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER(a, b, c, d) \
    a += b;                 \
    d ^= a;                 \
    d = ROTATE16(d);        \
    c += d;                 \
    b ^= c;                 \
    b = ROTATE(b, 12);      \
    a += b;                 \
    d ^= a;                 \
    d = ROTATE8(d);         \
    c += d;                 \
    b ^= c;                 \
    b = ROTATE(b, 7)

/* Blocks at any CHACHA_LANES indices: word j of block i goes to rows[16 j + i]. */
static void chacha20_lanes(const uint32_t initial[16], const uint64_t *index, uint32_t *rows) {
    chacha_vec s[16], counter_low, counter_high;
    uint32_t low[CHACHA_LANES], high[CHACHA_LANES];
    for (int i = 0; i < CHACHA_LANES; i++) {
        low[i] = (uint32_t)index[i];
        high[i] = (uint32_t)(index[i] >> 32);
    }
    memcpy(&counter_low, low, sizeof low);
    memcpy(&counter_high, high, sizeof high);
    for (int j = 0; j < 16; j++) s[j] = CHACHA_SPLAT(initial[j]);
    s[12] = counter_low;
    s[13] = counter_high;
    for (int round = 0; round < 10; round++) {
        QUARTER(s[0], s[4], s[8], s[12]);
        QUARTER(s[1], s[5], s[9], s[13]);
        QUARTER(s[2], s[6], s[10], s[14]);
        QUARTER(s[3], s[7], s[11], s[15]);
        QUARTER(s[0], s[5], s[10], s[15]);
        QUARTER(s[1], s[6], s[11], s[12]);
        QUARTER(s[2], s[7], s[8], s[13]);
        QUARTER(s[3], s[4], s[9], s[14]);
    }
    for (int j = 0; j < 16; j++) {
        chacha_vec start = j == 12 ? counter_low : j == 13 ? counter_high : CHACHA_SPLAT(initial[j]);
        s[j] += start;
        memcpy(rows + 16 * j, &s[j], sizeof s[j]);
    }
}

static void chacha20_start(const dpk_stream *stream, uint32_t tag, uint32_t initial[16]) {
    static const uint32_t constants[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    memcpy(initial, constants, sizeof constants);
    memcpy(initial + 4, stream->key, sizeof stream->key);
    initial[12] = initial[13] = 0;
    initial[14] = tag;
    initial[15] = stream->nonce;
}

/* Pre: words has room for n_groups * DPK_GROUP. Post: the keystream of those groups. Errors: none. Source: RFC 8439, section 2.3. */
static void chacha20_groups(const dpk_stream *stream, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {
    uint32_t initial[16];
    chacha20_start(stream, tag, initial);
    for (size_t g = 0; g < n_groups; g++)
        for (int lane = 0; lane < 16; lane += CHACHA_LANES) {
            uint64_t index[CHACHA_LANES];
            for (int i = 0; i < CHACHA_LANES; i++) index[i] = 16 * (group + g) + (uint64_t)(lane + i);
            chacha20_lanes(initial, index, (uint32_t *)(words + g * DPK_GROUP) + lane);
        }
}

/* Pre: none. Post: the first word of the further bits of DPK_MORE_LANES elements, as dpk_more_words has it. Errors: none. */
static void chacha20_more(const dpk_stream *stream, uint32_t tag, const uint64_t *elements, uint64_t *words) {
    uint32_t initial[16], rows[16 * DPK_MORE_LANES];
    chacha20_start(stream, tag, initial);
    for (int lane = 0; lane < DPK_MORE_LANES; lane += CHACHA_LANES) chacha20_lanes(initial, elements + lane, rows + lane);
    for (int i = 0; i < DPK_MORE_LANES; i++) words[i] = rows[i] | (uint64_t)rows[16 + i] << 32;
}
