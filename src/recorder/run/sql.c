/* The relations that SQL over runs sees: rows of every run's store, with the run's name beside them.
 *
 * Runs are opened when a statement first needs them and at most MAX_OPEN of them stay open; those that
 * a cursor reads are pinned. What cannot be read of a run is a problem, and the others are read. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/parse.h"
#include "run/run.h"
#include "store/relations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 128, MAX_RUNS = 1 << 20 };
static const double default_seconds = 60, max_seconds = 2; /* of a statement; to open a run */

typedef struct entry {
    char *folder, *name;
    const char *label; /* the name, or the folder where several runs have that name */
    td_run *run;       /* NULL: not open */
    char *error;       /* why it could not be opened; NULL: it could, or was not tried */
    td_run_info info;  /* without texts */
    bool about;        /* info was read */
    int pins;
    uint64_t used; /* when it was last acquired */
} entry;

struct td_sql {
    entry *entries;
    size_t count, capacity, open;
    uint64_t acquired; /* counts up */
    td__statement *statement;
    td__problems problems;
};

/* ---- The tables ----------------------------------------------------------------------------- */

/* Where the value of a column comes from. */
typedef enum origin {
    FROM_RUN,     /* its name */
    FROM_INFO,    /* td_run_info: `at` is one of the facts below */
    FROM_SIGNAL,  /* td_run_signal: likewise */
    FROM_RANK,    /* td_run_rank: likewise */
    FROM_INTEGER, /* column `at` of the store's row */
    FROM_REAL,
    FROM_TEXT,
    FROM_EITHER, /* a number where the text is one */
    FROM_BIN,    /* of the histogram that is unpacked: 0 left, 1 right, 2 count */
} origin;

enum {
    INFO_FOLDER,
    INFO_STATE,
    INFO_STARTED,
    INFO_LAST_RECORD,
    INFO_STEP,
    INFO_EPOCH,
    INFO_BYTES,
    INFO_DROPPED,
    INFO_DEGRADED,
    INFO_ERROR
};
enum {
    SIGNAL_NAME,
    SIGNAL_KIND,
    SIGNAL_LAYER,
    SIGNAL_PARAMETER,
    SIGNAL_POSITION,
    SIGNAL_BETTER,
    SIGNAL_RANK,
    SIGNAL_FORMS,
    SIGNAL_FIRST,
    SIGNAL_LAST
};
enum {
    RANK_RANK,
    RANK_ATTEMPT,
    RANK_NODE,
    RANK_LOCAL,
    RANK_STEP,
    RANK_STATE,
    RANK_MESH,
    RANK_FOLDER
};

typedef struct place {
    origin origin;
    int at;
} place;

/* What the rows of a table are: one of a run, one of a signal, one of a rank, or a source's. */
typedef enum rows_of {
    OF_RUNS,
    OF_SIGNALS,
    OF_RANKS,
    OF_SOURCE,
    OF_SIGNAL_SOURCE,
    OF_SPREAD /* a signal's source over the ranks; runs of one process have none */
} rows_of;

typedef struct view {
    rows_of rows;
    td__source source;
    uint32_t forms; /* of signals that have rows */
    place places[TD__RELATION_COLUMNS];
} view;

#define RUN_COLUMN                                                                                 \
    { FROM_RUN, 0 }
#define SIGNAL_COLUMN                                                                              \
    { FROM_SIGNAL, SIGNAL_NAME }

