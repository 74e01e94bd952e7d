/* Settings: options as keys and values, as experiment files and saved models have them. */
#ifndef TAPEDECK_SETTINGS_H
#define TAPEDECK_SETTINGS_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_value_kind {
    TD_VALUE_NUMBER,
    TD_VALUE_TEXT,
    TD_VALUE_BOOL,
    TD_VALUE_NUMBERS, /* a list, also of one or none */
    TD_VALUE_TEXTS,
    TD_VALUE_CHOICE /* a name with settings of its own: {random_normal: {stddev: 0.1}} */
} td_value_kind;

struct td_setting;

/* All pointers are borrowed. */
typedef struct td_value {
    td_value_kind kind;
    bool boolean;
    double number;
    const char *text; /* also a choice's name; of numbers and bools: as written, or NULL */
    const double *numbers;
    const char *const *texts;
    size_t count;                      /* of numbers, texts or settings */
    const struct td_setting *settings; /* of a choice */
} td_value;

/* One option of a layer, loss, optimizer or schedule as an experiment file has it: `filters: 32`. */
typedef struct td_setting {
    const char *key;
    td_value value;
} td_setting;

#ifdef __cplusplus
}
#endif
#endif
