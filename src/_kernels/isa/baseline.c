/* The kernels of level baseline. */
#define DPK_ISA baseline
#define DPK_ISA_NAME "baseline"
#include "../kernels/all.inc.c"
