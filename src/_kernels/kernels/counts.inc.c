/* Aggregation: bits by column, supports of local hashing, and the Walsh-Hadamard transform. Exact integers at every level. */

#include "dpk_response.h"
#include "lanes.h"

#if DPK_VECTOR_LANES > 1
typedef uint64_t bits_vec __attribute__((vector_size(4 * DPK_VECTOR_LANES)));
#define BITS_SPLAT(x) ((bits_vec){0} + (uint64_t)(x))
#else
typedef uint64_t bits_vec;
#define BITS_SPLAT(x) ((uint64_t)(x))
#endif
enum {
    VEC_BYTES = sizeof(bits_vec),
    VEC_ROWS = 16,                   /* rows that carry-save adders take in at a time */
    PANEL_BYTES = 1 << 17,           /* rows that stay in cache while their columns are walked */
    PANEL_ROWS_MOST = VEC_ROWS * 255 /* byte counters of sixteens hold 255 */
};

/* Full adder on bit vectors. */
DPK_INLINE void add_bits(bits_vec *carry, bits_vec *sum, bits_vec a, bits_vec b, bits_vec c) {
    bits_vec u = a ^ b;
    *carry = (a & b) | (u & c);
    *sum = u ^ c;
}

/* Adds weight times the bits of v to the counts of its columns. */
static void spill_bits(bits_vec v, int64_t weight, int64_t *counts) {
    uint8_t bytes[VEC_BYTES];
    memcpy(bytes, &v, sizeof bytes);
    for (int i = 0; i < VEC_BYTES; i++)
        for (int j = 0; j < 8; j++) counts[8 * i + j] += weight * (bytes[i] >> j & 1);
}

