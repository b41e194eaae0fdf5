/* Local randomisers: their kernels, and what one call of a randomiser needs. */
#ifndef DPK_RESPONSE_H
#define DPK_RESPONSE_H

#include "dpk.h"
#include "dpk_uniform.h"

enum {
    DPK_MOST_DIMENSIONS = 26,   /* of the vectors of a projective space */
    DPK_PLANES = 8,             /* bits of each lane's uniform that come as bit planes */
    DPK_PLANE_WORDS = 16,       /* 64-bit output words of a group: word 16 j + w holds bit j of lanes 64 w .. 64 w + 63 */
    DPK_LANES = 1024,           /* lanes of a group */
    DPK_FLIP_GROUPS = 8,        /* groups of bit planes whose open lanes are settled together */
    DPK_HASHED = 8,             /* hashing reports that are made together */
    DPK_SUPPORT_SEEDS = 256,    /* hashing reports whose supports are counted together */
    DPK_GUIDED = 256,           /* most lanes that cells decide together */
    DPK_GUIDE_BITS = 17,        /* most bits of a piece that choose a cell; the next fifteen are compared */
    DPK_HASH_PRIME = 0x7fffffff /* 2^31 - 1 */
};

/* A bounded mean's probability of "+": q + (1 - 2q) clamp((x - lower)/(upper - lower)). */
typedef struct {
    double lower, upper, missing; /* missing is NaN if a NaN must not occur */
    double width, inverse_width;  /* rounded */
    double start, rise;           /* 2^16 q and 2^16 (1 - 2q), rounded */
    double slack;                 /* bound of the error of 2^16 p */
    double q_high, q_low;         /* q as a double-double */
} dpk_bounded;

/* A finite channel: for each input the ends of its outcomes on [0, 1), and 2^bits cells that say where among them a number lies.
   A cell holds the outcome at its start in its lower 16 bits, then the next 15 bits of the one end inside, 0x7fff if there is none; the
   upper bit says that there are several. */
typedef struct {
    const uint32_t *cells; /* input x has those from x 2^bits on */
    const uint64_t *ends;  /* floor(2^64 P(outcome <= z | x)), at most 2^64 - 1, z = 0 ... outcomes - 2; input after input, ascending */
    int64_t outcomes;
    int32_t bits; /* in [1, DPK_GUIDE_BITS] */
} dpk_guide;

/* Bounds of many lanes, one item of each array a lane. */
typedef struct {
    const double *lower, *upper, *missing, *width, *inverse;
} dpk_box;

/* Hashing onto g codes, with a response among them: the m-th other code for Y = U (e^epsilon + g - 1) in [m, m + 1), m < g - 1. */
typedef struct {
    uint64_t g, magic; /* floor(v/g) = v magic 2^-magic_shift for v < 2^31 */
    uint64_t factor;   /* factor < 2^shift (e^epsilon + g - 1) 2^-32 < factor + 2; 0: too large for that */
    int magic_shift, shift;
} dpk_hashing;

typedef struct {
    /* Bit planes of one group to lanes whose uniform is below lead 2^-8, and lanes that meet it. */
    void (*below_planes)(const uint64_t *planes, uint32_t lead, uint64_t *below, uint64_t *open);
    /* y[i] = (x[i] != 0) ^ bit i; n is a multiple of 64. */
    void (*flip_bytes)(const uint8_t *x, const uint64_t *bits, uint8_t *y, size_t n);
    /* Bytes other than 0 to bits; n is a multiple of 64. */
    void (*pack)(const uint8_t *x, uint64_t *bits, size_t n);
    /* 0 or 1, or 2 where undecided or NaN; returns whether there is any. */
    int (*bounded)(const dpk_bounded *, const uint16_t *pieces, const double *x, const double *x_low, uint8_t *y, size_t n);
    /* The same for numbers with bounds of their own; of the law only start, rise and slack. x_low may be NULL. */
    int (*bounded_each)(const dpk_bounded *, const dpk_box *, const uint16_t *pieces, const double *x, const double *x_low, uint8_t *y,
                        size_t n);
    /* Category, or INT64_MIN where undecided. scale = (e^epsilon + k - 1) 2^-32; returns whether any is undecided. */
    int (*kary)(const uint32_t *pieces, const int64_t *x, double scale, double last, int64_t *y, size_t n);
    int (*kary_into)(const uint32_t *pieces, const int64_t *x, double scale, double last, int64_t *y, size_t n);
    /* Outcomes, and 1 where the piece's first bits do not say; returns whether there is any. */
    int (*guided)(const uint32_t *pieces, const int64_t *x, const uint32_t *cells, int bits, int64_t *y, uint8_t *open, size_t n);
    void (*widen)(const void *items, int dtype, size_t n, int64_t *out);
    void (*narrow)(const int64_t *items, int dtype, size_t n, void *out);
    void (*replace_outside)(int64_t *codes, size_t n, int64_t k, int64_t other);
    /* row + 2^32 bit, and 2^33 more where undecided; returns whether there is any. */
    int (*hadamard)(const uint64_t *words, const int64_t *x, uint32_t mask, uint32_t lead, uint64_t *reports, size_t n);
    /* ((a x + b) mod P) mod g */
    void (*hash)(const uint64_t *seeds, const int64_t *x, uint32_t g, int64_t *y, size_t n);
    /* Seeds and answered codes, n a multiple of DPK_HASHED; returns whether any lane must be drawn another way. */
    int (*hashing)(const dpk_hashing *, const uint64_t *words, const uint32_t *pieces, const int64_t *x, uint64_t *seeds, int64_t *codes,
                   size_t n);
    /* Adds to counts[v], v < k, how many of n seeds hash v to their code. */
    void (*support)(const uint64_t *seeds, const uint32_t *codes, size_t n, uint32_t g, size_t k, int64_t *counts);
    /* Adds to counts[8 * n_bytes] the bits of n_rows rows that lie `stride` bytes apart. */
    void (*count_columns)(const uint8_t *rows, size_t n_rows, size_t n_bytes, size_t stride, int64_t *counts);
    /* In-place Walsh-Hadamard transform of 2^log2_n integers. */
    void (*walsh_hadamard)(int64_t *x, int log2_n);
} dpk_response_kernels;

