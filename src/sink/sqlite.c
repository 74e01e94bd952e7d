/* run.db: the run's index, an SQLite database in WAL mode that can be read while it is written.
 *
 * Records wait in memory, as the statement and its values one after another, until a transaction
 * takes them all: a full buffer, a quarter of a second or a flush. Only when it has been committed
 * are they forgotten; one that fails (disk full) is rolled back and tried again with what has come
 * since. The database is made under another name and has its tables from its first moment.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "sink/classes.h"
#include "sink/schema.h"
#include "sink/signals.h"
#include "sink/text.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is written, and the types of its values: i integer, d real (NaN is NULL), t text. */
enum statement {
    SIGNAL,
    STEP,
    SCALAR,
    STATS,
    HISTOGRAM,
    TENSOR,
    HASH,
    TEXT,
    EVENT,
    RUN,
    ENVIRONMENT,
    EXPERIMENT,
    STATEMENTS
};

static const struct {
    const char *sql, *types;
} statements[STATEMENTS] = {
    [SIGNAL] = {"INSERT OR IGNORE INTO signal VALUES(?,?,?)", "itb"},
    [STEP] = {"INSERT OR IGNORE INTO step VALUES(?,?,?)", "iid"},
    [SCALAR] = {"INSERT OR REPLACE INTO scalar VALUES(?,?,?)", "iid"},
    [STATS] = {"INSERT OR REPLACE INTO stats VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", "iiidddddiiii"},
    [HISTOGRAM] = {"INSERT OR REPLACE INTO histogram VALUES(?,?,?)", "iit"},
    [TENSOR] = {"INSERT OR REPLACE INTO tensor VALUES(?,?,?,?,?,?,?)", "iitttti"},
    [HASH] = {"INSERT OR REPLACE INTO hash VALUES(?,?,?)", "iit"},
    [TEXT] = {"INSERT INTO text VALUES(?,?,?)", "iit"},
    [EVENT] = {"INSERT INTO event VALUES(NULL,?,?,?,?,?,?,?)", "tiiditt"},
    [RUN] = {"INSERT OR REPLACE INTO run VALUES(?,?)", "tt"},
    [ENVIRONMENT] = {"INSERT OR REPLACE INTO environment VALUES(?,?)", "tt"},
    [EXPERIMENT] = {"INSERT OR REPLACE INTO experiment VALUES(?,?)", "tt"},
};

struct td_sink {
    sqlite3 *database;
    sqlite3_stmt *prepared[STATEMENTS];
    uint8_t *pending; /* operations: a statement's number, then its values */
    size_t size, capacity;
    size_t operations;
    size_t start;    /* where the operation being built begins */
    bool memory;     /* it did not fit */
    bool failing;    /* the last transaction failed */
    bool dirty;      /* committed since the last sync */
    double tried_at; /* seconds: the last transaction */
    int64_t *ids;    /* by signal index: its row in `signal`, 0 when not yet there */
    size_t signal_count;
    int64_t next_id;
    int64_t last_step; /* that `step` has a row of */
    char *bins;        /* a histogram's text */
    size_t bins_capacity;
};

enum { BATCH = 20000, BATCH_BYTES = 4 << 20 };
static const size_t pending_maximum = (size_t)64 << 20;
static const double commit_seconds = 0.25;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static td_status fail(const td_sink *sink, int code, const char *verb, td_error *error) {
    td_status status = code == SQLITE_BUSY || code == SQLITE_LOCKED ? TD_BUSY : TD_IO;
    return td_error_set(error, status, "run.db: cannot %s: %s", verb,
                        sink->database ? sqlite3_errmsg(sink->database) : sqlite3_errstr(code));
}

/* --- gathering ----------------------------------------------------------------------------------
 */

static void put(td_sink *sink, const void *data, size_t size) {
    sink->memory |=
        !td__grow(&sink->pending, &sink->capacity, sink->size + size, pending_maximum, 1);
    if (!sink->memory) {
        memcpy(sink->pending + sink->size, data, size);
        sink->size += size;
    }
}

static void begin(td_sink *sink, enum statement statement) {
    sink->start = sink->size;
    sink->memory = false;
    put(sink, &(uint8_t){(uint8_t)statement}, 1);
}

static void put_int(td_sink *sink, int64_t value) {
    put(sink, &value, sizeof value);
}
static void put_real(td_sink *sink, double value) {
    put(sink, &value, sizeof value);
}

