/* Names of layers and parameters, from what exporters write. */
#include "test.h"

#include "graph/source.h"

static void assert_layer(const char *from, bool of_value, const char *expected) {
    char name[TD__GRAPH_NAME_SIZE];
    td__graph_layer_name(from, of_value, name);
    assert_string_equal(name, expected);
}

static void layers_are_called_after_their_weights(void **state) {
    (void)state;
    assert_layer("conv1.weight", true, "conv1");
    assert_layer("layer1.0.conv1.weight", true, "layer1.0.conv1");
    assert_layer("sequential/dense/MatMul/ReadVariableOp:0", true, "dense");
    assert_layer("StatefulPartitionedCall/model/block/conv/Conv2D/ReadVariableOp:0", true,
                 "block.conv");
    assert_layer("model/dense/MatMul/ReadVariableOp__12:0", true, "dense");
}

static void or_after_their_nodes(void **state) {
    (void)state;
    assert_layer("/conv1/Conv", false, "conv1");
    assert_layer("/layer1/layer1.0/conv1/Conv", false, "layer1.0.conv1");
    assert_layer("sequential/pool/MaxPool", false, "pool");
    assert_layer("my node", false, "my_node");
}

static void made_up_names_are_none(void **state) {
    (void)state;
    static const char *const made_up[] = {"",        "17",         "Relu_3", "/Relu",
                                          "/Relu_1", "Conv2D__31", "W0",     "onnx::Add_7"};
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        assert_layer(made_up[i], false, "");
    }
    assert_layer("onnx::MatMul_12", true, "");
    assert_layer("const_fold_opt__23", true, "");
    assert_layer("weight", true, "");
}

static void a_name_that_is_too_long_is_cut(void **state) {
    (void)state;
    char from[600], name[TD__GRAPH_NAME_SIZE];
    memset(from, 'a', sizeof from - 1);
    from[sizeof from - 1] = 0;
    td__graph_layer_name(from, false, name);
    assert_in_range(strlen(name), 50, sizeof name - 1);
    for (size_t i = 1; i < sizeof from - 1; i += 2) { /* more parts than there is room for */
        from[i] = '/';
    }
    td__graph_layer_name(from, false, name);
    assert_true(strlen(name) < sizeof name);
    td__graph_parameter_name(from, "Mul", name);
    assert_true(strlen(name) < sizeof name);
    td__graph_operator_name(from, name);
    assert_true(strlen(name) < sizeof name);
}

static void parameters_keep_the_last_part(void **state) {
    (void)state;
    static const struct {
        const char *from, *op_type, *expected;
    } cases[] = {{"norm.weight", "Mul", "weight"},     {"position", "Add", "position"},
                 {"onnx::Mul_4", "Mul", "scale"},      {"onnx::Add_4", "Add", "bias"},
                 {"onnx::Where_4", "Where", "weight"}, {"a/b/gamma:0", "Mul", "gamma"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[TD__GRAPH_NAME_SIZE];
        td__graph_parameter_name(cases[i].from, cases[i].op_type, name);
        assert_string_equal(name, cases[i].expected);
    }
}

static void operators_are_written_as_keras_writes_layers(void **state) {
    (void)state;
    static const char *const names[][2] = {{"Relu", "relu"},
                                           {"GlobalAveragePool", "global_average_pool"},
                                           {"LSTM", "lstm"},
                                           {"PRelu", "p_relu"},
                                           {"LRN", "lrn"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[TD__GRAPH_NAME_SIZE];
        td__graph_operator_name(names[i][0], name);
        assert_string_equal(name, names[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_called_after_their_weights),
        cmocka_unit_test(or_after_their_nodes),
        cmocka_unit_test(made_up_names_are_none),
        cmocka_unit_test(a_name_that_is_too_long_is_cut),
        cmocka_unit_test(parameters_keep_the_last_part),
        cmocka_unit_test(operators_are_written_as_keras_writes_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
