/* tapedeck gradients: a saved model forward and back over one batch. */
#include "command.h"
#include "json.h"
#include "labelled.h"
#include "output.h"

#include "tapedeck/apply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck gradients MODEL DATA [--layer LAYERS] [--loss LOSS] [--to FILE]\n"
    "tapedeck gradients MODEL --input NAME=FILE.npy … [--labels OUTPUT=FILE.npy …]\n"
    "\n"
    "Runs a saved model over the first batch of the data, and back: for each layer its error (the\n"
    "gradient of the batch's mean loss with respect to its output) and the gradients of its "
    "kernel,\n"
    "bias and other parameters; shapes, statistics and values. MODEL is a run's folder, .keras, "
    ".h5,\n"
    ".onnx, or a .safetensors file with its architecture; DATA as `data.train` takes it.\n"
    "\n"
    "  --layer LAYERS    names and globs of layers, separated by commas (\"conv2,dense*\"); may "
    "be\n"
    "                    repeated; \"input\" is the model's input; all layers without it\n"
    "  --loss LOSS       mse, mae, huber, binary_crossentropy, categorical_crossentropy,\n"
    "                    sparse_categorical_crossentropy, kl_divergence. Without it the one of\n"
    "                    training where the model says it, else one that fits labels and output;\n"
    "                    what was taken, and why, is printed\n"
    "  --batch N         examples (32)\n"
    "  --label COLUMN    CSV: the column of labels, when it is not the one of training\n"
    "  --labels FILE     NPY, IDX: the file of labels; of several outputs OUTPUT=FILE for each\n"
    "  --input NAME=FILE instead of DATA: each input of the model by its name\n"
    "  --scale NUMBER    multiply inputs by this instead of what training did\n"
    "  --layout LAYOUT   of arrays of images: channels_first or channels_last; without, the one of "
    "the\n"
    "                    model's file, and what else fits is printed\n"
    "  --memory BYTES    most that running the model may take (half of what the process may)\n"
    "  --training        as in a step of training: dropout drops, batch normalisation uses the "
    "batch;\n"
    "                    otherwise as in inference\n"
    "  --to FILE         also to a file: .csv (signal,index,value), .npz (an array for each), or "
    "a\n"
    "                    folder (its name ends in '/') with LAYER.error.npy,\n"
    "                    LAYER.PARAMETER.gradient.npy, …; - is the CSV to standard output instead\n"
    "                    of what is printed, -.npz the arrays\n"
    "  --force           replace a file that is there already and holds no gradients\n"
    "  --header BOOL     CSV: whether the first line has the columns' names (true, false)\n"
    "  --json            shapes and statistics as JSON, a line for each, without values\n"
    "  --quiet           print nothing\n"
    "\n"
    "Examples\n"
    "  tapedeck gradients runs/demo examples/data/digits.csv.gz --layer hidden\n"
    "  tapedeck gradients model.keras images.npy --labels labels.npy --layer 'conv*' --to "
    "gradients/\n"
    "  tapedeck gradients runs/demo examples/data/digits.csv.gz --layer input,logits --json\n"
    "\n"
    "Exit status 0 also when gradients are not finite. More: docs/models.md\n";

/* "a,b" of a list of options; from malloc, NULL when there is none. */
static char *join_texts(const char *const *items, size_t count) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = count ? open_memstream(&text, &size) : NULL;
    for (size_t i = 0; stream && i < count; i++) {
        (void)fprintf(stream, "%s%s", i ? "," : "", items[i]);
    }
    if (stream) {
        (void)fclose(stream);
    }
    return text;
}

