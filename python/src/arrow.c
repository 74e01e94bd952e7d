/* A table as an Arrow stream of one batch. The batch takes the columns' memory over: nothing is copied. Schemas have
 * copies of their texts. Callbacks may be called by any thread without the GIL, so nothing here but the capsule touches
 * Python; a child that a consumer has moved elsewhere has no release and is left alone. */
#include "arrow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tdpy_bytes_add(tdpy_bytes *bytes, const void *data, size_t size) {
    if (size > SIZE_MAX / 4 - bytes->used) {
        return false;
    }
    if (bytes->used + size > bytes->room) {
        size_t room = 2 * (bytes->used + size) + 256;
        char *grown = realloc(bytes->data, room);
        if (!grown) {
            return false;
        }
        bytes->data = grown;
        bytes->room = room;
    }
    if (size) {
        memcpy(bytes->data + bytes->used, data, size);
    }
    bytes->used += size;
    return true;
}

tdpy_column *tdpy_table_add(tdpy_table *table, const char *name, tdpy_layout layout,
                            const char *format) {
    tdpy_column *column = &table->columns[table->count++];
    *column = (tdpy_column){.name = name, .layout = layout, .format = format};
    return column;
}

void tdpy_table_release(tdpy_table *table) {
    for (int i = 0; i < table->count; i++) {
        tdpy_column *column = &table->columns[i];
        free(column->values.data);
        free(column->offsets.data);
        free(column->valid.data);
        free(column->words.data);
        free(column->ends.data);
        if (column->kept.release) {
            column->kept.release(column->kept.owner);
        }
    }
    *table = (tdpy_table){0};
}

/* ---- Schemas -------------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i] && schema->children[i]->release) {
            schema->children[i]->release(schema->children[i]);
        }
        free(schema->children[i]);
    }
    if (schema->dictionary && schema->dictionary->release) {
        schema->dictionary->release(schema->dictionary);
    }
    free(schema->dictionary);
    free(schema->children);
    free((void *)(uintptr_t)schema->format);
    free((void *)(uintptr_t)schema->name);
    free((void *)(uintptr_t)schema->metadata);
    schema->release = NULL;
}

/* A schema with room for its children, which are empty. False when memory is exhausted; what was made is to be
 * released in either case. */
static bool make_schema(struct ArrowSchema *schema, const char *format, const char *name,
                        bool nullable, int64_t children) {
    enum { NULLABLE = 2 };
    *schema = (struct ArrowSchema){.flags = nullable ? NULLABLE : 0, .release = release_schema};
    schema->format = strdup(format);
    schema->name = strdup(name);
    schema->children = children ? calloc((size_t)children, sizeof *schema->children) : NULL;
    if (!schema->format || !schema->name || (children && !schema->children)) {
        return false;
    }
    schema->n_children = children;
    for (int64_t i = 0; i < children; i++) {
        schema->children[i] = calloc(1, sizeof *schema->children[i]);
        if (!schema->children[i]) {
            return false;
        }
    }
    return true;
}

static bool add_text(tdpy_bytes *out, const char *text) {
    int32_t length = (int32_t)strlen(text);
    return tdpy_bytes_add(out, &length, sizeof length) && tdpy_bytes_add(out, text, (size_t)length);
}

/* The standard extension type arrow.fixed_shape_tensor: readers that know it give each row its shape. */
static bool describe_shape(struct ArrowSchema *schema, const td_shape *shape) {
    char text[16 + 24 * TD_MAX_RANK] = "{\"shape\":[";
    for (int32_t i = 0; i < shape->rank; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "",
                       (long long)shape->dims[i]);
    }
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "]}");
    tdpy_bytes out = {0};
    const int32_t pairs = 2;
    bool good = tdpy_bytes_add(&out, &pairs, sizeof pairs) &&
                add_text(&out, "ARROW:extension:name") &&
                add_text(&out, "arrow.fixed_shape_tensor") &&
                add_text(&out, "ARROW:extension:metadata") && add_text(&out, text);
    schema->metadata = out.data;
    return good;
}

