/* From a pickle's values to tensors; see torch.h. */
#include "torch/torch.h"

#include "base/memory.h"
#include "base/reasons.h"
#include "tensor/order.h"
#include "torch/names.h"
#include "torch/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_SIZE = 1024,
    DEPTH = 64,
    VISITS_EACH = 16 /* of a value, which may be in several places */
};

typedef struct reader {
    const char *path;
    td__pickle pickle;
    td__torch_storages storages;
    td__tensor_list *list;
    char name[NAME_SIZE]; /* of what is being looked at */
    size_t visits, others;
    size_t left; /* bytes that tensors may still take that do not lie in the file as they are */
} reader;

static const td__pickle_value *value_at(const reader *r, uint32_t index) {
    return &r->pickle.values[index];
}

/* Item i of a list; NULL when it has fewer. */
static const td__pickle_value *item(const reader *r, const td__pickle_value *list, uint32_t i) {
    return list->kind == TD__PICKLE_LIST && i < list->count ? value_at(r, list->items[i]) : NULL;
}

static td_status damaged(const reader *r, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: %s: %s", r->path, *r->name ? r->name : "its pickle",
                        what);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* As much of a name as an error shows. */
static int shown(uint32_t length) {
    enum { MAX_LENGTH = 90 };
    return length < MAX_LENGTH ? (int)length : MAX_LENGTH;
}

/* Every name that is not in the list, once where it comes several times in a row. */
static td_status check_names(const reader *r, td_error *error) {
    td__reasons refused = {0};
    char last[200] = "";
    for (size_t i = 0; i < r->pickle.count; i++) {
        const td__pickle_value *value = &r->pickle.values[i];
        char name[200];
        if (value->kind != TD__PICKLE_NAME || td__torch_name_of(value)) {
            continue;
        }
        (void)snprintf(name, sizeof name, "%.*s.%.*s", shown(value->module_length), value->module,
                       shown(value->length), value->text);
        if (strcmp(name, last) != 0) {
            td__reasons_add(&refused, TD_UNSUPPORTED, "%s", name);
        }
        memcpy(last, name, sizeof last);
    }
    if (!refused.count) {
        return TD_OK;
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: a pickle that wants more than tensors, which is code and never run: "
                        "%.500s; save the tensors alone: torch.save(model.state_dict(), \"x.pt\"), "
                        "or export the model: torch.onnx.export(model, example, \"model.onnx\")",
                        r->path, refused.text);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* The numbers of a tuple, or of torch.Size. */
static bool read_numbers(const reader *r, const td__pickle_value *list, int64_t *numbers,
                         int32_t *count) {
    const td__torch_name *name =
        list && list->kind == TD__PICKLE_CALL ? td__torch_name_of(value_at(r, list->called)) : NULL;
    if (name && name->role == TD__TORCH_SIZE) {
        list = item(r, value_at(r, list->arguments), 0);
    }
    if (!list || list->kind != TD__PICKLE_LIST || list->count > TD_MAX_RANK) {
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const td__pickle_value *number = item(r, list, i);
        if (number->kind != TD__PICKLE_NUMBER || number->number < 0) {
            return false;
        }
        numbers[i] = number->number;
    }
    *count = (int32_t)list->count;
    return true;
}

/* Whether all elements lie within a storage of `available` elements. */
static bool strides_fit(const td_shape *shape, const int64_t *strides, int64_t offset,
                        int64_t available) {
    int64_t last = offset;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t span;
        if (shape->dims[i] == 0) {
            return true;
        }
        if (!td__multiply(shape->dims[i] - 1, strides[i], &span) ||
            __builtin_add_overflow(last, span, &last)) {
            return false;
        }
    }
    return last < available;
}

static bool is_row_major(const td_shape *shape, const int64_t *strides) {
    int64_t size = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        if (shape->dims[i] != 1 && strides[i] != size) {
            return false;
        }
        size *= shape->dims[i];
    }
    return true;
}

/* Copies elements that lie `strides` apart, at any address, one after the other. */
static void gather_strided(const td_view *view, const int64_t *strides, int64_t count, char *to) {
    size_t size = td_dtype_size(view->dtype);
    int64_t index[TD_MAX_RANK] = {0}, at = 0;
    for (int64_t i = 0; i < count; i++, to += size) {
        memcpy(to, (const char *)view->data + (size_t)at * size, size);
        for (int32_t axis = view->shape.rank - 1; axis >= 0; axis--) {
            at += strides[axis];
            if (++index[axis] < view->shape.dims[axis]) {
                break;
            }
            at -= index[axis] * strides[axis];
            index[axis] = 0;
        }
    }
}