static void print_json(const td_gradients *gradients) {
    const td_gradients_info *info = td_gradients_about(gradients);
    (void)fputs("{\"loss\": ", stdout);
    print_json_text(info->loss);
    printf(", \"from_logits\": %s, \"why\": ", info->from_logits ? "true" : "false");
    print_json_text(info->why);
    (void)fputs(", \"value\": ", stdout);
    print_json_number(info->value);
    printf(", \"examples\": %lld}\n", (long long)info->examples);
    const td_gradient *gradient;
    for (size_t i = 0; (gradient = td_gradients_at(gradients, i)); i++) {
        (void)fputs("{\"signal\": ", stdout);
        print_json_text(gradient->name);
        (void)fputs(", \"layer\": ", stdout);
        print_json_text(gradient->layer);
        (void)fputs(", ", stdout);
        td_shape shape = td_tensor_shape(gradient->tensor);
        print_json_stats(&shape, &gradient->stats);
        printf(", \"disconnected\": %s}\n", gradient->disconnected ? "true" : "false");
    }
}

static void print_stats(const td_stats *stats) {
    printf("  mean %.6g  std %.6g  min %.6g  max %.6g  norm %.6g  zeros %lld of %lld", stats->mean,
           stats->std, stats->min, stats->max, stats->norm, (long long)stats->zeros,
           (long long)stats->count);
    if (stats->nan + stats->inf > 0) {
        printf("  NaN %lld  infinite %lld", (long long)stats->nan, (long long)stats->inf);
    }
    (void)fputc('\n', stdout);
}

static void print_all(const td_gradients *gradients) {
    const td_gradients_info *info = td_gradients_about(gradients);
    printf("loss %.6g: %s%s over %lld example%s (%s)\n", info->value, info->loss,
           info->from_logits ? " from logits" : "", (long long)info->examples,
           plural(info->examples), info->why);
    const td_gradient *gradient;
    for (size_t i = 0; (gradient = td_gradients_at(gradients, i)); i++) {
        (void)fputc('\n', stdout);
        (void)td_tensor_print(gradient->tensor, stdout);
        print_stats(&gradient->stats);
        if (gradient->disconnected) {
            printf("  the loss does not depend on it\n");
        }
    }
}

static int run_gradients(int count, char **arguments) {
    bool quiet = false, json = false, force = false;
    const char *to = NULL, *layers[MAX_VALUES];
    size_t layer_count = 0;
    labelled asked = {0};
    td_gradients_options gradients = {.size = sizeof gradients};
    const option options[] = {
        {.name = "layer", .list = layers, .list_count = &layer_count},
        LABELLED_OPTIONS(asked),
        {.name = "training", .flag = &gradients.training},
        {.name = "to", .text = &to},
        {.name = "force", .flag = &force},
        {.name = "json", .flag = &json},
        {.name = "quiet", .flag = &quiet},
    };
    if (!parse_options(&command_gradients, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    int wrong = read_labelled(&command_gradients, &asked, count);
    if (wrong) {
        return wrong;
    }
    LABELLED_FILL(&gradients, &asked);
    const char *data = count > 1 ? arguments[1] : NULL;
    const char *const read[] = {arguments[0], data, asked.labels};
    bool piped = to && output_is_stdout(to);
    if (piped && json) {
        return misuse(&command_gradients, "--to - and --json both print to standard output");
    }
    to = to ? output_place(to, ".csv") : NULL;
    if ((piped && !to) || (to && (check_not_read(to, read, 3, force) ||
                                  check_free(to, force || td_output_is_ours(to))))) {
        return EXIT_BAD;
    }
    char *joined = join_texts(layers, layer_count);
    gradients.layers = joined;
    td_error error = {0};
    td_gradients *result = td_gradients_create(arguments[0], data, &gradients, &error);
    td_status status = result ? TD_OK : error.status;
    if (result && to) {
        status = td_gradients_save(result, to, &error);
    }
    td_names remarks = result ? td_gradients_about(result)->remarks : (td_names){0};
    for (size_t i = 0; !status && !quiet && i < remarks.count; i++) {
        note(remarks.items[i]);
    }
    if (!status && json) {
        print_json(result);
    } else if (!status && !quiet && !piped) {
        print_all(result);
    }
    td_gradients_destroy(result);
    free(joined);
    int ended = status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
    return to ? output_pass(to, ended) : ended;
}

const command command_gradients = {
    .name = "gradients",
    .summary = "a saved model's errors, kernel and bias gradients for one batch",
    .help = help,
    .run = run_gradients,
};