static const td__relation relations[] = {
    {"runs",
     {"run TEXT", "folder TEXT", "state TEXT", "started REAL", "last_record REAL",
      "last_step INTEGER", "last_epoch INTEGER", "bytes INTEGER", "dropped INTEGER",
      "degraded INTEGER", "error TEXT"}},
    {"signals",
     {"run TEXT", "signal TEXT", "kind TEXT", "layer TEXT", "parameter TEXT", "position INTEGER",
      "better TEXT", "rank INTEGER", "forms TEXT", "first_step INTEGER", "last_step INTEGER"}},
    {"steps", {"run TEXT", "step INTEGER", "epoch INTEGER", "wall_time REAL"}},
    {"scalars", {"run TEXT", "signal TEXT", "step INTEGER", "value REAL"}},
    {"stats",
     {"run TEXT", "signal TEXT", "layer TEXT", "kind TEXT", "step INTEGER", "count INTEGER",
      "mean REAL", "std REAL", "min REAL", "max REAL", "norm REAL", "zeros INTEGER", "nan INTEGER",
      "inf INTEGER", "first_nonfinite INTEGER"}},
    {"histograms",
     {"run TEXT", "signal TEXT", "step INTEGER", "low REAL", "high REAL", "count REAL"}},
    {"tensors",
     {"run TEXT", "signal TEXT", "step INTEGER", "form TEXT", "file TEXT", "record INTEGER"}},
    {"examples",
     {"run TEXT", "signal TEXT", "step INTEGER", "sample INTEGER", "label", "value TEXT"}},
    {"texts", {"run TEXT", "signal TEXT", "step INTEGER", "text TEXT"}},
    {"findings",
     {"run TEXT", "cause TEXT", "layer TEXT", "unit INTEGER", "since_step INTEGER",
      "confidence TEXT", "severity TEXT", "symptoms TEXT", "evidence TEXT", "remedy TEXT",
      "origin TEXT"}},
    {"events",
     {"run TEXT", "kind TEXT", "epoch INTEGER", "step INTEGER", "wall_time REAL", "count INTEGER",
      "signal TEXT", "text TEXT"}},
    {"config", {"run TEXT", "key TEXT", "value"}},
    {"notes", {"run TEXT", "key TEXT", "value"}},
    {"environment", {"run TEXT", "key TEXT", "value"}},
    {"ranks",
     {"run TEXT", "rank INTEGER", "attempt INTEGER", "node INTEGER", "local_rank INTEGER",
      "last_step INTEGER", "state TEXT", "mesh TEXT", "folder TEXT"}},
    {"spread",
     {"run TEXT", "signal TEXT", "step INTEGER", "ranks INTEGER", "min REAL", "mean REAL",
      "max REAL", "min_rank INTEGER", "max_rank INTEGER"}},
};

