/* Batches of a part: an order for each epoch, and one buffer that every batch is gathered into. */
#include "base/memory.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/streams.h"

#include <string.h>

enum { AHEAD = 4 }; /* rows in random order are fetched this many rows before they are needed */

struct td_batches {
    const td_dataset *dataset;
    const td__part *part;
    int64_t batch;         /* examples */
    int64_t next;          /* number of the next batch in the epoch */
    uint32_t *order;       /* this epoch's rows; NULL: in order */
    float *input;          /* (batch, …input) */
    void *label;           /* (batch, …label) */
    int64_t *rows;         /* (batch) */
    float *weight;         /* (batch); NULL: all the same */
    size_t label_size;     /* bytes of one label; 0 without */
    uint64_t epoch;        /* under way */
    float *changed;        /* (batch, …input), images as this epoch has them; NULL: as they are */
    bool scattered;        /* what stands beside a row is not to be read too */
    size_t released;       /* bytes of the mapped file before which all pages were released */
    td__batch_share share; /* parts 0: all of each batch is read */
    td_error error;        /* why td_batches_next ended early; its status is TD_OK: it did not */
};

static td_part part_of(const td_batches *b) {
    return b->part == &b->dataset->parts[TD_TRAINING] ? TD_TRAINING : TD_VALIDATION;
}

/* Order and buffers; false when memory is exhausted. */
static bool allocate(td_batches *b) {
    size_t count = (size_t)b->batch;
    int64_t values;
    if (!td__multiply(b->batch, b->dataset->tables[b->part->table].input.count, &values) ||
        values > INT64_MAX / (int64_t)sizeof(float)) {
        return false;
    }
    b->input = td__aligned_alloc((size_t)values * sizeof(float));
    bool augmented = part_of(b) == TD_TRAINING && td__augment_is_on(&b->dataset->augment);
    b->changed = augmented ? td__aligned_alloc((size_t)values * sizeof(float)) : NULL;
    b->label = td__calloc(count, b->label_size);
    b->rows = td__calloc(count, sizeof *b->rows);
    bool weighted = td__is_weighted(b->dataset, part_of(b));
    b->weight = weighted ? td__calloc(count, sizeof *b->weight) : NULL;
    bool shuffled = b->part == &b->dataset->parts[TD_TRAINING] && !b->dataset->in_order;
    if (shuffled) {
        b->order = td__calloc((size_t)b->part->count, sizeof *b->order);
    }
    return b->input && (b->changed || !augmented) && b->label && b->rows &&
           (b->weight || !weighted) && (b->order || !shuffled);
}

td_batches *td_batches_create(const td_dataset *dataset, td_part part, int64_t batch,
                              td_error *error) {
    const td__part *p = &dataset->parts[part];
    if (batch < 0 || p->count == 0) {
        td_error_set(error, batch < 0 ? TD_RANGE : TD_NOT_FOUND,
                     batch < 0 ? "a batch cannot have a negative number of examples"
                               : "the data set has no validation part");
        return NULL;
    }
    if (part == TD_TRAINING && !dataset->in_order && p->count > UINT32_MAX) {
        td_error_set(error, TD_RANGE, "%lld examples are too many to shuffle; use them in order",
                     (long long)p->count);
        return NULL;
    }
    td_batches *b = td__calloc(1, sizeof *b);
    if (b) {
        batch = batch ? batch : dataset->info.batch;
        b->dataset = dataset;
        b->part = p;
        b->batch = batch < p->count ? batch : p->count;
        if (dataset->info.label_kind != TD_LABEL_NONE) {
            b->label_size =
                (size_t)td__label_count(dataset) * td_dtype_size(td__label_dtype(dataset));
        }
    }
    if (!b || !allocate(b)) {
        td_error_set(error, TD_MEMORY, "no memory for batches of %lld examples", (long long)batch);
        td_batches_destroy(b);
        return NULL;
    }
    const td__table *table = &dataset->tables[p->table];
    b->scattered = b->order && table->bytes[0].mapped && table->bytes[0].size > dataset->memory;
    if (b->scattered) {
        td__table_scatter(table);
    }
    td_batches_start(b, 1);
    return b;
}

void td_batches_destroy(td_batches *batches) {
    if (!batches) {
        return;
    }
    td__free(batches->order);
    td__aligned_free(batches->input);
    td__aligned_free(batches->changed);
    td__free(batches->label);
    td__free(batches->rows);
    td__free(batches->weight);
    td__free(batches);
}

void td_batches_start(td_batches *batches, uint64_t epoch) {
    batches->next = 0;
    batches->released = 0;
    batches->epoch = epoch;
    if (!batches->order) {
        return;
    }
    for (int64_t i = 0; i < batches->part->count; i++) {
        batches->order[i] = (uint32_t)td__part_row(batches->part, i);
    }
    td__shuffle(batches->order, batches->part->count, batches->dataset->seed,
                TD__STREAM_SHUFFLE + epoch);
}

int64_t td_batches_count(const td_batches *batches) {
    return (batches->part->count + batches->batch - 1) / batches->batch;
}

