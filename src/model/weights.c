#include "model/weights.h"

#include "base/memory.h"
#include "base/words.h"

#include <string.h>

td_status td__weights_init(td__weights *weights, td_model *model, const char *path,
                           td_error *error) {
    *weights =
        (td__weights){.model = model, .path = path, .count = td_model_parameter_count(model)};
    weights->values = td__calloc(weights->count + 1, sizeof *weights->values);
    weights->filled = td__calloc(weights->count + 1, sizeof *weights->filled);
    bool good = weights->values && weights->filled;
    for (size_t i = 0; good && i < weights->count; i++) {
        const td_tensor *tensor = td_model_parameter_at(model, i)->tensor;
        weights->values[i] = td__calloc((size_t)td_tensor_count(tensor) + 1, sizeof(float));
        good = weights->values[i];
    }
    if (!good) {
        td__weights_release(weights);
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    return TD_OK;
}

void td__weights_release(td__weights *weights) {
    for (size_t i = 0; weights->values && i < weights->count; i++) {
        td__free(weights->values[i]);
    }
    td__free(weights->values);
    td__free(weights->filled);
    *weights = (td__weights){0};
}

ptrdiff_t td__weights_find(const td__weights *weights, const char *name, td_error *error) {
    for (size_t i = 0; i < weights->count; i++) {
        if (!strcmp(td_model_parameter_at(weights->model, i)->name, name)) {
            return (ptrdiff_t)i;
        }
    }
    const char **names = td__calloc(weights->count + 1, sizeof *names);
    for (size_t i = 0; names && i < weights->count; i++) {
        names[i] = td_model_parameter_at(weights->model, i)->name;
    }
    const char *nearest = names ? td__nearest_word(name, names, weights->count) : NULL;
    td_error_set(error, TD_NOT_FOUND, "%s: the model has no parameter %s%s%s%s", weights->path,
                 name, nearest ? "; the nearest is '" : "", nearest ? nearest : "",
                 nearest ? "'" : "");
    td__free(names);
    return -1;
}

/* Values may stand at any address. */
static float element(const td_view *view, int64_t index) {
    const char *at = (const char *)view->data + (size_t)index * td_dtype_size(view->dtype);
    switch (view->dtype) {
#define TD_ELEMENT(name, text, type)                                                               \
    case TD_##name: {                                                                              \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return (float)value;                                                                       \
    }
        TD_DTYPE_LIST(TD_ELEMENT)
#undef TD_ELEMENT
    default:
        return 0;
    }
}

td_status td__weights_put(td__weights *weights, const char *name, const td_view *view,
                          td_error *error) {
    ptrdiff_t index = td__weights_find(weights, name, error);
    if (index < 0) {
        return TD_NOT_FOUND;
    }
    const td_tensor *tensor = td_model_parameter_at(weights->model, (size_t)index)->tensor;
    td_shape shape = td_tensor_shape(tensor);
    if (!td_shape_equal(&view->shape, &shape)) {
        char have[TD_SHAPE_TEXT_SIZE], want[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_SHAPE, "%s: %s has shape %s, the model's has %s",
                            weights->path, name, td_shape_text(&view->shape, have),
                            td_shape_text(&shape, want));
    }
    int64_t count = td_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++) {
        weights->values[index][i] = element(view, i);
    }
    weights->filled[index] = count;
    return TD_OK;
}

td_status td__weights_apply(td__weights *weights, td_error *error) {
    for (size_t i = 0; i < weights->count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(weights->model, i);
        int64_t count = td_tensor_count(parameter->tensor);
        if (weights->filled[i] != count) {
            return td_error_set(error, TD_NOT_FOUND, "%s: %s is missing%s", weights->path,
                                parameter->name, weights->filled[i] ? " some elements" : "");
        }
    }
    for (size_t i = 0; i < weights->count; i++) {
        const td_tensor *tensor = td_model_parameter_at(weights->model, i)->tensor;
        memcpy(td_tensor_data(tensor), weights->values[i],
               (size_t)td_tensor_count(tensor) * sizeof(float));
    }
    return TD_OK;
}
