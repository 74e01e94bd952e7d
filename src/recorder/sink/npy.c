/* NPY files: SIGNAL.npy is one growing array [records, …shape]; SIGNAL.steps.npy has the step of
 * each record and SIGNAL.samples.npy, where that is known, the data set's row of each of its rows.
 *
 * Records of another shape or type than the signal's first (the last, short batch) make an array of
 * their own, SIGNAL@16x10.npy, with its own steps: every array is exactly what was recorded.
 *
 * Data is appended before the header counts it, and steps and samples before the data. So every
 * record that a header counts is there, and no record is without its step.
 */
#include "tensor/npy.h"
#include "base/file.h"
#include "base/little.h"
#include "base/memory.h"
#include "deck/reach.h"
#include "sink/append.h"
#include "sink/classes.h"
#include "sink/resume.h"
#include "sink/text.h"
#include "tensor/element.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One file. */
typedef struct array {
    td__append *file; /* NULL until created */
    td_dtype dtype;
    td_shape shape; /* of one record */
    int64_t bytes;  /* of one record */
    int64_t header_bytes;
    int64_t empty_records; /* when bytes is 0: how many there are */
} array;

/* The arrays of one signal with one shape. */
typedef struct series {
    struct series *next;
    array data, steps, samples;
    bool has_samples;
    bool ready;  /* its files are open */
    int attempt; /* which of the names it has */
} series;

struct td_sink {
    td__append_set set;
    series **signals; /* by signal index */
    size_t signal_count;
};

enum { COUNT_WIDTH = 21 }; /* of a header's first dimension */

static int64_t record_count(const array *a) {
    int64_t written = a->file->end - a->header_bytes;
    return a->bytes ? written / a->bytes : a->empty_records;
}

/* Version 1.0; the first dimension has room for 21 digits, so that the size never changes. */
static size_t format_header(char *out, const array *a, int64_t count) {
    int length = snprintf(out + 10, TD__HEADER_SIZE - 10,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%*lld,",
                          td__npy_type(a->dtype), COUNT_WIDTH, (long long)count);
    for (int32_t i = 0; i < a->shape.rank; i++) {
        length += snprintf(out + 10 + length, TD__HEADER_SIZE - 10 - (size_t)length, " %lld%s",
                           (long long)a->shape.dims[i], i + 1 < a->shape.rank ? "," : "");
    }
    length += snprintf(out + 10 + length, TD__HEADER_SIZE - 10 - (size_t)length, "), }");
    return td__npy_frame(out, (size_t)length);
}

static size_t current_header(const td__append *file, char *out) {
    const array *a = file->owner;
    return format_header(out, a, record_count(a));
}

/* The file of an earlier session has the same header but for the count. */
static td_status adopt_array(td_sink *sink, array *a, const char *name, td_error *error) {
    char header[TD__HEADER_SIZE], found[TD__HEADER_SIZE];
    size_t size = format_header(header, a, 0);
    int fd = td__file_open(sink->set.folder, name, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) {
        return TD_NOT_FOUND;
    }
    ssize_t got = pread(fd, found, size, 0);
    close(fd);
    const char *count = memmem(header, size, "'shape': (", 10);
    size_t at = (size_t)(count - header) + 10;
    if (got == (ssize_t)size) {
        memcpy(header + at, found + at, COUNT_WIDTH);
        a->empty_records = strtoll(header + at, NULL, 10);
    }
    return td__append_adopt(&sink->set, name, TD__APPEND_FRAMED, header, size, &a->file, error);
}

static td_status open_array(td_sink *sink, array *a, const char *name, bool *adopted,
                            td_error *error) {
    if (a->file) {
        return TD_OK;
    }
    char header[TD__HEADER_SIZE];
    size_t size = format_header(header, a, 0);
    td_status status = sink->set.resumed ? adopt_array(sink, a, name, error) : TD_NOT_FOUND;
    *adopted = status == TD_OK;
    if (status == TD_NOT_FOUND) {
        status =
            td__append_create(&sink->set, name, TD__APPEND_FRAMED, header, size, &a->file, error);
    }
    if (!status) {
        a->header_bytes = (int64_t)size;
        a->file->header = current_header;
        a->file->owner = a;
    }
    return status;
}

/* --- series ----------------------------------------------------------------------------------- */

static series **find_signal(td_sink *sink, const td_record *record, td_error *error) {
    if (!td__signals_reach(&sink->signals, &sink->signal_count, record->signal_index,
                           sizeof *sink->signals)) {
        td_error_set(error, TD_MEMORY, "npy: out of memory");
        return NULL;
    }
    return &sink->signals[record->signal_index];
}

