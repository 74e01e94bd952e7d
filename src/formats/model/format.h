/* A file of a model or of tensors, opened once, and which format it is in: what its content says,
 * whatever it is called. */
#ifndef TAPEDECK_MODEL_FORMAT_H
#define TAPEDECK_MODEL_FORMAT_H

#include "base/bytes.h"
#include "graph/graph.h"
#include "model/load.h"
#include "model/table.h"
#include "zip/zip.h"

typedef struct td__format td__format;

/* An open file. Everything is read from its bytes; it is never opened again. */
struct td__model_file {
    char *path; /* for messages, and where files that belong to it lie */
    td__bytes bytes;
    td__zip zip; /* its members; not is_zip: it is no archive, or a damaged one */
    bool is_zip;
    const td__format *format;
    size_t references; /* who closes last ends it */
};

struct td__format {
    const char *name;
    bool (*recognise)(const td__model_file *file);
    /* TD_NO_MODEL where the file has weights and nothing else, or a graph that is no model of layers.
     * NULL without an error where the model waits for the data at hand; data may be NULL. */
    td_model *(*load)(const td__model_file *file, td__model_for *data, td_error *error);
    /* The list is the caller's to release, whatever happens. NULL: only as a model. */
    td__table_reader *tensors;
    /* Copies of texts kept with the model (NULL where there is none); NULL: it keeps none. */
    td_status (*texts)(const td__model_file *file, size_t count, const char *const keys[],
                       char *texts[], td_error *error);
    /* The graph as it is in the file, which need not be a model; NULL: it has none. */
    td__graph *(*graph)(const td__model_file *file, td_error *error);
};

/* Which recognises the file; NULL, with a message, when none does. */
const td__format *td__format_of(const td__model_file *file, td_error *error);

/* A list whose views point into the file keeps it open. */
TD_NODISCARD td_status td__model_file_keep(td__model_file *file, td__tensor_list *list,
                                           td_error *error);
/* Its members; NULL, with the reason, when it is no sound archive. */
const td__zip *td__model_file_zip(const td__model_file *file, td_error *error);

/* Ignoring case. */
bool td__path_ends_in(const char *path, const char *ending);

#endif
