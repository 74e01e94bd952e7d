/* The relations that SQL over runs sees: rows of every run's store, with the run's name beside them.
 *
 * Runs are opened when a statement first needs them and at most MAX_OPEN of them stay open; those that
 * a cursor reads are pinned. What cannot be read of a run is a problem, and the others are read. */
#include "run/sql.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 128, MAX_RUNS = 1 << 20 };
static const double default_seconds = 60, max_seconds = 2; /* of a statement; to open a run */

struct td_sql {
    td__sql_entry *entries;
    size_t count, capacity, open;
    uint64_t acquired; /* counts up */
    td__statement *statement;
    td__problems problems;
};

/* ---- Runs ----------------------------------------------------------------------------------- */

static void take_problems(td_sql *sql, const td__sql_entry *e) {
    for (size_t i = 0; e->run && i < e->run->problems.count; i++) {
        td__run_problem(&sql->problems, "%s: %s", e->label, e->run->problems.texts[i]);
    }
}

static void close_run(td_sql *sql, td__sql_entry *e) {
    take_problems(sql, e);
    td_run_close(e->run);
    e->run = NULL;
    sql->open--;
}

static void close_least_used(td_sql *sql) {
    td__sql_entry *oldest = NULL;
    for (size_t i = 0; i < sql->count; i++) {
        td__sql_entry *e = &sql->entries[i];
        oldest = e->run && e->pins == 0 && (!oldest || e->used < oldest->used) ? e : oldest;
    }
    if (oldest) {
        close_run(sql, oldest);
    }
}

/* td_run_open, and event files are read. A run whose description does not end in max_seconds is cut
 * off there, which is a problem of it. */
static td_run *open_run(const char *folder, double until, td_error *error) {
    td_run *run = td__run_begin(folder, error);
    if (!run) {
        return NULL;
    }
    td_status status = run->events ? td_run_refresh(run, error) : td__run_open_store(run, error);
    if (!status && !run->events) {
        run->store->cpu_until = td__cpu_seconds() + max_seconds;
        status = td__run_read_signals(run, error);
        td__run_read_info(run);
    }
    if (status) {
        td_run_close(run);
        return NULL;
    }
    run->store->cpu_until = until;
    return run;
}

/* Opens the run if it is not open, and pins it; false when it cannot be read. */
static bool acquire_run(td_sql *sql, td__sql_entry *e) {
    if (!e->run && !e->error) {
        td_error error = {0};
        if (sql->open >= MAX_OPEN) {
            close_least_used(sql);
        }
        e->run = open_run(e->folder, td__statement_until(sql->statement), &error);
        if (e->run) {
            sql->open++;
        } else {
            e->error = td__strdup(error.text);
            td__run_problem(&sql->problems, "%s", error.text);
        }
    }
    e->used = ++sql->acquired;
    e->pins += e->run != NULL;
    return e->run;
}

/* ---- A cursor over a table ------------------------------------------------------------------ */

static void *open_cursor(void *context, const td__relation *relation) {
    td__sql_cursor *c = td__calloc(1, sizeof *c);
    if (c) {
        c->sql = context;
        c->view = &td__sql_views[relation - td__sql_relations];
    }
    return c;
}

static void leave_run(td__sql_cursor *c) {
    td__rows_end(c->rows);
    c->rows = NULL;
    if (c->pinned) {
        c->at->pins--;
    }
    c->pinned = false;
    c->at = NULL;
}

static void forget_filter(td__sql_cursor *c) {
    td__free(c->run);
    td__free(c->signal);
    c->run = c->signal = NULL;
}

static void close_cursor(void *user) {
    td__sql_cursor *c = user;
    leave_run(c);
    forget_filter(c);
    td__bins_release(&c->bins);
    td__free(c);
}

/* Starts with the run that the cursor is in, whose rows stay prepared for another search in it. */
static void start_run(td__sql_cursor *c) {
    c->signal_at = 0;
    c->found = false;
    c->fresh = true;
    c->bin = 0;
    c->histogram.bin_count = 0;
    if (c->rows && c->view->rows == OF_SOURCE) {
        td__rows_bind(c->rows, 0, c->first, c->last, -1);
    }
}

static td_status begin_scan(void *user, const td__filter *filter, td_error *error) {
    td__sql_cursor *c = user;
    forget_filter(c);
    c->run = filter->run ? td__strdup(filter->run) : NULL;
    c->signal = filter->signal ? td__strdup(filter->signal) : NULL;
    c->first = filter->first;
    c->last = filter->last;
    if ((filter->run && !c->run) || (filter->signal && !c->signal)) {
        return td_error_set(error, TD_MEMORY, "out of memory for the statement");
    }
    bool same = c->at && c->run && strcmp(c->at->label, c->run) == 0;
    if (same) {
        c->index = (size_t)(c->at - c->sql->entries) + 1;
        start_run(c);
    } else {
        leave_run(c);
        c->index = 0;
    }
    return TD_OK;
}

