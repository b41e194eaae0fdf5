/* Responses: bit planes compared with a probability, bits spread over bytes, and the bounded-mean, k-ary and Hadamard decisions. */
#include "dpk_response.h"
#include "lanes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Pre: planes is one group, bit j of lane l in bit l % 64 of word 16 j + l/64. Post: lanes whose eight bits are below lead, and lanes whose
   bits equal it. Errors: none. Source: bit-sliced comparison, the most significant bit first. */
static void below_planes(const uint64_t *DPK_RESTRICT planes, uint32_t lead, uint64_t *DPK_RESTRICT below, uint64_t *DPK_RESTRICT open) {
    uint64_t is_one[DPK_PLANES];
    for (int j = 0; j < DPK_PLANES; j++) is_one[j] = (uint64_t)0 - (lead >> (DPK_PLANES - 1 - j) & 1);
    for (int w = 0; w < DPK_PLANE_WORDS; w++) {
        uint64_t less = 0, equal = ~(uint64_t)0;
        for (int j = 0; j < DPK_PLANES; j++) {
            uint64_t plane = planes[DPK_PLANE_WORDS * j + w];
            less |= equal & is_one[j] & ~plane;
            equal &= ~(plane ^ is_one[j]);
        }
        below[w] = less;
        open[w] = equal;
    }
}

/* Eight bits to eight bytes of 0 or 1, and back. */
DPK_INLINE uint64_t spread_bits(uint64_t eight) {
    uint64_t spread = (eight & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
    return (spread + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

/* Bytes other than 0 to 1. */
DPK_INLINE uint64_t bytes_to_truth(uint64_t eight) {
    uint64_t low = (eight & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu;
    return (low | eight) >> 7 & 0x0101010101010101u;
}

/* Pre: n a multiple of 64; x may be y. Post: y[i] = (x[i] != 0) ^ bit i, always 0 or 1. Errors: none. */
static void flip_bytes(const uint8_t *x, const uint64_t *bits, uint8_t *y, size_t n) {
#if defined(__AVX512BW__)
    for (size_t i = 0; i < n; i += 64) {
        __m512i bytes = _mm512_loadu_si512((const void *)(x + i));
        __mmask64 flipped = _mm512_test_epi8_mask(bytes, bytes) ^ bits[i / 64];
        _mm512_storeu_si512((void *)(y + i), _mm512_maskz_set1_epi8(flipped, 1));
    }
#elif defined(__AVX2__)
    const __m256i byte_of_lane =
        _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of_lane = _mm256_set1_epi64x((long long)0x8040201008040201u), one = _mm256_set1_epi8(1);
    for (size_t i = 0; i < n; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(x + i));
        __m256i mask = _mm256_set1_epi32((int)(uint32_t)(bits[i / 64] >> (i % 64)));
        mask = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(mask, byte_of_lane), bit_of_lane), bit_of_lane);
        __m256i is_zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
        /* x is true and not flipped, or false and flipped: the masks agree */
        _mm256_storeu_si256((__m256i *)(y + i), _mm256_and_si256(_mm256_cmpeq_epi8(is_zero, mask), one));
    }
#else
    for (size_t i = 0; i < n; i += 8) {
        uint64_t bytes;
        memcpy(&bytes, x + i, 8);
        bytes = bytes_to_truth(bytes) ^ spread_bits(bits[i / 64] >> (i % 64));
        memcpy(y + i, &bytes, 8);
    }
#endif
}

/* Pre: n a multiple of 64. Post: bit i says whether x[i] is not 0. Errors: none. */
static void pack_bytes(const uint8_t *x, uint64_t *bits, size_t n) {
    for (size_t i = 0; i < n; i += 64) {
#if defined(__AVX512BW__)
        __m512i bytes = _mm512_loadu_si512((const void *)(x + i));
        bits[i / 64] = _mm512_test_epi8_mask(bytes, bytes);
#else
        uint64_t word = 0;
        for (size_t j = 0; j < 64; j += 8) {
            uint64_t bytes;
            memcpy(&bytes, x + i + j, 8);
            word |= (bytes_to_truth(bytes) * 0x0102040810204080u >> 56) << j;
        }
        bits[i / 64] = word;
#endif
    }
}

/* Pre: x_low may be NULL. Post: y[i] = 1 if the uniform that starts with pieces[i] is below the probability of "+", 0 if not, 2 if sixteen
   bits do not say or x is NaN and no value stands for that. Errors: returns whether any is 2.
   Source: docs/exactness-local.md, "Bounded mean". */
DPK_INLINE int bounded_body(const dpk_bounded *law, const uint16_t *DPK_RESTRICT pieces, const double *DPK_RESTRICT x,
                            const double *DPK_RESTRICT x_low, uint8_t *DPK_RESTRICT y, size_t n, int has_low) {
    uint64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        double value = x[i] == x[i] ? x[i] : law->missing;
        double offset = value - law->lower;
        if (has_low) offset += x_low[i];
        double inside = offset > 0.0 ? offset : 0.0;
        inside = inside < law->width ? inside : law->width;
        double p = muladd(law->rise, inside * law->inverse_width, law->start);
        double u = (double)(int32_t)pieces[i];
        uint64_t below = (uint64_t)(u + 1.0 <= p - law->slack), above = (uint64_t)(u >= p + law->slack);
        uint64_t open = 1 ^ ((below | above) & (uint64_t)(value == value));
        undecided |= open;
        y[i] = (uint8_t)(open ? 2 : below);
    }
    return undecided != 0;
}

