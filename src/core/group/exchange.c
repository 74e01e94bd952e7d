#include "group/group.h"

#include "base/clock.h"
#include "base/memory.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum { WORK = 1, BEAT, NEWS }; /* tags */
#define BEAT_EVERY 0.25        /* seconds */
/* Between two looks at a message that takes long: this share of the time that it took, and seconds. */
#define WAIT_SHARE 0.1
#define SHORTEST_SLEEP 30e-6
#define LONGEST_SLEEP 500e-6
enum {
    SPINS = 50,       /* looks before the first sleep */
    PART = 60 * 1024, /* bytes: below the 64 KiB that OpenMPI sends at once by TCP */
    WINDOW = 16       /* parts under way, each way */
};

/* ---- Who is alive ---------------------------------------------------------------------------- */

static bool is_lost(td_group *group) {
    pthread_mutex_lock(&group->lock);
    bool lost = group->lost.status != TD_OK;
    pthread_mutex_unlock(&group->lock);
    return lost;
}

static void set_lost(td_group *group, const td__group_news *news) {
    pthread_mutex_lock(&group->lock);
    if (!group->lost.status) {
        const char *host = group->hosts[news->rank];
        group->lost_rank = news->rank;
        if (news->kind == TD__GROUP_SILENT) {
            td_error_set(&group->lost, TD_IO,
                         "rank %d on %s is lost: no sign of it for %.3g seconds", news->rank, host,
                         group->timeout);
        } else {
            td_error_set(&group->lost, TD_IO, "rank %d on %s ended: %s", news->rank, host,
                         news->text);
        }
        pthread_cond_broadcast(&group->changed);
    }
    pthread_mutex_unlock(&group->lock);
}

static void announce(td_group *group, const td__group_news *news) {
    td__group_news *sent = &group->sent[news->kind];
    *sent = *news;
    for (int i = 0; i < group->size; i++) {
        if (i != group->rank && !group->announcing[i]) {
            group->announcing[i] =
                group->wire.send(group->wire.context, sent, sizeof *sent, i, NEWS);
        }
    }
}

static void listen_for_news(td_group *group) {
    const td__transport *wire = &group->wire;
    int state = group->listening ? wire->test(wire->context, group->listening) : -1;
    if (group->listening && state == 1) {
        if (group->heard.kind == TD__GROUP_ENDED) {
            pthread_mutex_lock(&group->lock);
            group->ended = true;
            pthread_cond_broadcast(&group->changed);
            pthread_mutex_unlock(&group->lock);
        } else if (group->heard.rank >= 0 && group->heard.rank < group->size) {
            group->heard.text[sizeof group->heard.text - 1] = 0;
            set_lost(group, &group->heard);
        }
    }
    if (state) {
        group->listening =
            wire->receive(wire->context, &group->heard, sizeof group->heard, TD__ANY_RANK, NEWS);
    }
}

static void beat(td_group *group, td__group_neighbour *n, bool due, double now) {
    const td__transport *wire = &group->wire;
    if (n->sending && wire->test(wire->context, n->sending)) {
        n->sending = NULL;
    }
    if (due && !n->sending) {
        n->sending = wire->send(wire->context, &n->sent, sizeof n->sent, n->rank, BEAT);
    }
    int state = n->receiving ? wire->test(wire->context, n->receiving) : -1;
    if (n->receiving && state == 1) {
        n->heard = now;
    }
    if (state) {
        n->receiving =
            wire->receive(wire->context, &n->received, sizeof n->received, n->rank, BEAT);
    }
}

