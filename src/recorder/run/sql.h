/* What the files of SQL over runs share: the tables, a cursor over one, and the values of its row. */
#ifndef TAPEDECK_RUN_SQL_H
#define TAPEDECK_RUN_SQL_H

#include "run/run.h"
#include "store/relations.h"

/* A run that statements may read. */
typedef struct td__sql_entry {
    char *folder, *name;
    const char *label; /* the name, or the folder where several runs have that name */
    td_run *run;       /* NULL: not open */
    char *error;       /* why it could not be opened; NULL: it could, or was not tried */
    td_run_info info;  /* without texts */
    bool about;        /* info was read */
    int pins;
    uint64_t used; /* when it was last acquired */
} td__sql_entry;

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

typedef struct td__sql_view {
    rows_of rows;
    td__source source;
    uint32_t forms; /* of signals that have rows */
    place places[TD__RELATION_COLUMNS];
} td__sql_view;

enum { TD__SQL_RELATIONS = 16 };
/* In the same order. */
extern const td__relation td__sql_relations[];
extern const td__sql_view td__sql_views[];

typedef struct td__sql_cursor {
    td_sql *sql;
    const td__sql_view *view;
    char *run, *signal; /* of the filter; NULL: any */
    int64_t first, last;
    size_t index;      /* of the next run */
    td__sql_entry *at; /* the run that is read; NULL: none */
    bool pinned;       /* it is open for this cursor */
    td__rows *rows;    /* of it; NULL: none */
    size_t signal_at;  /* the next signal, or rank */
    bool found;        /* the signal of the filter was looked for in this run */
    bool fresh;        /* a row of the run itself is due */
    size_t signal_now; /* the signal, or rank, that is read */
    td__bins bins;
    td_histogram histogram;
    int32_t bin; /* of the histogram; its bin_count: none left */
} td__sql_cursor;

/* The value of a column of the cursor's row; cell is NULL before. */
void td__sql_cell(void *cursor, int column, td_cell *cell);

#endif
