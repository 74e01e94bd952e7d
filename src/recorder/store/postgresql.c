/* Connections to PostgreSQL. */
#include "store/postgresql.h"

#include "base/memory.h"
#include "base/plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double connect_seconds = 10, statement_seconds = 60;

/* ---- The plugin ----------------------------------------------------------------------------- */

static const td__pg_driver *driver;
static td_error missing;

static void load(void) {
    const td__pg_driver *found = td__plugin_symbol("postgresql", "td_postgresql_plugin",
                                                   "libpq (Debian: libpq-dev)", &missing);
    if (found && strcmp(found->version, td_version()) != 0) {
        (void)td_error_set(&missing, TD_UNSUPPORTED,
                           "libtapedeck-postgresql.so is of another version of tapedeck");
        found = NULL;
    }
    driver = found;
}

/* ---- Statements ----------------------------------------------------------------------------- */

/* SQLSTATE classes and what they are to a caller: the first that fits. */
static const struct {
    const char *code;
    td_status status;
} codes[] = {{"28", TD_INVALID},        /* the user, or the password */
             {"3D", TD_NOT_FOUND},      /* the database */
             {"3F", TD_NOT_FOUND},      /* the schema */
             {"42501", TD_UNSUPPORTED}, /* not permitted */
             {"42P01", TD_NOT_FOUND},   /* the table */
             {"25006", TD_UNSUPPORTED}, /* read-only */
             {"55P03", TD_BUSY}};

static td_status report(const td__pg *pg, const td__pg_problem *problem, td_error *error) {
    td_status status = TD_IO;
    for (size_t i = 0; i < TD__COUNT(codes) && *problem->code; i++) {
        if (strncmp(problem->code, codes[i].code, strlen(codes[i].code)) == 0) {
            status = codes[i].status;
            break;
        }
    }
    return td_error_set(error, status, "%s: %s", pg->url, problem->text);
}

static td_status not_connected(const td__pg *pg, td_error *error) {
    return td_error_set(error, TD_IO, "%s: the connection was lost", pg->url);
}

td_status td__pg_run(td__pg *pg, const char *sql, int count, const char *const *values,
                     td__pg_row_function *each, void *user, td_error *error) {
    td__pg_problem problem = {0};
    if (!pg->connection) {
        return not_connected(pg, error);
    }
    return pg->driver->run(pg->connection, sql, count, values, pg->seconds, each, user, &problem)
               ? TD_OK
               : report(pg, &problem, error);
}

td_status td__pg_script(td__pg *pg, const char *sql, td_error *error) {
    return td__pg_run(pg, sql, -1, NULL, NULL, NULL, error);
}

td_status td__pg_put(td__pg *pg, const void *bytes, size_t size, td_error *error) {
    td__pg_problem problem = {0};
    return pg->driver->put(pg->connection, bytes, size, pg->seconds, &problem)
               ? TD_OK
               : report(pg, &problem, error);
}

td_status td__pg_finish(td__pg *pg, td_error *error) {
    td__pg_problem problem = {0};
    return pg->driver->finish(pg->connection, pg->seconds, &problem) ? TD_OK
                                                                     : report(pg, &problem, error);
}

td_status td__pg_notified(td__pg *pg, td__pg_row_function *each, void *user, td_error *error) {
    td__pg_problem problem = {0};
    return pg->driver->notified(pg->connection, each, user, &problem) ? TD_OK
                                                                      : report(pg, &problem, error);
}

