/* Programs of torch.export: what PyTorch computed (tests/fixtures/make_models_exported.py), and archives
 * that are damaged or have what is not supported. */
#define FOLDER TD_TEST_FOLDER "/fixtures/models/exported/"
#include "model_file.h"

#include "zip/zip.h"

#include <sys/mman.h>

/* A program of one linear layer, y = x W^T, with W = {{1, 2}, {3, 4}}. */
#define TENSOR(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"
#define MATRIX(rows)                                                                               \
    "{\"dtype\": 7, \"sizes\": [{\"as_int\": " rows "}, {\"as_int\": 2}], \"strides\": "           \
    "[{\"as_int\": 2}, {\"as_int\": 1}], \"storage_offset\": {\"as_int\": 0}}"
/* clang-format off */
#define PROGRAM(target, output) \
    "{\"graph_module\": {\"graph\": {" \
    "\"inputs\": [" TENSOR("p_weight") ", " TENSOR("x") "]," \
    "\"outputs\": [" TENSOR(output) "]," \
    "\"nodes\": [{\"target\": \"" target "\", \"name\": \"linear\", \"inputs\": [" \
    "{\"name\": \"input\", \"arg\": " TENSOR("x") "}," \
    "{\"name\": \"weight\", \"arg\": " TENSOR("p_weight") "}]," \
    "\"outputs\": [" TENSOR("linear") "]}]," \
    "\"tensor_values\": {\"x\": " MATRIX("3") ", \"linear\": " MATRIX("3") ", \"p_weight\": " MATRIX("2") "}}," \
    "\"signature\": {\"input_specs\": [" \
    "{\"parameter\": {\"arg\": {\"name\": \"p_weight\"}, \"parameter_name\": \"weight\"}}," \
    "{\"user_input\": {\"arg\": " TENSOR("x") "}}]}}}"
/* clang-format on */
#define LINEAR "torch.ops.aten.linear.default"
#define WEIGHTS                                                                                    \
    "{\"config\": {\"weight\": {\"path_name\": \"weight_0\", \"tensor_meta\": " MATRIX("2") "}}}"

static void put(td__zip_writer *writer, const char *name, const void *data, size_t size) {
    td__zip_begin(writer, name);
    td__zip_append(writer, data, size);
    td__zip_end(writer);
}

/* An archive of these texts and `count` floats as weight_0; free(data). */
static file_bytes make_archive(const char *model, const char *weights, size_t count) {
    static const float values[4] = {1, 2, 3, 4};
    int file = memfd_create("archive", MFD_CLOEXEC);
    assert_true(file >= 0);
    td__zip_writer writer = {.file = file, .good = true};
    put(&writer, "p/archive_format", "pt2", 3);
    put(&writer, "p/models/model.json", model, strlen(model));
    put(&writer, "p/data/weights/model_weights_config.json", weights, strlen(weights));
    put(&writer, "p/data/constants/model_constants_config.json", "{}", 2);
    put(&writer, "p/data/weights/weight_0", values, count * sizeof *values);
    td__zip_finish(&writer);
    assert_true(writer.good);
    file_bytes made = {malloc((size_t)writer.at), (size_t)writer.at};
    assert_int_equal(pread(file, made.data, made.size, 0), made.size);
    close(file);
    return made;
}

static void assert_archive_refused(const char *model, const char *weights, size_t count,
                                   const char *message) {
    file_bytes made = make_archive(model, weights, count);
    assert_bytes_refused("made.pt2", made.data, made.size, message);
    free(made.data);
}

static void programs_predict_what_pytorch_computed(void **state) {
    (void)state;
    assert_file_predicts("images", ".pt2", 1e-4);
    assert_file_predicts("words", ".pt2", 1e-4);
}

static void parameters_have_the_names_of_the_module(void **state) {
    (void)state;
    td_model *model = load_model("images", ".pt2");
    assert_non_null(td_model_parameter(model, "first", "kernel"));
    assert_non_null(td_model_parameter(model, "norm", "gamma"));
    assert_non_null(td_model_parameter(model, "depthwise", "kernel"));
    td_model_destroy(model);
}

static void a_program_made_by_hand_computes_x_times_the_transposed_weight(void **state) {
    (void)state;
    td_error error = {0};
    file_bytes made = make_archive(PROGRAM(LINEAR, "linear"), WEIGHTS, 4);
    write_file(scratch("made.pt2"), made.data, made.size);
    free(made.data);
    td_model *model = td_model_load(scratch("made.pt2"), &error);
    if (!model) {
        fail_msg("%s", error.text);
    }
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(3, 2), &error);
    assert_non_null(x);
    memcpy(td_tensor_data(x), (const float[]){1, 0, 0, 1, 1, -1}, 6 * sizeof(float));
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *y = td_model_forward(model, tape, x);
    assert_ok(td_tape_status(tape, &error), error);
    assert_memory_equal(td_tensor_data(y), ((const float[]){1, 3, 2, 4, -1, -1}),
                        6 * sizeof(float));
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void an_operator_that_is_not_supported_is_named(void **state) {
    (void)state;
    assert_archive_refused(PROGRAM("torch.ops.aten.no_such.default", "linear"), WEIGHTS, 4,
                           "not supported: aten.no_such.default");
}

static void what_does_not_fit_together_is_refused(void **state) {
    (void)state;
    assert_archive_refused(PROGRAM(LINEAR, "nothing"), WEIGHTS, 4, "an output that nothing makes");
    assert_archive_refused("{}", WEIGHTS, 4, "it has no graph");
    assert_archive_refused("{\"graph_module\": ", WEIGHTS, 4, "made.pt2");
    assert_archive_refused(PROGRAM(LINEAR, "linear"), "{}", 4, "tensor 'weight' is not there");
    assert_archive_refused(PROGRAM(LINEAR, "linear"), WEIGHTS, 3,
                           "a tensor has another size than its shape");
}

static void pickled_weights_are_never_read(void **state) {
    (void)state;
    assert_archive_refused(
        PROGRAM(LINEAR, "linear"),
        "{\"config\": {\"weight\": {\"path_name\": \"weight_0\", \"use_pickle\": "
        "true, \"tensor_meta\": " MATRIX("2") "}}}",
        4, "pickled");
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    file_bytes whole = read_fixture_file("images.pt2");
    for (size_t size = 40; size < whole.size; size += 1009) {
        assert_bytes_refused("short.pt2", whole.data, size, "short.pt2");
    }
    free(whole.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_predict_what_pytorch_computed),
        cmocka_unit_test(parameters_have_the_names_of_the_module),
        cmocka_unit_test(a_program_made_by_hand_computes_x_times_the_transposed_weight),
        cmocka_unit_test(an_operator_that_is_not_supported_is_named),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(pickled_weights_are_never_read),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
