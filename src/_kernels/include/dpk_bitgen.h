/* Random words one at a time, for NumPy's generators: a buffer of keystream, and the functions that NumPy calls for a word. */
#ifndef DPK_BITGEN_H
#define DPK_BITGEN_H

#include "dpk_kernels.h"

enum {
    DPK_BITS_WORDS = 4 * DPK_GROUP, /* words of a buffer, 4 KiB */
    DPK_NEXT_KEY = 4,               /* of which a secure source takes the first ones as the key of its next buffer */
    DPK_REFILL_DEPTH = 1 << 12      /* more than the frames below a refill */
};

/* What NumPy's capsule "BitGenerator" points to. Source: numpy/random/bitgen.h, the same since NumPy 1.17. */
typedef struct {
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
} dpk_numpy_bits;

/* Words under one key at a time. Used words are 0, and their key is gone. */
typedef struct {
    uint64_t process;        /* whose words they are: dpk_process_now */
    uint32_t place;          /* of the next half of a word */
    uint32_t has_half, half; /* one that a whole word has overtaken */
    union {
        uint64_t words[DPK_BITS_WORDS];
        uint32_t halves[2 * DPK_BITS_WORDS]; /* the lower one first */
    };
    dpk_stream next; /* of the next buffer */
} dpk_source;

/* A secure generator. The first thread that draws owns a source, and all others share one: nobody's words are anybody else's, even if the
   caller takes no lock. */
typedef struct {
    const dpk_kernels *kernels;
    const uint64_t *now; /* of dpk_watch_forks */
    uint64_t owner;      /* the thread, or 0 */
    uint64_t holder;     /* process of the thread that uses `shared`, or 0 */
    dpk_source owned, shared;
} dpk_secure_bits;

/* A keyed generator: its words are those of the stream's domain DPK_DOMAIN_BITS from `base` on. */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t base;  /* element of the first word, a multiple of DPK_BITS_WORDS */
    uint32_t place; /* as those of a source */
    uint32_t has_half, half;
    union {
        uint64_t words[DPK_BITS_WORDS];
        uint32_t halves[2 * DPK_BITS_WORDS];
    };
} dpk_keyed_bits;

/* core/forks.c */
const uint64_t *dpk_watch_forks(void); /* once, before the next one; where the number is, or 0 if the process has none yet */
uint64_t dpk_process_now(void);        /* a number that no process has in common with those it was forked from */

/* core/entropy.c */
int dpk_entropy(uint8_t key[32]); /* 0 if the operating system gives none */

/* core/threads.c */
uint64_t dpk_thread_now(void); /* not 0, and no other living thread's */
void dpk_thread_rest(void);

/* core/bitgen.c */
int dpk_numpy_bits_are_unset(const dpk_numpy_bits *);
void dpk_secure_bits_start(dpk_secure_bits *, const dpk_kernels *, const uint64_t *now, int cipher, const uint8_t owned[32],
                           const uint8_t shared[32]);
void dpk_secure_bits_serve(dpk_secure_bits *, dpk_numpy_bits *);
void dpk_keyed_bits_start(dpk_keyed_bits *, const dpk_kernels *, const uint8_t key[32]);
uint32_t dpk_keyed_bits_used(const dpk_keyed_bits *, uint32_t *has_half, uint32_t *half);
void dpk_keyed_bits_seek(dpk_keyed_bits *, uint32_t nonce, uint64_t element);
void dpk_keyed_bits_serve(dpk_keyed_bits *, dpk_numpy_bits *);

#endif
