/* safetensors: named tensors and a map of texts in one file.
 *
 * The reader is strict: the header is JSON without duplicate keys, at most 16 MiB; tensors cover
 * the data without holes or overlap, each as long as its type and shape say. Files are mapped;
 * values may stand at any address, so copy them out. The writer aligns the data to 64 bytes and
 * replaces the file in one instant.
 */
#ifndef TAPEDECK_MODEL_SAFETENSORS_H
#define TAPEDECK_MODEL_SAFETENSORS_H

#include "tensor/list.h"

typedef struct td__safetensors td__safetensors;

typedef struct td__text_pair {
    const char *key, *value;
} td__text_pair;

/* NULL on failure: TD_NOT_FOUND, TD_IO, TD_FORMAT, TD_UNSUPPORTED (an element type), TD_MEMORY. The
 * file must not be cut short while it is open. */
td__safetensors *td__safetensors_open(const char *path, td_error *error);
/* The same of bytes that stay valid; path is for messages. */
td__safetensors *td__safetensors_parse(const char *path, const void *bytes, size_t size,
                                       td_error *error);
void td__safetensors_close(td__safetensors *file); /* accepts NULL */

/* In the order of the header; valid until close. */
size_t td__safetensors_count(const td__safetensors *file);
const td__named_view *td__safetensors_at(const td__safetensors *file, size_t index);
/* Elements in all tensors together. */
int64_t td__safetensors_elements(const td__safetensors *file);
/* NULL when there is none. */
const td__named_view *td__safetensors_find(const td__safetensors *file, const char *name);
/* What was read of a tensor need not stay in memory. */
void td__safetensors_unmap(const td__safetensors *file, const td__named_view *tensor);
/* A text of __metadata__; NULL when there is none. */
const char *td__safetensors_text(const td__safetensors *file, const char *key);

/* Publishes path with these tensors, in this order. Names must differ. */
TD_NODISCARD td_status td__safetensors_write(const char *path, size_t count,
                                             const td__named_view *tensors, size_t text_count,
                                             const td__text_pair *texts, td_error *error);

#endif
