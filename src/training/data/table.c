/* Tables: releasing them, finding and taking apart columns. */
#include "data/table.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_MAXIMUM = 4096 };

/* Where there is no memory or no descriptor left, the file is opened again by whoever asks for it. */
void td__table_keep_file(td__table *table, const td__input *input) {
    td__read_file kept = {.path = td__strdup(td__input_path(input)),
                          .descriptor = td__input_descriptor(input)};
    if (kept.path && kept.descriptor >= 0 &&
        td__grow(&table->read, &table->read_room, table->read_count + 1, READ_MAXIMUM,
                 sizeof *table->read)) {
        table->read[table->read_count++] = kept;
        return;
    }
    td__free(kept.path);
    if (kept.descriptor >= 0) {
        close(kept.descriptor);
    }
}

td_status td__table_get_bytes(td__table *table, td__bytes *bytes, const char *path, int64_t maximum,
                              td_error *error) {
    td__input *input = NULL;
    td_status status = td__input_open(&input, path, error);
    if (!status) {
        td__table_keep_file(table, input);
        status = td__input_bytes(input, bytes, maximum, error);
    }
    td__input_close(input);
    return status;
}

void td__table_release(td__table *table) {
    td__supply_destroy(table->supply);
    td__array_release(&table->input);
    td__array_release(&table->label);
    td__names_release(&table->classes);
    td__names_release(&table->input_names);
    td__names_release(&table->label_names);
    td__names_release(&table->remarks);
    td__names_release(&table->date_facts);
    for (int i = 0; i < TD__TEXTS_MAXIMUM; i++) {
        td__names_release(&table->words[i]);
    }
    for (int64_t i = 0; table->files && i < table->rows; i++) {
        td__free(table->files[i]);
    }
    td__free(table->files);
    td__bytes_release(&table->bytes[0]);
    td__bytes_release(&table->bytes[1]);
    for (size_t i = 0; i < table->more_count; i++) {
        td__bytes_release(&table->more_bytes[i]);
    }
    td__free(table->more_bytes);
    td__pieces_release(&table->input_pieces);
    td__pieces_release(&table->label_pieces);
    for (size_t i = 0; i < table->read_count; i++) {
        close(table->read[i].descriptor);
        td__free(table->read[i].path);
    }
    td__free(table->read);
    *table = (td__table){0};
}

td_status td__table_need(const td__table *table, int64_t row, td_error *error) {
    return td__supply_need(table->supply, &row, 1, error);
}

void td__table_dates(const td__table *table, td_date dates[TD__DATES_MAXIMUM]) {
    for (size_t i = 0; i < table->date_facts.count; i++) {
        unsigned number;
        int order;
        long long since;
        if (sscanf(table->date_facts.items[i], "%u %d %lld", &number, &order, &since) == 3 &&
            number < TD__DATES_MAXIMUM) {
            dates[number].order = (td_date_order)order;
            dates[number].has_since = true;
            dates[number].since = since;
        }
    }
}

void td__table_set_labels(td__table *table, const void *data, int64_t labels, bool weighted,
                          bool grouped) {
    int64_t stride = (labels + weighted + grouped) * (int64_t)sizeof(float);
    if (labels > 0) {
        table->label = td__array_plain(data, TD__F32, TD_SHAPE(labels), labels);
        table->label.row_stride = stride;
    }
    if (weighted) {
        table->weight = td__array_plain((const float *)data + labels, TD__F32, TD_SHAPE(1), 1);
        table->weight.row_stride = stride;
    }
    if (grouped) {
        table->group =
            td__array_plain((const float *)data + labels + weighted, TD__F32, TD_SHAPE(1), 1);
        table->group.row_stride = stride;
    }
}

/* A mapped file from this size on releases pages, this many bytes at once: memory stays free for
 * others, however large the file is. The pages stay in the system's cache. */
#define LARGE_FILE ((size_t)64 << 20)
#define RELEASED_AT_ONCE ((size_t)16 << 20)

void td__table_release_rows(const td__table *table, int64_t row, size_t *done) {
    const td__bytes *bytes = &table->bytes[0];
    const td__array *array = &table->input;
    if (array->offsets || !bytes->mapped || bytes->size < LARGE_FILE) {
        return;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t end = (size_t)(array->data - bytes->data) + (size_t)(row * array->row_stride);
    end -= end % page;
    if (end >= *done + RELEASED_AT_ONCE) {
        (void)madvise((void *)(uintptr_t)(bytes->data + *done), end - *done, MADV_DONTNEED);
        *done = end;
    }
}

void td__table_scatter(const td__table *table) {
    const td__bytes *bytes = &table->bytes[0];
    (void)madvise((void *)(uintptr_t)bytes->data, bytes->size, MADV_RANDOM);
}

void td__table_fetch(const td__table *table, const int64_t *rows, int64_t count) {
    const td__bytes *bytes = &table->bytes[0];
    const td__array *array = &table->input;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int64_t i = 0; !array->parts && i < count; i++) {
        size_t from = (size_t)(array->data - bytes->data) + (size_t)(rows[i] * array->row_stride);
        size_t first = from - from % page, size = from - first + (size_t)array->row_stride;
        (void)madvise((void *)(uintptr_t)(bytes->data + first), size, MADV_WILLNEED);
    }
}

