/* One call of a randomiser of vectors: records of k numbers each, one of them or a sign of every one reported. */
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "dd.h"
#include "dpk_kernels.h"

enum {
    BLOCK = 512, /* lanes of a group of 16-bit pieces */
    ROOM = 4096, /* lanes whose corners are made together; no record has more */
    MOST_WORDS = ROOM / 64,
    REPORT_BYTES = 5, /* an index and a bit */
    OPEN = 2
};

/* The bounds of coordinate j as those of a single number. */
static dpk_bounded bounds_of(const dpk_response *call, size_t j) {
    dpk_bounded law = call->bounded;
    law.lower = call->box->lower[j];
    law.upper = call->box->upper[j];
    law.missing = call->box->missing[j];
    law.width = call->box->width[j];
    return law;
}

/* One number; an int64 as the nearest double and the rest. */
static void load_number(const dpk_response *call, int64_t position, double *x, double *x_low) {
    *x_low = 0.0;
    dpk_load_real(&call->values, position, 1, x, x_low);
    if (call->values.dtype != DPK_I64) return;
    dd s = fast_two_sum(*x, *x_low);
    *x = s.high;
    *x_low = s.low;
}

/* Whether the uniform of an open lane is below the probability of coordinate j; a NaN that nothing stands for stops the call. */
static dpk_status settle(const dpk_response *call, uint64_t lane, size_t j, uint16_t piece, double x, double x_low, uint8_t *y) {
    dpk_bounded law = bounds_of(call, j);
    if (isnan(x) && isnan(law.missing)) return DPK_NONFINITE;
    dpk_decision is_plus = DPK_UNDECIDED;
    if (call->tier < DPK_TIER_EXACT) is_plus = dpk_bounded_accurate(call, &law, lane, piece, x, x_low);
    if (is_plus == DPK_UNDECIDED) return DPK_PENDING_FULL;
    *y = (uint8_t)is_plus;
    return DPK_OK;
}

/* One coordinate a record: the upper half of its word chooses it, the lowest 16 bits begin the uniform of its bit. */
static dpk_status run_sample(const dpk_response *call, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity,
                             int64_t *n_pending, int64_t *reached) {
    const uint32_t d = (uint32_t)call->k;
    const double *in_place = call->values.dtype == DPK_F64 ? dpk_view_run(&call->values, 0) : NULL;
    char *out = call->out.data;
    for (*reached = start; *reached < stop;) {
        const dpk_span span = dpk_span_at(call->first_element, *reached, stop, DPK_GROUP, DPK_GROUP);
        uint64_t words[DPK_GROUP];
        uint32_t index[DPK_GROUP];
        uint16_t pieces[DPK_GROUP];
        uint8_t y[DPK_GROUP];
        double x[DPK_GROUP], x_low[DPK_GROUP], lower[DPK_GROUP], missing[DPK_GROUP], width[DPK_GROUP], inverse[DPK_GROUP];
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_BULK, span.element / DPK_GROUP, 1, words);
        for (size_t i = 0; i < span.n; i++) {
            const uint64_t word = words[span.offset + i];
            dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE, span.element + i, (uint32_t)(word >> 32), 32};
            if (dpk_uniform_below(&u, d, 0, &index[i]) == DPK_UNDECIDED) return DPK_EXHAUSTED;
            pieces[i] = (uint16_t)word;
            const int64_t at = (*reached + (int64_t)i) * d + index[i];
            x_low[i] = 0.0;
            if (in_place) x[i] = in_place[at];
            else load_number(call, at, &x[i], &x_low[i]);
            lower[i] = call->box->lower[index[i]];
            missing[i] = call->box->missing[index[i]];
            width[i] = call->box->width[index[i]];
            inverse[i] = call->box->inverse[index[i]];
        }
        const dpk_box own = {lower, NULL, missing, width, inverse};
        int open = 1;
        if (call->tier == DPK_TIER_FAST) open = call->kernels->response.bounded_each(&call->bounded, &own, pieces, x, x_low, y, span.n);
        else memset(y, OPEN, span.n);
        const int64_t before = *n_pending;
        for (size_t i = 0; open && i < span.n; i++) {
            if (y[i] != OPEN) continue;
            dpk_status status = settle(call, span.element + i, index[i], pieces[i], x[i], x_low[i], &y[i]);
            if (status == DPK_OK) continue;
            if (status == DPK_NONFINITE || *n_pending == capacity) {
                *n_pending = before;
                return status;
            }
            pending[(*n_pending)++] = (dpk_pending){*reached + (int64_t)i, span.element + i, x[i], x_low[i], pieces[i], index[i]};
        }
        char *to = out + REPORT_BYTES * *reached;
        for (size_t i = 0; i < span.n; i++, to += REPORT_BYTES) {
            if (y[i] == OPEN) continue; /* pending places keep what they hold until the exact tier has decided */
            memcpy(to, &index[i], 4);
            to[4] = (char)y[i];
        }
        *reached += (int64_t)span.n;
    }
    return DPK_OK;
}

