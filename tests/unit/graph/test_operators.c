/* Operators on models of one node: values that ONNX's own tests do not cover, gradients against
 * finite differences, and what is refused. */
#include "test.h"

#include "onnx_bytes.h"

#include "graph/run.h"
#include "onnx/onnx.h"
#include "tensor/tensor.h"

/* A model of one node with the outputs y, and its inputs. */
typedef struct one_node {
    td__graph *graph;
    td__graph_run *run;
    td_tape *tape;
    td_tensor *inputs[6];
    size_t count;
} one_node;

typedef struct input_value {
    const char *name;
    td__graph_type type;
    td_shape shape;
    const void *values; /* in the storage of the type */
} input_value;

static one_node open_node(proto_bytes node, int64_t opset, size_t count,
                          const input_value *inputs) {
    one_node opened = {.count = count};
    td_error error = {0};
    proto_bytes graph = {0};
    for (size_t i = 0; i < count; i++) {
        put_message(&graph, 11, info_of(inputs[i].name, inputs[i].type, 0, NULL));
        opened.inputs[i] = td_tensor_from(inputs[i].name, td__graph_storage(inputs[i].type),
                                          inputs[i].shape, inputs[i].values, &error);
    }
    put_message(&graph, 1, node);
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    proto_bytes model = model_of(graph, opset);
    opened.graph = td__onnx_parse(model.data, model.size, NULL, &error);
    free(model.data);
    opened.run = opened.graph ? td__graph_run_create(opened.graph, &error) : NULL;
    opened.tape = td_tape_create(NULL, &error);
    if (!opened.run) {
        fail_msg("%s", error.text);
    }
    return opened;
}

/* y; NULL with the tape's error. */
static td_tensor *run_node(one_node *node, const input_value *inputs) {
    td__graph_run_begin(node->run);
    for (size_t i = 0; i < node->count; i++) {
        td__graph_run_set(node->run, i, inputs[i].type, node->inputs[i]);
    }
    bool fine = td__graph_run_nodes(node->run, node->tape, 0, 1);
    return fine ? td__graph_run_value(node->run, node->graph->outputs[0])->plain : NULL;
}

static void close_node(one_node *node) {
    for (size_t i = 0; i < node->count; i++) {
        td_tensor_destroy(node->inputs[i]);
    }
    td_tape_destroy(node->tape);
    td__graph_run_destroy(node->run);
    td__graph_destroy(node->graph);
}

/* --- gradients ---------------------------------------------------------------------------- */

/* The sum of y^2 / 2 + y: its gradient depends on every element of y. */
static double loss_of(one_node *node, const input_value *inputs) {
    const td_tensor *y = run_node(node, inputs);
    double sum = 0;
    assert_non_null(y);
    for (int64_t i = 0; i < y->count; i++) {
        double value = (double)td__floats(y)[i];
        sum += value * value / 2 + value;
    }
    td_tape_reset(node->tape);
    return sum;
}

/* All float inputs, element by element. */
static void check_gradient(proto_bytes bytes, int64_t opset, size_t count,
                           const input_value *inputs) {
    one_node node = open_node(bytes, opset, count, inputs);
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].type != TD__GRAPH_FLOAT) {
            continue;
        }
        td_error error = {0};
        td_tensor *x = node.inputs[i], *y = run_node(&node, inputs), *gradient;
        td_tensor *half = td_affine(node.tape, td_square(node.tape, y), 0.5f, 0);
        td_tensor *loss = td_sum(node.tape, td_add(node.tape, half, y), NULL);
        assert_ok(td_tape_gradient(node.tape, loss, 1, &x, &gradient, &error), error);
        float *wanted = malloc((size_t)x->count * sizeof *wanted);
        memcpy(wanted, gradient->data, (size_t)x->count * sizeof *wanted);
        td_tape_reset(node.tape);
        for (int64_t k = 0; k < x->count; k++) {
            float value = td__floats(x)[k], step = 1.0f / 256;
            td__floats(x)[k] = value + step;
            double above = loss_of(&node, inputs);
            td__floats(x)[k] = value - step;
            double below = loss_of(&node, inputs);
            td__floats(x)[k] = value;
            assert_close(wanted[k], (above - below) / (2 * (double)step), 2e-2, 2e-2);
        }
        free(wanted);
    }
    close_node(&node);
}

