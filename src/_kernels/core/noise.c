/* The way of a call: blocks of words in L1, one kernel of the level, the undecided samples once more in the accurate tier. */
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "dpk_kernels.h"

/* Error bounds of a unit sample, in multiples of u = 2^-53: alpha + beta |sample|. docs/exactness.md. */
static const double ALPHA = 8 * 0x1p-53, BETA_LAPLACE = 5 * 0x1p-53, BETA_GAUSSIAN = 10 * 0x1p-53, SLACK = 0x1p-50;

enum {
    DPK_PARAMETERS = DPK_BLOCK + 256, /* of lanes: as many as a block has, and a row that repeats */
    FEW_ENTRIES = 16                  /* of a table that is searched from its beginning */
};

/* Buffers of one block, all in L1, and where the block lies. Their sizes are multiples of a cache line, at which the first one begins: a
   vector that lies in two lines costs two loads. */
typedef struct {
    _Alignas(64) uint64_t words[DPK_BLOCK];
    uint64_t table_words[DPK_BLOCK];
    double x[DPK_BLOCK], x_low[DPK_BLOCK], y[DPK_BLOCK];
    int64_t x_int[DPK_BLOCK], y_int[DPK_BLOCK], z[DPK_BLOCK];
    int64_t which[DPK_PARAMETERS];
    double step[DPK_PARAMETERS], grid[DPK_PARAMETERS], inverse[DPK_PARAMETERS];
    uint16_t accept[4 * DPK_GROUP];
    const dpk_noise_call *call;
    int64_t start;    /* first position of the block in the arrays */
    size_t offset, n; /* lanes [offset, offset + n) of `width` are wanted */
    size_t width;
    uint64_t element; /* keystream index of lane 0 */
    dpk_lanes lanes;
    int has_table, has_rounded; /* laws of discrete Gaussian noise of which the call has any */
    const double *in;           /* the values of a float kind: x, or where they lie; of a discrete kind */
    const int64_t *in_int;
    int is_stored; /* the sums are in the caller's array already */
    size_t period; /* of the lanes' parameters, or 0 */
    const int64_t *laws_of_lanes;
    char *late;       /* where results of the block before go, past the cache, while this one's words are drawn */
    const char *owed; /* the first of them that is not there yet */
    size_t n_owed;
} block;

typedef struct {
    dpk_pending *items;
    int64_t capacity, count;
} pending_list;

static int is_discrete(int kind) { return kind >= DPK_DISCRETE_LAPLACE; }

/* Pre: the scales of n lanes from lane `at` on. Post: they, their grids and the inverses of these. Errors: none. */
static void set_scales(block *b, size_t at, size_t n, const double *scales) {
    const dpk_noise_call *call = b->call;
    call->kernels->noise.grid_lanes(scales, call->fixed_grid, b->step + at, b->grid + at, b->inverse + at, n);
}

/* Parameters of the block's lanes from `at` on. */
static void load_parameters(block *b, int64_t start, size_t at, size_t n) {
    const dpk_noise_call *call = b->call;
    if (call->has_scales) {
        double scales[DPK_PARAMETERS];
        const double *run = call->scales.dtype == DPK_F64 ? dpk_view_run(&call->scales, start) : NULL;
        if (!run) dpk_load_real(&call->scales, start, n, scales, scales);
        set_scales(b, at, n, run ? run : scales);
    } else {
        const void *run = dpk_view_run(&call->which, start);
        if (run) call->kernels->response.widen(run, call->which.dtype, n, b->which + at);
        else dpk_load_int(&call->which, start, n, b->which + at);
        /* of tables, too, without a branch: their lanes are written over */
        if (call->kind == DPK_DISCRETE_LAPLACE || b->has_rounded)
            call->kernels->noise.law_lanes(call->steps, call->seconds, b->which + at, b->step + at, b->grid + at, n);
    }
}

/* Items after which the parameters begin anew, if that is often; 0 if not. */
static size_t parameter_period(const dpk_noise_call *call) {
    const dpk_view *v = call->has_scales ? &call->scales : &call->which;
    const int repeats = v->ndim == 2 && v->strides[0] == 0 && v->shape[1] <= DPK_PARAMETERS - DPK_BLOCK;
    return repeats ? (size_t)v->shape[1] : 0;
}

