/* Which format a file is in: what its content says, whatever it is called. */
#ifndef TAPEDECK_MODEL_FORMAT_H
#define TAPEDECK_MODEL_FORMAT_H

#include "model/table.h"
#include "tapedeck/model.h"
#include "zip/zip.h"

/* A file, as far as is needed to see what it is. */
typedef struct td__subject {
    const char *path;
    const unsigned char *head, *tail; /* its first and last bytes, size of each */
    size_t size;
    const td__zip *zip; /* NULL: it is no archive */
} td__subject;

typedef struct td__format {
    const char *name;
    bool (*recognise)(const td__subject *file);
    /* TD_NO_MODEL where the file has weights and nothing else, or a graph that is no model of layers. */
    td_model *(*load)(const char *path, td_error *error);
    td__table_reader *tensors; /* NULL: only as a model */
    /* Copies of texts kept with the model (NULL where there is none); NULL: it keeps none. */
    td_status (*texts)(const char *path, size_t count, const char *const keys[], char *texts[],
                       td_error *error);
    /* The graph as a file of ONNX's, for td__free; NULL: it is none of another format. */
    td_status (*graph)(const void *bytes, size_t size, const char *path, uint8_t **made,
                       size_t *made_size, td_error *error);
} td__format;

/* NULL on failure. */
const td__format *td__format_of(const char *path, td_error *error);

/* Ignoring case. */
bool td__path_ends_in(const char *path, const char *ending);

#endif
