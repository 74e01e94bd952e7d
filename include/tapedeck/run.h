/* Reading runs back: while they are written, after they ended, after they crashed.
 *
 *     td_run *run = td_run_open("runs/demo", &error);
 *     for (size_t i = 0; i < td_run_signal_count(run); i++) {
 *         puts(td_run_signal_at(run, i)->name);
 *     }
 *     td_run_close(run);
 *
 * A run is a folder that a deck wrote (run.db and the files beside it), or a folder of TensorBoard
 * event files written by anybody. It is only read, also from a folder that cannot be written to.
 * What is damaged or missing is left out and reported (td_run_problems); everything intact is read.
 *
 * Threads: one run, one thread at a time.
 */
#ifndef TAPEDECK_RUN_H
#define TAPEDECK_RUN_H

#include "tapedeck/deck.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_run td_run;

/* path: the folder, or run.db or an event file in it. A folder that several processes wrote is
 * read as one run (docs/distributed.md); FOLDER/rank-00003 is what rank 3 recorded, in all
 * attempts. NULL on failure: TD_NOT_FOUND when it is neither kind of run, TD_FORMAT when its
 * database cannot be read at all. */
TD_API td_run *td_run_open(const char *path, td_error *error);
/* Accepts NULL. */
TD_API void td_run_close(td_run *run);

typedef enum td_run_state {
    TD_RUN_UNKNOWN,     /* event files do not say */
    TD_RUN_RUNNING,     /* a process writes it now */
    TD_RUN_FINISHED,    /* it was closed */
    TD_RUN_INTERRUPTED, /* the program said so before it closed it: Ctrl-C */
    TD_RUN_FAILED,      /* the program said so before it closed it: an error */
    TD_RUN_CRASHED,     /* nobody writes it, and it was not closed */
} td_run_state;
/* "running", …; never NULL. */
TD_API const char *td_run_state_name(td_run_state state);

/* Texts are valid until td_run_refresh or td_run_close. */
typedef struct td_run_info {
    size_t size; /* in: sizeof(td_run_info) */
    const char *name;
    const char *folder;
    td_run_state state;
    double started;                /* seconds since 1970; 0: not known */
    double last_record;            /* when the last step was recorded; 0: none */
    int64_t last_step, last_epoch; /* that the program has come to, recorded or not */
    int64_t bytes;                 /* of all its files */
    bool events;                   /* of event files or another program, not of a deck */
    int64_t dropped, degraded;     /* records that were not written, or in a smaller form */
    /* The run that it branches off from, after parent_step: the name of a run beside it, or a
     * path; NULL: none. */
    const char *parent;
    int64_t parent_step;
    const char *format; /* "tapedeck", "events", "wandb", "mlflow", "trackio", "csv" */
} td_run_info;
TD_API void td_run_about(const td_run *run, td_run_info *info);

/* The format of what is a run of another program, as td_run_info has it, event files left out:
 * of a folder or a file. NULL: it is none. */
TD_API const char *td_run_foreign(const char *path);

/* Looks again: what has been recorded since. Of event files nothing but td_run_read works before
 * it: it reads all of them. */
TD_API TD_NODISCARD td_status td_run_refresh(td_run *run, td_error *error);

/* What could not be read so far, one sentence each; their number. Valid until the next call. */
TD_API size_t td_run_problems(const td_run *run, const char *const **texts);

/* ---- What there is -------------------------------------------------------------------------- */

typedef struct td_run_signal {
    const char *name;
    int64_t id;     /* in table `signal` */
    uint32_t forms; /* td_form bits that it was recorded in */
    int64_t first_step, last_step;
    /* Never NULL, and neither are its texts; guessed from the name where the run does not store it. */
    const td_signal_info *info;
} td_run_signal;

TD_API size_t td_run_signal_count(const td_run *run);
/* Signals are in the order they were first recorded. NULL when index is not below the count. A signal
 * is owned by the run and valid until td_run_refresh or td_run_close. */
TD_API const td_run_signal *td_run_signal_at(const td_run *run, size_t index);
/* NULL when there is none of that name. */
TD_API const td_run_signal *td_run_signal_find(const td_run *run, const char *name);
/* Whether a signal's name is one of these globs, separated by commas; NULL is all. */
TD_API bool td_run_matches(const char *globs, const char *name);

