/* A run's rows: what goes wrong with them is a problem of the run, and the end of the rows. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/network.h"
#include "deck/heartbeat.h"
#include "run/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a run without a heartbeat that its own machine writes as a local one: whether it was written a minute ago. */
static bool is_fresh(int folder) {
    enum { SECONDS = 60 };
    static const char *const names[] = {"run.db-wal", "run.db"};
    bool fresh = false;
    for (size_t i = 0; i < TD__COUNT(names); i++) {
        struct stat about;
        fresh |= fstatat(folder, names[i], &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                 fabs(td__wall_time() - (double)about.st_mtime) < SECONDS;
    }
    return fresh;
}

td__written_by td__run_written_by(const char *folder, char ended[TD__ENDED]) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    td__written_by by = TD__NOBODY;
    td__beat beat;
    *ended = 0;
    if (opened < 0) {
        return by;
    }
    if (flock(opened, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        by = TD__LOCK_HOLDER;
    } else if (td__beat_read(opened, &beat)) {
        by = td__beat_is_live(&beat) ? TD__OTHER_MACHINE : TD__NOBODY;
        (void)snprintf(ended, TD__ENDED, "%s", beat.state);
    } else if (td__folder_is_network(opened) && is_fresh(opened)) {
        by = TD__PERHAPS;
    }
    by = by == TD__LOCK_HOLDER && td__folder_is_network(opened) ? TD__OTHER_MACHINE : by;
    close(opened);
    return by;
}

td_status td__run_open_store(td_run *run, td_error *error) {
    if (run->ranks) { /* ranks and attempts may have come */
        td__store *merged = NULL;
        td_status opened = td__ranks_open(run, &merged, error);
        if (!opened) {
            td__store_close(run->store);
            run->store = merged;
        }
        return opened;
    }
    char ended[TD__ENDED];
    bool writing = !run->remote && td__run_written_by(run->folder, ended) == TD__LOCK_HOLDER;
    bool damaged = false;
    if (run->store && run->shared && writing) {
        return TD_OK; /* sees what is written by itself */
    }
    td__store *store = NULL;
    td_status status = td__store_read(run->folder, writing, &store, &damaged, error);
    if (status) {
        return status;
    }
    if (damaged) {
        td__run_problem(&run->problems, "run.db is damaged or cut short; some of it is missing");
    }
    td__store_close(run->store);
    run->store = store;
    run->shared = writing;
    return TD_OK;
}

td__rows *td__run_select(td_run *run, const td__query *query) {
    td_error error = {0};
    td__rows *rows = run->store ? run->store->class->select(run->store, query, &error) : NULL;
    if (!rows && error.status) {
        td__run_problem(&run->problems, "%s", error.text);
    }
    return rows;
}

td__rows *td__run_select_all(td_run *run, td__source source) {
    td__rows *rows = td__run_select(run, &(td__query){.source = source});
    if (rows) {
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, -1);
    }
    return rows;
}

bool td__run_next(td_run *run, td__rows *rows) {
    td_error error;
    error.text[0] = 0;
    int next = rows ? td__rows_next(rows, &error) : 0;
    if (next < 0) {
        td__run_problem(&run->problems, "%s", error.text);
    }
    return next > 0;
}

const char *td__run_text(td__rows *rows, int column) {
    const char *text = td__rows_text(rows, column, NULL);
    return text ? text : "";
}

td_stats td__rows_stats(td__rows *row) {
    return (td_stats){.count = td__rows_integer(row, 1),
                      .mean = td__rows_real(row, 2),
                      .std = td__rows_real(row, 3),
                      .min = td__rows_real(row, 4),
                      .max = td__rows_real(row, 5),
                      .norm = td__rows_real(row, 6),
                      .zeros = td__rows_integer(row, 7),
                      .nan = td__rows_integer(row, 8),
                      .inf = td__rows_integer(row, 9),
                      .first_nonfinite = td__rows_integer(row, 10)};
}
