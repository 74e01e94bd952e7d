/* A signal: its name, which tracks want it, and the latest values that conditions read. */
#ifndef TAPEDECK_DECK_SIGNAL_H
#define TAPEDECK_DECK_SIGNAL_H

#include "tapedeck/deck.h"

#include <stdatomic.h>

/* Sets of tracks. */
enum { TD__TRACK_WORDS = 4, TD__TRACKS = 64 * TD__TRACK_WORDS };

typedef struct td__form_set td__form_set;
typedef struct td__derivation td__derivation;

/* One block with its texts behind it. Never changed once it is seen. */
typedef struct td__known {
    td_signal_info info;
    struct td__known *before; /* what was known earlier: a sink may be looking at it */
} td__known;

struct td_signal {
    td_deck *deck; /* borrowed */
    char *name;    /* owned */
    uint64_t hash;
    int32_t index;

    /* Written under the deck's lock, read without it (relaxed: a track added meanwhile counts from
     * the next step on). */
    _Atomic uint64_t tracks[TD__TRACK_WORDS]; /* that want to write it */
    _Atomic uint64_t probes[TD__TRACK_WORDS]; /* whose condition reads its statistics */
    _Atomic uint64_t uses[TD__TRACK_WORDS];   /* that have to do with it or with what is derived
                                               * from it */
    atomic_bool used;                         /* some track or condition has to do with it */
    atomic_bool scalar;                       /* it has had one: nothing is to be found out */
    atomic_bool batched;                      /* its rows are the batch's examples */

    /* Written under the deck's lock; release on store, acquire on load: what it points to is
     * complete. */
    _Atomic(const td__known *) known; /* never NULL in a deck; owned */
    bool declared;                    /* not just guessed; the deck's lock */
    bool refused;                     /* a note says why it is not recorded; the deck's lock */

    /* What is computed of its tensors (derived.c): a list, of which links are set once, under the deck's
     * lock (release on store, acquire on load). */
    _Atomic(td_signal *) derived;
    td_signal *next_derived;
    td_signal *source;                /* what it is derived from, once it is in that list */
    const td__derivation *derivation; /* of what is derived; or NULL */

    /* The deck's lock. A serial number counts steps as they are opened; 0: never. */
    double value; /* latest scalar */
    uint64_t value_serial;
    int64_t value_epoch;   /* number of the epoch, counted by the deck, it was recorded in */
    double epoch_value;    /* what epoch schedules get … */
    uint64_t epoch_serial; /* … in the step with this number */
    td_stats stats;        /* latest statistics */
    uint64_t stats_serial;
    uint64_t tensor_serial;       /* step in which a tensor of it was last staged */
    uint32_t scalar_sinks;        /* which get its scalars for certain, as bits */
    bool scalar_unsure;           /* some track has yet to decide on its scalars */
    uint64_t scalar_sinks_of;     /* the deck's due_version for which these are so */
    const td__form_set *form_set; /* what is wanted of it packed; or NULL */
    uint64_t form_set_of;         /* the deck's due_version for which that is so */
};

/* Whether it is recorded only where its last word is named. Not one of a run that is read. */
static inline bool td__signal_is_derived(const td_signal *signal) {
    const td__known *known = atomic_load_explicit(&signal->known, memory_order_acquire);
    return known && known->info.kind == TD_SIGNAL_DERIVED;
}
/* What the record's signal is: as declared with it, or as guessed from its name. */
td_signal_kind td__record_kind(const td_record *record);

#endif
