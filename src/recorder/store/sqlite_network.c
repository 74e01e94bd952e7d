/* run.db on a network file system.
 *
 * SQLite's WAL mode as it is used elsewhere needs memory that is shared with readers, and locks on byte ranges: a
 * network file system may have neither, or not for other machines. Here the writer alone knows the log's index
 * (locking_mode=EXCLUSIVE), and readers are never notified: each builds an index of its own from the files as
 * it sees them. That shows a consistent state of the past, because
 * - the log is only ever appended to, and its check sums end it where bytes are not visible yet;
 * - run.db is never changed in place. When the log has become long, a copy that contains it is published under the
 *   name run.db, and a new log is begun.
 *
 * A reader may see run.db of before with the log of after. Therefore every database file has a number in its header
 * (application_id), one more than the one before it, and the first transaction of a log repeats it: a log whose number
 * is greater than the file's belongs to a file that is not visible yet. The other way round, a file with the log of
 * the file before, shows the same as both of before: the file has all of that log in it already.
 *
 * Where locks are available the writer holds them, so that other programs do not write or remove the log. */
#include "store/sqlite.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_MILLISECONDS = 20 };
enum { WAL = 2, ROLLBACK = 1 };          /* of a header: how the file is written */
static const int64_t long_log = 4 << 20; /* bytes; or half of the database, if that is more */

/* ---- Connections ---------------------------------------------------------------------------- */

/* The VFS for writing on the methods of "unix-none". */
static sqlite3_vfs lockless = {.zName = NULL};

static int open_unlocked(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *given) {
    (void)vfs;
    sqlite3_vfs *none = sqlite3_vfs_find("unix-none");
    return none ? none->xOpen(none, name, file, flags, given) : SQLITE_CANTOPEN;
}

static void make_lockless(void) {
    sqlite3_vfs *base = sqlite3_vfs_find(td__sqlite_writing_vfs());
    if (base) {
        lockless = *base;
        lockless.zName = "tapedeck-writing-lockless";
        lockless.xOpen = open_unlocked;
        (void)sqlite3_vfs_register(&lockless, 0);
    }
}

__attribute__((destructor)) static void unregister_lockless(void) {
    if (lockless.zName) {
        sqlite3_vfs_unregister(&lockless);
    }
}

td_status td__sqlite_connect_alone(const char *path, int flags, td__sqlite **opened,
                                   td_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_lockless);
    const char *const names[] = {td__sqlite_writing_vfs(), lockless.zName};
    td_status status = TD_OK;
    for (size_t i = 0; i < TD__COUNT(names); i++) {
        td__sqlite *store = NULL;
        status = td__sqlite_connect(path, NULL, flags, names[i], &store, error);
        if (status) {
            return status;
        }
        sqlite3_busy_timeout(store->database, LOCK_MILLISECONDS);
        if (flags & SQLITE_OPEN_CREATE) { /* a draft: no journal is left beside it */
            (void)td__sqlite_execute(store, "PRAGMA journal_mode=MEMORY", "open", NULL);
        }
        /* Reading takes the locks, which stay. A file system without locks answers as if they were taken. */
        status = td__sqlite_execute(store,
                                    "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;"
                                    "SELECT count(*) FROM sqlite_schema",
                                    "open", error);
        if (!status) {
            sqlite3_busy_timeout(store->database, TD__SQLITE_BUSY_MILLISECONDS);
            sqlite3_db_config(store->database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
            sqlite3_wal_autocheckpoint(store->database, 0);
            *opened = store;
            return TD_OK;
        }
        td__sqlite_close(&store->store);
    }
    return status;
}

/* ---- Numbers -------------------------------------------------------------------------------- */

/* Of the file alone, without its log. */
static int file_number(const char *path) {
    uint8_t bytes[4] = {0};
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file >= 0) {
        (void)td__read_all(file, bytes, sizeof bytes, 68);
        close(file);
    }
    return bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

static td_status put_number(td__sqlite *store, int number, td_error *error) {
    char sql[64];
    (void)snprintf(sql, sizeof sql, "PRAGMA application_id=%d", number);
    return td__sqlite_execute(store, sql, "write", error);
}

td_status td__sqlite_begin_log(td__sqlite *store, td_error *error) {
    struct stat log;
    char path[TD__SQLITE_PATH + 8];
    sqlite3_wal_autocheckpoint(store->database, 0);
    (void)snprintf(path, sizeof path, "%s-wal", store->network);
    bool begun = stat(path, &log) == 0 && log.st_size > 0; /* of a session that was killed */
    return begun ? TD_OK : put_number(store, file_number(store->network), error);
}

