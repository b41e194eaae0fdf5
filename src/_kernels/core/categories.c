/* One call of a randomiser of categories. */
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "dpk_kernels.h"

enum {
    BLOCK = 256,      /* one group of 32-bit pieces */
    LEAST_SHIFT = 45, /* with less, 32 bits leave so much open that there is no fast way */
    HASH_BYTES = 12,  /* a seed and a code */
    SIGN_BYTES = 5    /* a row and a bit */
};

/* Where a block lies: one 32-bit piece an element. */
typedef struct {
    uint64_t element;
    size_t n;
    uint32_t pieces[BLOCK];
    const int64_t *codes; /* in place where they lie so */
    int64_t *answers;
    int64_t loaded[BLOCK], room[BLOCK];
} block;

/* The codes of a block, in place where they lie so and index no table: another thread may change the array after it was checked. */
static const int64_t *codes_at(const dpk_response *call, int64_t position, size_t n, int64_t *room) {
    const int straight = call->kind != DPK_CHANNEL && call->unknown < 0 && call->values.dtype == DPK_I64;
    const int64_t *run = straight ? dpk_view_run(&call->values, position) : NULL;
    if (!run) dpk_load_codes(call, position, n, room);
    else dpk_fetch(run + n, 8 * n); /* what comes next, while words are made of this */
    return run ? run : room;
}

static void open_block(const dpk_response *call, block *b, int64_t position, int64_t stop) {
    const dpk_span span = dpk_span_at(call->first_element, position, stop, BLOCK, BLOCK);
    uint64_t words[DPK_GROUP];
    b->element = span.element;
    b->n = span.n;
    b->answers = b->room;
    dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_RESPONSE, b->element / BLOCK, 1, words);
    memcpy(b->pieces, (const char *)words + 4 * span.offset, 4 * b->n);
    b->codes = codes_at(call, position, b->n, b->loaded);
}

/* The answer of one lane by comparisons: how many multiples m q, m = 1 ... k - 1, are at most U. */
static dpk_decision settle_kary(const dpk_response *call, uint64_t element, uint32_t piece, int64_t code, int64_t k, int64_t *answer) {
    dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, element, piece, 32};
    int64_t least = 0, most = k - 1;
    while (least < most) {
        int64_t m = least + (most - least) / 2 + 1;
        dpk_decision below = dpk_is_below(&u, call->real, (uint32_t)m);
        if (below == DPK_UNDECIDED) return DPK_UNDECIDED;
        if (below == DPK_YES) most = m - 1;
        else least = m;
    }
    *answer = least == k - 1 ? code : least + (least >= code);
    return DPK_DECIDED;
}

/* k-ary response of the block's codes among k categories. */
static dpk_status answer_block(const dpk_response *call, block *b, int64_t k) {
    if (!call->kernels->response.kary(b->pieces, b->codes, call->scale, (double)(k - 1), b->answers, b->n)) return DPK_OK;
    for (size_t i = 0; i < b->n; i++) {
        if (b->answers[i] != INT64_MIN) continue;
        if (settle_kary(call, b->element + i, b->pieces[i], b->codes[i], k, &b->answers[i]) == DPK_UNDECIDED) return DPK_NEED_LIMBS;
    }
    return DPK_OK;
}

static void store_answers(const dpk_response *call, int64_t position, size_t n, const int64_t *answers) {
    void *target = dpk_view_run(&call->out, position);
    if (target) call->kernels->response.narrow(answers, call->out.dtype, n, target);
    else dpk_store_int(&call->out, position, n, answers);
}

static dpk_status run_kary(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    block b;
    /* straight into int64 outputs, unless they are the codes themselves, which undecided lanes still need */
    const int straight = call->out.dtype == DPK_I64 && call->out.data != call->values.data;
    for (*reached = start; *reached < stop; *reached += (int64_t)b.n) {
        open_block(call, &b, *reached, stop);
        void *target = dpk_view_run(&call->out, *reached);
        if (straight && target && !call->kernels->response.kary_into(b.pieces, b.codes, call->scale, (double)(call->k - 1), target, b.n))
            continue;
        dpk_status status = answer_block(call, &b, call->k);
        if (status != DPK_OK) return status;
        store_answers(call, *reached, b.n, b.answers);
    }
    return DPK_OK;
}