static const uint64_t EACH = 0x0101010101010101u; /* a unit in each byte */

/* Byte i holds the number of ones in bytes 0 ... i. */
static uint64_t ones_up_to(uint64_t v) {
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    return ((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu) * EACH;
}

static uint32_t ones(uint64_t v) { return (uint32_t)(ones_up_to(v) >> 56); }

/* The one that has `before` < ones(v) ones below it, alone. */
static uint64_t nth_one(uint64_t v, uint32_t before) {
    const uint64_t up_to = ones_up_to(v), passed = ((before * EACH | 128 * EACH) - up_to) >> 7 & EACH; /* bytes that end before it */
    const int shift = (int)(passed * EACH >> 56) * 8;
    before -= (uint32_t)(up_to << 8 >> shift & 0xff);
    uint64_t left = v >> shift;
    for (; before; before--) left &= left - 1;
    return (left & (~left + 1)) << shift;
}

/* Flips the bit that has `before` bits of this value before it, among n_words words. */
static void flip_nth(uint64_t *words, uint64_t flipped, uint32_t before, size_t n_words) {
    for (size_t w = 0; w < n_words; w++) {
        const uint64_t left = words[w] ^ flipped;
        uint32_t here = ones(left);
        if (before < here) {
            words[w] ^= nth_one(left, before);
            return;
        }
        before -= here;
    }
}

static size_t bit_words(int64_t d) { return (size_t)(d + 63) / 64; }

/* Pieces of 32 bits kept for the draws of positions: twice the root of d, four standard deviations of what is needed. */
static size_t draw_words(int64_t d) {
    size_t root = 1;
    while ((int64_t)(root * root) < d) root++;
    return root;
}

/* 64-bit words of a record: signs, one word for the side and the distance, pieces of the draws. */
int64_t dpk_vector_words(int64_t d) { return (int64_t)(bit_words(d) + 1 + draw_words(d)); }

/* A record's words, group after group. */
typedef struct {
    const dpk_response *call;
    size_t n_bits, n_draws; /* words of signs, and of the draws of positions */
    uint64_t group;         /* the one in `words`; UINT64_MAX: none */
    uint64_t words[DPK_GROUP];
} word_source;

static uint64_t word_at(word_source *s, uint64_t i) {
    if (i / DPK_GROUP != s->group) {
        s->group = i / DPK_GROUP;
        dpk_bulk_words(&s->call->stream, s->call->kernels, DPK_DOMAIN_BULK, s->group, 1, s->words);
    }
    return s->words[i % DPK_GROUP];
}

/* The number of coordinates that differ from the corner: at most w on the likely side, above it on the other; by a table of P(S <= s). */
static dpk_status draw_distance(const dpk_response *call, uint64_t element, uint64_t word, int64_t *distance) {
    const int64_t d = call->k, w = call->w;
    dpk_uniform side = {&call->stream, call->kernels, DPK_DOMAIN_MORE_ACCEPT, element, (uint32_t)(word >> 32), 32};
    const uint32_t most_likely = call->real->limbs[0];
    dpk_decision likely = side.first < most_likely ? DPK_YES : DPK_NO;
    if (side.first == most_likely) likely = dpk_is_below(&side, call->real, 1);
    if (likely == DPK_UNDECIDED) return DPK_NEED_LIMBS;
    const dpk_real *table = likely ? call->own : call->own + w; /* of s = 0 ... w - 1, then of s = w + 1 ... d - 1 */
    int64_t least = 0, most = likely ? w : d - w - 1;
    dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_TABLE, element, (uint32_t)word, 32};
    while (least < most) {
        int64_t middle = least + (most - least) / 2;
        const uint32_t lead = table[middle].limbs[0];
        dpk_decision below = u.first < lead ? DPK_YES : DPK_NO;
        if (u.first == lead) below = dpk_is_below(&u, &table[middle], 1);
        if (below == DPK_UNDECIDED) return DPK_NEED_LIMBS;
        if (below == DPK_YES) most = middle;
        else least = middle + 1;
    }
    *distance = likely ? least : least + w + 1;
    return DPK_OK;
}

