/* Noisy selection: the largest of score + scale * noise, in one pass that forgets an element as soon as it cannot win.

   The noise is a decreasing function of a uniform V. Sixteen bits h of it (h <= 2^16 V) bound the noise from above: for every kind
   noise <= -ln V - c, c = ln 2 for the two-sided kind and 0 for the others, so an element can reach the threshold T only if
   log2 h <= 16 + (score - T)/(scale ln 2) - c/ln 2. A float's bits, read as an integer, are a lower bound of its logarithm, which makes
   this one comparison; h = 0 always passes. docs/exactness-selection.md derives every bound. */
#include <math.h>
#include <string.h>

#include "dpk_kernels.h"
#include "candidates.h"
#include "unit_noise.h"

#define LOG2_UNIT 0x1p23            /* a float's bits count log2 in these */
#define LOG2_ZERO (127 * LOG2_UNIT) /* bits of 1.0f */
#define LOG2_PIECE (143 * LOG2_UNIT)
#define INVERSE_LN2 0x1.71547652b82fep+0
#define FILTER_SLACK 0x1p15    /* 2^-8 of a unit of log2: far above all rounding of the filter */
#define MOST_ERROR 0x1p-39     /* and |N| < 46 */
#define INTEGER_ERROR 0x1p-40  /* what the low part of an int64 adds to an error, twice over */
#define LARGEST_SCORE 0x1p1000 /* scores are clamped to this, so that no sum overflows */
#define EXACT_INTEGERS 0x1p52  /* thresholds beyond this may be reached by an int64 that a double does not hold */
#define INTEGER_SLACK 4096.0

enum { MOST_FORESEEN = 8 };

/* An element that may still win and whose further bits are not drawn yet. */
typedef struct {
    int64_t index;
    double high, low;
    uint32_t piece;
} contender;

typedef struct {
    const dpk_selection *call;
    uint64_t first_element; /* of the round */
    dpk_candidate *places;
    int64_t capacity, count;
    dpk_threshold threshold;
    dpk_reach reach;
    int64_t n_evaluated;
    int64_t n_waiting;
    contender waiting[DPK_MORE_LANES];
    const double *high, *score; /* scores of the block at hand; of an int64, its high part and its sum rounded */
    int64_t block, n, width;    /* its scores, and with spare lanes a multiple of 64 */
    union {
        uint64_t words[DPK_GROUP];
        uint16_t pieces[DPK_PIECES];
    } random; /* of the block at hand */
    double high_buffer[DPK_PIECES], low[DPK_PIECES], sum[DPK_PIECES];
} selector;

static int64_t blocks_of(const dpk_selection *call) { return (call->n + DPK_PIECES - 1) / DPK_PIECES; }

static void set_threshold(selector *s, dpk_threshold threshold) {
    const dpk_selection *call = s->call;
    s->threshold = threshold;
    s->reach = (dpk_reach){-LARGEST_SCORE, 0.0, 0.0, INFINITY};
    if (!threshold.is_set || call->is_unpruned) return;
    double slope = LOG2_UNIT * INVERSE_LN2 / call->scale;
    double shift = call->noise == DPK_TWO_SIDED ? 1.0 : 0.0;
    double whole = call->scores.dtype == DPK_I64 && fabs(threshold.high) >= EXACT_INTEGERS ? INTEGER_SLACK : 0.0;
    s->reach.origin = threshold.high;
    s->reach.slope = slope;
    s->reach.intercept = LOG2_PIECE - shift * LOG2_UNIT + FILTER_SLACK + (whole - threshold.low) * slope;
}

/* The largest log2 of a piece, in units of a float's bits, with which `score` can still reach the threshold. */
static double reach(const dpk_reach *r, double score) {
    return ((score > r->least ? score : r->least) - r->origin) * r->slope + r->intercept;
}

/* The largest piece whose logarithm is within `most`; 0 always is. */
static uint16_t largest_piece(double most) {
    if (most >= LOG2_PIECE) return 0xffff;
    if (!(most >= LOG2_ZERO)) return 0;
    uint32_t bits = (uint32_t)most;
    float piece;
    memcpy(&piece, &bits, 4);
    return piece >= 65535.0f ? 0xffff : (uint16_t)piece;
}

/* Candidates */