/* text may be NULL. */
static void put_text(td_sink *sink, const char *text, size_t length) {
    put_int(sink, text ? (int64_t)length : -1);
    put(sink, text ? text : "", text ? length : 0);
}

/* Cleaned to UTF-8, as readers expect of TEXT. */
static void put_clean(td_sink *sink, const char *text, size_t length) {
    put_int(sink, 0);
    size_t start = sink->size;
    sink->memory |=
        !td__grow(&sink->pending, &sink->capacity, start + 3 * length, pending_maximum, 1);
    if (!sink->memory) {
        int64_t size = (int64_t)td__clean_text((char *)sink->pending + start, text, length);
        memcpy(sink->pending + start - sizeof size, &size, sizeof size);
        sink->size += (size_t)size;
    }
}

static td_status end(td_sink *sink, td_error *error) {
    if (sink->memory) {
        sink->size = sink->start;
        return td_error_set(error, TD_MEMORY,
                            "run.db: no room for a record; %zu wait to be written",
                            sink->operations);
    }
    sink->operations++;
    return TD_OK;
}

/* --- transactions -------------------------------------------------------------------------------
 */

static int bind(sqlite3_stmt *statement, const char *types, const uint8_t **at) {
    int code = SQLITE_OK;
    for (int i = 0; types[i] && code == SQLITE_OK; i++) {
        int64_t integer;
        double real;
        memcpy(&integer, *at, 8);
        memcpy(&real, *at, 8);
        *at += 8;
        if (types[i] == 'i') {
            code = sqlite3_bind_int64(statement, i + 1, integer);
        } else if (types[i] == 'd') {
            code = sqlite3_bind_double(statement, i + 1, real);
        } else if (integer < 0) {
            code = sqlite3_bind_null(statement, i + 1);
        } else {
            const char *text = (const char *)*at;
            *at += integer;
            code = types[i] == 't'
                       ? sqlite3_bind_text(statement, i + 1, text, (int)integer, SQLITE_STATIC)
                       : sqlite3_bind_blob(statement, i + 1, text, (int)integer, SQLITE_STATIC);
        }
    }
    return code;
}

static int run_pending(td_sink *sink) {
    const uint8_t *at = sink->pending, *last = sink->pending + sink->size;
    int code = SQLITE_OK;
    while (at < last && code == SQLITE_OK) {
        enum statement number = (enum statement) * at++;
        sqlite3_stmt *statement = sink->prepared[number];
        code = bind(statement, statements[number].types, &at);
        if (code == SQLITE_OK) {
            sqlite3_step(statement);
            code = sqlite3_reset(statement);
        }
    }
    return code;
}

