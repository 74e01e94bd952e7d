/* The deck, inside.
 *
 * A record's way: td_signal_record reduces or copies the tensor into a *snapshot* and stages it.
 * td_deck_step decides which tracks qualify and *submits* each snapshot: an *entry* (the snapshot,
 * and which sink gets which forms) joins the queue. The writer thread takes entries off and hands
 * them to the sinks. A snapshot that a condition may want later waits in its track's history. Where a
 * core is to spare and the tensor's memory can be kept, the pass over it is an entry of its own, which the
 * writer gets at once.
 *
 * One mutex, td_deck.lock, guards everything unless a comment states otherwise. No sink, release
 * callback or copy of a tensor runs while it is held. Bytes are accounted before memory is taken:
 *
 *     queue_used    what will certainly be written, from its record until it is written
 *     history_used  what a condition, or the end of an epoch, has yet to decide on
 *
 * each within its limit. Records are counted, by sink and form, when they are submitted, and
 * submitted == written + dropped + pending whenever the lock is free. */
#ifndef TAPEDECK_DECK_DECK_H
#define TAPEDECK_DECK_DECK_H

#include "deck/alert.h"
#include "deck/condition.h"
#include "deck/environment.h"
#include "deck/folder.h"
#include "deck/heartbeat.h"
#include "deck/open.h"
#include "deck/request.h"
#include "deck/snapshot.h"

#include "base/random.h"

#include <pthread.h>

enum {
    TD__FORM_SETS = 64,
    TD__SMALL_TENSOR = 4096,
    TD__NAME_SLOTS = 512,
    TD__MAX_SIGNALS = 1 << 20
};

typedef struct td__track {
    char **patterns; /* globs */
    size_t pattern_count;
    int64_t every, every_epochs, start, end, sample, history;
    int64_t *at;
    size_t at_count;
    td__condition *condition; /* or NULL */
    td__alert *alert;         /* that the condition raises: such a track records nothing; or NULL */
    bool metrics;             /* scalars, texts and pictures only */
    bool off;                 /* removed by a request: never due */
    char *text;               /* as td__track_print has it; NULL: an alert */
    uint32_t form;
    td__forms forms;       /* of tensors */
    td__forms value_forms; /* of scalars, texts and pictures that the program brings along */
    uint32_t scalar_sinks; /* the same, of scalars: bits */

    bool due_step;     /* the open step is wanted by its number */
    bool due_epoch;    /* … because it was announced as the last of an epoch */
    bool due_maybe;    /* … if it turns out to be the last of an epoch */
    int64_t due_steps; /* closed steps that are its */

    bool names_known, condition_known; /* signals with these names are there: see warnings.c */

    td__kept *kept_first, *kept_last; /* history, oldest first */
    bool lost;                        /* something did not fit since the last trigger */
    int64_t lost_step;                /* the latest step of which */
} td__track;

typedef struct td__outlet {
    td_deck *deck;
    const td_sink_class *class;
    td_sink *sink; /* NULL: not open */
    bool opening;

    /* The writer thread's. */
    td_sink *live; /* sink, when the writer last took the queue */
    bool in_step;  /* got a record since its last end_step */
    bool dirty;    /* got something since its last flush */
    bool reported;
    double retry_at; /* td__seconds; 0: it works */
    double pause;
    int64_t held; /* records that the sink has taken and not yet written */

    int64_t held_counted; /* of those, what the counters have as pending; the deck's lock */
} td__outlet;

/* Keeps the deck's share of step time within a budget. */
typedef struct td__overhead {
    int32_t level;      /* 0: everything; 1: no tensors; 2: statistics only; more: not every step */
    int32_t steps;      /* of the current window */
    int32_t calm;       /* windows in a row that would have allowed a lower level */
    int32_t calm_limit; /* how many it takes; doubles when going back was a mistake */
    bool lowered;       /* the last change was to a lower level */
    uint64_t cost;      /* ticks */
    uint64_t total;
    uint64_t turn; /* counts due steps, to pick some of them */
} td__overhead;

/* What a step had staged, while td_deck_step works through it: on that thread's stack. */
typedef struct td__closing {
    struct td__closing *next;
    td__snapshot *snapshots;
    td__packed *packed;
    int64_t epoch, step;
} td__closing;

