/* The deck: records what happens inside a training program, whatever it is written with.
 *
 *     td_deck *deck = td_deck_open("runs/demo", &error);
 *     td_deck_track(deck, .what = "loss", .to = "csv");
 *     td_deck_track(deck, .what = "*.error", .every = 50, .form = TD_HISTOGRAM | TD_STATS);
 *     for (int64_t step = 1; step <= steps; step++) {
 *         …
 *         td_deck_scalar(deck, "loss", loss);
 *         if (td_deck_wants(deck, "hidden.error")) {
 *             td_deck_record(deck, "hidden.error", view);
 *         }
 *         td_deck_step(deck, epoch, step);
 *     }
 *     status = td_deck_close(deck, &error);
 *
 * Threads: any thread may record into a deck at any time between td_deck_open and td_deck_close.
 * td_deck_batch, td_deck_begin and td_deck_step come from one thread at a time; a record belongs
 * to the step that is open when it is made.
 *
 * Errors: recording never stops a training program. Calls that record return a status that may be
 * ignored; the first error is kept and returned, with its text, by td_deck_flush and td_deck_close.
 * A NULL deck, signal, name, text or note is TD_INVALID: a program whose td_deck_open failed may go on
 * without a deck. With a NULL deck or signal, nothing is wanted or due.
 */
#ifndef TAPEDECK_DECK_H
#define TAPEDECK_DECK_H

#include "tapedeck/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What is recorded: forms ---------------------------------------------------------------- */

/* How a signal is written. Bits: a track may ask for several. Only ever append. */
#define TD_FORM_LIST(X)                                                                            \
    X(TENSOR, "tensor", 0)       /* the array, all of it */                                        \
    X(ROWS, "rows", 1)           /* one row for each example */                                    \
    X(LONG, "long", 2)           /* one row for each element */                                    \
    X(STATS, "stats", 3)         /* td_stats */                                                    \
    X(HISTOGRAM, "histogram", 4) /* td_histogram, and td_stats with it */                          \
    X(IMAGE, "image", 5)         /* the array as a picture */                                      \
    X(SCALAR, "scalar", 6)       /* one number; of a larger tensor its mean */                     \
    X(HASH, "hash", 7)           /* a 64-bit fingerprint */                                        \
    X(TEXT, "text", 8)           /* what td_deck_text was given */                                 \
    X(BATCH, "batch", 9)         /* all elements in one row */                                     \
    X(UNITS, "units", 10)        /* activity and saturation of each unit: the last axis */

typedef enum td_form {
    TD_FORM_DEFAULT = 0, /* each sink's own choice */
#define TD_FORM_MEMBER(name, text, bit) TD_##name = 1 << (bit),
    TD_FORM_LIST(TD_FORM_MEMBER)
#undef TD_FORM_MEMBER
} td_form;

/* "histogram" for exactly one form's bit, otherwise NULL; and back (0 when there is none). */
TD_API const char *td_form_name(uint32_t form);
TD_API uint32_t td_form_find(const char *name);

/* ---- What a signal is ----------------------------------------------------------------------- */

/* Only ever append. */
#define TD_SIGNAL_KIND_LIST(X)                                                                     \
    X(UNKNOWN, "")                                                                                 \
    X(METRIC, "metric")               /* a number: loss, accuracy, learning_rate, val_loss, … */ \
    X(OUTPUT, "output")               /* of a layer, after its activation */                       \
    X(PREACTIVATION, "preactivation") /* of a layer, before its activation */                      \
    X(ERROR, "error")                 /* gradient of the loss with respect to a layer's output */  \
    X(PARAMETER, "parameter")         /* as the step's update left it */                           \
    X(GRADIENT, "gradient")           /* of the loss with respect to a parameter */                \
    X(UPDATE, "update")               /* what the step added to a parameter */                     \
    X(INPUT, "input")                 /* of the network */                                         \
    X(LABEL, "label")                                                                              \
    X(PREDICTION, "prediction")                                                                    \
    X(TEXT, "text")                                                                                \
    X(SYSTEM, "system")   /* load of the machine: system.cpu, … */                               \
    X(DERIVED, "derived") /* computed on request: td_track */

typedef enum td_signal_kind {
#define TD_SIGNAL_KIND_MEMBER(name, text) TD_SIGNAL_##name,
    TD_SIGNAL_KIND_LIST(TD_SIGNAL_KIND_MEMBER)
#undef TD_SIGNAL_KIND_MEMBER
        TD_SIGNAL_KIND_COUNT
} td_signal_kind;

