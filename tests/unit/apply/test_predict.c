/* Predictions of a saved model whose answers are known: y = 2 a - b + 0.5. */
#define FOLDER ""
#include "model_file.h"

static const char rows[] = "1,0\n0,1\n3,2\n"; /* a, b */

static int make_model(void **state) {
    td_error error = {0};
    if (make_folder(state)) {
        return -1;
    }
    td_model *model = td_model_create("line", TD_SHAPE(2));
    td_setting settings[] = {{"name", {.kind = TD_VALUE_TEXT, .text = "line"}},
                             {"units", {.kind = TD_VALUE_NUMBER, .number = 1}}};
    assert_ok(td_model_add(model, "dense", settings, 2, &error), error);
    assert_ok(td_model_build(model, 1, &error), error);
    memcpy(td_tensor_data(td_model_parameter(model, "line", "kernel")), (const float[]){2, -1},
           2 * sizeof(float));
    *(float *)td_tensor_data(td_model_parameter(model, "line", "bias")) = 0.5F;
    assert_ok(td_model_save(model, scratch("line.safetensors"), 0, NULL, &error), error);
    td_model_destroy(model);
    write_file(scratch("rows.csv"), rows, strlen(rows));
    return 0;
}

static td_status predict(const char *to, td_error *error) {
    td_predict_options options = {
        .size = sizeof options, .to = scratch(to), .header = TD_HEADER_NO};
    return td_predict(scratch("line.safetensors"), scratch("rows.csv"), &options, NULL, error);
}

static void assert_refused(td_status status, td_error *error, const char *message) {
    if (!status || !strstr(error->text, message)) {
        fail_msg("%s: '%s' does not have '%s'", td_status_text(status), error->text, message);
    }
    *error = (td_error){0};
}

static void numbers_are_the_models_in_the_files_order(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(predict("y.npy", &error), error);
    td_tensor *y = read_array(scratch("y.npy"));
    assert_int_equal(td_tensor_count(y), 3);
    assert_memory_equal(td_tensor_data(y), ((const float[]){2.5F, -0.5F, 4.5F}), 3 * sizeof(float));
    td_tensor_destroy(y);
}

static void csv_has_a_line_for_each_example(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(predict("y.csv", &error), error);
    FILE *file = fopen(scratch("y.csv"), "r");
    assert_non_null(file);
    char text[200] = "";
    size_t size = fread(text, 1, sizeof text - 1, file);
    assert_int_equal(fclose(file), 0);
    text[size] = 0;
    const char *lines = strchr(text, '\n');
    assert_non_null(lines);
    assert_string_equal(lines + 1, "2.5\n-0.5\n4.5\n");
}

static void an_ending_that_is_not_known_is_refused_before_anything_is_written(void **state) {
    (void)state;
    td_error error = {0};
    assert_refused(predict("y.exe", &error), &error, "y.exe: predictions are written to .csv");
    assert_int_equal(access(scratch("y.exe"), F_OK), -1);
}