/* Where the lanes' parameters lie: those of a row that repeats are made once, and each block begins elsewhere among them. */
static void place_parameters(block *b) {
    dpk_lanes *p = &b->lanes;
    if (p->uniform) return;
    size_t shift = 0;
    if (b->period) shift = (size_t)((b->start + (int64_t)(b->period * DPK_BLOCK - b->offset)) % (int64_t)b->period);
    else load_parameters(b, b->start, b->offset, b->n);
    p->step_scale = b->step + shift;
    p->grid = p->offset = p->quick = b->grid + shift;
    p->inverse_grid = b->inverse + shift;
    b->laws_of_lanes = b->which + shift;
}

static dpk_law law_of(const block *b, size_t lane) {
    const dpk_noise_call *call = b->call;
    if (call->has_scales) {
        dpk_law law;
        memset(&law, 0, sizeof law);
        law.kind = call->kind;
        law.step_scale = b->lanes.step_scale[lane];
        law.grid = b->lanes.grid[lane];
        law.inverse_grid = b->lanes.inverse_grid[lane];
        return law;
    }
    return call->laws[call->n_laws > 1 ? b->laws_of_lanes[lane] : 0];
}

static dpk_sample sample_of(const block *b, const dpk_law *law, size_t lane) {
    const dpk_noise_call *call = b->call;
    uint64_t element = b->element + lane;
    const uint64_t *words = law->kind == DPK_GAUSSIAN_TABLE ? b->table_words : b->words;
    return (dpk_sample){
        &call->stream, call->kernels, law, element, words + lane / DPK_GROUP * DPK_GROUP, b->accept[element % (4 * DPK_GROUP)]};
}

static dpk_status add_pending(pending_list *list, const block *b, size_t lane, double x_low, int64_t x_int) {
    if (list->count == list->capacity) return DPK_PENDING_FULL;
    dpk_pending *p = &list->items[list->count++];
    p->index = b->start + (int64_t)(lane - b->offset);
    p->element = b->element + lane;
    p->x = is_discrete(b->call->kind) ? 0.0 : b->in[lane];
    p->x_low = x_low;
    p->x_int = x_int;
    p->law = b->call->n_laws > 1 ? b->laws_of_lanes[lane] : 0;
    return DPK_OK;
}

/* Starts a block at `position`: the lanes it covers and their bulk words. */
static void open_block(block *b, int64_t position, int64_t stop) {
    const dpk_noise_call *call = b->call;
    const dpk_span span = dpk_span_at(call->first_element, position, stop, DPK_BLOCK, DPK_BLOCK);
    b->start = position;
    b->offset = span.offset % DPK_GROUP; /* whole groups before the first wanted lane are not drawn */
    b->element = span.element - b->offset;
    b->n = span.n;
    b->width = (b->offset + b->n + DPK_GROUP - 1) / DPK_GROUP * DPK_GROUP;
    place_parameters(b);
}

/* Stores at most n of the results that the block before has left. A burst of such stores would wait for the memory; a few of them at a time
   do so while a cipher computes. */
static void pay(block *b, size_t n) {
    if (!b->n_owed) return;
    if (n < b->n_owed) n -= (uintptr_t)b->late / 8 % 8; /* up to the end of a cache line */
    else n = b->n_owed;
    b->call->kernels->noise.past_cache(b->late, n, b->owed);
    b->late += 8 * n;
    b->owed += 8 * n;
    b->n_owed -= n;
}

static void draw_groups(block *b, uint32_t domain, uint64_t *words) {
    const dpk_noise_call *call = b->call;
    for (size_t g = 0; g < b->width / DPK_GROUP; g++) {
        dpk_bulk_words(&call->stream, call->kernels, domain, b->element / DPK_GROUP + g, 1, words + g * DPK_GROUP);
        pay(b, DPK_GROUP);
    }
}

/* An element that is inverted from a table has a word of its own, which the pair that its neighbour belongs to does not read. */
static void draw_words(block *b) {
    const dpk_noise_call *call = b->call;
    if (b->has_table) draw_groups(b, DPK_DOMAIN_TABLE, b->table_words);
    if (!b->has_table || b->has_rounded) draw_groups(b, DPK_DOMAIN_BULK, b->words);
    if (b->has_rounded) {
        uint64_t accept[DPK_GROUP];
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_ACCEPT, b->element / (4 * DPK_GROUP), 1, accept);
        memcpy(b->accept, accept, sizeof accept);
        dpk_wipe(accept, sizeof accept);
    }
    pay(b, b->n_owed);
}

