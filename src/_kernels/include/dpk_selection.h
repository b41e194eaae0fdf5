/* Noisy selection: one call ranks score[i] + scale * noise[i] without making more of it than the winners need. */
#ifndef DPK_SELECTION_H
#define DPK_SELECTION_H

#include "dpk.h"

enum {
    DPK_PIECES = 512,         /* elements of a block: one group of 16-bit pieces of their uniforms */
    DPK_UNIT_BLOCKS = 8,      /* neighbouring blocks visited one after the other */
    DPK_FEW_CANDIDATES = 512, /* that are sorted by insertion */
    DPK_SPARE_PLACES = 64,    /* places for candidates beyond twice the number wanted */
};

/* With which pieces a score can still reach the threshold: those whose float's bits are <= (max(score, least) - origin) slope + intercept.
 */
typedef struct {
    double least, origin, slope, intercept;
} dpk_reach;

/* Of the scores of a block, and of its pieces. */
typedef struct {
    double largest, sum;
    uint16_t least;
} dpk_ends;

typedef struct {
    /* The largest of n numbers, n a multiple of 64, unless there is a NaN; *sum is finite only if all of them are. */
    double (*largest)(const double *x, size_t n, double *sum);
    /* The same of DPK_PIECES numbers beside the words of a group, by AES; NULL: the level has none. The wide one needs VAES. */
    void (*beside)(const dpk_stream *, uint32_t tag, uint64_t group, uint64_t *words, const double *x, dpk_ends *);
    void (*beside_wide)(const dpk_stream *, uint32_t tag, uint64_t group, uint64_t *words, const double *x, dpk_ends *);
    /* Bit g: whether any of pieces 64 g .. 64 g + 63 is <= most; n is a multiple of 64. */
    uint32_t (*any_at_most)(const uint16_t *pieces, uint16_t most, size_t n);
    /* hits[i] = whether element i, of n = 64, can reach the threshold. */
    void (*within_reach)(const uint16_t *pieces, const double *scores, const dpk_reach *, uint64_t *hits);
} dpk_selection_kernels;

/* Noise as a decreasing function of a uniform V. */
typedef enum {
    DPK_GUMBEL = 0,      /* -ln(-ln(1 - V)) */
    DPK_EXPONENTIAL = 1, /* -ln V */
    DPK_TWO_SIDED = 2    /* Laplace: -ln 2V for V < 1/2, else ln 2(1 - V) */
} dpk_selection_noise;

/* A contender: its key score + scale * noise is high + low, up to `error`; infinite if only the exact tier can tell. */
typedef struct {
    int64_t index;
    double high, low, error;
} dpk_candidate;

/* Keys certainly below high + low do not count any more. */
typedef struct {
    double high, low;
    int32_t is_set;
} dpk_threshold;

/* core/selection.c: one call of a selection */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int32_t noise;
    int32_t tier;        /* exact: no candidate's key is worth anything */
    int32_t is_unpruned; /* every element is evaluated */
    double bound_factor; /* 1, or a fraction in the tests that must fail */
    double scale;
    int64_t n;             /* scores */
    int64_t keep;          /* how many of the largest keys are wanted */
    uint64_t stride;       /* elements of a round */
    int64_t n_units, step; /* unit (position * step) mod n_units is visited at `position` */
    dpk_view scores;
    double *bounds; /* the largest score of each block, or NULL */
    int64_t n_excluded;
    const int64_t *excluded; /* ascending */
} dpk_selection;

int dpk_selection_run(const dpk_selection *, uint64_t round, int64_t start, int64_t stop, dpk_candidate *places, int64_t capacity,
                      int64_t *count, dpk_threshold *threshold, int64_t *evaluated, int64_t *bad);
int dpk_selection_bounds(const dpk_selection *, int64_t start, int64_t stop, int64_t *bad);
void dpk_selection_rebound(const dpk_selection *, int64_t block);
int dpk_selection_winner(const dpk_selection *, uint64_t round, dpk_candidate *places, int64_t capacity, int64_t *winner, int64_t *bad);
int dpk_selection_ranked(const dpk_selection *, uint64_t round, dpk_candidate *places, int64_t capacity, int64_t *chosen,
                         int64_t *evaluated, int64_t *bad);
int dpk_selection_peel(dpk_selection *, int64_t rounds, dpk_candidate *places, int64_t capacity, int64_t *excluded, int64_t *chosen,
                       int64_t *bad);

#endif