/* How many of the ascending ends are below `value`. */
static int64_t ends_below(const uint64_t *ends, int64_t n, uint64_t value) {
    int64_t least = 0, most = n;
    while (least < most) {
        int64_t middle = least + (most - least) / 2;
        if (ends[middle] < value) least = middle + 1;
        else most = middle;
    }
    return least;
}

/* The outcome of one lane: by its piece alone, unless an end begins with the same 32 bits; then by 64 bits, unless one equals them. */
static dpk_decision settle_channel(const dpk_response *call, uint64_t element, uint32_t piece, int64_t code, int64_t *answer) {
    const int64_t n = call->guide.outcomes - 1;
    const uint64_t *ends = call->guide.ends + code * n;
    uint64_t value = (uint64_t)piece << 32, more;
    *answer = ends_below(ends, n, value);
    if (*answer == n || ends[*answer] > (value | 0xffffffffu)) return DPK_DECIDED;
    dpk_more_words(&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, element, 0, 0, 1, &more);
    value |= more >> 32;
    *answer = ends_below(ends, n, value);
    return *answer < n && ends[*answer] == value ? DPK_UNDECIDED : DPK_DECIDED;
}

/* Decides the open lanes of a block, eight looked at together; what 64 bits leave open is pending, with the piece as its law. */
static dpk_status settle_outcomes(const dpk_response *call, block *b, const uint8_t *open, int64_t at, dpk_pending *pending,
                                  int64_t capacity, int64_t *count) {
    for (size_t i = 0; i < b->n; i++) {
        uint64_t eight = 1;
        if (i % 8 == 0) memcpy(&eight, open + i, 8);
        if (eight == 0) i += 7;
        if (eight == 0 || !open[i]) continue;
        const uint64_t element = b->element + i;
        if (call->tier < DPK_TIER_EXACT && settle_channel(call, element, b->pieces[i], b->codes[i], &b->answers[i]) != DPK_UNDECIDED)
            continue;
        if (*count == capacity) return DPK_PENDING_FULL;
        pending[(*count)++] = (dpk_pending){at + (int64_t)i, element, 0.0, 0.0, b->codes[i], b->pieces[i]};
    }
    return DPK_OK;
}

/* Outcomes of a finite channel. */
dpk_status dpk_channel_run(const dpk_response *call, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity,
                           int64_t *n_pending, int64_t *reached) {
    block b;
    uint8_t open[BLOCK];
    for (*reached = start; *reached < stop; *reached += (int64_t)b.n) {
        open_block(call, &b, *reached, stop);
        const int64_t before = *n_pending;
        int any = 1;
        memset(open, 1, sizeof open);
        if (call->tier == DPK_TIER_FAST)
            any = call->kernels->response.guided(b.pieces, b.codes, call->guide.cells, call->guide.bits, b.answers, open, b.n);
        if (any && settle_outcomes(call, &b, open, *reached, pending, capacity, n_pending) != DPK_OK) {
            *n_pending = before;
            return DPK_PENDING_FULL;
        }
        /* pending places keep what they hold until the exact tier has decided */
        size_t done = 0;
        for (int64_t i = before; i < *n_pending; i++) {
            size_t place = (size_t)(pending[i].index - *reached);
            store_answers(call, *reached + (int64_t)done, place - done, b.answers + done);
            done = place + 1;
        }
        store_answers(call, *reached + (int64_t)done, b.n - done, b.answers + done);
    }
    return DPK_OK;
}

enum { MOST_SEEDS = 8 * 1024 }; /* as many as AES has addresses for; that all are refused has a probability below 2^-100000 */

/* Whether a word gives a in [1, P) and b in [0, P), in two 31-bit halves. */
static int is_seed(uint64_t word) {
    const uint64_t a = word & DPK_HASH_PRIME, b = word >> 31 & DPK_HASH_PRIME;
    return (a != 0) & (a != DPK_HASH_PRIME) & (b != DPK_HASH_PRIME);
}

/* A word that is a seed, drawn again for an element whose bulk word is none. 0 if nothing is left to draw from. */
static uint64_t draw_seed(const dpk_response *call, uint64_t element) {
    uint64_t more[8];
    for (uint32_t i = 0; i < MOST_SEEDS; i++) {
        if (i % 8 == 0) dpk_more_words(&call->stream, call->kernels, DPK_DOMAIN_MORE, element, 0, i / 8, 8, more);
        if (is_seed(more[i % 8])) return more[i % 8];
    }
    return 0;
}

