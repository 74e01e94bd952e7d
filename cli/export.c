/* tapedeck export: anything recorded, into any format that can hold it. */
#include "json.h"
#include "options.h"
#include "output.h"
#include "reading.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck export RUN --to csv|npy|npz|tensorboard|sqlite|png [--to PLACE] [OPTION…]\n"
    "tapedeck export RUN --to FILE.csv|.npy|.npz|.png|.db [OPTION…]\n"
    "\n"
    "Writes what a run recorded in another format. RUN is a run's folder, or a folder of "
    "TensorBoard\n"
    "event files written by anybody, or one with several of either below it: every value of every "
    "tag,\n"
    "none sampled away. What is damaged or missing is reported, and the rest exported.\n"
    "\n"
    "  --to FORMAT     csv          metrics.csv, SIGNAL.csv, stats.csv, texts.csv\n"
    "                  npy          SIGNAL.npy [records, …shape] and SIGNAL.steps.npy\n"
    "                  npz          the same in one file, for numpy.load\n"
    "                  tensorboard  an event file\n"
    "                  sqlite       run.db, with tensors as .npy and pictures as .png beside it\n"
    "                  png          images/SIGNAL/step-N.png\n"
    "  --to PLACE, -o PLACE, --out PLACE\n"
    "                  where to: a folder (default NAME-FORMAT here), or a file with the ending of "
    "its\n"
    "                  format, which is one file: of csv, npy, sqlite and png what --what leaves; "
    "- "
    "is\n"
    "                  standard output\n"
    "  --force         replace a file, or a folder all of whose files this export writes\n"
    "  --what GLOBS    only these signals: 'loss,*.error'\n"
    "  --steps A..B    only these steps (A.. and ..B too)\n"
    "  --form FORM     tensors as rows (csv's default), batch, long, units, stats, histogram\n"
    "                  (TensorBoard's default), image or tensor; of other records only those of "
    "this form\n"
    "  --rank N        what one process of a training of several recorded\n"
    "  --json          print what was written as JSON\n"
    "  --quiet, -q     print nothing but errors\n"
    "\n"
    "Examples\n"
    "  tapedeck export runs/demo --to csv --what 'hidden.*' --form long\n"
    "  tapedeck export ~/tensorboard/logs --to csv -o logs-csv\n"
    "  tapedeck export runs/demo -o demo.npz --what '*.kernel'\n"
    "  tapedeck export runs/demo --to csv -o - --what '*loss'\n";

static void report_problem(void *user, const char *text) {
    complain("%s", text);
    *(int *)user = EXIT_BAD;
}

/* Formats, and what a file of one is called; NULL: a folder alone. */
static const struct {
    const char *name, *ending;
} formats[] = {{"csv", ".csv"},   {"npy", ".npy"}, {"npz", ".npz"},
               {"sqlite", ".db"}, {"png", ".png"}, {"tensorboard", NULL}};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), size = ending ? strlen(ending) : 0;
    return size && length > size && !strcmp(text + length - size, ending);
}

static bool is_format(const char *word) {
    bool found = false;
    for (size_t i = 0; i < FORMATS; i++) {
        found = found || !strcmp(word, formats[i].name);
    }
    return found;
}

/* Tells formats from places: sets e->to and e->out. A place that has the ending of its format is one file. */
static int sort_words(const char *const *to, size_t count, td_export_options *e, bool *is_file) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || is_format(to[i]);
    }
    for (size_t i = 0; i < count; i++) { /* a plain word is a format, if only a mistaken one */
        bool format = any ? is_format(to[i]) : !strpbrk(to[i], "/.") && strcmp(to[i], "-") != 0;
        const char **taken = format ? &e->to : &e->out;
        if (*taken) {
            return misuse(&command_export, "--to: two %s, %s and %s", format ? "formats" : "places",
                          *taken, to[i]);
        }
        *taken = to[i];
    }
    if (e->out && !*e->out) {
        return misuse(&command_export, "--to: expected a format or a place, not ''");
    }
    bool piped = e->out && output_is_stdout(e->out);
    if (piped && !e->to && !e->out[1]) {
        e->to = formats[0].name;
    }
    for (size_t k = 0; e->out && k < FORMATS; k++) {
        if (!e->to && ends_with(e->out, formats[k].ending)) {
            e->to = formats[k].name;
        }
        *is_file = *is_file || (e->to && !strcmp(e->to, formats[k].name) &&
                                ends_with(e->out, formats[k].ending));
    }
    *is_file = *is_file || piped;
    return e->to ? EXIT_GOOD : misuse(&command_export, "expected RUN and --to FORMAT");
}

/* NAME-FORMAT here, as the library chooses it; NULL: of a run that is no file, which the library knows. */
static const char *default_place(const char *run, const char *format, char place[OUTPUT_PATH]) {
    char *full = realpath(run, NULL);
    const char *slash = full ? strrchr(full, '/') : NULL;
    const char *pattern = strcmp(format, "npz") == 0 ? "%s.%s" : "%s-%s";
    int length =
        slash ? snprintf(place, OUTPUT_PATH, pattern, slash[1] ? slash + 1 : "run", format) : -1;
    free(full);
    return length > 0 && length < OUTPUT_PATH ? place : NULL;
}

