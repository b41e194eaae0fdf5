/* The kernels of level x86_v4. */
#define DPK_ISA x86_v4
#define DPK_ISA_NAME "x86_v4"
#include "../kernels/all.inc.c"
