/* A keyed hash of cells, added up over the columns of a row: rows with equal cells have equal sums, wherever they lie. */
#include "dpk_hash.h"

typedef struct {
    uint64_t a, b, c, d;
} state;

static inline uint64_t turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline void mix(state *s, int rounds) {
    for (int i = 0; i < rounds; i++) {
        s->a += s->b;
        s->b = turned(s->b, 13) ^ s->a;
        s->a = turned(s->a, 32);
        s->c += s->d;
        s->d = turned(s->d, 16) ^ s->c;
        s->a += s->d;
        s->d = turned(s->d, 21) ^ s->a;
        s->c += s->b;
        s->b = turned(s->b, 17) ^ s->c;
        s->c = turned(s->c, 32);
    }
}

/* Little-endian on every machine. */
static inline uint64_t word_of(const uint8_t *x, size_t bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++) word |= (uint64_t)x[i] << (8 * i);
    return word;
}

static inline state begun(const uint8_t *key) {
    uint64_t low = word_of(key, 8), high = word_of(key + 8, 8);
    return (state){low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d, low ^ 0x6c7967656e657261, high ^ 0x7465646279746573};
}

static inline void take(state *s, uint64_t word) {
    s->d ^= word;
    mix(s, 2);
    s->a ^= word;
}

/* Pre: a state that `begun` made. Post: SipHash-2-4 of n bytes. Source: Aumasson & Bernstein (2012), section 2. */
static inline uint64_t hashed(state s, const uint8_t *x, size_t n) {
    size_t left = n;
    for (; left >= 8; left -= 8, x += 8) take(&s, word_of(x, 8));
    take(&s, word_of(x, left) | (uint64_t)n << 56);
    s.c ^= 0xff;
    mix(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}

/* Pre: key of DPK_HASH_KEY bytes, rows of `width` bytes. Post: as the header says. Errors: none. */
void dpk_hash_rows(const uint8_t *key, const uint8_t *rows, size_t width, const uint8_t *taken, size_t n, uint64_t *sums) {
    const state start = begun(key);
    if (width == 8) { /* numbers, which are most cells: the length is known when this is compiled */
        for (size_t i = 0; i < n; i++)
            if (!taken || taken[i]) sums[i] += hashed(start, rows + 8 * i, 8);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!taken || taken[i]) sums[i] += hashed(start, rows + width * i, width);
}

/* Pre: key of DPK_HASH_KEY bytes; text i is [ends[i], ends[i + 1]) of `text`, in order. Post: as the header says. Errors: none. */
void dpk_hash_texts(const uint8_t *key, const int64_t *ends, const uint8_t *text, const uint8_t *taken, size_t n, uint64_t *sums) {
    const state start = begun(key);
    for (size_t i = 0; i < n; i++)
        if (!taken || taken[i]) sums[i] += hashed(start, text + ends[i], (size_t)(ends[i + 1] - ends[i]));
}
