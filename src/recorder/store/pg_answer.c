/* What PostgreSQL answers, in its binary format. The server is not trusted: every length is checked. */
#include "base/memory.h"
#include "store/postgresql.h"

#include <endian.h>
#include <math.h>
#include <string.h>

static uint64_t load_big(const char *from, int length) {
    uint64_t value = 0;
    for (int i = 0; i < length; i++) {
        value = value << 8 | (uint8_t)from[i];
    }
    return value;
}

int64_t td__pg_integer(const td__pg_cell *cell) {
    switch (cell->length) {
    case 1:
        return (uint8_t)cell->data[0];
    case 2:
        return (int16_t)load_big(cell->data, 2);
    case 4:
        return (int32_t)load_big(cell->data, 4);
    case 8:
        return (int64_t)load_big(cell->data, 8);
    default:
        return 0;
    }
}

double td__pg_real(const td__pg_cell *cell) {
    double real = NAN;
    if (cell->length == 8) {
        uint64_t bits = load_big(cell->data, 8);
        memcpy(&real, &bits, sizeof real);
    }
    return real;
}

/* Dimensions, whether there are NULLs, the type; of the dimension its length and first index. */
bool td__pg_elements(const td__pg_cell *array, td__pg_cell *elements, size_t count) {
    enum { HEADER = 12, DIMENSION = 8 };
    const char *at = array->data;
    if (array->length < HEADER + DIMENSION || load_big(at, 4) != 1 ||
        load_big(at + HEADER, 4) != count) {
        return false;
    }
    const char *end = at + array->length;
    at += HEADER + DIMENSION;
    for (size_t i = 0; i < count; i++) {
        if (end - at < 4) {
            return false;
        }
        int32_t length = (int32_t)load_big(at, 4);
        at += 4;
        if (length < -1 || length > end - at) {
            return false;
        }
        elements[i] = (td__pg_cell){length < 0 ? NULL : at, length};
        at += length > 0 ? length : 0;
    }
    return at == end;
}

/* ---- Kept rows ------------------------------------------------------------------------------ */

enum { MAX_CELLS = 1 << 26 };
static const size_t max_bytes = (size_t)1 << 29;

bool td__pg_keep(void *user, const td__pg_cell *cells, int count) {
    td__pg_answer *answer = user;
    if (!td__grow(&answer->cells, &answer->cell_capacity, answer->cell_count + (size_t)count,
                  MAX_CELLS, sizeof *answer->cells) ||
        (answer->count && answer->columns != count)) {
        return false;
    }
    answer->columns = count;
    for (int i = 0; i < count; i++) {
        size_t length = cells[i].length > 0 ? (size_t)cells[i].length : 0;
        if (!td__grow(&answer->bytes, &answer->capacity, answer->size + length + 1, max_bytes, 1)) {
            return false;
        }
        answer->cells[answer->cell_count].start = answer->size;
        answer->cells[answer->cell_count++].length = cells[i].length;
        if (length) {
            memcpy(answer->bytes + answer->size, cells[i].data, length);
        }
        answer->bytes[answer->size + length] = 0;
        answer->size += length + 1;
    }
    answer->count++;
    return true;
}

td__pg_cell td__pg_cell_of(const td__pg_answer *answer, size_t row, int column) {
    if (row >= answer->count || column >= answer->columns) {
        return (td__pg_cell){NULL, -1};
    }
    size_t index = row * (size_t)answer->columns + (size_t)column;
    int length = answer->cells[index].length;
    return (td__pg_cell){length < 0 ? NULL : answer->bytes + answer->cells[index].start, length};
}

const char *td__pg_word(const td__pg_answer *answer, size_t row, int column) {
    const char *text = td__pg_cell_of(answer, row, column).data;
    return text ? text : "";
}

void td__pg_forget(td__pg_answer *answer) {
    answer->size = answer->cell_count = answer->count = 0;
}

void td__pg_answer_release(td__pg_answer *answer) {
    td__free(answer->bytes);
    td__free(answer->cells);
    *answer = (td__pg_answer){0};
}
