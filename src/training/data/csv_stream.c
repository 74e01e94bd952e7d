/* A large CSV file that is in use while it is still being read. A skim finds its rows and reads their
 * labels; blocks of rows are then parsed in any order, into their places in what becomes the cache
 * file. What is wrong with a row is reported by reading the file in order, as if nothing had been read:
 * which row is reported does not depend on who asked for what. */
#include "base/memory.h"
#include "data/cache.h"
#include "data/csv.h"

#include <string.h>
#include <sys/mman.h>

enum { BLOCK_ROWS = 64, BLOCK_FLOATS = 1 << 16 }; /* at most */

typedef struct streaming {
    /* Of these only numbers are looked at once the file is open. */
    td_data_options options;
    td__input *input;
    td__csv whole;                      /* at the first row */
    td__csv parsers[TD__SUPPLY_MAKERS]; /* of rows without their labels */
    td__csv_index index;
    td__cache cache;
    td__row_store store;
    td__seal seal;
    int64_t rows;
} streaming;

static void release_csv(void *user) {
    streaming *s = user;
    for (int i = 0; i < TD__SUPPLY_MAKERS; i++) {
        td__csv_release(&s->parsers[i]);
    }
    td__csv_release(&s->whole);
    td__row_store_release(&s->store);
    td__cache_release(&s->cache);
    td__seal_release(&s->seal);
    td__input_close(s->input);
    td__free(s->index.offsets);
    td__free(s);
}

/* A block's text; false when memory is exhausted. */
static bool make_csv_room(td__csv *csv, size_t size) {
    if (size > csv->capacity) {
        char *buffer = td__realloc(csv->buffer, size + TD__CSV_PADDING, 1);
        if (!buffer) {
            return false;
        }
        csv->buffer = buffer;
        csv->capacity = size;
    }
    return true;
}

static td_status parse_block(void *user, int maker, int64_t block, uint8_t *to, td_error *error) {
    streaming *s = user;
    td__csv *csv = &s->parsers[maker];
    int64_t from = s->index.offsets[block], first = block * s->index.rows_in_block;
    size_t size = (size_t)(s->index.offsets[block + 1] - from);
    size_t row_size = (size_t)csv->input_count * sizeof(float);
    if (!make_csv_room(csv, size)) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", csv->path);
    }
    td_status status = td__input_read_at(s->input, csv->buffer, size, from, error);
    if (status) {
        return status;
    }
    csv->next = csv->buffer;
    csv->end = csv->buffer + size;
    csv->finished = true;
    memset(csv->end, '\n', TD__CSV_PADDING);
    int64_t last = first + s->index.rows_in_block;
    for (int64_t row = first; row < last && row < s->rows; row++, to += row_size) {
        if (td__csv_parse_record(csv) ||
            (csv->value_missing && csv->options->missing == TD_MISSING_REFUSED)) {
            return TD_FORMAT;
        }
        memcpy(to, csv->values, row_size);
    }
    return TD_OK;
}

static td_status explain(void *user, td_status found, td_error *error) {
    streaming *s = user;
    if (found != TD_FORMAT) {
        return found;
    }
    s->whole.error = error;
    td_status status = td__csv_parse(&s->whole, NULL);
    status = status ? status : td__input_unchanged(s->input, error);
    return status ? status
                  : td_error_set(error, TD_STATE, "%s: it was changed while it was read",
                                 s->whole.path);
}

static td_status publish_block(void *user, td_error *error) {
    streaming *s = user;
    td_status status = td__input_unchanged(s->input, error);
    return status ? status : td__cache_publish(&s->cache, &s->store, &s->seal, error);
}

static const td__supply_class parsing = {
    .make = parse_block, .explain = explain, .finish = publish_block, .release = release_csv};

/* A parser at the first row of the file, whose header it has read. */
static bool start_stream(td__csv *csv, const td__csv *like, td__input **input, td_error *ignored) {
    *csv = *like;
    csv->error = ignored;
    return !td__input_open(input, td__input_path(like->input), ignored) &&
           (csv->input = *input, !td__csv_start(csv));
}

