/* Which process of a training this is, and its folder in the run that all of them write.
 *
 * Nothing here talks to another process. A launch's folder comes into being by rename() of a draft that
 * has the launch's name in it, which either succeeds or fails because the folder is there: its name says
 * then whose it is. That holds on network file systems too. */
#include "deck/deck.h"
#include "deck/folder.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The environment ------------------------------------------------------------------------ */

/* What starters of processes set. restart: how often the launch was started again. launch: variables
 * that together name the launch. one_host: how many processes of the launch the machine has; where that is all of
 * them, they have one parent. */
typedef struct starter {
    const char *rank, *world, *local_rank, *node, *restart, *one_host;
    const char *launch[3];
} starter;

static const starter starters[] = {
    {"RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "GROUP_RANK",
     "TORCHELASTIC_RESTART_COUNT",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "SLURM_JOB_ID"}},
    {"SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_NODEID",
     "SLURM_RESTART_COUNT",
     "",
     {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "",
     "",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"}},
    {"PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "",
     "",
     "MPI_LOCALNRANKS",
     {"PMI_JOBID", "HYDRA_CONTROL_FD", "SLURM_JOB_ID"}},
};

static bool variable_number(const char *variable, int64_t *value) {
    const char *text = *variable ? getenv(variable) : NULL;
    char *end = NULL;
    errno = 0;
    long long number = text ? strtoll(text, &end, 10) : -1;
    if (!text || end == text || *end || errno || number < 0) {
        return false;
    }
    *value = number;
    return true;
}

/* When a process was started, by the clock of its machine; "" when that is not known. */
static void start_of(long process, char *out, size_t size) {
    char path[64], line[1024];
    out[0] = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
    line[length] = 0;
    char *at = strrchr(line, ')'); /* the 22nd word is the 20th behind the program's name */
    for (int word = 2; at && word < 22; word++) {
        at = strchr(at + 1, ' ');
    }
    if (at) {
        (void)snprintf(out, size, "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
    }
    if (file) {
        (void)fclose(file);
    }
}

/* TAPEDECK_RUN where it is set: for starters whose variables do not name a launch on every machine. */
static void name_launch(const starter *s, int64_t world, char *text) {
    size_t length = 0;
    int64_t here = 0;
    const char *given = getenv("TAPEDECK_RUN");
    if (given && *given) {
        (void)snprintf(text, TD_RANK_TEXT_SIZE, "%s", given);
        return;
    }
    text[0] = 0;
    for (size_t i = 0; i < sizeof s->launch / sizeof *s->launch; i++) {
        const char *value = getenv(s->launch[i]);
        length += (size_t)snprintf(text + length, TD_RANK_TEXT_SIZE - length, "%s%.100s",
                                   i ? "-" : "", value ? value : "");
    }
    if (variable_number(s->one_host, &here) && here == world) {
        char started[32];
        start_of((long)getppid(), started, sizeof started);
        (void)snprintf(text + length, TD_RANK_TEXT_SIZE - length, "-%ld-%s", (long)getppid(),
                       started);
    }
}

/* Where ranks fill one machine after the other, as MPI's starters place them by default; otherwise 0. */
static int64_t guess_node(const starter *s, const td_rank *rank) {
    int64_t here = 0;
    bool filled =
        variable_number(s->one_host, &here) && here > 0 && rank->rank % here == rank->local_rank;
    return filled ? rank->rank / here : 0;
}

bool td_rank_detect(td_rank *rank, char text[TD_RANK_TEXT_SIZE]) {
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const starter *s = &starters[i];
        td_rank found = {.size = sizeof found, .launch = text};
        if (!variable_number(s->rank, &found.rank) || !variable_number(s->world, &found.world) ||
            found.rank >= found.world) {
            continue;
        }
        if (found.world < 2) {
            return false;
        }
        (void)variable_number(s->local_rank, &found.local_rank);
        if (!variable_number(s->node, &found.node)) {
            found.node = guess_node(s, &found);
        }
        (void)variable_number(s->restart, &found.attempt);
        found.attempt = found.attempt < TD__MAX_RANKS ? found.attempt + 1 : TD__MAX_RANKS;
        name_launch(s, found.world, text);
        *rank = found;
        return true;
    }
    return false;
}

/* ---- The folder ----------------------------------------------------------------------------- */

enum { ROOM = 4096, MAX_LAUNCHES = 1000000 };

static td_status folder_failed(td_error *error, const char *folder) {
    return td_error_set(error, errno == ENOMEM ? TD_MEMORY : TD_IO,
                        "cannot create the folder %s: %s", folder, strerror(errno));
}

static bool make_folder(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* ".launch-…": the name of the launch in letters that a file's name may have. */
static void name_marker(const char *launch, char *out, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *at = launch; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    }
    (void)snprintf(out, size, ".launch-%016llx", (unsigned long long)hash);
}

/* Creates path with the marker in it, or finds it with that marker: true. False when it is another's; or
 * with an error. */
static bool join_launch(const char *path, const char *marker, const char *draft, td_error *error) {
    char inside[ROOM + 64];
    (void)snprintf(inside, sizeof inside, "%s/%s", draft, marker);
    if (!make_folder(draft) || !make_folder(inside)) {
        (void)folder_failed(error, inside);
        return false;
    }
    if (rename(draft, path) == 0) {
        return true;
    }
    int reason = errno;
    (void)rmdir(inside);
    (void)rmdir(draft);
    if (reason != EEXIST && reason != ENOTEMPTY && reason != ENOTDIR) {
        errno = reason;
        (void)folder_failed(error, path);
        return false;
    }
    (void)snprintf(inside, sizeof inside, "%s/%s", path, marker);
    return access(inside, F_OK) == 0;
}

/* The rank's folder in a launch's: true when it was created. */
static bool make_rank(const char *launch, const td_rank *rank, char *path, size_t size,
                      td_error *error) {
    int length = snprintf(path, size, "%s", launch);
    if (rank->attempt > 1) {
        length += snprintf(path + length, size - (size_t)length, "/attempt-%lld",
                           (long long)rank->attempt);
        if (!make_folder(path)) {
            (void)folder_failed(error, path);
            return false;
        }
    }
    (void)snprintf(path + length, size - (size_t)length, "/rank-%05lld", (long long)rank->rank);
    if (mkdir(path, 0777) == 0) {
        return true;
    }
    if (errno != EEXIST) {
        (void)folder_failed(error, path);
    }
    return false;
}

static td_status create_parents(char *path, td_error *error) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        td_status status = make_folder(path) ? TD_OK : folder_failed(error, path);
        *slash = '/';
        if (status) {
            return status;
        }
    }
    return TD_OK;
}

