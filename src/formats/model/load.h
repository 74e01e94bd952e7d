/* A file of a model or of tensors, opened once: what its format reads is read from it. */
#ifndef TAPEDECK_MODEL_LOAD_H
#define TAPEDECK_MODEL_LOAD_H

#include "nn/model.h"
#include "tapedeck/model.h"

typedef struct td__model_file td__model_file;

/* The file that path means: of a run its model or last checkpoint, of a SavedModel its graph. NULL on
 * failure; for td__free. */
char *td__model_path(const char *path, td_error *error);
/* Returns true for the name of a checkpoint, step-….safetensors. Such names sort by step. */
bool td__is_checkpoint(const char *name);
/* Finds a run's last checkpoint, RUN/checkpoints/step-….safetensors. Returns false when there is none
 * or when its path has more than size - 1 bytes. */
bool td__last_checkpoint(const char *run, char *path, size_t size);
/* Opens that file and finds out its format. NULL on failure. */
td__model_file *td__model_file_open(const char *path, td_error *error);
/* Accepts NULL. */
void td__model_file_close(td__model_file *file);

/* td_model_load. Where data is given and not known, a model that has to be made for it waits: NULL
 * without an error. */
td_model *td__model_file_load(const td__model_file *file, td__model_for *data, td_error *error);
/* Copies of texts kept with the model, for td_free_text; NULL where there is none. */
TD_NODISCARD td_status td__model_file_texts(const td__model_file *file, size_t count,
                                            const char *const keys[], char *texts[],
                                            td_error *error);

#endif