/* Raises the threshold to the smallest key that can still be among the wanted ones, and drops what is certainly below. */
static void drop_losers(selector *s) {
    const dpk_selection *call = s->call;
    int64_t keep = call->keep, known = 0;
    for (int64_t i = 0; i < s->count; i++) /* those that only the exact tier can rank go to the end, and stay */
        if (isfinite(s->places[i].error)) {
            if (known < i) swap(&s->places[known], &s->places[i]);
            known++;
        }
    if (known < keep) return;
    if (known > keep) gather_largest(s->places, known, keep);
    dpk_candidate least = s->places[0];
    for (int64_t i = 1; i < keep; i++)
        if (is_above(&least, &s->places[i])) least = s->places[i];
    double margin = call->bound_factor * (2.0 * MOST_ERROR * call->scale + (call->scores.dtype == DPK_I64 ? INTEGER_ERROR : 0.0));
    int64_t kept = keep;
    for (int64_t i = keep; i < s->count; i++) {
        const dpk_candidate *c = &s->places[i];
        double below = (least.high - c->high) + (least.low - c->low);
        if (!(below > margin + least.error + c->error)) swap(&s->places[kept++], &s->places[i]);
    }
    s->count = kept;
    dpk_threshold threshold = {least.high, least.low - margin, 1};
    if (!s->threshold.is_set || threshold.high > s->threshold.high ||
        (threshold.high == s->threshold.high && threshold.low > s->threshold.low))
        set_threshold(s, threshold);
}

/* Noise */

/* The candidate of a contender at keystream index `element`, whose first further word is `word`. */
static dpk_candidate candidate_of(const dpk_selection *call, const contender *c, uint64_t element, uint64_t word) {
    dpk_candidate unknown = {c->index, c->high, c->low, INFINITY};
    leading_bits b = {c->piece, word, 0};
    double noise;
    if (is_extreme(b)) {
        uint64_t words[2];
        dpk_more_words(&call->stream, call->kernels, DPK_DOMAIN_MORE_SELECTION, element, 0, 0, 2, words);
        b.next = words[1];
    }
    if (call->tier >= DPK_TIER_EXACT || unit_noise(call->noise, b, &noise) == DPK_UNDECIDED) return unknown;
    double product = call->scale * noise;
    /* two exact sums: score = whole + part, whole + product = high + error of it */
    double whole = c->high + c->low, part = c->low - (whole - c->high);
    double high = whole + product, back = high - whole;
    double low = (whole - (high - back)) + (product - back);
    double error = NOISE_BOUND * (1.0 + fabs(noise)) * call->scale + 0x1p-52 * fabs(part);
    double rest = low + part, top = high + rest; /* |rest| can be a unit of high: without this, comparing high first would be wrong */
    return (dpk_candidate){c->index, top, rest - (top - high), call->bound_factor * error};
}

/* Draws the further bits of the waiting contenders and files them. Errors: DPK_PENDING_FULL: places do not suffice. */
static dpk_status evaluate(selector *s) {
    const dpk_selection *call = s->call;
    uint64_t elements[DPK_MORE_LANES], words[DPK_MORE_LANES];
    if (s->n_waiting == 0) return DPK_OK;
    if (s->count + s->n_waiting > s->capacity) return DPK_PENDING_FULL;
    for (int64_t i = 0; i < DPK_MORE_LANES; i++) elements[i] = s->first_element + (uint64_t)s->waiting[i < s->n_waiting ? i : 0].index;
    dpk_more_first(&call->stream, call->kernels, DPK_DOMAIN_MORE_SELECTION, elements, words);
    for (int64_t i = 0; i < s->n_waiting; i++) s->places[s->count++] = candidate_of(call, &s->waiting[i], elements[i], words[i]);
    s->n_evaluated += s->n_waiting;
    s->n_waiting = 0;
    if (s->count >= (s->threshold.is_set ? 2 * call->keep + 8 : call->keep)) drop_losers(s);
    return DPK_OK;
}

/* Blocks */

static int is_excluded(const dpk_selection *call, int64_t index) {
    int64_t low = 0, high = call->n_excluded;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (call->excluded[middle] < index) low = middle + 1;
        else high = middle;
    }
    return low < call->n_excluded && call->excluded[low] == index;
}

