/* Groups of threads that are processes to each other: their messages go through memory. */
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

/* Element i of rank r: sums of these depend on their order. */
static float value_of(int rank, size_t i) {
    return (float)(rank + 1) * 1e7f / (float)(i % 97 + 1) - 3.3e6f * (float)(rank % 3);
}

/* ((0 + 1) + (2 + 3)) + …, of ranks from `first` on. */
static float tree(int first, int width, int size, size_t i) {
    if (width == 1) {
        return value_of(first, i);
    }
    float left = tree(first, width / 2, size, i);
    return first + width / 2 < size ? left + tree(first + width / 2, width / 2, size, i) : left;
}

static void *add_all(void *user) {
    member *m = user;
    m->group = join(m, 30);
    int size = td_group_size(m->group);
    m->good = td_group_rank(m->group) == m->rank &&
              !strcmp(td_group_host(m->group, size - 1),
                      size > 2 ? size > 4 ? size > 6 ? "host3" : "host2" : "host1" : "host0");
    for (size_t i = 0; i < m->count; i++) {
        m->values[i] = value_of(m->rank, i);
    }
    size_t half = m->count / 2;
    td_group_request *a = td_group_add_start(m->group, m->values, half, NULL);
    td_group_request *b = td_group_add_start(m->group, m->values + half, m->count - half, NULL);
    m->good = !td_group_wait(m->group, a, NULL) && !td_group_wait(m->group, b, NULL) && m->good;

    double number = m->rank;
    m->good = !td__group_add_doubles(m->group, &number, 1, NULL) && m->good;
    m->good = number == (double)size * (size - 1) / 2 && m->good;
    int mine = 10 * m->rank, all[MOST], given = mine;
    m->good = !td_group_gather(m->group, &mine, sizeof mine, all, NULL) && m->good;
    for (int i = 0; i < size; i++) {
        m->good = all[i] == 10 * i && m->good;
    }
    m->good = !td_group_broadcast(m->group, &given, sizeof given, size - 1, NULL) && m->good;
    m->good = given == 10 * (size - 1) && m->good;
    m->good = !td_group_status(m->group, NULL) && m->good;
    td_group_close(m->group);
    return NULL;
}

static void sums_are_taken_in_a_fixed_tree(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    static const size_t counts[] = {1, 7, 20011};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t c = 0; c < 3; c++) {
            network net;
            member members[MOST] = {0};
            for (int i = 0; i < sizes[k]; i++) {
                members[i].count = counts[c];
                members[i].values = calloc(counts[c], sizeof(float));
            }
            run_members(members, &net, sizes[k], add_all);
            for (int i = 0; i < sizes[k]; i++) {
                assert_true(members[i].good);
                for (size_t at = 0; at < counts[c]; at++) {
                    float expected = tree(0, MOST, sizes[k], at);
                    assert_memory_equal(&members[i].values[at], &expected, sizeof expected);
                }
                free(members[i].values);
            }
        }
    }
}

static void *lose_one(void *user) {
    member *m = user;
    td_error error = {0};
    double number = 1;
    m->group = join(m, 0.7);
    m->good = m->group != NULL;
    if (m->rank == 2) {
        m->silent = true;
    } else {
        m->good = td__group_add_doubles(m->group, &number, 1, &error) == TD_IO && m->good;
        m->good = strstr(error.text, "rank 2 on host1 is lost") && m->good;
        m->good = td_group_status(m->group, NULL) == TD_IO && m->good;
        m->good = td_group_barrier(m->group, NULL) == TD_IO && m->good;
    }
    td_group_close(m->group);
    return NULL;
}

static void a_silent_process_is_named_to_all(void **state) {
    (void)state;
    network net;
    member members[MOST] = {0};
    run_members(members, &net, 4, lose_one);
    for (int i = 0; i < 4; i++) {
        assert_true(members[i].good);
    }
}

static void *fail_one(void *user) {
    member *m = user;
    td_error error = {0};
    double number = 1;
    m->group = join(m, 30);
    if (m->rank == 1) {
        td_group_fail(m->group, "the disk is full");
    } else {
        m->good = td__group_add_doubles(m->group, &number, 1, &error) == TD_IO &&
                  strstr(error.text, "rank 1 on host0 ended: the disk is full");
    }
    td_group_close(m->group);
    return NULL;
}

static void a_failure_is_reported_to_all(void **state) {
    (void)state;
    network net;
    member members[MOST] = {0};
    run_members(members, &net, 4, fail_one);
    assert_true(members[0].good && members[2].good && members[3].good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_taken_in_a_fixed_tree),
        cmocka_unit_test(a_silent_process_is_named_to_all),
        cmocka_unit_test(a_failure_is_reported_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