void td_batches_seek(td_batches *batches, int64_t index) {
    int64_t count = td_batches_count(batches);
    batches->next = index < 0 ? 0 : index < count ? index : count;
}

static td_shape with_count(const td_shape *shape, int64_t count) {
    td_shape whole = {.rank = shape->rank + 1, .dims = {count}};
    memcpy(whole.dims + 1, shape->dims, (size_t)shape->rank * sizeof *shape->dims);
    return whole;
}

/* Where the batch lies in the data set already; NULL when it must be gathered. Rows of a part that
 * is not shuffled ascend, so the first and the last show whether there are gaps. */
static const float *inputs_in_place(const td_batches *b, int64_t count) {
    if (b->order || b->rows[count - 1] - b->rows[0] != count - 1) {
        return NULL;
    }
    const float *rows = td__input_rows(b->dataset, b->part->table);
    return rows ? rows + b->rows[0] * b->dataset->tables[b->part->table].input.count : NULL;
}

/* Rows of a batch that are to be read. */
typedef struct span {
    int64_t begin, end;
} span;

static span span_of(const td_batches *b, int64_t count) {
    const td__batch_share *share = &b->share;
    span own = {0, count};
    if (share->parts) {
        own.begin = count * share->first / share->parts;
        own.end = count * share->end / share->parts;
    }
    return own.begin == own.end ? (span){0, 1} : own;
}

void td__batches_share(td_batches *batches, const td__batch_share *share) {
    batches->share = *share;
}

void td__batches_scatter(td_batches *batches) {
    const td__table *table = &batches->dataset->tables[batches->part->table];
    if (table->bytes[0].mapped) {
        batches->scattered = true;
        td__table_scatter(table);
    }
}

static const float *gather_inputs(td_batches *b, span own) {
    int table = b->part->table;
    const td__array *array = &b->dataset->tables[table].input;
    int64_t width = array->count;
    const float *rows = td__input_rows(b->dataset, table);
    for (int64_t i = own.begin; i < own.end; i++) {
        float *to = b->input + i * width;
        if (i + AHEAD < own.end) {
            td__array_prefetch(array, b->rows[i + AHEAD]);
        }
        if (rows) {
            memcpy(to, rows + b->rows[i] * width, (size_t)width * sizeof *to);
        } else {
            td__input_row(b->dataset, table, b->rows[i], to);
        }
    }
    return b->input;
}

static const void *gather_labels(td_batches *b, span own) {
    for (int64_t i = own.begin; i < own.end; i++) {
        td__label_read(b->dataset, b->part->table, b->rows[i],
                       (char *)b->label + (size_t)i * b->label_size);
    }
    return b->label;
}

static const float *augment_inputs(const td_batches *b, span own, const float *input) {
    const td_dataset *dataset = b->dataset;
    int64_t width = dataset->tables[b->part->table].input.count;
    for (int64_t i = own.begin; b->changed && i < own.end; i++) {
        td__augment_image(&dataset->augment, dataset->seed, b->epoch, b->rows[i],
                          &dataset->info.input, input + i * width, b->changed + i * width);
    }
    return b->changed ? b->changed : input;
}

td_status td_batches_status(const td_batches *batches, td_error *error) {
    const td_error *found = &batches->error;
    return found->status ? td_error_set(error, found->status, "%s", found->text) : TD_OK;
}

bool td_batches_next(td_batches *b, td_batch *batch) {
    int64_t first = b->next * b->batch, left = b->part->count - first;
    if (left <= 0) {
        return false;
    }
    int64_t count = left < b->batch ? left : b->batch;
    for (int64_t i = 0; i < count; i++) {
        b->rows[i] = b->order ? (int64_t)b->order[first + i] : td__part_row(b->part, first + i);
    }
    span own = span_of(b, count);
    if (td__supply_need(b->dataset->tables[b->part->table].supply, b->rows + own.begin,
                        own.end - own.begin, &b->error)) {
        return false;
    }
    if (b->scattered) {
        td__table_fetch(&b->dataset->tables[b->part->table], b->rows + own.begin,
                        own.end - own.begin);
    }
    if (!b->order) {
        td__table_release_rows(&b->dataset->tables[b->part->table], b->rows[0], &b->released);
    }
    const td_data_info *info = &b->dataset->info;
    const float *input = inputs_in_place(b, count);
    input = augment_inputs(b, own, input ? input : gather_inputs(b, own));
    *batch = (td_batch){
        .count = count,
        .index = b->next,
        .input = {.dtype = TD_FLOAT32, .shape = with_count(&info->input, count), .data = input},
        .rows = b->rows,
    };
    if (b->label_size > 0) {
        batch->label =
            (td_view){.dtype = td__label_dtype(b->dataset),
                      .shape = with_count(&info->label, count),
                      .data = gather_labels(b, b->share.all_labels ? (span){0, count} : own)};
    }
    for (int64_t i = own.begin; b->weight && i < own.end; i++) {
        b->weight[i] = td__weight(b->dataset, part_of(b), b->rows[i]);
    }
    if (b->weight) {
        batch->weight = (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(count), .data = b->weight};
    }
    b->next++;
    return true;
}
