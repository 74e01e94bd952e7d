/* libpq, wrapped; see store/driver.h. Nothing waits without a limit: sending and receiving are done without blocking,
 * and a connection whose server does not answer in time is given up. */
#include "store/driver.h"
#include "tapedeck/base.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_COLUMNS = 64 };

typedef struct connection {
    PGconn *pg;
    bool broken;
} connection;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Problems ------------------------------------------------------------------------------- */

/* One line; what a terminal would act on is left out: the server's words are not trusted. */
static void set_text(td__pg_problem *problem, const char *code, const char *text) {
    size_t used = 0;
    (void)snprintf(problem->code, sizeof problem->code, "%s", code ? code : "");
    for (; *text && used + 1 < sizeof problem->text; text++) {
        unsigned char byte = (unsigned char)*text;
        bool gap = byte == '\n' || byte == '\r' || byte == '\t';
        if (gap && used && problem->text[used - 1] != ' ') {
            problem->text[used++] = ' ';
        } else if (!gap && byte >= 0x20 && byte != 0x7f) {
            problem->text[used++] = (char)(byte < 0x80 ? byte : '?');
        }
    }
    while (used && problem->text[used - 1] == ' ') {
        used--;
    }
    problem->text[used] = 0;
}

static bool fail_connection(connection *c, td__pg_problem *problem, const char *reason) {
    c->broken = true;
    set_text(problem, "", reason ? reason : PQerrorMessage(c->pg));
    return false;
}

static bool fail_result(const PGresult *result, td__pg_problem *problem) {
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    set_text(problem, code, text ? text : PQresultErrorMessage(result));
    return false;
}

