#include "run/event.h"

#include "base/memory.h"
#include "base/proto.h"
#include "run/event_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of tensorflow/core/util/event.proto and framework/{summary,tensor}.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_IMAGE = 4,
    VALUE_HISTOGRAM = 5,
    VALUE_AUDIO = 6,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2,
    MEDIA_BYTES = 4, /* of an image, and of a sound */
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX = 2,
    HISTOGRAM_NUM = 3,
    HISTOGRAM_SUM = 4,
    HISTOGRAM_SUM_SQUARES = 5,
    HISTOGRAM_LIMITS = 6,
    HISTOGRAM_COUNTS = 7,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    SHAPE_UNKNOWN = 3,
    DIM_SIZE = 1,
    DT_STRING = 7,
};

enum plugin { UNKNOWN, SCALARS, HISTOGRAMS, IMAGES, TEXTS, CURVES, SOUNDS, SETTINGS, OTHER };
static const char *const plugin_names[] = {
    [SCALARS] = "scalars",  [HISTOGRAMS] = "histograms", [IMAGES] = "images",   [TEXTS] = "text",
    [CURVES] = "pr_curves", [SOUNDS] = "audio",          [SETTINGS] = "hparams"};

/* tag->user */
enum { NOT_ASKED, WANTED, UNWANTED };

static const size_t max_bytes = (size_t)1 << 30;
static const int64_t max_repeated = (int64_t)1 << 22; /* elements of a tensor given by one value */

/* Element types, and the field that lists their values where there is no content. */
static const struct element {
    uint32_t proto;
    td_dtype dtype;
    uint32_t field;
    uint32_t wire;
} elements[] = {
    {1, TD_FLOAT32, 5, TD__FIXED32}, {2, TD_FLOAT64, 6, TD__FIXED64},
    {3, TD_INT32, 7, TD__VARINT},    {4, TD_UINT8, 7, TD__VARINT},
    {9, TD_INT64, 10, TD__VARINT},   {10, TD_UINT8, 11, TD__VARINT},
};

/* One value of a summary, as it lies in the event. */
typedef struct value {
    td__proto_field tag, image, histogram, sound, tensor, metadata;
    float simple;
    bool has_simple;
} value;

static td_status event_malformed(td_error *error, const char *what) {
    return td_error_set(error, TD_FORMAT, "%s is malformed", what);
}

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, "out of memory for a value of an event");
}

static td_status hand_on(td__decoder *decoder, const td_record *record, td_error *error) {
    decoder->records++;
    return decoder->each(decoder->user, record, error);
}

static td_status hand_on_histogram(td__decoder *decoder, td_record *record, size_t count,
                                   const td_stats *stats, td_error *error) {
    td_histogram histogram = {.ranges = decoder->ranges, .bin_count = (int32_t)count};
    record->form = TD_HISTOGRAM;
    record->histogram = &histogram;
    record->stats = stats->count > 0 ? stats : NULL;
    return hand_on(decoder, record, error);
}

/* How many of the values were zero is not known. */
static td_stats stats_of(double count, double sum, double squares, double min, double max) {
    bool valid = count >= 1 && count < 9e18;
    double mean = valid ? sum / count : 0;
    return (td_stats){.count = valid ? (int64_t)count : 0,
                      .zeros = -1,
                      .first_nonfinite = -1,
                      .mean = mean,
                      .std = valid ? sqrt(fmax(squares / count - mean * mean, 0)) : 0,
                      .min = min,
                      .max = max,
                      .norm = sqrt(squares)};
}

/* Of ranges without sums: values are taken to be spread evenly over the range that they are in. */
static td_stats estimate_stats(const td_range *ranges, size_t bins) {
    double count = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < bins; i++) {
        double left = ranges[i].left, right = ranges[i].right;
        count += ranges[i].count;
        sum += ranges[i].count * (left + right) / 2;
        squares += ranges[i].count * (left * left + left * right + right * right) / 3;
    }
    return stats_of(count, sum, squares, bins ? ranges[0].left : 0,
                    bins ? ranges[bins - 1].right : 0);
}

/* A fact about the run; key is in two parts. */
static td_status hand_on_note(const td__decoder *decoder, const char *first, const char *second,
                              const char *text, td_error *error) {
    char key[1024];
    (void)snprintf(key, sizeof key, "%s%.1000s", first, second);
    return decoder->note ? decoder->note(decoder->user, key, text, error) : TD_OK;
}

