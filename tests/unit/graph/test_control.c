/* Graphs inside nodes: what they capture, gradients through them, and loops and sequences that would
 * take for ever. */
#include "test.h"

#include "onnx_bytes.h"

#include "graph/run.h"
#include "onnx/onnx.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

static void put_graph_attribute(proto_bytes *node, const char *name, proto_bytes graph) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    put_message(&attribute, 6, graph);
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_GRAPH);
    put_message(node, 5, attribute);
}

static proto_bytes scalar_of(const char *name, td__graph_type type, int64_t value) {
    uint8_t truth = value != 0;
    bool small = type == TD__GRAPH_BOOL;
    return tensor_of(name, type, 0, NULL, small ? (void *)&truth : &value,
                     small ? 1 : sizeof value);
}

/* Takes (i, more, a) and gives (more, a * x, a * x): x is the graph's around it. */
static proto_bytes powers_of_x(void) {
    proto_bytes body = {0};
    put_message(&body, 11, info_of("i", TD__GRAPH_INT64, 0, NULL));
    put_message(&body, 11, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 11, info_of("a", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&body, 1, node_of("Mul", "a x", "b"));
    put_message(&body, 12, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 12, info_of("b", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&body, 12, info_of("b", TD__GRAPH_FLOAT, 0, NULL));
    return body;
}

/* A graph whose input is x and whose output is y, run on these numbers. */
typedef struct ran {
    td__graph *graph;
    td__graph_run *run;
    td_tape *tape;
    td_tensor *x;
} ran;

static ran open_graph(proto_bytes graph, int64_t opset) {
    td_error error = {0};
    proto_bytes model = model_of(graph, opset);
    ran r = {.graph = td__onnx_parse(model.data, model.size, NULL, &error)};
    free(model.data);
    r.run = r.graph ? td__graph_run_create(r.graph, &error) : NULL;
    r.tape = td_tape_create(NULL, &error);
    r.x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(2), (float[]){2, 3}, &error);
    if (!r.run) {
        fail_msg("%s", error.text);
    }
    td__graph_run_begin(r.run);
    td__graph_run_set(r.run, 0, TD__GRAPH_FLOAT, r.x);
    return r;
}

static void close_graph(ran *r) {
    td_tensor_destroy(r->x);
    td_tape_destroy(r->tape);
    td__graph_run_destroy(r->run);
    td__graph_destroy(r->graph);
}

/* In this many MiB of memory. */
static void refuse(proto_bytes graph, size_t memory, td_status status, const char *words) {
    ran r = open_graph(graph, 16);
    td_error error = {0};
    td__tape_limit(r.tape, memory << 20);
    td__graph_run_set_work(r.run, (int64_t)1 << 24);
    assert_false(td__graph_run_nodes(r.run, r.tape, 0, r.graph->node_count));
    assert_int_equal(td_tape_status(r.tape, &error), status);
    if (!strstr(error.text, words)) {
        fail_msg("'%s' is not in: %s", words, error.text);
    }
    close_graph(&r);
}

static void refuse_file(proto_bytes graph, td_status status, const char *words) {
    proto_bytes model = model_of(graph, 16);
    td_error error = {0};
    assert_null(td__onnx_parse(model.data, model.size, NULL, &error));
    assert_int_equal(error.status, status);
    if (!strstr(error.text, words)) {
        fail_msg("'%s' is not in: %s", words, error.text);
    }
    free(model.data);
}

/* Input x, one loop over x with `rounds` rounds, outputs. */
static proto_bytes loop_graph(int64_t rounds, proto_bytes body) {
    proto_bytes graph = {0}, loop = node_of("Loop", "rounds yes one", "y all");
    put_graph_attribute(&loop, "body", body);
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&graph, 5, scalar_of("rounds", TD__GRAPH_INT64, rounds));
    put_message(&graph, 5, scalar_of("yes", TD__GRAPH_BOOL, 1));
    put_message(&graph, 5, floats_of("one", 1, (float[]){1}));
    put_message(&graph, 1, loop);
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&graph, 12, info_of("all", TD__GRAPH_FLOAT, 0, NULL));
    return graph;
}

