/* Keras's classes: the kinds of layers (nn/kind.h), and those that are a kind by another name. layer.c
 * reads by them, layer_write.c writes. */
#ifndef TAPEDECK_KERAS_CLASS_H
#define TAPEDECK_KERAS_CLASS_H

#include "keras/layer.h"

struct td__keras_class {
    const char *name, *word; /* Keras's and ours */
    const td__layer_kind *kind;
    /* Of a class that is not just the kind: options instead of the kind's own, and what a table
     * cannot say; runs after it. */
    const td__keras_option *options;
    size_t option_count;
    void (*adapt)(const json_t *config, const td_shape *input, td__keras_settings *settings);
};

/* An option of the class, or one that all have; NULL when it is not in the tables. */
const td__keras_option *td__keras_option_find(const td__keras_class *class, const char *key);
/* What is written for a kind; NULL: Keras has nothing like it. */
const td__keras_class *td__keras_class_of(td_layer_kind kind);
/* The settings of borders from the first one on, two of each axis; ends with NULL. */
const char *const *td__keras_sides(const char *first);

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
