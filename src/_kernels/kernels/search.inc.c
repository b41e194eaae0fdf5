/* Binary search of tests: counting reports, the look-up of an estimate, and the walk of many data sets through a table of tests.
   Integers, and floats in one order of operations: the same answers at every level. */
#include "dpk_search.h"
#include "lanes.h"

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define WALK_VECTORS 1
#endif
#endif

/* A statistic's terms, added in chunks of eight and then by a tree whose shape the vector form keeps. */
DPK_INLINE double statistic(const double *counts, const double *weights, size_t width) {
    double sum[DPK_WALK_LANES];
    for (size_t i = 0; i < DPK_WALK_LANES; i++) sum[i] = counts[i] * weights[i];
    for (size_t z = DPK_WALK_LANES; z < width; z += DPK_WALK_LANES)
        for (size_t i = 0; i < DPK_WALK_LANES; i++) sum[i] += counts[z + i] * weights[z + i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

DPK_INLINE size_t node_of(int32_t level, int32_t place) { return (size_t)level * (size_t)(level - 1) / 2 + (size_t)place - 1; }

static void walk_alone(const dpk_tests *tests, const double *counts, int32_t *level, int32_t *place) {
    while (*level <= tests->steps) {
        double s = statistic(counts, tests->weights + node_of(*level, *place) * tests->width, tests->width);
        if (s != s) return;
        *place += s > 0;
        *level += 1;
    }
}

#ifdef WALK_VECTORS
/* Vectors wider than the level's registers go from function to function by address: gcc says of each that is passed or returned by value
   that the ABI differs between levels, although all is inlined. */
typedef float walk_vec __attribute__((vector_size(4 * DPK_WALK_LANES)));
typedef int32_t walk_int __attribute__((vector_size(4 * DPK_WALK_LANES)));

DPK_INLINE void products(const float *counts, const float *weights, size_t width, walk_vec *found) {
    walk_vec sum, c, w;
    memcpy(&c, counts, sizeof c);
    memcpy(&w, weights, sizeof w);
    sum = c * w;
    for (size_t z = DPK_WALK_LANES; z < width; z += DPK_WALK_LANES) {
        memcpy(&c, counts + z, sizeof c);
        memcpy(&w, weights + z, sizeof w);
        sum += c * w;
    }
    *found = sum;
}

/* Neighbours added: [a0 + a1, a2 + a3, b0 + b1, b2 + b3, a4 + a5, ...]; within the lanes in which vectors are shuffled fast. */
DPK_INLINE void add_pairs(const walk_vec *a, const walk_vec *b, walk_vec *sums) {
    *sums = __builtin_shufflevector(*a, *b, 0, 2, 8, 10, 4, 6, 12, 14) + __builtin_shufflevector(*a, *b, 1, 3, 9, 11, 5, 7, 13, 15);
}

/* Terms of four data sets, each added in halves: [a0 + .. + a3, b .., c .., d .., a4 + .. + a7, b .., c .., d ..]. */
DPK_INLINE void halves_of_four(const float *counts, const float *weights, const int32_t *rows, size_t width, walk_vec *halves) {
    walk_vec a, b, c, d, ab, cd;
    products(counts, weights + rows[0], width, &a);
    products(counts + width, weights + rows[1], width, &b);
    products(counts + 2 * width, weights + rows[2], width, &c);
    products(counts + 3 * width, weights + rows[3], width, &d);
    add_pairs(&a, &b, &ab);
    add_pairs(&c, &d, &cd);
    add_pairs(&ab, &cd, halves);
}

/* Pre: rows[i] is where data set i's test begins. Post: the rows of level + 1, and in unclear[i] -1 if float does not decide, or the test
   is not known: then the row is that of some neighbour. The transposition of eight data sets' terms shares the shuffles of their sums. */
DPK_INLINE void step_eight(const float *counts, const float *weights, size_t width, float error, int32_t level, int32_t *rows,
                           int32_t *unclear) {
    walk_vec first, second;
    halves_of_four(counts, weights, rows, width, &first);
    halves_of_four(counts + 4 * width, weights, rows + 4, width, &second);
    walk_vec s = __builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11) +
                 __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15);
    walk_int next, missed;
    memcpy(&next, rows, sizeof next);
    memcpy(&missed, unclear, sizeof missed);
    next += ((s > 0) & (int32_t)width) + level * (int32_t)width;
    missed |= ~((s > error) | (s < -error));
    memcpy(rows, &next, sizeof next);
    memcpy(unclear, &missed, sizeof missed);
}

/* Pre: all of DPK_WALK_SETS data sets stand on one level. Post: those whose tests are all known and clear have walked to the end, the
   others not at all. Level by level, so that no data set waits for its own last step. */
