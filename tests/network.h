/* Groups of threads that are processes to each other: their messages go through memory. */
#ifndef TAPEDECK_TESTS_NETWORK_H
#define TAPEDECK_TESTS_NETWORK_H

#include "test.h"

#include "group/group.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST = 8 };

typedef struct message {
    struct message *next;
    int from, tag;
    size_t size;
    char data[];
} message;

/* What is on its way to each process. */
typedef struct network {
    pthread_mutex_t lock;
    message *arrived[MOST];
    int size;
} network;

typedef struct member {
    network *network;
    int rank;
    bool silent; /* sends nothing */
    pthread_t thread;
    td_group *group;
    size_t count;
    float *values;
    const char *text;
    bool good;
} member;

/* Where a message goes that was asked for. */
typedef struct wish {
    struct wish *next; /* of all there ever were */
    void *data;
    size_t size;
    int from, tag;
    bool sent;
} wish;

static wish *wishes; /* of all members; a group that lost one does not end what was under way */
static pthread_mutex_t wishes_lock = PTHREAD_MUTEX_INITIALIZER;
static td_group *groups[64]; /* likewise: they stay */
static size_t group_count;

static wish *make_wish(wish what) {
    wish *w = malloc(sizeof *w);
    pthread_mutex_lock(&wishes_lock);
    *w = what;
    w->next = wishes;
    wishes = w;
    pthread_mutex_unlock(&wishes_lock);
    return w;
}

static bool open_member(void *context, int *rank, int *size, char host[TD__HOST_SIZE],
                        char *problem, size_t problem_size) {
    const member *m = context;
    (void)problem;
    (void)problem_size;
    *rank = m->rank;
    *size = m->network->size;
    (void)snprintf(host, TD__HOST_SIZE, "host%d", m->rank / 2);
    return true;
}

static void *send_message(void *context, const void *data, size_t size, int to, int tag) {
    member *m = context;
    message *sent = calloc(1, sizeof *sent + size);
    *sent = (message){.from = m->rank, .tag = tag, .size = size};
    memcpy(sent->data, data, size);
    pthread_mutex_lock(&m->network->lock);
    message **end = &m->network->arrived[to];
    while (*end) {
        end = &(*end)->next;
    }
    if (m->silent) {
        free(sent);
    } else {
        *end = sent;
    }
    pthread_mutex_unlock(&m->network->lock);
    return make_wish((wish){.sent = true});
}

static void *receive_message(void *context, void *data, size_t size, int from, int tag) {
    (void)context;
    return make_wish((wish){.data = data, .size = size, .from = from, .tag = tag});
}

static int test_message(void *context, void *asked) {
    const member *m = context;
    wish *w = asked;
    bool state = w->sent;
    pthread_mutex_lock(&m->network->lock);
    for (message **at = &m->network->arrived[m->rank]; !state && *at; at = &(*at)->next) {
        message *found = *at;
        if (found->tag == w->tag && (w->from == TD__ANY_RANK || w->from == found->from)) {
            assert_true(found->size <= w->size);
            memcpy(w->data, found->data, found->size);
            *at = found->next;
            free(found);
            state = true;
            break;
        }
    }
    pthread_mutex_unlock(&m->network->lock);
    return state;
}

static void cancel_message(void *context, void *asked) {
    (void)context;
    (void)asked;
}

static void close_member(void *context) {
    (void)context;
}

static td_group *join(member *m, double timeout) {
    td__transport wire = {.version = TD__TRANSPORT_VERSION,
                          .open = open_member,
                          .send = send_message,
                          .receive = receive_message,
                          .test = test_message,
                          .cancel = cancel_message,
                          .close = close_member,
                          .context = m};
    td_group *group = td__group_create(&wire, timeout, NULL);
    pthread_mutex_lock(&wishes_lock);
    groups[group_count++ % 64] = group;
    pthread_mutex_unlock(&wishes_lock);
    return group;
}

static void run_members(member members[], network *net, int size, void *(*body)(void *)) {
    *net = (network){.size = size};
    pthread_mutex_init(&net->lock, NULL);
    for (int i = 0; i < size; i++) {
        members[i].network = net;
        members[i].rank = i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, body, &members[i]), 0);
    }
    for (int i = 0; i < size; i++) {
        pthread_join(members[i].thread, NULL);
    }
    for (int i = 0; i < size; i++) { /* messages that nobody took */
        for (message *m = net->arrived[i], *next; m; m = next) {
            next = m->next;
            free(m);
        }
    }
    pthread_mutex_destroy(&net->lock);
}

#endif
