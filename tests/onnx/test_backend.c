/* ONNX's own tests (Debian's libonnx-testdata): folders with a model, inputs, and the outputs that
 * the reference implementation gave.
 *
 *   test_backend [-v] [FOLDER…]     each FOLDER is a set of tests or one test; default: all sets, and
 *                                   those that tests/fixtures/make_onnx_nodes.py and
 *                                   make_models_sklearn.py made
 *
 * A test has passed when every output of every data set was compared: type and shape equal, floats
 * within ONNX's own tolerances, integers and text equal; of random numbers type and shape alone. It is unsupported when we say so (TD_UNSUPPORTED);
 * everything else is a failure. The exit status is 0 when nothing failed and, of the default sets,
 * at least as many passed as did when this was last changed. -v lists what is not supported.
 */
#include "base/proto.h"
#include "graph/run.h"
#include "onnx/onnx.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DATA "/usr/include/onnx/backend/test/data"
#define RELATIVE 1e-3
#define ABSOLUTE 1e-7

static const struct {
    const char *folder;
    int least; /* that must pass */
} sets[] = {
    {DATA "/node", 931},
    {DATA "/simple", 21},
    {DATA "/pytorch-converted", 82},
    {DATA "/pytorch-operator", 35},
    {TD_TEST_FOLDER "/fixtures/onnx_nodes", 78}, /* onnxruntime's own operators, scikit-learn's */
};

/* Tests that are wrong in the package, and what is wrong with them: not supported. */
static const struct {
    const char *name, *why;
} mistakes[] = {
    {"test_adam_multiple", "its outputs were made with an epsilon that its model does not say"},
};

typedef enum test_outcome { PASSED, UNSUPPORTED, FAILED, OUTCOMES } test_outcome;

/* What became of one test. */
typedef struct test_report {
    test_outcome outcome;
    size_t compared; /* outputs */
    char text[TD_ERROR_TEXT_SIZE];
} test_report;

static void __attribute__((format(printf, 3, 4)))
conclude(test_report *report, td_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report->outcome = status == TD_UNSUPPORTED ? UNSUPPORTED : FAILED;
    vsnprintf(report->text, sizeof report->text, format, arguments);
    va_end(arguments);
}

/* --- files -------------------------------------------------------------------------------- */

typedef struct file_bytes {
    char *data;
    size_t size;
} file_bytes;

/* data is NULL when there is no such file. */
static file_bytes load(const char *path) {
    file_bytes loaded = {0};
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (file && fstat(fileno(file), &status) == 0) {
        loaded.size = (size_t)status.st_size;
        loaded.data = malloc(loaded.size + 1);
        if (loaded.data && fread(loaded.data, 1, loaded.size, file) != loaded.size) {
            free(loaded.data);
            loaded.data = NULL;
        }
    }
    if (file) {
        fclose(file);
    }
    return loaded;
}

/* A value of a data set, and what it lies in. */
typedef struct given {
    td__graph_value value; /* of tensors, plain */
    td__graph_list *list;
    td_tensor **tensors;
    void **memories;
    size_t count;
} given;

static void given_release(given *g) {
    for (size_t i = 0; i < g->count; i++) {
        td_tensor_destroy(g->tensors[i]);
        td__chunks_free(g->memories[i]);
    }
    free(g->tensors);
    free(g->memories);
    free(g->list);
    *g = (given){0};
}

/* The next tensor, into *value. */
static td_status read_tensor(given *g, td__proto message, td__graph_value *value, td_error *error) {
    td__graph_constant constant = {0};
    td__chunk *memory = NULL;
    td_status status = td__onnx_parse_tensor(message.p, (size_t)(message.end - message.p),
                                             &constant, &memory, error);
    g->tensors = realloc(g->tensors, (g->count + 1) * sizeof *g->tensors);
    g->memories = realloc(g->memories, (g->count + 1) * sizeof *g->memories);
    g->tensors[g->count] = constant.tensor;
    g->memories[g->count++] = memory;
    *value = (td__graph_value){.type = constant.type, .plain = constant.tensor};
    return status;
}

