/* Datasets: their header, and their values in one piece, borrowed where they can be. */
#include "hdf5/dataset.h"

#include "base/memory.h"

td_status td__h5_dataset_damaged(const td__h5_dataset *set, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: %s: damaged dataset: %s", set->file->origin,
                        set->name, what);
}

td_status td__h5_dataset_unsupported(const td__h5_dataset *set, const char *what, td_error *error) {
    return td_error_set(error, TD_UNSUPPORTED, "%s: %s: %s cannot be read", set->file->origin,
                        set->name, what);
}

static td_status read_message(td__h5_dataset *set, const td__h5_message *message, td_error *error) {
    td__h5_cursor body = message->body;
    switch (message->type) {
    case TD__H5_SPACE:
        set->space = body;
        break;
    case TD__H5_TYPE:
        set->type = td__h5_type_read(&body);
        if (body.bad && !message->shared) {
            return td__h5_dataset_damaged(set, "its type", error);
        }
        break;
    case TD__H5_LAYOUT:
        set->layout = body;
        break;
    case TD__H5_FILL:
        set->fill = body;
        break;
    case TD__H5_FILTERS:
        set->filters = body;
        break;
    case TD__H5_EXTERNAL:
        return td__h5_dataset_unsupported(set, "a dataset whose values are in other files", error);
    default:
        return TD_OK;
    }
    return message->shared
               ? td__h5_dataset_unsupported(set, "a dataset with a named (committed) type", error)
               : TD_OK;
}

static td_status read_header(td__h5_dataset *set, td__hdf5_object object, td_error *error) {
    td__h5_messages walk;
    td__h5_message message;
    td_status status = TD_OK;
    td__h5_messages_start(&walk, set->file, object, error);
    while (!status && td__h5_messages_next(&walk, &message, error)) {
        status = read_message(set, &message, error);
    }
    if (status || walk.status) {
        return status ? status : walk.status;
    }
    if (!set->space.at || !set->type.size || !set->layout.at) {
        return td_error_set(error, TD_DTYPE, "%s: %s is not a dataset", set->file->origin,
                            set->name);
    }
    if (set->type.kind != TD__H5_NUMBER) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: %s: elements are %s; only numbers are read",
                            set->file->origin, set->name,
                            set->type.kind == TD__H5_OTHER ? set->type.why : "texts");
    }
    status = td__h5_space_read(set->file, set->space, &set->shape, error);
    if (!status && td_shape_check(&set->shape, set->type.dtype, &set->count, NULL)) {
        status = td__h5_dataset_damaged(set, "its shape is too large", error);
    }
    return status;
}

/* Memory for the converted values; where they lie unconverted is its end. */
static td_status make_array_room(const td__h5_dataset *set, td__hdf5_array *array, uint8_t **raw,
                                 td_error *error) {
    size_t width = td_dtype_size(set->type.dtype), count = (size_t)set->count;
    array->owned = td__calloc(count, width);
    array->view.data = array->owned;
    if (!array->owned) {
        return td_error_set(error, TD_MEMORY, "%s: %s: out of memory", set->file->origin,
                            set->name);
    }
    *raw = (uint8_t *)array->owned + count * (width - set->type.size);
    return TD_OK;
}

static td_status convert_elements(const td__h5_dataset *set, const uint8_t *from, void *to,
                                  td_error *error) {
    if (!td__h5_convert(&set->type, from, (size_t)set->count, to)) {
        return td_error_set(error, TD_RANGE, "%s: %s: a number is larger than int64 holds",
                            set->file->origin, set->name);
    }
    return TD_OK;
}

/* Values that lie in one piece. */
static td_status use_values(const td__h5_dataset *set, td__h5_cursor values, td__hdf5_array *array,
                            td_error *error) {
    if (values.bad) {
        return td__h5_dataset_damaged(set, "its values are not in the file", error);
    }
    if (td__h5_type_is_native(&set->type)) {
        array->view.data = values.at;
        return TD_OK;
    }
    uint8_t *raw = NULL;
    td_status status = make_array_room(set, array, &raw, error);
    return status ? status : convert_elements(set, values.at, array->owned, error);
}

