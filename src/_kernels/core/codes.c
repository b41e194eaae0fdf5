/* Categories as a call's randomisers read them. */
#include "dpk_kernels.h"

/* Codes of a block; those outside [0, k) become the category that stands for the unknown. Without one there are none outside, but for
   an array that another thread changes meanwhile: what indexes memory is cut here. */
void dpk_load_codes(const dpk_response *call, int64_t start, size_t n, int64_t *codes) {
    const void *run = dpk_view_run(&call->values, start);
    if (run) call->kernels->response.widen(run, call->values.dtype, n, codes);
    else dpk_load_int(&call->values, start, n, codes);
    call->kernels->response.replace_outside(codes, n, call->k, call->unknown < 0 ? 0 : call->unknown);
}
