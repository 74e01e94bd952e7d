/* Rows on their way into run.db; see batch.h. */
#include "sink/batch.h"

#include "base/clock.h"
#include "base/memory.h"
#include "sink/text.h"

#include <string.h>

/* Types: i integer, d real, t text, b bytes. */
static const struct {
    const char *sql, *types;
} statements[TD__STATEMENTS] = {
    [TD__SIGNAL_ROW] = {"INSERT OR IGNORE INTO signal VALUES(?,?,?)", "itb"},
    [TD__STEP_ROW] = {"INSERT OR IGNORE INTO step VALUES(?,?,?)", "iid"},
    [TD__SCALAR_ROW] = {"INSERT OR REPLACE INTO scalar VALUES(?,?,?)", "iid"},
    [TD__STATS_ROW] = {"INSERT OR REPLACE INTO stats VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
                       "iiidddddiiii"},
    [TD__HISTOGRAM_ROW] = {"INSERT OR REPLACE INTO histogram VALUES(?,?,?)", "iit"},
    [TD__TENSORS_ROW] = {"INSERT OR REPLACE INTO tensor_series VALUES(?,?,?,?,?,?,?,?,?)",
                         "iiiitttti"},
    [TD__EXAMPLE_ROW] = {"INSERT OR REPLACE INTO example VALUES(?,?,?,?,?)", "iiitt"},
    [TD__HASH_ROW] = {"INSERT OR REPLACE INTO hash VALUES(?,?,?)", "iit"},
    [TD__TEXT_ROW] = {"INSERT INTO text VALUES(?,?,?)", "iit"},
    [TD__EVENT_ROW] = {"INSERT INTO event VALUES(NULL,?,?,?,?,?,?,?)", "tiiditt"},
    [TD__RUN_ROW] = {"INSERT OR REPLACE INTO run VALUES(?,?)", "tt"},
    [TD__ENVIRONMENT_ROW] = {"INSERT OR REPLACE INTO environment VALUES(?,?)", "tt"},
    [TD__EXPERIMENT_ROW] = {"INSERT OR REPLACE INTO experiment VALUES(?,?)", "tt"},
};

enum { BATCH = 20000, BATCH_BYTES = 4 << 20 };
static const size_t pending_maximum = (size_t)64 << 20;
static const double commit_seconds = 0.25;

td_status td__batch_error(const td__batch *batch, int code, const char *verb, td_error *error) {
    td_status status = code == SQLITE_BUSY || code == SQLITE_LOCKED ? TD_BUSY : TD_IO;
    return td_error_set(error, status, "run.db: cannot %s: %s", verb,
                        batch->database ? sqlite3_errmsg(batch->database) : sqlite3_errstr(code));
}

/* --- gathering -------------------------------------------------------------------------------- */

static void put(td__batch *batch, const void *data, size_t size) {
    batch->full |=
        !td__grow(&batch->pending, &batch->capacity, batch->size + size, pending_maximum, 1);
    if (!batch->full) {
        memcpy(batch->pending + batch->size, data, size);
        batch->size += size;
    }
}

void td__batch_begin(td__batch *batch, td__statement statement) {
    batch->start = batch->size;
    batch->full = false;
    put(batch, &(uint8_t){(uint8_t)statement}, 1);
}

void td__batch_int(td__batch *batch, int64_t value) {
    put(batch, &value, sizeof value);
}
void td__batch_real(td__batch *batch, double value) {
    put(batch, &value, sizeof value);
}

/* text may be NULL. */
void td__batch_text(td__batch *batch, const char *text, size_t length) {
    td__batch_int(batch, text ? (int64_t)length : -1);
    put(batch, text ? text : "", text ? length : 0);
}

/* Cleaned to UTF-8, as readers expect of TEXT. */
void td__batch_clean(td__batch *batch, const char *text, size_t length) {
    td__batch_int(batch, 0);
    size_t start = batch->size;
    batch->full |=
        !td__grow(&batch->pending, &batch->capacity, start + 3 * length, pending_maximum, 1);
    if (!batch->full) {
        int64_t size = (int64_t)td__clean_text((char *)batch->pending + start, text, length);
        memcpy(batch->pending + start - sizeof size, &size, sizeof size);
        batch->size += (size_t)size;
    }
}