/* Scalars on their way from the thread that records them without the lock, see scalar.c. Counts of scalars that
 * only go up; the place of one is its number modulo the size. */
enum { TD__SCALARS = 64 };
typedef struct td__scalar {
    td_signal *signal;
    double value;
} td__scalar;
typedef struct td__scalars {
    bool taking; /* by a thread that may be waiting for room; the deck's lock */
    /* The thread that leaves them; 0: none yet. Written once, under the lock (relaxed: a thread finds itself
     * here only if it has written itself). */
    atomic_uintptr_t owner;
    _Atomic uint32_t left;  /* by the owner; release: the scalar is complete */
    _Atomic uint32_t taken; /* under the lock; release: its place may be written again */
    td__scalar scalars[TD__SCALARS];
} td__scalars;

struct td_deck {
    char *folder;
    int folder_lock; /* the folder, open and locked while the deck is; -1: file system without */
    td__heartbeat *heartbeat; /* NULL: the lock is enough */
    char state[16];           /* how the run ended, once it is known; the lock */
    td_policy policy;
    size_t queue_limit, history_limit;
    double overhead_limit;
    uint64_t seed;
    bool stop_on_error;
    bool index;         /* sinks that take every record get it */
    char *store;        /* the URL of a database, for the sink that sends to it; NULL: none */
    FILE *stream;       /* for sinks that print; NULL: stdout */
    int64_t resume;     /* the last step that the run's files keep; 0: a new run */
    bool core_to_spare; /* for passes over tensors by the writer */
    int32_t parts;      /* in which other passes are made, by run_parts */
    void (*run_parts)(int32_t parts, void (*part)(void *context, int32_t index), void *context);

    pthread_mutex_t lock;
    pthread_cond_t work; /* the writer waits: something to do */
    pthread_cond_t room; /* recorders wait: room in the queue, a flush done */

    /* Signals: dense by index, found by name through a hash table of indices + 1. */
    td_signal **signals;
    size_t signal_count, signal_capacity;
    uint32_t *table;
    size_t table_size; /* a power of two, at least twice the signals */
    /* The last signal whose name was at an address that falls here; compared before it is used.
     * Release on store, acquire on load: the signal is complete before it is seen. */
    _Atomic(td_signal *) names[TD__NAME_SLOTS];

    td__track *tracks[TD__TRACKS];
    int32_t track_count;
    uint64_t tracks_version; /* another when tracks were added, removed or switched on again */
    uint64_t tracks_listed;  /* the tracks_version of the note */
    td__change *changes;     /* that the end of a step makes: see request.h */
    td__outlet outlets[TD__SINKS]; /* all sinks there are; opened when a track wants them */
    int32_t outlet_count;

    /* The open step. due: which tracks may want a tensor; written under the lock, read without it
     * (relaxed: which side of a step's end a concurrent record falls on is up to its thread). */
    _Atomic uint64_t due[TD__TRACK_WORDS];
    atomic_int words;       /* of a set of tracks that are in use; written and read likewise */
    td__tracks values_due;  /* which tracks want scalars and texts */
    td__tracks values_sure; /* those of them without a condition */
    td__tracks by_steps;    /* that have steps in their schedule */
    td__tracks recorded;    /* that have handed something to the writer */
    uint64_t serial;        /* counts steps as they are opened, from 1 */
    int64_t epoch, step;
    int64_t closing_epoch, closing_step; /* that was closed last, or is being closed */
    bool announced, epoch_end;
    bool fresh;            /* nothing was recorded in it */
    int64_t epochs;        /* epochs ended */
    td__deck_batch *batch; /* or NULL */
    td__snapshot *staged_first, *staged_last;
    td__closing *closing; /* steps whose end is being worked through, by any thread */
    td__packed *packed_first, *packed_last; /* what will be written for certain, packed */
    size_t packed_before;                   /* bytes that the last step's took */
    td__tracks tensors_sure;                /* due, and will write a tensor whatever happens */
    uint64_t due_version;                   /* from 1; another when other tracks are due or sure */
    td__form_set form_sets[TD__FORM_SETS];
    int32_t form_set_count;

