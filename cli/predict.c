/* tapedeck predict: a saved model over new data. */
#include "command.h"
#include "options.h"

#include "tapedeck/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck predict MODEL DATA --to OUTPUT [--record SIGNALS [--form FORMS] [--to SINKS]]\n"
    "\n"
    "Runs a saved model over data and writes what it puts out. MODEL is a run's folder or a\n"
    ".safetensors file with its architecture; DATA a file or folder as `data.train` takes it. "
    "Inputs\n"
    "are scaled or standardised as in training. OUTPUT's ending says how:\n"
    "\n"
    "  predictions.csv   label,class_0,class_1,…; no label column when the data has no labels\n"
    "  outputs.npy       one array (examples, …)\n"
    "  pictures/         a folder (its name ends in '/'): each output as a PNG image\n"
    "\n"
    "  --to OUTPUT       where to\n"
    "  --label COLUMN    the column of labels, when it is not the one of training\n"
    "  --labels FILE     NPY, IDX: the file of labels\n"
    "  --batch N         examples at a time (256)\n"
    "  --record SIGNALS  also record these from inside the model, a step for each batch: names "
    "and\n"
    "                    globs, separated by commas (\"conv1.output,*.preactivation\")\n"
    "  --form FORMS      in these forms: tensor, rows, long, stats, histogram, image, …\n"
    "  --to SINKS        into these: csv, npy, tensorboard, sqlite, png, print, separated by "
    "commas\n"
    "  --out DIR         the folder of that recording (runs/predict)\n"
    "  --quiet           say nothing when all goes well\n"
    "\n"
    "Examples\n"
    "  tapedeck predict runs/demo examples/data/digits.csv.gz --to predictions.csv\n"
    "  tapedeck predict runs/demo new.npy --to outputs.npy --record conv1.output --form image \\\n"
    "      --to png\n";

static int run(int count, char **arguments) {
    bool quiet = false;
    const char *batch = NULL, *to[MOST_VALUES];
    size_t to_count = 0;
    td_predict_options predict = {.size = sizeof predict};
    const option options[] = {
        {.name = "to", .list = to, .list_count = &to_count},
        {.name = "label", .text = &predict.label},
        {.name = "labels", .text = &predict.labels},
        {.name = "batch", .text = &batch},
        {.name = "record", .text = &predict.record},
        {.name = "form", .text = &predict.form},
        {.name = "out", .text = &predict.out},
        {.name = "quiet", .flag = &quiet},
    };
    if (!parse_options(&command_predict, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < to_count; i++) {
        /* A file or folder has a dot or a slash in its name, a sink has neither. */
        *(strpbrk(to[i], "./") ? &predict.to : &predict.sinks) = to[i];
    }
    if (count != 2 || (!predict.to && !predict.record)) {
        return misuse(&command_predict, "expected MODEL, DATA and --to OUTPUT (or --record)");
    }
    if (batch) {
        char *end;
        predict.batch = strtoll(batch, &end, 10);
        if (*end || predict.batch < 1) {
            return misuse(&command_predict, "--batch: expected a whole number of at least 1");
        }
    }
    td_prediction result = {0};
    td_error error = {0};
    td_status status = td_predict(arguments[0], arguments[1], &predict, &result, &error);
    if (status) {
        return fail(status_of(status), "%s", error.text);
    }
    if (!quiet) {
        printf("%lld examples", (long long)result.examples);
        if (!isnan(result.accuracy)) {
            printf(", accuracy %.2f %%", 100 * result.accuracy);
        }
        if (predict.to) {
            printf("; outputs in %s", predict.to);
        }
        printf("%s%s\n", *result.folder ? "; recorded in " : "", result.folder);
    }
    return EXIT_GOOD;
}

const command command_predict = {
    .name = "predict",
    .summary = "run a saved model over data; outputs to CSV, NPY or images",
    .help = help,
    .run = run,
};