/* Seeds from n elements' bulk words, one pass without a branch, for one block in three million a second one. */
static dpk_status draw_seeds(const dpk_response *call, uint64_t element, const uint64_t *words, size_t n, uint64_t *seeds) {
    const uint64_t mask = 0x3fffffffffffffffu;
    int all = 1;
    for (size_t i = 0; i < n; i++) {
        seeds[i] = words[i] & mask;
        all &= is_seed(words[i]);
    }
    for (size_t i = 0; !all && i < n; i++) {
        if (is_seed(words[i])) continue;
        seeds[i] = draw_seed(call, element + i) & mask;
        if (seeds[i] == 0) return DPK_EXHAUSTED;
    }
    return DPK_OK;
}

/* Bytes of a block's reports to where they belong, past the cache where the call's output does not fit in it. */
static void store_reports(const dpk_response *call, char *to, const uint64_t *reports, size_t bytes) {
    const char *from = (const char *)reports;
    size_t ragged = call->streams ? (size_t)(0 - (uintptr_t)to) % 8 : bytes;
    if (ragged > bytes) ragged = bytes;
    memcpy(to, from, ragged);
    size_t words = (bytes - ragged) / 8, rest = (bytes - ragged) % 8;
    if (words) call->kernels->noise.past_cache(to + ragged, words, from + ragged);
    memcpy(to + bytes - rest, from + bytes - rest, rest);
}

/* Seeds and codes, two reports in three words. */
static void pack_hashes(const uint64_t *seeds, const int64_t *codes, size_t n, uint64_t *words) {
    size_t i = 0;
    for (; i + 2 <= n; i += 2, words += 3) {
        uint64_t next = seeds[i + 1];
        words[0] = seeds[i];
        words[1] = (uint64_t)codes[i] | next << 32;
        words[2] = next >> 32 | (uint64_t)codes[i + 1] << 32;
    }
    if (i == n) return;
    words[0] = seeds[i];
    words[1] = (uint64_t)codes[i];
}

/* Numbers of 40 bits, eight in five words. Pre: room for eight more. */
static void pack_signs(const uint64_t *r, size_t n, uint64_t *words) {
    for (size_t i = 0; i < n; i += 8, r += 8, words += 5) {
        words[0] = r[0] | r[1] << 40;
        words[1] = r[1] >> 24 | r[2] << 16 | r[3] << 56;
        words[2] = r[3] >> 8 | r[4] << 32;
        words[3] = r[4] >> 32 | r[5] << 8 | r[6] << 48;
        words[4] = r[6] >> 16 | r[7] << 24;
    }
}

/* What the fast way needs to know. */
static dpk_hashing hashing_of(const dpk_response *call) {
    dpk_hashing law = {(uint64_t)call->g, 0, 0, 31, 62};
    while ((uint64_t)1 << (law.magic_shift - 31) < law.g) law.magic_shift++;
    law.magic = (((uint64_t)1 << law.magic_shift) + law.g - 1) / law.g;
    double factor = ldexp(call->scale, law.shift);
    for (; factor > 0x1p32 - 4.0 && law.shift >= LEAST_SHIFT; law.shift--) factor *= 0.5;
    if (law.shift >= LEAST_SHIFT) law.factor = (uint64_t)(factor - 0x1p-15); /* the scale is good to much less */
    return law;
}

/* Seeds and answered codes of the block. */
static dpk_status hash_block(const dpk_response *call, const dpk_hashing *law, block *b, uint64_t *words, uint64_t *seeds) {
    size_t width = (b->n + DPK_HASHED - 1) / DPK_HASHED * DPK_HASHED;
    if (width > b->n && b->codes != b->loaded) b->codes = memcpy(b->loaded, b->codes, 8 * b->n);
    for (size_t i = b->n; i < width; i++) { /* lanes that are decided */
        words[i] = 1;
        b->pieces[i] = 0;
        b->loaded[i] = 0;
    }
    if (law->factor && !call->kernels->response.hashing(law, words, b->pieces, b->codes, seeds, b->answers, width)) return DPK_OK;
    dpk_status status = draw_seeds(call, b->element, words, b->n, seeds);
    if (status != DPK_OK) return status;
    call->kernels->response.hash(seeds, b->codes, (uint32_t)call->g, b->loaded, b->n);
    b->codes = b->loaded;
    return answer_block(call, b, call->g);
}