    /* The queue. */
    td__entry *first, *last;
    size_t queue_used, history_used;
    int32_t waiters;  /* recorders that wait for room */
    int32_t flushers; /* threads that wait for a flush */
    bool writer_waits, stopping;
    pthread_t writer;
    td__recycler recycler;

    td_deck_counters counters;
    td_error error;           /* the first since the last flush */
    td_status sink_status;    /* of the first sink error since the last flush */
    int64_t dropped_reported; /* drops that events have reported */
    int64_t degraded_reported;
    double reported_at; /* td__seconds of the last such event */

    /* Cost, in ticks; seconds per tick from the deck's own life. */
    uint64_t cost, waited, writer_cost;
    uint64_t scalar_count, smalls; /* counted, to time some of them */
    uint64_t opened_ticks, step_ticks, first_step_ticks, cost_at_step;
    double opened_seconds;
    td__overhead budget;

    /* The writer thread's. */
    double system_seconds; /* between two samples; negative: none */
    td__system system;
    td__git_diff diff;
    bool request_read; /* the file is there still */

    td__alerts alerts;

    td__scalars scalars;
};

/* ---- deck.c --------------------------------------------------------------------------------- */

/* Whether the track (by its number, from 0) has recorded anything yet. */
bool td__deck_recorded(td_deck *deck, int32_t track);
void td__deck_lock(td_deck *deck);
/* The lock, and everything that was recorded before the call has its place. For all that records or changes what
 * is wanted. May wait for room. */
void td__deck_enter(td_deck *deck);
/* Also notifies the owners of borrowed memory that is no longer needed. */
void td__deck_unlock(td_deck *deck);
/* All functions below are called with the lock held unless their comment states otherwise. */
/* Keeps the first error for flush and close; returns status. */
td_status td__deck_fail(td_deck *deck, td_status status, const char *format, ...) TD_PRINTF(3, 4);
/* For an argument of a public function that is NULL: TD_INVALID, kept as the deck's error where there
 * is a deck. Takes the lock. */
td_status td__deck_refuse(td_deck *deck, const char *what);
/* Why td_deck_signal returned NULL. */
static inline td_status td__no_signal(const td_deck *deck, const char *name) {
    return deck && name ? TD_MEMORY : TD_INVALID;
}
double td__deck_seconds(const td_deck *deck, uint64_t ticks);
void td__deck_event(td_deck *deck, td_event_kind kind, const td_signal *signal, int64_t count,
                    const char *format, ...) TD_PRINTF(5, 6);
/* Reports dropped and degraded records; at most once a second unless the deck is being closed. */
void td__deck_report_losses(td_deck *deck, bool closing);
/* td_deck_note; waits for room. */
td_status td__deck_note(td_deck *deck, const char *key, const char *value);
/* A message with two strings. Waits for room if asked to. False when there is none. */
bool td__deck_message(td_deck *deck, td__message *message, const char *first, const char *second,
                      bool wait);

/* Opens a sink, with the lock free meanwhile; TD_OK when it is open already. */
td_status td__outlet_open(td_deck *deck, int32_t outlet, td_error *error);

/* ---- signal.c ------------------------------------------------------------------------------- */

/* td_deck_signal; info: what a signal is that is not there yet; NULL: guessed. Takes the lock. */
td_signal *td__deck_signal(td_deck *deck, const char *name, const td_signal_info *info);
/* Of that name, made if need be; NULL when memory is exhausted. */
td_signal *td__signal_derive(td_deck *deck, const char *name, const td_signal_info *info,
                             const td__derivation *derivation);
/* Registers the track with the signal, and the signal with the track's condition. */
td_status td__signal_meet(td_signal *signal, int32_t track);
/* Those of the signal's tracks (or tracks whose conditions read it) that are due. */
bool td__signal_due(const td_signal *signal, td__tracks tracks, td__tracks probes);
void td__signals_release(td_deck *deck);

