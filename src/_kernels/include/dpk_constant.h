/* Constant work: noise as a sum of digits, each inverted from a public table that is read to its end. docs/constant-work.md. */
#ifndef DPK_CONSTANT_H
#define DPK_CONSTANT_H

#include "dpk_noise.h"

enum {
    DPK_CONSTANT_PLANES = 256, /* groups of words that one group of elements has for itself: two a digit */
    DPK_LIMBS = 3,             /* of a weight, and of a sum */
    DPK_LIMB_BITS = 40,        /* so that 128 digits below 2^9 add up without a carry */
    DPK_MOST_DIGITS = 120
};

/* A digit d is 0, 1, …: the number of thresholds that a uniform number of 127 bits has reached. Signed digits take a fair sign. */
typedef struct {
    int32_t n_thresholds, is_signed;
    const int64_t *high; /* thresholds: upper 63 bits */
    const int64_t *low;  /* lower 64 bits, less 2^63, so that they compare as signed numbers do */
    int64_t weight[DPK_LIMBS];
} dpk_digit;

typedef struct {
    /* For one group of elements: sums[l][i] += weight[l] * digit of lane i, whose 128 bits are the words of two planes. */
    void (*add_digit)(const dpk_digit *, const uint64_t *words, int64_t *sums);
} dpk_constant_kernels;

/* core/constant.c */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int64_t n_digits;
    const dpk_digit *digits;
    int32_t fraction_bits;             /* of a sum, in units of the grid */
    double grid, inverse, least, most; /* |x| outside [least, most) is 0, or so large that noise does not move it */
    dpk_bounds bounds;
    dpk_view values, out;
} dpk_constant_noise;

/* Reports that are True with one of two probabilities, by the record's bit: digits[0] and digits[1] have one threshold each. */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    const dpk_digit *digits;
    const uint8_t *bits;
    uint8_t *out;
} dpk_constant_bits;

/* The largest of score + noise in units of the grid; `largest` is the largest score, high and low part. */
typedef struct {
    const dpk_kernels *kernels;
    dpk_stream stream;
    uint64_t first_element;
    int64_t n_digits;
    const dpk_digit *digits;
    double inverse, least, most, largest, largest_low;
    dpk_view scores;
} dpk_constant_choice;

void dpk_constant_real(const dpk_constant_noise *, int64_t start, int64_t stop);
void dpk_constant_int(const dpk_constant_noise *, int64_t start, int64_t stop);
void dpk_constant_flip(const dpk_constant_bits *, int64_t start, int64_t stop);
int64_t dpk_constant_largest(const dpk_constant_choice *, int64_t n);

#endif