/* The scores of a block: in place where that is possible, else widened into buffers. Spare lanes of the last block lose. */
static void load_block(selector *s, int64_t block) {
    const dpk_selection *call = s->call;
    int64_t start = block * DPK_PIECES, n = call->n - start < DPK_PIECES ? call->n - start : DPK_PIECES;
    s->block = block;
    s->n = n;
    s->width = (n + 63) / 64 * 64;
    s->high = call->scores.dtype == DPK_F64 && n == DPK_PIECES ? dpk_view_run(&call->scores, start) : NULL;
    s->score = s->high;
    if (s->high) return;
    dpk_load_real(&call->scores, start, (size_t)n, s->high_buffer, s->low);
    for (int64_t i = n; i < s->width; i++) s->high_buffer[i] = -LARGEST_SCORE;
    s->score = s->high = s->high_buffer;
    if (call->scores.dtype != DPK_I64) return;
    for (int64_t i = n; i < s->width; i++) s->low[i] = 0.0;
    for (int64_t i = 0; i < s->width; i++) s->sum[i] = s->high_buffer[i] + s->low[i];
    s->score = s->sum;
}

static double clamped(double score) {
    double below = score < LARGEST_SCORE ? score : LARGEST_SCORE;
    return below > -LARGEST_SCORE ? below : -LARGEST_SCORE;
}

/* Post: of the largest score of the block and a sum of them, which may overflow, its bound; *bad the position of its first score that is
   not finite, or -1. Errors: none. */
static double as_bound(const selector *s, double most, double sum, int64_t *bad) {
    *bad = -1;
    if (isfinite(sum)) return clamped(most); /* so are all scores */
    int64_t at = dpk_first_bad(s->call->kernels->scan.all_finite, s->high, (size_t)s->n);
    if (at >= 0) *bad = s->block * DPK_PIECES + at;
    return clamped(most);
}

static double bound_of(const selector *s, int64_t *bad) {
    double sum, most = s->call->kernels->selection.largest(s->score, (size_t)s->width, &sum);
    return as_bound(s, most, sum, bad);
}

/* A threshold before any element is filed: that of the most promising ones of the block at hand, `keep` of them. They are not filed: their
   keys reach it, so that they are met again as all others that can. Errors: none that evaluating so few can have. */
static dpk_status foresee(selector *s) {
    const dpk_selection *call = s->call;
    const uint16_t *pieces = s->random.pieces;
    const int64_t keep = call->keep, has_low = call->scores.dtype == DPK_I64;
    const double slope = INVERSE_LN2 / call->scale;
    double promises[MOST_FORESEEN];
    int64_t n = 0;
    if (s->threshold.is_set || s->count + s->n_waiting > 0 || call->is_unpruned || keep > MOST_FORESEEN) return DPK_OK;
    for (int64_t i = 0; i < s->n; i++) {
        const float piece = (float)(pieces[i] + 1);
        const int64_t index = s->block * DPK_PIECES + i;
        uint32_t bits;
        memcpy(&bits, &piece, 4);
        const double promise = s->score[i] * slope - bits * (1 / LOG2_UNIT);
        if ((n == keep && !(promise > promises[n - 1])) || is_excluded(call, index)) continue;
        int64_t place = n < keep ? n++ : n - 1;
        for (; place > 0 && promise > promises[place - 1]; place--) {
            promises[place] = promises[place - 1];
            s->waiting[place] = s->waiting[place - 1];
        }
        promises[place] = promise;
        s->waiting[place] = (contender){index, clamped(s->high[i]), has_low ? s->low[i] : 0.0, pieces[i]};
    }
    s->n_waiting = n;
    const dpk_status status = n < keep ? DPK_OK : evaluate(s);
    s->count = s->n_waiting = s->n_evaluated = 0;
    return status;
}

/* 64 elements some of which may be contenders, of those whose pieces are from `from` to `to`. Errors: DPK_PENDING_FULL: places do not
   suffice. */