/* Fixes the undecided lanes of a float block. A non-finite input stops the call. */
static dpk_status settle_real(block *b, int has_low, pending_list *list, int64_t *bad) {
    const dpk_noise_call *call = b->call;
    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        if (!isnan(b->y[i])) continue;
        if (!isfinite(b->in[i])) {
            *bad = b->start + (int64_t)(i - b->offset);
            return DPK_NONFINITE;
        }
        dpk_law law = law_of(b, i);
        double low = has_low ? b->x_low[i] : 0.0;
        dpk_sample sample = sample_of(b, &law, i);
        if (call->tier < DPK_TIER_EXACT && dpk_accurate_real(&sample, b->in[i], low, &b->y[i]) == DPK_DECIDED) continue;
        if (add_pending(list, b, i, low, 0) != DPK_OK) return DPK_PENDING_FULL;
    }
    return DPK_OK;
}

/* Whether every lane that is computed is wanted, so that the arrays themselves can be read and written. */
static int is_whole(const block *b) { return b->n == b->width; }

/* The block's values, clamped if the call has bounds; returns whether x_low is part of them. */
static int load_values(block *b) {
    const dpk_noise_call *call = b->call;
    const dpk_bounds *bounds = &call->bounds;
    const int32_t dtype = call->values.dtype;
    double *x = b->x + b->offset, *x_low = b->x_low + b->offset;
    b->in = b->x;
    if (!bounds->is_set && dtype == DPK_F64 && is_whole(b) && dpk_view_run(&call->values, b->start)) {
        b->in = dpk_view_run(&call->values, b->start);
        return 0;
    }
    if (bounds->is_set && bounds->is_integral && (dtype == DPK_I64 || dtype == DPK_U64)) {
        int64_t *items = b->x_int + b->offset;
        dpk_load_int(&call->values, b->start, b->n, items);
        call->kernels->noise.clamp_int(bounds, items, b->n);
        dpk_split_int(items, b->n, x, x_low);
        return 1;
    }
    dpk_load_real(&call->values, b->start, b->n, x, x_low);
    if (!bounds->is_set) return dtype == DPK_I64 || dtype == DPK_F64_PAIR;
    if (dtype == DPK_I64) /* bounds that are no integers: the nearest double, which is what is clamped */
        for (size_t i = 0; i < b->n; i++) x[i] += x_low[i];
    call->kernels->noise.clamp_real(bounds, x, b->n);
    return 0;
}

static dpk_status run_real(block *b, pending_list *list, int64_t *bad) {
    const dpk_noise_call *call = b->call;
    const dpk_kernels *k = call->kernels;
    int undecided = 1;
    const int has_low = load_values(b);
    if (call->tier == DPK_TIER_FAST)
        undecided = (call->kind == DPK_LAPLACE ? k->noise.laplace : k->noise.gaussian)(&b->lanes, b->words, b->in,
                                                                                       has_low ? b->x_low : NULL, b->y, b->width);
    else
        for (size_t i = 0; i < b->width; i++) b->y[i] = NAN;
    return undecided ? settle_real(b, has_low, list, bad) : DPK_OK;
}

static dpk_status settle_int(block *b, pending_list *list) {
    const dpk_noise_call *call = b->call;
    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        if (b->z[i] != DPK_OPEN) continue;
        dpk_law law = law_of(b, i);
        dpk_sample sample = sample_of(b, &law, i);
        const int may_retry = call->tier == DPK_TIER_FAST && law.kind == DPK_GAUSSIAN_ROUNDED;
        if (may_retry && dpk_retry_rounded(&sample, &b->lanes, &b->z[i]) == DPK_DECIDED) continue;
        if (call->tier < DPK_TIER_EXACT && dpk_accurate_int(&sample, &b->z[i]) == DPK_DECIDED) continue;
        if (add_pending(list, b, i, 0.0, b->in_int[i]) != DPK_OK) return DPK_PENDING_FULL;
    }
    return DPK_OK;
}

/* The discrete kernels over the block. */
static int sample_int(block *b) {
    const dpk_noise_call *call = b->call;
    const dpk_noise_kernels *k = &call->kernels->noise;
    int undecided = 0;
    if (call->tier != DPK_TIER_FAST) {
        for (size_t i = 0; i < b->width; i++) b->z[i] = DPK_OPEN;
        return 1;
    }
    if (call->kind == DPK_DISCRETE_LAPLACE) return k->discrete_laplace(&b->lanes, b->words, b->z, b->width);
    if (b->has_rounded) undecided |= k->gaussian_rounded(&b->lanes, b->words, b->accept + b->element % (4 * DPK_GROUP), b->z, b->width);
    if (b->has_table && call->n_laws > 1)
        undecided |= k->gaussian_guided(call->laws, call->guides, b->laws_of_lanes, b->table_words, b->z, b->width);
    else if (b->has_table && call->laws[0].table.n_short > FEW_ENTRIES)
        undecided |= k->gaussian_guided(call->laws, call->laws[0].table.guide, NULL, b->table_words, b->z, b->width);
    else if (b->has_table) undecided |= k->gaussian_table(&call->laws[0].table, b->table_words, b->z, b->width);
    return undecided;
}

