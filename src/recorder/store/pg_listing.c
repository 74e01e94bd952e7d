/* The runs of a database. A list of a thousand runs takes a few statements, not a few for each. */
#include "store/pg_listing.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 1 << 16, MAX_PARTS = 1 << 20 };

/* What is asked for all runs at once; the first column is the run. */
enum { NOTES, SETTINGS, METRICS, LAST_STEPS, LOSSES, PREFETCHED };
/* Metrics: those that td_run_main_metrics may choose. The known ones, and the first ones by number. */
#define METRIC_COLUMNS                                                                             \
    "g.name, g.kind, g.better, s.last_step, s.last, s.least_step, s.least, s.greatest_step,"       \
    " s.greatest"
#define OF_RUNS " FROM tapedeck.run r WHERE r.part = '' AND ($1 = '' OR r.name = $1)"
static const struct {
    td__source source;
    const char *sql;
} prefetched[PREFETCHED] = {
    [NOTES] =
        {TD__RUN_NOTES,
         "SELECT DISTINCT ON (n.run, n.key COLLATE \"C\") n.run, n.key, n.value"
         " FROM tapedeck.note n WHERE n.kind IN ('run', 'remark') AND n.run IN (SELECT r.id" OF_RUNS
         ") ORDER BY n.run, n.key COLLATE \"C\", n.kind"},
    [SETTINGS] =
        {TD__EXPERIMENT,
         "SELECT n.run, n.key, n.value FROM tapedeck.note n WHERE n.kind = 'experiment' AND"
         " n.run IN (SELECT r.id" OF_RUNS ") ORDER BY n.run, n.key COLLATE \"C\""},
    [METRICS] =
        {TD__METRICS,
         "SELECT r.id, m.* FROM tapedeck.run r CROSS JOIN LATERAL (SELECT " METRIC_COLUMNS
         " FROM (SELECT g.* FROM tapedeck.signal g WHERE g.run = r.id AND g.name IN ('loss',"
         " 'val_loss', 'accuracy', 'val_accuracy') UNION (SELECT g.* FROM tapedeck.signal g"
         " WHERE g.run = r.id AND g.kind <> 'system' AND NOT (g.kind = 'metric' AND"
         " g.better IS NULL) AND EXISTS (SELECT FROM tapedeck.summary s WHERE s.run = r.id"
         " AND s.signal = g.id) ORDER BY g.id LIMIT 8)) g JOIN tapedeck.summary s"
         " ON s.run = r.id AND s.signal = g.id ORDER BY g.id) m"
         " WHERE r.part = '' AND ($1 = '' OR r.name = $1) ORDER BY r.id"},
    [LAST_STEPS] = {TD__STEPS,
                    "SELECT r.id, c.\"last\", c.epoch[c.count], c.wall_time[c.count]"
                    " FROM tapedeck.run r CROSS JOIN LATERAL (SELECT * FROM tapedeck.step_chunk c"
                    " WHERE c.run = r.id AND c.signal = 0 ORDER BY c.\"first\" DESC LIMIT 1) c"
                    " WHERE r.part = '' AND ($1 = '' OR r.name = $1) ORDER BY r.id"},
    [LOSSES] = {TD__EVENTS,
                "SELECT e.run, e.kind, e.epoch, e.step, e.wall_time, e.count, e.signal, e.text"
                " FROM tapedeck.event e WHERE e.kind IN ('drop', 'degrade') AND e.run IN (SELECT"
                " r.id" OF_RUNS ") ORDER BY e.run, e.id"},
};

typedef struct listed {
    char *place; /* URL#NAME */
    size_t row;  /* of its first part */
    size_t parts;
} listed;

struct td__listing {
    td__pg *pg;
    char url[TD__URL_ROOM];
    td__pg_answer runs; /* by name and part */
    listed *items;
    size_t count, capacity;
    bool summaries;
    td__pg_answer prefetched[PREFETCHED];
};

/* ---- Names ---------------------------------------------------------------------------------- */

static bool is_one_process(const td__listing *listing, const listed *item) {
    return item->parts == 1 && !*td__pg_word(&listing->runs, item->row, TD__PG_RUN_PART);
}

/* What has a meaning in a URL is escaped. */
static char *place_of(const char *url, const char *name) {
    size_t room = strlen(url) + 3 * strlen(name) + 2;
    char *place = td__calloc(room, 1);
    size_t used = place ? (size_t)snprintf(place, room, "%s#", url) : 0;
    for (; place && *name; name++) {
        bool plain = *name != '%';
        used += (size_t)snprintf(place + used, room - used, plain ? "%c" : "%%%02X",
                                 (unsigned char)*name);
    }
    return place;
}