static dpk_status visit_group(selector *s, int64_t first, uint16_t from, uint16_t to) {
    const dpk_selection *call = s->call;
    const uint16_t *pieces = s->random.pieces;
    uint64_t hits[64];
    int64_t end = s->n - first < 64 ? s->n - first : 64, has_low = call->scores.dtype == DPK_I64;
    call->kernels->selection.within_reach(pieces + first, s->score + first, &s->reach, hits);
    for (int64_t i = 0; i < end; i++) {
        const uint64_t *h = hits + i;
        if (i % 8 == 0 && !(h[0] | h[1] | h[2] | h[3] | h[4] | h[5] | h[6] | h[7])) {
            i += 7; /* most groups have one hit or two */
            continue;
        }
        int64_t lane = first + i, index = s->block * DPK_PIECES + lane;
        if (!hits[i] || pieces[lane] < from || pieces[lane] > to || is_excluded(call, index)) continue;
        s->waiting[s->n_waiting++] = (contender){index, clamped(s->high[lane]), has_low ? s->low[lane] : 0.0, pieces[lane]};
        if (s->n_waiting < DPK_MORE_LANES) continue;
        if (evaluate(s) != DPK_OK) return DPK_PENDING_FULL;
        call->kernels->selection.within_reach(pieces + first, s->score + first, &s->reach, hits); /* the threshold may have risen */
    }
    return DPK_OK;
}

/* The contenders of a block whose pieces are from `from` to `to`. Errors: as above. */
static dpk_status visit_pieces(selector *s, uint16_t from, uint16_t to) {
    uint32_t groups = s->call->kernels->selection.any_at_most(s->random.pieces, to, (size_t)s->width);
    for (int64_t g = 0; groups >> g; g++)
        if (groups >> g & 1 && visit_group(s, 64 * g, from, to) != DPK_OK) return DPK_PENDING_FULL;
    /* of few wanted ones, a contender is often the best one so far: the next need not wait for company to be compared with it */
    return s->call->keep < DPK_MORE_LANES ? evaluate(s) : DPK_OK;
}

/* The first block of all: what is likely to win comes first, whatever its score, so that the others meet a threshold. Errors: as above. */
static dpk_status visit_first(selector *s) {
    enum { LIKELY = 1024 }; /* one in 64; its logarithm is 10 */
    s->reach = (dpk_reach){-LARGEST_SCORE, 0.0, 0.0, LOG2_ZERO + 10 * LOG2_UNIT};
    dpk_status status = visit_pieces(s, 0, LIKELY);
    set_threshold(s, s->threshold);
    return status == DPK_OK ? visit_pieces(s, LIKELY + 1, 0xffff) : status;
}

/* Post: the block's random words, and the bound of its scores, which is noted already or taken beside the words; *bad the position of the
   first score that is not finite, or -1; no piece is below *least. Errors: none. */
static double open_block(selector *s, int64_t block, uint16_t *least, int64_t *bad) {
    const dpk_selection *call = s->call;
    const uint64_t group = s->first_element / DPK_PIECES + (uint64_t)block;
    *bad = -1;
    *least = 0;
    if (!call->bounds) load_block(s, block);
    if (!call->bounds && s->high != s->high_buffer && call->stream.cipher == DPK_AES256 && call->kernels->selection.beside) {
        dpk_ends ends;
        call->kernels->selection.beside(&call->stream, dpk_tag(DPK_DOMAIN_SELECTION, 0, 0), group, s->random.words, s->high, &ends);
        *least = ends.least;
        return as_bound(s, ends.largest, ends.sum, bad);
    }
    dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_SELECTION, group, 1, s->random.words);
    return call->bounds ? call->bounds[block] : bound_of(s, bad);
}

/* Post: the block's contenders are filed or waiting. Errors: DPK_NONFINITE with *bad its position; DPK_PENDING_FULL: places do not suffice.
 */
static dpk_status visit_block(selector *s, int64_t block, int64_t *bad) {
    uint16_t least;
    const double bound = open_block(s, block, &least, bad);
    if (*bad >= 0) return DPK_NONFINITE;
    if (!s->call->bounds && foresee(s) != DPK_OK) return DPK_PENDING_FULL;
    const uint16_t most = largest_piece(reach(&s->reach, bound));
    if (least > most) return DPK_OK;
    if (s->call->bounds) {
        int64_t left = s->call->n - block * DPK_PIECES;
        size_t width = left < DPK_PIECES ? (size_t)(left + 63) / 64 * 64 : DPK_PIECES;
        if (!s->call->kernels->selection.any_at_most(s->random.pieces, most, width)) return DPK_OK;
        load_block(s, block);
    }
    if (!s->threshold.is_set && s->count == 0 && !s->call->is_unpruned) return visit_first(s);
    return visit_pieces(s, 0, most);
}

