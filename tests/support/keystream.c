/* The keystream of a process, watched and changed: a copy of a level's table whose ciphers note every address they are asked for, and
   hand out words with bits flipped, words that are stuck, or the words of another domain. Loaded by support/keystream.py. */
#include <stdlib.h>
#include <string.h>

#include "dpk_kernels.h"

enum { DOMAINS = 256, WORDS = 8 };

/* One request: n units from `index` on. A unit is a group of a domain that is read in groups, else one element's chunk. */
typedef struct {
    uint64_t key, index;
    uint32_t nonce, tag, in_groups, n, draw;
} request;

static struct {
    const dpk_kernels *base, **current;
    dpk_kernels table;
    request *log;
    size_t n, room;
    uint32_t draw;
    int lock;
    /* the flip */
    uint64_t flip_key, flip_index, flip_mask;
    uint32_t flip_nonce, flip_tag, flip_in_groups, flip_word;
    /* words of a domain: (word & care) | stuck, by their place in a group or chunk */
    uint8_t is_stuck[DOMAINS], alias[DOMAINS];
    uint64_t care[DOMAINS][DPK_GROUP], stuck[DOMAINS][DPK_GROUP];
} probe;

static uint64_t name_of(const dpk_stream *s) {
    uint64_t key = 0xcbf29ce484222325u;
    for (int i = 0; i < 8; i++) key = (key ^ s->key[i]) * 0x100000001b3u;
    return key;
}

static void note(const dpk_stream *s, uint32_t nonce, uint32_t tag, uint32_t in_groups, uint64_t index, uint32_t n) {
    uint64_t key = name_of(s);
    while (__atomic_exchange_n(&probe.lock, 1, __ATOMIC_ACQUIRE)) continue;
    if (probe.n == probe.room) {
        probe.room = 2 * probe.room + 1024;
        probe.log = realloc(probe.log, probe.room * sizeof *probe.log);
        if (probe.log == NULL) abort();
    }
    probe.log[probe.n++] = (request){key, index, nonce, tag, in_groups, n, probe.draw};
    __atomic_store_n(&probe.lock, 0, __ATOMIC_RELEASE);
}

/* The tag that is read in the place of `tag`. */
static uint32_t served(uint32_t tag) { return (uint32_t)probe.alias[tag >> 24] << 24 | (tag & 0xffffff); }

static void change(const dpk_stream *s, uint32_t nonce, uint32_t tag, uint32_t in_groups, uint64_t index, uint32_t first, size_t n_words,
                   uint64_t *words) {
    uint32_t domain = tag >> 24;
    if (probe.is_stuck[domain])
        for (size_t j = 0; j < n_words; j++) words[j] = (words[j] & probe.care[domain][first + j]) | probe.stuck[domain][first + j];
    if (probe.flip_mask && tag == probe.flip_tag && in_groups == probe.flip_in_groups && index == probe.flip_index &&
        nonce == probe.flip_nonce && probe.flip_word >= first && probe.flip_word < first + n_words && name_of(s) == probe.flip_key)
        words[probe.flip_word - first] ^= probe.flip_mask;
}