/* The parsers of blocks have no input of their own, and take no labels. */
static bool start_parsers(streaming *s, const td__csv *like, td_error *ignored) {
    bool good = true;
    for (int i = 0; good && i < TD__SUPPLY_MAKERS; i++) {
        td__csv *csv = &s->parsers[i];
        td__input *input = NULL;
        good = start_stream(csv, like, &input, ignored);
        td__input_close(input);
        csv->input = NULL;
        csv->options = &s->options;
        csv->path = td__input_path(s->input);
        csv->error = NULL;
        for (int64_t c = 0; good && c < csv->column_count; c++) {
            bool label = csv->columns[c].slot >= csv->input_count;
            csv->columns[c].use = label ? TD__CSV_IGNORED : csv->columns[c].use;
        }
    }
    return good;
}

/* Rows, labels and all the file says of them; false: it must be read as a whole. */
static bool skim(streaming *s, const td__csv *like, int64_t few, td__csv *skimmed,
                 td_error *ignored) {
    td__input *input = NULL;
    int64_t values;
    td__row_store_init(&s->store, s->cache.folder);
    bool good = start_stream(skimmed, like, &input, ignored) && td__input_is_plain(input) &&
                !td__row_store_open(&s->store, ignored);
    if (good) {
        int64_t fit = BLOCK_FLOATS / skimmed->input_count;
        s->index.rows_in_block = fit < 1 ? 1 : fit < BLOCK_ROWS ? fit : BLOCK_ROWS;
        good = td__csv_skim(skimmed, &s->index, &s->store) &&
               td__multiply(skimmed->rows, skimmed->input_count, &values) &&
               values < INT64_MAX / 8 && values * (int64_t)sizeof(float) > few &&
               !td__row_store_reserve(&s->store, values, ignored) &&
               !td__row_store_join(&s->store, ignored);
        s->rows = skimmed->rows;
    }
    td__input_close(input);
    skimmed->input = NULL;
    return good;
}

/* Inputs, of which there are none yet, and labels of the file that is to become the cache. */
static bool map(td__table *table, const streaming *s, const td__csv *csv) {
    const td__row_store *store = &s->store;
    size_t inputs = (size_t)store->inputs.total * sizeof(float);
    size_t size = TD__ROW_STORE_HEADER + inputs + (size_t)store->labels.total * sizeof(float);
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, store->inputs.file, 0);
    if (data == MAP_FAILED) {
        return false;
    }
    table->bytes[0] = (td__bytes){data, size, true};
    const uint8_t *first = table->bytes[0].data + TD__ROW_STORE_HEADER;
    table->input = td__array_plain(first, TD__F32, TD_SHAPE(csv->input_count), csv->input_count);
    td__table_set_labels(table, first + inputs, csv->label_count, csv->weighted, csv->grouped);
    return true;
}

/* NULL: it must be read as a whole. Takes the cache unless it returns NULL. */
static streaming *open_stream(td__table *table, const td__csv *like, td__cache *cache,
                              int64_t few) {
    td_error ignored;
    td__csv skimmed = {0};
    streaming *s = td__calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->options = *like->options;
    s->cache = *cache;
    bool good = start_stream(&s->whole, like, &s->input, &ignored) &&
                skim(s, like, few, &skimmed, &ignored) && start_parsers(s, like, &ignored);
    s->whole.options = &s->options;
    s->whole.error = NULL;
    if (good) {
        td__csv_findings(table, &skimmed);
        good = !td__cache_compose(&s->seal, &s->cache, &s->store, table, &ignored) &&
               map(table, s, &skimmed);
    }
    td__csv_release(&skimmed);
    if (!good) {
        s->cache = (td__cache){0};
        release_csv(s);
        td__table_release(table);
        return NULL;
    }
    *cache = (td__cache){0};
    return s;
}

td_status td__csv_stream(td__table *table, const td__csv *like, td__cache *cache, int64_t few,
                         td_error *error) {
    streaming *s = open_stream(table, like, cache, few);
    if (!s) {
        return TD_OK;
    }
    table->supply = td__supply_create(
        &(td__supply_options){.class = &parsing,
                              .user = s,
                              .rows = s->rows,
                              .rows_in_block = s->index.rows_in_block,
                              .row_size = (size_t)table->input.count * sizeof(float),
                              .file = s->store.inputs.file,
                              .offset = TD__ROW_STORE_HEADER},
        error);
    return table->supply ? td__supply_start(table->supply, error) : TD_MEMORY;
}