static const float numbers[] = {0.5f,  -1.25f, 2,     0.75f, -0.5f,  1.5f, 1,     -2,
                                0.25f, 1.75f,  -1.5f, 3,     -0.75f, 0.3f, -0.2f, 1.1f};
static const int64_t few[] = {1, 0, -1, 1, 0, 1};

static input_value floats(const char *name, td_shape shape) {
    return (input_value){name, TD__GRAPH_FLOAT, shape, numbers};
}

static input_value ints(const char *name, td__graph_type type, td_shape shape) {
    return (input_value){name, type, shape, few};
}

static void gradients_flow_through_moves(void **state) {
    (void)state;
    input_value x = floats("x", TD_SHAPE(2, 3)), i = ints("i", TD__GRAPH_INT64, TD_SHAPE(2, 3));
    check_gradient(node_of("Gather", "x i", "y"), 13, 2, (input_value[]){x, i});
    check_gradient(node_of("GatherElements", "x i", "y"), 13, 2, (input_value[]){x, i});
    check_gradient(node_of("GatherND", "x i", "y"), 13, 2,
                   (input_value[]){x, ints("i", TD__GRAPH_INT64, TD_SHAPE(3, 2))});
    check_gradient(
        node_of("Where", "i x z", "y"), 13, 3,
        (input_value[]){ints("i", TD__GRAPH_BOOL, TD_SHAPE(3)), x, floats("z", TD_SHAPE(2, 1))});
    check_gradient(node_of("Trilu", "x", "y"), 14, 1, &x);
    check_gradient(node_of("Compress", "x i", "y"), 13, 2,
                   (input_value[]){x, ints("i", TD__GRAPH_BOOL, TD_SHAPE(6))});
    check_gradient(node_of("TopK", "x k", "y z"), 13, 2,
                   (input_value[]){x, ints("k", TD__GRAPH_INT64, TD_SHAPE(1))});
}

static void gradients_flow_through_scattering(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 0, 1}; /* two updates for one place */
    input_value x = floats("x", TD_SHAPE(2, 3)), u = floats("u", TD_SHAPE(1, 3));
    input_value i = {"i", TD__GRAPH_INT64, TD_SHAPE(1, 3), rows};
    check_gradient(node_of("ScatterElements", "x i u", "y"), 13, 3, (input_value[]){x, i, u});
    i.shape = TD_SHAPE(3, 1);
    u.shape = TD_SHAPE(3, 3);
    check_gradient(node_of("ScatterND", "x i u", "y"), 13, 3, (input_value[]){x, i, u});
    proto_bytes node = node_of("ScatterND", "x i u", "y");
    put_text_attribute(&node, "reduction", "add");
    check_gradient(node, 16, 3, (input_value[]){x, i, u});
}

static void gradients_flow_through_resizing(void **state) {
    (void)state;
    static const float scales[] = {1, 1, 1.5f, 2};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    input_value inputs[] = {floats("x", TD_SHAPE(1, 2, 2, 3)),
                            {"scales", TD__GRAPH_FLOAT, TD_SHAPE(4), scales}};
    for (int i = 0; i < 3; i++) {
        proto_bytes node = node_of("Resize", "x - scales", "y");
        put_text_attribute(&node, "mode", modes[i]);
        one_node opened = open_node(node, 13, 2, inputs);
        td_tensor *y = run_node(&opened, inputs), *gradient, *x = opened.inputs[0];
        td_error error = {0};
        assert_ok(
            td_tape_gradient(opened.tape, td_sum(opened.tape, y, NULL), 1, &x, &gradient, &error),
            error);
        /* Every element of y is a mean of elements of x: all of them give all of it. */
        double sum = 0;
        for (int64_t k = 0; k < gradient->count; k++) {
            sum += (double)td__floats(gradient)[k];
        }
        assert_close(sum, y->count, 1e-5, 0);
        close_node(&opened);
    }
}

static void gradients_flow_through_losses(void **state) {
    (void)state;
    static const char *const reductions[] = {"none", "sum", "mean"};
    static const int64_t classes[] = {0, 2, 1, 1};
    input_value inputs[] = {floats("x", TD_SHAPE(2, 3, 2)),
                            {"c", TD__GRAPH_INT64, TD_SHAPE(2, 2), classes}};
    for (int i = 0; i < 3; i++) {
        proto_bytes node = node_of("SoftmaxCrossEntropyLoss", "x c", "y");
        put_text_attribute(&node, "reduction", reductions[i]);
        put_int_attribute(&node, "ignore_index", 2);
        check_gradient(node, 13, 2, inputs);
    }
}

