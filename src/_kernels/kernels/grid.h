/* The end every float kernel shares: a unit sample, scaled, and the value that it is added to, on the grid. */
#ifndef DPK_GRID_H
#define DPK_GRID_H

#include "dpk_noise.h"
#include "lanes.h"

/* What a lane needs to know of its scale. */
typedef struct {
    double step, beta, room, grid, inverse;
} lane_scale;

DPK_INLINE lane_scale scale_of(const dpk_lanes *p, size_t i) {
    double step = p->step_scale[i];
    return (lane_scale){step, step * p->beta, 0.5 - p->slack - step * p->alpha, p->grid[i], p->inverse_grid[i]};
}

/* x plus a unit sample, to the nearest multiple of the grid.
   Post: the released value; NaN, and *undecided not 0, if the error interval holds a midpoint, the sample is NaN, x is not finite or the
   result overflows.
   x/g splits into an integer and a fraction, both exact, so nothing of x is lost whatever its size. */
DPK_INLINE double release_lane(lane_scale s, double x, const double *x_low, double sample, double size, uint64_t *undecided) {
    double scaled = x * s.inverse;
    double whole = nearest(scaled);
    double part = scaled - whole;
    if (x_low) part += *x_low * s.inverse;
    double t = muladd(s.step, sample, part);
    double n = nearest_small(t);
    double uncertain = muladd(s.beta, size, fabs(t - n));
    if (x_low) uncertain = muladd(0x1p-52, fabs(part), fabs(t) < 0x1p51 ? uncertain : 1.0); /* without x_low, |t| < 2^46 */
    double y = (whole + n) * s.grid;
    uncertain = muladd(0.0, y, uncertain); /* NaN if y is infinite */
    uint64_t open = uncertain < s.room ? 0 : UINT64_MAX;
    *undecided += open;
    return y + double_of(open); /* NaN, or 0.0, which turns -0.0 into 0.0 */
}

#endif
