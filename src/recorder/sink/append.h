/* Files that only grow, by whole records, and are valid at every instant.
 *
 * A sink gathers its records in memory and hands them to the system in large pieces, each ending
 * with a whole record. What could not be written (disk full, folder gone) is cut off the file
 * again, stays in memory, and is tried at the next occasion. A file exists from its first byte on
 * with its header: it is published, not created empty.
 *
 * Invariants: the file holds `end` bytes of whole records (more only while `torn`); the buffer
 * holds what comes after them, its first `whole` bytes being whole records.
 */
#ifndef TAPEDECK_SINK_APPEND_H
#define TAPEDECK_SINK_APPEND_H

#include "tapedeck/deck.h"

typedef struct td__append td__append;

/* The growing files of one sink, in one folder. */
typedef struct td__append_set {
    int folder;
    td__append *files;   /* owned */
    size_t buffered;     /* bytes in all buffers */
    bool resumed;        /* the run goes on: files of an earlier session are adopted */
    bool created;        /* files whose names are not yet safe on disk */
    bool network;        /* on a file system where other machines may see writes in another order */
    bool failing;        /* the last attempt to write failed */
    double committed_at; /* seconds; the last attempt */
    void *stack;         /* of the process that writes lines, see append.c */
    int64_t *held;       /* records that are in no file yet, see td_sink_options */
    int64_t own_count;   /* where that is counted when nobody asks */
    void (*report)(void *listener, const td_error *problem); /* see there, too */
    void *listener;
} td__append_set;

typedef enum td__append_kind {
    TD__APPEND_FRAMED, /* readers recognise a record that is not all there */
    TD__APPEND_LINES,  /* readers would take half a line for a line */
} td__append_kind;

struct td__append {
    td__append_set *set;
    td__append *next;
    char *name;
    td__append_kind kind;
    int64_t end;
    char *buffer;
    size_t used, whole, capacity;
    int64_t record;  /* where the record that is being written begins, from the file's start */
    int64_t records; /* whole ones that the file does not show yet */
    int64_t part;    /* not 0: where the record begins of which the file has the first rows only */
    bool torn;       /* the file may be longer than end */
    bool dirty;      /* written since the last sync */
    bool stale;      /* the header is to be written again */
    /* Optional: fills in the header for `end`, at most TD__HEADER_SIZE bytes, and returns its size.
     * It is rewritten in place after the bytes that it describes. */
    size_t (*header)(const td__append *file, char *out);
    void *owner; /* whatever the header function needs */
};
#define TD__HEADER_SIZE 512
/* A buffer this full is handed to the system. */
#define TD__APPEND_PIECE (256 << 10)

/* For a sink's options. resumed: files of an earlier session may be adopted. */
TD_NODISCARD td_status td__append_set_open(td__append_set *set, const td_sink_options *options,
                                           bool resumed, td_error *error);
/* In another folder than that of the options, which the set closes, also on failure. */
TD_NODISCARD td_status td__append_set_open_in(td__append_set *set, int folder,
                                              const td_sink_options *options, bool resumed,
                                              td_error *error);
void td__append_report(const td__append_set *set, const td_error *problem);
/* Syncs and frees everything, whatever it returns. */
td_status td__append_set_close(td__append_set *set, td_error *error);
/* Hands everything to the system if that was last done a moment ago, so that a run can be read
 * while it is written. */
td_status td__append_set_tick(td__append_set *set, td_error *error);
/* Once it returns TD_OK everything so far is on disk. */
td_status td__append_set_sync(td__append_set *set, td_error *error);

/* A new file that begins with these bytes; TD_EXISTS when there is one of that name. The set owns
 * it. */
TD_NODISCARD td_status td__append_create(td__append_set *set, const char *name,
                                         td__append_kind kind, const void *header, size_t size,
                                         td__append **file, td_error *error);
/* A file that an earlier session of the run wrote, if it begins with these bytes; TD_EXISTS when it
 * does not or is in the set already, TD_NOT_FOUND when there is none. */
TD_NODISCARD td_status td__append_adopt(td__append_set *set, const char *name, td__append_kind kind,
                                        const void *header, size_t size, td__append **file,
                                        td_error *error);
/* Creates, or when the run goes on adopts. */
TD_NODISCARD td_status td__append_open(td__append_set *set, const char *name, td__append_kind kind,
                                       const void *header, size_t size, td__append **file,
                                       td_error *error);
/* Replaces the whole file in one instant; what is in the buffer then follows it. */
TD_NODISCARD td_status td__append_replace(td__append *file, const void *data, size_t size,
                                          td_error *error);

/* The set has nothing to do with the file any more; what is in its buffer is lost. */
void td__append_forget(td__append *file);

/* A record is written between begin and end, or taken back by cancel. */
void td__append_begin(td__append *file);
/* Room for size more bytes, NULL when memory is exhausted. The function below then takes the number of bytes used. */
char *td__append_room(td__append *file, size_t size);
void td__append_advance(td__append *file, size_t size);
/* What was written so far may be handed to the system: a row of a long record ends here. */
td_status td__append_row(td__append *file, td_error *error);
/* Large data, past the buffer. */
td_status td__append_through(td__append *file, const void *data, size_t size, td_error *error);
/* Cancels by itself when it fails: when the file cannot be written and its buffer is full.
 * records: how many of the sink's are in the file with it. */
td_status td__append_end(td__append *file, int64_t records, td_error *error);
void td__append_cancel(td__append *file);

/* begin, bytes, end. */
td_status td__append_bytes(td__append *file, const void *data, size_t size, int64_t records,
                           td_error *error);
/* Hands what is whole to the system. */
td_status td__append_commit(td__append *file, td_error *error);

#endif
