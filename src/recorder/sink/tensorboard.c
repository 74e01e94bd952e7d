/* TensorBoard event files: scalars, histograms, pictures and texts.
 *
 * One file for each session, events.out.tfevents.SECONDS.HOST.PID.N; a run that goes on gets a new
 * one, whose first event has the step from which on the older ones no longer count. TensorBoard
 * waits for the rest of a record that is not all there, so records are simply appended. A value's
 * metadata goes with the first value of its tag.
 */
#include "base/crc32c.h"
#include "base/folder.h"
#include "base/little.h"
#include "base/memory.h"
#include "deck/reach.h"
#include "sink/append.h"
#include "sink/classes.h"
#include "sink/picture.h"
#include "sink/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct td_sink {
    td__append_set set;
    td__append *file;
    uint32_t *described; /* by signal index: the forms whose metadata has been written */
    size_t signal_count;
    uint8_t *bytes; /* the record being built */
    size_t size, capacity;
    bool failed; /* memory ran out while building it */
};

static const size_t record_maximum = (size_t)1 << 31;

/* --- protocol buffers ------------------------------------------------------------------------- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2 };

static void buffer_bytes(td_sink *sink, const void *data, size_t size) {
    sink->failed |= !td__grow(&sink->bytes, &sink->capacity, sink->size + size, record_maximum, 1);
    if (!sink->failed) {
        memcpy(sink->bytes + sink->size, data, size);
        sink->size += size;
    }
}

static size_t encode_varint(uint8_t out[10], uint64_t value) {
    size_t size = 0;
    for (; value >= 0x80; value >>= 7) {
        out[size++] = (uint8_t)(value | 0x80);
    }
    out[size++] = (uint8_t)value;
    return size;
}

static void put_varint(td_sink *sink, uint64_t value) {
    uint8_t bytes[10];
    buffer_bytes(sink, bytes, encode_varint(bytes, value));
}

static void put_tag(td_sink *sink, uint32_t field, enum wire wire) {
    put_varint(sink, field << 3 | wire);
}

static void put_number(td_sink *sink, uint32_t field, uint64_t value) {
    put_tag(sink, field, VARINT);
    put_varint(sink, value);
}

static void put_double(td_sink *sink, uint32_t field, double value) {
    uint64_t bits;
    td__little_copy(&bits, &value, sizeof bits, sizeof bits);
    put_tag(sink, field, FIXED64);
    buffer_bytes(sink, &bits, sizeof bits);
}

static void put_bytes(td_sink *sink, uint32_t field, const void *data, size_t size) {
    put_tag(sink, field, BYTES);
    put_varint(sink, size);
    buffer_bytes(sink, data, size);
}

static void put_string(td_sink *sink, uint32_t field, const char *text) {
    put_bytes(sink, field, text, strlen(text));
}

/* A message within: returns where its length goes, for close_message. */
static size_t open_message(td_sink *sink, uint32_t field) {
    put_tag(sink, field, BYTES);
    buffer_bytes(sink, "", 1);
    return sink->size;
}