DPK_INLINE bits_vec load_bits(const uint8_t *at) {
    bits_vec v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* Pre: n_rows <= PANEL_ROWS_MOST. Post: adds the bits of VEC_BYTES columns of bytes to counts[8 VEC_BYTES]. Errors: none.
   Source: Harley-Seal popcount (Mula, Kurz & Lemire, 2018), one counter a column. */
static void count_panel(const uint8_t *at, size_t n_rows, size_t stride, int64_t *counts) {
    bits_vec ones = BITS_SPLAT(0), twos = ones, fours = ones, eights = ones, bytes[8];
    for (int j = 0; j < 8; j++) bytes[j] = ones;
    size_t row = 0;
    for (; row + VEC_ROWS <= n_rows; row += VEC_ROWS, at += VEC_ROWS * stride) {
        bits_vec two[2], four[2], eight[2], sixteen;
        for (int half = 0; half < 2; half++) {
            for (int quarter = 0; quarter < 2; quarter++) {
                const uint8_t *p = at + (size_t)(8 * half + 4 * quarter) * stride;
                add_bits(&two[0], &ones, ones, load_bits(p), load_bits(p + stride));
                add_bits(&two[1], &ones, ones, load_bits(p + 2 * stride), load_bits(p + 3 * stride));
                add_bits(&four[quarter], &twos, twos, two[0], two[1]);
            }
            add_bits(&eight[half], &fours, fours, four[0], four[1]);
        }
        add_bits(&sixteen, &eights, eights, eight[0], eight[1]);
        for (int j = 0; j < 8; j++) bytes[j] += sixteen >> j & BITS_SPLAT(0x0101010101010101u);
    }
    for (; row < n_rows; row++, at += stride) spill_bits(load_bits(at), 1, counts);
    spill_bits(ones, 1, counts);
    spill_bits(twos, 2, counts);
    spill_bits(fours, 4, counts);
    spill_bits(eights, 8, counts);
    for (int j = 0; j < 8; j++) {
        uint8_t sixteens[VEC_BYTES];
        memcpy(sixteens, &bytes[j], sizeof sixteens);
        for (int i = 0; i < VEC_BYTES; i++) counts[8 * i + j] += 16 * (int64_t)sixteens[i];
    }
}

/* Bytes of a row that no whole vector covers, or rows narrower than a vector. */
static void count_narrow(const uint8_t *rows, size_t n_rows, size_t n_bytes, size_t stride, int64_t *counts) {
    for (size_t r = 0; r < n_rows; r++)
        for (size_t i = 0; i < n_bytes; i++)
            for (int j = 0; j < 8; j++) counts[8 * i + (size_t)j] += rows[r * stride + i] >> j & 1;
}

/* Narrow rows that follow each other: a period of `vectors` vectors is a whole number of rows. Returns how many rows were counted. */
static size_t count_periods(const uint8_t *rows, size_t n_rows, size_t n_bytes, int64_t *counts) {
    size_t vectors = n_bytes, period_rows = VEC_BYTES; /* both halved while they share a factor two: VEC_BYTES is a power of two */
    for (; vectors % 2 == 0 && period_rows > 1; vectors /= 2) period_rows /= 2;
    size_t periods = n_rows / period_rows, stride = vectors * VEC_BYTES, panel = PANEL_BYTES / stride / VEC_ROWS * VEC_ROWS;
    panel = panel < VEC_ROWS ? VEC_ROWS : panel > PANEL_ROWS_MOST ? PANEL_ROWS_MOST : panel;
    for (size_t first = 0; first < periods; first += panel) {
        size_t n = periods - first < panel ? periods - first : panel;
        for (size_t v = 0; v < vectors; v++) {
            int64_t wide[8 * VEC_BYTES] = {0};
            count_panel(rows + first * stride + v * VEC_BYTES, n, stride, wide);
            for (size_t i = 0; i < VEC_BYTES; i++)
                for (size_t j = 0; j < 8; j++) counts[(v * VEC_BYTES + i) % n_bytes * 8 + j] += wide[8 * i + j];
        }
    }
    return periods * period_rows;
}

/* Pre: rows lie `stride` >= n_bytes bytes apart. Post: counts[8 i + j] += how often bit j of byte i is set. Errors: none. */
static void count_columns(const uint8_t *rows, size_t n_rows, size_t n_bytes, size_t stride, int64_t *counts) {
    if (n_bytes < VEC_BYTES) {
        size_t done = stride == n_bytes ? count_periods(rows, n_rows, n_bytes, counts) : 0;
        count_narrow(rows + done * stride, n_rows - done, n_bytes, stride, counts);
        return;
    }
    size_t panel = PANEL_BYTES / stride / VEC_ROWS * VEC_ROWS;
    panel = panel < VEC_ROWS ? VEC_ROWS : panel > PANEL_ROWS_MOST ? PANEL_ROWS_MOST : panel;
    size_t whole = n_bytes / VEC_BYTES * VEC_BYTES, rest = n_bytes - whole;
    for (size_t first = 0; first < n_rows; first += panel) {
        size_t n = n_rows - first < panel ? n_rows - first : panel;
        const uint8_t *at = rows + first * stride;
        for (size_t i = 0; i < whole; i += VEC_BYTES) count_panel(at + i, n, stride, counts + 8 * i);
        if (rest) { /* the last bytes once more as the end of a whole vector, whose other columns are dropped */
            int64_t last[8 * VEC_BYTES] = {0};
            count_panel(at + n_bytes - VEC_BYTES, n, stride, last);
            for (size_t i = 0; i < 8 * rest; i++) counts[8 * whole + i] += last[8 * (VEC_BYTES - rest) + i];
        }
    }
}

/* 1/d mod 2^32 for odd d, by Newton's iteration. */
static uint32_t inverse_odd(uint32_t d) {
    uint32_t x = d;
    for (int i = 0; i < 5; i++) x *= 2 - d * x;
    return x;
}

/* How many of the seeds support the category they stand at; moves each to its next category. With z = r + shift a multiple of
   g = odd 2^twos iff z/odd mod 2^32, rotated, is at most `most`. Not inlined: gcc 12 vectorises it only on pointers of its own. */
DPK_NOINLINE uint32_t support_step(uint32_t *DPK_RESTRICT r, const uint32_t *DPK_RESTRICT step, const uint32_t *DPK_RESTRICT less,
                                   const uint32_t *DPK_RESTRICT shift, uint32_t inverse, uint32_t twos, uint32_t most) {
    uint32_t matches = 0;
    for (size_t i = 0; i < DPK_SUPPORT_SEEDS; i++) {
        uint32_t z = (r[i] + shift[i]) * inverse;
        z = z >> twos | z << ((32 - twos) & 31);
        matches += z <= most;
        uint32_t more = r[i] + step[i], fewer = r[i] + less[i];
        r[i] = fewer < more ? fewer : more;
    }
    return matches;
}

/* Pre: g >= 2 and g < 2^31. Post: counts[v] += #{i: ((a_i v + b_i) mod P) mod g = code_i}. Errors: none.
   Source: z = r + g - code is a multiple of g = odd 2^s iff rotating z/odd mod 2^32 right by s gives at most (2^32 - 1)/g
   (Granlund & Montgomery, 1994). A code of g or more is supported by nothing. */
static void support(const uint64_t *seeds, const uint32_t *codes, size_t n, uint32_t g, size_t k, int64_t *counts) {
    /* r = (b + a v) mod P; the next one is r + a or, if that is P or more, r + a - P: the smaller of the two without sign */
    uint32_t r[DPK_SUPPORT_SEEDS], step[DPK_SUPPORT_SEEDS], less[DPK_SUPPORT_SEEDS], shift[DPK_SUPPORT_SEEDS], twos = 0, odd = g;
    for (; !(odd & 1); odd >>= 1) twos++;
    const uint32_t inverse = inverse_odd(odd), most = 0xffffffffu / g;
    for (size_t first = 0; first < n; first += DPK_SUPPORT_SEEDS) {
        size_t m = n - first < DPK_SUPPORT_SEEDS ? n - first : DPK_SUPPORT_SEEDS;
        for (size_t i = 0; i < DPK_SUPPORT_SEEDS; i++) {
            /* lanes beyond the end never match: a = b = 0 and z = 1, no multiple of g */
            int used = i < m && codes[i < m ? first + i : 0] < g;
            step[i] = used ? (uint32_t)(seeds[first + i] & DPK_HASH_PRIME) : 0;
            less[i] = step[i] - DPK_HASH_PRIME;
            r[i] = used ? (uint32_t)(seeds[first + i] >> 31 & DPK_HASH_PRIME) : 0;
            shift[i] = used ? g - codes[first + i] : 1;
        }
        for (size_t v = 0; v < k; v++) counts[v] += support_step(r, step, less, shift, inverse, twos, most);
    }
}

/* One layer of butterflies between halves of blocks of 2 half items. */
DPK_INLINE void butterflies(int64_t *DPK_RESTRICT x, size_t n, size_t half) {
    for (size_t i = 0; i < n; i += 2 * half)
        for (size_t j = i; j < i + half; j++) {
            int64_t a = x[j], b = x[j + half];
            x[j] = a + b;
            x[j + half] = a - b;
        }
}

enum { TRANSFORM_CACHED = 12 }; /* 2^12 integers stay in L1 */

/* Pre: no sum overflows. Post: y[v] = sum over u of (-1)^popcount(u & v) x[u]. Errors: none. Cost: n log2 n additions. */
static void walsh_hadamard(int64_t *x, int log2_n) {
    size_t n = (size_t)1 << log2_n;
    int cached = log2_n < TRANSFORM_CACHED ? log2_n : TRANSFORM_CACHED;
    for (int level = log2_n - 1; level >= cached; level--) butterflies(x, n, (size_t)1 << level);
    for (size_t i = 0; i < n; i += (size_t)1 << cached)
        for (int level = cached - 1; level >= 0; level--) butterflies(x + i, (size_t)1 << cached, (size_t)1 << level);
}
