/* Files that are not what they claim: a clear error, no crash, no memory to speak of, and no file
 * outside of the model's folder. */
#include "test.h"

#include "onnx_bytes.h"

#include "base/memory.h"
#include "graph/run.h"
#include "onnx/onnx.h"

#include <sys/stat.h>
#include <unistd.h>

/* Parses, and expects a failure with that status and a text that contains words. */
static void refuse_at(proto_bytes model, const char *path, td_status status, const char *words) {
    td_error error = {0};
    td__graph *graph = td__onnx_parse(model.data, model.size, path, &error);
    free(model.data);
    if (graph || error.status != status || !strstr(error.text, words)) {
        fail_msg("expected %d '%s', got %d '%s'", (int)status, words, (int)error.status,
                 graph ? "a graph" : error.text);
    }
}

static void refuse(proto_bytes model, td_status status, const char *words) {
    refuse_at(model, NULL, status, words);
}

static void refuse_graph(proto_bytes graph, td_status status, const char *words) {
    refuse(model_of(graph, 13), status, words);
}

static void refuse_tensor(proto_bytes tensor, td_status status, const char *words) {
    proto_bytes graph = {0};
    put_message(&graph, 5, tensor);
    put_message(&graph, 1, node_of("Relu", "t", "y"));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    refuse_graph(graph, status, words);
}

/* A model with a bit of everything. */
static proto_bytes rich_model(void) {
    proto_bytes graph = {0}, node = node_of("Conv", "x w -", "h"), list = {0}, constant = {0},
                inside = {0};
    float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t target[] = {0, -1};
    put_text(&list, 1, "strides");
    put_bytes(&list, 8, "\x01\x01", 2);
    put_int(&list, 20, TD__GRAPH_ATTRIBUTE_INTS);
    put_message(&node, 5, list);
    put_text_attribute(&node, "auto_pad", "NOTSET");
    put_message(&graph, 1, node);
    node = node_of("Constant", "", "shape");
    put_text(&constant, 1, "value");
    inside = tensor_of("", TD__GRAPH_INT64, 1, (int64_t[]){2}, target, sizeof target);
    put_message(&constant, 5, inside);
    put_int(&constant, 20, TD__GRAPH_ATTRIBUTE_TENSOR);
    put_message(&node, 5, constant);
    put_message(&graph, 1, node);
    put_message(&graph, 1, node_of("Reshape", "h shape", "y"));
    put_message(&graph, 5,
                tensor_of("w", TD__GRAPH_FLOAT, 4, (int64_t[]){2, 1, 2, 2}, w, sizeof w));
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 4, (int64_t[]){1, 1, 3, 3}));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 2, (int64_t[]){1, 8}));
    put_message(&graph, 13, info_of("h", TD__GRAPH_FLOAT, 4, (int64_t[]){1, 2, 2, 2}));
    return model_of(graph, 13);
}

/* Runs what is sound enough to run, on zeros. */
static void try_run(const td__graph *graph) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__graph_run *run = td__graph_run_create(graph, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(1, 1, 3, 3), &error);
    if (run && graph->input_count == 1) {
        td__graph_run_begin(run);
        td__graph_run_set(run, 0, TD__GRAPH_FLOAT, x);
        bool fine = td__graph_run_nodes(run, tape, 0, graph->node_count);
        assert_true(fine || td_tape_status(tape, NULL) != TD_OK);
    }
    td_tensor_destroy(x);
    td__graph_run_destroy(run);
    td_tape_destroy(tape);
}

static void truncated_at_every_byte(void **state) {
    (void)state;
    proto_bytes model = rich_model();
    for (size_t size = 0; size <= model.size; size++) {
        uint8_t *exact = malloc(size + 1); /* so that a sanitizer sees what reads further */
        memcpy(exact, model.data, size);
        exact = realloc(exact, size ? size : 1);
        td_error error = {0};
        td__graph *graph = td__onnx_parse(exact, size, NULL, &error);
        assert_true(size == model.size ? graph != NULL : !graph && error.text[0]);
        td__graph_destroy(graph);
        free(exact);
    }
    free(model.data);
}