/* "metric", …; "" for TD_SIGNAL_UNKNOWN and what is no kind. And back: UNKNOWN when
 * there is none. */
TD_API const char *td_signal_kind_name(td_signal_kind kind);
TD_API td_signal_kind td_signal_kind_find(const char *name);

/* Which way a metric should go. Only ever append. */
typedef enum td_better { TD_BETTER_NEITHER, TD_BETTER_SMALLER, TD_BETTER_LARGER } td_better;

/* What whoever makes a signal knows about it. Zero in a field: not known. */
typedef struct td_signal_info {
    size_t size; /* sizeof(td_signal_info) */
    td_signal_kind kind;
    const char *layer;        /* "conv1"; "" or NULL: of none */
    const char *parameter;    /* "kernel"; of parameters, gradients and updates */
    int64_t order;            /* of its layer in the network, from 1 */
    bool batched;             /* its rows are the batch's examples */
    td_better better;         /* of metrics */
    const char *const *units; /* names of the columns of a row (classes); NULL: none */
    size_t unit_count;
    int32_t rank; /* of the process that recorded it, from 0 */
    /* Predictions: rows are scores of several classes, one each, or one that says the second of two
     * classes above the threshold. 0: not known, or they are values. */
    int64_t classes;
    double threshold;
    /* As a picture it is […, channels, height, width], as PyTorch's tensors are; otherwise […, height,
     * width, channels]. */
    bool channels_first;
    /* Position of the operation that makes it in the execution of a step, from 1: forward, then
     * backward, then the update. 0: not known. */
    int64_t sequence;
    /* How the ranks of a run hold it: "replicated" (each the same), "batch" (each the rows of
     * its part of the batch), "shard:AXIS" (each a part along an axis), "partial" (each a term
     * of a sum: never merged). With several mesh dimensions a word for each:
     * "dp=batch,tp=shard:1". "" or NULL: batch where it is batched, otherwise replicated. */
    const char *placement;
    /* Predictions are values of a regression: in tables their columns are value_0, value_1, …, not class_0 or class_NAME */
    bool values;
} td_signal_info;

enum { TD_SIGNAL_TEXT_SIZE = 512 };
/* What a bare name says: "hidden.error", "conv1.kernel.gradient", "val_loss", … The info's texts
 * are in text. Of a name that is longer than that, or says nothing, the kind is TD_SIGNAL_UNKNOWN
 * and the signal batched. */
TD_API void td_signal_guess(const char *name, td_signal_info *info, char text[TD_SIGNAL_TEXT_SIZE]);

/* ---- Where it goes: sinks ------------------------------------------------------------------- */

/* Where a record was put. */
typedef struct td_place {
    char file[256]; /* below the run's folder; "" when nowhere */
    int64_t record; /* the record's index in that file, from 0 */
} td_place;

/* One thing to write. Everything it points to is valid during the call only. */
typedef struct td_record {
    const char *signal;    /* the name as it was given: any bytes */
    int32_t signal_index;  /* dense, from 0, the same for the whole run: for a sink's tables */
    td_form form;          /* exactly one */
    int64_t epoch;         /* from 1 (0: unknown) */
    int64_t step;          /* from 1 */
    double wall_time;      /* seconds since 1970 */
    bool history;          /* from before the condition fired; steps then come out of order */
    td_form degraded_from; /* the form that was asked for and did not fit, or 0 */
    const td_view *view;   /* TENSOR, ROWS, BATCH, LONG, UNITS, IMAGE; row-major; NULL otherwise */
    double value;          /* SCALAR */
    const td_stats *stats; /* STATS, HISTOGRAM; NULL otherwise */
    const td_histogram *histogram; /* HISTOGRAM; NULL otherwise */
    uint64_t hash;                 /* HASH */
    const char *text;              /* TEXT: text_length bytes and a 0; NULL otherwise */
    size_t text_length;
    const int64_t *samples; /* the data set's row of each of the view's rows (view->shape.dims[0]),
                             * or NULL when that is not known */
    const td_view *labels;  /* the label of each row: dims[0] as the view's; or NULL */
    td_place *place; /* filled in by a sink that keeps the tensor, for those that are handed the
                      * record after it (see `always`); empty at first; may be NULL. Of a record
                      * that was read from a run: where its tensor is */
    const void *png; /* IMAGE read from a file: the picture itself, and view is NULL */
    size_t png_size;
    const td_signal_info *info; /* declared or guessed, never NULL in what a deck hands on; NULL in
                                 * records that a program makes itself: guessed from the name */
} td_record;

