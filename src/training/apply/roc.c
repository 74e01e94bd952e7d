#include "apply/roc.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COARSE_BITS = 20 };

static uint32_t place_of(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000U;
}

/* From now on scores are counted by their first bits. */
static bool coarsen(td__roc *roc) {
    for (int c = 0; c < 2; c++) {
        roc->coarse[c] = td__calloc((size_t)1 << COARSE_BITS, sizeof(int64_t));
    }
    for (int c = 0; c < 2 && roc->coarse[0] && roc->coarse[1]; c++) {
        for (size_t i = 0; i < roc->count[c]; i++) {
            roc->coarse[c][roc->places[c][i] >> (32 - COARSE_BITS)]++;
        }
        td__free(roc->places[c]);
        roc->places[c] = NULL;
    }
    return roc->coarse[0] && roc->coarse[1];
}

bool td__roc_add(td__roc *roc, int64_t class, float score) {
    if (!roc->coarse[0] && roc->count[0] + roc->count[1] == TD__ROC_EXACT && !coarsen(roc)) {
        return false;
    }
    uint32_t place = place_of(score);
    if (roc->coarse[0]) {
        roc->coarse[class][place >> (32 - COARSE_BITS)]++;
        return true;
    }
    size_t *count = &roc->count[class];
    if (!td__grow(&roc->places[class], &roc->room[class], *count + 1, TD__ROC_EXACT,
                  sizeof(uint32_t))) {
        return false;
    }
    roc->places[class][(*count)++] = place;
    return true;
}

static int by_place(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Pairs of one score of each class in which the second class has the larger one; equal ones count half. */
static double exact_area(td__roc *roc) {
    double pairs = 0;
    size_t below = 0, not_above = 0, count = roc->count[0];
    for (int c = 0; c < 2; c++) {
        qsort(roc->places[c], roc->count[c], sizeof(uint32_t), by_place);
    }
    for (size_t i = 0; i < roc->count[1]; i++) {
        uint32_t place = roc->places[1][i];
        while (below < count && roc->places[0][below] < place) {
            below++;
        }
        while (not_above < count && roc->places[0][not_above] <= place) {
            not_above++;
        }
        pairs += (double)below + (double)(not_above - below) / 2;
    }
    return pairs / ((double)count * (double)roc->count[1]);
}

static double coarse_area(const td__roc *roc) {
    double below = 0, area = 0, above = 0;
    for (size_t i = 0; i < (size_t)1 << COARSE_BITS; i++) {
        double first = (double)roc->coarse[0][i], second = (double)roc->coarse[1][i];
        area += second * (below + first / 2);
        below += first;
        above += second;
    }
    return below > 0 && above > 0 ? area / (below * above) : (double)NAN;
}

double td__roc_area(td__roc *roc) {
    return roc->coarse[0]                   ? coarse_area(roc)
           : roc->count[0] && roc->count[1] ? exact_area(roc)
                                            : (double)NAN;
}

void td__roc_release(td__roc *roc) {
    for (int c = 0; c < 2; c++) {
        td__free(roc->places[c]);
        td__free(roc->coarse[c]);
    }
    *roc = (td__roc){0};
}
