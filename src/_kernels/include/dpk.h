/* What all families share: sizes, random words and their addresses, status codes, views of arrays, and the wiping of secrets. Each family
   has a header of its own, and dpk_kernels.h the table of a level's kernels. docs/exactness.md derives every bound. */
#ifndef DPK_H
#define DPK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dpcore's keystream layout is defined on little-endian machines"
#endif

enum {
    DPK_GROUP = 128,     /* elements whose words come from one call of a cipher: 1024 bytes */
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
    DPK_DOMAIN_DERIVED = 11,       /* keys of the further draws of a call whose stream stands still */
    DPK_DOMAIN_BITS = 12,          /* words of a bit generator, in groups */
    DPK_DOMAIN_CONSTANT = 13       /* words of constant work, in groups: DPK_CONSTANT_PLANES for each group of elements */
} dpk_domain;

typedef struct {
    uint32_t key[8];
    uint32_t nonce;
    int32_t cipher;
    uint8_t round_keys[DPK_AES_ROUNDS + 1][16]; /* only for DPK_AES256 */
} dpk_stream;

/* The lowest tier a call may use: tests force the others. */
typedef enum { DPK_TIER_FAST = 0, DPK_TIER_ACCURATE = 1, DPK_TIER_EXACT = 2 } dpk_tier;

typedef enum {
    DPK_OK = 0,
    DPK_NONFINITE = 1,    /* a value is NaN or infinite; its index is reported */
    DPK_PENDING_FULL = 2, /* undecided samples fill their buffer; resume after the reported count */
    DPK_NEED_LIMBS = 3,   /* the limbs of a probability do not decide; resume with more of them */
    DPK_EXHAUSTED = 4,    /* 512 further bits of a draw do not decide */
    DPK_OUTSIDE = 5       /* a code is outside its range */
} dpk_status;

/* What the bits that were read say: of a comparison whether it holds, of a number whether it is there. Only DPK_UNDECIDED is negative. */
typedef enum { DPK_UNDECIDED = -1, DPK_NO = 0, DPK_YES = 1, DPK_DECIDED = 1 } dpk_decision;

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

/* A sample that needs the exact tier. */
typedef struct {
    int64_t index;    /* position in the call's arrays */
    uint64_t element; /* index in the keystream */
    double x, x_low;  /* input of a float kind */
    int64_t x_int;    /* input of a discrete kind */
    int64_t law;      /* which law */
} dpk_pending;

/* One level's kernels: dpk_kernels.h. */
typedef struct dpk_kernels dpk_kernels;

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
void dpk_stores_done(void);
void dpk_store_int(const dpk_view *, int64_t start, size_t n, const int64_t *items);

#endif
