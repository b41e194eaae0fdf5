/* What Python modules call. Every function that computes is entered through core/entries.c, which sets the floating-point environment. */
#ifndef DPK_ENTRIES_H
#define DPK_ENTRIES_H

#include "dpk_bitgen.h"
#include "dpk_hash.h"
#include "dpk_kernels.h"
#include "dpk_sequential.h"

#define DPK_ENTRY(type, name, parameters, arguments) type dpk_entry_##name parameters;
#define DPK_ENTRY_VOID(name, parameters, arguments) void dpk_entry_##name parameters;
#include "dpk_entries.inc"
#undef DPK_ENTRY
#undef DPK_ENTRY_VOID

#endif
