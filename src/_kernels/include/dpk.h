/* Structs, error codes and the kernel table shared by the C core and the Cython modules. docs/exactness.md derives every bound. */
#ifndef DPK_H
#define DPK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dpcore's keystream layout is defined on little-endian machines"
#endif

enum {
    DPK_GROUP = 128,     /* elements whose words come from one call of a cipher: 1024 bytes */
    DPK_FLIP_GROUPS = 8, /* groups of bit planes whose open lanes are settled together */
    DPK_BLOCK = 512,     /* elements a kernel treats at once: words, input and output stay in L1 */
    DPK_MORE_LANES = 16, /* elements whose further bits are made together */
    DPK_MAX_DIMS = 64,
    DPK_AES_ROUNDS = 14,
    DPK_STACK_DEPTH = 1 << 16,    /* more than all frames below any entry of the core */
    DPK_REAL_DEPTH = 1 << 12,     /* and below the float noise of a block, and for one number that counts */
    DPK_DISCRETE_DEPTH = 1 << 13, /* and below its discrete noise */
    DPK_OPEN_DEPTH = 1 << 11      /* and below the start of a stream */
};

typedef enum { DPK_CHACHA20 = 0, DPK_AES256 = 1 } dpk_cipher;

/* Domains separate the uses of one key. A word is addressed by (key, nonce, domain, element, attempt). */
typedef enum {
    DPK_DOMAIN_BULK = 0,           /* one word per element, in groups; that of a pair's U or V for Gaussian kinds */
    DPK_DOMAIN_ACCEPT = 1,         /* 16 bits per element, in groups: first bits of an acceptance uniform */
    DPK_DOMAIN_MORE = 2,           /* further bits of the element's bulk word */
    DPK_DOMAIN_MORE_PARTNER = 3,   /* second uniform of a retried normal */
    DPK_DOMAIN_MORE_ACCEPT = 4,    /* further bits of the acceptance uniform */
    DPK_DOMAIN_RESPONSE = 5,       /* first bits of a response's uniform, in groups: 8 bit planes, or pieces of 16 or 32 bits */
    DPK_DOMAIN_MORE_RESPONSE = 6,  /* further bits of that uniform */
    DPK_DOMAIN_SELECTION = 7,      /* 16 bits per element, in groups: first bits of a contender's uniform */
    DPK_DOMAIN_MORE_SELECTION = 8, /* further bits of that uniform */
    DPK_DOMAIN_TABLE = 9,          /* one word per element, in groups, for inversions of a table: pairs never read it */
    DPK_DOMAIN_MORE_TABLE = 10,    /* further bits of that word */
    DPK_DOMAIN_DERIVED = 11        /* keys of the further draws of a call whose stream stands still */
} dpk_domain;

typedef struct {
    uint32_t key[8];
    uint32_t nonce;
    int32_t cipher;
    uint8_t round_keys[DPK_AES_ROUNDS + 1][16]; /* only for DPK_AES256 */
} dpk_stream;

typedef enum { DPK_LAPLACE = 0, DPK_GAUSSIAN = 1, DPK_DISCRETE_LAPLACE = 2, DPK_GAUSSIAN_TABLE = 3, DPK_GAUSSIAN_ROUNDED = 4 } dpk_kind;

/* The lowest tier a call may use: tests force the others. */
typedef enum { DPK_TIER_FAST = 0, DPK_TIER_ACCURATE = 1, DPK_TIER_EXACT = 2 } dpk_tier;

typedef enum {
    DPK_OK = 0,
    DPK_NONFINITE = 1,    /* a value is NaN or infinite; its index is reported */
    DPK_PENDING_FULL = 2, /* undecided samples fill their buffer; resume after the reported count */
    DPK_BAD_LEVEL = 3,
    DPK_NEED_LIMBS = 4, /* the limbs of a probability do not decide; resume with more of them */
    DPK_EXHAUSTED = 5   /* 512 further bits of a draw do not decide */
} dpk_status;

/* DPK_F64_PAIR is two doubles whose exact sum is the value: the higher one, then the lower. DPK_U64 only with bounds. */
typedef enum { DPK_F64, DPK_F32, DPK_F16, DPK_I64, DPK_I32, DPK_I16, DPK_I8, DPK_U32, DPK_U16, DPK_U8, DPK_F64_PAIR, DPK_U64 } dpk_dtype;

