/* Heap tensors, shapes and element types. */
#include "tensor/tensor.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define DTYPE_ROW(member, text, type) [TD_##member] = {text, sizeof(type)},
    TD_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool is_dtype(td_dtype dtype) {
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0];
}

const char *td_dtype_name(td_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].name : NULL;
}

size_t td_dtype_size(td_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

td_status td_shape_check(const td_shape *shape, td_dtype dtype, int64_t *count, td_error *error) {
    if (!is_dtype(dtype)) {
        return td_error_set(error, TD_DTYPE, "%d is no element type", (int)dtype);
    }
    if (shape->rank < 0 || shape->rank > TD_MAX_RANK) {
        return td_error_set(error, TD_BAD_SHAPE, "a tensor has 0 to %d dimensions, not %d",
                            TD_MAX_RANK, (int)shape->rank);
    }
    int64_t product = (int64_t)dtypes[dtype].size;
    bool empty = false;
    char text[TD_SHAPE_TEXT_SIZE];
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            return td_error_set(error, TD_BAD_SHAPE, "shape %s has a negative dimension",
                                td_shape_text(shape, text));
        }
        empty = empty || shape->dims[i] == 0;
        /* Also with an empty dimension the others must be sane: reshapes rely on it. */
        if (shape->dims[i] != 0 && !td__multiply(product, shape->dims[i], &product)) {
            return td_error_set(error, TD_BAD_SHAPE,
                                "shape %s has more elements than memory can hold",
                                td_shape_text(shape, text));
        }
    }
    if (count) {
        *count = empty ? 0 : product / (int64_t)dtypes[dtype].size;
    }
    return TD_OK;
}

bool td_shape_equal(const td_shape *a, const td_shape *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

const char *td_shape_text(const td_shape *shape, char text[TD_SHAPE_TEXT_SIZE]) {
    int32_t rank = shape->rank < 0 ? 0 : shape->rank > TD_MAX_RANK ? TD_MAX_RANK : shape->rank;
    size_t used = 1;
    text[0] = '(';
    for (int32_t i = 0; i < rank; i++) {
        used += (size_t)snprintf(text + used, TD_SHAPE_TEXT_SIZE - used, "%s%lld", i ? ", " : "",
                                 (long long)shape->dims[i]);
    }
    snprintf(text + used, TD_SHAPE_TEXT_SIZE - used, rank == 1 ? ",)" : ")");
    return text;
}

/* Memory of the tensor and its name; data is left to the caller. */
static td_tensor *create_without_data(const char *name, td_dtype dtype, const td_shape *shape,
                                      td_error *error) {
    int64_t count;
    if (td_shape_check(shape, dtype, &count, error)) {
        return NULL;
    }
    td_tensor *tensor = td__calloc(1, sizeof *tensor);
    char *copied_name = td__strdup(name ? name : "");
    if (!tensor || !copied_name) {
        td__free(tensor);
        td__free(copied_name);
        td_error_set(error, TD_MEMORY, "no memory for tensor '%s'", name ? name : "");
        return NULL;
    }
    *tensor = (td_tensor){
        .dtype = dtype, .shape = *shape, .count = count, .name = copied_name, .slot = -1};
    return tensor;
}

td_tensor *td__tensor_create_raw(const char *name, td_dtype dtype, td_shape shape,
                                 td_error *error) {
    td_tensor *tensor = create_without_data(name, dtype, &shape, error);
    if (!tensor) {
        return NULL;
    }
    size_t bytes = (size_t)tensor->count * td_dtype_size(dtype);
    tensor->data = td__aligned_alloc(bytes);
    tensor->owns_data = true;
    if (!tensor->data) {
        char text[TD_SHAPE_TEXT_SIZE];
        td_error_set(error, TD_MEMORY, "no memory for tensor '%s' of shape %s (%zu bytes)",
                     tensor->name, td_shape_text(&shape, text), bytes);
        td_tensor_destroy(tensor);
        return NULL;
    }
    return tensor;
}

td_tensor *td_tensor_create(const char *name, td_dtype dtype, td_shape shape, td_error *error) {
    td_tensor *tensor = td__tensor_create_raw(name, dtype, shape, error);
    if (tensor) {
        memset(tensor->data, 0, (size_t)tensor->count * td_dtype_size(dtype));
    }
    return tensor;
}

td_tensor *td_tensor_from(const char *name, td_dtype dtype, td_shape shape, const void *data,
                          td_error *error) {
    td_tensor *tensor = td__tensor_create_raw(name, dtype, shape, error);
    if (tensor && tensor->count > 0) {
        memcpy(tensor->data, data, (size_t)tensor->count * td_dtype_size(dtype));
    }
    return tensor;
}

td_tensor *td_tensor_borrow(const char *name, td_dtype dtype, td_shape shape, void *data,
                            td_error *error) {
    td_tensor *tensor = create_without_data(name, dtype, &shape, error);
    if (tensor) {
        tensor->data = data;
    }
    return tensor;
}

void td__tensor_point(td_tensor *borrowed, const td_view *view) {
    borrowed->dtype = view->dtype;
    borrowed->shape = view->shape;
    borrowed->data = (void *)(uintptr_t)view->data;
    borrowed->count = td__elements_from(&view->shape, 0);
}

void td_tensor_destroy(td_tensor *tensor) {
    if (!tensor || tensor->recording) {
        return;
    }
    if (tensor->owns_data) {
        td__aligned_free(tensor->data);
    }
    td__free((void *)(uintptr_t)tensor->name);
    td__free(tensor);
}

const char *td_tensor_name(const td_tensor *tensor) {
    return tensor->name;
}
td_dtype td_tensor_dtype(const td_tensor *tensor) {
    return tensor->dtype;
}
td_shape td_tensor_shape(const td_tensor *tensor) {
    return tensor->shape;
}
int64_t td_tensor_count(const td_tensor *tensor) {
    return tensor->count;
}
void *td_tensor_data(const td_tensor *tensor) {
    return tensor->data;
}
float td_tensor_scalar(const td_tensor *tensor) {
    return td__floats(tensor)[0];
}

td_view td_view_of(const td_tensor *tensor) {
    return td__view_of(tensor);
}
