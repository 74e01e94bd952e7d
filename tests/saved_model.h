/* Saved models beside what their originals put out: NAME.EXTENSION, NAME.input.npy, NAME.output.npy
 * in a folder of fixtures. Define FOLDER first. */
#ifndef TAPEDECK_TESTS_SAVED_MODEL_H
#define TAPEDECK_TESTS_SAVED_MODEL_H

#include "test.h"

#include "data/npy.h"
#include "tapedeck/model.h"

/* The values of an .npy file as float32, with their shape. */
static inline td_tensor *read_array(const char *path) {
    td_error error = {0};
    td__bytes bytes = {0};
    td__array array = {0};
    int64_t rows = 0;
    assert_ok(td__bytes_map(&bytes, path, &error), error);
    assert_ok(td__npy_parse(&array, &rows, &bytes, path, &error), error);
    td_shape shape = {.rank = array.shape.rank + 1, .dims = {rows}};
    memcpy(shape.dims + 1, array.shape.dims, sizeof(int64_t) * (size_t)array.shape.rank);
    td_tensor *tensor = td_tensor_create("array", TD_FLOAT32, shape, &error);
    assert_non_null(tensor);
    for (int64_t i = 0; i < rows; i++) {
        td__array_read(&array, i, (float *)td_tensor_data(tensor) + i * array.count);
    }
    td__bytes_release(&bytes);
    return tensor;
}

/* NAME.PART.npy of the fixtures. */
static inline td_tensor *read_npy(const char *name, const char *part) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.%s.npy", name, part);
    return read_array(path);
}

static inline td_model *load_model(const char *name, const char *extension) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s%s", name, extension);
    td_error error = {0};
    td_model *model = td_model_load(path, &error);
    if (!model) {
        fail_msg("%s", error.text);
    }
    return model;
}

#endif
