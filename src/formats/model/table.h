/* Tables of tensors: what a file holds by name, and such files written. */
#ifndef TAPEDECK_MODEL_TABLE_H
#define TAPEDECK_MODEL_TABLE_H

#include "tensor/list.h"

/* Readers of a format's tensors: see format.h. */
struct td__model_file;
typedef td_status td__table_reader(struct td__model_file *file, td__tensor_list *list,
                                   td_error *error);
td__table_reader td__safetensors_list, td__hdf5_tensors, td__npz_tensors;
/* The same of the constants of a graph: ONNX, TensorFlow Lite, torch.export. */
td__table_reader td__graph_tensors;
/* The same of the weights inside of a .keras. */
td__table_reader td__keras_tensors;
/* HDF5 in memory that stays valid. */
TD_NODISCARD td_status td__hdf5_tensors_of(const void *bytes, size_t size, const char *path,
                                           td__tensor_list *list, td_error *error);

/* Writes them as path's ending says: .csv, .npz, .safetensors, or a folder ("…/") of .npy files. */
TD_NODISCARD td_status td__table_write(size_t count, const td__named_view *tensors,
                                       const char *path, td_error *error);

#endif
