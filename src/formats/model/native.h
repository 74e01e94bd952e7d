/* Our own format: a .safetensors file whose metadata has the architecture. */
#ifndef TAPEDECK_MODEL_NATIVE_H
#define TAPEDECK_MODEL_NATIVE_H

#include "model/format.h"
#include "model/safetensors.h"
#include "tapedeck/model.h"

/* NULL on failure. */
td_model *td__native_load(const td__model_file *from, td__model_for *data, td_error *error);
TD_NODISCARD td_status td__native_save(const td_model *model, const char *path, size_t count,
                                       const td_model_note *notes, td_error *error);
/* Parameters from a file of named tensors: our own, or (see pytorch.h) PyTorch's. */
TD_NODISCARD td_status td__native_weights(td_model *model, const td__model_file *from,
                                          td_error *error);
/* The same of tensors at hand. */
TD_NODISCARD td_status td__native_assign(td_model *model, const char *path, size_t count,
                                         const td__named_view *tensors, td_error *error);
/* Copies of the metadata's texts (NULL where there is none), for td_free_text. */
TD_NODISCARD td_status td__native_texts(const td__model_file *from, size_t count,
                                        const char *const keys[], char *texts[], td_error *error);

#endif
