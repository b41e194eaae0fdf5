/* Gaussian noise by Box-Muller. In a group, word i < 64 is the radius of elements i (cosine) and i + 64 (sine), word i + 64 their angle. */
#include "dpk_noise.h"
#include "grid.h"
#include "lanes.h"
#include "samples.h"

DPK_INLINE int gaussian_body(const dpk_lanes *p, const uint64_t *DPK_RESTRICT words, const double *DPK_RESTRICT x,
                             const double *DPK_RESTRICT x_low, double *DPK_RESTRICT y, size_t n, int uniform, int with_low) {
    uint64_t undecided = 0;
    lane_scale same = scale_of(p, 0);
    double radius[DPK_HALF_GROUP];
    for (size_t g = 0; g < n; g += DPK_GROUP) {
        normals(words + g, radius, y + g);
        for (size_t i = g; i < g + DPK_HALF_GROUP; i++) {
            size_t j = i + DPK_HALF_GROUP;
            y[i] = release_lane(uniform ? same : scale_of(p, i), x[i], with_low ? x_low + i : NULL, y[i], radius[i - g], &undecided);
            y[j] = release_lane(uniform ? same : scale_of(p, j), x[j], with_low ? x_low + j : NULL, y[j], radius[i - g], &undecided);
        }
    }
    return undecided != 0;
}

/* Pre: n a multiple of DPK_GROUP. Post: y[i] = R(x[i] + scale N_i), NaN if undecided. Errors: returns whether any is undecided.
   Source: docs/exactness.md, "Gaussian". */
static int gaussian(const dpk_lanes *p, const uint64_t *words, const double *x, const double *x_low, double *y, size_t n) {
    if (x_low) return p->uniform ? gaussian_body(p, words, x, x_low, y, n, 1, 1) : gaussian_body(p, words, x, x_low, y, n, 0, 1);
    return p->uniform ? gaussian_body(p, words, x, x, y, n, 1, 0) : gaussian_body(p, words, x, x, y, n, 0, 0);
}

/* For measurements of the bound: what the kernels round to a grid. */
static void normal_raw(const uint64_t *DPK_RESTRICT words, double *DPK_RESTRICT z, size_t n) {
    double radius[DPK_HALF_GROUP];
    for (size_t g = 0; g < n; g += DPK_GROUP) normals(words + g, radius, z + g);
}
