/* Which rows belong to which part, and in which order they come. */
#include "base/memory.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/streams.h"

#include <math.h>

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

/* The end of a shuffled order is the validation part; both parts are then put back into the file's
 * order, by marking. */
static bool draw(td_dataset *dataset, int64_t total, int64_t validation) {
    const uint32_t *kept = dataset->kept[0];
    int64_t training = total - validation;
    uint32_t *rows = td__calloc((size_t)total, sizeof *rows);
    bool *chosen = td__calloc((size_t)total, sizeof *chosen);
    uint32_t *parts[2] = {td__calloc((size_t)training, sizeof *rows),
                          td__calloc((size_t)validation, sizeof *rows)};
    bool room = rows && chosen && parts[0] && parts[1];
    if (room) {
        for (int64_t i = 0; i < total; i++) {
            rows[i] = (uint32_t)i;
        }
        td__shuffle(rows, total, dataset->seed, TD__STREAM_SPLIT);
        for (int64_t i = training; i < total; i++) {
            chosen[rows[i]] = true;
        }
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
    td__free(rows);
    td__free(chosen);
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

td_status td__split(td_dataset *dataset, double share, td_error *error) {
    int64_t total = dataset->kept[0] ? dataset->kept_count[0] : dataset->tables[0].rows;
    if (dataset->table_count == 2) {
        dataset->parts[TD_VALIDATION] = whole(dataset, 1);
    }
    if (share == 0) {
        dataset->parts[TD_TRAINING] = whole(dataset, 0);
        return TD_OK;
    }
    if (total > UINT32_MAX) {
        return td_error_set(error, TD_RANGE,
                            "%lld examples are too many to split by share; name a validation file",
                            (long long)total);
    }
    int64_t validation = (int64_t)llround((double)total * share);
    if (validation == 0 || validation == total) {
        return td_error_set(error, TD_RANGE,
                            "a validation share of %g leaves one part of %lld examples empty",
                            share, (long long)total);
    }
    if (!draw(dataset, total, validation)) {
        return td_error_set(error, TD_MEMORY, "no memory to split %lld examples", (long long)total);
    }
    return TD_OK;
}