/* Puts a tensor of any strides in order, within what the file justifies: one number expanded to a
 * billion is a few bytes. The view is released on failure. */
static td_status arrange(reader *r, td_view *view, const int64_t *strides, int64_t count,
                         td_error *error) {
    size_t bytes = (size_t)count * td_dtype_size(view->dtype);
    if (count == 0 || is_row_major(&view->shape, strides)) {
        return TD_OK;
    }
    char *copy = bytes <= r->left ? td__aligned_alloc(bytes) : NULL;
    if (copy) {
        gather_strided(view, strides, count, copy);
    }
    td__torch_release(view);
    if (!copy) {
        return td_error_set(error, TD_RANGE,
                            "%s: %s: %zu bytes, more than its file justifies or memory has; save a "
                            "copy of it: tensor.clone()",
                            r->path, r->name, bytes);
    }
    r->left -= bytes;
    *view = (td_view){view->dtype, view->shape, copy, td__aligned_free, copy};
    return TD_OK;
}

/* (storage, offset, size, stride, …). */
static td_status add_tensor(reader *r, const td__pickle_value *arguments, bool typed,
                            td_error *error) {
    const td__pickle_value *storage = item(r, arguments, 0), *offset = item(r, arguments, 1),
                           *metadata = item(r, arguments, typed ? 7 : 6);
    td_view view = {0};
    int64_t strides[TD_MAX_RANK] = {0}, count = 0, available = 0;
    int32_t stride_count = 0;
    if (!storage || storage->kind != TD__PICKLE_PERSISTENT || !offset ||
        offset->kind != TD__PICKLE_NUMBER || offset->number < 0 ||
        !read_numbers(r, item(r, arguments, 2), view.shape.dims, &view.shape.rank) ||
        !read_numbers(r, item(r, arguments, 3), strides, &stride_count) ||
        stride_count != view.shape.rank) {
        return damaged(r, "a tensor's size, stride or storage", error);
    }
    if (metadata && metadata->kind == TD__PICKLE_DICT && metadata->count) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: %s: a tensor that is to be negated or conjugated when it is read; "
                            "save tensor.resolve_neg().resolve_conj()",
                            r->path, r->name);
    }
    const td__torch_name *type =
        typed && item(r, arguments, 6) ? td__torch_name_of(item(r, arguments, 6)) : NULL;
    td_status status = td__torch_storage_find(&r->storages, &r->pickle, storage, type, &r->left,
                                              &view, &available, error);
    if (status) {
        return status;
    }
    if (td_shape_check(&view.shape, view.dtype, &count, NULL) ||
        !strides_fit(&view.shape, strides, offset->number, available)) {
        td__torch_release(&view);
        return damaged(r, "a tensor reaches beyond its storage", error);
    }
    if (count) {
        view.data = (const char *)view.data + (size_t)offset->number * td_dtype_size(view.dtype);
    }
    size_t length = strlen(r->name) + 1; /* many names may be made of few bytes, too */
    if (length > r->left) {
        td__torch_release(&view);
        return damaged(r, "more names than its file justifies", error);
    }
    r->left -= length;
    status = arrange(r, &view, strides, count, error);
    status = status ? status : td__view_from_file(&view, r->path, error);
    return status ? status : td__tensor_list_add(r->list, r->name, view, r->path, error);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static td_status visit(reader *r, const td__pickle_value *value, int depth, td_error *error);

/* Visits a value under the name that its key adds. */
static td_status visit_named(reader *r, const td__pickle_value *key, const td__pickle_value *value,
                             int depth, td_error *error) {
    size_t length = strlen(r->name), room = sizeof r->name - length;
    const char *dot = length ? "." : "";
    int added = 0;
    if (key->kind == TD__PICKLE_TEXT && !memchr(key->text, 0, key->length) &&
        key->length < sizeof r->name) {
        added = snprintf(r->name + length, room, "%s%.*s", dot, (int)key->length, key->text);
    } else if (key->kind == TD__PICKLE_NUMBER) {
        added = snprintf(r->name + length, room, "%s%" PRId64, dot, key->number);
    } else {
        return damaged(r, "a key that is neither a text nor a number", error);
    }
    if ((size_t)added >= room) {
        r->name[length] = 0;
        return damaged(r, "a name is too long", error);
    }
    td_status status = visit(r, value, depth, error);
    r->name[length] = 0;
    return status;
}

static td_status visit_pairs(reader *r, const td__pickle_value *dict, int depth, td_error *error) {
    td_status status = TD_OK;
    for (uint32_t i = 0; i + 1 < dict->count && !status; i += 2) {
        status = visit_named(r, value_at(r, dict->items[i]), value_at(r, dict->items[i + 1]), depth,
                             error);
    }
    return status;
}

