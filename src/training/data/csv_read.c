/* From a CSV file to a table: out of the cache, or parsed into memory or into the cache. */
#include "base/memory.h"
#include "data/cache.h"
#include "data/csv.h"
#include "data/dataset.h"
#include "group/group.h"

#include <stdio.h>

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
    td__table_set_labels(table, table->bytes[1].data, csv->label_count, csv->weighted,
                         csv->grouped);
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

/* What is known of a file before it is parsed. */
typedef struct known {
    td_names inputs;
    td__names words[TD__TEXTS_MAXIMUM]; /* they become the table's */
    td_date dates[TD__DATES_MAXIMUM];
    td__names found; /* owns inputs that a survey found */
    bool together;   /* the processes of the group parse it, each a part */
} known;

static void release_known(known *k) {
    td__names_release(&k->found);
    for (int i = 0; i < TD__TEXTS_MAXIMUM; i++) {
        td__names_release(&k->words[i]);
    }
}

/* False when memory is exhausted. */
static bool take_known(td__table *table, const td__request *request, known *k) {
    bool room = true;
    for (size_t i = 0; room && i < request->options->dates.count; i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "%zu %d %lld", i, (int)k->dates[i].order,
                       (long long)k->dates[i].since);
        room = td__names_add(&table->date_facts, text) >= 0;
    }
    for (int i = 0; i < TD__TEXTS_MAXIMUM; i++) {
        table->words[i] = k->words[i];
        k->words[i] = (td__names){0};
    }
    return room;
}