/* y = x^3, whose gradient is 3 x^2; all has x, x^2 and x^3. */
static void a_loop_captures_and_gradients_flow_back(void **state) {
    (void)state;
    ran r = open_graph(loop_graph(3, powers_of_x()), 16);
    td_error error = {0};
    bool fine = td__graph_run_nodes(r.run, r.tape, 0, 1);
    assert_ok(td_tape_status(r.tape, &error), error);
    assert_true(fine);
    td_tensor *y = td__graph_run_plain(r.run, r.tape, r.graph->outputs[0]), *gradient;
    td_tensor *all = td__graph_run_plain(r.run, r.tape, r.graph->outputs[1]);
    static const float powers[] = {2, 3, 4, 9, 8, 27};
    assert_true(td_shape_equal(&all->shape, &TD_SHAPE(3, 2)));
    assert_memory_equal(all->data, powers, sizeof powers);
    assert_memory_equal(y->data, powers + 4, 2 * sizeof *powers);
    td_tensor *sum = td_sum(r.tape, y, NULL);
    assert_ok(td_tape_gradient(r.tape, sum, 1, &r.x, &gradient, &error), error);
    assert_float_equal(td__floats(gradient)[0], 12, 1e-5);
    assert_float_equal(td__floats(gradient)[1], 27, 1e-5);
    close_graph(&r);
}

static void a_loop_without_an_end_is_stopped(void **state) {
    (void)state;
    proto_bytes body = {0};
    put_message(&body, 11, info_of("i", TD__GRAPH_INT64, 0, NULL));
    put_message(&body, 11, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 11, info_of("a", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&body, 12, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 12, info_of("a", TD__GRAPH_FLOAT, 0, NULL));
    proto_bytes graph = {0}, loop = node_of("Loop", "- - x", "y");
    put_graph_attribute(&loop, "body", body);
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&graph, 1, loop);
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse(graph, 64, TD_RANGE, "takes too long");
}

/* Each round puts the sequence's length into the sequence: the lists together grow with the square. */
static void a_sequence_that_grows_is_bounded_by_memory(void **state) {
    (void)state;
    proto_bytes body = {0};
    put_message(&body, 11, info_of("i", TD__GRAPH_INT64, 0, NULL));
    put_message(&body, 11, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 11, info_of("s", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&body, 1, node_of("SequenceInsert", "s i", "t"));
    put_message(&body, 12, info_of("more", TD__GRAPH_BOOL, 0, NULL));
    put_message(&body, 12, info_of("t", TD__GRAPH_FLOAT, 0, NULL));
    proto_bytes graph = {0}, loop = node_of("Loop", "- - s", "y");
    put_graph_attribute(&loop, "body", body);
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&graph, 1, node_of("SequenceEmpty", "", "s"));
    put_message(&graph, 1, loop);
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse(graph, 4, TD_MEMORY, "no memory left");
}

static void what_is_no_tensor_stays_with_those_who_know_it(void **state) {
    (void)state;
    proto_bytes graph = {0};
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&graph, 1, node_of("SequenceConstruct", "x x", "s"));
    put_message(&graph, 1, node_of("Add", "x s", "y"));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse(graph, 4, TD_DTYPE, "input 1 is a sequence");

    proto_bytes text = {0}, other = {0}, cast = node_of("Cast", "x", "t");
    put_int_attribute(&cast, "to", TD__GRAPH_STRING);
    put_message(&text, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&text, 1, cast);
    put_message(&text, 1, node_of("Add", "t t", "y"));
    put_message(&text, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse(text, 4, TD_DTYPE, "input 0 is text");

    cast = node_of("Cast", "x", "t");
    put_int_attribute(&cast, "to", TD__GRAPH_STRING);
    proto_bytes mix = node_of("Concat", "t i", "y");
    put_int_attribute(&mix, "axis", 0);
    put_message(&other, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&other, 1, node_of("Shape", "x", "i"));
    put_message(&other, 1, cast);
    put_message(&other, 1, mix);
    put_message(&other, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse(other, 4, TD_DTYPE, "different types"); /* or numbers would be taken for addresses */
}

/* A graph may use what was made before its node, and nothing else. */
static void graphs_capture_what_is_there(void **state) {
    (void)state;
    proto_bytes inside = {0}, graph = {0}, node = node_of("If", "x", "y");
    put_message(&inside, 1, node_of("Relu", "later", "r"));
    put_message(&inside, 12, info_of("r", TD__GRAPH_FLOAT, 0, NULL));
    put_graph_attribute(&node, "then_branch", inside);
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 1, (int64_t[]){2}));
    put_message(&graph, 1, node);
    put_message(&graph, 1, node_of("Relu", "y", "later"));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse_file(graph, TD_FORMAT, "'later', which nothing makes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_captures_and_gradients_flow_back),
        cmocka_unit_test(a_loop_without_an_end_is_stopped),
        cmocka_unit_test(a_sequence_that_grows_is_bounded_by_memory),
        cmocka_unit_test(what_is_no_tensor_stays_with_those_who_know_it),
        cmocka_unit_test(graphs_capture_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
