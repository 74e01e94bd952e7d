#include "store/writer.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "deck/reach.h"
#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t text_maximum = (size_t)32 << 20;

static void put_key(td__writer *writer, td__store_table table, int64_t signal, int64_t step) {
    td__batch_begin(&writer->batch, table);
    td__batch_int(&writer->batch, signal);
    td__batch_int(&writer->batch, step);
}

/* --- signals and steps ------------------------------------------------------------------------ */

/* The row that a signal has in a run that goes on; 0 when it has none. */
static td_status known_id(td__writer *writer, const char *name, int64_t *id, td_error *error) {
    const td__tag *tag =
        writer->known.count ? td__tags_find(&writer->known, name, strlen(name)) : NULL;
    if (writer->known.count && !tag) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    *id = tag ? tag->user : 0;
    return TD_OK;
}

/* Writes the names of the units as JSON, ["zero","one",…], or NULL when there are none. */
static void put_units(td__writer *writer, const td_signal_info *info) {
    char *list = NULL;
    size_t size = 0;
    for (size_t i = 0; i < info->unit_count; i++) {
        char *unit = td__clean_copy(info->units[i]);
        size_t needed = size + 3 + (unit ? TD__JSON_STRING_SIZE(strlen(unit)) : 0);
        if (!unit || !td__grow(&writer->text, &writer->text_capacity, needed, text_maximum, 1)) {
            td__free(unit);
            list = NULL;
            break;
        }
        list = writer->text;
        list[size++] = i ? ',' : '[';
        size += td__json_string(list + size, unit);
        td__free(unit);
    }
    if (list) {
        list[size++] = ']';
    }
    td__batch_text(&writer->batch, list, size);
}

static void put_info(td__writer *writer, const td_signal_info *info) {
    static const char *const betters[] = {NULL, "smaller", "larger"};
    td__batch *batch = &writer->batch;
    td__batch_words(batch, td_signal_kind_name(info->kind));
    td__batch_words(batch, info->layer && *info->layer ? info->layer : NULL);
    td__batch_words(batch, info->parameter && *info->parameter ? info->parameter : NULL);
    td__batch_int(batch, info->order > 0 ? info->order : -1);
    td__batch_int(batch, info->batched);
    td__batch_words(batch, betters[info->better]);
    put_units(writer, info);
    td__batch_int(batch, info->rank);
    td__batch_words(batch, info->channels_first ? "channels_first" : NULL);
    td__batch_int(batch, info->sequence > 0 ? info->sequence : -1);
    td__batch_words(batch, info->placement && *info->placement ? info->placement : NULL);
}

static td_status put_signal(td__writer *writer, const td_record *record, int64_t id,
                            td_error *error) {
    td__batch *batch = &writer->batch;
    const char *name = record->signal;
    char *clean = td__clean_copy(name);
    if (!clean) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    td__batch_begin(batch, TD__SIGNAL_ROW);
    td__batch_int(batch, id);
    td__batch_text(batch, clean, strlen(clean));
    td__batch_text(batch, strcmp(clean, name) == 0 ? NULL : name, strlen(name));
    td__free(clean);
    td_signal_info guess;
    char text[TD_SIGNAL_TEXT_SIZE];
    if (!record->info) {
        td_signal_guess(name, &guess, text);
    }
    put_info(writer, record->info ? record->info : &guess);
    return td__batch_end(batch, error);
}

/* What is known of the record's signal; a new one gets its row. */
static td_status find_signal(td__writer *writer, const td_record *record, td__written **found,
                             td_error *error) {
    if (!td__signals_reach(&writer->signals, &writer->signal_count, record->signal_index,
                           sizeof *writer->signals)) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    td__written *signal = &writer->signals[record->signal_index];
    *found = signal;
    if (signal->id) {
        return TD_OK;
    }
    int64_t known = 0;
    td_status status = known_id(writer, record->signal, &known, error);
    int64_t id = known ? known : writer->next_id;
    status = status ? status : put_signal(writer, record, id, error);
    if (!status) {
        signal->id = id;
        writer->next_id += !known;
    }
    return status;
}

static td_status put_step(td__writer *writer, const td_record *record, td_error *error) {
    if (writer->any_step && record->step == writer->last_step) {
        return TD_OK;
    }
    td__batch_begin(&writer->batch, TD__STEP_ROW);
    td__batch_int(&writer->batch, record->step);
    td__batch_int(&writer->batch, record->epoch);
    td__batch_real(&writer->batch, record->wall_time);
    td_status status = td__batch_end(&writer->batch, error);
    if (!status) {
        writer->last_step = record->step;
        writer->any_step = true;
    }
    return status;
}

/* --- scalars ---------------------------------------------------------------------------------- */

