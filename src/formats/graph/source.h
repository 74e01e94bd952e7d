/* A graph as the source of a model: which of its constants are parameters, which nodes make up a
 * layer, and what layers and parameters are called.
 *
 * Nodes that depend on nothing but constants run once, when the file is read (fold). A node whose
 * result is float and has the batch as its first axis is a layer; nodes before it that are not
 * (shape arithmetic) belong to it. All layers of a model share one run, which the first of them
 * begins anew in each forward pass.
 */
#ifndef TAPEDECK_GRAPH_SOURCE_H
#define TAPEDECK_GRAPH_SOURCE_H

#include "graph/plan.h"
#include "graph/run.h"
#include "tapedeck/nn.h"

#define TD__GRAPH_NAME_SIZE 128

/* What ONNX's form of a weight becomes as a parameter. */
typedef enum td__graph_form {
    TD__GRAPH_AS_IT_IS,
    TD__GRAPH_AS_KERNEL,
    TD__GRAPH_AS_GATES, /* of a recurrent layer in one direction */
    TD__GRAPH_AS_BIASES,
} td__graph_form;

typedef struct td__graph_source td__graph_source;

typedef struct td__graph_parameter {
    int32_t value;
    const td__graph_node *node; /* the first that reads it */
    td__graph_form form;
    td_shape given, shape; /* in the file, and in that form */
    bool moving_average;
    char name[TD__GRAPH_NAME_SIZE]; /* "kernel" */
} td__graph_parameter;

typedef struct td__graph_layer {
    td__graph_source *source;
    size_t first, end; /* its nodes */
    int32_t output;    /* value */
    td_shape shape;    /* of one example; -1: any */
    const char *word;  /* "Conv" */
    char name[TD__GRAPH_NAME_SIZE];
    size_t first_parameter, parameter_count; /* among the source's */
} td__graph_layer;

/* What is known of a value before the model runs. */
typedef struct td__graph_fact {
    bool constant;                /* known when the file has been read */
    bool parameter;               /* a constant that may be trained */
    bool batch;                   /* float, and its first axis is the batch */
    bool batch_second;            /* the same of its second: time comes first */
    bool needed;                  /* for an output of the graph */
    bool last;                    /* it was made with the channels last … */
    td_shape shape;               /* … and so is this */
    td__graph_type type;          /* of what a node makes */
    int32_t users;                /* nodes that read it */
    int32_t user;                 /* the last of them */
    int32_t layer;                /* that makes it; -1: none */
    td__graph_form form;          /* of a parameter */
    const td__graph_node *reader; /* of a parameter: the first node that reads it */
} td__graph_fact;

struct td__graph_source {
    td__graph *graph;
    td__graph_run *run;
    td__graph_fact *facts; /* of each value */
    bool *skip;            /* of each node: folded, or not needed */
    td__graph_layer *layers;
    size_t layer_count;
    td__graph_parameter *parameters;
    size_t parameter_count;
    size_t references; /* layers of the model that are still there */
    td__graph_plan plan;

    bool input_last;      /* the model's input has the channels last, the graph's has not */
    bool output_last;     /* the same of its output */
    bool time_first;      /* the graph puts out (time, batch, …), the model (batch, time, …) */
    int64_t fixed_batch;  /* the only one it runs on; 0: any */
    int64_t batch;        /* that it runs on now */
    td_shape input;       /* of one example, as the model takes it; -1: any */
    td_shape example;     /* the same of the data at hand; of rank 0 when that is not known */
    const char **classes; /* what the file calls the columns of its output; NULL: nothing */
    size_t class_count;
    char *class_texts;      /* of classes that are numbers */
    int32_t labels;         /* of a classifier: its output of labels; -1: it has none */
    size_t scores_output;   /* the output that was moved to the front; 0: none was */
    bool scores_in_columns; /* the outputs after the labels have a column of the scores each */
    uint8_t *
        file; /* that it was read from, without its parameters' values, as the codec keeps it; or NULL */
    size_t file_size;
};

/* Marks parameters and what is needed; runs nodes that depend on constants alone. limit: of memory
 * to run in. */
TD_NODISCARD td_status td__graph_fold(td__graph_source *source, size_t limit, td_error *error);
/* Shapes and types of the rest: inferred where sizes are open, otherwise, or where that does not do, by
 * running it on zeros. */
TD_NODISCARD td_status td__graph_probe(td__graph_source *source, size_t limit, td_error *error);
/* What the model puts out is as the graph says, but for images and, where it takes such, sequences
 * of channels: they have the channels last, as the input has. */
void td__graph_choose_output(td__graph_source *source);
/* Groups nodes into layers and names them and their parameters. */
TD_NODISCARD td_status td__graph_group(td__graph_source *source, td_error *error);

/* Of a classifier that puts out labels first: its scores are the model's output (classes.c). */
void td__graph_prefer_scores(td__graph_source *source);
/* What the file calls the classes that the output's columns are. */
TD_NODISCARD td_status td__graph_name_classes(td__graph_source *source, td_error *error);

/* The source of a model's layers; NULL when it was not made from a graph. */
td__graph_source *td__graph_source_of(const td_model *model);

/* What input number `input` of an operator is as a parameter: "kernel"; NULL when it has no role. */
const char *td__graph_role(const td__graph_node *node, size_t input, td__graph_form *form,
                           bool *moving_average);
/* Layouts (layout.c): whether a weight of that shape can have the form, its shape then, and its values
 * from the file's (at any address) to ours, or back. */
bool td__graph_layout_fits(const td__graph_node *node, td__graph_form form, const td_shape *shape);
td_shape td__graph_layout_shape(const td__graph_node *node, td__graph_form form, td_shape shape);
void td__graph_layout_copy(const td__graph_node *node, td__graph_form form, const td_shape *shape,
                           void *theirs, bool back, float *ours);

/* A parameter's tensor as a value in its form. */
static inline td__graph_value td__graph_value_of(td_tensor *tensor, td__graph_form form) {
    td__graph_value value = {.type = TD__GRAPH_FLOAT};
    *(form == TD__GRAPH_AS_IT_IS    ? &value.plain
      : form == TD__GRAPH_AS_KERNEL ? &value.kernel
                                    : &value.gates) = tensor;
    return value;
}

/* Whether a layer with this node in it is called after it: its operator has inputs with roles and it
 * has parameters, or is recurrent. */
bool td__graph_is_layer(const td__graph_node *node, bool has_parameters);

/* Names (naming.c). A layer's, from that of one of its weights ("features.0.weight" is "features.0")
 * or of a node ("/features/features.0/Conv"); empty when an exporter has made it up. */
void td__graph_layer_name(const char *from, bool of_value, char name[TD__GRAPH_NAME_SIZE]);
/* A parameter's that has no role: "weight" of "pooler.weight"; never empty. */
void td__graph_parameter_name(const char *from, const char *op_type,
                              char name[TD__GRAPH_NAME_SIZE]);
/* "global_average_pool" for "GlobalAveragePool". */
void td__graph_operator_name(const char *op_type, char name[TD__GRAPH_NAME_SIZE]);

#endif
