/* Releases of distributions. Integers, and floats in one order of operations without fused ones: the same answers at every level. */
#include "dpk_release.h"
#include "lanes.h"

/* Pre: as dpk_choice says. Post: the codes; whether a word is a threshold. Errors: none. */
static int choose(const dpk_choice *choice, const uint64_t *words, int64_t *out, size_t n) {
    int is_tie = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t w = words[i];
        const uint32_t *bucket = choice->guide + (w >> choice->shift);
        uint32_t low = bucket[0], high = bucket[1];
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (choice->thresholds[middle] <= w) low = middle + 1;
            else high = middle;
        }
        is_tie |= low > 0 && choice->thresholds[low - 1] == w;
        out[i] = low;
    }
    return is_tie;
}

/* sqrt(2) 2^40 sin(2 pi s) for 0 <= s <= 1/4, by its series; the error is below 0.1. */
DPK_INLINE double scaled_sine(double s) {
    double z = s * s, z2 = z * z;
    double p01 = 0x1.1c5831add62e4p+43 - 0x1.d3ba5c1c5f47ep+45 * z;
    double p23 = 0x1.cda1063820e18p+46 - 0x1.b1e9f34ca91f1p+46 * z;
    double p45 = 0x1.dbd6fd56afe6bp+45 - 0x1.558d827798ad9p+44 * z;
    double p67 = 0x1.59be1dab08d63p+42 - 0x1.03fcf07b172c0p+40 * z;
    double high = (0x1.2de1411bcfb09p+37 * z2 + p67) * z2 + p45;
    return s * ((high * z2 + p23) * z2 + p01);
}

/* sqrt(2) cos(2 pi phase 2^-64) in units of 2^-40, towards zero: cos(2 pi t) = sin(2 pi (|t - 1/2| - 1/4)). */
DPK_INLINE int64_t rounded_cosine(uint64_t phase) {
    double t = double_of(phase >> 12 | 0x3ff0000000000000u) - 1.5;
    double s = fabs(t) - 0.25;
    double size = scaled_sine(fabs(s));
    double whole = (size + 0x1p52) - 0x1p52;
    whole = whole > size ? whole - 1.0 : whole;
    whole = whole < (double)DPK_COSINE_LARGEST ? whole : (double)DPK_COSINE_LARGEST;
    int64_t units = (int64_t)(bits_of(whole + 0x1p52) - 0x4330000000000000u), sign = (int64_t)bits_of(s) >> 63;
    return (units ^ sign) - sign;
}

/* Advances phases by one term; the sum of the cosines. */
DPK_NOINLINE int64_t next_cosines(uint64_t *DPK_RESTRICT phases, const uint64_t *DPK_RESTRICT steps, int64_t *DPK_RESTRICT found) {
    int64_t sum = 0;
    for (size_t i = 0; i < DPK_COSINE_BLOCK; i++) {
        phases[i] += steps[i];
        found[i] = rounded_cosine(phases[i]);
        sum += found[i];
    }
    return sum;
}

/* Pre: x in [0, 1]. Post: as dpk_release_kernels says. Errors: none. The phase j x/2 is exact for x rounded down to 2^-63. */
static void cosines(const double *x, size_t n, size_t terms, int64_t *sums, int64_t *out) {
    uint64_t phases[DPK_COSINE_BLOCK] = {0}, steps[DPK_COSINE_BLOCK] = {0};
    int64_t found[DPK_COSINE_BLOCK];
    for (size_t i = 0; i < n; i++) steps[i] = (uint64_t)(x[i] * 0x1p63);
    int64_t spare = (int64_t)(DPK_COSINE_BLOCK - n); /* records that are not there have the phase 0 */
    for (size_t j = 0; j < terms; j++) {
        sums[j] += next_cosines(phases, steps, found) - spare * rounded_cosine(0);
        if (out != NULL)
            for (size_t i = 0; i < n; i++) out[i * terms + j] = found[i];
    }
}

/* 2^e for an integer e in [-1022, 1023]. */
DPK_INLINE double power_of_two(double e) { return double_of(bits_of(e + (0x1.8p52 + 1023)) << 52); }

/* Sum of n products of numbers with exponents, as a number below 2^1000 times 2^*exponent. Terms below 2^-1000 of the largest are
   counted as 2^-1000 of it. */