static void gradients_flow_through_images(void **state) {
    (void)state;
    static const float between[] = {0.3f,  -0.4f, 0.7f,  0.15f, -0.6f, 0.45f, 0.2f,  -0.8f,
                                    0.55f, 0.35f, -0.3f, 0.6f,  -0.7f, 0.85f, -0.2f, 0.4f};
    input_value deformed[] = {floats("x", TD_SHAPE(1, 2, 3, 2)),
                              floats("w", TD_SHAPE(1, 2, 2, 1)),
                              {"o", TD__GRAPH_FLOAT, TD_SHAPE(1, 4, 2, 2), between},
                              {"m", TD__GRAPH_FLOAT, TD_SHAPE(1, 2, 2, 2), numbers}};
    check_gradient(node_of("DeformConv", "x w o - m", "y"), 19, 4, deformed);

    input_value folded[] = {floats("x", TD_SHAPE(1, 4, 4)),
                            {"s", TD__GRAPH_INT64, TD_SHAPE(2), (int64_t[]){3, 3}},
                            {"b", TD__GRAPH_INT64, TD_SHAPE(2), (int64_t[]){2, 2}}};
    check_gradient(node_of("Col2Im", "x s b", "y"), 18, 3, folded);

    input_value cropped[] = {floats("x", TD_SHAPE(2, 4)),
                             {"s", TD__GRAPH_INT64, TD_SHAPE(2), (int64_t[]){5, 2}}};
    check_gradient(node_of("CenterCropPad", "x s", "y"), 18, 2, cropped);

    input_value turned[] = {floats("t", TD_SHAPE(2, 2, 3)),
                            {"s", TD__GRAPH_INT64, TD_SHAPE(4), (int64_t[]){2, 1, 2, 3}}};
    check_gradient(node_of("AffineGrid", "t s", "y"), 20, 2, turned);
}

static void gradients_flow_through_running_sums(void **state) {
    (void)state;
    input_value inputs[] = {floats("x", TD_SHAPE(2, 3, 2)),
                            {"a", TD__GRAPH_INT64, TD_SHAPE(1), (int64_t[]){1}}};
    for (int how = 0; how < 4; how++) {
        proto_bytes node = node_of("CumSum", "x a", "y");
        put_int_attribute(&node, "exclusive", how % 2);
        put_int_attribute(&node, "reverse", how / 2);
        check_gradient(node, 14, 2, inputs);
    }
}

/* A gradient that is not known is no gradient of zero. */
static void check_refused(proto_bytes bytes, int64_t opset, size_t count, const input_value *inputs,
                          const char *said) {
    one_node node = open_node(bytes, opset, count, inputs);
    td_error error = {0};
    td_tensor *x = node.inputs[0], *y = run_node(&node, inputs), *gradient = NULL;
    td_tensor *loss = td_sum(node.tape, y, NULL);
    assert_int_equal(td_tape_gradient(node.tape, loss, 1, &y, &gradient, &error), TD_OK);
    assert_int_equal(td_tape_gradient(node.tape, loss, 1, &x, &gradient, &error), TD_UNSUPPORTED);
    assert_non_null(strstr(error.text, said));
    assert_non_null(strstr(error.text, "its gradient is not known"));
    close_node(&node);
}

static void gradients_that_are_not_known_are_refused(void **state) {
    (void)state;
    input_value x = floats("x", TD_SHAPE(2, 2));
    check_refused(node_of("CumProd", "x a", "y"), 26, 2,
                  (input_value[]){x, {"a", TD__GRAPH_INT64, TD_SHAPE(1), (int64_t[]){1}}},
                  "CumProd");
    check_refused(node_of("Det", "x", "y"), 13, 1, &x, "Det");
    check_refused(
        node_of("GridSample", "x g", "y"), 16, 2,
        (input_value[]){floats("x", TD_SHAPE(1, 1, 2, 2)), floats("g", TD_SHAPE(1, 1, 2, 2))},
        "GridSample");
    proto_bytes node = node_of("ScatterElements", "x i u", "y");
    put_text_attribute(&node, "reduction", "mul");
    check_refused(node, 16, 3,
                  (input_value[]){x,
                                  {"i", TD__GRAPH_INT64, TD_SHAPE(1, 2), (int64_t[]){1, 0}},
                                  floats("u", TD_SHAPE(1, 2))},
                  "scatter");
}

