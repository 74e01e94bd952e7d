/* What a pass can tell a deck, by name: known before there is a deck, so that what is asked for can
 * be checked; then each with the deck's handle. */
#ifndef TAPEDECK_PASS_SIGNALS_H
#define TAPEDECK_PASS_SIGNALS_H

#include "pass/objective.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/nn.h"

/* When in a step a number is known. */
typedef enum td__phase { TD__PHASE_LOSS, TD__PHASE_UPDATE, TD__PHASE_AFTER } td__phase;

typedef struct td__signal_entry {
    char *name; /* the signals' */
    td_signal_kind kind;
    size_t index;      /* of the layer or parameter */
    int64_t elements;  /* of one record, or of one example where it is batched; 0: one number */
    bool batched;      /* its rows are examples */
    bool epochs_only;  /* has a value at the end of an epoch: val_… */
    td_better better;  /* of a metric; 0: what its name says */
    size_t order;      /* of the layer that a metric is about, from 1; 0: of none */
    td__phase phase;   /* of a metric */
    td_signal *signal; /* the deck's; NULL before td__pass_signals_connect */
} td__signal_entry;

typedef struct td__pass_signals {
    td__signal_entry *entries;
    size_t count, capacity;
    const td_model *model; /* borrowed */

    /* Once connected. Handles of what is not listed are NULL. */
    td_deck *deck; /* borrowed */
    td_signal *input, *label, *prediction;
    td_signal **outputs, **preactivations, **errors; /* by layer */
    td_signal **parameters, **gradients, **updates;  /* by parameter */
    td_signal_info scores; /* what predictions are; its texts are borrowed */

    /* Told of each layer's output; may be NULL. */
    void (*layer_done)(void *user, size_t layer, const td_tensor *output);
    void *user;
} td__pass_signals;

/* Adds PREFIX + NAME + SUFFIX; false when memory is exhausted. */
bool td__pass_signals_add(td__pass_signals *signals, const char *prefix, const char *name,
                          const char *suffix, td__signal_entry entry);
/* Adds input, label, prediction and what the model has: outputs and pre-activations; with backward,
 * errors, parameters, their gradients and updates too. Predictions are scores by this objective, of
 * the data's classes. False when memory is exhausted. */
bool td__pass_signals_add_model(td__pass_signals *signals, const td_model *model,
                                const td_data_info *info, const td__objective *objective,
                                bool backward);
/* Looks them all up in the deck, which learns what each is. */
TD_NODISCARD td_status td__pass_signals_connect(td__pass_signals *signals, td_deck *deck,
                                                td_error *error);
void td__pass_signals_release(td__pass_signals *signals);

/* Whether a name or glob means one of them. */
bool td__pass_signals_match(const td__pass_signals *signals, const char *pattern);
/* The name that was most likely meant, or NULL. */
const char *td__pass_signals_nearest(const td__pass_signals *signals, const char *name);

#endif