static void take_up(td__summary *s, int64_t step, double value) {
    if (!s->any) {
        *s = (td__summary){.least = NAN, .greatest = NAN, .last_step = step, .any = true};
    }
    if (step >= s->last_step) { /* what a trigger brings from before is no later value */
        s->last_step = step;
        s->last = value;
    }
    if (!isnan(value) && !(value >= s->least)) {
        s->least = value;
        s->least_step = step;
    }
    if (!isnan(value) && !(value <= s->greatest)) {
        s->greatest = value;
        s->greatest_step = step;
    }
    s->unwritten = true;
}

static td_status put_summary(td__writer *writer, td__written *signal, td_error *error) {
    td__summary *s = &signal->summary;
    td__batch_begin(&writer->batch, TD__SUMMARY_ROW);
    td__batch_int(&writer->batch, signal->id);
    td__batch_int(&writer->batch, s->last_step);
    td__batch_real(&writer->batch, s->last);
    td__batch_int(&writer->batch, s->least_step);
    td__batch_real(&writer->batch, s->least);
    td__batch_int(&writer->batch, s->greatest_step);
    td__batch_real(&writer->batch, s->greatest);
    td_status status = td__batch_end(&writer->batch, error);
    s->unwritten = status != TD_OK;
    return status;
}

/* All rows of a signal's source, to be ended; NULL with an error. */
static td__rows *rows_of(td__writer *writer, td__source source, int64_t id, td_error *error) {
    td__store *store = writer->batch.store;
    td__rows *rows = store->class->select(store, &(td__query){.source = source}, error);
    if (rows) {
        td__rows_bind(rows, id, INT64_MIN, INT64_MAX, -1);
    }
    return rows;
}

/* The summary that a run that goes on has of the signal; none when it has no scalars. */
static td_status read_summary(td__writer *writer, td__written *signal, td_error *error) {
    td__rows *rows = rows_of(writer, TD__SUMMARIES, signal->id, error);
    int next = rows ? td__rows_next(rows, error) : -1;
    if (next > 0) {
        signal->summary = (td__summary){.last_step = td__rows_integer(rows, 0),
                                        .last = td__rows_real(rows, 1),
                                        .least_step = td__rows_integer(rows, 2),
                                        .least = td__rows_real(rows, 3),
                                        .greatest_step = td__rows_integer(rows, 4),
                                        .greatest = td__rows_real(rows, 5),
                                        .any = true};
    }
    td__rows_end(rows);
    return next < 0 ? TD_FORMAT : TD_OK;
}

/* Sums a signal up anew, where its summary was of later steps or there was none in its version. */
static td_status sum_up(td__writer *writer, int64_t id, td_error *error) {
    td__written signal = {.id = id};
    td_status status = read_summary(writer, &signal, error);
    if (status || signal.summary.any) {
        return status;
    }
    td__rows *rows = rows_of(writer, TD__SCALARS, id, error);
    int next = rows ? td__rows_next(rows, error) : -1;
    for (; next > 0; next = td__rows_next(rows, error)) {
        take_up(&signal.summary, td__rows_integer(rows, 0), td__rows_real(rows, 1));
    }
    td__rows_end(rows);
    if (next < 0) {
        return TD_FORMAT;
    }
    return signal.summary.any ? put_summary(writer, &signal, error) : TD_OK;
}

static td_status put_scalar(td__writer *writer, const td_record *record, td__written *signal,
                            td_error *error) {
    bool first = !signal->summary.any && writer->known.count > 0;
    td_status status = first ? read_summary(writer, signal, error) : TD_OK;
    if (status) {
        return status;
    }
    put_key(writer, TD__SCALAR_ROW, signal->id, record->step);
    td__batch_real(&writer->batch, record->value);
    status = td__batch_end(&writer->batch, error);
    if (!status) {
        take_up(&signal->summary, record->step, record->value);
        writer->batch.more = true;
    }
    return status;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static td_status put_stats(td__writer *writer, const td_record *record, int64_t id,
                           td_error *error) {
    const td_stats *stats = record->stats;
    td__batch *batch = &writer->batch;
    put_key(writer, TD__STATS_ROW, id, record->step);
    td__batch_int(batch, stats->count);
    const double reals[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        td__batch_real(batch, reals[i]);
    }
    td__batch_int(batch, stats->zeros);
    td__batch_int(batch, stats->nan);
    td__batch_int(batch, stats->inf);
    td__batch_int(batch, stats->first_nonfinite);
    return td__batch_end(batch, error);
}

static td_status put_histogram(td__writer *writer, const td_record *record, int64_t id,
                               td_error *error) {
    size_t needed = td__bins_room(record->histogram), length = 0;
    if (td__grow(&writer->text, &writer->text_capacity, needed, text_maximum, 1)) {
        length = td__bins_pack(record->histogram, writer->text);
    }
    if (!length) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory for a histogram");
    }
    put_key(writer, TD__HISTOGRAM_ROW, id, record->step);
    td__batch_text(&writer->batch, writer->text, length);
    td_status status = td__batch_end(&writer->batch, error);
    return status || !record->stats ? status : put_stats(writer, record, id, error);
}