/* SequenceProto of tensors. */
static td_status read_sequence(given *g, td__proto message, td_error *error) {
    td__proto rest = message;
    size_t count = 0;
    for (td__proto_field field; td__proto_next(&rest, &field);) {
        count += field.number == 3;
    }
    g->list = calloc(1, sizeof *g->list + count * sizeof(td__graph_value));
    td_status status = TD_OK;
    for (td__proto_field field; !status && td__proto_next(&message, &field);) {
        if (field.number == 3) {
            status = read_tensor(g, td__proto_in(&field), &g->list->items[g->list->count++], error);
        }
    }
    g->value = (td__graph_value){.list = g->list};
    return status;
}

/* OptionalProto: nothing, a tensor or a sequence. */
static td_status read_optional(given *g, td__proto message, td_error *error) {
    g->value = (td__graph_value){.none = true};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == 3) {
            return read_tensor(g, td__proto_in(&field), &g->value, error);
        }
        if (field.number == 5) {
            return read_sequence(g, td__proto_in(&field), error);
        }
    }
    return TD_OK;
}

/* input_3.pb, output_0.pb; false when there is none or (report) it cannot be read. */
static bool load_given(const char *folder, const char *role, size_t number,
                       const td__graph_info *info, given *g, test_report *report) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, role, number);
    file_bytes file = load(path);
    if (!file.data) {
        return false;
    }
    td_error error = {0};
    td__proto message = td__proto_of(file.data, file.size);
    td_status status = info->kind == TD__GRAPH_KIND_SEQUENCE ? read_sequence(g, message, &error)
                       : info->kind == TD__GRAPH_KIND_OPTIONAL
                           ? read_optional(g, message, &error)
                           : read_tensor(g, message, &g->value, &error);
    free(file.data);
    if (status) {
        conclude(report, status, "%s_%zu.pb: %s", role, number, error.text);
    }
    return !status;
}

/* The files have bfloat16, which numpy has not, as the bits of uint16. */
static void as_declared(td__graph_type declared, given *g) {
    if (declared != TD__GRAPH_BFLOAT16 || g->value.type != TD__GRAPH_UINT16) {
        return;
    }
    td_tensor *bits = g->value.plain;
    td_tensor *numbers = td_tensor_create("", TD_FLOAT32, td_tensor_shape(bits), NULL);
    for (int64_t i = 0; i < td_tensor_count(bits); i++) {
        uint32_t word = (uint32_t)((int64_t *)td_tensor_data(bits))[i] << 16;
        memcpy((float *)td_tensor_data(numbers) + i, &word, sizeof word);
    }
    td_tensor_destroy(bits);
    g->tensors[0] = numbers;
    g->value = (td__graph_value){.type = TD__GRAPH_BFLOAT16, .plain = numbers};
}

/* --- comparing ---------------------------------------------------------------------------- */

static double element(const td_tensor *tensor, int64_t i) {
    return td_tensor_dtype(tensor) == TD_FLOAT32 ? (double)((float *)td_tensor_data(tensor))[i]
                                                 : ((double *)td_tensor_data(tensor))[i];
}

/* Two units of the last digit: what ONNX's own runner grants bfloat16, because intermediate results were
 * rounded (in older files: cut) to it in another order than ours; numpy adds float16 in float16. */
static double relative_of(td__graph_type type) {
    return type == TD__GRAPH_BFLOAT16 ? 0x1p-6 : type == TD__GRAPH_FLOAT16 ? 0x1p-9 : RELATIVE;
}

static bool is_near(double got, double wanted, double relative, double absolute) {
    return (isnan(got) && isnan(wanted)) || got == wanted ||
           fabs(got - wanted) <= absolute + relative * fabs(wanted);
}

/* What is zero but for rounding is so beside the largest: a unit of float's last digit of that. */
static double absolute_of(const td_tensor *wanted) {
    double most = 0;
    for (int64_t i = 0; td_tensor_dtype(wanted) != TD_INT64 && i < td_tensor_count(wanted); i++) {
        double each = fabs(element(wanted, i));
        most = isfinite(each) && each > most ? each : most;
    }
    return fmax(ABSOLUTE, 0x1p-23 * most);
}

