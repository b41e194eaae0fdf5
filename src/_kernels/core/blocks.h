/* Which elements of a call one draw of random words covers. */
#ifndef DPK_BLOCKS_H
#define DPK_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* Elements [element, element + n); `offset` lies before them in what is drawn. */
typedef struct {
    uint64_t element;
    size_t offset, n;
} dpk_span;

/* Pre: position < stop; words are drawn in groups of `group` elements, `room` of them at a time, a multiple of it. Post: the elements from
   `position` on that the draw which starts with the group of the first covers. Errors: none. */
static inline dpk_span dpk_span_at(uint64_t first_element, int64_t position, int64_t stop, size_t group, size_t room) {
    uint64_t element = first_element + (uint64_t)position;
    size_t offset = (size_t)(element % group), left = (size_t)(stop - position), most = room - offset;
    return (dpk_span){element, offset, left < most ? left : most};
}

/* Asks for memory that is read soon, which may lie beyond an array: each block of an array begins a page, where the CPU's own prefetching
   begins anew. */
static inline void dpk_fetch(const void *at, size_t bytes) {
#if defined(__GNUC__) || defined(__clang__)
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + i);
#else
    (void)at, (void)bytes;
#endif
}

#endif
