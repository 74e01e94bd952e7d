/* run.db while it is written: WAL mode, so that it can be read meanwhile. It is made under another
 * name and has its tables from its first moment. */
#include "store/sqlite.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/network.h"
#include "base/url.h"
#include "store/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The connection ------------------------------------------------------------------------- */

td_status td__sqlite_error(const td__sqlite *store, int code, const char *verb, td_error *error) {
    int kind = code & 0xff;
    td_status status = kind == SQLITE_BUSY || kind == SQLITE_LOCKED ? TD_BUSY : TD_IO;
    return td_error_set(error, status, "run.db: cannot %s: %s", verb,
                        store->database ? sqlite3_errmsg(store->database) : sqlite3_errstr(code));
}

/* SQLite replaces links in a path by what they lead to at the moment. The path to an opened folder
 * (td__folder_follow) must stay as it is: the log is opened and removed later, when the folder may have
 * another name. */
static sqlite3_vfs following, *unix_files;

static int keep_path(sqlite3_vfs *vfs, const char *path, int size, char *out) {
    static const char opened[] = "/proc/self/fd/";
    (void)vfs;
    if (strncmp(path, opened, sizeof opened - 1) != 0) {
        return unix_files->xFullPathname(unix_files, path, size, out);
    }
    return snprintf(out, (size_t)size, "%s", path) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static void make_following(void) {
    unix_files = sqlite3_vfs_find("unix");
    if (unix_files) {
        following = *unix_files;
        following.zName = "tapedeck";
        following.xFullPathname = keep_path;
        (void)sqlite3_vfs_register(&following, 0);
    }
}

const char *td__sqlite_writing_vfs(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_following);
    return following.zName;
}

td_status td__sqlite_connect(const char *path, const char *uri, int flags, const char *vfs,
                             td__sqlite **opened, td_error *error) {
    td__sqlite *store = td__calloc(1, sizeof *store);
    if (!store) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    store->store.class = &td__sqlite_class;
    store->guard = td__guard_enter(path);
    int code =
        sqlite3_open_v2(uri ? uri : path, &store->database, flags | SQLITE_OPEN_NOMUTEX, vfs);
    if (code != SQLITE_OK) {
        td_status status = td__sqlite_error(store, code, "open", error);
        td__sqlite_close(&store->store);
        return status;
    }
    sqlite3_busy_timeout(store->database, TD__SQLITE_BUSY_MILLISECONDS);
    *opened = store;
    return TD_OK;
}