/* The root of nothing has no slope; what is made of it has. */
static void gradients_of_norms_are_finite_at_zero(void **state) {
    (void)state;
    static const float some[] = {0, 0, 0, 0, 0, 0.5f, -2, 0, 1};
    for (int64_t p = 1; p <= 3; p++) {
        proto_bytes node = node_of("LpPool", "x", "y");
        put_ints_attribute(&node, "kernel_shape", 2, (int64_t[]){2, 2});
        put_int_attribute(&node, "p", p);
        input_value x = {"x", TD__GRAPH_FLOAT, TD_SHAPE(1, 1, 3, 3), some};
        one_node opened = open_node(node, 18, 1, &x);
        td_tensor *y = run_node(&opened, &x), *gradient, *in = opened.inputs[0];
        td_error error = {0};
        assert_ok(
            td_tape_gradient(opened.tape, td_sum(opened.tape, y, NULL), 1, &in, &gradient, &error),
            error);
        assert_close(td__floats(y)[0], 0, 0, 0);
        for (int64_t k = 0; k < gradient->count; k++) {
            assert_true(isfinite(td__floats(gradient)[k]));
        }
        close_node(&opened);
    }
}

static void gradients_flow_through_a_convolution_with_state(void **state) {
    (void)state;
    input_value inputs[] = {floats("x", TD_SHAPE(2, 2, 3)), floats("w", TD_SHAPE(2, 1, 3)),
                            floats("b", TD_SHAPE(2)), floats("p", TD_SHAPE(2, 2, 2))};
    proto_bytes node = node_of("CausalConvWithState", "x w b p", "y z");
    put_text_attribute(&node, "activation", "silu");
    check_gradient(node, 27, 4, inputs);
    inputs[3].shape = TD_SHAPE(2, 2, 1);
    one_node opened = open_node(node_of("CausalConvWithState", "x w b p", "y z"), 27, 4, inputs);
    assert_null(run_node(&opened, inputs));
    assert_int_equal(td_tape_status(opened.tape, NULL), TD_BAD_SHAPE);
    close_node(&opened);
}

static void gradients_flow_through_linear_attention(void **state) {
    (void)state;
    input_value inputs[] = {floats("q", TD_SHAPE(1, 3, 4)),
                            floats("k", TD_SHAPE(1, 3, 2)),
                            floats("v", TD_SHAPE(1, 3, 1)),
                            floats("s", TD_SHAPE(1, 1, 2, 1)),
                            {"g", TD__GRAPH_FLOAT, TD_SHAPE(1, 3, 1), (float[]){-0.5f, -1, -0.2f}},
                            {"b", TD__GRAPH_FLOAT, TD_SHAPE(1, 3, 1), (float[]){0.3f, 0.6f, 0.1f}}};
    for (int fit = 1; fit >= 0; fit--) {
        proto_bytes node = node_of("LinearAttention", "q k v s g b", "y z");
        put_int_attribute(&node, "q_num_heads", 2);
        put_int_attribute(&node, "kv_num_heads", 1);
        if (fit) {
            check_gradient(node, 27, 6, inputs);
            inputs[3].shape = TD_SHAPE(1, 1, 1, 2);
            continue;
        }
        one_node opened = open_node(node, 27, 6, inputs);
        assert_null(run_node(&opened, inputs));
        assert_int_equal(td_tape_status(opened.tape, NULL), TD_BAD_SHAPE);
        close_node(&opened);
    }
}

/* --- einsum in float, against the plain sum in double ------------------------------------- */

static void check_einsum(const char *equation, size_t count, const td_shape *shapes) {
    static const char *const names[] = {"a", "b", "c"};
    double doubles[sizeof numbers / sizeof *numbers];
    input_value single[3], twice[3];
    proto_bytes nodes[2];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        doubles[i] = (double)numbers[i];
    }
    for (size_t i = 0; i < count; i++) {
        single[i] = floats(names[i], shapes[i]);
        twice[i] = (input_value){names[i], TD__GRAPH_DOUBLE, shapes[i], doubles};
    }
    for (int i = 0; i < 2; i++) {
        nodes[i] = node_of("Einsum", count == 1 ? "a" : count == 2 ? "a b" : "a b c", "y");
        put_text_attribute(&nodes[i], "equation", equation);
    }
    one_node a = open_node(nodes[0], 13, count, single), b = open_node(nodes[1], 13, count, twice);
    const td_tensor *y = run_node(&a, single), *z = run_node(&b, twice);
    assert_non_null(y);
    assert_non_null(z);
    assert_true(td_shape_equal(&y->shape, &z->shape));
    for (int64_t i = 0; i < y->count; i++) {
        assert_close(td__floats(y)[i], ((double *)z->data)[i], 1e-5, 1e-5);
    }
    close_node(&a);
    close_node(&b);
}