DPK_INLINE void walk_together(const dpk_tests *tests, const float *counts, size_t width, float error, int32_t *levels, int32_t *places) {
    int32_t rows[DPK_WALK_SETS], unclear[DPK_WALK_SETS] = {0};
    const int32_t start = levels[0], end = tests->steps + 1;
    for (size_t i = 0; i < DPK_WALK_SETS; i++) rows[i] = (int32_t)(node_of(start, places[i]) * width);
    for (int32_t level = start; level < end; level++)
        for (size_t i = 0; i < DPK_WALK_SETS; i += DPK_WALK_LANES)
            step_eight(counts + i * width, tests->rough, width, error, level, rows + i, unclear + i);
    for (size_t i = 0; i < DPK_WALK_SETS; i++) {
        if (unclear[i]) continue;
        levels[i] = end;
        places[i] = rows[i] / (int32_t)width - (int32_t)node_of(end, 1) + 1;
    }
}

/* Walks with the rough tests as many data sets as it can. */
static void walk_roughly(const dpk_tests *tests, const double *counts, int32_t *levels, int32_t *places) {
    float rough[DPK_WALK_SETS * DPK_ROUGH_WIDTH];
    int apart = levels[0] > tests->steps;
    for (size_t i = 1; i < DPK_WALK_SETS; i++) apart |= levels[i] != levels[0];
    if (apart) return;
    double most = 0;
    for (size_t i = 0; i < DPK_WALK_SETS; i++) {
        double total = 0, distance = 0;
        for (size_t z = 0; z < tests->width; z++) {
            double count = counts[i * tests->width + z], off = count - tests->centre[z];
            rough[i * tests->width + z] = (float)off;
            total += count;
            distance += fabs(off);
        }
        if (total != tests->reports) return;
        most = distance > most ? distance : most;
    }
    const float error = (float)(most * tests->error + tests->error_fixed);
    if (tests->width == DPK_WALK_LANES) walk_together(tests, rough, DPK_WALK_LANES, error, levels, places);
    else walk_together(tests, rough, tests->width, error, levels, places);
}
#endif

/* Pre: levels >= 1, 1 <= places <= level; counts[n][width]. Post: see dpk_search.h. Errors: none.
   Source: Steinberger (2019), proof of Lemma 3.16. */
static void walk(const dpk_tests *tests, const double *counts, int32_t *levels, int32_t *places, size_t n) {
#ifdef WALK_VECTORS
    if (tests->rough != NULL && tests->width <= DPK_ROUGH_WIDTH)
        for (size_t i = 0; i + DPK_WALK_SETS <= n; i += DPK_WALK_SETS)
            walk_roughly(tests, counts + i * tests->width, levels + i, places + i);
#endif
    for (size_t i = 0; i < n; i++) walk_alone(tests, counts + i * tests->width, levels + i, places + i);
}

enum { STEP_LANES = 16 };

/* Pre: thresholds[2^log2 - 1] ascending, values[2^log2]. Post: see dpk_search.h. Errors: none. Branchless, many searches at a time. */
static void steps(const int64_t *DPK_RESTRICT counts, const int64_t *DPK_RESTRICT thresholds, int log2, const double *DPK_RESTRICT values,
                  double *DPK_RESTRICT out, size_t n) {
    for (size_t first = 0; first < n; first += STEP_LANES) {
        int64_t count[STEP_LANES], below[STEP_LANES] = {0};
        size_t m = n - first < STEP_LANES ? n - first : STEP_LANES;
        for (size_t i = 0; i < STEP_LANES; i++) count[i] = counts[first + (i < m ? i : 0)];
        for (int64_t half = log2 ? (int64_t)1 << (log2 - 1) : 0; half; half >>= 1)
            for (size_t i = 0; i < STEP_LANES; i++) below[i] += thresholds[below[i] + half - 1] <= count[i] ? half : 0;
        for (size_t i = 0; i < m; i++) out[first + i] = values[below[i]];
    }
}

DPK_INLINE double precedes(double point, double x, int counts_equal) {
    return counts_equal ? (point <= x ? 1.0 : 0.0) : (point < x ? 1.0 : 0.0);
}

/* Four points at a time; behind the last one stands a NaN, which precedes nothing. */
DPK_INLINE void compare_with_all(const dpk_points *p, const double *DPK_RESTRICT x, size_t n, int64_t *DPK_RESTRICT out,
                                 const int counts_equal) {
    const double nan = double_of(0x7ff8000000000000u);
    for (size_t i = 0; i < n; i++) out[i] = 0;
    for (int64_t z = 1; z <= p->n; z += 4) {
        const double a = p->points[z], b = z + 1 <= p->n ? p->points[z + 1] : nan;
        const double c = z + 2 <= p->n ? p->points[z + 2] : nan, d = z + 3 <= p->n ? p->points[z + 3] : nan;
        for (size_t i = 0; i < n; i++) {
            double ab = precedes(a, x[i], counts_equal) + precedes(b, x[i], counts_equal);
            double cd = precedes(c, x[i], counts_equal) + precedes(d, x[i], counts_equal);
            out[i] += to_int64(ab + cd);
        }
    }
}

