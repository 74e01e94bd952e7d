/* Images and sequences whose channels come first in the file are read with them last: element by
 * element where it lies, so that a mapped file is not copied. */
#include "base/memory.h"
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

/* (…, channels) as (channels, …). */
static td_shape first_of(td_shape last) {
    td_shape first = {.rank = last.rank, .dims = {last.dims[last.rank - 1]}};
    memcpy(first.dims + 1, last.dims, sizeof(int64_t) * (size_t)(last.rank - 1));
    return first;
}

static td_shape last_of(td_shape first) {
    td_shape last = {.rank = first.rank};
    memcpy(last.dims, first.dims + 1, sizeof(int64_t) * (size_t)(first.rank - 1));
    last.dims[first.rank - 1] = first.dims[0];
    return last;
}

/* -1 in takes is any size. */
static bool shape_fits(const td_shape *found, const td_shape *takes) {
    bool same = found->rank == takes->rank;
    for (int32_t i = 0; same && i < found->rank; i++) {
        same = takes->dims[i] < 0 || takes->dims[i] == found->dims[i];
    }
    return same;
}

/* Of (channels, …): whether the elements come in another order with the channels last. */
static bool moves(const td_shape *first, int64_t count) {
    return first->dims[0] > 1 && count > first->dims[0];
}

static td_status move_axes(td__table *table, const td_shape *first, const char *path,
                           td_error *error) {
    td__array *array = &table->input;
    int64_t channels = first->dims[0], pixels = array->count / channels;
    if (moves(first, array->count)) {
        int64_t *offsets = td__calloc((size_t)array->count, sizeof *offsets);
        int64_t size = (int64_t)td__element_size(array->element);
        if (!offsets) {
            return td_error_set(error, TD_MEMORY, "%s: no memory", path);
        }
        for (int64_t i = 0; i < array->count; i++) {
            int64_t from = i % channels * pixels + i / channels;
            offsets[i] = array->offsets ? array->offsets[from] : from * size;
        }
        td__free(array->offsets);
        array->offsets = offsets;
        table->floats = NULL; /* what is done in place is done in the file's order */
    }
    array->shape = last_of(*first);
    return TD_OK;
}

static td_status remark(td__table *table, const char *path, const td_shape *shape, const char *how,
                        td_error *error) {
    char text[TD__NAME_LENGTH_MAXIMUM + 1], shown[TD_SHAPE_TEXT_SIZE];
    (void)snprintf(text, sizeof text, "%.100s: examples of shape %s are taken with %s", path,
                   td_shape_text(shape, shown), how);
    return td__names_add(&table->remarks, text) < 0
               ? td_error_set(error, TD_MEMORY, "no memory for a remark")
               : TD_OK;
}

/* An option about channels is not ignored where there are none. */
static td_status no_channels(const td__array *input, const char *path, td_error *error) {
    return td_error_set(error, TD_INVALID,
                        "`layout` says where examples have their channels, and an example in %s is "
                        "a row of %lld numbers: leave `layout` out%s",
                        path, (long long)input->count,
                        input->count > 1 ? "; `input: [height, width, channels]` gives rows a shape"
                                         : "");
}

static td_status misfit(const td_shape *found, const td_shape *takes, const char *path,
                        td_error *error) {
    td_shape first = first_of(*takes);
    char has[TD_SHAPE_TEXT_SIZE], a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    return td_error_set(error, TD_BAD_SHAPE,
                        "an example in %s is %s, but the model takes %s, or %s with the channels "
                        "last (-1: any size)",
                        path, td_shape_text(found, has), td_shape_text(&first, a),
                        td_shape_text(takes, b));
}

/* Rows of plain numbers have the shape that is asked for, where all of it is known. */
static bool shape_rows(const td_shape *found, const td_shape *takes, int64_t count,
                       td_shape *shape) {
    int64_t elements;
    bool known = found->rank == 1 && takes->rank > 1 &&
                 !td_shape_check(takes, TD_FLOAT32, &elements, NULL) && elements == count;
    *shape = known ? first_of(*takes) : *found;
    return known;
}

/* A model's file has the channels first: so has the data, unless it only fits with them last. */
static td_status fit_table(td__table *table, const td_data_options *options, const char *path,
                           td_error *error) {
    const td_shape *takes = &options->takes;
    td_shape found, wanted = first_of(*takes);
    bool rows = shape_rows(&table->input.shape, takes, table->input.count, &found);
    bool first = shape_fits(&found, &wanted), last = !rows && shape_fits(&found, takes);
    td_status status = TD_OK;
    if (found.rank != takes->rank) {
        return TD_OK; /* no channels to move, or reported elsewhere */
    }
    if (!first && !last) {
        return misfit(&found, takes, path, error);
    }
    if (first && (rows || moves(&found, table->input.count))) {
        status = remark(table, path, &found,
                        last ? "the channels first, as the model's file has them, though they "
                               "could come last (layout: channels_last)"
                             : "the channels first, as the model's file has them",
                        error);
    } else if (!first) {
        status = remark(table, path, &found, "the channels last; the model's file has them first",
                        error);
    }
    return status || !first ? status : move_axes(table, &found, path, error);
}

td_status td__layout_prepare(td_dataset *dataset, const td_data_options *options, td_error *error) {
    const char *const paths[] = {options->train ? options->train : "the data", options->validation};
    td_status status = TD_OK;
    for (int t = 0; t < dataset->table_count && !status; t++) {
        td__table *table = &dataset->tables[t];
        td_shape shape = table->input.shape;
        if (table->is_picture || options->layout == TD_LAYOUT_AS_IS) {
            continue;
        }
        if (options->layout == TD_LAYOUT_FIRST_IF_FITS) {
            status = options->takes.rank > 1 ? fit_table(table, options, paths[t], error) : TD_OK;
        } else if (options->layout == TD_LAYOUT_CHANNELS_FIRST) {
            (void)shape_rows(&table->input.shape, &options->takes, table->input.count, &shape);
            status = shape.rank > 1 ? move_axes(table, &shape, paths[t], error)
                                    : no_channels(&table->input, paths[t], error);
        } else if (shape.rank < 2 && options->input.rank < 2 && options->takes.rank < 2) {
            status = no_channels(&table->input, paths[t], error);
        }
    }
    return status;
}
