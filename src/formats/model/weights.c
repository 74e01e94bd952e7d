#include "model/weights.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Parameters by name ---------------------------------------------------------------------- */

static int compare_parameters(const void *left, const void *right) {
    return strcmp((*(const td_parameter_info *const *)left)->name,
                  (*(const td_parameter_info *const *)right)->name);
}

td_status td__parameter_index_init(td__parameter_index *index, const td_model *model,
                                   td_error *error) {
    size_t count = td_model_parameter_count(model);
    *index = (td__parameter_index){td__calloc(count + 1, sizeof *index->sorted), count};
    if (!index->sorted) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        index->sorted[i] = td_model_parameter_at(model, i);
    }
    qsort(index->sorted, count, sizeof *index->sorted, compare_parameters);
    return TD_OK;
}

void td__parameter_index_release(td__parameter_index *index) {
    td__free(index->sorted);
    *index = (td__parameter_index){0};
}

ptrdiff_t td__parameter_index_find(const td__parameter_index *index, const char *name) {
    const td_parameter_info key = {.name = name}, *at = &key;
    const td_parameter_info **found =
        bsearch(&at, index->sorted, index->count, sizeof *index->sorted, compare_parameters);
    return found ? found - index->sorted : -1;
}

const char *td__parameter_index_nearest(const td__parameter_index *index, const char *name) {
    const char **names = td__calloc(index->count + 1, sizeof *names);
    for (size_t i = 0; names && i < index->count; i++) {
        names[i] = index->sorted[i]->name;
    }
    const char *nearest = names ? td_nearest_word(name, names, index->count) : NULL;
    td__free(names);
    return nearest;
}

td__named_view *td__parameter_views(const td_model *model) {
    size_t count = td_model_parameter_count(model);
    td__named_view *views = td__calloc(count + 1, sizeof *views);
    for (size_t i = 0; views && i < count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(model, i);
        views[i] = (td__named_view){.name = parameter->name, .view = td_view_of(parameter->tensor)};
    }
    return views;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Which tensor each parameter of the index takes. */
static void match(const td__parameter_index *index, size_t count, const td__named_view *tensors,
                  const td__named_view **source, td__reasons *problems) {
    for (size_t i = 0; i < count; i++) {
        const td__named_view *tensor = &tensors[i];
        ptrdiff_t at = td__parameter_index_find(index, tensor->name);
        if (at < 0) {
            const char *nearest = td__parameter_index_nearest(index, tensor->name);
            td__reasons_add(problems, TD_NOT_FOUND, "the model has no parameter %s%s%s%s",
                            tensor->name, nearest ? "; the nearest is '" : "",
                            nearest ? nearest : "", nearest ? "'" : "");
            continue;
        }
        td_shape shape = td_tensor_shape(index->sorted[at]->tensor);
        char have[TD_SHAPE_TEXT_SIZE], want[TD_SHAPE_TEXT_SIZE];
        if (source[at]) {
            td__reasons_add(problems, TD_EXISTS, "%s is there twice", tensor->name);
        } else if (!td_shape_equal(&tensor->view.shape, &shape)) {
            td__reasons_add(problems, TD_BAD_SHAPE, "%s has shape %s, the model's has %s",
                            tensor->name, td_shape_text(&tensor->view.shape, have),
                            td_shape_text(&shape, want));
        }
        source[at] = tensor;
    }
    for (size_t i = 0; i < index->count; i++) {
        if (!source[i]) {
            td__reasons_add(problems, TD_NOT_FOUND, "%s is missing", index->sorted[i]->name);
        }
    }
}

td_status td__weights_assign(td_model *model, const char *path, size_t count,
                             const td__named_view *tensors, td_error *error) {
    td__parameter_index index;
    td_status status = td__parameter_index_init(&index, model, error);
    if (status) {
        return status;
    }
    const td__named_view **source = td__calloc(index.count + 1, sizeof *source);
    if (source) {
        td__reasons problems = {0};
        match(&index, count, tensors, source, &problems);
        status = td__reasons_report(&problems, path, error);
    } else {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; !status && i < index.count; i++) {
        const td_tensor *parameter = index.sorted[i]->tensor;
        td__copy_floats(td_tensor_data(parameter), &source[i]->view, 0, td_tensor_count(parameter));
    }
    td__free(source);
    td__parameter_index_release(&index);
    return status;
}
