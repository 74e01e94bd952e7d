/* Messages between processes: what MPI does for a group. A plugin has it, and tests have one of their own. */
#ifndef TAPEDECK_GROUP_TRANSPORT_H
#define TAPEDECK_GROUP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TD__TRANSPORT_VERSION = 1,
    TD__ANY_RANK = -1,
    TD__HOST_SIZE = 256,
    TD__MOST_MESSAGE = 1 << 26
};

/* Calls come from one thread at a time. Messages of one sender with one tag arrive in order; none is larger than
 * TD__MOST_MESSAGE. */
typedef struct td__transport {
    int version; /* TD__TRANSPORT_VERSION */
    /* False on failure, with a sentence. */
    bool (*open)(void *context, int *rank, int *size, char host[TD__HOST_SIZE], char *problem,
                 size_t problem_size);
    /* Begins a message; memory stays with the transport until test() returns something other than 0. NULL on
     * failure. from may be TD__ANY_RANK. */
    void *(*send)(void *context, const void *data, size_t size, int to, int tag);
    void *(*receive)(void *context, void *data, size_t size, int from, int tag);
    /* 1: it is done and gone; 0: not yet; -1: it failed and is gone. */
    int (*test)(void *context, void *message);
    /* Ends a message that was begun by receive() and is not done. */
    void (*cancel)(void *context, void *message);
    /* Every process calls it; not after one was lost. */
    void (*close)(void *context);
    void *context;
} td__transport;

#endif