/* A strided array of any shape, read in C order. */
typedef struct {
    char *data;
    int32_t dtype;
    int32_t ndim;
    int64_t shape[DPK_MAX_DIMS];
    int64_t strides[DPK_MAX_DIMS];
} dpk_view;

/* Inversion table of a small discrete Gaussian: entry k separates |z| <= k from |z| > k. */
typedef struct {
    int32_t n_short;        /* entries compared by the fast path */
    int32_t n_long;         /* entries of the 127-bit table */
    const uint32_t *short_; /* floor(2^31 P(|Z| <= k)) */
    const uint64_t *high;   /* floor(2^127 P(|Z| <= k)), upper 63 bits */
    const uint64_t *low;    /* lower 64 bits */
} dpk_table;

/* Acceptance of a rounded normal y: I(0)/I(y), see docs/exactness.md. */
typedef struct {
    double quick; /* accept at once if (a16 + 1)/2^16 <= 1 - quick*y^2/2^16 */
    int32_t n_terms;
    double terms[16]; /* I(y)/I(0) = sum_j terms[j] (y/sigma)^(2j) */
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
    const double *step_scale, *grid, *inverse_grid, *offset;
    double slack;       /* absolute part of the error bound, in grid units */
    double alpha, beta; /* error bound of a unit-scale sample: alpha + beta*|sample| */
    int32_t uniform;
} dpk_lanes;

/* What a call clamps its values to. Integers are clamped as such where all bounds are integers, so that they keep their unit. */
typedef struct {
    double lower, upper, missing; /* missing: what NaN becomes; NaN if nothing stands for it */
    int64_t int_lower, int_upper;
    int32_t is_set, is_integral;
} dpk_bounds;

#include "dpk_release.h"
#include "dpk_response.h"
#include "dpk_search.h"
#include "dpk_selection.h"
#include "dpk_sums.h"

/* One level's kernels. n is a multiple of DPK_GROUP and at most DPK_BLOCK; arrays do not overlap.
   The float kernels mark undecided lanes by NaN, the discrete ones by INT64_MIN; they return nonzero if there is any. */
typedef struct {
    const char *name;
    void (*chacha20)(const dpk_stream *, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words);
    void (*aes256)(const dpk_stream *, uint32_t tag, uint64_t group, size_t n_groups, uint64_t *words);
    void (*chacha20_element)(const dpk_stream *, uint32_t tag, uint64_t element, size_t n_words, uint64_t *words);
    void (*chacha20_more)(const dpk_stream *, uint32_t tag, const uint64_t *elements, uint64_t *words);
    void (*aes256_more)(const dpk_stream *, uint32_t tag, const uint64_t *elements, uint64_t *words);
    void (*aes256_schedule)(dpk_stream *);
    void (*aes256_block)(const dpk_stream *, const uint64_t in[2], uint64_t out[2]);
    int (*laplace)(const dpk_lanes *, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n);
    int (*gaussian)(const dpk_lanes *, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n);
    int (*discrete_laplace)(const dpk_lanes *, const uint64_t *words, int64_t *z, size_t n);
    int (*gaussian_table)(const dpk_table *, const uint64_t *words, int64_t *z, size_t n);
    int (*gaussian_rounded)(const dpk_lanes *, const dpk_acceptance *, const uint64_t *words, const uint16_t *accept, int64_t *z, size_t n);
    void (*add_saturating)(const int64_t *x, const int64_t *z, int64_t *y, size_t n);
    int (*all_finite)(const double *x, size_t n);
    void (*clamp_real)(const dpk_bounds *, double *x, size_t n); /* any n */
    void (*clamp_int)(const dpk_bounds *, int64_t *x, size_t n);
    dpk_response_kernels response;
    dpk_selection_kernels selection;
    dpk_sum_kernels sums;
    dpk_search_kernels search;
    dpk_release_kernels release;
    void (*exponential_raw)(const uint64_t *words, double *e, size_t n); /* -ln|X|, for measurements */
    void (*normal_raw)(const uint64_t *words, double *z, size_t n);      /* Box-Muller pairs, for measurements */
} dpk_kernels;

