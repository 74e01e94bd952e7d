/* Loading: what a file is, what it may cost, and that whatever is wrong with it is an error. */
#include "test.h"

#include "base/json.h"
#include "base/memory.h"
#include "model/native.h"
#include "model/weights.h"
#include "tapedeck/model.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/td_load_XXXXXX";
static char model_path[64], other_path[64];
static unsigned char *bytes; /* of the saved model */
static size_t size;
static int other;

/* The file at other_path, which is in memory: it is written thousands of times. */
static void write_other(const void *data, size_t length) {
    assert_int_equal(ftruncate(other, 0), 0);
    assert_int_equal(pwrite(other, data, length, 0), length);
}

static td_model *make_model(void) {
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(4, 4, 1));
    td_add_conv2d(model, .name = "conv", .filters = 2, .kernel = {3}, .activation = TD_RELU);
    td_add_batch_normalization(model, .name = "norm");
    td_add_flatten(model);
    td_add_dense(model, .name = "out", .units = 3);
    assert_ok(td_model_build(model, 7, &error), error);
    return model;
}

static int set_up(void **state) {
    (void)state;
    td_error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(model_path, sizeof model_path, "%s/m.safetensors", folder);
    other = memfd_create("other", MFD_CLOEXEC);
    assert_true(other >= 0);
    snprintf(other_path, sizeof other_path, "/proc/self/fd/%d", other);
    td_model *model = make_model();
    assert_ok(td_model_save(model, model_path, 0, NULL, &error), error);
    td_model_destroy(model);
    struct stat about;
    assert_int_equal(stat(model_path, &about), 0);
    size = (size_t)about.st_size;
    bytes = malloc(size);
    FILE *file = fopen(model_path, "rb");
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    free(bytes);
    close(other);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void a_saved_model_comes_back(void **state) {
    (void)state;
    td_error error = {0};
    td_model *first = make_model(), *second = td_model_load(model_path, &error);
    assert_non_null(second);
    assert_int_equal(td_model_parameter_count(first), td_model_parameter_count(second));
    for (size_t i = 0; i < td_model_parameter_count(first); i++) {
        const td_tensor *a = td_model_parameter_at(first, i)->tensor;
        const td_tensor *b = td_model_parameter_at(second, i)->tensor;
        assert_string_equal(td_tensor_name(a), td_tensor_name(b));
        assert_memory_equal(td_tensor_data(a), td_tensor_data(b),
                            (size_t)td_tensor_count(a) * sizeof(float));
    }
    td_model_destroy(first);
    td_model_destroy(second);
}

static void a_file_cut_short_anywhere_is_an_error(void **state) {
    (void)state;
    for (size_t length = 0; length < size; length++) {
        td_error error = {0};
        write_other(bytes, length);
        assert_null(td_model_load(other_path, &error));
        assert_int_not_equal(error.status, TD_OK);
        assert_non_null(strstr(error.text, other_path));
    }
}

static void a_byte_that_is_wrong_does_no_harm(void **state) {
    (void)state;
    for (size_t at = 0; at < size; at++) {
        td_error error = {0};
        unsigned char flip = (unsigned char)(1 << at * 5 % 8);
        bytes[at] ^= flip;
        write_other(bytes, size);
        td_model *model = td_model_load(other_path, &error);
        assert_true(model || error.text[0]);
        td_model_destroy(model);
        bytes[at] ^= flip;
    }
}

/* A safetensors file with this header and `data` bytes of zeros. */
static void write_header(const char *header, size_t data) {
    size_t length = strlen(header);
    unsigned char *all = calloc(1, 8 + length + data);
    for (int i = 0; i < 8; i++) {
        all[i] = (unsigned char)(length >> (8 * i));
    }
    memcpy(all + 8, header, length);
    write_other(all, 8 + length + data);
    free(all);
}

static void an_architecture_larger_than_its_file_takes_no_memory(void **state) {
    (void)state;
    td_error error = {0};
    write_header("{\"__metadata__\":{\"tapedeck.model\":\"{\\\"name\\\":\\\"m\\\",\\\"input\\\":"
                 "[100000],\\\"layers\\\":[[\\\"dense\\\",{\\\"units\\\":100000}]]}\"}}",
                 0);
    assert_null(td_model_load(other_path, &error));
    assert_non_null(strstr(error.text, "more parameters than the file"));
    write_header("{\"__metadata__\":{\"tapedeck.model\":\"{\\\"name\\\":\\\"m\\\",\\\"input\\\":"
                 "[2147483647],\\\"layers\\\":[[\\\"lstm\\\",{\\\"units\\\":2147483647}]]}\"}}",
                 0);
    assert_null(td_model_load(other_path, &error));
}

static void json_that_would_take_more_memory_than_its_file_is_refused(void **state) {
    (void)state;
    td_error error = {0};
    size_t length = 9 << 20;
    char *text = malloc(length);
    for (size_t i = 0; i < length; i++) {
        text[i] = "[],"[i % 3];
    }
    text[0] = '[';
    assert_null(td__json_read("x", text, length, td__json_budget(length), &error));
    assert_int_equal(error.status, TD_RANGE);
    for (size_t i = 1; i < length; i++) {
        text[i] = "1,"[i % 2];
    }
    assert_null(td__json_read("x", text, length, td__json_budget(length), &error));
    assert_int_equal(error.status, TD_RANGE);
    memset(text, ' ', length);
    memcpy(text, "{\"a\": \"[[[[{{{{,,,,\"}", 21);
    json_t *value = td__json_read("x", text, length, td__json_budget(length), &error);
    assert_non_null(value);
    json_decref(value);
    free(text);
}

static void what_is_no_model_is_named(void **state) {
    (void)state;
    td_error error = {0};
    write_other("layer,parameter,index,value\n", 28);
    assert_null(td_model_load(other_path, &error));
    assert_int_equal(error.status, TD_FORMAT);
    assert_non_null(strstr(error.text, "no model file"));
    assert_null(td_model_load("/nowhere/model.keras", &error));
    assert_non_null(strstr(error.text, "/nowhere/model.keras"));
    assert_null(td_model_load("/dev/null", &error));
}

/* Every allocation on the way fails once: an error, nothing leaked, the model as it was. */
static void memory_that_runs_out_is_an_error_everywhere(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_model();
    float *kernel = td_tensor_data(td_model_parameter(model, "out", "kernel"));
    static const char *const names[] = {"/w.csv", "/w.npz", "/w.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s%s", folder, names[i]);
        assert_ok(td_weights_save(model, path, &error), error);
        bool loaded = false;
        for (uint64_t n = 1; !loaded && n < 10000; n++) {
            kernel[0] = 77;
            td__allocation_fail_at(n);
            td_status status = td_weights_load(model, path, &error);
            td__allocation_fail_at(0);
            loaded = status == TD_OK;
            assert_true(loaded || kernel[0] == 77);
        }
        assert_true(loaded && kernel[0] != 77);
    }
    for (uint64_t n = 1, done = 0; !done && n < 10000; n++) {
        td__allocation_fail_at(n);
        const td_inspection *about = td_model_inspect(model_path, &error);
        td__allocation_fail_at(0);
        done = about != NULL;
        td_inspection_destroy(about);
        assert_true(n < 9999);
    }
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_model_comes_back),
        cmocka_unit_test(a_file_cut_short_anywhere_is_an_error),
        cmocka_unit_test(a_byte_that_is_wrong_does_no_harm),
        cmocka_unit_test(an_architecture_larger_than_its_file_takes_no_memory),
        cmocka_unit_test(json_that_would_take_more_memory_than_its_file_is_refused),
        cmocka_unit_test(what_is_no_model_is_named),
        cmocka_unit_test(memory_that_runs_out_is_an_error_everywhere),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
