/* From a CSV file to a table: out of the cache, or parsed into memory or into the cache. */
#include "base/memory.h"
#include "data/cache.h"
#include "data/csv.h"
#include "data/dataset.h"
#include "group/group.h"

/* Parsed values that are kept in memory. */
#define MEMORY (TD__ROW_STORE_MEMORY * sizeof(float))
/* A cell is at least two bytes of text, and becomes a float of four. */
#define FLOAT_PER_CELL 2

void td__csv_findings(td__table *table, td__csv *csv) {
    table->rows = csv->rows;
    table->label_untyped = true;
    table->is_csv = true;
    table->has_header = csv->names != NULL;
    table->separator = csv->separator;
    table->classes = csv->classes;
    table->input_names = csv->input_names;
    table->label_names = csv->label_names;
    table->remarks = csv->remarks;
    csv->classes = csv->input_names = csv->label_names = csv->remarks = (td__names){0};
}

/* Bytes of parsed values that stay in memory. */
static size_t kept_in_memory(const td__request *request) {
    int64_t memory = request->options->memory;
    return (size_t)memory < MEMORY ? (size_t)memory : MEMORY;
}

static bool is_large(const td__request *request, const td__input *input) {
    return (size_t)td__input_stat(input)->st_size > kept_in_memory(request) / FLOAT_PER_CELL;
}

/* The store's memory becomes the table's. */
static void take_memory(td__table *table, td__row_store *store, const td__csv *csv) {
    td__stream *inputs = &store->inputs, *labels = &store->labels;
    table->floats = inputs->values;
    table->bytes[0] =
        (td__bytes){(const uint8_t *)inputs->values, (size_t)inputs->total * sizeof(float), false};
    table->bytes[1] =
        (td__bytes){(const uint8_t *)labels->values, (size_t)labels->total * sizeof(float), false};
    inputs->values = labels->values = NULL;
    table->input = td__array_plain(table->bytes[0].data, TD__F32, TD_SHAPE(csv->input_count),
                                   csv->input_count);
    td__table_set_labels(table, table->bytes[1].data, csv->label_count, csv->weighted);
}

/* The store goes to the cache, and the table is mapped from there. */
static td_status take_file(td__table *table, td__row_store *store, const td__cache *cache,
                           const char *path, td_error *error) {
    td__seal seal = {0};
    td_status status = td__row_store_join(store, error);
    status = status ? status : td__cache_compose(&seal, cache, store, table, error);
    status = status ? status : td__cache_publish(cache, store, &seal, error);
    td__seal_release(&seal);
    td__table_release(table);
    if (!status && !td__cache_load(cache, table)) {
        status = td_error_set(error, TD_IO, "%s: its cache file %s cannot be read back", path,
                              cache->path);
    }
    return status;
}

/* *text_labels: whether labels that look like numbers are texts; set where they turn out to be. */
static td_status parse(td__table *table, const td__request *request, td_names inputs,
                       td__input *input, td__cache *cache, bool together, bool *text_labels,
                       td_error *error) {
    size_t few = kept_in_memory(request);
    td__csv csv = {.options = request->options,
                   .inputs = inputs,
                   .surveyed = request->inputs.count == 0,
                   .chosen = request->chosen,
                   .text_labels = *text_labels,
                   .named_labels = request->label_names,
                   .input = input,
                   .error = error};
    td_status status = TD_OK;
    if (!together && request->options->while_reading && cache->folder && is_large(request, input) &&
        !request->more.count) {
        status = td__csv_stream(table, &csv, cache, (int64_t)few, error);
        if (status || table->rows) {
            return status;
        }
    }
    td__row_store store;
    td__csv_part part = {0};
    td__row_store_init(&store, cache->folder);
    store.memory = few / sizeof(float);
    if (together) {
        status = td__csv_parse_part(&csv, &store, &part, error);
        status = status ? status : td__csv_join_parts(&csv, &store, &part, cache, table, error);
    } else {
        status = td__csv_start(&csv);
        status = status ? status : td__csv_parse(&csv, &store);
        status = status ? status : td__input_unchanged(input, error);
    }
    if (!status && !together) {
        td__csv_findings(table, &csv);
        if (store.path) {
            status = take_file(table, &store, cache, request->path, error);
        } else {
            take_memory(table, &store, &csv);
        }
    }
    *text_labels = csv.text_labels;
    td__free(part.class_of);
    td__csv_release(&csv);
    td__row_store_release(&store);
    return status;
}

