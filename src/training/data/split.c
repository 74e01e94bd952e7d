/* Which rows belong to which part, and in which order they come. */
#include "base/memory.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/streams.h"

#include <math.h>
#include <stdlib.h>

void td__shuffle(uint32_t *rows, int64_t count, uint64_t seed, uint64_t stream) {
    td__random random;
    td__random_seed(&random, seed, stream);
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)td__random_below(&random, (uint64_t)i + 1);
        uint32_t row = rows[i];
        rows[i] = rows[j];
        rows[j] = row;
    }
}

/* What an example's class is, for drawing from each class alike: its label, as the file has it. */
static double class_of(const td_dataset *dataset, uint32_t index) {
    int64_t row = dataset->kept[0] ? dataset->kept[0][index] : index;
    return td__array_value(&dataset->tables[0].label, row, 0);
}

typedef struct member {
    double place;         /* its class; then how far it is within it, 0 to 1 */
    uint32_t index, turn; /* in the shuffled order */
} member;

static int by_place(const void *a, const void *b) {
    const member *x = a, *y = b;
    return x->place < y->place   ? -1
           : x->place > y->place ? 1
                                 : (x->turn > y->turn) - (x->turn < y->turn);
}

/* Puts shuffled rows into an order whose end has the same share of each class: sorted by class first, and then by how
 * far each is within its class. False when memory is exhausted. */
static bool stratify(const td_dataset *dataset, uint32_t *rows, int64_t total) {
    member *all = td__calloc((size_t)total, sizeof *all);
    for (int64_t i = 0; all && i < total; i++) {
        all[i] = (member){class_of(dataset, rows[i]), rows[i], (uint32_t)i};
    }
    if (!all) {
        return false;
    }
    qsort(all, (size_t)total, sizeof *all, by_place);
    for (int64_t first = 0, end; first < total; first = end) {
        for (end = first + 1; end < total && !(all[end].place > all[first].place); end++) {
        }
        for (int64_t i = end - 1; i >= first; i--) {
            all[i].place = ((double)(i - first) + 0.5) / (double)(end - first);
        }
    }
    qsort(all, (size_t)total, sizeof *all, by_place);
    for (int64_t i = 0; i < total; i++) {
        rows[i] = all[i].index;
    }
    td__free(all);
    return true;
}

/* A piece of an order is the validation part: of a shuffled one, or of the file's own. It is marked, so that both parts
 * keep the file's order. */
static bool draw(const td_dataset *dataset, int64_t total, int64_t first, int64_t validation,
                 td_split split, bool *chosen) {
    uint32_t *rows = td__calloc((size_t)total, sizeof *rows);
    bool room = rows != NULL;
    if (room) {
        for (int64_t i = 0; i < total; i++) {
            rows[i] = (uint32_t)i;
        }
        if (split != TD_SPLIT_END) {
            td__shuffle(rows, total, dataset->seed, TD__STREAM_SPLIT);
        }
        room = split != TD_SPLIT_STRATIFIED || stratify(dataset, rows, total);
    }
    for (int64_t i = first; room && i < first + validation; i++) {
        chosen[rows[i]] = true;
    }
    td__free(rows);
    return room;
}

/* The examples that are chosen are the validation part, the others the training part. */
static bool divide(td_dataset *dataset, int64_t total, const bool *chosen) {
    const uint32_t *kept = dataset->kept[0];
    int64_t validation = 0;
    for (int64_t i = 0; i < total; i++) {
        validation += chosen[i];
    }
    int64_t training = total - validation;
    uint32_t *parts[2] = {td__calloc((size_t)training + 1, sizeof(uint32_t)),
                          td__calloc((size_t)validation + 1, sizeof(uint32_t))};
    bool room = parts[0] && parts[1];
    if (room) {
        int64_t counts[2] = {0};
        for (int64_t i = 0; i < total; i++) {
            int part = chosen[i];
            parts[part][counts[part]++] = kept ? kept[i] : (uint32_t)i;
        }
        dataset->parts[TD_TRAINING] = (td__part){0, parts[0], training};
        dataset->parts[TD_VALIDATION] = (td__part){0, parts[1], validation};
    } else {
        td__free(parts[0]);
        td__free(parts[1]);
    }
    return room;
}

/* All rows of a table that are kept; takes the list. */
static td__part whole(td_dataset *dataset, int table) {
    uint32_t *kept = dataset->kept[table];
    dataset->kept[table] = NULL;
    return (td__part){.table = table,
                      .rows = kept,
                      .count = kept ? dataset->kept_count[table] : dataset->tables[table].rows};
}

td_status td__split(td_dataset *dataset, const td_data_options *options, td_error *error) {
    double share = options->validation_share;
    td_split split = options->window.length ? TD_SPLIT_END : options->split;
    int64_t total = dataset->kept[0] ? dataset->kept_count[0] : dataset->tables[0].rows;
    if (dataset->table_count == 2) {
        dataset->parts[TD_VALIDATION] = whole(dataset, 1);
    }
    if (share == 0 && !options->folds) {
        dataset->parts[TD_TRAINING] = whole(dataset, 0);
        return TD_OK;
    }
    if (total > UINT32_MAX) {
        return td_error_set(error, TD_RANGE,
                            "%lld examples are too many to split by share; name a validation file",
                            (long long)total);
    }
    int64_t validation = (int64_t)llround((double)total * share), first = total - validation;
    if (options->folds) { /* of sizes that differ by 1 at most */
        first = total * (options->fold - 1) / options->folds;
        validation = total * options->fold / options->folds - first;
        if (total < options->folds) {
            return td_error_set(error, TD_RANGE, "%lld examples cannot be cut into %lld folds",
                                (long long)total, (long long)options->folds);
        }
    }
    if (split == TD_SPLIT_STRATIFIED &&
        (!dataset->tables[0].label.data || dataset->tables[0].label.count != 1)) {
        return td_error_set(error, TD_INVALID,
                            "`stratified` draws from each class alike: examples need one label");
    }
    if (validation == 0 || validation == total) {
        return td_error_set(error, TD_RANGE,
                            "a validation share of %g leaves one part of %lld examples empty",
                            share, (long long)total);
    }
    bool *chosen = td__calloc((size_t)total, sizeof *chosen);
    td_status status = TD_OK;
    bool room = chosen != NULL;
    if (room && dataset->tables[0].group.data) {
        status = td__split_groups(dataset, options, total, chosen, error);
    } else if (room) {
        room = draw(dataset, total, first, validation, split, chosen);
    }
    room = room && (status || divide(dataset, total, chosen));
    td__free(chosen);
    return room ? status
                : td_error_set(error, TD_MEMORY, "no memory to split %lld examples",
                               (long long)total);
}
