/* Discrete noise: floor of a shifted exponential, inversion of a short table, rounded normals with an acceptance step. */
#include "dpk_noise.h"
#include "lanes.h"
#include "samples.h"

DPK_INLINE int discrete_laplace_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, int64_t *DPK_RESTRICT z, size_t n,
                                     int uniform) {
    double exponential[DPK_BLOCK];
    uint64_t settled = 0;
    exponentials(words, exponential, n);
    for (size_t i = 0; i < n; i++) {
        size_t k = uniform ? 0 : i;
        /* |t| = t(E + c) - 1/2, so the floor is a rounding; the sign is that of the word. */
        double e = exponential[i], above = muladd(p->step_scale[k], e, p->offset[k]);
        double t = double_of(bits_of(above) ^ (words[i] & 0x8000000000000000u));
        double uncertain = muladd(p->step_scale[k] * p->beta, e, fabs(t - nearest_small(t)));
        int decided = uncertain < 0.5 - p->slack - p->step_scale[k] * p->alpha;
        settled += (uint64_t)decided;
        z[i] = settled_int64(t, decided);
    }
    return settled != n;
}

/* Pre: offset[k] = t c - 1/2. Post: z[i] discrete Laplace, DPK_OPEN if undecided. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Discrete Laplace". */
static int discrete_laplace(const dpk_lanes *p, const uint64_t *words, int64_t *z, size_t n) {
    return p->uniform ? discrete_laplace_body(p, words, z, n, 1) : discrete_laplace_body(p, words, z, n, 0);
}

#if DPK_VECTOR_LANES > 1
typedef int32_t table_vec __attribute__((vector_size(4 * DPK_VECTOR_LANES), aligned(4), may_alias)); /* anywhere in arrays of int32_t */
#define TABLE_TRUE(comparison) (-(comparison)) /* comparisons of vectors give 0 and -1 */
#else
typedef int32_t table_vec;
#define TABLE_TRUE(comparison) (comparison)
#endif
enum { TABLE_LANES = sizeof(table_vec) / 4, TABLE_VECTORS = 4 };

/* Counts the thresholds below each magnitude, TABLE_VECTORS vectors at a time, and marks those that meet one or pass the last. */
DPK_INLINE void search_table(const dpk_table *table, const int32_t *magnitude, int32_t *count, int32_t *tie) {
    table_vec m[TABLE_VECTORS], c[TABLE_VECTORS], t[TABLE_VECTORS];
    for (int v = 0; v < TABLE_VECTORS; v++) {
        m[v] = ((const table_vec *)magnitude)[v];
        c[v] = m[v] ^ m[v];
        t[v] = TABLE_TRUE(m[v] > (int32_t)table->short_[table->n_short - 1]);
    }
    for (int32_t k = 0; k < table->n_short; k++) {
        int32_t threshold = (int32_t)table->short_[k];
        for (int v = 0; v < TABLE_VECTORS; v++) {
            c[v] += TABLE_TRUE(m[v] > threshold);
            t[v] |= m[v] == threshold;
        }
    }
    for (int v = 0; v < TABLE_VECTORS; v++) {
        ((table_vec *)count)[v] = c[v];
        ((table_vec *)tie)[v] = t[v];
    }
}

/* Pre: entry k of the table separates |z| <= k from |z| > k at 31 bits; the last entry bounds what is decided here.
   Post: z[i] discrete Gaussian, DPK_OPEN on a tie or beyond the table. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Discrete Gaussian". */
static int gaussian_table(const dpk_table *table, const uint64_t *DPK_RESTRICT words, int64_t *DPK_RESTRICT z, size_t n) {
    int32_t magnitude[DPK_BLOCK], count[DPK_BLOCK], tie[DPK_BLOCK];
    uint64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t top = (int32_t)(words[i] >> 32);
        magnitude[i] = top ^ (top >> 31);
    }
    for (size_t i = 0; i < n; i += TABLE_LANES * TABLE_VECTORS) search_table(table, magnitude + i, count + i, tie + i);
    for (size_t i = 0; i < n; i++) {
        int64_t sign = (int64_t)words[i] >> 63;
        int64_t sample = ((int64_t)count[i] ^ sign) - sign;
        undecided |= (uint64_t)(tie[i] != 0);
        z[i] = tie[i] ? DPK_OPEN : sample;
    }
    return undecided != 0;
}

/* The upper 31 bits of |X|. */
DPK_INLINE uint32_t table_magnitude(uint64_t word) { return (uint32_t)((word ^ (uint64_t)((int64_t)word >> 63)) >> 32); }

DPK_INLINE int64_t signed_count(uint64_t count, uint64_t word) {
    uint64_t sign = (uint64_t)((int64_t)word >> 63);
    return (int64_t)((count ^ sign) - sign);
}

/* One look at a guide: the entry above the part's beginning, how many are below it, and whether that is all there is to know. */
DPK_INLINE int64_t guided_lane(const uint64_t *guide, uint64_t word, int64_t other) {
    uint64_t m = table_magnitude(word), e = guide[m >> DPK_GUIDE_SHIFT], entry = e & UINT32_MAX;
    uint64_t count = (e >> 32 & 0xff) + ((entry - m) >> 63);
    int64_t sample = (e & DPK_GUIDE_SEVERAL) | (uint64_t)(entry == m) ? DPK_OPEN : signed_count(count, word);
    return e & DPK_GUIDE_NONE ? other : sample;
}