/* Reads a file with classes such as 01 once more when that is found out on the way. */
static td_status parse_labels(td__table *table, const td__request *request, td_names inputs,
                              td__input *input, td__cache *cache, bool together, td_error *error) {
    bool before = request->text_labels, text = before;
    td_error reason = {0};
    td_status status = parse(table, request, inputs, input, cache, together, &text, &reason);
    if (status && text && !before) {
        status = td__input_rewind(input, &reason);
        status =
            status ? status : parse(table, request, inputs, input, cache, together, &text, &reason);
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}

/* Reads a file with categories twice: their texts say how many inputs there are. */
static td_status survey_and_parse(td__table *table, const td__request *request, td__input *input,
                                  td__cache *cache, bool together, td_error *error) {
    td_names inputs = request->inputs;
    td__names found = {0};
    td_status status = TD_OK;
    if (request->options->categories.count && !inputs.count) {
        status =
            td__csv_survey(input, request->options, request->label_names, together, &found, error);
        status = status ? status : td__input_rewind(input, error);
        inputs = (td_names){(const char *const *)found.items, found.count};
    }
    status = status ? status : parse_labels(table, request, inputs, input, cache, together, error);
    td__names_release(&found);
    return status;
}

/* Rank 0 reads in order what cannot be parsed: its error is the one of a process alone. */
static td_status explain(const td__request *request, td__input *input, td__cache *cache,
                         td_error *error) {
    td_group *group = request->options->group;
    td_status status = TD_OK;
    if (td_group_rank(group) == 0) {
        td__table unused = {0};
        td_data_options options = *request->options;
        td__request alone = *request;
        options.while_reading = false;
        alone.options = &options;
        status = td__input_rewind(input, error);
        status = status ? status : survey_and_parse(&unused, &alone, input, cache, false, error);
        status = status ? status
                        : td_error_set(error, TD_STATE, "%s: it was changed while it was read",
                                       request->path);
        td__table_release(&unused);
    }
    return td__share_status(group, status, error);
}

/* What is not parsed together one process on each machine parses, and keeps in the cache if it is large. */
static td_status read_in_turn(td__table *table, const td__request *request, td__input *input,
                              td__cache *cache, td_error *error) {
    td_group *group = request->options->group;
    bool first = td__group_is_first_here(group);
    td_status status = first ? survey_and_parse(table, request, input, cache, false, error) : TD_OK;
    td_error lost = {0};
    if (td_group_barrier(group, &lost)) {
        return td_error_set(error, lost.status, "%s", lost.text);
    }
    return first || td__cache_load(cache, table)
               ? status
               : survey_and_parse(table, request, input, cache, false, error);
}

static td_status read_by_group(td__table *table, const td__request *request, td__input *input,
                               td__cache *cache, td_error *error) {
    bool loaded = td__cache_load(cache, table), together = false;
    bool wanted = is_large(request, input) && !request->more.count;
    td_status status =
        td__csv_can_share(request->options, input, cache, wanted, &loaded, &together, error);
    if (status || loaded) {
        return status;
    }
    td__table_release(table);
    if (!together) {
        return read_in_turn(table, request, input, cache, error);
    }
    status = survey_and_parse(table, request, input, cache, true, error);
    return status == TD_FORMAT ? explain(request, input, cache, error) : status;
}

td_status td__csv_read(td__table *table, const td__request *request, td_error *error) {
    td__input *input = request->input;
    td__cache cache = {0};
    td_group *group = request->options->group;
    if (request->labels) {
        return td_error_set(error, TD_INVALID,
                            "%s: the labels of a CSV file are columns of it: name them in `label`",
                            request->path);
    }
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < request->more.count; i++) {
        status = td__input_append(input, request->more.items[i],
                                  request->options->header != TD_HEADER_NO, error);
    }
    status = status ? status : td__cache_init(&cache, request, td__input_stat(input), error);
    if (!status && group && td_group_size(group) > 1) {
        status = read_by_group(table, request, input, &cache, error);
    } else if (!status && !td__cache_load(&cache, table)) {
        status = survey_and_parse(table, request, input, &cache, false, error);
    }
    td__cache_release(&cache);
    table->is_csv = table->is_csv && !request->more.count; /* a row has no line in one file */
    return status;
}
