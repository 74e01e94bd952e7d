/* tapedeck export: anything recorded, into any sink that can hold it. */
#include "options.h"
#include "reading.h"
#include "zip.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "tapedeck export RUN --to csv|npy|npz|tensorboard|sqlite|png [OPTION…]\n"
    "\n"
    "Writes what a run recorded in another format. RUN is a run's folder, or a folder of "
    "TensorBoard\n"
    "event files written by anybody, or one with several of either below it: every value of every "
    "tag,\n"
    "none sampled away. What is damaged or missing is said, and the rest exported.\n"
    "\n"
    "  --to FORMAT     csv          metrics.csv, SIGNAL.csv, stats.csv, texts.csv\n"
    "                  npy          SIGNAL.npy [records, …shape] and SIGNAL.steps.npy\n"
    "                  npz          the same in one file, for numpy.load\n"
    "                  tensorboard  an event file\n"
    "                  sqlite       run.db, with tensors as .npy and pictures as .png beside it\n"
    "                  png          images/SIGNAL/step-N.png\n"
    "  --out FOLDER    where to (default NAME-FORMAT here; for npz a file, NAME.npz); must be new\n"
    "  --what GLOBS    only these signals: 'loss,*.error'\n"
    "  --steps A..B    only these steps (A.. and ..B too)\n"
    "  --form FORM     tensors as rows (csv's default), batch, long, stats, histogram "
    "(TensorBoard's\n"
    "                  default), image or tensor; of other records only those of this form\n"
    "\n"
    "Examples\n"
    "  tapedeck export runs/demo --to csv --what 'hidden.*' --form long\n"
    "  tapedeck export ~/tensorboard/logs --to csv --out logs-csv\n";

enum { MOST_SINKS = 3, MOST_LOOKED_AT = 100000 };

typedef struct target {
    const char *name;              /* for people: --to's word */
    const char *sinks[MOST_SINKS]; /* the last gets everything, with the place the others gave */
    uint32_t holds;                /* forms as they are */
    uint32_t tensors;              /* what a tensor can become; the first is the default */
    td_form tensor_default;
} target;

static const target targets[] = {
    {"csv",
     {"csv"},
     TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_HASH | TD_TEXT,
     TD_ROWS | TD_BATCH | TD_LONG | TD_STATS | TD_HISTOGRAM,
     TD_ROWS},
    {"npy", {"npy"}, TD_SCALAR | TD_HISTOGRAM, TD_TENSOR, TD_TENSOR},
    {"npz", {"npy"}, TD_SCALAR | TD_HISTOGRAM, TD_TENSOR, TD_TENSOR},
    {"tensorboard",
     {"tensorboard"},
     TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_IMAGE | TD_TEXT,
     TD_HISTOGRAM | TD_STATS | TD_IMAGE,
     TD_HISTOGRAM},
    {"sqlite",
     {"npy", "png", "sqlite"},
     TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_IMAGE | TD_HASH | TD_TEXT,
     TD_TENSOR | TD_STATS | TD_HISTOGRAM | TD_IMAGE,
     TD_TENSOR},
    {"png", {"png"}, TD_IMAGE, TD_IMAGE, TD_IMAGE},
};

typedef struct open_sink {
    const td_sink_class *class;
    td_sink *sink;
} open_sink;

typedef struct exporting {
    const target *target;
    td_form form; /* --form, or 0 */
    td_run_query query;
    open_sink sinks[MOST_SINKS];
    size_t sink_count;
    int32_t expected;  /* signals whose column has been named */
    int64_t looked_at; /* records, to find them */
    bool started;
    int64_t epoch, step; /* of the record before */
    int64_t written;
    int64_t left_out; /* records that the target cannot hold */
    td_bin bins[TD_HISTOGRAM_BINS];
} exporting;

/* ---- Records -------------------------------------------------------------------------------- */

static td_status end_step(exporting *e, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < e->sink_count && !status && e->started; i++) {
        const open_sink *s = &e->sinks[i];
        if (s->class->end_step) {
            status = s->class->end_step(s->sink, e->epoch, e->step, error);
        }
    }
    return status;
}

