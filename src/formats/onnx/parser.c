/* The parser's memory and errors. */
#include "onnx/parse.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { CHUNK = 16 * 1024 };
#define BASE_BUDGET ((size_t)32 << 20)

struct td__onnx_chunk {
    td__onnx_chunk *next;
    size_t size, used; /* of what follows */
    max_align_t memory[];
};

td__onnx_parser td__onnx_parser_of(size_t size, const char *path, const char *beside,
                                   td_error *error) {
    return (td__onnx_parser){
        .path = path ? path : "ONNX model",
        .beside = beside,
        .error = error,
        .left = size > (SIZE_MAX - BASE_BUDGET) / TD__ONNX_WIDENED
                    ? SIZE_MAX
                    : BASE_BUDGET + TD__ONNX_WIDENED * size,
        .folder = -1,
    };
}

void td__onnx_chunks_free(void *chunks) {
    for (td__onnx_chunk *each = chunks, *next; each; each = next) {
        next = each->next;
        td__free(each);
    }
}

static td_status refuse(td__onnx_parser *parser, td_status status, const char *what,
                        const char *format, va_list arguments) {
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    return td_error_set(parser->error, status, "%s: %s%s", parser->path, what, text);
}

td_status td__onnx_malformed(td__onnx_parser *parser, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    td_status status = refuse(parser, TD_FORMAT, "not a sound ONNX file: ", format, arguments);
    va_end(arguments);
    return status;
}

td_status td__onnx_unsupported(td__onnx_parser *parser, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    td_status status = refuse(parser, TD_UNSUPPORTED, "", format, arguments);
    va_end(arguments);
    return status;
}

td_status td__onnx_charge(td__onnx_parser *parser, size_t bytes) {
    if (bytes > parser->left) {
        return td_error_set(parser->error, TD_RANGE,
                            "%s: would need far more memory than the file has bytes", parser->path);
    }
    parser->left -= bytes;
    return TD_OK;
}

static td__onnx_chunk *add_chunk(td__onnx_parser *parser, size_t needed) {
    size_t size = needed > CHUNK ? needed : CHUNK;
    if (size > parser->left && needed <= parser->left) {
        size = needed;
    }
    if (td__onnx_charge(parser, size)) {
        return NULL;
    }
    td__onnx_chunk *chunk = td__calloc(1, sizeof *chunk + size);
    if (!chunk) {
        td_error_set(parser->error, TD_MEMORY, "%s: out of memory", parser->path);
        return NULL;
    }
    chunk->size = size;
    chunk->next = parser->chunks;
    parser->chunks = chunk;
    return chunk;
}

static void *take(td__onnx_parser *parser, size_t bytes, size_t alignment) {
    td__onnx_chunk *chunk = parser->chunks;
    size_t at = chunk ? (chunk->used + alignment - 1) & ~(alignment - 1) : 0;
    if (!chunk || at > chunk->size || bytes > chunk->size - at) {
        chunk = add_chunk(parser, bytes);
        at = 0;
    }
    if (!chunk) {
        return NULL;
    }
    chunk->used = at + bytes;
    return (char *)chunk->memory + at;
}

void *td__onnx_alloc(td__onnx_parser *parser, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    return take(parser, bytes, sizeof(void *));
}

const char *td__onnx_copy_text(td__onnx_parser *parser, const td__proto_field *field) {
    if (field->wire != TD__BYTES || (field->size && memchr(field->data, 0, field->size))) {
        td__onnx_malformed(parser, "a name is not text");
        return NULL;
    }
    if (!field->size) {
        return "";
    }
    char *text = take(parser, field->size + 1, 1);
    if (text) {
        memcpy(text, field->data, field->size);
    }
    return text;
}
