/* Parts of a batch that run in step, because some layer computes over all of them (td__model_is_synced).
 *
 * Each part of this process has a lane: a pass with a tape of its own, and a thread. One lane runs at a time. Where a layer
 * adds up over the parts, the lane leaves its values and the next lane goes on; the last one adds up over the processes,
 * and then each continues with the sums. Between two such places parts run in their order, as they do without lanes.
 *
 * What lanes share is put away when one leaves and put back when it goes on: the trainer's pass, the targets of its
 * gradients, what the model keeps of a forward pass, and moving averages, which each part moves from where they were
 * before the step.
 *
 * Locks: `lock` guards turn, quit and the lanes' done; everything else belongs to the lane whose turn it is.
 */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/thread.h"
#include "group/group.h"
#include "nn/model.h"
#include "tape/tape.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, MOST_VALUES = 1 << 28 };

typedef struct lane {
    struct td__lanes *lanes;
    int64_t number;
    td__pass pass; /* of lane 0 the trainer's, while it is away */
    td_tensor **targets, **gradients;
    td__signal_entry **recorders;
    void *model;     /* td__model_state_save */
    float *averages; /* moving averages as the lane has them */
    td_batch part;
    float share;
    bool idle;
    pthread_t thread; /* of all but lane 0, which is the caller's */
    bool started, done;
    td_status status;
    td_error error;
} lane;

typedef struct td__lanes {
    td_trainer *trainer;
    int64_t count;
    lane *lanes;
    td__tape_sync sync;
    double *levels[TD__SHARD_LEVELS]; /* sums over parts, as in shards.h */
    size_t level_count, capacity;     /* capacity: doubles in each */
    td_status failed;                 /* of the first lane that failed */

    td__part_run *run;
    const td_batch *batch; /* NULL: no step is under way */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t turn;
    bool quit;
} td__lanes;

/* ---- Taking turns ---------------------------------------------------------------------------- */

static void leave(lane *l) {
    td_trainer *trainer = l->lanes->trainer;
    l->pass = trainer->pass;
    l->part = trainer->shards.part;
    l->share = trainer->shards.share;
    l->idle = trainer->shards.idle;
    td__model_state_save(trainer->model, l->model);
    td__averages_copy(trainer, l->averages, false);
}

static void enter(lane *l) {
    td_trainer *trainer = l->lanes->trainer;
    trainer->pass = l->pass;
    trainer->learner.targets = l->targets;
    trainer->learner.gradients = l->gradients;
    trainer->learner.recorders = l->recorders;
    trainer->shards.at = l->number;
    trainer->shards.part = l->part;
    trainer->shards.share = l->share;
    trainer->shards.idle = l->idle;
    td__model_state_restore(trainer->model, l->model);
    td__averages_copy(trainer, l->averages, true);
}

/* False: the lanes end. */
static bool wait_for_turn(lane *l) {
    td__lanes *lanes = l->lanes;
    pthread_mutex_lock(&lanes->lock);
    while (lanes->turn != l->number && !lanes->quit) {
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    }
    bool quit = lanes->quit;
    pthread_mutex_unlock(&lanes->lock);
    return !quit;
}

/* To the next lane that is not done; NOBODY when all are. */
static void pass_on(lane *l) {
    td__lanes *lanes = l->lanes;
    pthread_mutex_lock(&lanes->lock);
    lanes->turn = NOBODY;
    for (int64_t i = 1; lanes->turn == NOBODY && i <= lanes->count; i++) {
        int64_t next = (l->number + i) % lanes->count;
        lanes->turn = lanes->lanes[next].done ? NOBODY : next;
    }
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
}

/* One part, from its beginning. */
static void run_lane(lane *l) {
    td__lanes *lanes = l->lanes;
    enter(l);
    l->status = lanes->run(lanes->trainer, lanes->batch, &l->error);
    lanes->failed = lanes->failed ? lanes->failed : l->status;
    leave(l);
    l->done = true;
    pass_on(l);
}

static void *run_thread(void *user) {
    lane *l = user;
    while (wait_for_turn(l)) {
        run_lane(l);
    }
    return NULL;
}

/* ---- Sums over all parts --------------------------------------------------------------------- */

static td_status make_room(td__lanes *lanes, size_t count) {
    for (size_t i = 0; count > lanes->capacity && i < lanes->level_count; i++) {
        double *room = td__realloc(lanes->levels[i], count, sizeof *room);
        if (!room) {
            return TD_MEMORY;
        }
        lanes->levels[i] = room;
    }
    lanes->capacity = count > lanes->capacity ? count : lanes->capacity;
    return TD_OK;
}

/* td__tape_sync: by the lane whose turn it is, which gets its turn back with the sums. */
static td_status add(void *user, double *values, size_t count) {
    td__lanes *lanes = user;
    td_trainer *trainer = lanes->trainer;
    if (!lanes->batch) { /* a pass over a whole batch */
        return TD_OK;
    }
    lane *l = &lanes->lanes[trainer->shards.at];
    td_group *group = trainer->shards.group;
    double *sum = NULL;
    td_status status = lanes->failed ? lanes->failed : make_room(lanes, count);
    if (!status) {
        td__fold_doubles(lanes->levels, l->number, trainer->shards.idle ? NULL : values, count);
        sum = lanes->levels[lanes->level_count - 1];
        if (l->number + 1 == lanes->count && group) {
            status = td__group_add_doubles(group, sum, count, &l->error);
        }
    }
    lanes->failed = lanes->failed ? lanes->failed : status;
    if (lanes->count > 1) {
        leave(l);
        pass_on(l);
        (void)wait_for_turn(l);
        enter(l);
    }
    if (!lanes->failed) {
        memcpy(values, lanes->levels[lanes->level_count - 1], count * sizeof *values);
    }
    return lanes->failed;
}

