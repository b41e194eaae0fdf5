/* Secrets leave memory with their owner: keys, key schedules, random words, records on their way through a block. */
#include <string.h>

#include "dpk.h"

/* A call through a volatile pointer may not be left out, whatever the compiler knows about the memory's further use. */
static void *(*const volatile set_bytes)(void *, int, size_t) = memset;

/* Pre: none. Post: the bytes are 0. Errors: none. Source: OpenSSL's OPENSSL_cleanse. */
void dpk_wipe(void *memory, size_t n) { set_bytes(memory, 0, n); }

/* Pre: n at most DPK_STACK_DEPTH; the stack grows downwards. Post: the n bytes below the caller's frame, where functions that have
   returned kept what they worked on, are 0. Errors: none. Source: Libgcrypt's _gcry_burn_stack. */
void dpk_wipe_stack(size_t n) {
    uint8_t room[DPK_STACK_DEPTH];
    dpk_wipe(room + sizeof room - n, n);
}

/* The same for n at most DPK_DISCRETE_DEPTH: a frame that is small costs less, which calls for one number notice. */
void dpk_wipe_frames(size_t n) {
    uint8_t room[DPK_DISCRETE_DEPTH];
    dpk_wipe(room + sizeof room - n, n);
}
