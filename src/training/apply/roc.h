/* The area under the ROC curve of scores that come one at a time: exact up to TD__ROC_EXACT scores, and beyond by their
 * first 20 bits. */
#ifndef TAPEDECK_APPLY_ROC_H
#define TAPEDECK_APPLY_ROC_H

#include "tapedeck/base.h"

enum { TD__ROC_EXACT = 1 << 24 };

typedef struct td__roc {
    uint32_t *places[2]; /* of each class: floats in their order, as numbers */
    size_t count[2], room[2];
    int64_t *coarse[2]; /* how many have each first 20 bits; NULL before they are needed */
} td__roc;

/* False when memory is exhausted. class: 0 or 1. */
TD_NODISCARD bool td__roc_add(td__roc *roc, int64_t class, float score);
/* NaN when one of the classes has no score. */
double td__roc_area(td__roc *roc);
void td__roc_release(td__roc *roc);

#endif