/* Goes to the next run that can be read (of table runs: any); false at the end. */
static bool next_run(td__sql_cursor *c) {
    leave_run(c);
    while (c->index < c->sql->count) {
        td__sql_entry *e = &c->sql->entries[c->index++];
        if (c->run && strcmp(c->run, e->label) != 0) {
            continue;
        }
        bool known = c->view->rows == OF_RUNS && e->about; /* the run need not be open */
        bool good = known || acquire_run(c->sql, e);
        if (!good && c->view->rows != OF_RUNS) {
            continue;
        }
        c->at = e;
        c->pinned = good && !known;
        if (c->view->rows == OF_RUNS && !e->about) {
            e->info = (td_run_info){.size = sizeof e->info};
            e->about = true;
            if (good) {
                td_run_about(e->run, &e->info);
                e->info.name = e->info.folder = NULL; /* the run's, which may be closed */
            }
        }
        bool spread = c->view->rows == OF_SPREAD;
        if (good && c->view->source != TD__SOURCES && (e->run->ranks || !spread)) {
            c->rows =
                td__run_select(e->run, &(td__query){.source = c->view->source, .spread = spread});
        }
        start_run(c);
        return true;
    }
    return false;
}

/* Goes to the next signal that the table has something of; false when the run has no other. */
static bool next_signal(td__sql_cursor *c) {
    const td_run *run = c->at->run;
    while (c->signal_at < run->signal_count) {
        const td_run_signal *signal = &run->signals[c->signal_at++];
        if (c->signal) {
            signal = c->found ? NULL : td_run_signal_find(run, c->signal);
            c->found = true;
            c->signal_at = signal ? 0 : run->signal_count;
        }
        if (signal && (c->view->rows == OF_SIGNALS || signal->forms & c->view->forms)) {
            c->signal_now = (size_t)(signal - run->signals);
            if (c->rows) {
                td__rows_bind(c->rows, signal->id, c->first, c->last, -1);
            }
            return true;
        }
    }
    return false;
}

/* The next bin that holds something, of this histogram or the ones after it. */
static bool next_bin(td__sql_cursor *c) {
    for (;;) {
        while (++c->bin < c->histogram.bin_count) {
            if (td_histogram_range(&c->histogram, c->bin).count > 0) {
                return true;
            }
        }
        if (!td__run_next(c->at->run, c->rows)) {
            return false;
        }
        size_t size;
        const char *text = td__rows_text(c->rows, 1, &size);
        c->bin = -1;
        c->histogram.bin_count = 0;
        if (!text || !td__bins_unpack(&c->bins, text, size, &c->histogram)) {
            td__run_problem(&c->at->run->problems, "a histogram is damaged");
            c->histogram.bin_count = 0;
        }
    }
}

static bool next_of_source(td__sql_cursor *c) {
    return c->view->source == TD__HISTOGRAMS ? next_bin(c) : td__run_next(c->at->run, c->rows);
}

