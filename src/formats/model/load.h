/* Loading, and what was loaded. */
#ifndef TAPEDECK_MODEL_LOAD_H
#define TAPEDECK_MODEL_LOAD_H

#include "tapedeck/model.h"

/* The file that path means: of a run its model or last checkpoint, of a SavedModel its graph. NULL on
 * failure; for td__free. */
char *td__model_file(const char *path, td_error *error);
/* Returns true for the name of a checkpoint, step-….safetensors. Such names sort by step. */
bool td__is_checkpoint(const char *name);
/* Finds a run's last checkpoint, RUN/checkpoints/step-….safetensors. Returns false when there is none
 * or when its path has more than size - 1 bytes. */
bool td__last_checkpoint(const char *run, char *path, size_t size);
/* td_model_load; *file gets the file that path meant, for td__free, *format_name its format. */
td_model *td__model_load_from(const char *path, char **file, const char **format_name,
                              td_error *error);
/* Copies of texts kept with the model at path, for td_free_text; NULL where there is none. */
TD_NODISCARD td_status td__model_texts(const char *path, size_t count, const char *const keys[],
                                       char *texts[], td_error *error);

#endif