static bool ranges_reach(td__decoder *decoder, size_t count) {
    return count <= INT32_MAX && td__grow(&decoder->ranges, &decoder->range_capacity, count + 1,
                                          max_bytes / sizeof(td_range), sizeof(td_range));
}

/* ---- Old style ------------------------------------------------------------------------------ */

/* How many doubles the fields of that number hold. */
static size_t count_doubles(const td__proto_field *message, uint32_t number) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    size_t count = 0;
    while (td__proto_next(&proto, &field)) {
        if (field.number == number) {
            count += field.wire == TD__BYTES ? field.size / 8 : field.wire == TD__FIXED64;
        }
    }
    return proto.bad ? SIZE_MAX : count;
}

/* TensorBoard's own rule: a bucket reaches from the limit before it to its own; empty ones at both
 * ends are dropped, then the first begins at the least value and the last ends at the greatest. */
static size_t trim_ranges(td_range *ranges, size_t count, double min, double max) {
    size_t first = 0;
    while (count > 0 && !(ranges[count - 1].count > 0)) {
        count--;
    }
    while (first < count && !(ranges[first].count > 0)) {
        first++;
    }
    for (size_t i = first; i < count; i++) {
        ranges[i - first] = ranges[i];
        ranges[i - first].left = i > first ? ranges[i - first - 1].right : min;
    }
    count -= first;
    if (count > 0) {
        ranges[count - 1].right = max;
    }
    return count;
}

static td_status decode_histo(td__decoder *decoder, const td__proto_field *message,
                              td_record *record, td_error *error) {
    size_t count = count_doubles(message, HISTOGRAM_LIMITS);
    if (count == SIZE_MAX || count != count_doubles(message, HISTOGRAM_COUNTS)) {
        return event_malformed(error, "a histogram");
    }
    if (!ranges_reach(decoder, count)) {
        return out_of_memory(error);
    }
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    double facts[HISTOGRAM_SUM_SQUARES + 1] = {0}; /* by the field's number */
    size_t limits = 0, counts = 0;
    while (td__proto_next(&proto, &field)) {
        if (field.number <= HISTOGRAM_SUM_SQUARES && field.wire == TD__FIXED64) {
            facts[field.number] = td__double_of(field.bits);
        }
        if (field.number != HISTOGRAM_LIMITS && field.number != HISTOGRAM_COUNTS) {
            continue;
        }
        bool packed = field.wire == TD__BYTES;
        size_t here = packed ? field.size / 8 : field.wire == TD__FIXED64;
        for (size_t i = 0; i < here; i++) {
            double number = td__double_of(packed ? td__load64(field.data + 8 * i) : field.bits);
            if (field.number == HISTOGRAM_LIMITS) {
                decoder->ranges[limits++].right = number;
            } else {
                decoder->ranges[counts++].count = number;
            }
        }
    }
    count = trim_ranges(decoder->ranges, count, facts[HISTOGRAM_MIN], facts[HISTOGRAM_MAX]);
    td_stats stats =
        stats_of(facts[HISTOGRAM_NUM], facts[HISTOGRAM_SUM], facts[HISTOGRAM_SUM_SQUARES],
                 facts[HISTOGRAM_MIN], facts[HISTOGRAM_MAX]);
    return hand_on_histogram(decoder, record, count, &stats, error);
}

static td_status hand_on_picture(td__decoder *decoder, td_record *record,
                                 const td__proto_field *bytes, td_error *error) {
    if (bytes->size < 8 || memcmp(bytes->data, "\x89PNG\r\n\x1a\n", 8) != 0) {
        td__run_problem(decoder->problems, "%s: its pictures are not PNG and are left out",
                        record->signal);
        return TD_OK;
    }
    record->form = TD_IMAGE;
    record->png = bytes->data;
    record->png_size = bytes->size;
    return hand_on(decoder, record, error);
}

