/* One call of a binary randomiser: blocks of first bits, one kernel of the level, the few open lanes one by one. */
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "dd.h"
#include "dpk_kernels.h"

enum {
    FLIP_LANES = DPK_FLIP_GROUPS * DPK_LANES,
    FLIP_WORDS = DPK_FLIP_GROUPS * DPK_PLANE_WORDS,
    BLOCK = 512,          /* one group of 16-bit pieces */
    FEW_FRAMES = 1 << 15, /* more than all frames below, but for flips of bytes */
    OPEN = 2
};

static int is_bytes(const dpk_view *v) { return v->dtype == DPK_U8 && dpk_view_is_contiguous(v); }

/* Bytes [start, start + n) of a flip's input, in place where they lie so. */
static const uint8_t *load_bytes(const dpk_view *v, int64_t start, size_t n, uint8_t *room) {
    if (is_bytes(v)) return (const uint8_t *)v->data + start;
    int64_t items[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        dpk_load_int(v, start + (int64_t)i, m, items);
        for (size_t j = 0; j < m; j++) room[i + j] = items[j] != 0;
    }
    return room;
}

static void store_bytes(const dpk_view *v, int64_t start, size_t n, const uint8_t *bytes) {
    if (is_bytes(v)) {
        memcpy(v->data + start, bytes, n);
        return;
    }
    int64_t items[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        for (size_t j = 0; j < m; j++) items[j] = bytes[i + j];
        dpk_store_int(v, start + (int64_t)i, m, items);
    }
}

/* n lanes from lane `offset` of a block on: whole words in place, the ragged ends through a buffer. */
static void flip_lanes(const dpk_response *call, int64_t position, size_t offset, size_t n, const uint64_t *flips) {
    uint8_t in[FLIP_LANES], out[FLIP_LANES];
    const dpk_view *to = &call->out;
    if (offset == 0 && n % 64 == 0 && is_bytes(&call->values) && is_bytes(to)) {
        call->kernels->response.flip_bytes((const uint8_t *)call->values.data + position, flips, (uint8_t *)to->data + position, n);
        return;
    }
    size_t width = (offset + n + 63) / 64 * 64;
    memset(in, 0, width);
    const uint8_t *x = load_bytes(&call->values, position, n, in + offset);
    if (x != in + offset) memcpy(in + offset, x, n);
    call->kernels->response.flip_bytes(in, flips, out, width);
    store_bytes(to, position, n, out + offset);
}

static dpk_status run_flip(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    uint64_t planes[DPK_FLIP_GROUPS * DPK_GROUP], flips[FLIP_WORDS];
    for (*reached = start; *reached < stop;) {
        const dpk_span span = dpk_span_at(call->first_element, *reached, stop, DPK_LANES, FLIP_LANES);
        size_t n_groups = (span.offset + span.n + DPK_LANES - 1) / DPK_LANES;
        dpk_status status = dpk_draw_below(call, call->real, span.element / DPK_LANES, n_groups, planes, flips);
        if (status != DPK_OK) return status;
        size_t skipped = span.offset / 64; /* whole words before the first lane */
        flip_lanes(call, *reached, span.offset % 64, span.n, flips + skipped);
        *reached += (int64_t)span.n;
    }
    return DPK_OK;
}

/* Bits [at, at + 64) of `flips`. */
static uint64_t bits_at(const uint64_t *flips, size_t at) {
    size_t w = at / 64, s = at % 64;
    return s ? flips[w] >> s | flips[w + 1] << (64 - s) : flips[w];
}

static void flip_words(const uint8_t *x, const uint64_t *flips, uint8_t *y, size_t bytes) {
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, x + i, 8);
        word ^= flips[i / 8];
        memcpy(y + i, &word, 8);
    }
    for (; i < bytes; i++) y[i] = x[i] ^ (uint8_t)(flips[i / 8] >> (8 * (i % 8)));
}

static void flip_unaligned(const uint8_t *x, const uint64_t *flips, size_t offset, uint8_t *y, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) y[i] = x[i] ^ (uint8_t)bits_at(flips, offset + 8 * i);
}

