/* Runs of event files: read as they are for td_run_read, or into a database of run.db's form, so
 * that everything else works on them too. */
#include "run/events.h"
#include "run/run.h"

#include "base/memory.h"
#include "base/number.h"

#include <stdio.h>
#include <string.h>

/* ---- As they are ---------------------------------------------------------------------------- */

typedef struct wish {
    const td_run_query *query;
    td_record_function *each;
    void *user;
} wish;

static bool wants(void *user, const char *name) {
    const wish *w = user;
    return td_run_matches(w->query->what, name);
}

static td_status pass_on(void *user, const td_record *record, td_error *error) {
    const wish *w = user;
    return record->form & w->query->forms ? w->each(w->user, record, error) : TD_OK;
}

td_status td__run_read_events(td_run *run, const td_run_query *query, td_record_function *each,
                              void *user, td_error *error) {
    wish w = {query, each, user};
    td__decoder decoder = {.each = pass_on,
                           .wants = wants,
                           .user = &w,
                           .first_step = query->first_step,
                           .last_step = query->last_step,
                           .problems = &run->problems};
    td_status status = TD_OK;
    for (size_t i = 0; i < run->event_file_count && !status; i++) {
        status = td__events_read_file(&decoder, run->event_files[i], error);
    }
    td__decoder_release(&decoder);
    return status;
}

/* ---- Into a database ------------------------------------------------------------------------ */

static const char schema[] =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
    "CREATE TABLE run(key TEXT, value TEXT);"
    "CREATE TABLE environment(key TEXT, value TEXT);"
    "CREATE TABLE experiment(key TEXT, value TEXT);"
    "CREATE TABLE signal(id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE step(step INTEGER PRIMARY KEY, epoch INTEGER, wall_time REAL);"
    "CREATE TABLE scalar(signal, step, value REAL, PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE stats(signal, step, count, mean, std, min, max, norm, zeros, nan, inf,"
    " first_nonfinite, PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE histogram(signal, step, bins TEXT, PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE tensor(signal, step, form TEXT, dtype, shape, file TEXT, record,"
    " PRIMARY KEY(signal, step, form)) WITHOUT ROWID;"
    "CREATE TABLE example(signal, step, sample, label, value TEXT,"
    " PRIMARY KEY(signal, step, sample)) WITHOUT ROWID;"
    "CREATE TABLE hash(signal, step, hash TEXT, PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE text(signal, step, text TEXT);"
    "BEGIN";

enum insertion { SIGNAL, STEP, SCALAR, HISTOGRAM, TENSOR, TEXT, INSERTIONS };
static const char *const insertions[INSERTIONS] = {
    [SIGNAL] = "INSERT OR IGNORE INTO signal VALUES(?,?)",
    [STEP] = "INSERT OR IGNORE INTO step VALUES(?2,0,?1)",
    [SCALAR] = "INSERT OR REPLACE INTO scalar VALUES(?,?,?)",
    [HISTOGRAM] = "INSERT OR REPLACE INTO histogram VALUES(?,?,?)",
    [TENSOR] = "INSERT OR REPLACE INTO tensor VALUES(?,?,?,NULL,NULL,'',0)",
    [TEXT] = "INSERT INTO text VALUES(?,?,?)",
};

typedef struct import {
    td_run *run;
    sqlite3_stmt *prepared[INSERTIONS];
    int64_t last_step;
    bool any;
    char *text; /* a histogram's */
    size_t capacity;
} import;

static td_status execute(import *to, enum insertion what, td_error *error) {
    sqlite3_step(to->prepared[what]);
    if (sqlite3_reset(to->prepared[what]) != SQLITE_OK) {
        return td_error_set(error, TD_IO, "%s: cannot be put together: %s", to->run->folder,
                            sqlite3_errmsg(to->run->database));
    }
    return TD_OK;
}