static void change_groups(const dpk_stream *s, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {
    for (size_t g = 0; g < n_groups; g++) change(s, s->nonce, tag, 1, group + g, 0, DPK_GROUP, words + g * DPK_GROUP);
}

static void chacha20(const dpk_stream *s, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {
    tag = served(tag);
    note(s, s->nonce, tag, 1, group, (uint32_t)n_groups);
    probe.base->chacha20(s, tag, group, n_groups, words);
    change_groups(s, tag, group, n_groups, words);
}

static void aes256(const dpk_stream *s, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words) {
    tag = served(tag);
    note(s, s->nonce, tag, 1, group, (uint32_t)n_groups);
    probe.base->aes256(s, tag, group, n_groups, words);
    change_groups(s, tag, group, n_groups, words);
}

/* The words of one group beside its scores. */
static void beside(const dpk_stream *s, uint32_t tag, uint64_t group, uint64_t *words, const double *x, dpk_ends *ends) {
    tag = served(tag);
    note(s, s->nonce, tag, 1, group, 1);
    probe.base->selection.beside(s, tag, group, words, x, ends);
    change_groups(s, tag, group, 1, words);
    ends->least = 0; /* of words that were changed it is not known */
}

static void chacha20_element(const dpk_stream *s, uint32_t tag, uint64_t element, size_t n_words, uint64_t *words) {
    tag = served(tag);
    note(s, s->nonce, tag, 0, element, 1);
    probe.base->chacha20_element(s, tag, element, n_words, words);
    change(s, s->nonce, tag, 0, element, 0, n_words, words);
}

/* A chunk is four blocks of AES: they are noted and changed as one, like ChaCha20's. */
static void aes256_block(const dpk_stream *s, const uint64_t in[2], uint64_t out[2]) {
    uint32_t tag = served((uint32_t)in[1]), block = tag & 3, chunk = (tag & 0xfff) >> 2, nonce = (uint32_t)(in[1] >> 32);
    uint64_t counter[2] = {in[0], (in[1] & 0xffffffff00000000u) | tag};
    uint32_t joint = (tag & 0xfffff000u) | chunk;
    note(s, nonce, joint, 0, in[0], 1);
    probe.base->aes256_block(s, counter, out);
    change(s, nonce, joint, 0, in[0], 2 * block, 2, out);
}

static void more(void (*base)(const dpk_stream *, uint32_t, const uint64_t *, uint64_t *), const dpk_stream *s, uint32_t tag,
                 const uint64_t *elements, uint64_t *words) {
    tag = served(tag);
    base(s, tag, elements, words);
    for (int i = 0; i < DPK_MORE_LANES; i++) {
        note(s, s->nonce, tag, 0, elements[i], 1);
        change(s, s->nonce, tag, 0, elements[i], 0, 1, words + i);
    }
}

static void chacha20_more(const dpk_stream *s, uint32_t tag, const uint64_t *elements, uint64_t *words) {
    more(probe.base->chacha20_more, s, tag, elements, words);
}

static void aes256_more(const dpk_stream *s, uint32_t tag, const uint64_t *elements, uint64_t *words) {
    more(probe.base->aes256_more, s, tag, elements, words);
}

void probe_clear(void) {
    probe.n = 0;
    probe.draw = 0;
}

void probe_reset(void) {
    probe_clear();
    probe.flip_mask = 0;
    memset(probe.is_stuck, 0, sizeof probe.is_stuck);
    for (int d = 0; d < DOMAINS; d++) probe.alias[d] = (uint8_t)d;
}

void probe_install(const dpk_kernels **current) {
    probe_reset();
    probe.current = current;
    probe.base = *current;
    probe.table = *probe.base;
    probe.table.chacha20 = chacha20;
    probe.table.chacha20_element = chacha20_element;
    probe.table.chacha20_more = chacha20_more;
    if (probe.base->aes256) {
        probe.table.aes256 = aes256;
        probe.table.aes256_block = aes256_block;
        probe.table.aes256_more = aes256_more;
        if (probe.base->selection.beside) probe.table.selection.beside = beside;
    }
    *current = &probe.table;
}

void probe_remove(void) { *probe.current = probe.base; }

size_t probe_size(void) { return probe.n; }

void probe_read(request *out) { memcpy(out, probe.log, probe.n * sizeof *out); }

void probe_draw(uint32_t draw) { probe.draw = draw; }

void probe_flip(uint64_t key, uint32_t nonce, uint32_t tag, uint32_t in_groups, uint64_t index, uint32_t word, uint64_t mask) {
    probe.flip_key = key;
    probe.flip_nonce = nonce;
    probe.flip_tag = tag;
    probe.flip_in_groups = in_groups;
    probe.flip_index = index;
    probe.flip_word = word;
    probe.flip_mask = mask;
}

void probe_stick(uint32_t domain, const uint64_t *care, const uint64_t *stuck) {
    probe.is_stuck[domain] = 1;
    memcpy(probe.care[domain], care, sizeof probe.care[domain]);
    memcpy(probe.stuck[domain], stuck, sizeof probe.stuck[domain]);
}

void probe_alias(uint32_t domain, uint32_t other) { probe.alias[domain] = (uint8_t)other; }