/* ---- One step -------------------------------------------------------------------------------- */

td_status td__lanes_run(td_trainer *trainer, td__part_run *run, const td_batch *batch,
                        td_error *error) {
    td__lanes *lanes = trainer->shards.lanes;
    lane *own = &lanes->lanes[0], *failed = NULL;
    lanes->run = run;
    lanes->batch = batch;
    lanes->failed = TD_OK;
    leave(own);
    for (int64_t i = 0; i < lanes->count; i++) {
        lane *l = &lanes->lanes[i];
        l->pass.signals = own->pass.signals;
        l->pass.tape->watch = own->pass.tape->watch;
        l->done = false;
        l->error = (td_error){0};
        memcpy(l->averages, own->averages, trainer->shards.average_floats * sizeof *l->averages);
    }
    pthread_mutex_lock(&lanes->lock);
    lanes->turn = 0;
    pthread_mutex_unlock(&lanes->lock);
    run_lane(own);
    pthread_mutex_lock(&lanes->lock);
    while (lanes->turn != NOBODY) {
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    }
    pthread_mutex_unlock(&lanes->lock);
    enter(own);
    lanes->batch = NULL;
    for (int64_t i = 0; !failed && i < lanes->count; i++) {
        failed = lanes->lanes[i].status && lanes->lanes[i].error.status ? &lanes->lanes[i] : NULL;
    }
    return !failed ? TD_OK : td_error_set(error, failed->status, "%s", failed->error.text);
}

/* ---- The object ------------------------------------------------------------------------------ */

static td_status make_pass(td_trainer *trainer, lane *l, td_error *error) {
    const td__pass *like = &trainer->pass;
    td_tape_options options = {.size = sizeof options, .seed = trainer->experiment->seed};
    td_status status = td__pass_init(&l->pass, trainer->model, like->objective, &options, error);
    l->pass.heads = like->heads;
    l->pass.head_count = like->head_count;
    l->pass.more_loss = like->more_loss;
    l->pass.more_user = like->more_user;
    return status;
}

static td_status make_lane(td_trainer *trainer, lane *l, td_error *error) {
    const td__learner *learner = &trainer->learner;
    size_t targets = learner->weight_count + trainer->layer_count;
    l->model = td__calloc(1, td__model_state_size(trainer->model));
    l->averages = td__calloc(trainer->shards.average_floats + 1, sizeof *l->averages);
    td_status status = l->model && l->averages ? TD_OK : TD_MEMORY;
    if (l->number == 0) {
        l->targets = learner->targets;
        l->gradients = learner->gradients;
        l->recorders = learner->recorders;
        l->pass.tape = trainer->pass.tape; /* until the first step */
    } else if (!status) {
        l->targets = td__calloc(targets + 1, sizeof *l->targets);
        l->gradients = td__calloc(targets + 1, sizeof *l->gradients);
        l->recorders = td__calloc(targets + 1, sizeof *l->recorders);
        status =
            l->targets && l->gradients && l->recorders ? make_pass(trainer, l, error) : TD_MEMORY;
    }
    if (status) {
        return td_error_set(error, TD_MEMORY, "out of memory for the passes of shards");
    }
    memcpy(l->targets, learner->targets, learner->weight_count * sizeof *l->targets);
    td__model_state_save(trainer->model, l->model);
    l->pass.tape->sync = &l->lanes->sync;
    l->started = l->number > 0 && td__thread_start(&l->thread, run_thread, l) == 0;
    return l->started || l->number == 0
               ? TD_OK
               : td_error_set(error, TD_MEMORY, "cannot start a thread for a shard");
}

td_status td__lanes_create(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    if (!td__model_is_synced(trainer->model)) {
        return TD_OK;
    }
    td__lanes *lanes = td__calloc(1, sizeof *lanes);
    lane *each = td__calloc((size_t)s->own, sizeof *each);
    if (!lanes || !each) {
        td__free(lanes);
        td__free(each);
        return td_error_set(error, TD_MEMORY, "out of memory for the passes of shards");
    }
    *lanes = (td__lanes){
        .trainer = trainer, .lanes = each, .sync = {.add = add, .user = lanes}, .turn = NOBODY};
    lanes->level_count = (size_t)s->level_count;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->changed, NULL);
    s->lanes = lanes;
    td_status status = TD_OK;
    for (; !status && lanes->count < s->own; lanes->count++) {
        lane *l = &each[lanes->count];
        *l = (lane){.lanes = lanes, .number = lanes->count};
        status = make_lane(trainer, l, error);
    }
    return status;
}

void td__lanes_destroy(td__lanes *lanes) {
    if (!lanes) {
        return;
    }
    pthread_mutex_lock(&lanes->lock);
    lanes->quit = true;
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
    for (int64_t i = 0; i < lanes->count; i++) {
        lane *l = &lanes->lanes[i];
        if (l->started) {
            pthread_join(l->thread, NULL);
        }
        if (i > 0) {
            td__pass_release(&l->pass);
            td__free(l->targets);
            td__free(l->gradients);
            td__free(l->recorders);
        }
        td__free(l->model);
        td__free(l->averages);
    }
    for (size_t i = 0; i < lanes->level_count; i++) {
        td__free(lanes->levels[i]);
    }
    pthread_cond_destroy(&lanes->changed);
    pthread_mutex_destroy(&lanes->lock);
    td__free(lanes->lanes);
    td__free(lanes);
}
