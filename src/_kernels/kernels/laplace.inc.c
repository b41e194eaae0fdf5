/* Laplace noise in units of the grid: Y/g = x/g + (scale/g) E with the sign of the word. */

/* What a lane needs to know of its scale. */
typedef struct {
    double step, beta, room, grid, inverse;
} lane_scale;

DPK_INLINE lane_scale scale_of(const dpk_lanes *p, size_t i) {
    double step = p->step_scale[i];
    return (lane_scale){step, step * p->beta, 0.5 - p->slack - step * p->alpha, p->grid[i], p->inverse_grid[i]};
}

/* The end every float kernel shares: x plus a unit sample, to the nearest multiple of the grid.
   Post: the released value; *decided unless the error interval holds a midpoint, x is not finite or the result overflows.
   x/g splits into an integer and a fraction, both exact, so nothing of x is lost whatever its size. */
DPK_INLINE double release_lane(lane_scale s, double x, const double *x_low, double sample, double size, int *decided) {
    double scaled = x * s.inverse;
    double whole = nearest(scaled);
    double part = scaled - whole;
    if (x_low) part += *x_low * s.inverse;
    double t = muladd(s.step, sample, part);
    double n = nearest(t);
    double uncertain = muladd(s.beta, size, fabs(t - n));
    if (x_low) uncertain = muladd(0x1p-52, fabs(part), fabs(t) < 0x1p51 ? uncertain : 1.0); /* without x_low, |t| < 2^46 */
    double y = muladd(whole + n, s.grid, 0.0);                                              /* + 0.0 turns -0.0 into 0.0 */
    *decided = (uncertain < s.room) & (fabs(y) <= 0x1.fffffffffffffp+1023);
    return y;
}

DPK_INLINE int laplace_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, const double *DPK_RESTRICT x,
                            const double *DPK_RESTRICT x_low, double *DPK_RESTRICT y, size_t n, int uniform, int with_low) {
    uint64_t undecided = 0;
    lane_scale same = scale_of(p, 0);
    for (size_t i = 0; i < n; i++) {
        double magnitude;
        int decided;
        double e = exponential_lane(words[i], &magnitude);
        double sample = double_of(bits_of(e) ^ (words[i] & 0x8000000000000000u));
        double r = release_lane(uniform ? same : scale_of(p, i), x[i], with_low ? x_low + i : NULL, sample, e, &decided);
        decided &= magnitude >= DPK_RARE_EXPONENTIAL;
        undecided |= (uint64_t)!decided;
        y[i] = decided ? r : NAN;
    }
    return undecided != 0;
}

/* Pre: n a multiple of DPK_GROUP. Post: y[i] = R(x[i] + scale W_i), NaN if undecided. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Laplace". */
static int laplace(const dpk_lanes *p, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n) {
    if (x_low) return p->uniform ? laplace_body(p, words, x, x_low, y, n, 1, 1) : laplace_body(p, words, x, x_low, y, n, 0, 1);
    return p->uniform ? laplace_body(p, words, x, x, y, n, 1, 0) : laplace_body(p, words, x, x, y, n, 0, 0);
}

/* Post: e[i] = -ln|X_i| before rounding to a grid. For measurements of the bound. */
static void exponential_raw(const uint64_t *DPK_RESTRICT words, double *DPK_RESTRICT e, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double magnitude;
        e[i] = exponential_lane(words[i], &magnitude);
    }
}
