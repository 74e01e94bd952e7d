/* The gradients of operators against finite differences, on the inputs of ONNX's own tests.
 *
 * For each test whose first output and some input are float: the derivative of a weighted sum of the
 * output, along a random direction of one input, is what the tape's gradient says. Operators that
 * have no gradient (the tape says so) are those listed here and no others.
 */
#include "graph/run.h"
#include "onnx/onnx.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NODES "/usr/include/onnx/backend/test/data/node"
#define STEP 1e-3

/* Steps, and scattering products. */
static const char *const without_gradient[] = {"Floor",     "Round", "ScatterElements",
                                               "ScatterND", "Sign",  NULL};
/* Tests whose inputs lie on an edge, where equal elements part, or are so large that a
 * step is lost, or that draw other random numbers for every step. */
static const char *const on_an_edge[] = {
    "test_basic_deform_conv_with_padding",
    "test_basic_deform_conv_without_padding",
    "test_cast_FLOAT_to_FLOAT4E2M1",
    "test_cast_e8m0_FLOAT_to_FLOAT8E8M0",
    "test_castlike_FLOAT_to_FLOAT4E2M1",
    "test_deform_conv_with_multiple_offset_groups",
    "test_l2normalization_axis_0",
    "test_leakyrelu_example",
    "test_logsoftmax_large_number",
    "test_maxpool_3d_dilations",
    "test_maxpool_3d_dilations_use_ref_impl",
    "test_selu_example",
    "test_softmax_large_number",
    "test_thresholdedrelu_example",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_default_mask",
    "test_training_dropout_mask",
    "test_unique_not_sorted_without_axis",
    "test_unique_sorted_with_axis",
    "test_unique_sorted_with_axis_3d",
    "test_unique_sorted_with_negative_axis",
    "test_unique_sorted_without_axis",
    NULL,
};

enum { MOST_INPUTS = 16, LONGEST = 4096 };

typedef struct test_case {
    const char *name;
    td__graph *graph;
    td__graph_run *run;
    td_tape *tape;
    td__graph_constant inputs[MOST_INPUTS];
    td__chunk *memory[MOST_INPUTS];
} test_case;

static bool is_listed(const char *const *list, const char *name) {
    for (; *list; list++) {
        if (strcmp(*list, name) == 0) {
            return true;
        }
    }
    return false;
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    char *bytes = NULL;
    if (file && fstat(fileno(file), &status) == 0 && (bytes = malloc((size_t)status.st_size + 1))) {
        *size = fread(bytes, 1, (size_t)status.st_size, file);
    }
    if (file) {
        (void)fclose(file);
    }
    return bytes;
}

static bool open_case(test_case *c, const char *folder) {
    char path[LONGEST];
    size_t size = 0;
    td_error error = {0};
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    void *bytes = read_file(path, &size);
    c->graph = bytes ? td__onnx_parse(bytes, size, path, &error) : NULL;
    free(bytes);
    c->run = c->graph && c->graph->input_count <= MOST_INPUTS
                 ? td__graph_run_create(c->graph, &error)
                 : NULL;
    c->tape = c->run ? td_tape_create(NULL, &error) : NULL;
    bool all = c->tape;
    for (size_t i = 0; all && i < c->graph->input_count; i++) {
        (void)snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, i);
        bytes = read_file(path, &size);
        all = bytes && !td__onnx_parse_tensor(bytes, size, &c->inputs[i], &c->memory[i], &error);
        free(bytes);
    }
    return all;
}

static void close_case(test_case *c) {
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        td_tensor_destroy(c->inputs[i].tensor);
        td__chunks_free(c->memory[i]);
    }
    td_tape_destroy(c->tape);
    td__graph_run_destroy(c->run);
    td__graph_destroy(c->graph);
}

/* The same for every call: between -1 and 1, depending on both. */
static double noise(int64_t i, int64_t salt) {
    uint64_t bits =
        ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)(salt + 1) * 0xD1B54A32D192ED03u;
    bits ^= bits >> 31;
    bits *= 0x94D049BB133111EBu;
    return (double)(bits >> 11) / 0x1p52 - 1;
}

/* The first output, in the form it was made in; NULL when the graph does not run. */
static td_tensor *run_case(test_case *c) {
    td_tape_reset(c->tape);
    td__graph_run_begin(c->run);
    for (size_t i = 0; i < c->graph->input_count; i++) {
        td__graph_run_set(c->run, i, c->inputs[i].type, c->inputs[i].tensor);
    }
    if (!td__graph_run_nodes(c->run, c->tape, 0, c->graph->node_count)) {
        return NULL;
    }
    const td__graph_value *value = td__graph_run_value(c->run, c->graph->outputs[0]);
    return value->plain ? value->plain : value->channels_last;
}

static double weighted_sum(const td_tensor *y) {
    double sum = 0;
    for (int64_t i = 0; i < td_tensor_count(y); i++) {
        sum += noise(i, 7) * (double)((float *)td_tensor_data(y))[i];
    }
    return sum;
}

