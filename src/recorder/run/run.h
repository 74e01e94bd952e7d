/* A run that is open for reading. */
#ifndef TAPEDECK_RUN_RUN_H
#define TAPEDECK_RUN_RUN_H

#include "store/bins.h"
#include "store/problems.h"
#include "store/store.h"
#include "tapedeck/run.h"

typedef struct td__foreign td__foreign; /* foreign.h */

struct td_run {
    char *folder, *name;
    td__store *store;           /* run.db, or what was read from event files */
    bool shared;                /* opened while a deck wrote it */
    bool remote;                /* of a database: the folder is URL#NAME */
    int here;                   /* then: whether this machine has its own folder; 0: not known */
    bool events;                /* of event files, or foreign */
    const td__foreign *foreign; /* what reads it; NULL: event files, or a deck's */
    bool ranks;                 /* the store merges those of several processes (ranks.h) */
    bool one_rank;              /* … only of this rank: */
    int64_t rank;
    char **event_files; /* when events */
    size_t event_file_count;
    td_run_info info;
    char *parent; /* info's; NULL: none */
    td_run_signal *signals;
    size_t signal_count, signal_capacity;
    uint32_t *by_name; /* indices of signals, sorted */
    td__problems problems;
    /* Of the record that is being handed on. */
    td__bins bins;
    uint8_t *bytes;
    size_t bytes_capacity;
    int64_t *samples;
    size_t sample_capacity;
};

/* ---- The run itself (run.c) ----------------------------------------------------------------- */

/* td_run_open, before anything is read. */
td_run *td__run_begin(const char *path, td_error *error);
/* Of a folder that one process writes; noted: its note `state`. */
td_run_state td__run_state_of(const char *folder, const char *noted);
/* Of a run whose end was noted, in a database or by another program; otherwise `open`. */
td_run_state td__run_state_noted(const char *noted, td_run_state open);
/* The same of a store of a database. */
td_run_state td__run_state_there(const td__store *store, const char *noted);
/* How it is doing. */
void td__run_read_info(td_run *run);

/* ---- The store (rows.c) --------------------------------------------------------------------- */

/* Opens FOLDER/run.db for reading, again when it is open already and may have changed. */
td_status td__run_open_store(td_run *run, td_error *error);
/* Who writes the run now. */
typedef enum td__written_by {
    TD__NOBODY,
    TD__LOCK_HOLDER, /* a process of this machine, whose database can be shared */
    TD__OTHER_MACHINE, /* a process that is known by its heartbeat, or holds a lock on a network file system */
    TD__PERHAPS, /* a file was written a moment ago */
} td__written_by;
enum { TD__ENDED = 16 };
/* ended: what the heartbeat says of the run's state, or "". */
td__written_by td__run_written_by(const char *folder, char ended[TD__ENDED]);
/* NULL, and a problem, when they cannot be read. */
td__rows *td__run_select(td_run *run, const td__query *query);
/* All of a source that is not a signal's. */
td__rows *td__run_select_all(td_run *run, td__source source);
/* Whether there is another row (of NULL there is none); damage is a problem and the end. */
bool td__run_next(td_run *run, td__rows *rows);
/* Never NULL. */
const char *td__run_text(td__rows *rows, int column);
/* The statistics that a row of TD__STATISTICS with all columns holds. */
td_stats td__rows_stats(td__rows *row);

/* ---- Signals (signals.c) -------------------------------------------------------------------- */

td_status td__run_read_signals(td_run *run, td_error *error);
/* Adds a signal of this name (copied); *info is what its info points to. NULL when memory is exhausted. */
td_run_signal *td__run_add_signal(td_run *run, const char *name, td_signal_info **info);
/* So that td_run_signal_find finds them. */
td_status td__run_sort_signals(td_run *run, td_error *error);
void td__run_forget_signals(td_run *run);

/* ---- Parts of the time (points.c) ----------------------------------------------------------- */

/* The first step of part `part` of `parts` of first … last, which may be any two numbers. */
int64_t td__run_boundary(int64_t first, int64_t last, size_t part, size_t parts);

/* ---- Databases (remote.c) ------------------------------------------------------------------- */

/* td_runs_find and td_runs_list of a URL. */
td_status td__remote_find(const char *url, td_folder_function *each, void *user, td_error *error);
/* Whether URL#NAME is of several processes, and the parts: "rank-00000", … to be freed with td__remote_free. TD_OK with
 * none when one process wrote it. */
td_status td__remote_parts(const char *place, char ***parts, size_t *count, td_error *error);
void td__remote_free(char **parts, size_t count);

/* ---- Files beside it (files.c) -------------------------------------------------------------- */

/* Record number `index` of an NPY file in the run's folder, into run->bytes. */
td_status td__run_load_tensor(td_run *run, const char *file, int64_t index, td_view *view,
                              td_error *error);
/* A picture in a file of its own, or in an archive at this block, into run->bytes. */
td_status td__run_load_picture(td_run *run, const char *file, int64_t block, size_t *size,
                               td_error *error);
/* The rows of the data set that record `index` of an NPY file is about; NULL when not known. */
const int64_t *td__run_load_samples(td_run *run, const char *file, int64_t index, int64_t count);

/* ---- Event files (import.c) ----------------------------------------------------------------- */

/* Reads all event files into a database of run.db's form, which is the run's own and temporary. */
td_status td__run_import(td_run *run, td_error *error);
td_status td__run_read_events(td_run *run, const td_run_query *query, td_record_function *each,
                              void *user, td_error *error);

#endif
