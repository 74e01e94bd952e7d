/* Conversion of any number type, byte order and layout to float32, a row at a time. */
#include "base/half.h"
#include "base/memory.h"
#include "data/table.h"

#include <string.h>

enum { PREFETCH_MAXIMUM = 4096 }; /* bytes; what follows, the processor fetches by itself */

/* The number that a C value of each type stands for. */
#define NUMBER_U8(x) (x)
#define NUMBER_I8(x) (x)
#define NUMBER_U16(x) (x)
#define NUMBER_I16(x) (x)
#define NUMBER_U32(x) (x)
#define NUMBER_I32(x) (x)
#define NUMBER_U64(x) (x)
#define NUMBER_I64(x) (x)
#define NUMBER_F16(x) td__from_float16(x)
#define NUMBER_F32(x) (x)
#define NUMBER_F64(x) (x)

#define SWAP_uint8_t(x) (x)
#define SWAP_uint16_t(x) __builtin_bswap16(x)
#define SWAP_uint32_t(x) __builtin_bswap32(x)
#define SWAP_uint64_t(x) __builtin_bswap64(x)

/* For each type: one value; and a row, as a loop that is specialised where it matters. */
#define DEFINE_READ(name, type, unsigned_type)                                                     \
    static inline type load_##name(const uint8_t *from, bool swap) {                               \
        unsigned_type bits;                                                                        \
        type value;                                                                                \
        memcpy(&bits, from, sizeof bits);                                                          \
        bits = swap ? SWAP_##unsigned_type(bits) : bits;                                           \
        memcpy(&value, &bits, sizeof value);                                                       \
        return value;                                                                              \
    }                                                                                              \
    static double value_##name(const uint8_t *from, bool swap) {                                   \
        return (double)NUMBER_##name(load_##name(from, swap));                                     \
    }                                                                                              \
    static int64_t integer_##name(const uint8_t *from, bool swap) {                                \
        return (int64_t)NUMBER_##name(load_##name(from, swap));                                    \
    }                                                                                              \
    static void read_##name(const uint8_t *restrict from, const int64_t *restrict offsets,         \
                            bool swap, int64_t count, float *restrict to) {                        \
        if (offsets) {                                                                             \
            for (int64_t i = 0; i < count; i++) {                                                  \
                to[i] = (float)NUMBER_##name(load_##name(from + offsets[i], swap));                \
            }                                                                                      \
        } else if (swap) {                                                                         \
            for (int64_t i = 0; i < count; i++) {                                                  \
                to[i] = (float)NUMBER_##name(load_##name(from + i * (int64_t)sizeof(type), true)); \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < count; i++) {                                                  \
                to[i] =                                                                            \
                    (float)NUMBER_##name(load_##name(from + i * (int64_t)sizeof(type), false));    \
            }                                                                                      \
        }                                                                                          \
    }
TD__ELEMENT_LIST(DEFINE_READ)