/* One transaction of everything pending; nothing has happened when it fails. */
static td_status transact(td_sink *sink, td_error *error) {
    int code = sqlite3_exec(sink->database, "BEGIN", NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = run_pending(sink);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_exec(sink->database, "COMMIT", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK) {
        return TD_OK;
    }
    td_status status = fail(sink, code, "write", error);
    if (!sqlite3_get_autocommit(sink->database)) {
        sqlite3_exec(sink->database, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

static td_status commit(td_sink *sink, td_error *error) {
    if (sink->operations == 0) {
        return TD_OK;
    }
    sink->tried_at = now();
    td_status status = transact(sink, error);
    sink->failing = status != TD_OK;
    if (status) {
        return status;
    }
    sink->size = sink->operations = 0;
    sink->dirty = true;
    return TD_OK;
}

/* After a record: an error only when nothing more can wait. */
static td_status commit_if_full(td_sink *sink, td_error *error) {
    bool full = sink->operations >= BATCH || sink->size >= BATCH_BYTES;
    if (!full || (sink->failing && now() - sink->tried_at < commit_seconds)) {
        return TD_OK;
    }
    td_status status = commit(sink, error);
    return status && sink->size >= pending_maximum / 2 ? status : TD_OK;
}

/* --- records ------------------------------------------------------------------------------------
 */

/* The row of a signal in a run that goes on; 0 when it has none. */
static int64_t stored_id(td_sink *sink, const char *name) {
    sqlite3_stmt *query;
    int64_t id = 0;
    if (sqlite3_prepare_v2(sink->database,
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
        begin(sink, SIGNAL);
        put_int(sink, known ? known : sink->next_id);
        put_text(sink, clean, clean ? strlen(clean) : 0);
        bool same = clean && strcmp(clean, name) == 0;
        put_text(sink, same ? NULL : name, length);
        sink->memory |= !clean;
        td__free(clean);
        td_status status = end(sink, error);
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
    begin(sink, STEP);
    put_int(sink, record->step);
    put_int(sink, record->epoch);
    put_real(sink, record->wall_time);
    td_status status = end(sink, error);
    if (!status) {
        sink->last_step = record->step;
    }
    return status;
}

static td_status put_stats(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    const td_stats *stats = record->stats;
    begin(sink, STATS);
    put_int(sink, id);
    put_int(sink, record->step);
    put_int(sink, stats->count);
    const double reals[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        put_real(sink, reals[i]);
    }
    put_int(sink, stats->zeros);
    put_int(sink, stats->nan);
    put_int(sink, stats->inf);
    put_int(sink, stats->first_nonfinite);
    return end(sink, error);
}

/* [[left,right,count],…] */
static size_t format_bins(char *out, const td_histogram *histogram) {
    char *at = out;
    *at++ = '[';
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_range bin = td_histogram_range(histogram, i);
        *at++ = '[';
        at += td__format_value(at, bin.left);
        *at++ = ',';
        at += td__format_value(at, bin.right);
        *at++ = ',';
        at += td__format_value(at, bin.count);
        *at++ = ']';
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
    if (!td__grow(&sink->bins, &sink->bins_capacity, needed, pending_maximum, 1)) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory for a histogram");
    }
    size_t length = format_bins(sink->bins, record->histogram);
    begin(sink, HISTOGRAM);
    put_int(sink, id);
    put_int(sink, record->step);
    put_text(sink, sink->bins, length);
    td_status status = end(sink, error);
    return status || !record->stats ? status : put_stats(sink, record, id, error);
}

static td_status put_tensor(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    static const td_view picture = {.dtype = TD_UINT8};
    const td_view *view = record->view ? record->view : &picture;
    const char *form = td_form_name(record->form), *dtype = td_dtype_name(view->dtype);
    char shape[TD_SHAPE_TEXT_SIZE];
    size_t length = 0;
    shape[length++] = '[';
    for (int32_t i = 0; i < view->shape.rank; i++) {
        length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%lld", i ? "," : "",
                                   (long long)view->shape.dims[i]);
    }
    shape[length++] = ']';
    const char *file = record->place ? record->place->file : "";
    begin(sink, TENSOR);
    put_int(sink, id);
    put_int(sink, record->step);
    put_text(sink, form, strlen(form));
    put_text(sink, dtype, strlen(dtype));
    put_text(sink, shape, length);
    put_text(sink, file, strlen(file));
    put_int(sink, record->place ? record->place->record : 0);
    return end(sink, error);
}

static td_status put_record(td_sink *sink, const td_record *record, int64_t id, td_error *error) {
    char hash[20];
    switch (record->form) {
    case TD_SCALAR:
        begin(sink, SCALAR);
        put_int(sink, id);
        put_int(sink, record->step);
        put_real(sink, record->value);
        return end(sink, error);
    case TD_STATS:
        return put_stats(sink, record, id, error);
    case TD_HISTOGRAM:
        return put_histogram(sink, record, id, error);
    case TD_TENSOR:
    case TD_IMAGE:
        return put_tensor(sink, record, id, error);
    case TD_HASH:
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)record->hash);
        begin(sink, HASH);
        put_int(sink, id);
        put_int(sink, record->step);
        put_text(sink, hash, 16);
        return end(sink, error);
    case TD_TEXT:
        begin(sink, TEXT);
        put_int(sink, id);
        put_int(sink, record->step);
        put_clean(sink, record->text, record->text_length);
        return end(sink, error);
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
    return status ? status : commit_if_full(sink, error);
}

static td_status sqlite_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    return sink->operations > 0 && now() - sink->tried_at >= commit_seconds ? commit(sink, error)
                                                                            : TD_OK;
}

static td_status sqlite_event(td_sink *sink, const td_event *event, td_error *error) {
    const char *kind = td_event_name(event->kind);
    begin(sink, EVENT);
    put_text(sink, kind, strlen(kind));
    put_int(sink, event->epoch);
    put_int(sink, event->step);
    put_real(sink, event->wall_time);
    put_int(sink, event->count);
    if (event->signal) {
        put_clean(sink, event->signal, strlen(event->signal));
    } else {
        put_text(sink, NULL, 0);
    }
    put_clean(sink, event->text ? event->text : "", event->text ? strlen(event->text) : 0);
    return end(sink, error);
}

/* environment.KEY and experiment.KEY have tables of their own. */
static td_status sqlite_note(td_sink *sink, const char *key, const char *value, td_error *error) {
    static const struct {
        const char *prefix;
        enum statement statement;
    } tables[] = {{"environment.", ENVIRONMENT}, {"experiment.", EXPERIMENT}, {"", RUN}};
    size_t i = 0;
    while (strncmp(key, tables[i].prefix, strlen(tables[i].prefix)) != 0) {
        i++;
    }
    key += strlen(tables[i].prefix);
    begin(sink, tables[i].statement);
    put_clean(sink, key, strlen(key));
    put_clean(sink, value, strlen(value));
    return end(sink, error);
}

/* --- opening and closing ------------------------------------------------------------------------
 */

static td_status open_database(td_sink *sink, const char *path, int flags, td_error *error) {
    int code = sqlite3_open_v2(path, &sink->database, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(sink->database, 5000);
        return TD_OK;
    }
    td_status status = fail(sink, code, "open", error);
    sqlite3_close_v2(sink->database);
    sink->database = NULL;
    return status;
}

static td_status execute(td_sink *sink, const char *sql, const char *verb, td_error *error) {
    int code = sqlite3_exec(sink->database, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TD_OK : fail(sink, code, verb, error);
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
    sqlite3_close_v2(sink->database);
    sink->database = NULL;
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
    td_status status = execute(sink, "BEGIN", "rewind", error);
    for (size_t i = 0; i < sizeof td__schema_steps / sizeof *td__schema_steps && !status; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE step > %lld", td__schema_steps[i],
                 (long long)step);
        status = execute(sink, sql, "rewind", error);
    }
    status = status ? status : execute(sink, "COMMIT", "rewind", error);
    sqlite3_stmt *query;
    if (!status && sqlite3_prepare_v2(sink->database, "SELECT coalesce(max(id), 0) FROM signal", -1,
                                      &query, NULL) == SQLITE_OK) {
        sink->next_id = sqlite3_step(query) == SQLITE_ROW ? sqlite3_column_int64(query, 0) + 1 : 1;
        sqlite3_finalize(query);
    }
    return status;
}

static td_status prepare_all(td_sink *sink, td_error *error) {
    for (int i = 0; i < STATEMENTS; i++) {
        int code = sqlite3_prepare_v3(sink->database, statements[i].sql, -1,
                                      SQLITE_PREPARE_PERSISTENT, &sink->prepared[i], NULL);
        if (code != SQLITE_OK) {
            return fail(sink, code, "prepare", error);
        }
    }
    return TD_OK;
}

static void release(td_sink *sink) {
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(sink->prepared[i]);
    }
    sqlite3_close_v2(sink->database);
    td__free(sink->pending);
    td__free(sink->ids);
    td__free(sink->bins);
    td__free(sink);
}

/* Once this has returned TD_OK, what was committed survives loss of power too: in WAL mode with
 * synchronous=NORMAL a commit by itself does not wait for the disk. */
static td_status sync_log(td_sink *sink, td_error *error) {
    sqlite3_file *log = NULL;
    sqlite3_file_control(sink->database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (sink->dirty && log && log->pMethods) {
        int code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
        if (code != SQLITE_OK) {
            return td_error_set(error, TD_IO, "run.db: cannot sync: %s", sqlite3_errstr(code));
        }
    }
    sink->dirty = false;
    return TD_OK;
}

static td_status sqlite_flush(td_sink *sink, td_error *error) {
    td_status status = commit(sink, error);
    return status ? status : sync_log(sink, error);
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
    status = status ? status : prepare_all(sink, error);
    status = status ? status : sqlite_note(sink, "name", options->run ? options->run : "", error);
    status = status ? status : sqlite_note(sink, "version", td_version(), error);
    return status ? status : commit(sink, error);
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
    .forms = INDEXED,
    .default_forms = TD_STATS,
    .always = INDEXED,
    .open = sqlite_open,
    .write = sqlite_write,
    .end_step = sqlite_end_step,
    .event = sqlite_event,
    .note = sqlite_note,
    .flush = sqlite_flush,
    .close = sqlite_close,
};
