/* tapedeck evaluate: how good a saved model is on labelled data. */
#include "command.h"
#include "labelled.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

#include "tapedeck/apply.h"

#include <math.h>
#include <string.h>

static const char help[] =
    "tapedeck evaluate MODEL DATA [--to FILE] [--json]\n"
    "tapedeck evaluate MODEL --input NAME=FILE.npy … --labels OUTPUT=FILE.npy …\n"
    "\n"
    "Runs a saved model over labelled data and says how good it is: the loss, and\n"
    "  of classes   accuracy, precision, recall and F1 of each class and their means, the area "
    "under\n"
    "               the ROC curve of two classes, the confusion matrix, and calibration: how often "
    "the\n"
    "               model was right by how sure it was\n"
    "  of numbers   mean absolute and squared error, R², and residuals (prediction - label), in "
    "the\n"
    "               unit of the labels\n"
    "MODEL is a run's folder, .keras, .h5, .onnx, or a .safetensors file with its architecture; "
    "DATA\n"
    "as `data.train` takes it, in batches: it may be larger than memory.\n"
    "\n"
    "  --to FILE         also to a file: .csv (output,part,name,measure,value), .json, or .png: "
    "the\n"
    "                    confusion matrix, a row for each class, and calibration beside it; - is "
    "the\n"
    "                    CSV to standard output; may be repeated\n"
    "  --json            print all of it as JSON\n"
    "  --loss LOSS       instead of the one of training, or, where the model does not say that, of "
    "one\n"
    "                    that fits labels and output; what was taken, and why, is printed\n"
    "  --batch N         examples at a time (256)\n"
    "  --label COLUMN    CSV: the column of labels, when it is not the one of training\n"
    "  --labels FILE     NPY, IDX: the file of labels; of several outputs OUTPUT=FILE for each\n"
    "  --input NAME=FILE instead of DATA: each input of the model by its name\n"
    "  --scale NUMBER    multiply inputs by this instead of what training did\n"
    "  --layout LAYOUT   of arrays of images: channels_first or channels_last\n"
    "  --memory BYTES    most that running the model may take (half of what the process may)\n"
    "  --header BOOL     CSV: whether the first line has the columns' names (true, false)\n"
    "  --force           replace a file that is there already and holds no evaluation\n"
    "  --quiet           print nothing\n"
    "\n"
    "Examples\n"
    "  tapedeck evaluate runs/demo examples/data/digits.csv.gz\n"
    "  tapedeck evaluate model.keras images.npy --labels labels.npy --to confusion.png\n"
    "  tapedeck evaluate runs/demo examples/data/digits.csv.gz --json\n"
    "\n"
    "More: docs/models.md\n";

enum { NAME_WIDTH = 24, MISTAKES = 10 };

/* ---- Classes --------------------------------------------------------------------------------- */

static int name_width(const td_evaluation_output *output) {
    int width = 5;
    for (size_t i = 0; i < output->class_count; i++) {
        int columns = terminal_columns(output->classes[i].name);
        width = columns > width ? columns : width;
    }
    return width > NAME_WIDTH ? NAME_WIDTH : width;
}

static void print_classes(const td_evaluation_output *output) {
    int width = name_width(output);
    (void)fputs("\n  ", stdout);
    terminal_print_padded("class", width);
    printf("  examples  predicted  precision  recall      f1\n");
    for (size_t i = 0; i < output->class_count; i++) {
        const td_evaluation_class *class = &output->classes[i];
        (void)fputs("  ", stdout);
        terminal_print_name(class->name, width);
        printf("  %8lld  %9lld  %9.4f  %6.4f  %6.4f\n", (long long)class->examples,
               (long long)class->predicted, class->precision, class->recall, class->f1);
    }
}

/* The largest counts of what is not on the diagonal, one after the other. */
static void print_mistakes(const td_evaluation_output *output) {
    size_t count = output->class_count;
    int64_t below = INT64_MAX, printed = 0;
    while (printed < MISTAKES) {
        int64_t max = 0;
        for (size_t i = 0; i < count * count; i++) {
            int64_t here = i / count == i % count ? 0 : output->confusion[i];
            max = here < below && here > max ? here : max;
        }
        if (max == 0) {
            return;
        }
        for (size_t i = 0; i < count * count && printed < MISTAKES; i++) {
            if (i / count != i % count && output->confusion[i] == max) {
                (void)fputs(printed++ ? "" : "\nMost frequent mistakes\n", stdout);
                printf("  %8lld  %s, predicted %s\n", (long long)max,
                       output->classes[i / count].name, output->classes[i % count].name);
            }
        }
        below = max;
    }
}

/* As a table where it fits, else the mistakes that are most frequent. */
static void print_confusion(const td_evaluation_output *output) {
    size_t count = output->class_count;
    int64_t max = 0;
    for (size_t i = 0; i < count * count; i++) {
        max = output->confusion[i] > max ? output->confusion[i] : max;
    }
    int names = name_width(output), width = snprintf(NULL, 0, "%lld", (long long)max);
    width = width < names ? names : width;
    if ((int64_t)count * (width + 2) + names + 2 > terminal_width()) {
        print_mistakes(output);
        return;
    }
    printf("\nConfusion matrix: a row for each class, a column for what was predicted\n  ");
    terminal_print_padded("", names);
    for (size_t i = 0; i < count; i++) {
        int columns = terminal_columns(output->classes[i].name);
        printf("  %*s", columns < width ? width - columns : 0, "");
        terminal_print_name(output->classes[i].name, columns < width ? columns : width);
    }
    for (size_t i = 0; i < count * count; i++) {
        if (i % count == 0) {
            (void)fputs("\n  ", stdout);
            terminal_print_name(output->classes[i / count].name, names);
        }
        printf("  %*lld", width, (long long)output->confusion[i]);
    }
    (void)fputc('\n', stdout);
}

