/* Anything recorded, into any sink that can hold it. */
#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"
#include "base/words.h"
#include "deck/route.h"
#include "run/run.h"
#include "run/zip.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SINKS = 3, MAX_CHECKED = 100000 };

#define ALONE (TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_IMAGE | TD_HASH | TD_TEXT)
#define OF_TENSORS                                                                                 \
    (TD_TENSOR | TD_ROWS | TD_BATCH | TD_LONG | TD_UNITS | TD_STATS | TD_HISTOGRAM | TD_IMAGE)

/* A sink as a target of an export: the properties of its class. */
typedef struct target {
    const char *name;                      /* for people */
    const td_sink_class *sinks[MAX_SINKS]; /* the last gets everything, with the others' places */
    uint32_t holds;                        /* forms as they are */
    uint32_t tensors;                      /* what a tensor can become */
    uint32_t tensor_default;
    bool packed; /* into one file */
    bool arrays; /* and nothing else: histograms become some */
} target;

typedef struct open_sink {
    const td_sink_class *class;
    td_sink *sink;
} open_sink;

typedef struct exporting {
    target target;
    td_form form; /* the one asked for, or 0 */
    const td_export_options *options;
    td_run_query query;
    open_sink sinks[MAX_SINKS];
    size_t sink_count;
    int32_t expected;  /* signals whose column has been named */
    int64_t looked_at; /* records, to find them */
    bool started;
    int64_t epoch, step; /* of the record before */
    int64_t written;
    int64_t left_out; /* records that the target cannot hold */
    td_bin bins[TD_HISTOGRAM_BINS];
    char *name; /* of a histogram's array */
    size_t name_capacity;
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
static td_status write_to_sinks(exporting *e, td_record *record, td_error *error) {
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
    td_form form = e->form ? e->form : (td_form)e->target.tensor_default;
    td_stats stats;
    td_histogram histogram;
    td_status status = TD_OK;
    if (!(e->target.tensors & form)) {
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
    return status ? status : write_to_sinks(e, record, error);
}

/* Arrays have no histograms: each bin is a record [left, right, count] of NAME.histogram, so that
 * one array has those of all steps, whatever edges they have. */
static td_status put_ranges(exporting *e, td_record *record, td_error *error) {
    size_t needed = strlen(record->signal) + sizeof ".histogram";
    if (!td__grow(&e->name, &e->name_capacity, needed, SIZE_MAX / 2, 1)) {
        return td_error_set(error, TD_MEMORY, "out of memory for a signal's name");
    }
    (void)snprintf(e->name, needed, "%s.histogram", record->signal);
    double numbers[3];
    int64_t before = e->written;
    td_view view = {.dtype = TD_FLOAT64, .shape = TD_SHAPE(3), .data = numbers};
    record->signal = e->name;
    record->signal_index++;
    record->view = &view;
    record->form = TD_TENSOR;
    td_status status = TD_OK;
    for (int32_t i = 0; i < record->histogram->bin_count && !status; i++) {
        td_range range = td_histogram_range(record->histogram, i);
        memcpy(numbers, (double[]){range.left, range.right, range.count}, sizeof numbers);
        status = write_to_sinks(e, record, error);
    }
    e->written = before + !status;
    return status;
}

static td_status export_record(void *user, const td_record *given, td_error *error) {
    exporting *e = user;
    td_record record = *given;
    record.signal_index *= 1 + e->target.arrays; /* between them those of histograms */
    if (record.form == TD_TENSOR) {
        return put_tensor(e, &record, error);
    }
    if (!(e->target.holds & record.form)) {
        e->left_out++;
        return TD_OK;
    }
    if (e->form && e->form != record.form) {
        return TD_OK;
    }
    if (record.form == TD_HISTOGRAM && e->target.arrays) {
        return put_ranges(e, &record, error);
    }
    return write_to_sinks(e, &record, error);
}

/* ---- One run -------------------------------------------------------------------------------- */

/* Names the columns of metrics.csv before its first row; one that comes up later makes the sink
 * write what it has so far anew. */
static td_status expect_scalar(void *user, const td_record *record, td_error *error) {
    exporting *e = user;
    const open_sink *s = &e->sinks[0];
    if (record->signal_index < e->expected) {
        return ++e->looked_at < MAX_CHECKED ? TD_OK : TD_INTERRUPTED;
    }
    e->expected = record->signal_index + 1;
    return s->class->expect(s->sink, record->signal, TD_SCALAR, error);
}

static td_status expect_columns(exporting *e, td_run *run, td_error *error) {
    if (!e->sinks[0].class->expect) {
        return TD_OK;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    size_t count = td_run_signal_count(run);
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        if (signal->forms & TD_SCALAR && td_run_matches(e->query.what, signal->name)) {
            status = e->sinks[0].class->expect(e->sinks[0].sink, signal->name, TD_SCALAR, error);
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
    for (size_t i = 0; i < MAX_SINKS && e->target.sinks[i]; i++) {
        open_sink s = {.class = e->target.sinks[i]};
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
                        errno == EEXIST ? "; nothing is overwritten: give another place" : "");
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

static void report_problems(const td_export_options *options, const td_run *run) {
    const char *const *texts;
    size_t count = td_run_problems(run, &texts);
    for (size_t i = 0; options->problem && i < count; i++) {
        options->problem(options->user, texts[i]);
    }
}

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
    char out[TD_EXPORT_PATH];
    const char *below = folder + strlen(j->from);
    below += *below == '/';
    /* A run of its own beside those below it is "." to TensorBoard. */
    const char *name = !j->nested ? "" : *below ? below : "top";
    int length = snprintf(out, sizeof out, "%s%s%s", j->out, j->nested ? "/" : "", name);
    td_status status = length > 0 && (size_t)length < sizeof out
                           ? make_parents(out, error)
                           : td_error_set(error, TD_INVALID, "%.200s…: the name is too long", out);
    td_error reason = {0};
    td_run *run = status ? NULL : td_run_open(folder, &reason);
    if (!status && !run && j->nested && j->exporting->options->problem) {
        j->exporting->options->problem(j->exporting->options->user, reason.text);
        return TD_OK; /* the others are exported */
    }
    if (!run) {
        return status ? status : td_error_set(error, reason.status, "%s", reason.text);
    }
    status = export_run(j->exporting, run, out, error);
    report_problems(j->exporting->options, run);
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
    char path[TD_EXPORT_PATH];
    if ((size_t)snprintf(path, sizeof path, "%s", from) >= sizeof path) {
        return td_error_set(error, TD_INVALID, "%.200s…: the name is too long", from);
    }
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
    char folder[TD_EXPORT_PATH];
    if ((size_t)snprintf(folder, sizeof folder, "%s.arrays", out) >= sizeof folder) {
        return td_error_set(error, TD_INVALID, "%.200s…: the name is too long", out);
    }
    td_status status = access(out, F_OK) == 0
                           ? td_error_set(error, TD_EXISTS, "%s is there already", out)
                           : export_all(e, from, folder, runs, error);
    if (!status && *runs > 1) {
        status = td_error_set(error, TD_UNSUPPORTED, "%s holds %d runs; an .npz is made of one",
                              from, *runs);
    }
    status = status ? status : td__zip_arrays(folder, out, error);
    remove_folder(folder);
    return status;
}

/* The first sink that writes files of this form by default. */
static const td_sink_class *keeper(td_form form) {
    const td_sink_class *const *class = td_sinks();
    while (*class && !((*class)->files && (*class)->default_forms & form)) {
        class ++;
    }
    return *class;
}

/* What always gets everything is an index: arrays and pictures lie in files beside it. */
static target target_of(const td_sink_class *class) {
    uint32_t forms = class->always ? class->always : class->forms;
    target made = {.name = class->name,
                   .sinks = {class},
                   .holds = forms & ALONE,
                   .tensors = forms & OF_TENSORS,
                   .tensor_default = class->always ? TD_TENSOR : class->default_forms,
                   .arrays = forms & TD_TENSOR && !(forms & TD_HISTOGRAM)};
    if (class->always) {
        made.sinks[0] = keeper(TD_TENSOR);
        made.sinks[1] = keeper(TD_IMAGE);
        made.sinks[2] = class;
    }
    made.holds |= made.arrays ? TD_HISTOGRAM : 0;
    return made;
}

/* Every sink that leaves files, and an archive of arrays. */
static td_status find_target(const char *name, target *found, td_error *error) {
    const char *names[TD__SINKS + 1] = {"npz"};
    size_t count = 1;
    bool packed = strcmp(name, names[0]) == 0;
    for (const td_sink_class *const *class = td_sinks(); *class; class ++) {
        if (strcmp((*class)->name, name) == 0 && (*class)->files) {
            *found = target_of(*class);
            return TD_OK;
        }
        names[count] = (*class)->name;
        count += (*class)->files != NULL;
    }
    if (packed) {
        *found = target_of(keeper(TD_TENSOR));
        found->name = names[0];
        found->packed = true;
        return TD_OK;
    }
    char hint[TD__HINT_ROOM];
    return td_error_set(error, TD_INVALID, "there is no export to '%s'%s", name,
                        td__word_hint(hint, name, names, count));
}

/* NAME-FORMAT here; for npz a file, NAME.npz. */
static td_status choose_out(char out[TD_EXPORT_PATH], const char *from, const char *to,
                            td_error *error) {
    char *full = realpath(from, NULL);
    const char *whole = full ? full : from, *name = td__place_name(whole);
    name = strchr(name, '/') ? "run" : name;
    int length =
        snprintf(out, TD_EXPORT_PATH, strcmp(to, "npz") == 0 ? "%s.%s" : "%s-%s", name, to);
    free(full); // NOLINT: realpath's own
    return length > 0 && length < TD_EXPORT_PATH
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%.200s…: the name is too long", from);
}

static td_status check_form(const exporting *e, td_error *error) {
    if (e->form && !((e->target.tensors | e->target.holds) & (uint32_t)e->form)) {
        const char *name = td_form_name((uint32_t)e->form);
        return td_error_set(error, TD_INVALID, "form %s: %s cannot hold it", name ? name : "?",
                            e->target.name);
    }
    return TD_OK;
}

td_status td_run_export(const char *from, const td_export_options *options, td_exported *exported,
                        td_error *error) {
    td_export_options full;
    (void)td__options(&full, sizeof full, options);
    td_exported result = {.size = sizeof result};
    exporting *e = td__calloc(1, sizeof *e);
    if (!e) {
        return td_error_set(error, TD_MEMORY, "out of memory for an export");
    }
    *e = (exporting){.options = &full,
                     .form = full.form,
                     .query = {.size = sizeof e->query,
                               .what = full.what,
                               .first_step = full.first_step,
                               .last_step = full.last_step}};
    td_status status = find_target(full.to ? full.to : "", &e->target, error);
    status = status ? status : check_form(e, error);
    if (!status && !full.out) {
        status = choose_out(result.out, from, full.to, error);
    } else if (!status && (size_t)snprintf(result.out, sizeof result.out, "%s", full.out) >=
                              sizeof result.out) {
        status = td_error_set(error, TD_INVALID, "%.200s…: the name is too long", full.out);
    }
    if (!status) {
        status =
            (e->target.packed ? export_npz : export_all)(e, from, result.out, &result.runs, error);
    }
    result.written = e->written;
    result.left_out = e->left_out;
    td__free(e->name);
    td__free(e);
    if (!status && exported) {
        td__options_give(exported, &result, sizeof result);
    }
    return status;
}