/* Into a place that is free, or into a folder whose only file then is the place. */
static int export_to(const char *run, td_export_options *e, bool is_file, bool force,
                     td_exported *done) {
    static char place[OUTPUT_PATH];
    const char *wanted = e->out, *files = NULL;
    if (force && !wanted) {
        wanted = e->out = default_place(run, e->to, place);
    }
    size_t length = wanted ? strlen(wanted) : 0;
    if (!is_file && length > 1 && length < sizeof place && wanted[length - 1] == '/') {
        while (length > 1 && wanted[length - 1] == '/') {
            length--;
        }
        (void)snprintf(place, sizeof place, "%.*s", (int)length, wanted);
        wanted = e->out = place;
    }
    td_error error = {0};
    if (is_file) {
        if (check_free(wanted, force)) {
            return EXIT_BAD;
        }
        e->out = files = output_place_files(wanted);
    } else if (force && wanted) {
        e->out = output_place_beside(wanted);
    }
    if (wanted && !e->out) {
        return EXIT_BAD;
    }
    td_status status = td_run_export(run, e, done, &error);
    int ended = !status ? EXIT_GOOD
                : status == TD_INVALID
                    ? misuse(&command_export, "%s", error.text)
                    : fail(status_of(status), "%s%s", error.text,
                           status == TD_EXISTS && !force ? "; --force replaces it" : "");
    if (files) {
        ended = output_pass(files, ended);
    } else if (wanted && e->out != wanted) {
        ended = output_replace(wanted, ended);
    }
    if (wanted) {
        (void)snprintf(done->out, sizeof done->out, "%s", wanted);
    }
    return ended;
}

static int run_export(int count, char **arguments) {
    const char *steps = NULL, *form = NULL, *rank = NULL, *to[MAX_VALUES];
    size_t to_count = 0;
    bool json = false, force = false, quiet = false, is_file = false;
    int outcome = EXIT_GOOD; /* what can be read is exported, what cannot is reported */
    td_export_options e = {.size = sizeof e, .problem = report_problem, .user = &outcome};
    const option options[] = {{.name = "to", .list = to, .list_count = &to_count},
                              {.name = "out", .text = &e.out},
                              {.name = "force", .flag = &force},
                              {.name = "quiet", .flag = &quiet},
                              {.name = "what", .text = &e.what},
                              {.name = "steps", .text = &steps},
                              {.name = "form", .text = &form},
                              {.name = "json", .flag = &json},
                              {.name = "rank", .text = &rank}};
    if (!parse_options(&command_export, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1) {
        return misuse(&command_export, "expected RUN and --to FORMAT");
    }
    for (size_t i = 0; i < to_count; i++) {
        if (ends_with(to[i], ".parquet")) {
            return misuse(&command_export,
                          "Parquet files are written by the Python package with pyarrow: "
                          "python -m tapedeck export %s --to %s",
                          arguments[0], to[i]);
        }
    }
    int wrong = sort_words(to, to_count, &e, &is_file);
    if (wrong) {
        return wrong;
    }
    bool piped = e.out && output_is_stdout(e.out);
    if (piped && json) {
        return misuse(&command_export, "--to - and --json both print to standard output");
    }
    e.form = form ? (td_form)td_form_find(form) : 0;
    if (form && !e.form) {
        return misuse(&command_export, "there is no form '%s'", form);
    }
    if (steps && !parse_steps(steps, &e.first_step, &e.last_step)) {
        return misuse(&command_export, "--steps is A..B, A.., ..B or a number");
    }
    if (!choose_rank(&command_export, rank, 1, (const char **)arguments)) {
        return EXIT_BAD;
    }
    static td_exported done;
    done.size = sizeof done;
    int ended = export_to(arguments[0], &e, is_file, force, &done);
    if (ended) {
        return ended;
    }
    if (!done.written && !done.left_out && (e.what || steps || form)) {
        note("nothing that was recorded fits --what, --steps and --form; `tapedeck show RUN` lists "
             "the signals");
    }
    if (json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(done.out);
        printf(", \"runs\": %d, \"records\": %lld, \"left_out\": %lld}\n", done.runs,
               (long long)done.written, (long long)done.left_out);
        return outcome;
    }
    FILE *stream = piped ? stderr : stdout;
    if (quiet) {
        return outcome;
    }
    (void)fprintf(stream, "%s: %lld records", piped ? "standard output" : done.out,
                  (long long)done.written);
    if (done.runs > 1) {
        (void)fprintf(stream, " of %d runs", done.runs);
    }
    if (done.left_out) {
        (void)fprintf(stream, "; %lld of forms that %s cannot hold were left out",
                      (long long)done.left_out, e.to);
    }
    (void)fputc('\n', stream);
    return outcome;
}

const command command_export = {
    .name = "export",
    .summary = "a run, or TensorBoard event files, to CSV, NPY, NPZ, TensorBoard, SQLite, PNG",
    .help = help,
    .run = run_export,
};
