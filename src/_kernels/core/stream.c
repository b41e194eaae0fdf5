/* Addresses of random words: (key, nonce, domain, element, attempt). */
#include <string.h>

#include "dpk_kernels.h"

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))

static void quarter(uint32_t s[16], int a, int b, int c, int d) {
    s[a] += s[b];
    s[d] = ROTATE(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = ROTATE(s[b] ^ s[c], 12);
    s[a] += s[b];
    s[d] = ROTATE(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = ROTATE(s[b] ^ s[c], 7);
}

static void chacha20_permute(const uint32_t initial[16], uint32_t out[16]) {
    memcpy(out, initial, 64);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) quarter(out, i, 4 + i, 8 + i, 12 + i);
        for (int i = 0; i < 4; i++) quarter(out, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (int j = 0; j < 16; j++) out[j] += initial[j];
}

/* Pre: none. Post: the block function's output words. Errors: none. Source: RFC 8439, section 2.3. */
void dpk_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16]) {
    uint32_t initial[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    memcpy(initial + 4, key, 32);
    initial[12] = counter;
    memcpy(initial + 13, nonce, 12);
    chacha20_permute(initial, out);
}

/* Pre: n_words at most 8. Post: the first words of one block. Errors: none. */
void dpk_chacha20_element(const dpk_stream *s, uint32_t tag, uint64_t element, size_t n_words, uint64_t *words) {
    uint32_t nonce[3] = {(uint32_t)(element >> 32), tag, s->nonce}, block[16];
    dpk_chacha20_block(s->key, (uint32_t)element, nonce, block);
    memcpy(words, block, 8 * n_words);
}

/* Word 14 of the block: 8 bits of domain, 12 of attempt, 12 of chunk. Words 12 and 13 are a 64-bit index, word 15 the nonce.
   AES has the same fields: a 64-bit index, then the tag and the nonce. */
uint32_t dpk_tag(uint32_t domain, uint32_t attempt, uint32_t chunk) { return domain << 24 | (attempt & 0xfff) << 12 | (chunk & 0xfff); }

void dpk_stream_init(dpk_stream *stream, const dpk_kernels *kernels, int cipher, const uint8_t key[32], uint32_t nonce) {
    memset(stream, 0, sizeof *stream);
    memcpy(stream->key, key, 32);
    stream->nonce = nonce;
    stream->cipher = cipher;
    if (cipher == DPK_AES256) kernels->aes256_schedule(stream);
}

void dpk_bulk_words(const dpk_stream *s, const dpk_kernels *k, uint32_t domain, uint64_t group, size_t n_groups, uint64_t *words) {
    (s->cipher == DPK_AES256 ? k->aes256 : k->chacha20)(s, dpk_tag(domain, 0, 0), group, n_groups, words);
}

/* Pre: attempt and chunk below 4096. n_words even and at most 8. Post: the first n_words of an element's chunk of eight. Errors: none. */
void dpk_more_words(const dpk_stream *s, const dpk_kernels *k, uint32_t domain, uint64_t element, uint32_t attempt, uint32_t chunk,
                    size_t n_words, uint64_t *out) {
    if (s->cipher == DPK_AES256) {
        for (uint32_t i = 0; i < n_words / 2; i++) {
            uint64_t counter[2] = {element, dpk_tag(domain, attempt, 4 * chunk + i) | (uint64_t)s->nonce << 32};
            k->aes256_block(s, counter, out + 2 * i);
        }
        return;
    }
    k->chacha20_element(s, dpk_tag(domain, attempt, chunk), element, n_words, out);
}

/* Pre: DPK_MORE_LANES elements. Post: the first word of what dpk_more_words gives each, chunk and attempt 0. Errors: none. */
void dpk_more_first(const dpk_stream *s, const dpk_kernels *k, uint32_t domain, const uint64_t *elements, uint64_t *words) {
    (s->cipher == DPK_AES256 ? k->aes256_more : k->chacha20_more)(s, dpk_tag(domain, 0, 0), elements, words);
}