static td_status list_names(td__listing *listing, td_error *error) {
    for (size_t row = 0; row < listing->runs.count; row++) {
        const char *name = td__pg_word(&listing->runs, row, TD__PG_RUN_NAME);
        listed *last = listing->count ? &listing->items[listing->count - 1] : NULL;
        if (last && strcmp(td__pg_word(&listing->runs, last->row, TD__PG_RUN_NAME), name) == 0) {
            last->parts++;
            continue;
        }
        char *place = place_of(listing->url, name);
        if (!place || !td__grow(&listing->items, &listing->capacity, listing->count + 1, MAX_RUNS,
                                sizeof *listing->items)) {
            td__free(place);
            return td_error_set(error, TD_MEMORY, "%s: more than %d runs", listing->url, MAX_RUNS);
        }
        listing->items[listing->count++] = (listed){place, row, 1};
    }
    return TD_OK;
}

static int compare_places(const void *a, const void *b) {
    return strverscmp(((const listed *)a)->place, ((const listed *)b)->place);
}

/* ---- The listing ---------------------------------------------------------------------------- */

td_status td__listing_open(const char *place, bool summaries, td__listing **opened,
                           td_error *error) {
    static const char sql[] = "SELECT " TD__PG_RUN_COLUMNS " FROM tapedeck.run r"
                              " WHERE $1 = '' OR r.name = $1"
                              " ORDER BY r.name COLLATE \"C\", r.part COLLATE \"C\" LIMIT 1000000";
    char name[TD__URL_ROOM];
    td__listing *listing = td__calloc(1, sizeof *listing);
    if (!listing) {
        return td_error_set(error, TD_MEMORY, "out of memory for a list of runs");
    }
    td_status status = td__url_take(place, listing->url, name, error);
    const char *const values[] = {name};
    status = status ? status : td__pg_share(listing->url, &listing->pg, error);
    status = status ? status : td__pg_ask(listing->pg, sql, 1, values, &listing->runs, error);
    status = status ? status : list_names(listing, error);
    for (int i = 0; i < PREFETCHED && !status && summaries; i++) {
        status =
            td__pg_ask(listing->pg, prefetched[i].sql, 1, values, &listing->prefetched[i], error);
    }
    listing->summaries = summaries;
    if (status) {
        td__listing_close(listing);
        return status;
    }
    if (listing->count) {
        qsort(listing->items, listing->count, sizeof *listing->items, compare_places);
    }
    *opened = listing;
    return TD_OK;
}

void td__listing_close(td__listing *listing) {
    if (!listing) {
        return;
    }
    for (size_t i = 0; i < listing->count; i++) {
        td__free(listing->items[i].place);
    }
    for (int i = 0; i < PREFETCHED; i++) {
        td__pg_answer_release(&listing->prefetched[i]);
    }
    td__free(listing->items);
    td__pg_answer_release(&listing->runs);
    if (listing->pg) {
        td__pg_unshare(listing->pg);
    }
    td__free(listing);
}

size_t td__listing_count(const td__listing *listing) {
    return listing->count;
}

const char *td__listing_place(const td__listing *listing, size_t index) {
    return listing->items[index].place;
}

const char *td__listing_name(const td__listing *listing, size_t index) {
    return td__pg_word(&listing->runs, listing->items[index].row, TD__PG_RUN_NAME);
}

size_t td__listing_part_count(const td__listing *listing, size_t index) {
    const listed *item = &listing->items[index];
    return is_one_process(listing, item) ? 0 : item->parts;
}

const char *td__listing_part(const td__listing *listing, size_t index, size_t part) {
    return td__pg_word(&listing->runs, listing->items[index].row + part, TD__PG_RUN_PART);
}

td_status td__listing_store(td__listing *listing, size_t index, td__store **store,
                            td_error *error) {
    td__pg *pg;
    td_status status = td__pg_share(listing->url, &pg, error);
    if (status) {
        return status;
    }
    status = td__pg_store_make(pg, &listing->runs, listing->items[index].row, store, error);
    if (status) {
        td__pg_unshare(pg);
        return status;
    }
    td__pg_store *made = (td__pg_store *)*store;
    made->listing = listing->summaries ? listing : NULL;
    made->listed = index;
    return TD_OK;
}

/* The first row whose run is not below this one. */
static size_t find_run(const td__pg_answer *answer, int64_t run) {
    size_t low = 0, high = answer->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        td__pg_cell cell = td__pg_cell_of(answer, middle, 0);
        if (td__pg_integer(&cell) < run) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool td__pg_listed(const td__listing *listing, size_t index, const td__query *query,
                   const td__pg_answer **answer, size_t *first, size_t *end) {
    bool wanted = !query->ends && (query->source != TD__STEPS || query->backwards);
    for (int i = 0; i < PREFETCHED && wanted; i++) {
        if (prefetched[i].source == query->source) {
            td__pg_cell id =
                td__pg_cell_of(&listing->runs, listing->items[index].row, TD__PG_RUN_ID);
            *answer = &listing->prefetched[i];
            *first = find_run(*answer, td__pg_integer(&id));
            *end = find_run(*answer, td__pg_integer(&id) + 1);
            return true;
        }
    }
    return false;
}