/* The block's integers, clamped if the call has bounds. What is written in place is read into scratch first: the sum takes no overlap. */
static void load_integers(block *b) {
    const dpk_noise_call *call = b->call;
    const int64_t *run = NULL;
    if (!call->bounds.is_set && call->values.dtype == DPK_I64 && is_whole(b) && call->values.data != call->out.data)
        run = dpk_view_run(&call->values, b->start);
    b->in_int = run ? run : b->x_int;
    if (run) return;
    dpk_load_int(&call->values, b->start, b->n, b->x_int + b->offset);
    if (call->bounds.is_set) call->kernels->noise.clamp_int(&call->bounds, b->x_int + b->offset, b->n);
}

static dpk_status run_int(block *b, pending_list *list) {
    const dpk_noise_call *call = b->call;
    const int64_t before = list->count;
    load_integers(b);
    if (sample_int(b)) {
        dpk_status status = settle_int(b, list);
        if (status != DPK_OK) return status;
    }
    int64_t *out = list->count == before && is_whole(b) && !call->streams ? dpk_view_run(&call->out, b->start) : NULL;
    b->is_stored = out != NULL;
    call->kernels->noise.add_saturating(b->in_int, b->z, out ? out : b->y_int, b->width);
    return DPK_OK;
}

static void set_lanes(block *b) {
    const dpk_noise_call *call = b->call;
    const dpk_law *law = &call->laws[0];
    dpk_lanes *p = &b->lanes;
    double f = call->bound_factor;
    p->alpha = f * ALPHA;
    p->beta = f * (call->kind == DPK_LAPLACE || call->kind == DPK_DISCRETE_LAPLACE ? BETA_LAPLACE : BETA_GAUSSIAN);
    p->slack = f * SLACK;
    p->uniform = !call->has_scales && call->n_laws <= 1;
    p->step_scale = b->step;
    p->grid = b->grid;
    p->inverse_grid = b->inverse;
    p->offset = b->grid;
    p->quick = b->grid;
    b->has_table = b->has_rounded = 0;
    for (int64_t i = 0; i < call->n_laws && is_discrete(call->kind); i++) {
        b->has_table |= call->laws[i].kind == DPK_GAUSSIAN_TABLE;
        b->has_rounded |= call->laws[i].kind == DPK_GAUSSIAN_ROUNDED;
    }
    if (!p->uniform) return;
    dpk_law_parameters(law, b->step, b->grid);
    b->inverse[0] = law->inverse_grid;
}

/* Pre: scale normal, grid a power of two. Post: the law in units of the grid. Errors: none. */
void dpk_law_set_grid(dpk_law *law, double scale, double grid) {
    law->step_scale = scale / grid;
    law->grid = grid;
    law->inverse_grid = 1.0 / grid; /* subnormal for the largest grid */
}

/* Post: the scale in units of the grid, and what else a lane takes of its law: the grid, t c - 1/2, or the quick acceptance. Errors: none.
 */
void dpk_law_parameters(const dpk_law *law, double *step, double *second) {
    *step = law->step_scale;
    *second = law->grid;
    if (law->kind == DPK_DISCRETE_LAPLACE) *second = law->step_scale * law->offset_high - 0.5;
    if (law->kind >= DPK_GAUSSIAN_TABLE) *second = law->acceptance.quick;
}

/* Pre: at most 255 short entries, which rise; 0 if the law has no table. Post: its guide. Errors: none. */
void dpk_guide_set(const dpk_table *table, uint64_t guide[DPK_GUIDES]) {
    const uint32_t *entries = table->short_;
    uint32_t below = 0, n = (uint32_t)table->n_short;
    for (uint64_t part = 0; part < DPK_GUIDES; part++) {
        const uint64_t end = (part + 1) << DPK_GUIDE_SHIFT;
        while (below < n && entries[below] < part << DPK_GUIDE_SHIFT) below++;
        const int several = below + 1 >= n || entries[below + 1] < end;
        guide[part] =
            n == 0 ? DPK_GUIDE_NONE : (below < n ? entries[below] : 0) | (uint64_t)below << 32 | (several ? DPK_GUIDE_SEVERAL : 0);
    }
}

