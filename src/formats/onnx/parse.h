/* What the parts of the ONNX parser share: a budget of memory, and errors that name the file.
 *
 * Whatever a file claims, reading it takes at most 32 MiB and TD__ONNX_WIDENED times the bytes that are there
 * (a number of 4 bits is kept in 64): every allocation is charged before it is made.
 */
#ifndef TAPEDECK_ONNX_PARSE_H
#define TAPEDECK_ONNX_PARSE_H

#include "base/chunks.h"
#include "base/proto.h"
#include "onnx/onnx.h"

enum { TD__ONNX_WIDENED = 17 };

typedef struct td__onnx_file td__onnx_file;

typedef struct td__onnx_parser {
    const char *path;   /* for messages; never NULL */
    const char *beside; /* the model's path, where external data is allowed; or NULL */
    td_error *error;
    td__chunks memory;    /* of the graph, but for its tensors */
    bool lent;            /* large floats stay where they are */
    size_t weights;       /* the same for floats that are not in the file, but in another */
    int folder;           /* of external data, open; -1: not yet */
    td__onnx_file *files; /* external data, mapped */
} td__onnx_parser;

/* Like td__onnx_parse, but large float initialisers are not copied: their tensors lie in bytes, which must
 * stay as long as they do, at any address. */
td__graph *td__onnx_parse_lent(const void *bytes, size_t size, const char *path, td_error *error);
/* Like td__onnx_parse, of a file whose float initialisers may have a shape and no values: the data of their
 * tensors is NULL. Together they have at most `weights` bytes. */
td__graph *td__onnx_parse_stripped(const void *bytes, size_t size, size_t weights, const char *path,
                                   td_error *error);

/* For a message of size bytes. path and beside as above, path may be NULL. */
td__onnx_parser td__onnx_parser_of(size_t size, const char *path, const char *beside,
                                   td_error *error);
/* Unmaps external files. The memory stays. */
void td__onnx_parser_close(td__onnx_parser *parser);
/* "FILE: not a sound ONNX file: …" */
td_status td__onnx_malformed(td__onnx_parser *parser, const char *format, ...) TD_PRINTF(2, 3);
td_status td__onnx_unsupported(td__onnx_parser *parser, const char *format, ...) TD_PRINTF(2, 3);

/* Takes bytes from the budget; TD_RANGE when it is spent. */
TD_NODISCARD td_status td__onnx_charge(td__onnx_parser *parser, size_t bytes);
/* Zero-filled, in the parser's memory; NULL, with the error set, on failure. count 0 gives some address. */
void *td__onnx_alloc(td__onnx_parser *parser, size_t count, size_t size);
/* A text's copy; NULL, with the error set, also when it contains a zero byte or is no text. */
const char *td__onnx_copy_text(td__onnx_parser *parser, const td__proto_field *field);

/* The file at location beneath the model's folder, mapped until the parser is closed. */
TD_NODISCARD td_status td__onnx_external(td__onnx_parser *parser, const char *location,
                                         const uint8_t **data, size_t *size);

/* A TensorProto, which gets that name. */
TD_NODISCARD td_status td__onnx_read_tensor(td__onnx_parser *parser, td__proto message,
                                            const char *name, td__graph_constant *constant);
/* An AttributeProto. A constant in it is the caller's to destroy, also on failure. Of a graph in it
 * only the kind is read: names around it must be known first. */
TD_NODISCARD td_status td__onnx_read_attribute(td__onnx_parser *parser, td__proto message,
                                               td__graph_attribute *attribute);
/* A TypeProto: its kind, and the element type and shape of a tensor. */
void td__onnx_read_type(td__proto message, td__graph_info *info);

/* How numbers of a type are written in a file. */
typedef struct td__onnx_encoding {
    uint8_t bits;  /* of one element in raw data; below 8, the first has a byte's lowest */
    uint8_t field; /* of TensorProto, when they are written as numbers */
    uint8_t wire;  /* of that field */
} td__onnx_encoding;

/* NULL for a type that is not stored. */
const td__onnx_encoding *td__onnx_encoding_of(td__graph_type type);
/* How many elements share a number of a list: those of 4 and 2 bits do. */
static inline size_t td__onnx_sharers(const td__onnx_encoding *encoding) {
    return encoding->bits < 8 && 8 % encoding->bits == 0 ? 8u / encoding->bits : 1;
}
/* Bytes of `count` elements in raw data. */
static inline size_t td__onnx_raw_size(const td__onnx_encoding *encoding, int64_t count) {
    return encoding->bits < 8 ? ((size_t)count * encoding->bits + 7) / 8
                              : (size_t)count * (encoding->bits / 8);
}
/* One number from its bits in a file into the storage of its type. False: it does not fit. */
bool td__onnx_decode(td__graph_type type, uint64_t bits, void *values, int64_t at);

/* Goes over the numbers of a field, packed or alone; wire is what they are alone. */
static inline td__proto td__onnx_numbers_of(const td__proto_field *field) {
    return field->wire == TD__BYTES ? td__proto_in(field) : (td__proto){0};
}
bool td__onnx_next_number(td__proto *packed, uint32_t wire, uint64_t *bits);
/* How many numbers a field holds; sets *bad for one of another wire type. */
size_t td__onnx_count_numbers(const td__proto_field *field, uint32_t wire, bool *bad);

#endif