static void einsum_in_float_is_the_sum_of_products(void **state) {
    (void)state;
    td_shape m23 = TD_SHAPE(2, 3), m34 = TD_SHAPE(3, 4), m22 = TD_SHAPE(2, 2), v3 = TD_SHAPE(3);
    td_shape b = TD_SHAPE(2, 2, 3), c = TD_SHAPE(2, 3, 2), row = TD_SHAPE(1, 2, 3);
    check_einsum("ij,jk->ik", 2, (td_shape[]){m23, m34});
    check_einsum("ij,jk->ki", 2, (td_shape[]){m23, m34});
    check_einsum("ij,jk", 2, (td_shape[]){m23, m34});
    check_einsum("bij,bjk->bik", 2, (td_shape[]){b, c});
    check_einsum("...ij,...jk->...ik", 2, (td_shape[]){b, c});
    check_einsum("...ij,...jk->...ik", 2, (td_shape[]){row, c}); /* repeated */
    check_einsum("...ij,jk->...ik", 2, (td_shape[]){b, m34});
    check_einsum("ii->i", 1, &m22);
    check_einsum("ii->", 1, &m22);
    check_einsum("ij->ji", 1, &m23);
    check_einsum("ij->j", 1, &m23);
    check_einsum("i,j->ij", 2, (td_shape[]){v3, v3});
    check_einsum("i,i->", 2, (td_shape[]){v3, v3});
    check_einsum("ij,ij->i", 2, (td_shape[]){m23, m23});
    check_einsum("ij,jk,k->i", 3, (td_shape[]){m23, m34, TD_SHAPE(4)});
    check_einsum("bij,bjk,bj->bk", 3, (td_shape[]){b, c, m23});
    input_value inputs[] = {floats("a", b), floats("b", c)};
    proto_bytes node = node_of("Einsum", "a b", "y");
    put_text_attribute(&node, "equation", "bij,bjk->kb");
    check_gradient(node, 13, 2, inputs);
}

/* --- what is refused ---------------------------------------------------------------------- */

static void refuse(proto_bytes bytes, size_t count, const input_value *inputs, td_status status,
                   const char *words) {
    one_node node = open_node(bytes, 14, count, inputs);
    td_error error = {0};
    assert_null(run_node(&node, inputs));
    assert_int_equal(td_tape_status(node.tape, &error), status);
    if (!strstr(error.text, words)) {
        fail_msg("'%s' is not in: %s", words, error.text);
    }
    close_node(&node);
}

static void indices_out_of_range_are_refused(void **state) {
    (void)state;
    static const int64_t far[] = {0, 1, 2, -3, 0, 0};
    input_value x = floats("x", TD_SHAPE(2, 3));
    input_value i = {"i", TD__GRAPH_INT64, TD_SHAPE(2, 3), far};
    refuse(node_of("Gather", "x i", "y"), 2, (input_value[]){x, i}, TD_RANGE, "index 2");
    refuse(node_of("GatherElements", "x i", "y"), 2, (input_value[]){x, i}, TD_RANGE, "index 2");
    i.shape = TD_SHAPE(3, 2);
    refuse(node_of("GatherND", "x i", "y"), 2, (input_value[]){x, i}, TD_RANGE, "index 2");
    refuse(node_of("ScatterND", "x i u", "y"), 3, (input_value[]){x, i, floats("u", TD_SHAPE(3))},
           TD_RANGE, "index 2");
    i.shape = TD_SHAPE(2);
    i.values = (int64_t[]){0, 3};
    refuse(node_of("NegativeLogLikelihoodLoss", "x i", "y"), 2, (input_value[]){x, i}, TD_RANGE,
           "class 3 of 3");
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    input_value x = floats("x", TD_SHAPE(2, 3)), z = floats("z", TD_SHAPE(2));
    input_value i = ints("i", TD__GRAPH_INT32, TD_SHAPE(2, 3)),
                k = ints("k", TD__GRAPH_INT32, TD_SHAPE(4));
    refuse(node_of("Less", "x z", "y"), 2, (input_value[]){x, z}, TD_BAD_SHAPE, "(2, 3) and (2,)");
    refuse(node_of("Add", "i k", "y"), 2, (input_value[]){i, k}, TD_BAD_SHAPE, "broadcast");
    refuse(node_of("Add", "i x", "y"), 2, (input_value[]){i, x}, TD_DTYPE, "different types");
    refuse(node_of("Sin", "i", "y"), 1, &i, TD_UNSUPPORTED, "not of integers");
}

