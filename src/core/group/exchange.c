#include "group/group.h"

#include "base/clock.h"
#include "base/memory.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum { WORK = 1, BEAT, NEWS }; /* tags */
#define BEAT_EVERY 0.25        /* seconds */
#define SLEEP 30e-6            /* seconds, between two looks at a message that takes long */
enum { SPINS = 50 };           /* looks before the first sleep */

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

/* Whether both are done; false: a process is lost. A message that is NULL was not to be sent. */
static bool finish(td_group *group, void *sending, void *receiving) {
    const td__transport *wire = &group->wire;
    for (int looks = 0; sending || receiving; looks++) {
        int sent = sending ? wire->test(wire->context, sending) : 1;
        int received = receiving ? wire->test(wire->context, receiving) : 1;
        sending = sent ? NULL : sending;
        receiving = received ? NULL : receiving;
        if (sent < 0 || received < 0) {
            return false;
        }
        if (!sending && !receiving) {
            break;
        }
        if (looks < SPINS) {
            sched_yield();
            continue;
        }
        if (looks % 16 == 0) {
            look_around(group);
        }
        if (is_lost(group)) {
            return false;
        }
        struct timespec pause = {.tv_nsec = (long)(SLEEP * 1e9)};
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

static size_t part_of(size_t left) {
    return left < TD__MOST_MESSAGE ? left : TD__MOST_MESSAGE;
}

bool td__group_exchange(td_group *group, int to, const void *out, size_t out_size, int from,
                        void *in, size_t in_size) {
    const td__transport *wire = &group->wire;
    bool good = true;
    for (size_t o = 0, i = 0; good && (o < out_size || i < in_size);) {
        size_t out_part = part_of(out_size - o), in_part = part_of(in_size - i);
        void *receiving =
            in_part ? wire->receive(wire->context, (char *)in + i, in_part, from, WORK) : NULL;
        void *sending =
            out_part ? wire->send(wire->context, (const char *)out + o, out_part, to, WORK) : NULL;
        good =
            (receiving || !in_part) && (sending || !out_part) && finish(group, sending, receiving);
        o += out_part;
        i += in_part;
    }
    return good;
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