/* Adds scale times the direction to input i. */
static void move(test_case *c, size_t input, double scale, const float *from) {
    float *to = td_tensor_data(c->inputs[input].tensor);
    for (int64_t i = 0; i < td_tensor_count(c->inputs[input].tensor); i++) {
        to[i] = (float)((double)from[i] + scale * noise(i, (int64_t)input));
    }
}

static double measured(test_case *c, size_t input) {
    td_tensor *x = c->inputs[input].tensor;
    size_t bytes = (size_t)td_tensor_count(x) * sizeof(float);
    float *from = malloc(bytes + 1);
    memcpy(from, td_tensor_data(x), bytes);
    move(c, input, STEP, from);
    const td_tensor *y = run_case(c);
    double above = y ? weighted_sum(y) : NAN;
    move(c, input, -STEP, from);
    y = run_case(c);
    double below = y ? weighted_sum(y) : NAN;
    memcpy(td_tensor_data(x), from, bytes);
    free(from);
    return (above - below) / (2 * STEP);
}

typedef enum finding { NOTHING, AGREES, NO_GRADIENT, DIFFERS } finding;

/* The tape's derivative along the direction. */
static bool derived(test_case *c, size_t input, double *derivative, bool *connected) {
    td_error error = {0};
    td_tensor *y = run_case(c), *x = c->inputs[input].tensor, *gradient;
    td_tensor *weights = y ? td_tensor_create("w", TD_FLOAT32, td_tensor_shape(y), &error) : NULL;
    for (int64_t i = 0; weights && i < td_tensor_count(weights); i++) {
        ((float *)td_tensor_data(weights))[i] = (float)noise(i, 7);
    }
    td_tensor *loss = weights ? td_sum(c->tape, td_multiply(c->tape, y, weights), NULL) : NULL;
    bool fine = loss && !td_tape_gradient(c->tape, loss, 1, &x, &gradient, &error);
    *connected = fine && !td_tensor_is_disconnected(gradient);
    *derivative = 0;
    for (int64_t i = 0; *connected && i < td_tensor_count(gradient); i++) {
        *derivative += noise(i, (int64_t)input) * (double)((float *)td_tensor_data(gradient))[i];
    }
    td_tape_reset(c->tape);
    td_tensor_destroy(weights);
    return fine;
}

static finding check_input(test_case *c, size_t input) {
    double expected = measured(c, input), got;
    bool connected;
    if (!derived(c, input, &got, &connected) || !isfinite(expected)) {
        return NOTHING;
    }
    double tolerance = 0.02 * (fabs(expected) + fabs(got)) + 0.02;
    if (!connected) {
        return fabs(expected) > tolerance ? NO_GRADIENT : NOTHING;
    }
    if (fabs(expected - got) <= tolerance) {
        return AGREES;
    }
    if (!is_listed(on_an_edge, c->name)) {
        printf("%s, input %zu: the tape says %g, differences %g\n", c->name, input, got, expected);
        return DIFFERS;
    }
    return NOTHING;
}

static void check_case(test_case *c, int counts[DIFFERS + 1]) {
    const td_tensor *y = run_case(c);
    const char *op_type = c->graph->node_count ? c->graph->nodes[0].op_type : "";
    if (!y || td_tensor_dtype(y) != TD_FLOAT32) {
        return;
    }
    for (size_t i = 0; i < c->graph->input_count; i++) {
        td__graph_type type = c->inputs[i].type;
        if (type != TD__GRAPH_FLOAT || td_tensor_count(c->inputs[i].tensor) == 0) {
            continue;
        }
        finding found = check_input(c, i);
        if (found == NO_GRADIENT && !is_listed(without_gradient, op_type)) {
            printf("%s, input %zu: %s has no gradient\n", c->name, i, op_type);
            found = DIFFERS;
        }
        counts[found]++;
    }
}

/* test_gradients [FOLDER]: of other tests than Debian's. */
int main(int argument_count, char **arguments) {
    const char *nodes = argument_count > 1 ? arguments[1] : NODES;
    struct dirent **entries;
    int count = scandir(nodes, &entries, NULL, alphasort), counts[DIFFERS + 1] = {0};
    if (count < 0) {
        printf("%s is not there; Debian's package libonnx-testdata has ONNX's tests\n", nodes);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        char folder[LONGEST];
        test_case c = {.name = entries[i]->d_name};
        (void)snprintf(folder, sizeof folder, "%s/%s", nodes, c.name);
        if (*c.name != '.' && !strstr(c.name, "_expanded") && open_case(&c, folder)) {
            check_case(&c, counts);
        }
        close_case(&c);
        free(entries[i]);
    }
    free(entries);
    printf("%d gradients agree, %d differ\n", counts[AGREES], counts[DIFFERS]);
    return counts[DIFFERS] || counts[AGREES] < 650;
}