/* Something the deck did that its reader should know. */
#define TD_EVENT_LIST(X)                                                                           \
    X(TRIGGER, "trigger")       /* a condition fired */                                            \
    X(DROP, "drop")             /* records were dropped; count says how many */                    \
    X(DEGRADE, "degrade")       /* records were written in a smaller form */                       \
    X(HISTORY, "history")       /* steps before a trigger that no longer fitted */                 \
    X(OVERHEAD, "overhead")     /* the overhead budget made the deck record less, or more again */ \
    X(SINK_ERROR, "sink error") /* a sink failed; said once for each sink */                       \
    X(ALERT, "alert")           /* an alert was raised; count 0: it could not be delivered */      \
    X(TRACKS, "tracks")         /* a request to add or remove a track; count 0: refused */

typedef enum td_event_kind {
#define TD_EVENT_MEMBER(name, text) TD_EVENT_##name,
    TD_EVENT_LIST(TD_EVENT_MEMBER)
#undef TD_EVENT_MEMBER
} td_event_kind;

typedef struct td_event {
    td_event_kind kind;
    int64_t epoch;
    int64_t step;
    double wall_time;
    int64_t count;      /* how many records it is about */
    const char *signal; /* or NULL */
    const char *text;   /* one sentence */
} td_event;

/* "trigger", …; NULL for a value that is none. */
TD_API const char *td_event_name(td_event_kind kind);

/* A statement of the diagnosis, with its evidence; texts may be NULL. td_run_write_findings keeps
 * them in the run, td_run_findings gives them back. */
typedef struct td_run_finding {
    const char *cause;      /* a word: "vanishing_gradient" */
    const char *layer;      /* that it is about */
    int64_t unit;           /* of the layer; -1: none */
    int64_t since_step;     /* the first step that shows it; 0: not known */
    const char *confidence; /* "sure", "likely" or "maybe" */
    const char *severity;   /* "error", "warning" or "note" */
    const char *symptoms;   /* JSON: a list of words */
    const char *evidence;   /* JSON: a list of {"text", "signal", "step", "value"} */
    const char *remedy;     /* what to do about it */
    const char *origin;     /* JSON: {"cause", "layer", "row"} */
} td_run_finding;

/* A sink's own state: each class defines its struct td_sink. */
typedef struct td_sink td_sink;

typedef struct td_sink_options {
    size_t size;        /* sizeof(td_sink_options) */
    const char *folder; /* the run's folder, which exists and is this run's alone */
    const char *run;    /* the folder's last part: the run's name */
    FILE *stream;       /* for what is printed; NULL: stdout */
    void *user;         /* the class's */
    /* Not 0: the folder holds a run that goes on after this step (-1: from its beginning). A file's
     * records of later steps are removed and new ones appended, except that TensorBoard's events begin
     * a new file that says from which step on it replaces the old one. */
    int64_t resume;
    /* Reports a problem that does not stop the sink; called from any of its functions. NULL: problems
     * are not reported. */
    void (*report)(void *listener, const td_error *problem);
    void *listener;
    int64_t *held;     /* NULL, or where the sink counts the records that it has taken and that are
                         * not in its files yet: what is left there after close is lost. The
                         * caller's, zero at first, the sink's until close returns */
    const char *store; /* as in td_deck_options */
} td_sink_options;

/* How a sink is written. open is called by the thread that opens the deck or adds a track, all
 * other functions by the deck's writer thread, one at a time: a sink needs no locks. After a failed
 * open nothing is called. Functions marked optional may be NULL.
 *
 * A failed call leaves the sink usable and its files valid: the record is counted as dropped, the
 * error reported once, and later records are tried again after a pause. TD_INTERRUPTED and TD_BUSY
 * are tried again at once, a few times. */