/* Packed bits: k counts them all; positions are bits, ranges begin at whole bytes. */
static dpk_status run_flip_packed(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    uint64_t planes[DPK_FLIP_GROUPS * DPK_GROUP], flips[FLIP_WORDS + 1];
    const uint8_t *x = (const uint8_t *)call->values.data;
    uint8_t *y = (uint8_t *)call->out.data;
    flips[FLIP_WORDS] = 0;
    for (*reached = start; *reached < stop;) {
        const dpk_span span = dpk_span_at(call->first_element, *reached, stop, DPK_LANES, FLIP_LANES);
        const size_t offset = span.offset;
        /* whole bytes of output, whatever the first element is, but at the end */
        const size_t n = *reached + (int64_t)span.n < stop ? span.n / 8 * 8 : span.n;
        size_t n_groups = (offset + n + DPK_LANES - 1) / DPK_LANES;
        dpk_status status = dpk_draw_below(call, call->real, span.element / DPK_LANES, n_groups, planes, flips);
        if (status != DPK_OK) return status;
        size_t bytes = n / 8, first = (size_t)*reached / 8; /* whole ones; then the last, whose padding becomes 0 */
        if (offset % 64 == 0) flip_words(x + first, flips + offset / 64, y + first, bytes);
        else flip_unaligned(x + first, flips, offset, y + first, bytes);
        if (n % 8) y[first + bytes] = (x[first + bytes] ^ (uint8_t)bits_at(flips, offset + 8 * bytes)) & (uint8_t)((1u << (n % 8)) - 1);
        *reached += (int64_t)n;
    }
    return DPK_OK;
}

/* A block of elements from `position` on, and the 16 bits that each has of its group's words. */
static dpk_span draw_pieces(const dpk_response *call, int64_t position, int64_t stop, uint16_t *pieces) {
    const dpk_span span = dpk_span_at(call->first_element, position, stop, BLOCK, BLOCK);
    uint64_t words[DPK_GROUP];
    dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_RESPONSE, span.element / BLOCK, 1, words);
    memcpy(pieces, (const char *)words + 2 * span.offset, 2 * span.n);
    return span;
}

/* Decides what the kernel left open; a NaN that nothing stands for stops the call. */
static dpk_status settle_bounded(const dpk_response *call, int64_t at, dpk_span span, const uint16_t *pieces, const double *x,
                                 const double *x_low, uint8_t *y, dpk_pending *pending, int64_t capacity, int64_t *count, int64_t *bad) {
    for (size_t i = 0; i < span.n; i++) {
        if (y[i] != OPEN) continue;
        if (isnan(x[i]) && isnan(call->bounded.missing)) {
            *bad = at + (int64_t)i;
            return DPK_NONFINITE;
        }
        dpk_decision is_plus = DPK_UNDECIDED;
        if (call->tier < DPK_TIER_EXACT) is_plus = dpk_bounded_accurate(call, &call->bounded, span.element + i, pieces[i], x[i], x_low[i]);
        if (is_plus != DPK_UNDECIDED) {
            y[i] = (uint8_t)is_plus;
            continue;
        }
        if (*count == capacity) return DPK_PENDING_FULL;
        pending[(*count)++] = (dpk_pending){at + (int64_t)i, span.element + i, x[i], x_low[i], pieces[i], 0};
    }
    return DPK_OK;
}

/* Values as doubles; those of int64 as the nearest double and the rest, so that differences keep their relative precision. */
static int load_values(const dpk_response *call, int64_t start, size_t n, double *x, double *x_low) {
    dpk_load_real(&call->values, start, n, x, x_low);
    if (call->values.dtype != DPK_I64) return 0;
    for (size_t i = 0; i < n; i++) {
        dd s = fast_two_sum(x[i], x_low[i]);
        x[i] = s.high;
        x_low[i] = s.low;
    }
    return 1;
}

