/* Points and hyperplanes of a projective space over a finite field: reports of one of the points, and the counts of all hyperplanes.

   A point is a vector of t field elements whose last one that is not 0 is 1. With m elements before that one its number is
   (q^m - 1)/(q - 1) + (the elements as digits, the first the least). Category c stands for the hyperplane of the points y with
   sum_i u[t - 1 - i] y[i] = 0, where u is the point of number c. */
#include <string.h>

#include "blocks.h"
#include "dpk_kernels.h"

enum { MOST = DPK_MOST_DIMENSIONS };

static uint32_t times(const dpk_field *f, uint32_t a, uint32_t b) { return a && b ? f->exp[f->log[a] + f->log[b]] : 0; }

static uint32_t plus(const dpk_field *f, uint32_t a, uint32_t b) {
    if (f->sum) return f->sum[a * f->q + b];
    return a + b < f->q ? a + b : a + b - f->q;
}

static uint32_t minus(const dpk_field *f, uint32_t a) {
    if (f->sum) return times(f, f->minus_one, a);
    return a ? f->q - a : 0;
}

/* The digits of a number of a point before its one, and their number. */
static int digits_of(const dpk_field *f, uint32_t point, uint32_t *digits) {
    int m = 0;
    while (m + 1 < f->t && point >= f->offsets[m + 1]) m++;
    point -= f->offsets[m];
    for (int i = 0; i < m; i++, point /= f->q) digits[i] = point % f->q;
    return m;
}

/* Pre: choice < offsets[t - 1], the points of a hyperplane, if `inside`, else choice < q^(t - 1), the other points. Post: the number of
   that point for the category's hyperplane, one to one. Errors: none. Source: docs/exactness-local.md, "Projective geometry". */
static uint32_t point_of(const dpk_field *f, uint32_t category, uint32_t choice, int inside) {
    uint32_t u[MOST], y[MOST] = {0};
    const int t = f->t, solved = t - 1 - digits_of(f, category, u);
    uint32_t others[MOST] = {0};
    if (inside) others[digits_of(f, choice, others)] = 1;
    else
        for (int i = 0; i < t - 1; i++, choice /= f->q) others[i] = choice % f->q;
    for (int i = 0; i < t - 1; i++) y[i + (i >= solved)] = others[i];
    uint32_t sum = 0;
    for (int i = solved + 1; i < t; i++) sum = plus(f, sum, times(f, u[t - 1 - i], y[i]));
    y[solved] = plus(f, inside ? 0 : 1, minus(f, sum));
    int last = t - 1;
    while (!y[last]) last--;
    if (y[last] != 1) {
        const uint32_t inverse = f->exp[f->q - 1 - f->log[y[last]]];
        for (int i = 0; i < last; i++) y[i] = times(f, y[i], inverse);
    }
    uint32_t point = 0;
    for (int i = last - 1; i >= 0; i--) point = point * f->q + y[i];
    return f->offsets[last] + point;
}

/* Pre: a table of g rows of g numbers, g = offsets[t]. Post: a category's row has the points of its hyperplane, then the others, in the
   order of point_of. Errors: none. */
void dpk_field_table(const dpk_field *f, uint16_t *table) {
    const uint32_t g = f->offsets[f->t], w = f->offsets[f->t - 1];
    for (uint32_t category = 0; category < g; category++)
        for (uint32_t i = 0; i < g; i++) *table++ = (uint16_t)point_of(f, category, i < w ? i : i - w, i < w);
}

