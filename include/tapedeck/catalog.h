/* Catalogs: which layers, losses, metrics, … there are and which options they have, for lists. */
#ifndef TAPEDECK_CATALOG_H
#define TAPEDECK_CATALOG_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_catalog {
    TD_CATALOG_LAYERS,
    TD_CATALOG_LOSSES,
    TD_CATALOG_METRICS,
    TD_CATALOG_OPTIMIZERS,
    TD_CATALOG_SCHEDULES,
    TD_CATALOG_INITIALIZERS,
    TD_CATALOG_ACTIVATIONS,
    TD_CATALOG_COUNT
} td_catalog;

/* Names of others are NULL where they have nothing like it. All texts are static. */
typedef struct td_catalog_entry {
    const char *name;          /* "conv2d" */
    const char *keras, *torch; /* "Conv2D", "nn.Conv2d" */
    size_t option_count;
} td_catalog_entry;

typedef struct td_catalog_option {
    const char *key;          /* "kernel" */
    const char *other;        /* another key that is understood, mostly Keras's; or NULL */
    const char *type;         /* "whole number", "number", "true or false", … */
    const char *const *words; /* that it may be; NULL: it is no word. word_count, some NULL */
    size_t word_count;
    bool required;       /* it has no default */
    char by_default[40]; /* the default: "1", "glorot_uniform", "-"; "" when required */
} td_catalog_option;

/* "layers". */
TD_API const char *td_catalog_name(td_catalog catalog);
TD_API size_t td_catalog_size(td_catalog catalog);
/* False when there is no such entry or option. */
TD_API bool td_catalog_entry_at(td_catalog catalog, size_t index, td_catalog_entry *entry);
TD_API bool td_catalog_option_at(td_catalog catalog, size_t index, size_t option,
                                 td_catalog_option *info);

#ifdef __cplusplus
}
#endif
#endif
