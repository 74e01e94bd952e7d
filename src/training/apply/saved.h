/* A saved model and data for it, prepared as its training data was. */
#ifndef TAPEDECK_APPLY_SAVED_H
#define TAPEDECK_APPLY_SAVED_H

#include "experiment/notes.h"
#include "tapedeck/apply.h"
#include "tapedeck/data.h"
#include "tapedeck/model.h"

typedef struct td__saved {
    td_model *model;
    td__notes notes; /* what the model says of its training; all zero when it says nothing */
    td_dataset *data;
    td_batches *batches; /* in the file's order */
    bool labelled;
    bool foreign;                    /* says nothing of its training data */
    int64_t fixed_batch;             /* the only one it runs on; 0: any */
    bool input_first, output_first;  /* its file has the channels first, here they are last */
    struct td__model_file *waiting;  /* of a model that is made for the data at hand; or NULL */
    td_shape takes;                  /* its input; -1: any size */
    td_piece pieces[2][TD_MAX_FROM]; /* inputs and labels of several, as they were asked for */
    td__head heads[TD_MAX_OUTPUTS];  /* of several outputs whose losses are known … */
    size_t head_count;               /* … or 0 */
} td__saved;

/* Zero means default. */
typedef struct td__saved_options {
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training, if it is there */
    double scale;       /* of inputs; 0: as in training */
    int64_t batch;
    td_layout layout;   /* of arrays; AS_IS: the one of the model's file, or else what fits */
    bool scaled_labels; /* standardised as in training; otherwise as the file has them */
    const td_named_file *inputs, *output_labels; /* files of several inputs, of outputs' labels */
    size_t input_count, output_label_count;
    td_header header; /* of a CSV file */
} td__saved_options;

/* Those that the options of evaluate, gradients and predict have in common. */
#define TD__SAVED_OPTIONS(options, default_batch, ...)                                             \
    {                                                                                              \
        .labels = (options)->labels, .label = (options)->label, .scale = (options)->scale,         \
        .layout = (options)->layout, .header = (options)->header,                                  \
        .batch = (options)->batch > 0 ? (options)->batch : (default_batch),                        \
        .inputs = (options)->inputs, .input_count = (options)->input_count,                        \
        .output_labels = (options)->output_labels,                                                 \
        .output_label_count = (options)->output_label_count, __VA_ARGS__                           \
    }

/* A graph with axes of any size is only made when the data is open (td__saved_open). */
TD_NODISCARD td_status td__saved_load(td__saved *saved, const char *model, td_error *error);
/* data may be NULL where every input has a file of its own. */
TD_NODISCARD td_status td__saved_open(td__saved *saved, const char *data,
                                      const td__saved_options *options, td_error *error);
/* Labels as the loss can be compared with them. */
TD_NODISCARD td_status td__saved_fit_labels(td__saved *saved, td_loss loss, td_error *error);
enum { TD__WHY_SIZE = 160 };
/* The loss that outputs and labels are compared by: the one asked for by name, else the one of
 * training, else one that fits; why (TD__WHY_SIZE) says which. Labels are as it takes them then.
 * *several: each output has a loss of its own (saved->heads). what: of messages. */
TD_NODISCARD td_status td__saved_choose_loss(td__saved *saved, const char *what, const char *asked,
                                             td__objective *objective, bool *several, char *why,
                                             td_error *error);
void td__saved_release(td__saved *saved);

#endif
