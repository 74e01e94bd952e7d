#ifndef TAPEDECK_TRAIN_NORMS_H
#define TAPEDECK_TRAIN_NORMS_H

#include "tapedeck/deck.h"
#include "tapedeck/train.h"

typedef struct td__norms td__norms;

/* NULL when memory is exhausted. */
td__norms *td__norms_create(void);
void td__norms_destroy(td__norms *norms); /* accepts NULL; after the deck is closed */
/* td_deck_open_with, and norms takes part; it outlives the deck. */
td_deck *td__norms_open_deck(td__norms *norms, const char *folder, const td_deck_options *options,
                             td_error *error);
/* The first error of a sink that the deck has met, or NULL; accepts NULL. From the training thread. */
const char *td__norms_problem(const td__norms *norms);
/* In the order of the model's layers. After the deck is closed; valid until the next call. */
size_t td__norms_histories(td__norms *norms, const td_model *model,
                           const td_norm_history **histories);

#endif
