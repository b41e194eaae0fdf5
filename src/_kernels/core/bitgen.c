/* Random words one at a time. NumPy calls these functions through pointers, from any thread, with the GIL or without, and they cannot fail:
   whoever cannot be given a word does not return. They compute with integers, and a double is exact in every floating-point environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dpk_bitgen.h"
#include "atomics.h"

/* dpk_thread_now where it takes one instruction. */
#if defined(__linux__) && defined(__x86_64__)
static inline uint64_t thread_now(void) {
    uint64_t self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}
#elif defined(__linux__) && defined(__aarch64__)
static inline uint64_t thread_now(void) {
    uint64_t self;
    __asm__("mrs %0, tpidr_el0" : "=r"(self));
    return self;
}
#else
static inline uint64_t thread_now(void) { return dpk_thread_now(); }
#endif

#if defined(_MSC_VER)
#define NOINLINE __declspec(noinline)
#else
#define NOINLINE __attribute__((noinline))
#endif

/* Whether a word begins at a place, which counts halves, and is in the buffer. In one comparison: the lowest bit becomes the highest. */
static inline int is_whole(uint32_t place) { return (place >> 1 | place << 31) < DPK_BITS_WORDS; }

static double unit(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

/* Pre: what the capsule of a bit generator points to that nobody has served. Post: whether its pointers are null, as NumPy leaves them. */
int dpk_numpy_bits_are_unset(const dpk_numpy_bits *bits) {
    return bits->state == NULL && !bits->next_uint64 && !bits->next_uint32 && !bits->next_double && !bits->next_raw;
}

/* Secure sources. */

static void start(dpk_source *s, const dpk_kernels *k, int cipher, const uint8_t key[32]) {
    dpk_stream_init(&s->next, k, cipher, key, 0);
    s->process = dpk_process_now();
    s->place = 2 * DPK_BITS_WORDS;
}

/* Pre: none. Post: none of the words or keys that came over a fork is left, and there is a key that no other process has. Errors: without
   entropy the process ends, because a word that was not random could not be told from one that is. */
static void start_again(dpk_source *s, const dpk_kernels *k) {
    uint8_t key[32];
    int cipher = s->next.cipher;
    dpk_wipe(s, sizeof *s);
    if (!dpk_entropy(key)) {
        fputs("dpcore: the operating system gave a forked process no randomness, so its SecureBitGenerator cannot go on\n", stderr);
        abort();
    }
    start(s, k, cipher, key);
    dpk_wipe(key, sizeof key);
}

/* Pre: none. Post: the buffer is full, and under a key that is forgotten: its first words are the next key, so that nothing in memory leads
   back to words that were used. Errors: as above. Source: Bernstein (2017). */
static void refill(dpk_source *s, const dpk_kernels *k) {
    if (s->process != dpk_process_now()) start_again(s, k);
    dpk_bulk_words(&s->next, k, DPK_DOMAIN_BITS, 0, DPK_BITS_WORDS / DPK_GROUP, s->words);
    dpk_stream_init(&s->next, k, s->next.cipher, (const uint8_t *)s->words, 0);
    dpk_wipe(s->words, 8 * DPK_NEXT_KEY);
    s->place = 2 * DPK_NEXT_KEY;
    dpk_wipe_frames(DPK_REFILL_DEPTH);
}

static void keep_half(dpk_source *s) {
    s->half = s->halves[s->place];
    s->halves[s->place++] = 0;
    s->has_half = 1;
}

/* Whether the source has something for this process. */
static inline int is_ours(const dpk_source *s, const dpk_secure_bits *b) { return s->process == dpk_load(b->now); }

/* Pre: is_whole(place), and no other thread uses the source. Post: the word there, which is 0 in the buffer now. Errors: none. */
static inline uint64_t take(dpk_source *s, uint32_t place) {
    uint64_t word = s->words[place / 2];
    s->words[place / 2] = 0;
    s->place = place + 2;
    return word;
}

/* The same for half a word, the lower one first. Pre: place below 2 DPK_BITS_WORDS. */
static inline uint32_t take_half(dpk_source *s, uint32_t place) {
    uint32_t half = s->halves[place];
    s->halves[place] = 0;
    s->place = place + 1;
    return half;
}

/* A word, wherever it comes from. A half that is left of the word before is kept for the next half. Errors: as refill. */
static uint64_t take_any(dpk_source *s, const dpk_secure_bits *b) {
    while (!is_ours(s, b) || s->place + 1 >= 2 * DPK_BITS_WORDS) {
        if (is_ours(s, b) && s->place < 2 * DPK_BITS_WORDS) keep_half(s);
        refill(s, b->kernels);
    }
    if (s->place % 2) keep_half(s);
    return take(s, s->place);
}

static uint32_t take_any_half(dpk_source *s, const dpk_secure_bits *b) {
    while (!is_ours(s, b) || (!s->has_half && s->place >= 2 * DPK_BITS_WORDS)) refill(s, b->kernels);
    if (!s->has_half) return take_half(s, s->place);
    uint32_t half = s->half;
    s->half = s->has_half = 0;
    return half;
}

/* Who holds the shared source left the number of its process, so that a thread which a fork did not copy is not waited for. */
static void hold(dpk_secure_bits *b) {
    for (uint32_t tries = 1;; tries++) {
        uint64_t now = dpk_process_now(), holder = dpk_load(&b->holder);
        if (holder != now && dpk_replace(&b->holder, holder, now)) return;
        if (tries % 64 == 0) dpk_thread_rest();
    }
}

static void let_go(dpk_secure_bits *b) { dpk_store_release(&b->holder, 0); }

/* Whether this thread owns a source; the first one that asks does. A thread that has the number of one that has ended goes on with its
   source: it began after that end, and the system, which gave it the same memory, has ordered the two. */
static int is_owner(dpk_secure_bits *b) {
    uint64_t owner = dpk_load(&b->owner), self = thread_now();
    return owner == self || (owner == 0 && dpk_replace(&b->owner, 0, self));
}

/* Out of line, so that the way of almost every word needs no stack. */
static NOINLINE uint64_t rare_uint64(dpk_secure_bits *b) {
    if (is_owner(b)) return take_any(&b->owned, b);
    hold(b);
    uint64_t word = take_any(&b->shared, b);
    let_go(b);
    return word;
}

static NOINLINE uint32_t rare_uint32(dpk_secure_bits *b) {
    if (is_owner(b)) return take_any_half(&b->owned, b);
    hold(b);
    uint32_t half = take_any_half(&b->shared, b);
    let_go(b);
    return half;
}

/* Whose source it is comes first: only its thread may read the place in it, as others' reads would race with the owner's stores. */
static inline uint64_t next_secure(dpk_secure_bits *b) {
    dpk_source *s = &b->owned;
    if (dpk_load(&b->owner) != thread_now() || !is_ours(s, b)) return rare_uint64(b);
    const uint32_t place = s->place;
    return is_whole(place) ? take(s, place) : rare_uint64(b);
}

static uint64_t secure_uint64(void *state) { return next_secure(state); }

static double secure_double(void *state) { return unit(next_secure(state)); }

static uint32_t secure_uint32(void *state) {
    dpk_secure_bits *b = state;
    dpk_source *s = &b->owned;
    if (dpk_load(&b->owner) != thread_now() || !is_ours(s, b) || s->has_half) return rare_uint32(b);
    const uint32_t place = s->place;
    return place < 2 * DPK_BITS_WORDS ? take_half(s, place) : rare_uint32(b);
}

/* Pre: forks are watched; two keys of the operating system. Post: a generator of which no thread has drawn. Errors: none. */
void dpk_secure_bits_start(dpk_secure_bits *b, const dpk_kernels *k, const uint64_t *now, int cipher, const uint8_t owned[32],
                           const uint8_t shared[32]) {
    memset(b, 0, sizeof *b);
    b->kernels = k;
    b->now = now;
    start(&b->owned, k, cipher, owned);
    start(&b->shared, k, cipher, shared);
}

void dpk_secure_bits_serve(dpk_secure_bits *b, dpk_numpy_bits *bits) {
    *bits = (dpk_numpy_bits){b, secure_uint64, secure_uint32, secure_double, secure_uint64};
}

/* Keyed generators. Who draws from several threads takes NumPy's lock, or gets words in no certain order. */

static void fill(dpk_keyed_bits *b) {
    dpk_bulk_words(&b->stream, b->kernels, DPK_DOMAIN_BITS, b->base / DPK_GROUP, DPK_BITS_WORDS / DPK_GROUP, b->words);
}

static void move_on(dpk_keyed_bits *b) {
    b->base += DPK_BITS_WORDS;
    if (b->base == 0) b->stream.nonce++;
    fill(b);
    b->place = 0;
}

/* After half a word, or at the end of the buffer. A half that is left is kept for the next half. */
static NOINLINE uint64_t rare_keyed(dpk_keyed_bits *b) {
    uint32_t place = b->place;
    if (place % 2) {
        b->half = b->halves[place++ % (2 * DPK_BITS_WORDS)];
        b->has_half = 1;
    }
    if (place >= 2 * DPK_BITS_WORDS) {
        move_on(b);
        place = 0;
    }
    b->place = place + 2;
    return b->words[place / 2];
}

/* The place is read once, so that threads without NumPy's lock may get one word twice, but none from beyond the buffer. */
static inline uint64_t next_keyed(dpk_keyed_bits *b) {
    uint32_t place = *(const volatile uint32_t *)&b->place;
    if (!is_whole(place)) return rare_keyed(b);
    b->place = place + 2;
    return b->words[place / 2];
}

static uint64_t keyed_uint64(void *state) { return next_keyed(state); }

static double keyed_double(void *state) { return unit(next_keyed(state)); }

static NOINLINE uint32_t rare_half(dpk_keyed_bits *b) {
    if (b->has_half) {
        b->has_half = 0;
        return b->half;
    }
    move_on(b);
    b->place = 1;
    return b->halves[0];
}

static uint32_t keyed_uint32(void *state) {
    dpk_keyed_bits *b = state;
    uint32_t place = *(const volatile uint32_t *)&b->place;
    if (b->has_half || place >= 2 * DPK_BITS_WORDS) return rare_half(b);
    b->place = place + 1;
    return b->halves[place];
}

/* Pre: none. Post: a generator at word 0 of nonce 0. Errors: none. */
void dpk_keyed_bits_start(dpk_keyed_bits *b, const dpk_kernels *k, const uint8_t key[32]) {
    memset(b, 0, sizeof *b);
    b->kernels = k;
    dpk_stream_init(&b->stream, k, DPK_CHACHA20, key, 0);
    fill(b);
}

/* Pre: started. Post: the next word is `element` of the nonce, and no half is kept. Errors: none. */
void dpk_keyed_bits_seek(dpk_keyed_bits *b, uint32_t nonce, uint64_t element) {
    b->stream.nonce = nonce;
    b->place = 2 * (uint32_t)(element % DPK_BITS_WORDS);
    b->base = element - b->place / 2;
    b->half = b->has_half = 0;
    fill(b);
}

/* Pre: started. Post: how many words of the buffer are used, and the half that is left of one. Errors: none. */
uint32_t dpk_keyed_bits_used(const dpk_keyed_bits *b, uint32_t *has_half, uint32_t *half) {
    uint32_t place = b->place, is_inside = place % 2;
    *has_half = b->has_half || is_inside;
    *half = b->has_half ? b->half : is_inside ? b->halves[place % (2 * DPK_BITS_WORDS)] : 0;
    return (place + 1) / 2;
}

void dpk_keyed_bits_serve(dpk_keyed_bits *b, dpk_numpy_bits *bits) {
    *bits = (dpk_numpy_bits){b, keyed_uint64, keyed_uint32, keyed_double, keyed_uint64};
}