typedef enum {
    DPK_FLIP = 0,        /* bytes to bytes of 0 and 1 */
    DPK_FLIP_PACKED = 1, /* bits to bits; positions are 64-bit words */
    DPK_BOUNDED = 2,
    DPK_TABLE = 3,
    DPK_KARY = 4,
    DPK_UNARY = 5,
    DPK_SUBSET = 6,
    DPK_HASHING = 7,
    DPK_HADAMARD = 8,
    DPK_CHANNEL = 9,
    DPK_SAMPLE = 10,    /* k numbers to an index and a bit about that number */
    DPK_HYPERCUBE = 11, /* k numbers to k bits */
    DPK_PROJECTIVE = 12 /* points of a projective space */
} dpk_response_kind;

/* The field of q elements, and the space of vectors of t of them. Elements are numbers, of a field of p^m elements polynomials over the
   integers modulo p, digit by digit; log and exp belong to an element that generates the others. */
typedef struct {
    uint32_t q, minus_one;
    int32_t t;
    const uint32_t *offsets;   /* (q^m - 1)/(q - 1) for m = 0 ... t */
    const uint16_t *log, *exp; /* q and 2 q of them */
    const uint16_t *sum;       /* a + b at q a + b; NULL: the integers modulo q */
    const uint16_t *table;     /* of a small space, from dpk_field_table; else NULL */
} dpk_field;

/* One call of a randomiser. */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int32_t kind;
    int32_t tier; /* a bounded mean or a channel that must not use its fast or its middle tier */
    int64_t k;
    int64_t unknown;      /* category that stands for codes outside [0, k); -1 if there are none */
    int64_t w;            /* subset size; points of a hyperplane; vectors: most coordinates that differ on the likely side */
    int64_t g;            /* codes of a hash; all points */
    double scale;         /* k-ary: (e^epsilon + k - 1) 2^-32 */
    const dpk_real *real; /* flip, k-ary q, unary q, inclusion; a table's probabilities; vectors: the likely side's */
    const dpk_real *own;  /* unary: p of the true position; vectors: P(S <= s) on each side */
    const dpk_box *box;   /* vectors: bounds of k coordinates, and again behind them for DPK_BLOCK more */
    const dpk_field *field;
    int32_t streams;    /* hashing, Hadamard: the output is larger than a cache, and not in one: store past it */
    int32_t is_rounded; /* vectors: `room` holds the corner of the one record of the call */
    dpk_bounded bounded;
    dpk_guide guide; /* a channel's */
    dpk_view values, out;
} dpk_response;

/* core/response.c */
int dpk_response_run(const dpk_response *, int64_t start, int64_t stop, uint8_t *room, dpk_pending *pending, int64_t capacity,
                     int64_t *n_pending, int64_t *reached);

/* core/categories.c */
dpk_status dpk_categories_run(const dpk_response *, int64_t start, int64_t stop, uint8_t *room, int64_t *reached);
dpk_status dpk_channel_run(const dpk_response *, int64_t start, int64_t stop, dpk_pending *pending, int64_t capacity, int64_t *n_pending,
                           int64_t *reached);
int64_t dpk_subset_words(int64_t w); /* 64-bit words of keystream a record takes */

/* core/bounded.c */
void dpk_bounded_set(dpk_bounded *); /* what follows from the bounds */
void dpk_box_set(double *lower, double *upper, double *missing, double *width, double *inverse, size_t period, size_t size);
dpk_decision dpk_bounded_accurate(const dpk_response *, const dpk_bounded *, uint64_t element, uint16_t piece, double x, double x_low);

/* core/vectors.c */
dpk_status dpk_vectors_run(const dpk_response *, int64_t start, int64_t stop, const uint8_t *room, dpk_pending *pending, int64_t capacity,
                           int64_t *n_pending, int64_t *reached);
int64_t dpk_vector_words(int64_t d); /* 64-bit words of keystream a record takes */

/* core/geometry.c */
dpk_status dpk_projective_run(const dpk_response *, int64_t start, int64_t stop, int64_t *reached);
void dpk_field_table(const dpk_field *, uint16_t *table);
void dpk_line_sums(const dpk_field *, const int64_t *x, size_t blocks, int64_t start, int64_t stop, int64_t *out);

/* core/codes.c */
void dpk_load_codes(const dpk_response *, int64_t start, size_t n, int64_t *codes);

/* core/planes.c */
int dpk_ends_early(const dpk_real *); /* whether the first DPK_PLANES bits are all of it */
dpk_status dpk_draw_below(const dpk_response *, const dpk_real *p, uint64_t group, size_t n_groups, uint64_t *planes, uint64_t *below);

#endif
