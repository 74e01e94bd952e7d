/* Opening a run of a database, and choosing what a run is read from. */
#include "base/memory.h"
#include "store/pg_listing.h"
#include "store/sqlite.h"

#include <stdio.h>
#include <string.h>

td_status td__pg_store_make(td__pg *pg, const td__pg_answer *runs, size_t row, td__store **store,
                            td_error *error) {
    td__pg_store *made = td__calloc(1, sizeof *made);
    char *folder = made ? td__strdup(td__pg_word(runs, row, TD__PG_RUN_FOLDER)) : NULL;
    if (!folder) {
        td__free(made);
        return td_error_set(error, TD_MEMORY, "out of memory for a run");
    }
    td__pg_cell cells[TD__PG_RUN_CELLS];
    for (int i = 0; i < TD__PG_RUN_CELLS; i++) {
        cells[i] = td__pg_cell_of(runs, row, i);
    }
    made->store.class = &td__pg_class;
    made->store.remote = &made->about;
    made->store.version = (int)td__pg_integer(&cells[TD__PG_RUN_SCHEMA]);
    made->about = (td__remote){.number = td__pg_integer(&cells[TD__PG_RUN_ID]),
                               .writing = td__pg_integer(&cells[TD__PG_RUN_WRITING]) != 0,
                               .bytes = td__pg_integer(&cells[TD__PG_RUN_BYTES]),
                               .folder = folder};
    made->pg = pg;
    made->folder = folder;
    (void)td__pg_number(made->number, td__pg_integer(&cells[TD__PG_RUN_ID]));
    *store = &made->store;
    return TD_OK;
}

td_status td__pg_read(const char *place, td__store **store, td_error *error) {
    static const char sql[] =
        "SELECT " TD__PG_RUN_COLUMNS " FROM tapedeck.run r WHERE r.name = $1 AND r.part = $2";
    char url[TD__URL_ROOM], run[TD__URL_ROOM];
    td_status status = td__url_take(place, url, run, error);
    td__pg *pg = NULL;
    status = status ? status : td__pg_share(url, &pg, error);
    if (status) {
        return status;
    }
    char *slash = strchr(run, '/');
    if (slash) {
        *slash = 0;
    }
    const char *const values[] = {run, slash ? slash + 1 : ""};
    td__pg_answer answer = {0};
    status = td__pg_ask(pg, sql, 2, values, &answer, error);
    if (!status && answer.count == 0) {
        status = td_error_set(error, TD_NOT_FOUND, "%s has no run '%s%s%s'", url, run,
                              slash ? "/" : "", values[1]);
    }
    status = status ? status : td__pg_store_make(pg, &answer, 0, store, error);
    td__pg_answer_release(&answer);
    if (status) {
        td__pg_unshare(pg);
    }
    return status;
}

td_status td__store_read(const char *place, bool writing, td__store **store, bool *damaged,
                         td_error *error) {
    return td__url_is(place) ? td__pg_read(place, store, error)
                             : td__sqlite_read(place, writing, store, damaged, error);
}