/* In the order of relations. */
static const view views[] = {
    {OF_RUNS,
     TD__SOURCES,
     0,
     {RUN_COLUMN,
      {FROM_INFO, INFO_FOLDER},
      {FROM_INFO, INFO_STATE},
      {FROM_INFO, INFO_STARTED},
      {FROM_INFO, INFO_LAST_RECORD},
      {FROM_INFO, INFO_STEP},
      {FROM_INFO, INFO_EPOCH},
      {FROM_INFO, INFO_BYTES},
      {FROM_INFO, INFO_DROPPED},
      {FROM_INFO, INFO_DEGRADED},
      {FROM_INFO, INFO_ERROR}}},
    {OF_SIGNALS,
     TD__SOURCES,
     UINT32_MAX,
     {RUN_COLUMN,
      SIGNAL_COLUMN,
      {FROM_SIGNAL, SIGNAL_KIND},
      {FROM_SIGNAL, SIGNAL_LAYER},
      {FROM_SIGNAL, SIGNAL_PARAMETER},
      {FROM_SIGNAL, SIGNAL_POSITION},
      {FROM_SIGNAL, SIGNAL_BETTER},
      {FROM_SIGNAL, SIGNAL_RANK},
      {FROM_SIGNAL, SIGNAL_FORMS},
      {FROM_SIGNAL, SIGNAL_FIRST},
      {FROM_SIGNAL, SIGNAL_LAST}}},
    {OF_SOURCE, TD__STEPS, 0, {RUN_COLUMN, {FROM_INTEGER, 0}, {FROM_INTEGER, 1}, {FROM_REAL, 2}}},
    {OF_SIGNAL_SOURCE,
     TD__SCALARS,
     TD_SCALAR,
     {RUN_COLUMN, SIGNAL_COLUMN, {FROM_INTEGER, 0}, {FROM_REAL, 1}}},
    {OF_SIGNAL_SOURCE,
     TD__STATISTICS,
     TD_STATS,
     {RUN_COLUMN,
      SIGNAL_COLUMN,
      {FROM_SIGNAL, SIGNAL_LAYER},
      {FROM_SIGNAL, SIGNAL_KIND},
      {FROM_INTEGER, 0},
      {FROM_INTEGER, 1},
      {FROM_REAL, 2},
      {FROM_REAL, 3},
      {FROM_REAL, 4},
      {FROM_REAL, 5},
      {FROM_REAL, 6},
      {FROM_INTEGER, 7},
      {FROM_INTEGER, 8},
      {FROM_INTEGER, 9},
      {FROM_INTEGER, 10}}},
    {OF_SIGNAL_SOURCE,
     TD__HISTOGRAMS,
     TD_HISTOGRAM,
     {RUN_COLUMN, SIGNAL_COLUMN, {FROM_INTEGER, 0}, {FROM_BIN, 0}, {FROM_BIN, 1}, {FROM_BIN, 2}}},
    {OF_SIGNAL_SOURCE,
     TD__TENSORS,
     TD_TENSOR | TD_IMAGE,
     {RUN_COLUMN,
      SIGNAL_COLUMN,
      {FROM_INTEGER, 0},
      {FROM_TEXT, 1},
      {FROM_TEXT, 2},
      {FROM_INTEGER, 3}}},
    {OF_SIGNAL_SOURCE,
     TD__EXAMPLES,
     TD_ROWS,
     {RUN_COLUMN,
      SIGNAL_COLUMN,
      {FROM_INTEGER, 0},
      {FROM_INTEGER, 1},
      {FROM_EITHER, 2},
      {FROM_TEXT, 3}}},
    {OF_SIGNAL_SOURCE,
     TD__TEXTS,
     TD_TEXT,
     {RUN_COLUMN, SIGNAL_COLUMN, {FROM_INTEGER, 0}, {FROM_TEXT, 1}}},
    {OF_SOURCE,
     TD__FINDINGS,
     0,
     {RUN_COLUMN,
      {FROM_TEXT, 0},
      {FROM_TEXT, 1},
      {FROM_INTEGER, 2},
      {FROM_INTEGER, 3},
      {FROM_TEXT, 4},
      {FROM_TEXT, 5},
      {FROM_TEXT, 6},
      {FROM_TEXT, 7},
      {FROM_TEXT, 8},
      {FROM_TEXT, 9}}},
    {OF_SOURCE,
     TD__EVENTS,
     0,
     {RUN_COLUMN,
      {FROM_TEXT, 0},
      {FROM_INTEGER, 1},
      {FROM_INTEGER, 2},
      {FROM_REAL, 3},
      {FROM_INTEGER, 4},
      {FROM_TEXT, 5},
      {FROM_TEXT, 6}}},
    {OF_SOURCE, TD__EXPERIMENT, 0, {RUN_COLUMN, {FROM_TEXT, 0}, {FROM_EITHER, 1}}},
    {OF_SOURCE, TD__RUN_NOTES, 0, {RUN_COLUMN, {FROM_TEXT, 0}, {FROM_EITHER, 1}}},
    {OF_SOURCE, TD__ENVIRONMENT, 0, {RUN_COLUMN, {FROM_TEXT, 0}, {FROM_EITHER, 1}}},
    {OF_RANKS,
     TD__SOURCES,
     0,
     {RUN_COLUMN,
      {FROM_RANK, RANK_RANK},
      {FROM_RANK, RANK_ATTEMPT},
      {FROM_RANK, RANK_NODE},
      {FROM_RANK, RANK_LOCAL},
      {FROM_RANK, RANK_STEP},
      {FROM_RANK, RANK_STATE},
      {FROM_RANK, RANK_MESH},
      {FROM_RANK, RANK_FOLDER}}},
    {OF_SPREAD,
     TD__SCALARS,
     TD_SCALAR,
     {RUN_COLUMN,
      SIGNAL_COLUMN,
      {FROM_INTEGER, TD__SPREAD_STEP},
      {FROM_INTEGER, TD__SPREAD_RANKS},
      {FROM_REAL, TD__SPREAD_MIN},
      {FROM_REAL, TD__SPREAD_MEAN},
      {FROM_REAL, TD__SPREAD_MAX},
      {FROM_INTEGER, TD__SPREAD_MIN_RANK},
      {FROM_INTEGER, TD__SPREAD_MAX_RANK}}},
};
_Static_assert(TD__COUNT(views) == TD__COUNT(relations), "a view for each relation");