static void compare_values(const td_tensor *got, const td_tensor *wanted, td__graph_type type,
                           size_t output, test_report *report) {
    int64_t different = 0, count = td_tensor_count(wanted);
    double most = 0, absolute = absolute_of(wanted);
    for (int64_t i = 0; i < count; i++) {
        if (type == TD__GRAPH_STRING) {
            different += strcmp(td__graph_text_at(got, i), td__graph_text_at(wanted, i)) != 0;
        } else if (td_tensor_dtype(wanted) == TD_INT64) {
            int64_t a = ((int64_t *)td_tensor_data(got))[i];
            int64_t b = ((int64_t *)td_tensor_data(wanted))[i];
            different += a != b;
            most = fmax(most, fabs((double)a - (double)b));
        } else {
            double a = element(got, i), b = element(wanted, i);
            bool near = is_near(a, b, relative_of(type), absolute);
            different += !near;
            most = isnan(a - b) && !near ? INFINITY : fmax(most, fabs(a - b));
        }
    }
    if (different) {
        conclude(report, TD_OK, "output %zu: %lld of %lld values differ, by up to %g", output,
                 (long long)different, (long long)count, most);
    }
}

/* The value in ONNX's layout. */
static td_tensor *plain(td_tape *tape, const td__graph_value *value) {
    if (value->plain || !value->channels_last) {
        return value->plain;
    }
    int32_t rank = td_tensor_shape(value->channels_last).rank;
    int32_t permutation[TD_MAX_RANK] = {0, rank - 1};
    for (int32_t i = 2; i < rank; i++) {
        permutation[i] = i - 1;
    }
    return td_transpose(tape, value->channels_last, permutation);
}

static void compare(td_tape *tape, const td__graph_value *value, const td__graph_value *wanted,
                    size_t output, bool random, test_report *report) {
    if (wanted->list || wanted->none) {
        bool fits =
            wanted->none ? value->none : value->list && value->list->count == wanted->list->count;
        if (!fits) {
            conclude(report, TD_OK, "output %zu is no such %s", output,
                     wanted->none ? "optional value" : "sequence");
        }
        for (int64_t i = 0; fits && wanted->list && i < wanted->list->count; i++) {
            compare(tape, &value->list->items[i], &wanted->list->items[i], output, random, report);
        }
        report->compared++;
        return;
    }
    const td_tensor *got = plain(tape, value);
    if (!got) {
        conclude(report, TD_OK, "output %zu was not made", output);
        return;
    }
    td_shape a = td_tensor_shape(got), b = td_tensor_shape(wanted->plain);
    char first[TD_SHAPE_TEXT_SIZE], second[TD_SHAPE_TEXT_SIZE];
    if (value->type != wanted->type || td_tensor_dtype(got) != td_tensor_dtype(wanted->plain) ||
        !td_shape_equal(&a, &b)) {
        conclude(report, TD_OK, "output %zu is %s %s, not %s %s", output,
                 td__graph_type_name(value->type), td_shape_text(&a, first),
                 td__graph_type_name(wanted->type), td_shape_text(&b, second));
        return;
    }
    if (!random) {
        compare_values(got, wanted->plain, wanted->type, output, report);
    }
    report->compared++;
}

/* --- one test ----------------------------------------------------------------------------- */

enum { MOST_INPUTS = 64 };

/* Whether outputs depend on numbers drawn by another library: then only their types and shapes are
 * compared. */
static bool is_random(const td__graph *graph) {
    static const char *const words[] = {"Bernoulli", "Random", "Multinomial"};
    bool random = false;
    for (size_t n = 0; n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            random = random || !strncmp(node->op_type, words[i], strlen(words[i]));
        }
        random = random || (!strcmp(node->op_type, "Dropout") && node->input_count > 2);
    }
    return random;
}

/* Runs the graph on the inputs of a data set and compares its outputs. */
static void run_data_set(const td__graph *graph, td__graph_run *run, td_tape *tape,
                         const char *folder, test_report *report) {
    given inputs[MOST_INPUTS] = {0};
    size_t count = 0;
    td__graph_run_begin(run);
    while (count < graph->input_count && count < MOST_INPUTS) {
        const td__graph_info *info = &graph->values[graph->inputs[count]];
        if (!load_given(folder, "input", count, info, &inputs[count], report)) {
            break;
        }
        as_declared(info->type, &inputs[count]);
        td__graph_run_set_value(run, count, inputs[count].value);
        count++;
    }
    if (report->outcome == PASSED && count != graph->input_count) {
        conclude(report, TD_OK, "%zu of %zu inputs given", count, graph->input_count);
    }
    if (report->outcome == PASSED && !td__graph_run_nodes(run, tape, 0, graph->node_count)) {
        td_error error = {0};
        td_status status = td_tape_status(tape, &error);
        conclude(report, status, "%s (%s)", error.text, td_status_text(status));
    }
    for (size_t i = 0; report->outcome == PASSED && i < graph->output_count; i++) {
        given wanted = {0};
        const td__graph_info *info = &graph->values[graph->outputs[i]];
        if (load_given(folder, "output", i, info, &wanted, report)) {
            as_declared(info->type, &wanted);
            compare(tape, td__graph_run_value(run, graph->outputs[i]), &wanted.value, i,
                    is_random(graph), report);
        } else if (report->outcome == PASSED) {
            conclude(report, TD_OK, "the expected output %zu is missing", i);
        }
        given_release(&wanted);
    }
    td_tape_reset(tape);
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        given_release(&inputs[i]);
    }
}