/* "" where that is free, then "@16x10", then "@16x10-float64". */
static void name_variant(char *out, size_t size, const array *data, int attempt) {
    *out = 0;
    if (attempt == 0) {
        return;
    }
    const td_shape *shape = &data->shape;
    size_t length = (size_t)snprintf(out, size, "@%s", shape->rank ? "" : "scalar");
    for (int32_t i = 0; i < shape->rank; i++) {
        length += (size_t)snprintf(out + length, size - length, "%s%lld", i ? "x" : "",
                                   (long long)shape->dims[i]);
    }
    if (attempt == 2) {
        snprintf(out + length, size - length, "-%s", td_dtype_name(data->dtype));
    }
}

/* The data's name decides those of the others. Created data first: the set writes those created
 * last first. */
static td_status open_files(td_sink *sink, series *s, const td_record *record, td_error *error) {
    char base[TD__SIGNAL_FILE_SIZE], shape[24 * TD_MAX_RANK], name[sizeof base + sizeof shape + 16];
    bool adopted = false, ignored;
    td__signal_file(base, record->signal);
    td_status status = TD_EXISTS;
    for (int attempt = s->attempt; status == TD_EXISTS && attempt < 3; attempt++) {
        name_variant(shape, sizeof shape, &s->data, attempt);
        snprintf(name, sizeof name, "%s%s.npy", base, shape);
        status = open_array(sink, &s->data, name, &adopted, error);
        s->attempt = attempt;
    }
    if (status) {
        return status;
    }
    snprintf(name, sizeof name, "%s%s.steps.npy", base, shape);
    status = open_array(sink, &s->steps, name, &ignored, error);
    snprintf(name, sizeof name, "%s%s.samples.npy", base, shape);
    if (adopted && record_count(&s->data) > 0) { /* there are samples for all records or for none */
        s->has_samples = s->samples.bytes > 0 && faccessat(sink->set.folder, name, F_OK, 0) == 0;
    }
    if (!status && s->has_samples) {
        status = open_array(sink, &s->samples, name, &ignored, error);
    }
    s->ready = status == TD_OK;
    return status;
}

static td_status find_series(td_sink *sink, const td_record *record, const td_view *view,
                             int64_t bytes, series **found, td_error *error) {
    series **signal = find_signal(sink, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    series *s = *signal;
    while (s && (s->data.dtype != view->dtype || !td_shape_equal(&s->data.shape, &view->shape))) {
        s = s->next;
    }
    if (!s) {
        s = td__calloc(1, sizeof *s);
        if (!s) {
            return td_error_set(error, TD_MEMORY, "npy: out of memory");
        }
        int64_t row_count = view->shape.rank > 0 ? view->shape.dims[0] : 0;
        s->data = (array){.dtype = view->dtype, .shape = view->shape, .bytes = bytes};
        s->steps = (array){.dtype = TD_INT64, .bytes = 8};
        s->samples =
            (array){.dtype = TD_INT64, .shape = TD_SHAPE(row_count), .bytes = 8 * row_count};
        s->has_samples = record->samples && row_count > 0;
        s->next = *signal;
        *signal = s;
    }
    *found = s;
    return s->ready ? TD_OK : open_files(sink, s, record, error);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Into the buffer, nothing written yet. */
static td_status buffer_bytes(array *a, const void *data, size_t size, td_error *error) {
    char *room = td__append_room(a->file, size);
    if (!room) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for %zu bytes", a->file->name,
                            size);
    }
    td__little_copy(room, data, size, td_dtype_size(a->dtype));
    td__append_advance(a->file, size);
    return TD_OK;
}

static td_status put_samples(array *a, const int64_t *samples, td_error *error) {
    static const int64_t unknown = -1;
    int64_t count = a->shape.dims[0];
    if (samples) {
        return buffer_bytes(a, samples, (size_t)a->bytes, error);
    }
    char *room = td__append_room(a->file, (size_t)a->bytes);
    if (!room) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", a->file->name);
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(room + 8 * i, &unknown, 8);
    }
    td__append_advance(a->file, (size_t)a->bytes);
    return TD_OK;
}

/* Makes the record of a steps or samples file whole, and visible if it must be before the data. */
static td_status finish_record(array *a, bool commit, td_error *error) {
    a->file->whole = a->file->used;
    return commit ? td__append_commit(a->file, error) : TD_OK;
}

static td_status write_data(array *a, const void *data, td_error *error) {
    size_t size = (size_t)a->bytes;
    td_status status = TD_OK;
    td__append_begin(a->file);
    if (size >= TD__APPEND_PIECE && TD__LITTLE_ENDIAN) {
        status = td__append_through(a->file, data, size, error);
        status = status ? status : td__append_commit(a->file, error);
    } else {
        status = buffer_bytes(a, data, size, error);
    }
    if (status) {
        td__append_cancel(a->file);
        return status;
    }
    if (size == 0) { /* in the header alone */
        a->empty_records++;
        a->file->stale = true;
    }
    return td__append_end(a->file, 1, error);
}