/* Facts about the run: table is "run", "environment" or "experiment". By key. */
typedef void td_note_function(void *user, const char *key, const char *value);
TD_API td_status td_run_notes(td_run *run, const char *table, td_note_function *each, void *user,
                              td_error *error);
/* The settings of the training, one at a time: "train.optimizer.adam.learning_rate", "0.001".
 * Entries of lists have an index: "model.0.conv2d.filters". */
TD_API td_status td_run_settings(td_run *run, td_note_function *each, void *user, td_error *error);
/* Keeps a fact about a run in table `run` of folder/run.db, in place of the one before; also while a
 * deck writes the run. TD_NOT_FOUND when there is no run.db. */
TD_API TD_NODISCARD td_status td_run_write_note(const char *folder, const char *key,
                                                const char *value, td_error *error);

/* A record as sinks get it, valid during the call only: histograms have ranges, images their PNG.
 * What it returns other than TD_OK ends the reading and is returned. */
typedef td_status td_record_function(void *user, const td_record *record, td_error *error);

/* ---- Numbers over time ---------------------------------------------------------------------- */

/* Several steps together, or one. */
typedef struct td_point {
    int64_t step; /* the last of them */
    double value; /* of that step */
    double low, high;
} td_point;

/* A signal's scalars (statistic NULL) or one of its statistics ("norm", "mean", …) from first to
 * last, in at most max_count points; returns their number. Where there are more steps they are merged,
 * lowest and highest kept. *sampled (may be NULL): there are too many to read all of them. 0 when
 * there are none, or no such statistic. */
TD_API size_t td_run_points(td_run *run, const td_run_signal *signal, const char *statistic,
                            int64_t first, int64_t last, td_point *points, size_t max_count,
                            bool *sampled);
/* One step of a signal, exactly as it was recorded. */
typedef struct td_run_value {
    int64_t step;
    double value;      /* the scalar, or the statistic; NaN where there is none */
    int64_t nonfinite; /* NaN and infinite elements: of the tensor, or 1 for such a scalar */
} td_run_value;

/* The first max_count steps of a signal from first to last, in order: its scalars (statistic NULL) or
 * one of its statistics; their number. To go on, ask again from the step after the last one. */
TD_API size_t td_run_values(td_run *run, const td_run_signal *signal, const char *statistic,
                            int64_t first, int64_t last, td_run_value *values, size_t max_count);

/* When a step was. */
typedef struct td_run_step {
    int64_t step;
    int64_t epoch;    /* 0: not known */
    double wall_time; /* seconds since 1970 */
} td_run_step;

/* The run's last step at or before this one, or its first one; false when it has none. */
TD_API bool td_run_when(td_run *run, int64_t step, td_run_step *when);
/* How many steps of first … last something was recorded of. */
TD_API int64_t td_run_count_steps(td_run *run, int64_t first, int64_t last);

/* Histograms over time: the last of each of `parts` equal parts of first … last (cut to the signal's
 * own steps), by step. What each returns other than TD_OK ends the reading and is returned. */
TD_API TD_NODISCARD td_status td_run_histograms(td_run *run, const td_run_signal *signal,
                                                int64_t first, int64_t last, size_t parts,
                                                td_record_function *each, void *user,
                                                td_error *error);
/* The value below which a share (0 … 1) of what the histogram holds lies; NaN when it is empty. */
TD_API double td_histogram_quantile(const td_histogram *histogram, double share);

/* The scalar recorded last, and the least and greatest with their steps; false when there is none.
 * Kept by the run as it is written; of older runs, all are looked at. */
typedef struct td_extremes {
    double last, least, greatest;
    int64_t last_step, least_step, greatest_step;
} td_extremes;
TD_API bool td_run_extremes(td_run *run, const td_run_signal *signal, td_extremes *extremes);

/* The value that counts as a metric's best so far, and its step (may be NULL): the greatest where
 * larger is better, otherwise the least. */
TD_API double td_run_best(const td_run_signal *signal, const td_extremes *extremes, int64_t *step);
/* The metrics that say most about a run, loss and accuracy first: their indices among its signals;
 * how many, at most max_count. */