static void run_graph(const td__graph *graph, const char *folder, test_report *report) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__graph_run *run = tape ? td__graph_run_create(graph, &error) : NULL;
    if (!run) {
        conclude(report, error.status, "%s", error.text);
    }
    for (int set = 0; run && report->outcome == PASSED; set++) {
        char path[4096];
        struct stat status;
        snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
        if (stat(path, &status) != 0) {
            break;
        }
        run_data_set(graph, run, tape, path, report);
    }
    if (report->outcome == PASSED && !report->compared) {
        conclude(report, TD_OK, "there was nothing to compare");
    }
    td__graph_run_destroy(run);
    td_tape_destroy(tape);
}

static test_report run_test(const char *folder) {
    test_report report = {.outcome = PASSED};
    char path[4096];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    file_bytes file = load(path);
    td_error error = {0};
    td__graph *graph = file.data ? td__onnx_parse(file.data, file.size, path, &error) : NULL;
    free(file.data);
    if (graph) {
        run_graph(graph, folder, &report);
    } else {
        conclude(&report, error.status, "%s", error.text[0] ? error.text : "model.onnx is missing");
    }
    td__graph_destroy(graph);
    return report;
}

/* --- sets --------------------------------------------------------------------------------- */

static bool is_test(const char *folder) {
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    return stat(path, &status) == 0;
}

static void count_test(const char *folder, bool verbose, int counts[OUTCOMES]) {
    test_report report = run_test(folder);
    const char *name = strrchr(folder, '/');
    for (size_t i = 0; name && i < sizeof mistakes / sizeof *mistakes; i++) {
        if (report.outcome == FAILED && !strcmp(name + 1, mistakes[i].name)) {
            conclude(&report, TD_UNSUPPORTED, "%s", mistakes[i].why);
        }
    }
    counts[report.outcome]++;
    if (report.outcome == FAILED || (verbose && report.outcome == UNSUPPORTED)) {
        printf("%s %s: %s\n", report.outcome == FAILED ? "FAILED" : "unsupported",
               name ? name + 1 : folder, report.text);
    }
}

/* False when there is no such folder. */
static bool run_set(const char *folder, bool verbose, int counts[OUTCOMES]) {
    struct dirent **entries;
    if (is_test(folder)) {
        count_test(folder, verbose, counts);
        return true;
    }
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && is_test(path)) {
            count_test(path, verbose, counts);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return count >= 0;
}

static bool report_set(const char *folder, int least, bool verbose) {
    int counts[OUTCOMES] = {0};
    if (!run_set(folder, verbose, counts)) {
        printf("%s: %s; Debian's package libonnx-testdata has ONNX's tests\n", folder,
               strerror(errno));
        return false;
    }
    printf("%-24s %4d passed, %4d not supported, %4d failed", strrchr(folder, '/') + 1,
           counts[PASSED], counts[UNSUPPORTED], counts[FAILED]);
    printf(counts[PASSED] < least ? "; at least %d must pass\n" : "\n", least);
    return !counts[FAILED] && counts[PASSED] >= least;
}

int main(int argc, char **argv) {
    bool verbose = argc > 1 && !strcmp(argv[1], "-v");
    int first = verbose ? 2 : 1;
    bool good = true;
    for (int i = first; i < argc; i++) {
        good &= report_set(argv[i], 0, verbose);
    }
    for (size_t i = 0; first >= argc && i < sizeof sets / sizeof *sets; i++) {
        good &= report_set(sets[i].folder, sets[i].least, verbose);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