/* Called often, whatever the thread does. */
static void look_around(td_group *group) {
    double now = td__seconds();
    bool due = now - group->beat_at >= BEAT_EVERY;
    /* Who was not running for a while has not listened either. */
    bool slept = now - group->beat_at > group->timeout / 2;
    group->beat_at = due ? now : group->beat_at;
    for (int i = 0; i < group->neighbour_count; i++) {
        td__group_neighbour *n = &group->neighbours[i];
        n->heard = slept ? now : n->heard;
        beat(group, n, due, now);
        if (now - n->heard > group->timeout && !is_lost(group)) {
            td__group_news news = {.rank = n->rank, .kind = TD__GROUP_SILENT};
            set_lost(group, &news);
            announce(group, &news);
        }
    }
    listen_for_news(group);
    for (int i = 0; i < group->size; i++) {
        if (group->announcing[i] && group->wire.test(group->wire.context, group->announcing[i])) {
            group->announcing[i] = NULL;
        }
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* What goes one way: in parts, of which WINDOW are under way at a time. Parts are small enough for MPI to send them at
 * once: OpenMPI agrees on larger messages first, and then TCP carries them one way at a time only. */
typedef struct flow {
    const char *out; /* or in: the other is NULL */
    char *in;
    size_t size, at;
    int peer;
    void *messages[WINDOW]; /* under way: `count` of them, from the oldest one on */
    int oldest, count;
} flow;

static size_t part_of(const flow *f) {
    size_t left = f->size - f->at;
    return left < PART ? left : PART;
}

/* Begins as many parts as there is room for; false on failure. */
static bool begin_parts(td_group *group, flow *f) {
    const td__transport *wire = &group->wire;
    while (f->count < WINDOW && f->at < f->size) {
        void *message = f->in
                            ? wire->receive(wire->context, f->in + f->at, part_of(f), f->peer, WORK)
                            : wire->send(wire->context, f->out + f->at, part_of(f), f->peer, WORK);
        if (!message) {
            return false;
        }
        f->messages[(f->oldest + f->count++) % WINDOW] = message;
        f->at += part_of(f);
    }
    return true;
}

typedef enum outlook { BROKEN, WAITING, MOVED, COMPLETE } outlook;

/* Looks at the oldest part under way, and at those behind it while they are done; begins others in their place. Each look
 * takes the processor's time from whoever computes meanwhile. */
static outlook advance(td_group *group, flow *f) {
    const td__transport *wire = &group->wire;
    bool moved = false;
    while (f->count) {
        int done = wire->test(wire->context, f->messages[f->oldest]);
        if (done < 0) {
            return BROKEN;
        }
        if (!done) {
            break;
        }
        f->oldest = (f->oldest + 1) % WINDOW;
        f->count--;
        moved = true;
    }
    if (moved && !begin_parts(group, f)) {
        return BROKEN;
    }
    return !f->count ? COMPLETE : moved ? MOVED : WAITING;
}

/* Sleeps for a share of the time that was waited already. */
static void sleep_a_little(double waited) {
    double pause = waited * WAIT_SHARE;
    pause = pause < SHORTEST_SLEEP ? SHORTEST_SLEEP : pause > LONGEST_SLEEP ? LONGEST_SLEEP : pause;
    struct timespec time = {.tv_nsec = (long)(pause * 1e9)};
    (void)nanosleep(&time, NULL);
}

bool td__group_exchange(td_group *group, int to, const void *out, size_t out_size, int from,
                        void *in, size_t in_size) {
    flow sending = {.out = out, .size = out_size, .peer = to};
    flow receiving = {.in = in, .size = in_size, .peer = from};
    if (!begin_parts(group, &receiving) || !begin_parts(group, &sending)) {
        return false;
    }
    double moved = 0; /* when: 0 is in this look or a few before */
    for (int looks = 0, turns = 1;; looks++, turns++) {
        outlook received = advance(group, &receiving), sent = advance(group, &sending);
        if (received == BROKEN || sent == BROKEN) {
            return false;
        }
        if (received == COMPLETE && sent == COMPLETE) {
            return true;
        }
        if (received == MOVED || sent == MOVED) {
            looks = 0;
            moved = 0;
        }
        if (turns % 64 == 0) {
            turns = 0;
            look_around(group);
        }
        if (is_lost(group)) {
            return false;
        }
        if (looks < SPINS) {
            sched_yield();
            continue;
        }
        double now = td__seconds();
        moved = moved > 0 ? moved : now;
        sleep_a_little(now - moved);
    }
}

void *td__group_scratch(td_group *group, size_t size) {
    if (size + 1 > group->scratch_size) {
        td__free(group->scratch);
        group->scratch = td__calloc(size + 1, 1);
        group->scratch_size = group->scratch ? size + 1 : 0;
    }
    return group->scratch;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static td_status collect(td_group *group, td_group_request *r) {
    uint64_t size = r->count;
    if (group->rank) {
        return td__group_exchange(group, 0, &size, sizeof size, 0, NULL, 0) &&
                       td__group_exchange(group, 0, r->data, r->count, 0, NULL, 0)
                   ? TD_OK
                   : TD_IO;
    }
    size_t total = r->count;
    r->sizes[0] = r->count;
    for (int i = 1; i < group->size; i++) {
        if (!td__group_exchange(group, 0, NULL, 0, i, &size, sizeof size)) {
            return TD_IO;
        }
        r->sizes[i] = size;
        total += size;
    }
    size_t at = r->count;
    char *all = td__calloc(total + 1, 1);
    if (!all) {
        return TD_MEMORY;
    }
    if (r->count) {
        memcpy(all, r->data, r->count);
    }
    for (int i = 1; i < group->size; i++) {
        if (!td__group_exchange(group, 0, NULL, 0, i, all + at, r->sizes[i])) {
            td__free(all);
            return TD_IO;
        }
        at += r->sizes[i];
    }
    *r->all = all;
    return TD_OK;
}

static td_status carry_out(td_group *group, td_group_request *r) {
    static td_status (*const works[])(td_group *, td_group_request *) = {
        [TD__GROUP_ADD] = td__group_sum,
        [TD__GROUP_BROADCAST] = td__group_spread,
        [TD__GROUP_COLLECT] = collect,
    };
    return works[r->work](group, r);
}

static void fail_without_notice(td_group *group) {
    td__group_news news = {.rank = group->rank, .kind = TD__GROUP_FAILED};
    (void)snprintf(news.text, sizeof news.text, "a message could not be exchanged");
    set_lost(group, &news);
    announce(group, &news);
}

/* Under the lock, which is released meanwhile. */
static void take_first(td_group *group) {
    td_group_request *r = group->first;
    bool lost = group->lost.status != TD_OK;
    pthread_mutex_unlock(&group->lock);
    td_status status = lost ? TD_IO : carry_out(group, r);
    if (status && !is_lost(group)) {
        fail_without_notice(group);
    }
    pthread_mutex_lock(&group->lock);
    group->first = r->next;
    group->last = group->first ? group->last : NULL;
    r->status = status;
    r->done = true;
    pthread_cond_broadcast(&group->changed);
}

/* Messages that nobody will end: those that were only listened for. */
static void stop_listening(td_group *group) {
    const td__transport *wire = &group->wire;
    for (int i = 0; i < group->neighbour_count; i++) {
        td__group_neighbour *n = &group->neighbours[i];
        if (n->receiving) {
            wire->cancel(wire->context, n->receiving);
        }
        while (n->sending && !wire->test(wire->context, n->sending)) {
            sched_yield();
        }
    }
    if (group->listening) {
        wire->cancel(wire->context, group->listening);
    }
}

void *td__group_run(void *user) {
    td_group *group = user;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL,
                0UL); /* nanoseconds: a short sleep stays short */
    pthread_mutex_lock(&group->lock);
    while (!group->stop || group->first) {
        if (group->first) {
            take_first(group);
            continue;
        }
        struct timespec until = td__deadline(BEAT_EVERY / 4);
        (void)pthread_cond_timedwait(&group->changed, &group->lock, &until);
        bool news = group->news_to_send;
        group->news_to_send = false;
        td__group_news own = group->own;
        pthread_mutex_unlock(&group->lock);
        if (news) {
            announce(group, &own);
        }
        look_around(group);
        pthread_mutex_lock(&group->lock);
    }
    bool lost = group->lost.status != TD_OK;
    pthread_mutex_unlock(&group->lock);
    if (!lost) {
        stop_listening(group);
    }
    return NULL;
}