static const struct {
    size_t size;
    double (*value)(const uint8_t *from, bool swap);
    int64_t (*integer)(const uint8_t *from, bool swap);
    void (*read)(const uint8_t *from, const int64_t *offsets, bool swap, int64_t count, float *to);
} elements[TD__ELEMENT_COUNT] = {
#define DEFINE_ROW(name, type, unsigned_type)                                                      \
    {sizeof(type), value_##name, integer_##name, read_##name},
    TD__ELEMENT_LIST(DEFINE_ROW)};

size_t td__element_size(td__element_type element) {
    return elements[element].size;
}

bool td__element_is_float(td__element_type element) {
    return element == TD__F16 || element == TD__F32 || element == TD__F64;
}

/* Offsets of a row's elements, row-major, in a Fortran-ordered array of shape (rows, …). */
static int64_t *fortran_offsets(const td_shape *shape, int64_t count, int64_t size) {
    int64_t *offsets = td__calloc((size_t)count, sizeof *offsets);
    int64_t index[TD_MAX_RANK] = {0}, stride[TD_MAX_RANK] = {0};
    if (!offsets) {
        return NULL;
    }
    int64_t bytes = size;
    for (int d = 0; d < shape->rank; d++) {
        stride[d] = bytes;
        bytes *= shape->dims[d];
    }
    for (int64_t i = 0, offset = 0; i < count; i++) {
        offsets[i] = offset;
        for (int d = shape->rank - 1; d > 0; d--) {
            offset += stride[d];
            if (++index[d] < shape->dims[d]) {
                break;
            }
            offset -= stride[d] * shape->dims[d];
            index[d] = 0;
        }
    }
    return offsets;
}

td_status td__array_describe(td__array *array, int64_t *rows, const uint8_t *data, size_t size,
                             td__element_type element, bool swap, bool fortran,
                             const td_shape *shape, const char *what, td_error *error) {
    int64_t total = 1, bytes, width = (int64_t)elements[element].size;
    char text[TD_SHAPE_TEXT_SIZE];
    td_shape_text(shape, text);
    if (shape->rank == 0 || shape->rank > TD_MAX_RANK) {
        return td_error_set(error, TD_BAD_SHAPE, "%s: has %d dimensions; 1 to %d are expected",
                            what, shape->rank, TD_MAX_RANK);
    }
    td_shape row = {.rank = shape->rank - 1};
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dims[d] <= 0) {
            return td_error_set(error, TD_BAD_SHAPE, "%s: shape %s holds no examples", what, text);
        }
        if (!td__multiply(total, shape->dims[d], &total)) {
            return td_error_set(error, TD_FORMAT, "%s: shape %s is too large", what, text);
        }
        if (d > 0) {
            row.dims[d - 1] = shape->dims[d];
        }
    }
    if (!td__multiply(total, width, &bytes) || (uint64_t)bytes > size) {
        return td_error_set(error, TD_FORMAT,
                            "%s: shape %s needs %lld elements of %lld bytes, but only %zu bytes "
                            "are there; the file is cut short or damaged",
                            what, text, (long long)total, (long long)width, size);
    }
    if (row.rank == 0) {
        row = TD_SHAPE(1);
    }
    int64_t count = total / shape->dims[0];
    td__array made = {.data = data,
                      .element = element,
                      .swap = swap,
                      .shape = row,
                      .count = count,
                      .row_stride = count * width};
    if (fortran && shape->rank > 1) {
        made.row_stride = width;
        made.offsets = fortran_offsets(shape, count, width);
        if (!made.offsets) {
            return td_error_set(error, TD_MEMORY, "%s: no memory", what);
        }
    }
    *array = made;
    *rows = shape->dims[0];
    return TD_OK;
}

td__array td__array_plain(const void *data, td__element_type element, td_shape shape,
                          int64_t count) {
    return (td__array){.data = data,
                       .element = element,
                       .shape = shape,
                       .count = count,
                       .row_stride = count * (int64_t)elements[element].size};
}

void td__array_read(const td__array *array, int64_t row, float *values) {
    for (size_t i = 0; i < array->part_count; i++) {
        td__array_read(&array->parts[i], row, values);
        values += array->parts[i].count;
    }
    if (!array->parts) {
        const uint8_t *from = array->data + row * array->row_stride;
        elements[array->element].read(from, array->offsets, array->swap, array->count, values);
    }
}

void td__array_prefetch(const td__array *array, int64_t row) {
    for (size_t i = 0; i < array->part_count; i++) {
        td__array_prefetch(&array->parts[i], row);
    }
    const uint8_t *from = array->data + row * array->row_stride;
    int64_t size = array->row_stride < PREFETCH_MAXIMUM ? array->row_stride : PREFETCH_MAXIMUM;
    for (int64_t i = 0; i < size; i += TD__ALIGNMENT) {
        __builtin_prefetch(from + i);
    }
}

/* The array that has element *index of a row, which becomes its own. */
static const td__array *part_of(const td__array *array, int64_t *index) {
    const td__array *part = array->parts ? array->parts : array;
    for (; array->parts && *index >= part->count; part++) {
        *index -= part->count;
    }
    return part;
}

static const uint8_t *element_address(const td__array *array, int64_t row, int64_t index) {
    int64_t offset =
        array->offsets ? array->offsets[index] : index * (int64_t)elements[array->element].size;
    return array->data + row * array->row_stride + offset;
}

double td__array_value(const td__array *array, int64_t row, int64_t index) {
    const td__array *part = part_of(array, &index);
    return elements[part->element].value(element_address(part, row, index), part->swap);
}

int64_t td__array_integer(const td__array *array, int64_t row, int64_t index) {
    const td__array *part = part_of(array, &index);
    return elements[part->element].integer(element_address(part, row, index), part->swap);
}

const float *td__array_floats(const td__array *array) {
    bool plain = array->element == TD__F32 && !array->swap && !array->offsets && !array->parts &&
                 array->row_stride == array->count * (int64_t)sizeof(float) &&
                 (uintptr_t)array->data % sizeof(float) == 0;
    return plain ? (const float *)(const void *)array->data : NULL;
}

void td__array_release(td__array *array) {
    for (size_t i = 0; i < array->part_count; i++) {
        td__array_release(&array->parts[i]);
    }
    td__free(array->parts);
    td__free(array->offsets);
    *array = (td__array){0};
}
