/* Reading ONNX's files: values, nodes, attributes and constants as they were written. */
#include "test.h"

#include "onnx_bytes.h"

#include "onnx/onnx.h"
#include "tensor/tensor.h"

static td__graph *parse(proto_bytes model, td_error *error) {
    *error = (td_error){0};
    td__graph *graph = td__onnx_parse(model.data, model.size, NULL, error);
    free(model.data);
    return graph;
}

static td__graph *parse_graph(proto_bytes graph) {
    td_error error;
    td__graph *parsed = parse(model_of(graph, 13), &error);
    if (!parsed) {
        fail_msg("%s", error.text);
    }
    return parsed;
}

/* y = Relu(x w) */
static proto_bytes small_graph(void) {
    proto_bytes graph = {0};
    float w[] = {1, 2, 3, 4, 5, 6};
    put_text(&graph, 2, "small");
    put_message(&graph, 1, node_of("MatMul", "x w", "h"));
    put_message(&graph, 1, node_of("Relu", "h", "y"));
    put_message(&graph, 5, tensor_of("w", TD__GRAPH_FLOAT, 2, (int64_t[]){3, 2}, w, sizeof w));
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 2, (int64_t[]){-1, 3}));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 2, (int64_t[]){-1, 2}));
    return graph;
}

static void graph_has_numbered_values(void **state) {
    (void)state;
    td__graph *graph = parse_graph(small_graph());
    assert_string_equal(graph->name, "small");
    assert_int_equal(graph->opset, 13);
    assert_int_equal(graph->node_count, 2);
    assert_int_equal(graph->input_count, 1);
    assert_int_equal(graph->output_count, 1);
    assert_int_equal(graph->value_count, 4);
    const td__graph_node *product = &graph->nodes[0], *relu = &graph->nodes[1];
    assert_string_equal(product->op_type, "MatMul");
    assert_int_equal(product->inputs[0], graph->inputs[0]);
    assert_int_equal(relu->inputs[0], product->outputs[0]);
    assert_int_equal(relu->outputs[0], graph->outputs[0]);
    const td__graph_info *w = &graph->values[product->inputs[1]];
    assert_string_equal(w->name, "w");
    assert_float_equal(td__floats(w->constant.tensor)[5], 6, 0);
    const td__graph_info *x = &graph->values[graph->inputs[0]];
    assert_int_equal(x->type, TD__GRAPH_FLOAT);
    assert_true(x->has_shape);
    assert_int_equal(x->shape.dims[0], -1);
    assert_int_equal(x->shape.dims[1], 3);
    td__graph_destroy(graph);
}

static void input_with_an_initialiser_is_no_input(void **state) {
    (void)state;
    proto_bytes bytes = small_graph();
    put_message(&bytes, 11, info_of("w", TD__GRAPH_FLOAT, 2, (int64_t[]){3, 2}));
    td__graph *graph = parse_graph(bytes);
    assert_int_equal(graph->input_count, 1);
    assert_string_equal(graph->values[graph->inputs[0]].name, "x");
    assert_int_equal(graph->value_count, 4);
    td__graph_destroy(graph);
}

