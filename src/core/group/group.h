/* A group, inside.
 *
 *     group.c     opening and closing; requests, as the caller's thread sees them
 *     exchange.c  the thread that exchanges messages; who is alive
 *     add.c       sums over all processes, in a fixed tree
 *
 * The caller appends requests to a queue; the group's thread carries them out one after the other. Every process
 * has the same queue, so messages need no names. Meanwhile each process sends a beat to its two neighbours by rank;
 * one that is silent for `timeout` seconds is lost, which its neighbour reports to everybody.
 */
#ifndef TAPEDECK_GROUP_GROUP_H
#define TAPEDECK_GROUP_GROUP_H

#include "group/transport.h"
#include "tapedeck/group.h"

#include <pthread.h>

/* What a request does; element and count describe data. */
typedef enum td__group_work {
    TD__GROUP_ADD,
    TD__GROUP_BROADCAST, /* from root */
    TD__GROUP_COLLECT,   /* to rank 0 */
} td__group_work;

struct td_group_request {
    td__group_work work;
    void *data;
    size_t count, element; /* element: bytes; of sums 4 is float, 8 is double */
    int root;
    const int *members; /* of TD__GROUP_BROADCAST: the root and who receives; NULL: all processes */
    int member_count;
    void **all;    /* of TD__GROUP_COLLECT, in rank 0: the data of all, by rank, from td__calloc */
    size_t *sizes; /* likewise: bytes of each */
    bool done;     /* the lock's */
    td_status status;
    td_group_request *next;
};

/* What is reported to everybody. */
typedef struct td__group_news {
    int32_t rank, kind; /* td__group_event */
    char text[240];
} td__group_news;
typedef enum td__group_event {
    TD__GROUP_SILENT, /* rank is lost */
    TD__GROUP_FAILED, /* rank ended by itself: text */
    TD__GROUP_ENDED,  /* after one of those: rank 0 has finished what it had to write */
    TD__GROUP_EVENTS,
} td__group_event;

enum { TD__GROUP_NEIGHBOURS = 2 };

/* A neighbour by rank; the thread's. */
typedef struct td__group_neighbour {
    int rank;
    void *sending, *receiving;
    int32_t sent, received;
    double heard; /* when, by td__seconds */
} td__group_neighbour;

struct td_group {
    td__transport wire;
    int rank, size;
    char (*hosts)[TD__HOST_SIZE]; /* by rank */
    double timeout;
    bool started;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* The lock's. */
    td_group_request *first, *last, *spare;
    bool stop;         /* the thread ends */
    bool news_to_send; /* own */
    td__group_news own;
    bool ended;    /* rank 0 has ended, after a loss */
    td_error lost; /* status: a process is lost; set once */
    int lost_rank;

    /* The thread's. */
    td__group_neighbour neighbours[TD__GROUP_NEIGHBOURS];
    int neighbour_count;
    double beat_at;                               /* when the last beat was sent */
    td__group_news heard, sent[TD__GROUP_EVENTS]; /* sent: by kind */
    void *listening, **announcing;                /* announcing: by rank */
    char *scratch;
    size_t scratch_size;
};

/* A group over a transport, which is opened. NULL on failure. */
td_group *td__group_create(const td__transport *wire, double timeout, td_error *error);
/* The data of every process in rank 0: *all from td__calloc, by rank, and how many bytes each has in sizes (of the
 * group's size). Elsewhere both may be NULL. */
TD_NODISCARD td_status td__group_collect(td_group *group, const void *mine, size_t size, void **all,
                                         size_t *sizes, td_error *error);
/* data of members[0] in the other ones; no other process calls it. */
TD_NODISCARD td_status td__group_broadcast_among(td_group *group, void *data, size_t size,
                                                 const int *members, int count, td_error *error);
/* Whether this process is the first one on its machine, by rank. */
bool td__group_is_first_here(const td_group *group);
/* td_group_add of doubles. */
TD_NODISCARD td_status td__group_add_doubles(td_group *group, double *values, size_t count,
                                             td_error *error);
/* exchange.c: the thread. */
void *td__group_run(void *group);
/* For requests, on the thread: both messages, in parts; size 0: none. False: a process is lost. */
bool td__group_exchange(td_group *group, int to, const void *out, size_t out_size, int from,
                        void *in, size_t in_size);
/* Room for size bytes; NULL when memory is exhausted. */
void *td__group_scratch(td_group *group, size_t size);
/* add.c */
td_status td__group_sum(td_group *group, td_group_request *request);
td_status td__group_spread(td_group *group, td_group_request *request);

#endif
