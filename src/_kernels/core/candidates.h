/* Candidates of a selection in the order of their keys. */
#ifndef DPK_CANDIDATES_H
#define DPK_CANDIDATES_H

#include "dpk_selection.h"

static inline int is_above(const dpk_candidate *a, const dpk_candidate *b) {
    return a->high > b->high || (a->high == b->high && a->low > b->low);
}

static inline void swap(dpk_candidate *a, dpk_candidate *b) {
    dpk_candidate c = *a;
    *a = *b;
    *b = c;
}

/* Pre: 0 < k < n. Post: places[0..k) hold the k largest keys. Errors: none. Source: Hoare (1961). */
static inline void gather_largest(dpk_candidate *places, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1, best = 0;
    if (k == 1) {
        for (int64_t i = 1; i < n; i++)
            if (is_above(&places[i], &places[best])) best = i;
        swap(&places[0], &places[best]);
        return;
    }
    while (low < high) {
        dpk_candidate pivot = places[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (is_above(&places[i], &pivot)) i++;
            while (is_above(&pivot, &places[j])) j--;
            if (i > j) break;
            swap(&places[i++], &places[j--]);
        }
        if (k - 1 <= j) high = j;
        else if (k - 1 >= i) low = i;
        else return;
    }
}

/* Sorts the candidates of a small selection, the largest first. */
static inline void sort_places(dpk_candidate *places, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0 && is_above(&places[j], &places[j - 1]); j--) swap(&places[j], &places[j - 1]);
}

#endif