static void left_out_inputs_are_minus_one(void **state) {
    (void)state;
    proto_bytes bytes = {0};
    put_message(&bytes, 1, node_of("Clip", "x - x", "y"));
    put_message(&bytes, 11, info_of("x", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&bytes, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    td__graph *graph = parse_graph(bytes);
    assert_int_equal(graph->nodes[0].input_count, 3);
    assert_int_equal(graph->nodes[0].inputs[1], -1);
    td__graph_destroy(graph);
}

/* Lists of numbers may be packed, not packed, or both in one. */
static void attributes_are_read_by_kind(void **state) {
    (void)state;
    proto_bytes bytes = {0}, node = node_of("Odd", "", "y"), list = {0}, packed = {0};
    put_int_attribute(&node, "axis", -2);
    put_text_attribute(&node, "mode", "linear");
    put_text(&list, 1, "pads");
    put_int(&list, 8, 1);
    put_varint(&packed, 300);
    put_varint(&packed, (uint64_t)-1);
    put_message(&list, 8, packed);
    put_int(&list, 20, TD__GRAPH_ATTRIBUTE_INTS);
    put_message(&node, 5, list);
    proto_bytes old = {0}; /* without a kind */
    put_text(&old, 1, "alpha");
    put_float(&old, 2, 0.5f);
    put_message(&node, 5, old);
    proto_bytes body = {0};
    put_text(&body, 1, "body");
    proto_bytes inside = {0};
    put_message(&inside, 5, floats_of("k", 1, (float[]){1}));
    put_message(&inside, 12, info_of("k", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&body, 6, inside);
    put_int(&body, 20, 5);
    put_message(&node, 5, body);
    put_message(&bytes, 1, node);
    put_message(&bytes, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    td__graph *graph = parse_graph(bytes);
    const td__graph_node *read = &graph->nodes[0];
    assert_int_equal(td__graph_int(read, "axis", 7), -2);
    assert_int_equal(td__graph_int(read, "none", 7), 7);
    assert_int_equal(td__graph_int(read, "mode", 7), 7); /* of another kind */
    assert_string_equal(td__graph_text(read, "mode", ""), "linear");
    assert_float_equal(td__graph_float(read, "alpha", 0), 0.5, 0);
    const int64_t *pads;
    assert_int_equal(td__graph_ints(read, "pads", &pads), 3);
    assert_int_equal(pads[0], 1);
    assert_int_equal(pads[1], 300);
    assert_int_equal(pads[2], -1);
    const td__graph_attribute *inner = td__graph_attribute_of(read, "body");
    assert_int_equal(inner->kind, TD__GRAPH_ATTRIBUTE_GRAPH);
    assert_int_equal(inner->graph->output_count, 1);
    assert_int_equal(inner->graph->capture_count, 0);
    td__graph_destroy(graph);
}

/* --- constants ---------------------------------------------------------------------------- */

static td__graph_constant read_tensor(proto_bytes tensor) {
    td_error error = {0};
    td__graph_constant constant = {0};
    td__chunk *memory = NULL;
    assert_ok(td__onnx_parse_tensor(tensor.data, tensor.size, &constant, &memory, &error), error);
    td__chunks_free(memory);
    free(tensor.data);
    return constant;
}

static void check_integers(td__graph_type type, const void *raw, size_t size,
                           const int64_t wanted[3]) {
    td__graph_constant constant = read_tensor(tensor_of("t", type, 1, (int64_t[]){3}, raw, size));
    assert_int_equal(constant.type, type);
    assert_int_equal(td_tensor_dtype(constant.tensor), TD_INT64);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(((int64_t *)td_tensor_data(constant.tensor))[i], wanted[i]);
    }
    td_tensor_destroy(constant.tensor);
}

static void integers_of_all_widths_are_read(void **state) {
    (void)state;
    check_integers(TD__GRAPH_INT8, (int8_t[]){-128, 0, 127}, 3, (int64_t[]){-128, 0, 127});
    check_integers(TD__GRAPH_UINT8, (uint8_t[]){0, 128, 255}, 3, (int64_t[]){0, 128, 255});
    check_integers(TD__GRAPH_INT16, (int16_t[]){-32768, 1, 2}, 6, (int64_t[]){-32768, 1, 2});
    check_integers(TD__GRAPH_UINT16, (uint16_t[]){65535, 1, 2}, 6, (int64_t[]){65535, 1, 2});
    check_integers(TD__GRAPH_INT32, (int32_t[]){INT32_MIN, 1, 2}, 12, (int64_t[]){INT32_MIN, 1, 2});
    check_integers(TD__GRAPH_UINT32, (uint32_t[]){UINT32_MAX, 1, 2}, 12,
                   (int64_t[]){UINT32_MAX, 1, 2});
    check_integers(TD__GRAPH_INT64, (int64_t[]){INT64_MIN, 1, INT64_MAX}, 24,
                   (int64_t[]){INT64_MIN, 1, INT64_MAX});
    check_integers(TD__GRAPH_BOOL, (uint8_t[]){0, 1, 7}, 3, (int64_t[]){0, 1, 1});
}

static void numbers_above_int64_are_refused(void **state) {
    (void)state;
    uint64_t large = (uint64_t)1 << 63;
    proto_bytes tensor = tensor_of("t", TD__GRAPH_UINT64, 0, NULL, &large, sizeof large);
    td__graph_constant constant;
    td__chunk *memory = NULL;
    td_error error = {0};
    assert_int_equal(td__onnx_parse_tensor(tensor.data, tensor.size, &constant, &memory, &error),
                     TD_UNSUPPORTED);
    td__chunks_free(memory);
    free(tensor.data);
}

/* Every half: against the definition of its bits. */
static void halves_are_read_exactly(void **state) {
    (void)state;
    enum { ALL = 1 << 16 };
    uint16_t *bits = calloc(ALL, sizeof *bits);
    for (int i = 0; i < ALL; i++) {
        bits[i] = (uint16_t)i;
    }
    td__graph_constant constant =
        read_tensor(tensor_of("t", TD__GRAPH_FLOAT16, 1, (int64_t[]){ALL}, bits, ALL * 2));
    float *values = td_tensor_data(constant.tensor);
    for (int i = 0; i < ALL; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double sign = i & 0x8000 ? -1 : 1;
        double wanted = exponent == 0    ? sign * ldexp(fraction, -24)
                        : exponent != 31 ? sign * ldexp(1024 + fraction, exponent - 25)
                        : fraction       ? NAN
                                         : sign * INFINITY;
        assert_true(isnan(wanted) ? isnan(values[i]) : (double)values[i] == wanted);
        assert_true(!signbit(values[i]) == (sign > 0));
    }
    /* What is a half already stays as it is. */
    float *copy = malloc(ALL * sizeof *copy);
    memcpy(copy, values, ALL * sizeof *copy);
    td__graph_settle(TD__GRAPH_FLOAT16, ALL, copy);
    for (int i = 0; i < ALL; i++) {
        assert_true(isnan(copy[i]) ? isnan(values[i]) : copy[i] == values[i]);
    }
    free(copy);
    free(bits);
    td_tensor_destroy(constant.tensor);
}

static void halves_are_rounded_to_the_nearest(void **state) {
    (void)state;
    /* Between 1 and 1 + 2^-10: below, at and above the middle; the same at the least of all. */
    float values[] = {1 + 0x1p-11f, 1 + 0x1.002p-11f, 1 + 0x3p-11f, 65519.996f, 65520,
                      0x1p-25f,     0x1.002p-25f,     -0x3p-25f,    -70000,     1e-40f};
    float wanted[] = {1, 1 + 0x1p-10f, 1 + 0x1p-9f, 65504,     INFINITY,
                      0, 0x1p-24f,     -0x1p-23f,   -INFINITY, 0};
    td__graph_settle(TD__GRAPH_FLOAT16, 10, values);
    for (int i = 0; i < 10; i++) {
        assert_true(values[i] == wanted[i]);
    }
    float brains[] = {1 + 0x1p-8f, 1 + 0x3p-8f, NAN, 3.4e38f};
    td__graph_settle(TD__GRAPH_BFLOAT16, 4, brains);
    assert_true(brains[0] == 1 && brains[1] == 1 + 0x1p-6f && isnan(brains[2]));
    assert_true(isinf(brains[3]));
}

static void integers_wrap_to_their_type(void **state) {
    (void)state;
    int64_t values[] = {255, 256, -1, 128};
    td__graph_settle(TD__GRAPH_UINT8, 4, values);
    assert_int_equal(values[1], 0);
    assert_int_equal(values[2], 255);
    td__graph_settle(TD__GRAPH_INT8, 4, values);
    assert_int_equal(values[0], -1);
    assert_int_equal(values[3], -128);
}

/* float_data, int32_data, …: packed, alone, in several pieces. */
static void numbers_in_lists_are_read(void **state) {
    (void)state;
    proto_bytes tensor = {0}, packed = {0};
    float pair[] = {2, 3};
    put_int(&tensor, 1, 4);
    put_int(&tensor, 2, TD__GRAPH_FLOAT);
    put_float(&tensor, 4, 1);
    td__little_copy(pair, pair, sizeof pair, sizeof *pair);
    put_bytes(&tensor, 4, pair, sizeof pair);
    put_float(&tensor, 4, 4);
    td__graph_constant constant = read_tensor(tensor);
    for (int i = 0; i < 4; i++) {
        assert_float_equal(td__floats(constant.tensor)[i], i + 1, 0);
    }
    td_tensor_destroy(constant.tensor);

    tensor = (proto_bytes){0};
    put_int(&tensor, 1, 2);
    put_int(&tensor, 2, TD__GRAPH_INT8);
    put_varint(&packed, (uint64_t)-5);
    put_varint(&packed, 6);
    put_message(&tensor, 5, packed);
    constant = read_tensor(tensor);
    assert_int_equal(((int64_t *)td_tensor_data(constant.tensor))[0], -5);
    assert_int_equal(((int64_t *)td_tensor_data(constant.tensor))[1], 6);
    td_tensor_destroy(constant.tensor);

    tensor = (proto_bytes){0};
    double number = 0.1;
    td__little_copy(&number, &number, sizeof number, sizeof number);
    put_int(&tensor, 2, TD__GRAPH_DOUBLE);
    put_bytes(&tensor, 10, &number, sizeof number);
    constant = read_tensor(tensor);
    assert_int_equal(td_tensor_shape(constant.tensor).rank, 0);
    assert_true(*(double *)td_tensor_data(constant.tensor) == 0.1);
    td_tensor_destroy(constant.tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_has_numbered_values),
        cmocka_unit_test(input_with_an_initialiser_is_no_input),
        cmocka_unit_test(left_out_inputs_are_minus_one),
        cmocka_unit_test(attributes_are_read_by_kind),
        cmocka_unit_test(integers_of_all_widths_are_read),
        cmocka_unit_test(numbers_above_int64_are_refused),
        cmocka_unit_test(halves_are_read_exactly),
        cmocka_unit_test(halves_are_rounded_to_the_nearest),
        cmocka_unit_test(integers_wrap_to_their_type),
        cmocka_unit_test(numbers_in_lists_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