/* A column number, written plainly; -1 for anything else. */
static int64_t column_number(const char *text, int64_t count) {
    int64_t number = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || number > count) {
            return -1;
        }
        number = number * 10 + (*p - '0');
    }
    return *text && number < count ? number : -1;
}

static td_status not_a_column(const char *const *names, int64_t count, const char *wanted,
                              const char *path, td_error *error) {
    if (!names) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s: no column '%.100s'; the file has no header, so its columns are "
                            "numbers: 0 to %lld, or `last`",
                            path, wanted, (long long)count - 1);
    }
    const char *nearest = td_nearest_word(wanted, names, (size_t)count);
    if (nearest) {
        return td_error_set(error, TD_NOT_FOUND, "%s: no column '%.100s'; did you mean '%s'?", path,
                            wanted, nearest);
    }
    return td_error_set(error, TD_NOT_FOUND,
                        "%s: no column '%.100s'; the header has %lld names, '%.100s' to '%.100s'",
                        path, wanted, (long long)count, names[0], names[count - 1]);
}

td_status td__column_find(const char *const *names, int64_t count, const char *wanted,
                          const char *path, int64_t *column, td_error *error) {
    int64_t found = -1;
    for (int64_t i = 0; names && i < count; i++) {
        if (strcmp(names[i], wanted) == 0) {
            if (found >= 0) {
                return td_error_set(error, TD_FORMAT,
                                    "%s: columns %lld and %lld are both called '%.100s'", path,
                                    (long long)found + 1, (long long)i + 1, wanted);
            }
            found = i;
        }
    }
    if (found < 0 && !names) {
        found = column_number(wanted, count);
    }
    if (found < 0 && strcmp(wanted, "last") == 0) {
        found = count - 1;
    }
    if (found < 0) {
        return not_a_column(names, count, wanted, path, error);
    }
    *column = found;
    return TD_OK;
}

/* The same rows with only the chosen columns. */
static bool pick(td__array *picked, const td__array *from, const int64_t *columns, int64_t count) {
    int64_t *offsets = td__calloc((size_t)count, sizeof *offsets);
    if (!offsets) {
        return false;
    }
    int64_t size = (int64_t)td__element_size(from->element);
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = from->offsets ? from->offsets[columns[i]] : columns[i] * size;
    }
    *picked = *from;
    picked->shape = TD_SHAPE(count);
    picked->count = count;
    picked->offsets = offsets;
    return true;
}

td_status td__table_split_columns(td__table *table, const td__request *request, td_error *error) {
    const td_names *label = &request->options->label;
    td__array all = table->input;
    if (label->count == 0) {
        return TD_OK;
    }
    if (table->label.data || all.shape.rank != 1) {
        return td_error_set(error, TD_INVALID,
                            "%s: `label` can only name columns of a two-dimensional array without "
                            "other labels",
                            request->path);
    }
    if ((int64_t)label->count >= all.count) {
        return td_error_set(error, TD_INVALID, "%s: %zu labels of %lld columns leave no input",
                            request->path, label->count, (long long)all.count);
    }
    /* Labels first, then the inputs in their order. */
    int64_t *columns = td__calloc((size_t)all.count, sizeof *columns);
    bool *taken = td__calloc((size_t)all.count, sizeof *taken);
    td__array inputs = {0}, labels = {0};
    td_status status = TD_OK;
    int64_t count = 0;
    if (!columns || !taken) {
        status = TD_MEMORY;
        td_error_set(error, status, "%s: no memory", request->path);
    }
    for (size_t i = 0; !status && i < label->count; i++) {
        int64_t column = 0;
        status = td__column_find(NULL, all.count, label->items[i], request->path, &column, error);
        if (!status && taken[column]) {
            status = td_error_set(error, TD_INVALID, "%s: column '%s' is a label twice",
                                  request->path, label->items[i]);
        } else if (!status) {
            taken[column] = true;
            columns[count++] = column;
        }
    }
    int64_t label_count = count;
    for (int64_t i = 0; !status && i < all.count; i++) {
        if (!taken[i]) {
            columns[count++] = i;
        }
    }
    if (!status && (!pick(&labels, &all, columns, label_count) ||
                    !pick(&inputs, &all, columns + label_count, count - label_count))) {
        td__array_release(&labels);
        status = td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
    }
    td__free(columns);
    td__free(taken);
    if (!status) {
        td__array_release(&table->input);
        table->input = inputs;
        table->label = labels;
        table->label_untyped = true; /* one type for all columns says little about a label */
    }
    return status;
}
