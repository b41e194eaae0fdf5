/* Laplace noise in units of the grid: Y/g = x/g + (scale/g) E with the sign of the word. */

/* The end every float kernel shares: x plus a unit sample, to the nearest multiple of the grid.
   Post: the released value, or NaN where the error interval holds a midpoint, x is not finite or the result overflows.
   x/g splits into an integer and a fraction, both exact, so nothing of x is lost whatever its size. */
DPK_INLINE double release_lane(const dpk_lanes *p, size_t i, double x, double x_low, int with_low, double sample, double size) {
    size_t k = p->uniform ? 0 : i;
    double scaled = x * p->inverse_grid[k];
    double whole = nearest(scaled);
    double part = scaled - whole;
    double bound = muladd(p->step_scale[k], muladd(p->beta, size, p->alpha), p->slack);
    if (with_low) {
        part += x_low * p->inverse_grid[k];
        bound = muladd(0x1p-52, fabs(part), bound);
    }
    double t = muladd(p->step_scale[k], sample, part);
    double n = nearest(t);
    double y = muladd(whole + n, p->grid[k], 0.0); /* + 0.0 turns -0.0 into 0.0 */
    int decided = (fabs(t - n) < 0.5 - bound) & (fabs(t) < 0x1p51) & (fabs(y) <= 0x1.fffffffffffffp+1023);
    return decided ? y : NAN;
}

DPK_INLINE int laplace_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, const double *DPK_RESTRICT x,
                            const double *DPK_RESTRICT x_low, double *DPK_RESTRICT y, size_t n, int uniform, int with_low) {
    dpk_lanes lanes = *p;
    uint64_t undecided = 0;
    lanes.uniform = uniform;
    for (size_t i = 0; i < n; i++) {
        double magnitude;
        double e = exponential_lane(words[i], &magnitude);
        double sample = double_of(bits_of(e) ^ (words[i] & 0x8000000000000000u));
        double r = release_lane(&lanes, i, x[i], with_low ? x_low[i] : 0.0, with_low, sample, e);
        r = magnitude >= 0x1p51 ? r : NAN;
        undecided |= (uint64_t)(r != r);
        y[i] = r;
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