static void close_message(td_sink *sink, size_t start) {
    if (sink->failed) {
        return;
    }
    uint8_t length[10];
    size_t size = sink->size - start;
    size_t length_size = encode_varint(length, size);
    buffer_bytes(sink, length, length_size - 1); /* room; one byte is there */
    if (!sink->failed) {
        memmove(sink->bytes + start + length_size - 1, sink->bytes + start, size);
        memcpy(sink->bytes + start - 1, length, length_size);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

/* Field numbers of tensorflow/core/util/event.proto and framework/{summary,tensor}.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_STATUS = 1,
    SESSION_START = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    METADATA_CLASS = 4,
    PLUGIN_NAME = 1,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOAT = 5,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    DT_FLOAT = 1,
    DT_DOUBLE = 2,
    DT_STRING = 7,
};

/* The plugins of TensorBoard, and the data class of their tensors. */
typedef struct plugin {
    const char *name;
    uint64_t data_class;
} plugin;
static const plugin scalars = {"scalars", 1}, histograms = {"histograms", 2}, texts = {"text", 2},
                    images = {"images", 3};

enum { FRAME_HEAD = 12 }; /* u64 length, u32 crc of it */

static void begin_event(td_sink *sink, double wall_time, int64_t step) {
    static const char head[FRAME_HEAD] = {0};
    sink->size = 0;
    sink->failed = false;
    buffer_bytes(sink, head, sizeof head);
    put_double(sink, EVENT_WALL_TIME, wall_time);
    put_number(sink, EVENT_STEP, (uint64_t)step);
}

static void store_crc(uint8_t *out, const void *data, size_t size) {
    uint32_t crc = td__crc32c(0, data, size);
    td__store32(out, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

/* Frames the event that was built. */
static td_status end_event(td_sink *sink, td_error *error) {
    buffer_bytes(sink, "\0\0\0", 4);
    if (sink->failed) {
        return td_error_set(error, TD_MEMORY, "tensorboard: out of memory for an event");
    }
    size_t size = sink->size - FRAME_HEAD - 4;
    td__store64(sink->bytes, size);
    store_crc(sink->bytes + 8, sink->bytes, 8);
    store_crc(sink->bytes + FRAME_HEAD + size, sink->bytes + FRAME_HEAD, size);
    return TD_OK;
}

/* A value of tag SIGNAL or SIGNAL/PART, up to where its tensor begins. */
static size_t begin_value(td_sink *sink, const td_record *record, const char *part,
                          const plugin *kind, bool described) {
    size_t value = open_message(sink, SUMMARY_VALUE);
    size_t tag = open_message(sink, VALUE_TAG);
    size_t length = strlen(record->signal);
    char *clean = td__calloc(3 * length + 1, 1);
    if (clean && length > 0) {
        buffer_bytes(sink, clean, td__clean_text(clean, record->signal, length));
    } else {
        buffer_bytes(sink, "%00", 3);
    }
    sink->failed |= !clean;
    td__free(clean);
    if (part) {
        buffer_bytes(sink, "/", 1);
        buffer_bytes(sink, part, strlen(part));
    }
    close_message(sink, tag);
    if (!described) {
        size_t metadata = open_message(sink, VALUE_METADATA);
        size_t plugin_data = open_message(sink, METADATA_PLUGIN);
        put_string(sink, PLUGIN_NAME, kind->name);
        close_message(sink, plugin_data);
        put_number(sink, METADATA_CLASS, kind->data_class);
        close_message(sink, metadata);
    }
    return value;
}

static void put_shape(td_sink *sink, const int64_t *dims, int rank) {
    size_t shape = open_message(sink, TENSOR_SHAPE);
    for (int i = 0; i < rank; i++) {
        size_t dim = open_message(sink, SHAPE_DIM);
        put_number(sink, DIM_SIZE, (uint64_t)dims[i]);
        close_message(sink, dim);
    }
    close_message(sink, shape);
}

static void put_scalar(td_sink *sink, const td_record *record, const char *part, double value,
                       bool described) {
    float single = (float)value;
    uint32_t bits;
    td__little_copy(&bits, &single, sizeof bits, sizeof bits);
    size_t message = begin_value(sink, record, part, &scalars, described);
    size_t tensor = open_message(sink, VALUE_TENSOR);
    put_number(sink, TENSOR_DTYPE, DT_FLOAT);
    put_shape(sink, NULL, 0);
    put_bytes(sink, TENSOR_FLOAT, &bits, sizeof bits);
    close_message(sink, tensor);
    close_message(sink, message);
}

static void put_stats(td_sink *sink, const td_record *record, bool described) {
    const td_stats *stats = record->stats;
    const struct {
        const char *name;
        double value;
    } parts[] = {{"mean", stats->mean},       {"std", stats->std},
                 {"min", stats->min},         {"max", stats->max},
                 {"norm", stats->norm},       {"zeros", (double)stats->zeros},
                 {"nan", (double)stats->nan}, {"inf", (double)stats->inf}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        put_scalar(sink, record, parts[i].name, parts[i].value, described);
    }
}

/* Our bins, as (left, right, count); the outermost are cut to the values' range. */
static void put_histogram(td_sink *sink, const td_record *record, bool described) {
    const td_histogram *histogram = record->histogram;
    const td_stats *stats = record->stats;
    bool cut = stats && !histogram->ranges && stats->min < stats->max;
    int32_t count = histogram->bin_count;
    size_t message = begin_value(sink, record, NULL, &histograms, described);
    size_t tensor = open_message(sink, VALUE_TENSOR);
    put_number(sink, TENSOR_DTYPE, DT_DOUBLE);
    put_shape(sink, (const int64_t[]){count, 3}, 2);
    put_tag(sink, TENSOR_CONTENT, BYTES);
    put_varint(sink, (uint64_t)count * 3 * sizeof(double));
    for (int32_t i = 0; i < count; i++) {
        td_range bin = td_histogram_range(histogram, i);
        if (cut && i == 0 && stats->min < bin.right) {
            bin.left = stats->min;
        }
        if (cut && i == count - 1 && stats->max > bin.left) {
            bin.right = stats->max;
        }
        double row[3] = {bin.left, bin.right, bin.count};
        td__little_copy(row, row, sizeof row, sizeof *row);
        buffer_bytes(sink, row, sizeof row);
    }
    close_message(sink, tensor);
    close_message(sink, message);
}

static td_status put_image(td_sink *sink, const td_record *record, bool described,
                           td_error *error) {
    td__picture picture;
    td_status status = td__picture_of(record, &picture, error);
    if (status) {
        return status;
    }
    char width[16], height[16];
    snprintf(width, sizeof width, "%d", picture.width);
    snprintf(height, sizeof height, "%d", picture.height);
    size_t message = begin_value(sink, record, NULL, &images, described);
    size_t tensor = open_message(sink, VALUE_TENSOR);
    put_number(sink, TENSOR_DTYPE, DT_STRING);
    put_shape(sink, (const int64_t[]){3}, 1);
    put_string(sink, TENSOR_STRING, width);
    put_string(sink, TENSOR_STRING, height);
    put_bytes(sink, TENSOR_STRING, picture.png, picture.size);
    close_message(sink, tensor);
    close_message(sink, message);
    td__free(picture.png);
    return TD_OK;
}

static void put_text(td_sink *sink, const td_record *record, bool described) {
    size_t message = begin_value(sink, record, NULL, &texts, described);
    size_t tensor = open_message(sink, VALUE_TENSOR);
    put_number(sink, TENSOR_DTYPE, DT_STRING);
    put_shape(sink, NULL, 0);
    put_bytes(sink, TENSOR_STRING, record->text, record->text_length);
    close_message(sink, tensor);
    close_message(sink, message);
}

/* --- the sink --------------------------------------------------------------------------------- */

static td_status put_value(td_sink *sink, const td_record *record, bool described,
                           td_error *error) {
    switch (record->form) {
    case TD_SCALAR:
        put_scalar(sink, record, NULL, record->value, described);
        return TD_OK;
    case TD_STATS:
        put_stats(sink, record, described);
        return TD_OK;
    case TD_HISTOGRAM:
        put_histogram(sink, record, described);
        return TD_OK;
    case TD_TEXT:
        put_text(sink, record, described);
        return TD_OK;
    case TD_IMAGE:
        return put_image(sink, record, described, error);
    default:
        return td_error_set(error, TD_UNSUPPORTED, "tensorboard: cannot write the form %s",
                            td_form_name(record->form));
    }
}

static td_status tensorboard_write(td_sink *sink, const td_record *record, td_error *error) {
    if (!td__signals_reach(&sink->described, &sink->signal_count, record->signal_index,
                           sizeof *sink->described)) {
        return td_error_set(error, TD_MEMORY, "tensorboard: out of memory");
    }
    uint32_t *forms = &sink->described[record->signal_index];
    begin_event(sink, record->wall_time, record->step);
    size_t summary = open_message(sink, EVENT_SUMMARY);
    bool described = (*forms & record->form) != 0;
    td_status status = put_value(sink, record, described, error);
    close_message(sink, summary);
    status = status ? status : end_event(sink, error);
    status = status ? status : td__append_bytes(sink->file, sink->bytes, sink->size, 1, error);
    if (!status) {
        *forms |= record->form;
    }
    return status;
}

/* Readers go through a run's event files by name: a new one has a greater number than all there are, also
 * when the clock has gone back. */
static long long file_number(int folder, long long now) {
    enum { DIGITS = 10 };
    static const char start[] = "events.out.tfevents.";
    size_t length = strlen(start);
    DIR *entries = td__folder_list(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char *end = entry->d_name;
        long long number = strncmp(entry->d_name, start, length) == 0
                               ? strtoll(entry->d_name + length, &end, 10)
                               : 0;
        if (end == entry->d_name + length + DIGITS && number >= now && number < 9999999999) {
            now = number + 1;
        }
    }
    if (entries) {
        closedir(entries);
    }
    return now;
}

/* The file's first event, and when a run goes on the one that makes TensorBoard forget the steps
 * from there on. */
static td_status create_file(td_sink *sink, const td_sink_options *options, td_error *error) {
    char host[65] = "", name[160];
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++) {
        *c = *c == '/' ? '-' : *c;
    }
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    double wall_time = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    begin_event(sink, wall_time, 0);
    put_string(sink, EVENT_FILE_VERSION, "brain.Event:2");
    td_status status = end_event(sink, error);
    long long number = file_number(sink->set.folder, (long long)time.tv_sec);
    for (int n = 0; !status && !sink->file; n++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d.%d", number, host,
                 (int)getpid(), n);
        status = td__append_create(&sink->set, name, TD__APPEND_FRAMED, sink->bytes, sink->size,
                                   &sink->file, error);
        status = status == TD_EXISTS ? TD_OK : status;
    }
    if (status || options->resume == 0) {
        return status;
    }
    begin_event(sink, wall_time, (options->resume > 0 ? options->resume : 0) + 1);
    size_t session = open_message(sink, EVENT_SESSION_LOG);
    put_number(sink, SESSION_STATUS, SESSION_START);
    close_message(sink, session);
    status = end_event(sink, error);
    return status ? status : td__append_bytes(sink->file, sink->bytes, sink->size, 0, error);
}

static td_status release_tensorboard_sink(td_sink *sink, td_error *error) {
    td_status status = td__append_set_close(&sink->set, error);
    td__free(sink->described);
    td__free(sink->bytes);
    td__free(sink);
    return status;
}

static td_status tensorboard_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "tensorboard: out of memory");
    }
    td_status status = td__append_set_open(&opened->set, options, false, error);
    if (status) {
        td__free(opened);
        return status;
    }
    status = create_file(opened, options, error);
    if (status) {
        release_tensorboard_sink(opened, NULL);
        return status;
    }
    *sink = opened;
    return TD_OK;
}

static td_status tensorboard_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    return td__append_set_tick(&sink->set, error);
}

static td_status tensorboard_flush(td_sink *sink, td_error *error) {
    return td__append_set_sync(&sink->set, error);
}

static int64_t tensorboard_estimate(td_form form, int64_t rows, int64_t elements) {
    (void)rows;
    enum { SCALAR = 60, HISTOGRAM = 3200 };
    return form == TD_HISTOGRAM ? HISTOGRAM
           : form == TD_STATS   ? 8 * SCALAR
           : form == TD_IMAGE   ? elements
                                : SCALAR;
}

const td_sink_class td__sink_tensorboard = {
    .size = sizeof(td_sink_class),
    .name = "tensorboard",
    .forms = TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_IMAGE | TD_TEXT,
    .default_forms = TD_HISTOGRAM,
    .open = tensorboard_open,
    .write = tensorboard_write,
    .end_step = tensorboard_end_step,
    .flush = tensorboard_flush,
    .close = release_tensorboard_sink,
    .files = "events.out.tfevents.…",
    .estimate = tensorboard_estimate,
};
