#include "run/watch.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/ranks_store.h"
#include "run/run.h"
#include "store/postgresql.h"

#include <stdlib.h>

enum { MAX_RUNS = 1 << 12 };
static const double retry_seconds = 30;

typedef struct notified {
    int64_t run;     /* its number in the database */
    uint64_t serial; /* of its last notification */
} notified;

struct td__watch {
    char *url;
    td__pg *pg; /* NULL: not listening */
    double next_try;
    notified *runs;
    size_t count, capacity;
    uint64_t serial; /* of the last notification */
    uint64_t all;    /* up to here any run may have changed */
};

td__watch *td__watch_open(const char *url) {
    td__watch *watch = td__calloc(1, sizeof *watch);
    char *copy = watch ? td__strdup(url) : NULL;
    if (!copy) {
        td__free(watch);
        return NULL;
    }
    watch->url = copy;
    return watch;
}

void td__watch_close(td__watch *watch) {
    if (watch) {
        td__pg_close(watch->pg);
        td__free(watch->runs);
        td__free(watch->url);
        td__free(watch);
    }
}

static notified *find(const td__watch *watch, int64_t run) {
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->runs[i].run == run) {
            return &watch->runs[i];
        }
    }
    return NULL;
}

static void forget_all(td__watch *watch) {
    watch->all = ++watch->serial;
    watch->count = 0;
}

/* The payload is the number of a run, as text; anyone may notify anything. */
static bool note_run(void *user, const td__pg_cell *cells, int count) {
    td__watch *watch = user;
    int64_t run = count > 0 && cells->data ? strtoll(cells->data, NULL, 10) : 0;
    notified *found = find(watch, run);
    if (!found &&
        td__grow(&watch->runs, &watch->capacity, watch->count + 1, MAX_RUNS, sizeof *watch->runs)) {
        found = &watch->runs[watch->count++];
        found->run = run;
    }
    if (found) {
        found->serial = ++watch->serial;
    } else {
        forget_all(watch);
    }
    return true;
}

static bool start_listening(td__watch *watch) {
    double now = td__seconds();
    if (now < watch->next_try) {
        return false;
    }
    td_status status = td__pg_open(watch->url, false, &watch->pg, NULL);
    status = status ? status : td__pg_script(watch->pg, "LISTEN tapedeck", NULL);
    if (status) {
        td__pg_close(watch->pg);
        watch->pg = NULL;
    }
    watch->next_try = td__seconds() + retry_seconds;
    forget_all(watch); /* what was notified in between is not known */
    return status == TD_OK;
}

bool td__watch_take(td__watch *watch, bool *any) {
    uint64_t before = watch->serial;
    bool listening = watch->pg || start_listening(watch);
    if (listening && td__pg_notified(watch->pg, note_run, watch, NULL)) {
        td__pg_close(watch->pg);
        watch->pg = NULL;
        listening = false;
    }
    *any = watch->serial != before;
    return listening;
}

static uint64_t last_of(const td__watch *watch, const td__store *store) {
    const notified *found = store->remote ? find(watch, store->remote->number) : NULL;
    return found && found->serial > watch->all ? found->serial : watch->all;
}

bool td__watch_run(const td__watch *watch, const td_run *run, uint64_t *seen) {
    const td__ranks_store *ranks = run->ranks ? (const td__ranks_store *)run->store : NULL;
    uint64_t last = run->store && !ranks ? last_of(watch, run->store) : watch->all;
    for (size_t i = 0; ranks && i < ranks->count; i++) {
        uint64_t of_rank = last_of(watch, ranks->sources[i].store);
        last = of_rank > last ? of_rank : last;
    }
    bool changed = last > *seen || !run->store;
    *seen = last;
    return changed;
}
