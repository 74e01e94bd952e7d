#include "group/group.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/plugin.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 5.0 /* seconds */
#define LAST_WAIT                                                                                  \
    8.0 /* seconds that a process waits for rank 0 to write what it has, after a loss */

/* ---- Launchers ------------------------------------------------------------------------------- */

/* Variables of the launchers, and the MPI whose programs they start. */
static const struct {
    const char *variable, *mpi;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "openmpi"},
    {"PMIX_RANK", "openmpi"},
    {"PMI_RANK", "mpich"},
};

/* How many processes a launcher started. */
static const char *const size_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                             "SLURM_STEP_NUM_TASKS"};

static const struct {
    const char *name, *plugin, *package;
} kinds[] = {
    {"openmpi", "mpi-openmpi", "OpenMPI (package libopenmpi-dev)"},
    {"mpich", "mpi-mpich", "MPICH (package libmpich-dev)"},
};

/* The MPI that launched this process; NULL: none. */
static const char *launcher(void) {
    const char *wish = getenv("TAPEDECK_MPI");
    for (size_t i = 0; i < TD__COUNT(launchers); i++) {
        if (getenv(launchers[i].variable)) {
            return wish && *wish ? wish : launchers[i].mpi;
        }
    }
    return NULL;
}

/* 0: not known. */
static int launched_processes(void) {
    const char *text = NULL;
    for (size_t i = 0; !text && i < TD__COUNT(size_variables); i++) {
        text = getenv(size_variables[i]);
    }
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* Processes of srun that know nothing of each other. */
static bool is_step_without_mpi(void) {
    const char *wish = getenv("TAPEDECK_MPI");
    return !launcher() && launched_processes() > 1 && !(wish && !strcmp(wish, "off"));
}

bool td_group_is_launched(void) {
    const char *mpi = launcher();
    return is_step_without_mpi() || (mpi && strcmp(mpi, "off") != 0);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void release(td_group *group) {
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    for (td_group_request *r = group->spare, *next; r; r = next) {
        next = r->next;
        td__free(r);
    }
    td__free(group->hosts);
    td__free(group->announcing);
    td__free(group->scratch);
    td__free(group);
}

/* Rank 0 and the last are neighbours too. */
static void find_neighbours(td_group *group) {
    int before = (group->rank + group->size - 1) % group->size;
    int behind = (group->rank + 1) % group->size;
    group->neighbour_count = group->size > 2 ? 2 : group->size - 1;
    group->neighbours[0].rank = before;
    group->neighbours[1].rank = behind;
    group->beat_at = td__seconds();
    for (int i = 0; i < group->neighbour_count; i++) {
        group->neighbours[i].heard = group->beat_at;
    }
}

td_group *td__group_create(const td__transport *wire, double timeout, td_error *error) {
    td_group *group = td__calloc(1, sizeof *group);
    if (!group) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    char host[TD__HOST_SIZE] = "", problem[200] = "";
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&group->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&group->lock, NULL);
    group->wire = *wire;
    group->timeout = timeout;
    if (!wire->open(wire->context, &group->rank, &group->size, host, problem, sizeof problem)) {
        td_error_set(error, TD_UNSUPPORTED, "%s", problem);
        release(group);
        return NULL;
    }
    group->hosts = td__calloc((size_t)group->size, sizeof *group->hosts);
    group->announcing = td__calloc((size_t)group->size, sizeof *group->announcing);
    find_neighbours(group);
    int failed = group->hosts && group->announcing
                     ? td__thread_start(&group->thread, td__group_run, group)
                     : -1;
    group->started = failed == 0;
    if (failed || td_group_gather(group, host, sizeof host, group->hosts, error)) {
        if (failed) {
            td_error_set(error, TD_MEMORY, "cannot start a thread");
        }
        td_group_fail(group, "it could not begin");
        td_group_close(group);
        return NULL;
    }
    return group;
}

/* Each process by itself would train the same model, and write a run of its own. */
static td_group *check_size(td_group *group, const char *mpi, td_error *error) {
    int expected = launched_processes();
    if (group && expected > 1 && group->size == 1) {
        td_group_close(group);
        td_error_set(error, TD_UNSUPPORTED,
                     "%d processes were started, and %s finds one of them alone: take the launcher "
                     "of the same MPI (mpirun.openmpi, mpirun.mpich; srun --mpi=pmix for OpenMPI, "
                     "--mpi=pmi2 for MPICH), see TAPEDECK_MPI; TAPEDECK_MPI=off lets each train "
                     "by itself",
                     expected, mpi);
        return NULL;
    }
    return group;
}

td_group *td_group_open(const td_group_options *given, td_error *error) {
    td_group_options options;
    (void)td__options(&options, sizeof options, given);
    const char *mpi = options.mpi ? options.mpi : launcher();
    if (!mpi && is_step_without_mpi()) {
        td_error_set(error, TD_UNSUPPORTED,
                     "srun started %d processes without MPI: --mpi=pmix is for OpenMPI, "
                     "--mpi=pmi2 for MPICH; TAPEDECK_MPI=off lets each train by itself",
                     launched_processes());
        return NULL;
    }
    if (!mpi || !strcmp(mpi, "off")) {
        td_error_set(error, TD_NOT_FOUND, "this program was not started by mpirun or srun");
        return NULL;
    }
    const char *text = getenv("TAPEDECK_GROUP_TIMEOUT");
    double timeout = options.timeout > 0 ? options.timeout : text ? strtod(text, NULL) : TIMEOUT;
    for (size_t i = 0; i < TD__COUNT(kinds); i++) {
        if (!strcmp(kinds[i].name, mpi)) {
            void *symbol =
                td__plugin_symbol(kinds[i].plugin, "td_mpi_plugin", kinds[i].package, error);
            const td__transport *(*plugin)(int);
            memcpy(&plugin, &symbol, sizeof plugin);
            const td__transport *wire = symbol ? plugin(TD__TRANSPORT_VERSION) : NULL;
            if (symbol && !wire) {
                td_error_set(error, TD_UNSUPPORTED, "libtapedeck-%s.so is of another version",
                             kinds[i].plugin);
            }
            td_group *group =
                wire ? td__group_create(wire, timeout > 0 ? timeout : TIMEOUT, error) : NULL;
            return check_size(group, mpi, error);
        }
    }
    td_error_set(error, TD_INVALID, "TAPEDECK_MPI: expected openmpi, mpich or off, not '%s'", mpi);
    return NULL;
}

int td_group_rank(const td_group *group) {
    return group->rank;
}

int td_group_size(const td_group *group) {
    return group->size;
}

const char *td_group_host(const td_group *group, int rank) {
    return group->hosts[rank];
}

int td_group_local_size(const td_group *group) {
    int count = 0;
    for (int i = 0; i < group->size; i++) {
        count += !strcmp(group->hosts[i], group->hosts[group->rank]);
    }
    return count;
}

bool td__group_is_first_here(const td_group *group) {
    int rank = 0;
    while (strcmp(group->hosts[rank], group->hosts[group->rank]) != 0) {
        rank++;
    }
    return rank == group->rank;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static td_group_request *submit(td_group *group, const td_group_request *what, td_error *error) {
    pthread_mutex_lock(&group->lock);
    td_group_request *r = group->spare;
    group->spare = r ? r->next : NULL;
    r = r ? r : td__calloc(1, sizeof *r);
    if (r) {
        *r = *what;
        *(group->first ? &group->last->next : &group->first) = r;
        group->last = r;
        pthread_cond_broadcast(&group->changed);
    } else {
        td_error_set(error, TD_MEMORY, "out of memory");
    }
    pthread_mutex_unlock(&group->lock);
    return r;
}

td_status td_group_wait(td_group *group, td_group_request *request, td_error *error) {
    pthread_mutex_lock(&group->lock);
    while (!request->done) {
        pthread_cond_wait(&group->changed, &group->lock);
    }
    td_status status = request->status;
    request->next = group->spare;
    group->spare = request;
    if (status == TD_MEMORY) {
        td_error_set(error, status, "out of memory");
    } else if (status) {
        td_error_set(error, status, "%s", group->lost.text);
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

static td_status perform(td_group *group, const td_group_request *what, td_error *error) {
    td_group_request *request = submit(group, what, error);
    return request ? td_group_wait(group, request, error) : TD_MEMORY;
}

td_group_request *td_group_add_start(td_group *group, float *values, size_t count,
                                     td_error *error) {
    td_group_request what = {
        .work = TD__GROUP_ADD, .data = values, .count = count, .element = sizeof *values};
    return submit(group, &what, error);
}

td_status td_group_add(td_group *group, float *values, size_t count, td_error *error) {
    td_group_request *request = td_group_add_start(group, values, count, error);
    return request ? td_group_wait(group, request, error) : TD_MEMORY;
}

td_status td__group_add_doubles(td_group *group, double *values, size_t count, td_error *error) {
    td_group_request what = {
        .work = TD__GROUP_ADD, .data = values, .count = count, .element = sizeof *values};
    return perform(group, &what, error);
}

td_status td_group_broadcast(td_group *group, void *data, size_t size, int root, td_error *error) {
    td_group_request what = {
        .work = TD__GROUP_BROADCAST, .data = data, .count = size, .element = 1, .root = root};
    if (root < 0 || root >= group->size) {
        return td_error_set(error, TD_RANGE, "there is no rank %d among %d", root, group->size);
    }
    return perform(group, &what, error);
}

td_status td__group_broadcast_among(td_group *group, void *data, size_t size, const int *members,
                                    int count, td_error *error) {
    td_group_request what = {.work = TD__GROUP_BROADCAST,
                             .data = data,
                             .count = size,
                             .element = 1,
                             .members = members,
                             .member_count = count};
    return perform(group, &what, error);
}

td_status td__group_collect(td_group *group, const void *mine, size_t size, void **all,
                            size_t *sizes, td_error *error) {
    td_group_request what = {.work = TD__GROUP_COLLECT,
                             .data = (void *)(uintptr_t)mine,
                             .count = size,
                             .element = 1,
                             .all = all,
                             .sizes = sizes};
    return perform(group, &what, error);
}

td_status td_group_gather(td_group *group, const void *mine, size_t size, void *all,
                          td_error *error) {
    void *found = NULL;
    size_t *sizes = td__calloc((size_t)group->size, sizeof *sizes);
    td_status status = sizes ? td__group_collect(group, mine, size, &found, sizes, error)
                             : td_error_set(error, TD_MEMORY, "out of memory");
    for (int i = 0; !status && group->rank == 0 && i < group->size; i++) {
        if (sizes[i] != size) {
            status = td_error_set(error, TD_INVALID, "rank %d gathers %zu bytes, rank 0 %zu", i,
                                  sizes[i], size);
        }
    }
    if (!status && group->rank == 0) {
        memcpy(all, found, size * (size_t)group->size);
    }
    td__free(found);
    td__free(sizes);
    return status ? status : td_group_broadcast(group, all, size * (size_t)group->size, 0, error);
}

td_status td_group_barrier(td_group *group, td_error *error) {
    double nothing = 0;
    return td__group_add_doubles(group, &nothing, 1, error);
}

td_status td_group_status(td_group *group, td_error *error) {
    pthread_mutex_lock(&group->lock);
    td_status status =
        group->lost.status ? td_error_set(error, TD_IO, "%s", group->lost.text) : TD_OK;
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void report(td_group *group, td__group_event kind, const char *text) {
    pthread_mutex_lock(&group->lock);
    group->own = (td__group_news){.rank = group->rank, .kind = (int32_t)kind};
    (void)snprintf(group->own.text, sizeof group->own.text, "%s", text);
    group->news_to_send = true;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

/* A launcher ends all processes when one of them ends early: rank 0 gets time to write what it has. */
static void wait_for_first(td_group *group) {
    struct timespec until = td__deadline(LAST_WAIT);
    pthread_mutex_lock(&group->lock);
    while (group->rank != 0 && group->lost_rank != 0 && !group->ended &&
           !pthread_cond_timedwait(&group->changed, &group->lock, &until)) {
    }
    pthread_mutex_unlock(&group->lock);
}

void td_group_fail(td_group *group, const char *reason) {
    pthread_mutex_lock(&group->lock);
    bool first = !group->lost.status && group->started;
    if (first) {
        td_error_set(&group->lost, TD_IO, "rank %d ended: %s", group->rank, reason);
        group->lost_rank = group->rank;
    }
    pthread_mutex_unlock(&group->lock);
    if (first) {
        report(group, TD__GROUP_FAILED, reason);
    }
}

static void stop_thread(td_group *group) {
    pthread_mutex_lock(&group->lock);
    group->stop = true;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (group->started) {
        pthread_join(group->thread, NULL);
    }
}

void td_group_close(td_group *group) {
    if (!group) {
        return;
    }
    bool lost = td_group_status(group, NULL) || td_group_barrier(group, NULL);
    if (lost && group->rank == 0) {
        report(group, TD__GROUP_ENDED, "");
    }
    if (lost && group->started) {
        wait_for_first(group);
        struct timespec pause = {.tv_nsec = 300000000}; /* what is reported is on its way */
        (void)nanosleep(&pause, NULL);
    }
    stop_thread(group);
    if (!lost) {
        group->wire.close(group->wire.context);
        release(group);
    } /* else messages that are under way still have its memory */
}