static dpk_status run_hashing(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    block b;
    uint64_t seeds[BLOCK], words[3 * DPK_GROUP + DPK_HASHED], packed[BLOCK * HASH_BYTES / 8];
    const dpk_hashing law = hashing_of(call);
    char *out = call->out.data + HASH_BYTES * start;
    for (*reached = start; *reached < stop; *reached += (int64_t)b.n) {
        open_block(call, &b, *reached, stop);
        uint64_t group = b.element / DPK_GROUP;
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_BULK, group, 1 + (size_t)((b.element + b.n - 1) / DPK_GROUP - group),
                       words);
        dpk_status status = hash_block(call, &law, &b, words + b.element % DPK_GROUP, seeds);
        if (status != DPK_OK) return status;
        pack_hashes(seeds, b.answers, b.n, packed);
        store_reports(call, out, packed, HASH_BYTES * b.n);
        out += HASH_BYTES * b.n;
    }
    return DPK_OK;
}

/* The sign bits that 32 bits left open. */
static dpk_status settle_signs(const dpk_response *call, uint64_t element, uint32_t lead, const int64_t *codes, uint64_t *reports,
                               size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (reports[i] >> 33 == 0) continue;
        dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE, element + i, lead, 32};
        dpk_decision flipped = dpk_is_below(&u, call->real, 1);
        if (flipped == DPK_UNDECIDED) return DPK_NEED_LIMBS;
        uint32_t row = (uint32_t)reports[i], parity = row & (uint32_t)codes[i];
        for (int s = 16; s; s >>= 1) parity ^= parity >> s;
        reports[i] = row | (uint64_t)((parity & 1) ^ 1 ^ (uint32_t)flipped) << 32;
    }
    return DPK_OK;
}

static dpk_status run_hadamard(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    uint64_t words[DPK_BLOCK], reports[DPK_BLOCK], packed[DPK_BLOCK * SIGN_BYTES / 8];
    int64_t room[DPK_BLOCK];
    const uint32_t lead = dpk_leading(call->real, 32);
    char *out = call->out.data + SIGN_BYTES * start;
    for (*reached = start; *reached < stop;) {
        const dpk_span span = dpk_span_at(call->first_element, *reached, stop, DPK_GROUP, DPK_BLOCK);
        const int64_t *codes = codes_at(call, *reached, span.n, room);
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_BULK, span.element / DPK_GROUP,
                       (span.offset + span.n + DPK_GROUP - 1) / DPK_GROUP, words);
        if (call->kernels->response.hadamard(words + span.offset, codes, (uint32_t)call->g - 1, lead, reports, span.n) &&
            settle_signs(call, span.element, lead, codes, reports, span.n) != DPK_OK)
            return DPK_NEED_LIMBS;
        for (size_t i = span.n; i % 8; i++) reports[i] = 0;
        pack_signs(reports, span.n, packed);
        store_reports(call, out, packed, SIGN_BYTES * span.n);
        out += SIGN_BYTES * span.n;
        *reached += (int64_t)span.n;
    }
    return DPK_OK;
}

/* The uniform of one lane against the true position's probability: first its eight bits in the planes, one by one. */
static dpk_decision own_bit(const dpk_response *call, const uint64_t *planes, uint64_t element, size_t lane, uint32_t lead,
                            int ends_early) {
    const uint64_t *word = planes + lane / DPK_LANES * DPK_GROUP + lane % DPK_LANES / 64;
    for (int j = 0; j < DPK_PLANES; j++, word += DPK_PLANE_WORDS, lead <<= 1) {
        uint32_t bit = (uint32_t)(*word >> (lane % 64) & 1), wanted = lead >> (DPK_PLANES - 1) & 1;
        if (bit != wanted) return bit < wanted ? DPK_YES : DPK_NO;
        if (ends_early && !(lead << 1 & 0xff)) return DPK_NO; /* what follows in p is 0 */
    }
    dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, element, dpk_leading(call->own, DPK_PLANES), DPK_PLANES};
    return dpk_is_below(&u, call->own, 1);
}

