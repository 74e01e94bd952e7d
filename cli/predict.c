/* tapedeck predict: a saved model over new data. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "terminal.h"

#include "tapedeck/apply.h"
#include "tapedeck/deck.h"
#include "tapedeck/tape.h"

#include <math.h>
#include <string.h>

static const char help[] =
    "tapedeck predict MODEL DATA --to OUTPUT [--record SIGNALS [--form FORMS] [--to SINKS]]\n"
    "tapedeck predict MODEL --input NAME=FILE.npy … --to OUTPUT [--labels OUTPUT=FILE.npy …]\n"
    "tapedeck predict MODEL --input NAME=FILE.npy … --output NAME=FILE.npy …\n"
    "\n"
    "Runs a saved model over data and writes what it puts out. MODEL is a run's folder, .keras, "
    ".h5,\n"
    ".onnx, or a .safetensors file with its architecture; DATA a file or folder as `data.train` "
    "takes\n"
    "it. Inputs are scaled or standardised as in training, where the model says how. OUTPUT's "
    "ending\n"
    "says how:\n"
    "\n"
    "  predictions.csv   label,class_0,class_1,…; no label column when the data has no labels. "
    "Of\n"
    "                    images also their file; last, where outputs are scores of classes, the\n"
    "                    class predicted. Where classes have names: class_NAME,… and the name of "
    "the\n"
    "                    class predicted. value_0,… where the model was trained for values (mse,\n"
    "                    mae, huber, …)\n"
    "  outputs.npy       one array (examples, …)\n"
    "  pictures/         a folder (its name ends in '/'): each output as a PNG image, 000000.png, "
    "…,\n"
    "                    grey, or in colour when it has three channels; black is 0 and white is 1\n"
    "                    where all of its values lie between, else the least and the greatest\n"
    "  -                 the CSV to standard output; -.npy: the array\n"
    "\n"
    "  --to OUTPUT       where to; may be repeated\n"
    "  --force           replace files that are there already and are no predictions\n"
    "  --header BOOL     CSV: whether the first line has the columns' names (true, false); found "
    "out\n"
    "                    without\n"
    "  --label COLUMN    the column of labels, when it is not the one of training\n"
    "  --labels FILE     NPY, IDX: the file of labels\n"
    "  --scale NUMBER    multiply inputs by this instead of what training did\n"
    "  --layout LAYOUT   of arrays of images: channels_first or channels_last; without, the one of "
    "the\n"
    "                    model's file, and what else fits is printed\n"
    "  --batch N         examples at a time (256)\n"
    "  --memory BYTES    most that running the model may take (half of what the process may)\n"
    "  --input NAME=FILE instead of DATA: each input of the model by its name. DATA may also be "
    "an\n"
    "                    .npz with arrays of these names, or what training read. Several outputs\n"
    "                    are columns OUTPUT_label, OUTPUT_0, … side by side, or a file or folder "
    "each\n"
    "                    (outputs.OUTPUT.npy, pictures/OUTPUT/)\n"
    "  --input NAME=FILE, --output NAME=FILE\n"
    "                    instead of DATA and --to: run a graph (.onnx, .tflite, .pt2) once over\n"
    "                    whole arrays, as they are, with any number of inputs and outputs\n"
    "  --record SIGNALS  also record these from inside the model, a step for each batch: names "
    "and\n"
    "                    globs, separated by commas (\"conv1.output,*.preactivation\")\n"
    "  --form FORMS      in these forms: tensor, rows, batch, long, stats, histogram, image, …\n"
    "  --to SINKS        into these: csv, npy, tensorboard, sqlite, png, print, separated by "
    "commas\n"
    "  --out DIR         the folder of that recording (runs/predict)\n"
    "  --json            what was done as JSON instead: examples, accuracy, files, run\n"
    "  --quiet           say nothing when all goes well\n"
    "\n"
    "Data passes through in batches: CSV, NPY and IDX files and folders of images may be larger "
    "than\n"
    "memory. Ctrl-C leaves no half-written file.\n"
    "\n"
    "Examples\n"
    "  tapedeck predict runs/demo examples/data/digits.csv.gz --to predictions.csv\n"
    "  tapedeck predict model.keras new.npy --to outputs.npy --record conv1.output --form image "
    "\\\n"
    "      --to png\n"
    "  tapedeck predict autoencoder.onnx photos.npy --to pictures/\n"
    "\n"
    "More: docs/models.md\n";

/* ---- The command ----------------------------------------------------------------------------- */

