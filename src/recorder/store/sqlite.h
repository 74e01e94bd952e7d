/* run.db as a store: the connection, and what its files share. */
#ifndef TAPEDECK_STORE_SQLITE_H
#define TAPEDECK_STORE_SQLITE_H

#include "store/guard.h"
#include "store/schema.h"

#include <sqlite3.h>

enum { TD__SQLITE_BUSY_MILLISECONDS = 5000, TD__SQLITE_PATH = 4096 };

typedef struct td__sqlite {
    td__store store;
    sqlite3 *database;
    sqlite3_stmt *inserts[TD__TABLES]; /* prepared when they are first needed */
    /* Of a database that is not trusted: how many instructions its statements may take until none
     * is open. */
    int open_statements;
    int64_t budget;
    int64_t bytes;    /* of the file when it was opened */
    bool has_view;    /* `tensor`, as a temporary one */
    td__guard *guard; /* NULL: of a file that has no name */
    bool holds;       /* its locks */
    bool synced;      /* the file itself, not only its log, has been synced since it was opened */
    char *network;    /* not NULL: its path, of a file that is written as sqlite_network.c has it */
} td__sqlite;

extern const td__store_class td__sqlite_class;

/* Opens a connection to path, or to uri when it is not NULL; flags and VFS as for sqlite3_open_v2. */
td_status td__sqlite_connect(const char *path, const char *uri, int flags, const char *vfs,
                             td__sqlite **opened, td_error *error);
td_status td__sqlite_execute(td__sqlite *store, const char *sql, const char *verb, td_error *error);
/* "run.db: cannot VERB: …" */
td_status td__sqlite_error(const td__sqlite *store, int code, const char *verb, td_error *error);
/* Makes it safe to use whatever is in the file: its triggers and views do nothing, and texts have a
 * limit. A damaged file is left out: SQLite reads the rest of a file that is shorter than its header
 * claims only without these settings. */
void td__sqlite_harden(td__sqlite *store, bool damaged);
/* Makes our own `tensor`, once: most readers need none. */
td_status td__sqlite_need_view(td__sqlite *store, td_error *error);
/* Syncs a file of the database, SQLITE_FCNTL_FILE_POINTER or SQLITE_FCNTL_JOURNAL_POINTER. */
int td__sqlite_sync_file(td__sqlite *store, int which);
/* The value of a PRAGMA that is a number, or -1. */
int td__sqlite_number(td__sqlite *store, const char *pragma);
/* Gives another connection the store's place. */
void td__sqlite_reconnect(td__sqlite *store, sqlite3 *database);
/* The VFS for writing; NULL, which is SQLite's own, where it has no files as on Unix. */
const char *td__sqlite_writing_vfs(void);

/* On a network file system (sqlite_network.c): opens a connection to path that uses no shared memory, and no locks
 * where there are none. */
td_status td__sqlite_connect_alone(const char *path, int flags, td__sqlite **opened,
                                   td_error *error);
/* After a connection for writing was opened: marks the log as belonging to this database file. */
td_status td__sqlite_begin_log(td__sqlite *store, td_error *error);
/* After a commit: makes it visible to other machines. Puts log and database together when the log has become long. */
td_status td__sqlite_show(td__sqlite *store, td_error *error);
/* Before the last connection is closed: puts log and database together. */
void td__sqlite_settle(td__sqlite *store);

/* td__store_read of a folder. */
td_status td__sqlite_read(const char *folder, bool writing, td__store **opened, bool *damaged,
                          td_error *error);

/* PRAGMA user_version, or -1. */
int td__sqlite_version(td__sqlite *store);
/* Whether path is a file of its own, not a link, a pipe or the like; or not there. */
bool td__sqlite_is_plain(const char *path);
void td__sqlite_close(td__store *store);

/* The reading half of the class (sqlite_rows.c). */
td__rows *td__sqlite_select(td__store *store, const td__query *query, td_error *error);
void td__sqlite_bind(td__rows *rows, int64_t signal, int64_t first, int64_t last, int64_t limit);
int td__sqlite_next(td__rows *rows, td_error *error);
int64_t td__sqlite_integer(td__rows *rows, int column);
double td__sqlite_real(td__rows *rows, int column);
const char *td__sqlite_text(td__rows *rows, int column, size_t *length);
void td__sqlite_end(td__rows *rows);

#endif