td_status td__sqlite_execute(td__sqlite *store, const char *sql, const char *verb,
                             td_error *error) {
    int code = sqlite3_exec(store->database, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TD_OK : td__sqlite_error(store, code, verb, error);
}

void td__sqlite_harden(td__sqlite *store, bool damaged) {
    enum { MAX_BYTES = 128 << 20 };
    static const struct {
        int option, value;
    } options[] = {{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                   {SQLITE_DBCONFIG_ENABLE_VIEW, 0}, /* but for temporary ones */
                   {SQLITE_DBCONFIG_DEFENSIVE, 1}};
    size_t count = sizeof options / sizeof *options;
    for (size_t i = 0; i < count - damaged; i++) {
        sqlite3_db_config(store->database, options[i].option, options[i].value, NULL);
    }
    sqlite3_limit(store->database, SQLITE_LIMIT_LENGTH, MAX_BYTES);
}

td_status td__sqlite_need_view(td__sqlite *store, td_error *error) {
    td_status status =
        store->has_view ? TD_OK : td__sqlite_execute(store, td__schema_tensor, "open", error);
    store->has_view = store->has_view || !status;
    return status;
}

int td__sqlite_number(td__sqlite *store, const char *pragma) {
    sqlite3_stmt *statement;
    int number = -1;
    if (sqlite3_prepare_v2(store->database, pragma, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        number = sqlite3_column_int(statement, 0);
    }
    sqlite3_finalize(statement);
    return number;
}

int td__sqlite_version(td__sqlite *store) {
    return td__sqlite_number(store, "PRAGMA user_version");
}

bool td__sqlite_is_plain(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 ? S_ISREG(about.st_mode) : errno == ENOENT;
}

static void finalize_inserts(td__sqlite *store) {
    for (int i = 0; i < TD__TABLES; i++) {
        sqlite3_finalize(store->inserts[i]);
        store->inserts[i] = NULL;
    }
}

void td__sqlite_reconnect(td__sqlite *store, sqlite3 *database) {
    finalize_inserts(store);
    sqlite3_close_v2(store->database);
    store->database = database;
    store->has_view = false;
    store->store.generation++;
}

void td__sqlite_close(td__store *base) {
    td__sqlite *store = (td__sqlite *)base;
    finalize_inserts(store);
    if (store->network) {
        td__sqlite_settle(store);
        td__free(store->network);
    }
    if (store->holds) {
        td__guard_drop(store->guard);
    }
    sqlite3_close_v2(store->database);
    td__guard_leave(store->guard);
    td__free(store);
}

/* ---- Rows that go in ------------------------------------------------------------------------ */

static sqlite3_stmt *insert_statement(td__sqlite *store, td__store_table table) {
    const td__table_facts *facts = &td__tables[table];
    if (!store->inserts[table]) {
        char sql[160];
        int length =
            snprintf(sql, sizeof sql, "INSERT %s INTO %s VALUES(?", facts->conflict, facts->name);
        for (size_t i = 1; facts->types[i]; i++) {
            length += snprintf(sql + length, sizeof sql - (size_t)length, ",?");
        }
        (void)snprintf(sql + length, sizeof sql - (size_t)length, ")");
        sqlite3_prepare_v3(store->database, sql, -1, SQLITE_PREPARE_PERSISTENT,
                           &store->inserts[table], NULL);
    }
    return store->inserts[table];
}

static int bind_value(sqlite3_stmt *statement, int column, char type, const uint8_t **at) {
    int64_t integer;
    double real;
    if (type == 'n') {
        return sqlite3_bind_null(statement, column);
    }
    memcpy(&integer, *at, sizeof integer);
    memcpy(&real, *at, sizeof real);
    *at += sizeof integer;
    if (type == 'd') {
        return sqlite3_bind_double(statement, column, real);
    }
    if (type == 'i' || (type == 'o' && integer >= 0)) {
        return sqlite3_bind_int64(statement, column, integer);
    }
    if (integer < 0) {
        return sqlite3_bind_null(statement, column);
    }
    const char *text = (const char *)*at;
    *at += integer;
    return type == 't' ? sqlite3_bind_text(statement, column, text, (int)integer, SQLITE_STATIC)
                       : sqlite3_bind_blob(statement, column, text, (int)integer, SQLITE_STATIC);
}

static int clear_table(td__sqlite *store, const char *table) {
    char sql[64];
    (void)snprintf(sql, sizeof sql, "DELETE FROM %s", table);
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL);
}

static int insert_row(td__sqlite *store, const uint8_t **at) {
    int number = *(*at)++;
    if (number >= TD__TABLES) {
        return clear_table(store, td__tables[number - TD__TABLES].name);
    }
    td__store_table table = (td__store_table)number;
    sqlite3_stmt *statement = insert_statement(store, table);
    if (!statement) {
        return sqlite3_errcode(store->database);
    }
    int code = SQLITE_OK;
    const char *types = td__tables[table].types;
    for (int i = 0; types[i] && code == SQLITE_OK; i++) {
        code = bind_value(statement, i + 1, types[i], at);
    }
    if (code == SQLITE_OK) {
        sqlite3_step(statement);
        code = sqlite3_reset(statement);
    }
    return code;
}

static td_status sqlite_insert(td__store *base, const uint8_t *rows, size_t size, td_error *error) {
    td__sqlite *store = (td__sqlite *)base;
    int code = sqlite3_exec(store->database, "BEGIN", NULL, NULL, NULL);
    for (const uint8_t *at = rows; at < rows + size && code == SQLITE_OK;) {
        code = insert_row(store, &at);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_exec(store->database, "COMMIT", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && base->changes) {
        td__changes_note(base->changes, rows, size);
    }
    if (code == SQLITE_OK) {
        return store->network ? td__sqlite_show(store, error) : TD_OK;
    }
    td_status status = td__sqlite_error(store, code, "write", error);
    if (!sqlite3_get_autocommit(store->database)) {
        sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

int td__sqlite_sync_file(td__sqlite *store, int which) {
    sqlite3_file *file = NULL;
    sqlite3_file_control(store->database, "main", which, &file);
    return file && file->pMethods ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : SQLITE_OK;
}

/* In WAL mode with synchronous=NORMAL a commit by itself does not wait for the disk; nor did the
 * tables when they were made, which SQLite does not know of. */
static td_status sqlite_sync(td__store *base, td_error *error) {
    td__sqlite *store = (td__sqlite *)base;
    int code = store->synced ? SQLITE_OK : td__sqlite_sync_file(store, SQLITE_FCNTL_FILE_POINTER);
    store->synced = code == SQLITE_OK;
    code = code == SQLITE_OK ? td__sqlite_sync_file(store, SQLITE_FCNTL_JOURNAL_POINTER) : code;
    return code == SQLITE_OK
               ? TD_OK
               : td_error_set(error, TD_IO, "run.db: cannot sync: %s", sqlite3_errstr(code));
}

/* ---- Changing what is there ----------------------------------------------------------------- */

/* All of it or nothing. */
static td_status run_transaction(td__sqlite *store, const char *const *sql, size_t count,
                                 const char *verb, td_error *error) {
    td_status status = td__sqlite_execute(store, "BEGIN IMMEDIATE", verb, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < count && !status; i++) {
        status = td__sqlite_execute(store, sql[i], verb, error);
    }
    status = status ? status : td__sqlite_execute(store, "COMMIT", verb, error);
    if (status) {
        sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

static td_status sqlite_rewind(td__store *base, int64_t step, td_error *error) {
    enum { STATEMENTS = 3, MAX_TABLES = 16 };
    char texts[STATEMENTS + MAX_TABLES][480];
    const char *sql[STATEMENTS + MAX_TABLES];
    size_t count = 0;
    long long at = step;
    /* Arrays close up where records are taken out before others that stay (history). */
    (void)snprintf(texts[count++], sizeof *texts,
                   "UPDATE OR IGNORE tensor_series SET record = record - (SELECT count(*)"
                   " FROM tensor t WHERE t.file = tensor_series.file AND t.step > %lld"
                   " AND t.record < tensor_series.record)"
                   " WHERE step <= %lld AND file <> '' AND EXISTS (SELECT 1 FROM tensor_series o"
                   " WHERE o.file = tensor_series.file AND o.last > %lld"
                   " AND o.record < tensor_series.record)",
                   at, at, at);
    for (size_t i = 0; i < td__schema_step_count; i++) {
        (void)snprintf(texts[count++], sizeof *texts, "DELETE FROM %s WHERE step > %lld",
                       td__schema_steps[i], at);
    }
    /* A stretch of tensors that goes on beyond the step. */
    (void)snprintf(texts[count++], sizeof *texts,
                   "UPDATE tensor_series SET last = step + (%lld - step) / every * every"
                   " WHERE last > %lld AND every > 0",
                   at, at);
    (void)snprintf(texts[count++], sizeof *texts, "DELETE FROM summary WHERE last_step > %lld", at);
    for (size_t i = 0; i < count; i++) {
        sql[i] = texts[i];
    }
    return run_transaction((td__sqlite *)base, sql, count, "rewind", error);
}

static td_status sqlite_forget(td__store *base, const char *file, int64_t count, td_error *error) {
    static const char *const sql[] = {
        "DELETE FROM tensor_series WHERE file = ?1 AND record >= ?2",
        "UPDATE tensor_series SET last = step + (?2 - 1 - record) * every"
        " WHERE file = ?1 AND every > 0 AND record + (last - step) / every >= ?2"};
    sqlite3 *database = ((td__sqlite *)base)->database;
    for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v2(database, sql[i], -1, &statement, NULL);
        if (code == SQLITE_OK) {
            sqlite3_bind_text(statement, 1, file, -1, SQLITE_STATIC);
            sqlite3_bind_int64(statement, 2, count);
            code = sqlite3_step(statement);
        }
        sqlite3_finalize(statement);
        if (code != SQLITE_DONE) {
            return td_error_set(error, TD_IO, "run.db: cannot rewind: %s",
                                sqlite3_errmsg(database));
        }
    }
    return TD_OK;
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* Makes the database with its tables, empty, under draft, then gives it its name. */
static td_status make_database(const char *draft, const char *path, bool network, td_error *error) {
    td__sqlite *store = NULL;
    unlink(draft);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    td_status status =
        network ? td__sqlite_connect_alone(draft, flags, &store, error)
                : td__sqlite_connect(draft, NULL, flags, td__sqlite_writing_vfs(), &store, error);
    if (status) {
        return status;
    }
    const char *const sql[] = {"PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; BEGIN;",
                               td__schema, "COMMIT; PRAGMA journal_mode=WAL;"};
    for (size_t i = 0; i < sizeof sql / sizeof *sql && !status; i++) {
        status = td__sqlite_execute(store, sql[i], "create", error);
    }
    td__sqlite_close(&store->store);
    while (!status && rename(draft, path) != 0) {
        status = errno == EINTR ? TD_OK : td__file_error(error, "run.db", "create");
    }
    if (status) {
        unlink(draft);
    }
    return status;
}

static td_status migrate_schema(td__sqlite *store, td_error *error) {
    int version = td__sqlite_version(store);
    if (version < 1 || version > TD__SCHEMA_VERSION) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "run.db is of version %d; this program writes version %d", version,
                            TD__SCHEMA_VERSION);
    }
    td_status status = TD_OK;
    store->store.version = version;
    for (; version < TD__SCHEMA_VERSION && !status; version++) {
        status =
            run_transaction(store, &td__migrations[version].write, 1, "bring up to date", error);
    }
    return status;
}

static td_status open_for_writing(const char *path, bool network, td__store **opened,
                                  td_error *error) {
    td__sqlite *store = NULL;
    td_status status = network
                           ? td__sqlite_connect_alone(path, SQLITE_OPEN_READWRITE, &store, error)
                           : td__sqlite_connect(path, NULL, SQLITE_OPEN_READWRITE,
                                                td__sqlite_writing_vfs(), &store, error);
    if (status) {
        return status;
    }
    status = td__sqlite_execute(store,
                                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                                "PRAGMA wal_autocheckpoint=8000; PRAGMA cache_size=-16384",
                                "configure", error);
    if (!status && network) {
        store->store.slow = true;
        store->network = td__strdup(path);
        status = store->network ? td__sqlite_begin_log(store, error)
                                : td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    td__sqlite_harden(store, false);
    status = status ? status : td__sqlite_need_view(store, error); /* for rewinding */
    status = status ? status : migrate_schema(store, error);
    if (status) {
        td__sqlite_close(&store->store);
        return status;
    }
    if (store->guard && !network) {
        td__guard_hold(store->guard, path);
        store->holds = true;
    }
    *opened = &store->store;
    return TD_OK;
}

static bool is_network(const char *folder) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool network = opened >= 0 && td__folder_is_network(opened);
    if (opened >= 0) {
        close(opened);
    }
    return network;
}

static td_status make_path(char out[TD__SQLITE_PATH], const char *folder, const char *name,
                           td_error *error) {
    return (size_t)snprintf(out, TD__SQLITE_PATH, "%s/%s", folder, name) < TD__SQLITE_PATH
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%.200s…: the name is too long", folder);
}

td_status td__store_create(const char *folder, td__store **store, td_error *error) {
    char path[TD__SQLITE_PATH], draft[TD__SQLITE_PATH];
    struct stat about;
    td_status status = make_path(path, folder, "run.db", error);
    status = status ? status : make_path(draft, folder, ".run.db.new", error);
    if (!status && lstat(path, &about) == 0) {
        status = td_error_set(error, TD_EXISTS, "run.db exists already");
    }
    bool network = is_network(folder);
    status = status ? status : make_database(draft, path, network, error);
    return status ? status : open_for_writing(path, network, store, error);
}

td_status td__store_open(const char *folder, td__store **store, td_error *error) {
    static const char *const names[] = {"run.db", "run.db-wal", "run.db-shm"};
    char path[TD__SQLITE_PATH];
    struct stat about;
    if (td__url_is(folder)) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s is in a database: what is written about it is written where it was "
                            "recorded, and pushed",
                            folder);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        td_status status = make_path(path, folder, names[i], error);
        if (status) {
            return status;
        }
        if (!td__sqlite_is_plain(path)) {
            return td_error_set(error, TD_INVALID, "%s is no file of this run: nothing is written",
                                names[i]);
        }
    }
    td_status status = make_path(path, folder, "run.db", error);
    if (!status && lstat(path, &about) != 0) {
        status = td_error_set(error, TD_NOT_FOUND, "run.db: %s", strerror(errno));
    }
    return status ? status : open_for_writing(path, is_network(folder), store, error);
}

td_status td__store_temporary(td__store **store, td_error *error) {
    td__sqlite *made = NULL;
    /* A database without a name is in memory, and in a private temporary file when it grows. */
    td_status status = td__sqlite_connect("", NULL, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                          NULL, &made, error);
    if (status) {
        return status;
    }
    status = td__sqlite_execute(
        made, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-49152;",
        "create", error);
    status = status ? status : td__sqlite_execute(made, td__schema, "create", error);
    if (status) {
        td__sqlite_close(&made->store);
        return status;
    }
    *store = &made->store;
    return TD_OK;
}

const td__store_class td__sqlite_class = {
    .insert = sqlite_insert,
    .sync = sqlite_sync,
    .rewind = sqlite_rewind,
    .forget = sqlite_forget,
    .select = td__sqlite_select,
    .bind = td__sqlite_bind,
    .next = td__sqlite_next,
    .integer = td__sqlite_integer,
    .real = td__sqlite_real,
    .text = td__sqlite_text,
    .end = td__sqlite_end,
    .close = td__sqlite_close,
};