/* ---- Putting together ----------------------------------------------------------------------- */

static bool copy_pages(td__sqlite *store, const char *draft) {
    td__sqlite *copy = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    unlink(draft);
    if (td__sqlite_connect_alone(draft, flags, &copy, NULL)) {
        return false;
    }
    (void)td__sqlite_execute(copy, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF", "copy", NULL);
    sqlite3_backup *backup = sqlite3_backup_init(copy->database, "main", store->database, "main");
    bool good = backup && sqlite3_backup_step(backup, -1) == SQLITE_DONE;
    good = sqlite3_backup_finish(backup) == SQLITE_OK && good;
    td__sqlite_close(&copy->store);
    return good;
}

/* Number and mode go into the header by hand: SQLite would begin a log for them. */
static bool finish_copy(const char *draft, int number, uint8_t mode) {
    const uint8_t modes[] = {mode, mode};
    const uint8_t bytes[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
                             (uint8_t)(number >> 8), (uint8_t)number};
    int file = td__file_open(AT_FDCWD, draft, O_WRONLY);
    bool good = file >= 0 && td__write_all(file, modes, sizeof modes, 18) &&
                td__write_all(file, bytes, sizeof bytes, 68) && td__sync(fdatasync, file);
    if (file >= 0) {
        good = close(file) == 0 && good;
    }
    return good;
}

/* Publishes a copy that has the log in it and removes the log; false, and nothing has changed, when that is not
 * possible. */
static bool publish_copy(td__sqlite *store, uint8_t mode, int *number) {
    char draft[TD__SQLITE_PATH + 8], log[TD__SQLITE_PATH + 8];
    const char *slash = strrchr(store->network, '/');
    int folder = (int)(slash ? slash + 1 - store->network : 0);
    (void)snprintf(draft, sizeof draft, "%.*s.run.db.new", folder, store->network);
    (void)snprintf(log, sizeof log, "%s-wal", store->network);
    int in_file = file_number(store->network);
    int in_log = td__sqlite_number(store, "PRAGMA application_id");
    *number = (in_file > in_log ? in_file : in_log) + 1;
    bool good = copy_pages(store, draft) && finish_copy(draft, *number, mode) &&
                rename(draft, store->network) == 0;
    if (good) {
        unlink(log);
    } else {
        unlink(draft);
    }
    return good;
}

static td_status put_together(td__sqlite *store, td_error *error) {
    int number = 0;
    td__sqlite *next = NULL;
    if (!publish_copy(store, WAL, &number)) {
        return TD_OK; /* a full disk: the log goes on, and it is tried again */
    }
    td_status status =
        td__sqlite_connect_alone(store->network, SQLITE_OPEN_READWRITE, &next, error);
    status = status ? status : put_number(next, number, error);
    if (status) {
        td__store_close(next ? &next->store : NULL);
        return status;
    }
    (void)td__sqlite_execute(next, "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384",
                             "configure", NULL);
    td__sqlite_harden(next, false);
    td__sqlite_reconnect(store, next->database);
    next->database = NULL;
    td__sqlite_close(&next->store);
    return td__sqlite_need_view(store, error);
}

static int64_t file_size(td__sqlite *store, int which) {
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    sqlite3_file_control(store->database, "main", which, &file);
    return file && file->pMethods && file->pMethods->xFileSize(file, &size) == SQLITE_OK ? size : 0;
}

td_status td__sqlite_show(td__sqlite *store, td_error *error) {
    int code = td__sqlite_sync_file(store, SQLITE_FCNTL_JOURNAL_POINTER);
    if (code != SQLITE_OK) {
        return TD_OK; /* it is committed; flushing reports what stays unsynced */
    }
    int64_t log = file_size(store, SQLITE_FCNTL_JOURNAL_POINTER);
    int64_t most = file_size(store, SQLITE_FCNTL_FILE_POINTER) / 2;
    return log >= (most > long_log ? most : long_log) ? put_together(store, error) : TD_OK;
}

void td__sqlite_settle(td__sqlite *store) {
    int number;
    if (store->database && file_size(store, SQLITE_FCNTL_JOURNAL_POINTER) > 0) {
        (void)publish_copy(store, ROLLBACK, &number); /* otherwise the log stays beside it */
    }
}