/* A WAV file becomes a tensor of frames x channels, and a note of its rate. */
static td_status hand_on_sound(td__decoder *decoder, td_record *record,
                               const td__proto_field *bytes, td_error *error) {
    td__sound sound;
    if (!td__sound_read(bytes->data, bytes->size, &sound)) {
        td__run_problem(decoder->problems, "%s: its sound is not 16-bit WAV and is left out",
                        record->signal);
        return TD_OK;
    }
    size_t count = (size_t)(sound.frames * sound.channels);
    if (!td__grow(&decoder->bytes, &decoder->bytes_capacity, 2 * count + 1, max_bytes, 1)) {
        return out_of_memory(error);
    }
    td__little_copy(decoder->bytes, sound.samples, 2 * count, 2);
    char about[32];
    (void)snprintf(about, sizeof about, "audio %u", sound.rate);
    td_view view = {TD_INT16, TD_SHAPE(sound.frames, sound.channels), decoder->bytes, NULL, NULL};
    record->form = TD_TENSOR;
    record->view = &view;
    td_status status = hand_on_note(decoder, "tensorboard.", record->signal, about, error);
    return status ? status : hand_on(decoder, record, error);
}

/* The bytes of an image or of a sound are the field of the same number. */
static td_status decode_media(td__decoder *decoder, const td__proto_field *message, bool is_sound,
                              td_record *record, td_error *error) {
    td__proto proto = td__proto_in(message);
    td__proto_field field, bytes = {0};
    while (td__proto_next(&proto, &field)) {
        bytes = field.number == MEDIA_BYTES && field.wire == TD__BYTES ? field : bytes;
    }
    return proto.bad  ? event_malformed(error, "an image or a sound")
           : is_sound ? hand_on_sound(decoder, record, &bytes, error)
                      : hand_on_picture(decoder, record, &bytes, error);
}

/* ---- Tensors -------------------------------------------------------------------------------- */

typedef struct tensor {
    uint32_t dtype;
    td_shape shape;
    td__proto_field content;
} tensor;

static bool read_shape(const td__proto_field *message, td_shape *shape) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    td_shape made = {0};
    while (td__proto_next(&proto, &field)) {
        if (field.number == SHAPE_UNKNOWN && field.bits) {
            return false;
        }
        if (field.number != SHAPE_DIM || field.wire != TD__BYTES) {
            continue;
        }
        if (made.rank == TD_MAX_RANK) {
            return false;
        }
        td__proto dim = td__proto_in(&field);
        td__proto_field size;
        int64_t *side = &made.dims[made.rank++];
        while (td__proto_next(&dim, &size)) {
            *side = size.number == DIM_SIZE && size.wire == TD__VARINT ? (int64_t)size.bits : *side;
        }
        if (dim.bad || *side < 0) {
            return false;
        }
    }
    *shape = made;
    return !proto.bad;
}

static bool read_tensor(const td__proto_field *message, tensor *made) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    bool good = true;
    while (td__proto_next(&proto, &field)) {
        if (field.number == TENSOR_DTYPE && field.wire == TD__VARINT) {
            made->dtype = (uint32_t)field.bits;
        } else if (field.number == TENSOR_SHAPE && field.wire == TD__BYTES) {
            good &= read_shape(&field, &made->shape);
        } else if (field.number == TENSOR_CONTENT && field.wire == TD__BYTES) {
            made->content = field;
        }
    }
    return good && !proto.bad;
}

/* Element i of the output. */
static void store_element(const struct element *element, uint8_t *out, size_t i, uint64_t bits) {
    size_t size = td_dtype_size(element->dtype);
    uint8_t little[8];
    td__store64(little, bits);
    td__little_copy(out + i * size, little, size, size);
}

/* The values that are listed one by one, at most `most`; how many there are. */
static size_t list_values(const td__proto_field *message, const struct element *element,
                          uint8_t *out, size_t max) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    size_t count = 0;
    while (count < max && td__proto_next(&proto, &field)) {
        if (field.number != element->field) {
            continue;
        }
        if (field.wire == element->wire) {
            store_element(element, out, count++, field.bits);
        } else if (field.wire == TD__BYTES && element->wire == TD__VARINT) {
            td__proto packed = td__proto_in(&field);
            for (uint64_t bits; count < max && packed.p < packed.end;) {
                if (td__proto_varint(&packed, &bits)) {
                    store_element(element, out, count++, bits);
                }
            }
        } else if (field.wire == TD__BYTES) {
            size_t size = element->wire == TD__FIXED32 ? 4 : 8;
            for (size_t i = 0; count < max && i < field.size / size; i++) {
                const uint8_t *at = field.data + size * i;
                store_element(element, out, count++, size == 4 ? td__load32(at) : td__load64(at));
            }
        }
    }
    return count;
}