/* The next row in the run that the cursor is in. */
static bool next_in_run(td__sql_cursor *c) {
    bool fresh = c->fresh;
    c->fresh = false;
    switch (c->view->rows) {
    case OF_RUNS:
        return fresh;
    case OF_SIGNALS:
        return next_signal(c);
    case OF_RANKS:
        c->signal_now = c->signal_at++;
        return td_run_rank_at(c->at->run, c->signal_now);
    case OF_SOURCE:
        if (fresh && c->rows) {
            td__rows_bind(c->rows, 0, c->first, c->last, -1);
        }
        return c->rows && td__run_next(c->at->run, c->rows);
    case OF_SIGNAL_SOURCE:
    case OF_SPREAD:
        if (!c->rows || (fresh && !next_signal(c))) {
            return false;
        }
        while (!next_of_source(c)) {
            c->bin = 0;
            c->histogram.bin_count = 0;
            if (!next_signal(c)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

static int next(void *user, td_error *error) {
    (void)error;
    td__sql_cursor *c = user;
    for (;;) {
        if (c->at && next_in_run(c)) {
            return 1;
        }
        if (c->at && c->run) {
            return 0; /* stays in the run: it may be searched again */
        }
        if (!next_run(c)) {
            return 0;
        }
    }
}

/* ---- The interface ---------------------------------------------------------------------------- */

static const td__relations tables = {
    .relations = td__sql_relations,
    .count = TD__SQL_RELATIONS,
    .open = open_cursor,
    .begin = begin_scan,
    .next = next,
    .cell = td__sql_cell,
    .close = close_cursor,
};

static td_status add_run(void *user, const char *folder, td_error *error) {
    td_sql *sql = user;
    if (!td__grow(&sql->entries, &sql->capacity, sql->count + 1, MAX_RUNS, sizeof *sql->entries)) {
        return td_error_set(error, TD_MEMORY, "out of memory, or more than %d runs", MAX_RUNS);
    }
    td__sql_entry *e = &sql->entries[sql->count];
    *e = (td__sql_entry){.folder = td__strdup(folder)};
    e->name = td__strdup(td__place_name(folder));
    sql->count++;
    e->label = e->name;
    return e->folder && e->name ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* The runs of a path: of a file or a run, that one; of a folder, all at and below it. */
static td_status add_path(td_sql *sql, const char *path, td_error *error) {
    td_run *run = td__run_begin(path, error);
    if (run) {
        char *folder = td__strdup(run->one_rank ? path : run->folder),
             *name = td__strdup(run->name);
        td_run_close(run);
        td_status status =
            folder && name ? add_run(sql, folder, error) : td_error_set(error, TD_MEMORY, "memory");
        if (!status) { /* the name of "." is the folder's own */
            td__sql_entry *e = &sql->entries[sql->count - 1];
            td__free(e->name);
            e->label = e->name = name;
            name = NULL;
        }
        td__free(folder);
        td__free(name);
        return status;
    }
    size_t before = sql->count;
    td_error other = {0};
    td_status status = td_runs_find(path, add_run, sql, &other);
    if (status && status != TD_NOT_FOUND) {
        return td_error_set(error, status, "%s", other.text);
    }
    return sql->count > before
               ? TD_OK
               : td_error_set(error, TD_NOT_FOUND, "%s: there is no run at or below it", path);
}

static int compare_entries(const void *a, const void *b) {
    const td__sql_entry *x = a, *y = b;
    int order = strverscmp(x->name, y->name);
    return order ? order : strcmp(x->folder, y->folder);
}

static void release_entry(td__sql_entry *e) {
    td_run_close(e->run);
    td__free(e->folder);
    td__free(e->name);
    td__free(e->error);
}

/* Every run once, by name, each with a label that no other has. */
static void name_runs(td_sql *sql) {
    size_t kept = 0;
    if (sql->count) {
        qsort(sql->entries, sql->count, sizeof *sql->entries, compare_entries);
    }
    for (size_t i = 0; i < sql->count; i++) {
        td__sql_entry *e = &sql->entries[i];
        if (kept && strcmp(sql->entries[kept - 1].folder, e->folder) == 0) {
            release_entry(e);
            continue;
        }
        sql->entries[kept++] = *e;
    }
    sql->count = kept;
    for (size_t i = 1; i < kept; i++) {
        td__sql_entry *before = &sql->entries[i - 1], *e = &sql->entries[i];
        if (strcmp(before->name, e->name) == 0) {
            before->label = before->folder;
            e->label = e->folder;
        }
    }
}

td_sql *td_sql_open(const char *const *runs, size_t count, const char *statement,
                    const td_sql_options *options, td_error *error) {
    td_sql_options given;
    td__options(&given, sizeof given, options);
    td_sql *sql = td__calloc(1, sizeof *sql);
    td_status status = sql ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; i < count && !status; i++) {
        status = add_path(sql, runs[i], error);
    }
    if (!status) {
        name_runs(sql);
        status = td__statement_open(&tables, sql, statement,
                                    given.seconds > 0 ? given.seconds : default_seconds,
                                    &sql->statement, error);
    }
    if (status) {
        td_sql_close(sql);
        return NULL;
    }
    return sql;
}

void td_sql_close(td_sql *sql) {
    if (!sql) {
        return;
    }
    td__statement_close(sql->statement); /* its cursors release the runs */
    for (size_t i = 0; i < sql->count; i++) {
        release_entry(&sql->entries[i]);
    }
    td__problems_release(&sql->problems);
    td__free(sql->entries);
    td__free(sql);
}

size_t td_sql_columns(const td_sql *sql, const char *const **names) {
    return td__statement_columns(sql->statement, names);
}

int td_sql_next(td_sql *sql, const td_cell **cells, td_error *error) {
    int next_one = td__statement_next(sql->statement, cells, error);
    for (size_t i = 0; next_one <= 0 && i < sql->count; i++) {
        take_problems(sql, &sql->entries[i]);
    }
    if (next_one == 0 && td__cpu_seconds() > td__statement_until(sql->statement)) {
        td_error_set(error, TD_RANGE, "the statement took longer than it may");
        return -1; /* a run's rows may have been cut off */
    }
    return next_one;
}

size_t td_sql_problems(const td_sql *sql, const char *const **texts) {
    *texts = (const char *const *)sql->problems.texts;
    return sql->problems.count;
}