static void every_byte_changed(void **state) {
    (void)state;
    static const uint8_t masks[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    proto_bytes model = rich_model();
    for (size_t i = 0; i < model.size; i++) {
        for (size_t k = 0; k < sizeof masks; k++) {
            model.data[i] ^= masks[k];
            td_error error = {0};
            td__graph *graph = td__onnx_parse(model.data, model.size, NULL, &error);
            assert_true(graph || error.text[0]);
            if (graph) {
                try_run(graph);
            }
            td__graph_destroy(graph);
            model.data[i] ^= masks[k];
        }
    }
    free(model.data);
}

static void memory_fails_at_every_allocation(void **state) {
    (void)state;
    proto_bytes model = rich_model();
    td__graph *graph = NULL;
    for (uint64_t n = 1; !graph; n++) {
        td_error error = {0};
        td__allocation_fail_at(n);
        graph = td__onnx_parse(model.data, model.size, NULL, &error);
        td__allocation_fail_at(0);
        assert_true(graph || error.status == TD_MEMORY);
    }
    td__graph_destroy(graph);
    free(model.data);
}

/* --- what a graph claims ------------------------------------------------------------------ */

static void what_is_no_model(void **state) {
    (void)state;
    proto_bytes nothing = {0}, text = {0}, twice = {0};
    refuse(nothing, TD_FORMAT, "no version");
    put_raw(&text, "just some text, as in README.md", 31);
    refuse(text, TD_FORMAT, "not a sound ONNX file");
    put_int(&twice, 1, 8);
    put_text(&twice, 7, "");
    put_text(&twice, 7, "");
    refuse(twice, TD_FORMAT, "several graphs");
    refuse_graph((proto_bytes){0}, TD_FORMAT, "no outputs");
}

static proto_bytes graph_with_output(void) {
    proto_bytes graph = {0};
    put_message(&graph, 11, info_of("x", TD__GRAPH_FLOAT, 0, NULL));
    put_message(&graph, 12, info_of("y", TD__GRAPH_FLOAT, 0, NULL));
    return graph;
}

static void names_that_do_not_fit(void **state) {
    (void)state;
    proto_bytes graph = graph_with_output();
    refuse_graph(graph, TD_FORMAT, "nothing makes output");

    graph = graph_with_output();
    put_message(&graph, 1, node_of("Relu", "nowhere", "y"));
    refuse_graph(graph, TD_FORMAT, "'nowhere', which nothing makes");

    graph = graph_with_output();
    put_message(&graph, 1, node_of("Relu", "x", "y"));
    put_message(&graph, 1, node_of("Abs", "x", "y"));
    refuse_graph(graph, TD_FORMAT, "'y' is made by node 0 (Relu) and by node 1 (Abs)");

    graph = graph_with_output(); /* a cycle */
    put_message(&graph, 1, node_of("Add", "x y", "h"));
    put_message(&graph, 1, node_of("Relu", "h", "y"));
    refuse_graph(graph, TD_FORMAT, "uses 'y', which only node 1 (Relu) makes");

    graph = graph_with_output();
    put_message(&graph, 1, node_of("Add", "x y", "y")); /* itself */
    refuse_graph(graph, TD_FORMAT, "uses 'y'");

    graph = graph_with_output();
    put_bytes(&graph, 1, "\x0a\x03x\0y\x22\x04Relu", 11);
    refuse_graph(graph, TD_FORMAT, "");

    graph = graph_with_output();
    put_message(&graph, 1, node_of("", "x", "y"));
    refuse_graph(graph, TD_FORMAT, "node 0");
}

static void what_is_not_supported_says_so(void **state) {
    (void)state;
    proto_bytes numbers = {0}, text = {0};
    put_int(&numbers, 2, 14);
    put_text(&numbers, 8, "t");
    refuse_tensor(numbers, TD_UNSUPPORTED, "type complex64");
    put_int(&text, 1, 1);
    put_int(&text, 2, TD__GRAPH_STRING);
    put_text(&text, 8, "t");
    put_bytes(&text, 9, "12345678", 8);
    refuse_tensor(text, TD_FORMAT, "is not in it"); /* or it would be taken for an address */
}

/* --- bombs -------------------------------------------------------------------------------- */

/* Two bytes of the file for each node would take fifty times as many in memory. */
static void counts_are_bounded_by_the_file(void **state) {
    (void)state;
    enum { MANY = 4 << 20 };
    proto_bytes graph = graph_with_output(), node = {0};
    for (int i = 0; i < MANY; i++) {
        put_raw(&graph, "\x0a\x00", 2);
    }
    refuse_graph(graph, TD_RANGE, "more memory than the file has bytes");
    put_text(&node, 4, "Relu");
    for (int i = 0; i < MANY; i++) {
        put_raw(&node, "\x2a\x00", 2);
    }
    graph = graph_with_output();
    put_message(&graph, 1, node);
    refuse_graph(graph, TD_RANGE, "more memory than the file has bytes");
}

/* 40 MB of bytes are 320 MB of int64: eight bytes for each that is there, and no more. */
static void small_integers_may_be_widened(void **state) {
    (void)state;
    size_t count = (size_t)40 << 20;
    uint8_t *zeros = calloc(count, 1);
    proto_bytes tensor =
        tensor_of("t", TD__GRAPH_INT8, 1, (int64_t[]){(int64_t)count}, zeros, count);
    td__graph_constant constant = {0};
    td__chunk *memory = NULL;
    td_error error = {0};
    assert_ok(td__onnx_parse_tensor(tensor.data, tensor.size, &constant, &memory, &error), error);
    td_tensor_destroy(constant.tensor);
    td__chunks_free(memory);
    free(tensor.data);
    free(zeros);
}

static void lengths_reach_no_further_than_the_file(void **state) {
    (void)state;
    static const char *const lengths[] = {
        "\x08\x08\x3a\xff\xff\xff\xff\x0f",                 /* 4 GiB */
        "\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", /* 2^63 - 1 */
        "\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", /* without an end */
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        proto_bytes model = {0};
        put_raw(&model, lengths[i], strlen(lengths[i]));
        refuse(model, TD_FORMAT, "cut off");
    }
}

/* Graphs in attributes in graphs are followed to a depth, and no stack ends before it. */
static void nesting_is_bounded(void **state) {
    (void)state;
    proto_bytes inside = {0};
    for (int depth = 0; depth < 2000; depth++) {
        proto_bytes attribute = {0}, node = node_of("If", "x", "z"), graph = {0};
        put_message(&attribute, 6, inside);
        put_message(&node, 5, attribute);
        put_message(&graph, 12, info_of("x", TD__GRAPH_FLOAT, 0, NULL));
        put_message(&graph, 1, node);
        inside = graph;
    }
    proto_bytes graph = graph_with_output(), node = node_of("If", "x", "y"), attribute = {0};
    put_text(&attribute, 1, "then_branch");
    put_message(&attribute, 6, inside);
    put_message(&node, 5, attribute);
    put_message(&graph, 1, node);
    refuse_graph(graph, TD_UNSUPPORTED, "more than 16 deep");
}

static void shapes_must_fit_their_data(void **state) {
    (void)state;
    float four[4] = {0};
    int64_t huge = (int64_t)1 << 62;
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 1, (int64_t[]){5}, four, sizeof four), TD_FORMAT,
                  "has 16 bytes");
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 1, (int64_t[]){3}, four, sizeof four), TD_FORMAT,
                  "has 16 bytes");
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 2, (int64_t[]){huge, 4}, four, sizeof four),
                  TD_FORMAT, "out of range");
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 2, (int64_t[]){huge, 0}, four, sizeof four),
                  TD_FORMAT, "");
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 1, (int64_t[]){-4}, four, sizeof four), TD_FORMAT,
                  "out of range");
    refuse_tensor(tensor_of("t", TD__GRAPH_FLOAT, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, four,
                            sizeof *four),
                  TD_UNSUPPORTED, "more than 8 dimensions");
    proto_bytes listed = {0};
    put_text(&listed, 8, "t");
    put_int(&listed, 1, huge / 8);
    put_int(&listed, 2, TD__GRAPH_FLOAT);
    put_bytes(&listed, 4, four, sizeof four);
    refuse_tensor(listed, TD_FORMAT, "has 4 values");
    listed = (proto_bytes){0};
    put_text(&listed, 8, "t");
    put_int(&listed, 1, 2);
    put_int(&listed, 2, TD__GRAPH_INT64);
    put_bytes(&listed, 7, "\x01\xff", 2); /* the second has no end */
    refuse_tensor(listed, TD_FORMAT, "has 1 values");
}