/* To every sink that takes the form. */
static td_status put(exporting *e, td_record *record, td_error *error) {
    td_place place = {0};
    td_status status = TD_OK;
    if (e->started && (record->step != e->step || record->epoch != e->epoch)) {
        status = end_step(e, error);
    }
    e->started = true;
    e->step = record->step;
    e->epoch = record->epoch;
    bool index = e->sink_count > 1; /* scalars then belong in the last alone */
    record->place = &place;
    for (size_t i = 0; i < e->sink_count && !status; i++) {
        const open_sink *s = &e->sinks[i];
        bool beside = index && i + 1 < e->sink_count;
        if (s->class->forms & record->form && !(beside && record->form == TD_SCALAR)) {
            status = s->class->write(s->sink, record, error);
        }
    }
    e->written += !status;
    return status;
}

static td_status put_tensor(exporting *e, td_record *record, td_error *error) {
    td_form form = e->form ? e->form : e->target->tensor_default;
    td_stats stats;
    td_histogram histogram;
    td_status status = TD_OK;
    if (!(e->target->tensors & form)) {
        e->left_out++;
        return TD_OK;
    }
    if (form == TD_STATS) {
        status = td_stats_of(record->view, &stats, error);
        record->stats = &stats;
    } else if (form == TD_HISTOGRAM) {
        status = td_histogram_of(record->view, &stats, e->bins, &histogram, error);
        record->stats = &stats;
        record->histogram = &histogram;
    }
    record->form = form;
    return status ? status : put(e, record, error);
}

/* Arrays have no histograms: [bins, 3] of left, right, count. */
static td_status put_ranges(exporting *e, td_record *record, td_error *error) {
    td_view view = {.dtype = TD_FLOAT64,
                    .shape = TD_SHAPE(record->histogram->bin_count, 3),
                    .data = record->histogram->ranges};
    record->view = &view;
    record->form = TD_TENSOR;
    return put(e, record, error);
}

static td_status export_record(void *user, const td_record *given, td_error *error) {
    exporting *e = user;
    td_record record = *given;
    if (record.form == TD_TENSOR) {
        return put_tensor(e, &record, error);
    }
    if (!(e->target->holds & record.form)) {
        e->left_out++;
        return TD_OK;
    }
    if (e->form && e->form != record.form) {
        return TD_OK;
    }
    if (record.form == TD_HISTOGRAM && e->target->holds == (TD_SCALAR | TD_HISTOGRAM)) {
        return put_ranges(e, &record, error);
    }
    return put(e, &record, error);
}

/* ---- One run -------------------------------------------------------------------------------- */

/* Names the columns of metrics.csv before its first row; one that comes up later makes the sink
 * write what it has so far anew. */
static td_status expect_scalar(void *user, const td_record *record, td_error *error) {
    exporting *e = user;
    const open_sink *s = &e->sinks[0];
    if (record->signal_index < e->expected) {
        return ++e->looked_at < MOST_LOOKED_AT ? TD_OK : TD_INTERRUPTED;
    }
    e->expected = record->signal_index + 1;
    return s->class->expect(s->sink, record->signal, TD_SCALAR, error);
}

static td_status expect_columns(exporting *e, td_run *run, td_error *error) {
    if (strcmp(e->target->name, "csv") != 0) {
        return TD_OK;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    const td_run_signal *signals;
    size_t count = td_run_signals(run, &signals);
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (signals[i].forms & TD_SCALAR && td_run_matches(e->query.what, signals[i].name)) {
            status = e->sinks[0].class->expect(e->sinks[0].sink, signals[i].name, TD_SCALAR, error);
        }
    }
    if (!status && info.events) {
        td_run_query scalars = e->query;
        scalars.forms = TD_SCALAR;
        e->expected = 0;
        e->looked_at = 0;
        status = td_run_read(run, &scalars, expect_scalar, e, error);
        status = status == TD_INTERRUPTED ? TD_OK : status;
    }
    return status;
}