static bool column_schema(struct ArrowSchema *schema, const tdpy_column *column) {
    char fixed[32];
    bool nullable = column->valid.used > 0;
    switch (column->layout) {
    case TDPY_LIST:
    case TDPY_FIXED:
        (void)snprintf(fixed, sizeof fixed, "+w:%lld", (long long)column->width);
        if (!make_schema(schema, column->layout == TDPY_LIST ? "+L" : fixed, column->name, nullable,
                         1) ||
            !make_schema(schema->children[0], column->format, "item", false, 0)) {
            return false;
        }
        return column->shape.rank == 0 || describe_shape(schema, &column->shape);
    case TDPY_WORDS:
        if (!make_schema(schema, "i", column->name, nullable, 0)) {
            return false;
        }
        schema->dictionary = calloc(1, sizeof *schema->dictionary);
        return schema->dictionary && make_schema(schema->dictionary, "U", "", false, 0);
    default:
        return make_schema(schema, column->layout == TDPY_TEXT ? "U" : column->format, column->name,
                           nullable, 0);
    }
}

/* ---- Arrays --------------------------------------------------------------------------------- */

/* What an array frees. */
typedef struct memory {
    const void *buffers[3];
    void *owned[3];
    td_view kept;
} memory;

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i] && array->children[i]->release) {
            array->children[i]->release(array->children[i]);
        }
        free(array->children[i]);
    }
    if (array->dictionary && array->dictionary->release) {
        array->dictionary->release(array->dictionary);
    }
    free(array->dictionary);
    free(array->children);
    memory *m = array->private_data;
    for (int i = 0; m && i < 3; i++) {
        free(m->owned[i]);
    }
    if (m && m->kept.release) {
        m->kept.release(m->kept.owner);
    }
    free(m);
    array->release = NULL;
}

/* An array with room for its children, likewise. */
static bool make_array(struct ArrowArray *array, int64_t length, int64_t buffers,
                       int64_t children) {
    *array = (struct ArrowArray){.length = length, .release = release_array};
    memory *m = calloc(1, sizeof *m);
    array->private_data = m;
    array->children = children ? calloc((size_t)children, sizeof *array->children) : NULL;
    if (!m || (children && !array->children)) {
        return false;
    }
    array->buffers = m->buffers;
    array->n_buffers = buffers;
    array->n_children = children;
    for (int64_t i = 0; i < children; i++) {
        array->children[i] = calloc(1, sizeof *array->children[i]);
        if (!array->children[i]) {
            return false;
        }
    }
    return true;
}

/* Buffer number `index` becomes these bytes. An array of no rows has a buffer too. */
static bool take_bytes(struct ArrowArray *array, int index, tdpy_bytes *bytes) {
    memory *m = array->private_data;
    if (!bytes->data && !(bytes->data = calloc(1, sizeof(int64_t)))) {
        return false;
    }
    m->owned[index] = bytes->data;
    m->buffers[index] = bytes->data;
    *bytes = (tdpy_bytes){0};
    return true;
}

/* Buffer number 1 becomes the offsets: 0, then the ends that were collected. */
static bool take_offsets(struct ArrowArray *array, tdpy_bytes *ends) {
    tdpy_bytes all = {0};
    const int64_t zero = 0;
    bool good = tdpy_bytes_add(&all, &zero, sizeof zero) &&
                tdpy_bytes_add(&all, ends->data, ends->used) && take_bytes(array, 1, &all);
    free(all.data);
    return good;
}

/* Buffer number 0: a bit a row, 0 for null; and how many are. */
static bool take_validity(struct ArrowArray *array, const tdpy_bytes *valid) {
    if (valid->used == 0) {
        return true;
    }
    tdpy_bytes bits = {.data = calloc(valid->used / 8 + 1, 1)};
    for (size_t i = 0; bits.data && i < valid->used; i++) {
        bits.data[i / 8] = (char)(bits.data[i / 8] | (valid->data[i] ? 1 << i % 8 : 0));
        array->null_count += !valid->data[i];
    }
    return bits.data && take_bytes(array, 0, &bits);
}