td_status td__batch_end(td__batch *batch, td_error *error) {
    if (batch->full) {
        batch->size = batch->start;
        return td_error_set(error, TD_MEMORY,
                            "run.db: no room for a record; %zu wait to be written", batch->rows);
    }
    batch->rows++;
    return TD_OK;
}

/* --- transactions ----------------------------------------------------------------------------- */

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

static int run_pending(td__batch *batch) {
    const uint8_t *at = batch->pending, *last = batch->pending + batch->size;
    int code = SQLITE_OK;
    while (at < last && code == SQLITE_OK) {
        td__statement number = (td__statement)*at++;
        sqlite3_stmt *statement = batch->prepared[number];
        code = bind(statement, statements[number].types, &at);
        if (code == SQLITE_OK) {
            sqlite3_step(statement);
            code = sqlite3_reset(statement);
        }
    }
    return code;
}

/* One transaction of everything pending; nothing has happened when it fails. */
static td_status transact(td__batch *batch, td_error *error) {
    int code = sqlite3_exec(batch->database, "BEGIN", NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = run_pending(batch);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_exec(batch->database, "COMMIT", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK) {
        return TD_OK;
    }
    td_status status = td__batch_error(batch, code, "write", error);
    if (!sqlite3_get_autocommit(batch->database)) {
        sqlite3_exec(batch->database, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

td_status td__batch_commit(td__batch *batch, td_error *error) {
    td_status status;
    do { /* again when what is pending left no room for all that was to be gathered */
        status = batch->more ? batch->gather(batch->owner, batch, error) : TD_OK;
        if (batch->rows == 0) {
            return status;
        }
        batch->tried_at = td__seconds();
        status = transact(batch, error);
        batch->failing = status != TD_OK;
        if (status) {
            return status;
        }
        batch->size = batch->rows = 0;
        batch->dirty = true;
    } while (batch->more);
    return TD_OK;
}

/* After a record: an error only when nothing more can wait. */
td_status td__batch_commit_if_full(td__batch *batch, td_error *error) {
    bool much = batch->rows >= BATCH || batch->size >= BATCH_BYTES;
    if (!much || (batch->failing && td__seconds() - batch->tried_at < commit_seconds)) {
        return TD_OK;
    }
    td_status status = td__batch_commit(batch, error);
    return status && batch->size >= pending_maximum / 2 ? status : TD_OK;
}

td_status td__batch_commit_if_old(td__batch *batch, td_error *error) {
    return (batch->rows > 0 || batch->more) && td__seconds() - batch->tried_at >= commit_seconds
               ? td__batch_commit(batch, error)
               : TD_OK;
}

/* Once this has returned TD_OK, what was committed survives loss of power too: in WAL mode with
 * synchronous=NORMAL a commit by itself does not wait for the disk. */
static td_status sync_log(td__batch *batch, td_error *error) {
    sqlite3_file *log = NULL;
    sqlite3_file_control(batch->database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (batch->dirty && log && log->pMethods) {
        int code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
        if (code != SQLITE_OK) {
            return td_error_set(error, TD_IO, "run.db: cannot sync: %s", sqlite3_errstr(code));
        }
    }
    batch->dirty = false;
    return TD_OK;
}

td_status td__batch_sync(td__batch *batch, td_error *error) {
    td_status status = td__batch_commit(batch, error);
    return status ? status : sync_log(batch, error);
}

td_status td__batch_prepare(td__batch *batch, td_error *error) {
    for (int i = 0; i < TD__STATEMENTS; i++) {
        int code = sqlite3_prepare_v3(batch->database, statements[i].sql, -1,
                                      SQLITE_PREPARE_PERSISTENT, &batch->prepared[i], NULL);
        if (code != SQLITE_OK) {
            return td__batch_error(batch, code, "prepare", error);
        }
    }
    return TD_OK;
}

void td__batch_release(td__batch *batch) {
    for (int i = 0; i < TD__STATEMENTS; i++) {
        sqlite3_finalize(batch->prepared[i]);
    }
    td__free(batch->pending);
}
