/* Bounded means: what follows from their bounds, and the middle tier of their comparisons. */
#include <math.h>

#include "dd.h"
#include "dpk_kernels.h"

/* The middle tier of a bounded mean: 80 bits of U against p in double-double, whose error is below 2^-90. */
dpk_decision dpk_bounded_accurate(const dpk_response *call, const dpk_bounded *law, uint64_t element, uint16_t piece, double x,
                                  double x_low) {
    double value = isnan(x) ? law->missing : x;
    if (value <= law->lower && x_low <= 0.0) value = law->lower, x_low = 0.0;
    if (value >= law->upper && x_low >= 0.0) value = law->upper, x_low = 0.0;
    int exponent;
    frexp(law->width, &exponent);
    dd offset = dd_add_double(two_sum(value, -law->lower), x_low), width = two_sum(law->upper, -law->lower);
    /* near 1, where products neither overflow nor lose their low parts; what underflows is below 2^-900 of the width */
    offset = (dd){ldexp(offset.high, -exponent), ldexp(offset.low, -exponent)};
    width = (dd){ldexp(width.high, -exponent), ldexp(width.low, -exponent)};
    dd t = dd_divide(offset, width), q = {law->q_high, law->q_low};
    if (t.high < 0.0) t = (dd){0.0, 0.0};
    if (t.high > 1.0 || (t.high == 1.0 && t.low > 0.0)) t = (dd){1.0, 0.0};
    dd p = dd_add(q, dd_multiply(dd_add_double(dd_scale(q, -2.0), 1.0), t));
    uint64_t word[2];
    dpk_more_words(&call->stream, call->kernels, DPK_DOMAIN_MORE_RESPONSE, element, 0, 0, 2, word);
    /* 16 + 64 bits; the sum of three exact parts */
    dd u = dd_add_double(two_sum((double)piece * 0x1p-16, (double)(word[0] >> 32) * 0x1p-48), (double)(uint32_t)word[0] * 0x1p-80);
    dd above = dd_add(u, dd_negate(p)); /* U - p lies in [above, above + 2^-80) */
    double margin = above.high + above.low;
    if (margin + 0x1p-80 < -0x1p-90) return DPK_YES;
    return margin > 0x1p-90 ? DPK_NO : DPK_UNDECIDED;
}

/* Pre: finite lower < upper. Post: the width and its inverse. Errors: none. */
void dpk_bounded_set(dpk_bounded *b) {
    b->width = b->upper - b->lower;
    b->inverse_width = 1.0 / b->width;
}

/* Pre: bounds of `period` coordinates; all arrays have `size` items. Post: items behind the period repeat it; widths and their inverses.
   Errors: none. */
void dpk_box_set(double *lower, double *upper, double *missing, double *width, double *inverse, size_t period, size_t size) {
    for (size_t j = 0; j < size; j++) {
        if (j >= period) {
            lower[j] = lower[j - period];
            upper[j] = upper[j - period];
            missing[j] = missing[j - period];
        }
        width[j] = upper[j] - lower[j];
        inverse[j] = 1.0 / width[j];
    }
}