/* *text_labels: whether labels that look like numbers are texts; set where they turn out to be. */
static td_status parse(td__table *table, const td__request *request, known *k, td__input *input,
                       td__cache *cache, bool *text_labels, td_error *error) {
    size_t few = kept_in_memory(request);
    td__csv csv = {.options = request->options,
                   .inputs = k->inputs,
                   .words = k->words,
                   .known_dates = k->dates,
                   .surveyed = request->inputs.count == 0,
                   .chosen = request->chosen,
                   .text_labels = *text_labels,
                   .named_labels = request->label_names,
                   .input = input,
                   .error = error};
    td_status status = TD_OK;
    if (!k->together && request->options->while_reading && cache->folder &&
        is_large(request, input) && !request->more.count && !request->options->text.count &&
        !request->options->dates.count) {
        status = td__csv_stream(table, &csv, cache, (int64_t)few, error);
        if (status || table->rows) {
            return status;
        }
    }
    td__row_store store;
    td__csv_part part = {0};
    td__row_store_init(&store, cache->folder);
    store.memory = few / sizeof(float);
    if (k->together) {
        status = td__csv_parse_part(&csv, &store, &part, error);
        status = status ? status : td__csv_join_parts(&csv, &store, &part, cache, table, error);
    } else {
        status = td__csv_start(&csv);
        status = status ? status : td__csv_parse(&csv, &store);
        status = status ? status : td__input_unchanged(input, error);
    }
    if (!status && !k->together) {
        td__csv_findings(table, &csv);
        if (!take_known(table, request, k)) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
        } else if (store.path) {
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
static td_status parse_labels(td__table *table, const td__request *request, known *k,
                              td__input *input, td__cache *cache, td_error *error) {
    bool before = request->text_labels, text = before;
    td_error reason = {0};
    td_status status = parse(table, request, k, input, cache, &text, &reason);
    if (status && text && !before) {
        status = td__input_rewind(input, &reason);
        status = status ? status : parse(table, request, k, input, cache, &text, &reason);
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}

/* What is known of dates and texts: of the training file, or of the model. */
static void take_given_dates(const td__request *request, known *k) {
    const td_dates *dates = &request->options->dates;
    for (size_t i = 0; i < dates->count && i < TD__DATES_MAXIMUM; i++) {
        k->dates[i] = dates->items[i];
    }
    if (request->first) {
        td__table_dates(request->first, k->dates);
    }
}

/* The vocabularies that need not be made: of the training file, or of the model. False when memory is exhausted. */
static bool take_given(const td__request *request, known *k) {
    const td_texts *texts = &request->options->text;
    bool room = true;
    for (size_t t = 0; t < texts->count; t++) {
        td_names words = texts->items[t].words;
        if (request->first) {
            const td__names *given = &request->first->words[t];
            words = (td_names){(const char *const *)given->items, given->count};
        }
        k->words[t].maximum = TD__TEXT_WORDS_MAXIMUM;
        for (size_t i = 0; room && i < words.count; i++) {
            room = td__names_add(&k->words[t], words.items[i]) == (int64_t)i;
        }
    }
    return room;
}

/* Inputs that are chosen by their columns, as what these became. */
static bool expand_chosen(const td__request *request, const td__names *all, td__names *found) {
    bool room = true;
    for (size_t i = 0; room && i < request->inputs.count; i++) {
        room = td__csv_expand(request->options, all, request->inputs.items[i], found);
    }
    return room;
}

/* Reads a file through to see what inputs its columns become. */
static td_status survey(const td__request *request, td__input *input, known *k, td_error *error) {
    td__names all = {0}, made[TD__TEXTS_MAXIMUM] = {{0}};
    td__csv like = {.options = request->options,
                    .named_labels = request->label_names,
                    .words = k->words,
                    .known_dates = k->dates,
                    .input = input,
                    .error = error};
    td_status status = td__csv_survey(&like, k->together, &all, made, k->dates);
    for (int i = 0; i < TD__TEXTS_MAXIMUM; i++) {
        if (made[i].count) {
            td__names_release(&k->words[i]);
            k->words[i] = made[i];
        }
    }
    if (request->chosen) {
        bool room = !status && expand_chosen(request, &all, &k->found);
        td__names_release(&all);
        status = status || room ? status
                                : td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
    } else {
        k->found = all;
    }
    k->inputs = (td_names){(const char *const *)k->found.items, k->found.count};
    return status ? status : td__input_rewind(input, error);
}

/* Reads a file with columns that become several inputs twice: what stands in it says how many. */
static td_status survey_and_parse(td__table *table, const td__request *request, td__input *input,
                                  td__cache *cache, bool together, td_error *error) {
    known k = {.inputs = request->inputs, .together = together};
    td_status status = TD_OK;
    take_given_dates(request, &k);
    if (!take_given(request, &k)) {
        status = td_error_set(error, TD_MEMORY, "%s: no memory, or a word is twice in a vocabulary",
                              request->path);
    }
    if (!status && td__csv_expansion_count(request->options) &&
        (!k.inputs.count || request->chosen)) {
        status = survey(request, input, &k, error);
    }
    status = status ? status : parse_labels(table, request, &k, input, cache, error);
    release_known(&k);
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
    const td_data_options *options = request->options;
    /* Vocabularies, dates and groups come from all rows in their order: one process on each machine reads those. */
    bool wanted = is_large(request, input) && !request->more.count && !options->text.count &&
                  !options->dates.count && !options->groups;
    td_status status = td__csv_can_share(options, input, cache, wanted, &loaded, &together, error);
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

/* Labels and what goes with them, and the paths of images: the table's images are not read yet. */
static td_status read_paths(td__table *table, const td__request *request, td__input *input,
                            char ***paths, size_t *count, bool *text_labels, td_error *error) {
    td__row_store store;
    td__csv csv = {.options = request->options,
                   .text_labels = *text_labels,
                   .named_labels = request->label_names,
                   .input = input,
                   .error = error};
    td__row_store_init(&store, NULL);
    store.memory = SIZE_MAX / 16; /* a few floats of a row that is a path at least */
    td_status status = td__csv_start(&csv);
    status = status ? status : td__csv_parse(&csv, &store);
    status = status ? status : td__input_unchanged(input, error);
    if (!status) {
        td__csv_findings(table, &csv);
        take_memory(table, &store, &csv);
        table->input = (td__array){0};
        *paths = csv.paths;
        *count = csv.path_count;
        csv.paths = NULL;
        csv.path_count = 0;
    }
    *text_labels = csv.text_labels;
    td__csv_release(&csv);
    td__row_store_release(&store);
    return status;
}

/* A CSV file of paths and labels. */
static td_status read_listed(td__table *table, const td__request *request, td_error *error) {
    char **paths = NULL;
    size_t count = 0;
    bool before = request->text_labels, text = before;
    td_error reason = {0};
    td_status status = read_paths(table, request, request->input, &paths, &count, &text, &reason);
    if (status && text && !before) {
        status = td__input_rewind(request->input, &reason);
        status = status
                     ? status
                     : read_paths(table, request, request->input, &paths, &count, &text, &reason);
    }
    return status ? td_error_set(error, status, "%s", reason.text)
                  : td__images_take(table, request, paths, count, error);
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
    if (request->options->images && request->more.count) {
        return td_error_set(error, TD_INVALID,
                            "%s: paths of images are relative to their CSV file: there is only one",
                            request->path);
    }
    for (size_t i = 0; !status && i < request->more.count; i++) {
        status = td__input_append(input, request->more.items[i],
                                  request->options->header != TD_HEADER_NO, error);
    }
    if (!status && request->options->images) {
        return read_listed(table, request, error);
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
