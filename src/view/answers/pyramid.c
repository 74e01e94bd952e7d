#include "answers/pyramid.h"

#include "base/memory.h"

#include <math.h>

static const size_t max_buckets = (size_t)1 << 32;

td__bucket td__bucket_of(const td_run_value *value) {
    bool finite = isfinite(value->value);
    double number = finite ? value->value : NAN;
    return (td__bucket){.first = value->step,
                        .last = value->step,
                        .min = number,
                        .max = number,
                        .sum = finite ? number : 0,
                        .rows = 1,
                        .valued = finite,
                        .nonfinite = value->nonfinite > 0,
                        .last_nonfinite = finite ? 0 : value->value};
}

void td__bucket_merge(td__bucket *bucket, const td__bucket *next) {
    bucket->last = next->last;
    bucket->min = fmin(bucket->min, next->min);
    bucket->max = fmax(bucket->max, next->max);
    bucket->sum += next->sum;
    bucket->rows += next->rows;
    bucket->valued += next->valued;
    bucket->nonfinite += next->nonfinite;
    bucket->last_nonfinite = next->last_nonfinite != 0 || isnan(next->last_nonfinite)
                                 ? next->last_nonfinite
                                 : bucket->last_nonfinite;
}

static void extend_extremes(td_extremes *e, const td_run_value *value, bool first) {
    e->last = value->value;
    e->last_step = value->step;
    if (first) {
        e->least = e->greatest = NAN;
    }
    if (value->value < e->least || (isnan(e->least) && !isnan(value->value))) {
        e->least = value->value;
        e->least_step = value->step;
    }
    if (value->value > e->greatest || (isnan(e->greatest) && !isnan(value->value))) {
        e->greatest = value->value;
        e->greatest_step = value->step;
    }
}

bool td__pyramid_add(td__pyramid *pyramid, const td_run_value *value) {
    td__bucket one = td__bucket_of(value);
    uint32_t full = TD__PYRAMID_FACTOR;
    for (int i = 0; i < TD__PYRAMID_LEVELS; i++, full *= TD__PYRAMID_FACTOR) {
        td__pyramid_level *level = &pyramid->levels[i];
        if (level->count > 0 && level->buckets[level->count - 1].rows < full) {
            td__bucket_merge(&level->buckets[level->count - 1], &one);
            continue;
        }
        if (!td__grow(&level->buckets, &level->capacity, level->count + 1, max_buckets,
                      sizeof *level->buckets)) {
            return false;
        }
        level->buckets[level->count++] = one;
    }
    extend_extremes(&pyramid->extremes, value, pyramid->count++ == 0);
    return true;
}

/* The first bucket that ends at or after step. */
static size_t find_bucket(const td__pyramid_level *level, int64_t step) {
    size_t low = 0, high = level->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (level->buckets[middle].last < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Buckets *begin … *end - 1 hold the steps from first to last. */
static void find_covering_buckets(const td__pyramid_level *level, int64_t first, int64_t last,
                                  size_t *begin, size_t *end) {
    *begin = find_bucket(level, first);
    *end = find_bucket(level, last);
    *end += *end < level->count && level->buckets[*end].first <= last;
    *end = *end > *begin ? *end : *begin;
}

uint64_t td__pyramid_rows(const td__pyramid *pyramid, int64_t first, int64_t last) {
    size_t begin, end;
    find_covering_buckets(&pyramid->levels[0], first, last, &begin, &end);
    return (uint64_t)(end - begin) * TD__PYRAMID_FACTOR;
}

bool td__pyramid_before(const td__pyramid *pyramid, int64_t step, int64_t *from) {
    const td__pyramid_level *level = &pyramid->levels[0];
    size_t at = find_bucket(level, step);
    at -= at > 0 && (at == level->count || level->buckets[at].first >= step);
    bool found = at < level->count && level->buckets[at].first < step;
    if (found) {
        *from = level->buckets[at].first;
    }
    return found;
}

size_t td__pyramid_query(const td__pyramid *pyramid, int64_t first, int64_t last,
                         td__bucket *buckets, size_t max) {
    size_t begin = 0, end = 0;
    int i = 0;
    for (; i < TD__PYRAMID_LEVELS; i++) {
        find_covering_buckets(&pyramid->levels[i], first, last, &begin, &end);
        if (end - begin <= max * TD__PYRAMID_FACTOR) {
            break;
        }
    }
    i = i < TD__PYRAMID_LEVELS ? i : TD__PYRAMID_LEVELS - 1;
    size_t total = end - begin, made = total < max ? total : max;
    for (size_t k = 0; k < made; k++) {
        size_t from = begin + total * k / made, to = begin + total * (k + 1) / made;
        buckets[k] = pyramid->levels[i].buckets[from];
        for (size_t at = from + 1; at < to; at++) {
            td__bucket_merge(&buckets[k], &pyramid->levels[i].buckets[at]);
        }
    }
    return made;
}

size_t td__pyramid_bytes(const td__pyramid *pyramid) {
    size_t bytes = 0;
    for (int i = 0; i < TD__PYRAMID_LEVELS; i++) {
        bytes += pyramid->levels[i].capacity * sizeof(td__bucket);
    }
    return bytes;
}

void td__pyramid_release(td__pyramid *pyramid) {
    for (int i = 0; i < TD__PYRAMID_LEVELS; i++) {
        td__free(pyramid->levels[i].buckets);
    }
    *pyramid = (td__pyramid){0};
}