TD_API size_t td_run_main_metrics(const td_run *run, size_t *indices, size_t max_count);

/* ---- Ranks ---------------------------------------------------------------------------------- */

/* A process that wrote a part of the run, of one attempt. Valid until td_run_refresh or
 * td_run_close. */
typedef struct td_run_rank {
    int64_t rank, attempt; /* from 0; from 1 */
    int64_t node, local_rank;
    int64_t last_step; /* that it recorded; 0: none */
    td_run_state state;
    const char *folder; /* below the run's: "rank-00003" */
    const char *mesh;   /* "dp=0,tp=1", or "" */
} td_run_rank;

/* How many there are; 0 when one process wrote the run. By attempt and rank. */
TD_API size_t td_run_rank_count(const td_run *run);
/* NULL when index is not below the count. */
TD_API const td_run_rank *td_run_rank_at(const td_run *run, size_t index);

/* A signal at one step, over the ranks that recorded it, also where they hold copies. NaN is in
 * none of min, mean and max; a rank is -1 when there is none. */
typedef struct td_spread {
    int64_t step, ranks; /* how many recorded it */
    double min, mean, max;
    int64_t min_rank, max_rank;
    int64_t nonfinite_rank; /* the first of those with NaN or infinities */
} td_spread;

/* As td_run_values. 0 when one process wrote the run. */
TD_API size_t td_run_spread(td_run *run, const td_run_signal *signal, const char *statistic,
                            int64_t first, int64_t last, td_spread *spread, size_t max);
/* As td_run_values, of what one rank recorded; signal NULL: when its steps ended, in seconds
 * since 1970. */
TD_API size_t td_run_rank_values(td_run *run, int64_t rank, const td_run_signal *signal,
                                 const char *statistic, int64_t first, int64_t last,
                                 td_run_value *values, size_t max);

/* ---- Records -------------------------------------------------------------------------------- */

typedef struct td_run_query {
    size_t size;                   /* sizeof(td_run_query); 0 in a field means all */
    const char *what;              /* globs, separated by commas */
    uint32_t forms;                /* td_form bits */
    int64_t first_step, last_step; /* both 0: all */
    /* Do not load tensors and pictures from their files: their records have a place, and neither
     * view nor png. Of event files they are loaded all the same. */
    bool places;
} td_run_query;

/* Every record, by step and then by signal; of event files every value in the order they are in. */
TD_API TD_NODISCARD td_status td_run_read(td_run *run, const td_run_query *query,
                                          td_record_function *each, void *user, td_error *error);
/* The signal's last record of this form at or before step. TD_NOT_FOUND when there is none,
 * TD_FORMAT or TD_IO when it is there and cannot be read. */
TD_API TD_NODISCARD td_status td_run_at(td_run *run, const td_run_signal *signal, td_form form,
                                        int64_t step, td_record_function *each, void *user,
                                        td_error *error);

/* What a signal was for one example of the data set (form rows, to sqlite). */
typedef struct td_example {
    int64_t step;
    int64_t sample;       /* its row in the data set */
    double label;         /* NaN: none, or more than one number */
    const double *values; /* flattened row-major; valid during the call only */
    size_t count;
} td_example;
typedef td_status td_example_function(void *user, const td_example *example, td_error *error);

/* The signal's examples at its last step, at or before step, that has any; by sample. TD_NOT_FOUND
 * when there is none. What each returns other than TD_OK ends the reading and is returned. */
TD_API TD_NODISCARD td_status td_run_examples(td_run *run, const td_run_signal *signal,
                                              int64_t step, td_example_function *each, void *user,
                                              td_error *error);

/* ---- What the deck did, and what is wrong --------------------------------------------------- */

/* Triggers, drops, errors of sinks …, in their order; texts are valid during the call only. What
 * each returns other than TD_OK ends the reading and is returned. */
typedef td_status td_event_function(void *user, const td_event *event, td_error *error);
TD_API TD_NODISCARD td_status td_run_events(td_run *run, td_event_function *each, void *user,
                                            td_error *error);

/* The diagnosis that was last kept, likewise. */
typedef td_status td_run_finding_function(void *user, const td_run_finding *finding,
                                          td_error *error);
