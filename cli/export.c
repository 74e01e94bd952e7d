/* tapedeck export: anything recorded, into any format that can hold it. */
#include "json.h"
#include "options.h"
#include "reading.h"

#include <string.h>

static const char help[] =
    "tapedeck export RUN --to csv|npy|npz|tensorboard|sqlite|png [OPTION…]\n"
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
    "  --out FOLDER    where to (default NAME-FORMAT here; for npz a file, NAME.npz); must be new\n"
    "  --what GLOBS    only these signals: 'loss,*.error'\n"
    "  --steps A..B    only these steps (A.. and ..B too)\n"
    "  --form FORM     tensors as rows (csv's default), batch, long, units, stats, histogram\n"
    "                  (TensorBoard's default), image or tensor; of other records only those of "
    "this form\n"
    "  --rank N        what one process of a training of several recorded\n"
    "  --json          print what was written as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck export runs/demo --to csv --what 'hidden.*' --form long\n"
    "  tapedeck export ~/tensorboard/logs --to csv --out logs-csv\n";

static void report_problem(void *user, const char *text) {
    *(int *)user = fail(EXIT_BAD, "%s", text);
}

static int run_export(int count, char **arguments) {
    const char *steps = NULL, *form = NULL, *rank = NULL;
    bool json = false;
    int outcome = EXIT_GOOD; /* what can be read is exported, what cannot is reported */
    td_export_options e = {.size = sizeof e, .problem = report_problem, .user = &outcome};
    const option options[] = {{.name = "to", .text = &e.to},     {.name = "out", .text = &e.out},
                              {.name = "what", .text = &e.what}, {.name = "steps", .text = &steps},
                              {.name = "form", .text = &form},   {.name = "json", .flag = &json},
                              {.name = "rank", .text = &rank}};
    if (!parse_options(&command_export, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1 || !e.to) {
        return misuse(&command_export, "expected RUN and --to FORMAT");
    }
    size_t length = strlen(e.to);
    if (length > 8 && strcmp(e.to + length - 8, ".parquet") == 0) {
        return misuse(&command_export,
                      "Parquet files are written by the Python package with pyarrow: "
                      "python -m tapedeck export %s --to %s",
                      arguments[0], e.to);
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
    td_error error = {0};
    static td_exported done;
    done.size = sizeof done;
    td_status status = td_run_export(arguments[0], &e, &done, &error);
    if (status) {
        return status == TD_INVALID ? misuse(&command_export, "%s", error.text)
                                    : fail(status_of(status), "%s", error.text);
    }
    if (json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(done.out);
        printf(", \"runs\": %d, \"records\": %lld, \"left_out\": %lld}\n", done.runs,
               (long long)done.written, (long long)done.left_out);
        return outcome;
    }
    printf("%s: %lld records", done.out, (long long)done.written);
    if (done.runs > 1) {
        printf(" of %d runs", done.runs);
    }
    if (done.left_out) {
        printf("; %lld of forms that %s cannot hold were left out", (long long)done.left_out, e.to);
    }
    putchar('\n');
    return outcome;
}

const command command_export = {
    .name = "export",
    .summary = "a run, or TensorBoard event files, to CSV, NPY, NPZ, TensorBoard, SQLite, PNG",
    .help = help,
    .run = run_export,
};
