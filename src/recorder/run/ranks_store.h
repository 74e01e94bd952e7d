/* A run that several processes wrote, as its parts see it: ranks.c opens it, ranks_signals.c says which signals it has
 * and which ranks hold the same, ranks_rows.c gives its rows, ranks_merge.c makes one row of those of a step. */
#ifndef TAPEDECK_RUN_RANKS_STORE_H
#define TAPEDECK_RUN_RANKS_STORE_H

#include "run/ranks.h"

enum { TD__RANK_CELLS = 11 };

typedef struct td__rank_source {
    td__store *store;
    char *folder; /* below the run's: "rank-00003", "attempt-2/rank-00003" */
    char mesh[256];
    int64_t rank, attempt, node, local_rank;
    int64_t last; /* the last step that no later attempt replaces */
} td__rank_source;

/* A signal of the run: its number in each source (0: it has none), and which sources hold the same. */
typedef struct td__rank_signal {
    char *name, *placement;
    bool batched, partial, replicated;
    size_t defined; /* the first source that has it */
    int64_t *ids;
    uint32_t *groups;
} td__rank_signal;

typedef struct td__ranks_store {
    td__store base;
    td__rank_source *sources;
    size_t count, capacity;
    td__rank_signal *signals;
    size_t signal_count, signal_capacity;
    uint32_t *slots; /* signal number + 1, by hash of the name */
    size_t slot_count, partial_count;
    td__remote remote;  /* of a database: of all sources */
    bool one_rank;      /* its sources are the attempts of one rank */
    td_run_rank *about; /* of each source, for td_run_rank_at */
} td__ranks_store;

typedef struct td__rank_cell {
    int64_t integer;
    double real;
    const char *text; /* NULL: the cell is empty */
    size_t length;
} td__rank_cell;

typedef struct td__ranks_rows {
    td__rows base;
    td__ranks_store *store;
    td__query query;
    td__rows **parts; /* one for each source; NULL: not needed */
    bool *live;       /* the part is on a row */
    int64_t *steps;   /* of that row */
    uint32_t *taken;  /* of each group: the serial number of the row that took it */
    uint32_t serial;
    const td__rank_signal *signal;
    int64_t left; /* rows that may still come; negative: any number */
    bool started;
    size_t at; /* rows that are passed on: the part; of signals also the source */
    td__rank_cell cells[TD__RANK_CELLS];
    td__bins bins[2];
    td_bin *merged[2];
    char *text;
    size_t text_capacity;
} td__ranks_rows;
/* ---- Signals (ranks_signals.c) -------------------------------------------------------------- */

/* Lists the signals of all sources. */
td_status td__ranks_list_signals(td__ranks_store *store, td_error *error);
/* NULL: there is none of that name. */
const td__rank_signal *td__ranks_find_signal(td__ranks_store *store, const char *name);
void td__ranks_forget_signals(td__ranks_store *store);

/* ---- One step (ranks_merge.c) --------------------------------------------------------------- */

/* Whether rows of the source are merged; others are passed on. */
bool td__ranks_is_merged(td__source source);
/* Makes one row of those of a step that the parts are on, or a row of the spread over ranks: 1, or -1 with an error. */
int td__ranks_merge_step(td__ranks_rows *rows, int64_t step, td_error *error);
void td__rank_set_integer(td__rank_cell *cell, int64_t value);

/* ---- Rows (ranks_rows.c) -------------------------------------------------------------------- */

/* Rows of the store; class->close frees the store and its sources. */
extern const td__store_class td__ranks_class;

#endif