static td_status open_sinks(exporting *e, const char *folder, const char *name, td_error *error) {
    td_sink_options options = {.size = sizeof options, .folder = folder, .run = name};
    e->sink_count = 0;
    for (size_t i = 0; i < MOST_SINKS && e->target->sinks[i]; i++) {
        open_sink s = {.class = td_sink_find(e->target->sinks[i])};
        td_status status = s.class->open(&options, &s.sink, error);
        if (status) {
            return status;
        }
        e->sinks[e->sink_count++] = s;
    }
    return TD_OK;
}

static td_status close_sinks(exporting *e, td_status status, td_error *error) {
    for (size_t i = 0; i < e->sink_count; i++) {
        td_error reason = {0};
        td_status closed = e->sinks[i].class->close(e->sinks[i].sink, &reason);
        if (closed && !status) {
            status = closed;
            *error = reason;
        }
    }
    e->sink_count = 0;
    return status;
}

static td_status make_folder(const char *folder, td_error *error) {
    if (mkdir(folder, 0777) == 0) {
        return TD_OK;
    }
    return td_error_set(error, errno == EEXIST ? TD_EXISTS : TD_IO, "%s: %s%s", folder,
                        strerror(errno),
                        errno == EEXIST ? "; nothing is overwritten: give another --out" : "");
}

/* Copies the notes of a run into the new one's database. */
static void copy_note(void *user, const char *key, const char *value) {
    const open_sink *s = user;
    if (s->class->note && strcmp(key, "name") != 0) {
        (void)s->class->note(s->sink, key, value, NULL);
    }
}

static td_status export_run(exporting *e, td_run *run, const char *folder, td_error *error) {
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    e->started = false;
    td_status status = make_folder(folder, error);
    status = status ? status : open_sinks(e, folder, info.name, error);
    status = status ? status : expect_columns(e, run, error);
    if (!status && !info.events && e->sink_count > 1) {
        (void)td_run_notes(run, "run", copy_note, &e->sinks[e->sink_count - 1], NULL);
    }
    status = status ? status : td_run_read(run, &e->query, export_record, e, error);
    status = status ? status : end_step(e, error);
    return close_sinks(e, status, error);
}

/* ---- All of them ---------------------------------------------------------------------------- */

typedef struct job {
    exporting *exporting;
    const char *from, *out;
    int runs;
    bool nested; /* several: each has a folder of its own below out */
} job;

static td_status make_parents(char *path, td_error *error) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        td_status status =
            failed ? td_error_set(error, TD_IO, "%s: %s", path, strerror(errno)) : TD_OK;
        *slash = '/';
        if (failed) {
            return status;
        }
    }
    return TD_OK;
}

static td_status export_found(void *user, const char *folder, td_error *error) {
    job *j = user;
    char out[4096];
    const char *below = folder + strlen(j->from);
    below += *below == '/';
    /* A run of its own beside those below it is "." to TensorBoard. */
    (void)snprintf(out, sizeof out, "%s%s%s", j->out, j->nested ? "/" : "",
                   !j->nested ? ""
                   : *below   ? below
                              : "top");
    td_status status = make_parents(out, error);
    td_run *run = status ? NULL : td_run_open(folder, error);
    if (!run) {
        return status ? status : error->status;
    }
    status = export_run(j->exporting, run, out, error);
    size_t said = 0;
    say_problems(run, &said);
    td_run_close(run);
    j->runs++;
    return status;
}

static td_status count_run(void *user, const char *folder, td_error *error) {
    (void)folder, (void)error;
    ++*(int *)user;
    return TD_OK;
}

static td_status export_all(exporting *e, const char *from, const char *out, int *runs,
                            td_error *error) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", from);
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/';) {
        path[--length] = 0;
    }
    struct stat about;
    job j = {.exporting = e, .from = path, .out = out};
    if (stat(path, &about) == 0 && !S_ISDIR(about.st_mode)) {
        *runs = 1;
        return export_found(&j, path, error);
    }
    td_status status = td_runs_find(path, count_run, runs, error);
    if (!status && *runs == 0) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s has neither a run.db nor TensorBoard event files", from);
    }
    j.nested = *runs > 1;
    return status ? status : td_runs_find(path, export_found, &j, error);
}

