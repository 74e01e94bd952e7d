/* tapedeck inspect: what a saved model is, and what is unusual about it. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "tables.h"
#include "terminal.h"

#include "tapedeck/model.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck inspect MODEL [--json] [--tensors]\n"
    "\n"
    "Shows what a saved model is and has: its file and format, its layers, and for each parameter "
    "its\n"
    "shape and statistics (over finite values; norm is the L2 norm). MODEL is a run's folder, "
    ".keras,\n"
    ".h5, .onnx, a SavedModel's folder, or a .safetensors file with its architecture. Then what "
    "is\n"
    "unusual, as far as it follows from the parameters with certainty, whatever the data:\n"
    "\n"
    "  error     values that are NaN or infinite; a negative variance\n"
    "  warning   kernels that are all zero or constant; dead units, which always put out 0 (relu, "
    "and\n"
    "            neither a weight nor the bias can lift them above it); units and channels that "
    "put\n"
    "            out a constant\n"
    "  note      batch normalisation whose averages are as before training\n"
    "\n"
    "Weights alone (.safetensors, .npz, .h5, a .pt that torch.save wrote, a checkpoint or a "
    "SavedModel\n"
    "of TensorFlow's) are listed as a table of tensors, with names and types as in the file.\n"
    "\n"
    "  --json     as one JSON object\n"
    "  --tensors  the tensors as the file has them, of a model too: also of one that cannot be "
    "loaded\n"
    "\n"
    "Exit status: 0; 1 when there is an error among the findings, or the file cannot be read.\n"
    "\n"
    "Examples\n"
    "  tapedeck inspect runs/demo\n"
    "  tapedeck inspect model.onnx --json | jq '.findings'\n"
    "\n"
    "More: docs/models.md\n";

/* ---- For people ------------------------------------------------------------------------------ */

/* The parameters as rows, for free(); NULL when memory is exhausted. */
static row *parameter_rows(const td_inspection *about) {
    size_t count = td_model_parameter_count(about->model);
    row *rows = calloc(count + 1, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(about->model, i);
        rows[i] = (row){parameter->name, td_tensor_shape(parameter->tensor),
                        td_tensor_dtype(parameter->tensor), about->stats[i]};
    }
    return rows;
}

static bool print_parameters(const td_inspection *about) {
    row *rows = parameter_rows(about);
    bool good = rows != NULL;
    if (good) {
        print_rows("parameter", rows, td_model_parameter_count(about->model), false);
    }
    free(rows);
    return good;
}

static void print_findings(const td_inspection *about) {
    static const char *const colours[] = {"36", "33", "31"};
    bool colour = terminal_has_colour(stdout);
    if (about->finding_count == 0) {
        printf("nothing unusual\n");
    }
    for (size_t i = 0; i < about->finding_count; i++) {
        const td_finding *finding = &about->findings[i];
        terminal_paint(colour, colours[finding->level]);
        printf("%-7s", td_finding_level_name(finding->level));
        terminal_paint(colour, "0");
        printf("  %s: %s\n", finding->where, finding->text);
    }
}

/* "inputs: width, height, …, depth (12)": all of a few names, the first and the last of many. */
static void print_names(const char *what, const td_names *names) {
    enum { FEW = 12, FIRST = 6 };
    for (size_t i = 0; i < names->count; i++) {
        if (names->count > FEW && i == FIRST) {
            printf(", …");
            i = names->count - 1;
        }
        printf("%s%s%s", i ? ", " : what, i ? "" : ": ", names->items[i]);
    }
    if (names->count > FEW) {
        printf(" (%zu)", names->count);
    }
    if (names->count) {
        (void)fputc('\n', stdout);
    }
}

static void print_data(const td_inspection *about) {
    print_names("inputs", &about->inputs);
    print_names("labels", &about->label);
    print_names("classes", &about->classes);
    if (about->mean) {
        printf("inputs are standardised\n");
    } else if (about->scale != 0 && about->scale != 1) {
        printf("inputs are multiplied by %.9g\n", about->scale);
    }
}

static void print_shapes(const td_inspection *about) {
    char in[TD_SHAPE_TEXT_SIZE], out[TD_SHAPE_TEXT_SIZE];
    printf("takes examples of shape %s\n", td_shape_text(&about->input, in));
    if (about->input_first || about->output_first) {
        printf("puts out %s; as in its file, %s the channels first, layers below have them last\n",
               td_shape_text(&about->output, out),
               about->input_first && about->output_first ? "both have"
               : about->input_first                      ? "the input has"
                                                         : "the output has");
    }
}

static void print_page(const td_inspection *about) {
    char size[32];
    printf("%s: %s, %s\n", about->file, about->format, terminal_bytes(size, (double)about->bytes));
    print_shapes(about);
    print_data(about);
    if (about->origin) {
        printf("began from %s\n", about->origin);
    }
    (void)fputc('\n', stdout);
    (void)td_model_summary_within(about->model, stdout, terminal_room());
    (void)fputc('\n', stdout);
    if (td_model_parameter_count(about->model) && print_parameters(about)) {
        (void)fputc('\n', stdout);
    }
    print_findings(about);
}