static td_status put_when(import *to, const td_record *record, td_error *error) {
    sqlite3_bind_int64(to->prepared[SIGNAL], 1, record->signal_index + 1);
    sqlite3_bind_text(to->prepared[SIGNAL], 2, record->signal, -1, SQLITE_STATIC);
    td_status status = execute(to, SIGNAL, error);
    if (!status && (!to->any || record->step != to->last_step)) {
        sqlite3_bind_double(to->prepared[STEP], 1, record->wall_time);
        sqlite3_bind_int64(to->prepared[STEP], 2, record->step);
        status = execute(to, STEP, error);
        to->last_step = record->step;
        to->any = true;
    }
    return status;
}

static bool format_ranges(import *to, const td_histogram *histogram) {
    size_t room = (size_t)histogram->bin_count * (3 * TD__NUMBER_TEXT + 6) + TD__NUMBER_ROOM;
    if (!td__grow(&to->text, &to->capacity, room, (size_t)1 << 30, 1)) {
        return false;
    }
    char *at = to->text;
    *at++ = '[';
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_range range = td_histogram_range(histogram, i);
        *at++ = '[';
        at += td__format_double(at, range.left);
        *at++ = ',';
        at += td__format_double(at, range.right);
        *at++ = ',';
        at += td__format_double(at, range.count);
        *at++ = ']';
        *at++ = ',';
    }
    at -= histogram->bin_count > 0;
    *at++ = ']';
    *at = 0;
    return true;
}

static td_status import_record(void *user, const td_record *record, td_error *error) {
    import *to = user;
    td_status status = put_when(to, record, error);
    if (status) {
        return status;
    }
    enum insertion what = TENSOR;
    const char *text = td_form_name(record->form);
    switch (record->form) {
    case TD_SCALAR:
        what = SCALAR;
        sqlite3_bind_double(to->prepared[SCALAR], 3, record->value);
        break;
    case TD_HISTOGRAM:
        if (!format_ranges(to, record->histogram)) {
            return td_error_set(error, TD_MEMORY, "out of memory for a histogram");
        }
        what = HISTOGRAM;
        text = to->text;
        break;
    case TD_TEXT:
        what = TEXT;
        text = record->text;
        break;
    default:
        break;
    }
    sqlite3_bind_int64(to->prepared[what], 1, record->signal_index + 1);
    sqlite3_bind_int64(to->prepared[what], 2, record->step);
    if (what != SCALAR) {
        sqlite3_bind_text(to->prepared[what], 3, text, -1, SQLITE_STATIC);
    }
    return execute(to, what, error);
}

static td_status fill(import *to, td_error *error) {
    for (int i = 0; i < INSERTIONS; i++) {
        to->prepared[i] = td__run_prepare(to->run, insertions[i]);
        if (!to->prepared[i]) {
            return td_error_set(error, TD_IO, "%s: cannot be put together", to->run->folder);
        }
    }
    td_run_query all = {.forms = UINT32_MAX, .first_step = INT64_MIN, .last_step = INT64_MAX};
    td_status status = td__run_read_events(to->run, &all, import_record, to, error);
    if (!status && sqlite3_exec(to->run->database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        status = td_error_set(error, TD_IO, "%s: cannot be put together: %s", to->run->folder,
                              sqlite3_errmsg(to->run->database));
    }
    return status;
}

td_status td__run_import(td_run *run, td_error *error) {
    td__problems_release(&run->problems);
    sqlite3_close_v2(run->database);
    run->database = NULL;
    /* A database without a name is in memory, and in a file that nobody sees when it grows. */
    if (sqlite3_open_v2("", &run->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(run->database, schema, NULL, NULL, NULL) != SQLITE_OK) {
        return td_error_set(error, TD_IO, "%s: cannot be put together: %s", run->folder,
                            sqlite3_errmsg(run->database));
    }
import to = {.run = run };
    td_status status = fill(&to, error);
    for (int i = 0; i < INSERTIONS; i++) {
        sqlite3_finalize(to.prepared[i]);
    }
    td__free(to.text);
    return status;
}
