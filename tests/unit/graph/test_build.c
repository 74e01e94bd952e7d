/* Graphs from lists of operators, and what the codec writes and reads of them. */
#include "graph/build.h"
#include "onnx/write.h"
#include "tensor/tensor.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static td__operators *list_of_one(const char *input, const char *output) {
    td__operators *list = td__operators_create();
    td__operators_begin(list, "layer");
    td__operators_port(list, false, input, TD_FLOAT32, &TD_SHAPE(-1, 3));
    const char *y = TD__OPERATOR(list, "Relu", input);
    td__operators_rename(list, y, output);
    td__operators_port(list, true, output, TD_FLOAT32, &TD_SHAPE(-1, 3));
    return list;
}

static td__graph *build(td__operators *list, td_error *error) {
    td__graph *graph = td__graph_build(list, "network", error);
    td__operators_destroy(list);
    return graph;
}

static void names_become_numbers(void **state) {
    (void)state;
    td_error error = {0};
    td__operators *list = list_of_one("x", "y");
    const char *with = td__operator_integers(list, 2, (const int64_t[]){7, -8});
    td__graph *graph = build(list, &error);
    assert_non_null(graph);
    (void)with; /* the list's */
    assert_string_equal(graph->name, "network");
    assert_int_equal(graph->input_count, 1);
    assert_int_equal(graph->output_count, 1);
    assert_int_equal(graph->node_count, 2);
    assert_string_equal(graph->values[graph->inputs[0]].name, "x");
    assert_string_equal(graph->values[graph->outputs[0]].name, "y");
    assert_int_equal(graph->values[graph->outputs[0]].shape.dims[0], -1);
    assert_int_equal(graph->nodes[0].inputs[0], graph->inputs[0]);
    assert_int_equal(graph->nodes[1].inputs[0], graph->nodes[0].outputs[0]);
    const td__graph_info *constant = &graph->values[1]; /* inputs, constants, what nodes make */
    assert_int_equal(constant->type, TD__GRAPH_INT64);
    assert_int_equal(((const int64_t *)constant->constant.tensor->data)[1], -8);
    td__graph_destroy(graph);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    td_error error = {0};
    td__operators *list = list_of_one("x", "y");
    td__operators_rename(list, "x", "y");
    assert_null(build(list, &error));
    assert_string_equal(error.text, "value 'y' is made twice");

    list = list_of_one("x", "y");
    td__operators_rename(list, "nowhere", "z");
    assert_null(build(list, &error));
    assert_string_equal(error.text, "nothing makes value 'nowhere' before z");

    list = list_of_one("x", "y");
    td__operators_rename(list, "later", "z");
    td__operators_rename(list, "x", "later");
    assert_null(build(list, &error));
    assert_string_equal(error.text, "nothing makes value 'later' before z");

    list = list_of_one("x", "y");
    td__operators_port(list, true, "other", TD_FLOAT32, &TD_SHAPE(1));
    assert_null(build(list, &error));
    assert_string_equal(error.text, "nothing makes output 'other'");
}

static const int64_t wide[] = {300, -1, 2};

/* Constants of few bits keep to their type. */
static void check_thing(const td__graph *graph) {
    const td__graph_node *node = &graph->nodes[2];
    const int64_t *kept = graph->values[1].constant.tensor->data, *ints;
    assert_int_equal(graph->values[1].type, TD__GRAPH_UINT8);
    assert_int_equal(kept[0], 300 - 256);
    assert_int_equal(kept[1], 255);
    assert_string_equal(node->op_type, "Thing");
    assert_int_equal(node->inputs[1], -1);
    assert_int_equal(node->inputs[2], 1);
    assert_float_equal(td__graph_float(node, "alpha", 0), 0.25f, 0);
    assert_int_equal(td__graph_int(node, "axis", 0), -3);
    assert_string_equal(td__graph_text(node, "mode", ""), "linear");
    assert_int_equal(td__graph_ints(node, "ints", &ints), 3);
    assert_int_equal(ints[0], 300);
    assert_float_equal(td__graph_attribute_of(node, "floats")->numbers[1], -2, 0);
    assert_string_equal(td__graph_attribute_of(node, "words")->texts[1], "b");
    const td_tensor *value = td__graph_attribute_of(node, "value")->constant.tensor;
    assert_float_equal(((const float *)value->data)[0], 9, 0);
    assert_int_equal(td__graph_int(node, "to", 0), TD__GRAPH_BOOL);
    assert_int_equal(graph->opset, 17);
    assert_int_equal(graph->values[graph->inputs[0]].shape.dims[0], -1);
    assert_int_equal(graph->values[graph->outputs[0]].shape.dims[1], 3);
}

static void a_written_graph_is_read_again(void **state) {
    (void)state;
    td_error error = {0};
    td__operators *list = list_of_one("x", "y");
    assert_non_null(td__operators_tensor(
        list, "bytes", TD_UINT8, td_tensor_from("bytes", TD_INT64, TD_SHAPE(3), wide, NULL)));
    const float numbers[] = {0.5f, -2};
    const td__attribute attributes[] = {
        {.name = "alpha", .type = TD__REAL, .number = 0.25f},
        {.name = "axis", .type = TD__INT, .integer = -3},
        {.name = "mode", .type = TD__STRING, .text = "linear"},
        {.name = "ints", .type = TD__INTS, .integers = wide, .count = 3},
        {.name = "floats", .type = TD__REALS, .numbers = numbers, .count = 2},
        {.name = "words", .type = TD__STRINGS, .texts = (const char *[]){"a", "b"}, .count = 2},
        {.name = "value", .type = TD__TENSOR, .number = 9},
        {.name = "to", .type = TD__DTYPE, .dtype = TD_BOOL}};
    assert_non_null(td__operator(list, "Thing", 3, (const char *const[]){"x", "", "bytes"},
                                 sizeof attributes / sizeof *attributes, attributes));
    td__graph *graph = build(list, &error);
    assert_non_null(graph);
    check_thing(graph);

    td__onnx_writing w = {.graph = graph};
    td__onnx_output length = {0}, out;
    td__onnx_put_graph_file(&w, &length);
    out = (td__onnx_output){.memory = calloc(1, length.size)};
    td__onnx_put_graph_file(&w, &out);
    assert_int_equal(out.size, length.size);
    td__graph_destroy(graph);
    assert_true(td__onnx_recognise(out.memory, out.size));
    graph = td__onnx_parse(out.memory, out.size, NULL, &error);
    assert_non_null(graph);
    check_thing(graph);
    td__graph_destroy(graph);
    free(out.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_numbers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_written_graph_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
