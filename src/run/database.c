/* Opening run.db without ever changing it. */
#include "base/memory.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char damaged[] = "run.db is damaged or cut short; some of it is missing";

enum { PATH_ROOM = 4096, BUSY_MILLISECONDS = 5000 };

sqlite3_stmt *td__run_prepare(td_run *run, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(run->database, sql, -1, &statement, NULL) != SQLITE_OK) {
        td__run_problem(&run->problems, "run.db: %s", sqlite3_errmsg(run->database));
        return NULL;
    }
    return statement;
}

bool td__run_next(td_run *run, sqlite3_stmt *statement) {
    int code = statement ? sqlite3_step(statement) : SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        td__run_problem(&run->problems, "run.db: %s; what lies behind the damage is missing",
                        sqlite3_errmsg(run->database));
    }
    return code == SQLITE_ROW;
}

double td__column_number(sqlite3_stmt *statement, int column) {
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(statement, column);
}

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

/* Opens and reads the schema, the first thing that can fail. */
static int try_open(td_run *run, const char *path, const char *options) {
    char uri[PATH_ROOM + 32];
    if (!make_uri(uri, sizeof uri, path, options)) {
        return SQLITE_CANTOPEN;
    }
    int code = sqlite3_open_v2(uri, &run->database,
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(run->database, BUSY_MILLISECONDS);
        code = sqlite3_exec(run->database, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    if ((code & 0xff) == SQLITE_CORRUPT) {
        /* So set, SQLite reads what there is of a file that is shorter than it says. */
        td__run_problem(&run->problems, "%s", damaged);
        sqlite3_exec(run->database, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
        code = sqlite3_exec(run->database, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) {
        sqlite3_close_v2(run->database);
        run->database = NULL;
    }
    return code;
}

static bool copy_file(const char *from, const char *to) {
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    static const size_t most = (size_t)1 << 30;
    ssize_t copied = out < 0 ? -1 : 1;
    while (copied > 0) {
        copied = copy_file_range(in, NULL, out, NULL, most, 0);
        if (copied < 0) { /* between file systems that cannot */
            char buffer[1 << 16];
            copied = read(in, buffer, sizeof buffer);
            copied = copied > 0 && write(out, buffer, (size_t)copied) != copied ? -1 : copied;
        }
    }
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
    return copied == 0;
}

/* The database and its log as a copy that nobody else sees and nothing remains of. */
static int open_copy(td_run *run, const char *path, const char *log) {
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_ROOM], copy[PATH_ROOM + 16], copied_log[PATH_ROOM + 16], index[PATH_ROOM + 16];
    (void)snprintf(folder, sizeof folder, "%s/tapedeck-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        return SQLITE_CANTOPEN;
    }
    (void)snprintf(copy, sizeof copy, "%s/run.db", folder);
    (void)snprintf(copied_log, sizeof copied_log, "%s/run.db-wal", folder);
    (void)snprintf(index, sizeof index, "%s/run.db-shm", folder);
    int code = copy_file(log, copied_log) && copy_file(path, copy) ? try_open(run, copy, "mode=ro")
                                                                   : SQLITE_IOERR;
    unlink(copy);
    unlink(copied_log);
    unlink(index);
    rmdir(folder);
    return code;
}

/* SQLite fills what is missing of a last page with zeros, and says nothing. */
static void check_size(td_run *run, const char *path, bool has_log) {
    uint8_t head[32];
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool read_it = file >= 0 && fstat(file, &about) == 0 &&
                   pread(file, head, sizeof head, 0) == (ssize_t)sizeof head;
    if (file >= 0) {
        close(file);
    }
    if (!read_it) {
        return;
    }
    int64_t page = head[16] << 8 | head[17];
    page = page == 1 ? 65536 : page;
    int64_t pages = (int64_t)head[28] << 24 | head[29] << 16 | head[30] << 8 | head[31];
    if (page > 0 && (about.st_size % page != 0 || (!has_log && pages * page > about.st_size))) {
        td__run_problem(&run->problems, "%s", damaged);
    }
}

td_status td__run_open_database(td_run *run, td_error *error) {
    char path[PATH_ROOM], log[PATH_ROOM];
    if ((size_t)snprintf(path, sizeof path, "%s/run.db", run->folder) >= sizeof path ||
        (size_t)snprintf(log, sizeof log, "%s/run.db-wal", run->folder) >= sizeof log) {
        return td_error_set(error, TD_INVALID, "%s: the name is too long", run->folder);
    }
    struct stat about;
    bool has_log = stat(log, &about) == 0 && about.st_size > 0;
    check_size(run, path, has_log);
    int code = try_open(run, path, "mode=ro");
    int kind = code & 0xff;
    if (kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY || kind == SQLITE_IOERR) {
        code = has_log ? open_copy(run, path, log) : try_open(run, path, "immutable=1");
    }
    if (code == SQLITE_OK) {
        return TD_OK;
    }
    return td_error_set(error, (code & 0xff) == SQLITE_BUSY ? TD_BUSY : TD_FORMAT,
                        "%s cannot be read: %s", path, sqlite3_errstr(code));
}