/* The value of elements that were never written; NULL is zero. */
static const uint8_t *fill_value(const td__h5_dataset *set) {
    td__h5_cursor body = set->fill;
    unsigned version = body.at ? td__h5_byte(&body) : 0;
    unsigned flags = version == 3 ? td__h5_byte(&body) : 0;
    td__h5_skip(&body, version == 3 ? 0 : 2);
    bool defined = version == 3 ? flags & 0x20 : td__h5_byte(&body) == 1;
    uint64_t size = td__h5_number(&body, 4);
    const uint8_t *value = td__h5_take(&body, size);
    return version > 0 && defined && size == set->type.size ? value : NULL;
}

/* Values in chunks, or nowhere: put together in memory, which what the file holds must justify. */
static td_status unpack_values(const td__h5_dataset *set, bool chunked, td__hdf5_array *array,
                               td_error *error) {
    uint64_t bytes = (uint64_t)set->count * td_dtype_size(set->type.dtype);
    if (bytes > td__h5_unpacked_maximum(set->file)) {
        return td_error_set(error, TD_RANGE,
                            "%s: %s: unpacks to %llu bytes, more than 16 MiB and twice the file",
                            set->file->origin, set->name, (unsigned long long)bytes);
    }
    uint8_t *raw = NULL;
    td_status status = make_array_room(set, array, &raw, error);
    const uint8_t *fill = fill_value(set);
    size_t size = set->type.size;
    for (size_t i = 0; fill && !status && i < (size_t)set->count; i++) {
        memcpy(raw + i * size, fill, size);
    }
    if (!status && chunked) {
        status = td__h5_chunks_read(set, raw, error);
    }
    return status || td__h5_type_is_native(&set->type)
               ? status
               : convert_elements(set, raw, array->owned, error);
}

static td_status read_values(const td__h5_dataset *set, td__hdf5_array *array, td_error *error) {
    enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2, VIRTUAL = 3 };
    td__h5_cursor layout = set->layout;
    unsigned version = td__h5_byte(&layout), class = td__h5_byte(&layout);
    uint64_t bytes = (uint64_t)set->count * set->type.size;
    if (version < 3 || version > 4) {
        return td__h5_dataset_unsupported(set, "a layout of a version other than 3 and 4", error);
    }
    if (class == VIRTUAL) {
        return td__h5_dataset_unsupported(set, "a virtual dataset", error);
    }
    if (bytes == 0) {
        array->view.data = set->file->bytes; /* of which nothing is used */
        return TD_OK;
    }
    if (class == COMPACT) {
        td__h5_cursor values = td__h5_sub(&layout, td__h5_number(&layout, 2));
        return use_values(set, td__h5_sub(&values, bytes), array, error);
    }
    if (class == CONTIGUOUS) {
        uint64_t address = td__h5_offset(&layout);
        return address == TD__H5_NONE && !layout.bad
                   ? unpack_values(set, false, array, error)
                   : use_values(set, td__h5_at(set->file, address, bytes), array, error);
    }
    return class == CHUNKED ? unpack_values(set, true, array, error)
                            : td__h5_dataset_damaged(set, "its layout", error);
}

td_status td__hdf5_read(td__hdf5 *file, td__hdf5_object object, const char *name,
                        td__hdf5_array *array, td_error *error) {
    td__h5_dataset set = {.file = file, .name = name};
    td_status status = read_header(&set, object, error);
    if (status) {
        return status;
    }
    td__hdf5_array made = {.view = {.dtype = set.type.dtype, .shape = set.shape}};
    status = read_values(&set, &made, error);
    if (status) {
        td__hdf5_release(&made);
        return status;
    }
    *array = made;
    return TD_OK;
}

void td__hdf5_release(td__hdf5_array *array) {
    td__free(array->owned);
    *array = (td__hdf5_array){0};
}