/* A tensor's elements in the decoder's memory. One value stands for all that follow. */
static td_status read_elements(td__decoder *decoder, const td__proto_field *message,
                               const tensor *t, const struct element *element, int64_t count,
                               td_error *error) {
    size_t size = td_dtype_size(element->dtype), bytes = (size_t)count * size;
    if (t->content.data ? t->content.size != bytes
                        : count > max_repeated + (int64_t)message->size) {
        return event_malformed(error, "a tensor");
    }
    if (!td__grow(&decoder->bytes, &decoder->bytes_capacity, bytes + 8, max_bytes, 1)) {
        return out_of_memory(error);
    }
    if (t->content.data) {
        td__little_copy(decoder->bytes, t->content.data, bytes, size);
        return TD_OK;
    }
    size_t listed = list_values(message, element, decoder->bytes, (size_t)count);
    if (listed == 0 && count > 0) {
        memset(decoder->bytes, 0, bytes);
    }
    for (size_t i = listed ? listed : (size_t)count; i < (size_t)count; i++) {
        memcpy(decoder->bytes + i * size, decoder->bytes + (listed - 1) * size, size);
    }
    return TD_OK;
}

static double first_number(const struct element *element, const void *data) {
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    switch (element->dtype) {
    case TD_FLOAT32:
        memcpy(&f32, data, sizeof f32);
        return (double)f32;
    case TD_FLOAT64:
        memcpy(&f64, data, sizeof f64);
        return f64;
    case TD_INT32:
        memcpy(&i32, data, sizeof i32);
        return i32;
    case TD_INT64:
        memcpy(&i64, data, sizeof i64);
        return (double)i64;
    default:
        return *(const uint8_t *)data;
    }
}

static td_status decode_numbers(td__decoder *decoder, const td__proto_field *message,
                                const tensor *t, const struct element *element, enum plugin plugin,
                                td_record *record, td_error *error) {
    int64_t count = 0;
    if (td_shape_check(&t->shape, element->dtype, &count, NULL)) {
        return event_malformed(error, "a tensor's shape");
    }
    td_status status = read_elements(decoder, message, t, element, count, error);
    if (status) {
        return status;
    }
    if (count == 1 && (plugin == SCALARS || (plugin == UNKNOWN && t->shape.rank == 0))) {
        record->form = TD_SCALAR;
        record->value = first_number(element, decoder->bytes);
        return hand_on(decoder, record, error);
    }
    bool rows = t->shape.rank == 2 && t->shape.dims[1] == 3 && element->dtype == TD_FLOAT64;
    if (plugin == HISTOGRAMS && rows) {
        size_t bins = (size_t)t->shape.dims[0];
        if (!ranges_reach(decoder, bins)) {
            return out_of_memory(error);
        }
        memcpy(decoder->ranges, decoder->bytes, bins * sizeof(td_range));
        td_stats stats = estimate_stats(decoder->ranges, bins);
        status =
            hand_on_note(decoder, "statistics", "",
                         "mean, std and norm are estimated from the bins of histograms", error);
        return status ? status : hand_on_histogram(decoder, record, bins, &stats, error);
    }
    if (plugin == CURVES) {
        status = hand_on_note(decoder, "tensorboard.", record->signal, plugin_names[CURVES], error);
    }
    td_view view = {.dtype = element->dtype, .shape = t->shape, .data = decoder->bytes};
    record->form = TD_TENSOR;
    record->view = &view;
    return status ? status : hand_on(decoder, record, error);
}

static td_status hand_on_text(td__decoder *decoder, td_record *record, const td__proto_field *text,
                              td_error *error) {
    if (!td__grow(&decoder->bytes, &decoder->bytes_capacity, text->size + 1, max_bytes, 1)) {
        return out_of_memory(error);
    }
    memcpy(decoder->bytes, text->data, text->size);
    decoder->bytes[text->size] = 0;
    record->form = TD_TEXT;
    record->text = (const char *)decoder->bytes;
    record->text_length = text->size;
    return hand_on(decoder, record, error);
}