/* --- external data ------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/tapedeck_onnx_XXXXXX");
    char path[128];
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/model", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/model/sub", folder);
    mkdir(path, 0700);
    static const char *const files[] = {"secret.bin", "model/w.bin", "model/sub/w.bin"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        FILE *file = fopen(path, "wb");
        float values[] = {0, 1, 2, 3};
        td__little_copy(values, values, sizeof values, sizeof *values);
        fwrite(values, sizeof(float), 4, file);
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/model/link.bin", folder);
    int made = symlink("../secret.bin", path);
    snprintf(path, sizeof path, "%s/model/out", folder);
    made |= symlink("..", path);
    snprintf(path, sizeof path, "%s/model/pipe", folder);
    return made | mkfifo(path, 0600);
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"model/pipe",      "model/out",   "model/link.bin",
                                        "model/sub/w.bin", "model/w.bin", "secret.bin",
                                        "model/sub",       "model",       ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (remove(path)) {
            return -1;
        }
    }
    return 0;
}

/* Three floats somewhere else. */
static proto_bytes external_model(const char *location, const char *offset, const char *length) {
    proto_bytes graph = {0}, tensor = {0};
    const char *entries[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    put_int(&tensor, 1, 3);
    put_int(&tensor, 2, TD__GRAPH_FLOAT);
    put_text(&tensor, 8, "t");
    put_int(&tensor, 14, 1);
    for (size_t i = 0; i < 3; i++) {
        proto_bytes entry = {0};
        if (entries[i][1]) {
            put_text(&entry, 1, entries[i][0]);
            put_text(&entry, 2, entries[i][1]);
            put_message(&tensor, 13, entry);
        }
    }
    put_message(&graph, 5, tensor);
    put_message(&graph, 12, info_of("t", TD__GRAPH_FLOAT, 0, NULL));
    return model_of(graph, 13);
}

static void accept_external(const char *location, const char *offset, const char *length,
                            float first) {
    char path[128];
    snprintf(path, sizeof path, "%s/model/m.onnx", folder);
    proto_bytes model = external_model(location, offset, length);
    td_error error = {0};
    td__graph *graph = td__onnx_parse(model.data, model.size, path, &error);
    free(model.data);
    if (!graph) {
        fail_msg("%s", error.text);
    }
    const float *values = td_tensor_data(graph->values[0].constant.tensor);
    assert_float_equal(values[0], first, 0);
    assert_float_equal(values[2], first + 2, 0);
    td__graph_destroy(graph);
}

static void external_data_beneath_the_folder_is_read(void **state) {
    (void)state;
    accept_external("w.bin", NULL, NULL, 0);
    accept_external("w.bin", "4", "12", 1);
    accept_external("./w.bin", "0", "12", 0);
    accept_external("sub/w.bin", "4", NULL, 1);
}

static void external_data_elsewhere_is_refused(void **state) {
    (void)state;
    char path[128], absolute[128];
    snprintf(path, sizeof path, "%s/model/m.onnx", folder);
    snprintf(absolute, sizeof absolute, "%s/secret.bin", folder);
    static const struct {
        const char *location, *words;
    } cases[] = {
        {"../secret.bin", "in the model's folder"},
        {"sub/../../secret.bin", "in the model's folder"},
        {"sub/..", "in the model's folder"},
        {"", "in the model's folder"},
        {"sub/", "in the model's folder"},
        {"link.bin", "links are not followed"},
        {"out/secret.bin", "links are not followed"},
        {"pipe", "not a regular file"},
        {"sub", "not a regular file"},
        {"w.bin/x", "links are not followed"},
        {"missing.bin", "No such file"},
    };
    refuse_at(external_model(absolute, NULL, NULL), path, TD_FORMAT, "in the model's folder");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse_at(external_model(cases[i].location, NULL, NULL), path, TD_FORMAT, cases[i].words);
    }
    refuse_at(external_model(NULL, NULL, NULL), path, TD_FORMAT, "no location");
    refuse_at(external_model("w.bin", NULL, NULL), NULL, TD_FORMAT, "no file");
    char name[300];
    memset(name, 'a', sizeof name);
    name[299] = 0;
    refuse_at(external_model(name, NULL, NULL), path, TD_FORMAT, "in the model's folder");
}

