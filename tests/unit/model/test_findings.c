/* What is unusual about models that came from ONNX files: only what is certain is reported. */
#include "test.h"

#include "onnx_bytes.h"
#include "tapedeck/model.h"

enum { IN = 3, UNITS = 64 };

/* relu(relu(x) @ 0 + c), as a Gemm or as a product and a sum: with c of 0 or less all units are
 * dead. */
typedef struct layer {
    bool gemm;
    const char *bias; /* its name */
    int32_t rank;
    int64_t dims[2];
    float c;
} layer;

static void write_layer(const char *path, const layer *l) {
    static float kernel[IN * UNITS], bias[UNITS];
    int64_t count = 1, shape[] = {IN, UNITS};
    for (int32_t i = 0; i < l->rank; i++) {
        count *= l->dims[i];
    }
    for (int64_t i = 0; i < count; i++) {
        bias[i] = l->c;
    }
    char inputs[64];
    proto_bytes graph = {0};
    put_message(&graph, 1, node_of("Relu", "x", "a"));
    snprintf(inputs, sizeof inputs, l->gemm ? "a fc.weight %s" : "b %s", l->bias);
    if (l->gemm) {
        put_message(&graph, 1, node_of("Gemm", inputs, "c"));
    } else {
        put_message(&graph, 1, node_of("MatMul", "a fc.weight", "b"));
        put_message(&graph, 1, node_of("Add", inputs, "c"));
    }
    put_message(&graph, 1, node_of("Relu", "c", "y"));
    put_message(&graph, 5,
                tensor_of("fc.weight", TD__GRAPH_FLOAT, 2, shape, kernel, sizeof kernel));
    put_message(
        &graph, 5,
        tensor_of(l->bias, TD__GRAPH_FLOAT, l->rank, l->dims, bias, (size_t)count * sizeof *bias));
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 2, (int64_t[]){-1, IN}));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 2, (int64_t[]){-1, UNITS}));
    proto_bytes model = model_of(graph, 13);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model.data, 1, model.size, file), model.size);
    assert_int_equal(fclose(file), 0);
    free(model.data);
}

static bool says_dead(layer l) {
    const char *path = "findings.onnx";
    td_error error = {0};
    write_layer(path, &l);
    const td_inspection *about = td_model_inspect(path, &error);
    if (!about) {
        fail_msg("%s", error.text);
    }
    bool dead = false;
    for (size_t i = 0; i < about->finding_count; i++) {
        dead = dead || !strncmp(about->findings[i].text, "dead", 4);
    }
    td_inspection_destroy(about);
    (void)remove(path);
    return dead;
}

static void a_bias_of_each_unit_counts(void **state) {
    (void)state;
    assert_true(says_dead((layer){false, "fc.bias", 1, {UNITS}, -1}));
    assert_true(says_dead((layer){false, "fc.bias", 2, {1, UNITS}, -1}));
    assert_false(says_dead((layer){false, "fc.bias", 1, {UNITS}, 1}));
}

/* A Gemm's factors are not known: it is never called dead. */
static void a_bias_of_one_element_is_read_as_one(void **state) {
    (void)state;
    assert_false(says_dead((layer){true, "fc.bias", 1, {1}, -1}));
    assert_false(says_dead((layer){true, "fc.bias", 2, {1, 1}, -1}));
}

static void nothing_is_said_where_another_parameter_is_added(void **state) {
    (void)state;
    assert_false(says_dead((layer){false, "fc.offset", 1, {UNITS}, 1}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bias_of_each_unit_counts),
        cmocka_unit_test(a_bias_of_one_element_is_read_as_one),
        cmocka_unit_test(nothing_is_said_where_another_parameter_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
