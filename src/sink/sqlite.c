/* run.db: the run's index, an SQLite database in WAL mode that can be read while it is written. It
 * is made under another name and has its tables from its first moment. Rows go through a batch. */
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "sink/batch.h"
#include "sink/classes.h"
#include "sink/element.h"
#include "sink/schema.h"
#include "sink/signals.h"
#include "sink/tensors.h"
#include "sink/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_sink {
    td__batch batch;
    td__tensors tensors;
    int64_t *ids; /* by signal index: its row in `signal`, 0 when not yet there */
    size_t signal_count;
    int64_t next_id;
    int64_t last_step; /* that `step` has a row of */
    char *text;        /* a histogram's bins, an example's values */
    size_t text_capacity;
};

static const size_t text_maximum = (size_t)32 << 20;

/* --- records ---------------------------------------------------------------------------------- */

/* The row of a signal in a run that goes on; 0 when it has none. */
static int64_t stored_id(td_sink *sink, const char *name) {
    sqlite3_stmt *query;
    int64_t id = 0;
    if (sqlite3_prepare_v2(sink->batch.database,
                           "SELECT id FROM signal WHERE coalesce(raw, CAST(name AS BLOB)) = ?", -1,
                           &query, NULL) == SQLITE_OK) {
        sqlite3_bind_blob(query, 1, name, (int)strlen(name), SQLITE_STATIC);
        id = sqlite3_step(query) == SQLITE_ROW ? sqlite3_column_int64(query, 0) : 0;
    }
    sqlite3_finalize(query);
    return id;
}

static td_status signal_id(td_sink *sink, const td_record *record, int64_t *id, td_error *error) {
    if (!td__signals_reach(&sink->ids, &sink->signal_count, record->signal_index,
                           sizeof *sink->ids)) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    int64_t *row = &sink->ids[record->signal_index];
    if (*row == 0) {
        const char *name = record->signal;
        size_t length = strlen(name);
        char *clean = td__clean_copy(name);
        int64_t known = clean ? stored_id(sink, name) : 0;
        td__batch_begin(&sink->batch, TD__SIGNAL_ROW);
        td__batch_int(&sink->batch, known ? known : sink->next_id);
        td__batch_text(&sink->batch, clean, clean ? strlen(clean) : 0);
        bool same = clean && strcmp(clean, name) == 0;
        td__batch_text(&sink->batch, same ? NULL : name, length);
        sink->batch.full |= !clean;
        td__free(clean);
        td_status status = td__batch_end(&sink->batch, error);
        if (status) {
            return status;
        }
        *row = known ? known : sink->next_id++;
    }
    *id = *row;
    return TD_OK;
}

static td_status put_step(td_sink *sink, const td_record *record, td_error *error) {
    if (record->step == sink->last_step) {
        return TD_OK;
    }
    td__batch_begin(&sink->batch, TD__STEP_ROW);
    td__batch_int(&sink->batch, record->step);
    td__batch_int(&sink->batch, record->epoch);
    td__batch_real(&sink->batch, record->wall_time);
    td_status status = td__batch_end(&sink->batch, error);
    if (!status) {
        sink->last_step = record->step;
    }
    return status;
}

static td_status put_stats(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    const td_stats *stats = record->stats;
    td__batch_begin(&sink->batch, TD__STATS_ROW);
    td__batch_int(&sink->batch, id);
    td__batch_int(&sink->batch, record->step);
    td__batch_int(&sink->batch, stats->count);
    const double reals[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        td__batch_real(&sink->batch, reals[i]);
    }
    td__batch_int(&sink->batch, stats->zeros);
    td__batch_int(&sink->batch, stats->nan);
    td__batch_int(&sink->batch, stats->inf);
    td__batch_int(&sink->batch, stats->first_nonfinite);
    return td__batch_end(&sink->batch, error);
}

/* [[left,right,count],…] */
static size_t format_bins(char *out, const td_histogram *histogram) {
    char *at = out;
    *at++ = '[';
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_range bin = td_histogram_range(histogram, i);
        const double numbers[] = {bin.left, bin.right, bin.count};
        *at++ = '[';
        for (int k = 0; k < 3; k++) {
            at += histogram->ranges ? td__format_double(at, numbers[k])
                                    : td__format_value(at, numbers[k]);
            *at++ = k < 2 ? ',' : ']';
        }
        *at++ = ',';
    }
    at -= histogram->bin_count > 0;
    *at++ = ']';
    return (size_t)(at - out);
}