static dpk_status visit_unit(selector *s, int64_t unit, int64_t *bad) {
    int64_t first = unit * DPK_UNIT_BLOCKS, n_blocks = blocks_of(s->call);
    for (int64_t block = first; block < first + DPK_UNIT_BLOCKS && block < n_blocks; block++) {
        dpk_status status = visit_block(s, block, bad);
        if (status != DPK_OK) return status;
    }
    return DPK_OK;
}

static void open_selector(selector *s, const dpk_selection *call, uint64_t round, dpk_candidate *places, int64_t capacity) {
    s->call = call;
    s->first_element = call->first_element + round * call->stride;
    s->places = places;
    s->capacity = capacity;
    s->count = s->n_waiting = s->n_evaluated = 0;
    set_threshold(s, (dpk_threshold){0.0, 0.0, 0});
}

/* Post: as dpk_selection_run's. All that it works on lies in the selector, or in frames below the one of its caller. */
DPK_NOINLINE dpk_status visit(selector *s, int64_t start, int64_t stop, int64_t *bad) {
    const dpk_selection *call = s->call;
    for (int64_t position = start; position < stop; position++) {
        dpk_status status = visit_unit(s, (int64_t)((uint64_t)position * (uint64_t)call->step % (uint64_t)call->n_units), bad);
        if (status != DPK_OK) return status;
    }
    dpk_status status = evaluate(s);
    if (status == DPK_OK && s->count > call->keep) drop_losers(s);
    return status;
}

/* Scores and noise leave the stack: of a small call that is little of a selector. */
static void close_selector(selector *s) {
    const dpk_selection *call = s->call;
    if (call->n > DPK_PIECES) dpk_wipe(s, sizeof *s);
    else {
        size_t width = (size_t)(call->n + 63) / 64 * 64 * sizeof *s->sum;
        dpk_wipe(s->waiting, sizeof s->waiting);
        dpk_wipe(&s->random, sizeof s->random);
        dpk_wipe(s->high_buffer, width);
        dpk_wipe(s->low, width);
        dpk_wipe(s->sum, width);
    }
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
}

/* Pre: 0 <= start <= stop <= n_units; capacity >= 2 keep + DPK_SPARE_PLACES. Post: of the units visited, every element that can be among
   the `keep` largest is in places[0..*count); *threshold is raised; *evaluated says how many were. Errors: DPK_NONFINITE with *bad the
   position of a score; DPK_PENDING_FULL: start again with more places. Source: docs/exactness-selection.md. */
int dpk_selection_run(const dpk_selection *call, uint64_t round, int64_t start, int64_t stop, dpk_candidate *places, int64_t capacity,
                      int64_t *count, dpk_threshold *threshold, int64_t *evaluated, int64_t *bad) {
    selector s;
    open_selector(&s, call, round, places, capacity);
    set_threshold(&s, *threshold);
    dpk_status status = visit(&s, start, stop, bad);
    *count = s.count;
    *evaluated = s.n_evaluated;
    *threshold = s.threshold;
    close_selector(&s);
    return status;
}

/* As dpk_selection_winner, but that the selector is left to be closed. */
static int find_winner(selector *s, const dpk_selection *call, uint64_t round, dpk_candidate *places, int64_t capacity, int64_t *winner,
                       int64_t *bad) {
    open_selector(s, call, round, places, capacity);
    int status = visit(s, 0, call->n_units, bad);
    const int64_t count = s->count;
    *winner = -1;
    if (status != DPK_OK) return status == DPK_PENDING_FULL ? DPK_OK : status;
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (is_above(&places[i], &places[best])) best = i;
    for (int64_t i = 0; i < count; i++) {
        double below = (places[best].high - places[i].high) + (places[best].low - places[i].low);
        if (i != best && !(below > places[best].error + places[i].error)) return DPK_OK;
    }
    if (isfinite(places[best].error) || count == 1) *winner = places[best].index;
    return DPK_OK;
}

/* Pre: as above, keep = 1. Post: *winner is the element with the largest key, or -1 if only the exact tier can tell. Errors: as above. */
int dpk_selection_winner(const dpk_selection *call, uint64_t round, dpk_candidate *places, int64_t capacity, int64_t *winner,
                         int64_t *bad) {
    selector s;
    int status = find_winner(&s, call, round, places, capacity, winner, bad);
    close_selector(&s);
    return status;
}