static int bounded(const dpk_bounded *law, const uint16_t *pieces, const double *x, const double *x_low, uint8_t *y, size_t n) {
    return x_low ? bounded_body(law, pieces, x, x_low, y, n, 1) : bounded_body(law, pieces, x, x, y, n, 0);
}

DPK_INLINE int bounded_each_body(const dpk_bounded *law, const dpk_box *box, const uint16_t *DPK_RESTRICT pieces,
                                 const double *DPK_RESTRICT x, const double *DPK_RESTRICT x_low, uint8_t *DPK_RESTRICT y, size_t n,
                                 int has_low) {
    const double *DPK_RESTRICT lower = box->lower, *DPK_RESTRICT missing = box->missing, *DPK_RESTRICT width = box->width;
    const double *DPK_RESTRICT inverse = box->inverse, start = law->start, rise = law->rise, slack = law->slack;
    uint64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        double value = x[i] == x[i] ? x[i] : missing[i];
        double offset = value - lower[i];
        if (has_low) offset += x_low[i];
        double inside = offset > 0.0 ? offset : 0.0;
        inside = inside < width[i] ? inside : width[i];
        double p = muladd(rise, inside * inverse[i], start);
        double u = (double)(int32_t)pieces[i];
        uint64_t below = (uint64_t)(u + 1.0 <= p - slack), above = (uint64_t)(u >= p + slack);
        uint64_t open = 1 ^ ((below | above) & (uint64_t)(value == value));
        undecided |= open;
        y[i] = (uint8_t)(open ? 2 : below);
    }
    return undecided != 0;
}

/* As `bounded`, with bounds of its own for each number. Source: docs/exactness-local.md, "Vectors". */
static int bounded_each(const dpk_bounded *law, const dpk_box *box, const uint16_t *pieces, const double *x, const double *x_low,
                        uint8_t *y, size_t n) {
    return x_low ? bounded_each_body(law, box, pieces, x, x_low, y, n, 1) : bounded_each_body(law, box, pieces, x, x, y, n, 0);
}

/* Pre: 0 <= x[i] <= last = k - 1 < 2^24, scale = (e^epsilon + k - 1) 2^-32 to a few ulps. With Y = U (e^epsilon + k - 1) the report is the
   floor(Y)-th of the other categories if Y < k - 1, else x. Post: y[i], or INT64_MIN if 32 bits of U do not say: if Y, known to
   lie in [t, t + scale] up to 2^-24, may be on either side of an integer up to k - 1. Errors: returns whether any is undecided.
   Source: docs/exactness-local.md, "k-ary response". */