static void print_result(const td_prediction *result, const td_predict_options *options,
                         bool piped) {
    FILE *stream = piped ? stderr : stdout;
    (void)fprintf(stream, "%lld example%s", (long long)result->examples, plural(result->examples));
    if (!isnan(result->accuracy)) {
        (void)fprintf(stream, ", accuracy %.2f %%", 100 * result->accuracy);
    }
    if (options->to && !piped) {
        (void)fprintf(stream, "; outputs in %s", options->to);
    }
    for (size_t i = 0; !piped && i < options->also_to.count; i++) {
        (void)fprintf(stream, ", %s", options->also_to.items[i]);
    }
    (void)fprintf(stream, "%s%s\n", *result->folder ? "; recorded in " : "", result->folder);
}

/* {"examples": 1797, "accuracy": 0.99, "outputs": ["predictions.csv"], "run": null} */
static void print_json(const td_prediction *result, const td_predict_options *options) {
    printf("{\"examples\": %lld, \"accuracy\": ", (long long)result->examples);
    print_json_number(result->accuracy);
    printf(", \"outputs\": [");
    if (options->to) {
        print_json_text(options->to);
    }
    for (size_t i = 0; i < options->also_to.count; i++) {
        printf(", ");
        print_json_text(options->also_to.items[i]);
    }
    printf("], \"run\": ");
    if (*result->folder) {
        print_json_text(result->folder);
    } else {
        printf("null");
    }
    printf("}\n");
}

static void print_remark(void *user, const char *text) {
    (void)user;
    note(text);
}

static int predict_all(const char *model, const char *data, td_predict_options *predict, bool quiet,
                       bool json, bool piped) {
    progress bar = progress_begin(quiet || json);
    FILE *stream = bar.live ? terminal_stream() : NULL;
    predict->progress = show_progress;
    predict->remark = quiet ? NULL : print_remark;
    predict->user = &bar;
    predict->stream = stream;
    td_prediction result = {0};
    td_error error = {0};
    td_status status = td_predict(model, data, predict, &result, &error);
    terminal_clear();
    if (stream) {
        (void)fclose(stream);
    }
    if (status) {
        return fail(status_of(status), "%s", error.text);
    }
    if (json) {
        print_json(&result, predict);
    } else if (!quiet) {
        print_result(&result, predict, piped);
    }
    return EXIT_GOOD;
}

static int predict_named(const char *model, size_t input_count, const char **inputs,
                         size_t output_count, const char **outputs, int64_t memory, bool force) {
    td_named_file pairs[2][MAX_VALUES];
    int wrong = split_pairs(&command_predict, "input", input_count, inputs, pairs[0]);
    wrong =
        wrong ? wrong : split_pairs(&command_predict, "output", output_count, outputs, pairs[1]);
    const char *read[MAX_VALUES + 1] = {model};
    for (size_t i = 0; !wrong && i < input_count; i++) {
        read[i + 1] = pairs[0][i].path;
    }
    for (size_t i = 0; !wrong && i < output_count; i++) {
        const char *path = pairs[1][i].path;
        wrong = check_not_read(path, read, input_count + 1, force);
        wrong = wrong ? wrong : check_free(path, force || td_output_is_ours(path));
    }
    if (wrong) {
        return wrong;
    }
    td_error error = {0};
    td_status status =
        td_predict_named(model, input_count, pairs[0], output_count, pairs[1], memory, &error);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

/* Predictions replace nothing that they are made of, and each file is written once. */
static int check_outputs(const char **to, size_t count, char **arguments,
                         const td_predict_options *predict, bool force) {
    const char *read[MAX_VALUES + 3] = {arguments[0], predict->labels};
    size_t read_count = 2;
    for (size_t i = 0; i < predict->input_count; i++) {
        read[read_count++] = predict->inputs[i].path;
    }
    if (!predict->input_count) {
        read[read_count++] = arguments[1];
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(to[i], to[k])) {
                return misuse(&command_predict, "--to %s is given twice", to[i]);
            }
        }
        if (check_not_read(to[i], read, read_count, force)) {
            return EXIT_BAD;
        }
    }
    return EXIT_GOOD;
}