static dpk_status run_bounded(const dpk_response *call, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity,
                              int64_t *n_pending, int64_t *reached) {
    double room_x[BLOCK], x_low[BLOCK] = {0.0};
    uint16_t pieces[BLOCK];
    uint8_t y[BLOCK];
    const int in_place = call->values.dtype == DPK_F64 && (start == stop || dpk_view_run(&call->values, start));
    for (*reached = start; *reached < stop;) {
        const dpk_span span = draw_pieces(call, *reached, stop, pieces);
        const size_t n = span.n;
        int64_t before = *n_pending, bad = 0;
        const double *x = in_place ? (const double *)call->values.data + *reached : room_x;
        int has_low = in_place ? 0 : load_values(call, *reached, n, room_x, x_low), open = 1;
        if (call->tier == DPK_TIER_FAST) open = call->kernels->response.bounded(&call->bounded, pieces, x, has_low ? x_low : NULL, y, n);
        else memset(y, OPEN, n);
        if (open) {
            dpk_status status = settle_bounded(call, *reached, span, pieces, x, x_low, y, pending, capacity, n_pending, &bad);
            if (status != DPK_OK) {
                *n_pending = before;
                if (status == DPK_NONFINITE) *reached = bad;
                return status;
            }
        }
        /* pending places keep what they hold until the exact tier has decided */
        size_t done = 0;
        for (int64_t i = before; i < *n_pending; i++) {
            size_t place = (size_t)(pending[i].index - *reached);
            store_bytes(&call->out, *reached + (int64_t)done, place - done, y + done);
            done = place + 1;
        }
        store_bytes(&call->out, *reached + (int64_t)done, n - done, y + done);
        *reached += (int64_t)n;
    }
    return DPK_OK;
}

/* One probability for each of k categories. */
static dpk_status run_table(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    int64_t codes[BLOCK];
    uint16_t pieces[BLOCK];
    uint8_t y[BLOCK];
    for (*reached = start; *reached < stop;) {
        const dpk_span span = draw_pieces(call, *reached, stop, pieces);
        const size_t n = span.n;
        dpk_load_codes(call, *reached, n, codes);
        for (size_t i = 0; i < n; i++) {
            const dpk_real *p = &call->real[codes[i]];
            uint32_t lead = p->limbs[0] >> 16;
            y[i] = pieces[i] < lead;
            if (pieces[i] != lead) continue;
            dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, span.element + i, pieces[i], 16};
            dpk_decision is_below = dpk_is_below(&u, p, 1);
            if (is_below == DPK_UNDECIDED) return DPK_NEED_LIMBS;
            y[i] = (uint8_t)is_below;
        }
        store_bytes(&call->out, *reached, n, y);
        *reached += (int64_t)n;
    }
    return DPK_OK;
}

/* Pre: 0 <= start <= stop <= size; out may be the values where both have items of one size; subsets have `room` for a report. Post:
   out[start, *reached) is written, but for the pending items, and nothing raw ever; the stack is wiped. Errors: DPK_NONFINITE with *reached
   the position; DPK_PENDING_FULL and DPK_NEED_LIMBS: resume at *reached. Source: docs/exactness-local.md. */
int dpk_response_run(const dpk_response *call, int64_t start, int64_t stop, uint8_t *room, dpk_pending *pending, int64_t capacity,
                     int64_t *n_pending, int64_t *reached) {
    dpk_status status;
    *n_pending = 0;
    switch (call->kind) {
    case DPK_FLIP:
        status = run_flip(call, start, stop, reached);
        break;
    case DPK_FLIP_PACKED:
        status = run_flip_packed(call, start, stop, reached);
        break;
    case DPK_BOUNDED:
        status = run_bounded(call, start, stop, pending, capacity, n_pending, reached);
        break;
    case DPK_TABLE:
        status = run_table(call, start, stop, reached);
        break;
    case DPK_CHANNEL:
        status = dpk_channel_run(call, start, stop, pending, capacity, n_pending, reached);
        break;
    case DPK_SAMPLE:
    case DPK_HYPERCUBE:
        status = dpk_vectors_run(call, start, stop, room, pending, capacity, n_pending, reached);
        break;
    case DPK_PROJECTIVE:
        status = dpk_projective_run(call, start, stop, reached);
        break;
    default:
        status = dpk_categories_run(call, start, stop, room, reached);
    }
    if (call->streams) dpk_stores_done();
    dpk_wipe_stack(call->kind == DPK_FLIP ? DPK_STACK_DEPTH : FEW_FRAMES);
    return status;
}
