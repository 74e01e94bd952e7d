/* What the processes of a group agree on. */
#include "train/shards.h"
#include "train/trainer.h"

#include "base/memory.h"
#include "tape/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool td__trainer_writes(const td_trainer *trainer) {
    return trainer->shards.rank == 0;
}

int td__group_threads(const td_trainer *trainer) {
    const td__shards *s = &trainer->shards;
    const char *wish = getenv("OMP_NUM_THREADS");
    if (trainer->experiment->threads) {
        return (int)trainer->experiment->threads;
    }
    if (!s->group || (wish && strtol(wish, NULL, 10) > 0)) {
        return wish ? (int)strtol(wish, NULL, 10) : 0;
    }
    int threads = td__threads_cores() / td_group_local_size(s->group);
    return threads > 1 ? threads : 1;
}

td_status td__group_share_state(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    td__state state = {0};
    if (!s->group || s->size == 1) {
        return TD_OK;
    }
    td_status status = td__state_save(trainer, &state, error);
    uint64_t size = state.bytes, sizes[2] = {size, size};
    status = status ? status : td_group_broadcast(s->group, &sizes[0], sizeof sizes[0], 0, error);
    if (!status && sizes[0] != size) {
        status = td_error_set(error, TD_FORMAT,
                              "rank %d has another model or other metrics than rank 0", s->rank);
    }
    status = status ? status : td_group_broadcast(s->group, state.memory, size, 0, error);
    if (!status && s->rank) {
        status = td__state_restore(trainer, &state, NULL, error);
    }
    td__state_release(&state);
    return status;
}

/* Why a process failed. */
typedef struct failure {
    int32_t status;
    char text[TD__SHARD_TEXT];
} failure;

td_status td__group_agree(td_trainer *trainer, double failures, td_status status,
                          const td_error *mine, td_error *error) {
    td__shards *s = &trainer->shards;
    failure own = {.status = (int32_t)status};
    if (failures == 0) {
        return TD_OK;
    }
    (void)snprintf(own.text, sizeof own.text, "%s", mine->text);
    failure *all = td__calloc((size_t)s->size, sizeof *all);
    td_status gathered = all ? td_group_gather(s->group, &own, sizeof own, all, error)
                             : td_error_set(error, TD_MEMORY, "out of memory");
    int first = 0;
    while (!gathered && first < s->size && !all[first].status) {
        first++;
    }
    if (!gathered && first < s->size) {
        trainer->agreed = true;
        gathered = td_error_set(error, (td_status)all[first].status, "%s", all[first].text);
    }
    td__free(all);
    return gathered;
}
