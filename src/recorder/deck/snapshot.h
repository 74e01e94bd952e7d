/* Snapshots: what was kept of a signal at a step; and entries: what is on its way to the sinks.
 * Everything is reference-counted or owned by one list, recycled, and guarded by the deck's lock.
 */
#ifndef TAPEDECK_DECK_SNAPSHOT_H
#define TAPEDECK_DECK_SNAPSHOT_H

#include "deck/pool.h"
#include "deck/signal.h"

enum { TD__SINKS = 16 };

/* Forms that need the elements themselves. */
#define TD__DATA_FORMS ((uint32_t)(TD_TENSOR | TD_ROWS | TD_LONG | TD_IMAGE | TD_BATCH | TD_UNITS))

typedef uint64_t td__tracks[TD__TRACK_WORDS]; /* a set of tracks */
typedef uint16_t td__forms[TD__SINKS];        /* td_form bits for each sink */

/* The rows of the data set that a step is about, in one pooled block. */
typedef struct td__deck_batch {
    int32_t references;
    size_t size; /* of the block */
    int64_t count;
    int64_t *rows;
    td_view labels; /* data == NULL: none */
} td__deck_batch;

typedef enum td__entry_kind {
    TD__ENTRY_RECORD, /* part of a td__snapshot, or a td__ticket */
    TD__ENTRY_SUM_UP, /* part of a td__snapshot: a td__summing */
    TD__ENTRY_PACKED, /* part of a td__packed */
    TD__ENTRY_EXPECT, /* these are td__message */
    TD__ENTRY_EVENT,
    TD__ENTRY_NOTE,
    TD__ENTRY_ALERT,
    TD__ENTRY_FLUSH, /* part of a td__flush */
} td__entry_kind;

typedef struct td__snapshot td__snapshot;

/* What the writer takes off the queue: the first member of something larger. */
typedef struct td__entry {
    struct td__entry *next;
    td__entry_kind kind;
    bool ends_step;     /* the last of its step */
    size_t bytes;       /* of the queue's, to be given back when it is done */
    int64_t deliveries; /* records that it stands for, over all sinks */
} td__entry;

/* A snapshot on its way. */
typedef struct td__ticket {
    td__entry entry;
    td__snapshot *snapshot; /* referenced */
    td__forms forms;
    uint32_t replaced; /* of the forms, those that stand for a larger one that did not fit */
    bool history;
    bool own; /* part of the snapshot */
} td__ticket;

/* A snapshot whose pass is deferred: the writer makes it as soon as it can, while the step continues. It
 * is in the queue before every ticket of that snapshot. */
typedef struct td__summing {
    td__entry entry;
    td__snapshot *snapshot; /* referenced */
} td__summing;

/* Which sinks get which forms of a tensor, for a set of tracks. */
struct td__form_set {
    td__tracks tracks;
    td__forms forms;
    int64_t deliveries; /* 0: not only its elements are wanted */
};

/* Scalars and small tensors of one step, one after another in a pooled block: a training loop may
 * record many, and each costs it a few words. */
typedef struct td__packed {
    td__entry entry;
    int64_t epoch, step;
    double wall_time;
    td__deck_batch *batch; /* that its batched tensors are of; referenced, or NULL */
    size_t size;           /* of this block */
    size_t used;           /* of its items */
    char *ahead;   /* the block that is used next, supposedly, or NULL: see td__pack_tensor */
    bool detached; /* its step was closed before it was filled */
    _Alignas(8) char items[];
} td__packed;

typedef struct td__item {
    td_signal *signal;
    uint32_t bytes; /* to the next item */
    uint32_t sinks; /* of a scalar: which get it; 0: this is the first part of a td__tensor_item */
    union {
        double value;            /* of a scalar */
        const td__form_set *set; /* of a tensor */
    };
} td__item;

typedef struct td__tensor_item {
    td__item item;
    td_dtype dtype;
    int16_t rank;
    bool batched;
    int64_t dims[]; /* then the elements */
} td__tensor_item;

/* Two strings for the sinks, one after the other in one pooled block. */
typedef struct td__message {
    td__entry entry;
    char *text;
    size_t text_size;
    int32_t sink;    /* EXPECT; ALERT: which */
    uint32_t expect; /* EXPECT */
    td_event event;  /* EVENT, ALERT */
} td__message;