static void files_of_others_are_kept_where_that_is_asked_for(void **state) {
    (void)state;
    td_error error = {0};
    write_file(scratch("mine.npy"), "precious", 8);
    td_predict_options options = {.size = sizeof options,
                                  .to = scratch("mine.npy"),
                                  .header = TD_HEADER_NO,
                                  .keep_files = true};
    assert_refused(
        td_predict(scratch("line.safetensors"), scratch("rows.csv"), &options, NULL, &error),
        &error, "is there already");
    char text[9] = "";
    FILE *file = fopen(scratch("mine.npy"), "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, 8, file), 8);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "precious");
}

static bool stop(void *user, int64_t done, int64_t examples) {
    (void)user;
    (void)examples;
    return done < 2;
}

static void what_is_stopped_leaves_no_file(void **state) {
    (void)state;
    td_error error = {0};
    td_predict_options options = {.size = sizeof options,
                                  .to = scratch("stopped.npy"),
                                  .header = TD_HEADER_NO,
                                  .batch = 1,
                                  .progress = stop};
    assert_int_equal(
        td_predict(scratch("line.safetensors"), scratch("rows.csv"), &options, NULL, &error),
        TD_INTERRUPTED);
    assert_int_equal(access(scratch("stopped.npy"), F_OK), -1);
}

static void data_that_does_not_fit_is_refused_with_both_shapes(void **state) {
    (void)state;
    td_error error = {0};
    write_file(scratch("wide.csv"), "1,2,3\n4,5,6\n", 12);
    td_predict_options options = {
        .size = sizeof options, .to = scratch("wide.npy"), .header = TD_HEADER_NO};
    td_status status =
        td_predict(scratch("line.safetensors"), scratch("wide.csv"), &options, NULL, &error);
    assert_refused(status, &error, "3");
    assert_int_equal(access(scratch("wide.npy"), F_OK), -1);
    assert_refused(
        td_predict(scratch("line.safetensors"), scratch("none.csv"), &options, NULL, &error),
        &error, "none.csv");
    assert_refused(td_predict(scratch("none.onnx"), scratch("rows.csv"), &options, NULL, &error),
                   &error, "none.onnx");
}

/* The file's header says how long it is: every cut is found. */
static void a_model_cut_anywhere_is_refused(void **state) {
    (void)state;
    td_error error = {0};
    FILE *file = fopen(scratch("line.safetensors"), "rb");
    assert_non_null(file);
    char bytes[8192];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    td_predict_options options = {.size = sizeof options, .header = TD_HEADER_NO};
    for (size_t cut = 0; cut < size; cut += 13) {
        write_file(scratch("cut.safetensors"), bytes, cut);
        assert_refused(
            td_predict(scratch("cut.safetensors"), scratch("rows.csv"), &options, NULL, &error),
            &error, "cut.safetensors");
    }
}

/* loss = mean (y - t)^2, so dloss/dkernel = mean 2 (y - t) x. */
static void gradients_of_a_line_are_those_of_the_formula(void **state) {
    (void)state;
    td_error error = {0};
    write_file(scratch("labelled.csv"), "1,0,2\n0,1,0\n3,2,4\n", 18);
    td_gradients_options options = {.size = sizeof options,
                                    .loss = "mse",
                                    .label = "last",
                                    .header = TD_HEADER_NO,
                                    .layers = "line"};
    td_gradients *gradients =
        td_gradients_create(scratch("line.safetensors"), scratch("labelled.csv"), &options, &error);
    if (!gradients) {
        fail_msg("%s", error.text);
    }
    const float residuals[] = {0.5F, -0.5F, 0.5F}; /* y - t */
    assert_close(td_gradients_about(gradients)->value, 0.25, 1e-6, 0);
    const td_gradient *kernel = NULL;
    for (size_t i = 0; td_gradients_at(gradients, i); i++) {
        const td_gradient *each = td_gradients_at(gradients, i);
        kernel = strcmp(each->name, "line.kernel.gradient") ? kernel : each;
    }
    assert_non_null(kernel);
    const float *values = td_tensor_data((td_tensor *)kernel->tensor);
    assert_close(values[0], 2 * (residuals[0] * 1 + residuals[2] * 3) / 3, 1e-6, 0);
    assert_close(values[1], 2 * (residuals[1] * 1 + residuals[2] * 2) / 3, 1e-6, 0);
    td_gradients_destroy(gradients);
    options.layers = "no_such";
    assert_null(td_gradients_create(scratch("line.safetensors"), scratch("labelled.csv"), &options,
                                    &error));
    assert_refused(error.status, &error, "no layer 'no_such'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_models_in_the_files_order),
        cmocka_unit_test(csv_has_a_line_for_each_example),
        cmocka_unit_test(an_ending_that_is_not_known_is_refused_before_anything_is_written),
        cmocka_unit_test(files_of_others_are_kept_where_that_is_asked_for),
        cmocka_unit_test(what_is_stopped_leaves_no_file),
        cmocka_unit_test(data_that_does_not_fit_is_refused_with_both_shapes),
        cmocka_unit_test(a_model_cut_anywhere_is_refused),
        cmocka_unit_test(gradients_of_a_line_are_those_of_the_formula),
    };
    return cmocka_run_group_tests(tests, make_model, remove_folder);
}