static void print_bins(const td_evaluation_output *output) {
    printf("\nCalibration: how often it was right, by how sure it was\n"
           "  sure         examples  mean sure  accuracy\n");
    for (size_t i = 0; i < output->bin_count; i++) {
        const td_evaluation_bin *bin = &output->bins[i];
        if (bin->examples) {
            printf("  %.1f to %.1f   %8lld  %9.4f  %8.4f\n", bin->from, bin->to,
                   (long long)bin->examples, bin->confidence, bin->accuracy);
        }
    }
}

/* ---- Everything ------------------------------------------------------------------------------ */

static void print_values(const td_evaluation_output *output) {
    printf("\n  %-8s  %11s  %11s  %8s  %s\n", "value", "mae", "rmse", "r2",
           "residuals: mean, std, min, max");
    for (size_t i = 0; i < output->value_count; i++) {
        const td_evaluation_value *value = &output->values[i];
        printf("  %-8s  %11.6g  %11.6g  %8.4f  %.4g, %.4g, %.4g, %.4g\n", value->name, value->mae,
               value->rmse, value->r2, value->residual_mean, value->residual_std,
               value->residual_min, value->residual_max);
    }
}

static void print_output(const td_evaluation_output *output, bool several) {
    if (several) {
        printf("\n%s: loss %.6g\n", output->name, output->loss_value);
    }
    printf("  %-18s %s (%s)\n", "loss is", output->loss, output->why);
    for (size_t i = 0; i < output->metric_count; i++) {
        printf("  %-18s %.6g\n", output->metrics[i].name, output->metrics[i].value);
    }
    if (output->class_count) {
        print_classes(output);
    }
    if (output->confusion) {
        print_confusion(output);
    }
    if (output->bin_count) {
        print_bins(output);
    }
    if (output->value_count) {
        print_values(output);
    }
}

static void print_all(const td_evaluation *evaluation) {
    const td_evaluation_info *info = td_evaluation_about(evaluation);
    printf("%lld example%s, loss %.6g\n", (long long)info->examples, plural(info->examples),
           info->loss);
    const td_evaluation_output *output;
    for (size_t i = 0; (output = td_evaluation_at(evaluation, i)); i++) {
        print_output(output, info->output_count > 1);
    }
}

/* What numbers alone do not say. */
static void print_notes(const td_evaluation *evaluation) {
    td_names remarks = td_evaluation_about(evaluation)->remarks;
    for (size_t i = 0; i < remarks.count; i++) {
        note(remarks.items[i]);
    }
    const td_evaluation_output *output;
    for (size_t i = 0; (output = td_evaluation_at(evaluation, i)); i++) {
        if (output->not_finite) {
            char text[200];
            (void)snprintf(text, sizeof text,
                           "%.80s: %lld of %lld predictions are NaN or infinite; they count as "
                           "wrong, and residuals are without them",
                           output->name, (long long)output->not_finite, (long long)output->rows);
            note(text);
        }
    }
}

/* EXIT_GOOD when every file may be written, and none twice. */
static int check_files(const char **to, size_t count, const char *const read[3], bool force) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(to[i], to[k])) {
                return misuse(&command_evaluate, "--to %s is given twice", to[i]);
            }
        }
        if (check_not_read(to[i], read, 3, force) ||
            check_free(to[i], force || td_output_is_ours(to[i]))) {
            return EXIT_BAD;
        }
    }
    return EXIT_GOOD;
}

static int run_evaluate(int count, char **arguments) {
    bool quiet = false, json = false, force = false, piped = false;
    const char *to[MAX_VALUES];
    size_t to_count = 0;
    labelled asked = {0};
    td_evaluate_options evaluate = {.size = sizeof evaluate, .progress = show_progress};
    const option options[] = {
        {.name = "to", .list = to, .list_count = &to_count},
        {.name = "json", .flag = &json},
        LABELLED_OPTIONS(asked),
        {.name = "force", .flag = &force},
        {.name = "quiet", .flag = &quiet},
    };
    if (!parse_options(&command_evaluate, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    int wrong = read_labelled(&command_evaluate, &asked, count);
    if (wrong) {
        return wrong;
    }
    LABELLED_FILL(&evaluate, &asked);
    const char *data = count > 1 ? arguments[1] : NULL;
    const char *const read[3] = {arguments[0], data, asked.labels};
    wrong = check_files(to, to_count, read, force);
    if (wrong) {
        return wrong;
    }
    const char *passing = NULL;
    wrong = output_place_formats(&command_evaluate, to, to_count, &passing, &piped);
    if (wrong) {
        return wrong;
    }
    if (piped && json) {
        return misuse(&command_evaluate, "--to - and --json both print to standard output");
    }
    progress bar = progress_begin(quiet);
    evaluate.user = &bar;
    td_error error = {0};
    td_evaluation *result = td_evaluation_create(arguments[0], data, &evaluate, &error);
    td_status status = result ? TD_OK : error.status;
    terminal_clear();
    for (size_t i = 0; !status && i < to_count; i++) {
        status = td_evaluation_save(result, to[i], &error);
    }
    if (!status && !quiet) {
        print_notes(result);
    }
    if (!status && json) {
        status = td_evaluation_print_json(result, stdout, &error);
    } else if (!status && !quiet && !piped) {
        print_all(result);
    }
    td_evaluation_destroy(result);
    int ended = status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
    return passing ? output_pass(passing, ended) : ended;
}

const command command_evaluate = {
    .name = "evaluate",
    .summary = "how good a saved model is on labelled data: loss, metrics, confusion, residuals",
    .help = help,
    .run = run_evaluate,
};
