#include "view/shelf_private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_RUNS = 1 << 16, PATIENCE_SECONDS = 2 };

const char *td__shelf_folder(const td__shelf *shelf) {
    return shelf->folder;
}

const char *td__shelf_problem(td__shelf *shelf, char *text) {
    pthread_mutex_lock(&shelf->lock);
    memcpy(text, shelf->problem, sizeof shelf->problem);
    pthread_mutex_unlock(&shelf->lock);
    return text;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static void make_id(char id[TD__ID_SIZE], const char *place) {
    (void)snprintf(id, TD__ID_SIZE, "%016llx", (unsigned long long)td__hash_text(place));
}

/* What people call a run: its path below the shelf's folder, or the last part of it. */
static const char *place_of(const td__shelf *shelf, const char *folder) {
    size_t length = shelf->folder ? strlen(shelf->folder) : 0;
    if (length && strncmp(folder, shelf->folder, length) == 0 && folder[length] == '/') {
        return folder + length + 1;
    }
    const char *slash = strrchr(folder, '/');
    return slash && slash[1] ? slash + 1 : folder;
}

static td__shelf_run *find(td__shelf *shelf, const char *id) {
    for (size_t i = 0; i < shelf->run_count; i++) {
        if (strcmp(shelf->runs[i]->id, id) == 0) {
            return shelf->runs[i];
        }
    }
    return NULL;
}

td_status td__shelf_add(td__shelf *shelf, const char *folder, bool *added, td_error *error) {
    char id[TD__ID_SIZE];
    make_id(id, shelf->folder ? place_of(shelf, folder) : folder);
    td__shelf_run *run = find(shelf, id);
    if (added) {
        *added = !run || !run->seen;
    }
    if (run) {
        run->seen = true;
        return TD_OK;
    }
    run = td__calloc(1, sizeof *run);
    char *copy = run ? td__strdup(folder) : NULL;
    if (!copy || !td__grow(&shelf->runs, &shelf->run_capacity, shelf->run_count + 1, MOST_RUNS,
                           sizeof *shelf->runs)) {
        td__free(copy);
        td__free(run);
        return td_error_set(error, TD_MEMORY, "too many runs below %s",
                            shelf->folder ? shelf->folder : folder);
    }
    memcpy(run->id, id, sizeof id);
    run->shelf = shelf;
    run->folder = copy;
    run->place = place_of(shelf, copy);
    run->seen = true;
    pthread_mutex_init(&run->lock, NULL);
    shelf->runs[shelf->run_count++] = run;
    return TD_OK;
}

void td__shelf_close(td__shelf_run *run) {
    td__shelf_series_drop_all(run);
    td_run_close(run->run);
    run->run = NULL;
    run->info.name = run->info.folder = NULL;
}

td_status td__shelf_open(td__shelf_run *run, td_error *error) {
    if (run->run) {
        return TD_OK;
    }
    run->run = td_run_open(run->folder, error);
    if (!run->run) {
        run->error = *error;
        return error->status ? error->status : TD_IO;
    }
    run->info.size = sizeof run->info;
    td_run_about(run->run, &run->info);
    run->read = !run->info.events;
    run->error.text[0] = 0;
    return TD_OK;
}

/* ---- Taking --------------------------------------------------------------------------------- */

/* False when it is not to be had soon. */
static bool lock(td__shelf_run *run) {
    if (run->shelf->patient) {
        return pthread_mutex_lock(&run->lock) == 0;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    return pthread_mutex_timedlock(&run->lock, &until) == 0;
}

td__shelf_run *td__shelf_take(td__shelf *shelf, const char *id, td_error *error) {
    pthread_mutex_lock(&shelf->lock);
    td__shelf_run *run = find(shelf, id);
    pthread_mutex_unlock(&shelf->lock);
    if (!run) {
        td_error_set(error, TD_NOT_FOUND, "there is no such run");
        return NULL;
    }
    if (!lock(run)) {
        td_error_set(error, TD_BUSY, "the run is being read");
        return NULL;
    }
    run->used = ++shelf->clock;
    td_status status = td__shelf_open(run, error);
    if (!status && !run->read) {
        status = shelf->patient ? td__shelf_read(run, error)
                                : td_error_set(error, TD_BUSY, "the run is being read");
        run->next_look = 0;
    }
    if (status) {
        pthread_mutex_unlock(&run->lock);
        return NULL;
    }
    return run;
}

void td__shelf_give(td__shelf_run *run) {
    pthread_mutex_unlock(&run->lock);
}

void td__shelf_each(td__shelf *shelf, td__shelf_function *each, void *user) {
    pthread_mutex_lock(&shelf->lock);
    size_t count = shelf->run_count;
    pthread_mutex_unlock(&shelf->lock);
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&shelf->lock);
        td__shelf_run *run = shelf->runs[i];
        bool seen = run->seen;
        pthread_mutex_unlock(&shelf->lock);
        if (!seen) {
            continue;
        }
        bool got = pthread_mutex_trylock(&run->lock) == 0;
        each(user, run, !got);
        if (got) {
            pthread_mutex_unlock(&run->lock);
        }
    }
}

/* ---- The shelf ------------------------------------------------------------------------------ */

static td__shelf *create(const char *folder) {
    td__shelf *shelf = td__calloc(1, sizeof *shelf);
    if (!shelf) {
        return NULL;
    }
    pthread_mutex_init(&shelf->lock, NULL);
    shelf->folder = folder ? td__strdup(folder) : NULL;
    if (folder && !shelf->folder) {
        td__shelf_destroy(shelf);
        return NULL;
    }
    for (size_t n = folder ? strlen(folder) : 0; n > 1 && shelf->folder[n - 1] == '/'; n--) {
        shelf->folder[n - 1] = 0;
    }
    return shelf;
}

td__shelf *td__shelf_create(const char *folder, td_error *error) {
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        td_error_set(error, TD_NOT_FOUND,
                     "%s is no folder; train something first, or name another folder", folder);
        return NULL;
    }
    td__shelf *shelf = create(folder);
    if (!shelf) {
        td_error_set(error, TD_MEMORY, "out of memory");
    }
    return shelf;
}

td__shelf *td__shelf_of(const char *const *folders, size_t count, td_error *error) {
    td__shelf *shelf = create(NULL);
    if (!shelf) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    shelf->patient = true;
    for (size_t i = 0; i < count; i++) {
        if (td__shelf_add(shelf, folders[i], NULL, error)) {
            td__shelf_destroy(shelf);
            return NULL;
        }
    }
    return shelf;
}

void td__shelf_destroy(td__shelf *shelf) {
    for (size_t i = 0; shelf && i < shelf->run_count; i++) {
        td__shelf_run *run = shelf->runs[i];
        td__shelf_close(run);
        for (size_t k = 0; k < run->metric_count; k++) {
            td__free(run->metrics[k].name);
        }
        pthread_mutex_destroy(&run->lock);
        td__free(run->series);
        td__free(run->name);
        td__free(run->folder);
        td__free(run);
    }
    if (shelf) {
        pthread_mutex_destroy(&shelf->lock);
        td__free(shelf->runs);
        td__free(shelf->folder);
        td__free(shelf);
    }
}