static void external_data_stays_inside_its_file(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/model/m.onnx", folder);
    static const struct {
        const char *offset, *length, *words;
    } cases[] = {
        {"8", "12", "past the end"},
        {"17", NULL, "past the end"},
        {"18446744073709551615", "12", "past the end"},
        {"4", "18446744073709551615", "past the end"},
        {"0", "16", "has 16 bytes"},
        {"0", "8", "has 8 bytes"},
        {"-4", "12", "offset '-4'"},
        {"99999999999999999999", "12", "offset"},
        {"0x4", "12", "offset '0x4'"},
        {"", "12", "offset ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse_at(external_model("w.bin", cases[i].offset, cases[i].length), path, TD_FORMAT,
                  cases[i].words);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_at_every_byte),
        cmocka_unit_test(every_byte_changed),
        cmocka_unit_test(memory_fails_at_every_allocation),
        cmocka_unit_test(what_is_no_model),
        cmocka_unit_test(names_that_do_not_fit),
        cmocka_unit_test(what_is_not_supported_says_so),
        cmocka_unit_test(counts_are_bounded_by_the_file),
        cmocka_unit_test(small_integers_may_be_widened),
        cmocka_unit_test(lengths_reach_no_further_than_the_file),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(shapes_must_fit_their_data),
        cmocka_unit_test(external_data_beneath_the_folder_is_read),
        cmocka_unit_test(external_data_elsewhere_is_refused),
        cmocka_unit_test(external_data_stays_inside_its_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