/* ---- Runs ----------------------------------------------------------------------------------- */

static void take_problems(td_sql *sql, const entry *e) {
    for (size_t i = 0; e->run && i < e->run->problems.count; i++) {
        td__run_problem(&sql->problems, "%s: %s", e->label, e->run->problems.texts[i]);
    }
}

static void close_run(td_sql *sql, entry *e) {
    take_problems(sql, e);
    td_run_close(e->run);
    e->run = NULL;
    sql->open--;
}

static void close_least_used(td_sql *sql) {
    entry *oldest = NULL;
    for (size_t i = 0; i < sql->count; i++) {
        entry *e = &sql->entries[i];
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
static bool acquire_run(td_sql *sql, entry *e) {
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

typedef struct cursor {
    td_sql *sql;
    const view *view;
    char *run, *signal; /* of the filter; NULL: any */
    int64_t first, last;
    size_t index;      /* of the next run */
    entry *at;         /* the run that is read; NULL: none */
    bool pinned;       /* it is open for this cursor */
    td__rows *rows;    /* of it; NULL: none */
    size_t signal_at;  /* the next signal, or rank */
    bool found;        /* the signal of the filter was looked for in this run */
    bool fresh;        /* a row of the run itself is due */
    size_t signal_now; /* the signal, or rank, that is read */
    td__bins bins;
    td_histogram histogram;
    int32_t bin; /* of the histogram; its bin_count: none left */
} cursor;

static void *open_cursor(void *context, const td__relation *relation) {
    cursor *c = td__calloc(1, sizeof *c);
    if (c) {
        c->sql = context;
        c->view = &views[relation - relations];
    }
    return c;
}

static void leave_run(cursor *c) {
    td__rows_end(c->rows);
    c->rows = NULL;
    if (c->pinned) {
        c->at->pins--;
    }
    c->pinned = false;
    c->at = NULL;
}

static void forget_filter(cursor *c) {
    td__free(c->run);
    td__free(c->signal);
    c->run = c->signal = NULL;
}

static void close_cursor(void *user) {
    cursor *c = user;
    leave_run(c);
    forget_filter(c);
    td__bins_release(&c->bins);
    td__free(c);
}

/* Starts with the run that the cursor is in, whose rows stay prepared for another search in it. */
static void start_run(cursor *c) {
    c->signal_at = 0;
    c->found = false;
    c->fresh = true;
    c->bin = 0;
    c->histogram.bin_count = 0;
    if (c->rows && c->view->rows == OF_SOURCE) {
        td__rows_bind(c->rows, 0, c->first, c->last, -1);
    }
}

static td_status begin(void *user, const td__filter *filter, td_error *error) {
    cursor *c = user;
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
static bool next_run(cursor *c) {
    leave_run(c);
    while (c->index < c->sql->count) {
        entry *e = &c->sql->entries[c->index++];
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
static bool next_signal(cursor *c) {
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
static bool next_bin(cursor *c) {
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

static bool next_of_source(cursor *c) {
    return c->view->source == TD__HISTOGRAMS ? next_bin(c) : td__run_next(c->at->run, c->rows);
}

/* The next row in the run that the cursor is in. */
static bool next_in_run(cursor *c) {
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
    cursor *c = user;
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

/* ---- Cells ---------------------------------------------------------------------------------- */

static void set_text(td_cell *cell, const char *text) {
    if (text) {
        *cell = (td_cell){.kind = TD_CELL_TEXT, .text = text, .length = strlen(text)};
    }
}

static void set_integer(td_cell *cell, int64_t value) {
    *cell = (td_cell){.kind = TD_CELL_INTEGER, .integer = value};
}

static void set_real(td_cell *cell, double value) {
    if (!isnan(value)) {
        *cell = (td_cell){.kind = TD_CELL_REAL, .real = value};
    }
}

/* Times that are not known are NULL. */
static void set_time(td_cell *cell, double seconds) {
    set_real(cell, seconds > 0 ? seconds : NAN);
}

static void set_info(const cursor *c, int at, td_cell *cell) {
    const td_run_info *info = &c->at->info;
    if (at == INFO_FOLDER) {
        set_text(cell, c->at->folder);
    } else if (at == INFO_ERROR) {
        set_text(cell, c->at->error);
    } else if (c->at->error) {
        return;
    } else if (at == INFO_STATE) {
        set_text(cell, info->events ? info->format : td_run_state_name(info->state));
    } else if (at == INFO_STARTED || at == INFO_LAST_RECORD) {
        set_time(cell, at == INFO_STARTED ? info->started : info->last_record);
    } else {
        const int64_t numbers[] = {[INFO_STEP] = info->last_step,
                                   [INFO_EPOCH] = info->last_epoch,
                                   [INFO_BYTES] = info->bytes,
                                   [INFO_DROPPED] = info->dropped,
                                   [INFO_DEGRADED] = info->degraded};
        set_integer(cell, numbers[at]);
    }
}

/* "scalar", "stats histogram": valid until the next call of a thread. */
static const char *forms_text(uint32_t forms) {
    static _Thread_local char text[128];
    text[0] = 0;
    for (int bit = 0; bit < 32; bit++) {
        const char *name = forms & 1U << bit ? td_form_name(1U << bit) : NULL;
        size_t used = strlen(text);
        if (name) {
            (void)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", name);
        }
    }
    return text;
}

static void set_signal(const cursor *c, int at, td_cell *cell) {
    static const char *const betters[] = {
        [TD_BETTER_SMALLER] = "smaller", [TD_BETTER_LARGER] = "larger"};
    const td_run_signal *signal = &c->at->run->signals[c->signal_now];
    switch (at) {
    case SIGNAL_NAME:
        set_text(cell, signal->name);
        break;
    case SIGNAL_KIND:
        set_text(cell, td_signal_kind_name(signal->info->kind));
        break;
    case SIGNAL_LAYER:
        set_text(cell, *signal->info->layer ? signal->info->layer : NULL);
        break;
    case SIGNAL_PARAMETER:
        set_text(cell, *signal->info->parameter ? signal->info->parameter : NULL);
        break;
    case SIGNAL_BETTER:
        set_text(cell, signal->info->better ? betters[signal->info->better] : NULL);
        break;
    case SIGNAL_FORMS:
        set_text(cell, forms_text(signal->forms));
        break;
    case SIGNAL_POSITION:
        if (signal->info->order > 0) {
            set_integer(cell, signal->info->order);
        }
        break;
    default:
        set_integer(cell, at == SIGNAL_RANK    ? signal->info->rank
                          : at == SIGNAL_FIRST ? signal->first_step
                                               : signal->last_step);
        break;
    }
}

static void set_rank(const cursor *c, int at, td_cell *cell) {
    const td_run_rank *rank = td_run_rank_at(c->at->run, c->signal_now);
    const int64_t numbers[] = {rank->rank, rank->attempt, rank->node, rank->local_rank,
                               rank->last_step};
    if (at <= RANK_STEP) {
        set_integer(cell, numbers[at]);
    } else {
        set_text(cell, at == RANK_STATE  ? td_run_state_name(rank->state)
                       : at == RANK_MESH ? rank->mesh
                                         : rank->folder);
    }
}

/* A number where the text is one from its first byte to its last. */
static void set_either(td_cell *cell, const char *text) {
    double value;
    const char *end = text ? td__parse_float64(text, &value) : NULL;
    if (!end || *end || !isfinite(value)) {
        set_text(cell, text);
    } else if (strpbrk(text, ".eE") || fabs(value) > 9e15) {
        set_real(cell, value);
    } else {
        set_integer(cell, (int64_t)value);
    }
}

static void set_bin(const cursor *c, int at, td_cell *cell) {
    td_range range = td_histogram_range(&c->histogram, c->bin);
    set_real(cell, at == 0 ? range.left : at == 1 ? range.right : range.count);
}

static void give_cell(void *user, int column, td_cell *cell) {
    const cursor *c = user;
    const place *from = &c->view->places[column];
    switch (from->origin) {
    case FROM_RUN:
        set_text(cell, c->at->label);
        break;
    case FROM_INFO:
        set_info(c, from->at, cell);
        break;
    case FROM_SIGNAL:
        set_signal(c, from->at, cell);
        break;
    case FROM_RANK:
        set_rank(c, from->at, cell);
        break;
    case FROM_INTEGER:
        if (!isnan(td__rows_real(c->rows, from->at))) {
            set_integer(cell, td__rows_integer(c->rows, from->at));
        }
        break;
    case FROM_REAL:
        set_real(cell, td__rows_real(c->rows, from->at));
        break;
    case FROM_TEXT:
        set_text(cell, td__rows_text(c->rows, from->at, NULL));
        break;
    case FROM_EITHER:
        set_either(cell, td__rows_text(c->rows, from->at, NULL));
        break;
    case FROM_BIN:
        set_bin(c, from->at, cell);
        break;
    }
}

static const td__relations tables = {
    .relations = relations,
    .count = TD__COUNT(relations),
    .open = open_cursor,
    .begin = begin,
    .next = next,
    .cell = give_cell,
    .close = close_cursor,
};

/* ---- The interface -------------------------------------------------------------------------- */

static td_status add_run(void *user, const char *folder, td_error *error) {
    td_sql *sql = user;
    const char *slash = strrchr(folder, '/');
    if (!td__grow(&sql->entries, &sql->capacity, sql->count + 1, MAX_RUNS, sizeof *sql->entries)) {
        return td_error_set(error, TD_MEMORY, "out of memory, or more than %d runs", MAX_RUNS);
    }
    entry *e = &sql->entries[sql->count];
    *e = (entry){.folder = td__strdup(folder)};
    e->name = td__strdup(slash && slash[1] ? slash + 1 : folder);
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
            entry *e = &sql->entries[sql->count - 1];
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
    const entry *x = a, *y = b;
    int order = strverscmp(x->name, y->name);
    return order ? order : strcmp(x->folder, y->folder);
}

static void release_entry(entry *e) {
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
        entry *e = &sql->entries[i];
        if (kept && strcmp(sql->entries[kept - 1].folder, e->folder) == 0) {
            release_entry(e);
            continue;
        }
        sql->entries[kept++] = *e;
    }
    sql->count = kept;
    for (size_t i = 1; i < kept; i++) {
        entry *before = &sql->entries[i - 1], *e = &sql->entries[i];
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
    td__statement_close(sql->statement); /* its cursors let go of the runs */
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
