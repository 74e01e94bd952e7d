#include "store/tracker.h"

#include "base/clock.h"
#include "base/file.h"
#include "store/sqlite.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { INSTRUCTIONS = 10000, MAX_BYTES = 64 << 20, VARIANTS = 2 };
static const double max_seconds = 20; /* of processor time, for one query */

/* Of each query the newest form first; one that names what the database has not is left for the next. */
static const char *const queries[TD__TRACKER_QUERIES][VARIANTS] = {
    {"SELECT CASE WHEN count(*) OVER (PARTITION BY run_name) > 1 THEN run_id ELSE run_name END"
     " FROM (SELECT run_id, run_name, min(id) AS first FROM metrics GROUP BY run_id, run_name)"
     " ORDER BY first",
     "SELECT run_name FROM metrics GROUP BY run_name ORDER BY min(id)"},
    {"SELECT step, timestamp, metrics FROM metrics WHERE run_name = ?1 OR run_id = ?1 ORDER BY id",
     "SELECT step, timestamp, metrics FROM metrics WHERE run_name = ?1 ORDER BY id"},
    {"SELECT coalesce((SELECT max(step) FROM metrics m WHERE m.run_id = s.run_id AND m.timestamp "
     "<= s.timestamp), 0),"
     " timestamp, metrics FROM system_metrics s WHERE run_name = ?1 OR run_id = ?1 ORDER BY id",
     NULL},
    {"SELECT config FROM configs WHERE run_name = ?1 OR run_id = ?1 ORDER BY id",
     "SELECT config FROM configs WHERE run_name = ?1 ORDER BY id"},
};

static int is_late(void *until) {
    return td__cpu_seconds() > *(const double *)until;
}

static bool has_magic(const char *path) {
    static const char magic[] = "SQLite format 3"; /* with its zero */
    char head[sizeof magic] = "";
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    bool good = file >= 0 && td__read_all(file, head, sizeof head, 0) &&
                memcmp(head, magic, sizeof magic) == 0;
    if (file >= 0) {
        close(file);
    }
    return good;
}

static td_status open_database(const char *path, double *until, sqlite3 **database,
                               td_error *error) {
    if (!has_magic(path)) {
        return td_error_set(error, TD_FORMAT, "%s is no SQLite database", path);
    }
    int code = sqlite3_open_v2(path, database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        return td_error_set(error, TD_IO, "%s cannot be read: %s", path, sqlite3_errstr(code));
    }
    sqlite3_busy_timeout(*database, TD__SQLITE_BUSY_MILLISECONDS);
    td__sqlite_harden(&(td__sqlite){.database = *database}, false);
    sqlite3_limit(*database, SQLITE_LIMIT_LENGTH, MAX_BYTES);
    sqlite3_exec(*database, "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON", NULL, NULL,
                 NULL);
    *until = td__cpu_seconds() + max_seconds;
    sqlite3_progress_handler(*database, INSTRUCTIONS, is_late, until);
    return TD_OK;
}

static td_status hand_on_rows(const char *path, sqlite3 *database, sqlite3_stmt *statement,
                              td__tracker_function *each, void *user, td_error *error) {
    td_status status = TD_OK;
    int code, columns = sqlite3_column_count(statement);
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *texts[TD__TRACKER_COLUMNS];
        for (int i = 0; i < TD__TRACKER_COLUMNS; i++) {
            const char *text = i < columns ? (const char *)sqlite3_column_text(statement, i) : NULL;
            texts[i] = text ? text : "";
        }
        status = each(user, texts, error);
    }
    if (!status && code != SQLITE_DONE) {
        status = td_error_set(
            error, code == SQLITE_NOMEM ? TD_MEMORY : TD_FORMAT, "%s cannot be read: %s", path,
            code == SQLITE_INTERRUPT ? "it takes too long" : sqlite3_errmsg(database));
    }
    return status;
}

td_status td__tracker_read(const char *path, td__tracker_query query, const char *run,
                           td__tracker_function *each, void *user, td_error *error) {
    double until = 0;
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    td_status status = open_database(path, &until, &database, error);
    for (size_t i = 0; i < VARIANTS && !status && !statement && queries[query][i]; i++) {
        if (sqlite3_prepare_v2(database, queries[query][i], -1, &statement, NULL) != SQLITE_OK) {
            statement = NULL;
        }
    }
    if (!status && statement) {
        if (run) {
            sqlite3_bind_text(statement, 1, run, -1, SQLITE_STATIC);
        }
        status = hand_on_rows(path, database, statement, each, user, error);
    }
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return status;
}

bool td__tracker_is_trackio(const char *path) {
    static const char probe[] = "SELECT id, timestamp, run_name, step, metrics FROM metrics";
    double until = 0;
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    bool is = open_database(path, &until, &database, NULL) == TD_OK &&
              sqlite3_prepare_v2(database, probe, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return is;
}