DPK_INLINE int kary_body(const uint32_t *DPK_RESTRICT pieces, const int64_t *DPK_RESTRICT x, double scale, double last,
                         int64_t *DPK_RESTRICT y, size_t n, int marked) {
    const double slack = 0x1p-22, reach = 0.5 - 0.5 * scale - slack, sure = last * (1.0 + 0x1p-48) + slack;
    uint64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        double u = (double)(int32_t)(pieces[i] ^ 0x80000000u) + 0x1p31;
        double t = u * scale, inside = t < last ? t : last;
        double below = nearest(inside - 0.5); /* floor(t), but where t is an integer, which is undecided anyway */
        uint64_t keep = (uint64_t)(t >= sure);
        uint64_t open = (uint64_t)!(fabs(inside - below - (0.5 - 0.5 * scale)) <= reach) & (keep ^ 1);
        int64_t other = to_int64(below);
        other += (int64_t)((uint64_t)(x[i] - other - 1) >> 63); /* 1 if other >= x */
        int64_t answer = keep ? x[i] : other;
        undecided |= open;
        y[i] = open ? (marked ? INT64_MIN : y[i]) : answer;
    }
    return undecided != 0;
}

static int kary(const uint32_t *pieces, const int64_t *x, double scale, double last, int64_t *y, size_t n) {
    return kary_body(pieces, x, scale, last, y, n, 1);
}

/* The same into a caller's memory, where an undecided lane keeps what it holds. */
static int kary_into(const uint32_t *pieces, const int64_t *x, double scale, double last, int64_t *y, size_t n) {
    return kary_body(pieces, x, scale, last, y, n, 0);
}

/* Pre: n <= DPK_GUIDED; 0 <= x[i] below the number of inputs, and cells of 2^bits each, at most 2^26 in all; 1 <= bits <= DPK_GUIDE_BITS.
   Post: y[i] is the outcome in which the uniform that starts with pieces[i] lies if open[i] is 0. It is 1 if the first bits + 15 bits do
   not say: they equal those of an end, or the cell has several ends. Errors: returns whether any is open. Source: docs/exactness-local.md,
   "Finite channels". */
static int guided(const uint32_t *DPK_RESTRICT pieces, const int64_t *DPK_RESTRICT x, const uint32_t *DPK_RESTRICT cells, int bits,
                  int64_t *DPK_RESTRICT y, uint8_t *DPK_RESTRICT open, size_t n) {
    uint32_t found[DPK_GUIDED], undecided = 0;
    /* places, loads and decisions apart: compilers turn the first and the last loop into vectors */
    for (size_t i = 0; i < n; i++) found[i] = ((uint32_t)x[i] << bits) + (pieces[i] >> (32 - bits));
    for (size_t i = 0; i < n; i++) found[i] = cells[found[i]];
    for (size_t i = 0; i < n; i++) {
        uint32_t next = pieces[i] << bits >> 17, end = found[i] >> 16;
        uint32_t is_open = (uint32_t)(next == (end & 0x7fff)) | end >> 15;
        y[i] = (int64_t)((found[i] & 0xffff) + (uint32_t)(next > end)); /* where the end has its upper bit set, the lane is open */
        open[i] = (uint8_t)is_open;
        undecided |= is_open;
    }
    return undecided != 0;
}

/* Pre: mask = rows - 1 < 2^24, lead = floor(p 2^32). Post: a uniform row, and 2^32 if H[row, x] = +1, flipped with probability p; 2^33 or
   more if 32 bits do not say. Errors: returns whether any is undecided. Source: docs/exactness-local.md, "Hadamard response". */
static int hadamard(const uint64_t *DPK_RESTRICT words, const int64_t *DPK_RESTRICT x, uint32_t mask, uint32_t lead,
                    uint64_t *DPK_RESTRICT reports, size_t n) {
    uint64_t undecided = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t own = words[i] & mask, u = words[i] >> 32, parity = own & (uint64_t)x[i];
        parity ^= parity >> 16;
        parity ^= parity >> 8;
        parity ^= parity >> 4;
        parity ^= parity >> 2;
        parity ^= parity >> 1;
        uint64_t open = (uint64_t)(u == lead), flipped = (u - lead) >> 63; /* u < lead */
        undecided |= open;
        reports[i] = own | ((parity ^ flipped ^ 1) & 1) << 32 | open << 33;
    }
    return undecided != 0;
}

/* v mod 2^31 - 1 for v < 2^62. */
DPK_INLINE uint64_t mod_prime(uint64_t v) {
    v = (v & DPK_HASH_PRIME) + (v >> 31);
    v = (v & DPK_HASH_PRIME) + (v >> 31);
    return v >= DPK_HASH_PRIME ? v - DPK_HASH_PRIME : v;
}

