/* Exact noise: the constants of a law, what one block's lanes need of it, and one call. */
#ifndef DPK_NOISE_H
#define DPK_NOISE_H

#include "dpk.h"

typedef enum { DPK_LAPLACE = 0, DPK_GAUSSIAN = 1, DPK_DISCRETE_LAPLACE = 2, DPK_GAUSSIAN_TABLE = 3, DPK_GAUSSIAN_ROUNDED = 4 } dpk_kind;

enum {
    DPK_HALF_GROUP = DPK_GROUP / 2, /* elements i and i + 64 of a group share the two uniforms of a Box-Muller pair */
    DPK_MAX_TERMS = 16,             /* of an acceptance's series */
    DPK_GUIDES = 256,               /* parts of [0, 2^31) that a guide tells apart */
    DPK_GUIDE_SHIFT = 23
};

/* A part of a guide: in the low half the first entry of the table that is not below the part, above it how many are below, then marks. */
#define DPK_GUIDE_SEVERAL ((uint64_t)1 << 40) /* the entry is not the only one in the part, or the last of all is below the part's end */
#define DPK_GUIDE_NONE ((uint64_t)1 << 41)    /* the law has no table */

/* Inversion table of a small discrete Gaussian: entry k separates |z| <= k from |z| > k. */
typedef struct {
    int32_t n_short;        /* entries compared by the fast path */
    int32_t n_long;         /* entries of the 127-bit table */
    const uint32_t *short_; /* floor(2^31 P(|Z| <= k)) */
    const uint64_t *high;   /* floor(2^127 P(|Z| <= k)), upper 63 bits */
    const uint64_t *low;    /* lower 64 bits */
    const uint64_t *guide;  /* DPK_GUIDES parts */
} dpk_table;

/* Acceptance of a rounded normal y: I(0)/I(y), see docs/exactness.md. */
typedef struct {
    double quick; /* accept at once if (a16 + 1)/2^16 <= 1 - quick*y^2/2^16 */
    int32_t n_terms;
    double terms[DPK_MAX_TERMS]; /* I(y)/I(0) = sum_j terms[j] (y/sigma)^(2j) */
} dpk_acceptance;

/* What one scale needs. Float kinds work in units of the grid: step_scale = scale/grid. */
typedef struct {
    int32_t kind;
    double step_scale; /* scale/grid; the scale itself for discrete kinds */
    double grid, inverse_grid;
    double offset_high, offset_low; /* discrete Laplace: c as a double-double */
    dpk_table table;
    dpk_acceptance acceptance;
} dpk_law;

/* Lanes of one block. A parameter array has one value if uniform, else one per lane. */
typedef struct {
    const double *step_scale, *grid, *inverse_grid, *offset, *quick;
    double slack;       /* absolute part of the error bound, in grid units */
    double alpha, beta; /* error bound of a unit-scale sample: alpha + beta*|sample| */
    int32_t uniform;
} dpk_lanes;

/* A discrete lane that is undecided: beyond every sample of the kernels, and what the number 0.0 becomes in settled_int64. */
#define DPK_OPEN (-(int64_t)0x4338000000000000)

/* What a call clamps its values to. Integers are clamped as such where all bounds are integers, so that they keep their unit. */
typedef struct {
    double lower, upper, missing; /* missing: what NaN becomes; NaN if nothing stands for it */
    int64_t int_lower, int_upper;
    int32_t is_set, is_integral;
} dpk_bounds;

/* n is a multiple of DPK_GROUP and at most DPK_BLOCK, but for clamping and looking up, which take any; arrays do not overlap. The float
   kernels mark undecided lanes by NaN, the discrete ones by DPK_OPEN; they return nonzero if there is any. */