/* Removes the arrays that were packed. */
static void remove_folder(const char *folder) {
    DIR *opened = opendir(folder);
    for (const struct dirent *entry; opened && (entry = readdir(opened));) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(opened), entry->d_name, 0);
        }
    }
    if (opened) {
        closedir(opened);
    }
    (void)rmdir(folder);
}

static td_status export_npz(exporting *e, const char *from, const char *out, int *runs,
                            td_error *error) {
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%.4000s.arrays", out);
    td_status status = access(out, F_OK) == 0
                           ? td_error_set(error, TD_EXISTS, "%s is there already", out)
                           : export_all(e, from, folder, runs, error);
    if (!status && *runs > 1) {
        status = td_error_set(error, TD_INVALID, "%s holds %d runs; an .npz is made of one", from,
                              *runs);
    }
    status = status ? status : zip_arrays(folder, out, error);
    remove_folder(folder);
    return status;
}

static const target *find_target(const char *name) {
    const char *names[sizeof targets / sizeof *targets];
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        names[i] = targets[i].name;
        if (strcmp(targets[i].name, name) == 0) {
            return &targets[i];
        }
    }
    const char *meant = nearest(name, names, sizeof names / sizeof *names);
    misuse(&command_export, "--to %s: there is csv, npy, npz, tensorboard, sqlite and png%s%s%s",
           name, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    return NULL;
}

static void default_out(char *out, size_t size, const char *from, const char *to) {
    char *full = realpath(from, NULL);
    const char *whole = full ? full : from, *slash = strrchr(whole, '/');
    const char *name = slash && slash[1] ? slash + 1 : "run";
    (void)snprintf(out, size, strcmp(to, "npz") == 0 ? "%s.%s" : "%s-%s", name, to);
    free(full);
}

static int run(int count, char **arguments) {
    const char *to = NULL, *out = NULL, *steps = NULL, *form = NULL;
    static exporting e;
    e = (exporting){.query.size = sizeof e.query};
    const option options[] = {{.name = "to", .text = &to},
                              {.name = "out", .text = &out},
                              {.name = "what", .text = &e.query.what},
                              {.name = "steps", .text = &steps},
                              {.name = "form", .text = &form}};
    if (!parse_options(&command_export, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1 || !to) {
        return misuse(&command_export, "expected RUN and --to FORMAT");
    }
    e.target = find_target(to);
    e.form = form ? (td_form)td_form_find(form) : 0;
    if (!e.target) {
        return EXIT_USAGE;
    }
    if (form && !((e.target->tensors | e.target->holds) & e.form)) {
        return misuse(&command_export, "--form %s: %s cannot hold it", form, to);
    }
    if (steps && !parse_steps(steps, &e.query.first_step, &e.query.last_step)) {
        return misuse(&command_export, "--steps is A..B, A.., ..B or a number");
    }
    char folder[4096];
    default_out(folder, sizeof folder, arguments[0], to);
    out = out ? out : folder;
    int runs = 0;
    td_error error = {0};
    bool packed = strcmp(to, "npz") == 0;
    td_status status = packed ? export_npz(&e, arguments[0], out, &runs, &error)
                              : export_all(&e, arguments[0], out, &runs, &error);
    if (status) {
        return fail(status_of(status), "%s", error.text);
    }
    printf("%s: %lld records", out, (long long)e.written);
    if (runs > 1) {
        printf(" of %d runs", runs);
    }
    if (e.left_out) {
        printf("; %lld of forms that %s cannot hold were left out", (long long)e.left_out, to);
    }
    putchar('\n');
    return EXIT_GOOD;
}

const command command_export = {
    .name = "export",
    .summary = "a run, or TensorBoard event files, to CSV, NPY, NPZ, TensorBoard, SQLite, PNG",
    .help = help,
    .run = run,
};