static inline bool td__tracks_any(const td__tracks tracks) {
    return (tracks[0] | tracks[1] | tracks[2] | tracks[3]) != 0;
}
static inline bool td__tracks_has(const td__tracks tracks, int32_t track) {
    return (tracks[track / 64] >> (track % 64)) & 1;
}
/* The first track of the set from that one on; -1: there is none. */
static inline int32_t td__tracks_next(const td__tracks tracks, int32_t from) {
    for (int32_t w = from / 64; w < TD__TRACK_WORDS; w++, from = 64 * w) {
        uint64_t rest = tracks[w] >> (from % 64);
        if (rest) {
            return from + __builtin_ctzll(rest);
        }
    }
    return -1;
}
static inline void td__tracks_add(td__tracks tracks, const td__tracks more) {
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        tracks[w] |= more[w];
    }
}
static inline void td__tracks_put(td__tracks tracks, int32_t track, bool in) {
    uint64_t bit = (uint64_t)1 << (track % 64);
    tracks[track / 64] = in ? tracks[track / 64] | bit : tracks[track / 64] & ~bit;
}

/* ---- info.c --------------------------------------------------------------------------------- */

/* Keeps a copy of info, or guesses it from the name when info is NULL; false when memory is
 * exhausted. */
bool td__signal_know(td_signal *signal, const char *name, const td_signal_info *info);
/* Sets the kind of a signal that was not declared and whose name gives none. */
void td__signal_found_to_be(td_signal *signal, td_signal_kind kind);
void td__signal_forget(td_signal *signal);

/* ---- derived.c ------------------------------------------------------------------------------ */

/* Makes what the track, or its condition, wants to be derived from the signal. False when memory is
 * exhausted. */
bool td__derived_meet(td_signal *signal, td__track *track);
/* Whether something derived from the signal is due. Without the lock. */
bool td__derived_due(const td_signal *signal);
/* Records what is derived from the tensor and due. Takes the lock. */
void td__derived_record(td_signal *signal, const td_view *view);

/* ---- track.c -------------------------------------------------------------------------------- */

/* Works out what is due in the step that is open now. */
void td__tracks_open_step(td_deck *deck);
/* Whether the step that is being closed is one of the track's, apart from its condition. */
bool td__track_scheduled(const td__track *track, int64_t epoch, int64_t step, bool epoch_end);
/* Adds the condition of an alert. */
td_status td__track_alert(td_deck *deck, const char *when, td__alert *alert, td_error *error);
void td__track_destroy(td__track *track);
/* Checks a track, copies it and opens its sinks, with the lock free meanwhile; *made is the caller's until it is
 * installed. */
td_status td__track_prepare(td_deck *deck, const td_track *given, td__track **made,
                            bool chosen[TD__SINKS], td_error *error);
/* From here on the track is the deck's, of which there are fewer than TD__TRACKS. May wait for room. */
td_status td__track_install(td_deck *deck, td__track *track, const bool chosen[TD__SINKS]);
/* Off: it is not due any more, and what its condition kept goes. */
void td__track_switch(td_deck *deck, int32_t index, bool on);
/* The texts of all tracks that are on, a line each; td__free. NULL when memory is exhausted. */
char *td__tracks_list(const td_deck *deck);

/* ---- queue.c -------------------------------------------------------------------------------- */

/* Takes bytes of the queue's limit, waiting for them if asked to. False: there are none, or never
 * will be (more than the limit). */
bool td__queue_acquire(td_deck *deck, size_t bytes, bool wait);
/* Returns true when a record that does not wait gets that many bytes. Some room is reserved for
 * records that wait: under every policy these are the scalars. */
bool td__queue_fits(const td_deck *deck, size_t bytes);
/* Whether something recorded as kind waits for room: by the deck's policy, and scalars always. */
bool td__queue_waits(const td_deck *deck, uint32_t kind);
/* Bytes that were acquired and are not used after all. */
void td__queue_give_back(td_deck *deck, size_t bytes);
void td__queue_push(td_deck *deck, td__entry *entry);
/* Wakes the writer when it sleeps. */
void td__queue_wake(td_deck *deck);
/* Sets the step of a snapshot unless it is set. */
void td__snapshot_label(td__snapshot *snapshot, int64_t epoch, int64_t step, double wall_time);
/* Appends to the snapshots that wait for the end of the step; submits it at once when a thread waits
 * for room. */