/* Several pictures or sounds of one step are signals TAG/0, TAG/1, … */
static td_status hand_on_media_of(td__decoder *decoder, td_record *record, bool is_sound,
                                  size_t index, size_t count, const td__proto_field *bytes,
                                  td_error *error) {
    td_status (*hand)(td__decoder *, td_record *, const td__proto_field *, td_error *) =
        is_sound ? hand_on_sound : hand_on_picture;
    if (count == 1) {
        return hand(decoder, record, bytes, error);
    }
    char name[1024];
    int length = snprintf(name, sizeof name, "%.1000s/%zu", record->signal, index);
    td_record part = *record;
    const td__tag *tag = td__tags_find(&decoder->tags, name, (size_t)length);
    if (!tag) {
        return out_of_memory(error);
    }
    part.signal_index = (int32_t)(tag - decoder->tags.tags);
    part.signal = tag->name;
    return hand(decoder, &part, bytes, error);
}

/* Texts; or pictures: width, height, and a PNG for each; or sounds: a WAV and a label for each. */
static td_status decode_strings(td__decoder *decoder, const td__proto_field *message,
                                enum plugin plugin, td_record *record, td_error *error) {
    enum { BEFORE_PICTURES = 2 };
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    size_t count = 0, at = 0;
    while (td__proto_next(&proto, &field)) {
        count += field.number == TENSOR_STRING && field.wire == TD__BYTES;
    }
    proto = td__proto_in(message);
    int32_t tag = record->signal_index; /* names move when a tag is added */
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        if (field.number != TENSOR_STRING || field.wire != TD__BYTES) {
            continue;
        }
        record->signal = decoder->tags.tags[tag].name;
        if (plugin == SOUNDS && at % 2 == 0) {
            status = hand_on_media_of(decoder, record, true, at / 2, count / 2, &field, error);
        } else if (plugin == IMAGES && at >= BEFORE_PICTURES) {
            status = hand_on_media_of(decoder, record, false, at - BEFORE_PICTURES,
                                      count - BEFORE_PICTURES, &field, error);
        } else if (plugin != IMAGES && plugin != SOUNDS) {
            status = hand_on_text(decoder, record, &field, error);
        }
        at++;
    }
    return status;
}

static td_status decode_tensor(td__decoder *decoder, const td__proto_field *message,
                               enum plugin plugin, td_record *record, td_error *error) {
    tensor t = {0};
    if (!read_tensor(message, &t)) {
        return event_malformed(error, "a tensor");
    }
    if (t.dtype == DT_STRING && plugin != OTHER) {
        return decode_strings(decoder, message, plugin, record, error);
    }
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (elements[i].proto == t.dtype) {
            return decode_numbers(decoder, message, &t, &elements[i], plugin, record, error);
        }
    }
    if (t.dtype != 0) {
        td__run_problem(decoder->problems, "%s: values of TensorFlow's type %u are left out",
                        record->signal, t.dtype);
    }
    return TD_OK;
}

/* ---- Events --------------------------------------------------------------------------------- */

/* content: what the plugin itself says. */
static enum plugin plugin_of(const td__proto_field *metadata, td__proto_field *content) {
    td__proto proto = td__proto_in(metadata);
    td__proto_field field, name;
    enum plugin found = UNKNOWN;
    while (td__proto_next(&proto, &field)) {
        if (field.number != METADATA_PLUGIN || field.wire != TD__BYTES) {
            continue;
        }
        td__proto plugin = td__proto_in(&field);
        found = OTHER;
        while (td__proto_next(&plugin, &name)) {
            *content = name.number == PLUGIN_CONTENT && name.wire == TD__BYTES ? name : *content;
            for (int i = SCALARS; name.number == PLUGIN_NAME && i < OTHER; i++) {
                size_t length = strlen(plugin_names[i]);
                if (name.size == length && memcmp(name.data, plugin_names[i], length) == 0) {
                    found = (enum plugin)i;
                }
            }
        }
    }
    return found;
}

