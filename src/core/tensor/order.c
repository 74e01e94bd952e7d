#include "tensor/order.h"

#include "base/little.h"
#include "base/memory.h"

/* The data pointer of an empty tensor. */
static const uint64_t nowhere;

void td__view_release(const td_view *view) {
    if (view->release) {
        view->release(view->owner);
    }
}

/* A copy of count values, in the other order if `turned`. */
static td_status copy_values(const td_view *view, int64_t count, bool turned, const char *origin,
                             td_view *made, td_error *error) {
    size_t size = td_dtype_size(view->dtype), bytes = (size_t)count * size;
    void *values = count ? td__aligned_alloc(bytes) : NULL;
    if (count && !values) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    if (values) {
        td__little_copy(values, view->data, bytes, turned ? size : 1);
    }
    *made = (td_view){view->dtype, view->shape, values ? values : (const void *)&nowhere,
                      values ? td__aligned_free : NULL, values};
    return TD_OK;
}

static td_status replace_values(td_view *view, bool turned, const char *origin, td_error *error) {
    int64_t count;
    size_t size = td_dtype_size(view->dtype);
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status || (count && !turned && (uintptr_t)view->data % size == 0)) {
        return status;
    }
    td_view made;
    status = copy_values(view, count, turned, origin, &made, error);
    if (!status) {
        td__view_release(view);
        *view = made;
    }
    return status;
}

td_status td__view_align(td_view *view, const char *origin, td_error *error) {
    return replace_values(view, false, origin, error);
}

static bool lies_otherwise(const td_view *view) {
    return !TD__LITTLE_ENDIAN && td_dtype_size(view->dtype) > 1;
}

td_status td__view_to_file(const td_view *view, td_view *made, td_error *error) {
    int64_t count;
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status || !lies_otherwise(view)) {
        *made = (td_view){view->dtype, view->shape, view->data, NULL, NULL};
        return status;
    }
    return copy_values(view, count, true, "a tensor", made, error);
}

td_status td__view_from_file(td_view *view, const char *origin, td_error *error) {
    td_status status = replace_values(view, lies_otherwise(view), origin, error);
    if (status) {
        td__view_release(view);
        *view = (td_view){0};
    }
    return status;
}
