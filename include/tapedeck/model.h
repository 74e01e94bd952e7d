/* Saved models: a model with its weights from a file, and back.
 *
 *     td_model *model = td_model_load("runs/digits", &error);          // or model.safetensors, …
 *     status = td_weights_save(model, "weights.csv", &error);
 *     status = td_weights_load(model, "weights.csv", &error);
 */
#ifndef TAPEDECK_MODEL_H
#define TAPEDECK_MODEL_H

#include "tapedeck/data.h"
#include "tapedeck/nn.h"
#include "tapedeck/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of td_model_note. */
#define TD_NOTE_DATA "tapedeck.data"     /* how its data was prepared, as JSON */
#define TD_NOTE_ORIGIN "tapedeck.origin" /* the file that it or its weights came from */

/* A built model with its weights, from a run's folder (its model.safetensors, or its last
 * checkpoint when training has not ended), a .safetensors file with its architecture, a file of
 * Keras's (.keras, .h5, a SavedModel's folder) or an ONNX file; its content says which. The caller
 * destroys it. NULL on failure: TD_NOT_FOUND, TD_FORMAT, TD_UNSUPPORTED (all unsupported layers
 * are listed), TD_NO_MODEL (weights alone: see td_tensor_table_open), TD_BAD_SHAPE, TD_RANGE,
 * TD_MEMORY. */
TD_API td_model *td_model_load(const char *path, td_error *error);
/* The same, and a text for each of the keys (NULL where there is none) that
 * td_free_text releases. */
TD_API td_model *td_model_load_with(const char *path, size_t count, const char *const keys[],
                                    char *texts[], td_error *error);
/* Accepts NULL. */
TD_API void td_free_text(char *text);

/* Writes parameters and architecture to a file, which appears complete or not at all: for Keras 3
 * when path ends in .keras (Keras passes over the notes; TD_UNSUPPORTED lists the layers that Keras
 * lacks), else as .safetensors. */
TD_API TD_NODISCARD td_status td_model_save(const td_model *model, const char *path, size_t count,
                                            const td_model_note *notes, td_error *error);

/* Writes the parameters, by the file's ending: .csv (layer,parameter,index,value), .npz (one array
 * LAYER.PARAMETER each), .safetensors or .keras (both with the architecture), .onnx (of a model
 * that came from ONNX), or ("…/") a folder with a .npy file each. */
TD_API TD_NODISCARD td_status td_weights_save(const td_model *model, const char *path,
                                              td_error *error);
/* Reads parameters by name from .csv, .npz, .safetensors (also PyTorch's state dictionary, whose
 * modules have the layers' names, and as torch.save writes it), Keras's weights alone in HDF5, a run's
 * folder or any other saved model into a built model. Every
 * parameter of the model must be there, in its shape; what else is there is an error too, and the
 * text has all that is wrong. Nothing changes on failure: TD_NOT_FOUND, TD_BAD_SHAPE, … */
TD_API TD_NODISCARD td_status td_weights_load(td_model *model, const char *path, td_error *error);

/* --- tables of tensors -------------------------------------------------------------------- */

/* The tensors of a file by name, in its order, used where they stand in it: of files that are weights
 * alone (safetensors, .npz, HDF5, what torch.save wrote, checkpoints and SavedModels of TensorFlow's)
 * and of saved models. The file must not be cut short while it is open. */
typedef struct td_tensor_table td_tensor_table;

typedef struct td_tensor_table_info {
    const char *file;   /* that path meant */
    const char *format; /* "PyTorch", … */
    int64_t bytes;      /* of the file */
    size_t count;       /* of tensors */
    const char *remark; /* what else is in the file and not in the table; or NULL */
} td_tensor_table_info;

/* raw: names and layouts as the file has them. Otherwise those of the parameters where the file is a
 * model. The caller closes it. NULL on failure, as td_model_load. */
TD_API td_tensor_table *td_tensor_table_open(const char *path, bool raw, td_error *error);
/* Accepts NULL. */
TD_API void td_tensor_table_close(td_tensor_table *table);
/* All returned pointers are owned by the table. */
TD_API td_tensor_table_info td_tensor_table_about(const td_tensor_table *table);
TD_API const char *td_tensor_table_name(const td_tensor_table *table, size_t index);
TD_API td_view td_tensor_table_view(const td_tensor_table *table, size_t index);
/* Writes all of them, by the file's ending: .csv (layer,parameter,index,value), .npz, .safetensors,
 * or ("…/") a folder with a .npy file each; element types stay, but bfloat16 is float32 in NumPy's. */
TD_API TD_NODISCARD td_status td_tensor_table_save(const td_tensor_table *table, const char *path,
                                                   td_error *error);

/* What two tensors of one name differ by. Numbers that differ by no more than the tolerance times the
 * larger of the two are the same; so are NaN and NaN. */
typedef struct td_tensor_difference {
    const char *name;
    td_view a, b;    /* data NULL: only the other file has it */
    bool comparable; /* both are there, in the same shape */
    int64_t count;   /* of numbers that differ */
    double largest;  /* difference of two, infinite where one is no number */
    double relative; /* largest difference, to the larger of the two */
} td_tensor_difference;

/* All that differs between two tables, by name, in the order of a, then what only b has. Returns how
 * many; *differences gets an array for td_free_differences, NULL when memory is exhausted. The
 * tables must stay open as long as it is used. */
TD_API size_t td_tensor_table_compare(const td_tensor_table *a, const td_tensor_table *b,
                                      double tolerance, td_tensor_difference **differences);
/* Accepts NULL. */
TD_API void td_free_differences(td_tensor_difference *differences);

/* --- looking inside ----------------------------------------------------------------------- */

/* A note is worth knowing, a warning a part of the model that does nothing, an error a model that
 * puts out something that is no number. */
typedef enum td_finding_level {
    TD_FINDING_NOTE,
    TD_FINDING_WARNING,
    TD_FINDING_ERROR
} td_finding_level;

/* "note", "warning", "error". */
TD_API const char *td_finding_level_name(td_finding_level level);

/* Something unusual that follows from the parameters alone. */
typedef struct td_finding {
    td_finding_level level;
    const char *where; /* "conv1.kernel", or a layer */
    const char *text;
} td_finding;

/* What a saved model is and has; everything is the inspection's. */
typedef struct td_inspection {
    const char *file;   /* of the run: its model.safetensors or last checkpoint */
    const char *format; /* "safetensors", … */
    int64_t bytes;      /* of the file */
    const char *origin; /* the file that training began from, when the model says so; else NULL */
    /* What the model says of its data; zero where it says nothing. */
    td_names inputs;               /* names of its inputs, in their order */
    td_names label;                /* columns that were the labels */
    td_names classes;              /* names of the classes */
    double scale;                  /* that inputs are multiplied by */
    const float *mean, *deviation; /* that inputs are standardised with */
    int64_t normal_count;          /* how many of each */
    const td_model *model;
    const td_stats *stats; /* of each parameter */
    const td_finding *findings;
    size_t finding_count;
    td_finding_level worst; /* of the findings; TD_FINDING_NOTE when there are none */
    /* Of one example, as the file has it: with the channels first where it says so, though the
     * model's layers have them last. -1: any size. */
    td_shape input, output;
    bool input_first, output_first;
} td_inspection;

/* NULL on failure, as td_model_load. */
TD_API const td_inspection *td_model_inspect(const char *path, td_error *error);
/* Accepts NULL. */
TD_API void td_inspection_destroy(const td_inspection *inspection);

#ifdef __cplusplus
}
#endif
#endif
