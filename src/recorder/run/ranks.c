/* A run that several processes wrote, read as one: its ranks and attempts, and how they are doing. */
#include "run/ranks_store.h"

#include "base/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SOURCES = 1 << 17, PATH_ROOM = 4096 };

/* ---- Opening -------------------------------------------------------------------------------- */

static bool is_numbered(const char *name, const char *word) {
    size_t length = strlen(word);
    return strncmp(name, word, length) == 0 && name[length] &&
           strspn(name + length, "0123456789") == strlen(name + length);
}

static int is_rank(const struct dirent *entry) {
    return is_numbered(entry->d_name, "rank-");
}

static int is_attempt(const struct dirent *entry) {
    return is_numbered(entry->d_name, "attempt-");
}

static int is_rank_or_attempt(const struct dirent *entry) {
    return is_rank(entry) || is_attempt(entry);
}

/* The number at the end of a folder's name. */
static int64_t rank_of(const char *folder) {
    const char *number = strrchr(folder, '-');
    return number ? strtoll(number + 1, NULL, 10) : 0;
}

static bool has_database(const char *folder, const char *below) {
    char path[PATH_ROOM];
    return (size_t)snprintf(path, sizeof path, "%s/%s/run.db", folder, below) < sizeof path &&
           access(path, F_OK) == 0;
}

bool td__ranks_are_in(const char *folder) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_rank, versionsort);
    bool found = false;
    for (int i = 0; i < count; i++) {
        found = found || has_database(folder, entries[i]->d_name);
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return found;
}

/* Whether a later attempt has a folder of this name. */
static bool is_in_later_attempt(const char *folder, const char *rank) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_attempt, versionsort);
    bool found = false;
    for (int i = 0; i < count; i++) {
        char below[600];
        (void)snprintf(below, sizeof below, "%s/%.300s", entries[i]->d_name, rank);
        found = found || has_database(folder, below);
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return found;
}

td_status td__ranks_select(td_run *run, td_error *error) {
    char *slash = strrchr(run->folder, '/');
    const char *name = slash ? slash + 1 : run->folder;
    if (!is_numbered(name, "rank-")) {
        return TD_OK;
    }
    size_t length = slash ? (size_t)(slash - run->folder) : 1;
    char *parent = td__strdup(slash ? run->folder : ".");
    if (!parent) {
        return td_error_set(error, TD_MEMORY, "out of memory for a run");
    }
    parent[length ? length : 1] = 0;
    if (is_in_later_attempt(parent, name)) {
        run->ranks = run->one_rank = true;
        run->rank = rank_of(name);
        td__free(run->folder);
        run->folder = parent;
        return TD_OK;
    }
    bool missing = !has_database(parent, name) && td__ranks_are_in(parent);
    td_status status = missing ? td_error_set(error, TD_NOT_FOUND, "%s has no rank %lld", parent,
                                              (long long)rank_of(name))
                               : TD_OK;
    td__free(parent);
    return status;
}

/* A note of a rank; "" where there is none. */
static void read_note(td__rank_source *s, const char *key, char *out, size_t size) {
    td__rows *notes =
        s->store->class->select(s->store, &(td__query){.source = TD__RUN_NOTES}, NULL);
    out[0] = 0;
    if (notes) {
        td__rows_bind(notes, 0, INT64_MIN, INT64_MAX, -1);
    }
    while (notes && td__rows_next(notes, NULL) > 0) {
        if (strcmp(td__run_text(notes, 0), key) == 0) {
            (void)snprintf(out, size, "%s", td__run_text(notes, 1));
        }
    }
    td__rows_end(notes);
}