const char *td__pg_number(char out[TD__PG_NUMBER], int64_t value) {
    (void)snprintf(out, TD__PG_NUMBER, "%" PRId64, value);
    return out;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

/* Names that a session looks up are PostgreSQL's own or have a schema in front: nobody can put another table or function
 * in their place. Statements here are short; compiling one takes longer than running it. */
static td_status connect_now(td__pg *pg, td_error *error) {
    char password[TD__URL_ROOM], plain[TD__URL_ROOM];
    td_status status = td__url_tensors(pg->url, plain, &pg->tensors, error);
    if (status) {
        return status;
    }
    bool given = td__url_password(pg->url, password);
    td__pg_problem problem = {0};
    pg->connection = pg->driver->open(plain, given ? password : NULL, connect_seconds, &problem);
    explicit_bzero(password, sizeof password);
    if (!pg->connection) {
        return report(pg, &problem, error);
    }
    return td__pg_script(
        pg,
        pg->writes ? "SET search_path = pg_catalog; SET jit = off; SET statement_timeout = '60s';"
                     "SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '120s'"
                   : "SET search_path = pg_catalog; SET jit = off; SET statement_timeout = '60s';"
                     "SET default_transaction_read_only = on",
        error);
}

td_status td__pg_ask(td__pg *pg, const char *sql, int count, const char *const *values,
                     td__pg_answer *answer, td_error *error) {
    pthread_mutex_lock(&pg->lock);
    bool usable = pg->connection && pg->driver->usable(pg->connection);
    td_status status = usable ? TD_OK : td__pg_reopen(pg, error);
    td__pg_forget(answer);
    status = status ? status : td__pg_run(pg, sql, count, values, td__pg_keep, answer, error);
    pthread_mutex_unlock(&pg->lock);
    return status;
}

static void disconnect(td__pg *pg) {
    if (pg->connection) {
        pg->driver->close(pg->connection);
    }
    pg->connection = NULL;
}

td_status td__pg_reopen(td__pg *pg, td_error *error) {
    disconnect(pg);
    td_status status = connect_now(pg, error);
    status = status ? status : pg->writes ? td__pg_migrate(pg, error) : td__pg_check(pg, error);
    if (status) {
        disconnect(pg);
    }
    return status;
}

td_status td__pg_available(td_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    return driver ? TD_OK : td_error_set(error, missing.status, "%s", missing.text);
}

td_status td__pg_open(const char *url, bool writes, td__pg **opened, td_error *error) {
    td_status available = td__pg_available(error);
    td__pg *pg = available ? NULL : td__calloc(1, sizeof *pg);
    if (!pg) {
        return available ? available
                         : td_error_set(error, TD_MEMORY, "out of memory for a connection");
    }
    pg->driver = driver;
    pg->writes = writes;
    pg->seconds = statement_seconds;
    pthread_mutex_init(&pg->lock, NULL);
    td_status status = td__url_take(url, pg->url, NULL, error);
    status = status ? status : td__pg_reopen(pg, error);
    if (status) {
        td__pg_close(pg);
        return status;
    }
    *opened = pg;
    return TD_OK;
}

void td__pg_close(td__pg *pg) {
    if (pg) {
        disconnect(pg);
        pthread_mutex_destroy(&pg->lock);
        td__free(pg);
    }
}

/* ---- Shared by readers ---------------------------------------------------------------------- */

static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static td__pg *shared; /* under sharing, as are next and users */

td_status td__pg_share(const char *url, td__pg **pg, td_error *error) {
    char plain[TD__URL_ROOM];
    td_status status = td__url_take(url, plain, NULL, error);
    if (status) {
        return status;
    }
    pthread_mutex_lock(&sharing);
    td__pg *found = shared;
    while (found && strcmp(found->url, plain) != 0) {
        found = found->next;
    }
    if (!found) {
        status = td__pg_open(plain, false, &found, error);
        if (!status) {
            found->next = shared;
            shared = found;
        }
    }
    if (!status) {
        found->users++;
        *pg = found;
    }
    pthread_mutex_unlock(&sharing);
    return status;
}

void td__pg_unshare(td__pg *pg) {
    pthread_mutex_lock(&sharing);
    td__pg **place = &shared;
    while (*place && *place != pg) {
        place = &(*place)->next;
    }
    bool last = --pg->users == 0;
    if (last) {
        *place = pg->next;
    }
    pthread_mutex_unlock(&sharing);
    if (last) {
        td__pg_close(pg);
    }
}