TD_API TD_NODISCARD td_status td_run_findings(td_run *run, td_run_finding_function *each,
                                              void *user, td_error *error);
/* Keeps a diagnosis in folder/run.db, in place of the one before, in one instant; also while a deck
 * writes the run. TD_NOT_FOUND when there is no run.db. */
TD_API TD_NODISCARD td_status td_run_write_findings(const char *folder,
                                                    const td_run_finding *findings, size_t count,
                                                    td_error *error);

/* The folder that has the run's tensors and other files: its own, also of a run in a database
 * that this machine wrote. TD_NOT_FOUND when they are on another machine, or out is too small. */
TD_API TD_NODISCARD td_status td_run_files(td_run *run, char *out, size_t size, td_error *error);

/* ---- Tracks of a run that is written now ---------------------------------------------------- */

/* Asks the process that writes the run to add and remove tracks, and waits until it has done so at the end of a
 * step: *step, after which they count. A track is a text (docs/recording.md): "conv*.error every 10 form stats";
 * one that is removed is as td_deck_tracks has it. What is wrong with a track is TD_INVALID before the process gets
 * anything; what the process refuses is TD_INVALID, too, after it has made the other changes. TD_UNSUPPORTED when no
 * process writes the run, TD_BUSY when it has not answered after that many seconds. step may be NULL. */
TD_API TD_NODISCARD td_status td_run_change_tracks(const char *folder, const char *const *add,
                                                   size_t add_count, const char *const *remove,
                                                   size_t remove_count, double seconds,
                                                   int64_t *step, td_error *error);

/* ---- Comparing ------------------------------------------------------------------------------ */

typedef struct td_compare_options {
    size_t size;      /* sizeof(td_compare_options) */
    const char *what; /* globs, separated by commas; NULL: all */
    double tolerance; /* of metrics and statistics: the share of the larger that is forgiven */
} td_compare_options;

/* Where a signal parts. */
typedef struct td_parting {
    const char *signal;
    const char *by; /* "hash", "value", "norm" or "mean" */
    int64_t step;   /* the first that both have and that differs */
    double a, b;    /* what it was there; NaN for hashes */
} td_parting;

/* A setting that only one of them has. */
typedef struct td_difference {
    int run;          /* 0 or 1 */
    const char *text; /* "train: optimizer: adam: learning_rate: 0.001" */
} td_difference;

typedef struct td_comparison {
    size_t compared;            /* signals that both recorded as numbers or hashes */
    const td_parting *partings; /* of those that part, by step and then in execution order */
    size_t parting_count;
    const td_difference *differences; /* of their experiments and facts; the first run's first */
    size_t difference_count;
    size_t environment_count; /* of the differences, the first: of their environments */
} td_comparison;

/* NULL on failure. Texts are the first run's or the comparison's own: destroy it before the runs
 * are refreshed or closed. Event files need td_run_refresh first. */
TD_API td_comparison *td_run_compare(td_run *a, td_run *b, const td_compare_options *options,
                                     td_error *error);
/* Accepts NULL. */
TD_API void td_comparison_destroy(td_comparison *comparison);

/* ---- Judging -------------------------------------------------------------------------------- */

/* One of the terms of an expression that `and` joins; valid during the call only. */
typedef struct td_term {
    const char *text; /* as it was written */
    bool holds;
    const char *values; /* the numbers that it compared: "val_accuracy = 0.95" */
} td_term;
typedef void td_term_function(void *user, const td_term *term);

/* Whether an expression in the language of conditions (docs/recording.md) holds at the end of a run:
 * a signal is the last value that was recorded of it, mean() and delta() are over its last ones,
 * nan() and inf() over all steps. each (may be NULL) gets the terms. TD_INVALID when the expression is
 * none, TD_NOT_FOUND when the run has no signal of a name or none that a glob matches. Event files need
 * td_run_refresh first. */
TD_API TD_NODISCARD td_status td_run_assert(td_run *run, const char *expression, bool *holds,
                                            td_term_function *each, void *user, td_error *error);

/* ---- Finding runs --------------------------------------------------------------------------- */

/* Calls each with every folder at or below folder that is a run, in the order of their names; does
 * not look inside of runs. What it returns other than TD_OK ends the search and is returned. */