typedef struct {
    int (*laplace)(const dpk_lanes *, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n);
    int (*gaussian)(const dpk_lanes *, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n);
    int (*discrete_laplace)(const dpk_lanes *, const uint64_t *words, int64_t *z, size_t n);
    int (*gaussian_table)(const dpk_table *, const uint64_t *words, int64_t *z, size_t n);
    int (*gaussian_guided)(const dpk_law *laws, const uint64_t *guides, const int64_t *which, const uint64_t *words, int64_t *z, size_t n);
    int (*gaussian_rounded)(const dpk_lanes *, const uint64_t *words, const uint16_t *accept, int64_t *z, size_t n);
    int (*look_up)(const double *x, const uint64_t *slots, const uint64_t *numbers, int shift, uint16_t *which, size_t n);
    void (*law_lanes)(const double *steps, const double *seconds, const int64_t *which, double *step, double *second, size_t n);
    void (*grid_lanes)(const double *scales, double fixed_grid, double *step, double *grid, double *inverse, size_t n);
    void (*add_saturating)(const int64_t *x, const int64_t *z, int64_t *y, size_t n);
    void (*past_cache)(void *to, size_t n, const void *items); /* 8-byte items; then dpk_stores_done */
    void (*clamp_real)(const dpk_bounds *, double *x, size_t n);
    void (*clamp_int)(const dpk_bounds *, int64_t *x, size_t n);
    void (*exponential_raw)(const uint64_t *words, double *e, size_t n); /* -ln|X|, for measurements */
    void (*normal_raw)(const uint64_t *words, double *z, size_t n);      /* Box-Muller pairs, for measurements */
} dpk_noise_kernels;

/* One sample on its way through the accurate tier. */
typedef struct {
    const dpk_stream *stream;
    const dpk_kernels *kernels;
    const dpk_law *law;
    uint64_t element;
    const uint64_t *words; /* of the element's group, in the domain of the law's kind */
    uint16_t accept;       /* the element's first acceptance bits, for rounded normals */
} dpk_sample;

/* core/accurate.c */
dpk_decision dpk_accurate_real(const dpk_sample *, double x, double x_low, double *y);
dpk_decision dpk_accurate_int(const dpk_sample *, int64_t *z);
dpk_decision dpk_accepted(const dpk_sample *, uint32_t attempt, double n);

/* core/retries.c */
dpk_decision dpk_retry_rounded(const dpk_sample *, const dpk_lanes *, int64_t *z);

/* core/distinct.c */
enum { DPK_LOG2_SLOTS = 12, DPK_MOST_DISTINCT = 1 << (DPK_LOG2_SLOTS - 1) };

#define DPK_GOLDEN 0x9e3779b97f4a7c15u /* 2^64 over the golden ratio: multiplied by it, bits have a hash in their highest ones */

int64_t dpk_number_distinct(const dpk_kernels *, const dpk_view *scales, size_t n, double low, double high, uint64_t *slots, int log2_slots,
                            double *distinct, uint16_t *which);

/* core/noise.c */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int32_t kind, tier;
    double bound_factor; /* 1, or a fraction in the tests that must fail */
    int64_t n_laws;
    const dpk_law *laws;           /* one, or one for each distinct scale of a discrete kind */
    const uint64_t *guides;        /* with several laws of discrete Gaussian noise: theirs, one after the other */
    const double *steps, *seconds; /* with several laws: what the kernels take of each, from dpk_law_parameters */
    dpk_view which;                /* with several laws: the index of each element's, of an integer type */
    int32_t has_scales;            /* float kinds: a scale per element */
    double fixed_grid;             /* with has_scales: the grid, or 0 for the default of each scale */
    dpk_view scales;
    int32_t streams;   /* the output is larger than a cache, and not in one: store past it */
    dpk_bounds bounds; /* without them float values must be finite */
    dpk_view values, out;
} dpk_noise_call;

int dpk_noise_run(const dpk_noise_call *, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity, int64_t *n_pending,
                  int64_t *reached);
void dpk_law_set_grid(dpk_law *, double scale, double grid);
void dpk_law_parameters(const dpk_law *, double *step, double *second);
void dpk_guide_set(const dpk_table *, uint64_t guide[DPK_GUIDES]);

#endif
