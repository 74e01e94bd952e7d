/* Parameters of a model being read, by name: everything is checked before the model changes, so that
 * a file that turns out wrong leaves it as it was. */
#ifndef TAPEDECK_MODEL_WEIGHTS_H
#define TAPEDECK_MODEL_WEIGHTS_H

#include "base/reasons.h"
#include "model/safetensors.h"
#include "tapedeck/nn.h"
#include "tensor/element.h"

#include <stdio.h>

/* The model's parameters, sorted by name. */
typedef struct td__parameter_index {
    const td_parameter_info **sorted;
    size_t count;
} td__parameter_index;

TD_NODISCARD td_status td__parameter_index_init(td__parameter_index *index, const td_model *model,
                                                td_error *error);
void td__parameter_index_release(td__parameter_index *index);
/* Its place in sorted; -1 when there is none of that name. */
ptrdiff_t td__parameter_index_find(const td__parameter_index *index, const char *name);
/* The parameter whose name is like this one, or NULL. */
const char *td__parameter_index_nearest(const td__parameter_index *index, const char *name);

/* Writes all parameters from tensors of their names and shapes, straight from where they stand. Each
 * parameter must be given once, and nothing else. All problems are reported together; then nothing has
 * changed. */
TD_NODISCARD td_status td__weights_assign(td_model *model, const char *path, size_t count,
                                          const td__named_view *tensors, td_error *error);

/* All parameters by name, from td__calloc; NULL when memory is exhausted. */
td__named_view *td__parameter_views(const td_model *model);

/* A view of a type that NumPy has; made has a release of its own where it is a copy. */
TD_NODISCARD td_status td__numpy_view(const td_view *view, td_view *made, td_error *error);
/* Tensors as an .npz, and the elements of one as CSV rows: prefix, index, value. */
TD_NODISCARD td_status td__npz_write(const char *path, size_t count, const td__named_view *tensors,
                                     td_error *error);
/* False when the stream fails. */
bool td__csv_elements(FILE *stream, const char *prefix, size_t prefix_length, const td_view *view);

/* The rows of one tensor in weights as CSV, below a header. False when the stream fails. */
#define TD__WEIGHTS_CSV_HEADER "layer,parameter,index,value"
bool td__weights_csv_rows(FILE *stream, const char *layer, const char *parameter,
                          const td_view *view);

/* The formats. */
TD_NODISCARD td_status td__weights_csv_write(const td_model *model, const char *path,
                                             td_error *error);
TD_NODISCARD td_status td__weights_csv_read(td_model *model, const char *path, td_error *error);
/* The same of bytes in memory; path is for messages. */
TD_NODISCARD td_status td__weights_csv_parse(td_model *model, const char *path, const void *bytes,
                                             size_t size, td_error *error);
TD_NODISCARD td_status td__weights_npz_write(const td_model *model, const char *path,
                                             td_error *error);
TD_NODISCARD td_status td__weights_npz_read(td_model *model, const char *path, td_error *error);

#endif