typedef struct td_sink_class {
    size_t size; /* sizeof(td_sink_class) */
    const char *name;
    uint32_t forms;         /* what it can write */
    uint32_t default_forms; /* what a track without a form means for it; TD_SCALAR and TD_TEXT are
                             * always added */
    uint32_t always; /* forms it gets whatever `to` says, after the other sinks; not 0: opened
                      * with the deck */
    bool by_default; /* one of the sinks that a track without `to` goes to */

    td_status (*open)(const td_sink_options *options, td_sink **sink, td_error *error);
    /* Optional. A track names this signal (not by a glob) and will send these forms. In the order
     * of tracks and of names within a track, so that columns can be put in that order. */
    td_status (*expect)(td_sink *sink, const char *signal, uint32_t forms, td_error *error);
    td_status (*write)(td_sink *sink, const td_record *record, td_error *error);
    /* Optional. All records of this step, so far, have been written; only called when there was
     * one. A step may come again: with what a trigger found in its history. */
    td_status (*end_step)(td_sink *sink, int64_t epoch, int64_t step, td_error *error);
    /* Optional. */
    td_status (*event)(td_sink *sink, const td_event *event, td_error *error);
    /* Optional. A fact about the run as a whole: the last value for a key counts. */
    td_status (*note)(td_sink *sink, const char *key, const char *value, td_error *error);
    /* Once it returns TD_OK, everything written so far survives kill -9 and loss of power. Also
     * called now and then when there is nothing else to do. */
    td_status (*flush)(td_sink *sink, td_error *error);
    /* Flushes and releases everything, whatever it returns. */
    td_status (*close)(td_sink *sink, td_error *error);

    void *user;        /* the program's own: open finds it in its options */
    const char *files; /* what it writes, for people: "SIGNAL.npy, SIGNAL.steps.npy"; NULL: none */
    /* Optional. About how many bytes a record of this form takes, rather too many than too few;
     * elements are those of all rows. */
    int64_t (*estimate)(td_form form, int64_t rows, int64_t elements);
} td_sink_class;

/* The built-in sinks, NULL at the end: csv, npy, tensorboard, png, print, sqlite. */
TD_API const td_sink_class *const *td_sinks(void);
/* One of them by its name, for programs that write records without a deck, in one thread; NULL when
 * there is none. */
TD_API const td_sink_class *td_sink_find(const char *name);
/* The built-in sink that suits one form: the first whose default form it is, otherwise the default
 * sink. For front ends whose users choose a form and no sink. */
TD_API const td_sink_class *td_sink_for(uint32_t form);

/* ---- The deck ------------------------------------------------------------------------------- */

typedef struct td_deck td_deck;

/* What happens to a record that does not fit into the queue. */
typedef enum td_policy {
    TD_POLICY_BLOCK,   /* the training thread waits for the writer: nothing is lost */
    TD_POLICY_DROP,    /* the record is dropped, and counted */
    TD_POLICY_DEGRADE, /* tensors become histograms, histograms statistics; dropped at last */
} td_policy;

/* Which process of a training this is. */
typedef struct td_rank {
    size_t size;         /* sizeof(td_rank) */
    int64_t rank, world; /* from 0; how many processes there are */
    int64_t local_rank;  /* among those of its machine */
    int64_t node;        /* its machine's number */
    int64_t attempt;     /* from 1: an elastic restart of the same launch is the next one; 0: 1 */
    const char *mesh;    /* its coordinates, "dp=0,tp=1"; NULL: none */
    const char *launch;  /* the same text in all processes of a launch, and in no other; NULL: "" */
} td_rank;

enum { TD_RANK_TEXT_SIZE = 512 };
/* What the environment says: torchrun (and what sets RANK and WORLD_SIZE as it does), Slurm's
 * srun, OpenMPI, MPICH. False when it names no process, or a single one. launch is in text: the
 * variable TAPEDECK_RUN, or what the starter sets. */
TD_API bool td_rank_detect(td_rank *rank, char text[TD_RANK_TEXT_SIZE]);