/* Bits past k in each record's last byte are 0. `from` is the first byte's place in its record. */
static void clear_padding(uint8_t *bytes, size_t from, size_t n, size_t width, int64_t k) {
    if (k % 8 == 0) return;
    for (size_t i = width - 1 - from; i < n; i += width) bytes[i] &= (uint8_t)((1u << (k % 8)) - 1);
}

/* Lanes [lane, top) of a block that starts at `base`: each record's own bit replaces the one drawn for the others. */
static dpk_status set_own_bits(const dpk_response *call, uint64_t base, uint64_t lane, uint64_t top, const uint64_t *planes,
                               uint64_t *below) {
    const uint64_t bits = (uint64_t)(call->k + 7) / 8 * 8, first = lane / bits, last = (top - 1) / bits;
    const uint32_t lead = dpk_leading(call->own, DPK_PLANES);
    const int ends_early = dpk_ends_early(call->own);
    int64_t codes[BLOCK];
    for (uint64_t record = first; record <= last; record++) {
        size_t i = (size_t)((record - first) % BLOCK);
        if (i == 0) {
            size_t n = last - record + 1 < BLOCK ? (size_t)(last - record + 1) : BLOCK;
            dpk_load_codes(call, (int64_t)(record - call->first_element), n, codes);
        }
        uint64_t own = record * bits + (uint64_t)codes[i];
        if (own < lane || own >= top) continue;
        size_t at = (size_t)(own - base);
        dpk_decision bit = own_bit(call, planes, own, at, lead, ends_early);
        if (bit == DPK_UNDECIDED) return DPK_NEED_LIMBS;
        below[at / 64] = (below[at / 64] & ~((uint64_t)1 << (at % 64))) | (uint64_t)bit << (at % 64);
    }
    return DPK_OK;
}

/* Unary reports: lane 8 width r + j is bit j of record r, so that the lanes of a call are its output. */
static dpk_status run_unary(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    const size_t width = (size_t)(call->k + 7) / 8, bits = 8 * width;
    uint64_t planes[DPK_FLIP_GROUPS * DPK_GROUP], below[DPK_FLIP_GROUPS * DPK_PLANE_WORDS];
    uint8_t *out = (uint8_t *)call->out.data + (size_t)start * width;
    uint64_t lane = (call->first_element + (uint64_t)start) * bits, end = (call->first_element + (uint64_t)stop) * bits;
    *reached = start;
    while (lane < end) {
        /* not base + room < end: the last lanes of a stream end next to 2^64 */
        uint64_t base = lane / DPK_LANES * DPK_LANES, room = DPK_FLIP_GROUPS * DPK_LANES, top = end - base > room ? base + room : end;
        size_t n_groups = (size_t)((top - base + DPK_LANES - 1) / DPK_LANES), n = (size_t)(top - lane) / 8;
        dpk_status status = dpk_draw_below(call, call->real, lane / DPK_LANES, n_groups, planes, below);
        if (status == DPK_OK) status = set_own_bits(call, base, lane, top, planes, below);
        *reached = (int64_t)(lane / bits - call->first_element); /* whole records so far */
        if (status != DPK_OK) return status;
        uint8_t *report = (uint8_t *)below + (lane - base) / 8;
        clear_padding(report, (size_t)(lane / 8 % width), n, width, call->k);
        memcpy(out, report, n);
        out += n;
        lane = top;
    }
    *reached = stop;
    return DPK_OK;
}

/* 64-bit words of a record: one piece decides the inclusion, w choose; a power of two below a group, else whole groups. */
int64_t dpk_subset_words(int64_t w) {
    int64_t words = (w + 2) / 2, rounded = 1;
    if (words > DPK_GROUP) return (words + DPK_GROUP - 1) / DPK_GROUP * DPK_GROUP;
    while (rounded < words) rounded *= 2;
    return rounded;
}

/* One record's pieces, group after group. */
typedef struct {
    const dpk_response *call;
    uint64_t group; /* the one in `words`; UINT64_MAX: none */
    uint64_t words[DPK_GROUP];
} piece_source;

static uint32_t piece_at(piece_source *s, uint64_t first_word, uint64_t i) {
    uint64_t word = first_word + i / 2, group = word / DPK_GROUP;
    if (group != s->group) {
        dpk_bulk_words(&s->call->stream, s->call->kernels, DPK_DOMAIN_RESPONSE, group, 1, s->words);
        s->group = group;
    }
    return (uint32_t)(s->words[word % DPK_GROUP] >> (i % 2 ? 32 : 0));
}