/* Lanes outside the array are computed too, and dropped: give them values that are numbers. */
static void clear_spare_lanes(block *b, int64_t size) {
    size_t lanes = size < DPK_GROUP ? 2 * DPK_GROUP : DPK_BLOCK;
    memset(b->x, 0, lanes * sizeof *b->x);
    memset(b->x_low, 0, lanes * sizeof *b->x_low);
    memset(b->x_int, 0, lanes * sizeof *b->x_int);
    if (b->lanes.uniform) return;
    b->period = parameter_period(b->call);
    if (b->period) {
        load_parameters(b, 0, 0, DPK_PARAMETERS);
        return;
    }
    memset(b->step, 0, sizeof b->step);
    memset(b->grid, 0, sizeof b->grid);
    memset(b->inverse, 0, sizeof b->inverse);
    memset(b->which, 0, sizeof b->which);
}

/* Stores the block but for what it added to the pending list: those places keep what they hold until the exact tier has decided. */
static void store_block(block *b, const pending_list *list, int64_t before) {
    const char *item = is_discrete(b->call->kind) ? (const char *)(b->y_int + b->offset) : (const char *)(b->y + b->offset);
    if (b->is_stored) return;
    if (b->call->streams && b->call->out.dtype != DPK_F32 && list->count == before && dpk_view_run(&b->call->out, b->start)) {
        b->late = dpk_view_run(&b->call->out, b->start);
        b->owed = item;
        b->n_owed = b->n;
        return;
    }
    size_t done = 0;
    for (int64_t i = before; i < list->count; i++) {
        size_t place = (size_t)(list->items[i].index - b->start);
        dpk_store(&b->call->out, b->start + (int64_t)done, place - done, item + 8 * done);
        done = place + 1;
    }
    dpk_store(&b->call->out, b->start + (int64_t)done, b->n - done, item + 8 * done);
}

/* Records, random words and samples in the lanes that blocks of at most `width` lanes have used, and what lies on the stack. */
static void wipe_block(block *b, size_t width) {
    const size_t size = 8 * width;
    dpk_wipe(b->words, size);
    dpk_wipe(b->x, size);
    dpk_wipe(b->x_low, size);
    if (is_discrete(b->call->kind) || b->call->bounds.is_set) dpk_wipe(b->x_int, size);
    if (!is_discrete(b->call->kind)) {
        dpk_wipe(b->y, size);
        dpk_wipe_frames(DPK_REAL_DEPTH);
        return;
    }
    if (b->has_table) dpk_wipe(b->table_words, size);
    dpk_wipe(b->y_int, size);
    dpk_wipe(b->z, size);
    dpk_wipe(b->accept, sizeof b->accept);
    dpk_wipe_frames(DPK_DISCRETE_DEPTH);
}

/* Pre: 0 <= start <= stop <= size; out may be the values themselves. Post: out[start, *reached) is written, but for the pending items,
   and nothing else; the scratch is wiped.
   Errors: DPK_NONFINITE with *reached the position, nothing of that block written; DPK_PENDING_FULL: resume at *reached.
   Source: docs/exactness.md. */
int dpk_noise_run(const dpk_noise_call *call, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity, int64_t *n_pending,
                  int64_t *reached) {
    block b;
    pending_list list = {pending, capacity, 0};
    dpk_status status = DPK_OK;
    size_t width = 0; /* of the widest block */
    b.call = call;
    b.is_stored = 0;
    b.n_owed = 0;
    set_lanes(&b);
    clear_spare_lanes(&b, stop - start);
    *reached = start;
    while (*reached < stop) {
        int64_t before = list.count, bad = 0;
        open_block(&b, *reached, stop);
        if (b.width > width) width = b.width;
        draw_words(&b);
        status = is_discrete(call->kind) ? run_int(&b, &list) : run_real(&b, &list, &bad);
        if (status != DPK_OK) {
            list.count = before;
            if (status == DPK_NONFINITE) *reached = bad;
            break;
        }
        store_block(&b, &list, before);
        *reached += (int64_t)b.n;
    }
    pay(&b, b.n_owed);
    if (call->streams) dpk_stores_done();
    wipe_block(&b, width);
    *n_pending = list.count;
    return status;
}