/* A uniform set of `distance` coordinates: uniform bits, of which as many are set or cleared at random as are missing or too many. */
static dpk_status draw_differing(word_source *s, uint64_t element, uint64_t first_word, int64_t distance, uint64_t *bits) {
    const dpk_response *call = s->call;
    const int64_t d = call->k;
    const size_t n_words = s->n_bits, kept = 2 * s->n_draws;
    int64_t held = 0;
    for (size_t w = 0; w < n_words; w++) bits[w] = word_at(s, first_word + w);
    if (d % 64) bits[n_words - 1] &= ((uint64_t)1 << (d % 64)) - 1;
    for (size_t w = 0; w < n_words; w++) held += ones(bits[w]);
    const uint64_t flipped = held > distance ? 0 : ~(uint64_t)0; /* which bits are counted: those that are set, or those that are not */
    int64_t others = held > distance ? held : d - held;
    uint64_t more[8];
    for (int64_t draw = 0, n = held > distance ? held - distance : distance - held; draw < n; draw++, others--) {
        uint32_t piece, before;
        if ((size_t)draw < kept) {
            piece = (uint32_t)(word_at(s, first_word + n_words + 1 + (uint64_t)draw / 2) >> (draw % 2 ? 32 : 0));
        } else {
            const int64_t later = draw - (int64_t)kept;
            if (later % 16 == 0)
                dpk_more_words(&call->stream, call->kernels, DPK_DOMAIN_MORE_PARTNER, element, 0, (uint32_t)(later / 16), 8, more);
            piece = (uint32_t)(more[later % 16 / 2] >> (later % 2 ? 32 : 0));
        }
        dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE, element, piece, 32};
        if (dpk_uniform_below(&u, (uint32_t)others, (uint32_t)draw, &before) == DPK_UNDECIDED) return DPK_EXHAUSTED;
        flip_nth(bits, flipped, before, n_words);
    }
    return DPK_OK;
}

/* The numbers of records [position, position + n) rounded to corners at random: lane k e + j for coordinate j of element e. *open says
   which record a lane stops at. */
