/* PyTorch's state dictionary, as safetensors has it, into a model whose layers have its modules'
 * names: "fc1.weight" is "fc1.kernel", transposed. */
#ifndef TAPEDECK_MODEL_PYTORCH_H
#define TAPEDECK_MODEL_PYTORCH_H

#include "model/weights.h"

/* Whether the names are PyTorch's: none of ours ends in "weight". */
bool td__pytorch_names(size_t count, const td__named_view *tensors);
/* As td__weights_assign: every parameter must be given, every tensor must be used (except
 * num_batches_tracked); all problems are reported together, and then nothing has changed. */
TD_NODISCARD td_status td__pytorch_assign(td_model *model, const char *path, size_t count,
                                          const td__named_view *tensors, td_error *error);

#endif
