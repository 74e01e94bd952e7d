/* What people say of runs in PostgreSQL, and removing them. */
#include "base/memory.h"
#include "store/postgresql.h"

#include <string.h>

/* A connection that may write, and the run's name and part. */
static td_status open_place(const char *place, td__pg **pg, char run[TD__URL_ROOM],
                            const char **part, td_error *error) {
    char url[TD__URL_ROOM];
    td_status status = td__url_take(place, url, run, error);
    char *slash = strchr(run, '/');
    *part = slash ? slash + 1 : "";
    if (slash) {
        *slash = 0;
    }
    return status ? status : td__pg_open(url, true, pg, error);
}

static td_status no_run(const td__pg *pg, const char *run, td_error *error) {
    return td_error_set(error, TD_NOT_FOUND, "%s has no run '%s'", pg->url, run);
}

/* They have a kind of their own, so that sending the run again leaves them. Of several processes the first has them. */
td_status td__pg_remark(const char *place, const char *key, const char *value, td_error *error) {
    static const char sql[] =
        "WITH noted AS (INSERT INTO tapedeck.note(run, kind, key, value) SELECT id, 'remark', $3, "
        "$4"
        " FROM tapedeck.run WHERE name = $1 AND ($2 = '' OR part = $2) ORDER BY part COLLATE \"C\""
        " LIMIT 1 ON CONFLICT (run, kind, key) DO UPDATE SET value = excluded.value RETURNING run)"
        " SELECT pg_notify('tapedeck', run::text) FROM noted";
    char run[TD__URL_ROOM];
    const char *part;
    td__pg *pg = NULL;
    td__pg_answer answer = {0};
    td_status status = open_place(place, &pg, run, &part, error);
    const char *const values[] = {run, part, key, value};
    status = status ? status : td__pg_run(pg, sql, 4, values, td__pg_keep, &answer, error);
    if (!status && answer.count == 0) {
        status = no_run(pg, run, error);
    }
    td__pg_answer_release(&answer);
    td__pg_close(pg);
    return status;
}

td_status td__pg_remove(const char *place, td_error *error) {
    static const char writing[] =
        "SELECT bool_or(writer IS NOT NULL AND seen > now() - interval '60 s') FROM"
        " (SELECT * FROM tapedeck.run WHERE name = $1 FOR UPDATE) r";
    char run[TD__URL_ROOM];
    const char *part;
    td__pg *pg = NULL;
    td__pg_answer answer = {0};
    td_status status = open_place(place, &pg, run, &part, error);
    const char *const values[] = {run};
    if (!status && *part) {
        status = td_error_set(error, TD_INVALID,
                              "%s/%s is one rank of a run, which goes as a whole", run, part);
    }
    status = status ? status : td__pg_script(pg, "BEGIN", error);
    status = status ? status : td__pg_run(pg, writing, 1, values, td__pg_keep, &answer, error);
    td__pg_cell busy = td__pg_cell_of(&answer, 0, 0);
    if (!status && busy.length < 0) {
        status = no_run(pg, run, error);
    } else if (!status && td__pg_integer(&busy)) {
        status = td_error_set(error, TD_BUSY, "%s#%s is being written", pg->url, run);
    }
    status = status ? status
                    : td__pg_run(pg, "DELETE FROM tapedeck.run WHERE name = $1", 1, values, NULL,
                                 NULL, error);
    status = status ? status
                    : td__pg_run(pg, "DELETE FROM tapedeck.name WHERE name = $1", 1, values, NULL,
                                 NULL, error);
    status = status ? status : td__pg_script(pg, "SELECT pg_notify('tapedeck', ''); COMMIT", error);
    td__pg_answer_release(&answer);
    td__pg_close(pg);
    return status;
}
