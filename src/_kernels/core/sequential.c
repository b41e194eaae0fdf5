/* A sequentially interactive quantile: each record answers one question that depends on the answers before it. */
#include <math.h>

#include "dpk_sequential.h"

/* i^(-5/8) by square roots, which every platform rounds alike. */
static double falling_step(int64_t i) {
    double root = sqrt((double)i);
    return 1.0 / (root * sqrt(sqrt(root)));
}

/* Pre: law's fields finite, x without NaN or NULL to replay bits. Post: bits[i] answers "x[i] <= theta_i", flipped where flips[i];
 *average is the mean of theta over the last half. Errors: none. Source: Robbins & Monro (1951); Polyak & Juditsky (1992). */
void dpk_sequential_quantile(const dpk_quantile *law, const double *x, const uint8_t *flips, uint8_t *bits, int64_t n, double *average) {
    double theta = law->start, sum = 0.0;
    int64_t first = n / 2;
    for (int64_t i = 0; i < n; i++) {
        if (i >= first) sum += (theta - sum) / (double)(i - first + 1);
        if (x) bits[i] = (uint8_t)((x[i] <= theta) ^ (flips[i] != 0));
        double answer = bits[i] ? law->when_true : law->when_false; /* unbiased for 1(x <= theta) */
        theta -= law->step * falling_step(i + 1) * (answer - law->tau);
        theta = theta < law->lower ? law->lower : theta > law->upper ? law->upper : theta;
    }
    *average = n ? sum : law->start;
}