static bool read_value(const td__proto_field *message, value *made) {
    static const struct {
        uint32_t number;
        size_t offset;
    } parts[] = {{VALUE_TAG, offsetof(value, tag)},
                 {VALUE_IMAGE, offsetof(value, image)},
                 {VALUE_HISTOGRAM, offsetof(value, histogram)},
                 {VALUE_AUDIO, offsetof(value, sound)},
                 {VALUE_TENSOR, offsetof(value, tensor)},
                 {VALUE_METADATA, offsetof(value, metadata)}};
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    while (td__proto_next(&proto, &field)) {
        if (field.wire == TD__FIXED32 && field.number == VALUE_SIMPLE) {
            made->simple = td__float_of((uint32_t)field.bits);
            made->has_simple = true;
        }
        if (field.wire != TD__BYTES) {
            continue;
        }
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (parts[i].number == field.number) {
                *(td__proto_field *)((char *)made + parts[i].offset) = field;
            }
        }
    }
    return !proto.bad;
}

static bool is_wanted(td__decoder *decoder, td__tag *tag) {
    if (tag->user == NOT_ASKED) {
        tag->user = !decoder->wants || decoder->wants(decoder->user, tag->name) ? WANTED : UNWANTED;
    }
    return tag->user == WANTED;
}

static td_status decode_value(td__decoder *decoder, const td__proto_field *message,
                              const td_record *at, td_error *error) {
    value v = {0};
    if (!read_value(message, &v)) {
        return event_malformed(error, "a value");
    }
    const char *name = v.tag.data ? (const char *)v.tag.data : "";
    td__tag *tag = td__tags_find(&decoder->tags, name, v.tag.size);
    if (!tag) {
        return out_of_memory(error);
    }
    td__proto_field content = {0};
    if (v.metadata.data && (tag->plugin == UNKNOWN || tag->plugin == SETTINGS)) {
        tag->plugin = (uint8_t)plugin_of(&v.metadata, &content);
    }
    enum plugin plugin = tag->plugin;
    if (plugin == SETTINGS) { /* its values are in what the plugin says */
        return decoder->note ? td__hparams_read(content.data, content.size, decoder->note,
                                                decoder->user, error)
                             : TD_OK;
    }
    if (!is_wanted(decoder, tag) || at->step < decoder->first_step ||
        at->step > decoder->last_step) {
        return TD_OK;
    }
    td_record record = {.step = at->step, .wall_time = at->wall_time};
    record.signal = tag->name;
    record.signal_index = (int32_t)(tag - decoder->tags.tags);
    if (v.has_simple) {
        record.form = TD_SCALAR;
        record.value = (double)v.simple;
        return hand_on(decoder, &record, error);
    }
    if (v.tensor.data) {
        return decode_tensor(decoder, &v.tensor, plugin, &record, error);
    }
    if (v.histogram.data) {
        return decode_histo(decoder, &v.histogram, &record, error);
    }
    if (v.image.data || v.sound.data) {
        return decode_media(decoder, v.image.data ? &v.image : &v.sound, !v.image.data, &record,
                            error);
    }
    return TD_OK;
}

td_status td__decode_event(td__decoder *decoder, const uint8_t *data, size_t size,
                           td_error *error) {
    td__proto event = td__proto_of(data, size);
    td__proto_field field, value_field, summary = {0};
    td_record record = {0};
    while (td__proto_next(&event, &field)) {
        if (field.number == EVENT_WALL_TIME && field.wire == TD__FIXED64) {
            record.wall_time = td__double_of(field.bits);
        } else if (field.number == EVENT_STEP && field.wire == TD__VARINT) {
            record.step = (int64_t)field.bits;
        } else if (field.number == EVENT_SUMMARY && field.wire == TD__BYTES) {
            summary = field;
        }
    }
    if (event.bad) {
        return event_malformed(error, "an event");
    }
    td__proto values = td__proto_in(&summary);
    td_status status = TD_OK;
    while (!status && td__proto_next(&values, &value_field)) {
        if (value_field.number == SUMMARY_VALUE && value_field.wire == TD__BYTES) {
            status = decode_value(decoder, &value_field, &record, error);
        }
    }
    return status || !values.bad ? status : event_malformed(error, "a summary");
}

void td__decoder_release(td__decoder *decoder) {
    td__tags_release(&decoder->tags);
    td__free(decoder->ranges);
    td__free(decoder->bytes);
    decoder->ranges = NULL;
    decoder->bytes = NULL;
    decoder->range_capacity = decoder->bytes_capacity = 0;
}