DPK_NOINLINE double scaled_sum(const double *a, const double *a_exponents, const double *b, const double *b_exponents, size_t n,
                               double *exponent) {
    double most[DPK_BAND_LANES], sum[DPK_BAND_LANES];
    size_t whole = n - n % DPK_BAND_LANES;
    for (size_t i = 0; i < DPK_BAND_LANES; i++) most[i] = -0x1p60, sum[i] = 0.0;
    for (size_t j = 0; j < whole; j += DPK_BAND_LANES)
        for (size_t i = 0; i < DPK_BAND_LANES; i++) {
            double e = a_exponents[j + i] + b_exponents[j + i];
            most[i] = most[i] < e ? e : most[i];
        }
    for (size_t j = whole; j < n; j++) {
        double e = a_exponents[j] + b_exponents[j];
        most[0] = most[0] < e ? e : most[0];
    }
    for (size_t i = 1; i < DPK_BAND_LANES; i++) most[0] = most[0] < most[i] ? most[i] : most[0];
    double largest = most[0];
    for (size_t j = 0; j < whole; j += DPK_BAND_LANES)
        for (size_t i = 0; i < DPK_BAND_LANES; i++) {
            double e = a_exponents[j + i] + b_exponents[j + i] - largest;
            sum[i] += a[j + i] * b[j + i] * power_of_two(e < -1000.0 ? -1000.0 : e);
        }
    for (size_t j = whole; j < n; j++) {
        double e = a_exponents[j] + b_exponents[j] - largest;
        sum[j - whole] += a[j] * b[j] * power_of_two(e < -1000.0 ? -1000.0 : e);
    }
    *exponent = largest;
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Pre: bands do not fall and start at 0 or above. Post: row `row`, from its predecessor. Errors: none.
   Source: f_i(C') = sum over C of f_(i-1)(C)/(C' - C)!. */
static void band_row(const dpk_band *band, size_t row) {
    static const double one = 1.0, zero = 0.0;
    int64_t first = row ? band->lower[row - 1] : 0, last = row ? band->upper[row - 1] : 0;
    const double *before = row ? band->mantissas + band->offsets[row - 1] : &one;
    const double *exponents = row ? band->exponents + band->offsets[row - 1] : &zero;
    double *out = band->mantissas + band->offsets[row], *out_exponents = band->exponents + band->offsets[row];
    for (int64_t c = band->lower[row]; c <= band->upper[row]; c++) {
        int64_t end = last < c ? last : c, shift = band->most - c + first;
        double exponent = 0.0, sum = 0.0;
        if (end >= first)
            sum =
                scaled_sum(before, exponents, band->weights + shift, band->weight_exponents + shift, (size_t)(end - first + 1), &exponent);
        uint64_t bits = bits_of(sum), biased = bits >> 52;
        *out++ = sum > 0.0 ? double_of((bits & 0xfffffffffffffu) | 0x3ff0000000000000u) : 0.0;
        *out_exponents++ = sum > 0.0 ? exponent + ((double)biased - 1023.0) : -0x1p50;
    }
}

/* Set bits of a word. */
DPK_INLINE int64_t bit_count(uint64_t x) {
#if defined(__POPCNT__) || defined(__aarch64__)
    return __builtin_popcountll(x);
#else
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int64_t)((x * 0x0101010101010101u) >> 56);
#endif
}

/* Bits that a row shares with a plane. */
DPK_INLINE int64_t shared_bits(const uint8_t *row, const uint64_t *plane, size_t width) {
    int64_t count = 0;
    size_t word = 0;
    for (; 8 * word + 8 <= width; word++) {
        uint64_t bits;
        memcpy(&bits, row + 8 * word, 8);
        count += bit_count(bits & plane[word]);
    }
    if (8 * word < width) {
        uint64_t bits = 0;
        memcpy(&bits, row + 8 * word, width - 8 * word);
        count += bit_count(bits & plane[word]);
    }
    return count;
}

/* Pre: planes as little-endian words, like the rows. Post: as dpk_release_kernels says. Errors: none. */
static void weigh_bits(const uint8_t *rows, size_t n, size_t width, size_t stride, const uint64_t *planes, int n_planes, int64_t *out) {
    size_t words = (width + 7) / 8;
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (int b = 0; b < n_planes; b++) {
            uint64_t shared = (uint64_t)shared_bits(rows + i * stride, planes + (size_t)b * words, width) << b;
            sum = b + 1 < n_planes ? sum + shared : sum - shared;
        }
        out[i] = (int64_t)sum;
    }
}
