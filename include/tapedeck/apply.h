/* A saved model over data: what it puts out, and what its errors and gradients are. */
#ifndef TAPEDECK_APPLY_H
#define TAPEDECK_APPLY_H

#include "tapedeck/data.h"
#include "tapedeck/stats.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Prediction ----------------------------------------------------------------------------- */

/* An array in a file, by name. */
typedef struct td_named_file {
    const char *name, *path; /* path: .npy */
} td_named_file;

/* Whether writing to path replaces nothing: it is not there, an empty file or folder, no regular file
 * (a device, a pipe), or "-". */
TD_API bool td_output_is_free(const char *path);
/* Whether what is at path is what td_predict, td_weights_save and td_gradients_save write under a name
 * with its ending, by how it begins: predictions, weights, arrays, a model, a folder of such. */
TD_API bool td_output_is_ours(const char *path);

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_predict_options {
    size_t size; /* sizeof(td_predict_options) */
    /* .csv: label,class_0,… (class_NAME where classes have names); "-": the same to standard output; .npy; a name that ends in '/': a
     * folder with a PNG of each output, grey or (three channels) in colour. NULL: nowhere. A model of
     * several outputs has columns OUTPUT_label,OUTPUT_0,… of each, or a file or folder for each. */
    const char *to;
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training, if it is there */
    int64_t batch;      /* 256 */
    /* Records signals of the model (LAYER.output, LAYER.preactivation, input, prediction) too, a
     * step for each batch, into a new run. */
    const char *record; /* names and globs, separated by commas; NULL: none */
    const char *form;   /* of them, separated by commas; NULL: each sink's own */
    const char *sinks;  /* separated by commas; NULL: the default ones */
    const char *out;    /* the run's folder; NULL: "runs/predict" */
    FILE *stream;       /* for what is printed; NULL: stdout */
    /* Called after each batch; false stops: TD_INTERRUPTED, and no file is written. */
    bool (*progress)(void *user, int64_t done, int64_t examples);
    void *user;
    double scale; /* multiplies inputs, instead of what training did; 0: as in training */
    void (*remark)(void *user, const char *text); /* reports what is odd about the data */
    td_layout layout; /* of arrays of images that go in and come out; AS_IS: the one of the model's
                       * file */
    /* Most bytes that running the model may take; 0: half of what the process may. */
    int64_t memory;
    const td_named_file *inputs; /* a file of each input by its name, instead of data */
    size_t input_count;
    const td_named_file *output_labels; /* the labels of several outputs, a file of each */
    size_t output_label_count;
    td_header header; /* CSV: whether the first line has the columns' names */
    td_names also_to; /* more files or folders, each as `to` */
    bool keep_files;  /* what is there already, and neither free nor ours, is an error */
} td_predict_options;

typedef struct td_prediction {
    int64_t examples;
    bool labelled;
    double accuracy;  /* over class labels; NaN when there are none */
    char folder[512]; /* of the run that recorded; "" without */
} td_prediction;

/* Runs a saved model over data, which is scaled or standardised as the model's training data was,
 * in batches: what it takes in memory depends on the batch, not on how much data there is, where
 * the data can be mapped (see data.h). result may be NULL. A file appears complete or not at all.
 */
TD_API TD_NODISCARD td_status td_predict(const char *model, const char *data,
                                         const td_predict_options *options, td_prediction *result,
                                         td_error *error);

/* Runs a graph of ONNX, TensorFlow Lite or torch.export once over whole arrays, as onnxruntime
 * does: any number of inputs, all of which are given, and of outputs, of which those are written
 * that are asked for; types, shapes and layouts are the file's own. memory: most bytes that it
 * may take; 0: half of what the process may. TD_NOT_FOUND (a name), TD_BAD_SHAPE, TD_DTYPE,
 * TD_UNSUPPORTED, …; each file appears complete or not at all. */
TD_API TD_NODISCARD td_status td_predict_named(const char *model, size_t input_count,
                                               const td_named_file *inputs, size_t output_count,
                                               const td_named_file *outputs, int64_t memory,
                                               td_error *error);

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_evaluate_options {
    size_t size;        /* sizeof(td_evaluate_options) */
    const char *loss;   /* NULL: the one of training when the model says it, else one that fits */
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training */
    double scale;       /* multiplies inputs, instead of what training did; 0: as in training */
    int64_t batch;      /* 256 */
    td_layout layout;   /* of arrays of images; AS_IS: the one of the model's file */
    /* Most bytes that running the model may take; 0: half of what the process may. */
    int64_t memory;
    const td_named_file *inputs; /* a file of each input by its name, instead of data */
    size_t input_count;
    const td_named_file *output_labels; /* of a model of several outputs: the labels of each */
    size_t output_label_count;
    td_header header; /* CSV: whether the first line has the columns' names */
    /* Called after each batch; false stops: TD_INTERRUPTED. */
    bool (*progress)(void *user, int64_t done, int64_t examples);
    void *user;
} td_evaluate_options;

/* What an output's units are. */
typedef enum td_evaluation_kind {
    TD_EVALUATION_CLASSES, /* each example has one of the classes */
    TD_EVALUATION_TAGS,    /* each example has any of the classes */
    TD_EVALUATION_VALUES   /* numbers */
} td_evaluation_kind;

typedef struct td_evaluation_metric {
    const char *name; /* "accuracy" */
    double value;     /* NaN where it has no meaning, as roc_auc when all are of one class */
} td_evaluation_metric;

typedef struct td_evaluation_class {
    const char *name;             /* as the model or its training data has it, else its number */
    int64_t examples;             /* of this class */
    int64_t predicted;            /* said to be of this class */
    int64_t right;                /* both */
    double precision, recall, f1; /* 0 where there is nothing to divide by, as in scikit-learn */
} td_evaluation_class;