/* Adds to the record a uniform subset of `size` of the k - 1 categories other than `code`. `small`: k <= 64, and the record is one word.
   Source: Floyd (Bentley, 1987). */
static inline dpk_status draw_subset(piece_source *s, uint64_t element, uint64_t first_word, int64_t code, int64_t size, uint8_t *record,
                                     uint64_t *word, int small) {
    const dpk_response *call = s->call;
    int64_t others = call->k - 1;
    for (int64_t draw = 0; draw < size; draw++) {
        const uint32_t bound = (uint32_t)(others - size + draw + 1), piece = piece_at(s, first_word, (uint64_t)draw + 1);
        uint32_t chosen;
        if (!dpk_below_at_once(piece, bound, &chosen)) {
            /* beyond 2^22 draws their further bits would share an address: another domain */
            uint32_t domain = draw >> 22 ? DPK_DOMAIN_MORE : DPK_DOMAIN_MORE_RESPONSE;
            dpk_uniform u = {&call->stream, call->kernels, domain, element, piece, 32};
            if (dpk_uniform_below(&u, bound, (uint32_t)draw & 0x3fffff, &chosen) == DPK_UNDECIDED) return DPK_EXHAUSTED;
        }
        const uint32_t last = bound - 1 + ((int64_t)bound - 1 >= code);
        uint32_t category = chosen + ((int64_t)chosen >= code);
        if (small) {
            category = *word >> category & 1 ? last : category;
            *word |= (uint64_t)1 << category;
            continue;
        }
        if (record[category / 8] >> (category % 8) & 1) category = last;
        record[category / 8] |= (uint8_t)(1 << (category % 8));
    }
    return DPK_OK;
}

/* Each record is drawn in `record`: in the output it would lie half-made, its own category first. */
static dpk_status run_subset(const dpk_response *call, int64_t start, int64_t stop, uint8_t *record, int64_t *reached) {
    const size_t width = (size_t)(call->k + 7) / 8;
    const uint64_t words = (uint64_t)dpk_subset_words(call->w);
    const uint32_t lead = dpk_leading(call->real, 32);
    const int small = call->k <= 64;
    piece_source source = {call, UINT64_MAX, {0}};
    int64_t codes[BLOCK];
    for (*reached = start; *reached < stop; ++*reached) {
        const int64_t left = stop - *reached, at = (*reached - start) % BLOCK;
        uint64_t element = call->first_element + (uint64_t)*reached, first_word = element * words;
        if (at == 0) dpk_load_codes(call, *reached, left < BLOCK ? (size_t)left : BLOCK, codes);
        const int64_t code = codes[at];
        uint64_t word = 0;
        if (!small) memset(record, 0, width);
        uint32_t piece = piece_at(&source, first_word, 0);
        dpk_decision included = piece < lead ? DPK_YES : DPK_NO;
        if (piece == lead) {
            dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_ACCEPT, element, piece, 32};
            included = dpk_is_below(&u, call->real, 1);
            if (included == DPK_UNDECIDED) return DPK_NEED_LIMBS;
        }
        dpk_status status;
        if (small) {
            word = (uint64_t)included << code;
            status = draw_subset(&source, element, first_word, code, call->w - included, NULL, &word, 1);
        } else {
            if (included == DPK_YES) record[code / 8] |= (uint8_t)(1 << (code % 8));
            status = draw_subset(&source, element, first_word, code, call->w - included, record, NULL, 0);
        }
        if (status != DPK_OK) return status;
        memcpy((uint8_t *)call->out.data + (size_t)*reached * width, small ? (const uint8_t *)&word : record, width);
    }
    return DPK_OK;
}

/* As dpk_response_run, for the kinds from DPK_KARY on. */
dpk_status dpk_categories_run(const dpk_response *call, int64_t start, int64_t stop, uint8_t *room, int64_t *reached) {
    switch (call->kind) {
    case DPK_KARY:
        return run_kary(call, start, stop, reached);
    case DPK_UNARY:
        return run_unary(call, start, stop, reached);
    case DPK_SUBSET:
        return run_subset(call, start, stop, room, reached);
    case DPK_HASHING:
        return run_hashing(call, start, stop, reached);
    default:
        return run_hadamard(call, start, stop, reached);
    }
}