/* ---- For programs ---------------------------------------------------------------------------- */

static void print_json_shape(const td_shape *shape) {
    (void)fputc('[', stdout);
    for (int32_t i = 0; i < shape->rank; i++) {
        printf("%s%lld", i ? ", " : "", (long long)shape->dims[i]);
    }
    (void)fputc(']', stdout);
}

static void print_json_names(const char *key, const td_names *names) {
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < names->count; i++) {
        (void)fputs(i ? ", " : "", stdout);
        print_json_text(names->items[i]);
    }
    (void)fputc(']', stdout);
}

static void print_json_floats(const char *key, const float *values, int64_t count) {
    printf(", \"%s\": [", key);
    for (int64_t i = 0; i < count; i++) {
        printf("%s%.9g", i ? ", " : "", (double)values[i]);
    }
    (void)fputc(']', stdout);
}

static void print_json_data(const td_inspection *about) {
    print_json_names("inputs", &about->inputs);
    print_json_names("labels", &about->label);
    print_json_names("classes", &about->classes);
    printf(", \"scale\": %.17g", about->scale != 0 ? about->scale : 1);
    print_json_floats("mean", about->mean, about->normal_count);
    print_json_floats("deviation", about->deviation, about->normal_count);
}

static void print_json_layers(const td_model *model) {
    (void)fputs(", \"layers\": [", stdout);
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_text(layer->name);
        (void)fputs(", \"type\": ", stdout);
        print_json_text(layer->type);
        (void)fputs(", \"output\": ", stdout);
        print_json_shape(&layer->output);
        printf(", \"parameters\": %lld, \"frozen\": %s}", (long long)layer->parameter_elements,
               layer->frozen ? "true" : "false");
    }
    (void)fputs("], \"parameters\": [", stdout);
}

static const char *layout_name(bool first) {
    return first ? "channels_first" : "channels_last";
}

static void print_json(const td_inspection *about) {
    (void)fputs("{\"file\": ", stdout);
    print_json_text(about->file);
    (void)fputs(", \"format\": ", stdout);
    print_json_text(about->format);
    printf(", \"bytes\": %lld, \"origin\": ", (long long)about->bytes);
    if (about->origin) {
        print_json_text(about->origin);
    } else {
        (void)fputs("null", stdout);
    }
    print_json_data(about);
    (void)fputs(", \"name\": ", stdout);
    print_json_text(td_model_name(about->model));
    (void)fputs(", \"input\": ", stdout);
    print_json_shape(&about->input);
    printf(", \"input_layout\": \"%s\", \"output\": ", layout_name(about->input_first));
    print_json_shape(&about->output);
    printf(", \"output_layout\": \"%s\"", layout_name(about->output_first));
    print_json_layers(about->model);
    for (size_t i = 0; i < td_model_parameter_count(about->model); i++) {
        const td_parameter_info *parameter = td_model_parameter_at(about->model, i);
        td_shape shape = td_tensor_shape(parameter->tensor);
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_text(parameter->name);
        printf(", \"trainable\": %s, ", parameter->trainable ? "true" : "false");
        print_json_stats(&shape, &about->stats[i]);
        (void)fputc('}', stdout);
    }
    (void)fputs("], \"findings\": [", stdout);
    for (size_t i = 0; i < about->finding_count; i++) {
        const td_finding *finding = &about->findings[i];
        printf("%s{\"level\": \"%s\", \"where\": ", i ? ", " : "",
               td_finding_level_name(finding->level));
        print_json_text(finding->where);
        (void)fputs(", \"text\": ", stdout);
        print_json_text(finding->text);
        (void)fputc('}', stdout);
    }
    (void)fputs("]}\n", stdout);
}

static int run_inspect(int count, char **arguments) {
    bool json = false, tensors = false;
    const option options[] = {{.name = "json", .flag = &json},
                              {.name = "tensors", .flag = &tensors}};
    if (!parse_options(&command_inspect, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1) {
        return misuse(&command_inspect, "expected one MODEL");
    }
    td_error error = {0};
    if (tensors) {
        return show_table(arguments[0], true, json);
    }
    const td_inspection *about = td_model_inspect(arguments[0], &error);
    if (!about && error.status == TD_NO_MODEL) {
        return show_table(arguments[0], false, json);
    }
    if (!about) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    if (json) {
        print_json(about);
    } else {
        print_page(about);
    }
    int status = about->worst == TD_FINDING_ERROR ? EXIT_BAD : EXIT_GOOD;
    td_inspection_destroy(about);
    return status;
}

const command command_inspect = {
    .name = "inspect",
    .summary = "a saved model's layers and parameters, and what is unusual about them",
    .help = help,
    .run = run_inspect,
};