extern const dpk_kernels dpk_kernels_baseline;
#if defined(DPK_X86)
extern const dpk_kernels dpk_kernels_x86_v3;
extern const dpk_kernels dpk_kernels_x86_v4;
#endif

/* core/dispatch.c */
int dpk_usable_level(const char *name, dpk_kernels *usable); /* 0 if unknown, not built or not supported by this CPU and OS */
int dpk_has_aes(const dpk_kernels *usable);
const dpk_kernels *dpk_level_now(const dpk_kernels *const *level);
void dpk_level_use(const dpk_kernels **level, const dpk_kernels *usable);
const char *dpk_compiler(void);
const char *dpk_build_flags(void);

/* core/wipe.c */
void dpk_wipe(void *memory, size_t n);
void dpk_wipe_stack(size_t n);
void dpk_wipe_frames(size_t n);

/* core/stream.c */
void dpk_stream_init(dpk_stream *, const dpk_kernels *, int cipher, const uint8_t key[32], uint32_t nonce);
void dpk_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16]);
void dpk_chacha20_element(const dpk_stream *, uint32_t tag, uint64_t element, size_t n_words, uint64_t *words);
uint32_t dpk_tag(uint32_t domain, uint32_t attempt, uint32_t chunk);
void dpk_bulk_words(const dpk_stream *, const dpk_kernels *, uint32_t domain, uint64_t group, size_t n_groups, uint64_t *words);
void dpk_more_words(const dpk_stream *, const dpk_kernels *, uint32_t domain, uint64_t element, uint32_t attempt, uint32_t chunk,
                    size_t n_words, uint64_t *out);
void dpk_more_first(const dpk_stream *, const dpk_kernels *, uint32_t domain, const uint64_t *elements, uint64_t *words);

/* core/view.c */
int dpk_view_is_contiguous(const dpk_view *);
void *dpk_view_run(const dpk_view *, int64_t start); /* the items from `start` on if contiguous and aligned, else NULL */
void dpk_view_coalesce(dpk_view *);
void dpk_load_real(const dpk_view *, int64_t start, size_t n, double *high,
                   double *low); /* low may be NULL unless dtype is I64 or F64_PAIR, which alone write it */
void dpk_load_int(const dpk_view *, int64_t start, size_t n, int64_t *out);
void dpk_split_int(const int64_t *items, size_t n, double *high, double *low);
void dpk_store(const dpk_view *, int64_t start, size_t n, const void *items); /* 8-byte items */
void dpk_store_int(const dpk_view *, int64_t start, size_t n, const int64_t *items);

/* A sample that needs the exact tier. */
typedef struct {
    int64_t index;    /* position in the call's arrays */
    uint64_t element; /* index in the keystream */
    double x, x_low;  /* input of a float kind */
    int64_t x_int;    /* input of a discrete kind */
    int64_t law;      /* which law */
} dpk_pending;

/* One sample on its way through the accurate tier. */
typedef struct {
    const dpk_stream *stream;
    const dpk_kernels *kernels;
    const dpk_law *law;
    uint64_t element;
    const uint64_t *words; /* of the element's group, in the domain of the law's kind */
    uint16_t accept;       /* the element's first acceptance bits, for rounded normals */
} dpk_sample;

/* core/accurate.c: 0 if decided. */
int dpk_accurate_real(const dpk_sample *, double x, double x_low, double *y);
int dpk_accurate_int(const dpk_sample *, int64_t *z);

/* core/noise.c */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int32_t kind, tier;
    double bound_factor; /* 1, or a fraction in the tests that must fail */
    int64_t n_laws;
    const dpk_law *laws; /* one, or one for each distinct scale of a discrete kind */
    dpk_view which;      /* with several laws: the index of each element's, int64 */
    int32_t has_scales;  /* float kinds: a scale per element */
    double fixed_grid;   /* with has_scales: the grid, or 0 for the default of each scale */
    dpk_view scales;
    dpk_bounds bounds; /* without them float values must be finite */
    dpk_view values, out;
} dpk_call;

int dpk_noise_run(const dpk_call *, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity, int64_t *n_pending,
                  int64_t *reached);
void dpk_law_set_grid(dpk_law *, double scale, double grid);
int64_t dpk_first_nonfinite(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop); /* -1 if none */