static td_status add_source(td_run *run, td__ranks_store *store, const char *below, int64_t attempt,
                            td_error *error) {
    char path[PATH_ROOM], ended[TD__ENDED];
    td_error reason = {0};
    bool damaged = false;
    td__rank_source made = {.attempt = attempt, .last = INT64_MAX};
    made.rank = rank_of(below);
    (void)snprintf(path, sizeof path, "%s/%s", run->folder, below);
    bool writing = !run->remote && td__run_written_by(path, ended) == TD__LOCK_HOLDER;
    if (td__store_read(path, writing, &made.store, &damaged, &reason) || damaged) {
        td__run_problem(&run->problems, "%s: %s", below,
                        damaged ? "its run.db is damaged; some of it is missing" : reason.text);
    }
    if (!made.store) {
        return TD_OK; /* the others are read */
    }
    made.folder = td__strdup(below);
    if (!made.folder ||
        !td__grow(&store->sources, &store->capacity, store->count + 1, MAX_SOURCES, sizeof made)) {
        td__free(made.folder);
        td__store_close(made.store);
        return td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
    }
    char number[32];
    read_note(&made, "mesh", made.mesh, sizeof made.mesh);
    read_note(&made, "node", number, sizeof number);
    made.node = strtoll(number, NULL, 10);
    read_note(&made, "local_rank", number, sizeof number);
    made.local_rank = strtoll(number, NULL, 10);
    store->sources[store->count++] = made;
    return TD_OK;
}