static void ignore_notice(void *user, const PGresult *result) {
    (void)user, (void)result;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* False when until has come, or nothing more can come. */
static bool wait_for(const connection *c, short events, double until) {
    int socket = PQsocket(c->pg);
    for (;;) {
        double left = until - seconds_now();
        if (socket < 0 || left <= 0) {
            return false;
        }
        struct pollfd at = {.fd = socket, .events = events};
        int found = poll(&at, 1, left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (found > 0) {
            return true;
        }
    }
}

/* Sends what is buffered; what arrives meanwhile is taken in, or both sides would wait for each other. */
static bool flush_all(connection *c, double until, td__pg_problem *problem) {
    int left;
    while ((left = PQflush(c->pg)) > 0) {
        if (!wait_for(c, POLLIN | POLLOUT, until)) {
            return fail_connection(c, problem, "the server does not take what is sent to it");
        }
        if (!PQconsumeInput(c->pg)) {
            return fail_connection(c, problem, NULL);
        }
    }
    return left == 0 || fail_connection(c, problem, NULL);
}

/* The next result, NULL at the end of the statement; false when the connection has failed. */
static bool next_result(connection *c, double until, PGresult **result, td__pg_problem *problem) {
    while (PQisBusy(c->pg)) {
        if (!wait_for(c, POLLIN, until)) {
            return fail_connection(c, problem, "the server does not answer");
        }
        if (!PQconsumeInput(c->pg)) {
            return fail_connection(c, problem, NULL);
        }
    }
    *result = PQgetResult(c->pg);
    return true;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

static void close_connection(void *handle) {
    connection *c = handle;
    if (c) {
        PQfinish(c->pg);
        free(c); // NOLINT: not the library's memory
    }
}

static bool connect_until(connection *c, double until, td__pg_problem *problem) {
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED || PQstatus(c->pg) == CONNECTION_BAD) {
            return fail_connection(c, problem, NULL);
        }
        if (!wait_for(c, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until)) {
            return fail_connection(c, problem, "the server does not answer");
        }
        next = PQconnectPoll(c->pg);
    }
    return true;
}

/* A server that vanishes without closing the connection is noticed. What stands in front of the URL can be changed by it. */
static void *open_connection(const char *url, const char *password, double seconds,
                             td__pg_problem *problem) {
    static const char *const keywords[] = {
        "keepalives_idle", "keepalives_interval", "tcp_user_timeout", "fallback_application_name",
        "dbname",          "client_encoding",     "password",         NULL};
    const char *const values[] = {"15", "5", "30000", "tapedeck", url, "UTF8", password, NULL};
    char *reason = NULL;
    PQconninfoOption *parsed = PQconninfoParse(url, &reason);
    PQfreemem(reason); /* it may show parts of a password */
    if (!parsed) {
        set_text(problem, "", "this is no URL of a database: postgresql://USER@HOST:PORT/DATABASE");
        return NULL;
    }
    PQconninfoFree(parsed);
    connection *c = calloc(1, sizeof *c);
    if (!c) {
        set_text(problem, "", "out of memory");
        return NULL;
    }
    c->pg = PQconnectStartParams(keywords, values, 1);
    bool good = c->pg != NULL;
    if (!good) {
        set_text(problem, "", "out of memory");
    } else {
        PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
        good = connect_until(c, seconds_now() + seconds, problem) &&
               (PQsetnonblocking(c->pg, 1) == 0 || fail_connection(c, problem, NULL));
    }
    if (!good) {
        close_connection(c);
        return NULL;
    }
    return c;
}

static bool is_usable(const void *handle) {
    const connection *c = handle;
    return !c->broken && PQstatus(c->pg) == CONNECTION_OK;
}

/* ---- Statements ----------------------------------------------------------------------------- */

static bool give_rows(connection *c, const PGresult *result, td__pg_row_function *each, void *user,
                      td__pg_problem *problem) {
    td__pg_cell cells[MAX_COLUMNS];
    int columns = PQnfields(result), rows = PQntuples(result);
    if (columns > MAX_COLUMNS) {
        return fail_connection(c, problem, "the server's answer has too many columns");
    }
    for (int row = 0; row < rows && each; row++) {
        for (int i = 0; i < columns; i++) {
            bool none = PQgetisnull(result, row, i);
            cells[i] = (td__pg_cell){none ? NULL : PQgetvalue(result, row, i),
                                     none ? -1 : PQgetlength(result, row, i)};
        }
        if (!each(user, cells, columns)) {
            return fail_connection(c, problem, "the server's answer is not what was asked for");
        }
    }
    return true;
}

/* Everything that a statement answers, up to its end, or to where a COPY begins. */
static bool read_results(connection *c, double until, td__pg_row_function *each, void *user,
                         td__pg_problem *problem) {
    bool good = true;
    PGresult *result = NULL;
    while (next_result(c, until, &result, problem)) {
        if (!result) {
            return good;
        }
        ExecStatusType kind = PQresultStatus(result);
        bool copying = kind == PGRES_COPY_IN;
        if (kind == PGRES_SINGLE_TUPLE || kind == PGRES_TUPLES_OK) {
            good = good && give_rows(c, result, each, user, problem);
        } else if (kind == PGRES_FATAL_ERROR || kind == PGRES_BAD_RESPONSE) {
            good = good && fail_result(result, problem);
        } else if (kind != PGRES_COMMAND_OK && kind != PGRES_EMPTY_QUERY && !copying) {
            good = fail_connection(c, problem, "the server's answer is not what was asked for");
        }
        PQclear(result);
        if (copying || c->broken) {
            return good && !c->broken;
        }
    }
    return false;
}

static bool run_statement(void *handle, const char *sql, int count, const char *const *values,
                          double seconds, td__pg_row_function *each, void *user,
                          td__pg_problem *problem) {
    connection *c = handle;
    double until = seconds_now() + seconds;
    int sent = count < 0 ? PQsendQuery(c->pg, sql)
                         : PQsendQueryParams(c->pg, sql, count, NULL, values, NULL, NULL, 1);
    if (!sent) {
        return fail_connection(c, problem, NULL);
    }
    (void)PQsetSingleRowMode(c->pg);
    return flush_all(c, until, problem) && read_results(c, until, each, user, problem);
}

static bool put_bytes(void *handle, const void *bytes, size_t size, double seconds,
                      td__pg_problem *problem) {
    connection *c = handle;
    double until = seconds_now() + seconds;
    int put;
    while ((put = PQputCopyData(c->pg, bytes, (int)size)) == 0) {
        if (!flush_all(c, until, problem)) {
            return false;
        }
    }
    return put > 0 ? flush_all(c, until, problem) : fail_connection(c, problem, NULL);
}

static bool finish_copy(void *handle, double seconds, td__pg_problem *problem) {
    connection *c = handle;
    double until = seconds_now() + seconds;
    int put;
    while ((put = PQputCopyEnd(c->pg, NULL)) == 0) {
        if (!flush_all(c, until, problem)) {
            return false;
        }
    }
    if (put < 0) {
        return fail_connection(c, problem, NULL);
    }
    return flush_all(c, until, problem) && read_results(c, until, NULL, NULL, problem);
}

static bool give_notified(void *handle, td__pg_row_function *each, void *user,
                          td__pg_problem *problem) {
    connection *c = handle;
    if (!PQconsumeInput(c->pg)) {
        return fail_connection(c, problem, NULL);
    }
    for (PGnotify *note; (note = PQnotifies(c->pg)) != NULL;) {
        (void)each(user, &(td__pg_cell){note->extra, (int)strlen(note->extra)}, 1);
        PQfreemem(note);
    }
    return true;
}

/* What the plugin exports. */
TD_API extern const td__pg_driver td_postgresql_plugin;
const td__pg_driver td_postgresql_plugin = {
    .version = TD_VERSION_STRING,
    .open = open_connection,
    .close = close_connection,
    .run = run_statement,
    .put = put_bytes,
    .finish = finish_copy,
    .notified = give_notified,
    .usable = is_usable,
};