/* core/sums.c: sums of the columns of an array of rows */
typedef struct {
    const dpk_kernels *kernels;
    dpk_clamp clamp;
    char *data;
    int64_t columns, row_stride, column_stride; /* in bytes */
    dpk_view values;                            /* the same array, row by row */
} dpk_sums;

void dpk_clamp_set(dpk_clamp *, double lower, double upper, double grid);
int64_t dpk_sums_room(int64_t columns); /* accumulators that a range of so many columns takes */
int dpk_sums_run(const dpk_sums *, int64_t start, int64_t stop, int64_t first, int64_t last, uint64_t *room, uint64_t *low, int64_t *high);
void dpk_sums_pairs(const uint64_t *low, const int64_t *high, size_t n, double grid, double *nearest, double *rest);

/* core/uniform.c */
typedef struct {
    const dpk_stream *stream;
    const dpk_kernels *kernels;
    uint32_t domain; /* of the bits after the first */
    uint64_t element;
    uint32_t first; /* the first bits */
    int32_t n_first;
} dpk_uniform;

int dpk_is_below(const dpk_uniform *, const dpk_real *p, uint32_t multiple);                 /* U < multiple p: 1, 0, or -1 undecided */
int dpk_uniform_below(const dpk_uniform *, uint32_t bound, uint32_t attempt, uint32_t *out); /* floor(U bound); 0, or -1 undecided */
uint32_t dpk_leading(const dpk_real *, int bits);                                            /* floor(p 2^bits), bits <= 32 */
uint64_t dpk_following(const dpk_real *, int bits);                                          /* the 64 bits after those */

/* core/response.c, core/categories.c: one call of a randomiser */
typedef enum {
    DPK_FLIP = 0,        /* bytes to bytes of 0 and 1 */
    DPK_FLIP_PACKED = 1, /* bits to bits; positions are 64-bit words */
    DPK_BOUNDED = 2,
    DPK_TABLE = 3,
    DPK_KARY = 4,
    DPK_UNARY = 5,
    DPK_SUBSET = 6,
    DPK_HASHING = 7,
    DPK_HADAMARD = 8
} dpk_response_kind;

typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int32_t kind;
    int32_t tier; /* a bounded mean that must not use its fast or its middle tier */
    int64_t k;
    int64_t unknown;      /* category that stands for codes outside [0, k); -1 if there are none */
    int64_t w;            /* subset size */
    int64_t g;            /* codes of a hash */
    double scale;         /* k-ary: (e^epsilon + k - 1) 2^-32 */
    const dpk_real *real; /* flip, k-ary q, unary q, inclusion; a table's probabilities */
    const dpk_real *own;  /* unary: p of the true position */
    dpk_bounded bounded;
    dpk_view values, out;
} dpk_response;

int dpk_response_run(const dpk_response *, int64_t start, int64_t stop, uint8_t *room, dpk_pending *pending, int64_t capacity,
                     int64_t *n_pending, int64_t *reached);
void dpk_bounded_set(dpk_bounded *);                                                       /* what follows from the bounds */
int64_t dpk_first_nan(const dpk_kernels *, const dpk_view *, int64_t start, int64_t stop); /* -1 if none */
int dpk_ends_early(const dpk_real *); /* whether the first DPK_PLANES bits are all of it */
int dpk_draw_below(const dpk_response *, const dpk_real *p, uint64_t group, size_t n_groups, uint64_t *planes, uint64_t *below);
int dpk_categories_run(const dpk_response *, int64_t start, int64_t stop, uint8_t *room, int64_t *reached);
void dpk_load_codes(const dpk_response *, int64_t start, size_t n, int64_t *codes);
int64_t dpk_subset_words(int64_t w); /* 64-bit words of keystream a record takes */
typedef struct {
    double tau, lower, upper, start, step;
    double when_true, when_false; /* what an answer counts as */
} dpk_quantile;

/* core/sequential.c */
void dpk_sequential_quantile(const dpk_quantile *, const double *x, const uint8_t *flips, uint8_t *bits, int64_t n, double *average);
int64_t dpk_first_outside(const dpk_kernels *, const dpk_view *, int64_t k, int64_t start, int64_t stop); /* -1 if none */

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

#endif