static td_status visit_list(reader *r, const td__pickle_value *list, int depth, td_error *error) {
    td_status status = TD_OK;
    for (uint32_t i = 0; i < list->count && !status; i++) {
        const td__pickle_value key = {.kind = TD__PICKLE_NUMBER, .number = i};
        status = visit_named(r, &key, value_at(r, list->items[i]), depth, error);
    }
    return status;
}

/* Python 2 made an OrderedDict of a list of pairs. */
static td_status visit_dict(reader *r, const td__pickle_value *made, int depth, td_error *error) {
    const td__pickle_value *pairs = item(r, value_at(r, made->arguments), 0);
    td_status status = visit_pairs(r, made, depth, error);
    for (uint32_t i = 0; pairs && pairs->kind == TD__PICKLE_LIST && i < pairs->count && !status;
         i++) {
        const td__pickle_value *key = item(r, item(r, pairs, i), 0),
                               *value = item(r, item(r, pairs, i), 1);
        status = key && value ? visit_named(r, key, value, depth, error)
                              : damaged(r, "a key without a value", error);
    }
    return status;
}

static td_status visit_call(reader *r, const td__pickle_value *called,
                            const td__pickle_value *arguments, const td__pickle_value *made,
                            int depth, td_error *error) {
    const td__torch_name *name = td__torch_name_of(called);
    if (!name) {
        return damaged(r, "a call of what is no name", error);
    }
    switch (name->role) {
    case TD__TORCH_TENSOR:
    case TD__TORCH_TYPED:
        return add_tensor(r, arguments, name->role == TD__TORCH_TYPED, error);
    case TD__TORCH_PARAMETER:
        return item(r, arguments, 0) ? visit(r, item(r, arguments, 0), depth, error)
                                     : damaged(r, "a parameter without a tensor", error);
    case TD__TORCH_FROM_TYPE:
        return item(r, arguments, 2) && depth < DEPTH
                   ? visit_call(r, item(r, arguments, 0), item(r, arguments, 2), made, depth + 1,
                                error)
                   : damaged(r, "a tensor without its parts", error);
    case TD__TORCH_DICT:
        return visit_dict(r, made, depth, error);
    default:
        r->others++;
        return TD_OK;
    }
}

static td_status visit(reader *r, const td__pickle_value *value, int depth, td_error *error) {
    if (depth == DEPTH || ++r->visits > VISITS_EACH * r->pickle.count) {
        return td_error_set(error, TD_RANGE,
                            "%s: %.200s: dictionaries within dictionaries without end", r->path,
                            r->name);
    }
    switch (value->kind) {
    case TD__PICKLE_DICT:
        return visit_pairs(r, value, depth + 1, error);
    case TD__PICKLE_LIST:
        return visit_list(r, value, depth + 1, error);
    case TD__PICKLE_CALL:
        return visit_call(r, value_at(r, value->called), value_at(r, value->arguments), value,
                          depth + 1, error);
    default:
        r->others++;
        return TD_OK;
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static td_status read_root(reader *r, td_error *error) {
    const td__pickle_value *root = value_at(r, r->pickle.root);
    if (root->kind == TD__PICKLE_CALL) {
        const td__torch_name *name = td__torch_name_of(value_at(r, root->called));
        if (name && name->role != TD__TORCH_DICT) { /* one tensor, saved alone */
            (void)snprintf(r->name, sizeof r->name, "tensor");
        }
    }
    td_status status = visit(r, root, 0, error);
    if (!status && r->others) {
        (void)snprintf(r->list->remark, sizeof r->list->remark,
                       "%zu more values are no tensors (numbers, texts)", r->others);
    }
    return status;
}

td_status td__torch_parse(const char *path, const void *bytes, size_t size, td__tensor_list *list,
                          td_error *error) {
    reader *r = td__calloc(1, sizeof *r);
    if (!r) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    r->path = path;
    r->list = list;
    r->left = ((size_t)64 << 20) + (size < SIZE_MAX / 64 ? 16 * size : 0);
    td_status status =
        td__torch_storages_open(&r->storages, &r->pickle, path, bytes, size, list, error);
    status = status ? status : check_names(r, error);
    status = status ? status : td__torch_storages_place(&r->storages, &r->pickle, error);
    status = status ? status : read_root(r, error);
    status = status ? status : td__tensor_list_check(list, path, error);
    td__torch_storages_release(&r->storages);
    td__pickle_release(&r->pickle);
    td__free(r);
    return status;
}

bool td__torch_is_pickle(const unsigned char *head, size_t size) {
    return size > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}