typedef struct td_deck_options {
    size_t size; /* sizeof(td_deck_options); 0 in a field means its default */
    td_policy policy;
    int64_t queue_bytes;   /* all that waits for the writer; default 256 MiB */
    int64_t history_bytes; /* all that conditions keep back; default 64 MiB */
    double overhead;       /* budget: the deck's share of step time, 0.05 is 5 %; 0: none */
    uint64_t seed;         /* of random samples */
    bool stop_on_error;    /* td_deck_step returns a sink's error instead of TD_OK */
    bool exact_folder;     /* TD_EXISTS when the folder is taken, instead of NAME-2, NAME-3 … */
    bool no_index;         /* sinks that take every record (run.db) only get what names them */
    const td_sink_class *const *sinks; /* more sinks than the built-in ones; NULL at the end */
    FILE *stream;   /* what the print sink writes to, kept open by the caller; default stdout */
    int64_t resume; /* not 0: folder is a run that exists and goes on after this step (-1: one that
                         * has made none); its files lose what they have of later steps and continue.
                         * TD_NOT_FOUND when there is no such folder */
    int64_t busy_cores; /* that the program keeps busy, default 1: with one to spare, the writer
                         * thread also takes statistics of tensors whose memory it may keep */
    /* Calls part(context, 0 … parts - 1), maybe on several threads, and returns when all are done: with
     * it, large tensors are summed up on the busy cores together (td_threads_run of tape.h). */
    void (*run_parts)(int32_t parts, void (*part)(void *context, int32_t index), void *context);
    /* What is recorded without being asked for, see docs/environment.md. The variable
     * TAPEDECK_ENVIRONMENT=off turns all of it off. */
    bool no_environment; /* no facts about the process, machine and source code */
    double
        system_seconds; /* between two samples of the machine's load; default 5; negative: none */
    int64_t diff_bytes; /* of `git diff HEAD`, which a child process prints; 0: none */
    /* With a world above 1 the run is written to FOLDER/rank-00000, FOLDER/rank-00001, … (of later
     * attempts FOLDER/attempt-2/rank-00000, …), one folder for each process of a launch. Processes do
     * not wait for each other. td_run_open of FOLDER reads them as one run. */
    const td_rank *rank;
    /* The URL of a database (docs/team.md) that the run is sent to while it is written; NULL:
     * none. The folder comes first, and has everything whether the database can be reached or
     * not. td_deck_close waits up to half a minute, or the environment's TAPEDECK_STORE_WAIT
     * seconds, for what has not been sent. */
    const char *store;
} td_deck_options;

/* Creates the run's folder: folder, or folder-2, folder-3, … when that exists. A run is never
 * overwritten, and two processes never share one. NULL on failure. */
TD_API td_deck *td_deck_open(const char *folder, td_error *error);
/* options may be NULL and is copied. */
TD_API td_deck *td_deck_open_with(const char *folder, const td_deck_options *options,
                                  td_error *error);
/* The folder that was created; valid until td_deck_close. */
TD_API const char *td_deck_folder(const td_deck *deck);

/* Steps, for .at: TD_AT(1, 10, 100). */
typedef struct td_steps {
    const int64_t *steps;
    size_t count;
} td_steps;
#define TD_AT(...) TD_LIST(td_steps, int64_t, __VA_ARGS__)

/* One wish: which signals, when, in which form, where to. Zero means default. */
typedef struct td_track {
    size_t size;      /* sizeof(td_track); td_deck_track fills it in */
    const char *what; /* names and globs (* ? [a-z]), separated by commas; \ takes the next
                       * character as it is; default "*". Signals of the kind TD_SIGNAL_DERIVED
                       * only where the pattern names their last word: "*.stable_rank" */
    int64_t every;    /* steps: N, 2N, …; from .start when that is given; default 1, if neither
                       * .every_epochs nor .at is given */
    int64_t every_epochs; /* the last step of epochs N, 2N, … */
    td_steps at;          /* these steps */
    int64_t start, end;   /* only steps in start … end (0: no limit) */
    int64_t sample;       /* that many random rows of the tensor instead of all */
    const char *when;     /* only when this holds at the end of the step, see docs/recording.md */
    int64_t history;      /* with .when: also the steps up to this many before it held */
    uint32_t form;        /* td_form bits */
    const char *to; /* names of sinks, separated by commas; default those that are by_default */
    bool metrics; /* only what td_deck_scalar, td_deck_text and td_deck_picture were given, whatever
                   * .what matches, and of that with .form only these forms: tensors are other
                   * tracks'; not with .when */
} td_track;

/* Adds a track; from the next step on it has its effect (from this one when nothing has been
 * recorded yet). The text of an error is what td_deck_flush and td_deck_close return. */
#define td_deck_track(deck, ...) td_deck_track_with((deck), TD_OPTIONS(td_track, __VA_ARGS__), NULL)
/* The plain function. Everything in track is copied. TD_INVALID with a caret under the place when
 * .when does not parse, TD_NOT_FOUND for an unknown sink, a sink's own error when it cannot open.
 */