/* On the stack of a thread that waits. */
typedef struct td__flush {
    td__entry entry;
    bool done;
    td_error error;
} td__flush;

struct td__snapshot {
    td__snapshot *next; /* staged or free */
    int32_t references;
    td_signal *signal;
    int64_t epoch, step;
    double wall_time;
    uint32_t kind;   /* TD_TENSOR, TD_SCALAR or TD_TEXT: what was recorded */
    uint32_t has;    /* the forms that it can be written in */
    uint32_t wanted; /* the form that did not fit, when it was reduced; otherwise 0 */
    bool single;     /* a tensor of one element */

    td__tracks tracks;    /* staged: those that may want it */
    td__tracks sure;      /* of those, the ones that do whatever the step turns out to be */
    size_t bytes;         /* that it takes */
    bool waited_for;      /* a recorder waits until it is written: accounted by nobody */
    size_t queue_bytes;   /* part of the deck's queue_used, until an entry takes it over */
    size_t history_bytes; /* part of the deck's history_used */
    int32_t holds;        /* reasons for history_bytes; the last one gone gives them back */
    bool delivered;       /* set by the writer, for a recorder that waits for it */
    td__forms sent;       /* what sinks have got of it, or will: a step has no record twice */
    bool deferred;        /* the writer computes hash, stats and histogram, from its td__summing */

    double value;
    uint64_t hash;
    td_stats stats;
    td_histogram histogram;
    size_t bins_size; /* of the pooled block at histogram.bins */
    td_view view;
    size_t data_size; /* of the pooled block at view.data; 0: not pooled */
    char *text;
    size_t text_size, text_length;
    td__deck_batch *batch;
    int64_t number;    /* while its deck's state is saved */
    td__ticket ticket; /* the first; more are taken from the deck */
    bool ticket_used;
    td__summing summing; /* when the pass is deferred */
};

/* A snapshot in a track's history. */
typedef struct td__kept {
    struct td__kept *next;
    td__snapshot *snapshot;
} td__kept;

/* Where recycled ones wait. */
typedef struct td__recycler {
    td__deck_pool pool;
    td__snapshot *snapshots;
    td__ticket *tickets;
    td__message *messages;
    td__kept *kept;
    td__snapshot *borrowed; /* no longer used; the owner of their memory is yet to be notified */
} td__recycler;

/* One reference. NULL when memory is exhausted, as below. */
td__snapshot *td__snapshot_create(td__recycler *recycler, td_signal *signal, uint32_t kind);
/* Drops a reference. After the last one it is recycled, or put on the list of the borrowed. */
void td__snapshot_unref(td__recycler *recycler, td__snapshot *snapshot);
/* Computes the hash, statistics and histogram that a deferred snapshot needs, and releases the tensor's
 * memory unless its elements are to be written too. The caller does not hold the lock. */
void td__snapshot_sum_up(td__snapshot *snapshot);
/* Notifies the owners of borrowed memory (the caller does not hold the lock), then recycles the
 * snapshots (the caller holds it). */
void td__borrowed_notify(const td__snapshot *borrowed);
void td__borrowed_recycle(td__recycler *recycler, td__snapshot *borrowed);

td__ticket *td__ticket_create(td__recycler *recycler);
td__message *td__message_create(td__recycler *recycler, td__entry_kind kind);
/* A block of that size, which td__deck_pool_size has made. */
td__packed *td__packed_create(td__recycler *recycler, size_t size);
/* Recycles what the entry is part of, and drops its snapshot's reference. */
void td__entry_release(td__recycler *recycler, td__entry *entry);

/* Copies rows and labels (may be NULL). One reference. */
td__deck_batch *td__deck_batch_create(td__recycler *recycler, const int64_t *rows, int64_t count,
                                      const td_view *labels);
void td__deck_batch_unref(td__recycler *recycler, td__deck_batch *batch); /* accepts NULL */

td__kept *td__kept_create(td__recycler *recycler, td__snapshot *snapshot);
void td__kept_release(td__recycler *recycler, td__kept *kept); /* the snapshot stays referenced */

void td__recycler_release(td__recycler *recycler);

#endif