/* A regressor of one tree: node 0 asks for a feature and goes to 1 or 2. */
static proto_bytes tree(const int64_t *yes, const char *modes, int64_t feature, int64_t target) {
    static const int64_t zeros[3] = {0}, ids[] = {0, 1, 2};
    static const float values[] = {0.5f, 0.5f, 0.5f};
    proto_bytes node = node_of("TreeEnsembleRegressor", "x", "y");
    put_text(&node, 7, "ai.onnx.ml");
    put_ints_attribute(&node, "nodes_treeids", 3, zeros);
    put_ints_attribute(&node, "nodes_nodeids", 3, ids);
    put_ints_attribute(&node, "nodes_featureids", 3, (int64_t[]){feature, 0, 0});
    put_ints_attribute(&node, "nodes_truenodeids", 3, yes);
    put_ints_attribute(&node, "nodes_falsenodeids", 3, (int64_t[]){2, 2, 0});
    put_floats_attribute(&node, "nodes_values", 3, values);
    put_texts_attribute(&node, "nodes_modes", modes);
    put_ints_attribute(&node, "target_treeids", 1, zeros);
    put_ints_attribute(&node, "target_nodeids", 1, ids + 2);
    put_ints_attribute(&node, "target_ids", 1, &target);
    put_floats_attribute(&node, "target_weights", 1, values);
    put_int_attribute(&node, "n_targets", 1);
    return node;
}

static void trees_are_not_believed(void **state) {
    (void)state;
    input_value x = floats("x", TD_SHAPE(2, 3));
    int64_t down[] = {1, 0, 0}, round[] = {1, 1, 0}, nowhere[] = {7, 0, 0};
    const char *sound = "BRANCH_LEQ LEAF LEAF", *cycle = "BRANCH_LEQ BRANCH_LEQ LEAF";
    one_node node = open_node(tree(down, sound, 0, 0), 14, 1, &x);
    const td_tensor *y =
        run_node(&node, &x); /* 0.5 <= 0.5 goes to an empty leaf, 0.75 to one of 0.5 */
    assert_non_null(y);
    assert_float_equal(td__floats(y)[0], 0, 0);
    assert_float_equal(td__floats(y)[1], 0.5, 0);
    close_node(&node);
    refuse(tree(round, cycle, 0, 0), 1, &x, TD_FORMAT, "cycle");
    refuse(tree(nowhere, sound, 0, 0), 1, &x, TD_FORMAT, "no such child");
    refuse(tree(down, sound, 3, 0), 1, &x, TD_FORMAT, "a feature that its input has not");
    refuse(tree(down, sound, 0, 1), 1, &x, TD_FORMAT, "weights do not fit");
    refuse(tree(down, "BRANCH_LEQ LEAF", 0, 0), 1, &x, TD_FORMAT, "attributes do not fit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_flow_through_moves),
        cmocka_unit_test(gradients_flow_through_scattering),
        cmocka_unit_test(gradients_flow_through_resizing),
        cmocka_unit_test(gradients_flow_through_losses),
        cmocka_unit_test(gradients_flow_through_images),
        cmocka_unit_test(gradients_of_norms_are_finite_at_zero),
        cmocka_unit_test(gradients_flow_through_a_convolution_with_state),
        cmocka_unit_test(gradients_flow_through_linear_attention),
        cmocka_unit_test(einsum_in_float_is_the_sum_of_products),
        cmocka_unit_test(gradients_flow_through_running_sums),
        cmocka_unit_test(gradients_that_are_not_known_are_refused),
        cmocka_unit_test(indices_out_of_range_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(trees_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