/* Pre: w points on a hyperplane, of g in all. Without a field each hyperplane is one point. Errors: DPK_NEED_LIMBS, DPK_EXHAUSTED. */
dpk_status dpk_projective_run(const dpk_response *call, int64_t start, int64_t stop, int64_t *reached) {
    const uint32_t lead = dpk_leading(call->real, 32), w = (uint32_t)call->w, rest = (uint32_t)(call->g - call->w);
    char *out = call->out.data + 4 * start;
    for (*reached = start; *reached < stop;) {
        uint64_t words[DPK_GROUP];
        int64_t codes[DPK_GROUP];
        uint32_t points[DPK_GROUP];
        const dpk_span span = dpk_span_at(call->first_element, *reached, stop, DPK_GROUP, DPK_GROUP);
        dpk_bulk_words(&call->stream, call->kernels, DPK_DOMAIN_BULK, span.element / DPK_GROUP, 1, words);
        dpk_load_codes(call, *reached, span.n, codes);
        for (size_t i = 0; i < span.n; i++) {
            const uint64_t word = words[span.offset + i], element = span.element + i;
            dpk_uniform side = {&call->stream, call->kernels, DPK_DOMAIN_MORE, element, (uint32_t)(word >> 32), 32};
            dpk_decision inside = side.first < lead ? DPK_YES : DPK_NO;
            if (side.first == lead) inside = dpk_is_below(&side, call->real, 1);
            if (inside == DPK_UNDECIDED) return DPK_NEED_LIMBS;
            dpk_uniform u = {&call->stream, call->kernels, DPK_DOMAIN_MORE_ACCEPT, element, (uint32_t)word, 32};
            uint32_t choice, code = (uint32_t)codes[i];
            if (dpk_uniform_below(&u, inside ? w : rest, 0, &choice) == DPK_UNDECIDED) return DPK_EXHAUSTED;
            if (call->field && call->field->table) points[i] = call->field->table[code * (w + rest) + choice + (inside == DPK_YES ? 0 : w)];
            else if (call->field) points[i] = point_of(call->field, code, choice, inside == DPK_YES);
            else points[i] = inside == DPK_YES ? code : choice + (choice >= code);
        }
        memcpy(out, points, 4 * span.n);
        out += 4 * span.n;
        *reached += (int64_t)span.n;
    }
    return DPK_OK;
}

/* Sums of q numbers each: out[s] = sum over y of x[y][s - c y], c the coefficient. */
static void add_lines(const dpk_field *f, const int64_t *x, uint32_t c, int64_t *out) {
    const uint32_t q = f->q;
    memset(out, 0, 8 * (size_t)q);
    for (uint32_t y = 0; y < q; y++, x += q) {
        const uint32_t moved = times(f, c, y);
        if (f->sum) {
            const uint16_t *from = f->sum + (size_t)minus(f, moved) * q;
            for (uint32_t s = 0; s < q; s++) out[s] += x[from[s]];
            continue;
        }
        for (uint32_t s = 0; s < moved; s++) out[s] += x[s + q - moved];
        for (uint32_t s = moved; s < q; s++) out[s] += x[s - moved];
    }
}

/* One coordinate of a point y is summed over. Pre: rows of `width` = 1 + q + q^2 blocks numbers, x[r] of the vectors (s, y, more) by their
   numbers as points. Post: out[r q + c], rows of 1 + q blocks, has at (s, more) the sum over y of x[r] at (s - c y, y, more), for
   start <= r q + c < stop. Errors: none. */
void dpk_line_sums(const dpk_field *f, const int64_t *x, size_t blocks, int64_t start, int64_t stop, int64_t *out) {
    const size_t q = f->q, width = 1 + q + q * q * blocks, short_width = 1 + q * blocks;
    for (int64_t i = start; i < stop; i++) {
        const int64_t *row = x + (size_t)(i / (int64_t)q) * width;
        int64_t *to = out + (size_t)i * short_width;
        const uint32_t c = (uint32_t)(i % (int64_t)q);
        int64_t total = row[0]; /* y = 0; then (1/y - c, 1, 0) for y != 0 */
        for (size_t b = 0; b < q; b++) total += row[1 + b];
        to[0] = total - row[1 + minus(f, c)];
        for (size_t b = 0; b < blocks; b++) add_lines(f, row + 1 + q + q * q * b, c, to + 1 + q * b);
    }
}
