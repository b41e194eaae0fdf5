/* A keyed hash of the cells of rows: SipHash-2-4 (Aumasson & Bernstein, 2012). */
#ifndef DPK_HASH_H
#define DPK_HASH_H

#include "dpk.h"

enum { DPK_HASH_KEY = 16 /* bytes */ };

/* core/hash.c. Each adds the hash of item i to sums[i], modulo 2^64, where `taken` is NULL or taken[i] is not 0. */
void dpk_hash_rows(const uint8_t *key, const uint8_t *rows, size_t width, const uint8_t *taken, size_t n, uint64_t *sums);
void dpk_hash_texts(const uint8_t *key, const int64_t *ends, const uint8_t *text, const uint8_t *taken, size_t n, uint64_t *sums);

#endif