/* A number as JSON has it: NaN becomes null, an infinity a number too large for a double. */
static char *format_json(char *out, double value) {
    if (isfinite(value)) {
        return out + td__format_value(out, value);
    }
    const char *word = isnan(value) ? "null" : value > 0 ? "9e999" : "-9e999";
    size_t length = strlen(word);
    memcpy(out, word, length);
    return out + length;
}

/* [1,2.5,…]; just the number where there is one and plain is set. */
static char *format_list(char *out, const td_view *view, int64_t first, int64_t count, bool plain) {
    if (plain && count == 1) {
        return format_json(out, td__element(view, first));
    }
    *out++ = '[';
    for (int64_t i = 0; i < count; i++) {
        out = format_json(out, td__element(view, first + i));
        *out++ = ',';
    }
    out -= count > 0;
    *out++ = ']';
    return out;
}

static td_status put_examples(td__writer *writer, const td_record *record, int64_t id,
                              td_error *error) {
    const td_view *view = record->view, *labels = record->labels;
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 1;
    int64_t width = td__elements_from(&view->shape, 1);
    int64_t label_width = labels ? td__elements_from(&labels->shape, 1) : 0;
    size_t needed = (size_t)(width + label_width) * (TD__NUMBER_TEXT + 1) + 2 * TD__NUMBER_ROOM;
    if (!td__grow(&writer->text, &writer->text_capacity, needed, text_maximum, 1)) {
        return td_error_set(error, TD_MEMORY, "run.db: no room for an example of %lld values",
                            (long long)width);
    }
    td_status status = TD_OK;
    for (int64_t i = 0; i < rows && !status; i++) {
        char *end = format_list(writer->text, view, i * width, width, false);
        char *label = end;
        end = labels ? format_list(end, labels, i * label_width, label_width, true) : end;
        put_key(writer, TD__EXAMPLE_ROW, id, record->step);
        td__batch_int(&writer->batch, record->samples ? record->samples[i] : i);
        td__batch_text(&writer->batch, labels ? label : NULL, (size_t)(end - label));
        td__batch_text(&writer->batch, writer->text, (size_t)(label - writer->text));
        status = td__batch_end(&writer->batch, error);
    }
    return status;
}

static td_status put_form(td__writer *writer, const td_record *record, td__written *signal,
                          td_error *error) {
    char hash[20];
    switch (record->form) {
    case TD_SCALAR:
        return put_scalar(writer, record, signal, error);
    case TD_STATS:
        return put_stats(writer, record, signal->id, error);
    case TD_HISTOGRAM:
        return put_histogram(writer, record, signal->id, error);
    case TD_TENSOR:
    case TD_IMAGE:
        return td__tensors_put(&writer->tensors, &writer->batch, signal->id, record, error);
    case TD_ROWS:
        return put_examples(writer, record, signal->id, error);
    case TD_HASH:
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)record->hash);
        put_key(writer, TD__HASH_ROW, signal->id, record->step);
        td__batch_text(&writer->batch, hash, 16);
        return td__batch_end(&writer->batch, error);
    case TD_TEXT:
        put_key(writer, TD__TEXT_ROW, signal->id, record->step);
        td__batch_clean(&writer->batch, record->text, record->text_length);
        return td__batch_end(&writer->batch, error);
    default:
        return td_error_set(error, TD_UNSUPPORTED, "run.db: cannot write the form %s",
                            td_form_name(record->form));
    }
}

td_status td__writer_record(td__writer *writer, const td_record *record, td_error *error) {
    td__written *signal = NULL;
    td_status status = find_signal(writer, record, &signal, error);
    status = status ? status : put_step(writer, record, error);
    status = status ? status : put_form(writer, record, signal, error);
    return status ? status : td__batch_commit_if_full(&writer->batch, error);
}

td_status td__writer_replayed(td__writer *writer, const td_record *record, td_error *error) {
    put_key(writer, TD__REPLAYED_ROW, writer->signals[record->signal_index].id, record->step);
    td__batch_words(&writer->batch, td_form_name(record->form));
    return td__batch_end(&writer->batch, error);
}

/* --- all else --------------------------------------------------------------------------------- */

