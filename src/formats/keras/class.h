/* Keras's classes as tables; layer.c reads by them, keras_layer_write.c writes. */
#ifndef TAPEDECK_KERAS_CLASS_H
#define TAPEDECK_KERAS_CLASS_H

#include "keras/layer.h"

/* What an option of Keras's is to us. */
typedef enum td__keras_meaning {
    TD__KERAS_IGNORED, /* of no consequence for the numbers of a model that has its weights */
    TD__KERAS_NUMBER,
    TD__KERAS_NUMBERS,
    TD__KERAS_SWITCH,
    TD__KERAS_PADDING,
    TD__KERAS_INTERPOLATION,
    TD__KERAS_MERGE,       /* a merge mode that puts out one tensor */
    TD__KERAS_BATCH_SHAPE, /* a shape with the batch in front, [null, 1, 1, 64]; ours is without it */
    TD__KERAS_ACTIVATION,
    TD__KERAS_INITIALIZER,   /* ours if we have it; else the layer's own */
    TD__KERAS_REGULARIZER,   /* ours + "_l1" and "_l2" */
    TD__KERAS_LAST_AXIS,     /* must be the last one */
    TD__KERAS_CHANNELS_LAST, /* must be "channels_last" */
    TD__KERAS_ONE,           /* must be 1, or [1] */
    TD__KERAS_WORD,          /* passed on as it is */
} td__keras_meaning;

typedef struct td__keras_option {
    const char *key;
    td__keras_meaning meaning;
    const char *ours; /* the setting's key */
} td__keras_option;

struct td__keras_class {
    const char *name;
    td_layer_kind kind;
    const td__keras_option *options;
    size_t count;
    td__keras_storage storage;
    /* For what a table cannot say; runs after it. */
    void (*adapt)(const json_t *config, const td_shape *input, td__keras_settings *settings);
};

/* An option of the class, or one that all have; NULL when it is not in the tables. */
const td__keras_option *td__keras_option_find(const td__keras_class *class, const char *key);
/* What is written for a kind; NULL: Keras has nothing like it. */
const td__keras_class *td__keras_class_of(td_layer_kind kind);

/* Our keys for a regulariser of the kernel or the bias. */
typedef struct td__keras_penalty {
    const char *l1, *l2;
} td__keras_penalty;
td__keras_penalty td__keras_penalty_of(const char *ours);

/* For adapt. The first reason stays. */
void td__keras_settings_refuse(td__keras_settings *settings, const char *format, ...)
    TD_PRINTF(2, 3);
void td__keras_settings_number(td__keras_settings *settings, const char *key, double number);
void td__keras_settings_text(td__keras_settings *settings, const char *key, const char *text);

#endif
