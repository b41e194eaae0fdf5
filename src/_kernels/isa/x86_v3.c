/* The kernels of level x86_v3. */
#define DPK_ISA x86_v3
#define DPK_ISA_NAME "x86_v3"
#include "../kernels/all.inc.c"