td_status td__writer_event(td__writer *writer, const td_event *event, td_error *error) {
    td__batch *batch = &writer->batch;
    td__batch_begin(batch, TD__EVENT_ROW);
    td__batch_words(batch, td_event_name(event->kind));
    td__batch_int(batch, event->epoch);
    td__batch_int(batch, event->step);
    td__batch_real(batch, event->wall_time);
    td__batch_int(batch, event->count);
    td__batch_words(batch, event->signal);
    td__batch_words(batch, event->text ? event->text : "");
    return td__batch_end(batch, error);
}

td_status td__writer_note(td__writer *writer, const char *key, const char *value, td_error *error) {
    static const struct {
        const char *prefix;
        td__store_table table;
    } tables[] = {{"environment.", TD__ENVIRONMENT_ROW},
                  {"experiment.", TD__EXPERIMENT_ROW},
                  {"", TD__RUN_ROW}};
    size_t i = 0;
    while (strncmp(key, tables[i].prefix, strlen(tables[i].prefix)) != 0) {
        i++;
    }
    td__batch_begin(&writer->batch, tables[i].table);
    td__batch_words(&writer->batch, key + strlen(tables[i].prefix));
    td__batch_words(&writer->batch, value);
    return td__batch_end(&writer->batch, error);
}

td_status td__writer_finding(td__writer *writer, const td_run_finding *finding, td_error *error) {
    td__batch *batch = &writer->batch;
    td__batch_begin(batch, TD__FINDING_ROW);
    td__batch_words(batch, finding->cause);
    td__batch_words(batch, finding->layer);
    td__batch_int(batch, finding->unit);
    td__batch_int(batch, finding->since_step);
    td__batch_words(batch, finding->confidence);
    td__batch_words(batch, finding->severity);
    td__batch_words(batch, finding->symptoms);
    td__batch_words(batch, finding->evidence);
    td__batch_words(batch, finding->remedy);
    td__batch_words(batch, finding->origin);
    return td__batch_end(batch, error);
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* Before a transaction: what has grown since the last one. */
static td_status add_pending_rows(void *owner, td__batch *batch, td_error *error) {
    td__writer *writer = owner;
    td_status status = td__tensors_gather(&writer->tensors, batch, error);
    for (size_t i = 0; i < writer->signal_count && !status; i++) {
        if (writer->signals[i].summary.unwritten) {
            status = put_summary(writer, &writer->signals[i], error);
        }
    }
    batch->more = status != TD_OK;
    return status;
}

/* A row of the signals that are there, and what is known of them. */
static td_status learn_signal(td__writer *writer, td__rows *row, td_error *error) {
    size_t length = 0;
    const char *raw = td__rows_text(row, 2, &length);
    const char *name = raw ? raw : td__rows_text(row, 1, &length);
    td__tag *tag = td__tags_find(&writer->known, name ? name : "", name ? length : 0);
    int64_t id = td__rows_integer(row, 0);
    if (!tag) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory for its signals");
    }
    tag->user = (uint32_t)id;
    writer->next_id = id >= writer->next_id ? id + 1 : writer->next_id;
    return TD_OK;
}

static td_status learn_signals(td__writer *writer, td_error *error) {
    td__store *store = writer->batch.store;
    td__rows *rows = store->class->select(store, &(td__query){.source = TD__SIGNALS}, error);
    if (!rows) {
        return TD_FORMAT;
    }
    td__rows_bind(rows, 0, 0, 0, -1);
    td_status status = TD_OK;
    int next = 0;
    while (!status && (next = td__rows_next(rows, error)) > 0) {
        status = learn_signal(writer, rows, error);
    }
    td__rows_end(rows);
    status = next < 0 ? TD_FORMAT : status;
    for (size_t i = 0; i < writer->known.count && !status; i++) {
        status = sum_up(writer, writer->known.tags[i].user, error);
    }
    return status ? status : td__batch_commit(&writer->batch, error);
}

td_status td__writer_init(td__writer *writer, td__store *store, int64_t resume, td_error *error) {
    *writer = (td__writer){.batch = {.store = store, .gather = add_pending_rows}, .next_id = 1};
    writer->batch.owner = writer;
    td_status status = resume ? store->class->rewind(store, resume, error) : TD_OK;
    return status || !resume ? status : learn_signals(writer, error);
}

td_status td__writer_append(td__writer *writer, td__store *store, td_error *error) {
    td_status status = td__writer_init(writer, store, 0, error);
    return status ? status : learn_signals(writer, error);
}

void td__writer_release(td__writer *writer) {
    td__batch_release(&writer->batch);
    td__store_close(writer->batch.store);
    td__tensors_release(&writer->tensors);
    td__tags_release(&writer->known);
    td__free(writer->signals);
    td__free(writer->text);
    *writer = (td__writer){0};
}