td_status td__folder_claim_rank(const char *folder, const td_rank *rank, char **claimed,
                                td_error *error) {
    char base[ROOM], path[ROOM + 16], draft[ROOM + 96], made[ROOM + 64], marker[64], host[64] = "";
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') {
        length--;
    }
    if (length == 0 || length > ROOM - 64) {
        return td_error_set(error, TD_INVALID, "the run's folder has no name, or too long a one");
    }
    (void)snprintf(base, sizeof base, "%.*s", (int)length, folder);
    td_status status = create_parents(base, error);
    name_marker(rank->launch ? rank->launch : "", marker, sizeof marker);
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(draft, sizeof draft, "%s.%.40s-%ld.new", base, host, (long)getpid());
    td_error reason = {0};
    for (int number = 1; !status && number < MAX_LAUNCHES; number++) {
        size_t end = (size_t)snprintf(path, sizeof path, "%s", base);
        if (number > 1) {
            (void)snprintf(path + end, sizeof path - end, "-%d", number);
        }
        if (join_launch(path, marker, draft, &reason) &&
            make_rank(path, rank, made, sizeof made, &reason)) {
            *claimed = td__strdup(made);
            return *claimed ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a folder");
        }
        status = reason.status ? td_error_set(error, reason.status, "%s", reason.text) : TD_OK;
    }
    return status ? status : td_error_set(error, TD_EXISTS, "the folder %s exists already", base);
}
