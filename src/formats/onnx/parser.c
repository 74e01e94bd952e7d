/* The parser's memory and errors. */
#include "onnx/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define BASE_BUDGET ((size_t)32 << 20)

td__onnx_parser td__onnx_parser_of(size_t size, const char *path, const char *beside,
                                   td_error *error) {
    return (td__onnx_parser){
        .path = path ? path : "ONNX model",
        .beside = beside,
        .error = error,
        .memory.left = size > (SIZE_MAX - BASE_BUDGET) / TD__ONNX_WIDENED
                           ? SIZE_MAX
                           : BASE_BUDGET + TD__ONNX_WIDENED * size,
        .folder = -1,
    };
}

static td_status refuse_onnx(td__onnx_parser *parser, td_status status, const char *what,
                             const char *format, va_list arguments) {
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    return td_error_set(parser->error, status, "%s: %s%s", parser->path, what, text);
}

td_status td__onnx_malformed(td__onnx_parser *parser, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    td_status status = refuse_onnx(parser, TD_FORMAT, "not a sound ONNX file: ", format, arguments);
    va_end(arguments);
    return status;
}

td_status td__onnx_unsupported(td__onnx_parser *parser, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    td_status status = refuse_onnx(parser, TD_UNSUPPORTED, "", format, arguments);
    va_end(arguments);
    return status;
}

static td_status refuse_memory(td__onnx_parser *parser, td_status reason) {
    return td_error_set(parser->error, reason,
                        reason == TD_MEMORY
                            ? "%s: out of memory"
                            : "%s: would need far more memory than the file has bytes",
                        parser->path);
}

td_status td__onnx_charge(td__onnx_parser *parser, size_t bytes) {
    td_status status = td__chunks_charge(&parser->memory, bytes);
    return status ? refuse_memory(parser, status) : TD_OK;
}

static void *take_array(td__onnx_parser *parser, size_t count, size_t size, size_t alignment) {
    td_status reason;
    void *taken = td__chunks_take(&parser->memory, count, size, alignment, &reason);
    if (!taken) {
        (void)refuse_memory(parser, reason);
    }
    return taken;
}

void *td__onnx_alloc(td__onnx_parser *parser, size_t count, size_t size) {
    return take_array(parser, count, size, sizeof(void *));
}

const char *td__onnx_copy_text(td__onnx_parser *parser, const td__proto_field *field) {
    if (field->wire != TD__BYTES || (field->size && memchr(field->data, 0, field->size))) {
        td__onnx_malformed(parser, "a name is not text");
        return NULL;
    }
    if (!field->size) {
        return "";
    }
    char *text = take_array(parser, field->size + 1, 1, 1);
    if (text) {
        memcpy(text, field->data, field->size);
    }
    return text;
}