/* Examples by how sure the model was: the probability of the class that it said. */
typedef struct td_evaluation_bin {
    double from, to; /* probabilities */
    int64_t examples;
    double confidence, accuracy; /* means; NaN without examples */
} td_evaluation_bin;

/* A number that the model puts out: residuals are prediction - label, in the label's unit. */
typedef struct td_evaluation_value {
    char name[24]; /* "value_0" */
    double mae, rmse, r2;
    double residual_mean, residual_std, residual_min, residual_max;
} td_evaluation_value;

typedef struct td_evaluation_output {
    const char *name; /* of the layer that puts it out */
    td_evaluation_kind kind;
    const char *loss;   /* "mse" */
    const char *why;    /* this loss: "as in training", "as asked for", "guessed: …" */
    double loss_value;  /* of this output alone, without penalties */
    int64_t rows;       /* compared: examples, or steps or pixels of them */
    int64_t not_finite; /* of them had a NaN or an infinity; they count as wrong, and residuals are
                         * without them */
    size_t metric_count, class_count, bin_count, value_count;
    const td_evaluation_metric *metrics;
    const td_evaluation_class *classes;
    const int64_t *confusion; /* (class, predicted class); NULL of tags and above 1024 classes */
    const td_evaluation_bin *bins;
    const td_evaluation_value *values; /* none where an example has more than 64 */
} td_evaluation_output;

typedef struct td_evaluation_info {
    double loss; /* mean over examples, penalties of regularisers included */
    int64_t examples;
    size_t output_count;
    td_names remarks; /* what should be said of the data */
} td_evaluation_info;

typedef struct td_evaluation td_evaluation;

/* Runs a saved model over labelled data and measures how good it is; data may be NULL where options
 * have inputs. NULL on failure. */
TD_API td_evaluation *td_evaluation_create(const char *model, const char *data,
                                           const td_evaluate_options *options, td_error *error);
/* Accepts NULL; what the functions below gave is gone. */
TD_API void td_evaluation_destroy(td_evaluation *evaluation);
TD_API const td_evaluation_info *td_evaluation_about(const td_evaluation *evaluation);
/* NULL beyond the last. */
TD_API const td_evaluation_output *td_evaluation_at(const td_evaluation *evaluation, size_t index);
/* Writes all of it: .csv (output,part,name,measure,value), .json, "-" (the CSV to standard
 * output), or of one output with classes a picture, .png: the confusion matrix, a row for each
 * class, beside it how right the model was by how sure it was. TD_UNSUPPORTED for other endings,
 * and for a picture of numbers. */
TD_API TD_NODISCARD td_status td_evaluation_save(const td_evaluation *evaluation, const char *to,
                                                 td_error *error);
/* The JSON, as one line. */
TD_API TD_NODISCARD td_status td_evaluation_print_json(const td_evaluation *evaluation,
                                                       FILE *stream, td_error *error);

/* ---- Gradients of a saved model ------------------------------------------------------------- */

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_gradients_options {
    size_t size;        /* sizeof(td_gradients_options) */
    const char *layers; /* names and globs, separated by commas, "input" too; NULL: all layers */
    const char *loss;   /* NULL: the one of training when the model says it, else one that fits */
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training */
    double scale;       /* multiplies inputs, instead of what training did; 0: as in training */
    int64_t batch;      /* examples, the first of the data; 32 */
    bool training;      /* as in a step of training: dropout drops, batches are normalised by
                         * themselves; otherwise as in inference */
    td_layout layout;   /* of arrays of images; AS_IS: the one of the model's file */
    /* Most bytes that running the model may take; 0: half of what the process may. */
    int64_t memory;
    const td_named_file *inputs; /* a file of each input by its name, instead of data */
    size_t input_count;
    const td_named_file *output_labels; /* of a model of several outputs: the labels of each */
    size_t output_label_count;
    td_header header; /* CSV: whether the first line has the columns' names */
} td_gradients_options;

/* The gradient of the batch's (mean) loss with respect to a layer's output or parameter. */
typedef struct td_gradient {
    const char *name;  /* "conv2.error", "conv2.kernel.gradient" */
    const char *layer; /* "conv2" */
    const td_tensor *tensor;
    td_stats stats;
    bool disconnected; /* the loss does not depend on it: all zero */
} td_gradient;

typedef struct td_gradients_info {
    const char *loss; /* "mse"; of several outputs "weighted sum of the outputs' losses" */
    bool from_logits; /* of a cross-entropy */
    const char *why;  /* this loss: "as in training", "as asked for", "guessed: …" */
    double value;     /* penalties of regularisers included */
    int64_t examples;
    size_t count;     /* of gradients */
    td_names remarks; /* what should be said of the data */
} td_gradients_info;

typedef struct td_gradients td_gradients;

/* Runs a saved model forward and back over one batch; data may be NULL where options have inputs. NULL
 * on failure. */
TD_API td_gradients *td_gradients_create(const char *model, const char *data,
                                         const td_gradients_options *options, td_error *error);
/* Accepts NULL; what the functions below gave is gone. */
TD_API void td_gradients_destroy(td_gradients *gradients);
TD_API const td_gradients_info *td_gradients_about(const td_gradients *gradients);
/* In the order of the layers, each error before the gradients of its layer's parameters; NULL
 * beyond the last. */
TD_API const td_gradient *td_gradients_at(const td_gradients *gradients, size_t index);
/* Writes them all: .csv (signal,index,value), .npz, or a folder (a name that ends in '/') with an
 * .npy of each. */
TD_API TD_NODISCARD td_status td_gradients_save(const td_gradients *gradients, const char *to,
                                                td_error *error);

#ifdef __cplusplus
}
#endif
#endif
