/* What a pass can record, by name: known before there is a deck, so that what is asked for can
 * be checked; then each with the deck's handle. */
#ifndef TAPEDECK_PASS_SIGNALS_H
#define TAPEDECK_PASS_SIGNALS_H

#include "pass/objective.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/nn.h"

/* When in a step a number is known. */
typedef enum td__phase { TD__PHASE_LOSS, TD__PHASE_UPDATE, TD__PHASE_AFTER } td__phase;

/* What something derived is of; entries of other kinds say so by their kind. */
typedef enum td__derived_of {
    TD__OF_NOTHING,
    TD__OF_LOSS,
    TD__OF_LAYER,
    TD__OF_PARAMETER,
    TD__OF_MODEL
} td__derived_of;

typedef struct td__signal_entry {
    char *name; /* the signals' */
    td_signal_kind kind;
    size_t index;     /* of the layer or parameter */
    int64_t elements; /* of one record, or of one example where it is batched; 0: one number */
    bool batched;     /* its rows are examples */
    bool epochs_only; /* has a value at the end of an epoch: val_… */
    td_better better; /* of a metric; 0: what its name says */
    size_t order;     /* of the layer that a metric is about, from 1; 0: of none */
    td__phase phase;  /* of a metric */
    td__derived_of subject; /* TD_SIGNAL_DERIVED: what index is of … */
    uint8_t which;          /* … and the number of the derived signal among those of such */
    bool channels_first;    /* as td_signal_info's */
    td_signal *signal;      /* the deck's; NULL before td__pass_signals_connect */
} td__signal_entry;

/* Takes what a pass records in the deck's place. */
typedef struct td__signal_tap {
    bool (*wants)(void *user, size_t entry);
    /* The view is released by the tap. */
    void (*record)(void *user, size_t entry, td_view view);
    void (*labels)(void *user, const td_batch *batch); /* as td_deck_batch_labels */
    void *user;
} td__signal_tap;

typedef struct td__pass_signals {
    td__signal_entry *entries;
    size_t count, capacity;
    const td_model *model; /* borrowed */
    /* Entries of what is derived: those of layers, those of parameters. */
    size_t of_layers, of_layers_end, of_parameters, of_parameters_end;

    /* Once connected: entries, by what they are of. What is not listed is NULL. */
    td_deck *deck; /* borrowed; NULL: another process records */
    td__signal_entry *input, *label, *prediction, *loss_rows;
    td__signal_entry **outputs, **preactivations, **errors; /* by layer */
    td__signal_entry **parameters, **gradients, **updates;  /* by parameter */
    td_signal_info scores;     /* what predictions are; its texts are borrowed */
    const td__signal_tap *tap; /* borrowed; NULL: the deck takes what is recorded */

    /* Called with each layer's output; may be NULL. */
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
/* Looks them all up in the deck, which learns what each is. Without a deck they are known by what they are of,
 * and nothing is recorded but by a tap. */
TD_NODISCARD td_status td__pass_signals_connect(td__pass_signals *signals, td_deck *deck,
                                                td_error *error);
/* Whether an entry, which may be NULL, is to be recorded in this step. */
bool td__pass_signals_want(const td__pass_signals *signals, const td__signal_entry *entry);
void td__pass_signals_record(const td__pass_signals *signals, const td__signal_entry *entry,
                             td_view view);
/* Which examples the rows of batched tensors are. */
void td__pass_signals_label(const td__pass_signals *signals, const td_batch *batch);
void td__pass_signals_release(td__pass_signals *signals);

/* Whether a name or glob means one of them. */
bool td__pass_signals_match(const td__pass_signals *signals, const char *pattern);
/* The name that was most likely meant, or NULL. */
const char *td__pass_signals_nearest(const td__pass_signals *signals, const char *name);

#endif