/* Pre: as for dpk_selection_run. Post: chosen[0..keep) are the elements with the largest keys, the largest first, or chosen[0] is -1 where
   the candidates are many, or so close that only the exact tier can tell. Errors: DPK_NONFINITE with *bad the position of a score. */
int dpk_selection_ranked(const dpk_selection *call, uint64_t round, dpk_candidate *places, int64_t capacity, int64_t *chosen,
                         int64_t *evaluated, int64_t *bad) {
    int64_t count;
    double widest = 0.0;
    dpk_threshold threshold = {0.0, 0.0, 0};
    int status = dpk_selection_run(call, round, 0, call->n_units, places, capacity, &count, &threshold, evaluated, bad);
    chosen[0] = -1;
    if (status != DPK_OK) return status == DPK_PENDING_FULL ? DPK_OK : status;
    if (count > DPK_FEW_CANDIDATES) return DPK_OK;
    sort_places(places, count);
    for (int64_t i = 0; i < count; i++) widest = places[i].error > widest ? places[i].error : widest;
    for (int64_t i = 0; i < call->keep && i + 1 < count; i++) {
        double gap = (places[i].high - places[i + 1].high) + (places[i].low - places[i + 1].low);
        if (!(gap > 2.0 * widest)) return DPK_OK;
    }
    for (int64_t i = 0; i < call->keep; i++) chosen[i] = places[i].index;
    return DPK_OK;
}

/* Post: the bounds of blocks [start, stop). Errors: DPK_NONFINITE with *bad the position of a score. */
int dpk_selection_bounds(const dpk_selection *call, int64_t start, int64_t stop, int64_t *bad) {
    selector s;
    s.call = call;
    for (int64_t block = start; block < stop; block++) {
        load_block(&s, block);
        call->bounds[block] = bound_of(&s, bad);
        if (*bad >= 0) return DPK_NONFINITE;
    }
    return DPK_OK;
}

/* Post: the bound of a block some of whose elements are excluded by now. Errors: none. */
void dpk_selection_rebound(const dpk_selection *call, int64_t block) {
    selector s;
    double x[DPK_PIECES];
    int64_t bad;
    s.call = call;
    load_block(&s, block);
    memcpy(x, s.score, (size_t)s.width * sizeof *x);
    for (int64_t i = 0; i < s.n; i++)
        if (is_excluded(call, block * DPK_PIECES + i)) x[i] = -LARGEST_SCORE;
    s.score = x;
    call->bounds[block] = bound_of(&s, &bad);
}

/* Inserts a winner among those of the `before` rounds before, ascending, and leaves it out of the further rounds. */
static void exclude(dpk_selection *call, int64_t *excluded, int64_t before, int64_t winner) {
    int64_t place = before;
    for (; place > 0 && excluded[place - 1] > winner; place--) excluded[place] = excluded[place - 1];
    excluded[place] = winner;
    call->n_excluded = before + 1;
    if (call->bounds) dpk_selection_rebound(call, winner / DPK_PIECES);
}

/* Pre: as for dpk_selection_winner; `excluded` and `chosen` have room for so many rounds. Post: chosen[r] is the winner of round r without
   those of the rounds before, or chosen[0] is -1 where only the exact tier can tell. Errors: as dpk_selection_winner's. */
int dpk_selection_peel(dpk_selection *call, int64_t rounds, dpk_candidate *places, int64_t capacity, int64_t *excluded, int64_t *chosen,
                       int64_t *bad) {
    selector s;
    int status = call->bounds ? dpk_selection_bounds(call, 0, blocks_of(call), bad) : DPK_OK, is_found = 1;
    call->excluded = excluded;
    s.call = call;
    for (int64_t round = 0; status == DPK_OK && is_found && round < rounds; round++) {
        status = find_winner(&s, call, (uint64_t)round, places, capacity, &chosen[round], bad);
        is_found = status != DPK_OK || chosen[round] >= 0;
        if (status == DPK_OK && is_found) exclude(call, excluded, round, chosen[round]);
    }
    if (!is_found) chosen[0] = -1;
    close_selector(&s);
    return status;
}