TD_API td_status td_deck_track_with(td_deck *deck, const td_track *track, td_error *error);

/* Calls each with the text of every track, as td_run_change_tracks takes it, also of those that a request has
 * added; the text is valid during the call only. */
typedef void td_track_function(void *user, const char *text);
TD_API void td_deck_tracks(td_deck *deck, td_track_function *each, void *user);

/* Whom to notify, once, when a condition holds for the first time; or, without one, of every cause
 * that td_deck_raise is given, once each. What happened is one line of JSON: {"text", "run", "cause",
 * "message", "epoch", "step", "time"}. */
typedef struct td_alert {
    size_t size;      /* sizeof(td_alert) */
    const char *when; /* as a track's; NULL: for td_deck_raise */
    /* A program and its arguments, NULL at the end, started without a shell; the JSON is its standard
     * input. NULL: none. */
    const char *const *run;
    const char *webhook; /* an http or https address that the JSON is sent to (POST, by the program
                             * curl), or $NAME: the environment variable that has it; NULL: none */
} td_alert;
/* Everything in alert is copied. Its program is started by the writer thread; nothing waits for
 * it, except that closing the deck gives it five seconds. One that fails is an error of
 * td_deck_flush or td_deck_close, and an event. */
TD_API td_status td_deck_alert(td_deck *deck, const td_alert *alert, td_error *error);
/* Notifies all alerts without a condition of a cause ("vanishing_gradient") that was not raised
 * before (up to 256 of them), and makes it an event of the run. */
TD_API td_status td_deck_raise(td_deck *deck, const char *cause, const char *text);

/* A signal of a deck: its name, looked up once. Valid until td_deck_close. */
typedef struct td_signal td_signal;
/* NULL only when memory is exhausted, or an argument is NULL. */
TD_API td_signal *td_deck_signal(td_deck *deck, const char *name);
/* The same, and declares what the signal is (info is copied). The first declaration counts. A signal
 * that nobody declares is guessed by td_signal_guess, and a scalar or text without a kind is a metric
 * or a text. NULL also when memory is exhausted for the copy. */
TD_API td_signal *td_deck_signal_with(td_deck *deck, const char *name, const td_signal_info *info);
/* As declared or guessed by now; valid until td_deck_close. */
TD_API const td_signal_info *td_signal_about(const td_signal *signal);

/* Whether anything wants this signal in the open step. Costs a few nanoseconds. */
TD_API bool td_deck_wants(td_deck *deck, const char *name);
TD_API bool td_signal_wants(const td_signal *signal);

/* Whether a track may want a tensor in this step: by its number, because it may turn out to be an
 * epoch's last, or for a condition. A program can leave out whatever it does only to record. */
TD_API bool td_deck_due(td_deck *deck, int64_t step);

/* Records a tensor under a name. The memory is read during the call only, unless the view has a
 * release callback: then it may be kept until release is called, which happens exactly once,
 * whatever is returned. Nothing happens when nothing wants the signal. */
TD_API td_status td_deck_record(td_deck *deck, const char *name, td_view view);
TD_API td_status td_signal_record(td_signal *signal, td_view view);

/* A tensor that was reduced elsewhere: on another device, or in parts. */
typedef struct td_summary {
    size_t size; /* sizeof(td_summary) */
    td_dtype dtype;
    td_shape shape;
    td_stats stats;
    td_histogram histogram; /* as td_histogram_of makes it; bins NULL: none */
    bool
        more; /* added to what the open step has of the signal: statistics and histogram become those of
                * all parts. Recorded by itself when there is nothing yet */
} td_summary;
/* The forms (bits) in which due tracks and conditions want a tensor of the signal in the open step. TD_TENSOR
 * is among them when anything needs elements (a form, a sample, something derived); 0: nothing is wanted. */
TD_API uint32_t td_signal_forms(const td_signal *signal);
/* Records a summary in place of its tensor, for tracks that need no elements (TD_STATS, TD_HISTOGRAM, TD_SCALAR).
 * The others get nothing; unless it is `more`, which leaves their tensor as it was recorded, that is TD_INVALID.
 * TD_INVALID also for a histogram that is wanted and missing, or does not fit the statistics. */