static dpk_status draw_corners(const dpk_response *call, int64_t position, int64_t n, uint8_t *corners, int64_t *stopped) {
    const int64_t d = call->k, first = position * d, lanes = n * d;
    const uint64_t base = (call->first_element + (uint64_t)position) * (uint64_t)d;
    for (int64_t done = 0; done < lanes;) {
        const dpk_span span = dpk_span_at(base, done, lanes, BLOCK, BLOCK);
        uint64_t words[DPK_GROUP];
        uint16_t pieces[BLOCK];
        double room_x[BLOCK], x_low[BLOCK];
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_RESPONSE, span.element / BLOCK, 1, words);
        memcpy(pieces, (const char *)words + 2 * span.offset, 2 * span.n);
        const double *x = call->values.dtype == DPK_F64 ? dpk_view_run(&call->values, first + done) : NULL;
        const int is_int64 = call->values.dtype == DPK_I64;
        if (!x) {
            dpk_load_real(&call->values, first + done, span.n, room_x, x_low);
            for (size_t i = 0; is_int64 && i < span.n; i++) {
                dd s = fast_two_sum(room_x[i], x_low[i]);
                room_x[i] = s.high;
                x_low[i] = s.low;
            }
            x = room_x;
        }
        const size_t j = (size_t)(done % d);
        const dpk_box *all = call->box;
        const dpk_box from = {all->lower + j, NULL, all->missing + j, all->width + j, all->inverse + j};
        uint8_t *y = corners + done;
        int open = 1;
        if (call->tier == DPK_TIER_FAST)
            open = call->kernels->response.bounded_each(&call->bounded, &from, pieces, x, is_int64 ? x_low : NULL, y, span.n);
        else memset(y, OPEN, span.n);
        for (size_t i = 0; open && i < span.n; i++) {
            if (y[i] != OPEN) continue;
            dpk_status status = settle(call, span.element + i, (j + i) % (size_t)d, pieces[i], x[i], is_int64 ? x_low[i] : 0.0, &y[i]);
            if (status == DPK_OK) continue;
            *stopped = (done + (int64_t)i) / d;
            return status;
        }
        done += (int64_t)span.n;
    }
    return DPK_OK;
}

/* One report: the corner, with the signs of the differing coordinates turned. `corners` has room behind it for whole words. */
static dpk_status report(word_source *s, uint64_t element, const uint8_t *corners, uint8_t *to) {
    const dpk_response *call = s->call;
    const size_t n_words = s->n_bits, width = (size_t)(call->k + 7) / 8;
    const uint64_t first_word = element * (uint64_t)(n_words + 1 + s->n_draws);
    uint64_t differing[MOST_WORDS], signs[MOST_WORDS];
    int64_t distance;
    dpk_status status = draw_distance(call, element, word_at(s, first_word + n_words), &distance);
    if (status == DPK_OK) status = draw_differing(s, element, first_word, distance, differing);
    if (status != DPK_OK) return status;
    call->kernels->response.pack(corners, signs, 64 * n_words);
    if (call->k % 64) signs[n_words - 1] &= ((uint64_t)1 << (call->k % 64)) - 1;
    for (size_t w = 0; w < n_words; w++) signs[w] ^= differing[w];
    memcpy(to, signs, width);
    return DPK_OK;
}

/* A sign of every coordinate. A record with a number that only the exact tier can round stops the call there: its corner comes with the
   next one, in `room`. */
static dpk_status run_hypercube(const dpk_response *call, int64_t start, int64_t stop, const uint8_t *room, int64_t *reached) {
    const int64_t d = call->k, together = ROOM / d;
    const size_t width = (size_t)(d + 7) / 8;
    uint8_t corners[ROOM + 64] = {0};
    word_source source = {call, bit_words(d), draw_words(d), UINT64_MAX, {0}};
    for (*reached = start; *reached < stop;) {
        int64_t n = stop - *reached < together ? stop - *reached : together, stopped = n;
        dpk_status rounded = DPK_OK;
        if (call->is_rounded) memcpy(corners, room, (size_t)d), n = 1;
        else rounded = draw_corners(call, *reached, n, corners, &stopped);
        if (rounded != DPK_OK) n = stopped;
        for (int64_t r = 0; r < n; r++, ++*reached) {
            uint8_t *to = (uint8_t *)call->out.data + (size_t)*reached * width;
            dpk_status status = report(&source, call->first_element + (uint64_t)*reached, corners + r * d, to);
            if (status != DPK_OK) return status;
        }
        if (rounded != DPK_OK) return rounded;
    }
    return DPK_OK;
}

/* As dpk_response_run, for vectors: records of k numbers each. */
dpk_status dpk_vectors_run(const dpk_response *call, int64_t start, int64_t stop, const uint8_t *room, dpk_pending *pending,
                           int64_t capacity, int64_t *n_pending, int64_t *reached) {
    if (call->kind == DPK_SAMPLE) return run_sample(call, start, stop, pending, capacity, n_pending, reached);
    return run_hypercube(call, start, stop, room, reached);
}