static int run_predict(int count, char **arguments) {
    bool quiet = false, force = false, json = false;
    const char *batch = NULL, *scale = NULL, *layout = NULL, *memory = NULL, *header = NULL,
               *to[MAX_VALUES];
    const char *inputs[MAX_VALUES], *outputs[MAX_VALUES], *labels[MAX_VALUES];
    size_t to_count = 0, input_count = 0, output_count = 0, label_count = 0;
    td_named_file input_files[MAX_VALUES], label_files[MAX_VALUES];
    td_predict_options predict = {.size = sizeof predict};
    const option options[] = {
        {.name = "to", .list = to, .list_count = &to_count},
        {.name = "force", .flag = &force},
        {.name = "header", .text = &header},
        {.name = "input", .list = inputs, .list_count = &input_count},
        {.name = "output", .list = outputs, .list_count = &output_count},
        {.name = "label", .text = &predict.label},
        {.name = "labels", .list = labels, .list_count = &label_count},
        {.name = "scale", .text = &scale},
        {.name = "layout", .text = &layout},
        {.name = "memory", .text = &memory},
        {.name = "batch", .text = &batch},
        {.name = "record", .text = &predict.record},
        {.name = "form", .text = &predict.form},
        {.name = "out", .text = &predict.out},
        {.name = "json", .flag = &json},
        {.name = "quiet", .flag = &quiet},
    };
    if (!parse_options(&command_predict, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    size_t files = 0; /* that predictions go to come first in the list */
    for (size_t i = 0; i < to_count; i++) {
        if (!are_sinks(to[i])) {
            to[files++] = to[i];
        } else if (predict.sinks) {
            return misuse(&command_predict, "--to %s, --to %s: sinks go in one list, --to %s,%s",
                          predict.sinks, to[i], predict.sinks, to[i]);
        } else {
            predict.sinks = to[i];
        }
    }
    predict.keep_files = !force;
    predict.to = files ? to[0] : NULL;
    predict.also_to = (td_names){to + 1, files > 1 ? files - 1 : 0};
    if (memory && !td_parse_bytes(memory, &predict.memory)) {
        return misuse(&command_predict, "--memory: expected a number of bytes (500M, 2GiB, 500MB)");
    }
    if (label_count == 1 && !strchr(labels[0], '=')) {
        predict.labels = labels[0];
    } else if (label_count) {
        int wrong = split_pairs(&command_predict, "labels", label_count, labels, label_files);
        if (wrong) {
            return wrong;
        }
        predict.output_labels = label_files;
        predict.output_label_count = label_count;
    }
    if (output_count) {
        bool alone = count == 1 && !predict.to && !predict.record && !json;
        return alone
                   ? predict_named(arguments[0], input_count, inputs, output_count, outputs,
                                   predict.memory, force)
                   : misuse(&command_predict, "--input and --output go with MODEL alone: no DATA, "
                                              "no --to, no --record, no --json");
    }
    if (input_count) {
        int wrong = split_pairs(&command_predict, "input", input_count, inputs, input_files);
        if (wrong) {
            return wrong;
        }
        predict.inputs = input_files;
        predict.input_count = input_count;
    }
    if (count != (input_count ? 1 : 2) || (!predict.to && !predict.record)) {
        return misuse(&command_predict, "expected MODEL, DATA and --to OUTPUT (or --record)");
    }
    if (!predict.record && (predict.form || predict.sinks)) {
        return misuse(&command_predict, "--%s %s: nothing is recorded without --record",
                      predict.sinks ? "to" : "form", predict.sinks ? predict.sinks : predict.form);
    }
    if (batch && !whole_number(batch, &predict.batch)) {
        return misuse(&command_predict, "--batch: expected a whole number of at least 1");
    }
    if (layout && !layout_word(layout, &predict.layout)) {
        return misuse(&command_predict, "--layout: expected channels_first or channels_last");
    }
    if (header && !header_word(header, &predict.header)) {
        return misuse(&command_predict, "--header: expected true or false");
    }
    if (scale && !plain_number(scale, &predict.scale)) {
        return misuse(&command_predict, "--scale: expected a number that is not 0");
    }
    int refused = check_outputs(to, files, arguments, &predict, force);
    if (refused) {
        return refused;
    }
    const char *passing = NULL;
    bool piped = false;
    refused = output_place_formats(&command_predict, to, files, &passing, &piped);
    if (!refused && json && piped) {
        refused = misuse(&command_predict, "--json and --to - both write to standard output");
    }
    if (refused) {
        return refused;
    }
    predict.to = files ? to[0] : NULL;
    int status =
        predict_all(arguments[0], input_count ? NULL : arguments[1], &predict, quiet, json, piped);
    return passing ? output_pass(passing, status) : status;
}

const command command_predict = {
    .name = "predict",
    .summary = "run a saved model over data; outputs to CSV, NPY or images",
    .help = help,
    .run = run_predict,
};