static td_status write_view(td_sink *sink, const td_record *record, const td_view *view,
                            td_error *error) {
    int64_t count;
    series *s = NULL;
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status) {
        return status;
    }
    int64_t bytes = count * (int64_t)td_dtype_size(view->dtype);
    status = find_series(sink, record, view, bytes, &s, error);
    if (status) {
        return status;
    }
    bool commit = bytes + (int64_t)s->data.file->used >= TD__APPEND_PIECE;
    int64_t index = bytes ? record_count(&s->data) + (int64_t)s->data.file->used / bytes
                          : s->data.empty_records;
    td__append_begin(s->steps.file);
    if (s->has_samples) {
        td__append_begin(s->samples.file);
    }
    status = buffer_bytes(&s->steps, &record->step, sizeof record->step, error);
    if (s->has_samples) {
        status = status ? status : put_samples(&s->samples, record->samples, error);
        status = status ? status : finish_record(&s->samples, commit, error);
    }
    status = status ? status : finish_record(&s->steps, commit, error);
    status = status ? status : write_data(&s->data, view->data, error);
    if (status) {
        td__append_cancel(s->steps.file);
        if (s->has_samples) {
            td__append_cancel(s->samples.file);
        }
        return status;
    }
    if (record->place) {
        size_t length = strnlen(s->data.file->name, sizeof record->place->file - 1);
        memcpy(record->place->file, s->data.file->name, length);
        record->place->file[length] = 0;
        record->place->record = index;
    }
    return TD_OK;
}

/* NumPy has no bfloat16: as float32, which holds every one of them. */
static td_status write_widened(td_sink *sink, const td_record *record, td_error *error) {
    int64_t count;
    td_status status = td_shape_check(&record->view->shape, TD_FLOAT32, &count, error);
    if (status) {
        return status;
    }
    float *wide = td__calloc((size_t)count, sizeof *wide);
    if (!wide && count) {
        return td_error_set(error, TD_MEMORY, "npy: out of memory");
    }
    for (int64_t i = 0; i < count; i++) {
        wide[i] = td__from_bfloat16(((const uint16_t *)record->view->data)[i]);
    }
    td_view view = {.dtype = TD_FLOAT32, .shape = record->view->shape, .data = wide};
    status = write_view(sink, record, &view, error);
    td__free(wide);
    return status;
}

static td_status npy_write(td_sink *sink, const td_record *record, td_error *error) {
    td_view scalar = {.dtype = TD_FLOAT64, .data = &record->value};
    if (record->form != TD_SCALAR && record->view->dtype == TD_BFLOAT16) {
        return write_widened(sink, record, error);
    }
    return write_view(sink, record, record->form == TD_SCALAR ? &scalar : record->view, error);
}

/* --- the sink --------------------------------------------------------------------------------- */

static td_status npy_close(td_sink *sink, td_error *error) {
    td_status status = td__append_set_close(&sink->set, error);
    for (size_t i = 0; i < sink->signal_count; i++) {
        for (series *next, *s = sink->signals[i]; s; s = next) {
            next = s->next;
            td__free(s);
        }
    }
    td__free(sink->signals);
    td__free(sink);
    return status;
}

static td_status npy_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "npy: out of memory");
    }
    bool resumed = options->resume != 0;
    td_status status = td__append_set_open(&opened->set, options, resumed, error);
    if (status) {
        td__free(opened);
        return status;
    }
    if (resumed) {
        status = td__resume_npy(&opened->set, options->resume, error);
    }
    if (status) {
        npy_close(opened, NULL);
        return status;
    }
    *sink = opened;
    return TD_OK;
}

static td_status npy_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    return td__append_set_tick(&sink->set, error);
}

static td_status npy_flush(td_sink *sink, td_error *error) {
    return td__append_set_sync(&sink->set, error);
}

static int64_t npy_estimate(td_form form, int64_t rows, int64_t elements) {
    (void)rows;
    return form == TD_SCALAR ? 16 : elements * (int64_t)sizeof(float) + 8; /* and its step */
}

const td_sink_class td__sink_npy = {
    .size = sizeof(td_sink_class),
    .name = "npy",
    .forms = TD_TENSOR | TD_SCALAR,
    .default_forms = TD_TENSOR,
    .open = npy_open,
    .write = npy_write,
    .end_step = npy_end_step,
    .flush = npy_flush,
    .close = npy_close,
    .files = "SIGNAL.npy, SIGNAL.steps.npy",
    .estimate = npy_estimate,
};
