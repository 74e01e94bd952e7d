/* One layer of a Keras configuration as one of ours, and back, by the table of
 * options that each kind has.
 *
 * An option that is not in the tables must be unset (null, false, 0 or empty), so that an option of a
 * later Keras is refused where it is used and ignored where it is not.
 */
#ifndef TAPEDECK_KERAS_LAYER_H
#define TAPEDECK_KERAS_LAYER_H

#include "nn/kind.h"

#include <jansson.h>

typedef struct td__keras_class td__keras_class;

/* NULL when we have nothing like it. */
const td__keras_class *td__keras_class_find(const char *name);
td__keras_storage td__keras_class_storage(const td__keras_class *keras_class);

enum {
    TD__KERAS_MAX_INNER = 32,
    TD__KERAS_MAX_SETTINGS = 32,
    TD__KERAS_MAX_NUMBERS = 64,
    TD__KERAS_REASON_SIZE = 160
};

/* Options in the form td_model_add takes; texts are borrowed from the configuration. */
typedef struct td__keras_settings {
    const char *kind;
    bool keras2; /* written by Keras 2, in which some words mean something else */
    td_setting items[TD__KERAS_MAX_SETTINGS];
    size_t count;
    double numbers[TD__KERAS_MAX_NUMBERS];
    size_t used;                           /* of numbers */
    td_setting inner[TD__KERAS_MAX_INNER]; /* of choices: initialisers */
    size_t inner_count;
    char reason[TD__KERAS_REASON_SIZE]; /* why it cannot be loaded; "" when it can */
} td__keras_settings;

/* The settings of a layer but for name, from and frozen. input: the shape of its first input (of one
 * example), or NULL while it is not known, when what depends on it is not checked. keras2: written
 * by Keras 2, in which some words mean something else. */
void td__keras_layer_read(const td__keras_class *class, const json_t *config, const td_shape *input,
                          bool keras2, td__keras_settings *settings);
void td__keras_settings_add(td__keras_settings *settings, const char *key, td_value value);

/* The configuration of one of our layers, but for its name, and the name of its class. NULL, with a
 * reason, when Keras has no such layer or memory is exhausted. */
json_t *td__keras_layer_write(const td_layer_info *layer, const char **class_name,
                              td__keras_storage *storage, char reason[TD__KERAS_REASON_SIZE]);

/* Keras's name of a class in file paths: "MaxPooling2D" is "max_pooling2d". Cut to fit. */
enum { TD__KERAS_SNAKE_SIZE = 128 };
void td__keras_snake(const char *class_name, char snake[TD__KERAS_SNAKE_SIZE]);

#endif
