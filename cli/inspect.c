/* tapedeck inspect: what a saved model is, and what is unusual about it. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "terminal.h"

#include "tapedeck/model.h"

#include <limits.h>
#include <string.h>

static const char help[] =
    "tapedeck inspect MODEL [--json]\n"
    "\n"
    "Shows what a saved model is and has: its file and format, its layers, and for each parameter "
    "its\n"
    "shape and statistics (over finite values; norm is the L2 norm). MODEL is a run's folder, "
    ".keras,\n"
    ".h5, .onnx, or a .safetensors file with its architecture. Then what is unusual, as far as it\n"
    "follows from the parameters with certainty, whatever the data:\n"
    "\n"
    "  error     values that are NaN or infinite; a negative variance\n"
    "  warning   kernels that are all zero or constant; dead units, which always put out 0 (relu, "
    "and\n"
    "            neither a weight nor the bias can lift them above it); units and channels that "
    "put\n"
    "            out a constant\n"
    "  note      batch normalisation whose averages are as before training\n"
    "\n"
    "  --json    as one JSON object\n"
    "\n"
    "Exit status: 0; 1 when there is an error among the findings, or the file cannot be read.\n"
    "\n"
    "Examples\n"
    "  tapedeck inspect runs/demo\n"
    "  tapedeck inspect model.onnx --json | jq '.findings'\n"
    "\n"
    "More: docs/models.md\n";

/* ---- For people ------------------------------------------------------------------------------ */

static int width_of_names(const td_model *model, int most) {
    size_t width = strlen("parameter");
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        size_t length = strlen(td_model_parameter_at(model, i)->name);
        width = length > width ? length : width;
    }
    return width < (size_t)most ? (int)width : most;
}

/* Which of its columns the table of parameters has room for. */
typedef struct columns {
    int name;
    bool counts;    /* count and zeros */
    int statistics; /* the first so many */
} columns;

enum { STATISTICS = 5, STATISTIC = 12, SHAPE = 20 };

static columns lay_out(const td_inspection *about) {
    enum { LONGEST = 60, SHORTEST = 12, COUNTS = 24 };
    int room = terminal_room();
    columns c = {width_of_names(about->model, room == INT_MAX ? LONGEST : room), true, STATISTICS};
    if (c.name + SHAPE + COUNTS + STATISTICS * STATISTIC <= room) {
        return c;
    }
    int most = room - SHAPE - 2 * STATISTIC;
    c.counts = false;
    c.name = width_of_names(about->model, most < SHORTEST ? SHORTEST : most);
    int fit = (room - c.name - SHAPE) / STATISTIC;
    c.statistics = fit < 0 ? 0 : fit < STATISTICS ? fit : STATISTICS;
    return c;
}

static void print_parameter(const columns *c, const td_parameter_info *parameter,
                            const td_stats *stats) {
    const double values[STATISTICS] = {stats->mean, stats->std, stats->min, stats->max,
                                       stats->norm};
    char shape[TD_SHAPE_TEXT_SIZE];
    td_shape dims = td_tensor_shape(parameter->tensor);
    if (c->counts) {
        printf("%-*s", c->name, parameter->name);
    } else {
        terminal_print_name(parameter->name, c->name);
    }
    printf("  %-18s", td_shape_text(&dims, shape));
    if (c->counts) {
        printf(" %12lld", (long long)stats->count);
    }
    for (int i = 0; i < c->statistics; i++) {
        printf(" %11.4g", values[i]);
    }
    if (c->counts) {
        printf(" %10lld", (long long)stats->zeros);
    }
    putchar('\n');
}

static void print_parameters(const td_inspection *about) {
    static const char *const names[STATISTICS] = {"mean", "std", "min", "max", "norm"};
    columns c = lay_out(about);
    printf("%-*s  %-18s", c.name, "parameter", "shape");
    (void)fputs(c.counts ? "        count" : "", stdout);
    for (int i = 0; i < c.statistics; i++) {
        printf(" %11s", names[i]);
    }
    (void)fputs(c.counts ? "      zeros\n" : "\n", stdout);
    for (size_t i = 0; i < td_model_parameter_count(about->model); i++) {
        print_parameter(&c, td_model_parameter_at(about->model, i), &about->stats[i]);
    }
    if (!c.counts) {
        printf("(a wider terminal, or --json, has all columns)\n");
    }
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
    if (td_model_parameter_count(about->model)) {
        print_parameters(about);
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

static int run(int count, char **arguments) {
    bool json = false;
    const option options[] = {{.name = "json", .flag = &json}};
    if (!parse_options(&command_inspect, options, 1, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1) {
        return misuse(&command_inspect, "expected one MODEL");
    }
    td_error error = {0};
    const td_inspection *about = td_model_inspect(arguments[0], &error);
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
    .run = run,
};