/* The elements of a list of any number, or of a fixed one: the child array. */
static bool take_elements(struct ArrowArray *array, tdpy_column *column, int64_t length) {
    if (!make_array(array, length, 2, 0)) {
        return false;
    }
    if (!column->kept.data) {
        return take_bytes(array, 1, &column->values);
    }
    memory *m = array->private_data;
    m->buffers[1] = column->kept.data;
    m->kept = column->kept;
    column->kept = (td_view){0};
    return true;
}

static bool column_array(struct ArrowArray *array, tdpy_column *column, int64_t rows) {
    const int64_t *ends = (const int64_t *)(const void *)column->offsets.data;
    const int64_t elements = column->offsets.used ? ends[rows - 1] : 0;
    struct ArrowArray *words;
    bool good;
    switch (column->layout) {
    case TDPY_TEXT:
        good = make_array(array, rows, 3, 0) && take_offsets(array, &column->offsets) &&
               take_bytes(array, 2, &column->values);
        break;
    case TDPY_LIST:
        good = make_array(array, rows, 2, 1) && take_offsets(array, &column->offsets) &&
               take_elements(array->children[0], column, elements);
        break;
    case TDPY_FIXED:
        good = make_array(array, rows, 1, 1) &&
               take_elements(array->children[0], column, rows * column->width);
        break;
    case TDPY_WORDS:
        good = make_array(array, rows, 2, 0) && take_bytes(array, 1, &column->values);
        words = array->dictionary = good ? calloc(1, sizeof *words) : NULL;
        good = words && make_array(words, (int64_t)(column->ends.used / sizeof(int64_t)), 3, 0) &&
               take_offsets(words, &column->ends) && take_bytes(words, 2, &column->words);
        break;
    default:
        good = make_array(array, rows, 2, 0) && take_bytes(array, 1, &column->values);
    }
    return good && take_validity(array, &column->valid);
}

/* ---- The stream ----------------------------------------------------------------------------- */

/* Of a stream: the columns, whose texts and shapes make schemas, and the batch until it is taken. */
typedef struct source {
    tdpy_table columns; /* without their memory, but for what says that a column has nulls */
    struct ArrowArray batch;
} source;

static bool table_schema(struct ArrowSchema *schema, const tdpy_table *table) {
    bool good = make_schema(schema, "+s", "", false, table->count);
    for (int i = 0; good && i < table->count; i++) {
        good = column_schema(schema->children[i], &table->columns[i]);
    }
    return good;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    struct ArrowSchema schema;
    if (!table_schema(&schema, &((source *)stream->private_data)->columns)) {
        schema.release(&schema);
        return ENOMEM;
    }
    *out = schema;
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    source *s = stream->private_data;
    *out = s->batch;
    s->batch = (struct ArrowArray){0};
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
    (void)stream; /* all was read before the stream was made: only memory can be missing */
    return NULL;
}

static void release_stream(struct ArrowArrayStream *stream) {
    source *s = stream->private_data;
    if (s->batch.release) {
        s->batch.release(&s->batch);
    }
    tdpy_table_release(&s->columns);
    free(s);
    stream->release = NULL;
}

static bool fill_source(source *s, tdpy_table *table) {
    bool good = make_array(&s->batch, table->rows, 1, table->count);
    for (int i = 0; good && i < table->count; i++) {
        good = column_array(s->batch.children[i], &table->columns[i], table->rows);
    }
    s->columns = *table;
    *table = (tdpy_table){0};
    return good;
}

static void destroy_capsule(PyObject *capsule) {
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream && stream->release) { /* a consumer that took it has set it to NULL */
        stream->release(stream);
    }
    free(stream);
}

PyObject *tdpy_table_stream(tdpy_table *table) {
    struct ArrowArrayStream *stream = calloc(1, sizeof *stream);
    source *s = calloc(1, sizeof *s);
    if (!stream || !s) {
        free(stream);
        free(s);
        return PyErr_NoMemory();
    }
    *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, s};
    PyObject *capsule =
        fill_source(s, table) ? PyCapsule_New(stream, "arrow_array_stream", destroy_capsule) : NULL;
    if (!capsule) {
        release_stream(stream);
        free(stream);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return capsule;
}