/* Looks closer at lanes that their guide left open: one in a hundred, as parts in the tail hold several entries. Ties stay open. */
static int search_open(const dpk_law *laws, const int64_t *which, const uint64_t *words, int64_t *z, size_t n) {
    int undecided = 0;
    for (size_t start = 0; start < n; start += 16) {
        uint64_t any = 0;
        for (size_t i = start; i < start + 16; i++) any |= (uint64_t)(z[i] == DPK_OPEN);
        for (size_t i = start; any && i < start + 16; i++) {
            if (z[i] != DPK_OPEN) continue;
            const dpk_law *law = laws + (which ? which[i] : 0);
            const uint32_t *entries = law->table.short_, m = table_magnitude(words[i]);
            uint64_t count = 0;
            if (law->kind == DPK_GAUSSIAN_TABLE) {
                count = law->table.guide[m >> DPK_GUIDE_SHIFT] >> 32 & 0xff;
                while ((int32_t)count < law->table.n_short && m > entries[count]) count++;
                if ((int32_t)count < law->table.n_short && m != entries[count]) z[i] = signed_count(count, words[i]);
            }
            undecided |= z[i] == DPK_OPEN;
        }
    }
    return undecided;
}

/* Pre: n a multiple of 16; guides those of the laws, one after the other; which[i] the law of a lane, or NULL if there is one. Post: as
   gaussian_table where the law is a table; other lanes keep what they hold. Errors: returns whether any is undecided.
   Source: Chen & Asau (1974). */
static int gaussian_guided(const dpk_law *laws, const uint64_t *DPK_RESTRICT guides, const int64_t *DPK_RESTRICT which,
                           const uint64_t *DPK_RESTRICT words, int64_t *DPK_RESTRICT z, size_t n) {
    if (which)
        for (size_t i = 0; i < n; i++) z[i] = guided_lane(guides + DPK_GUIDES * which[i], words[i], z[i]);
    else
        for (size_t i = 0; i < n; i++) z[i] = guided_lane(guides, words[i], 0);
    return search_open(laws, which, words, z, n);
}

DPK_INLINE int rounded_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, const uint16_t *DPK_RESTRICT accept,
                            int64_t *DPK_RESTRICT z, size_t n, int uniform) {
    uint64_t settled = 0;
    double radius[DPK_HALF_GROUP], normal[DPK_GROUP];
    for (size_t g = 0; g < n; g += DPK_GROUP) {
        normals(words + g, radius, normal);
        for (size_t h = 0; h < DPK_GROUP; h += DPK_HALF_GROUP)
            for (size_t i = h; i < h + DPK_HALF_GROUP; i++) {
                size_t k = uniform ? 0 : g + i;
                double sigma = p->step_scale[k], t = sigma * normal[i], n = nearest_small(t);
                double uncertain = muladd(sigma * p->beta, radius[i - h], fabs(t - n));
                /* (a16 + 1)/2^16 <= 1 - quick n^2/2^16, with a quarter of a unit to spare for the rounding of the left side. */
                int taken = muladd(n * n, p->quick[k], (double)(int32_t)accept[g + i]) <= 65534.75;
                int decided = (uncertain < 0.5 - p->slack - sigma * p->alpha) & taken;
                settled += (uint64_t)decided;
                z[g + i] = settled_int64(t, decided);
            }
    }
    return settled != n;
}

/* Pre: accept[i] the first 16 bits of element i's acceptance uniform; quick[k] that of the law of scale step_scale[k]. Post: z[i] the
   rounded normal of attempt 0 where it is surely accepted, else DPK_OPEN. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Discrete Gaussian". */
static int gaussian_rounded(const dpk_lanes *p, const uint64_t *words, const uint16_t *accept, int64_t *z, size_t n) {
    return p->uniform ? rounded_body(p, words, accept, z, n, 1) : rounded_body(p, words, accept, z, n, 0);
}

/* Looks each item up in the slot of its hash alone, without a branch. Post: which[i] is its number's lowest part, or that of -1 where it is
   not there. Returns whether any is not. Errors: none. */
static int look_up(const double *DPK_RESTRICT x, const uint64_t *DPK_RESTRICT slots, const uint64_t *DPK_RESTRICT numbers, int shift,
                   uint16_t *DPK_RESTRICT which, size_t n) {
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = bits_of(x[i]), at = bits * DPK_GOLDEN >> shift;
        const uint64_t number = numbers[at] | (slots[at] == bits ? 0 : UINT64_MAX);
        any |= number;
        which[i] = (uint16_t)number;
    }
    return any >> 63 != 0;
}

/* Post: the parameters of each lane's law. Errors: none. */
static void law_lanes(const double *DPK_RESTRICT steps, const double *DPK_RESTRICT seconds, const int64_t *DPK_RESTRICT which,
                      double *DPK_RESTRICT step, double *DPK_RESTRICT second, size_t n) {
    for (size_t i = 0; i < n; i++) {
        step[i] = steps[which[i]];
        second[i] = seconds[which[i]];
    }
}

/* Post: y[i] = x[i] + z[i], saturated at the edges of int64. Errors: none. */
static void add_saturating(const int64_t *DPK_RESTRICT x, const int64_t *DPK_RESTRICT z, int64_t *DPK_RESTRICT y, size_t n) {
    int64_t beyond = 0; /* negative if any sum is */
    for (size_t i = 0; i < n; i++) {
        y[i] = (int64_t)((uint64_t)x[i] + (uint64_t)z[i]);
        beyond |= (x[i] ^ y[i]) & (z[i] ^ y[i]);
    }
    for (size_t i = 0; beyond < 0 && i < n; i++)
        if (((x[i] ^ y[i]) & (z[i] ^ y[i])) < 0) y[i] = (x[i] >> 63) ^ INT64_MAX;
}