typedef td_status td_folder_function(void *user, const char *folder, td_error *error);
TD_API TD_NODISCARD td_status td_runs_find(const char *folder, td_folder_function *each, void *user,
                                           td_error *error);

enum { TD_RUN_SUMMARY_METRICS = 4 };
/* A metric of a run, for a list of runs. */
typedef struct td_run_metric {
    const char *name;
    td_extremes values;
    double best;
    int64_t best_step;
} td_run_metric;

/* One run of a list of runs; it and all it points to are valid during the call only. */
typedef struct td_run_summary {
    const td_run_info *info;
    const td_run_metric *metrics; /* those of td_run_main_metrics, at most TD_RUN_SUMMARY_METRICS */
    size_t metric_count;
    const char *const *problems; /* what could not be read */
    size_t problem_count;
    const char
        *error;  /* why the run could not be read at all (only info->folder is set); or NULL */
    td_run *run; /* for td_run_notes of "run" and "experiment"; NULL when it could not be read */
} td_run_summary;

/* td_runs_find with what is worth knowing of each run, in a time that does not grow with how long
 * they are. Event files are looked into up to 64 MiB. */
typedef td_status td_summary_function(void *user, const td_run_summary *summary, td_error *error);
TD_API TD_NODISCARD td_status td_runs_list(const char *folder, td_summary_function *each,
                                           void *user, td_error *error);

/* ---- Renaming and removing ------------------------------------------------------------------ */

/* Both are refused for what another program wrote (TD_UNSUPPORTED), for a run that a process
 * writes (TD_BUSY), and for a single rank (TD_INVALID). */

/* Gives the run's folder another name beside the old one, TD_EXISTS when that is taken. Runs
 * beside it that branch off from it get the new name of their parent. */
TD_API TD_NODISCARD td_status td_run_rename(const char *path, const char *name, td_error *error);
/* Removes the run's folder with all that is in it. */
TD_API TD_NODISCARD td_status td_run_remove(const char *path, td_error *error);

/* ---- Exporting ------------------------------------------------------------------------------ */

typedef struct td_export_options {
    size_t size;    /* sizeof(td_export_options); 0 in a field means its default */
    const char *to; /* "csv", "npy", "npz", "tensorboard", "sqlite" or "png" */
    /* A folder, for npz a file; must be new. Default NAME-FORMAT here (NAME.npz). */
    const char *out;
    const char *what;              /* globs, separated by commas; default all */
    int64_t first_step, last_step; /* both 0: all */
    /* Tensors in this form instead of the format's own; of other records only those of this form. */
    td_form form;
    void (*problem)(void *user, const char *text); /* what could not be read, one sentence each */
    void *user;
} td_export_options;

enum { TD_EXPORT_PATH = 4096 };
typedef struct td_exported {
    size_t size;               /* in: sizeof(td_exported) */
    int64_t written, left_out; /* records; left out: of forms that the format cannot hold */
    int runs;
    char out[TD_EXPORT_PATH]; /* where to */
} td_exported;

/* Writes what a run recorded in another format; of a folder with several runs below it, each into a
 * folder of its own. exported may be NULL. TD_INVALID when the format or form is none, TD_EXISTS
 * when out is taken, TD_NOT_FOUND when there is no run. */
TD_API TD_NODISCARD td_status td_run_export(const char *from, const td_export_options *options,
                                            td_exported *exported, td_error *error);
/* Writes a run where another program keeps its own: to is "mlflow:FOLDER", "wandb-
 * offline:FOLDER", "tensorboard:FOLDER", or the URL of a database (postgresql://…,
 * docs/team.md), which gets all of the run, and what it has already is left as it is:
 * exported->out is then URL#NAME. Of options only what, steps and problem count; it may be NULL,
 * and so may exported. TD_INVALID for another target. */
TD_API TD_NODISCARD td_status td_run_push(const char *run, const char *to,
                                          const td_export_options *options, td_exported *exported,
                                          td_error *error);
/* Copies a run of a database (from: URL#NAME) into a folder, which must be new; NULL: NAME here.
 * Tensors and files are not in the database and do not come along. exported may be NULL. */
TD_API TD_NODISCARD td_status td_run_pull(const char *from, const char *folder,
                                          td_exported *exported, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