/* The guess is off by one at most, and the points beside it settle it. */
DPK_INLINE void guess_and_settle(const dpk_points *points, const double *DPK_RESTRICT x, size_t n, int64_t *DPK_RESTRICT out,
                                 const int counts_equal) {
    const dpk_points p = *points;
    const double *DPK_RESTRICT at = p.points;
    const double last = (double)p.n;
    for (size_t i = 0; i < n; i++) {
        double above = x[i] > p.low ? x[i] : p.low; /* a NaN compares false */
        double inside = above < p.high ? above : p.high;
        double guess = (inside - p.first) * p.inverse_step + 0.5;
        guess = guess > 0.0 ? guess : 0.0;
        int64_t place = to_int64(guess < last ? guess : last);
        double up = precedes(at[place + 1], inside, counts_equal), stays = precedes(at[place], inside, counts_equal);
        out[i] = place + to_int64(up + stays - 1.0);
    }
}

/* Pre: as dpk_points says. Post: see dpk_search.h. Errors: none. */
static void places(const dpk_points *p, const double *x, size_t n, int64_t *out) {
    if (p->inverse_step == 0.0) {
        if (p->counts_equal) compare_with_all(p, x, n, out, 1);
        else compare_with_all(p, x, n, out, 0);
    } else if (p->counts_equal) guess_and_settle(p, x, n, out, 1);
    else guess_and_settle(p, x, n, out, 0);
}

enum { BYTE_LANES = 64, BYTE_ROUNDS = 255 };

/* How many of rounds * BYTE_LANES bytes equal `code`, rounds <= BYTE_ROUNDS. Not inlined: gcc 12 vectorises it only on pointers of its own.
 */
DPK_NOINLINE int64_t equal_bytes(const uint8_t *DPK_RESTRICT x, size_t rounds, uint8_t code) {
    uint8_t found[BYTE_LANES] = {0};
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < BYTE_LANES; i++) found[i] += x[r * BYTE_LANES + i] == code;
    int64_t total = 0;
    for (size_t i = 0; i < BYTE_LANES; i++) total += found[i];
    return total;
}

/* Pre: any n. Post: how many bytes equal `code`. Errors: none. */
DPK_INLINE int64_t count_equal(const uint8_t *x, size_t n, uint8_t code) {
    int64_t total = 0;
    size_t i = 0;
    for (size_t rounds; (rounds = (n - i) / BYTE_LANES) > 0; i += rounds * BYTE_LANES) {
        if (rounds > BYTE_ROUNDS) rounds = BYTE_ROUNDS;
        total += equal_bytes(x + i, rounds, code);
    }
    for (; i < n; i++) total += x[i] == code;
    return total;
}

static int64_t nonzero(const uint8_t *x, size_t n) { return (int64_t)n - count_equal(x, n, 0); }

enum { TABLES = 8, TABLE_BYTES = 1 << 14 /* stay in L1 while every code is counted */ };

/* Eight tables, so that equal neighbours do not wait for each other's additions. */
static int64_t count_by_tables(const uint8_t *codes, size_t n, int k, int64_t *counts) {
    uint32_t tables[TABLES][256] = {{0}};
    size_t i = 0;
    for (; i + TABLES <= n; i += TABLES) {
        uint64_t eight;
        memcpy(&eight, codes + i, 8);
        for (int t = 0; t < TABLES; t++) tables[t][eight >> 8 * t & 255]++;
    }
    for (; i < n; i++) tables[0][codes[i]]++;
    int64_t inside = 0;
    for (int z = 0; z < k; z++) {
        int64_t sum = 0;
        for (int t = 0; t < TABLES; t++) sum += tables[t][z];
        counts[z] += sum;
        inside += sum;
    }
    return inside;
}

static int64_t count_by_comparing(const uint8_t *codes, size_t n, int k, int64_t *counts) {
    int64_t inside = 0;
    for (int z = 0; z < k; z++) {
        int64_t sum = count_equal(codes, n, (uint8_t)z);
        counts[z] += sum;
        inside += sum;
    }
    return inside;
}

/* Pre: 1 <= k <= 256. Post: see dpk_search.h. Errors: 1 if a code is not below k. */
static int count_bytes(const uint8_t *codes, size_t n, int k, int64_t *counts) {
    int bad = 0;
    for (size_t first = 0; first < n;) {
        size_t m = k <= DPK_FEW_CODES ? TABLE_BYTES : (size_t)1 << 30;
        if (m > n - first) m = n - first;
        int64_t inside = (k <= DPK_FEW_CODES ? count_by_comparing : count_by_tables)(codes + first, m, k, counts);
        bad |= inside != (int64_t)m;
        first += m;
    }
    return bad;
}