/* Pre: 0 <= x[i] < 2^24, a < P and b < P in the seed's two 31-bit halves. Post: ((a x + b) mod P) mod g. Errors: none.
   Source: Carter & Wegman (1979). */
static void hash_codes(const uint64_t *DPK_RESTRICT seeds, const int64_t *DPK_RESTRICT x, uint32_t g, int64_t *DPK_RESTRICT y, size_t n) {
    const double inverse = 1.0 / (double)g;
    for (size_t i = 0; i < n; i++) {
        uint64_t a = seeds[i] & DPK_HASH_PRIME, b = seeds[i] >> 31 & DPK_HASH_PRIME;
        int32_t r = (int32_t)mod_prime(a * (uint64_t)x[i] + b);
        int32_t rest = r - (int32_t)((double)r * inverse) * (int32_t)g; /* the quotient is off by one at most */
        rest += rest < 0 ? (int32_t)g : 0;
        y[i] = rest >= (int32_t)g ? rest - (int32_t)g : rest;
    }
}

/* 64-bit lanes of the level's widest vector, whose operators are those of a plain number, and products of their lower halves. */
#if defined(__AVX512F__)
typedef uint64_t hash_vec __attribute__((vector_size(64)));
#define HALVES(a, b) ((hash_vec)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define PIECES_AT(p) ((hash_vec)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(p))))
#elif defined(__AVX2__)
typedef uint64_t hash_vec __attribute__((vector_size(32)));
#define HALVES(a, b) ((hash_vec)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define PIECES_AT(p) ((hash_vec)_mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(p))))
#else
typedef uint64_t hash_vec;
#define HALVES(a, b) (((a) & 0xffffffff) * ((b) & 0xffffffff))
#define PIECES_AT(p) (*(p))
#endif
enum { HASH_LANES = sizeof(hash_vec) / 8 };

/* Pre: n a multiple of DPK_HASHED; 0 <= x[i] < 2^24. Post: seeds, and their hashes of x after a response among g codes. Errors: returns
   whether for any lane the word is no seed or 32 bits do not say. Source: docs/exactness-local.md, "Hashing". */
static int hashing(const dpk_hashing *law, const uint64_t *DPK_RESTRICT words, const uint32_t *DPK_RESTRICT pieces,
                   const int64_t *DPK_RESTRICT x, uint64_t *DPK_RESTRICT seeds, int64_t *DPK_RESTRICT codes, size_t n) {
    const hash_vec none = {0}, prime = none + DPK_HASH_PRIME, g = none + law->g, magic = none + law->magic, factor = none + law->factor;
    const uint64_t more = 2 * (uint64_t)UINT32_MAX + law->factor + 2, last = law->g - 1; /* of all pieces */
    const int quotient = law->magic_shift, whole = law->shift;
    hash_vec open = none, edge = none;
    for (size_t i = 0; i < n; i += HASH_LANES) {
        hash_vec word, value;
        memcpy(&word, words + i, sizeof word);
        memcpy(&value, x + i, sizeof value);
        hash_vec a = word & prime, next = (word >> 31 & prime) + 1, seed = word & 0x3fffffffffffffffu;
        edge |= (a - 1) | (a + 1) | next; /* bit 31: a is 0 or P, or b is P */
        hash_vec v = HALVES(a, value) + next;
        v = (v & prime) + (v >> 31);
        v = (v & prime) + (v >> 31) - 1; /* of the residue and 1 came a number in [1, P] */
        hash_vec code = v - HALVES(HALVES(v, magic) >> quotient, g);
        hash_vec lower = HALVES(PIECES_AT(pieces + i), factor), step = lower >> whole;
        open |= step ^ (lower + more) >> whole;
        hash_vec other = step + 1 - ((step - code) >> 63), keep = none - ((last - 1 - step) >> 63);
        hash_vec answer = other ^ ((other ^ code) & keep);
        memcpy(seeds + i, &seed, sizeof seed);
        memcpy(codes + i, &answer, sizeof answer);
    }
    open |= edge >> 31 & 1;
    uint64_t any[HASH_LANES];
    memcpy(any, &open, sizeof open);
    for (size_t j = 1; j < HASH_LANES; j++) any[0] |= any[j];
    return any[0] != 0;
}