static td_status add_sources(td_run *run, td__ranks_store *store, const char *below,
                             int64_t attempt, td_error *error) {
    char path[PATH_ROOM];
    struct dirent **entries = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", run->folder, below);
    int count = scandir(path, &entries, attempt > 1 ? is_rank : is_rank_or_attempt, versionsort);
    td_status status = TD_OK;
    for (int pass = 0; pass < 2 && !status; pass++) { /* ranks first, then later attempts */
        for (int i = 0; i < count && !status; i++) {
            char name[600];
            (void)snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "",
                           entries[i]->d_name);
            if (is_rank(entries[i]) && pass == 0 && has_database(run->folder, name)) {
                if (run->one_rank && rank_of(name) != run->rank) {
                    continue;
                }
                status = add_source(run, store, name, attempt, error);
            } else if (!is_rank(entries[i]) && pass == 1) {
                status =
                    add_sources(run, store, name, strtoll(strrchr(name, '-') + 1, NULL, 10), error);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return status;
}

/* The same of a database, whose parts are listed by their names: ranks, then later attempts. */
static td_status add_remote_sources(td_run *run, td__ranks_store *store, td_error *error) {
    char **parts;
    size_t count = 0;
    td_status status = td__remote_parts(run->folder, &parts, &count, error);
    for (int pass = 0; pass < 2 && !status; pass++) {
        for (size_t i = 0; i < count && !status; i++) {
            bool later = strncmp(parts[i], "attempt-", 8) == 0;
            if (later == (pass == 1) && (!run->one_rank || rank_of(parts[i]) == run->rank)) {
                status = add_source(run, store, parts[i],
                                    later ? strtoll(parts[i] + 8, NULL, 10) : 1, error);
            }
        }
    }
    td__remote_free(parts, count);
    return status;
}

td_status td__ranks_select_remote(td_run *run, td_error *error) {
    char *slash = strrchr(run->folder, '/');
    const char *hash = strchr(run->folder, '#');
    if (!slash || slash < hash || !is_numbered(slash + 1, "rank-")) {
        slash = NULL;
    }
    int64_t rank = slash ? rank_of(slash + 1) : 0;
    char **parts;
    size_t count = 0, having = 0;
    if (slash) {
        *slash = 0;
    }
    td_status status = td__remote_parts(run->folder, &parts, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        having += rank_of(parts[i]) == rank;
    }
    td__remote_free(parts, count);
    run->ranks = !status && (slash ? having > 1 : count > 0);
    run->one_rank = slash && run->ranks;
    run->rank = rank;
    if (!status && slash && count && !having) {
        status =
            td_error_set(error, TD_NOT_FOUND, "%s has no rank %lld", run->folder, (long long)rank);
    }
    if (slash && !run->one_rank) {
        *slash = '/';
    }
    return status;
}

/* The first (or last) step of a source; false when it has none. */
static bool end_step(td__store *store, bool last, int64_t *step) {
    td__rows *rows =
        store->class->select(store, &(td__query){.source = TD__STEPS, .backwards = last}, NULL);
    if (rows) {
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, 1);
    }
    bool found = rows && td__rows_next(rows, NULL) > 0;
    *step = found ? td__rows_integer(rows, 0) : 0;
    td__rows_end(rows);
    return found;
}

static void replace_attempts(td__ranks_store *store) {
    for (size_t i = 0; i < store->count; i++) {
        int64_t first;
        if (store->sources[i].attempt < 2 || !end_step(store->sources[i].store, false, &first)) {
            continue;
        }
        for (size_t k = 0; k < store->count; k++) {
            td__rank_source *s = &store->sources[k];
            if (s->attempt < store->sources[i].attempt && s->last >= first) {
                s->last = first - 1;
            }
        }
    }
}

td_status td__ranks_open(td_run *run, td__store **opened, td_error *error) {
    td__ranks_store *store = td__calloc(1, sizeof *store);
    if (!store) {
        return td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
    }
    store->base.class = &td__ranks_class;
    store->base.version = 1; /* it has no summaries */
    store->one_rank = run->one_rank;
    td_status status =
        run->remote ? add_remote_sources(run, store, error) : add_sources(run, store, "", 1, error);
    if (!status && store->count == 0) {
        status = td_error_set(error, TD_FORMAT, "%s: no rank of it can be read", run->folder);
    }
    for (size_t i = 0; i < store->count && run->remote; i++) {
        store->remote.folder = "";
        store->remote.bytes += store->sources[i].store->remote->bytes;
        store->base.remote = &store->remote;
    }
    if (!status) {
        replace_attempts(store);
        status = td__ranks_list_signals(store, error);
        store->about = td__calloc(store->count, sizeof *store->about);
        status = status || store->about ? status : td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (status) {
        td__store_close(&store->base);
        return status;
    }
    if (store->partial_count) {
        td__run_problem(&run->problems,
                        "%zu signals have the placement partial and are not merged: "
                        "--rank N, or the folder of a rank, shows them",
                        store->partial_count);
    }
    *opened = &store->base;
    return TD_OK;
}

/* ---- How it is doing ------------------------------------------------------------------------ */

td_run_state td__ranks_state(td_run *run) {
    td__ranks_store *store = (td__ranks_store *)run->store;
    int64_t attempt = store->sources[store->count - 1].attempt;
    td_run_state worst = TD_RUN_FINISHED;
    bool running = false;
    for (size_t i = 0; i < store->count; i++) {
        td__rank_source *s = &store->sources[i];
        char path[PATH_ROOM], noted[32];
        (void)snprintf(path, sizeof path, "%s/%s", run->folder, s->folder);
        read_note(s, "state", noted, sizeof noted);
        td_run_state state =
            run->remote ? td__run_state_there(s->store, noted) : td__run_state_of(path, noted);
        running |= state == TD_RUN_RUNNING;
        int64_t last;
        (void)end_step(s->store, true, &last);
        store->about[i] = (td_run_rank){.rank = s->rank,
                                        .attempt = s->attempt,
                                        .node = s->node,
                                        .local_rank = s->local_rank,
                                        .last_step = last,
                                        .state = state,
                                        .folder = s->folder,
                                        .mesh = s->mesh};
        if (state == TD_RUN_CRASHED && s->attempt == attempt) { /* else another attempt went on */
            td__run_problem(
                &run->problems,
                "rank %lld ended without closing its run%s%s: its last recorded step is "
                "%lld",
                (long long)s->rank, s->attempt > 1 ? ", in " : "", s->attempt > 1 ? s->folder : "",
                (long long)last);
        }
        worst = s->attempt == attempt && state > worst ? state : worst;
    }
    return running ? TD_RUN_RUNNING : worst;
}