void td__stage(td_deck *deck, td__snapshot *snapshot);
/* Releases a snapshot that was staged. */
void td__unstage(td_deck *deck, td__snapshot *snapshot);
/* Which sinks get which forms of something recorded as kind (TD_TENSOR, single: of one element;
 * TD_SCALAR, TD_TEXT), for these tracks. Returns the number of records that makes. */
int64_t td__forms_of(const td_deck *deck, uint32_t kind, bool single, const td__tracks tracks,
                     td__forms forms);
/* Hands a snapshot to the writer for these tracks; counts what it drops. May wait. */
void td__submit(td_deck *deck, td__snapshot *snapshot, const td__tracks tracks, bool history);
/* Counts records that were never made into a snapshot. */
void td__count_dropped(td_deck *deck, int64_t records);

/* ---- record.c ------------------------------------------------------------------------------- */

/* Makes a snapshot of the value, or of the bytes of a text (with its 0) or a picture, for these
 * tracks. */
void td__record_value(td_signal *signal, uint32_t kind, const td__tracks tracks, double value,
                      const void *bytes, size_t size);

/* Those of the signal's tracks that want scalars and texts in the open step. */
void td__values_due(const td_signal *signal, td__tracks tracks);

/* ---- scalar.c ------------------------------------------------------------------------------- */

/* Takes the scalars that were left without the lock, which is held now. */
void td__scalars_take(td_deck *deck);

/* ---- packed.c ------------------------------------------------------------------------------- */

/* The sinks, as bits, that scalars of these tracks go to. */
uint32_t td__scalar_sinks(const td_deck *deck, const td__tracks tracks);
/* Keeps a scalar for these sinks, all of them sure. */
void td__pack_scalar(td_deck *deck, td_signal *signal, uint32_t sinks, double value);
/* Keeps a small tensor of which the due tracks want the elements and nothing else. False when it is
 * not such a one, or there is no room: it is to be staged then. */
bool td__pack_tensor(td_deck *deck, td_signal *signal, const td_view *view, size_t bytes);
/* Hands blocks of that step, a list, to the writer. */
void td__packed_send(td_deck *deck, td__packed *first, int64_t epoch, int64_t step,
                     double wall_time);
/* Takes the open step's blocks from the deck. */
td__packed *td__packed_take(td_deck *deck);

/* ---- history.c ------------------------------------------------------------------------------ */

/* Whether the track's wish for the open step still depends on something. */
bool td__track_undecided(const td__track *track);
/* Takes bytes of the history's limit, putting the oldest out if need be. */
bool td__history_acquire(td_deck *deck, size_t bytes);
/* One reason less to hold the snapshot's bytes. */
void td__history_release(td_deck *deck, td__snapshot *snapshot);
/* Keeps a snapshot (which holds its bytes) for the track; false when memory is exhausted. */
bool td__history_keep(td_deck *deck, td__track *track, td__snapshot *snapshot);
/* Puts out what is older than the track's history reaches. */
void td__history_trim(td_deck *deck, td__track *track, int64_t step);
/* Submits all snapshots that are kept, oldest first, and reports those that no longer fitted. */
void td__history_submit(td_deck *deck, int32_t track, int64_t step);
void td__history_clear(td_deck *deck, td__track *track);
/* Counts a snapshot that these tracks wanted to keep and could not. */
void td__history_lost(td_deck *deck, const td__tracks tracks, int64_t step);

/* ---- overhead.c ----------------------------------------------------------------------------- */

/* One step has cost that much of that much (ticks). */
void td__overhead_step(td_deck *deck, uint64_t cost, uint64_t total);
/* Whether tensors are left out in the step that opens. */
bool td__overhead_skips(td_deck *deck);

/* ---- writer.c ------------------------------------------------------------------------------- */

/* The thread. */
void *td__writer_run(void *deck);

/* Notes of the run: the step that was closed last, recorded or not. */
#define TD__NOTE_STEP "deck.step"
#define TD__NOTE_EPOCH "deck.epoch"
/* The tracks, a line each, as they are now. */
#define TD__NOTE_TRACKS "deck.tracks"

#endif
