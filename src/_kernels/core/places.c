/* Places of the numbers of an array among points, a block at a time. */
#include "dpk_kernels.h"

/* Pre: [start, stop) inside the array; out has room for as many integers of dtype I64, or U8 if there are at most 255 points. Post: the
   place of each number. Errors: none. */
void dpk_places_run(const dpk_places *p, int64_t start, int64_t stop, int dtype, void *out) {
    double x[DPK_BLOCK];
    int64_t block[DPK_BLOCK];
    char *at = out;
    for (size_t n; start < stop; start += (int64_t)n) {
        n = (size_t)(stop - start < DPK_BLOCK ? stop - start : DPK_BLOCK);
        const double *run = p->values.dtype == DPK_F64 ? dpk_view_run(&p->values, start) : NULL;
        if (!run) dpk_load_doubles(p->kernels, &p->values, start, n, x);
        p->kernels->search.places(&p->points, run ? run : x, n, block);
        p->kernels->response.narrow(block, dtype, n, at);
        at += n * (dtype == DPK_U8 ? 1 : 8);
    }
}