static td_status put_histogram(td_sink *sink, const td_record *record, int64_t id,
                               td_error *error) {
    size_t needed =
        (size_t)record->histogram->bin_count * 3 * (TD__NUMBER_TEXT + 2) + TD__NUMBER_ROOM;
    if (!td__grow(&sink->text, &sink->text_capacity, needed, text_maximum, 1)) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory for a histogram");
    }
    size_t length = format_bins(sink->text, record->histogram);
    td__batch_begin(&sink->batch, TD__HISTOGRAM_ROW);
    td__batch_int(&sink->batch, id);
    td__batch_int(&sink->batch, record->step);
    td__batch_text(&sink->batch, sink->text, length);
    td_status status = td__batch_end(&sink->batch, error);
    return status || !record->stats ? status : put_stats(sink, record, id, error);
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

static td_status put_examples(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    const td_view *view = record->view, *labels = record->labels;
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 1;
    int64_t width = td__elements_from(&view->shape, 1);
    int64_t label_width = labels ? td__elements_from(&labels->shape, 1) : 0;
    size_t needed = (size_t)(width + label_width) * (TD__NUMBER_TEXT + 1) + 2 * TD__NUMBER_ROOM;
    if (!td__grow(&sink->text, &sink->text_capacity, needed, text_maximum, 1)) {
        return td_error_set(error, TD_MEMORY, "run.db: no room for an example of %lld values",
                            (long long)width);
    }
    td_status status = TD_OK;
    for (int64_t i = 0; i < rows && !status; i++) {
        char *end = format_list(sink->text, view, i * width, width, false);
        char *label = end;
        end = labels ? format_list(end, labels, i * label_width, label_width, true) : end;
        td__batch_begin(&sink->batch, TD__EXAMPLE_ROW);
        td__batch_int(&sink->batch, id);
        td__batch_int(&sink->batch, record->step);
        td__batch_int(&sink->batch, record->samples ? record->samples[i] : i);
        td__batch_text(&sink->batch, labels ? label : NULL, (size_t)(end - label));
        td__batch_text(&sink->batch, sink->text, (size_t)(label - sink->text));
        status = td__batch_end(&sink->batch, error);
    }
    return status;
}

static td_status put_record(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    char hash[20];
    switch (record->form) {
    case TD_SCALAR:
        td__batch_begin(&sink->batch, TD__SCALAR_ROW);
        td__batch_int(&sink->batch, id);
        td__batch_int(&sink->batch, record->step);
        td__batch_real(&sink->batch, record->value);
        return td__batch_end(&sink->batch, error);
    case TD_STATS:
        return put_stats(sink, record, id, error);
    case TD_HISTOGRAM:
        return put_histogram(sink, record, id, error);
    case TD_TENSOR:
    case TD_IMAGE:
        return td__tensors_put(&sink->tensors, &sink->batch, id, record, error);
    case TD_ROWS:
        return put_examples(sink, record, id, error);
    case TD_HASH:
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)record->hash);
        td__batch_begin(&sink->batch, TD__HASH_ROW);
        td__batch_int(&sink->batch, id);
        td__batch_int(&sink->batch, record->step);
        td__batch_text(&sink->batch, hash, 16);
        return td__batch_end(&sink->batch, error);
    case TD_TEXT:
        td__batch_begin(&sink->batch, TD__TEXT_ROW);
        td__batch_int(&sink->batch, id);
        td__batch_int(&sink->batch, record->step);
        td__batch_clean(&sink->batch, record->text, record->text_length);
        return td__batch_end(&sink->batch, error);
    default:
        return td_error_set(error, TD_UNSUPPORTED, "run.db: cannot write the form %s",
                            td_form_name(record->form));
    }
}

static td_status sqlite_write(td_sink *sink, const td_record *record, td_error *error) {
    int64_t id = 0;
    td_status status = signal_id(sink, record, &id, error);
    status = status ? status : put_step(sink, record, error);
    status = status ? status : put_record(sink, record, id, error);
    return status ? status : td__batch_commit_if_full(&sink->batch, error);
}

