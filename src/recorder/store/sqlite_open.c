/* Opening run.db for reading: nothing is changed, nothing is left behind, nothing is trusted.
 *
 * While a deck writes it, it is opened as SQLite means it: log and index are there and shared.
 * Otherwise nobody else may be there, and SQLite would leave an index behind that it cannot remove:
 * a database with a log (of a run that was killed) is opened without locks and with an index in
 * memory, one without as a file that does not change. */
#include "base/clock.h"
#include "base/memory.h"
#include "store/sqlite.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The file ------------------------------------------------------------------------------- */

/* "file:PATH?OPTIONS", with what has a meaning in it escaped. */
static bool make_uri(char *out, size_t size, const char *path, const char *options) {
    size_t used = (size_t)snprintf(out, size, "file:");
    for (; *path && used + 4 < size; path++) {
        bool plain = !strchr("%?#", *path);
        used += (size_t)snprintf(out + used, size - used, plain ? "%c" : "%%%02X",
                                 (unsigned char)*path);
    }
    return !*path && (size_t)snprintf(out + used, size - used, "?%s", options) < size - used;
}

/* SQLite silently fills the missing part of a last page with zeros. The file is read through SQLite,
 * because closing a descriptor of our own would drop its locks. */
static bool is_cut_short(td__sqlite *store, bool has_log, bool *mixed) {
    uint8_t head[72];
    sqlite3_int64 size = 0;
    sqlite3_file *file = NULL;
    sqlite3_file_control(store->database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK ||
        file->pMethods->xRead(file, head, sizeof head, 0) != SQLITE_OK) {
        return false;
    }
    store->bytes = size;
    int32_t generation = (int32_t)((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 |
                                   (uint32_t)head[70] << 8 | head[71]);
    *mixed = has_log && td__sqlite_number(store, "PRAGMA application_id") > generation;
    int64_t page = head[16] << 8 | head[17];
    page = page == 1 ? 65536 : page;
    int64_t pages = (int64_t)head[28] << 24 | head[29] << 16 | head[30] << 8 | head[31];
    return page > 0 && (size % page != 0 || (!has_log && pages * page > size));
}

/* ---- Without locks -------------------------------------------------------------------------- */

/* A VFS like SQLite's own, whose locks are always had. Its "unix-none" would do, but closes files at
 * once, and with that drops the locks of another connection of this process. */
static sqlite3_vfs lockless = {.zName = "tapedeck-lockless"};

static int no_lock(sqlite3_file *file, int level) {
    (void)file, (void)level;
    return SQLITE_OK;
}

static int is_reserved(sqlite3_file *file, int *reserved) {
    (void)file;
    *reserved = 0;
    return SQLITE_OK;
}

static int open_lockless(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *given) {
    sqlite3_vfs *own = vfs->pAppData;
    int code = own->xOpen(own, name, file, flags, given);
    if (code == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB) {
        sqlite3_io_methods *methods = (sqlite3_io_methods *)((char *)file + own->szOsFile);
        *methods = *file->pMethods;
        methods->xLock = methods->xUnlock = no_lock;
        methods->xCheckReservedLock = is_reserved;
        file->pMethods = methods;
    }
    return code;
}

static void register_lockless(void) {
    sqlite3_vfs *own = sqlite3_vfs_find(NULL);
    if (own) {
        const char *name = lockless.zName;
        lockless = *own;
        lockless.zName = name;
        lockless.pAppData = own;
        lockless.xOpen = open_lockless;
        lockless.szOsFile = own->szOsFile + (int)sizeof(sqlite3_io_methods);
        sqlite3_vfs_register(&lockless, false);
    }
}

/* A library that is unloaded leaves nothing behind. */
__attribute__((destructor)) static void unregister_lockless(void) {
    if (lockless.pAppData) {
        sqlite3_vfs_unregister(&lockless);
    }
}

/* ---- What is in it -------------------------------------------------------------------------- */

enum { INSTRUCTIONS = 1000 }; /* between two checks of the budget */

static int out_of_budget(void *user) {
    td__sqlite *store = user;
    double until = store->store.cpu_until;
    store->budget -= INSTRUCTIONS;
    return store->budget < 0 || (until > 0 && td__cpu_seconds() > until);
}

/* Columns that are computed and tables that are programs can be made to take for ever. */
static bool has_programs(td__sqlite *store) {
    static const char *const queries[] = {
        "SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL",
        "SELECT 1 FROM pragma_table_list l WHERE schema='main' AND type <> 'view' AND"
        " (type='virtual' OR EXISTS"
        " (SELECT 1 FROM pragma_table_xinfo(l.name, 'main') x WHERE x.hidden > 1))"};
    bool suspect = false;
    sqlite3_stmt *rows = NULL;
    if (sqlite3_prepare_v2(store->database, queries[0], -1, &rows, NULL) == SQLITE_OK) {
        while (!suspect && sqlite3_step(rows) == SQLITE_ROW) {
            const char *sql = (const char *)sqlite3_column_text(rows, 0);
            suspect = !sql || !strstr(td__schema, sql); /* not one that we make */
        }
    }
    sqlite3_finalize(rows);
    if (suspect && sqlite3_prepare_v2(store->database, queries[1], -1, &rows, NULL) == SQLITE_OK) {
        suspect = sqlite3_step(rows) != SQLITE_DONE;
        sqlite3_finalize(rows);
    }
    return suspect;
}

static td_status make_safe(td__sqlite *store, bool damaged, td_error *error) {
    td_status status = TD_OK;
    td__sqlite_harden(store, damaged);
    if (has_programs(store)) {
        return td_error_set(error, TD_FORMAT,
                            "run.db has tables or columns that are computed: it was not written "
                            "by a deck, and is not read");
    }
    int version = store->store.version = td__sqlite_version(store);
    for (; !status && version >= 1 && version < TD__SCHEMA_VERSION; version++) {
        status = td__sqlite_execute(store, td__migrations[version].read, "open", error);
    }
    return status;
}

/* ---- Opening -------------------------------------------------------------------------------- */

typedef struct manner {
    const char *options, *vfs, *pragmas;
} manner;
static const manner shared = {"mode=ro", NULL, ""},
                    alone = {"mode=ro", "tapedeck-lockless", "PRAGMA locking_mode=EXCLUSIVE;"},
                    unchanging = {"immutable=1", NULL, ""};

static const double max_seconds = 2; /* to open it, of processor time: takes far less */

/* Opens and reads the schema, the first thing that can fail. */
static td_status try_open(const char *path, const manner *how, bool has_log, td__sqlite **opened,
                          bool *damaged, td_error *error) {
    static const char probe[] = "SELECT count(*) FROM sqlite_schema";
    char uri[3 * TD__SQLITE_PATH];
    td__sqlite *store = NULL;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_lockless);
    if (!make_uri(uri, sizeof uri, path, how->options)) {
        return td_error_set(error, TD_INVALID, "%.200s…: the name is too long", path);
    }
    td_status status = td__sqlite_connect(path, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                                          how->vfs, &store, error);
    if (status) {
        return status;
    }
    store->budget = INT64_MAX;
    store->store.cpu_until = td__cpu_seconds() + max_seconds;
    sqlite3_progress_handler(store->database, INSTRUCTIONS, out_of_budget, store);
    sqlite3_db_config(store->database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_exec(store->database, how->pragmas, NULL, NULL, NULL);
    sqlite3_exec(store->database, "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON", NULL, NULL,
                 NULL);
    int code = sqlite3_exec(store->database, probe, NULL, NULL, NULL);
    bool mixed = false;
    *damaged = is_cut_short(store, has_log, &mixed);
    if ((code & 0xff) == SQLITE_CORRUPT) {
        *damaged = true;
        sqlite3_exec(store->database, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
        code = sqlite3_exec(store->database, probe, NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) {
        int kind = code & 0xff;
        status = td_error_set(error,
                              kind == SQLITE_BUSY                               ? TD_BUSY
                              : kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT ? TD_FORMAT
                                                                                : TD_IO,
                              "%s cannot be read: %s", path, sqlite3_errstr(code));
    }
    if (!status && mixed) { /* see sqlite_network.c */
        status = td_error_set(error, TD_BUSY, "%s is being put together with its log", path);
    }
    status = status ? status : make_safe(store, *damaged, error);
    if (status) {
        td__sqlite_close(&store->store);
        return status;
    }
    store->store.cpu_until = 0;
    *opened = store;
    return TD_OK;
}

static td_status read_once(const char *folder, bool writing, td__store **opened, bool *damaged,
                           td_error *error) {
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[TD__SQLITE_PATH];
    bool has_log = false;
    int64_t log_size = 0;
    struct stat about;
    for (int i = writing ? 2 : 1; i >= 0; i--) { /* the database last, which stays in path */
        if ((size_t)snprintf(path, sizeof path, "%s/run.db%s", folder, endings[i]) >= sizeof path) {
            return td_error_set(error, TD_INVALID, "%.200s…: the name is too long", folder);
        }
        bool there = stat(path, &about) == 0;
        if (there && !S_ISREG(about.st_mode)) {
            return td_error_set(error, TD_FORMAT, "%s is not a regular file", path);
        }
        if (i == 1 && there) {
            log_size = about.st_size;
            has_log = log_size > 0;
        }
    }
    td__sqlite *store = NULL;
    const manner *own = has_log ? &alone : &unchanging;
    td_status status = try_open(path, writing ? &shared : own, has_log, &store, damaged, error);
    if (writing && status == TD_IO) { /* a folder that cannot be written to, without an index */
        status = try_open(path, own, has_log, &store, damaged, error);
    }
    if (status) {
        return status;
    }
    store->bytes += log_size;
    *opened = &store->store;
    return TD_OK;
}

td_status td__sqlite_read(const char *folder, bool writing, td__store **opened, bool *damaged,
                          td_error *error) {
    enum { TRIES = 50, PAUSE = 50000 }; /* microseconds */
    char heartbeat[TD__SQLITE_PATH];
    td_status status = read_once(folder, writing, opened, damaged, error);
    (void)snprintf(heartbeat, sizeof heartbeat, "%s/heartbeat", folder);
    bool replaced =
        status && !writing && access(heartbeat, F_OK) == 0; /* perhaps: a log may vanish */
    for (int i = 1; i < TRIES && replaced && (status == TD_BUSY || status == TD_IO); i++) {
        usleep(PAUSE);
        status = read_once(folder, writing, opened, damaged, error);
    }
    return status;
}