TD_API td_status td_signal_record_summary(td_signal *signal, const td_summary *summary);

TD_API td_status td_deck_scalar(td_deck *deck, const char *name, double value);
TD_API td_status td_signal_scalar(td_signal *signal, double value);
/* What tracks with an epoch schedule get of this signal when the open step ends its epoch, instead
 * of its last value: the mean over the epoch, say. A sink to which another track records the signal by
 * steps (every, at) keeps to the steps' own values. */
TD_API td_status td_signal_scalar_epoch(td_signal *signal, double value);
TD_API td_status td_deck_text(td_deck *deck, const char *name, const char *text);
/* A picture as it is: the bytes of a PNG file (copied). For tracks it is a value, as a text is;
 * sinks that write the form image get it. TD_FORMAT when it is no PNG. */
TD_API td_status td_deck_picture(td_deck *deck, const char *name, const void *png, size_t size);
/* A fact about the run: model, machine, arguments. */
TD_API td_status td_deck_note(td_deck *deck, const char *key, const char *value);

/* Which examples this step is about: their rows in the data set, and optionally the label of each
 * (labels->shape.dims[0] == count). Copied; valid until the step is closed. */
TD_API td_status td_deck_batch(td_deck *deck, const int64_t *rows, int64_t count);
TD_API td_status td_deck_batch_labels(td_deck *deck, const int64_t *rows, int64_t count,
                                      const td_view *labels);

/* Says which step comes next, and whether it is the last of its epoch. Optional: the deck expects
 * 1 and then the step after the last one closed; but only a deck that was notified can know that a
 * tensor wanted at the end of an epoch is not wanted before, and need not copy it every step. */
TD_API td_status td_deck_begin(td_deck *deck, int64_t epoch, int64_t step, bool epoch_end);
/* Closes the step: conditions are decided and what qualifies is handed to the writer. Returns
 * TD_OK, or a sink's error when the options ask to stop on one. */
TD_API td_status td_deck_step(td_deck *deck, int64_t epoch, int64_t step);
TD_API td_status td_deck_step_with(td_deck *deck, int64_t epoch, int64_t step, bool epoch_end);

/* Returns when everything recorded in closed steps is written and safe on disk. The first error
 * since the last flush, if any; later records go on being written. */
TD_API td_status td_deck_flush(td_deck *deck, td_error *error);
/* Closes an open step that holds something, writes everything, ends the writer and frees the deck,
 * whatever it returns: the first error since the last flush. Accepts NULL. */
TD_API td_status td_deck_close(td_deck *deck, td_error *error);

/* Whatever a program should know of while it still runs, a sentence each (valid during the call): names
 * of tracks and conditions that no signal has so far, a sink that fails. ending: nothing more will be
 * recorded; also of tracks that were due in no step. Errors stay there for flush and close. */
typedef void td_warning_function(void *user, const char *text);
TD_API void td_deck_warnings(td_deck *deck, bool ending, td_warning_function *each, void *user);

/* A record counts once for each sink that is to get it. At any instant
 * submitted == written + dropped + pending. Scalars are never dropped for want of room: whatever
 * the policy, they wait for it. */
typedef struct td_deck_counters {
    size_t size; /* in: sizeof(td_deck_counters) */
    int64_t submitted;
    int64_t written; /* in the sink's files */
    int64_t dropped; /* for want of room, memory or a working sink */
    int64_t pending; /* in the queue, or held by a sink that has not yet written them */
    int64_t failed;  /* of the dropped: those that a sink could not write */
    int64_t degraded;
    int64_t triggers;
    int64_t history_lost; /* snapshots that no longer fitted history_bytes */
    int64_t steps;
    int64_t queue_bytes;      /* held for the writer now */
    int64_t queue_bytes_peak; /* never more than the option */
    int64_t history_held;     /* bytes that conditions hold back now */
    double cost_seconds;      /* what recording has cost the calling threads, waiting included */
    double wait_seconds;      /* of that: waiting for room in the queue */
    double step_seconds;      /* from the first to the last closed step */
    double writer_seconds;    /* what sinks have cost the writer thread */
} td_deck_counters;
TD_API void td_deck_count(td_deck *deck, td_deck_counters *counters);
/* td_deck_close, and what the counters came to: nothing is pending then. */
TD_API td_status td_deck_close_with(td_deck *deck, td_deck_counters *counters, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