static td_status sqlite_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    return td__batch_commit_if_old(&sink->batch, error);
}

static td_status sqlite_event(td_sink *sink, const td_event *event, td_error *error) {
    const char *kind = td_event_name(event->kind);
    td__batch_begin(&sink->batch, TD__EVENT_ROW);
    td__batch_text(&sink->batch, kind, strlen(kind));
    td__batch_int(&sink->batch, event->epoch);
    td__batch_int(&sink->batch, event->step);
    td__batch_real(&sink->batch, event->wall_time);
    td__batch_int(&sink->batch, event->count);
    if (event->signal) {
        td__batch_clean(&sink->batch, event->signal, strlen(event->signal));
    } else {
        td__batch_text(&sink->batch, NULL, 0);
    }
    td__batch_clean(&sink->batch, event->text ? event->text : "",
                    event->text ? strlen(event->text) : 0);
    return td__batch_end(&sink->batch, error);
}

/* environment.KEY and experiment.KEY have tables of their own. */
static td_status sqlite_note(td_sink *sink, const char *key, const char *value, td_error *error) {
    static const struct {
        const char *prefix;
        td__statement statement;
    } tables[] = {{"environment.", TD__ENVIRONMENT_ROW},
                  {"experiment.", TD__EXPERIMENT_ROW},
                  {"", TD__RUN_ROW}};
    size_t i = 0;
    while (strncmp(key, tables[i].prefix, strlen(tables[i].prefix)) != 0) {
        i++;
    }
    key += strlen(tables[i].prefix);
    td__batch_begin(&sink->batch, tables[i].statement);
    td__batch_clean(&sink->batch, key, strlen(key));
    td__batch_clean(&sink->batch, value, strlen(value));
    return td__batch_end(&sink->batch, error);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static td_status open_database(td_sink *sink, const char *path, int flags, td_error *error) {
    int code = sqlite3_open_v2(path, &sink->batch.database, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(sink->batch.database, 5000);
        return TD_OK;
    }
    td_status status = td__batch_error(&sink->batch, code, "open", error);
    sqlite3_close_v2(sink->batch.database);
    sink->batch.database = NULL;
    return status;
}

static td_status execute(td_sink *sink, const char *sql, const char *verb, td_error *error) {
    int code = sqlite3_exec(sink->batch.database, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TD_OK : td__batch_error(&sink->batch, code, verb, error);
}

/* Makes the database with its tables, empty, under draft, then gives it its name. */
static td_status create_database(td_sink *sink, const char *draft, const char *path,
                                 td_error *error) {
    unlink(draft);
    td_status status =
        open_database(sink, draft, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
    if (status) {
        return status;
    }
    status = execute(sink, "PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; BEGIN;", "create",
                     error);
    status = status ? status : execute(sink, td__schema, "create tables", error);
    status = status ? status : execute(sink, "COMMIT; PRAGMA journal_mode=WAL;", "create", error);
    sqlite3_close_v2(sink->batch.database);
    sink->batch.database = NULL;
    while (!status && rename(draft, path) != 0) {
        status = errno == EINTR ? TD_OK : td__file_error(error, "run.db", "create");
    }
    if (status) {
        unlink(draft);
    }
    return status;
}

/* Removes what an earlier session recorded after the step the run goes on from. */
static td_status rewind_to(td_sink *sink, int64_t step, td_error *error) {
    /* Arrays close up where records are taken out before others that stay (history). */
    char renumber[480];
    snprintf(renumber, sizeof renumber,
             "UPDATE OR IGNORE tensor_series SET record = record - (SELECT count(*) FROM tensor t"
             " WHERE t.file = tensor_series.file AND t.step > %lld"
             " AND t.record < tensor_series.record)"
             " WHERE step <= %lld AND file <> '' AND EXISTS (SELECT 1 FROM tensor_series o"
             " WHERE o.file = tensor_series.file AND o.last > %lld"
             " AND o.record < tensor_series.record)",
             (long long)step, (long long)step, (long long)step);
    td_status status = execute(sink, "BEGIN", "rewind", error);
    status = status ? status : execute(sink, renumber, "rewind", error);
    for (size_t i = 0; i < sizeof td__schema_steps / sizeof *td__schema_steps && !status; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE step > %lld", td__schema_steps[i],
                 (long long)step);
        status = execute(sink, sql, "rewind", error);
    }
    char cut[160]; /* a stretch of tensors that goes on beyond the step */
    snprintf(
        cut, sizeof cut,
        "UPDATE tensor_series SET last = step + (%lld - step) / every * every WHERE last > %lld",
        (long long)step, (long long)step);
    status = status ? status : execute(sink, cut, "rewind", error);
    status = status ? status : execute(sink, "COMMIT", "rewind", error);
    sqlite3_stmt *query;
    if (!status &&
        sqlite3_prepare_v2(sink->batch.database, "SELECT coalesce(max(id), 0) FROM signal", -1,
                           &query, NULL) == SQLITE_OK) {
        sink->next_id = sqlite3_step(query) == SQLITE_ROW ? sqlite3_column_int64(query, 0) + 1 : 1;
        sqlite3_finalize(query);
    }
    return status;
}

static void release(td_sink *sink) {
    td__batch_release(&sink->batch);
    sqlite3_close_v2(sink->batch.database);
    td__tensors_release(&sink->tensors);
    td__free(sink->ids);
    td__free(sink->text);
    td__free(sink);
}

static td_status sqlite_flush(td_sink *sink, td_error *error) {
    return td__batch_sync(&sink->batch, error);
}

static td_status sqlite_close(td_sink *sink, td_error *error) {
    td_status status = sqlite_flush(sink, error);
    release(sink);
    return status;
}

static td_status start(td_sink *sink, const td_sink_options *options, const char *path,
                       td_error *error) {
    td_status status = open_database(sink, path, SQLITE_OPEN_READWRITE, error);
    status = status ? status
                    : execute(sink,
                              "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                              "PRAGMA wal_autocheckpoint=8000; PRAGMA cache_size=-16384",
                              "configure", error);
    status = status || options->resume == 0 ? status : rewind_to(sink, options->resume, error);
    status = status ? status : td__batch_prepare(&sink->batch, error);
    status = status ? status : sqlite_note(sink, "name", options->run ? options->run : "", error);
    status = status ? status : sqlite_note(sink, "version", td_version(), error);
    return status ? status : td__batch_commit(&sink->batch, error);
}

static td_status sqlite_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    size_t size = strlen(options->folder) + 16;
    char *path = td__calloc(size, 1), *draft = td__calloc(size, 1);
    td_sink *opened = td__calloc(1, sizeof *opened);
    td_status status = TD_OK;
    if (!path || !draft || !opened) {
        status = td_error_set(error, TD_MEMORY, "run.db: out of memory");
    } else {
        opened->next_id = 1;
        opened->batch.gather = td__tensors_gather;
        opened->batch.owner = &opened->tensors;
        snprintf(path, size, "%s/run.db", options->folder);
        snprintf(draft, size, "%s/.run.db.new", options->folder);
        bool exists = access(path, F_OK) == 0;
        if (exists && options->resume == 0) {
            status = td_error_set(error, TD_EXISTS, "%s exists already", path);
        } else if (!exists) {
            status = create_database(opened, draft, path, error);
        }
        status = status ? status : start(opened, options, path, error);
    }
    td__free(path);
    td__free(draft);
    if (status) {
        if (opened) {
            release(opened);
        }
        return status;
    }
    *sink = opened;
    return TD_OK;
}

#define INDEXED (TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_TENSOR | TD_IMAGE | TD_HASH | TD_TEXT)

const td_sink_class td__sink_sqlite = {
    .size = sizeof(td_sink_class),
    .name = "sqlite",
    .forms = INDEXED | TD_ROWS,
    .default_forms = TD_STATS | TD_ROWS,
    .always = INDEXED,
    .open = sqlite_open,
    .write = sqlite_write,
    .end_step = sqlite_end_step,
    .event = sqlite_event,
    .note = sqlite_note,
    .flush = sqlite_flush,
    .close = sqlite_close,
};
